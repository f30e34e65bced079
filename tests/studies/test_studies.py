"""The studies say what a slow reference says, and their tables and pictures say what the numbers say."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import unhub
from tests import flickr8k, oracles, shapes
from unhub.evaluation.comparing import skewness_of
from unhub.evaluation.confidence import Interval
from unhub.evaluation.pictures import STYLE, Picture
from unhub.evaluation.tables import as_text
from unhub.studies.charts import DASHES, tick_settings
from unhub.studies.data_studies import _over_draws, _usual_sizes
from unhub.tuning.spread import spread, usual_methods

pytestmark = pytest.mark.once  # fits and places as elsewhere

DATA = shapes.generate()
GIVEN = (DATA.items, DATA.bank, DATA.queries, DATA.relevance)

Calls = dict[str, Callable[..., unhub.Study]]
STUDIES: Calls = {
    "temperature": lambda *given, **more: unhub.study_temperature(*given, temperatures=(0.05, 0.2), **more),
    "k-alpha": lambda *given, **more: unhub.study_k_and_alpha(*given, ks=(1, 8), alphas=(0.5, 1.0), **more),
    "bank-size": lambda *given, **more: unhub.study_bank_size(*given, sizes=(20, 260), **more),
    "bank-source": lambda items, bank, *given, **more: unhub.study_bank_source(
        items, {"all": bank, "few": bank[:9]}, *given, **more
    ),
    "growth": lambda *given, **more: unhub.study_growth(*given, sizes=(30, 90), **more),
    "occurrences": lambda items, bank, queries, _, **more: unhub.study_occurrences(items, bank, queries, **more),
}


def test_spread_is_how_far_the_best_item_stands_out() -> None:
    best = np.sort(DATA.bank_scores, axis=1)[:, ::-1][:, :10]
    assert spread(DATA.items, DATA.bank) == pytest.approx((best[:, 0] - best.mean(axis=1)).mean(), rel=1e-5)


def test_items_that_score_alike_have_a_spread_above_zero() -> None:
    assert spread(np.ones((3, 4)), np.ones((2, 4))) > 0


def test_usual_methods_fit_a_bank_of_any_size() -> None:
    for size in (1, 7, 260):
        at_spread, robust = usual_methods(DATA.items, DATA.bank[:size])
        assert robust == f"nnn:k={min(size, 32)},alpha=0.5"
        assert unhub.fit(DATA.items, DATA.bank[:size], method=[at_spread, robust])


def test_temperature_gives_the_recall_of_each() -> None:
    study = unhub.study_temperature(*GIVEN, temperatures=(0.03, 0.1), measure="R@5")
    assert study.settings == (0.03, 0.1)
    for place, tau in enumerate(study.settings):
        assert isinstance(tau, float)
        corrected = DATA.scores - oracles.is_(DATA.bank_scores, tau)
        balanced = DATA.scores - oracles.sn(DATA.bank_scores, tau, 10)[0]
        assert study.lines["is"][place].value == pytest.approx(DATA.recall(corrected, 5))
        assert study.lines["sn"][place].value == pytest.approx(DATA.recall(balanced, 5))
    assert study.raw is not None
    assert study.raw.value == pytest.approx(DATA.recall(DATA.scores, 5))
    assert study.raw.low <= study.raw.value <= study.raw.high


TRAINING = np.random.default_rng(5).normal(size=(70, DATA.items.shape[1]))  # bank items
JOINT = oracles.cosine(DATA.bank.astype(np.float64), TRAINING)
BALANCED = ["sn:tau=0.1", "dbsn:tau=0.1"]


def test_every_study_of_dbsn_balances_the_bank_items_too() -> None:
    h = oracles.dbsn(DATA.bank_scores, JOINT, 0.1, 10)
    whole = DATA.recall(DATA.scores - h, 1)
    found = {
        "temperature": unhub.study_temperature(*GIVEN, bank_items=TRAINING, temperatures=[0.1]).lines["dbsn"][0],
        "bank-size": unhub.study_bank_size(
            *GIVEN, bank_items=TRAINING, methods=BALANCED, sizes=[30, 260], seeds=1
        ).lines[BALANCED[1]][1],
        "bank-source": unhub.study_bank_source(
            DATA.items, {"few": DATA.bank[:20], "all": DATA.bank}, *GIVEN[2:], bank_items=TRAINING, methods=BALANCED
        ).lines[BALANCED[1]][1],
        "growth": unhub.study_growth(*GIVEN, bank_items=TRAINING, methods=BALANCED, sizes=[90]).lines[BALANCED[1]][0],
    }
    assert {name: value.value for name, value in found.items()} == pytest.approx(dict.fromkeys(found, whole))
    single = DATA.recall(DATA.scores - oracles.sn(DATA.bank_scores, 0.1, 10)[0], 1)
    assert whole != pytest.approx(single)  # or this would not tell them apart


def test_a_table_shows_a_method_with_all_its_parameters() -> None:
    short, full = ["dbsn", "is"], ["dbsn:tau=0.01,iterations=10", "is:tau=0.05"]
    more: dict[str, Any] = {"bank_items": TRAINING, "methods": short}
    for study in (
        unhub.study_bank_size(*GIVEN, sizes=[30], seeds=1, **more),
        unhub.study_bank_source(DATA.items, {"all": DATA.bank}, *GIVEN[2:], **more),
        unhub.study_growth(*GIVEN, sizes=[90], **more),
    ):
        assert list(study.lines)[-2:] == short  # a caller finds a line by the name they gave
        assert study.cells()[0][-2:] == full
    by_bank = unhub.study_bank_source(DATA.items, {"all": DATA.bank}, *GIVEN[2:])
    assert by_bank.notes == (f"all: 260 queries, with {' and '.join(usual_methods(DATA.items, DATA.bank))}.",)


@pytest.mark.parametrize(("measure", "shown"), [("R@5", "R@5 (%)"), ("MnR", "MnR (rank)"), ("skewness", "skewness@10")])
def test_a_title_and_an_axis_have_the_unit(measure: str, shown: str) -> None:
    study = unhub.study_temperature(*GIVEN, temperatures=[0.1], methods=["is"], measure=measure)
    assert study.title == f"Temperature: {shown} against tau"
    figure = Figure()
    study.chart.draw(figure)
    assert figure.axes[0].get_ylabel() == f"{shown}{', lower is better' if study.falls else ''}"


def test_a_legend_of_long_names_leaves_the_axes_their_room() -> None:
    specs = ["dbsn", "sn:tau=0.012345,iterations=100", "nnn:k=32,alpha=0.5", "is"]
    study = unhub.study_growth(*GIVEN, bank_items=TRAINING, methods=specs, sizes=[30, 90])
    style: dict[Any, object] = dict(STYLE)
    with rc_context(style):
        figure = Figure(figsize=study.chart.size, layout="constrained")
        study.chart.draw(figure)
        figure.draw_without_rendering()
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    assert axes.get_position().width > 0.7


def test_a_part_of_the_bank_is_beside_all_bank_items() -> None:
    sized = unhub.study_bank_size(*GIVEN, bank_items=TRAINING, methods=BALANCED[1:], sizes=[40], seeds=1, seed=3)
    part = np.sort(np.random.default_rng(3).choice(len(DATA.bank), 40, replace=False))
    expected = DATA.recall(DATA.scores - oracles.dbsn(DATA.bank_scores[part], JOINT[part], 0.1, 10), 1)
    assert sized.lines[BALANCED[1]][0].value == pytest.approx(expected)


def test_every_study_leaves_items_out_that_ask_for_each_other() -> None:
    alike = {row: [row, row ^ 1, (row + 7) % 90] for row in range(90)}
    given = (DATA.items, DATA.bank, DATA.items, alike)
    spec = "nnn:k=8,alpha=0.5"
    correction = unhub.fit(DATA.items, DATA.bank, method=spec)
    expected = unhub.evaluate(DATA.items, DATA.items, alike, {"it": correction}, "R@5", exclude="self", resamples=5)
    raw, value = (expected[name].values["R@5"].value for name in ("raw", "it"))
    more: dict[str, Any] = {"measure": "R@5", "exclude": "self"}
    found = [
        unhub.study_k_and_alpha(*given, ks=[8], alphas=[0.5], **more),
        unhub.study_bank_size(*given, methods=[spec], sizes=[260], **more),
        unhub.study_bank_source(DATA.items, {"all": DATA.bank}, *given[2:], methods=[spec], **more),
        unhub.study_growth(*given, methods=[spec], sizes=[90], **more),
    ]
    for study in found:
        assert list(study.lines.values())[-1][-1].value == pytest.approx(value)
        assert study.notes[-1] == "The item with the query's own id is left out for every query."
        assert (study.raw or study.lines["raw"][0]).value == pytest.approx(raw)
    warm = unhub.study_temperature(*given, methods=["is"], temperatures=[0.1], **more)
    assert warm.raw is not None
    assert warm.raw.value == pytest.approx(raw) != 100


def test_what_is_left_out_of_a_growing_gallery_need_not_be_there_yet() -> None:
    alike = {row: [row, row ^ 1] for row in range(90)}
    study = unhub.study_growth(
        DATA.items,
        DATA.bank,
        DATA.items,
        alike,
        methods=["nnn:k=8,alpha=0.5"],
        sizes=[30, 90],
        exclude=[[row, (row + 1) % 90] for row in range(90)],
    )
    # Where the next item is left out too, an even item has no answer.
    asked, note = study.notes
    assert int(asked.split()[0]) <= 30
    assert (
        note == f"{2 * int(asked.split()[0])} items are left out, for {asked.split()[0]} of {asked.split()[0]} queries."
    )
    with pytest.raises(ValueError, match="exclude has 1 unknown id"):
        unhub.study_growth(*GIVEN, exclude=[999, *[None] * (len(DATA.queries) - 1)])


def test_temperatures_are_tied_to_the_spread() -> None:
    study = unhub.study_temperature(*GIVEN, methods=["is"])
    unit = spread(DATA.items, DATA.bank)
    np.testing.assert_allclose(
        np.array(study.settings, float), np.array([0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4]) * unit, 1e-2
    )


def test_settings_may_be_arrays() -> None:
    for given in (np.array([0.05, 0.2]), list(np.array([0.05, 0.2]))):
        study = unhub.study_temperature(*GIVEN, temperatures=given, methods=["is"])
        assert study.lines == unhub.study_temperature(*GIVEN, temperatures=[0.05, 0.2], methods=["is"]).lines
    sizes = unhub.study_bank_size(*GIVEN, sizes=np.array([20, 20, 260]), methods=["is"])
    assert sizes.settings == (20, 260)
    json.dumps([study.to_dict(), sizes.to_dict()])


def test_settings_that_are_nearly_the_same_are_told_apart() -> None:
    study = unhub.study_k_and_alpha(*GIVEN, ks=np.array([4]), alphas=np.array([0.5, 0.50001]))
    assert list(study.lines) == ["0.5", "0.50001"]
    near = unhub.study_temperature(*GIVEN, temperatures=[0.1, 0.10001], methods=["is"])
    assert [row[0] for row in near.cells()[1]] == ["0.1", "0.10001"]


def test_a_dollar_in_a_name_is_a_dollar(tmp_path: Path) -> None:
    banks = {"a$b$": DATA.bank, "$\\frac$": DATA.bank[:50]}
    study = unhub.study_bank_source(DATA.items, banks, *GIVEN[2:])
    study.picture(tmp_path / "study.svg")
    words = [one.text for one in ElementTree.parse(tmp_path / "study.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert set(banks) <= set(words)


def test_without_labels_skewness_is_studied() -> None:
    study = unhub.study_temperature(*GIVEN[:3], temperatures=(0.1,), methods=["is"])
    corrected = DATA.scores - oracles.is_(DATA.bank_scores, 0.1)
    assert (study.measure, study.falls) == ("skewness@10", True)
    assert study.lines["is"][0].value == pytest.approx(oracles.skewness(oracles.k_occurrence(corrected, 10)))
    assert study.raw is not None
    assert study.raw.value == pytest.approx(oracles.skewness(oracles.k_occurrence(DATA.scores, 10)))


def test_the_interval_of_a_skewness_covers_that_of_more_queries_like_them() -> None:
    # Items with unequal chances, so that the skewness of very many queries is known.
    random = np.random.default_rng(0)
    chances = random.pareto(4, size=60) + 0.2
    chances /= chances.sum()
    many = oracles.skewness(np.round(1e7 * chances).astype(np.int64))
    covered = 0
    for trial in range(100):
        best = random.choice(60, size=(1500, 1), p=chances).astype(np.int32)
        one = skewness_of(best, 60, seed=trial)
        covered += one.low <= many <= one.high
    assert covered >= 85


def test_k_and_alpha_gives_the_recall_of_each_cell() -> None:
    study = unhub.study_k_and_alpha(*GIVEN, ks=(1, 4, 32), alphas=(0.25, 1.0))
    for alpha, line in study.lines.items():
        for k, value in zip(study.settings, line, strict=True):
            assert isinstance(k, int)
            corrected = DATA.scores - oracles.nnn(DATA.bank_scores, k, float(alpha))
            assert value.value == pytest.approx(DATA.recall(corrected, 1))
    every = [
        (value.value, name, k)
        for name, line in study.lines.items()
        for k, value in zip(study.settings, line, strict=True)
    ]
    assert study.best[2].value == max(every)[0]


def test_k_and_alpha_keeps_to_the_bank() -> None:
    study = unhub.study_k_and_alpha(DATA.items, DATA.bank[:40], *GIVEN[2:], alphas=(0.5,))
    assert study.settings == (1, 2, 4, 8, 16, 32)
    with pytest.raises(ValueError, match="k=41"):
        unhub.study_k_and_alpha(DATA.items, DATA.bank[:40], *GIVEN[2:], ks=(41,))


def test_bank_size_ends_with_the_whole_bank() -> None:
    study = unhub.study_bank_size(*GIVEN, methods=["nnn:k=32,alpha=0.5"], seeds=3)
    corrected = DATA.scores - oracles.nnn(DATA.bank_scores, 32, 0.5)
    (line,) = study.lines.values()
    assert study.settings == (10, 32, 100, 260)
    assert line[-1].value == line[-1].low == line[-1].high == pytest.approx(DATA.recall(corrected, 1))
    assert any(value.low < value.high for value in line[:-1])


def test_a_bank_of_one_size_is_drawn_anew_for_each_seed() -> None:
    one, other = (unhub.study_bank_size(*GIVEN, sizes=(15,), seeds=2, seed=seed, methods=["is"]) for seed in (0, 1))
    assert one.lines["is"] != other.lines["is"]
    again = unhub.study_bank_size(*GIVEN, sizes=(15,), seeds=2, seed=0, methods=["is"])
    assert one.lines["is"] == again.lines["is"]


def test_a_small_bank_cuts_a_k_of_bank_queries_but_not_one_of_items() -> None:
    specs = {"nnn:k=9,alpha=0.5": "nnn:k=3,alpha=0.5", "dis:tau=0.05,k=9": "dis:tau=0.05,k=9"}
    asked, fitted = (
        unhub.study_bank_size(*GIVEN, sizes=(3,), seeds=1, methods=list(one)) for one in (specs, specs.values())
    )
    assert list(asked.lines.values()) == list(fitted.lines.values())
    cut = unhub.study_bank_size(*GIVEN, sizes=(3,), seeds=1, methods=["dis:tau=0.05,k=3"])
    assert cut.lines["dis:tau=0.05,k=3"] != asked.lines["dis:tau=0.05,k=9"]


def test_the_spread_over_draws_is_one_standard_deviation() -> None:
    assert _over_draws([1.0, 2.0, 3.0]) == Interval(2.0, 1.0, 3.0)
    assert _over_draws([4.0]) == Interval(4.0, 4.0, 4.0)


def test_sizes_grow_to_the_whole_bank() -> None:
    assert _usual_sizes(1) == (1,)
    assert _usual_sizes(12) == (12,)
    assert _usual_sizes(10_000) == (10, 32, 100, 316, 1000, 3162, 10_000)


def test_bank_source_compares_banks_on_the_same_queries() -> None:
    banks = {"all": DATA.bank, "turned": DATA.bank[::-1], "few": DATA.bank[:9]}
    study = unhub.study_bank_source(DATA.items, banks, *GIVEN[2:], methods=["nnn:k=5,alpha=0.5"])
    whole, turned, few = study.lines["nnn:k=5,alpha=0.5"]
    assert whole == turned
    assert whole.value == pytest.approx(DATA.recall(DATA.scores - oracles.nnn(DATA.bank_scores, 5, 0.5), 1))
    assert few.value == pytest.approx(DATA.recall(DATA.scores - oracles.nnn(DATA.bank_scores[:9], 5, 0.5), 1))


def test_more_items_never_help_the_raw_ranking() -> None:
    study = unhub.study_growth(*GIVEN, sizes=(20, 45, 90))
    raw = [value.value for value in study.lines["raw"]]
    assert raw == sorted(raw, reverse=True)
    assert raw[0] > raw[-1]
    assert study.notes == ("40 queries are used at every size.",)  # two for each of the 20 items that come first
    assert study.raw is None


def test_growth_starts_with_the_items_that_answer() -> None:
    study = unhub.study_growth(*GIVEN[:3], [(0, 80), (1, 81)], sizes=(2, 90), methods=["is"])
    assert study.notes == ("2 queries are used at every size.",)


def test_growth_without_labels_asks_every_query() -> None:
    study = unhub.study_growth(*GIVEN[:3], sizes=(90,), methods=["is"])
    assert study.lines["raw"][0].value == pytest.approx(oracles.skewness(oracles.k_occurrence(DATA.scores, 10)))


def test_many_names_below_bars_are_turned_so_as_not_to_overlap(tmp_path: Path) -> None:
    unhub.study_occurrences(*GIVEN[:3]).picture(tmp_path / "many.svg")
    STUDIES["bank-source"](*GIVEN).picture(tmp_path / "few.svg")
    assert "rotate(-40" in (tmp_path / "many.svg").read_text()
    assert "rotate(-40" not in (tmp_path / "few.svg").read_text()


def test_occurrences_are_the_shares_of_items_by_how_often_they_are_returned() -> None:
    study = unhub.study_occurrences(*GIVEN[:3], methods=["nnn:k=4,alpha=0.5"], k=3)
    correction = unhub.fit(DATA.items, DATA.bank, "nnn:k=4,alpha=0.5")
    for name, one in {"raw": None, "nnn:k=4,alpha=0.5": correction}.items():
        counts = unhub.hubness(DATA.queries, DATA.items, one, k=3).counts
        wide = [np.sum((counts > 2 ** (power - 1)) & (counts <= 2**power)) for power in range(2, 12)]
        expected = 100 * np.array([np.sum(counts == 0), np.sum(counts == 1), np.sum(counts == 2), *wide]) / len(counts)
        shown = [value.value for value in study.lines[name]]
        np.testing.assert_allclose(shown, expected[: len(shown)])
        assert sum(shown) == pytest.approx(100)
        assert any(note.startswith(name) and f"the worst hub {counts.max()} times" in note for note in study.notes)
    assert study.settings[:5] == ("never", "1", "2", "3 to 4", "5 to 8")
    assert "[" not in str(study)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_a_table_numbers_and_a_picture(name: str, tmp_path: Path) -> None:
    study = STUDIES[name](*GIVEN)
    assert study.name == name
    heads, rows = study.cells()
    assert len(rows) == len(study.settings)
    assert heads[1:] == list(study.lines)
    assert json.loads(json.dumps(study.to_dict()))["lines"].keys() == study.lines.keys()
    printed = str(study)
    assert all(f"{value.value:.2f}" in printed for line in study.lines.values() for value in line)
    study.picture(tmp_path / "study.png")
    study.picture(tmp_path / "study.svg")
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")
    drawn = ElementTree.parse(tmp_path / "study.svg")
    words = " ".join("".join(one.itertext()) for one in drawn.iter("{http://www.w3.org/2000/svg}text"))
    assert study.title in words
    if study.form != "grid":
        assert all(line in words for line in study.lines)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["study.png", "study.svg"]


@pytest.mark.parametrize("name", STUDIES)
def test_below_a_table_every_value_is_rounded_as_in_it(name: str) -> None:
    study = STUDIES[name](*GIVEN)
    below = str(study).partition(as_text(*study.cells()))[2]
    assert below
    assert not re.search(r"\d\.\d{4,}", below)
    if study.raw is not None:
        assert f"raw: {study.raw.value:.2f} [{study.raw.low:.2f}, {study.raw.high:.2f}]" in below.splitlines()


@pytest.mark.parametrize("name", STUDIES)
def test_a_best_is_named_where_there_is_a_choice_and_said_to_be_picked_here(name: str) -> None:
    study = STUDIES[name](*GIVEN)
    told, drawn = study.to_dict(), study.chart.words
    line, setting, value = study.best
    if name in ("bank-size", "growth", "occurrences"):
        assert told["best"] is None
        assert not re.search("best|picked", f"{study} {drawn}", re.IGNORECASE)
    else:
        assert told["best"] == {"line": line, "setting": setting, **value.to_dict()}
        assert f"best: {value:.2f}, {study.lines_of} {line}, {study.parameter} {setting}" in str(study)
        assert f"Best: {value:.2f}, " in drawn
        assert "The best was chosen on these same queries" in str(study)
        assert any("chosen on these same queries" in note for note in json.loads(json.dumps(told))["notes"])


def ticks(settings: Sequence[float]) -> list[str]:
    figure = Figure()
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.plot(settings, settings)
    tick_settings(axes, settings)
    return [one.get_text() for one in axes.get_xticklabels()]


def test_the_least_and_the_greatest_setting_are_named_on_an_axis() -> None:
    assert ticks([0.0284, 0.0567, 0.0851, 0.113, 0.17, 0.227, 0.34, 0.454]) == [
        "0.0284",
        "0.0567",
        "0.113",
        "0.227",
        "0.454",
    ]
    assert ticks([10, 32, 100, 316, 1000, 3162, 10_000, 12_000]) == [
        "10",
        "32",
        "100",
        "316",
        "1,000",
        "3,162",
        "12,000",
    ]
    assert ticks([1.0, 1.01]) == ["1", "1.01"]
    assert ticks([1.0, 1.01, 1.5, 99, 100]) == ["1", "100"]
    assert ticks([7]) == ["7"]


def test_the_frame_of_the_best_cell_is_seen_on_any_colour() -> None:
    study = STUDIES["k-alpha"](*GIVEN)
    figure = Figure()
    study.chart.draw(figure)
    frames = [one for one in figure.axes[0].patches if isinstance(one, Rectangle)]
    line, setting, _ = study.best
    spot = (study.settings.index(setting) - 0.5, list(study.lines).index(line) - 0.5)
    assert [frame.get_xy() for frame in frames] == [spot, spot]
    wide, narrow = sorted(frames, key=lambda frame: -frame.get_linewidth())
    assert (to_hex(wide.get_edgecolor()), to_hex(narrow.get_edgecolor())) == ("#ffffff", "#111111")
    assert not any(frame.get_clip_on() for frame in frames)


def test_the_dashes_of_raw_are_whole_in_a_legend() -> None:
    figure, size = Figure(), STYLE["legend.fontsize"]
    STUDIES["temperature"](*GIVEN).chart.draw(figure)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert isinstance(size, int)
    (dashed,) = (line for line in figure.axes[0].lines if line.get_label() == "raw")
    dash, gap = DASHES
    room = legend.handlelength * size
    assert dashed.get_linewidth() * (2 * dash + gap) <= room < dashed.get_linewidth() * 2 * (dash + gap)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_shows_its_progress_as_one(name: str) -> None:
    seen: list[tuple[int, int]] = []
    STUDIES[name](*GIVEN, progress=lambda done, total: seen.append((done, total)))
    shares = [done / total for done, total in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len({total for _, total in seen}) == 1


def test_a_study_in_which_nothing_changes_is_drawn_too(tmp_path: Path) -> None:
    given = (DATA.items[:1], DATA.bank[:1], DATA.queries[:2], [(0, 0)])
    for study in (
        unhub.study_temperature(*given, temperatures=[0.1]),
        unhub.study_k_and_alpha(*given),
        unhub.study_bank_size(*given),
        unhub.study_bank_source(given[0], {"one": given[1]}, *given[2:]),
        unhub.study_growth(*given),
    ):
        study.picture(tmp_path / f"{study.name}.svg")
        assert study.best[2].value == 100


def test_a_picture_is_the_same_file_every_time(tmp_path: Path) -> None:
    study = STUDIES["temperature"](*GIVEN)
    for name in ("a.svg", "b.svg"):
        study.picture(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("name", ["study.pdf", "study"])
def test_a_picture_of_another_form_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"end it in \.png or \.svg"):
        STUDIES["temperature"](*GIVEN).picture(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: unhub.study_temperature(*GIVEN[:3], measure="R@1"), "measure 'R@1' needs relevance"),
        (lambda: unhub.study_temperature(*GIVEN, measure="recall"), "'recall' is unknown"),
        (lambda: unhub.study_temperature(*GIVEN, methods=["nnn"], temperatures=[0.1]), "'nnn' has no parameter 'tau'"),
        (lambda: unhub.study_temperature(*GIVEN, temperatures=[]), "temperatures is empty"),
        (lambda: unhub.study_temperature(*GIVEN, temperatures=["hot"]), "temperatures must be numbers"),  # type: ignore[list-item]
        (
            lambda: unhub.study_temperature(*GIVEN, methods=["is:tau=.1"]),
            "methods must be names without parameters in this study, got 'is:tau=.1'; give 'is'",
        ),
        (lambda: unhub.study_temperature(*GIVEN, seed=-1), "seed must be a whole number of at least 0, got -1"),
        (lambda: unhub.study_k_and_alpha(*GIVEN, ks=[]), "ks is empty"),
        (lambda: unhub.study_bank_size(*GIVEN, sizes=[]), "sizes is empty"),
        (lambda: unhub.study_bank_size(*GIVEN, sizes=[5.5]), "whole numbers, got 5.5"),  # type: ignore[list-item]
        (lambda: unhub.study_growth(*GIVEN, sizes=[]), "sizes is empty"),
        (lambda: unhub.study_bank_size(*GIVEN, sizes=[300]), "sizes must be from 1 to 260"),
        (lambda: unhub.study_bank_size(*GIVEN, seeds=0), "seeds must be a whole number of at least 1, got 0"),
        (lambda: unhub.study_bank_source(DATA.items, {}, *GIVEN[2:]), "banks is empty"),
        (
            lambda: unhub.study_bank_size(*GIVEN, methods=BALANCED),
            "bank_items must be given for 'dbsn'; give",
        ),
        (
            lambda: unhub.study_growth(*GIVEN, methods=["dualis"]),
            "bank_items must be given for 'dualis'; give",
        ),
        (lambda: unhub.study_temperature(*GIVEN, methods=["dbsn"]), "or study 'sn', which is the same without them"),
        (
            lambda: unhub.study_bank_source(DATA.items, {"one": DATA.bank}, *GIVEN[2:], methods=["dbsn"]),
            "bank_items must be given for 'dbsn'; give the training items beside the bank, or study 'sn'",
        ),
        (
            lambda: unhub.study_growth(*GIVEN, bank_items=TRAINING, methods=["is", "nnn"]),
            "bank_items are used by none of 'is', 'nnn'; name a method that uses them, such as 'dbsn'",
        ),
        (lambda: unhub.study_growth(*GIVEN, sizes=[0, 10]), "sizes must be from 1 to 90"),
        (lambda: unhub.study_growth(DATA.items, DATA.bank, DATA.queries[:, :5]), "dimensions"),
        (
            lambda: unhub.study_temperature(DATA.items, DATA.bank[:, :5], DATA.queries),
            "bank has 5 dimensions, the items",
        ),
        (lambda: unhub.study_bank_size(DATA.items, DATA.bank[:, :5], DATA.queries), "bank has 5 dimensions, the items"),
        (lambda: unhub.study_growth(DATA.items, DATA.bank[:, :5], DATA.queries), "bank has 5 dimensions, the items"),
        (
            lambda: unhub.study_bank_source(DATA.items, {"one": DATA.bank[:, :5]}, DATA.queries),
            "bank 'one' has 5 dimensions, the items",
        ),
    ],
)
def test_mistakes_name_the_argument(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_without_matplotlib_a_study_is_still_a_table() -> None:
    program = """
