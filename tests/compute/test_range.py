"""Numbers at the ends of float32's range: a search, an evaluation and `apply` are right, or refuse in clear words."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import unhub
from tests.command import fail
from unhub import kernels
from unhub.arrays import Float32, Float64, Kind
from unhub.compute import passes
from unhub.compute.nearest import BiasedQueries, nearest
from unhub.compute.passes import BestItems, Want, reduce
from unhub.compute.reservoir import Reservoir
from unhub.compute.workers import Resources, Workers
from unhub.correction import Bias
from unhub.data.similarity import Dense
from unhub.data.vectors import as_vectors
from unhub.kernels import plain

LARGEST = float(np.finfo(np.float32).max)
ITEMS, BANK, QUERIES, DIMENSIONS = 40, 60, 6, 5
METHODS = ("raw", "nnn:k=7", "dn", "csls:k=3", "is:tau=0.05", "dis:tau=0.05")
REFUSALS = (
    "corrected scores beyond 3.40282e+38, the largest float32",
    "strength must be at most ",
    "so long that dot products overflow float32",
    "the similarities are too large for float32",
)


def cloud(seed: int, rows: int, length: float, spread: float) -> Float32:
    """Return rows whose lengths lie between `length` and `spread` times less."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((rows, DIMENSIONS))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return (directions * (length * spread ** -rng.random((rows, 1)))).astype(np.float32)


