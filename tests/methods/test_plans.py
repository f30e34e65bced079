"""The plans against their oracles, on small numbers and at the extremes, and how they rank."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests import oracles
from tests.bank_cases import PLANS, Floats
from tests.solvers import stop_newton_early, stop_pot_early
from unhub.correction import Plan
from unhub.fitting import fit

ORACLES = {"otn": oracles.otn_plan, "l2n": oracles.l2n_plan, "hn": oracles.hn_plan}
REGS = (1e-4, 0.05, 1.0, 10.0)
SHAPES = [(1, 1), (6, 6), (9, 4), (4, 9), (1, 5), (5, 1)]


def tied_plan(spec: str, scores: Floats) -> Floats:
    plan = fit(np.eye(scores.shape[1]), method=spec, zeros="tied")
    assert isinstance(plan, Plan)
    return np.asarray(plan.apply(scores), np.float64)


def with_copies(scores: Floats) -> Floats:
    copied = scores.copy()
    copied[::2] = copied[0]
    copied[:, ::3] = copied[:, :1]
    return copied


def extremes(shape: tuple[int, int]) -> dict[str, Floats]:
    rng = np.random.default_rng(70)
    usual = rng.uniform(-0.2, 0.6, shape)
    return {
        "all equal": np.full(shape, 0.3),
        "copies": with_copies(usual),
        "whole numbers": rng.integers(-2, 3, shape).astype(np.float64),
        "far apart": rng.uniform(-1000, 1000, shape),
        "all above 1": 1000 + usual,
        "a hub": usual + 5 * (np.arange(shape[1]) == 0),
    }


EXTREMES = {(name, shape): scores for shape in SHAPES for name, scores in extremes(shape).items()}


def assert_sums(plan: Floats, within: float) -> None:
    """The rows sum to 1/queries and the columns to 1/items, relatively."""
    queries, items = plan.shape
    assert plan.min() >= 0
    assert_allclose(plan.sum(axis=1) * queries, 1, rtol=0, atol=within)
    assert_allclose(plan.sum(axis=0) * items, 1, rtol=0, atol=within)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spec", PLANS)
def test_a_plan_is_the_oracles(spec: str, shape: tuple[int, int]) -> None:
    scores = np.random.default_rng(17).uniform(-0.2, 0.6, shape)
    assert_allclose(tied_plan(spec, scores), ORACLES[spec](scores), rtol=0, atol=1e-9)


def test_the_plan_of_l2n_by_hand() -> None:
    scores = np.array([[0.51, 0.5], [0.5, 0.51]])
    for reg, kept in ((0.05, 0.35), (0.1, 0.3), (0.01, 0.5)):  # worked out in test_oracles.py
        expected = [[kept, 0.5 - kept], [0.5 - kept, kept]]
        assert_allclose(tied_plan(f"l2n:reg={reg}", scores), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "shape"), EXTREMES)
def test_the_plan_of_l2n_is_the_oracles_at_the_extremes(name: str, shape: tuple[int, int]) -> None:
    scores = EXTREMES[name, shape]
    for reg in REGS:
        plan = tied_plan(f"l2n:reg={reg}", scores)
        assert_sums(plan, 1e-8)
        rounding = 1e-13 * float(np.abs(scores).max()) / reg  # of the similarities, as it comes out in the plan
        assert_allclose(plan, oracles.l2n_plan(scores, reg), rtol=0, atol=1e-9 + rounding)


@pytest.mark.parametrize(("name", "shape"), EXTREMES)
def test_the_plan_of_otn_costs_what_the_oracles_costs_at_the_extremes(name: str, shape: tuple[int, int]) -> None:
    scores = EXTREMES[name, shape]
    plan = tied_plan("otn", scores)
    assert_sums(plan, 1e-8)
    gained, expected = np.vdot(plan, scores), np.vdot(oracles.otn_plan(scores), scores)
    assert gained == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(
    scores=arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2, max_side=7),
        elements=st.integers(-64, 64).map(lambda n: n / 64),
    ),
    reg=st.sampled_from(REGS),
)
@settings(deadline=None, max_examples=60)
def test_the_plan_of_l2n_is_the_oracles_whatever_the_similarities(scores: Floats, reg: float) -> None:
    plan = tied_plan(f"l2n:reg={reg}", scores)
    assert_sums(plan, 1e-8)
    assert_allclose(plan, oracles.l2n_plan(scores, reg), rtol=0, atol=1e-9)


def asked(queries: int, items: int) -> tuple[Floats, list[set[int]]]:
    """Similarities of noisy copies of the items, and the item that each is a copy of; some items are hubs."""
    rng = np.random.default_rng(71)
    gallery, gap = rng.standard_normal((items, 32)), rng.standard_normal(32)
    truth = np.arange(queries) % items
    noisy = gallery[truth] + 0.3 * rng.standard_normal((queries, 32)) + gap
    return oracles.cosine(noisy, gallery), [{int(item)} for item in truth]


@pytest.mark.parametrize("shape", [(300, 300), (700, 200), (200, 700)])
def test_the_sums_of_l2n_are_right_in_larger_batches(shape: tuple[int, int]) -> None:
    scores, _ = asked(*shape)
    for scale, reg in product((1, 1000), REGS):
        assert_sums(tied_plan(f"l2n:reg={reg}", scale * scores), 1e-8)


@pytest.mark.parametrize("shape", [(100, 100), (300, 100), (100, 300)])
@pytest.mark.parametrize("spec", ["otn", "l2n"])
def test_easy_queries_find_their_items(spec: str, shape: tuple[int, int]) -> None:
    scores, truth = asked(*shape)
    assert oracles.recall_at(scores, truth, 1) > 90
    ranked = np.asarray(fit(np.eye(shape[1]), method=spec).apply(scores), np.float64)
    assert oracles.recall_at(ranked, truth, 1) == 100


@pytest.mark.parametrize("spec", PLANS)
def test_a_plan_ranks_its_entries_first_and_the_rest_by_similarity(spec: str) -> None:
    scores = np.random.default_rng(18).uniform(-0.2, 0.6, (12, 7))
    ranked = fit(np.eye(7), method=spec).apply(scores)
    plan = ORACLES[spec](scores)
    for row, similar, planned in zip(ranked, scores, plan, strict=True):
        # The solver's rounding is no reason to prefer an entry.
        share = np.round(planned / max(planned.max(), 1e-300), 8)
        order = sorted(range(7), key=lambda j: (-share[j], -similar[j]))
        assert np.argsort(-row, kind="stable").tolist() == order


def test_equal_shares_of_a_plan_rank_by_similarity() -> None:
    scores = np.array([[0.1, 0.9, 0.5, 0.3], [0.2, 0.8, 0.4, 0.6]])
    corrected = fit(np.eye(4), method="otn").apply(scores)
    plan = oracles.otn_plan(scores)
    for row in range(2):
        chosen = np.flatnonzero(plan[row] > 1e-12)
        assert len(chosen) == 2  # each query has room for half of the items, in equal shares
        first = np.argsort(-corrected[row])[:2]
        assert_array_equal(first, chosen[np.argsort(-scores[row][chosen])])


def test_items_that_are_copies_stay_equal_under_l2n() -> None:
    scores = np.random.default_rng(72).uniform(-0.2, 0.6, (30, 12))
    ranked = fit(np.eye(24), method="l2n").apply(np.hstack([scores, scores]))
    assert_array_equal(ranked[:, :12], ranked[:, 12:])


@pytest.mark.parametrize("spec", PLANS)
def test_a_plan_counts_beside_large_similarities(spec: str) -> None:
    scores = np.array([[9.0, 8.0], [8.0, 1.0]])  # item 0 goes to query 1, which loses more without it
    for size in (1, 1e6, 1e17):
        ranked = fit(np.eye(2), method=spec).apply(size * scores)
        assert np.argmax(ranked, axis=1).tolist() == [1, 0]


@pytest.mark.parametrize("spec", PLANS)
def test_a_plan_of_no_queries_is_empty(spec: str) -> None:
    assert fit(np.eye(3), method=spec).apply(np.empty((0, 3))).shape == (0, 3)


def test_a_plan_without_its_optimum_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_pot_early(monkeypatch)
    stop_newton_early(monkeypatch)
    scores = np.random.default_rng(0).normal(size=(20, 20))
    with pytest.raises(
        ValueError,
        match=r"^queries cannot be solved by 'otn': POT did not reach the optimum .*; give fewer queries at a time$",
    ):
        fit(np.eye(20), method="otn").apply(scores)
    with pytest.raises(
        ValueError,
        match=r"^queries cannot be solved by 'l2n': the plan's sums are still off by .*; give .*, or a larger reg$",
    ):
        fit(np.eye(20), method="l2n").apply(scores)


def test_l2n_refuses_similarities_that_are_too_far_apart() -> None:
    with pytest.raises(
        ValueError, match=r"^queries cannot be solved by 'l2n': the similarities are too far apart; give fewer queries"
    ):
        fit(np.eye(2), method="l2n").apply(np.array([[1e308, -1e308], [-1e308, 1e308]]))


class Recorder:
    """Keeps what progress was called with, and stops the work at one of the calls."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls: list[tuple[int, int]] = []
        self.stop_at = stop_at

    def __call__(self, done: int, total: int) -> None:
        self.calls.append((done, total))
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt

    def assert_rises_to_the_end(self) -> None:
        done = [one for one, _ in self.calls]
        assert done == sorted(done)
        assert all(0 <= one <= total for one, total in self.calls)
        assert self.calls[-1][0] == self.calls[-1][1] > 0


