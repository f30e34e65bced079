"""Evaluation against the matrix multiply alone: 25,000 queries x 5,000 items under raw and 14 additive corrections.

Three claims are measured, in units of the multiply's time: placing the answers of all queries under one ranking takes
at most 1.2; each further ranking at most 0.15; counting hubness (the ten best items of each query) at most 0.2.

The multiply is the better of one big product into a ready array and the tiles of a fit, at the same number of threads.
Rounds interleave everything, so that a busy moment of the machine affects all alike; a ratio compares times of the same
round, and its median and spread over the rounds are printed. The process keeps the memory it has taken, as in fit.py.
The default (one and two threads, seven rounds) takes a few minutes on two cores. On a busy machine, --processor-time
measures the work without the waiting: the processor time of all threads.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from data import unit_vectors
from fit import keep_memory, tiles, whole_product
from unhub import kernels
from unhub.arrays import Float32, Float64
from unhub.compute.workers import Workers
from unhub.data.relevance import Truth
from unhub.data.similarity import Dot
from unhub.data.vectors import as_vectors
from unhub.evaluation.placing import Additive, Ranking, place, raw_ranking

QUERIES, ITEMS, CORRECTIONS, BEST_ITEMS = 25_000, 5_000, 14, 10
RATIO_LIMITS = {"one ranking": 1.2, "each further ranking": 0.15, "hubness of one ranking": 0.2}


def main() -> None:
    """Run the benchmark and print a table for each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the numbers of queries and items")
    parser.add_argument("--threads", type=int, action="append", help="repeatable; default: 1 and 2")
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--processor-time", action="store_true", help="measure processor time instead of elapsed time")
    options = parser.parse_args()
    keep_memory()
    queries, items = (
        unit_vectors(max(1, int(count * options.scale)), options.dimensions, seed)
        for seed, count in enumerate((QUERIES, ITEMS))
    )
    clock = time.process_time if options.processor_time else time.perf_counter
    console = Console(width=110)
    for threads in options.threads or (1, 2):
        result = table(queries, items, threads, measure(queries, items, threads, options.rounds, clock))
        result.caption = "processor time" if options.processor_time else None
        console.print(result)


def measure(
    queries: Float32, items: Float32, threads: int, rounds: int, clock: Callable[[], float]
) -> dict[str, Float64]:
    """Time everything in each round and return the seconds of each."""
    similarity = Dot(as_vectors(queries, "queries"), as_vectors(items, "items"))
    truth = one_answer_each(len(queries), len(items))
    generator = np.random.default_rng(2)
    raw: list[Ranking] = [raw_ranking(len(items))]
    several = [Additive(0.05 * generator.standard_normal(len(items), dtype=np.float32)) for _ in range(CORRECTIONS)]
    product = np.empty((len(queries), len(items)), np.float32)

    def placing(rankings: list[Ranking], best: int = 0) -> Callable[[], object]:
        return lambda: place(similarity, truth, rankings, Workers(threads), best)

    contenders: dict[str, Callable[[], object]] = {
        "one product": functools.partial(whole_product, queries, items, product, threads),
        "tiles": functools.partial(tiles, items, queries, threads),
        "one ranking": placing(raw),
        "one ranking and hubness": placing(raw, BEST_ITEMS),
        f"{1 + CORRECTIONS} rankings": placing([*raw, *several]),
    }
    for run in contenders.values():
        run()  # compiles, and takes the memory
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: np.array(times) for name, times in seconds.items()}


def one_answer_each(queries: int, items: int) -> Truth:
    """Return a truth in which query i is answered by one item, as the captions of pictures are."""
    return Truth(np.arange(queries + 1), np.arange(queries) * items // queries, np.ones(queries))


def table(queries: Float32, items: Float32, threads: int, seconds: dict[str, Float64]) -> Table:
    """Return the table: seconds, the ratio to the better multiply of the same round, and what it must be."""
    multiply = np.minimum(seconds["one product"], seconds["tiles"])
    one, hubness, all_of_them = list(seconds.values())[2:]
    claims = {
        "one ranking": one,
        "each further ranking": (all_of_them - one) / CORRECTIONS,
        "hubness of one ranking": hubness - one,
    }
    sides = f"{len(queries):,} queries x {len(items):,} items, d = {items.shape[1]}"
    title = f"{sides}, {threads} thread(s), {kernels.choose().NAME}"
    result = Table("", "seconds", "ratio", "spread", "must", title=title, min_width=90)
    for name, times in {**seconds, **claims}.items():
        ratios = times / multiply
        median, must = float(np.median(ratios)), ""
        if name in RATIO_LIMITS:
            must = f"{RATIO_LIMITS[name]:.2f} {'met' if median <= RATIO_LIMITS[name] else 'MISSED'}"
        spread = f"{ratios.min():.3f} - {ratios.max():.3f}"
        result.add_row(name, f"{np.median(times):.3f}", f"{median:.3f}", spread, must)
    return result


if __name__ == "__main__":
    main()
