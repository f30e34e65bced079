"""Traffic: a log is compared with a log, distinct queries with distinct ones, and what is asked again is no leak."""

from pathlib import Path

import numpy as np
import pytest

import unhub
from tests import flickr8k
from tests.clouds import Floats, some
from tests.logs_drawn import drawn, zipf
from unhub.arrays import Kind
from unhub.banks import known_queries
from unhub.banks.known_queries import with_known_queries
from unhub.banks.traffic import alike, asked_before, natural_share, recur
from unhub.data.vectors import VectorsLike
from unhub.matching import Matched

pytestmark = pytest.mark.once

KINDS: tuple[Kind, ...] = ("cosine", "dot")
ITEMS, POOL, SHARES = some(200, 0), some(2000, 1), zipf(2000)
LOG, DAY = drawn(SHARES, 6000, 2), drawn(SHARES, 800, 3)


def matched(bank: VectorsLike, queries: VectorsLike | None) -> Matched:
    return Matched.of(bank, ITEMS, queries, "cosine", 1)


def judged(bank: VectorsLike, queries: VectorsLike | None = None) -> unhub.BankReport:
    return unhub.judge_bank(ITEMS, bank, queries, distances=False, threads=1)


def forms(rows: Floats) -> dict[str, VectorsLike]:
    """Return a log as it is, joined, and joined by hand."""
    return {
        "rows": rows,
        "joined": unhub.join_repeats(rows),
        "counted": unhub.join_repeats(rows, temper=1),
        "distinct": np.unique(rows, axis=0),
    }


@pytest.mark.parametrize("form", ["rows", "joined", "counted", "distinct"])
def test_a_log_and_a_day_of_the_same_source_are_good(form: str) -> None:
    report = judged(forms(POOL[LOG])[form], POOL[DAY])
    assert (report.verdict, report.problems) == ("good", ())
    assert report.leaked is not None and report.leaked > 0.8 * len(DAY) and report.natural == 1
    assert report.compared == ("as given" if form == "rows" else "distinct")
    assert "all may be, since queries repeat themselves here" in str(report)


@pytest.mark.parametrize("form", ["rows", "joined"])
def test_the_distinct_queries_of_a_day_are_compared_with_distinct_ones(form: str) -> None:
    report = judged(forms(POOL[LOG])[form], POOL[np.unique(DAY)])
    assert (report.verdict, report.problems) == ("good", ())
    assert 0.5 < report.natural <= 1


@pytest.mark.parametrize("form", ["rows", "joined", "counted", "distinct"])
def test_a_log_from_elsewhere_is_still_off_domain(form: str) -> None:
    far = some(2000, 1, towards=0.3)
    assert judged(forms(far[LOG])[form], POOL[DAY]).verdict == "off-domain"


@pytest.mark.parametrize("form", ["rows", "joined"])
def test_a_log_of_one_kind_of_query_is_still_thin(form: str) -> None:
    thin = POOL[unhub.sample_bank(POOL, 310, "adversarial", items=ITEMS)]
    log = thin[np.concatenate([np.arange(310), drawn(zipf(310), 3000, 0)])]
    assert "thin" in judged(forms(log)[form], POOL[DAY]).problems


def test_a_bank_that_hardly_repeats_itself_still_leaks() -> None:
    queries = some(500, 4)
    bank = np.concatenate([some(900, 5), queries, queries[:20]])  # 1.4% of the rows repeat one
    for one in (bank, unhub.join_repeats(bank)):
        report = judged(one, queries)
        assert report.verdict == "leaking" and report.natural < 0.1
        assert not recur(matched(one, queries))
    assert judged(bank, some(500, 6)).verdict == "good"


def test_without_queries_a_log_is_compared_with_the_items_by_its_distinct_queries() -> None:
    whole, distinct = judged(POOL[LOG]), judged(np.unique(POOL[LOG], axis=0))
    assert whole.coverage == distinct.coverage and whole.verdict == "unproven"
    assert (whole.size, whole.distinct, whole.compared) == (6000, len(np.unique(LOG)), "distinct")


def test_what_was_asked_before_is_the_share_of_rows_that_are_not_alone() -> None:
    assert asked_before(np.array([1, 1, 2, 3], np.uint64)) == 0.5
    assert asked_before(np.arange(4, dtype=np.uint64)) == 0
    # Of a joined bank the weights say it: 6,000 queries, those of weight 1 asked once.
    joined = natural_share(matched(unhub.join_repeats(POOL[LOG]), POOL[np.unique(DAY)]))
    assert joined == pytest.approx(natural_share(matched(POOL[LOG], POOL[np.unique(DAY)])))


