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
    """The best ranking on all queries (0 is raw), and the gain over raw on queries that had no part in the choice.

    gain: the change of the measure, so an improvement is below 0 for measures such as MdR.
    sure: whether the whole interval of the gain is an improvement.
    """

    winner: int
    gain: Interval
    sure: bool


def choose(values: Float64, measure: Measure, groups: NDArray[np.int64], seed: int = 0) -> Choice:
    """Choose among rankings, the first of which is raw.

    values: of the measure's parts for each ranking and query, (parts, rankings, queries). groups: the group of each
    query, numbered from 0, (queries,); queries of one group, such as the captions of one picture, are in one fold.
    """
    fold = fold_of(groups, seed)
    held_out = np.empty((len(values), 1, values.shape[2]))
    for number in range(int(fold.max()) + 1):
        here = fold == number
        best = _best(values[:, :, ~here], measure)
        held_out[:, 0, here] = values[:, best, here]
    both = np.concatenate([values[:, :1], held_out], axis=1)
    raw, chosen = summaries(measure, both)
    drawn = Resamples(groups, seed=seed)
    (resampled,) = drawn.summaries([measure], [both])
    gain = drawn.interval(float(chosen - raw), resampled[:, 1] - resampled[:, 0])
    enough = int(groups.max()) + 1 >= FEWEST_GROUPS
    return Choice(_best(values, measure), gain, enough and (gain.high < 0 if measure.family.falls else gain.low > 0))


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
