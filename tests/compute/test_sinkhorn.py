"""Sinkhorn: the oracle's numbers at any temperature, however K is kept, and an honest account of what remains."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from tests import oracles
from tests.bank_cases import Floats, bias, drawn, whole_h
from unhub.arrays import Float32
from unhub.compute import sinkhorn as balancing
from unhub.compute.sinkhorn import Held, Schedule, Solution, balance, column_potentials
from unhub.compute.workers import Workers
from unhub.data.similarity import Dense
from unhub.fitting import fit

KEEPS = {"fp32": "fp32", "16-bit": "16-bit", "none": "recomputed"}


def solve(
    scores: NDArray[np.floating], tau: float, iterations: int = 10, *, keep: str = "auto", threads: int = 1
) -> Solution:
    return balance(Dense(scores), Schedule(tau, iterations, keep=keep), Workers(threads))


def assert_oracle(scores: Floats, tau: float, iterations: int = 10, *, keep: str = "auto", atol: float = 1e-6) -> None:
    found = solve(scores, tau, iterations, keep=keep)
    h, log_alpha = oracles.sn(scores, tau, iterations)
    assert np.isfinite(found.h).all()
    assert_allclose(found.h, h, rtol=0, atol=atol)
    assert_allclose(tau * found.log_alpha, tau * log_alpha, rtol=0, atol=2 * atol)


def test_two_iterations_by_hand() -> None:
    found = solve(np.log([[1.0, 2.0], [3.0, 4.0]]), 1.0, 2)
    assert_allclose(np.exp(-found.h), [43239 / (208 * 158), 43239 / (208 * 258)], rtol=1e-6)
    assert_allclose(np.exp(found.log_alpha), [104 / 609, 104 / 1491], rtol=1e-6)


@pytest.mark.parametrize("keep", KEEPS)
def test_the_error_that_remains_by_hand(keep: str) -> None:
    found = solve(np.log([[1.0, 2.0], [3.0, 4.0]]), 1.0, 1, keep=keep)
    assert found.row_error == pytest.approx(5 / 208, rel=0.05 if keep == "16-bit" else 1e-5)
    assert found.column_error == pytest.approx(0, abs=2**-10 if keep == "16-bit" else 1e-6)


# Items that lie far below the others.

FAR = {
    "one far item": lambda s: np.where(np.arange(41) == 7, s - 2.5, s),
    "half of the items far": lambda s: np.where(np.arange(41) < 20, s - 1.5, s),
    "one far bank query": lambda s: np.where((np.arange(301) == 3)[:, None], s - 30, s),
    "a far item for all but one bank query": lambda s: s - 2.0 * np.outer(np.arange(301) != 0, np.arange(41) == 5),
    "each item further": lambda s: s - 0.3 * np.arange(41),
    "spread from -50 to 50": lambda s: 50 * s / np.abs(s).max(),
}


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("tau", [0.001, 0.01, 0.05])
def test_far_items_have_the_oracles_h(tau: float, keep: str, far: str) -> None:
    scores = np.asarray(FAR[far](drawn(40).bank_scores), np.float64).astype(np.float32).astype(np.float64)
    atol = 1e-4 if keep == "16-bit" else 1e-6 * max(1.0, np.abs(scores).max())
    assert_oracle(scores, tau, keep=keep, atol=atol)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 60),
    n=st.integers(1, 60),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
    tau=st.sampled_from([0.001, 0.01, 0.1, 1.0, 10.0]),
    iterations=st.integers(1, 12),
    keep=st.sampled_from(["fp32", "none"]),
)
def test_any_matrix_has_the_oracles_h(
    seed: int, m: int, n: int, spread: float, tau: float, iterations: int, keep: str
) -> None:
    scores = (spread * np.random.default_rng(seed).standard_normal((m, n))).astype(np.float32).astype(np.float64)
    assert_oracle(scores, tau, iterations, keep=keep, atol=2e-6 * max(1, tau) * max(1, np.abs(scores).max()))


def test_a_fit_at_a_low_temperature_is_finite_with_a_far_item() -> None:
    sets = drawn(41)
    items = sets.items.copy()
    items[3] = -sets.bank.mean(axis=0)
    correction = fit(items, sets.bank, method="sn:tau=0.001", threads=1)
    scores = oracles.cosine(sets.bank, items)
    assert scores[:, 3].max() < scores.max() - 1.0
    assert_allclose(whole_h(correction), oracles.sn(scores, 0.001, 10)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("keep", ["fp32", "none"])
def test_a_constant_per_bank_query_changes_no_h(keep: str) -> None:
    scores = drawn(42).bank_scores
    constants = np.random.default_rng(42).integers(-40, 40, (301, 1))
    assert_allclose(solve(scores + constants, 0.05, keep=keep).h, solve(scores, 0.05).h, rtol=0, atol=4e-5)


def test_a_constant_in_all_similarities_moves_h_by_nothing() -> None:
    scores = drawn(42).bank_scores
    assert_allclose(solve(scores + 1.0, 0.01).h, solve(scores, 0.01).h, rtol=0, atol=1e-6)


# The account.


@pytest.mark.parametrize("keep", ["fp32", "none"])
@pytest.mark.parametrize("iterations", [1, 3, 10, 40])
@pytest.mark.parametrize("tau", [0.01, 0.05, 0.5])
def test_reported_marginal_errors_are_the_oracles(tau: float, iterations: int, keep: str) -> None:
    scores = drawn(43).bank_scores
    found = solve(scores, tau, iterations, keep=keep)
    h, log_alpha = oracles.sn(scores, tau, iterations)
    row_error, column_error = oracles.marginal_errors(scores, log_alpha, h, tau)
    assert found.row_error == pytest.approx(row_error, rel=1e-2, abs=2e-6)
    assert found.column_error == pytest.approx(column_error, abs=6e-8 / tau * 10)  # float32 scores, over tau


def test_reported_marginal_errors_hold_for_what_was_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = drawn(44).bank_scores
    for name in ("FEWEST_WATCHED", "MOST_WATCHED"):
        monkeypatch.setattr(balancing, name, 41)  # all columns
    found = solve(scores, 0.01, keep="16-bit")
    row_error, column_error = oracles.marginal_errors(scores, found.log_alpha, found.h, 0.01)
    assert found.row_error == pytest.approx(row_error, rel=0.1)
    assert column_error > 2e-5  # what 16 bits round off
    assert found.column_error == pytest.approx(column_error, rel=0.05)


@pytest.mark.parametrize("keep", KEEPS)
def test_of_many_rows_one_piece_in_four_tells_what_remains(monkeypatch: pytest.MonkeyPatch, keep: str) -> None:
    scores = drawn(44, items=50, bank=4000).bank_scores
    whole = solve(scores, 0.01, keep=keep, threads=2)
    for name, value in {"SAMPLED_FROM_ROWS": 4000, "SAMPLE_ROWS": 32}.items():
        monkeypatch.setattr(balancing, name, value)
    workers = Workers(2)
    found = balance(Dense(scores), Schedule(0.01, 10, keep=keep), workers)
    assert_allclose(found.h, whole.h, rtol=0, atol=1e-7)
    assert_allclose(found.log_alpha, whole.log_alpha, rtol=0, atol=1e-4)
    assert found.row_error != whole.row_error
    assert found.row_error == pytest.approx(whole.row_error, rel=0.1)
    assert found.column_error == pytest.approx(whole.column_error, rel=1e-2, abs=1e-6)
    assert workers.passes == pytest.approx(10.25 if keep == "none" else 1, abs=0.01)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("keep", KEEPS)
def test_rows_of_all_places_tell_what_remains(monkeypatch: pytest.MonkeyPatch, keep: str, threads: int) -> None:
    """A quarter of equal rows comes first: if the first rows alone were looked at, little would seem to remain."""
    monkeypatch.setattr(balancing, "SAMPLED_FROM_ROWS", 4000)
    scores = drawn(44, items=50, bank=8000).bank_scores.copy()
    scores[:2000] = scores[0]
    found = balance(Dense(scores), Schedule(0.01, 10, keep=keep), Workers(threads))
    monkeypatch.setattr(balancing, "SAMPLED_FROM_ROWS", 10_000)
    assert found.row_error == pytest.approx(solve(scores, 0.01, keep=keep).row_error, rel=0.2)


def test_a_fit_reports_its_iterations_and_errors() -> None:
    sets = drawn(45)
    cost = bias("sn:tau=0.05,iterations=7", sets).cost
    h, log_alpha = oracles.sn(sets.bank_scores, 0.05, 7)
    row_error, _ = oracles.marginal_errors(sets.bank_scores, log_alpha, h, 0.05)
    assert cost.iterations == 7
    assert cost.row_error == pytest.approx(row_error, rel=1e-2)
    assert cost.column_error is not None and cost.column_error < 1e-6


@pytest.mark.parametrize("keep", ["fp32", "none"])
@pytest.mark.parametrize("tolerance", [0.1, 0.01, 0.001])
def test_a_tolerance_stops_early(tolerance: float, keep: str) -> None:
    scores = drawn(46).bank_scores
    found = balance(Dense(scores), Schedule(0.05, 1000, tolerance, keep), Workers(1))
    assert 1 <= found.iterations < 1000
    assert found.row_error <= tolerance
    assert_allclose(found.h, oracles.sn(scores, 0.05, found.iterations)[0], rtol=0, atol=1e-5)
    before, log_alpha = oracles.sn(scores, 0.05, found.iterations - 1)
    if found.iterations > 1:  # and one iteration less would not have done
        assert oracles.marginal_errors(scores, log_alpha, before, 0.05)[0] > tolerance


def test_a_tolerance_that_is_not_reached_leaves_the_number_of_iterations() -> None:
    found = bias("sn:tau=0.01,iterations=4,tolerance=1e-12", drawn(46))
    assert found.cost.iterations == 4


def test_the_marginals_become_uniform() -> None:
    found = solve(drawn(47).bank_scores, 0.1, 300)
    assert found.row_error < 1e-5
    assert found.column_error == pytest.approx(0, abs=1e-5)


# How K is kept.


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("tau", [0.001, 0.01, 0.05])
def test_each_storage_is_within_1e_4_of_float64_and_says_what_it_kept(tau: float, keep: str) -> None:
    scores = drawn(48, items=150, bank=500).bank_scores
    found = solve(scores, tau, keep=keep)
    assert found.kept == KEEPS[keep]
    assert_allclose(found.h, oracles.sn(scores, tau, 10)[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("alike", [1, 2, 3])
def test_a_short_k_is_within_1e_4_where_few_entries_make_up_a_column(alike: int) -> None:
    rng = np.random.default_rng(52)
    group = np.arange(240) // alike
    near = rng.normal(0.95, 0.01, (240, 240))
    scores = np.where(group[:, None] == group, near, rng.normal(0, 0.02, (240, 240))).astype(np.float32)
    assert_oracle(scores.astype(np.float64), balancing.MOST_SHORT_REACH / np.sqrt(10), keep="16-bit", atol=1e-4)


@pytest.mark.parametrize("iterations", [1, 3, 10, 30, 100, 300])
@pytest.mark.parametrize("length", [3, 10, 30, 100])
def test_a_short_k_is_within_1e_4_along_a_chain(length: int, iterations: int) -> None:
    """Each query shares itself between two neighbours, and what is rounded up of one is rounded down of the other."""
    shares = np.full((length, length + 2), 1e-12)
    up, down = 0.5 + 2.0**-11 + 2.0**-20, 0.25 + 2.0**-12 - 2.0**-21  # just over and under the middle of two steps
    shares[np.arange(length), np.arange(length)] = up
    shares[np.arange(length), np.arange(1, length + 1)] = down
    shares[:, -1] = 1 - up - down
    tau = balancing.MOST_SHORT_REACH / np.sqrt(iterations)
    scores = (tau * np.log(shares)).astype(np.float32).astype(np.float64)
    assert_oracle(scores, tau, iterations, keep="16-bit", atol=1e-4)


def tree(roots: int, levels: int, branches: int, own: list[int]) -> Floats:
    """Shares of queries in a tree: a part that is rounded up for the parent item, parts rounded down for its own items.

    The rest goes to one more item of its own. 2**roots queries are below the first item, `branches` below any other.
    """
    up, down = 1 + 2.0**-10 + 2.0**-18, 1 + 2.0**-10 - 2.0**-18  # just over and under the middle of two steps
    parents, entries, items = [0], [], 1
    for level in range(levels):
        below = []
        for parent in parents:
            for _ in range(2**roots if level == 0 else branches):
                mine = list(range(items, items + len(own) + 1))
                items += len(mine)
                shares = [up * 2.0**-roots, *(down * 2.0**-one for one in own)]
                entries.append(([parent, *mine], [*shares, max(1 - sum(shares), 2.0**-20)]))
                below += mine[:-1]
        parents = below
    found = np.full((len(entries), items), 1e-12)
    for query, (places, shares) in enumerate(entries):
        found[query, places] = shares
    return found


@pytest.mark.parametrize("iterations", [1, 2, 3, 4, 6, 10])
@pytest.mark.parametrize(
    ("roots", "levels", "branches", "own"), [(6, 1, 0, [1]), (4, 2, 12, [2, 2, 2, 3]), (3, 3, 5, [1, 2])]
)
def test_a_short_k_is_within_1e_4_along_a_tree(
    roots: int, levels: int, branches: int, own: list[int], iterations: int
) -> None:
    """What is rounded adds up from level to level."""
    tau = balancing.MOST_SHORT_REACH / np.sqrt(iterations)
    scores = (tau * np.log(tree(roots, levels, branches, own))).astype(np.float32).astype(np.float64)
    assert_oracle(scores, tau, iterations, keep="16-bit", atol=1e-4)


WHOLE = 4 * 41 * 301


@pytest.mark.parametrize(
    ("tau", "iterations", "memory", "small", "kept"),
    [
        (0.01, 10, 10 * WHOLE, 10 * WHOLE, "fp32"),
        (0.01, 10, WHOLE, 10 * WHOLE, "fp32"),
        (0.01, 10, 10 * WHOLE, WHOLE - 1, "16-bit"),
        (0.01, 10, WHOLE - 1, 10 * WHOLE, "16-bit"),
        (0.01, 10, WHOLE // 2, 10 * WHOLE, "16-bit"),
        (0.01, 15, WHOLE // 2, 10 * WHOLE, "16-bit"),
        (0.01, 17, 10 * WHOLE, WHOLE - 1, "fp32"),
        (0.01, 17, WHOLE // 2, 10 * WHOLE, "recomputed"),
        (0.01, 10, WHOLE // 2 - 1, 10 * WHOLE, "recomputed"),
        (0.01, 10, 1, 10 * WHOLE, "recomputed"),
        (0.0126, 10, WHOLE // 2, 10 * WHOLE, "16-bit"),
        (0.0127, 10, WHOLE // 2, 10 * WHOLE, "recomputed"),
        (0.5, 10, 10 * WHOLE, WHOLE - 1, "fp32"),
        (0.5, 10, WHOLE - 1, 10 * WHOLE, "recomputed"),
        (10.0, 10, WHOLE - 1, 10 * WHOLE, "recomputed"),
    ],
)
def test_a_fit_keeps_what_fits_in_memory_says_so_and_stays_within_1e_4(
    monkeypatch: pytest.MonkeyPatch, tau: float, iterations: int, memory: int, small: int, kept: str
) -> None:
    monkeypatch.setattr(balancing, "MOST_FLOAT32_BYTES", small)
    sets = drawn(49)
    correction = fit(sets.items, sets.bank, method=f"sn:tau={tau},iterations={iterations}", memory=memory, threads=1)
    assert correction.cost.kept == kept
    assert_allclose(whole_h(correction), oracles.sn(sets.bank_scores, tau, iterations)[0], rtol=0, atol=1e-4)


def test_recomputing_multiplies_once_an_iteration_and_once_for_the_account() -> None:
    sets = drawn(50)
    correction = fit(sets.items, sets.bank, method="sn:tau=0.05,iterations=6", memory=1)
    assert correction.cost.passes == 7


def test_a_kept_matrix_is_multiplied_once() -> None:
    assert bias("sn:tau=0.05", drawn(50)).cost.passes == 1


def test_potentials_that_move_far_make_it_multiply_again() -> None:
    scores = drawn(51).bank_scores - 2.0 * (np.arange(41) == 3)
    workers = Workers(1)
    found = balance(Dense(scores), Schedule(0.001, 10, keep="fp32"), workers)
    assert 1 < workers.passes < 11
    assert_allclose(found.h, oracles.sn(scores, 0.001, 10)[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("keep", KEEPS)
def test_small_tiles_give_the_same_h(monkeypatch: pytest.MonkeyPatch, keep: str) -> None:
    scores = drawn(52).bank_scores
    expected = solve(scores, 0.01, keep=keep).h
    monkeypatch.setattr(balancing, "TILE_BYTES", 1)
    for threads in (1, 2, 3, 400):
        assert_allclose(solve(scores, 0.01, keep=keep, threads=threads).h, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(("seed", "spread", "iterations"), [(2, 0.1, 100), (19, 3, 10), (19, 3, 11), (19, 3, 50)])
def test_potentials_that_move_apart_at_a_low_temperature_have_the_oracles_h(
    seed: int, spread: float, iterations: int, keep: str
) -> None:
    """What K's entries lose below the range of float32 must not come back when the potentials lift it."""
    rng = np.random.default_rng(seed)
    scores = (0.1 * rng.normal(size=(150, 100)) + spread * rng.normal(size=100)).astype(np.float32)
    assert_oracle(scores.astype(np.float64), 0.001, iterations, keep=keep, atol=5e-6 if keep == "16-bit" else 3e-6)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("backwards", [False, True])