def or_refused(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or None where it says that numbers are too large."""
    try:
        return call()
    except ValueError as error:
        if not any(words in str(error) for words in REFUSALS):
            raise
        return None


def wide(rows: Float32, kind: Kind) -> Float64:
    out = rows.astype(np.float64)
    return out / np.linalg.norm(out, axis=1, keepdims=True) if kind == "cosine" else out


sizes = st.one_of(st.floats(-20, 19.2), st.sampled_from([-20.0, 18.5, 19.0, 19.2, 19.26]))
strengths = st.one_of(
    st.just(1.0),
    st.floats(-40, 39).map(lambda power: 10.0**power),
    st.floats(-40, 39).map(lambda power: -(10.0**power)),
)


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["cosine", "dot"]),
    method=st.sampled_from(METHODS),
    items=sizes,
    queries=sizes,
    spread=st.sampled_from([1.0, 10.0, 1e6]),
    strength=st.lists(strengths, min_size=1, max_size=QUERIES),
    seed=st.integers(0, 5),
    k=st.sampled_from([1, 3, ITEMS]),
    index=st.sampled_from(["exact", "exact", "faiss:Flat"]),
)
def test_a_search_is_right_at_any_size_or_says_that_it_cannot_be(
    kind: Kind,
    method: str,
    items: float,
    queries: float,
    spread: float,
    strength: list[float],
    seed: int,
    k: int,
    index: str,
) -> None:
    gallery = cloud(seed, ITEMS, 10.0**items, spread)
    bank, asked = (cloud(seed + more, rows, 10.0**queries, spread) for more, rows in ((10, BANK), (20, QUERIES)))
    correction = or_refused(lambda: unhub.fit(gallery, bank, method=method, similarity=kind, threads=1))
    if correction is None:
        assert kind == "dot"
        return
    weights = np.array([*strength, *[1.0] * (QUERIES - len(strength))])
    hits = or_refused(
        lambda: unhub.searcher(gallery, correction, index=index, threads=1).search(asked, k, strength=weights)
    )
    raw = wide(asked, kind) @ wide(gallery, kind).T
    if correction.active is not None:
        weights = weights * correction.active[raw.argmax(axis=1)]
    taken = weights[:, None] * correction.bias
    scores = raw - taken
    edge = LARGEST * (1 - 1e-3)
    if hits is None:
        too_large = max(np.abs(scores).max(), np.abs(taken).max(), np.abs(strength).max()) > edge
        assert too_large or 10.0 ** (2 * max(items, queries)) > edge
        return
    lengths = np.linalg.norm(wide(asked, kind), axis=1)[:, None] * np.linalg.norm(wide(gallery, kind), axis=1)
    # A bias is subtracted in float32, whose numbers near 0 are this far apart.
    apart = float(np.finfo(np.float32).smallest_subnormal) * np.abs(weights)
    off = 1e-37 + apart + 3e-6 * lengths.max(axis=1) + 3e-7 * np.abs(taken).max(axis=1)
    found = hits.ids.astype(np.int64)
    assert all(len(set(row)) == k for row in found.tolist())
    assert found.min() >= 0
    assert np.isfinite(hits.scores).all()
    best = -np.sort(-scores, axis=1)[:, :k]
    assert (np.abs(np.take_along_axis(scores, found, axis=1) - best) <= 2 * off[:, None]).all()
    assert (np.abs(hits.scores - best) <= 2 * off[:, None]).all()


def bent(strength: float = 1.0, size: float = 1.8e19) -> tuple[Float32, Bias, Float32]:
    """Return items, a correction and queries under dot: the first query's score of item 0 minus its h is below -3.4e38.

    That is so at 1.8e19; at half of it every score is finite, and so is every difference.
    """
    first = np.zeros((1, 8), np.float32)
    first[0, 0] = 1
    rest = cloud(0, 9, 0.1, 1.0)
    items = np.concatenate([first, np.pad(rest, ((0, 0), (0, 3)))]) * np.float32(size)
    fitted = unhub.fit(items, np.repeat(first, 50, axis=0) * np.float32(size), method="nnn:k=5", similarity="dot")
    assert isinstance(fitted, Bias)
    return items, fitted, np.concatenate([-first, first]) * np.float32(size)


def test_scores_beyond_float32_are_refused() -> None:
    items, correction, queries = bent()
    raw = queries @ items.T
    truth = {0: 0, 1: 0}
    for call in (
        lambda: unhub.searcher(items, correction).search(queries, 10),
        lambda: unhub.searcher(items, correction, index="faiss:HNSW8").search(queries, 10),
        lambda: unhub.searcher(items, correction).search_sets([queries[:1], queries[1:]], 10, combine="ra"),
        lambda: unhub.evaluate(queries, items, truth, {"x": correction}, ["R@1"], resamples=5),
        lambda: unhub.worst_hubs(queries, items, correction),
        lambda: correction.apply(raw),
    ):
        with pytest.raises(
            ValueError, match=r"^strength times a bias leaves .* beyond 3\.40282e\+38, the largest float32"
        ):
            call()


@pytest.mark.parametrize("index", ["exact", "faiss:Flat", "faiss:HNSW8", "faiss:IVF2,Flat"])
def test_long_vectors_whose_scores_are_finite_are_searched(index: str) -> None:
    items, correction, queries = bent(size=9e18)
    scores = queries.astype(np.float64) @ items.T.astype(np.float64) - correction.bias
    hits = unhub.searcher(items, correction, index=index).search(queries, 10)
    assert_array_equal(hits.ids, np.argsort(-scores, axis=1, kind="stable"))
    np.testing.assert_allclose(hits.scores, -np.sort(-scores, axis=1), rtol=1e-5)
    found = unhub.evaluate(queries, items, {0: 0, 1: 0}, {"x": correction}, ["MnR"], resamples=5)
    assert_array_equal(found.ranks[1], 1 + (scores > scores[:, :1]).sum(axis=1))


@pytest.mark.once
@pytest.mark.parametrize("size", [1e-9, 1.0, 100.0, 1e6, 1e12])
@pytest.mark.parametrize("index", ["faiss:HNSW32", "faiss:IVF8,Flat;nprobe=8"])
def test_faiss_finds_the_same_at_any_length_under_dot(index: str, size: float) -> None:
    rng = np.random.default_rng(0)
    items, bank, queries = (rng.standard_normal((rows, 16)) * size for rows in (1000, 300, 20))
    correction = unhub.fit(items, bank, method="nnn:k=10", similarity="dot")
    exact, found = (unhub.searcher(items, correction, index=one).search(queries, 10).ids for one in ("exact", index))
    assert np.mean([len({*one} & {*other}) / 10 for one, other in zip(exact, found, strict=True)]) >= 0.98


@pytest.fixture(scope="module")
def small() -> tuple[Float32, Bias, Float32]:
    items, bank, queries = (cloud(seed, rows, 1.0, 1.0) for seed, rows in ((0, ITEMS), (1, BANK), (2, QUERIES)))
    fitted = unhub.fit(items, bank)
    assert isinstance(fitted, Bias)
    return items, fitted, queries


@pytest.mark.parametrize("strength", [1e39, -1e39, [1, 1e39, 1, 1, -1e39, 1]])
def test_a_strength_that_float32_cannot_hold_is_refused(small: tuple[Float32, Bias, Float32], strength: Any) -> None:
    items, correction, queries = small
    words = r"^strength must be at most 3\.40282e\+38 in size, got -?1e\+39: beyond that float32 cannot hold the"
    searcher = unhub.searcher(items, correction)
    for call in (
        lambda: searcher.search(queries, ITEMS, strength=strength),
        lambda: searcher.search_sets([queries[:1]] * QUERIES, ITEMS, strength=strength),
        lambda: unhub.augment_queries(queries, correction, strength=strength),
        lambda: correction.apply(queries @ items.T, strength),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    if np.ndim(strength) == 0:
        with pytest.raises(ValueError, match=words):
            unhub.evaluate(queries, items, {0: 0}, correction, ["R@1"], strength=strength, resamples=5)


def test_a_strength_is_refused_where_its_product_with_the_bias_is_too_large() -> None:
    items, correction, queries = bent(size=1e10)
    limit = LARGEST / correction.largest
    searcher = unhub.searcher(items, correction)
    assert np.isfinite(searcher.search(queries, 10, strength=0.5 * limit).scores).all()
    with pytest.raises(
        ValueError, match=r"^strength must be at most .* in size, got .* \(the largest bias is 6.86727e"
    ):
        searcher.search(queries, 10, strength=1.01 * limit)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_no_bias_is_made_of_numbers_that_are_not_finite(small: tuple[Float32, Bias, Float32], bad: float) -> None:
    correction = small[1]
    bias = correction.bias.copy()
    bias[3] = bad
    with pytest.raises(ValueError, match=rf"^bias must be finite, got {bad} for item 3$"):
        dataclasses.replace(correction, arrays={"bias": bias})


@pytest.mark.once
def test_a_strength_out_of_range_is_bad_input_on_the_command_line(
    small: tuple[Float32, Bias, Float32], tmp_path: Any
) -> None:
    items, correction, queries = small
    for name, rows in (("items", items), ("queries", queries)):
        np.save(tmp_path / f"{name}.npy", rows)
    unhub.save(correction, tmp_path / "h.unhub")
    words = ("search", "--items", "items.npy", "--correction", "h.unhub", "--queries", "queries.npy", "--strength")
    assert "strength must be at most 3.40282e+38 in size, got 1e+39" in fail(tmp_path, *words, "1e39")


# Places that nothing was written to: scores of -inf, which cannot come in at the door, leave them.


def test_a_reservoir_names_no_place_that_was_not_filled() -> None:
    reservoir = Reservoir(3, 4, 6, kernels.choose())
    reservoir.places[:] = 10**9
    tile = np.full((3, 6), -np.inf, np.float32)
    tile[0, 2], tile[1, :5] = 1.0, [5, 4, 3, 2, 1]
    reservoir.add(tile, 10)
    values, places = reservoir.best()
    assert_array_equal(places, [[12, -1, -1, -1], [10, 11, 12, 13], [-1, -1, -1, -1]])
    assert_array_equal(values, [[1, *[-np.inf] * 3], [5, 4, 3, 2], [-np.inf] * 4])


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_search_leaves_open_what_nothing_fills() -> None:
    items = np.array([[-3e38, 3e38], [1, 0], [2, 0]], np.float32)
    queries = np.array([[2, -2], [1, 0]], np.float32)
    scores, places = nearest(BiasedQueries(queries), as_vectors(items, "items"), "dot", 3, Resources(1))
    assert_array_equal(places, [[2, 1, -1], [2, 1, 0]])
    assert_array_equal(scores, np.array([[4, 2, -np.inf], [2, 1, -3e38]], np.float32))


def test_best_items_of_different_counts_are_kept_apart() -> None:
    best = BestItems((7, 9), 6, 3, kernels.choose())
    first, second = np.full((2, 3, 2), -np.inf, np.float32)
    first[0, 1], first[:, 0], second[1] = 7, [1, 2, 3], 5
    take = best.open((7, 9))
    for number, tile in enumerate((first, second)):
        take(tile, 3 * number)
    best.close((7, 9))
    assert_array_equal(best.items, [[4, 2, 1], [0, 4, -1]])
    assert_array_equal(best.scores, [[5, 3, 2], [7, 5, -np.inf]])


@pytest.mark.parametrize("k", [1, 3])
def test_best_items_of_several_groups_are_joined_the_first_of_equals_first(
    monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    monkeypatch.setattr(passes, "STATE_BYTES", 1)  # 64 items at a time
    scores = np.random.default_rng(0).integers(0, 9, (5, 300)).astype(np.float32)
    found = reduce(Dense(scores), Want(best_items=k), Workers(1))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert_array_equal(found.best_items, order)
    assert_array_equal(found.best_scores, np.take_along_axis(scores, order, axis=1))


@pytest.mark.parametrize("place_rows", [kernels.choose().place_rows, plain.place_rows])
def test_a_row_is_placed_without_its_infinite_scores(place_rows: Any) -> None:
    tile = np.full((2, 6), -np.inf, np.float32)
    tile[0, 3], tile[1, :] = 1, np.arange(6)
    counts, best = np.empty((2, 0), np.int64), np.full((2, 3), 10**9, np.int32)
    zeros = np.zeros(6, np.float32)
    nobody = np.zeros(3, np.int64), np.empty(0, np.int64)
    place_rows(tile, zeros, np.ones(2, np.float32), *nobody, counts[0], counts[1], best)
    assert_array_equal(best, [[3, -1, -1], [5, 4, 3]])
