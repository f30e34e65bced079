"""Fits within an error against the bare multiply: time, pairs, overlap of the first ten, and stated and true errors.

Two kinds of data, 256 dimensions each. *Generated*: unit vectors around 200 centres with a shared direction, at
several distances from their centre. *Flickr8k*: the pictures and captions of the shared set, if it is there, each drawn
again and moved by noise of length 0.3. Their likeness to real data is printed: the spread of h, and how much larger a
query's best score is than its tenth.

    python benchmarks/below.py --quick     # 4,000 x 20,000, under a minute
    python benchmarks/below.py             # 20,000 x 200,000, about ten minutes on two cores
    python benchmarks/below.py --large     # 100,000 x 1,000,000, about an hour; the multiply is timed on 10,000 items

Times are divided by the multiply in the same round; the median over three rounds is printed. The exact h is computed
once. The multiply is of the tiles that a fit multiplies, with nothing done to them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import unhub
from evidence_sets import data_folder, read
from unhub.arrays import Float32, Float64, spans, unit
from unhub.compute.passes import TILE_ROWS, columns_per_tile
from unhub.compute.workers import Workers
from unhub.correction import Bias

DIMENSIONS, CENTRES, NOISE = 256, 200, 0.3
SIZES = {"quick": (4_000, 20_000), "usual": (20_000, 200_000), "large": (100_000, 1_000_000)}
MOST_TIMED_ITEMS = 10_000  # of the multiply, which is then scaled
QUERIES, PLACES = 2_000, 10
TAUS = (0.05, 0.02)
WANTED = {"quick": "-", "usual": "0.25 at 0.97", "large": "0.12 at 0.97"}


class Data(NamedTuple):
    """Items, a bank, and queries like those of the bank."""

    items: Float32
    bank: Float32
    queries: Float32


def main() -> None:
    """Run the benchmark and print a table for each kind of data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", default="usual")
    size.add_argument("--large", dest="size", action="store_const", const="large")
    parser.add_argument("--error", type=float, default=0.002)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--data", choices=list(KINDS), action="append", help="repeatable; default: both")
    given = parser.parse_args()
    for kind in given.data or KINDS:
        data = KINDS[kind](*SIZES[given.size])
        if data is None:
            Console().print(f"{kind}: its files are absent")
            continue
        show(kind, data, given)


def generated(items: int, bank: int) -> Data:
    """Return vectors around common centres."""
    generator = np.random.default_rng(0)
    centres = unit(generator.standard_normal((CENTRES, DIMENSIONS), dtype=np.float32))
    shared = np.float32(0.5) * unit(generator.standard_normal((1, DIMENSIONS), dtype=np.float32))

    def around(count: int) -> Float32:
        out = np.empty((count, DIMENSIONS), np.float32)
        for start, stop in spans(count, 1 << 16):
            own = centres[generator.integers(CENTRES, size=stop - start)] + shared
            noise = unit(generator.standard_normal((stop - start, DIMENSIONS), dtype=np.float32))
            out[start:stop] = unit(own + noise * generator.uniform(0.5, 1.5, (stop - start, 1)).astype(np.float32))
        return out

    return Data(around(items), around(bank), around(QUERIES))


def flickr8k(items: int, bank: int) -> Data | None:
    """Return pictures and captions, enlarged with noise."""
    folder = data_folder() / "flickr8k"
    if not Path(folder / "ridge_img.npy").is_file():
        return None
    generator = np.random.default_rng(0)
    images, texts = (unit(read(folder / f"ridge_{kind}.npy")) for kind in ("img", "txt"))

    def enlarged(rows: Float32, count: int) -> Float32:
        out = np.empty((count, rows.shape[1]), np.float32)
        for start, stop in spans(count, 1 << 16):
            noise = unit(generator.standard_normal((stop - start, rows.shape[1]), dtype=np.float32))
            out[start:stop] = unit(rows[generator.integers(len(rows), size=stop - start)] + np.float32(NOISE) * noise)
        return out

    return Data(enlarged(images, items), enlarged(texts, bank), enlarged(texts, QUERIES))


KINDS: dict[str, Callable[[int, int], Data | None]] = {"generated": generated, "flickr8k": flickr8k}


def multiply_seconds(data: Data, threads: int | None) -> float:
    """Return how long the tiles of a fit take to multiply, scaled from a part of the items if there are many."""
    workers, some = Workers(threads), data.items[:MOST_TIMED_ITEMS]
    columns = columns_per_tile(TILE_ROWS)

    def multiply(span: tuple[int, int]) -> None:
        tile = np.empty((TILE_ROWS, columns), np.float32)
        for start, stop in spans(len(data.bank), columns):
            rows = some[slice(*span)]
            np.matmul(rows, data.bank[start:stop].T, out=tile[: len(rows), : stop - start])

    began = time.perf_counter()
    workers.map(multiply, spans(len(some), TILE_ROWS // 2))
    return (time.perf_counter() - began) * len(data.items) / len(some)


def best(data: Data, h: Float64) -> list[set[int]]:
    """Return the first places of each query."""
    found = []
    for start, stop in spans(len(data.queries), 100):
        scores = data.queries[start:stop] @ data.items.T - h.astype(np.float32)
        found += [set(row.tolist()) for row in np.argpartition(-scores, PLACES, axis=1)[:, :PLACES]]
    return found


def likeness(data: Data, h: Float64) -> str:
    """Say what makes data easy or hard: the spread of h, and the lead of a query's best item."""
    scores = np.sort(data.queries[:200] @ data.items.T, axis=1)
    lead = float((scores[:, -1] - scores[:, -PLACES]).mean())
    return f"h spreads by {h.std():.3f}; the best item leads the tenth by {lead:.3f}"


def show(kind: str, data: Data, given: argparse.Namespace) -> None:
    """Measure one kind of data and print its table."""
    shape = f"{len(data.items):,} x {len(data.bank):,}"
    table = Table(title=f"{kind}, {shape}, error {given.error}; {given.threads or 'all'} threads")
    for name in ("tau", "time over multiply", "wanted", "passes", "overlap", "stated error", "true error", "how"):
        table.add_column(name)
    for tau in TAUS:
        exact = fitted(data, tau, None, given.threads)
        ratios, found = [], exact
        for _ in range(given.rounds):
            multiply = multiply_seconds(data, given.threads)
            began = time.perf_counter()
            found = fitted(data, tau, given.error, given.threads)
            ratios.append((time.perf_counter() - began) / multiply)
        pairs = zip(best(data, found.bias), best(data, exact.bias), strict=True)
        overlap = statistics.mean(len(one & other) / PLACES for one, other in pairs)
        off = float((found.bias - exact.bias).std())
        table.add_row(
            f"{tau}",
            f"{statistics.median(ratios):.3f}",
            WANTED[given.size],
            f"{found.cost.passes:.3f}",
            f"{overlap:.3f}",
            f"{found.cost.error:.5f}",
            f"{off:.5f}",
            found.cost.how,
        )
    Console().print(f"{kind}: {likeness(data, exact.bias)}")
    Console().print(table)


def fitted(data: Data, tau: float, error: float | None, threads: int | None) -> Bias:
    """Return a fit of `is`, within an error or of all pairs."""
    correction = unhub.fit(data.items, data.bank, f"is:tau={tau}", error=error, threads=threads)
    assert isinstance(correction, Bias)
    return correction


if __name__ == "__main__":
    main()
