"""Samples: the figures of hubness of some queries of a day, so that days with different traffic can be compared.

A bootstrap that draws queries with replacement would draw some twice, which looks like hubs and like fewer items found.
So queries are drawn without replacement: n of m at a time. The variance of the figures of such samples is 1 - n / m of
that of n new queries (Politis and Romano 1994), and that of their mean, over all samples, at most n / m of it: where a
figure is more than the sum of what each query does, the intervals are on the safe side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from unhub.arrays import Float64
from unhub.compute.workers import Progress
from unhub.data.runs import Answers
from unhub.evaluation.confidence import Interval, interval
from unhub.evaluation.hubness import Figures, figures_from

DRAWS = 250
KEPT_SHARE = 0.8  # of the queries: in halves, where nearly everything is found, coverage would spread too far
FEW_ENTRIES = 32  # a sample with less than this part of the items in it is sorted
SIZES = tuple(64 << step for step in range(11))  # queries in which days are compared

# The figures that are watched: what each is of `Figures`, and in which direction it gets worse.
WATCHED: Mapping[str, int] = {"skewness": 1, "coverage": -1, "robin_hood": 1}


@dataclass(frozen=True, eq=False)
class Sampled:
    """The watched figures by name: of all queries with their intervals, and of samples of each size that fits."""

    whole: Mapping[str, Interval]
    sizes: Mapping[int, Mapping[str, Interval]]


def watched(figures: Figures) -> list[float]:
    """Return the watched figures, in the order of WATCHED. coverage: the share of the items that were returned."""
    return [figures.skewness, 1 - figures.anti_hubs, figures.robin_hood]


def sampled(
    answers: Answers,
    sizes: Sequence[int] = SIZES,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sampled:
    """Return the figures of answers and of random samples of them, each different query once.

    sizes: of the samples, in queries; those over half of the queries are left out, since such samples hardly differ.
    """
    queries = len(answers)
    most = min(round(KEPT_SHARE * queries), queries - 1)  # in the samples that say how a figure of all queries spreads
    fitting = [size for size in sizes if size <= queries // 2]
    values = watched(figures_from(amounts_of(answers.times, answers.items)))
    if not most:
        return Sampled({name: Interval(value, -inf, inf) for name, value in zip(WATCHED, values, strict=True)}, {})
    wanted = [*fitting, most]
    drawn = _drawn(answers, wanted, draws, seed, progress)  # (draws, sizes, figures)
    whole = _intervals(np.array(values), drawn[:, -1], most / (queries - most))
    found = {}
    for at, size in enumerate(fitting):  # their mean is the figure, which also rests on how many samples were drawn
        found[size] = _intervals(drawn[:, at].mean(axis=0), drawn[:, at], size / (queries - size) + 1 / draws)
    return Sampled(whole, found)


def _intervals(values: Float64, drawn: Float64, scale: float) -> dict[str, Interval]:
    """Return values with their intervals, by name: as far around them as samples spread, their squares scaled."""
    around = values + (drawn - drawn.mean(axis=0)) * sqrt(scale)
    least = [-inf if name == "skewness" else 0.0 for name in WATCHED]  # the others are shares
    most = [inf if name == "skewness" else 1.0 for name in WATCHED]
    around = np.clip(around, least, most)
    return {
        name: interval(float(value), around[:, at])
        for at, (name, value) in enumerate(zip(WATCHED, values, strict=True))
    }


def amounts_of(times: np.ndarray, items: int) -> np.ndarray:
    """Return how many of all items have each count from 0 on, given the counts of those that were returned."""
    amounts = np.bincount(times)
    amounts[0] += items - len(times)
    return amounts


def _drawn(answers: Answers, wanted: Sequence[int], draws: int, seed: int, progress: Progress | None) -> Float64:
    """Return the figures of random samples, (draws, sizes, figures); a sample holds the smaller ones of its draw."""
    generator = np.random.default_rng(seed)
    codes = answers.best + 1  # 0 stands for a place that was not filled
    found = np.empty((draws, len(wanted), len(WATCHED)))
    for draw in range(draws):
        if progress is not None:
            progress(draw, draws)
        drawn = codes[generator.permutation(len(answers))[: wanted[-1]]].ravel()
        times, before = np.zeros(len(answers.item_ids) + 1, np.int64), 0
        for at, size in enumerate(wanted):
            stop = size * answers.k
            if stop * FEW_ENTRIES < len(times):  # going through all items would take longer than sorting these
                seen, counts = np.unique(drawn[:stop], return_counts=True)
                amounts = amounts_of(counts[seen > 0], answers.items)
            else:
                times += np.bincount(drawn[before:stop], minlength=len(times))
                amounts, before = amounts_of(times[1:], answers.items), stop
            found[draw, at] = watched(figures_from(amounts))
    if progress is not None:
        progress(draws, draws)
    return found
