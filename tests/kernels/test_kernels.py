"""Each kernel, compiled, plain and of torch, against its definition in float64, and the two here against each other."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from unhub.arrays import Float32, Float64
from unhub.compute import passes
from unhub.compute.passes import Want, reduce
from unhub.compute.reservoir import Reservoir
from unhub.compute.workers import Workers
from unhub.data.similarity import Dot
from unhub.data.vectors import as_vectors
from unhub.kernels import choose, plain

pytestmark = pytest.mark.once  # both kernels, in one run

BLOCKED = bool(os.environ.get("UNHUB_NO_NUMBA"))
needs_numba = pytest.mark.skipif(BLOCKED, reason="numba is blocked by UNHUB_NO_NUMBA")
both = pytest.mark.parametrize("name", ["plain", pytest.param("compiled", marks=needs_numba), "torch:cpu"])

# Which arguments of a kernel's function are tiles, which are tensors on a device; the others are always numpy arrays.
TILES = {
    "multiply_few": (0, 1, 2),
    "soften_rows": (0, 3),
    "soften_short_rows": (0, 3),
    "deviate_rows": (0, 3),
    "ready": (),
    "empty": (),
}

seeds = st.integers(0, 2**32 - 1)
sizes = st.one_of(st.integers(1, 6), st.integers(7, 70), st.integers(71, 700))


class OnTensors:
    """A kernel of torch that takes the arrays of the tests as tensors which share their memory."""

    def __init__(self, name: str) -> None:
        self.kernel = choose(name)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.kernel, name)

        def called(*given: Any) -> Any:
            tiles = TILES.get(name, (0,))
            return function(*(as_tensor(one) if place in tiles else one for place, one in enumerate(given)))

        return called


def as_tensor(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    return torch.from_numpy(array.view(np.int16) if array.dtype == np.uint16 else array)


def kernel(name: str) -> Any:
    return OnTensors(name) if name.startswith("torch") else importlib.import_module(f"unhub.kernels.{name}")


# Tiles: random, with many ties, all equal, and with both zeros.

KINDS = (
    "normal",
    "few values",
    "equal",
    "zeros",
    "rising",
    "falling",
    "mostly the least",
    "mostly the largest",
    "tiny",
    "huge",
    "far away",
)


def tile_of(kind: str, rows: int, columns: int, rng: np.random.Generator) -> Float32:
    shape = (rows, columns)
    tiles: dict[str, NDArray[np.generic]] = {
        "normal": rng.standard_normal(shape),
        "few values": rng.integers(-2, 3, shape) / 2,
        "equal": np.full(shape, rng.choice([-1.5, 0.0, 0.25])),
        "zeros": rng.choice([0.0, -0.0], shape),
        "rising": np.sort(rng.standard_normal(shape), axis=1),
        "falling": -np.sort(rng.standard_normal(shape), axis=1),
        "mostly the least": np.maximum(rng.standard_normal(shape), 1.8),
        "mostly the largest": np.minimum(rng.standard_normal(shape), -1.8),
        "tiny": rng.integers(-3, 4, shape) * 1e-45,
        "huge": rng.standard_normal(shape) * 1e30,
        "far away": rng.standard_normal(shape) + 1e6,
    }
    return tiles[kind].astype(np.float32)


def cut(columns: int, rng: np.random.Generator, most: int) -> list[slice]:
    """Cut columns into random neighbouring parts, at most so many."""
    edges = [0, *sorted(rng.integers(0, columns + 1, rng.integers(0, most)).tolist()), columns]
    return [slice(one, two) for one, two in pairwise(edges) if two > one]


# Log-sums.


def log_sums(name: str, parts: list[Float32], betas: list[float]) -> Float64:
    """Stream the parts through the kernel and return logsumexp(beta * score), (rows, betas)."""
    rows = len(parts[0])
    slopes = np.array(betas, np.float32)
    peak, sums = np.full(rows, -np.inf, np.float32), np.zeros((rows, len(betas)))
    for part in parts:
        kernel(name).add_log_sums(part.copy(), slopes, peak, sums)
    return np.asarray(np.log(sums) + slopes.astype(np.float64) * peak[:, None])


@both
def test_log_sums_by_hand(name: str) -> None:
    tile = np.log(np.array([[1, 3], [2, 2]], np.float32))
    assert_allclose(log_sums(name, [tile], [1, 2]), np.log([[4, 10], [4, 8]]), rtol=1e-6)
    assert_allclose(log_sums(name, [tile[:, :1], tile[:, 1:]], [1, 2]), np.log([[4, 10], [4, 8]]), rtol=1e-6)


@both
@given(seed=seeds, rows=st.integers(1, 5), columns=sizes, kind=st.sampled_from(KINDS), scale=st.sampled_from([1, 50]))
@settings(max_examples=60)
def test_log_sums_are_those_of_float64_in_any_parts(
    name: str, seed: int, rows: int, columns: int, kind: str, scale: int
) -> None:
    rng = np.random.default_rng(seed)
    tile = scale * tile_of(kind, rows, columns, rng)
    betas = [0.1, 1.0, 20.0, 1000.0]
    found = log_sums(name, [tile[:, part] for part in cut(columns, rng, 5)], betas)
    for column, beta in enumerate(np.array(betas, np.float32).astype(np.float64)):
        exact = logsumexp(beta * tile.astype(np.float64), axis=1)
        # float32 rounds beta * (score - peak), which matters where it is near 0: by 6e-8 of it, at most 87 of that
        assert_allclose(found[:, column], exact, rtol=1e-6, atol=5e-6)


@both
@given(seed=seeds, rows=st.integers(1, 60), columns=sizes, beta=st.sampled_from([0.01, 1.0, 20.0, 80.0]))
@settings(max_examples=60)
@example(seed=0, rows=300, columns=passes.MOST_COLUMNS, beta=80.0)
def test_powers_are_those_of_float64_in_any_parts(name: str, seed: int, rows: int, columns: int, beta: float) -> None:
    rng = np.random.default_rng(seed)
    tile = rng.choice([-1.0, 1.0, 0.999, *rng.uniform(-1, 1, 20)], (rows, columns)).astype(np.float32)
    before, sums = tile.copy(), np.zeros((rows, 2))
    for part in cut(columns, rng, 5):
        kernel(name).add_powers(np.ascontiguousarray(tile[:, part]), np.array([beta, 1], np.float32), sums)
    powers = np.exp(np.float64(np.float32(beta)) * tile.astype(np.float64)).sum(axis=1)
    assert_allclose(sums[:, 0], powers, rtol=1e-6 + 2e-7 * beta)  # float32 rounds beta * score
    assert_allclose(sums[:, 1], np.exp(tile.astype(np.float64)).sum(axis=1), rtol=1e-6)
    assert_array_equal(tile, before)


@pytest.mark.parametrize("sum_exp", [plain.sum_exp_of_numpy, plain.sum_exp_of_fractions])
def test_either_plain_exponential_is_nearly_exact(sum_exp: Callable[..., Float32]) -> None:
    x = np.concatenate([np.linspace(-80, 80, 160_001), np.geomspace(1e-9, 1, 200), [0.0, -0.0]]).astype(np.float32)
    slab = np.stack([x, np.full_like(x, -80)], axis=1)  # the second adds next to nothing
    found = sum_exp(slab, np.float32(1), np.ones(2, np.float32), np.empty((3, *slab.shape), np.float32))
    # float32 rounds the exponent, 115 at most, and the exponential has an error of 4.4e-7 itself
    assert_allclose(found, np.exp(slab.astype(np.float64)).sum(axis=1), rtol=1e-6 + 115 * 2**-24)


FORK = """
import os, threading, time
import numpy as np
from unhub.kernels import choose, plain
while plain._TURNS.acquire(blocking=False):  # other threads have all turns
    pass
