"""Kept entries: a part of K that stands for all of it between two passes, where K itself does not fit in memory.

A pass at some potentials gives every row's and column's exact sum, and keeps the largest shares of the rows and a
sample of the others, each divided by its chance to be kept. How the sums change when the potentials move is then
estimated from these entries, relative to what they add up to at the start; so iterations need no multiply.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub import kernels
from unhub.arrays import Float32, Float64
from unhub.compute.workers import Workers

ENTRY_BYTES = 8  # a column and a share
DRAWS = 1 << 20  # different places to start at in the draws of a selection
# Each row and column has this much more of the smallest share that is surely kept, in a place that does not move.
# Without it, the few entries of some rows would be taken for the whole truth, and iterations could run away.
STILL_SHARE = 0.1
RELAXATION = 1.5  # of the steps: two to three times as fast (Thibault et al. 2021), and stable below 2
MOST_STEPS, SETTLED_TAUS = 100, 1e-4  # steps at most; done when one moves h by less, as a root mean square
MOST_SHRINKING = 0.8  # of moves from pass to pass, for the sum of those to come; slower ones count as this
MOST_TAUS = 300.0  # how far potentials may move: float64 can hold the exponential


@dataclass(frozen=True, eq=False)
class Chunk:
    """The kept entries of the rows from `first` on: row i has those at starts[i]:starts[i + 1]."""

    first: int
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: Float32

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + len(self.starts) - 1)


@dataclass(frozen=True, eq=False)
class Selection:
    """Which entries of a pass are kept: column j of row i if rises[i] * share > draws[places[i] + j]."""

    rises: Float32
    draws: Float32
    places: NDArray[np.int64]

    @property
    def columns(self) -> int:
        return len(self.draws) - DRAWS

    @staticmethod
    def of(rise: float, weights: Float64, columns: int, seed: int) -> Selection:
        """Return a selection for rows of these weights, whose mean is 1."""
        chance = np.random.default_rng(seed)
        draws = chance.random(columns + DRAWS, np.float32)
        return Selection((rise * weights).astype(np.float32), draws, chance.integers(0, DRAWS, len(weights)))

    def keep(self, shares: Float32, first: int, kernel: kernels.Kernel) -> Chunk:
        """Return what is kept of a tile of whole rows, of which `first` is the first."""
        here = slice(first, first + len(shares))
        counts, columns, values = kernel.keep_shares(shares, self.rises[here], self.draws, self.places[here])
        return Chunk(first, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), columns, values)


def rise_for(shares: Float32, weights: Float64, wanted: float) -> float:
    """Return the rise at which a row keeps, on average, as many entries as wanted, given the shares of some rows."""
    low, high = 0.0, 60.0  # powers of two
    while high - low > 0.03:
        middle = (low + high) / 2
        kept = np.minimum(1, shares * (2**middle * weights[:, None]).astype(np.float32)).sum(axis=1, dtype=np.float64)
        low, high = (low, middle) if float(kept.mean()) > wanted else (middle, high)
    return float(2**low)


class KeptEntries:
    """Chunks of kept entries of some rows, and what their sums become when the potentials of the columns move.

    weights: of the rows, with mean 1. share: which part of all rows these are.
    """

    def __init__(
        self, chunks: Sequence[Chunk], selection: Selection, weights: Float64, workers: Workers, share: float = 1.0
    ) -> None:
        self.workers, self.kernel = workers, kernels.choose_here(workers.kernel.NAME)
        self.count = sum(len(chunk.values) for chunk in chunks)
        self.shares = [list(chunks[number :: workers.threads]) for number in range(workers.threads)]
        self.rests = STILL_SHARE / selection.rises.astype(np.float64)
        self.still = STILL_SHARE * share * float(np.mean(weights / selection.rises))
        self.gains = weights
        self.gains = weights * self.sums(np.ones(selection.columns))  # so that nothing moves at the start

    def totals(self, scale: Float64) -> Float64:
        """Return the column totals where each share of a column is multiplied by `scale`."""
        return self._swept(scale)[0]

    def sums(self, scale: Float64) -> Float64:
        """Return the row sums there."""
        return self._swept(scale)[1]

    def _swept(self, scale: Float64) -> tuple[Float64, Float64]:
        sums = np.empty(len(self.gains))

        def sweep(chunks: Sequence[Chunk]) -> Float64:
            totals = np.zeros(len(scale))
            for one in chunks:
                rows = one.rows
                entries = one.starts, one.columns, one.values
                self.kernel.balance_entries(*entries, scale, self.rests[rows], self.gains[rows], totals, sums[rows])
                self.workers.tick(0)
            return totals

        return functools.reduce(np.add, self.workers.map(sweep, self.shares)) + self.still, sums


class Settling:
    """Moves the potentials of the columns to where the kept entries are in balance.

    totals: of the columns, where each share of a column is multiplied by a scale. step: of the potentials, which an
    exact iteration found where the entries were kept.
    """

    def __init__(self, totals: Callable[[Float64], Float64], step: Float64, tau: float) -> None:
        self.totals, self.step, self.tau = totals, step, tau
        self.start = totals(np.ones(len(step)))

    def settled(self) -> Float64:
        """Return how far the potentials must move until an iteration would leave them where they are."""
        moved, before = np.zeros(len(self.step)), math.inf
        for number in range(MOST_STEPS):
            step = self._next(moved) - moved
            size = float(step.std())
            # What is left after a step is the sum of those to come, which shrink as the last two did.
            if size < SETTLED_TAUS * self.tau * (1 - size / before) or number == MOST_STEPS - 1:
                return moved + step
            moved, before = moved + RELAXATION * step, size
        return moved

    def iterated(self, moved: Float64, iterations: int) -> Float64:
        """Return how far the potentials have moved after some iterations from others, `moved` away."""
        for _ in range(min(iterations, MOST_STEPS)):
            moved = self._next(moved)
        return moved

    def _next(self, moved: Float64) -> Float64:
        after = self.step + self.tau * np.log(self.totals(scale_of(moved, self.tau)) / self.start)
        return np.asarray(after - after.mean())


def scale_of(moved: Float64, tau: float) -> Float64:
    """Return what the shares of columns are multiplied by when their potentials move."""
    return np.exp(np.clip(-moved / tau, -MOST_TAUS, MOST_TAUS))


def no_less_than_settled(off: float, tau: float) -> float:
    """Return how far potentials are from balance, but no less than what counts as settled."""
    return max(off, SETTLED_TAUS * tau)


def likely_off(off: float, moved: float, moved_before: float) -> float:
    """Return how far from balance potentials are that the entries put `off` away from it.

    Where the entries say it is, is itself as uncertain as all moves to come, if they go on to shrink as from the one
    before, `moved_before`, to this one.
    """
    shrinks = moved / moved_before
    return math.hypot(off, moved * shrinks / (1 - min(shrinks, MOST_SHRINKING)))
