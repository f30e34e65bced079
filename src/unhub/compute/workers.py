"""Workers: run work on threads, within a memory budget, with progress, and record its cost."""

from __future__ import annotations

import contextvars
import functools
import itertools
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from unhub import kernels
from unhub.errors import ArgumentError, check_whole, seen

Progress: TypeAlias = Callable[[int, int], None]
Tick: TypeAlias = Callable[[int], None]  # called with how much more of the work is done
T = TypeVar("T")
S = TypeVar("S")
Made = TypeVar("Made", covariant=True)

UNIT_BYTES = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}
POLL_SECONDS = 0.05
CALLS_PER_SLOT = 4  # jobs of many small calls: more balance better, fewer cost less to send


class Stopped(Exception):
    """Raised in a worker when another worker failed or the user pressed ctrl-C."""


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


class _Pin:
    """Pins BLAS to one thread in the whole process: the first holder sets the limit, the last restores it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.holders = 0
        self.limits: Any = None

    def take(self) -> None:
        with self.lock:
            if self.holders == 0:
                with _in_control():
                    self.limits = _blas().limit(limits=1, user_api="blas")
            self.holders += 1

    def give(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                self.restore()

    def restore(self) -> None:
        with _in_control():
            self.limits.restore_original_limits()


@contextmanager
def _in_control() -> Iterator[None]:
    """Allow this thread, and any thread after it, to set BLAS's number of threads.

    Since version 3.8, threadpoolctl allows only the first thread that did so; calls from others silently do nothing.
    """
    _leave_control()
    try:
        yield
    finally:
        _leave_control()


def _leave_control() -> None:
    for library in _blas().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)


_pin = _Pin()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, since we run our own threads."""
    pin = _pin
    pin.take()
    try:
        yield
    finally:
        if pin is _pin:  # not the pin of the process that this one was forked from
            pin.give()


def _before_fork() -> None:
    """Wait until no thread is changing the pin; else the child gets it half changed, with its lock held forever."""
    _pin.lock.acquire()


def _after_fork_in_parent() -> None:
    _pin.lock.release()


def _after_fork_in_child() -> None:
    """Start without a pin: the threads that held it do not exist in the child, so nothing would restore BLAS."""
    global _pin
    if _pin.holders:
        _pin.restore()
    _pin = _Pin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


class Job(Protocol[Made]):
    """Self-contained work: it can be pickled and does not wait for the result of another job."""

    @property
    def size(self) -> int:
        """How much of the total work it is."""

    def __call__(self, tick: Tick) -> Made:
        """Do the work; call `tick` with each further amount that is done, up to the size."""


