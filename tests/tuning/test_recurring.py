"""Tune on query logs: repeats are joined, queries asked before judge fits without them, and popularity stays raw."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

import unhub
from tests import flickr8k
from tests.logs_drawn import drawn, zipf
from tests.tuning.test_tune import FEW, Rows, chosen, recall, world
from unhub.data.fingerprint import inspect
from unhub.data.vectors import as_vectors
from unhub.matching import Matched
from unhub.tuning.candidates import FittingSets
from unhub.tuning.popularity import demand
from unhub.tuning.recurring import held_out, with_repeats_joined

pytestmark = pytest.mark.once  # what is chosen, not how it is computed


class Logged(NamedTuple):
    """A gallery with new queries; a log of past queries, its distinct ones, a fresh day, and what answers that."""

    items: Rows
    log: Rows
    distinct: Rows
    day: Rows
    truth: dict[int, int]


def logged(seed: int = 0) -> Logged:
    """Draw from queries of which each item has several."""
    w = world(seed, bank=1500, queries=1500)
    shares = zipf(len(w.queries), seed=seed)
    log, day = drawn(shares, 8000, seed + 1), drawn(shares, 1200, seed + 2)
    truth = {row: w.truth[query] for row, query in enumerate(day.tolist())}
    return Logged(w.items, w.queries[log], w.queries[np.unique(log)], w.queries[day], truth)


@pytest.mark.parametrize("given", ["nothing", "queries", "labels"])
def test_on_a_log_tune_gains_what_it_gains_on_its_distinct_queries(given: str) -> None:
    one, new = logged(), world(0, bank=1500, queries=1500)
    queries, truth = None if given == "nothing" else one.day, one.truth if given == "labels" else None
    raw, gains = recall(new, chosen(unhub.tune(one.items, one.log[:20]))), []
    for bank in (one.distinct, one.log, unhub.join_repeats(one.log)):
        tuning = unhub.tune(one.items, bank, queries, truth, methods="nnn,is")
        assert tuning.best.spec != "raw", tuning.reason
        if given != "nothing":
            assert any("are in the bank, as in a log: no fit on them judged them" in note for note in tuning.notes)
        gains.append(recall(new, chosen(tuning)) - raw)
    assert min(gains[1:]) >= 0.9 * gains[0] > 5


@pytest.mark.parametrize("labelled", [False, True])
def test_queries_in_other_digits_than_the_log_judge_as_those_of_the_log(labelled: bool) -> None:
    one = logged()
    day = one.day / np.linalg.norm(one.day, axis=1, keepdims=True)
    log = one.log / np.linalg.norm(one.log, axis=1, keepdims=True)
    for rounded in (np.round(log, 5), log.astype(np.float16)):
        past = unhub.join_repeats(rounded)
        same = np.round(day, 5) if rounded.dtype == np.float64 else day.astype(np.float16)
        tunings = [
            unhub.tune(one.items, past, queries, one.truth if labelled else None, methods=FEW)
            for queries in (same, day.astype(np.float32))
        ]
        assert tunings[0].notes == tunings[1].notes and "as in a log: no fit on them judged them" in tunings[0].notes[0]
        assert tunings[0].best.spec == tunings[1].best.spec != "raw"


def test_a_query_that_is_an_item_does_not_find_itself_when_the_bank_has_it_in_other_digits() -> None:
    one = logged()
    queries = np.concatenate([one.day, one.items[:60]])
    past = np.concatenate([one.log, np.round(one.items[:60], 5)])
    tuning = unhub.tune(one.items, past, queries, methods=FEW)
    assert any(note.startswith("60 of ") and "are items, which were left out" in note for note in tuning.notes)


def test_a_log_is_joined_and_a_note_says_how() -> None:
    one = logged()
    tuning = unhub.tune(one.items, one.log, methods=FEW)
    (note,) = tuning.notes
    assert f"{len(one.log) - len(one.distinct):,} of 8,000 bank queries repeat others, and each counts once" in note
    again = unhub.fit(one.items, unhub.join_repeats(one.log, near=1, temper=0), tuning.best.spec)
    assert isinstance(again, unhub.Bias) and "unhub.join_repeats(bank, near=1, temper=0)" in note
    np.testing.assert_allclose(chosen(tuning).bias, again.bias, atol=1e-6)
    alone = unhub.tune(one.items, one.distinct, methods=FEW)
    assert alone.best.spec == tuning.best.spec and alone.reason == tuning.reason
    assert unhub.tune(one.items, unhub.join_repeats(one.log), methods=FEW).notes == ()


def test_joined_repeats_are_those_of_join_repeats() -> None:
    one = logged()
    given = Matched.of(one.log, one.items, None, "cosine", 1)
    joined, expected = with_repeats_joined(given), unhub.join_repeats(one.log, near=1, temper=1)
    np.testing.assert_array_equal(joined.bank.ids, expected.ids)
    np.testing.assert_array_equal(joined.counts, expected.weights)
    assert joined.bank.weights is None
    np.testing.assert_array_equal(joined.hashes["bank"], inspect(expected, "bank", "cosine").hashes)
    distinct = Matched.of(one.distinct, one.items, None, "cosine", 1)
    assert with_repeats_joined(distinct) is distinct
    assert with_repeats_joined(joined) is joined


def test_no_query_judges_a_fit_on_itself() -> None:
    random = np.random.default_rng(0)
    bank, items = as_vectors(random.normal(size=(30, 3)), "bank"), as_vectors(random.normal(size=(5, 3)), "items")
    hashes, sets = np.arange(30, dtype=np.uint64), FittingSets(items, bank, None, "cosine")
    asking = np.array([3, 50, 7, 7, 51, 29, 3], np.uint64)
    parts = held_out(sets, hashes, asking, np.array([0, 1, 2, 3, 4, 5, 6]), 0)
    assert sorted(np.concatenate([positions for _, positions in parts])) == [*range(7)]
    for part, positions in parts:
        assert not set(asking[positions]) & set(hashes[part.bank.ids])
        assert len(part.bank) + len(set(asking[positions]) & set(hashes)) == 30
    assert held_out(sets, hashes, asking, np.array([1, 4]), 0)[0][0] is sets  # none of them is in the bank
    few = dataclasses.replace(sets, bank=bank.gather(np.array([3])))
    assert [positions.tolist() for _, positions in held_out(few, hashes[3:4], asking[:1], np.array([0]), 0)] == []


@pytest.mark.parametrize("given", ["nothing", "queries"])
@pytest.mark.parametrize("noise", [0.4, 0.7])
def test_popular_items_of_a_log_are_not_taken_for_hubs(given: str, noise: float) -> None:
    """Every item has twenty queries, and those of popular items are asked often: no hub is there to correct."""
    random = np.random.default_rng(0)
    items = random.normal(size=(200, 24))
    wanted = np.repeat(np.arange(200), 20)
    rows = items[wanted] + noise * random.normal(size=(len(wanted), 24))
    shares = 1 / (1 + wanted)
    log, day = (drawn(shares / shares.sum(), size, size) for size in (8000, 1500))
    tuning = unhub.tune(items, rows[log], rows[day] if given == "queries" else None, methods=FEW)
    assert tuning.best.spec == "raw" and "popular rather than hubs" in tuning.reason, tuning.reason


def test_demand_is_the_correlation_of_crowds_and_counts() -> None:
    random = np.random.default_rng(0)
    firsts = np.repeat(np.arange(80), 1 + np.arange(80) % 7).astype(np.int32)
    counts = np.asarray(1 + random.integers(9, size=len(firsts)), np.float64)
    crowds = np.bincount(firsts)
    often = [np.log(counts[firsts == item]).mean() for item in range(80)]
    found = demand(firsts, counts)
    assert found is not None and found.correlation == pytest.approx(np.corrcoef(np.log(crowds), often)[0, 1])
    assert found.items == 80 and not found.uneven
    popular = demand(firsts, np.asarray(counts * crowds[firsts], np.float64))
    assert popular is not None and popular.uneven
    assert demand(firsts, np.ones(len(firsts))) is None
    assert demand(firsts[:20], counts[:20]) is None  # too few items


@pytest.mark.parametrize("form", ["log", "joined"])
def test_a_log_from_elsewhere_stays_raw(form: str) -> None:
    one = logged()
    far = one.log - 1.6 * np.eye(24)[0]
    tuning = unhub.tune(one.items, far if form == "log" else unhub.join_repeats(far), one.day, methods=FEW)
    assert tuning.best.spec == "raw" and "No sure gain over raw" in tuning.reason


def test_queries_that_leak_are_still_left_out() -> None:
    w = world()
    both = np.concatenate([w.bank[:100], w.queries])
    bank = np.concatenate([w.bank, w.bank[-20:]])  # hardly a log
    assert any(
        "100 of 500 queries are in the bank and were left out." in n
        for n in unhub.tune(w.items, bank, both, methods=FEW).notes
    )
    with pytest.raises(ValueError, match="queries are all in the bank"):
        unhub.tune(w.items, bank, w.bank[:50])


@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_a_real_log_keeps_the_gain_of_its_distinct_queries(space: str) -> None:
    past, test = flickr8k.load_split(space, "bank"), flickr8k.load_split(space, "test")
    shares = zipf(len(past.texts))
    log, day = drawn(shares, 50_000, 1), drawn(shares, 2000, 2)
    tuned = [
        unhub.tune(test.images, bank, past.texts[day], methods="nnn,is").best
        for bank in (past.texts[np.unique(log)], past.texts[log])
    ]
    truth = dict(enumerate(test.truth.tolist()))
    result = unhub.evaluate(test.texts, test.images, truth, tuned, "R@1", hubness_k=None, resamples=2)
    of_distinct, of_log = (row.gains["R@1"].value for row in result.rows[1:])
    assert of_log >= 0.9 * of_distinct > 0
