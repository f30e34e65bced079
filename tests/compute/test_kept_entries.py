"""Sinkhorn on a part of K: nearer to balance than ten iterations in at most four multiplies, and it says how near."""

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests import oracles
from tests.bank_cases import Floats, drawn
from tests.flickr8k import load
from tests.runners import KeptHere, Pickled
from unhub.arrays import Float32
from unhub.compute import sinkhorn as balancing
from unhub.compute.kept_entries import ENTRY_BYTES, Selection, rise_for
from unhub.compute.sinkhorn import MEMORY_SHARE, BalancedRows, Schedule, Solution, balance, pilot_rows
from unhub.compute.sinkhorn_apart import balance_anywhere
from unhub.compute.weights import Weights
from unhub.compute.workers import Workers
from unhub.correction import Bias
from unhub.data.similarity import Dense, Dot
from unhub.errors import ArgumentError

MEMORY = 8 * 48 * 400  # 48 entries for each of 400 bank queries; K of 300 items takes three times as much
FLOAT32_FLOOR = 1e-5  # of h: nearer than this, the rounding of the scores decides


def clouds(rows: int, groups: int, seed: int) -> Float32:
    """Unit vectors around one direction, in groups or, with none, not."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((max(groups, 1), 32)) * bool(groups)
    vectors = centres[rng.integers(0, len(centres), rows)] + rng.standard_normal((rows, 32)) + 1.0
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def nearness(h: Floats, balanced: Floats) -> float:
    return float(np.std(h - balanced))


def stated(found: Solution) -> tuple[int, float]:
    """The entries and the distance from balance that a note states."""
    (note,) = found.notes
    match = re.fullmatch(r"([\d,]+) of [\d,]+ entries of K were kept; h is about (\S+) off balance", note)
    assert match is not None
    return int(match[1].replace(",", "")), float(match[2])


def in_balance(scores: Floats, tau: float) -> Floats:
    """h of float64 iterations from near the balance, to which the kept K only shows the way."""
    near = balance(Dense(scores.astype(np.float32)), Schedule(tau, 3000, 1e-6, "fp32"), Workers(1)).h
    for _ in range(5):
        log_alpha = -np.logaddexp.reduce((scores - near) / tau, axis=1)
        after = tau * np.logaddexp.reduce(scores / tau + log_alpha[:, None], axis=0)
        moved, near = float(np.std(after - near)), after
    assert moved < 1e-7
    return near


def check_nearness(scores: Floats, tau: float) -> None:
    balanced, cold = in_balance(scores, tau), oracles.sn(scores, tau, 10)[0]
    for machines in (None, 1, 3):  # without and with a runner
        runner = None if machines is None else Pickled(machines)
        workers = Workers(2 - bool(runner), memory=ENTRY_BYTES * 48 * max(scores.shape), runner=runner)
        found = balance_anywhere(Dense(scores.astype(np.float32)), Schedule(tau, 10, keep="sparse"), workers)
        entries, off = stated(found)
        true = nearness(found.h, balanced)
        assert found.kept == "sparse"
        assert workers.passes <= 4
        assert true <= max(nearness(cold, balanced), FLOAT32_FLOOR)
        assert off / 1.5 <= max(true, FLOAT32_FLOOR)
        assert true <= max(1.5 * off, FLOAT32_FLOOR)
        assert 32 * max(scores.shape) <= entries <= (machines or 1) * workers.memory / ENTRY_BYTES
        rows, columns = oracles.marginal_errors(scores, found.log_alpha, found.h, tau)
        assert columns < 1e-4
        assert rows == pytest.approx(found.row_error, rel=0.4, abs=1e-5)


@pytest.mark.parametrize("tau", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("groups", [0, 12])
@pytest.mark.parametrize(("items", "bank"), [(400, 700), (700, 400)])
def test_h_is_nearer_to_balance_than_after_ten_iterations(tau: float, groups: int, items: int, bank: int) -> None:
    check_nearness(clouds(bank, groups, 1).astype(np.float64) @ clouds(items, groups, 2).T.astype(np.float64), tau)


@pytest.mark.parametrize("tau", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("space", ["ridge", "vse_holdout"])
def test_on_real_data_too(space: str, tau: float) -> None:
    data = load(space)
    check_nearness(oracles.cosine(data.bank_texts[::7], data.test_images), tau)


def topics(rows: int, seed: int) -> Float32:
    """Unit vectors around far directions, in uneven shares."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((20, 64))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    own = centres[rng.choice(20, rows, p=rng.dirichlet(np.ones(20)))]
    vectors = own + rng.standard_normal((rows, 64)) / 16
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@pytest.mark.parametrize("machines", [None, 2])
@pytest.mark.parametrize("tau", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("seed", [1, 2])
def test_topics_far_apart_that_bank_and_items_have_in_other_shares(seed: int, tau: float, machines: int | None) -> None:
    """What joins such topics is none of the entries that the first potentials would keep."""
    scores = topics(1200, seed).astype(np.float64) @ topics(800, seed + 100).T.astype(np.float64)
    balanced = balance(Dense(scores.astype(np.float32)), Schedule(tau, 20_000, 1e-6, "fp32"), Workers(2)).h
    workers = Workers(1, memory=ENTRY_BYTES * 36 * 1200, runner=None if machines is None else Pickled(machines))
    found = balance_anywhere(Dense(scores.astype(np.float32)), Schedule(tau, 10, keep="sparse"), workers)
    cold = oracles.sn(scores, tau, 10)[0]
    assert workers.passes <= 4
    assert nearness(found.h, balanced) < nearness(cold, balanced)


@pytest.mark.parametrize("method", ["sn:tau=0.02", "sn:tau=0.02,tolerance=0.02"])
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_h_by_rounding_alone(threads: int, method: str) -> None:
    alone, together = (fitted(method, threads=number).bias for number in (1, threads))
    assert_allclose(together, alone, rtol=0, atol=1e-6)


def sets(items: int = 300, bank: int = 400) -> tuple[Float32, Float32]:
    return clouds(items, 8, 3), clouds(bank, 8, 4)


def fitted(method: str, memory: int = MEMORY, bank_items: Float32 | None = None, threads: int | None = None) -> Bias:
    items, bank = sets()
    found = unhub.fit(items, bank, method=method, bank_items=bank_items, memory=memory, threads=threads)
    assert isinstance(found, Bias)
    return found


def test_a_fit_without_room_for_the_matrix_keeps_a_part_and_says_so() -> None:
    items, bank = sets()
    correction = fitted("sn:tau=0.02")
    assert correction.cost.kept == "sparse"
    assert correction.cost.passes <= 4
    assert [note.endswith(balancing.OFF_BALANCE) for note in correction.cost.notes].count(True) == 1
    merged = unhub.merge(fitted("sn:tau=0.02,keep=sparse"), items, clouds(300, 8, 5))
    assert [note.endswith(balancing.OFF_BALANCE) for note in merged.cost.notes].count(True) == 1
    grown = unhub.extend(correction, clouds(5, 8, 9), bank)
    assert not any(note.endswith(balancing.OFF_BALANCE) for note in grown.cost.notes)
    again = unhub.extend(correction, items[:7] * 2, bank)
    assert isinstance(again, Bias)
    assert_allclose(again.bias[-7:], correction.bias[:7], rtol=0, atol=2e-6)


def test_a_fit_that_keeps_nothing_does_the_iterations_it_was_asked_for() -> None:
    items, bank = sets()
    scores = bank.astype(np.float64) @ items.astype(np.float64).T
    correction = fitted("sn:tau=0.02,keep=none")
    assert (correction.cost.kept, correction.cost.passes) == ("recomputed", 11)
    assert_allclose(correction.bias + correction.offset, oracles.sn(scores, 0.02, 10)[0], rtol=0, atol=2e-6)


def test_few_iterations_are_done_as_asked_for() -> None:
    assert fitted("sn:tau=0.02,iterations=3").cost.kept == "recomputed"
    assert fitted("sn:tau=0.02,iterations=4").cost.kept == "sparse"
    assert fitted("sn:tau=0.02", memory=MEMORY // 2).cost.kept == "recomputed"


def test_a_tolerance_is_reached() -> None:
    correction = fitted("sn:tau=0.02,tolerance=0.0001")
    assert correction.cost.kept == "sparse"
    assert correction.cost.row_error is not None
    assert correction.cost.row_error <= 0.0001
    assert correction.cost.passes < 10


def test_bank_items_balance_too() -> None:
    items, bank = sets()
    targets = clouds(100, 8, 5)
    both = bank.astype(np.float64) @ np.concatenate([items, targets]).astype(np.float64).T
    found = fitted("dbsn:tau=0.02", bank_items=targets)
    balanced, cold = in_balance(both, 0.02)[:300], oracles.sn(both, 0.02, 10)[0][:300]
    assert found.cost.kept == "sparse"
    assert nearness(found.bias, balanced) <= nearness(cold, balanced)


@pytest.mark.parametrize("runner", [None, Pickled(3)])
def test_a_query_of_weight_three_is_the_same_query_three_times(runner: Pickled | None) -> None:
    items, bank = sets()
    scores = bank.astype(np.float64) @ items.astype(np.float64).T
    weights = np.where(np.arange(400) % 5, 1.0, 3.0)
    balanced = in_balance(np.repeat(scores, weights.astype(int), axis=0), 0.02)
    matrix, workers = Dense(scores.astype(np.float32)), Workers(2 - bool(runner), memory=MEMORY, runner=runner)
    found = balance_anywhere(matrix, Schedule(0.02, 1000, 1e-4, "sparse"), workers, weights=weights)
    assert found.row_error <= 1e-4
    assert nearness(found.h, balanced) < 1e-4
    # Later items, and items that are asked for again, get h from alpha.
    again = 0.02 * np.logaddexp.reduce(scores / 0.02 + found.log_alpha[:, None] + np.log(len(items)), axis=0)
    assert_allclose(again, found.h, rtol=0, atol=1e-5)


@pytest.mark.parametrize("runner", [None, Pickled(3)])
def test_iterations_may_start_anywhere(runner: Pickled | None) -> None:
    items, bank = sets()
    scores = bank.astype(np.float64) @ items.astype(np.float64).T
    balanced, workers = in_balance(scores, 0.02), Workers(1, memory=MEMORY, runner=runner)
    schedule = Schedule(0.02, 10, keep="sparse")
    found = balance_anywhere(Dense(scores.astype(np.float32)), schedule, workers, start=balanced + 0.003)
    assert workers.passes <= 4
    assert nearness(found.h, balanced) < 1e-5


def test_a_part_that_a_machine_loses_is_kept_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, schedule = clouds(60, 4, 1) @ clouds(50, 4, 2).T, Schedule(0.02, 10, keep="sparse")
    once, again = Workers(1, runner=Pickled(3)), Workers(1, runner=Pickled(3))
    expected = balance_anywhere(Dense(scores), schedule, once)
    monkeypatch.setattr(KeptHere, "forgetful", True)
    found = balance_anywhere(Dense(scores), schedule, again)
    assert_allclose(found.h, expected.h, rtol=0, atol=1e-6)
    assert stated(found)[1] == pytest.approx(stated(expected)[1], rel=0.05, abs=1e-6)


@pytest.mark.parametrize("turn", [1, -1])
def test_items_in_an_order_take_no_more_memory_on_any_machine(turn: int) -> None:
    bank = clouds(600, 0, 1)
    noise = np.random.default_rng(3).standard_normal((300, 32)).astype(np.float32)
    items = np.concatenate([bank[:300] + 0.02 * noise, noise])[::turn]  # near copies have all their share in one entry
    workers = Workers(1, memory=ENTRY_BYTES * 60 * 600, runner=Pickled(2))
    found = balance_anywhere(Dense(bank @ items.T), Schedule(0.02, 10, keep="sparse"), workers)
    assert 0.5 * 32 * 600 <= stated(found)[0] <= 2 * workers.memory / ENTRY_BYTES


def test_the_first_rows_fit_in_memory_and_stand_for_all() -> None:
    rows, weights = pilot_rows(BalancedRows((100, 900)), 50, int(4 * 50 * 20.5 / MEMORY_SHARE))
    assert len(set(rows.tolist())) == 20 and rows.min() >= 100 and rows.max() < 900
    assert weights.total == pytest.approx(800)
    assert len(pilot_rows(BalancedRows((0, 800)), 50, 10**9)[0]) == 100
    given = Weights(np.random.default_rng(0).exponential(1, 4000) + 500 * (np.arange(4000) == 7))
    rows, weights = pilot_rows(BalancedRows((0, 4000), weights=given), 50, 10**9)
    assert len(rows) == pytest.approx(500, rel=0.1)
    assert weights.values[rows.tolist().index(7)] == given.values[7]
    assert weights.total == pytest.approx(given.total, rel=0.05)


def test_heavy_queries_count_from_the_start() -> None:
    scores = topics(1200, 1).astype(np.float64) @ topics(900, 101).T.astype(np.float64)
    weights = np.exp(3 * np.random.default_rng(5).standard_normal(1200))
    matrix, workers = Dense(scores.astype(np.float32)), Workers(1, memory=ENTRY_BYTES * 40 * 1200)
    balanced = balance(matrix, Schedule(0.02, 20_000, 1e-6, "fp32"), Workers(2), weights=weights).h
    cold = balance(matrix, Schedule(0.02, 10, keep="fp32"), Workers(1), weights=weights).h
    found = balance(matrix, Schedule(0.02, 10, keep="sparse"), workers, weights=weights)
    assert nearness(found.h, balanced) < nearness(cold, balanced)


@pytest.mark.parametrize("runner", [None, Pickled(2)])
def test_progress_is_planned_from_the_start(runner: Pickled | None) -> None:
    seen: list[tuple[int, int]] = []
    workers = Workers(1, progress=lambda *done: seen.append(done), runner=runner)
    balance_anywhere(Dense(clouds(300, 4, 1) @ clouds(200, 4, 2).T), Schedule(0.02, 10, keep="sparse"), workers)
    workers.finish()
    assert seen[-1][0] == seen[-1][1]
    assert seen[-1][1] <= 1.15 * seen[len(seen) // 2][1]


def test_items_are_made_ready_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[tuple[int, int]] = []
    items = Dot.items

    def noting(self: Dot, span: tuple[int, int]) -> Any:
        spans.append(span)
        return items(self, span)

    monkeypatch.setattr(Dot, "items", noting)
    assert fitted("sn:tau=0.02").cost.kept == "sparse"
    assert spans.count((0, 300)) == 1


def mixed(machines: list[int], memory: int) -> tuple[Solution, float, Floats]:
    """What machines find that have so many threads each, their multiplies, and h of ten iterations."""
    scores = clouds(300, 4, 1).astype(np.float64) @ clouds(200, 4, 2).T.astype(np.float64)
    runner = Pickled(len(machines))
    runner.machines = machines
    workers = Workers(1, memory=memory, runner=runner)
    return balance_anywhere(Dense(scores), Schedule(0.05, 10), workers), workers.passes, oracles.sn(scores, 0.05, 10)[0]


def test_a_machine_with_room_for_all_of_its_few_items_keeps_a_part_as_the_others_do() -> None:
    found, passes, _ = mixed([1, 19], 90_000)
    assert found.kept == "sparse" and passes <= 4


def test_iterations_are_done_where_a_machine_has_no_room_for_a_part() -> None:
    found, passes, cold = mixed([1, 19], 60_000)
    assert found.kept == "fp32 and recomputed" and passes > 9
    assert_allclose(found.h, cold, rtol=0, atol=1e-6)


def test_the_same_threads_give_the_same_bits() -> None:
    first, second = (fitted("sn:tau=0.02", threads=2) for _ in range(2))
    assert_array_equal(first.bias, second.bias)


@pytest.mark.parametrize("runner", [None, Pickled(3)])
@pytest.mark.parametrize("tau", [0.001, 0.003])
def test_items_far_from_every_query_stay_finite(tau: float, runner: Pickled | None) -> None:
    items, bank = sets()
    scores = (bank @ items.T).astype(np.float64) - 2.0 * (np.arange(300) == 7)
    workers = Workers(2 - bool(runner), memory=MEMORY, runner=runner)
    found = balance_anywhere(Dense(scores.astype(np.float32)), Schedule(tau, 10, keep="sparse"), workers)
    assert found.kept == "sparse"
    assert np.isfinite(found.h).all()
    assert oracles.marginal_errors(scores, found.log_alpha, found.h, tau)[1] < 1e-3


class Rows:
    """A matrix that is only read row by row."""

    def __init__(self, matrix: Floats) -> None:
        self._matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype

    def __getitem__(self, key: slice, /) -> Floats:
        return self._matrix[key]


def test_a_matrix_that_is_read_row_by_row_does_as_an_array() -> None:
    items, bank = sets()
    scores: Floats = (bank @ items.T).astype(np.float64)
    rows: Any = Rows(scores)
    schedule = Schedule(0.02, 10, keep="sparse")
    found, expected = (balance(Dense(one), schedule, Workers(1, memory=MEMORY)) for one in (rows, scores))
    assert_array_equal(found.h, expected.h)


def test_a_bad_number_of_a_given_matrix_is_named_by_its_row() -> None:
    items, bank = sets()
    for row in (7, 8, 9):
        scores = bank @ items.T
        scores[row, 3] = np.nan
        with pytest.raises(ArgumentError, match=f"holds nan in row {row};"):
            balance(Dense(scores), Schedule(0.02, 10, keep="sparse"), Workers(1, memory=MEMORY))


def test_no_temperature_is_too_high() -> None:
    found = balance(Dense(drawn(3).bank_scores), Schedule(5.0, 10, keep="sparse"), Workers(1))
    assert found.kept == "recomputed"  # K is nearly 1 everywhere


def test_a_rise_keeps_as_many_entries_as_wanted() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(500, 0.05), 300).astype(np.float32)
    weights = rng.uniform(0.2, 1.8, 300)
    selection = Selection.of(rise_for(shares, weights, 40.0), weights, 500, seed=1)
    chunk = selection.keep(shares, 0, Workers(1).kernel)
    assert len(chunk.values) / 300 == pytest.approx(40, rel=0.05)
    assert float(chunk.values.sum()) == pytest.approx(300, rel=0.05)  # what is left out is made up for
