"""Chance: the hubness figures of queries that return items at random, to compare those of a ranking with."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log, log1p, sqrt

import numpy as np

from unhub.arrays import Float64


@dataclass(frozen=True)
class Chance:
    """The value of each of `Figures` under chance."""

    skewness: float
    kurtosis: float
    mean_deviation: float
    largest: float
    anti_hubs: float
    top_share: float
    robin_hood: float


def chance_of(places: int, queries: int, items: int, top: int) -> Chance:
    """Return the figures of counts that differ by chance alone, given the total number of places.

    An item's count is then binomial: each query returns it with probability p = places / (queries * items). top: the
    number of items that `top_share` is about. The counts are treated as independent although they sum to the places;
    this only matters for `largest` and `top_share` of very few items.
    """
    share = places / (queries * items)
    first, law = binomial(queries, share)
    counts = first + np.arange(len(law))
    mean, variance = queries * share, queries * share * (1 - share)
    deviation = float(np.abs(counts - mean) @ law)
    over = np.minimum(np.append(np.cumsum(law[:0:-1])[::-1], 0.0), 1.0)  # P(count > c) for each c
    return Chance(
        skewness=(1 - 2 * share) / sqrt(variance) if variance > 0 else 0.0,
        kurtosis=(1 - 6 * share * (1 - share)) / variance if variance > 0 else 0.0,
        mean_deviation=deviation,
        largest=_most(first, over, items, 1),
        anti_hubs=float(law[0]) if first == 0 else 0.0,
        top_share=_most(first, over, items, top) / places if places else 0.0,
        robin_hood=deviation / (2 * mean) if places else 0.0,
    )


def binomial(trials: int, share: float) -> tuple[int, Float64]:
    """Return the smallest number of successes with a probability worth counting, and the probabilities from it on."""
    if share <= 0 or share >= 1:
        return (trials if share >= 1 else 0), np.ones(1)
    mean, reach = trials * share, _reach(trials, share)
    numbers = np.arange(max(0, floor(mean - reach)), min(trials, ceil(mean + reach)) + 1, dtype=np.float64)
    ratios = np.log((trials - numbers[:-1]) / numbers[1:]) + log(share) - log1p(-share)  # of each to the previous
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    law = np.exp(logs - logs.max())
    return int(numbers[0]), law / law.sum()


def _reach(trials: int, share: float) -> float:
    """Return how far from the mean a number can be before its probability is lost in rounding."""
    return 12 * sqrt(trials * share * (1 - share)) + 40


def _most(first: int, over: Float64, items: int, top: int) -> float:
    """Return the expected sum of the `top` largest counts: the sum over c of how many of them exceed c."""
    total = float(first * top)
    for share in over.tolist():
        mean, reach = items * share, _reach(items, share)
        if abs(mean - top) > reach:
            total += min(mean, top)
        else:
            least, law = binomial(items, share)
            total += float(np.minimum(least + np.arange(len(law)), top) @ law)
    return total
