"""Who asks: whether some items are asked for far more often than others, and whether bank and items are of one kind."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Kind, rows_per_block, spans
from unhub.data.vectors import Vectors

# Two queries that reach the same item first and have this cosine, after centring, ask for the same in other words:
# they share two thirds of what sets them apart from other queries (0.8 squared).
SAME_COSINE = 0.8
# Repeats that are not demand: captions of one picture in like words, texts from one template. On sets where every item
# is asked for equally often, up to 0.06 of a thousand queries were such.
NATURAL_SHARE = 0.05
STANDARD_ERRORS = 3.0
FEWEST_COMPARED = 50  # queries and items: with fewer, popular items cannot be told from hubs
MOST_COMPARED = 5000  # queries; their pairs with the same first item are compared, so all of them if all share one
BLOCK_ROWS = 1024
ROUNDING = 1e-9  # of a logarithm


@dataclass(frozen=True)
class Repeats:
    """The share of queries that ask for the same as an earlier one, and the most that even demand would give."""

    share: float
    most: float

    @property
    def uneven(self) -> bool:
        return self.share > self.most


@dataclass(frozen=True)
class Demand:
    """Whether what is asked most often asks for the items that most queries ask for.

    correlation: over the items that come first for some query, of how many distinct queries these are and how often
    each was asked, in logarithms. Hubs have many queries, but no more popular ones than others; popular items have
    both.
    """

    correlation: float
    items: int

    @property
    def uneven(self) -> bool:
        return self.correlation > STANDARD_ERRORS / sqrt(self.items)


def most_repeated(queries: int, items: int) -> float:
    """Return the largest share of repeats that can be expected if all items are wanted equally often.

    m queries at random over n items ask for n (1 - (1 - 1/n)^m) different ones; the rest repeat. With as many queries
    as items that is 1/e, however they are worded, so nothing is added beyond it.
    """
    expected: float = 1 - items / queries * (1 - (1 - 1 / items) ** queries)
    error = sqrt(expected * (1 - expected) / queries)
    return min(exp(-1), expected + STANDARD_ERRORS * error + NATURAL_SHARE)


def repeats(queries: Vectors, firsts: NDArray[np.int32], items: int, kind: Kind) -> Repeats:
    """Count the queries that ask for the same as an earlier one.

    firsts: the item each query reaches first, (queries,). At most as many queries as items must be given, so that even
    demand repeats few. The centre is the mean query, in which each first item counts once.
    """
    if len(firsts) > items:
        raise ValueError(f"{len(firsts)} queries are more than the {items} items that they are compared over")
    rows: Float64 = queries.unit_block(0, len(queries), kind).astype(np.float64)
    counts = np.bincount(firsts, minlength=items)
    rows -= (1 / counts[firsts]) @ rows / np.count_nonzero(counts)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    repeated = 0
    for item in np.flatnonzero(counts > 1):
        group = rows[firsts == item]
        for start in range(0, len(group), BLOCK_ROWS):
            alike = group[start : start + BLOCK_ROWS] @ group.T >= SAME_COSINE
            earlier = np.arange(len(group)) < np.arange(start, start + len(alike))[:, None]
            repeated += int((alike & earlier).any(axis=1).sum())
    return Repeats(repeated / len(firsts), most_repeated(len(firsts), items))


def demand(firsts: NDArray[np.int32], counts: Float64) -> Demand | None:
    """Compare how often distinct queries were asked with how many others reach the same item first.

    firsts: the item each query reaches first, (queries,). counts: how often each was asked, or a power of that. None if
    all were asked equally often, or too few items come first.
    """
    crowds = np.bincount(firsts)
    reached = np.flatnonzero(crowds)
    many = np.log(crowds[reached])
    often = (np.bincount(firsts, np.log(counts)) / np.maximum(crowds, 1))[reached]
    if len(reached) < FEWEST_COMPARED or min(np.ptp(many), np.ptp(often)) <= ROUNDING:
        return None
    return Demand(float(np.corrcoef(many, often)[0, 1]), len(reached))


def cosine_of_means(first: Vectors, second: Vectors, kind: Kind) -> float:
    """Return the cosine of the mean rows of two sets; 0 if a mean is 0."""
    means = []
    for vectors in (first, second):
        mean = np.zeros(vectors.dimensions)
        for start, stop in spans(len(vectors), rows_per_block(vectors.dimensions)):
            mean += vectors.unit_block(start, stop, kind).sum(axis=0, dtype=np.float64)
        means.append(mean)
    lengths = np.linalg.norm(means[0]) * np.linalg.norm(means[1])
    return float(means[0] @ means[1] / lengths) if lengths > 0 else 0.0
