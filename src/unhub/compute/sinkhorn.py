"""Sinkhorn iterations on a similarity, stable at any temperature, within a memory budget.

One multiply and one exponential are enough where the kernel K fits in memory. K is kept relative to the potentials of
the moment, P = exp((S - r - c) / tau) with rows that sum to 1, so an iteration is one sweep over it: a row's sum, then
that row's share added to the column totals while it is in cache. Where the potentials have moved so far from c that
P's range no longer holds them, P is computed anew from the present ones.

At a high temperature all of P is nearly 1 / items, and its rounding, times tau, would be more than what sets items
apart. There n P - 1 is kept, and no number near to 1 is ever rounded to float32.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Span, spans
from unhub.compute.passes import Want, reduce, split
from unhub.compute.workers import Workers
from unhub.data.similarity import Similarity

SMALL_BYTES = 256 << 20  # a K up to here is kept in float32; a larger one in 16 bits, which is faster to read
# 16 bits round by up to 2**-10. Along chains of items that share queries, and outwards along trees of them, this adds
# up: at tau * sqrt(iterations) = 0.08 h was 1.6e-4 off in the worst that was found. They are used up to half of that.
SHORT_REACH = 0.04
TILE_BYTES = 96 << 20  # of whole rows at a time: the fewer there are, the longer BLAS takes to get ready for them
TILE_ENTRIES, MOST_ROWS = 4 << 20, 4096  # or as many entries as this, where rows are short, in so many rows at most
# K loses entries below 2**-117 of their row's largest. All that may be lost, however much it is weighed, must stay
# under a millionth of a row's sum, or K is computed anew, and of a column's total, or that is computed from the scores.
LOST = 2.0**-97
RANGE = 40.0  # how far, in units of tau, potentials may move from those K is relative to: float32 holds exp(40)
# How many columns the remaining error is measured on: not over a hundredth of them, nor scores of this many bytes.
FEWEST_WATCHED, MOST_WATCHED, WATCHED_BYTES = 8, 32, 16 << 20
SWEPT = 1024  # rows at a time
FLAT = 2.0  # where no score is more than so many tau from zero, all of K is near to 1
# From so many rows on, what is left of them is measured on one in four pieces of so many.
MANY_ROWS, ONE_IN, SAMPLED = 16_384, 4, 256


@dataclass(frozen=True, eq=False)
class Held:
    """Rows that are not at hand: how many, and the h they led to."""

    rows: int
    h: Float64


@dataclass(frozen=True, eq=False)
class Solution:
    """h = -tau * log beta, (items,), log alpha, (queries,), and how the iterations went."""

    h: Float64
    log_alpha: Float64
    iterations: int
    kept: str
    row_error: float
    column_error: float | None


def balance(
    similarity: Similarity, tau: float, iterations: int, workers: Workers, *,
    tolerance: float | None = None, keep: str = "auto", start: Float64 | None = None, held: Held | None = None,
) -> Solution:  # fmt: skip
    """Iterate alpha = a / (K beta), beta = b / (K^T alpha) with K = exp(S / tau), a = 1 / queries, b = 1 / items.

    beta starts at 1, or at exp(-start / tau). With a tolerance, stop when the row marginals' L1 error is below it.
    With `held`, other rows, which are not at hand, keep the alpha they had and go on weighing on the columns.
    """
    flat = _is_flat(similarity, FLAT * tau)
    reach = math.inf if flat else tau * math.sqrt(iterations)
    kept_as = _choose(keep, 4 * math.prod(similarity.shape), reach, workers.memory)
    return _Balancing(similarity, tau, workers, kept_as, start, held, flat).run(iterations, tolerance)


class _Balancing:
    def __init__(
        self, similarity: Similarity, tau: float, workers: Workers, kept_as: str, start: Float64 | None,
        held: Held | None, flat: bool,
    ) -> None:  # fmt: skip
        self.kernel = workers.kernel
        self.similarity = similarity.on(self.kernel.NAME)
        self.tau, self.workers, self.kept_as, self.held = tau, workers, kept_as, held
        self.m, self.n = similarity.shape
        self.rows = self.m + (held.rows if held else 0)
        self.items = self.similarity.items((0, self.n))
        self.h = np.zeros(self.n) if start is None else start.astype(np.float64)
        self.centre = self.h  # what K is relative to
        self.row_logs = np.zeros(self.m)  # logsumexp of each row when K was computed
        self.sums = np.ones(self.m)  # K @ beta, relative to that
        self.full = np.empty((self.m, self.n), np.float32) if kept_as == "fp32" else None
        self.short = np.empty((self.m, self.n), np.uint16) if kept_as == "16-bit" else None
        self.recomputes = kept_as == "recomputed"
        self.flat = flat and self.short is None
        self.level = 0.0  # of the centre, which the shares of a row do not depend on
        self.stale = True
        self.backwards = False
        self.swept = np.zeros(self.m, np.bool_)  # which rows the last sweep looked at
        self.parts = split(self.m, workers.threads)
        self.watched = _watched(self.m, self.n) if held is None else np.empty(0, np.int64)
        self.watched_scores = np.empty((len(self.watched), self.m), np.float32)

    def run(self, iterations: int, tolerance: float | None) -> Solution:
        self.workers.total += self.m * self.n * (iterations + 1 if self.recomputes else 1)
        log_alpha = np.zeros(self.m)
        done = 0
        for _ in range(iterations):
            totals = self._sweep()
            if done and tolerance is not None and self._row_error(log_alpha) <= tolerance:
                break
            if done == iterations - 1 or tolerance is not None:  # the others are not looked at
                log_alpha = self._log_alpha()
            self._move(totals)
            done += 1
        else:
            self._sweep(sampled=self.m >= MANY_ROWS)  # what is left: K @ beta once more, for the last beta
        return Solution(
            self.h, log_alpha, done, self.kept_as, self._row_error(log_alpha), self._column_error(log_alpha)
        )

    def _log_alpha(self) -> Float64:
        return cast("Float64", -np.log(self.rows) - self.row_logs - np.log(self.sums))

    def _row_error(self, log_alpha: Float64) -> float:
        """L1 distance of the plan's row marginals from uniform, with alpha as given and beta as it is now.

        Of the rows that the last sweep looked at.
        """
        return float(np.abs(np.exp((log_alpha - self._log_alpha())[self.swept]) - 1).mean())

    def _column_error(self, log_alpha: Float64) -> float | None:
        """L1 distance of the column marginals from uniform, measured on some columns from their scores, not from K.

        The last step has set them, so this is what rounding left, above all that of a K kept in 16 bits.
        """
        if self.held is not None:
            return None  # the rows that are not at hand weigh on the columns too
        offsets = log_alpha + math.log(self.n)

        def total(place: int) -> float:
            exponents = (
                self.watched_scores[place].astype(np.float64) - self.h[self.watched[place]]
            ) / self.tau + offsets
            with np.errstate(over="ignore"):  # far below float32's range they become minus infinity
                return float(np.exp(exponents.astype(np.float32)).sum(dtype=np.float64))

        return float(np.abs(np.array(self.workers.map(total, range(len(self.watched)))) - 1).mean())

    def _exact(self, positions: NDArray[np.int64]) -> Float64:
        """The beta step of some columns from their scores, not from K."""
        passes = self.workers.passes
        h = column_potentials(self.similarity.some_items(positions), self.tau, self._log_alpha(), self.n, self.workers)
        self.workers.passes = passes + len(positions) / self.n
        return h

    def _sweep(self, *, sampled: bool = False) -> Float64:
        """Compute K @ beta and K^T alpha for the present h, of all rows or a sample; return the latter.

        It is relative to the centre.
        """
        anew = self.recomputes or self.stale
        if anew:
            self.centre, self.stale = self.h, False
            self.level = float(self.centre.mean()) if self.flat else 0.0
        self.backwards = not (anew or self.backwards)
        self.swept[:] = False
        scale = np.exp((self.centre - self.h) / self.tau)
        shift = (self.centre - self.level).astype(np.float32)
        rows = min(self.similarity.rows_at_once, _rows_per_tile(self.n)) if anew else SWEPT
        rows, one_in = (min(rows, SAMPLED), ONE_IN) if sampled else (rows, 1)
        pieces = [list(spans(stop, rows, start=start))[::one_in] for start, stop in self.parts]
        work = functools.partial(self._compute, shift, rows) if anew else functools.partial(self._reuse, scale)
        totals = functools.reduce(np.add, self.workers.map(work, pieces))
        if anew:
            self.workers.passes += float(self.swept.mean())
        return totals

    def _compute(self, shift: Float32, rows: int, pieces: list[Span]) -> Float64:
        """Multiply, and turn each row into its share of each item."""
        totals = np.zeros(self.n)
        own = np.empty((rows, self.n), np.float32)
        for span in pieces:
            here = slice(*span)
            room = own[: span[1] - span[0]] if self.full is None else self.full[here]
            scores = self.similarity.ready_rows(self.similarity.queries(span), self.items, room)
            self.watched_scores[:, here] = scores[:, self.watched].T
            logs = self.row_logs[here]
            if self.flat:
                self.kernel.deviate_rows(scores, shift, 1 / self.tau, room, totals, logs)
                logs -= self.level / self.tau
            elif self.short is None:
                self.kernel.soften_rows(scores, shift, 1 / self.tau, room, totals, logs)
            else:
                self.kernel.soften_short_rows(scores, shift, 1 / self.tau, self.short[here], totals, logs)
            self.sums[here], self.swept[here] = 1.0, True
            self.workers.tick(scores.size)
        return totals

    def _reuse(self, scale: Float64, pieces: list[Span]) -> Float64:
        """Sweep over the kept rows, every other time backwards: it begins with those that are still in cache."""
        totals, short_scale = np.zeros(self.n), scale.astype(np.float32)
        for span in reversed(pieces) if self.backwards else pieces:
            here = slice(*span)
            if self.full is not None and self.flat:
                self.kernel.balance_deviations(self.full[here], scale, totals, self.sums[here])
            elif self.full is not None:
                self.kernel.balance_rows(self.full[here], short_scale, totals, self.sums[here])
            elif self.short is not None:
                self.kernel.balance_short_rows(self.short[here], short_scale, totals, self.sums[here])
            self.swept[here] = True
            self.workers.tick(0)
        return totals

    def _move(self, totals: Float64) -> None:
        """The beta step: h = c + tau * log(items * totals / queries)."""
        faint = np.flatnonzero(totals < LOST * self.m / self.sums.min())
        with np.errstate(divide="ignore"):
            logs = np.log(totals) - np.log(self.rows)
        h = self.centre + self.tau * (logs + np.log(self.n))
        if len(faint):
            h[faint] = self._exact(faint)
        if self.held is not None:
            h = self.tau * np.logaddexp(h / self.tau, self.held.h / self.tau + np.log(self.held.rows / self.rows))
        self.h = h
        moved = (h - self.centre) / self.tau
        self.stale = bool(np.ptp(moved) > -math.log(LOST * self.n) or np.abs(moved).max() > RANGE)


def column_potentials(
    similarity: Similarity, tau: float, log_alpha: Float64, columns: int, workers: Workers
) -> Float64:
    """Return h = tau * (logsumexp_b(s / tau + log alpha) + log columns) of any items: one half-step of Sinkhorn."""
    offsets = tau * log_alpha
    middle = float(offsets.mean())  # keeps the float32 offsets small
    found = reduce(similarity, Want(betas=(1 / tau,)), workers, offsets - middle)
    return tau * found.log_sums[1 / tau] + (middle + tau * math.log(columns))


def _is_flat(similarity: Similarity, most: float) -> bool:
    """Say whether no score is farther from zero than this; one query's scores mostly rule it out."""
    if similarity.bound < math.inf:
        return similarity.bound <= most
    items = similarity.items((0, min(SWEPT, similarity.shape[1])))
    some = np.empty((1, len(items)), np.float32)
    similarity.queries_by_items(similarity.queries((0, 1)), items, some)
    return float(np.abs(some).max()) <= most and similarity.reach() <= most


def _choose(keep: str, whole: int, reach: float, memory: int) -> str:
    """Say how K, which takes `whole` bytes in float32, is kept; `reach` is how far its rounding gets in h."""
    if keep != "auto":
        return {"none": "recomputed"}.get(keep, keep)
    if whole <= min(SMALL_BYTES, memory):
        return "fp32"
    if reach <= SHORT_REACH and whole // 2 <= memory:
        return "16-bit"
    return "fp32" if whole <= memory else "recomputed"


def _watched(m: int, n: int) -> NDArray[np.int64]:
    """Return the positions of the columns that the remaining error is measured on."""
    wanted = min(max(n // 100, FEWEST_WATCHED), MOST_WATCHED, max(1, WATCHED_BYTES // (4 * m)))
    return np.unique(np.linspace(0, n - 1, wanted).astype(np.int64))


def _rows_per_tile(n: int) -> int:
    return max(8, min(max(1024, TILE_ENTRIES // n), MOST_ROWS, TILE_BYTES // (4 * n)))