def runs(spec: str) -> dict[str, Callable[[Recorder], object]]:
    rng = np.random.default_rng(0)
    items, queries = rng.normal(size=(60, 8)), rng.normal(size=(50, 8))
    plan = fit(items, method=spec)
    assert isinstance(plan, Plan)
    searcher = unhub.searcher(items, plan, threads=1)
    truth = {query: query for query in range(50)}
    pairs = [queries[at : at + 2] for at in range(0, 50, 2)]
    return {
        "apply": lambda progress: plan.apply(rng.normal(size=(50, 60)), progress),
        "search": lambda progress: searcher.search(queries, progress=progress),
        "search_sets": lambda progress: searcher.search_sets(pairs, combine="ra", progress=progress),
        "evaluate": lambda progress: unhub.evaluate(
            queries, items, truth, [fit(items, queries), plan], "R@1", resamples=5, threads=1, progress=progress
        ),
    }


@pytest.mark.parametrize("run", ["apply", "search", "search_sets", "evaluate"])
@pytest.mark.parametrize("spec", PLANS)
def test_progress_ends_with_the_plan(spec: str, run: str) -> None:
    progress = Recorder()
    runs(spec)[run](progress)
    progress.assert_rises_to_the_end()


@pytest.mark.parametrize("run", ["apply", "search", "search_sets", "evaluate"])
def test_progress_goes_on_while_l2n_is_solved(run: str) -> None:
    progress = Recorder()
    runs("l2n")[run](progress)
    shares = {round(done / total, 2) for done, total in progress.calls}
    assert len([share for share in shares if 0.1 < share < 0.99]) >= 10


@pytest.mark.parametrize("run", ["apply", "search", "evaluate"])
def test_l2n_can_be_stopped_while_it_is_solved(run: str) -> None:
    progress = Recorder(stop_at=8)
    with pytest.raises(KeyboardInterrupt):
        runs("l2n")[run](progress)
    assert len(progress.calls) == 8
