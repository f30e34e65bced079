"""Sinkhorn normalisation (SN, tau 0.01, 10 iterations) of unhub against torch and against POT, on the same threads.

Two claims are measured: SN is 1.3x faster (aim 2x) than the best of the torch forms in sinkhorn_torch.py, at 5,000
items x 100,000 bank queries; and 4x faster (aim 8x) than POT in float32 at 5,000 x 20,000, with h equal to 1e-4.

Allocation counts, and all are timed in this process, in rounds that take each in turn; a ratio compares two times of
the same round. torch starts from the same two float32 matrices of unit vectors. POT takes a matrix of costs, so
it is measured twice: from a given matrix, which unhub reads as a Dense one, and from the vectors, where both multiply
first, which is most of unhub's time. POT gets the cost max(S) - S, which is 1 - S up to a constant and keeps its K in
the range of float32, and a row for each item: POT updates its columns first, so its ten iterations are then ours, in
our order. The faster of its `sinkhorn` and `sinkhorn_log` whose h is right is timed. The difference of h, centred, from
a float64 reference is measured at POT's size. The process keeps the memory it has taken, as in fit.py; POT and torch,
which need the most memory, profit most. --fresh-memory turns this off.

The default (one and two threads, five rounds) takes about a quarter of an hour on two cores and 5 GB of memory. torch
is no part of unhub's extras; the CPU build is enough: pip install torch==2.13.0.
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, cast

import numpy as np
import ot
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import unhub
from data import unit_vectors
from fit import keep_memory
from unhub import kernels
from unhub.arrays import Float32, Float64

try:
    import torch

    import sinkhorn_torch
except ImportError as error:
    if error.name != "torch":
        raise
    FORMS: dict[str, Callable[[Float32, Float32, float, int], Float64]] = {}
else:
    FORMS = sinkhorn_torch.FORMS

ITEMS = 5_000
TORCH_BANK, POT_BANK = 100_000, 20_000
TAU, ITERATIONS = 0.01, 10
H_TOLERANCE = 1e-4  # how far h may be from the reference
REST_SECONDS = 0.2  # after a product, OpenBLAS and OpenMP threads spin for a while on cores that others need
POT_METHODS = {"POT sinkhorn": "sinkhorn", "POT sinkhorn_log": "sinkhorn_log"}
INSTALL_TORCH = "torch is not installed, so unhub is not measured against it: pip install torch==2.13.0"

Contender: TypeAlias = Callable[[], Float64]  # returns h, (items,)


def main() -> None:
    """Check every contender's h, time them in rounds, and print a table for each comparison and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, action="append", help="repeatable; default: 1 and 2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--against", choices=("torch", "pot"), action="append", help="repeatable; default: both")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for both sizes, such as 0.05 for a small run")
    parser.add_argument("--fresh-memory", action="store_true", help="let every fit allocate its memory")
    options = parser.parse_args()
    if not options.fresh_memory:
        keep_memory()
    console = Console(width=110)
    against = options.against or ["torch", "pot"]
    items = unit_vectors(max(2, round(ITEMS * options.scale)), options.dimensions, seed=0)
    bank = unit_vectors(max(2, round(TORCH_BANK * options.scale)), options.dimensions, seed=1)
    short_bank = bank[: max(2, round(POT_BANK * options.scale))]
    if "torch" in against and not FORMS:
        console.print(INSTALL_TORCH)
    names = [*(FORMS if "torch" in against else ()), *(POT_METHODS if "pot" in against else ())]
    compile_kernels()
    truth = reference(items, short_bank)
    for threads in options.threads or (1, 2):
        checked, errors, seconds = check(items, short_bank, threads, names, truth)
        console.print(checked)
        if "torch" in against and FORMS:
            times = measure(items, bank, threads, list(FORMS), options.rounds)
            console.print(compare(items, bank, threads, times, (1.3, 2.0)))
        right = [name for name in POT_METHODS if errors.get(name, np.inf) <= H_TOLERANCE]
        if right:
            fastest = min(right, key=lambda name: seconds[name])
            times = measure(items, short_bank, threads, [fastest], options.rounds)
            console.print(compare(items, short_bank, threads, times, (4.0, 8.0)))
            console.print(from_a_matrix(items, short_bank, threads, POT_METHODS[fastest], options.rounds))
        elif "pot" in against:
            console.print(f"POT has no h within {H_TOLERANCE:g} of the reference, so there is no time to compare")


def contenders(items: Float32, bank: Float32, threads: int, names: Iterable[str]) -> dict[str, Contender]:
    """Return unhub and the others of these names, ready to run on this number of threads."""
    if FORMS:
        torch.set_num_threads(threads)  # unhub takes it as an argument, and POT through a limit on BLAS
    known: dict[str, Contender] = {"unhub": functools.partial(ours, items, bank, threads)}
    for name, form in FORMS.items():
        known[name] = functools.partial(form, items, bank, TAU, ITERATIONS)
    for name, method in POT_METHODS.items():
        known[name] = functools.partial(pot, items, bank, threads, method)
    return {name: known[name] for name in ("unhub", *names)}


def ours(items: Float32, bank: Float32, threads: int) -> Float64:
    """Fit SN as a user would: rows checked, hashed and normalised too."""
    fitted = unhub.fit(items, bank, method="sn", tau=TAU, iterations=ITERATIONS, threads=threads)
    return cast("Float64", fitted.arrays["bias"])


def pot(items: Float32, bank: Float32, threads: int, method: str) -> Float64:
    """Multiply, and let POT balance items (its rows) against the bank (its columns)."""
    with threadpool_limits(threads, user_api="blas"):
        return transport(costs(items, bank), threads, method)


