"""Time per pair and extra memory at up to 10,000,000 items in a mapped file of float16, d = 256; `growth.py --mapped`.

The claim: the time per pair is flat within 10%, and the extra memory is below 1 GB, for fits of IS and NNN, an
evaluation, and exact search. Flat means that no size takes more than 1.1 times what any smaller one does. There are 128
bank queries, or queries. What has to be done once per item counts too: reading it, checking and hashing it, its id,
opening the searcher.

Each case runs in a child of its own, as in memory.py: its time is that of the processor, over all threads, so that
other programs disturb it little, and its memory is the peak of RssAnon beyond what it was with the map open. The
correction for evaluation and search is made before the clock starts, but counts as memory. Sizes of up to 300,000
are run three times and the median is taken. Pages of the file come from the system's cache, if it has room for them:
the file was just written, and is read once before.

A full run writes 5.1 GB to a temporary folder, removed afterwards, and takes about five minutes on two quiet cores.
Linux only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import unhub
from data import unit_vectors, write_unit_vectors
from memory import Sampling, anonymous_memory, check_room, hear, tell
from unhub.data.relevance import Relevance

SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
DIMENSIONS, QUERIES = 256, 128
REPEATED_SIZE = 300_000
MOST_RISE, MOST_MEGABYTES = 1.1, 1000
WORKS = ("IS", "NNN", "evaluation", "exact search")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # of the palette of Okabe and Ito
MARKERS = ("o", "s", "^", "D")
GREY = "#777777"
READ_ROWS = 1 << 16


@dataclass(frozen=True)
class Used:
    """What a case took: nanoseconds of the processor for each pair, seconds that passed, megabytes."""

    nanoseconds: float
    seconds: float
    megabytes: float


def measure(
    scale: float, dimensions: int, threads: int, rounds: int, folder: Path | None, picture: Path | None
) -> None:
    """Run every case in a child, print a table, and draw it if asked."""
    if not Path("/proc/self/status").exists():
        raise SystemExit("this benchmark reads /proc/PID/status, which only Linux has")
    sizes = list(dict.fromkeys(max(1000, round(size * scale)) for size in SIZES))
    with tempfile.TemporaryDirectory(prefix="unhub-growth-", dir=folder) as made:
        check_room(Path(made), 2 * sizes[-1] * dimensions)
        items, queries = Path(made) / "items.npy", Path(made) / "queries.npy"
        write_unit_vectors(items, sizes[-1], dimensions, seed=0, dtype="float16")
        write_unit_vectors(queries, QUERIES, dimensions, seed=1, dtype="float16")
        read_once(items)
        used = {(work, size): case(work, items, queries, size, threads, rounds) for size in sizes for work in WORKS}
    work = f"{QUERIES} queries, float16, d = {dimensions}, mapped, {threads} thread(s)"
    Console(width=120).print(table(used, sizes, work))
    if picture:
        draw(picture, used, sizes, work)


def read_once(path: Path) -> None:
    """Bring the pages of a file into the cache of the system."""
    mapped = np.load(path, mmap_mode="r")
    for start in range(0, len(mapped), READ_ROWS):
        mapped[start : start + READ_ROWS].max()


def case(work: str, items: Path, queries: Path, size: int, threads: int, rounds: int) -> Used:
    """Return what one case took; of a small one, the median time of several children and the largest memory."""
    all_used = [watch(work, items, queries, size, threads) for _ in range(rounds if size <= REPEATED_SIZE else 1)]
    return Used(
        float(np.median([one.nanoseconds for one in all_used])),
        float(np.median([one.seconds for one in all_used])),
        max(one.megabytes for one in all_used),
    )


def watch(work: str, items: Path, queries: Path, size: int, threads: int) -> Used:
    """Run a case in a child and sample its memory from when it has opened the map."""
    told = [work, str(items), str(queries), str(size), str(threads)]
    command = [sys.executable, str(Path(__file__).resolve()), *told]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            hear(child)  # the kernels are loaded, the map is open
            before = anonymous_memory(child.pid)
            with Sampling(child.pid) as sampling:
                tell(child)
                report = json.loads(hear(child))
            tell(child)
        except BaseException:
            child.kill()
            raise
    pairs = size * QUERIES
    return Used(1e9 * report["processor"] / pairs, report["seconds"], (sampling.peak - before) / 1e6)


def table(used: dict[tuple[str, int], Used], sizes: list[int], title: str) -> Table:
    """Return the nanoseconds per pair and the extra memory of every case."""
    result = Table("items", *(f"{work}, ns" for work in WORKS), *(f"{work}, MB" for work in WORKS))
    result.title = f"Processor time per pair, and extra memory: {title}"
    for size in sizes:
        cases = [used[work, size] for work in WORKS]
        times, memory = [f"{one.nanoseconds:.2f}" for one in cases], [f"{one.megabytes:.0f}" for one in cases]
        result.add_row(f"{size:,}", *times, *memory)
    result.add_section()
    rises = [largest_rise([used[work, size].nanoseconds for size in sizes]) for work in WORKS]
    most = [max(used[work, size].megabytes for size in sizes) for work in WORKS]
    result.add_row("rise, most MB", *(f"{rise:.2f}" for rise in rises), *(f"{one:.0f}" for one in most))
    verdicts = [*(rise <= MOST_RISE for rise in rises), *(one <= MOST_MEGABYTES for one in most)]
    result.add_row(f"must {MOST_RISE}, {MOST_MEGABYTES} MB", *("met" if verdict else "MISSED" for verdict in verdicts))
    seconds = [f"{used[work, sizes[-1]].seconds:.0f}" for work in WORKS]
    result.caption = f"seconds at {sizes[-1]:,} items: {', '.join(seconds)}"
    return result


def largest_rise(times: list[float]) -> float:
    """Return the largest ratio of a time to any before it, which are of fewer items."""
    return max(later / earlier for earlier, later in itertools.combinations(times, 2))


def draw(target: Path, used: dict[tuple[str, int], Used], sizes: list[int], work: str) -> None:
    """Draw the time per pair and the extra memory against the number of items."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(10, 4.2), layout="constrained", dpi=160, facecolor="white")
    left, right = figure.subplots(1, 2)
    for name, colour, marker in zip(WORKS, COLOURS, MARKERS, strict=True):
        style = {"color": colour, "marker": marker, "linewidth": 2, "markersize": 6, "label": name}
        left.plot(sizes, [used[name, size].nanoseconds for size in sizes], **style)
        right.plot(sizes, [used[name, size].megabytes for size in sizes], **style)
    right.axhline(MOST_MEGABYTES, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)))
    right.annotate("limit", (sizes[0], MOST_MEGABYTES), (0, 4), textcoords="offset points", color=GREY, fontsize=10)
    for axes, title in ((left, "Nanoseconds of the processor per pair"), (right, "Extra memory, MB")):
        axes.set_title(title, loc="left", fontsize=12)
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=9)
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("items")
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
        axes.set_axisbelow(True)
    left.set_ylim(top=1.5 * max(one.nanoseconds for one in used.values()))
    left.legend(frameon=False, loc="upper left", ncols=2)
    left.annotate(work, (0, 0.02), xycoords="axes fraction", color=GREY, fontsize=9)
    figure.savefig(target, metadata={"Software": None})


