"""Tune a gallery of a million items: minutes, multiplies' worth of work, and what was chosen.

The items and the bank are generated around one shared direction, each bank query and query near an item of its own.
The default, 1,000,000 x 10,000 with 2,000 queries and 256 dimensions, must take five minutes on two cores.
A small run: `--items 2000 --bank 600 --queries 200 --dimensions 16 --most-items 1000 --sampled-items 500`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import unhub
import unhub.tuning.large
import unhub.tuning.tune
from data import unit_vectors
from unhub.arrays import Float32, unit

MUST_SECONDS = 300
NOISE = 1.0  # of a query, over the length of its item


def main() -> None:
    """Tune once, and print the time and the reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--bank", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=2_000, help="0 for none")
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--most-items", type=int, help="with more, a sample is used")
    parser.add_argument("--sampled-items", type=int)
    options = parser.parse_args()
    if options.most_items:
        unhub.tuning.tune.MOST_ITEMS = options.most_items
    if options.sampled_items:
        unhub.tuning.large.SAMPLED_ITEMS = options.sampled_items
    items = unit_vectors(options.items, options.dimensions, seed=0)
    bank, queries = asked(items, options.bank, 1), asked(items, options.queries, 2)
    began, processor = time.perf_counter(), time.process_time()
    tuning = unhub.tune(items, bank, queries if options.queries else None, methods=options.methods)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    met = "met" if seconds <= MUST_SECONDS else "MISSED"
    print(f"{options.items:,} items x {options.bank:,} bank, {options.queries:,} queries, d = {options.dimensions}")
    print(
        f"{seconds:.0f} seconds ({processor:.0f} of processors), must {MUST_SECONDS} {met}; chosen: {tuning.best.spec}"
    )
    print(tuning.reason, *tuning.notes, sep="\n")


def asked(items: Float32, rows: int, seed: int) -> Float32:
    """Return queries that are each near an item."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((rows, items.shape[1])) * (NOISE / np.sqrt(items.shape[1]))
    return unit((items[rng.integers(0, len(items), rows)] + noise).astype(np.float32))


if __name__ == "__main__":
    main()
