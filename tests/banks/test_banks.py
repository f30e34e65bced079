"""Is a bank good? What a report says of banks of a known kind, and verdicts on real banks."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import unhub
from tests import flickr8k
from tests.clouds import KINDS, some
from tests.solvers import stop_pot_early
from unhub.arrays import Kind
from unhub.banks.distances import FAR_SHIFT

pytestmark = pytest.mark.once


def test_a_bank_like_the_queries_is_good() -> None:
    report = unhub.judge_bank(some(200, 0), some(2000, 1), some(500, 2))
    assert (report.verdict, report.problems) == ("good", ())
    assert (report.size, report.distinct, report.items, report.queries, report.leaked) == (2000, 2000, 200, 500, 0)
    assert ("leaked", "0", "of 500 queries are also in the bank") in replace(report, natural=1.0).cells()
    assert "fit on all of it" in report.conclusion and "small" not in report.conclusion


def test_a_small_bank_is_good_with_advice() -> None:
    report = unhub.judge_bank(some(200, 0), some(400, 1), some(500, 2), distances=False)
    assert report.verdict == "good"
    assert "nnn" in report.conclusion


def test_without_queries_a_bank_remains_unproven() -> None:
    report = unhub.judge_bank(some(200, 0), some(2000, 1), distances=False)
    assert (report.verdict, report.shift, report.nearness, report.leaked) == ("unproven", None, None, None)
    assert "queries" in report.conclusion


@pytest.mark.parametrize(("count", "said"), [(1, "one query is too few"), (49, "49 queries are too few")])
def test_too_few_queries_leave_a_bank_unproven(count: int, said: str) -> None:
    items, bank, queries = some(200, 0), some(2000, 1), some(50, 2)
    report = unhub.judge_bank(items, bank, queries[:count], distances=False)
    assert (report.verdict, report.problems) == ("unproven", ())
    assert said in report.conclusion
    assert unhub.judge_bank(items, bank, queries, distances=False).verdict == "good"


def test_a_shift_that_no_bank_could_exceed_is_not_known() -> None:
    items, bank, queries = some(200, 0), some(1000, 1), some(4, 2)
    few, more = (dict_of(unhub.judge_bank(items, bank, queries[:count], distances=False)) for count in (3, 4))
    assert "not known (limit 101.3%)" in few["shift"]  # 1% + 3 (1/1000 + 1/3)
    assert "near (limit 76.3%)" in more["shift"]


def dict_of(report: unhub.BankReport) -> dict[str, str]:
    """Return what each figure is said to mean."""
    return {name: meaning for name, _, meaning in report.cells()}


def test_a_bank_of_one_kind_of_query_is_thin() -> None:
    items, queries = some(200, 0), some(500, 2)
    bank = some(6000, 1)
    thin = bank[unhub.sample_bank(bank, 600, "adversarial", items=items)]
    assert "thin" in unhub.judge_bank(items, thin, queries, distances=False).problems
    assert unhub.judge_bank(items, thin, distances=False).verdict == "thin"


def test_a_bank_of_queries_leaks() -> None:
    queries = some(500, 2)
    report = unhub.judge_bank(some(200, 0), queries, queries.astype(np.float32), distances=False)
    assert (report.verdict, report.leaked) == ("leaking", 500)
    beside = unhub.judge_bank(some(200, 0), np.concatenate([some(900, 1), queries[:6]]), queries, distances=False)
    assert (beside.verdict, beside.leaked) == ("leaking", 6)
    by_chance = unhub.judge_bank(some(200, 0), np.concatenate([some(900, 1), queries[:5]]), queries, distances=False)
    assert (by_chance.verdict, by_chance.leaked) == ("good", 5)


def test_repeats_do_not_make_a_bank_larger() -> None:
    report = unhub.judge_bank(some(50, 0), np.tile(some(100, 1), (20, 1)), some(500, 2), distances=False)
    assert (report.size, report.distinct, report.verdict) == (2000, 100, "tiny")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("items", "queries"), [(1, None), (1, 1), (2, 1), (5, None), (5, 2)])
def test_a_bank_of_one_is_tiny(kind: Kind, items: int, queries: int | None) -> None:
    asked = None if queries is None else some(queries, 2)
    report = unhub.judge_bank(some(items, 0), some(1, 1), asked, similarity=kind)
    assert report.verdict == "tiny"
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["verdict"] == "tiny"
    assert report.transport is not None and report.transport.rows == 1


def test_rows_of_zeros_are_compared_under_dot() -> None:
    items = np.concatenate([some(9, 0), np.zeros((1, 8))])
    report = unhub.judge_bank(items, np.zeros((3, 8)), some(4, 2), similarity="dot")
    assert report.nearness is not None and report.nearness.median == pytest.approx(0.5)


def test_figures_are_the_same_on_any_number_of_threads_and_dtype() -> None:
    items, bank, queries = some(300, 0), some(700, 1).astype(np.float16), some(600, 2)
    one, two = (unhub.judge_bank(items, bank, queries, threads=threads, distances=False) for threads in (1, 2))
    wide = unhub.judge_bank(items, bank.astype(np.float64), queries, threads=1, distances=False)
    assert one.coverage == two.coverage == wide.coverage
    assert one.shift == two.shift == wide.shift
    for other in (two, wide):
        assert one.nearness is not None and other.nearness is not None
        assert one.nearness.median == pytest.approx(other.nearness.median, abs=1e-6)


def test_progress_runs_to_its_end_and_never_back() -> None:
    seen: list[tuple[int, int]] = []
    unhub.judge_bank(
        some(200, 0), some(500, 1), some(300, 2), distances=False, progress=lambda *both: seen.append(both)
    )
    done = [done for done, _ in seen]
    assert done == sorted(done) and len({total for _, total in seen}) == 1
    assert done[-1] == seen[-1][1]


def test_without_pot_the_distances_are_left_out_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ot", None)
    report = unhub.judge_bank(some(200, 0), some(2000, 1), some(500, 2))
    assert report.verdict == "good"
    assert report.transport is None
    (note,) = report.notes
    assert "earth mover" in note and "unhub[plans]" in note and note in str(report)


def test_where_pot_finds_no_optimum_the_distances_are_left_out_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_pot_early(monkeypatch)
    report = unhub.judge_bank(some(200, 0), some(2000, 1), some(500, 2))
    assert (report.verdict, report.transport) == ("good", None)
    (note,) = report.notes
    assert note.startswith("Earth mover's distances are left out: POT did not reach the optimum") and note in str(
        report
    )


def test_halves_that_agree_but_for_rounding_are_no_yardstick() -> None:
    report = unhub.judge_bank(some(200, 0), some(500, 1), some(60, 2))
    assert report.transport is not None
    rounded = replace(report, transport=replace(report.transport, halves=1e-16))
    assert "times the yardstick" in dict_of(report)["bank to queries"]
    assert not any("times the yardstick" in meaning for meaning in dict_of(rounded).values())


def test_the_text_has_every_figure_and_the_conclusion() -> None:
    report = unhub.judge_bank(some(200, 0), some(2000, 1), some(500, 2))
    text = str(report)
    for name in ("bank queries", "repeats", "coverage", "shift", "nearest", "leaked", "bank to queries", "yardstick"):
        assert name in text
    assert text.endswith(f"good: {report.conclusion}")
    assert report.shift is not None
    assert f"{FAR_SHIFT + report.shift.chance:.1%}" in text


def test_mistakes_are_named() -> None:
    items, bank = some(5, 0), some(6, 1)
    with pytest.raises(ValueError, match="bank has 8 dimensions, the items 4"):
        unhub.judge_bank(items[:, :4], bank)
    with pytest.raises(ValueError, match="queries has 4 dimensions, the items 8"):
        unhub.judge_bank(items, bank, bank[:, :4])
    with pytest.raises(ValueError, match="bank has only zeros in row 5"):
        unhub.judge_bank(items, np.concatenate([bank[:5], np.zeros((1, 8))]))
    with pytest.raises(ValueError, match="similarity"):
        unhub.judge_bank(items, bank, similarity="euclid")  # type: ignore[arg-type]


# Real banks: the limits were set on `val`; `test` must agree.


@pytest.mark.parametrize("split", ["val", "test"])
@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_real_banks_get_the_verdict_they_deserve(space: str, split: str) -> None:
    asked, past = flickr8k.load_split(space, split), flickr8k.load_split(space, "bank")
    for items, bank, queries in (
        (asked.images, past.texts, asked.texts),
        (asked.texts, past.images, asked.images),
    ):
        banks = {
            how: bank[unhub.sample_bank(bank, 1000, how, items=items, queries=queries)]
            for how in ("random", "stratified", "adversarial", "far")
        }
        verdicts = {
            name: unhub.judge_bank(items, some_bank, queries, distances=False, threads=1).verdict
            for name, some_bank in {**banks, "all": bank, "ten": bank[:10], "hundred": bank[:500:5]}.items()
        }
        assert verdicts.pop("adversarial") in ("thin", "off-domain")
        assert verdicts == {
            "all": "good",
            "random": "good",
            "stratified": "good",
            "far": "off-domain",
            "ten": "tiny",
            "hundred": "tiny",
        }


def test_a_bank_of_items_is_told() -> None:
    items = np.random.default_rng(0).normal(size=(400, 8))
    told = "400 of 400 bank queries are items: a bank is past queries, so give those."
    assert told in unhub.judge_bank(items, items, distances=False).notes
    assert told in unhub.tune(items, items, methods="nnn:k=8").notes
    other = np.random.default_rng(1).normal(size=(400, 8))
    assert not unhub.judge_bank(items, other, distances=False).notes
