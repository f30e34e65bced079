"""Time of a fit as items (n) and bank (m) grow: IS, NNN and SN over doubling n at a fixed m, and the reverse, d = 512.

The claim: time grows linearly in n and in m, with no cliff. The tables give seconds, then nanoseconds per (item, bank
query) pair, which are constant if the time is linear, and the ratio of the largest size to the smallest. Each figure
is the median of three rounds, each of which goes once through all sizes and methods. The process keeps the memory
it has taken, as in fit.py, unless --fresh-memory is given. The default takes two to three minutes on two cores;
`--picture docs/compute/growth.png` draws it too (the extra `plot`).

With --mapped it goes up to 10,000,000 items in a mapped file instead; see growth_mapped.py.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rich.console import Console
from rich.table import Table

import unhub
from data import unit_vectors
from fit import keep_memory
from unhub import kernels
from unhub.compute.workers import thread_count

METHODS = {"IS": "is", "NNN": "nnn:k=128", "SN": "sn"}
SIZES = (2_048, 4_096, 8_192, 16_384, 32_768, 65_536)
FIXED_SIZE = 8_192
COLOURS = ("#0072B2", "#D55E00", "#009E73")  # of the palette of Okabe and Ito, made for colour-blind readers
MARKERS = ("o", "s", "^")
GREY = "#777777"

Shape: TypeAlias = tuple[int, int]  # items, bank
Seconds: TypeAlias = dict[tuple[str, Shape], float]


def main() -> None:
    """Time every size, print a table for n and one for m, and draw them if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dimensions", type=int, help="default: 512, and 256 with --mapped")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for all sizes, such as 0.05 for a small run")
    parser.add_argument("--picture", type=Path, help="draw to this file")
    parser.add_argument("--fresh-memory", action="store_true", help="let every fit allocate its memory")
    parser.add_argument("--mapped", action="store_true", help="10,000,000 items in a mapped file, memory too")
    parser.add_argument("--folder", type=Path, help="folder for the file of --mapped; default: the system's")
    options = parser.parse_args()
    if options.mapped:
        from growth_mapped import DIMENSIONS
        from growth_mapped import measure as measure_mapped

        dimensions, threads = options.dimensions or DIMENSIONS, thread_count(options.threads)
        measure_mapped(options.scale, dimensions, threads, options.rounds, options.folder, options.picture)
        return
    dimensions = options.dimensions or 512
    if not options.fresh_memory:
        keep_memory()
    threads = thread_count(options.threads)
    fixed, *sizes = (max(160, round(size * options.scale)) for size in (FIXED_SIZE, *SIZES))
    shapes: dict[str, list[Shape]] = {"n": [(size, fixed) for size in sizes], "m": [(fixed, size) for size in sizes]}
    seconds = measure(list(dict.fromkeys(shapes["n"] + shapes["m"])), dimensions, threads, options.rounds)
    work = f"d = {dimensions}, {threads} thread(s), {kernels.choose().NAME}"
    console = Console(width=110)
    console.print(table("items n", f"{fixed:,} bank queries, {work}", shapes["n"], seconds))
    console.print(table("bank m", f"{fixed:,} items, {work}", shapes["m"], seconds))
    if options.picture:
        draw(options.picture, fixed, work, shapes, seconds)


def measure(shapes: list[Shape], dimensions: int, threads: int, rounds: int) -> Seconds:
    """Return the median seconds of each method at each shape, over rounds that go through all of them."""
    items = unit_vectors(max(n for n, _ in shapes), dimensions, seed=0)
    bank = unit_vectors(max(m for _, m in shapes), dimensions, seed=1)
    compile_kernels()
    times: dict[tuple[str, Shape], list[float]] = {(name, shape): [] for shape in shapes for name in METHODS}
    for _ in range(rounds):
        for name, (n, m) in times:
            start = time.perf_counter()
            unhub.fit(items[:n], bank[:m], method=METHODS[name], threads=threads)
            times[name, (n, m)].append(time.perf_counter() - start)
    return {case: float(np.median(taken)) for case, taken in times.items()}


def compile_kernels() -> None:
    """Let numba compile before anything is timed; SN for a K in float32 and in 16 bits."""
    few = unit_vectors(600, 8, seed=2)
    for memory in (4 * len(few) ** 2, 3 * len(few) ** 2):
        unhub.fit(few, few, method=list(METHODS.values()), memory=memory)


def table(growing: str, title: str, shapes: list[Shape], seconds: Seconds) -> Table:
    """Return the table of seconds and of nanoseconds per pair, with the ratio of the last to the first below."""
    per_pair = {case: 1e9 * taken / (case[1][0] * case[1][1]) for case, taken in seconds.items()}
    result = Table(growing, "pairs", *(f"{name}, s" for name in METHODS), *(f"{name}, ns" for name in METHODS))
    result.title, result.min_width = title, 100
    for shape in shapes:
        size = shape[0] if growing.startswith("items") else shape[1]
        taken = [f"{seconds[name, shape]:.3f}" for name in METHODS]
        rates = [f"{per_pair[name, shape]:.2f}" for name in METHODS]
        result.add_row(f"{size:,}", f"{shape[0] * shape[1]:.1e}", *taken, *rates)
    result.add_section()
    ratios = [f"{per_pair[name, shapes[-1]] / per_pair[name, shapes[0]]:.2f}" for name in METHODS]
    result.add_row("last / first", "", *("" for _ in METHODS), *ratios)
    return result


def draw(target: Path, fixed: int, work: str, shapes: dict[str, list[Shape]], seconds: Seconds) -> None:
    """Draw seconds against n and against m on logarithmic scales, where linear growth is parallel to the dashes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(10, 4.2), layout="constrained", dpi=160, facecolor="white")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (growing, shapes_here) in zip(panels, shapes.items(), strict=True):
        sizes = [shape["nm".index(growing)] for shape in shapes_here]
        for name, colour, marker in zip(METHODS, COLOURS, MARKERS, strict=True):
            taken = [seconds[name, shape] for shape in shapes_here]
            axes.plot(sizes, taken, color=colour, marker=marker, linewidth=2, markersize=6, label=name)
        lowest = min(seconds[name, shapes_here[-1]] for name in METHODS)
        line = [0.6 * lowest * size / sizes[-1] for size in sizes]
        axes.plot(sizes, line, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)), label="linear", zorder=0)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=10)
        axes.minorticks_off()
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("seconds")
    panels[0].set_xlabel("items n")
    panels[1].set_xlabel("bank m")
    panels[0].set_title(f"Growing the items, at {fixed:,} bank queries", loc="left", fontsize=12)
    panels[1].set_title(f"Growing the bank, at {fixed:,} items", loc="left", fontsize=12)
    panels[0].legend(frameon=False, loc="upper left")
    panels[1].annotate(work, (1, 0.02), xycoords="axes fraction", ha="right", color=GREY, fontsize=10)
    figure.savefig(target, metadata={"Software": None})


if __name__ == "__main__":
    main()
