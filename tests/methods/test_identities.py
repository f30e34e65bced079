"""The identities between methods, and what must not matter: constants, orders, dtypes, layouts, blocks, threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import DTypeLike, NDArray

from tests import oracles
from tests.bank_cases import BIASES, GATED, ON_A_BANK, Floats, Sets, bias, drawn, fitted, whole, whole_h
from unhub.arrays import Kind
from unhub.compute import passes
from unhub.compute import sinkhorn as balance
from unhub.compute.workers import Workers
from unhub.correction import Bias, Correction
from unhub.data.similarity import Dense
from unhub.fitting import fit
from unhub.kernels import plain
from unhub.methods import parse

KINDS: list[Kind] = ["cosine", "dot"]


# One method as another.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 3, 301])
def test_csls_is_nnn_at_alpha_one_half(k: int, kind: Kind) -> None:
    sets = drawn(20).under(kind)
    assert_array_equal(bias(f"csls:k={k}", sets).bias, bias(f"nnn:k={k},alpha=0.5", sets).bias)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [0.25, 0.5, 1.0])
def test_dn_is_nnn_over_the_whole_bank(weight: float, kind: Kind) -> None:
    sets = drawn(21).under(kind)
    one, other = whole_h(bias(f"dn:lambda={weight}", sets)), whole_h(bias(f"nnn:k=301,alpha={weight}", sets))
    assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_cent_is_dn_at_lambda_one(kind: Kind) -> None:
    sets = drawn(22).under(kind)
    assert_array_equal(bias("cent", sets).bias, bias("dn:lambda=1", sets).bias)


def test_inverted_softmax_is_the_beta_half_step_of_sinkhorn_at_constant_alpha() -> None:
    sets = drawn(23, bank=200)
    tau, constant = 0.05, -3.0
    similarity = Dense(sets.bank_scores)
    half = balance.column_potentials(similarity, tau, np.full(200, constant), 41, workers())
    assert_allclose(half, whole_h(bias(f"is:tau={tau}", sets)) + tau * (constant + np.log(41)), atol=1e-6)


def test_a_whole_iteration_of_sinkhorn_is_not_inverted_softmax() -> None:
    sets = drawn(23)
    difference = whole_h(bias("sn:tau=0.05,iterations=1", sets)) - whole_h(bias("is:tau=0.05", sets))
    assert np.ptp(difference) > 0.01


def test_the_first_iteration_of_sinkhorn_is_its_half_step_at_the_alpha_it_keeps() -> None:
    sets = drawn(24)
    sn = bias("sn:tau=0.05,iterations=4", sets)
    kept = sn.arrays["log_alpha"].astype(np.float64)
    half = balance.column_potentials(Dense(sets.bank_scores), 0.05, kept, 41, workers())
    assert_allclose(half, whole_h(sn), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_dualis_at_beta_target_zero_is_inverted_softmax(kind: Kind) -> None:
    sets = drawn(25).under(kind)
    one, other = bias("dualis:beta_query=20,beta_target=0", sets), bias("is:beta=20", sets)
    assert_allclose(one.bias, other.bias, rtol=0, atol=1e-12 if kind == "dot" else 1e-14)


@pytest.mark.parametrize("tau", [0.01, 0.1])
def test_dbsn_without_bank_items_is_sinkhorn(tau: float) -> None:
    sets = drawn(26)
    without = fit(sets.items, sets.bank, method=f"dbsn:tau={tau}", threads=1)
    assert_array_equal(whole_h(without), whole_h(bias(f"sn:tau={tau}", sets)))


def test_dis_with_every_item_active_is_inverted_softmax() -> None:
    sets = drawn(27)
    dis, inverted = bias("dis:k=41", sets), bias("is", sets)
    assert dis.active is not None and dis.active.all()
    assert_array_equal(dis.apply(sets.query_scores), inverted.apply(sets.query_scores))


def test_dis_with_no_item_active_is_raw() -> None:
    sets = drawn(27)
    dis = bias("dis", sets)
    none = replace(dis, arrays={**dis.arrays, "active": np.zeros(41, bool)})
    assert_array_equal(none.apply(sets.query_scores), sets.query_scores)


def test_dis_corrects_a_query_or_leaves_it_alone() -> None:
    sets = drawn(28, bank=8)
    dis, inverted = bias("dis", sets), bias("is", sets)
    assert dis.active is not None
    gate = dis.active[sets.query_scores.argmax(axis=1)]
    assert 0 < gate.sum() < len(gate)
    expected = np.where(gate[:, None], inverted.apply(sets.query_scores), sets.query_scores)
    assert_array_equal(dis.apply(sets.query_scores), expected)


def test_dualdis_with_both_gates_open_is_dualis_and_with_none_is_raw() -> None:
    sets = drawn(29)
    scores = np.abs(sets.query_scores) + 0.01  # raw needs s > 0
    every, dual = fitted("dualdis:k=41", sets), fitted("dualis", sets)
    assert_array_equal(ranking(every, scores), ranking(dual, scores))
    shut = {"query_active": np.zeros(41, bool), "target_active": np.zeros(41, bool)}
    none = replace(every, arrays={**every.arrays, **shut})
    assert_array_equal(ranking(none, scores), oracles.ranking(scores))


def test_a_strength_of_zero_is_raw_and_of_one_half_is_half_the_bias() -> None:
    sets = drawn(30)
    nnn = bias("nnn", sets)
    assert_array_equal(nnn.apply(sets.query_scores, 0.0), sets.query_scores)
    assert_allclose(nnn.apply(sets.query_scores, 0.5), sets.query_scores - 0.5 * nnn.bias)


def ranking(correction: Correction, scores: Floats) -> NDArray[np.int64]:
    return oracles.ranking(np.asarray(correction.apply(scores), np.float64))


def workers() -> Workers:
    return Workers(1)


# What changes no ranking.


@pytest.mark.parametrize("constant", [-0.5, 1.0, 30.0])
@pytest.mark.parametrize("spec", [spec for spec in ON_A_BANK if parse(spec).name not in ("dualdis", "dbsn", "gc")])
def test_shifting_all_similarities_by_a_constant_changes_no_bias(spec: str, constant: float) -> None:
    sets = drawn(31)
    before, after = (
        fit(Dense(sets.bank_scores + c), method=spec, bank_items=Dense(sets.target_scores + c)) for c in (0, constant)
    )
    assert isinstance(before, Bias) and isinstance(after, Bias)
    assert_allclose(after.bias, before.bias, rtol=0, atol=1e-6 * (1 + abs(constant)))


@pytest.mark.parametrize("constant", [-0.5, 1.0])
def test_shifting_all_similarities_by_a_constant_changes_no_bias_of_dbsn(constant: float) -> None:
    sets = drawn(31)
    before, after = (
        fit(Dense(sets.bank_scores + c), method="dbsn", bank_items=Dense(sets.joint_scores + c)) for c in (0, constant)
    )
    assert isinstance(before, Bias) and isinstance(after, Bias)
    assert_allclose(after.bias, before.bias, rtol=0, atol=1e-6)


@pytest.mark.parametrize("spec", ["gc", "otn", "l2n", "hn"])
def test_shifting_all_similarities_by_a_constant_changes_no_ranking(spec: str) -> None:
    rng = np.random.default_rng(32)  # multiples of 1/64, so that a shift by 1/2 is exact
    bank, scores = rng.integers(-64, 65, (60, 15)) / 64, rng.integers(-64, 65, (15, 15)) / 64
    before, after = (ranking(fit(Dense(bank + c), method=spec), scores + c) for c in (0, 0.5))
    assert_array_equal(after, before)


@pytest.mark.parametrize("spec", ["otn", "l2n", "hn"])
def test_a_number_added_to_each_row_and_column_changes_no_plan_of_as_many_queries_as_items(spec: str) -> None:
    rng = np.random.default_rng(37)
    scores = rng.uniform(-0.2, 0.6, (15, 15))
    plan = fit(np.eye(15), method=spec, zeros="tied")
    shifted = scores + rng.normal(size=(15, 1)) + rng.normal(size=15) + 30
    assert_allclose(plan.apply(shifted), plan.apply(scores), rtol=0, atol=1e-9)


@pytest.mark.parametrize("spec", ON_A_BANK)
def test_reordering_the_bank_changes_nothing(spec: str) -> None:
    sets = drawn(33)
    rng = np.random.default_rng(33)
    shuffled = replace(sets, bank=rng.permutation(sets.bank), bank_items=rng.permutation(sets.bank_items))
    before, after = fitted(spec, sets), fitted(spec, shuffled)
    assert_allclose(after.apply(sets.query_scores), before.apply(sets.query_scores), rtol=0, atol=1e-6)


@pytest.mark.parametrize("spec", ON_A_BANK)
def test_reordering_the_items_permutes_h(spec: str) -> None:
    sets = drawn(34)
    order = np.random.default_rng(34).permutation(41)
    before, after = fitted(spec, sets), fitted(spec, replace(sets, items=sets.items[order]))
    expected = before.apply(sets.query_scores)[:, order]
    assert_allclose(after.apply(sets.query_scores[:, order]), expected, rtol=0, atol=1e-6)


# Hubs.


def with_hub(seed: int) -> Sets:
    """Sets in which each query scores about 0.45 on its own item, 0.48 on item 0, and 0 on the others."""
    rng = np.random.default_rng(seed)
    items = np.eye(60, 80)

    def asked(count: int) -> Floats:
        own = items[rng.integers(1, 60, count)]
        return np.asarray(0.48 * items[0] + 0.45 * own + 0.05 * rng.standard_normal((count, 80)))

    return Sets(items, asked(400), 0.4 * items[0] + 0.1 * rng.standard_normal((80, 80)), asked(40))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spec", [spec for spec in ON_A_BANK if spec != "raw"])
def test_a_planted_hub_loses_rank(spec: str, seed: int) -> None:
    sets = with_hub(seed)
    raw = place_of_hub(oracles.ranking(sets.query_scores))
    assert (raw == 0).mean() > 0.5  # it stands before the own item of most queries
    corrected = place_of_hub(ranking(fitted(spec, sets), sets.query_scores))
    assert corrected.mean() > raw.mean() + 0.15
    assert (corrected == 0).mean() < (raw == 0).mean()


def place_of_hub(order: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.argmax(order == 0, axis=1))


# What must not matter beyond rounding.


@contextmanager
def cut_small(tile: int, state: int) -> Iterator[None]:
    """Cut everything in small blocks, so that small sets have many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "TILE_ROWS", tile)
        patch.setattr(passes, "columns_per_tile", lambda rows: tile + 3)
        patch.setattr(passes, "STATE_BYTES", state)
        patch.setattr("unhub.arrays.BLOCK_BYTES", state)
        patch.setattr(balance, "TILE_BYTES", state)
        patch.setattr(plain, "CACHE_ENTRIES", tile)
        yield


