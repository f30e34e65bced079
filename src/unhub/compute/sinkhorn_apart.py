"""Sinkhorn apart: the same iterations with the items on several machines, as far as a runner can use them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Span
from unhub.compute.sinkhorn import (
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
        workers = Workers(self.threads, self.memory, device=self.device)
        return balancing(
            self.similarity, self.schedule, workers, BalancedRows(self.span), np.zeros(self.similarity.shape[1])
        )


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
        self.workers.total += self.m * self.n * self.schedule.iterations
        with runner.keep(makers, self.workers.tick_here) as shards:
            log_alpha = self._first_log_alpha(shards, h)
            for done in range(1, self.schedule.iterations + 1):
                columns = self._columns(log_alpha)
                found: list[Shares] = shards.ask("shares_at", columns)
                sizes = [maker.span[1] - maker.span[0] for maker in makers]
                self.workers.passes += float(np.average([one.passes for one in found], weights=sizes))
                totals, least = sum(one.totals for one in found), sum(one.least for one in found)
                with np.errstate(divide="ignore"):
                    following = log_alpha + self.log_shares + math.log(self.n) - np.log(totals)
                faint = np.flatnonzero(totals < least)
                if len(faint):
                    self._mend(following, faint, self._joined(shards, log_alpha))
                self.workers.tick_here(self.m * self.n)
                row_error = self._row_error(log_alpha, following)
                if self.schedule.tolerance is not None and row_error <= self.schedule.tolerance:
                    break
                if done < self.schedule.iterations:
                    log_alpha = following
            h = self._joined(shards, log_alpha)
        kept = " and ".join(sorted({one.kept for one in found}))
        return Solution(h, log_alpha, done, kept, row_error, self._column_error(h, log_alpha))

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

    def _joined(self, shards: KeptObjects, log_alpha: Float64) -> Float64:
        """Return h of the items, given log alpha of the bank queries; a shard knows only how many it has."""
        parts = shards.ask("rows_at", self._columns(log_alpha))
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


def _middle(values: Float64) -> float:
    return float(values.min() + values.max()) / 2


def _by_threads(count: int, machines: Sequence[int]) -> list[tuple[Span, int]]:
    """Cut 0..count into a span for each machine, by the number of its threads; a machine may be left without one."""
    edges = (count * np.cumsum([0, *machines]) // sum(machines)).tolist()
    return [(span, threads) for span, threads in zip(itertools.pairwise(edges), machines, strict=True) if np.diff(span)]
