"""Weights: a weight for each bank query; weight 2 counts as the same query twice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64
from unhub.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Weights:
    """A weight above 0 for each query, (queries,)."""

    values: Float64

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.values.sum())

    @cached_property
    def unit(self) -> float:
        """A power of two that no weight exceeds, so that whole weights stay exact when divided by it."""
        return math.ldexp(1.0, math.frexp(float(self.values.max()))[1])

    @cached_property
    def shares(self) -> Float32:
        """The weights divided by `unit`, for the kernels: above 0, and sums of products with them stay in float32."""
        return np.maximum((self.values / self.unit).astype(np.float32), np.finfo(np.float32).tiny)

    def enough(self, k: int) -> int:
        """Return how many queries, whichever they are, surely weigh k together; all of them if the total is below k."""
        return min(int(np.searchsorted(np.cumsum(np.sort(self.values)), k)) + 1, len(self.values))

    def check_whole(self, argument: str, instead: str) -> None:
        """Raise an ArgumentError unless every weight is a whole number, as `argument` needs; `instead`: a remedy."""
        broken = np.flatnonzero(self.values % 1)
        if len(broken):
            raise ArgumentError(
                "weights",
                f"must be whole numbers with {argument}, got {self.values[broken[0]]:g} for bank query {broken[0]}",
                f"{instead}, or round the weights",
            )


def top_means(top: Float32, weights: Float64, counts: tuple[int, ...]) -> Float64:
    """Return the mean of each row's first values up to a weight of k, (counts, rows), for each count k.

    The last value counts in part if it weighs more than is left of k. Values are in descending order; those of weight 0
    are ignored.
    """
    values = np.where(weights > 0, top, 0).astype(np.float64)
    taken = [_taken(weights, k) for k in counts]
    return np.array([(part * values).sum(axis=1) / part.sum(axis=1) for part in taken])


def repeated(top: Float32, weights: Float64, k: int) -> Float32:
    """Return the first k of each row's values, each repeated by its whole weight, (rows, k)."""
    times: NDArray[np.int64] = _taken(weights, k).astype(np.int64)
    return np.repeat(top.ravel(), times.ravel()).reshape(len(top), k)


def _taken(weights: Float64, k: int) -> Float64:
    """Return the part of each weight that falls within the first k of its row."""
    # Not each running sum less its own weight: beside a large weight that would lose the small ones.
    before = np.zeros_like(weights)
    np.cumsum(weights[:, :-1], axis=1, out=before[:, 1:])
    return np.clip(k - before, 0, weights)
