"""The earth mover's distance between bank, items and queries, as in Pan et al. 2025, section 4.4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float64, Kind
from unhub.compute.transport import exact_plan
from unhub.data.vectors import Vectors
from unhub.errors import optional

MOST_ROWS = 1000  # of each set: the time grows with the cube, and is about a second here
MOST_DRAWS = 10  # of small sets, whose distances depend on the draw


@dataclass(frozen=True)
class TransportDistance:
    """Earth mover's distances between equally many rows of each set, and as a yardstick, between halves of one set.

    halves: of the queries, or of the bank without queries; None for a single row. rows: from each set. With fewer rows
    all distances are larger, so compare only distances of one report. draws: how many random draws the distances are
    averaged over. sampled: whether a draw leaves rows out.
    """

    bank_items: float
    bank_queries: float | None
    queries_items: float | None
    halves: float | None
    rows: int
    draws: int
    sampled: bool


def transport(
    bank: Vectors, items: Vectors, queries: Vectors | None, kind: Kind, *, seed: int = 0
) -> TransportDistance:
    """Return the distances by exact transport of at most 1,000 rows of each set; needs POT, the extra `plans`."""
    whole = bank if queries is None else queries
    rows = min(MOST_ROWS, len(bank), len(items), max(1, len(whole) // 2))
    draws = min(MOST_DRAWS, MOST_ROWS // rows)
    generator = np.random.default_rng(seed)
    found: dict[str, list[float]] = {"bank items": [], "bank queries": [], "queries items": [], "halves": []}
    for _ in range(draws):
        past, gallery = (_drawn(one, rows, kind, generator) for one in (bank, items))
        both = _drawn(whole, min(2 * rows, len(whole)), kind, generator)
        found["bank items"].append(earth_movers_distance(past, gallery))
        if queries is not None:
            found["bank queries"].append(earth_movers_distance(past, both[:rows]))
            found["queries items"].append(earth_movers_distance(both[:rows], gallery))
        if len(whole) > 1:
            found["halves"].append(earth_movers_distance(both[:rows], both[rows:]))
    means = {name: float(np.mean(values)) if values else None for name, values in found.items()}
    return TransportDistance(
        bank_items=means["bank items"] or 0.0,
        bank_queries=means["bank queries"],
        queries_items=means["queries items"],
        halves=means["halves"],
        rows=rows,
        draws=draws,
        sampled=any(len(one) > rows for one in (bank, items, whole)),
    )


def pooled_distance(bank: Vectors, items: Vectors, bank_items: Vectors, kind: Kind, *, seed: int = 0) -> float:
    """Return the distance from the bank to the items and the bank items together, each row of equal weight.

    It is by exact transport of at most 1,000 rows; of the two sets that are pooled, as many each as their sizes say.
    """
    pooled = len(items) + len(bank_items)
    rows = min(MOST_ROWS, len(bank), pooled)
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(min(MOST_DRAWS, MOST_ROWS // rows)):
        of_items = int(np.sum(generator.permutation(pooled)[:rows] < len(items)))
        sets = ((bank, rows), (items, of_items), (bank_items, rows - of_items))
        past, *others = (_drawn(one, count, kind, generator) for one, count in sets)
        found.append(earth_movers_distance(past, np.concatenate(others)))
    return float(np.mean(found))


def earth_movers_distance(first: Float64, second: Float64) -> float:
    """Return the cost of moving rows, (n, d), onto others, (m, d), all of equal weight.

    Moving a row costs half the squared distance, which is 1 - cosine for rows of length one.
    """
    ot = optional("ot", "plans", "the earth mover's distance")
    squares = [np.square(rows).sum(axis=1) / 2 for rows in (first, second)]
    cost = np.maximum(squares[0][:, None] + squares[1] - first @ second.T, 0)
    return float(np.vdot(exact_plan(ot, cost), cost))


def _drawn(vectors: Vectors, size: int, kind: Kind, generator: np.random.Generator) -> Float64:
    """Return some rows in random order, ready to compare."""
    positions = generator.permutation(len(vectors))[:size].astype(np.int64)
    return vectors.gather(positions).unit_block(0, size, kind).astype(np.float64)
