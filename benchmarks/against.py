"""This version's fits against another version's: the processor time of the same fits, side by side.

Each version has a process with the same vectors. They fit in turns, one at a time, so that a busy moment of the machine
affects both alike; which one begins alternates. The table has the median over the rounds of this version's time divided
by the other's in the same round, the smallest and the largest. The other version is the `src` of another checkout, such
as one of `git worktree add --detach ../before COMMIT`:

    python benchmarks/against.py ../before/src                       # about five minutes on a quiet core
    UNHUB_NO_NUMBA=1 python benchmarks/against.py ../before/src      # the same without numba

Both processes keep their memory, as in fit.py. Fits of few pairs are repeated within a round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import unhub
from data import unit_vectors
from fit import KEEPS_MEMORY

SHAPES = ("5000x20000", "20000x5000", "500x5000")
CASES = ("is", "is+dis", "nnn:k=128", "csls", "sn", "dualis")
ROUND_PAIRS = 50_000_000  # a fit of fewer is repeated
FEW = 600  # items and bank queries of the first fit, in which kernels are loaded or compiled
OWN = Path(__file__).resolve().parent.parent / "src"


def main() -> None:
    """Time both versions and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the src of the other version")
    parser.add_argument("--shape", action="append", help="items x bank, such as 5000x20000; repeatable")
    parser.add_argument("--case", action="append", help="methods of one fit, joined by +; repeatable")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    cases, shapes = given.case or list(CASES), given.shape or list(SHAPES)
    if given.child:
        answer(shapes, cases, given.threads, given.dimensions)
        return
    table = Table(title=f"this version over the other, {given.threads} thread(s), {given.rounds} rounds")
    for name in ("items x bank", "fit", "median", "smallest", "largest", "seconds"):
        table.add_column(name)
    both = [start(source) for source in (OWN, given.other.resolve())]
    for shape_number, shape in enumerate(shapes):
        for case_number, case in enumerate(cases):
            name = f"{shape_number} {case_number}"
            rounds = [in_turns(both, name, swapped=number % 2 == 1) for number in range(given.rounds)]
            ratios = [own / other for own, other in rounds]
            parts = statistics.median(ratios), min(ratios), max(ratios), statistics.median(own for own, _ in rounds)
            table.add_row(shape, case, *(f"{part:.3f}" for part in parts))
    for child in both:
        child.communicate()
    Console().print(table)


def start(source: Path) -> subprocess.Popen[str]:
    """Start a process that has this version, and wait until it has made its vectors and loaded its kernels."""
    environment = {**os.environ, **KEEPS_MEMORY, "PYTHONPATH": str(source)}
    command = [sys.executable, *sys.argv, "--child"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
    )
    used = heard(child)
    if Path(used.strip()) != source:
        raise SystemExit(f"{source} was asked for, but python imports unhub from {used.strip()}")
    return child


def in_turns(both: list[subprocess.Popen[str]], case: str, *, swapped: bool) -> list[float]:
    """Return the processor seconds of a fit by each process."""
    seconds = [0.0, 0.0]
    for place in (1, 0) if swapped else (0, 1):
        child = both[place]
        assert child.stdin is not None
        child.stdin.write(f"{case}\n")
        child.stdin.flush()
        seconds[place] = float(heard(child))
    return seconds


def heard(child: subprocess.Popen[str]) -> str:
    """Return the next line of a process."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise SystemExit(f"a process ended early, with exit code {child.wait()}")
    return line


def answer(shapes: list[str], cases: list[str], threads: int, dimensions: int) -> None:
    """Run as a process of one version: fit what each line of the input names, and print the processor seconds."""
    sizes = [[int(number) for number in shape.split("x")] for shape in shapes]
    items, bank, bank_items = (
        unit_vectors(max(FEW, *(size[side] for size in sizes)), dimensions, seed)
        for seed, side in ((0, 0), (1, 1), (2, 0))
    )

    def fit(case: str, n: int, m: int) -> None:
        unhub.fit(items[:n], bank[:m], bank_items=bank_items[:n], method=case.split("+"), threads=threads)

    for case in cases:
        fit(case, FEW, FEW)
    print(Path(unhub.__file__).parent.parent, flush=True)
    for line in sys.stdin:
        shape_number, case_number = map(int, line.split())
        n, m = sizes[shape_number]
        times = max(1, round(ROUND_PAIRS / (n * m)))
        began = time.process_time()
        for _ in range(times):
            fit(cases[case_number], n, m)
        print((time.process_time() - began) / times, flush=True)


if __name__ == "__main__":
    main()
