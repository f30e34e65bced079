"""Sinkhorn iterations on a similarity, stable at any temperature, within a memory budget.

One multiply and one exponential are enough if the kernel K fits in memory. K is kept relative to the current
potentials, P = exp((S - r - c) / tau) with rows that sum to 1. An iteration is then one sweep over P: sum a row, then
add its shares to the column totals while it is in cache. When the potentials have moved too far from c for the range of
P, it is computed again from the current ones.

If P does not fit in memory, passes keep a part of it, and h moves to where that part is in balance: see `kept_entries`.

At a high temperature all of P is nearly 1 / items, and its rounding error, times tau, would exceed the differences
between items. In that case n P - 1 is kept, so that no number near 1 is rounded to float32.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Span, random_positions, spans
from unhub.compute.kept_entries import (
    ENTRY_BYTES,
    Chunk,
    KeptEntries,
    Selection,
    Settling,
    likely_off,
    no_less_than_settled,
    rise_for,
)
from unhub.compute.passes import TileSizes, Want, no_room, reduce, split, with_room
from unhub.compute.weights import Weights
from unhub.compute.workers import Workers
from unhub.data.similarity import Block, Similarity

KEEPS = ("auto", "fp32", "16-bit", "sparse", "none")
OFF_BALANCE = "off balance"  # how the note on a K that was kept in part ends
MOST_FLOAT32_BYTES = 256 << 20  # K is kept in float32 up to here; beyond, in 16 bits, which are faster to read
# 16 bits round by up to 2**-10. The errors add up along chains and trees of items that share queries: at
# tau * sqrt(iterations) = 0.08, h was off by 1.6e-4 in the worst case found. So 16 bits are used up to half of that.
MOST_SHORT_REACH = 0.04
TILE_BYTES = 96 << 20  # of whole rows at a time: with fewer rows, BLAS spends more time on copying
TILE_ENTRIES, MOST_ROWS = 4 << 20, 4096  # limits of a tile of short rows
# K loses entries below 2**-117 of their row's largest. Whatever their weight, the lost entries must stay below a
# millionth of a row's sum, else K is computed again, and of a column's total, else that is computed from the scores.
LOST_SHARE = 2.0**-97
RANGE_TAUS = 40.0  # how far, in units of tau, potentials may move from K's centre: float32 can hold exp(40)
# How many columns the remaining error is measured on: at most a hundredth of them and scores of this many bytes.
FEWEST_WATCHED, MOST_WATCHED, WATCHED_BYTES = 8, 32, 16 << 20
SWEEP_ROWS = 1024  # rows at a time
FLAT_TAUS = 2.0  # if no absolute score is above this many tau, all of K is near 1
# From this many rows on, the remaining row error is measured on one in four pieces of 256 rows.
SAMPLED_FROM_ROWS, SAMPLE_ONE_IN, SAMPLE_ROWS = 16_384, 4, 256
# If K is kept in part: how many of its entries for each row or column, whichever are more, and which share of all.
FEWEST_KEPT, ENOUGH_KEPT, ENOUGH_SHARE = 32, 128, 0.005
MEMORY_SHARE = 0.9  # of the memory, since the number of entries is estimated from a sample of rows
RISE_ROWS, RISE_SHARES = 256, 1 << 20  # that sample: rows, and scores at most, but 16 rows
MOST_PASSES, FEWEST_ITERATIONS = 3, 4  # passes over all of K; for fewer iterations it is computed again each time
# The first potentials balance at most this share of the rows, of which K is kept whole: so they are about right even
# between topics so far apart that no entry that is kept later joins them. More iterations would fit these rows alone.
PILOT_ONE_IN, PILOT_ITERATIONS = 8, 10
# The rows that the last error is measured on: half, or 512 and more if that is less, but not below a sixteenth.
FEWEST_MEASURED, MEASURE_ONE_IN = 512, 16
FEWEST_PIECES, FEWEST_PIECE_ROWS = 1024, 8  # of such rows
NEARER = 0.5  # passes end when h is this much nearer to balance than the iterations would bring it


@dataclass(frozen=True, eq=False)
class Held:
    """Rows that are not available: their total weight, and the h they led to."""

    rows: float
    h: Float64


@dataclass(frozen=True, eq=False)
class Solution:
    """h = -tau * log beta, (items,), log alpha, (queries,), and how the iterations went.

    row_error: not a number if it was not measured.
    """

    h: Float64
    log_alpha: Float64
    iterations: int
    kept: str
    row_error: float
    column_error: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """The temperature and the number of iterations; with a tolerance, stop once the rows' L1 error is below it.

    keep: how K is kept, one of KEEPS; "auto" decides by its size.
    """

    tau: float
    iterations: int
    tolerance: float | None = None
    keep: str = "auto"

    @property
    def reach(self) -> float:
        """How much the rounding of K adds up in h."""
        return self.tau * math.sqrt(self.iterations)


def balance(
    similarity: Similarity,
    schedule: Schedule,
    workers: Workers,
    *,
    start: Float64 | None = None,
    held: Held | None = None,
    weights: Float64 | None = None,
) -> Solution:
    """Iterate alpha = a / (K beta), beta = b / (K^T alpha) with K = exp(S / tau), a = 1 / queries, b = 1 / items.

    beta starts at 1, or at exp(-start / tau). With `held`, other rows, which are not available, keep their alpha and
    still count in the columns. With `weights`, (queries,), a is a query's share of their sum.
    """
    rows = BalancedRows((0, similarity.shape[0]), held, None if weights is None else Weights(weights))
    h = np.zeros(similarity.shape[1]) if start is None else start.astype(np.float64)
    made = balancing(similarity, schedule, workers, rows, h)
    return made.run_on_part(schedule) if made.kept_as == "sparse" else made.run(schedule)


def balancing(
    similarity: Similarity,
    schedule: Schedule,
    workers: Workers,
    rows: BalancedRows,
    start: Float64,
    items: Block | None = None,
) -> Balancing:
    """Return the balancing of these rows, with K kept as there is room for it; `items` if all are ready already."""
    tau = schedule.tau
    flat = _is_flat(similarity, FLAT_TAUS * tau)
    reach = math.inf if flat else schedule.reach
    kept_as = _choose(schedule, (rows.count, similarity.shape[1]), reach, workers.memory)
    if kept_as == "sparse" and (flat or rows.held is not None):
        kept_as = "recomputed"  # flat and held rows need few iterations
    for way in dict.fromkeys((kept_as, "recomputed")):
        try:
            return Balancing(similarity, tau, workers, Keeping(way, flat), rows, start, items)
        except RuntimeError as error:
            if not workers.kernel.is_full(error):
                raise
    raise no_room(workers.kernel, "even if K is not kept")


def foreseen(shape: Span, schedule: Schedule, memory: int) -> tuple[str, float, int]:
    """Return how K will be kept, how many multiplies that takes, and how many bytes, if scores are not all near 0."""
    m, n = shape
    whole = 4 * m * n
    kept_as = _choose(schedule, shape, schedule.reach, memory)
    last = 1 / SAMPLE_ONE_IN if m >= SAMPLED_FROM_ROWS else 1.0  # to measure the remaining error
    if kept_as == "sparse":  # at most: fewer passes may be enough
        most = most_passes(schedule)
        part = int(min(MEMORY_SHARE * memory, ENTRY_BYTES * _enough_entries(m, n)))
        return kept_as, most + 1 / PILOT_ONE_IN + 1 / _measured_one_in(m), part
    passes = schedule.iterations + last if kept_as == "recomputed" else 1.0
    return kept_as, passes, {"fp32": whole, "16-bit": whole // 2}.get(kept_as, 0)


def cheaper_ways(shape: Span, schedule: Schedule, memory: int) -> list[tuple[int, float]]:
    """Return the least memory for each way to keep K that takes fewer multiplies than now, with these, fewest first."""
    now = foreseen(shape, schedule, memory)[1]
    found: list[tuple[int, float]] = []
    for needed in (_entry_bytes(schedule) * math.prod(shape), _part_bytes(shape)):
        passes = foreseen(shape, schedule, needed)[1]
        if needed > memory and passes < now and passes not in [fewer for _, fewer in found]:
            found.append((needed, passes))
    return found


def bank_that_fits(columns: int, schedule: Schedule, memory: int) -> int:
    """Return the most rows of so many columns that are kept whole in this memory."""
    return memory // (_entry_bytes(schedule) * columns)


def _entry_bytes(schedule: Schedule) -> int:
    """Return the least bytes of an entry of a K that is kept whole."""
    return 2 if schedule.reach <= MOST_SHORT_REACH else 4


def _part_bytes(shape: Span) -> int:
    """Return the least memory in which a part of K is kept."""
    return math.ceil(ENTRY_BYTES * FEWEST_KEPT * max(shape) / MEMORY_SHARE)


@dataclass(frozen=True, eq=False)
class BalancedRows:
    """The rows that are balanced, those that are not available, and the weight of each row."""

    span: Span
    held: Held | None = None
    weights: Weights | None = None

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.span[1] - self.span[0]

    @property
    def own(self) -> float:
        """The total weight of the available rows."""
        return self.count if self.weights is None else self.weights.total

    @property
    def total(self) -> float:
        """The total weight of all rows."""
        return self.own + (self.held.rows if self.held else 0)

    def shares(self, here: slice) -> Float32 | None:
        """Return the weights of some rows in the form that a kernel takes."""
        return None if self.weights is None else self.weights.shares[here]


@dataclass(frozen=True)
class Keeping:
    """How K is kept, and whether it is nearly 1 everywhere."""

    way: str
    flat: bool


class Balancing:
    """The rows of K that are kept, and the potentials of the columns, which the iterations move."""

    def __init__(
        self,
        similarity: Similarity,
        tau: float,
        workers: Workers,
        keeping: Keeping,
        rows: BalancedRows,
        start: Float64,
        items: Block | None = None,
    ) -> None:
        self.kernel = workers.kernel
        self.similarity = similarity.on(self.kernel.NAME)
        self.tau, self.workers, self.kept_as, self.rows, self.held = tau, workers, keeping.way, rows, rows.held
        self.m, self.n = rows.count, similarity.shape[1]
        with self.kernel.lane():
            self.items = self.similarity.items((0, self.n)) if items is None else items
        self.h = start
        self.centre = self.h  # what K is relative to
        self.row_logs = np.zeros(self.m)  # logsumexp of each row when K was computed
        self.sums = np.ones(self.m)  # K @ beta, relative to that
        self.full = self.kernel.empty((self.m, self.n), np.float32) if self.kept_as == "fp32" else None
        self.short = self.kernel.empty((self.m, self.n), np.uint16) if self.kept_as == "16-bit" else None
        self.recomputes = self.kept_as in ("recomputed", "sparse")
        self.selection: Selection | None = None  # of the entries that a pass keeps
        self.chunks: dict[int, list[Chunk]] = {}  # what it kept, by the first row of a thread
        self.cold = not start.any()
        self.flat = keeping.flat and self.short is None
        self.level = 0.0  # of the centre; the shares of a row do not depend on it
        self.stale = True
        self.backwards = False
        self.swept = np.zeros(self.m, np.bool_)  # which rows the last sweep covered
        self.parts = split(self.m, workers.lanes)
        self.watched = watched_columns(self.m, self.n) if self.held is None else np.empty(0, np.int64)
        self.watched_scores = np.empty((len(self.watched), self.m), np.float32)

    def run(self, schedule: Schedule) -> Solution:
        iterations, tolerance = schedule.iterations, schedule.tolerance
        self.workers.total += self.m * self.n * (iterations + 1 if self.recomputes else 1)
        log_alpha = np.zeros(self.m)
        done = 0
        for _ in range(iterations):
            totals = self._sweep()
            if done and tolerance is not None and self._row_error(log_alpha) <= tolerance:
                break
            if done == iterations - 1 or tolerance is not None:  # other iterations need no error
                log_alpha = self._log_alpha()
            self._move(totals)
            done += 1
        else:
            # The remaining error needs K @ beta once more, for the last beta.
            self._sweep(SAMPLE_ONE_IN if self.m >= SAMPLED_FROM_ROWS else 1)
        return Solution(
            self.h, log_alpha, done, self.kept_as, self._row_error(log_alpha), self._column_error(log_alpha)
        )

    def run_on_part(self, schedule: Schedule) -> Solution:
        """Move h to the balance of the entries that a pass kept, and pass again, until it is near the balance of all.

        Near is nearer than the iterations would bring it, or with a tolerance, within that.
        """
        tolerance, most = schedule.tolerance, most_passes(schedule)
        measured = _measured_one_in(self.m)
        self.workers.total += int(self.m * self.n * (most + 1 / measured))
        start, moved_before = self.h, math.inf
        if self.cold:
            self.h = self._pilot(schedule)
        for done in itertools.count(1):
            before = self.h
            entries, totals = self._keep_entries(seed=done)
            self._move(totals)
            log_alpha, settling = self._log_alpha(), Settling(entries.totals, self.h - before, self.tau)
            settled, kept = settling.settled(), entries.count
            moved = float(np.std(settled))
            off = likely_off(float(np.std(settled - settling.step)), moved, moved_before)
            left = no_less_than_settled(off, self.tau)
            iterated = settled if tolerance else settling.iterated(start - before, schedule.iterations)
            near = no_less_than_settled(NEARER * float(np.std(iterated - settled)), self.tau)
            if tolerance or done == most or left <= near:
                self._sweep(measured, self._piece)
                row_error = self._row_error(log_alpha)
                if not tolerance or done == most or row_error <= tolerance:
                    break
            self.h, moved_before = before + settled, moved
            del entries, settling  # before others are kept
        note = note_on_part(kept, self.m * self.n, left)
        return Solution(self.h, log_alpha, done, self.kept_as, row_error, self._column_error(log_alpha), (note,))

    def _pilot(self, schedule: Schedule) -> Float64:
        """Return potentials of the columns that balance them against some of the rows."""
        passes, first = self.workers.passes, pilot_schedule(schedule)
        rows, weights = pilot_rows(self.rows, self.n, self.workers.memory)
        few, own = self.similarity.some_queries(rows), BalancedRows((0, len(rows)), weights=weights)
        h = balancing(few, first, self.workers, own, np.zeros(self.n), self.items).run(first).h
        self.workers.passes = passes + (self.workers.passes - passes) * len(rows) / self.m
        return h

    @property
    def _piece(self) -> int:
        return max(FEWEST_PIECE_ROWS, min(self.m // FEWEST_PIECES, SAMPLE_ROWS))

    def _keep_entries(self, seed: int, share: float = 1.0) -> tuple[KeptEntries, Float64]:
        """Keep a part of K at the current potentials, and return it with what each column gets of all rows."""
        weights = np.ones(self.m) if self.rows.weights is None else self.rows.weights.values * self.m / self.rows.own
        self.selection = Selection.of(self._rise(weights), weights, self.n, seed)
        totals = self._sweep()
        chunks = [chunk for first in sorted(self.chunks) for chunk in self.chunks[first]]
        entries = KeptEntries(chunks, self.selection, weights, self.workers, share)
        self.selection, self.chunks = None, {}
        return entries, totals

    def _rise(self, weights: Float64) -> float:
        """Return the rise of a selection that keeps as many entries as there is room for, or as are enough."""
        entries = min(MEMORY_SHARE * self.workers.memory / ENTRY_BYTES, _enough_entries(self.m, self.n))
        count = min(self.m, max(16, min(RISE_ROWS, RISE_SHARES // self.n)))
        rows = np.linspace(0, self.m - 1, count).astype(np.int64)
        shares, shift = np.empty((count, self.n), np.float32), self.h.astype(np.float32)

        def rise() -> float:
            with self.kernel.lane():
                room, totals = self.kernel.empty((1, self.n), np.float32), np.zeros(self.n)
                for place, row in enumerate((self.rows.span[0] + rows).tolist()):
                    scores = self.similarity.ready_rows(self.similarity.queries((row, row + 1)), self.items, room)
                    self.kernel.soften_rows(scores, shift, 1 / self.tau, room, totals, np.zeros(1))
                    shares[place] = self.kernel.host(room)[0]
            return rise_for(shares, weights[rows], entries / self.m)

        return self.workers.run([rise])[0]

    def _log_alpha(self) -> Float64:
        log_alpha = cast("Float64", -np.log(self.rows.total) - self.row_logs - np.log(self.sums))
        return log_alpha if self.rows.weights is None else log_alpha + np.log(self.rows.weights.values)

    def _row_error(self, log_alpha: Float64) -> float:
        """Return the L1 distance of the plan's row marginals from uniform, with this alpha and the current beta.

        It covers the rows of the last sweep.
        """
        with np.errstate(over="ignore"):  # far from balance the error may be infinite
            off = np.abs(np.exp((log_alpha - self._log_alpha())[self.swept]) - 1)
        weights = self.rows.weights
        return float(off.mean() if weights is None else np.average(off, weights=weights.values[self.swept]))

    def _column_error(self, log_alpha: Float64) -> float | None:
        """Return the L1 distance of the column marginals from uniform, on some columns, from their scores, not from K.

        The last step set the marginals, so this is rounding error, mostly that of a K kept in 16 bits.
        """
        if self.held is not None:
            return None  # the unavailable rows count in the columns too
        offsets = log_alpha + math.log(self.n)

        def total(place: int) -> float:
            exponents = (
                self.watched_scores[place].astype(np.float64) - self.h[self.watched[place]]
            ) / self.tau + offsets
            with np.errstate(over="ignore"):  # values far below float32's range become -inf
                return float(np.exp(exponents.astype(np.float32)).sum(dtype=np.float64))

        return float(np.abs(np.array(self.workers.map(total, range(len(self.watched)))) - 1).mean())

    def _exact(self, positions: NDArray[np.int64]) -> Float64:
        """Return the beta step of some columns from their scores, not from K."""
        passes = self.workers.passes
        h = column_potentials(self.similarity.some_items(positions), self.tau, self._log_alpha(), self.n, self.workers)
        self.workers.passes = passes + len(positions) / self.n
        return h

    def _sweep(self, one_in: int = 1, piece: int = SAMPLE_ROWS) -> Float64:
        """Compute K @ beta and K^T alpha for the current h, of all rows or one in so many pieces; return the latter.

        The result is relative to the centre.
        """
        anew = self.recomputes or self.stale
        if anew:
            self.centre, self.stale = self.h, False
            self.level = float(self.centre.mean()) if self.flat else 0.0
        self.backwards = not (anew or self.backwards)
        self.swept[:] = False
        scale = np.exp((self.centre - self.h) / self.tau)
        shift = (self.centre - self.level).astype(np.float32)
        rows = min(self.similarity.rows_at_once, self._rows_per_tile()) if anew else SWEEP_ROWS
        rows = rows if one_in == 1 else min(rows, piece)
        pieces = [list(spans(stop, rows, start=start)) for start, stop in self.parts]
        if one_in > 1:  # the same ones, whatever the number of threads
            some = list(spans(self.m, rows))[::one_in]
            pieces = [some[number :: len(self.parts)] for number in range(len(self.parts))]
        work = functools.partial(self._compute, shift, rows) if anew else functools.partial(self._reuse, scale)

        def sweep(some: list[Span]) -> Float64:
            return with_room(self.kernel, functools.partial(work, some))

        totals = functools.reduce(np.add, self.workers.map(sweep, pieces))
        if self.rows.weights is not None:
            totals *= self.rows.weights.unit
        if anew:
            self.workers.passes += float(self.swept.mean())
        return totals

    def _rows_per_tile(self) -> int:
        limits = self.kernel.LIMITS
        return rows_per_tile(self.n) if limits is None else max(1, limits.tile_entries // self.n)

    def _compute(self, shift: Float32, rows: int, pieces: list[Span], sizes: TileSizes) -> Float64:
        """Multiply, and turn each row into its share of each item."""
        totals, rows, chunks = np.zeros(self.n), max(1, rows // sizes.divisor), list[Chunk]()
        own = self.kernel.empty((rows, self.n), np.float32)
        for span in (part for start, stop in pieces for part in spans(stop, rows, start=start)):
            here = slice(*span)
            room = own[: span[1] - span[0]] if self.full is None else self.full[here]
            first = self.rows.span[0]
            queries = self.similarity.queries((first + span[0], first + span[1]))
            scores = self.similarity.ready_rows(queries, self.items, room)
            self.watched_scores[:, here] = self.kernel.host(scores[:, self.watched]).T
            logs, weights = self.row_logs[here], self.rows.shares(here)
            if self.flat:
                self.kernel.deviate_rows(scores, shift, 1 / self.tau, room, totals, logs, weights)
                logs -= self.level / self.tau
            elif self.short is None:
                self.kernel.soften_rows(scores, shift, 1 / self.tau, room, totals, logs, weights)
            else:
                self.kernel.soften_short_rows(scores, shift, 1 / self.tau, self.short[here], totals, logs, weights)
            if self.selection is not None:
                chunks.append(self.selection.keep(room, span[0], self.kernel))
            self.sums[here], self.swept[here] = 1.0, True
            self.workers.tick(len(scores) * self.n)
        if chunks:
            self.chunks[chunks[0].first] = chunks
        return totals

    def _reuse(self, scale: Float64, pieces: list[Span], sizes: TileSizes) -> Float64:
        """Sweep over the kept rows, alternately forwards and backwards, to start with rows that are still in cache."""
        totals, short_scale = np.zeros(self.n), scale.astype(np.float32)
        for span in reversed(pieces) if self.backwards else pieces:
            here = slice(*span)
            weights = self.rows.shares(here)
            if self.full is not None and self.flat:
                self.kernel.balance_deviations(self.full[here], scale, totals, self.sums[here], weights)
            elif self.full is not None:
                self.kernel.balance_rows(self.full[here], short_scale, totals, self.sums[here], weights)
            elif self.short is not None:
                self.kernel.balance_short_rows(self.short[here], short_scale, totals, self.sums[here], weights)
            self.swept[here] = True
            self.workers.tick(0)
        return totals

    def _move(self, totals: Float64) -> None:
        """Take the beta step: h = c + tau * log(items * totals / queries)."""
        faint = np.flatnonzero(totals < self._least())
        with np.errstate(divide="ignore"):
            logs = np.log(totals) - np.log(self.rows.total)
        h = self.centre + self.tau * (logs + np.log(self.n))
        if len(faint):
            h[faint] = self._exact(faint)
        if self.held is not None:
            h = with_held(h, self.tau, self.held, self.rows.total)
        self._set(h)

    def _least(self) -> float:
        """Return the column total, relative to the centre, below which lost entries would matter."""
        return float(LOST_SHARE * self.rows.own / self.sums.min())

    def _set(self, h: Float64) -> None:
        """Move the columns to h; K becomes stale if that is too far from its centre."""
        moved = (h - self.centre) / self.tau
        far = np.ptp(moved) > -math.log(LOST_SHARE * self.n) or np.abs(moved).max() > RANGE_TAUS
        self.h, self.stale = h, self.stale or bool(far)

    def shares_at(self, h: Float64) -> Shares:
        """Return what each column gets of the rows at these potentials, (columns,)."""
        passes = self.workers.passes
        self._set(h)
        return self._shares(self._sweep(), passes)

    def shares_and_entries(self, h: Float64, seed: int, share: float) -> tuple[Shares, KeptEntries]:
        """Return what each column gets of the rows at these potentials, and a part of K there.

        share: which part of the rows of all machines are here.
        """
        passes = self.workers.passes
        self._set(h)
        entries, totals = self._keep_entries(seed, share)
        return self._shares(totals, passes), entries

    def _shares(self, totals: Float64, passes: float) -> Shares:
        """Return totals relative to the centre as shares; `passes` is how many there were before."""
        scale = np.exp((self.centre - self.h) / self.tau)
        kept = "recomputed" if self.recomputes else self.kept_as
        return Shares(scale * totals, scale * self._least(), kept, self.workers.passes - passes)

    def count(self) -> int:
        """Return how many rows are here."""
        return self.m

    def way(self) -> str:
        """Return how K is kept here."""
        return self.kept_as

    def first_totals(self) -> Totals | None:
        """Return the sum of exp(score / tau) of each column, (columns,), from K at potentials of 0, which it keeps.

        None if K is not kept: it would have to be computed twice, since a row's part in the sums is known after it.
        """
        if self.recomputes:
            return None
        self._set(np.zeros(self.n))
        self._sweep()
        rows, top = self.rows, float(self.row_logs.max())
        self.rows = dataclasses.replace(rows, weights=Weights(np.exp(self.row_logs - top)))
        totals, least = self._sweep(), self._least()
        self.rows = rows
        return Totals(totals, least, top)

    def rows_at(self, h: Float64) -> Float64:
        """Return the potentials of the rows, -tau * log alpha, if the columns are at h."""
        if self.stale or not np.array_equal(h, self.h):
            self.shares_at(h)
        return -self.tau * self._log_alpha()


@dataclass(frozen=True, eq=False)
class Shares:
    """What each column gets of some rows, of 1 each; and below which total of it lost entries of K would matter.

    kept: how K is kept. passes: how many multiplies it took.
    """

    totals: Float64
    least: Float64
    kept: str
    passes: float


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums of exp(score / tau) over some rows, times exp(-level); below `least`, lost entries of K would matter."""

    totals: Float64
    least: float
    level: float