class KeptObjects(Protocol):
    """Objects that live elsewhere, one on each machine."""

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every object with the same arrays and return the results in order.

        An object that was lost is made anew and asked again, so a method must not depend on what was asked before.
        """


class Runner(Protocol):
    """Runs jobs outside the threads of this process: in other processes or on other machines."""

    @property
    def slots(self) -> int:
        """How many jobs run at a time; work is cut into as many parts."""

    @property
    def machines(self) -> Sequence[int]:
        """How many threads each machine runs."""

    @property
    def note(self) -> str:
        """What was used so far, for the user."""

    def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
        """Run the jobs and return their results in order; call `tick` in this process as they are done."""

    def keep(self, makers: Sequence[Callable[[], object]], tick: Tick) -> AbstractContextManager[KeptObjects]:
        """Make an object on each machine and keep it there inside the `with` block; there is a maker per machine."""


_elsewhere: contextvars.ContextVar[Runner | None] = contextvars.ContextVar("runner", default=None)


@contextmanager
def elsewhere(runner: Runner) -> Iterator[None]:
    """Make this runner the default of all workers inside the `with` block."""
    before = _elsewhere.set(runner)
    try:
        yield
    finally:
        _elsewhere.reset(before)


@dataclass(frozen=True, eq=False)
class _Calls:
    """A job that applies a function to some values; no part of the total work."""

    function: Callable[[Any], Any]
    values: Sequence[Any]
    size: int = 0

    def __call__(self, tick: Tick) -> list[Any]:
        found = []
        for value in self.values:
            found.append(self.function(value))
            tick(0)
        return found


@dataclass(frozen=True)
class Resources:
    """What a call may use.

    threads: how many; None means all. memory: bytes, or a text such as '2GB'. progress: called with (done, total).
    device: the name of the kernel that computes, or of a device of torch; None is the default, see `kernels.choose`.
    runner: runs the parts of a pass; None means the one of `elsewhere`, else the threads of this process.
    """

    threads: int | None = None
    memory: int | str | None = None
    progress: Progress | None = None
    device: str | None = None
    runner: Runner | None = None

    def workers(self) -> Workers:
        """Return workers with these resources."""
        return Workers(self.threads, self.memory, self.progress, self.device, self.runner)


class Workers:
    """Runs jobs on threads with BLAS limited to one thread each; shows progress, can be stopped, records the cost."""

    def __init__(
        self,
        threads: int | None = None,
        memory: int | str | None = None,
        progress: Progress | None = None,
        device: str | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.threads = thread_count(threads)
        self.runner = runner or _elsewhere.get()
        self._device = kernels.check_name(device)
        limits = None if self._device is None else self.kernel.LIMITS
        self.lanes = self.threads if limits is None else min(self.threads, limits.threads)  # that compute at a time
        free = available_memory() if limits is None else min(available_memory(), limits.memory)
        self.asked_memory = None if memory is None else byte_count(memory)
        self.memory = self.asked_memory or free // 2
        self.passes = 0.0
        self.total = 0
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(self.threads)  # threads start when there is work
        self._started = time.perf_counter()
        self._baseline = anonymous_memory()
        self.peak_memory = 0

    @functools.cached_property
    def kernel(self) -> kernels.Kernel:
        """The kernel that multiplies and reduces, loaded on first use."""
        return kernels.choose(self._device)

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.perf_counter() - self._started

    @property
    def slots(self) -> int:
        """How many self-contained jobs run at a time."""
        return self.lanes if self.runner is None else self.runner.slots

    def tick(self, amount: int) -> None:
        """Record that `amount` of the total is done; workers call it after each tile, and stop there if told to."""
        if self._stop.is_set():
            raise Stopped
        with self._lock:
            self._done += amount

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run the jobs on the threads and return their results in order; the first error stops them all.

        A job must not run other jobs: they would wait for its thread.
        """
        with one_blas_thread(), kernels.prefer(self._device):
            futures: list[Future[T]] = []
            try:
                for job in jobs:
                    # In a copy of this context, which holds the default kernel; one context cannot run in two threads.
                    futures.append(self._pool.submit(contextvars.copy_context().run, job))
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_EXCEPTION)
                    self._look()
                    for future in done:
                        future.result()
            except BaseException:
                self._stop.set()
                for future in futures:
                    future.cancel()
                self._pool.shutdown()
                raise
            return [future.result() for future in futures]

    def run_jobs(self, jobs: Sequence[Job[T]]) -> list[T]:
        """Run self-contained jobs, on the threads or by the runner, and return their results in order."""
        if self.runner is None:
            return self.run([functools.partial(job, self.tick) for job in jobs])
        return self.runner.run(jobs, self.tick_here)

    def tick_here(self, amount: int) -> None:
        """Record that `amount` of the total is done, and show it; for the thread that called, not for a worker."""
        self.tick(amount)
        self._look()

    def map(self, function: Callable[[S], T], values: Iterable[S]) -> list[T]:
        """Apply the function to every value, on the threads."""
        return self.run([functools.partial(function, value) for value in values])

    def spread(self, function: Callable[[S], T], values: Iterable[S]) -> list[T]:
        """Apply a function that can be pickled to every value, on the threads or by the runner."""
        if self.runner is None:
            return self.map(function, values)
        every = list(values)
        edges = np.linspace(0, len(every), min(len(every), CALLS_PER_SLOT * self.slots) + 1).astype(int)
        jobs = [_Calls(function, every[start:stop]) for start, stop in itertools.pairwise(edges.tolist())]
        return [found for some in self.run_jobs(jobs) for found in some]

    @property
    def reads(self) -> Callable[..., Iterable[Any]]:
        """How to apply a function to spans of rows: where the runner is, else one after the other."""
        return map if self.runner is None else self.spread

    def part(self, amount: int) -> Progress:
        """Return a progress function for work that is `amount` of the total; its `done` must not decrease."""
        noted = 0

        def advance(done: int, total: int) -> None:
            nonlocal noted
            now = amount * done // total
            self.tick_here(now - noted)
            noted = now

        return advance

    def finish(self) -> None:
        """Show that all is done, even if there was less to do than planned; nothing can run afterwards."""
        self._done = self.total
        self._look()
        self._pool.shutdown()

    def _look(self) -> None:
        self.peak_memory = max(self.peak_memory, anonymous_memory() - self._baseline)
        if self._progress is not None and self.total:
            self._progress(min(self._done, self.total), self.total)


def thread_count(threads: int | None) -> int:
    """Return how many threads to use: the number asked for, or all cores this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_whole(threads, "threads", 1)


def byte_count(memory: int | str) -> int:
    """Return a number of bytes from a number or a text such as '2GB', '500 MB' or '1.5GiB'."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?\s*", str(memory).lower())
    if not match or float(match[1]) <= 0:
        raise ArgumentError("memory", f"must be a number of bytes or a text such as '2GB', got {seen(memory)}")
    return int(float(match[1]) * UNIT_BYTES[match[2] or ""])


def written_bytes(count: float) -> str:
    """Return a number of bytes as people write it, rounded up: `memory` of at least a kilobyte may be given so."""
    for name in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{math.ceil(count)} {name}"
        count /= 1000
    return f"{math.ceil(count * 100) / 100:.2f} GB"


def available_memory() -> int:
    """Return how many bytes the system reports as available; 4 GB if it does not say."""
    try:
        with open("/proc/meminfo") as file:
            match = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
    except OSError:
        match = None
    return min(int(match[1]) << 10 if match else 4 * 10**9, _container_memory())


def _container_memory() -> int:
    """Return what is left of a control group's limit, or a number beyond any memory if there is no limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no such files, or the limit is the word "max"
        return 1 << 62
    return max(limit - used, 0)


def anonymous_memory() -> int:
    """Return this process's anonymous resident memory in bytes, without mapped files; 0 if unknown."""
    try:
        with open("/proc/self/status") as file:
            match = re.search(r"RssAnon:\s+(\d+) kB", file.read())
    except OSError:
        match = None
    return int(match[1]) << 10 if match else 0