def run_as_told(work: str, items_file: Path, queries_file: Path, size: int, threads: int) -> None:
    """Run as the child: load the kernels, open the map, do the work, and report its times."""
    few = unit_vectors(600, 8, seed=2)
    prepared(work, few, few, threads)()
    items, queries = np.load(items_file, mmap_mode="r")[:size], np.load(queries_file)
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    do = prepared(work, items, queries, threads)
    start, processor = time.perf_counter(), time.process_time()
    do()
    print(
        json.dumps({"seconds": time.perf_counter() - start, "processor": time.process_time() - processor}), flush=True
    )
    sys.stdin.readline()


def prepared(work: str, items: np.ndarray, queries: np.ndarray, threads: int) -> Callable[[], object]:
    """Return the work to time; what it needs of a correction is fitted before, on a few queries."""
    if work in ("IS", "NNN"):
        method = {"IS": "is", "NNN": "nnn:k=64"}[work]
        return lambda: unhub.fit(items, queries, method=method, threads=threads)
    correction = unhub.fit(items, queries[:8], threads=threads)
    if work == "evaluation":
        relevance = Relevance(np.arange(len(queries)), np.arange(len(queries)))
        return lambda: unhub.evaluate(queries, items, relevance, correction, resamples=100, threads=threads)
    return lambda: unhub.searcher(items, correction, threads=threads).search(queries, k=10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("work", "items", "queries"):
        parser.add_argument(name)
    for name in ("size", "threads"):
        parser.add_argument(name, type=int)
    given = parser.parse_args()
    run_as_told(given.work, Path(given.items), Path(given.queries), given.size, given.threads)
