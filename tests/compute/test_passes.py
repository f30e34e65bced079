"""A pass is a plan of parts that can run in any process, and gives the same bits wherever they run."""

import multiprocessing
import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from unhub.arrays import Float32
from unhub.compute import passes
from unhub.compute.passes import Found, Task, Want, plan, reduce
from unhub.compute.workers import Job, Tick, Workers, one_blas_thread
from unhub.data.fingerprint import ReadOnce
from unhub.data.similarity import Block, Dense, Dot, Similarity
from unhub.data.vectors import as_vectors

T = TypeVar("T")
DEVICES = ["numpy"] if os.environ.get("UNHUB_NO_NUMBA") else ["numpy", "numba"]
EVERYTHING = Want(betas=(20.0, 400.0, 0.5), top_means=(1, 7), top_values=9, best_items=2)


def ignore(amount: int) -> None:
    pass


def call(job: Callable[[Tick], T]) -> T:
    return job(ignore)


class Processes:
    """Runs jobs in processes of their own."""

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
        found = []
        with ProcessPoolExecutor(self.slots, mp_context=multiprocessing.get_context("spawn")) as pool:
            for job, result in zip(jobs, pool.map(call, jobs), strict=True):
                found.append(result)
                tick(job.size)
        return found


class Pickled:
    """Runs jobs here, one after the other, from copies that went through pickle."""

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
        with one_blas_thread():  # as on threads: with more, BLAS splits a product elsewhere and rounds otherwise
            found = [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(job))(ignore))) for job in jobs]
        tick(sum(job.size for job in jobs))
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
def test_parts_that_were_pickled_have_the_same_bits(
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
    assert_same_bits(reduce(similarity, want, Workers(1, runner=Pickled(slots)), offsets), here)


@pytest.mark.parametrize("kind", ["in memory", "mapped", "read once", "gathered", "given"])
def test_a_pickled_part_carries_only_the_rows_it_needs(tmp_path: Path, kind: str) -> None:
    rows = rows_of(4000, 50, 2)
    np.save(tmp_path / "bank.npy", rows)
    bank = as_vectors(np.load(tmp_path / "bank.npy", mmap_mode="r") if kind == "mapped" else rows, "bank")
    if kind == "gathered":
        bank = bank.gather(np.arange(4000)[::-1])
    if kind == "read once":
        bank = ReadOnce(bank, "bank", "cosine")
    similarity: Similarity = Dot(bank, as_vectors(rows_of(40, 50, 3), "items"))
    if kind == "given":
        similarity = Dense(rows)
    (parts,) = plan(Task(similarity, Want(betas=(20.0,)), "numpy"), 4)
    assert len(parts) == 4
    for part in parts:
        sent = pickle.dumps(part)
        assert len(sent) < rows.nbytes / 4 + 60_000
        assert_array_equal(pickle.loads(sent)(ignore).log_sums, part(ignore).log_sums)
    first = pickle.loads(pickle.dumps(parts[0])).task.similarity
    assert first.shape == similarity.shape
    with pytest.raises(IndexError, match="rows 900 to 1001 are not among the 1000 from 0 on"):
        first.queries_by_items(first.queries((900, 1001)), first.items((0, 9)), np.empty((101, 9), np.float32))


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
    class Broken:
        slots = 2

        def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
            raise ConnectionError("the machine is gone")

    similarity: Any = Dense(np.ones((600, 3), np.float32))
    with pytest.raises(ConnectionError, match="the machine is gone"):
        reduce(similarity, Want(betas=(1.0,)), Workers(1, runner=Broken()))