def test_entries_lost_below_a_row_do_not_pass_for_mass(keep: str, backwards: bool) -> None:
    """Rows whose largest score is lower than that of the row before; potentials come to lift what is far down."""
    n = 300
    scores = np.full((2 * n - 1, n), -0.9)
    scores[: n - 1, 0], scores[n - 1 :, 0] = 0.16, 0
    scores[np.arange(n - 1), np.arange(1, n)] = 0.16 - 0.37
    scores = (scores[::-1] if backwards else scores).astype(np.float32).astype(np.float64)
    assert_oracle(scores, 0.01, 10, keep=keep, atol=1e-5 if keep == "16-bit" else 2e-6)


LAYOUTS: dict[str, Callable[[Float32, Path], NDArray[np.floating]]] = {
    "as it is": lambda scores, folder: scores,
    "read-only": lambda scores, folder: read_only(scores),
    "mapped": lambda scores, folder: np.load(saved(scores, folder), mmap_mode="r"),
    "in Fortran order": lambda scores, folder: np.asfortranarray(scores),
    "in float64": lambda scores, folder: scores.astype(np.float64),
    "not aligned": lambda scores, folder: np.frombuffer(b"x" + scores.tobytes(), np.float32, offset=1).reshape(301, 41),
    "every other column": lambda scores, folder: np.repeat(scores, 2, axis=1)[:, ::2],
}