child = os.fork()
if child == 0:
    sums = np.zeros((2, 1))
    plain.add_powers(np.zeros((2, 3), np.float32), np.ones(1, np.float32), sums)
    os._exit(int(sums.sum()))
for _ in range(200):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
print(os.waitstatus_to_exitcode(status) if done else "hangs")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_turns_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "6"


@pytest.mark.parametrize(
    ("config", "quick"),
    [
        ({}, False),
        ({"SIMD Extensions": {"baseline": ["X86_V2"], "found": ["X86_V3"], "not found": ["X86_V4"]}}, False),
        ({"SIMD Extensions": {"found": ["X86_V3", "X86_V4"]}}, True),
        ({"SIMD Extensions": {"baseline": ["AVX2", "AVX512F"]}}, True),
    ],
)
def test_which_exponential_is_quicker_is_known_by_what_numpy_was_built_for(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, dict[str, list[str]]], quick: bool
) -> None:
    monkeypatch.setattr(np, "show_config", lambda mode: config)
    assert plain._is_exp_quick() == quick


@needs_numba
def test_the_compiled_exponential_is_exact_to_float32() -> None:
    exp2_ = kernel("compiled").exp2_
    x = np.concatenate([np.linspace(-125, 120, 8001), -np.geomspace(1e-9, 1, 200), [0.0, -0.0]]).astype(np.float32)
    found = np.array([exp2_(one) for one in x], np.float64)
    assert_allclose(found, np.exp2(x.astype(np.float64)), rtol=2.5e-7)


@needs_numba
def test_the_compiled_exponential_is_next_to_nothing_below_its_range() -> None:
    exp2_ = kernel("compiled").exp2_
    found = [float(exp2_(np.float32(x))) for x in (-125.6, -150, -1e6, -1e30, -np.inf)]
    assert all(0 <= one < 2e-38 for one in found)


# Reservoirs.


