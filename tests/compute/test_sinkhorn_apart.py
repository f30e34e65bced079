"""Sinkhorn apart: the oracle's numbers with the items on several machines, and the same ones when a machine is lost."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests import oracles
from tests.bank_cases import Floats, drawn
from tests.compute.test_sinkhorn import FAR, KEEPS
from tests.runners import KeptHere, Pickled
from unhub.compute.sinkhorn import Held, Schedule, Solution, balance
from unhub.compute.sinkhorn_apart import balance_anywhere
from unhub.compute.workers import Workers
from unhub.data.similarity import Dense
from unhub.errors import ArgumentError


def solve(scores: Floats, tau: float, iterations: int = 10, *, keep: str = "auto", machines: int = 3) -> Solution:
    workers = Workers(1, runner=Pickled(machines))
    return balance_anywhere(Dense(scores), Schedule(tau, iterations, keep=keep), workers)


def assert_oracle(found: Solution, scores: Floats, tau: float, iterations: int = 10, *, atol: float = 1e-6) -> None:
    h, log_alpha = oracles.sn(scores, tau, iterations)
    assert_allclose(found.h, h, rtol=0, atol=atol)
    assert_allclose(tau * found.log_alpha, tau * log_alpha, rtol=0, atol=2 * atol)


@pytest.mark.parametrize("machines", [1, 2, 3, 5, 60])
@pytest.mark.parametrize("keep", KEEPS)
def test_any_number_of_machines_has_the_oracles_h(keep: str, machines: int) -> None:
    scores = drawn(40).bank_scores
    found = solve(scores, 0.02, keep=keep, machines=machines)
    assert_oracle(found, scores, 0.02, atol=1e-4 if keep == "16-bit" else 1e-6)
    assert found.kept == KEEPS[keep] and found.iterations == 10


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("tau", [0.001, 0.01])
def test_far_items_have_the_oracles_h(tau: float, keep: str, far: str) -> None:
    scores = np.asarray(FAR[far](drawn(40).bank_scores), np.float64).astype(np.float32).astype(np.float64)
    atol = 1e-4 if keep == "16-bit" else 2e-6 * max(1.0, np.abs(scores).max())
    assert_oracle(solve(scores, tau, keep=keep), scores, tau, atol=atol)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 60),
    n=st.integers(1, 60),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
    tau=st.sampled_from([0.001, 0.01, 0.1, 1.0, 10.0]),
    iterations=st.integers(1, 12),
    machines=st.integers(1, 4),
)
def test_any_matrix_has_the_oracles_h(
    seed: int, m: int, n: int, spread: float, tau: float, iterations: int, machines: int
) -> None:
    scores = (spread * np.random.default_rng(seed).standard_normal((m, n))).astype(np.float32).astype(np.float64)
    found = solve(scores, tau, iterations, keep="fp32", machines=machines)
    assert_oracle(found, scores, tau, iterations, atol=4e-6 * max(1, tau) * max(1, np.abs(scores).max()))


def test_a_machine_that_forgets_everything_changes_no_h(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = drawn(41).bank_scores
    monkeypatch.setattr(KeptHere, "forgetful", True)
    found = solve(scores, 0.02, keep="fp32")
    assert_oracle(found, scores, 0.02)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_weights_a_start_and_a_tolerance_do_as_on_one_machine(tolerance: float) -> None:
    scores = drawn(42).bank_scores
    weights = np.random.default_rng(0).uniform(0.5, 3, len(scores))
    start = np.asarray(np.random.default_rng(1).normal(0, 0.05, scores.shape[1]))
    schedule = Schedule(0.05, 200, tolerance)
    here = balance(Dense(scores), schedule, Workers(1), start=start, weights=weights)
    there = balance_anywhere(Dense(scores), schedule, Workers(1, runner=Pickled(3)), start=start, weights=weights)
    assert there.iterations == here.iterations > 1
    assert_allclose(there.h, here.h, rtol=0, atol=1e-6)
    assert_allclose(there.log_alpha, here.log_alpha, rtol=0, atol=1e-4)
    assert there.row_error == pytest.approx(here.row_error, rel=0.05, abs=1e-6)
    assert there.column_error == pytest.approx(0, abs=2e-6)


def test_held_rows_count_as_on_one_machine() -> None:
    scores = drawn(43).bank_scores
    held = Held(100, np.linspace(-0.1, 0.1, scores.shape[1]))
    here = balance(Dense(scores), Schedule(0.05, 2), Workers(1), held=held)
    there = balance_anywhere(Dense(scores), Schedule(0.05, 2), Workers(1, runner=Pickled(3)), held=held)
    assert_allclose(there.h, here.h, rtol=0, atol=1e-6)
    assert_allclose(there.log_alpha, here.log_alpha, rtol=0, atol=1e-4)


def test_progress_reaches_the_end_and_passes_are_counted() -> None:
    seen: list[tuple[int, int]] = []
    workers = Workers(1, progress=lambda *done: seen.append(done), runner=Pickled(2))
    balance_anywhere(Dense(drawn(44).bank_scores), Schedule(0.05, 5, keep="none"), workers)
    workers.finish()
    assert workers.passes == 6  # the first alpha, and one for each iteration
    assert seen[-1][0] == seen[-1][1] and len(set(seen)) > 5


@pytest.mark.parametrize("level", [0.0, 0.9, -50.0])
@pytest.mark.parametrize("keep", ["fp32", "16-bit"])
def test_a_kernel_that_is_kept_is_multiplied_once_whatever_the_level_of_its_scores(keep: str, level: float) -> None:
    workers, scores = Workers(1, runner=Pickled(3)), drawn(44).bank_scores / 10
    found = balance_anywhere(Dense(scores + level), Schedule(0.01, 5, keep=keep), workers)
    assert workers.passes == 1
    assert_allclose(found.h, oracles.sn(scores, 0.01, 5)[0], rtol=0, atol=1e-4)  # alpha takes the level


class Rows:
    """A matrix that is only read row by row."""

    def __init__(self, matrix: Floats) -> None:
        self._matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype

    def __getitem__(self, key: slice, /) -> Floats:
        return self._matrix[key]


def test_a_bad_number_of_a_given_matrix_is_named_by_its_row() -> None:
    scores = drawn(45).bank_scores.copy()
    scores[7, 3] = np.nan
    with pytest.raises(ArgumentError, match="holds nan in row 7"):
        solve(scores, 0.05)


def test_a_given_matrix_that_is_read_by_rows_is_refused() -> None:
    rows: Any = Rows(drawn(45).bank_scores)
    with pytest.raises(ArgumentError, match=r"^the similarity matrix is read row by row.*; give an array or a mapped"):
        solve(rows, 0.05)
