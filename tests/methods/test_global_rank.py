"""gc counts each bank query that is closer, and none by rounding: not the query itself, whatever is asked beside it."""

from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import unhub
from tests import oracles
from unhub.arrays import Float32, Float64, Kind, unit
from unhub.correction import Rescore
from unhub.data.similarity import product_rounding

ITEMS, BANK = 60, 300
Rows = Callable[[np.random.Generator, int, int], Float64]


def positive(random: np.random.Generator, count: int, dimensions: int) -> Float64:
    """Products of such rows do not cancel, so that their rounding is as large as it gets at random."""
    return np.abs(random.standard_normal((count, dimensions)))


def of_all_lengths(random: np.random.Generator, count: int, dimensions: int) -> Float64:
    return positive(random, count, dimensions) * 10 ** random.uniform(-3, 3, (count, 1))


def switches(random: np.random.Generator, count: int, dimensions: int) -> Float64:
    """Rows of one value and zero, whose products all round the same way."""
    on = random.random((count, dimensions)) < random.uniform(0.1, 1, (count, 1))
    on[:, 0] = True
    return np.asarray(on / np.sqrt(on.sum(axis=1, keepdims=True)))


def normal(random: np.random.Generator, count: int, dimensions: int) -> Float64:
    return random.standard_normal((count, dimensions))


@cache
def sets(rows: Rows, dimensions: int) -> tuple[Float32, Float32]:
    """Return items and a bank."""
    random = np.random.default_rng(dimensions)
    return rows(random, ITEMS, dimensions).astype(np.float32), rows(random, BANK, dimensions).astype(np.float32)


def counts_of(correction: Rescore, items: Float32, queries: Float32, at_a_time: int) -> NDArray[np.int64]:
    """Return the count of each query and item, as searches of so many queries at a time find it."""
    searcher = unhub.searcher(items, correction, threads=1)
    counts = np.empty((len(queries), len(items)))
    similarity = cast("Kind", correction.source.similarity)
    for start in range(0, len(queries), at_a_time):
        some = queries[start : start + at_a_time]
        hits = searcher.search(some, k=len(items))
        found = np.empty(hits.scores.shape)
        np.put_along_axis(found, hits.ids.astype(np.int64), hits.scores.astype(np.float64), axis=1)
        counts[start : start + at_a_time] = scores_of(some, items, similarity).astype(np.float32) - found
    slack = 1e-5 * np.abs(scores_of(queries, items, similarity)) + 1e-6
    assert (np.abs(counts - counts.round()) <= slack).all()
    return counts.round().astype(np.int64)


def scores_of(queries: Float32, items: Float32, similarity: Kind) -> Float64:
    return oracles.dot(*(np.asarray(rows, np.float64) for rows in ready(queries, items, similarity)))


def ready(queries: Float32, items: Float32, similarity: Kind) -> tuple[Float32, Float32]:
    return (queries, items) if similarity == "dot" else (unit(queries), unit(items))


SHAPES = pytest.mark.parametrize("dimensions", [1, 3, 64, 384, 1000])
KINDS = pytest.mark.parametrize("similarity", ["dot", "cosine"])
ROWS = pytest.mark.parametrize("rows", [positive, of_all_lengths, switches, normal])


@SHAPES
@KINDS
@ROWS
def test_counts_are_the_oracles_but_for_what_is_within_rounding(rows: Rows, similarity: Kind, dimensions: int) -> None:
    items, bank = sets(rows, dimensions)
    correction = cast("Rescore", unhub.fit(items, bank, method="gc", similarity=similarity))
    scores = scores_of(bank, items, similarity)
    counts = counts_of(correction, items, bank, BANK)
    lengths = [np.linalg.norm(one.astype(np.float64), axis=1) for one in ready(bank, items, similarity)]
    resolution = 2 * product_rounding(dimensions) * np.outer(*lengths)
    least, most = np.empty_like(counts), np.empty_like(counts)
    for item, column in enumerate(scores.T):
        most[:, item] = (column[None] > column[:, None]).sum(axis=1)
        least[:, item] = (column[None] - resolution[:, item] > column[:, None]).sum(axis=1)
    assert ((least <= counts) & (counts <= most)).all()
    assert (counts[scores.argmax(axis=0), np.arange(ITEMS)] == 0).all()


@SHAPES
@KINDS
@ROWS
def test_counts_do_not_depend_on_how_many_queries_are_asked_at_a_time(
    rows: Rows, similarity: Kind, dimensions: int
) -> None:
    items, bank = sets(rows, dimensions)
    correction = cast("Rescore", unhub.fit(items, bank, method="gc", similarity=similarity))
    together = counts_of(correction, items, bank, BANK)
    assert_array_equal(counts_of(correction, items, bank, 64), together)
    assert_array_equal(counts_of(correction, items, bank[:40], 1), together[:40])