def filled(name: str, tile: Float32, k: int, parts: list[slice], first: int = 0) -> Reservoir:
    """Stream the parts of a tile through the kernel; after each, the reservoir holds the k largest so far."""
    reservoir = Reservoir(len(tile), k, tile.shape[1], kernel(name))
    for part in parts:
        kernel(name).add_top(
            np.ascontiguousarray(tile[:, part]),
            first + part.start,
            k,
            reservoir.values,
            reservoir.places,
            reservoir.counts,
            reservoir.bars,
        )
        assert (reservoir.counts >= min(k, part.stop)).all()
        assert (reservoir.counts <= reservoir.values.shape[1]).all()
    return reservoir


def assert_holds_the_largest(reservoir: Reservoir, tile: Float32, k: int, first: int = 0) -> None:
    """Compare with a stable sort: the largest first, of equal values the lower place first."""
    order = np.argsort(-tile, axis=1, kind="stable")[:, :k]
    values, places = reservoir.best()
    assert_array_equal(values, np.take_along_axis(tile, order, axis=1))
    assert_array_equal(places, order + first)
    padded = np.full((len(tile), k), -np.inf, np.float32)
    padded[:, : order.shape[1]] = np.take_along_axis(tile, order, axis=1)
    assert_array_equal(np.sort(reservoir.best_values(), axis=1)[:, ::-1], padded)


@both
def test_the_largest_by_hand(name: str) -> None:
    tile = np.array([[0.5, 2.0, 1.0], [1.0, 1.0, 1.0]], np.float32)
    for k in (1, 2, 3, 4):
        assert_holds_the_largest(filled(name, tile, k, [slice(0, 3)]), tile, k)
        assert_holds_the_largest(filled(name, tile, k, [slice(0, 1), slice(1, 3)]), tile, k)


@both
def test_the_largest_of_equal_values_are_the_first(name: str) -> None:
    for value, k, columns in product([0.0, -0.0, -3.5, 1e-45], [1, 3, 128], [1, 31, 32, 33, 200, 1000]):
        tile = np.full((2, columns), value, np.float32)
        half = columns // 2
        parts = [slice(0, half), slice(half, columns)] if half else [slice(0, 1)]
        assert_holds_the_largest(filled(name, tile, k, parts), tile, k)
        assert_holds_the_largest(filled(name, tile, k, [slice(0, columns)]), tile, k)


@both
@given(
    seed=seeds,
    rows=st.integers(1, 4),
    columns=st.one_of(sizes, st.integers(700, 3000)),
    k=sizes,
    kind=st.sampled_from(KINDS),
    parts=st.integers(1, 40),
    first=st.sampled_from([0, 5, 2_000_000_000]),
)
@settings(max_examples=150)
@example(seed=0, rows=1, columns=1, k=1, kind="normal", parts=1, first=0)
@example(seed=0, rows=1, columns=1, k=7, kind="zeros", parts=1, first=0)
@example(seed=0, rows=2, columns=3000, k=1, kind="rising", parts=40, first=0)
@example(seed=0, rows=2, columns=3000, k=600, kind="rising", parts=40, first=0)
def test_a_reservoir_holds_the_largest_and_the_first_of_equals(
    name: str, seed: int, rows: int, columns: int, k: int, kind: str, parts: int, first: int
) -> None:
    rng = np.random.default_rng(seed)
    tile = tile_of(kind, rows, columns, rng)
    assert_holds_the_largest(filled(name, tile, k, cut(columns, rng, parts), first), tile, k, first)


@both
@given(seed=seeds, k=st.integers(1, 200), kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=12))
@settings(max_examples=80)
def test_a_reservoir_holds_the_largest_when_tiles_change_in_kind(
    name: str, seed: int, k: int, kinds: list[str]
) -> None:
    rng = np.random.default_rng(seed)
    tiles = [tile_of(kind, 3, int(rng.integers(1, 300)), rng) + np.float32(rng.integers(-1, 2)) for kind in kinds]
    edges = np.cumsum([0, *(tile.shape[1] for tile in tiles)]).tolist()
    parts = [slice(one, two) for one, two in pairwise(edges)]
    whole = np.concatenate(tiles, axis=1)
    assert_holds_the_largest(filled(name, whole, k, parts), whole, k)


@both
@given(
    seed=seeds, columns=st.integers(1, 2000), k=sizes, kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=9)
)
@settings(max_examples=80)
@example(seed=0, columns=1000, k=10, kinds=["normal", "huge", "normal", "equal", "far away", "normal"])
def test_a_reservoir_holds_the_largest_whatever_the_rows_before_were_like(
    name: str, seed: int, columns: int, k: int, kinds: list[str]
) -> None:
    rng = np.random.default_rng(seed)
    tile = np.concatenate([tile_of(kind, 1, columns, rng) for kind in kinds])
    assert_holds_the_largest(filled(name, tile, k, cut(columns, rng, 3)), tile, k)
    best = np.argsort(-tile, axis=1, kind="stable")[:, :k]
    none = np.zeros(columns, np.float32)
    _, _, found = placed(name, tile, none, np.zeros(len(tile), np.float32), [[] for _ in kinds], min(k, columns))
    assert_array_equal(found, best)