def test_sets_that_repeat_unlike_are_compared_by_their_distinct_queries() -> None:
    hardly = np.concatenate([some(500, 7), some(500, 7)[:10]])
    for bank, queries, distinct in (
        (POOL, some(500, 7), False),
        (POOL[LOG], POOL[DAY], False),
        (POOL[LOG], hardly, True),
        (POOL, POOL[DAY], True),
        (unhub.join_repeats(POOL[LOG]), POOL[DAY], True),
    ):
        found = alike(matched(bank, queries))
        assert found.distinct == distinct and found.queries is not None
        assert not distinct or len(np.unique(found.queries.rows[:], axis=0)) == len(found.queries)


def test_a_bank_folder_is_judged_as_the_log_it_was_made_of(tmp_path: Path) -> None:
    log = tmp_path / "day.jsonl"
    log.write_text("".join(f'{{"vector": {POOL[row].tolist()}}}\n' for row in LOG[:3000]))
    unhub.add_log(log, tmp_path / "bank")
    report = judged(unhub.read_vectors(tmp_path / "bank"), POOL[DAY].astype(np.float32))
    assert (report.verdict, report.problems) == ("good", ())


@pytest.mark.parametrize("digits", ["5 decimals", "float16"])
@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_queries_in_other_digits_than_the_log_are_known_again(digits: str, kind: Kind) -> None:
    rows = POOL / np.linalg.norm(POOL, axis=1, keepdims=True)
    written = np.round(rows, 5) if digits == "5 decimals" else rows.astype(np.float16)
    past, fresh = unhub.join_repeats(written[LOG]), rows[DAY].astype(np.float32)
    reports = [
        unhub.judge_bank(ITEMS, past, queries, similarity=kind, distances=False, threads=1)
        for queries in (written[DAY], fresh)
    ]
    assert reports[0].leaked == reports[1].leaked == np.isin(DAY, LOG).sum()
    for name in ("verdict", "natural", "compared"):
        assert getattr(reports[0], name) == getattr(reports[1], name)
    exact, again = (with_known_queries(matched(past, one)).hashes["queries"] for one in (written[DAY], fresh))
    found = np.isin(DAY, LOG)
    np.testing.assert_array_equal(exact[found], again[found])


def test_rounded_queries_leak_too_but_other_queries_are_not_taken_for_those_of_the_bank() -> None:
    bank, queries = some(900, 5), some(500, 4)
    leaking = judged(np.concatenate([bank, np.round(queries[:50], 5)]), queries)
    assert (leaking.verdict, leaking.leaked, leaking.natural) == ("leaking", 50, 0)
    far = 100 * np.ones(bank.shape[1])  # all point the same way: every cosine is above 0.999
    for kind in KINDS:
        sets = Matched.of(bank + far, None, queries + far, kind, 1)
        assert with_known_queries(sets) is sets
    sets = Matched.of(bank, None, bank[::-1], "cosine", 1)
    assert with_known_queries(sets) is sets  # all found by their numbers


def test_many_queries_are_compared_only_if_some_of_the_first_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_queries, "MOST_AT_FIRST", 100)
    rounded = Matched.of(np.round(POOL, 5), None, POOL, "cosine", 1)
    assert with_known_queries(rounded).leaked == len(POOL)
    others = Matched.of(some(900, 5), None, POOL, "cosine", 1)
    calls: list[tuple[int, int]] = []
    with_known_queries(others, 1, lambda *both: calls.append(both))
    assert calls[-1] == (100 * 900, 100 * 900)


# The case of a real space: 50,000 queries drawn from 10,000 captions, and a fresh day.


@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_a_real_log_and_a_fresh_day_are_good(space: str) -> None:
    captions, items = flickr8k.load_split(space, "bank").texts, flickr8k.load_split(space, "test").images
    shares = zipf(len(captions))
    log, day = captions[drawn(shares, 50_000, 1)], captions[drawn(shares, 2000, 2)]
    for bank in (log, unhub.join_repeats(log)):
        assert unhub.judge_bank(items, bank, day, distances=False, threads=1).verdict == "good"
