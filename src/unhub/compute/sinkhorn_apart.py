"""Sinkhorn apart: the same iterations with the items on several machines, as far as a runner can use them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Span
from unhub.compute.kept_entries import KeptEntries, Settling, likely_off, no_less_than_settled, scale_of
from unhub.compute.sinkhorn import (
    LOST_SHARE,
    NEARER,
    BalancedRows,
    Balancing,
    Held,
    Schedule,
    Shares,
    Solution,
    Totals,
    balance,
    balancing,
    column_potentials,
    most_passes,
    note_on_part,
    pilot_rows,
    pilot_schedule,
    watched_columns,
    with_held,
)
from unhub.compute.weights import Weights
from unhub.compute.workers import KeptObjects, Runner, Workers
from unhub.data.similarity import Similarity


def balance_anywhere(
    similarity: Similarity,
    schedule: Schedule,
    workers: Workers,
    *,
    start: Float64 | None = None,
    held: Held | None = None,
    weights: Float64 | None = None,
) -> Solution:
    """Do `balance`, on the machines of the workers' runner if there is one."""
    if workers.runner is None:
        return balance(similarity, schedule, workers, start=start, held=held, weights=weights)
    rows = BalancedRows((0, similarity.shape[0]), held, None if weights is None else Weights(weights))
    h = np.zeros(similarity.shape[1]) if start is None else start.astype(np.float64)
    return _Apart(similarity, schedule, workers, rows).run(h)


@dataclass(frozen=True, eq=False)
class _Shard:
    """Makes the balancing of some rows where it is called."""

    similarity: Similarity
    schedule: Schedule
    device: str
    memory: int | None
    span: Span
    threads: int

    def __call__(self) -> Balancing:
        start = np.zeros(self.similarity.shape[1])
        return balancing(self.similarity, self.schedule, self.workers(), BalancedRows(self.span), start)

    def workers(self) -> Workers:
        """Return the threads and the memory of this machine."""
        return Workers(self.threads, self.memory, device=self.device)


@dataclass(frozen=True, eq=False)
class _PilotOfShard:
    """Makes the balancing of a few of a shard's rows where it is called, which count as much as all of them."""

    shard: _Shard

    def __call__(self) -> Balancing:
        shard, workers = self.shard, self.shard.workers()
        rows, weights = pilot_rows(BalancedRows(shard.span), shard.similarity.shape[1], workers.memory)
        few, own = shard.similarity.some_queries(rows), BalancedRows((0, len(rows)), weights=weights)
        return balancing(few, pilot_schedule(shard.schedule), workers, own, np.zeros(few.shape[1]))


@dataclass(frozen=True, eq=False)
class _PartOfShard:
    """Makes a pass over some rows where it is called, and keeps a part of K there.

    seed: of the draws, which differ between passes. share: which part of all rows these are.
    """

    shard: _Shard
    columns: Float64
    seed: int
    share: float

    def __call__(self) -> _KeptPart:
        rows = self.shard()
        found, entries = rows.shares_and_entries(self.columns, self.seed, self.share)
        return _KeptPart(found, entries, rows.rows_at(self.columns), rows.tau)


@dataclass(frozen=True, eq=False)
class _KeptPart:
    """A part of K of some rows, and what a pass found at the potentials at which it was kept."""

    found: Shares
    entries: KeptEntries
    rows: Float64
    tau: float

    def shares(self) -> Shares:
        return self.found

    def potentials(self) -> Float64:
        """Return the potentials of the rows."""
        return self.rows

    def count(self) -> int:
        """Return how many entries are kept."""
        return self.entries.count

    def totals(self, scale: Float64) -> Float64:
        """Return the column totals where the shares of each column are multiplied by this."""
        return self.entries.totals(scale)

    def spread(self, one: Float64, other: Float64) -> Float64:
        """Return by how much the potentials of the rows differ at two scales: the rows, the mean, and the squares."""
        off = self.tau * np.log(self.entries.sums(one) / self.entries.sums(other))
        return np.array([len(off), off.mean(), np.square(off - off.mean()).sum()])


