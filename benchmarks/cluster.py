"""A Ray cluster against this machine alone: what more workers gain, what Ray costs, what 100,000,000 items would take.

`python benchmarks/cluster.py` starts clusters of one and of two one-thread raylets here, and fits the same mapped files
on both and on two plain threads, in turns. Times are those that pass; `processor` is what this process and the busiest
worker computed, which is what would pass on a machine with nothing else to do. A cluster has fitted something small
before, so its workers run. The model has three parts, measured on a quarter of the matrix and on a tiny one with one
worker; it is compared with the two runs on the whole. The default takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import contextvars
import importlib
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.console import Console
from rich.table import Table

import unhub
from data import unit_vectors
from unhub.arrays import Float32
from unhub.compute.machines import Cluster, cluster
from unhub.compute.workers import Workers

# A method, and the memory that K may take. At 100,000,000 x 1,000,000 only a part of K can be kept.
CASES: dict[str, tuple[str, str | None]] = {
    "is": ("is", None),
    "nnn": ("nnn:k=128", None),
    "sn": ("sn", None),
    "sn, a part of K": ("sn", "150MB"),
    "sn, K not kept": ("sn", "1MB"),
}
TINY = 600
FAR_ITEMS, FAR_BANK, CORES, MACHINES = 100_000_000, 1_000_000, 16, (10, 100)
ITEM_BYTES = 48  # here, for an item: its id, its hash, h, and copies of these while they are made
NETWORK_BYTES = 1.25e9  # a second: ten gigabits


@dataclass(frozen=True)
class Run:
    """What a fit took: seconds that passed, processor seconds on the longest path, and megabytes out and in."""

    passed: float
    processor: float
    out: float = 0.0
    back: float = 0.0


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="20000x100000", help="items x bank")
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", action="append", choices=list(CASES), help="only these; repeatable")
    options = parser.parse_args()
    n, m = (int(number) for number in options.shape.split("x"))
    cases = options.case or list(CASES)
    with tempfile.TemporaryDirectory() as folder:
        items, bank = mapped(folder, "items", n, options.dimensions), mapped(folder, "bank", m, options.dimensions)
        one, two = (measure(items, bank, cases, options.rounds, workers) for workers in (1, 2))
    console = Console(width=118)
    console.print(compared(f"{n:,} items x {m:,} bank, d = {options.dimensions}", cases, one, two))
    console.print(checked(cases, one, two, n * m))
    console.print(foretold(cases, one, n * m, m))


def mapped(folder: str, name: str, rows: int, dimensions: int) -> Float32:
    """Write unit vectors to a file and map it."""
    path = Path(folder) / f"{name}.npy"
    np.save(path, unit_vectors(rows, dimensions, seed=len(name)))
    return cast("Float32", np.load(path, mmap_mode="r"))


def measure(items: Float32, bank: Float32, cases: list[str], rounds: int, workers: int) -> dict[str, Run]:
    """Return the medians of all runs by case and kind: plain, on Ray, a quarter of it and a tiny one."""
    runs: dict[str, list[Run]] = {}
    with started(workers) as address, cluster(address):
        runner = cast("Cluster", Workers(1).runner)
        for number in range(rounds + 1):
            kinds = [
                (case, kind) for case in cases for kind in ("plain", "ray", *(("quarter", "tiny") * (workers == 1)))
            ]
            random.Random(number).shuffle(kinds)
            for case, kind in kinds:
                share = {"quarter": 2, "tiny": None}.get(kind, 1) if number else None  # the first round only warms up
                few, past = (rows[:TINY] if share is None else rows[: len(rows) // share] for rows in (items, bank))
                run = plain(few, past, case) if kind == "plain" else on_ray(few, past, case, runner)
                if number:
                    runs.setdefault(f"{case} {kind}", []).append(run)
    return {name: median(some) for name, some in runs.items()}


def median(runs: list[Run]) -> Run:
    """Return the run in the middle by the time that passed, with the least processor time of all."""
    middle = sorted(runs, key=lambda run: run.passed)[len(runs) // 2]
    return Run(middle.passed, min(run.processor for run in runs), middle.out, middle.back)


def plain(items: Float32, bank: Float32, case: str) -> Run:
    """Fit on two threads of this process, in spite of the cluster that it is connected to."""
    method, memory = CASES[case]
    began, busy = time.perf_counter(), time.process_time()
    contextvars.Context().run(lambda: unhub.fit(items, bank, method, threads=2, memory=memory))
    return Run(time.perf_counter() - began, (time.process_time() - busy) / 2)


def on_ray(items: Float32, bank: Float32, case: str, runner: Cluster) -> Run:
    """Fit on the workers of the cluster."""
    method, memory = CASES[case]
    out, back = runner.sent, runner.received
    began, busy, others = time.perf_counter(), time.process_time(), worker_seconds()
    unhub.fit(items, bank, method, threads=1, memory=memory)
    passed, mine = time.perf_counter() - began, time.process_time() - busy
    longest = max((now - others.get(worker, 0.0) for worker, now in worker_seconds().items()), default=0.0)
    return Run(passed, mine + longest, (runner.sent - out) / 1e6, (runner.received - back) / 1e6)


def worker_seconds() -> dict[int, float]:
    """Return the processor seconds of the workers of each raylet that this process started."""
    found: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent, ticks = parent_and_ticks(folder)
            of_ours = (folder / "cmdline").read_bytes().startswith(b"ray::")
            if of_ours and parent_and_ticks(folder.with_name(str(parent)))[0] == os.getpid():
                found[parent] = found.get(parent, 0.0) + ticks / os.sysconf("SC_CLK_TCK")
        except OSError:  # it has ended
            continue
    return found


def parent_and_ticks(process: Path) -> tuple[int, int]:
    """Return what started a process, and how long it has computed."""
    after_name = (process / "stat").read_text().rpartition(")")[2].split()
    return int(after_name[1]), int(after_name[11]) + int(after_name[12])


@contextmanager
def started(workers: int) -> Iterator[str]:
    """Start a cluster of one-processor raylets and yield its address."""
    os.environ.setdefault(
        "RAY_worker_niceness", "0"
    )  # Ray's own 15 would let other programs go first, but not plain threads
    cluster_utils: Any = importlib.import_module("ray.cluster_utils")
    sizes = {"num_cpus": 1, "object_store_memory": 400_000_000}
    raylets = cluster_utils.Cluster(True, head_node_args={**sizes, "include_dashboard": False})
    try:
        for _ in range(workers - 1):
            raylets.add_node(**sizes)
        yield raylets.address
    finally:
        raylets.shutdown()


def compared(title: str, cases: list[str], one: dict[str, Run], two: dict[str, Run]) -> Table:
    """Return the table of gains, ratios and bytes; one and two workers are compared by what plain threads took."""
    heads = ("case", "plain, 2 threads", "1 worker", "2 workers", "gain", "over plain", "MB out", "MB in")
    table = Table(*heads, title=f"{title}: seconds that passed (processor)", width=118)
    for case in cases:
        runs = [one[f"{case} plain"], one[f"{case} ray"], two[f"{case} ray"]]
        gain = [one[f"{case} ray"].passed / one[f"{case} plain"].passed, one[f"{case} ray"].processor]
        over = [two[f"{case} ray"].passed / two[f"{case} plain"].passed, two[f"{case} ray"].processor]
        table.add_row(
            case,
            *(f"{run.passed:.1f} ({run.processor:.1f})" for run in runs),
            f"{gain[0] / over[0]:.2f} ({gain[1] / over[1]:.2f})",
            f"{over[0]:.2f} ({over[1] / two[f'{case} plain'].processor:.2f})",
            f"{two[f'{case} ray'].out:.1f}",
            f"{two[f'{case} ray'].back:.1f}",
        )
    return table


def seconds_per_pair(case: str, one: dict[str, Run], pairs: int) -> float:
    """Return the processor seconds of a pair on one thread, all passes and iterations together."""
    return (one[f"{case} quarter"].processor - one[f"{case} tiny"].processor) / (pairs / 4)


def model(case: str, one: dict[str, Run], pairs: int, workers: int) -> float:
    """Return the processor seconds that a fit should take on the longest path: a start, and an equal share of pairs."""
    return one[f"{case} tiny"].processor + seconds_per_pair(case, one, pairs) * pairs / workers


def checked(cases: list[str], one: dict[str, Run], two: dict[str, Run], pairs: int) -> Table:
    """Return the model beside the runs that it was not made from."""
    table = Table("case", "workers", "model", "measured", "model / measured", title="The model against two runs here")
    for case in cases:
        for workers, runs in ((1, one), (2, two)):
            expected, found = model(case, one, pairs, workers), runs[f"{case} ray"].processor
            table.add_row(case, str(workers), f"{expected:.1f}", f"{found:.1f}", f"{expected / found:.2f}")
    return table


def foretold(cases: list[str], one: dict[str, Run], pairs: int, bank: int) -> Table:
    """Return what the model says of a matrix that no single machine can take; `bank` counts the queries here."""
    title = f"{FAR_ITEMS:,} items x {FAR_BANK:,} bank, machines of {CORES} cores like one of these"
    table = Table("case", "machines", "hours", "of them sending", "GB here", "GB on each machine", title=title)
    for case in cases:
        for machines in MACHINES:
            computing = seconds_per_pair(case, one, pairs) * FAR_ITEMS * FAR_BANK / (machines * CORES)
            balanced, run = case.startswith("sn"), one[f"{case} ray"]
            # What goes out goes to each machine, and as much as from the one here comes back from each.
            sending = 1e6 * (run.out + run.back) / bank * FAR_BANK * machines / NETWORK_BYTES if balanced else 0.0
            if case == "sn":
                continue  # no K of this size can be kept
            there = 4 * 256 * FAR_BANK / 1e9 + 0.1 * CORES if balanced else 0.2 * CORES
            table.add_row(
                case,
                str(machines),
                f"{(computing + sending) / 3600:.2f}",
                f"{sending / 3600:.2f}",
                f"{ITEM_BYTES * FAR_ITEMS / 1e9:.1f}",
                f"{there:.1f}",
            )
    return table


if __name__ == "__main__":
    main()
