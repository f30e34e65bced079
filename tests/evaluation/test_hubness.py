"""Hubness: figures by hand, counts of every item, and whom a ranking favours."""

import json
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests import oracles
from tests.bank_cases import BIASES, GATED, drawn, fitted, whole
from tests.compute.test_workers import Recorder
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors
from unhub.evaluation.group_bias import GroupBias, group_bias
from unhub.evaluation.hubness import Hubness, figures_of, hubness

# Three queries that all return item 0, and the second of which ranks item 2 before item 1.
SCORES = np.array([[0.9, 0.8, 0.1, 0.0], [0.9, 0.1, 0.8, 0.0], [0.9, 0.8, 0.1, 0.0]])


def test_figures_by_hand() -> None:
    figures = figures_of(np.array([3, 2, 1, 0]))
    assert figures.skewness == pytest.approx(0)
    assert figures.kurtosis == pytest.approx((1.5**4 + 0.5**4) / 2 / 1.25**2 - 3)
    assert figures.mean_deviation == 1
    assert figures.largest == 3
    assert figures.anti_hubs == 0.25
    assert figures.top_share == 0.5  # one item is the least that is more than none
    assert figures.robin_hood == pytest.approx(2 / 6)  # two of the six places would have to move


def test_one_hub_takes_it_all() -> None:
    figures = figures_of(np.array([0] * 199 + [400]))
    assert figures.skewness == pytest.approx(198 / np.sqrt(199))
    assert figures.top_share == 1
    assert figures.anti_hubs == 0.995
    assert figures.robin_hood == pytest.approx(0.995)


@pytest.mark.parametrize(
    ("items", "words"),
    [(40, "the item"), (149, "the item"), (150, "the 2 items"), (123_456, "the 1,235 items")],
)
def test_the_items_of_the_top_share_are_counted_in_words(items: int, words: str) -> None:
    counts = np.arange(items)
    told = Hubness(10, 7, np.arange(items), counts, figures_of(counts))
    assert f"% of the places go to {words} returned most; chance alone gives " in str(told)


def test_equal_counts_are_not_skewed() -> None:
    figures = figures_of(np.full(7, 3))
    assert (figures.skewness, figures.kurtosis, figures.mean_deviation, figures.robin_hood) == (0, 0, 0, 0)
    assert figures.anti_hubs == 0 and figures.largest == 3
    assert hubness(Dense(np.eye(5)), k=1).skewness == hubness(Dense(np.eye(5)), k=5).skewness == 0


@given(counts=st.lists(st.integers(0, 50), min_size=2, max_size=300).filter(lambda several: len(set(several)) > 1))
@settings(max_examples=60)
def test_moments_are_those_of_scipy(counts: list[int]) -> None:
    from scipy import stats  # a second, which no other test needs

    figures = figures_of(np.array(counts))
    assert figures.skewness == pytest.approx(stats.skew(counts), abs=1e-9)
    assert figures.kurtosis == pytest.approx(stats.kurtosis(counts), abs=1e-9)
    top = sorted(counts)[-max(1, round(len(counts) / 100)) :]
    assert figures.top_share == pytest.approx(sum(top) / sum(counts))
    assert 0 <= figures.robin_hood < 1


def test_hubness_by_hand() -> None:
    found = hubness(Dense(SCORES, ["hub", "a", "b", "never"]), k=2)
    assert found.counts.tolist() == [3, 2, 1, 0]  # also the item that is never returned
    assert (found.k, found.queries) == (2, 3)
    assert found.figures == figures_of(np.array([3, 2, 1, 0]))
    assert found.worst(2) == [("hub", 3), ("a", 2)]
    assert len(found.worst(99)) == 4
    assert "3 queries, k = 2, 4 items: skewness 0.00, the worst hub returned 3 times, 25.0% of the items" in str(found)
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["k"], told["items"], told["largest"], told["anti_hubs"]) == (2, 4, 3, 0.25)


