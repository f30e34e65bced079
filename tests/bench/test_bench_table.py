"""A paper's table from what was run: which case stands beside which figure, and by how much they differ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench.tiny_sets import tiny, write_vectors
from unhub.bench.bench_page import tables_of, write_page
from unhub.bench.bench_run import bench_run
from unhub.bench.bench_table import BenchTable, bench_table, joined, line_of, lines_of, value_of
from unhub.bench.off_protocol import off_protocol
from unhub.bench.published import Figure, published
from unhub.bench.result_file import KEY
from unhub.errors import ArgumentError
from unhub.evaluation.confidence import Interval

pytestmark = pytest.mark.once

FIGURE = Figure("nnn", "1", "flickr30k", "karpathy", "CLIP", "t2i", "nnn", "", "train:20%", 1, "R@1", 64.6, None)


def case_of(value: float, **given: Any) -> dict[str, Any]:
    key = dict(zip(KEY, ("t2i", "train:20%", 0, "nnn", 1, "nnn"), strict=True))
    values = {"R@1": {"value": value, "low": value - 1, "high": value + 1}}
    made = {"spec": "nnn:k=16,alpha=0.75", "choice": {"part": "train"}, "hubness": {"skewness": 2.5, "k": 1}}
    return {**key, **made, "values": values, **given}


def content_of(*cases: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"data_set": "flickr30k", "split": "karpathy", "model": "CLIP", "cases": [*cases], **given}


def test_a_figure_stands_beside_the_case_of_its_direction_bank_and_method() -> None:
    others = [
        case_of(1, direction="i2t"),
        case_of(2, bank="train"),
        case_of(3, method="is", spec="is:tau=0.05"),
        case_of(4, together=5),
        case_of(5, paper="dbsn"),
    ]
    line = line_of(FIGURE, [content_of(*others, case_of(65.0))])
    assert line.measured == Interval(65.0, 64.0, 66.0)
    assert line.difference == pytest.approx(0.4)
    assert line.inside
    assert line_of(FIGURE, [content_of(*others)]).measured is None


@pytest.mark.parametrize("given", [{"data_set": "coco"}, {"split": "entities"}, {"model": "BLIP"}])
def test_another_data_set_split_or_model_is_not_the_same(given: dict[str, str]) -> None:
    assert line_of(FIGURE, [content_of(case_of(65.0), **given)]).measured is None


def test_the_papers_protocol_comes_before_the_default_one() -> None:
    assert line_of(FIGURE, [content_of(case_of(60.0, paper=""))]).measured == Interval(60.0, 59.0, 61.0)
    both = content_of(case_of(60.0, paper=""), case_of(65.0))
    assert line_of(FIGURE, [both]).measured == Interval(65.0, 64.0, 66.0)


def test_a_case_on_the_protocol_comes_before_one_that_is_off_it_whichever_paper_it_was_run_for() -> None:
    figure = replace(FIGURE, paper="dbsn", method="is")
    off = case_of(60.0, paper="dbsn", method="is:tau=0.07", spec="is:tau=0.07")
    right = case_of(65.0, paper="", method="is:tau=0.02", spec="is:tau=0.02")
    line = line_of(figure, [content_of(off, right)])
    assert (line.specs, line.off) == (("is:tau=0.02",), ())
    assert line_of(figure, [content_of(off)]).specs == ("is:tau=0.07",)


def test_a_model_on_the_hub_is_known_by_the_name_in_the_paper() -> None:
    found = line_of(FIGURE, [content_of(case_of(65.0), model="openai/clip-vit-base-patch32")])
    assert found.measured is not None
    assert found.model == "openai/clip-vit-base-patch32"


def test_a_method_with_parameters_stands_beside_the_same_spec() -> None:
    varied = replace(FIGURE, method="nnn:k=16,alpha=0.75")
    assert line_of(varied, [content_of(case_of(65.0))]).measured is not None
    assert line_of(replace(FIGURE, method="nnn:k=8,alpha=0.75"), [content_of(case_of(65.0))]).measured is None


def test_a_method_with_settings_of_ones_own_stands_beside_a_figure_without_any_and_shows_them() -> None:
    mine = case_of(65.0, method="nnn:k=3,alpha=1.0", spec="nnn:k=3,alpha=1.0", choice=None)
    line = line_of(FIGURE, [content_of(mine)])
    assert (line.measured, line.inside) == (Interval(65.0, 64.0, 66.0), None)
    heads, rows = BenchTable("nnn", "1", (line,)).cells()
    assert rows[0][heads.index("settings")] == "k=3,alpha=1.0"
    assert line_of(FIGURE, [content_of(mine, case_of(60.0))]).specs == ("nnn:k=16,alpha=0.75",)


def test_of_several_settings_of_ones_own_none_stands_beside_a_figure_without_any_and_it_is_said() -> None:
    specs = ("nnn:k=3,alpha=1.0", "nnn:k=9,alpha=1.0")
    line = line_of(FIGURE, [content_of(*(case_of(65.0, method=one, spec=one, choice=None) for one in specs))])
    assert line.measured is None
    assert f"{specs[0]} and {specs[1]} were run; a figure without settings" in "\n".join(
        BenchTable("nnn", "1", (line,)).notes
    )


GATED = replace(
    FIGURE, paper="qbnorm", table="18", data_set="lsmdc", split="challenge-1k", model="CLIP4Clip", method="dis"
)
USUAL = "dis:tau=0.05,k=1"


SCALE = "the paper has tau=1.26,k=1 for similarities on another scale"


@pytest.mark.parametrize(
    ("scaled", "ran", "spec", "off"),
    [
        (True, {"dis": "dis:tau=1.26,k=1"}, "dis:tau=1.26,k=1", ()),
        (True, {"dis": USUAL}, USUAL, ("the paper has tau=1.26",)),  # as earlier versions ran it
        (True, {"dis": USUAL, "dis:tau=1.26": "dis:tau=1.26,k=1"}, "dis:tau=1.26,k=1", ()),
        (False, {"dis": USUAL}, USUAL, (SCALE,)),
        (False, {"dis": USUAL, "dis:tau=0.0126": "dis:tau=0.0126,k=1"}, "dis:tau=0.0126,k=1", (SCALE,)),
        (False, {"dis": USUAL, "dis:tau=1": "dis:tau=1,k=1", "dis:tau=2": "dis:tau=2,k=1"}, USUAL, (SCALE,)),
    ],
)
def test_a_setting_of_the_paper_for_one_model_is_that_of_its_figures(
    scaled: bool, ran: dict[str, str], spec: str, off: tuple[str, ...]
) -> None:
    cases = [case_of(20.0, method=name, spec=one, paper="qbnorm") for name, one in ran.items()]
    content = content_of(*cases, data_set="lsmdc", split="challenge-1k", model="CLIP4Clip", scaled=scaled)
    line = line_of(GATED, [content])
    assert (line.specs, line.off) == ((spec,), off)


@pytest.mark.parametrize(
    ("method", "spec", "ways"),
    [
        ("is", "is:tau=0.02", ("similarities on another scale",)),
        ("sn", "sn:tau=0.01", ("similarities on another scale",)),
        ("csls", "csls:k=10", ()),
    ],
)
def test_a_temperature_for_similarities_on_another_scale_is_off_the_protocol(
    method: str, spec: str, ways: tuple[str, ...]
) -> None:
    figure, case = replace(FIGURE, paper="dbsn", method=method), case_of(65.0, paper="dbsn", method=method, spec=spec)
    assert off_protocol(figure, case, content_of(case, scaled=True)) == ways
    assert off_protocol(figure, case, content_of(case, scaled=False)) == ()


def test_a_figure_without_a_split_has_a_line_for_each_that_was_run_and_compares_none() -> None:
    figure = replace(FIGURE, split="")
    lines = lines_of(figure, [content_of(case_of(64.0), split=split) for split in ("entities", "karpathy")])
    assert [(one.split, one.inside) for one in lines] == [("entities", None), ("karpathy", None)]
    assert [one.measured for one in lines_of(figure, [])] == [None]


def test_a_figure_with_settings_stands_beside_these_by_name_also_if_others_chose_the_same() -> None:
    varied = replace(FIGURE, method="nnn:k=16,alpha=0.75")
    line = line_of(varied, [content_of(case_of(65.0), case_of(64.0, method=varied.method))])
    assert (line.measured, line.banks) == (Interval(64.0, 63.0, 65.0), 1)


def test_a_raw_ranking_stands_beside_the_one_without_a_bank() -> None:
    raw = case_of(58.0, method="raw", bank="", spec="raw")
    assert line_of(replace(FIGURE, method="raw", bank=""), [content_of(raw)]).measured is not None


def test_several_random_banks_give_a_mean_and_a_deviation() -> None:
    line = line_of(FIGURE, [content_of(case_of(64.0), case_of(66.0, seed=1))])
    assert line.banks == 2
    assert line.measured == joined([Interval(64.0, 0, 0), Interval(66.0, 0, 0)])
    assert line.measured == Interval(65.0, 65 - 2**0.5, 65 + 2**0.5)


def test_settings_that_differ_from_one_random_bank_to_another_are_all_shown() -> None:
    chosen = [case_of(64.0, spec="nnn:k=8,alpha=0.5"), case_of(65.0, seed=1), case_of(66.0, seed=2)]
    line = line_of(FIGURE, [content_of(*chosen)])
    assert line.to_dict()["specs"] == [case["spec"] for case in chosen]
    table = BenchTable("nnn", "1", (line,))
    heads, (row,) = table.cells()
    assert dict(zip(heads, row, strict=True))["settings"] == "k=8,alpha=0.5 or k=16,alpha=0.75"
    assert any("'or' differ from one random bank to another" in note for note in table.notes)
    alike = BenchTable("nnn", "1", (line_of(FIGURE, [content_of(*chosen[1:])]),))
    assert alike.lines[0].settings == "k=16,alpha=0.75"
    assert not any("'or'" in note for note in alike.notes)


def test_a_bank_that_is_not_drawn_has_no_deviation_over_seeds() -> None:
    twice = content_of(case_of(64.0, bank="train"), case_of(66.0, bank="train", seed=1))
    line = line_of(replace(FIGURE, bank="train"), [twice])
    assert (line.banks, line.measured) == (1, Interval(66.0, 65.0, 67.0))


def test_hubness_is_counted_in_as_many_places_as_the_figure_says() -> None:
    found = value_of(case_of(65.0), replace(FIGURE, measure="skewness@1"))
    assert found is not None
    assert found.value == 2.5
    assert value_of(case_of(65.0), replace(FIGURE, measure="skewness@10")) is None


@pytest.mark.parametrize(
    ("name", "figure"), [("google/siglip-base-patch16-224", "SigLIP"), ("facebook/dino-vits16", "DINO")]
)
def test_the_checkpoints_that_stand_for_a_model_are_matched(name: str, figure: str) -> None:
    assert line_of(replace(FIGURE, model=figure), [content_of(case_of(65.0), model=name)]).measured is not None


OFFICIAL = {"official": {"train": [29000, 145000], "test": [1000, 5000]}, "directions": ["t2i", "i2t"]}


def test_a_line_of_a_part_of_the_official_split_is_marked_and_says_nothing_of_the_published_figure() -> None:
    part = line_of(FIGURE, [content_of(case_of(65.0, asked=5000, queries=1500, items=300), **OFFICIAL)])
    whole = line_of(FIGURE, [content_of(case_of(65.0, asked=5000, queries=5000, items=1000), **OFFICIAL)])
    back = replace(FIGURE, direction="i2t")
    turned = line_of(back, [content_of(case_of(65.0, asked=1000, items=5000, direction="i2t"), **OFFICIAL)])
    assert (part.off, whole.off, turned.off) == (("another test part",), (), ())
    table = BenchTable("nnn", "1", (part, whole))
    heads, (first, second) = table.cells()
    assert heads[-2:] == ["measured on", "published inside"]
    assert first[-2:] == ["karpathy 1,500 x 300 of 5,000 x 1,000", "off protocol (another test part)"]
    assert second[-2:] == ["karpathy 5,000 x 1,000", "yes"]
    assert (part.to_dict()["inside"], whole.to_dict()["inside"]) == (None, True)
    assert "1 line is off the paper's protocol" in "\n".join(table.notes)


@pytest.mark.parametrize(
    ("figure", "given", "ways"),
    [
        ({}, {}, ()),
        ({}, {"paper": "", "choice": {"part": "val"}}, ("not the chosen settings",)),
        ({}, {"choice": None}, ("not the chosen settings",)),
        ({"method": "nnn:k=16,alpha=0.75"}, {"paper": "", "choice": None}, ()),
        ({"split": ""}, {}, ("the paper's split is not known",)),
        ({"method": "raw", "bank": ""}, {"method": "raw", "bank": "", "spec": "raw", "paper": ""}, ()),
        ({}, {"bank_queries": 29000}, ()),
        ({}, {"bank_queries": 2000}, ("another bank size",)),
        ({"bank": "train"}, {"bank": "train", "bank_queries": 10000}, ("another bank size",)),
        ({"bank": "test"}, {"bank": "test", "bank_queries": 5000}, ()),
        ({"bank": "val"}, {"bank": "val", "bank_queries": 10}, ()),  # nobody knows how many there are
        (
            {"bank": "coco/train"},
            {"bank": "coco/train", "bank_queries": 9, "bank_official": [3, 7]},
            ("another bank size",),
        ),
        (
            {"method": "dualis"},
            {"method": "dualis", "spec": "dualis", "bank_queries": 29000, "bank_items": 5799},
            ("5,799 of 5,800 bank items",),
        ),
    ],
)
def test_the_ways_in_which_a_case_is_off_the_protocol(
    figure: dict[str, Any], given: dict[str, Any], ways: tuple[str, ...]
) -> None:
    wanted, case = replace(FIGURE, **figure), case_of(65.0, **given)
    assert off_protocol(wanted, case, content_of(case, **OFFICIAL)) == ways


@pytest.mark.parametrize(
    ("paper", "method", "spec", "ways"),
    [
        ("dbsn", "is", "is:tau=0.05", ("the paper has tau=0.02",)),
        ("dbsn", "is", "is:tau=0.02", ()),
        ("dbsn", "dis", "dis:tau=0.05,k=2", ("the paper has tau=0.02,k=1",)),
        ("dbsn", "csls", "csls", ()),  # at k 10, which is the default
        ("dbsn", "otn", "otn:zeros=raw", ("the paper has zeros=tied",)),
        ("qbnorm", "dis:k=5", "dis:tau=0.05,k=5", ()),
        ("qbnorm", "dis:k=5", "dis:tau=0.02,k=5", ("the paper has tau=0.05",)),
        ("qbnorm", "cent", "cent", ()),
        ("mqvr", "sa", "sa", ()),
    ],
)
def test_one_setting_of_a_paper_is_compared_with_what_was_used(
    paper: str, method: str, spec: str, ways: tuple[str, ...]
) -> None:
    case = case_of(65.0, method=method, spec=spec, paper="", choice=None)
    assert off_protocol(replace(FIGURE, paper=paper, method=method), case, content_of(case)) == ways


def test_some_test_parts_of_several_are_off_the_protocol() -> None:
    official = {"official": {name: [1000, 5000] for name in ("test", "test-2", "test-3")}, "directions": ["t2i"]}
    for folds, ways in ((3, ()), (2, ("2 of 3 test parts",))):
        case = case_of(65.0, folds=folds)
        assert off_protocol(FIGURE, case, content_of(case, **official)) == ways


def test_a_table_shows_the_settings_the_size_of_the_bank_and_the_notes_of_runs() -> None:
    case = case_of(65.0, bank_queries=2000, notes=["A remark."])
    table = BenchTable("nnn", "1", (line_of(FIGURE, [content_of(case, **OFFICIAL, data_notes=["A warning."])]),))
    heads, (row,) = table.cells()
    shown = dict(zip(heads, row, strict=True))
    assert (shown["settings"], shown["bank"]) == ("k=16,alpha=0.75", "train:20% (2,000 of 29,000)")
    assert table.notes[-2:] == ("flickr30k by CLIP: A warning.", "flickr30k by CLIP, t2i: A remark.")


def test_the_split_that_was_measured_stands_beside_a_figure_without_one() -> None:
    line = line_of(replace(FIGURE, split=""), [content_of(case_of(65.0, asked=10, items=5), split="entities")])
    assert BenchTable("nnn", "1", (line,)).cells()[1][0][-2] == "entities 10 x 5"


def test_hubness_is_a_measure_without_an_interval_counted_as_the_paper_does() -> None:
    found = value_of(case_of(65.0), replace(FIGURE, measure="skewness"))
    assert found is not None
    assert (found.value, str(found)) == (2.5, "2.50 [?, ?]")
    assert value_of(case_of(65.0), replace(FIGURE, measure="kurtosis")) is None
    assert value_of(case_of(65.0), replace(FIGURE, measure="skewness", paper="dbsn")) is None


def test_from_a_run_to_the_table(tmp_path: Path) -> None:
    data = replace(tiny(), name="flickr30k", split="karpathy")
    vectors = write_vectors(tmp_path / "CLIP", tiny())
    run = bench_run(data, tmp_path, embeddings=vectors, paper="nnn", methods="nnn", directions="t2i", threads=1)
    assert any("one of another data set comes by --bank-from NAME=DIR." in note for note in run.notes)
    table = bench_table("nnn:1", tmp_path)
    assert len(table.lines) == len(published("nnn", "1"))
    measured = {(line.figure.method, line.figure.bank, line.figure.measure): line for line in table.run}
    line = measured["nnn", "train:20%", "R@1"]
    (case,) = [one for one in run.cases if (one["method"], one["bank"]) == ("nnn", "train:20%")]
    assert line.measured is not None
    assert line.measured.to_dict() == case["values"]["R@1"]
    assert (line.size, line.official, line.off) == ((40, 20), (40, 20), ())
    assert line.difference == pytest.approx(case["values"]["R@1"]["value"] - line.figure.value)
    assert f"{line.figure.value:g}" in str(table)
    assert "not been measured" in str(table)
    heads, rows = table.cells(every=True)
    assert len(rows) == len(table.lines)
    assert {len(row) for row in rows} == {len(heads)}


@pytest.mark.parametrize(("name", "said"), [("nnn", "names no table"), ("nnn:99", "99"), ("bert:1", "bert")])
def test_a_table_that_is_not_there_is_said(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        bench_table(name, tmp_path)


def test_a_run_of_another_model_stands_beside_the_figures_it_is_put_beside_and_says_so(tmp_path: Path) -> None:
    data = replace(tiny(), name="flickr30k", split="karpathy")
    vectors = write_vectors(tmp_path / "mine", tiny())
    bench_run(data, tmp_path, embeddings=vectors, paper="nnn", methods="nnn", directions="t2i", threads=1)
    without = bench_table("nnn:1", tmp_path)
    assert not without.run
    assert "flickr30k was run by mine, which is no model of this table" in "\n".join(without.notes)
    table = bench_table("nnn:1", tmp_path, {"SigLIP": "mine"})
    assert {(line.figure.model, line.model, line.stands_in) for line in table.run} == {("SigLIP", "mine", True)}
    heads, rows = table.cells()
    assert {row[heads.index("model")] for row in rows} == {"SigLIP, by mine"}
    assert {row[heads.index("published inside")] for row in rows} == {"off protocol (another model)"}
    assert "was run by" not in "\n".join(table.notes)
    for wrong in ({"Siglip": "mine"}, {"SigLIP": "min"}):
        with pytest.raises(ArgumentError, match="is unknown"):
            bench_table("nnn:1", tmp_path, wrong)


def test_a_work_folder_without_results_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="has no results"):
        bench_table("nnn:1", tmp_path)


def test_an_empty_table_says_what_is_missing() -> None:
    table = BenchTable("nnn", "1", (line_of(FIGURE, []),))
    assert table.run == ()
    notes = "\n".join(table.notes)
    assert "1 figure has not been measured, for example nnn t2i with the bank train:20% by CLIP" in notes
    assert "In brackets" not in notes
    assert "What has been run: nothing." in notes
    assert "flickr30k karpathy has not been run: unhub bench run flickr30k --split karpathy --paper nnn --data" in notes


def test_a_page_has_the_table_without_the_columns_that_are_the_same_in_every_row(tmp_path: Path) -> None:
    data = replace(tiny(), name="flickr30k", split="karpathy")
    vectors = write_vectors(tmp_path / "CLIP", tiny())
    run = bench_run(data, tmp_path, embeddings=vectors, paper="nnn", methods="nnn:k=5", directions="t2i", threads=1)
    write_page(run, tmp_path / "bench.html", tables_of(run, tmp_path))
    page = (tmp_path / "bench.html").read_text(encoding="utf-8")
    assert "data set: flickr30k karpathy; model: CLIP; direction: t2i; measured on: karpathy 40 x 20." in page
    assert ">settings<" in page and ">published inside<" in page
    assert ">model<" not in page
    assert "(not the chosen settings)" in page


def test_a_table_of_what_has_not_been_run_says_what_has(tmp_path: Path) -> None:
    vectors = write_vectors(tmp_path / "mine", tiny())
    bench_run(tiny(), tmp_path, embeddings=vectors, methods="cent", banks="train", directions="t2i", threads=1)
    notes = "\n".join(bench_table("nnn:1", tmp_path).notes)
    assert "What has been run: tiny official by mine." in notes
    assert "coco karpathy-5k has not been run" in notes
    other = replace(tiny(), name="msrvtt", split="1k-A")
    bench_run(other, tmp_path, embeddings=vectors, methods="cent", banks="train", directions="t2i", threads=1)
    notes = "\n".join(bench_table("qbnorm:1", tmp_path).notes)
    assert "msrvtt full has not been run" in notes
    assert "no model of this table" not in notes  # since another split was run


def test_a_data_set_that_was_run_by_another_paper_alone_is_not_said_to_be_not_run(tmp_path: Path) -> None:
    data = replace(tiny(), name="flickr30k", split="karpathy")
    given: dict[str, Any] = {"embeddings": write_vectors(tmp_path / "CLIP", tiny()), "directions": "t2i", "threads": 1}
    bench_run(data, tmp_path, methods="cent", banks="test", paper="mqvr", **given)
    said = "flickr30k karpathy has been run by --paper mqvr only: unhub bench run flickr30k"
    assert said in "\n".join(bench_table("nnn:1", tmp_path).notes)


@pytest.mark.parametrize(
    ("papers", "said"),
    [
        (("", "mqvr"), "flickr30k karpathy has been run without --paper and by --paper mqvr only: "),
        (("mqvr", "nnn"), "flickr30k karpathy has been run with other models, methods, banks or directions than"),
    ],
)
def test_it_is_said_how_a_data_set_without_a_measured_figure_was_run(papers: tuple[str, ...], said: str) -> None:
    ran = tuple(("flickr30k", "karpathy", one) for one in papers)
    notes = "\n".join(BenchTable("nnn", "1", (line_of(FIGURE, []),), papers=ran).notes)
    assert said in notes
    assert "has not been run" not in notes


@pytest.mark.parametrize(("table", "reason"), [("A1", "is no measurement"), ("A15", "columns are mixed up")])
def test_a_table_without_figures_says_why(tmp_path: Path, table: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=f"'{table}' of nnn has no published figures here: .*{reason}"):
        bench_table(f"nnn:{table}", tmp_path)