@both
@pytest.mark.parametrize("k", [1, 5, 40])
def test_a_reservoir_holds_the_largest_that_float32_can_hold(name: str, k: int) -> None:
    tile = np.random.default_rng(0).uniform(-3.4e38, 3.4e38, (20, 3000)).astype(np.float32)
    tile[10:] = np.abs(tile[10:])
    assert_holds_the_largest(filled(name, tile, k, [slice(0, 2000), slice(2000, 3000)]), tile, k)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_a_pass_brings_back_all_that_is_wanted_at_once(kind: Literal["cosine", "dot"], threads: int) -> None:
    rng = np.random.default_rng(0)
    items, bank = rng.standard_normal((300, 16)), rng.standard_normal((3000, 16))
    items[0] = bank[0]
    if kind == "cosine":
        items /= np.linalg.norm(items, axis=1, keepdims=True)
        bank /= np.linalg.norm(bank, axis=1, keepdims=True)
    betas, counts = (1000.0, 20.0, 80.0, 80.1, 0.1), (1, 3, 50)
    similarity = Dot(as_vectors(bank, "bank"), as_vectors(items, "items"), kind)
    found = reduce(similarity, Want(betas=betas, top_means=counts, top_values=20), Workers(threads))
    scores = items @ bank.T
    for beta in betas:
        # float32 rounds scores, of up to 40 here, and beta times them
        assert_allclose(found.log_sums[beta], logsumexp(beta * scores, axis=1), rtol=1e-5, atol=2e-5)
    best = -np.sort(-scores, axis=1)
    assert_allclose(found.top_values, best[:, :20], rtol=1e-5, atol=1e-6)
    for k in counts:
        assert_allclose(found.top_means[k], best[:, :k].mean(axis=1), rtol=1e-5, atol=1e-6)


@given(rows=st.integers(1, 10_000))
def test_a_tile_is_small_and_its_rows_begin_at_unlike_addresses(rows: int) -> None:
    columns = passes.columns_per_tile(rows)
    assert min(rows, passes.TILE_ROWS) * columns <= passes.TILE_ENTRIES
    assert columns * np.exp(passes.MOST_EXPONENT) < np.finfo(np.float32).max
    assert columns % 32 == 16


def test_the_steepest_powers_of_equal_vectors_do_not_overflow() -> None:
    same = as_vectors(np.ones((2 * passes.MOST_COLUMNS, 1)), "bank")
    found = reduce(Dot(same, as_vectors(np.ones((1, 1)), "items")), Want(betas=(passes.MOST_EXPONENT,)), Workers(1))
    assert found.log_sums[passes.MOST_EXPONENT] == pytest.approx(passes.MOST_EXPONENT + np.log(len(same)), rel=1e-6)


# The best of each column.


@both
def test_the_best_of_a_column_by_hand(name: str) -> None:
    best, where = np.full(3, -np.inf, np.float32), np.full(3, -1, np.int32)
    kernel(name).add_column_best(np.array([[1, 2, -1], [1, 3, -2]], np.float32), 10, best, where)
    assert (best.tolist(), where.tolist()) == ([1, 3, -1], [10, 11, 10])
    kernel(name).add_column_best(np.array([[1, 4, -0.5]], np.float32), 12, best, where)
    assert (best.tolist(), where.tolist()) == ([1, 4, -0.5], [10, 12, 12])