def pilot_schedule(schedule: Schedule) -> Schedule:
    """Return how the first potentials are found."""
    return Schedule(schedule.tau, min(schedule.iterations, PILOT_ITERATIONS), keep="fp32")


def pilot_rows(rows: BalancedRows, columns: int, memory: int) -> tuple[NDArray[np.int64], Weights]:
    """Return the rows that the first potentials come from, as many as there is room for, and what each stands for.

    Heavy rows are there for themselves, and each of the others with a chance that follows its weight.
    """
    room = int(MEMORY_SHARE * memory) // (4 * columns)
    count = max(1, min(rows.count // PILOT_ONE_IN, room))
    if rows.weights is None:
        places = random_positions(rows.count, count, seed=rows.span[0])
        return rows.span[0] + places, Weights(np.full(count, rows.count / count))
    parts = rows.weights.values / rows.own
    chances = np.minimum(1, parts * rise_for(parts[None].astype(np.float32), np.ones(1), count))
    places = np.flatnonzero(np.random.default_rng(rows.span[0]).random(rows.count) < chances)
    places = places if len(places) else np.array([parts.argmax()])
    return rows.span[0] + places, Weights(rows.weights.values[places] / chances[places])


def most_passes(schedule: Schedule) -> int:
    """Return the most passes over all of K where a part of it is kept."""
    return MOST_PASSES if schedule.tolerance is None else schedule.iterations


def note_on_part(kept: int, pairs: int, left: float) -> str:
    """Return the note on how much of K was kept, and how far h is from balance."""
    return f"{kept:,} of {pairs:,} entries of K were kept; h is about {left:.2g} {OFF_BALANCE}"


def with_held(h: Float64, tau: float, held: Held, total: float) -> Float64:
    """Return h of the columns with what the rows add that are not available."""
    return cast("Float64", tau * np.logaddexp(h / tau, held.h / tau + np.log(held.rows / total)))


def column_potentials(
    similarity: Similarity, tau: float, log_alpha: Float64, columns: int, workers: Workers
) -> Float64:
    """Return h = tau * (logsumexp_b(s / tau + log alpha) + log columns) of any items: one half-step of Sinkhorn."""
    offsets = tau * log_alpha
    middle = float(offsets.mean())  # keeps the float32 offsets small
    found = reduce(similarity, Want(betas=(1 / tau,)), workers, offsets - middle)
    return tau * found.log_sums[1 / tau] + (middle + tau * math.log(columns))


def _is_flat(similarity: Similarity, most: float) -> bool:
    """Return whether no absolute score is above `most`; the scores of one query usually rule it out."""
    if similarity.bound < math.inf:
        return similarity.bound <= most
    items = similarity.items((0, min(SWEEP_ROWS, similarity.shape[1])))
    some = np.empty((1, len(items)), np.float32)
    similarity.queries_by_items(similarity.queries((0, 1)), items, some)
    return float(np.abs(some).max()) <= most and similarity.reach() <= most


def _choose(schedule: Schedule, shape: Span, reach: float, memory: int) -> str:
    """Return how to keep K, of this shape; `reach` measures how its rounding adds up in h."""
    keep, whole = schedule.keep, 4 * math.prod(shape)
    if keep != "auto":
        return {"none": "recomputed"}.get(keep, keep)
    if whole <= min(MOST_FLOAT32_BYTES, memory):
        return "fp32"
    if reach <= MOST_SHORT_REACH and whole // 2 <= memory:
        return "16-bit"
    if whole <= memory:
        return "fp32"
    return "sparse" if memory >= _part_bytes(shape) and schedule.iterations >= FEWEST_ITERATIONS else "recomputed"


def _measured_one_in(m: int) -> int:
    return max(2, min(MEASURE_ONE_IN, m // FEWEST_MEASURED))


def _enough_entries(m: int, n: int) -> float:
    return max(ENOUGH_KEPT * max(m, n), ENOUGH_SHARE * m * n)


def watched_columns(m: int, n: int) -> NDArray[np.int64]:
    """Return the positions of the columns that the remaining error is measured on."""
    wanted = min(max(n // 100, FEWEST_WATCHED), MOST_WATCHED, max(1, WATCHED_BYTES // (4 * m)))
    return np.unique(np.linspace(0, n - 1, wanted).astype(np.int64))


def rows_per_tile(n: int) -> int:
    """Return how many rows of n entries a thread computes at a time."""
    return max(8, min(max(1024, TILE_ENTRIES // n), MOST_ROWS, TILE_BYTES // (4 * n)))