class _Apart:
    """Balances with the items in shards, one on each machine, and adds up one vector of the bank's length a time.

    A machine keeps the rows of K^T for its items. Given alpha, it sums each row, which gives the beta of the item, and
    adds beta times the row to the totals of the bank queries, from which alpha follows: one sweep for both half-steps.
    """

    def __init__(self, similarity: Similarity, schedule: Schedule, workers: Workers, rows: BalancedRows) -> None:
        self.similarity, self.schedule, self.workers, self.rows = similarity, schedule, workers, rows
        self.tau, (self.m, self.n) = schedule.tau, similarity.shape
        self.turned = similarity.turned()
        self.log_shares = np.full(self.m, -math.log(rows.total))
        if rows.weights is not None:
            self.log_shares += np.log(rows.weights.values)

    def run(self, h: Float64) -> Solution:
        if self.rows.held is not None:
            return self._beside_held(h, self.rows.held)
        runner, device = cast("Runner", self.workers.runner), self.workers.kernel.NAME
        makers = [
            _Shard(self.turned, self.schedule, device, self.workers.asked_memory, span, threads)
            for span, threads in _by_threads(self.n, runner.machines)
        ]
        with runner.keep(makers, self.workers.tick_here) as shards:
            ways = shards.ask("way")
            if "sparse" not in ways or "recomputed" in ways:
                return self._iterated(shards, makers, h)
        # A machine that has room for all of its rows keeps a part, too: the others cannot do its iterations.
        in_part = dataclasses.replace(self.schedule, keep="sparse")
        makers = [dataclasses.replace(maker, schedule=in_part) for maker in makers]
        self.workers.total += self.m * self.n * most_passes(self.schedule)
        log_alpha = self._log_alpha(self.turned, h, self.log_shares) if h.any() else self._pilot(runner, makers)
        return self._on_part(runner, makers, log_alpha, self._columns(log_alpha) if h.any() else np.zeros(self.m))

    def _iterated(self, shards: KeptObjects, makers: Sequence[_Shard], h: Float64) -> Solution:
        """Do the iterations, with K as each machine keeps it."""
        self.workers.total += self.m * self.n * self.schedule.iterations
        log_alpha = self._first_log_alpha(shards, h)
        for done in range(1, self.schedule.iterations + 1):
            found: list[Shares] = shards.ask("shares_at", self._columns(log_alpha))
            following = self._following(log_alpha, found, makers, functools.partial(self._rows_at, shards, log_alpha))
            row_error = self._row_error(log_alpha, following)
            if self.schedule.tolerance is not None and row_error <= self.schedule.tolerance:
                break
            if done < self.schedule.iterations:
                log_alpha = following
        h = self._rows_at(shards, log_alpha)
        kept = " and ".join(sorted({one.kept for one in found}))
        return Solution(h, log_alpha, done, kept, row_error, self._column_error(h, log_alpha))

    def _on_part(self, runner: Runner, makers: Sequence[_Shard], log_alpha: Float64, start: Float64) -> Solution:
        """Do `Balancing.run_on_part`: each machine keeps a part of K of its items, and alpha moves to their balance.

        h is that of the items at this alpha, as a pass over all of K finds it. start: the potentials before the first.
        """
        tolerance, most, moved_before = self.schedule.tolerance, most_passes(self.schedule), math.inf
        for done in itertools.count(1):
            columns = self._columns(log_alpha)
            parts_of = [_PartOfShard(maker, columns, done, _rows_of(maker) / self.n) for maker in makers]
            with runner.keep(parts_of, self.workers.tick_here) as parts:
                h_of_pass = functools.partial(self._of_part, parts, log_alpha)
                following = self._following(log_alpha, parts.ask("shares"), makers, h_of_pass)
                row_error = self._row_error(log_alpha, following)
                settling = Settling(functools.partial(_totals, parts), self.tau * (log_alpha - following), self.tau)
                settled = settling.settled()
                moved = self._spread(parts, settled, np.zeros(self.m))
                left = no_less_than_settled(likely_off(moved, moved, moved_before), self.tau)
                if tolerance is None:
                    iterated = settling.iterated(start - columns, self.schedule.iterations)
                    near = NEARER * self._spread(parts, iterated, settled)
                    ends = left <= no_less_than_settled(near, self.tau)
                else:
                    ends = row_error <= tolerance
                if ends or done == most:
                    h, kept = h_of_pass(), sum(parts.ask("count"))
                    break
            log_alpha, moved_before = log_alpha - settled / self.tau, moved
        note = note_on_part(kept, self.m * self.n, left)
        return Solution(h, log_alpha, done, "sparse", row_error, self._column_error(h, log_alpha), (note,))

    def _pilot(self, runner: Runner, makers: Sequence[_Shard]) -> Float64:
        """Return log alpha in balance with a few of the items of each machine."""
        log_alpha = np.zeros(self.m)
        with runner.keep([_PilotOfShard(maker) for maker in makers], self.workers.tick_here) as few:
            share = sum(few.ask("count")) / self.n
            for _ in range(pilot_schedule(self.schedule).iterations):
                found: list[Shares] = few.ask("shares_at", self._columns(log_alpha))
                totals = _added(one.totals for one in found)
                log_alpha = log_alpha + self.log_shares - np.log(np.maximum(totals, LOST_SHARE * totals.sum()))
                self.workers.passes += share * float(np.mean([one.passes for one in found]))
        return log_alpha

    def _following(
        self, log_alpha: Float64, found: Sequence[Shares], makers: Sequence[_Shard], h: Callable[[], Float64]
    ) -> Float64:
        """Return log alpha after an iteration, from what bank queries get of all items; `h` is that of the items."""
        self._count(found, makers)
        totals, least = _added(one.totals for one in found), _added(one.least for one in found)
        with np.errstate(divide="ignore"):
            following: Float64 = log_alpha + self.log_shares + math.log(self.n) - np.log(totals)
        faint = np.flatnonzero(totals < least)
        if len(faint):
            self._mend(following, faint, h())
        self.workers.tick_here(self.m * self.n)
        return following

    def _count(self, found: Sequence[Shares], makers: Sequence[_Shard]) -> None:
        """Count the passes that the machines made."""
        rows = [_rows_of(maker) for maker in makers]
        self.workers.passes += float(np.average([one.passes for one in found], weights=rows))

    def _spread(self, parts: KeptObjects, one: Float64, other: Float64) -> float:
        """Return how far h is apart at two moves of the bank queries, as a root mean square of centred differences."""
        found = parts.ask("spread", scale_of(one, self.tau), scale_of(other, self.tau))
        counts, means, squares = np.array(found).T
        return math.sqrt((squares + counts * np.square(means - np.average(means, weights=counts))).sum() / self.n)

    def _first_log_alpha(self, shards: KeptObjects, h: Float64) -> Float64:
        """Return log alpha at the start; from the K of each machine, where it is kept and beta starts at 1."""
        found: list[Totals | None] = [None] if h.any() else shards.ask("first_totals")
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return self._log_alpha(self.turned, h, self.log_shares)
        self.workers.passes += 1.0
        level = max(one.level for one in known)
        scales = [math.exp(one.level - level) for one in known]
        totals = sum((scale * one.totals for scale, one in zip(scales, known, strict=True)), np.zeros(self.m))
        with np.errstate(divide="ignore"):
            log_alpha = self.log_shares - (np.log(totals) + level)
        least = sum(scale * one.least for scale, one in zip(scales, known, strict=True))
        self._mend(log_alpha, np.flatnonzero(totals < least), h)
        return log_alpha

    def _mend(self, log_alpha: Float64, faint: NDArray[np.int64], h: Float64) -> None:
        """Compute some entries of log alpha from the scores, not from K, which lost too much of their sums."""
        if len(faint):
            passes, some = self.workers.passes, self.turned.some_items(faint)
            log_alpha[faint] = self._log_alpha(some, h, self.log_shares[faint])
            self.workers.passes = passes + len(faint) / self.m

    def _log_alpha(self, turned: Similarity, h: Float64, log_shares: Float64) -> Float64:
        """Return log alpha of bank queries, given h of the items: one pass."""
        return log_shares - column_potentials(turned, self.tau, -h / self.tau, 1, self.workers) / self.tau

    def _columns(self, log_alpha: Float64) -> Float64:
        """Return the potentials of the bank queries with 0 in the middle, which changes no share.

        Their level is far from that of K, and would make each machine compute it again.
        """
        return -self.tau * (log_alpha - _middle(log_alpha))

    def _rows_at(self, shards: KeptObjects, log_alpha: Float64) -> Float64:
        """Return h of the items, given log alpha of the bank queries."""
        return self._joined(shards.ask("rows_at", self._columns(log_alpha)), log_alpha)

    def _of_part(self, parts: KeptObjects, log_alpha: Float64) -> Float64:
        """Return h of the items, as the pass found it that kept the part."""
        return self._joined(parts.ask("potentials"), log_alpha)

    def _joined(self, parts: Sequence[Float64], log_alpha: Float64) -> Float64:
        """Return h of all items from the potentials in shards; a shard knows only how many items it has."""
        level = self.tau * (_middle(log_alpha) + math.log(self.n))
        return np.concatenate([part + (level - self.tau * math.log(len(part))) for part in parts])

    def _row_error(self, log_alpha: Float64, following: Float64) -> float:
        with np.errstate(over="ignore"):
            off = np.abs(np.exp(log_alpha - following) - 1)
        return float(np.average(off, weights=np.exp(self.log_shares)))

    def _column_error(self, h: Float64, log_alpha: Float64) -> float:
        """Return `Balancing._column_error` from a pass over the scores of those columns."""
        watched, passes = watched_columns(self.m, self.n), self.workers.passes
        exact = column_potentials(self.similarity.some_items(watched), self.tau, log_alpha, self.n, self.workers)
        self.workers.passes = passes
        with np.errstate(over="ignore"):
            return float(np.abs(np.exp((exact - h[watched]) / self.tau) - 1).mean())

    def _beside_held(self, h: Float64, held: Held) -> Solution:
        """Iterate in two passes each: the held rows add to the columns, which K does not know."""
        for _ in range(self.schedule.iterations):
            log_alpha = self._log_alpha(self.turned, h, self.log_shares)
            h = column_potentials(self.similarity, self.tau, log_alpha, self.n, self.workers)
            h = with_held(h, self.tau, held, self.rows.total)
        return Solution(h, log_alpha, self.schedule.iterations, "recomputed", math.nan, None)


def _rows_of(maker: _Shard) -> int:
    return maker.span[1] - maker.span[0]


def _totals(parts: KeptObjects, scale: Float64) -> Float64:
    """Return the totals of the bank queries over the entries that all machines keep."""
    return _added(parts.ask("totals", scale))


def _added(vectors: Iterable[Float64]) -> Float64:
    return functools.reduce(np.add, vectors)


def _middle(values: Float64) -> float:
    return float(values.min() + values.max()) / 2


def _by_threads(count: int, machines: Sequence[int]) -> list[tuple[Span, int]]:
    """Cut 0..count into a span for each machine, by the number of its threads; a machine may be left without one."""
    edges = (count * np.cumsum([0, *machines]) // sum(machines)).tolist()
    return [(span, threads) for span, threads in zip(itertools.pairwise(edges), machines, strict=True) if np.diff(span)]