@both
@given(seed=seeds, rows=sizes, columns=sizes, kind=st.sampled_from(KINDS))
@settings(max_examples=60)
def test_the_best_of_a_column_is_the_first_of_the_largest(
    name: str, seed: int, rows: int, columns: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    tile = np.ascontiguousarray(tile_of(kind, columns, rows, rng).T)
    best, where = np.full(columns, -np.inf, np.float32), np.full(columns, -1, np.int32)
    for part in cut(rows, rng, 4):
        kernel(name).add_column_best(tile[part], part.start, best, where)
    assert_array_equal(where, tile.argmax(axis=0))
    assert_array_equal(best, tile.max(axis=0))


# Placing.


def placed(
    name: str, tile: Float32, h: Float32, gate: Float32, answers: list[list[int]], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Return how many columns are over and level with each answer, and each row's k best columns."""
    starts = np.cumsum([0, *map(len, answers)])
    positions = np.array([column for several in answers for column in several], np.int64)
    better, equal = np.full(len(positions), -1), np.full(len(positions), -1)
    best = np.full((len(tile), k), -1, np.int32)
    kernel(name).place_rows(tile, h, gate, starts, positions, better, equal, best)
    return better, equal, best


@both
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 9), columns=st.integers(1, 300))
@settings(max_examples=20)
def test_columns_over_bars_are_counted(name: str, seed: int, rows: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    tile = rng.integers(-3, 4, (rows, columns)).astype(np.float32)
    starts = np.cumsum([0, *rng.integers(0, 4, rows)])
    bars, owners = rng.integers(-3, 4, starts[-1]).astype(np.float32), np.repeat(np.arange(rows), np.diff(starts))
    over, equal = np.full(len(bars), 5), np.full(len(bars), 7)  # to be added to
    kernel(name).count_over(tile, starts, bars, over, equal)
    assert_array_equal(over, 5 + (tile[owners] > bars[:, None]).sum(axis=1))
    assert_array_equal(equal, 7 + (tile[owners] == bars[:, None]).sum(axis=1))


@both
def test_placing_by_hand(name: str) -> None:
    tile = np.array([[3, 1, 2, 2], [3, 1, 2, 2]], np.float32)
    h = np.array([1, 0, 0, -1], np.float32)  # the first row ranks 2, 1, 2, 3, the second as it is
    better, equal, best = placed(name, tile, h, np.array([1, 0], np.float32), [[2, 3], [3]], 3)
    assert (better.tolist(), equal.tolist()) == ([1, 0, 1], [2, 1, 2])
    assert best.tolist() == [[3, 0, 2], [0, 2, 3]]


@both
@given(
    seed=seeds,
    rows=st.integers(1, 6),
    columns=st.one_of(sizes, st.integers(700, 3000)),
    k=st.one_of(sizes, st.just(0)),
    kind=st.sampled_from(KINDS),
    other=st.sampled_from(KINDS),
)
@settings(max_examples=150)
@example(seed=0, rows=2, columns=3000, k=600, kind="equal", other="equal")
@example(seed=0, rows=2, columns=3000, k=10, kind="zeros", other="zeros")
@example(seed=0, rows=1, columns=1, k=1, kind="normal", other="normal")
def test_placing_is_comparing_with_all_and_a_stable_sort(
    name: str, seed: int, rows: int, columns: int, k: int, kind: str, other: str
) -> None:
    rng = np.random.default_rng(seed)
    tile, h = tile_of(kind, rows, columns, rng), tile_of(other, 1, columns, rng)[0]
    gate = rng.integers(0, 2, rows).astype(np.float32)
    answers = [rng.permutation(columns)[: rng.integers(0, 4)].tolist() for _ in range(rows)]
    before = tile.copy()
    better, equal, best = placed(name, tile, h, gate, answers, min(k, columns))
    assert_array_equal(tile, before)
    scores = np.where(gate[:, None] > 0, tile - h, tile)
    bars = [(scores[row], scores[row, column]) for row, several in enumerate(answers) for column in several]
    assert better.tolist() == [int((row > bar).sum()) for row, bar in bars]
    assert equal.tolist() == [int((row == bar).sum()) for row, bar in bars]
    assert_array_equal(best, np.argsort(-scores, axis=1, kind="stable")[:, :k])


@both
def test_placing_counts_more_columns_than_a_float32_can(name: str) -> None:
    columns = (1 << 24) + 10  # one less of them is odd, which a float32 over 2**24 is not
    tile = np.ones((1, columns), np.float32)
    tile[0, -1] = 0
    better, equal, _ = placed(name, tile, np.zeros(columns, np.float32), np.ones(1, np.float32), [[0, columns - 1]], 0)
    assert (better.tolist(), equal.tolist()) == ([0, columns - 1], [columns - 1, 1])


# Sinkhorn.


any_softening = given(
    seed=seeds,
    rows=st.integers(1, 40),
    columns=sizes,
    kind=st.sampled_from(KINDS),
    beta=st.sampled_from([0.1, 1.0, 20.0, 100.0, 1000.0]),
)


@both
def test_softening_by_hand(name: str) -> None:
    tile = np.log(np.array([[1, 6], [9, 6]], np.float32))
    totals, logs = np.ones(2), np.empty(2)
    kernel(name).soften_rows(tile, np.log(np.array([1, 2], np.float32)), 1.0, tile, totals, logs)  # rows 1, 3 and 9, 3
    assert_allclose(tile, [[0.25, 0.75], [0.75, 0.25]], rtol=1e-6)
    assert_allclose(totals, [2, 2], rtol=1e-6)  # added to what was there
    assert_allclose(logs, np.log([4, 12]), rtol=1e-6)


@both
@any_softening
@settings(max_examples=60)
def test_softening_is_the_softmax_of_float64(
    name: str, seed: int, rows: int, columns: int, kind: str, beta: float
) -> None:
    rng = np.random.default_rng(seed)
    scores, h = tile_of(kind, rows, columns, rng), rng.standard_normal(columns).astype(np.float32)
    soft, totals, logs = np.empty_like(scores), np.zeros(columns), np.empty(rows)
    before = scores.copy()
    kernel(name).soften_rows(scores, h, beta, soft, totals, logs)
    assert_array_equal(scores, before)
    exact = beta * (scores - h).astype(np.float64)
    # what float32 loses of beta * (score - h) comes back as a relative error of its exponential
    slack = 1e-6 * (10 + beta)
    assert_allclose(soft, softmax(exact, axis=1), rtol=slack, atol=1e-30)
    assert_allclose(totals, softmax(exact, axis=1).sum(axis=0), rtol=slack, atol=1e-30)
    assert_allclose(logs, logsumexp(exact, axis=1), rtol=1e-6, atol=1e-5)


@both
@given(seed=seeds, columns=st.integers(1, 100), spread=st.sampled_from([0.1, 1.0, 20.0, 1e4]))
@settings(max_examples=40)
def test_softening_in_place_of_rows_at_any_height_beside_each_other(
    name: str, seed: int, columns: int, spread: float
) -> None:
    """A row's level is guessed from the row before: it may be right, too low or too high by any amount."""
    rng = np.random.default_rng(seed)
    heights = spread * rng.standard_normal((30, 1))
    scores = (heights + rng.standard_normal((30, columns))).astype(np.float32)
    soft, totals, logs = scores.copy(), np.zeros(columns), np.empty(30)
    kernel(name).soften_rows(soft, np.zeros(columns, np.float32), 5.0, soft, totals, logs)
    exact = 5 * scores.astype(np.float64)
    assert_allclose(soft, softmax(exact, axis=1), rtol=1e-5, atol=2.0**-117)  # what unhub.compute.sinkhorn counts on
    assert_allclose(logs, logsumexp(exact, axis=1), rtol=1e-6, atol=1e-5)


@both
@given(data=st.data(), rows=st.integers(1, 20), columns=st.integers(1, 70))
@settings(max_examples=60)
def test_rows_with_a_number_that_is_not_finite_are_found(
    name: str, data: st.DataObject, rows: int, columns: int
) -> None:
    values = st.sampled_from([0.0, -0.0, 1.0, -3e38, 3e38, 1e-45])
    block = np.full((rows, columns), data.draw(values), np.float32)
    places = data.draw(st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1)), max_size=6))
    for row, column in places:
        block[row, column] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    finite = np.ones(rows, np.bool_)
    kernel(name).are_finite(block, finite)
    assert_array_equal(finite, [row not in {one for one, _ in places} for row in range(rows)])


