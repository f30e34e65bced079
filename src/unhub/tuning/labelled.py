"""Choosing with labels: the best ranking, and its gain by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.evaluation.confidence import Interval, Resamples, summaries
from unhub.evaluation.measures import Measure

FOLDS = 5
FEWEST_GROUPS = 20  # of queries: with fewer, an interval says little about new queries


@dataclass(frozen=True)
class Choice:
    """The ranking to take (0 is raw), and its gain over raw on queries whose labels had no part in the choice.

    gain: the change of the measure, so an improvement is below 0 for measures such as MdR. sure: whether the gain is
    certain enough to take the ranking. by_labels: whether the labels chose it, or only did not object. of_folds: the
    gain of what the labels choose in folds.
    """

    winner: int
    gain: Interval
    sure: bool
    by_labels: bool
    of_folds: Interval


def choose(
    values: Float64, measure: Measure, groups: NDArray[np.int64], seed: int = 0, without_labels: int | None = None
) -> Choice:
    """Choose among rankings, the first of which is raw.

    values: of the measure's parts for each ranking and query, (parts, rankings, queries). groups: the group of each
    query, numbered from 0, (queries,); queries of one group, such as the captions of one picture, are in one fold.
    without_labels: the ranking that was chosen without labels, if its gain is certain by that. It is taken if the
    labels see a gain too and what they choose in folds does no better or is not certain: few labels choose worse among
    many rankings than none.
    """
    fold = fold_of(groups, seed)
    held_out = np.empty((len(values), 1, values.shape[2]))
    for number in range(int(fold.max()) + 1):
        here = fold == number
        best = _best(values[:, :, ~here], measure)
        held_out[:, 0, here] = values[:, best, here]
    free = values[:, [without_labels or 0]]
    compared = np.concatenate([values[:, :1], held_out, free], axis=1)
    raw, by_labels, by_none = (-1 if measure.family.falls else 1) * summaries(measure, compared)
    enough = int(groups.max()) + 1 >= FEWEST_GROUPS
    gain, gain_of_free = gains(compared, measure, groups, seed)
    sure = enough and (gain.high < 0 if measure.family.falls else gain.low > 0)
    if without_labels and enough and by_none > raw and (by_none >= by_labels or not sure):
        return Choice(without_labels, gain_of_free, True, False, gain)
    return Choice(_best(values, measure), gain, sure, True, gain)


def gains(compared: Float64, measure: Measure, groups: NDArray[np.int64], seed: int) -> list[Interval]:
    """Return the change of the measure from the first ranking to each of the others, with bootstrap intervals."""
    whole, drawn = summaries(measure, compared), Resamples(groups, seed=seed)
    (resampled,) = drawn.summaries([measure], [compared])
    return [
        drawn.interval(float(whole[row] - whole[0]), resampled[:, row] - resampled[:, 0])
        for row in range(1, compared.shape[1])
    ]


def fold_of(groups: NDArray[np.int64], seed: int = 0) -> NDArray[np.int64]:
    """Return the fold of each query, (queries,); the queries of a group are in one."""
    count = int(groups.max()) + 1
    return (np.random.default_rng(seed).permutation(count) % min(FOLDS, count))[groups]


def _best(values: Float64, measure: Measure) -> int:
    """Return the best ranking, the first of equal ones; raw if no query is left to choose by."""
    if values.shape[2] == 0:
        return 0
    whole = summaries(measure, values)
    return int(np.argmin(whole) if measure.family.falls else np.argmax(whole))