def assert_same_correction(one: Correction, other: Correction, atol: float = 1e-6, places: bool = True) -> None:
    assert one.spec == other.spec
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        if array.dtype == bool or np.issubdtype(array.dtype, np.integer):
            assert not places or np.array_equal(array, other.arrays[name])
        else:
            scale = 100 if name == "log_alpha" else 1  # it is h / tau
            assert_allclose(array.astype(float), other.arrays[name].astype(float), rtol=1e-5, atol=scale * atol)
    if isinstance(one, Bias) and isinstance(other, Bias):
        assert one.offset == pytest.approx(other.offset, rel=1e-6, abs=atol)


@settings(max_examples=60)
@given(
    spec=st.sampled_from(ON_A_BANK),
    seed=st.integers(0, 9),
    items=st.integers(1, 60),
    bank=st.integers(10, 700),
    dimensions=st.integers(1, 9),
    tile=st.integers(1, 50),
    state=st.integers(1, 20_000),
    threads=st.integers(1, 4),
)
def test_blocks_and_threads_never_change_a_result_beyond_rounding(
    spec: str, seed: int, items: int, bank: int, dimensions: int, tile: int, state: int, threads: int
) -> None:
    if parse(spec).name in ("nnn", "csls", "dis", "dualdis"):
        items, bank = max(items, 3), max(bank, 10)
    sets = drawn(seed, items=items, bank=bank, dimensions=dimensions)
    expected = fitted(spec, sets)
    with cut_small(tile, state):
        found = fitted(spec, sets, threads=threads)
    # in few dimensions many items lie so near to a query that rounding decides which is best
    assert_same_correction(found, expected, places=dimensions > 4)