def read_only(scores: Float32) -> Float32:
    copied = scores.copy()
    copied.flags.writeable = False
    return copied


def saved(scores: Float32, folder: Path) -> Path:
    np.save(folder / "scores.npy", scores)
    return folder / "scores.npy"


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_given_matrix_of_any_layout_has_the_same_h_and_is_left_as_it_was(
    layout: str, keep: str, tmp_path: Path
) -> None:
    scores = drawn().bank_scores.astype(np.float32)
    given_matrix, before = LAYOUTS[layout](scores, tmp_path), scores.copy()
    found = solve(given_matrix, 0.05, keep=keep)
    assert_array_equal(given_matrix, before)
    assert_array_equal(found.h, solve(before, 0.05, keep=keep).h)


# Going on from somewhere.


def test_iterations_go_on_from_where_others_stopped() -> None:
    scores = drawn(53).bank_scores
    five = solve(scores, 0.05, 5)
    ten = balance(Dense(scores), Schedule(0.05, 5), Workers(1), start=five.h)
    assert_allclose(ten.h, oracles.sn(scores, 0.05, 10)[0], rtol=0, atol=1e-6)


def test_one_half_step_gives_any_item_the_h_it_would_have() -> None:
    sets = drawn(54)
    found = solve(sets.bank_scores, 0.05)
    some = np.array([4, 0, 17])
    half = column_potentials(Dense(sets.bank_scores[:, some]), 0.05, found.log_alpha, 41, Workers(1))
    assert_allclose(half, found.h[some], rtol=0, atol=1e-6)


