"""Sight: temperatures at which a bank query sees a given number of items, whatever the scale of the similarities.

A query sees exp(entropy of softmax(s / tau)) items: 1 if one item takes all the weight, n if all n share it equally.
Only the nearest 4,096 items of a query are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unhub.arrays import Float64, Kind, random_positions
from unhub.compute.nearest import BiasedQueries, nearest
from unhub.compute.workers import Resources
from unhub.data.vectors import Vectors

SAMPLE_QUERIES = 400  # bank queries; the temperature of a random 400 is within a few percent of that of all
BEST_ITEMS = 4096  # of each query; in a far larger gallery the items behind them would have some weight too
FINEST, COARSEST = 1e-6, 1e3  # the temperatures looked at, over the range of the scores
PRECISION = 1e-4  # of log(tau), finer than the three digits that are used


def temperatures(
    items: Vectors,
    bank: Vectors,
    seen: Sequence[float],
    similarity: Kind,
    seed: int = 0,
    threads: int | None = None,
    device: str | None = None,
) -> list[float]:
    """Return for each number of items the temperature at which the bank queries see that many, by geometric mean.

    Numbers that no temperature reaches, because there are too few items or too many copies, are left out.
    """
    asked = bank
    if len(bank) > SAMPLE_QUERIES:
        asked = bank.gather(random_positions(len(bank), SAMPLE_QUERIES, seed))
    ready = asked.unit_block(0, len(asked), similarity)
    best = min(BEST_ITEMS, len(items))
    scores, _ = nearest(BiasedQueries(ready), items, similarity, best, Resources(threads, device=device))
    below = scores.astype(np.float64) - scores[:, :1]
    range_ = float(-below.min())
    if range_ == 0:  # every item is equally near, and every temperature sees them all
        return []
    least = items_seen(below, FINEST * range_)  # more than one if items are copies of each other
    return [_temperature(below, range_, count) for count in seen if least < count < best]


def items_seen(below: Float64, tau: float) -> float:
    """Return how many items the queries see, given scores relative to the best one, (queries, items)."""
    shares = np.exp(below / tau)
    total = shares.sum(axis=1)
    entropy = np.log(total) - (shares * below).sum(axis=1) / (tau * total)
    return float(np.exp(entropy.mean()))


def _temperature(below: Float64, range_: float, count: float) -> float:
    low, high = np.log(FINEST * range_), np.log(COARSEST * range_)
    while high - low > PRECISION:
        middle = (low + high) / 2
        if items_seen(below, float(np.exp(middle))) < count:
            low = middle
        else:
            high = middle
    return float(np.exp(high))