import sys
sys.modules["matplotlib"] = None
import numpy as np, unhub
rows = np.random.default_rng(0).normal(size=(30, 6))
study = unhub.study_growth(rows, rows, rows, sizes=(10, 30))
print(study)
try:
    study.picture("no.png")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "skewness@10" in done.stdout
    assert re.search(r"a picture needs matplotlib: .*\[plot\]", done.stdout)


def test_on_real_embeddings_the_published_temperatures_give_the_known_recalls() -> None:
    data = flickr8k.load("ridge")
    truth = [(query, int(item)) for query, item in enumerate(data.truth)]
    study = unhub.study_temperature(
        data.test_images, data.bank_texts, data.test_texts, truth, temperatures=[0.05, 0.02]
    )
    assert study.raw is not None
    assert study.raw.value == pytest.approx(12.88, abs=0.1)
    assert [value.value for value in study.lines["is"]] == pytest.approx([19.64, 18.36], abs=0.1)
    assert study.lines["sn"][0].value == pytest.approx(19.58, abs=0.1)


@pytest.mark.parametrize("form", ["png", "svg"])
def test_a_picture_replaces_one_of_ours_and_no_other(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"chart.{form}"

    def draw(figure: Figure) -> None:
        figure.add_subplot().plot([1, 2])

    picture = Picture("chart", "A chart", "A line.", draw)
    for _ in range(2):
        picture.save(path)
    assert path.read_bytes() == picture.to_bytes(form)
    Figure(dpi=100).savefig(path)  # the user's own
    theirs = path.read_bytes()
    with pytest.raises(ValueError, match="exists and is not a file that unhub made; remove it first"):
        picture.save(path)
    assert path.read_bytes() == theirs