def test_rows_that_are_held_weigh_on_the_columns_as_they_did() -> None:
    scores = drawn(55).bank_scores
    old, new, tau = scores[:200], scores[200:], 0.05
    before = solve(old, tau)
    after = balance(Dense(new), Schedule(tau, 1), Workers(1), start=before.h, held=Held(200, before.h))
    old_alpha = before.log_alpha + np.log(200 / 301)
    new_alpha = -np.log(301) - np.log(np.exp((new - before.h) / tau).sum(axis=1))
    mass = np.exp(scores / tau + np.concatenate([old_alpha, new_alpha])[:, None]).sum(axis=0)
    assert_allclose(after.log_alpha, new_alpha, rtol=0, atol=1e-4)
    assert_allclose(after.h, tau * np.log(41 * mass), rtol=0, atol=1e-6)


def test_dbsn_keeps_the_items_part_and_remembers_the_rest() -> None:
    sets = drawn(56)
    correction = bias("dbsn:tau=0.05", sets)
    h, _ = oracles.sn(np.hstack([sets.bank_scores, sets.joint_scores]), 0.05, 10)
    assert_allclose(whole_h(correction), h[:41], rtol=0, atol=1e-6)
    assert_allclose(correction.arrays["bank_item_h"].astype(float), h[41:], rtol=0, atol=1e-6)
    assert_array_equal(correction.arrays["columns"], [41 + 23])
