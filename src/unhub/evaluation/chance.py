"""Chance: the figures of hubness where queries return items at random, beside which those of a ranking are read."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log, log1p, sqrt

import numpy as np

from unhub.arrays import Float64


@dataclass(frozen=True)
class Chance:
    """What chance gives for each of `Figures`: over the items where it is a mean over them, else as expected."""

    skewness: float
    kurtosis: float
    mean_deviation: float
    largest: float
    anti_hubs: float
    top_share: float
    robin_hood: float


def chance_of(places: int, queries: int, items: int, top: int) -> Chance:
    """Return the figures of counts that differ by chance alone, given how many places there are in all.

    An item's count is then binomial: each query returns it with the chance p = places / (queries * items). top: of how
    many items `top_share` is. That the counts of different items add up to the places is left out of account, which
    matters for `largest` and `top_share` of a few items alone.
    """
    share = places / (queries * items)
    first, law = binomial(queries, share)
    counts = first + np.arange(len(law))
    mean, variance = queries * share, queries * share * (1 - share)
    deviation = float(np.abs(counts - mean) @ law)
    over = np.minimum(np.append(np.cumsum(law[:0:-1])[::-1], 0.0), 1.0)  # the chance of a count over each
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
    """Return the least number of successes worth telling, and the chance of it and of each after it."""
    if share <= 0 or share >= 1:
        return (trials if share >= 1 else 0), np.ones(1)
    mean, reach = trials * share, _reach(trials, share)
    numbers = np.arange(max(0, floor(mean - reach)), min(trials, ceil(mean + reach)) + 1, dtype=np.float64)
    ratios = np.log((trials - numbers[:-1]) / numbers[1:]) + log(share) - log1p(-share)  # of each to the one before
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    law = np.exp(logs - logs.max())
    return int(numbers[0]), law / law.sum()


def _reach(trials: int, share: float) -> float:
    """Return how far from the mean a number can be before its chance is lost in rounding."""
    return 12 * sqrt(trials * share * (1 - share)) + 40


def _most(first: int, over: Float64, items: int, top: int) -> float:
    """Return the expected sum of the `top` largest counts: over each number, how many of them are above it."""
    total = float(first * top)
    for share in over.tolist():
        mean, reach = items * share, _reach(items, share)
        if abs(mean - top) > reach:
            total += min(mean, top)
        else:
            least, law = binomial(items, share)
            total += float(np.minimum(least + np.arange(len(law)), top) @ law)
    return total
