"""Workers: threads that stop together, progress that arrives, memory that stays small."""

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.bank_cases import ON_A_BANK, drawn
from tests.children import assert_ctrl_c_stops, child
from unhub.compute.workers import Stopped, Workers
from unhub.fitting import fit
from unhub.methods import parse
from unhub.upkeep import extend, merge

# Running.


def blas_threads() -> set[int]:
    """Return the threads of numpy's own BLAS; SciPy's and torch's may be loaded later, by other tests."""
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas" and "numpy" in one["filepath"]]
    return {library["num_threads"] for library in libraries}


def test_any_thread_pins_blas_and_the_last_to_run_sets_it_free() -> None:
    begun, overlapping = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        overlapping.wait(10)

    def second() -> set[int]:
        overlapping.set()
        one.result(10)
        return blas_threads()

    # The threads of the pool live on, as those of a server do.
    with threadpool_limits(2, "blas"), ThreadPoolExecutor(2) as pool:
        before = blas_threads()
        one = pool.submit(Workers(1).run, [first])
        begun.wait(10)
        assert pool.submit(Workers(1).run, [second]).result(10) == [{1} if before else set()]
        assert blas_threads() == before
        with threadpool_limits(3, "blas"):
            assert blas_threads() == ({3} if before else set())


def test_results_come_in_the_order_of_the_jobs() -> None:
    def slow_first(place: int) -> int:
        time.sleep(0.02 if place == 0 else 0)
        return place

    assert Workers(3).map(slow_first, range(7)) == list(range(7))


def test_jobs_run_side_by_side() -> None:
    barrier = threading.Barrier(2, timeout=10)
    assert Workers(2).run([barrier.wait, barrier.wait]) in ([0, 1], [1, 0])


def test_runs_of_one_effort_share_their_threads_which_end_with_it() -> None:
    workers = Workers(2)
    seen = {thread for _ in range(20) for thread in workers.map(lambda _: threading.current_thread(), range(4))}
    assert len(seen) <= 2
    del workers
    for thread in seen:
        thread.join(timeout=10)
        assert not thread.is_alive()


def test_no_thread_is_left_when_an_effort_is_done_or_failed() -> None:
    seen: set[threading.Thread] = set()

    def fail() -> None:
        seen.add(threading.current_thread())
        raise RuntimeError("gone")

    done, failed = Workers(2), Workers(2)
    seen.update(done.map(lambda _: threading.current_thread(), range(4)))
    done.finish()
    with pytest.raises(RuntimeError, match="gone") as kept:
        failed.run([fail, fail])
    assert len(seen) >= 2 and not any(thread.is_alive() for thread in seen)
    assert kept.value.args == ("gone",)


def test_an_error_in_a_worker_is_raised_and_stops_the_rest() -> None:
    workers = Workers(2)
    seen = {"ticks": 0, "stopped": False}

    def fail() -> None:
        time.sleep(0.02)
        raise RuntimeError("the disk is gone")

    def work() -> None:
        for _ in range(2000):  # twenty seconds, if nobody stops it
            time.sleep(0.01)
            try:
                workers.tick(1)
            except Stopped:
                seen["stopped"] = True
                raise
            seen["ticks"] += 1

    never: list[int] = []
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="the disk is gone"):
        workers.run([fail, work, *([lambda: never.append(1)] * 5)])
    assert time.perf_counter() - start < 5
    assert seen["stopped"]
    assert seen["ticks"] < 500


def test_jobs_that_did_not_start_are_left_undone() -> None:
    workers = Workers(1)
    done: list[int] = []

    def fail() -> None:
        raise RuntimeError("first")

    def later() -> None:
        time.sleep(0.02)
        workers.tick(1)
        done.append(1)

    with pytest.raises(RuntimeError, match="first"):
        workers.run([fail, *([later] * 200)])
    assert len(done) < 20


def test_an_error_while_fitting_is_raised_as_it_is() -> None:
    sets = drawn(bank=2000)

    def progress(done: int, total: int) -> None:
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="the terminal is gone"):
        fit(sets.items, sets.bank, method="is", threads=2, progress=progress)


# Progress.


class Recorder:
    """Keeps what progress was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.calls.append((done, total))

    def assert_rises_to_the_end(self) -> None:
        assert self.calls
        done = [one for one, _ in self.calls]
        assert done == sorted(done)
        assert all(0 <= one <= total for one, total in self.calls)
        assert self.calls[-1][0] == self.calls[-1][1] > 0


WITHOUT_A_PASS = ("raw", "dn", "cent", "gc")


@pytest.mark.parametrize("spec", [spec for spec in ON_A_BANK if parse(spec).name not in WITHOUT_A_PASS])
@pytest.mark.parametrize("threads", [1, 3])
def test_progress_rises_and_ends_at_the_total(spec: str, threads: int) -> None:
    sets, progress = drawn(bank=3000), Recorder()
    fit(sets.items, sets.bank, method=spec, bank_items=sets.bank_items, threads=threads, progress=progress)
    progress.assert_rises_to_the_end()


@pytest.mark.parametrize("memory", [1, "1GB"])
def test_progress_ends_at_the_total_where_a_tolerance_stops_early(memory: int | str) -> None:
    sets, progress = drawn(), Recorder()
    cost = fit(
        sets.items, sets.bank, method="sn:tau=0.1,iterations=500,tolerance=0.01", memory=memory, progress=progress
    ).cost
    assert cost.iterations < 100
    progress.assert_rises_to_the_end()


def test_progress_is_shown_while_several_methods_are_fitted() -> None:
    sets, progress = drawn(bank=3000), Recorder()
    fit(sets.items, sets.bank, method=["is", "sn", "gc:quantiles=9", "nnn"], progress=progress)
    progress.assert_rises_to_the_end()


def test_progress_is_shown_by_extend_and_merge() -> None:
    sets = drawn(bank=3000)
    correction = fit(sets.items[:30], sets.bank[:2000], method="is")
    for change in (
        lambda show: extend(correction, sets.items[30:], sets.bank[:2000], progress=show),
        lambda show: merge(correction, sets.items[:30], sets.bank[2000:], progress=show),
    ):
        progress = Recorder()
        run: Callable[[Recorder], object] = change
        run(progress)
        progress.assert_rises_to_the_end()


# Stopping a whole process, and its memory.


BIG_FIT = """
import numpy as np
from unhub.fitting import fit
from unhub.data.vectors import Gathered
rows = np.random.default_rng(0).standard_normal((2000, 64), np.float32)
endless = Gathered(rows, np.arange(4_000_000) % 2000)  # more bank queries than seconds are enough for
def progress(done, total):
    print("started", flush=True) if done else None
