"""The earth mover's distance of banks to queries, over its yardstick: exact on 1,000 rows, and sliced on all of them.

    python benchmarks/earth_movers.py FOLDER [--split val] [--seeds 4]

FOLDER holds Flickr8k embeddings as tests/flickr8k.py describes them. A cell is a mean and standard deviation over the
seeds, which draw the rows or the projections. Needs the extra `plans`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import ot

from bank_quality import Rows, banks, cases
from unhub.arrays import unit
from unhub.banks.earth_movers import transport
from unhub.data.vectors import as_vectors
from unhub.evaluation.tables import as_text
from unhub.studies.seeds import Spread

PROJECTIONS = 128
SHOWN_BANKS = ("all", "random", "adversarial", "near", "far", "half far", "noise")


def exact(bank: Rows, items: Rows, queries: Rows, seed: int) -> float:
    """Return the distance of `judge_bank` over its yardstick."""
    past, gallery, asked = as_vectors(bank, "bank"), as_vectors(items, "items"), as_vectors(queries, "queries")
    found = transport(past, gallery, asked, "cosine", seed=seed)
    return (found.bank_queries or 0.0) / (found.halves or 1.0)


def sliced(bank: Rows, queries: Rows, seed: int) -> float:
    """Return POT's sliced distance, squared as the exact one is, over that between two halves of the queries."""
    order = np.random.default_rng(seed).permutation(len(queries))
    first, second = np.array_split(unit(queries)[order], 2)

    def apart(one: Rows, other: Rows) -> float:
        return float(ot.sliced_wasserstein_distance(one, other, n_projections=PROJECTIONS, seed=seed)) ** 2

    return apart(unit(bank), unit(queries)) / apart(first, second)


def row(name: str, bank: Rows, items: Rows, queries: Rows, seeds: Sequence[int]) -> list[str]:
    """Return both ratios of one bank."""
    ratios = ([exact(bank, items, queries, seed) for seed in seeds], [sliced(bank, queries, seed) for seed in seeds])
    return [name, f"{len(bank):,}", *(f"{Spread.of(values):.2f}" for values in ratios)]


def main() -> None:
    """Print a table for each space and direction."""
    parser = argparse.ArgumentParser(description="The exact and the sliced earth mover's distance of banks to queries.")
    parser.add_argument("folder", type=Path, help="the flickr8k folder")
    parser.add_argument("--split", default="val", choices=("val", "test"))
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    for space in ("ridge", "vse_holdout"):
        for case in cases(arguments.folder, space, arguments.split):
            lines = [
                row(name, one, case.items, case.queries, range(arguments.seeds))
                for name, one in banks(case, 0)
                if name in SHOWN_BANKS and len(one) >= min(1000, len(case.bank) // 2)
            ]
            print(
                f"{case.title}: times the yardstick\n{as_text(('bank', 'size', 'exact', 'sliced'), lines)}\n",
                flush=True,
            )


if __name__ == "__main__":
    main()