@settings(max_examples=30)
@given(
    spec=st.sampled_from([*BIASES, *GATED]),
    seed=st.integers(0, 9),
    tile=st.integers(1, 50),
    state=st.integers(1, 5_000),
    threads=st.integers(1, 4),
)
def test_blocks_and_threads_leave_ties_as_they_are(spec: str, seed: int, tile: int, state: int, threads: int) -> None:
    sets = whole(seed, items=30, bank=200)  # in tiles of a few numbers each, which is slow without numba
    expected = fitted(spec, sets)
    with cut_small(tile, state):
        assert_same_correction(fitted(spec, sets, threads=threads), expected, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("spec", ON_A_BANK)
def test_the_same_number_of_threads_gives_the_same_bits(spec: str, threads: int) -> None:
    sets = drawn(35, bank=1500, items=70)
    one, other = fitted(spec, sets, threads=threads), fitted(spec, sets, threads=threads)
    for name, array in one.arrays.items():
        assert array.tobytes() == other.arrays[name].tobytes()
    if isinstance(one, Bias) and isinstance(other, Bias):
        assert one.offset == other.offset


LAYOUTS = ("C", "Fortran", "every other row", "every other column", "backwards", "read-only", "mapped", "part of more")


def laid_out(rows: NDArray[np.generic], layout: str, path: Path) -> NDArray[np.generic]:
    """Return the same numbers lying otherwise in memory, or on disk."""
    n, d = rows.shape
    match layout:
        case "Fortran":
            return np.asfortranarray(rows)
        case "every other row":
            return np.repeat(rows, 2, axis=0)[::2]
        case "every other column":
            return np.repeat(rows, 2, axis=1)[:, ::2]
        case "backwards":
            return np.ascontiguousarray(rows[::-1])[::-1]
        case "mapped":
            np.save(path, rows)
            return np.asanyarray(np.load(path, mmap_mode="r"))
        case "part of more":
            more = np.zeros((n + 2, d + 3), rows.dtype)
            more[1 : n + 1, 2 : d + 2] = rows
            return more[1 : n + 1, 2 : d + 2]
        case _:
            copy = rows.copy()
            copy.setflags(write=layout != "read-only")
            return copy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mapped")


def small_counts(kind: Kind) -> Sets:
    """Sets of small whole numbers above 0, which every dtype holds."""
    rng = np.random.default_rng(36)

    def rows(count: int) -> Floats:
        return rng.integers(1, 9, (count, 6)).astype(np.float64)

    return Sets(rows(30), rows(300), rows(20), rows(4), kind)


@settings(max_examples=60)
@given(
    spec=st.sampled_from(ON_A_BANK),
    kind=st.sampled_from(KINDS),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8]),
)
def test_dtypes_and_layouts_change_nothing(folder: Path, spec: str, kind: Kind, layout: str, dtype: DTypeLike) -> None:
    sets = small_counts(kind)
    items = laid_out(sets.items.astype(dtype), layout, folder / "items.npy")
    bank = laid_out(sets.bank.astype(dtype), layout, folder / "bank.npy")
    before = items.tobytes(), bank.tobytes()
    found = fit(items, bank, method=spec, bank_items=sets.bank_items, similarity=kind, threads=1)
    assert (items.tobytes(), bank.tobytes()) == before
    expected = fitted(spec, sets)
    assert_array_equal(found.item_hashes, expected.item_hashes)
    assert found.source == expected.source
    for name, array in expected.arrays.items():
        assert_array_equal(found.arrays[name], array)


