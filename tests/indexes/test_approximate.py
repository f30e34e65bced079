"""What surrounds every approximate engine: its answers are exact in all but recall, whatever the engine leaves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind
from unhub.data.vectors import Vectors
from unhub.indexes.approximate import EXACT_SHARE, OVERFETCH_FACTOR, Approximate, share_found
from unhub.indexes.exact import Exact
from unhub.indexes.stored import Stored
from unhub.layouts import Form, Shape

N, Q, D = 200, 9, 6


@dataclass
class Careless:
    """An engine in twenty lines: vectors rounded to a grid, ranked by L2, with what an engine may lack left out.

    misses: it never finds every so many-th place. filters, grows: whether it can. asked: how often, and for how many.
    """

    stored: Stored
    grid: float = 0.0
    misses: int = 0
    filters: bool = True
    grows: bool = True
    fetch_factor: int = 1
    fails_after: int | None = None
    vectors: list[Float32] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.vectors)

    def add(self, vectors: Float32) -> None:
        assert self.grows or not self.vectors
        for row in vectors:
            if self.fails_after is not None and len(self.vectors) >= self.fails_after:
                raise MemoryError
            self.vectors.append(np.round(row / self.grid) * np.float32(self.grid) if self.grid else row)

    def find(self, vectors: Float32, k: int) -> NDArray[np.int64]:
        self.asked.append(("find", k))
        return self._ranked(vectors, k, np.ones(len(self), np.bool_))

    def find_among(self, vectors: Float32, k: int, selected: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        self.asked.append(("find_among", k))
        return self._ranked(vectors, k, selected) if self.filters else None

    def _ranked(self, vectors: Float32, k: int, selected: NDArray[np.bool_]) -> NDArray[np.int64]:
        rows = np.array(self.vectors)
        values = ((vectors[:, None].astype(np.float64) - rows) ** 2).sum(axis=2)
        if self.stored.shape.form == "ip":
            values = -(vectors.astype(np.float64) @ rows.T)
        found = selected & (np.arange(len(rows)) % self.misses != 0) if self.misses else selected
        order = np.argsort(np.where(found, values, np.inf), axis=1, kind="stable")[:, :k]
        places = np.where(found[order], order, -1)
        return np.pad(places, ((0, 0), (0, k - places.shape[1])), constant_values=-1)


Open = Callable[[Exact], Careless]


def opener(form: Form = "l2", **lacks: float | bool) -> tuple[Open, list[Careless]]:
    """Return what opens such engines, and those it opened."""
    opened: list[Careless] = []

    def open_one(exact: Exact) -> Careless:
        shape = Shape.of(exact.items.dimensions, form)
        stored = Stored.of(shape, exact.items, exact.bias, exact.similarity)
        opened.append(Careless(stored, **lacks))  # type: ignore[arg-type]
        return opened[-1]

    return open_one, opened


def gallery(kind: Kind = "cosine", count: int = N) -> tuple[Exact, Float32, Float64]:
    """Return an exact index of items with biases, queries and weights."""
    rng = np.random.default_rng(1)
    items, queries = (rng.standard_normal((rows, D)).astype(np.float32) for rows in (count, Q))
    if kind == "cosine":
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    exact = Exact(Vectors(np.arange(count) + 1000, items), rng.normal(0, 0.2, count), kind, threads=1)
    return exact, queries, rng.uniform(0.5, 1.5, Q)


def copy_of(exact: Exact) -> Exact:
    return Exact(exact.items, exact.bias, exact.similarity, threads=1)


def assert_exact(index: Approximate, queries: Float32, weights: Float64, k: int) -> None:
    """Check that an index which misses nothing finds what exact search does, with the same scores."""
    scores, found = index.find(queries, weights, k)
    right, places = index.exact.find(queries, weights, k)
    assert_array_equal(found, places)
    assert_allclose(scores, right, atol=1e-5)


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("form", ["ip", "l2"])
def test_an_engine_that_misses_nothing_finds_what_exact_search_does(form: Form, kind: Kind) -> None:
    exact, queries, weights = gallery(kind)
    index = Approximate(exact, opener(form)[0])
    for k in (1, 10, N):
        assert_exact(index, queries, weights, k)


def test_scores_are_of_the_items_whatever_the_engine_keeps_of_them() -> None:
    exact, queries, weights = gallery()
    scores, found = Approximate(exact, opener(grid=0.5, fetch_factor=4)[0]).find(queries, weights, 10)
    rows = exact.items.unit_block(0, N, "cosine").astype(np.float64)
    defined = queries.astype(np.float64) @ rows.T - weights[:, None] * exact.bias
    assert_allclose(scores, np.take_along_axis(defined, found, axis=1), atol=1e-5)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_scoring_more_of_what_codes_find_finds_more_and_asks_for_no_more_than_there_is() -> None:
    exact, queries, weights = gallery()
    right = exact.find(queries, weights, 10)[1]
    shares = []
    for factor in (1, 4):
        open_one, opened = opener(grid=0.6, fetch_factor=factor)
        index = Approximate(copy_of(exact), open_one)
        found = index.find(queries, weights, 10)[1]
        shares.append(np.mean([np.isin(one, other).mean() for one, other in zip(right, found, strict=True)]))
        index.find(queries, weights, N - 1)
        assert opened[0].asked == [("find", 10 * factor), ("find", min(N, factor * (N - 1)))]
    assert shares[0] < shares[1]


def test_an_engine_that_cannot_filter_is_asked_for_more() -> None:
    exact, queries, weights = gallery()
    open_one, opened = opener(filters=False)
    index = Approximate(exact, open_one)
    allowed = np.arange(0, N, 2)
    scores, found = index.find(queries, weights, 5, allowed)
    assert opened[0].asked == [("find_among", 5), ("find", OVERFETCH_FACTOR * 5)]
    right, places = exact.find(queries, weights, 5, allowed)
    assert_array_equal(found, places)
    assert_allclose(scores, right, atol=1e-5)


@pytest.mark.parametrize("filters", [True, False])
def test_a_query_that_comes_back_short_is_answered_exactly(filters: bool) -> None:
    exact, queries, weights = gallery()
    allowed = np.arange(0, N, 4)
    index = Approximate(exact, opener(filters=filters, misses=8)[0])  # of the allowed, it misses every other
    scores, found = index.find(queries, weights, 40, allowed)
    right, places = exact.find(queries, weights, 40, allowed)
    assert_array_equal(found, places)
    assert_array_equal(scores, right)


def test_few_allowed_items_are_searched_exactly() -> None:
    exact, queries, weights = gallery()
    open_one, opened = opener()
    index = Approximate(exact, open_one)
    few = np.arange(int(EXACT_SHARE * N) - 1)
    assert_array_equal(index.find(queries, weights, 3, few)[0], exact.find(queries, weights, 3, few)[0])
    assert opened[0].asked == []
    index.find(queries, weights, 3, np.arange(int(EXACT_SHARE * N)))
    assert opened[0].asked == [("find_among", 3)]


def test_inner_products_that_may_overflow_are_searched_exactly() -> None:
    exact, queries, weights = gallery()
    open_one, opened = opener("ip")
    index = Approximate(exact, open_one)
    huge = np.where(np.arange(Q) == 3, 1e31, weights)
    assert_array_equal(index.find(queries, huge, 3)[1], exact.find(queries, huge, 3)[1])
    assert opened[0].asked == []


@pytest.mark.parametrize("filters", [True, False])
def test_removed_items_leave_places_that_are_passed_over_until_half_are(filters: bool) -> None:
    exact, queries, weights = gallery()
    open_one, opened = opener(filters=filters)
    index = Approximate(exact, open_one)
    index.drop(np.arange(0, N, 3))
    assert (len(opened), len(index.positions), len(index.items)) == (1, N, N - 67)
    assert_exact(index, queries, weights, 10)
    index.remove(index.ids[:20])
    assert_exact(index, queries, weights, 10)
    index.drop(np.arange(30))
    assert (len(opened), len(index.positions)) == (2, N - 67 - 50)
    assert_exact(index, queries, weights, 10)


@pytest.mark.parametrize("grows", [True, False])
def test_new_items_are_added_or_all_are_stored_anew_by_an_engine_that_is_built_in_one_go(grows: bool) -> None:
    exact, queries, weights = gallery()
    later = Exact(exact.items.gather(np.arange(150, N)), exact.bias[150:], "cosine")
    open_one, opened = opener(grows=grows)
    index = Approximate(Exact(exact.items.gather(np.arange(150)), exact.bias[:150], "cosine", threads=1), open_one)
    index.add(later.items, later.bias)
    assert len(opened) == (1 if grows else 2)
    assert_array_equal(index.ids, exact.items.ids)
    assert_exact(index, queries, weights, 10)


def test_an_item_over_the_radius_makes_all_be_stored_anew() -> None:
    exact, queries, weights = gallery("dot")
    open_one, opened = opener()
    index = Approximate(exact, open_one)
    index.add(Vectors(np.array([5]), 20 * np.ones((1, D), np.float32)), np.zeros(1))
    assert len(opened) == 2
    assert_exact(index, queries, weights, 10)


@pytest.mark.parametrize("stored", [0, 7])
def test_an_addition_that_fails_half_way_changes_no_answer_and_can_be_made_again(stored: int) -> None:
    exact, queries, weights = gallery()
    open_one, opened = opener()
    index = Approximate(Exact(exact.items.gather(np.arange(150)), exact.bias[:150], "cosine", threads=1), open_one)
    before = index.find(queries, weights, 10)
    opened[0].fails_after = 150 + stored
    with pytest.raises(MemoryError):
        index.add(exact.items.gather(np.arange(150, N)), exact.bias[150:])
    assert len(index.items) == 150
    for one, other in zip(before, index.find(queries, weights, 10), strict=True):
        assert_array_equal(one, other)
    index.add(exact.items.gather(np.arange(150, N)), exact.bias[150:])
    assert len(opened) == 2  # the first may have rows that it does not find
    assert_exact(index, queries, weights, 10)


def test_an_engine_that_cannot_be_made_anew_serves_on() -> None:
    exact, queries, weights = gallery()
    open_one, opened = opener()

    def open_once(items: Exact) -> Careless:
        if opened:
            raise ValueError("too few to train on")
        return open_one(items)

    index = Approximate(exact, open_once)
    index.drop(np.arange(N - 20))
    assert len(index.positions) == N
    assert_exact(index, queries, weights, 10)


def test_progress_is_told_to_the_end_of_a_build_and_of_a_search() -> None:
    exact, queries, weights = gallery()
    told: list[tuple[int, int]] = []
    index = Approximate(exact, opener()[0], lambda done, total: told.append((done, total)))
    assert told[-1] == (N, N)
    index.find(queries, weights, 3, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (Q, Q)


def test_the_share_that_codes_find_tells_fine_ones_from_coarse_ones() -> None:
    exact, _, _ = gallery()
    whole, fine, coarse = (share_found(opener(grid=grid)[0](exact), exact) for grid in (0.0, 0.2, 0.9))
    assert whole == 1
    assert whole > fine > coarse