def test_more_places_than_items_are_all_of_them() -> None:
    found = hubness(Dense(SCORES), k=9)
    assert found.k == 4
    assert found.counts.tolist() == [3, 3, 3, 3]


@given(
    seed=st.integers(0, 2**32 - 1),
    queries=st.integers(1, 30),
    items=st.integers(1, 30),
    k=st.integers(1, 35),
    threads=st.integers(1, 3),
    spec=st.sampled_from([*BIASES[:6], *GATED]),
)
@settings(max_examples=60)
def test_every_place_of_every_query_is_counted_once(
    seed: int, queries: int, items: int, k: int, threads: int, spec: str
) -> None:
    sets = whole(seed, items=items, queries=queries, bank=20)
    if "k=" in spec and items < 5:
        spec = "is"
    correction = fitted(spec, sets)
    found = hubness(sets.queries, sets.items, correction, k=k, threads=threads)
    assert found.counts.shape == (items,)
    assert found.counts.sum() == queries * min(k, items)
    assert found.counts.max() <= queries
    raw = hubness(sets.queries, sets.items, k=k, similarity="dot")
    assert_array_equal(raw.counts, oracles.k_occurrence(sets.query_scores, k))


def test_a_correction_changes_the_counts_as_it_applies() -> None:
    sets = drawn(queries=200)
    correction = fitted("is", sets)
    found = hubness(sets.queries, sets.items, correction, k=3)
    assert_array_equal(found.counts, oracles.k_occurrence(np.asarray(correction.apply(sets.query_scores)), 3))
    none = hubness(sets.queries, sets.items, correction, k=3, strength=0)
    assert_array_equal(none.counts, hubness(sets.queries, sets.items, k=3).counts)
    assert found.skewness < none.skewness


def test_progress_of_hubness_is_shown() -> None:
    sets, progress = drawn(queries=3000), Recorder()
    hubness(sets.queries, sets.items, k=3, progress=progress)
    progress.assert_rises_to_the_end()


# Groups.


def test_group_bias_by_hand() -> None:
    # of the two best: 0 and 1, 0 and 2, 0 and 1
    found = group_bias(Dense(SCORES), None, [0, 3], [1], n=2, relevance={0: [0, 1], 1: 3})
    assert (found.n, found.share_a, found.share_b) == (2, 3 / 6, 2 / 6)
    assert found.bias == pytest.approx(1 / 6)
    assert found.precision == pytest.approx((1 + 0) / 2)  # of the queries that have answers
    other_way = group_bias(Dense(SCORES), None, [1], [0, 3], n=2)
    assert other_way.bias == pytest.approx(-1 / 6)
    assert other_way.precision is None


def test_group_bias_with_a_correction_and_names() -> None:
    sets = drawn(queries=80)
    items = Vectors(np.array([f"item {place}" for place in range(41)]), sets.items)
    correction = unhub.fit(items, sets.bank, method="is")
    a, b = items.ids[:15], items.ids[20:]
    found = group_bias(sets.queries, items, a, b.tolist(), correction, n=5, threads=2)
    top = oracles.ranking(np.asarray(correction.apply(sets.query_scores)))[:, :5]
    assert_allclose(found.share_a, (top < 15).mean())
    assert_allclose(found.bias, ((top < 15).sum(axis=1) - (top >= 20).sum(axis=1)).mean() / 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_a": [0, 9]}, r"group_a has 1 unknown id, for example 9"),
        ({"group_b": ["x"]}, "group_b has ids that are strings, the ids here are integers"),
        ({"group_b": [1, 0]}, "^group_b shares items with group_a, such as 0; put each item into one group"),
        ({"n": 0}, "n must be a whole number of at least 1, got 0"),
    ],
)
def test_groups_that_are_none_are_told(options: dict[str, object], message: str) -> None:
    call: Callable[..., GroupBias] = group_bias
    with pytest.raises(ValueError, match=message):
        call(Dense(SCORES), None, **{"group_a": [0], "group_b": [1], **options})


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_k_must_be_a_count(k: object) -> None:
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        hubness(Dense(SCORES), k=cast("int", k))
