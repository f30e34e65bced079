"""Choosing with labels: among rankings, on some of the queries, with the gain on those that did not choose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.evaluation.confidence import Interval, Resamples, summaries
from unhub.evaluation.measures import Measure

FOLDS = 5
FEWEST_GROUPS = 20  # of queries: with fewer, an interval says little of what is to come


@dataclass(frozen=True)
class Choice:
    """The best ranking on all queries, 0 being raw, and the gain over raw of choosing, on queries that did not choose.

    gain: of the measure as it is, so that for one that falls, such as MdR, a gain is below 0.
    sure: whether the interval of the gain lies wholly on the better side.
    """

    winner: int
    gain: Interval
    sure: bool


def choose(values: Float64, measure: Measure, groups: NDArray[np.int64], seed: int = 0) -> Choice:
    """Choose among rankings, the first of which is raw.

    values: of the measure's parts, for each ranking and query, (parts, rankings, queries). groups: of queries that
    belong together, such as the captions of one picture, numbered from 0, (queries,): a group is in one fold.
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
    """Return the best ranking; of equals the first. Where nobody is left to choose, raw."""
    if values.shape[2] == 0:
        return 0
    whole = summaries(measure, values)
    return int(np.argmin(whole) if measure.family.falls else np.argmax(whole))