def softened(rows: int, columns: int, rng: np.random.Generator) -> Float32:
    return np.asarray(softmax(3 * rng.standard_normal((rows, columns)), axis=1), np.float32)


@both
def test_a_sweep_by_hand(name: str) -> None:
    totals, sums = np.ones(2), np.empty(2)
    kernel(name).balance_rows(
        np.array([[0.25, 0.75], [0.5, 0.5]], np.float32), np.array([4, 2], np.float32), totals, sums
    )
    assert_allclose(sums, [2.5, 3])
    assert_allclose(totals, [1 + 0.1 + 1 / 6, 1 + 0.3 + 1 / 6], rtol=1e-6)


@both
@given(seed=seeds, rows=st.integers(1, 40), columns=sizes, short=st.booleans())
@settings(max_examples=60)
def test_a_sweep_is_that_of_float64(name: str, seed: int, rows: int, columns: int, short: bool) -> None:
    rng = np.random.default_rng(seed)
    kept, scale = softened(rows, columns, rng), np.exp(5 * rng.standard_normal(columns)).astype(np.float32)
    totals, sums = np.zeros(columns), np.empty(rows)
    if short:
        bits = shortened(kept)
        kept = lengthened(bits)
        kernel(name).balance_short_rows(bits, scale, totals, sums)
    else:
        kernel(name).balance_rows(kept, scale, totals, sums)
    exact = kept.astype(np.float64) @ scale.astype(np.float64)
    assert_allclose(sums, exact, rtol=1e-5)
    assert_allclose(totals, (kept / exact[:, None]).sum(axis=0), rtol=1e-5)


