"""Figures of clicks: one value for each logged query, and their means with intervals for each side of an A/B test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.data.query_log import UNKNOWN, QueryLog
from unhub.errors import ArgumentError
from unhub.evaluation.confidence import Interval, Resamples, group_sums, interval

# The figures of clicks, the most important first, and how each is called. All are better if higher.
CLICK_FIGURES: Mapping[str, str] = {
    "clicked": "queries with a click",
    "click_through": "clicks per item shown",
    "first_click": "mean reciprocal place of the first click",
}


@dataclass(frozen=True, eq=False)
class Ratios:
    """Figures that are each a sum over queries divided by another one, (figures, queries) each."""

    above: Float64
    below: Float64

    def compared(
        self, arms: Sequence[NDArray[np.bool_]], groups: NDArray[np.int64], count: int, seed: int
    ) -> tuple[list[list[Interval]], list[list[Interval]]]:
        """Return each figure of each arm, and less that of the first arm, with bootstrap intervals, [arm][figure].

        arms: which queries each holds. groups: of queries that are drawn together, in whatever arms they are.
        """
        parts = np.concatenate([np.concatenate([self.above * arm, self.below * arm]) for arm in arms])
        sums = group_sums(parts, groups).T  # (groups, arms x (above, below) x figures)
        drawn = Resamples(groups, count, seed)
        resampled = self._divided(np.concatenate([block.astype(np.float64) @ sums for block in drawn.draws]), len(arms))
        (values,) = self._divided(sums.sum(axis=0, keepdims=True), len(arms))
        alone = not groups.any()
        figures = range(len(self.above))
        return (
            [[_interval(values[arm, at], resampled[:, arm, at], alone) for at in figures] for arm in range(len(arms))],
            [
                [
                    _interval(values[arm, at] - values[0, at], resampled[:, arm, at] - resampled[:, 0, at], alone)
                    for at in figures
                ]
                for arm in range(len(arms))
            ],
        )

    def _divided(self, sums: Float64, arms: int) -> Float64:
        """Return the figures from their sums, (resamples, arms, figures); NaN where there is nothing to divide by."""
        whole = sums.reshape(len(sums), arms, 2, len(self.above))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(whole[:, :, 0] / whole[:, :, 1])


def ratios_of(log: QueryLog) -> Ratios:
    """Return the figures of CLICK_FIGURES as ratios over the queries of a log.

    A query with a click counts 1 in the first; an item that is clicked twice counts once. A click whose place is not
    known counts in the first figure alone; a query with such clicks only is left out of the third. Without what was
    returned, the second is unknown.
    """
    clicks = log.clicked
    if clicks is None:
        raise ArgumentError("hits", "hold no clicks", "name the column of clicked ids when reading the log")
    queries, known = len(log), clicks.positions != UNKNOWN
    any_click = clicks.counts > 0
    pairs = np.unique(np.stack([clicks.owners[known], clicks.positions[known]], axis=1), axis=0)
    distinct = np.bincount(pairs[:, 0], minlength=queries)
    first = np.full(queries, np.iinfo(np.int64).max)
    np.minimum.at(first, clicks.owners[known], clicks.positions[known])
    placed = distinct > 0
    shown = np.zeros(queries) if log.returned is None else log.returned.counts
    above = [any_click, np.minimum(distinct, shown), np.where(placed, 1 / first, 0.0)]
    below = [np.ones(queries), shown, placed | ~any_click]
    return Ratios(np.array(above, np.float64), np.array(below, np.float64))


def _interval(value: float, resampled: Float64, alone: bool) -> Interval:
    """Return an interval over the resamples that have a value; not known with one group, or if most have none."""
    there = resampled[np.isfinite(resampled)]
    if alone or len(there) < len(resampled) / 2 or not np.isfinite(value):
        return Interval(float(value), -inf, inf)
    return interval(float(value), there)
