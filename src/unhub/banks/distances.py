"""Cheap distances between a bank and queries: how far apart their means are, and how close their rows come.

The distance of two rows is half their squared distance, which is 1 - cosine for rows of length one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind, random_positions, rows_per_block, spans
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Progress, Workers
from unhub.data.similarity import Dot
from unhub.data.vectors import Rows, Vectors

# Above these limits a bank is from another source; docs/banks/bank_limits.md has the measurements.
FAR_SHIFT = 0.01
FAR_RATIO = 1.4

ROUNDING_DISTANCE = float(np.finfo(np.float32).eps)  # a smaller mean distance is 0 up to rounding
SAMPLE_ROWS = 5000  # rows of each set that are compared in equally large samples


@dataclass(frozen=True)
class Shift:
    """How far the mean of a bank is from that of the queries, as a share of the variance.

    value: |mean - mean|^2 / (|mean - mean|^2 + spread), less its expectation under chance, at least 0; spread is the
    mean squared distance of the queries from their mean. chance: the margin that is added to the limit, 3 (1/m + 1/q)
    for m bank queries and q queries: two standard deviations, each at most sqrt(2) (1/m + 1/q) under chance.
    """

    value: float
    chance: float

    @property
    def far(self) -> bool:
        return self.value > FAR_SHIFT + self.chance


def shift(bank: Vectors, queries: Vectors, kind: Kind) -> Shift:
    """Return how far the bank's mean is from that of the queries, reading both once."""
    (bank_mean, bank_spread), (query_mean, query_spread) = _moments(bank, kind), _moments(queries, kind)
    bank_spread = query_spread if len(bank) == 1 else bank_spread  # one row has no spread
    query_spread = bank_spread if len(queries) == 1 else query_spread
    apart = float(np.square(bank_mean - query_mean).sum())
    whole = apart + query_spread
    by_chance = bank_spread / len(bank) + query_spread / len(queries)
    value = (apart - by_chance) / whole if whole > 0 else 0.0
    return Shift(max(0.0, value), 3 / len(bank) + 3 / len(queries))


def _moments(vectors: Vectors, kind: Kind) -> tuple[Float64, float]:
    """Return the mean row, (d,), and the unbiased mean squared distance from it; 0 for a single row."""
    mean = mean_row(vectors, kind)
    squares = 2 * half_squares(vectors, kind).sum()
    spread = (squares - len(vectors) * (mean @ mean)) / max(len(vectors) - 1, 1)
    return mean, max(0.0, float(spread)) if len(vectors) > 1 else 0.0


def mean_row(vectors: Vectors, kind: Kind) -> Float64:
    """Return the mean of the rows as they are compared, (d,)."""
    total = np.zeros(vectors.dimensions)
    for span in spans(len(vectors), rows_per_block(vectors.dimensions)):
        total += vectors.unit_block(*span, kind).sum(axis=0, dtype=np.float64)
    return total / len(vectors)


def half_squares(vectors: Vectors, kind: Kind) -> Float64:
    """Return half the squared length of each row as it is compared, (rows,)."""
    if kind == "cosine":
        return np.full(len(vectors), 0.5)
    blocks = (vectors.block(*span).astype(np.float64) for span in spans(len(vectors), 4096))
    return np.concatenate([np.square(block).sum(axis=1) / 2 for block in blocks])


def to_nearest(
    queries: Vectors, bank: Vectors, kind: Kind, *, threads: int | None = None, progress: Progress | None = None
) -> Float64:
    """Return how far each query is from the bank query nearest to it, (queries,)."""
    workers = Workers(threads, progress=progress)
    if kind == "dot":  # centred, since a mean far from 0 would cost the digits in which distances differ
        centre = mean_row(bank, kind).astype(np.float32)
        queries, bank = (Vectors(one.ids, _Moved(one.rows, centre)) for one in (queries, bank))
    # The nearest b has the largest b.q - |b|^2 / 2, a top value of q if the queries take the place of the items.
    nearest = reduce(Dot(bank, queries, kind), Want(top_values=1), workers, -half_squares(bank, kind)).top_values[:, 0]
    workers.finish()
    return np.maximum(half_squares(queries, kind) - nearest, 0)


class _Moved:
    """Rows minus a centre, which does not change the distances between them."""

    def __init__(self, rows: Rows, centre: Float32) -> None:
        self.rows, self.centre = rows, centre
        self.shape, self.dtype = rows.shape, np.result_type(rows.dtype, centre)

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        return np.asarray(np.subtract(self.rows[key], self.centre))


@dataclass(frozen=True)
class Nearness:
    """How far queries are from their nearest bank query: half are within `median`, nine in ten within `most`.

    ratio: the mean of that distance for half of the queries, to as many bank queries as the other half holds, divided
    by the mean distance to the other half itself. None for a single query, or if the halves hold the same rows.
    """

    median: float
    most: float
    ratio: float | None

    @property
    def far(self) -> bool:
        return self.ratio is not None and self.ratio > FAR_RATIO


def nearness(
    bank: Vectors,
    queries: Vectors,
    kind: Kind,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Nearness:
    """Return how close the bank comes to the queries, compared with how close they come to each other."""
    whole = to_nearest(queries, bank, kind, threads=threads, progress=progress)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(queries))[: 2 * SAMPLE_ROWS]
    half = len(order) // 2
    size = min(half, len(bank))
    if not half:
        return Nearness(float(whole[0]), float(whole[0]), None)
    asking, others = queries.gather(np.sort(order[:half])), queries.gather(np.sort(order[half : half + size]))
    some = bank.gather(random_positions(len(bank), size, generator))
    to_bank, to_others = (float(to_nearest(asking, one, kind, threads=threads).mean()) for one in (some, others))
    ratio = to_bank / to_others if to_others > ROUNDING_DISTANCE else None
    median, most = np.quantile(whole, [0.5, 0.9])
    return Nearness(float(median), float(most), ratio)
