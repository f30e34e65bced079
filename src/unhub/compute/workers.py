"""Workers: who does the work (threads, memory, progress) and what it cost."""

from __future__ import annotations

import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from threadpoolctl import ThreadpoolController

Progress: TypeAlias = Callable[[int, int], None]
T = TypeVar("T")
S = TypeVar("S")

UNITS = {
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


class Stopped(Exception):
    """Raised in a worker when another worker failed or the user pressed ctrl-C."""


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


class _Pin:
    """BLAS has one number of threads for the whole process: the first to pin it sets it, the last restores it."""

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
    """Let this thread set BLAS's threads, and any thread after it.

    threadpoolctl leaves that, from 3.8 on, to the thread that was the first to do it; others silently do nothing.
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
    """Hold BLAS to one thread, since the threads here are our own."""
    pin = _pin
    pin.take()
    try:
        yield
    finally:
        if pin is _pin:  # and not that of the process this one was forked from
            pin.give()


def _before_fork() -> None:
    """Wait until no thread is changing the pin: the child would get it half changed, and its lock held for ever."""
    _pin.lock.acquire()


def _after_fork_in_parent() -> None:
    _pin.lock.release()


def _after_fork_in_child() -> None:
    """Begin with no pin: the threads that held it are not in the child, and nobody else would restore BLAS."""
    global _pin
    if _pin.holders:
        _pin.restore()
    _pin = _Pin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


@dataclass(frozen=True)
class Resources:
    """What a call may use: threads (None: all), memory (bytes or a text such as '2GB') and what shows its progress."""

    threads: int | None = None
    memory: int | str | None = None
    progress: Progress | None = None

    def workers(self) -> Workers:
        """Return who does the work."""
        return Workers(self.threads, self.memory, self.progress)


class Workers:
    """Runs jobs on threads with BLAS pinned to one thread each, shows progress, can be stopped, and keeps account."""

    def __init__(
        self, threads: int | None = None, memory: int | str | None = None, progress: Progress | None = None
    ) -> None:
        self.threads = thread_count(threads)
        self.memory = byte_count(memory) if memory is not None else available_memory() // 2
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

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.perf_counter() - self._started

    def tick(self, amount: int) -> None:
        """Note that `amount` of the total is done; workers call it once a tile, and stop there when told to."""
        if self._stop.is_set():
            raise Stopped
        with self._lock:
            self._done += amount

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run the jobs on the threads and return their results in order; the first error stops them all.

        A job must not run others: they would wait for its thread.
        """
        with one_blas_thread():
            futures: list[Future[T]] = []
            try:
                for job in jobs:
                    futures.append(self._pool.submit(job))
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

    def map(self, function: Callable[[S], T], values: Iterable[S]) -> list[T]:
        """Apply the function to every value, on the threads."""
        return self.run([functools.partial(function, value) for value in values])

    def part(self, amount: int) -> Progress:
        """Return what takes (done, total), which may not fall, of work in one piece that is `amount` of the total."""
        noted = 0

        def advance(done: int, total: int) -> None:
            nonlocal noted
            now = amount * done // total
            self.tick(now - noted)
            noted = now
            self._look()

        return advance

    def finish(self) -> None:
        """Say that all is done, also where less was to do than planned; nothing can be run after it."""
        self._done = self.total
        self._look()
        self._pool.shutdown()

    def _look(self) -> None:
        self.peak_memory = max(self.peak_memory, anonymous_memory() - self._baseline)
        if self._progress is not None and self.total:
            self._progress(min(self._done, self.total), self.total)


def thread_count(threads: int | None) -> int:
    """Return how many threads to use: as many as asked for, or as this process may run on."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(threads, Integral) or isinstance(threads, bool) or threads < 1:
        raise ValueError(f"threads must be a whole number of at least 1, got {threads!r}")
    return int(threads)


def byte_count(memory: int | str) -> int:
    """Return a number of bytes from a number or a text such as '2GB', '500 MB' or '1.5GiB'."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?\s*", str(memory).lower())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"memory must be a number of bytes or a text such as '2GB', got {memory!r}")
    return int(float(match[1]) * UNITS[match[2] or ""])


def available_memory() -> int:
    """Return how many bytes are free to use, as the system tells; 4 GB where it does not."""
    try:
        with open("/proc/meminfo") as file:
            match = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
    except OSError:
        match = None
    return min(int(match[1]) << 10 if match else 4 * 10**9, _container_memory())


def _container_memory() -> int:
    """Return what a control group leaves of its limit; no end where there is none."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no such files, or the limit is the word "max"
        return 1 << 62
    return max(limit - used, 0)


def anonymous_memory() -> int:
    """Return this process's anonymous resident memory in bytes (mapped files do not count); 0 where it is not told."""
    try:
        with open("/proc/self/status") as file:
            match = re.search(r"RssAnon:\s+(\d+) kB", file.read())
    except OSError:
        match = None
    return int(match[1]) << 10 if match else 0
