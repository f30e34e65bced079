"""The repetitions of a measure of sets: their mean, and how much they vary.

A repetition picks one set for every item, all equally likely, independently of the other items. The mean of a
repetition has the variance sum_i v_i / n^2 over n items, where v_i is that of the item's value over its sets: over all
of them if they are enumerated (divided by their number), estimated from the draws if they are drawn (divided by
one less). Its expectation is the mean over the items of each item's mean. A median or a geometric mean has no such
formula, so repetitions are drawn for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float64
from unhub.data.draws import Drawn
from unhub.evaluation.confidence import group_sums, summaries
from unhub.evaluation.measures import Measure

REPETITIONS = 200


@dataclass(frozen=True)
class Repeated:
    """The mean over repetitions and their standard deviation; None if an item has a single draw."""

    mean: float
    spread: float | None


def repetitions(measure: Measure, values: Float64, drawn: Drawn, seed: int) -> list[Repeated]:
    """Return the mean and the spread over repetitions for each contender.

    values: of the measure's parts, (parts, contenders, sets).
    """
    if measure.family.summary == "mean" and len(measure.parts) == 1:
        means, spreads = _by_formula(values[0], drawn)
    else:
        means, spreads = _by_repetition(measure, values, drawn, seed)
    known = not ((drawn.counts == 1) & ~drawn.whole).any()
    return [
        Repeated(float(mean), float(spread) if known else None) for mean, spread in zip(means, spreads, strict=True)
    ]


def _by_formula(values: Float64, drawn: Drawn) -> tuple[Float64, Float64]:
    counts = drawn.counts
    means = group_sums(values, drawn.owners) / counts
    squares = group_sums((values - means[:, drawn.owners]) ** 2, drawn.owners)
    variances = squares / np.where(drawn.whole, counts, np.maximum(counts - 1, 1))
    return means.mean(axis=1), np.asarray(np.sqrt(variances.sum(axis=1)) / len(counts))


def _by_repetition(measure: Measure, values: Float64, drawn: Drawn, seed: int) -> tuple[Float64, Float64]:
    generator = np.random.default_rng(seed)
    picked = (
        drawn.starts[:-1] + (generator.random(len(drawn.items)) * drawn.counts).astype(np.int64)
        for _ in range(REPETITIONS)
    )
    repeated = np.array([summaries(measure, values[:, :, sets]) for sets in picked])
    return repeated.mean(axis=0), repeated.std(axis=0, ddof=1)