@pytest.mark.parametrize("spec", ON_A_BANK)
def test_inputs_are_never_modified(spec: str) -> None:
    sets = drawn(37)
    arrays = [rows.astype(np.float32) for rows in (sets.items, sets.bank, sets.bank_items, sets.queries)]
    copies = [array.copy() for array in arrays]
    items, bank, bank_items, queries = arrays
    for kind in KINDS:
        correction = fit(items, bank, method=spec, bank_items=bank_items, similarity=kind, mergeable=True)
        correction.apply(queries @ items.T)
        scores = queries @ items.T
        kept = scores.copy()
        correction.apply(scores)
        assert_array_equal(scores, kept)
    for array, copy in zip(arrays, copies, strict=True):
        assert_array_equal(array, copy)
        assert array.flags.writeable


def test_a_given_matrix_is_never_modified() -> None:
    matrix = drawn(38).bank_scores.astype(np.float32)
    copy = matrix.copy()
    fit(
        Dense(matrix),
        method=[*(one for one in BIASES if not one.startswith("dbsn")), "gc", "dis"],
        bank_items=Dense(matrix),
    )
    fit(Dense(matrix), method="dbsn", bank_items=Dense(matrix))
    assert_array_equal(matrix, copy)
    assert matrix.flags.writeable


def test_what_was_fitted_cannot_be_written_to() -> None:
    correction = bias("is", drawn())
    with pytest.raises(ValueError, match="read-only"):
        correction.bias[0] = 1.0