@pytest.mark.parametrize("at_a_time", [1, 7, BANK])
@SHAPES
@KINDS
@pytest.mark.parametrize("rows", [positive, of_all_lengths, normal])
def test_no_query_is_closer_than_itself_in_scores_that_were_multiplied_elsewhere(
    rows: Rows, similarity: Kind, dimensions: int, at_a_time: int
) -> None:
    items, bank = sets(rows, dimensions)
    correction = cast("Rescore", unhub.fit(items, bank, method="gc", similarity=similarity))
    queries, columns = ready(bank, items, similarity)
    scores = np.concatenate([queries[at : at + at_a_time] @ columns.T for at in range(0, BANK, at_a_time)])
    assert_none_is_closer_than_itself(correction, scores, scores_of(bank, items, similarity))


@SHAPES
@KINDS
def test_no_query_of_switches_is_closer_than_itself_in_scores_of_float64(similarity: Kind, dimensions: int) -> None:
    items, bank = sets(switches, dimensions)
    correction = cast("Rescore", unhub.fit(items, bank, method="gc", similarity=similarity))
    exact = scores_of(bank, items, similarity)
    assert_none_is_closer_than_itself(correction, exact, exact)


def assert_none_is_closer_than_itself(correction: Rescore, scores: Float32 | Float64, exact: Float64) -> None:
    counts = scores.astype(np.float64) - correction.apply(scores)
    most = np.stack([(column[None] > column[:, None]).sum(axis=1) for column in exact.T], axis=1)
    assert (counts <= most + 1e-5 * np.abs(exact) + 1e-6).all()


@pytest.mark.once
def test_a_given_matrix_of_float64_does_not_count_a_query_as_closer_than_itself() -> None:
    matrix = np.array([[0.1, 0.7], [0.3, 0.6], [0.1, 0.2]])  # none of which float32 holds
    correction = unhub.fit(unhub.Dense(matrix), method="gc")
    assert_array_equal(np.round(matrix - correction.apply(matrix)), [[1, 0], [0, 1], [1, 2]])


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    st.integers(2, 60),
    st.lists(st.sampled_from([one / 2 for one in range(-8, 9)]), min_size=1, max_size=8),
)
@pytest.mark.once
def test_counts_from_tables_are_off_by_no_more_than_they_say(
    bank: list[int], quantiles: int, queries: list[float]
) -> None:
    matrix, scores = np.array(bank, np.float64)[:, None], np.array(queries)[:, None]
    correction = unhub.fit(unhub.Dense(matrix), method="gc", quantiles=quantiles)
    bound = -(-(len(bank) - 1) // (quantiles - 1)) - 1 if len(bank) > 1 else 0
    assert f"off by at most {bound} of {len(bank)}" in correction.cost.kept
    exact = (matrix[None, :, 0] > scores).sum(axis=1)
    counts = (scores - correction.apply(scores))[:, 0]
    assert (np.abs(counts - exact) <= bound + 1e-6).all()


@pytest.mark.once
@pytest.mark.parametrize("method", ["gc", "gc:quantiles=2", "gc:quantiles=5", "gc:quantiles=40"])
def test_a_score_without_bound_has_all_of_the_bank_before_it_or_none(method: str) -> None:
    random = np.random.default_rng(3)
    correction = unhub.fit(unhub.Dense(random.standard_normal((40, 3))), method=method)
    scores = random.standard_normal((2, 3))
    scores[0, 1], scores[1, 2] = -np.inf, np.inf
    corrected = correction.apply(scores)
    assert_array_equal(np.isinf(corrected), np.isinf(scores))
    assert corrected[0, 1] == -np.inf and corrected[1, 2] == np.inf


def test_counts_from_tables_of_repeated_vectors_are_off_by_no_more_than_they_say() -> None:
    items, some = sets(of_all_lengths, 64)
    bank = np.repeat(some[:60], 5, axis=0)
    exact = cast("Rescore", unhub.fit(items, bank, method="gc", similarity="dot"))
    scores = some @ items.T
    for quantiles in (2, 5, 31, 150, 300, 400):
        correction = unhub.fit(items, bank, method="gc", similarity="dot", quantiles=quantiles)
        bound = -(-(len(bank) - 1) // (quantiles - 1)) - 1
        off = np.abs(correction.apply(scores) - exact.apply(scores))
        assert off.max() <= bound + 1e-6


def test_tables_of_rows_that_are_almost_of_length_one_do_not_count_a_query_as_closer_than_itself() -> None:
    items, bank = (unit(rows) for rows in sets(normal, 3))
    almost = bank * np.where(np.arange(BANK) % 2, 1 + 4e-7, 1 - 4e-7).astype(np.float32)[:, None]
    exact = unhub.fit(items, bank, method="gc")
    from_tables = unhub.fit(items * np.float32(1 + 4e-7), almost, method="gc", quantiles=BANK)
    scores = bank @ items.T
    np.testing.assert_allclose(from_tables.apply(scores), exact.apply(scores))


@KINDS
def test_tables_with_all_scores_count_as_the_scores_themselves_do_in_near_ties(similarity: Kind) -> None:
    items, some = sets(normal, 3)
    noise = 1 + 1e-6 * np.random.default_rng(4).standard_normal((BANK, 3))
    bank = (some[np.arange(BANK) % 20] * noise).astype(np.float32)
    exact, tables = unhub.fit(items, bank, method=["gc", f"gc:quantiles={BANK}"], similarity=similarity)
    queries, columns = ready(bank, items, similarity)
    scores = queries @ columns.T
    assert_array_equal(tables.apply(scores), exact.apply(scores))