def costs(items: Float32, bank: Float32) -> Float32:
    """Return max(S) - S, (items, bank)."""
    cost = np.matmul(items, bank.T)
    np.subtract(cost.max(), cost, out=cost)
    return cast("Float32", cost)


def transport(cost: Float32, threads: int, method: str) -> Float64:
    """Let POT balance the rows of a cost matrix against its columns; NaN if it met numerical errors."""
    n, m = cost.shape
    with threadpool_limits(threads, user_api="blas"), warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        weights = np.full(n, 1 / n, np.float32), np.full(m, 1 / m, np.float32)
        _, log = ot.sinkhorn(*weights, cost, TAU, method=method, numItermax=ITERATIONS, stopThr=0, log=True, warn=False)
        log_u = log["log_u"] if "log_u" in log else np.log(log["u"])
    if any("numerical errors" in str(one.message) for one in met):
        return np.full(n, np.nan)
    return cast("Float64", -TAU * log_u.astype(np.float64))


def from_a_matrix(items: Float32, bank: Float32, threads: int, method: str, rounds: int) -> Table:
    """Time unhub and POT from the matrix each takes: similarities, (bank, items), and costs, (items, bank)."""
    scores, cost = np.matmul(bank, items.T), costs(items, bank)

    def dense() -> object:
        return unhub.fit(unhub.Dense(scores), method="sn", tau=TAU, iterations=ITERATIONS, threads=threads)

    theirs = functools.partial(transport, cost, threads, method)
    runs: dict[str, Callable[[], object]] = {"unhub": dense, f"POT {method}": theirs}
    table = compare(items, bank, threads, time_in_turn(runs, rounds), (4.0, 8.0))
    table.title = f"from a given matrix: {table.title}"
    return table


def reference(items: Float32, bank: Float32) -> Float64:
    """Iterate in float64, a row for each bank query; each row of K is divided by its maximum, which alpha absorbs."""
    kernel = bank.astype(np.float64) @ items.T.astype(np.float64)
    kernel -= kernel.max(axis=1, keepdims=True)
    kernel /= TAU
    np.exp(kernel, out=kernel)
    m, n = kernel.shape
    beta = np.ones(n)
    for _ in range(ITERATIONS):
        alpha = 1 / m / (kernel @ beta)
        beta = 1 / n / (alpha @ kernel)
    return -TAU * np.log(beta)


def check(
    items: Float32, bank: Float32, threads: int, names: list[str], truth: Float64
) -> tuple[Table, dict[str, float], dict[str, float]]:
    """Run each once; return the table of errors, each one's largest difference of h, and its seconds."""
    errors, seconds = {}, {}
    table = Table(
        "h against float64, centred",
        "seconds, once",
        "largest difference",
        "root mean square",
        f"within {H_TOLERANCE:g}",
        title=title(items, bank, threads),
        min_width=90,
    )
    for name, run in contenders(items, bank, threads, names).items():
        start = time.perf_counter()
        h = run()
        seconds[name] = time.perf_counter() - start
        apart = h - h.mean() - (truth - truth.mean())
        largest = float(np.abs(apart).max())
        errors[name] = largest if np.isfinite(largest) else np.inf
        rms = float(np.sqrt(np.square(apart).mean()))
        close = "yes" if errors[name] <= H_TOLERANCE else "NO"
        table.add_row(name, f"{seconds[name]:.3f}", f"{largest:.1e}", f"{rms:.1e}", close)
    return table, errors, seconds


def measure(items: Float32, bank: Float32, threads: int, names: list[str], rounds: int) -> dict[str, list[float]]:
    """Time unhub and the others from the vectors; return each one's seconds."""
    return time_in_turn(contenders(items, bank, threads, names), rounds)


def time_in_turn(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each run, round by round; each starts when the threads of the previous one are idle."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(REST_SECONDS)
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def compare(
    items: Float32, bank: Float32, threads: int, seconds: dict[str, list[float]], wanted: tuple[float, float]
) -> Table:
    """Return the table of times, and of ratios to unhub's; the best of several others in each round comes last."""
    mine = np.array(seconds["unhub"])
    others = {name: np.array(times) for name, times in seconds.items() if name != "unhub"}
    must, aim = wanted
    table = Table(
        "",
        "seconds",
        "times unhub's",
        "spread",
        f"must {must:g}",
        f"aim {aim:g}",
        title=title(items, bank, threads),
        min_width=90,
    )
    table.add_row("unhub", f"{np.median(mine):.3f}", "", "", "", "")
    if len(others) > 1:
        others["the best in each round"] = np.min(list(others.values()), axis=0)
    for name, times in others.items():
        ratios = times / mine
        ratio = float(np.median(ratios))
        verdicts = ("", "")
        if name == list(others)[-1]:
            verdicts = ("met" if ratio >= must else "MISSED", "met" if ratio >= aim else "missed")
        spread = f"{ratios.min():.2f} - {ratios.max():.2f}"
        table.add_row(name, f"{np.median(times):.3f}", f"{ratio:.2f}", spread, *verdicts)
    return table


def title(items: Float32, bank: Float32, threads: int) -> str:
    """Say what a table is about."""
    shape = f"{len(items):,} items x {len(bank):,} bank, d = {items.shape[1]}"
    return f"SN, {ITERATIONS} iterations, {shape}, {threads} thread(s), {kernels.choose().NAME}"


def compile_kernels() -> None:
    """Let numba compile before anything is timed, for a K in float32 and in 16 bits."""
    few = unit_vectors(600, 8, seed=2)
    for memory in (4 * len(few) ** 2, 3 * len(few) ** 2):
        unhub.fit(few, few, method="sn", memory=memory)


if __name__ == "__main__":
    main()