@both
@pytest.mark.parametrize(("rows", "columns"), [(70, 255), (131, 300), (66, 1030), (9, 33_000), (64, 256), (3, 70_000)])
def test_sinkhorn_on_long_rows_and_many_is_that_of_float64(name: str, rows: int, columns: int) -> None:
    """Rows in several pieces, and longer ones than are fetched ahead; rows that are handed over before the end."""
    rng = np.random.default_rng(rows)
    scores, h = rng.standard_normal((rows, columns)).astype(np.float32), np.zeros(columns, np.float32)
    soft, bits = np.empty_like(scores), np.empty(scores.shape, np.uint16)
    exact = softmax(2 * scores.astype(np.float64), axis=1)
    for soften, out in ((kernel(name).soften_rows, soft), (kernel(name).soften_short_rows, bits)):
        totals, logs = np.zeros(columns), np.empty(rows)
        soften(scores, h, 2.0, out, totals, logs)
        assert_allclose(totals, exact.sum(axis=0), rtol=2e-5)
        assert_allclose(logs, logsumexp(2 * scores.astype(np.float64), axis=1), rtol=1e-5)
    assert_allclose(soft, exact, rtol=2e-5)
    assert_allclose(lengthened(bits), exact, rtol=1.1 * 2**-10)
    scale = np.exp(rng.standard_normal(columns)).astype(np.float32)
    for balance, kept in ((kernel(name).balance_rows, soft), (kernel(name).balance_short_rows, bits)):
        totals, sums = np.zeros(columns), np.empty(rows)
        balance(kept, scale, totals, sums)
        wide = (soft if kept is soft else lengthened(bits)).astype(np.float64)
        assert_allclose(sums, wide @ scale, rtol=1e-5)
        assert_allclose(totals, (wide / (wide @ scale)[:, None]).sum(axis=0), rtol=2e-5)


@both
@pytest.mark.parametrize("short", [False, True])
def test_totals_of_many_rows_lose_little(name: str, short: bool) -> None:
    """A float32 sum of 60,000 equal shares is off by 2e-4 and more."""
    kept = np.tile(np.array([0.3, 0.7], np.float32), (60_000, 1))
    totals, sums = np.zeros(2), np.empty(len(kept))
    if short:
        bits = shortened(kept)
        kept = lengthened(bits)
        kernel(name).balance_short_rows(bits, np.ones(2, np.float32), totals, sums)
    else:
        kernel(name).balance_rows(kept, np.ones(2, np.float32), totals, sums)
    wide = kept.astype(np.float64)
    assert_allclose(totals, (wide / wide.sum(axis=1, keepdims=True)).sum(axis=0), rtol=2e-5)
    totals, logs = np.zeros(2), np.empty(len(kept))
    kernel(name).soften_rows(np.log(kept), np.zeros(2, np.float32), 1.0, np.empty_like(kept), totals, logs)
    assert_allclose(totals, (wide / wide.sum(axis=1, keepdims=True)).sum(axis=0), rtol=2e-5)


@both
@given(seed=seeds, rows=st.integers(1, 9), columns=sizes, rise=st.sampled_from([0.1, 1.0, 30.0, 1e6]))
@settings(max_examples=40)
def test_shares_are_kept_where_they_rise_over_a_draw(
    name: str, seed: int, rows: int, columns: int, rise: float
) -> None:
    rng = np.random.default_rng(seed)
    shares, rises = softened(rows, columns, rng), (rise * rng.uniform(0.5, 2, rows)).astype(np.float32)
    draws, places = rng.random(columns + 50, np.float32), rng.integers(0, 50, rows)
    counts, where, values = kernel(name).keep_shares(shares, rises, draws, places)
    windows = np.stack([draws[place : place + columns] for place in places])
    kept = shares * rises[:, None] > windows
    assert_array_equal(counts, kept.sum(axis=1))
    assert_array_equal(where, np.nonzero(kept)[1])
    assert_allclose(values, np.maximum(shares, 1 / rises[:, None])[kept], rtol=1e-6)


@both
@given(seed=seeds, rows=st.integers(1, 9), columns=sizes)
@settings(max_examples=40)
def test_a_sweep_over_entries_is_that_over_a_matrix_of_them(name: str, seed: int, rows: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((rows, columns)) < 0.2, rng.random((rows, columns)), 0).astype(np.float32)
    places = np.nonzero(matrix)
    starts = np.concatenate([[0], np.cumsum((matrix > 0).sum(axis=1))]).astype(np.int64)
    scale, rests, gains = np.exp(3 * rng.standard_normal(columns)), rng.random(rows) + 0.01, rng.random(rows)
    totals, sums = np.ones(columns), np.empty(rows)
    entries = starts, places[1].astype(np.int32), matrix[places]
    kernel(name.replace("torch:cpu", "plain")).balance_entries(*entries, scale, rests, gains, totals, sums)
    assert_allclose(sums, rests + matrix @ scale, rtol=1e-6)
    assert_allclose(totals, 1 + (gains / sums) @ matrix, rtol=1e-6)


def lengthened(bits: NDArray[np.uint16]) -> Float32:
    return np.asarray((bits.astype(np.uint32) << 14).view(np.float32))


def shortened(values: Float32) -> NDArray[np.uint16]:
    return ((values.view(np.uint32) + np.uint32(1 << 13)) >> np.uint32(14)).astype(np.uint16)


