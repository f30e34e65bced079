"""Confidence: bootstrap intervals over groups of queries, and a paired test of a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, spans
from unhub.evaluation.measures import Measure

RESAMPLES = 1000  # as in Chowdhury et al. 2024, appendix D
SIGN_FLIPS = 4000  # of a paired test: the smallest p-value is 1 / 4001
CONFIDENCE_LEVEL = 0.95
FEW_GROUPS = 30  # with fewer, intervals are rough
BLOCK_ENTRIES = 1 << 22
ROUNDING_SHARE = 1e-9  # of a sum of weights


@dataclass(frozen=True)
class Interval:
    """A value and its confidence interval; an end that is not known is -inf or inf."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return format(self)

    def __format__(self, form: str) -> str:
        form = form or ".2f"
        return f"{self.value:{form}} {self.brackets(form)}"

    def brackets(self, form: str = ".2f") -> str:
        """Return the interval as text, with a question mark for an end that is not known."""
        low, high = (f"{end:{form}}" if isfinite(end) else "?" for end in (self.low, self.high))
        return f"[{low}, {high}]"

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, float | None]:
        """Return the three numbers by name, None for an end that is not known."""
        return {name: number if isfinite(number) else None for name, number in asdict(self).items()}


@dataclass(frozen=True, eq=False)
class Resamples:
    """Bootstrap resamples of groups of queries; everything that is compared shares them.

    groups: the group of each query, numbered from 0, (queries,). weights: of the queries, equal by default.
    """

    groups: NDArray[np.int64]
    count: int = RESAMPLES
    seed: int = 0
    weights: Float64 | None = None

    @property
    def draws(self) -> Iterator[NDArray[np.uint8]]:
        """Yield how often each group is drawn, some resamples at a time, (some, groups); every call yields the same."""
        groups = int(self.groups.max()) + 1
        generator = np.random.default_rng(self.seed)
        for start, stop in spans(self.count, max(1, BLOCK_ENTRIES // groups)):
            block = np.empty((stop - start, groups), np.uint8)
            for row in block:
                drawn = np.bincount(generator.integers(groups, size=groups), minlength=groups)
                row[:] = np.minimum(drawn, 255)  # in practice no count comes near 255
            yield block

    def summaries(self, measures: Sequence[Measure], values: Sequence[Float64]) -> list[Float64]:
        """Return each measure over each resample, (resamples, rankings).

        values: for each measure, the values of its parts for each ranking and query, (parts, rankings, queries).
        """
        each = [
            (_medians if measure.family.summary == "median" else _means)(of_one, self.groups, self.weights)
            for measure, of_one in zip(measures, values, strict=True)
        ]
        drawn = [[summarise(block) for summarise in each] for block in self.draws]
        return [np.concatenate(blocks) for blocks in zip(*drawn, strict=True)]

    def interval(self, value: float, resampled: Float64) -> Interval:
        """Return the interval of a value from its resampled values; with a single group it is not known."""
        return interval(value, resampled) if self.groups.any() else Interval(value, -inf, inf)


Summarise: TypeAlias = Callable[[NDArray[np.uint8]], Float64]  # of draws (some, groups) to (some, rankings)


def _means(values: Float64, groups: NDArray[np.int64], weights: Float64 | None) -> Summarise:
    parts, rankings, queries = values.shape
    counted = np.ones(queries) if weights is None else weights
    sums = group_sums(np.vstack([values.reshape(parts * rankings, queries) * counted, counted]), groups).T

    def summarise(draws: NDArray[np.uint8]) -> Float64:
        drawn = draws.astype(np.float64) @ sums
        means = drawn[:, :-1] / drawn[:, -1:]
        return geometric(means.reshape(-1, parts, rankings).transpose(1, 0, 2))

    return summarise


def _medians(values: Float64, groups: NDArray[np.int64], weights: Float64 | None) -> Summarise:
    counted = np.ones(values.shape[2]) if weights is None else weights
    rising = [_rising(of_one, groups, counted) for of_one in values[0]]

    def summarise(draws: NDArray[np.uint8]) -> Float64:
        medians = np.empty((len(draws), len(rising)))
        for row, times in enumerate(draws):
            for column, (ordered, owners, heavy) in enumerate(rising):
                reached = np.cumsum(times[owners] * heavy)
                # Half of the weight lies below the median; if it ends exactly at a value, the next one counts too.
                middles = reached[-1] / 2 * np.array([1 - ROUNDING_SHARE, 1 + ROUNDING_SHARE])
                medians[row, column] = ordered[np.searchsorted(reached, middles)].mean()
        return medians

    return summarise


def _rising(values: Float64, groups: NDArray[np.int64], weights: Float64) -> tuple[Float64, NDArray[np.int64], Float64]:
    """Return values in rising order with their groups and weights; equal values of one group are merged."""
    order = np.lexsort((groups, values))
    ordered, owners = values[order], groups[order]
    first = np.flatnonzero((np.diff(ordered, prepend=np.nan) != 0) | (np.diff(owners, prepend=-1) != 0))
    return ordered[first], owners[first], np.add.reduceat(weights[order], first)


def group_sums(values: Float64, groups: NDArray[np.int64]) -> Float64:
    """Sum each row of (rows, queries) over the groups of queries, (rows, groups)."""
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(int(groups.max()) + 1))
    return np.add.reduceat(values[:, order], starts, axis=1)


def geometric(parts: Float64) -> Float64:
    """Return the geometric mean over the first axis; of one part, that part."""
    return np.asarray(parts[0] if len(parts) == 1 else np.prod(parts, axis=0) ** (1 / len(parts)))


def summaries(measure: Measure, values: Float64, weights: Float64 | None = None) -> Float64:
    """Return the measure over all queries, (rankings,), from values as `Resamples.summaries` takes them.

    With weights, a mean is a weighted one, and a median the value with half of the weight on each side.
    """
    if weights is not None:
        once = np.ones((1, 1), np.uint8)
        summarise = _medians if measure.family.summary == "median" else _means
        return np.asarray(summarise(values, np.zeros(values.shape[2], np.int64), weights)(once)[0])
    if measure.family.summary == "median":
        return np.asarray(np.median(values[0], axis=1))
    return geometric(values.mean(axis=2))


def interval(value: float, resampled: Float64, level: float = CONFIDENCE_LEVEL) -> Interval:
    """Return the interval that holds the middle `level` of the resampled values."""
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def paired_p_values(differences: Float64, groups: NDArray[np.int64], seed: int = 0) -> Float64:
    """Return how often chance gives a mean difference this large, for each row of (rows, queries).

    Signs are flipped at random, group by group, with the same flips for all rows.
    """
    sums = group_sums(differences, groups).T
    total = sums.sum(axis=0)
    seen = np.abs(total) * (1 - 1e-12)
    generator = np.random.default_rng(seed)
    as_large = np.zeros(len(differences), np.int64)
    for start, stop in spans(SIGN_FLIPS, max(1, BLOCK_ENTRIES // len(sums))):
        kept = generator.integers(2, size=(stop - start, len(sums)), dtype=np.int8).astype(np.float64)
        as_large += (np.abs(2 * (kept @ sums) - total) >= seen).sum(axis=0)
    return np.asarray((as_large + 1) / (SIGN_FLIPS + 1))
