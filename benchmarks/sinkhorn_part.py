"""SN where K does not fit in memory: how near to balance, how well that is stated, and the time over a bare multiply.

Nearness: items x bank of each set, K kept in part, 128 entries for each query or item; ten iterations and the balance
itself come from all of K. A set is two generated clouds, without groups, with groups, and with topics far apart that
items and bank have in other shares, or two files: --pair items.npy bank.npy, of which rows are drawn. Distances are
root mean squares of the centred h. Time: a fit with this memory, its multiplies, and its processor time over that of
the same tiles multiplied and nothing else; the best of the rounds.

The default takes about ten minutes on two cores; a small run: `--items 300 --bank 400 --time 500x600 --memory 250KB`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import unhub
from data import unit_vectors
from fit import tiles
from unhub.arrays import Float32, unit
from unhub.compute.sinkhorn import Schedule, balance
from unhub.compute.workers import Workers
from unhub.correction import Cost
from unhub.data.similarity import Dot
from unhub.data.vectors import as_vectors

TAUS = (0.01, 0.02, 0.05)
ENTRY_BYTES, EACH = 8, 128
GROUPS, GROUP_NOISE = 40, 0.7
TOPICS, TOPIC_NOISE = 20, 1 / 16
BALANCED = Schedule(0.0, 20_000, 1e-6, "fp32")


def main() -> None:
    """Print a table of distances and one of times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", nargs=2, action="append", default=[], metavar=("ITEMS", "BANK"), help="repeatable")
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--bank", type=int, default=4000)
    parser.add_argument("--time", default="20000x100000", help="items x bank")
    parser.add_argument("--memory", default="1GB", help="of the timed fit")
    parser.add_argument("--dimensions", type=int, default=256, help="of the timed fit")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    console = Console(width=120)
    sets = {
        "no groups": (unit_vectors(options.items, 64, seed=0), unit_vectors(options.bank, 64, seed=1)),
        "groups": (grouped(options.items, seed=2), grouped(options.bank, seed=3)),
        "topics far apart": (topics(options.items, seed=4), topics(options.bank, seed=5)),
        **{f"{one}, {two}": (some(one, options.items), some(two, options.bank)) for one, two in options.pair},
    }
    nearness = Table("set", "tau", "multiplies", "ten iterations", "found", "stated", "as near")
    for name, (items, bank) in sets.items():
        for tau in TAUS:
            nearness.add_row(name, f"{tau:g}", *near(items, bank, tau, options.threads))
    console.print(nearness)
    n, m = (int(number) for number in options.time.split("x"))
    items, bank = unit_vectors(n, options.dimensions, seed=0), unit_vectors(m, options.dimensions, seed=1)
    console.print(times(items, bank, options.memory, options.threads, options.rounds))


def grouped(rows: int, seed: int) -> Float32:
    """Return unit vectors around the centres of groups, which both sides share."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((GROUPS, 64)) + 0.5
    drawn = centres[rng.integers(0, GROUPS, rows)] + GROUP_NOISE * rng.standard_normal((rows, 64))
    return unit(drawn.astype(np.float32))


def topics(rows: int, seed: int) -> Float32:
    """Return unit vectors around far directions, which each side has in shares of its own."""
    rng = np.random.default_rng(seed)
    centres = unit(np.random.default_rng(0).standard_normal((TOPICS, 64), np.float32))
    drawn = centres[rng.choice(TOPICS, rows, p=rng.dirichlet(np.ones(TOPICS)))]
    return unit(drawn + np.float32(TOPIC_NOISE) * rng.standard_normal((rows, 64), np.float32))


def some(path: str, rows: int) -> Float32:
    """Return some rows of a file, drawn at random."""
    given = np.load(path, mmap_mode="r")
    drawn = np.sort(np.random.default_rng(0).permutation(len(given))[:rows])
    return np.asarray(given[drawn], np.float32)


def near(items: Float32, bank: Float32, tau: float, threads: int | None) -> tuple[str, ...]:
    """Return how near to balance ten iterations and a K kept in part come."""
    pairs = Dot(as_vectors(bank, "bank"), as_vectors(items, "items"))
    balanced = balance(pairs, Schedule(tau, BALANCED.iterations, BALANCED.tolerance, BALANCED.keep), Workers(threads)).h
    ten = float(np.std(balance(pairs, Schedule(tau, 10, keep="fp32"), Workers(threads)).h - balanced))
    workers = Workers(threads, memory=ENTRY_BYTES * EACH * max(pairs.shape))
    found = balance(pairs, Schedule(tau, 10, keep="sparse"), workers)
    off = float(np.std(found.h - balanced))
    stated = found.notes[0].split()[-3]
    return f"{workers.passes:.2f}", f"{ten:.2g}", f"{off:.2g}", stated, "yes" if off <= max(ten, 2e-5) else "NO"


def times(items: Float32, bank: Float32, memory: str, threads: int | None, rounds: int) -> Table:
    """Return the processor time of a fit at each temperature, and over that of a multiply."""
    few = unit_vectors(300, 8, seed=2)
    unhub.fit(few, few, method="sn", memory=100_000)  # compiles
    title = f"{len(items):,} items x {len(bank):,} bank, d = {items.shape[1]}, memory {memory}"
    table = Table("", "processor seconds", "over a multiply", "multiplies", "extra memory, MB", "kept", title=title)
    best: dict[str, float] = {}
    costs: dict[str, Cost] = {}
    for _ in range(rounds):
        began = time.process_time()
        tiles(items, bank, Workers(threads).threads)
        best["multiply"] = min(best.get("multiply", np.inf), time.process_time() - began)
        for tau in TAUS:
            name, began = f"sn, tau {tau:g}", time.process_time()
            costs[name] = unhub.fit(items, bank, method=f"sn:tau={tau}", memory=memory, threads=threads).cost
            best[name] = min(best.get(name, np.inf), time.process_time() - began)
    for name, seconds in best.items():
        ratio = f"{seconds / best['multiply']:.2f}"
        cost = costs.get(name)
        more = ("", "", "") if cost is None else (f"{cost.passes:.2f}", f"{cost.peak_memory / 1e6:.0f}", cost.kept)
        table.add_row(name, f"{seconds:.2f}", ratio, *more)
    return table


if __name__ == "__main__":
    main()