fit(rows, endless, method={method!r}, similarity="dot", threads=2, memory=1, progress=progress)
"""


@pytest.mark.parametrize("method", ["is", "nnn:k=16"])
def test_ctrl_c_stops_a_big_fit_within_seconds(method: str) -> None:
    assert_ctrl_c_stops(BIG_FIT.format(method=method))


MEASURE = """
import json, threading, time
import numpy as np
from unhub.compute.workers import anonymous_memory
from unhub.fitting import fit
rng = np.random.default_rng(0)
items, bank = rng.standard_normal((60_000, 32), np.float32), rng.standard_normal((2_000, 32), np.float32)
fit(items[:2000], bank, method={method!r}, threads=1)  # compiles, and warms up what any fit needs
before, peak, over = anonymous_memory(), 0, threading.Event()
def watch():
    global peak
    while not over.is_set():
        peak = max(peak, anonymous_memory())
        time.sleep(0.002)
watcher = threading.Thread(target=watch)
watcher.start()
cost = fit(items, bank, method={method!r}, threads=2).cost
over.set()
watcher.join()
print(json.dumps([peak - before, cost.peak_memory]))
"""


@pytest.mark.parametrize("method", ["is", "dis", "nnn:k=10"])
def test_a_fit_never_holds_the_whole_matrix(method: str) -> None:
    """60,000 x 2,000 scores are 480 MB; a fit takes under 200 MB: tiles, a block of prepared items, running values."""
    process = child(MEASURE.format(method=method))
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    peak, stated = json.loads(output)
    assert peak < 200e6 < 4 * 60_000 * 2_000 / 2
    assert stated < 200e6


def test_efforts_that_overlap_leave_blas_as_it_was() -> None:
    before = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    jobs = [lambda: Workers(1).run([lambda: time.sleep(0.02)]) for _ in range(12)]
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()
    assert before == [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


# Forks, in a process of its own: one that has used BLAS and threads, as a server's has.


FORK = """
import os, signal, threading, time, traceback
import numpy as np
import scipy.linalg  # whose BLAS numba may load
from threadpoolctl import threadpool_info, threadpool_limits
from unhub import kernels
from unhub.compute import workers
from unhub.compute.workers import Workers

THREADS = 2
limited = threadpool_limits(THREADS, "blas")

def blas():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

def assert_works_in_a_fork(then=lambda: None):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            then()
            assert blas() == {THREADS}, blas()
            assert Workers(2).map(lambda _: blas(), range(2)) == [{1}, {1}]
            assert blas() == {THREADS}, blas()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    for _ in range(1000):
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            assert status == 0, status
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hung")

assert blas() == {THREADS}
"""

WHILE_THE_PIN_IS_SET = """
inside, real = threading.Event(), workers._blas()
class Slow:
    lib_controllers = real.lib_controllers
    def limit(self, **how):
        limits = real.limit(**how)
        inside.set()
        time.sleep(0.3)
        return limits
workers._blas = Slow
other = threading.Thread(target=Workers(1).run, args=([lambda: time.sleep(0.1)],), daemon=True)
other.start()
inside.wait()
assert_works_in_a_fork()
other.join()
assert blas() == {THREADS}
"""

WHILE_ANOTHER_THREAD_RUNS = """
def fork_often():
    assert blas() == {1}
    for _ in range(20):
        assert_works_in_a_fork()
    assert blas() == {1}

Workers(1).run([fork_often])
assert blas() == {THREADS}
"""

WITHIN_A_RUN = """
from contextlib import ExitStack
with ExitStack() as stack:
    stack.enter_context(workers.one_blas_thread())
    assert_works_in_a_fork(stack.close)
assert blas() == {THREADS}
"""

WHILE_NUMBA_COMPILES = """
compiling = threading.Event()
def compile():
    if kernels.choose().NAME == "numba":
        from numba.core.compiler_lock import global_compiler_lock
        with global_compiler_lock:
            compiling.set()
            time.sleep(0.3)
    compiling.set()
other = threading.Thread(target=compile)
other.start()
compiling.wait()
assert_works_in_a_fork(lambda: kernels.choose().are_finite(np.ones((3, 4), np.float32), np.empty(3, bool)))
other.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "script", [WHILE_THE_PIN_IS_SET, WHILE_ANOTHER_THREAD_RUNS, WITHIN_A_RUN, WHILE_NUMBA_COMPILES]
)
def test_a_forked_process_waits_for_no_thread_of_its_parent_and_has_all_of_blas(script: str) -> None:
    process = child(FORK + script)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
