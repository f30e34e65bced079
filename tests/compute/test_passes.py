"""A pass is a plan of parts that can run in any process, and gives the same bits wherever they run."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.runners import Pickled, ignore
from unhub.arrays import Float32
from unhub.compute import passes
from unhub.compute.passes import Found, Task, Want, plan, plan_apart, reduce
from unhub.compute.workers import Job, Tick, Workers
from unhub.data.fingerprint import ReadOnce
from unhub.data.similarity import Block, Dense, Dot, Similarity
from unhub.data.vectors import as_vectors

T = TypeVar("T")
DEVICES = ["numpy"] if os.environ.get("UNHUB_NO_NUMBA") else ["numpy", "numba"]
EVERYTHING = Want(betas=(20.0, 400.0, 0.5), top_means=(1, 7), top_values=9, best_items=2)


def call(job: Callable[[Tick], T]) -> T:
    return job(ignore)


class Processes(Pickled):
    """Runs jobs in processes of their own."""

    def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
        found = []
        with ProcessPoolExecutor(self.slots, mp_context=multiprocessing.get_context("spawn")) as pool:
            for job, result in zip(jobs, pool.map(call, jobs), strict=True):
                found.append(result)
                tick(job.size)
        return found


def rows_of(n: int, d: int, seed: int) -> Float32:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def assert_same_bits(one: Found, other: Found) -> None:
    for name in ("log_sums", "top_means"):
        ours, theirs = getattr(one, name), getattr(other, name)
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert_array_equal(ours[key], theirs[key])
    for name in ("top_values", "best_items", "best_scores"):
        assert_array_equal(getattr(one, name), getattr(other, name))


def on_threads(similarity: Similarity, device: str) -> Found:
    return reduce(similarity, EVERYTHING, Workers(2, device=device))


@pytest.mark.parametrize("device", DEVICES)
def test_a_pass_in_other_processes_has_the_same_bits(tmp_path: Path, device: str) -> None:
    np.save(tmp_path / "bank.npy", rows_of(1200, 12, 0))
    mapped = as_vectors(np.load(tmp_path / "bank.npy", mmap_mode="r"), "bank")
    similarity = Dot(mapped, as_vectors(rows_of(300, 12, 1), "items"))
    seen: list[tuple[int, int]] = []
    # In a new process too: which copy of a compiled function numba uses depends on what was loaded before it.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        expected = pool.submit(on_threads, similarity, device).result()
    elsewhere = Workers(1, progress=lambda *done: seen.append(done), device=device, runner=Processes(2))
    assert_same_bits(reduce(similarity, EVERYTHING, elsewhere), expected)
    assert seen == [(600 * 300, 1200 * 300), (1200 * 300, 1200 * 300)]
    assert elsewhere.passes == 1


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("want", [EVERYTHING, Want(betas=(20.0,)), Want(top_means=(400,)), Want(best_items=1)])
@pytest.mark.parametrize("shape", [(1700, 400), (400, 1700)])
@pytest.mark.parametrize("kind", ["cosine", "dot", "read once", "given"])
def test_parts_that_were_pickled_find_the_same(
    monkeypatch: pytest.MonkeyPatch, kind: str, shape: tuple[int, int], want: Want, slots: int
) -> None:
    monkeypatch.setattr(passes, "STATE_BYTES", 60_000)  # several groups of items
    bank_rows, item_rows = rows_of(shape[0], 6, 2), rows_of(shape[1], 6, 3)
    item_rows[5] *= np.float32(1e-20)  # so that all rows of its block are scaled in float64
    bank, items = as_vectors(bank_rows, "bank"), as_vectors(item_rows, "items")
    similarity: Similarity = Dot(bank, items, "dot" if kind == "dot" else "cosine")
    if kind == "given":
        similarity = Dense(bank_rows @ item_rows.T)
    if kind == "read once":
        similarity = Dot(ReadOnce(bank, "bank", "cosine"), items)
    offsets = np.linspace(-1, 1, shape[0]) if slots == 3 else None
    here = reduce(similarity, want, Workers(slots), offsets)
    there = reduce(similarity, want, Workers(1, runner=Pickled(slots)), offsets)
    if shape[0] >= shape[1]:
        assert_same_bits(there, here)
    # Fewer queries than items are cut in another way, so that no process reads the items of another.
    for name in ("log_sums", "top_means"):
        for key, values in getattr(here, name).items():
            assert_allclose(getattr(there, name)[key], values, rtol=1e-6, atol=1e-5)
    assert_allclose(there.top_values, here.top_values, rtol=0, atol=1e-5)
    assert_array_equal(there.best_items, here.best_items)
    assert_allclose(there.best_scores, here.best_scores, rtol=0, atol=1e-5)


def test_a_plan_covers_every_pair_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "STATE_BYTES", 60_000)
    for m, n, want, slots in [(1700, 400, EVERYTHING, 3), (400, 1700, EVERYTHING, 3), (300, 1700, Want((1.0,)), 4)]:
        task = Task(Dense(np.zeros((m, n), np.float32)), want, "numpy")
        covered = np.zeros((m, n), np.int64)
        for group in plan(task, slots):
            assert len({part.group for part in group}) == 1
            for part in group:
                covered[slice(*part.queries), slice(*part.items)] += 1
                assert part.size == (part.queries[1] - part.queries[0]) * (part.items[1] - part.items[0])
        assert (covered == 1).all()


@pytest.mark.parametrize(("m", "n", "slots", "parts"), [(100, 100_000, 4, 16), (30_000, 7000, 2, 4), (900, 500, 3, 3)])
def test_a_plan_for_other_machines_gives_each_its_own_items(m: int, n: int, slots: int, parts: int) -> None:
    task = Task(Dense(np.zeros((m, n), np.float32)), EVERYTHING, "numpy")
    apart, covered = plan_apart(task, slots), np.zeros((m, n), np.int8)
    assert len(apart) == parts
    for part in apart:
        covered[slice(*part.queries), slice(*part.items)] += 1
        assert part.queries == (0, m) or n < slots * passes.TILE_ROWS
    assert (covered == 1).all()


def test_best_items_of_other_machines_are_joined_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "TILE_ROWS", 64)
    similarity, runner = Dot(as_vectors(rows_of(300, 8, 0), "a"), as_vectors(rows_of(5000, 8, 1), "b")), Groups(2)
    want = Want(betas=(20.0,), best_items=3)
    whole = reduce(similarity, want, Workers(1, runner=runner))
    assert runner.sizes == [8]
    monkeypatch.setattr(passes, "JOINED_BYTES", 1)
    assert_same_bits(reduce(similarity, want, Workers(1, runner=runner)), whole)
    assert runner.sizes == [8, 2, 2, 2, 2]


class Groups(Pickled):
    """Notes how many jobs run at a time."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.sizes: list[int] = []

    def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
        self.sizes.append(len(jobs))
        return super().run(jobs, tick)


def test_threads_share_items_that_are_made_ready_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    ready = Dot.items

    def noted(self: Dot, span: tuple[int, int]) -> Block:
        asked.append(span)
        return ready(self, span)

    monkeypatch.setattr(Dot, "items", noted)
    similarity = Dot(as_vectors(rows_of(3000, 6, 2), "bank"), as_vectors(rows_of(300, 6, 3), "items"))
    reduce(similarity, EVERYTHING, Workers(4))
    assert asked == [(0, 300)]


def test_an_error_elsewhere_is_raised_here() -> None:
    class Broken(Pickled):
        def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
            raise ConnectionError("the machine is gone")

    similarity: Any = Dense(np.ones((600, 3), np.float32))
    with pytest.raises(ConnectionError, match="the machine is gone"):
        reduce(similarity, Want(betas=(1.0,)), Workers(1, runner=Broken(2)))