@both
@any_softening
@settings(max_examples=60)
def test_softening_short_rows_rounds_what_softening_gives(
    name: str, seed: int, rows: int, columns: int, kind: str, beta: float
) -> None:
    rng = np.random.default_rng(seed)
    tile, h = tile_of(kind, rows, columns, rng), rng.standard_normal(columns).astype(np.float32)
    before, full, totals, logs = tile.copy(), np.empty_like(tile), np.ones(columns), np.empty(rows)
    kernel(name).soften_rows(tile, h, beta, full, totals, logs)
    short, short_totals, short_logs = np.empty(tile.shape, np.uint16), np.ones(columns), np.empty(rows)
    kernel(name).soften_short_rows(tile, h, beta, short, short_totals, short_logs)
    assert_array_equal(tile, before)
    nearest = 1.0001 * 2**-10  # what is cut off instead of rounded is up to twice as far; a sum may have another order
    assert_allclose(lengthened(short), full, rtol=nearest, atol=1e-40)
    assert_allclose(short_totals, totals, rtol=1e-5)
    assert_allclose(short_logs, logs, rtol=1e-6, atol=1e-6)


# The two kernels against each other, where their results must be the same to the bit.


@needs_numba
@given(seed=seeds, rows=st.integers(1, 20), columns=sizes, k=sizes, kind=st.sampled_from(KINDS))
@settings(max_examples=60)
def test_both_kernels_hold_the_same_values_and_places(seed: int, rows: int, columns: int, k: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    tile = tile_of(kind, rows, columns, rng)
    parts = cut(columns, rng, 6)
    one, two = (filled(name, tile, k, parts).best() for name in ("plain", "compiled"))
    assert_array_equal(one[0], two[0])
    assert_array_equal(one[1], two[1])


@needs_numba
@given(seed=seeds, rows=st.integers(1, 20), columns=sizes, k=sizes, kind=st.sampled_from(KINDS))
@settings(max_examples=60)
def test_both_kernels_place_alike(seed: int, rows: int, columns: int, k: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    tile, h = tile_of(kind, rows, columns, rng), rng.standard_normal(columns).astype(np.float32)
    gate = rng.integers(0, 2, rows).astype(np.float32)
    answers = [rng.permutation(columns)[: rng.integers(0, 4)].tolist() for _ in range(rows)]
    one, two = (placed(name, tile, h, gate, answers, min(k, columns)) for name in ("plain", "compiled"))
    for plainly, compiled in zip(one, two, strict=True):
        assert_array_equal(plainly, compiled)


@needs_numba
@given(seed=seeds, rows=st.integers(1, 20), columns=sizes, kind=st.sampled_from(KINDS))
@settings(max_examples=40)
def test_both_kernels_give_the_same_log_sums_and_shares(seed: int, rows: int, columns: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    tile = tile_of(kind, rows, columns, rng)
    betas = [0.5, 20.0, 100.0]
    assert_allclose(log_sums("plain", [tile], betas), log_sums("compiled", [tile], betas), rtol=1e-6, atol=5e-6)
    shares = []
    for name in ("plain", "compiled"):
        one, totals, logs = tile.copy(), np.zeros(columns), np.empty(rows)
        kernel(name).soften_rows(one, np.zeros(columns, np.float32), 20.0, one, totals, logs)
        shares.append(one)
    assert_allclose(shares[0], shares[1], rtol=2e-5, atol=1e-30)


@given(seed=seeds, rows=st.integers(1, 30), columns=sizes, entries=st.integers(1, 3000))
@settings(max_examples=40)
def test_plain_kernels_do_the_same_in_slabs_of_any_size(seed: int, rows: int, columns: int, entries: int) -> None:
    rng = np.random.default_rng(seed)
    tile, scale = softened(rows, columns, rng), rng.random(columns, np.float32) + np.float32(0.5)
    found = []
    for size in (1 << 18, entries):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain, "CACHE_ENTRIES", size)
            totals, sums, logs, soft = np.zeros(columns), np.empty(rows), np.empty(rows), tile.copy()
            plain.balance_rows(tile, scale, totals, sums)
            plain.soften_rows(soft, scale, 20.0, soft, totals, logs)
            values, places = filled("plain", tile, 7, cut(columns, np.random.default_rng(seed), 4)).best()
            found.append((totals, sums, logs, soft, values, places, log_sums("plain", [tile], [20.0])))
    for one, two in zip(*found, strict=True):
        assert_allclose(one, two, rtol=2e-6)


# Few rows by many.


@both
@given(rows=st.integers(1, 20), others=st.integers(1, 9), dimensions=st.integers(1, 40), seed=seeds)
@settings(deadline=None)
def test_few_rows_are_multiplied_by_many(name: str, rows: int, others: int, dimensions: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    left, right = (generator.standard_normal((n, dimensions)).astype(np.float32) for n in (rows, others))
    out = np.full((rows, others), np.nan, np.float32)
    kernel(name).multiply_few(left, right, out)
    assert_allclose(out, left.astype(np.float64) @ right.T.astype(np.float64), rtol=0, atol=1e-5 * dimensions)
