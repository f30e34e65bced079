"""Fits on a device of torch against torch's own multiply there: each time divided by that of the multiply.

`python benchmarks/device.py --device cuda` measures on a GPU, and `--device cpu --threads 1` on torch's CPU device. The
multiply is the better of large products and of tiles as large as the fit's, both into a ready array on the device, with
both sets there before. The fits get numpy arrays, so that copying is part of them, and, in the rows named "there",
tensors on the device. Rounds interleave everything in random order; the median ratio and the spread are printed, also
as lines for the table in docs/kernels/devices.md. The default takes about five minutes on two cores.
"""

from __future__ import annotations

import argparse
import functools
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import unhub
from data import unit_vectors
from fit import keep_memory
from unhub.arrays import Float32, Float64, spans
from unhub.kernels import choose, name_of

LARGE_PRODUCT_ENTRIES = 256 << 20
WARM_ROWS = 600
# What the goals are on torch's CPU device, by the number of threads.
GOALS: dict[str, dict[int, float]] = {"is": {1: 1.3, 2: 1.6}, "nnn": {1: 1.6, 2: 1.6}}
METHODS: dict[str, Any] = {"is": "is", "nnn": "nnn:k=128", "is and dis": ["is", "dis"], "sn": "sn"}


def main() -> None:
    """Run the benchmark and print a table for each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 or mps")
    parser.add_argument("--precision", default="fp32", help="fp32 or bf16")
    parser.add_argument("--shape", default="5000x100000", help="items x bank")
    parser.add_argument("--threads", type=int, action="append", help="repeatable; default: 1 and 2")
    parser.add_argument("--case", action="append", choices=list(METHODS), help="only these; repeatable")
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--processor-time", action="store_true", help="for --device cpu on a busy machine: not the time that passes"
    )
    options = parser.parse_args()
    keep_memory()
    name_of(options.device, options.precision)  # an error before the vectors are made
    n, m = (int(number) for number in options.shape.split("x"))
    items, bank = unit_vectors(n, options.dimensions, seed=0), unit_vectors(m, options.dimensions, seed=1)
    console = Console(width=110)
    for threads in options.threads or (1, 2):
        contenders = fits(items, bank, threads, options.device, options.precision, options.case or list(METHODS))
        clock = time.process_time if options.processor_time else time.perf_counter
        seconds = measure(contenders, options.rounds, clock)
        title = f"{n:,} items x {m:,} bank, d = {options.dimensions}, {options.device}, {options.precision}"
        ratios = against_multiply(seconds)
        console.print(table(f"{title}, {threads} thread(s)", seconds, ratios, threads, options.device))
        for name, ratio in ratios.items():
            print(f"| {options.device} | {options.precision} | {threads} | {name} | {np.median(ratio):.2f} |")


def fits(
    items: Float32, bank: Float32, threads: int, device: str, precision: str, cases: list[str]
) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name: both multiplies, and each method on arrays and on tensors that are there."""
    there = [torch.from_numpy(rows).to(device) for rows in (items, bank)]
    short = [rows.to(torch.bfloat16) if precision == "bf16" else rows for rows in there]
    limits = choose(name_of(device, precision)).LIMITS
    assert limits is not None
    contenders: dict[str, Callable[[], object]] = {
        "large products": functools.partial(products, short, LARGE_PRODUCT_ENTRIES // len(items), len(items), threads),
        "tiles": functools.partial(products, short, limits.most_columns, limits.tile_rows, threads),
    }
    for name in cases:
        for where, given in (("", (items, bank)), (" there", there)):
            call: Any = functools.partial(
                unhub.fit, *given, method=METHODS[name], threads=threads, device=device, precision=precision
            )
            contenders[name + where] = call
            warm: Any = [rows[:WARM_ROWS] for rows in given]
            unhub.fit(*warm, method=METHODS[name], device=device)
    return contenders


def products(both: list[torch.Tensor], columns: int, rows: int, threads: int) -> None:
    """Multiply all items by the bank, so many items by so many bank queries at a time, into one ready array."""
    items, bank = both
    torch.set_num_threads(threads)
    out = torch.empty((min(rows, len(items)), min(columns, len(bank))), dtype=items.dtype, device=items.device)
    for start, stop in spans(len(bank), columns):
        for first, last in spans(len(items), rows):
            torch.mm(items[first:last], bank[start:stop].T, out=out[: last - first, : stop - start])
    if items.device.type == "cuda":
        torch.cuda.synchronize(items.device)
    elif items.device.type == "mps":
        torch.mps.synchronize()


def measure(contenders: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]) -> dict[str, Float64]:
    """Time everything in each round, in random order."""
    seconds = {name: np.empty(rounds) for name in contenders}
    order, chance = list(contenders), random.Random(0)
    for place in range(rounds):
        chance.shuffle(order)
        for name in order:
            start = clock()
            contenders[name]()
            seconds[name][place] = clock() - start
    return seconds


def against_multiply(seconds: dict[str, Float64]) -> dict[str, Float64]:
    """Return each time divided by that of the better multiply of the same round."""
    multiply = np.minimum(seconds["large products"], seconds["tiles"])
    return {name: times / multiply for name, times in seconds.items()}


def table(title: str, seconds: dict[str, Float64], ratios: dict[str, Float64], threads: int, device: str) -> Table:
    """Return the table: seconds, the ratio to the multiply, its spread, and the goal on torch's CPU device."""
    result = Table("", "seconds", "ratio", "spread", "goal", title=title, min_width=80)
    for name, ratio in ratios.items():
        goal = GOALS.get(name.removesuffix(" there"), {}).get(threads) if device == "cpu" else None
        met = "" if goal is None else f"{goal:.2f} {'met' if np.median(ratio) <= goal else 'MISSED'}"
        spread = f"{ratio.min():.3f} - {ratio.max():.3f}"
        result.add_row(name, f"{np.median(seconds[name]):.3f}", f"{np.median(ratio):.3f}", spread, met)
    return result


if __name__ == "__main__":
    main()
