"""Fits against the matrix multiply alone: each time divided by that of the multiply, in the same round.

The multiply is the better of one big product into a ready array and the same tiles as the fit's, at the same number of
threads. Rounds interleave everything, in random order, so that a busy moment of the machine affects all alike; a round
of a small shape is several sweeps, and the quickest time of each counts. The median ratio and the spread
over the rounds are printed. The default (three shapes, one and two threads, seven rounds) takes about forty minutes
on two cores; one shape: `python benchmarks/fit.py --shape 5000x100000 --threads 1`.

The process keeps the memory it has taken (an environment variable sets this in glibc), since a virtual machine gives
free pages back to its host within seconds, and taking them again costs several times a first touch on real hardware.
With --fresh-memory every fit allocates its own.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import unhub
from data import unit_vectors
from unhub import kernels
from unhub.arrays import Float32, Float64
from unhub.compute.passes import Want, reduce
from unhub.compute.sinkhorn import Schedule, balance
from unhub.compute.workers import Workers
from unhub.data.similarity import Dot
from unhub.data.vectors import as_vectors

SHAPES = ("5000x100000", "20000x5000", "1000x100000")
ROUND_PAIRS = 400_000_000  # a round has several sweeps if the shape has fewer (item, query) pairs
NNN_GRID = [f"nnn:k={1 << power},alpha={alpha}" for power in range(10) for alpha in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)]
CASES: dict[str, tuple[list[str], float]] = {
    "IS": (["is"], 1.08),
    "IS + DIS": (["is", "dis"], 1.18),
    "NNN k=128": (["nnn:k=128"], 1.18),
    "SN, 10 iterations": (["sn"], 1.45),
    "4 IS + NNN grid": ([*(f"is:tau={tau}" for tau in (0.01, 0.02, 0.05, 0.1)), *NNN_GRID], 1.6),
}
KEEPS_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 46), "MALLOC_ARENA_MAX": "1"}
PLAIN_CASES: dict[str, tuple[list[str], float]] = {"IS": (["is"], 1.25)}


def main() -> None:
    """Run the benchmark and print a table for each shape and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", help="items x bank, such as 5000x100000; repeatable")
    parser.add_argument("--threads", type=int, action="append", help="repeatable; default: 1 and 2")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only these; repeatable")
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sweeps", type=int, help="sweeps a round (default: enough for 400 million pairs)")
    parser.add_argument("--fresh-memory", action="store_true", help="let every fit allocate its memory")
    options = parser.parse_args()
    if not options.fresh_memory:
        keep_memory()
    console = Console(width=110)
    for shape in options.shape or SHAPES:
        n, m = (int(number) for number in shape.split("x"))
        items, bank = unit_vectors(n, options.dimensions, seed=0), unit_vectors(m, options.dimensions, seed=1)
        for threads in options.threads or (1, 2):
            console.print(measure(items, bank, threads, options.rounds, options.sweeps, options.case))


def measure(
    items: Float32, bank: Float32, threads: int, rounds: int, sweeps: int | None, only: list[str] | None
) -> Table:
    """Time everything in each round and return the table of ratios."""
    cases = PLAIN_CASES if kernels.choose().NAME == "numpy" else CASES
    cases = {name: case for name, case in cases.items() if not only or name in only}
    product = np.empty((len(items), len(bank)), np.float32)
    contenders: dict[str, Callable[[], object]] = {
        "one product": functools.partial(whole_product, items, bank, product, threads),
        "tiles": functools.partial(tiles, items, bank, threads),
    }
    for name, (methods, _) in cases.items():
        contenders[name] = functools.partial(unhub.fit, items, bank, method=methods, threads=threads)
    compile_kernels()
    sweeps = sweeps or max(1, round(ROUND_PAIRS / product.size))
    seconds = {name: np.full((rounds, sweeps), np.inf) for name in contenders}
    order, chance = list(contenders), random.Random(0)
    for place in range(rounds * sweeps):
        chance.shuffle(order)  # so that none always follows the same one
        for name in order:
            start = time.perf_counter()
            contenders[name]()
            seconds[name].flat[place] = time.perf_counter() - start
    return table(items, bank, threads, {name: times.min(axis=1) for name, times in seconds.items()}, cases)


def table(
    items: Float32,
    bank: Float32,
    threads: int,
    seconds: dict[str, Float64],
    cases: dict[str, tuple[list[str], float]],
) -> Table:
    """Return the table: seconds, the ratio to the better multiply of the same round, and what it must be."""
    multiply_seconds = np.minimum(seconds["one product"], seconds["tiles"])
    flops = 2 * len(items) * len(bank) * items.shape[1]
    title = (
        f"{len(items):,} items x {len(bank):,} bank, d = {items.shape[1]}, {threads} thread(s), {kernels.choose().NAME}"
    )
    result = Table("", "seconds", "GFLOP/s", "ratio", "spread", "must", title=title, min_width=90)
    for name, times in seconds.items():
        ratios = times / multiply_seconds
        must = ""
        if name in cases:
            limit = 1.14 if name == "IS" and threads > 1 and kernels.choose().NAME == "numba" else cases[name][1]
            must = f"{limit:.2f} {'met' if np.median(ratios) <= limit else 'MISSED'}"
        spread = f"{ratios.min():.3f} - {ratios.max():.3f}"
        median = float(np.median(times))
        result.add_row(name, f"{median:.3f}", f"{flops / median / 1e9:.1f}", f"{np.median(ratios):.3f}", spread, must)
    return result


def keep_memory() -> None:
    """Start this process again with a malloc that never gives memory back."""
    if any(os.environ.get(name) != value for name, value in KEEPS_MEMORY.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEPS_MEMORY})


def whole_product(items: Float32, bank: Float32, product: Float32, threads: int) -> None:
    """Compute one big product into a ready array."""
    with threadpool_limits(threads, user_api="blas"):
        np.matmul(items, bank.T, out=product)


def tiles(items: Float32, bank: Float32, threads: int) -> None:
    """Multiply the tiles of the fit, and do nothing else."""
    reduce(Dot(as_vectors(bank, "bank"), as_vectors(items, "items"), "dot"), Want(), Workers(threads))


def compile_kernels() -> None:
    """Let numba compile before anything is timed."""
    few = unit_vectors(600, 8, seed=2)
    unhub.fit(few, few, method=["is", "dis", "nnn:k=128", "sn"])
    balance(Dot(as_vectors(few, "bank"), as_vectors(few, "items")), Schedule(0.01, 2, keep="16-bit"), Workers(1))


if __name__ == "__main__":
    main()
