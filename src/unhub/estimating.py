"""Estimating: what a pass over the whole bank would find, from a part of it, within an error of h that is measured.

Some items, the checked ones, first meet the whole bank. What a part of the bank makes of their h, less their true h, is
then the error itself, however skewed the scores are; no formula is needed. The part that is used for all items is the
smallest that keeps this error below the limit: a random part of the bank, or, where the bank has clusters, those that
matter to the item, and the others by their mean.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, random_positions
from unhub.compute.clusters import (
    Clusters,
    Rule,
    cluster_count,
    cluster_log_sums,
    log_sum,
    make_clusters,
    mean_scores,
    rule_log_sums,
)
from unhub.compute.passes import Found, Want, no_best_items, reduce
from unhub.compute.workers import Workers
from unhub.data.bank import Bank
from unhub.data.similarity import Dot
from unhub.methods import Method
from unhub.methods.method import NOTHING_FOUND, Outcome, Streamed

# The root of a mean square over c values has a standard error of sqrt((kurtosis - 1) / 4c): with 128 items 0.13 for a
# kurtosis of 10, an assumed one. The checked items cost their share of the multiply.
FEWEST_CHECKED, MOST_CHECKED, CHECKED_ONE_IN = 128, 512, 64
# With clusters a few items, whose nearest query lies in a far cluster, make up half of the mean square: one in 30 to
# one in 1,000, the fewer the lower the temperature. Where they all are missed, the stated error is too low by sqrt(2).
FEWEST_CHECKED_CLUSTERS, MOST_CHECKED_CLUSTERS, CLUSTERS_CHECKED_ONE_IN = 1250, 2000, 16
LEAST_CARRIERS = 8.0  # checked items over the kurtosis of their errors: how many make up the mean square
LEAST_OF_ERROR = 0.25  # that is asked for; chosen, not measured
FIRST_SHARE, FEWEST_ROWS = 1 / 64, 256  # of the bank, to begin with
MARGIN, LEAST_GROWTH = 1.1, 1.2  # of a predicted share, and of a share that did not do
MOST_SHARE = 0.8  # of the pairs, checks included: beyond it, all pairs take no longer
LEAST_PARTS = tuple(2.0 ** (-half / 2) for half in range(4, 33))  # of an item's sum, from which a cluster matters
NEAR_PAIR_COST = 1.5  # time of a pair in a cluster's small tile over one of a plain pass; assumed
MOST_CLUSTER_OUTLAY = 0.5  # of the time of the random part: what may be spent to see whether clusters do better


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the pass found, estimated; the true h of the checked items, by method; and how it was done."""

    streamed: Streamed
    checked: NDArray[np.int64]
    true: dict[Method, Float64]
    how: str
    notes: tuple[str, ...]

    def finish(self, method: Method, bank: Bank) -> tuple[Outcome, float]:
        """Return the outcome of a method and the standard error of its h, over all items.

        h gets the level of the checked items, so that it fits items that are added later, and their true values.
        """
        outcome = method.finish(bank, self.streamed, False)
        if method not in self.true:
            return outcome, 0.0
        h = cast("Float64", outcome.h).copy()
        off = h[self.checked] - self.true[method]
        h -= off.mean()
        h[self.checked] = self.true[method]
        return dataclasses.replace(outcome, h=h), spread_of(off) * np.sqrt(1 - len(off) / len(h))


def spread_of(errors: Float64) -> float:
    """Return the standard error of centred values, from the errors of some of them."""
    return float(errors.std(ddof=1))


def estimate(methods: Sequence[Method], bank: Bank, error: float, seed: int, workers: Workers) -> Estimate | None:
    """Estimate what these methods, which share a pass over vectors, want of it; None if all pairs take no longer."""
    checked_count = min(max(bank.items // CHECKED_ONE_IN, FEWEST_CHECKED), MOST_CHECKED)
    for_clusters = min(max(bank.items // CLUSTERS_CHECKED_ONE_IN, FEWEST_CHECKED_CLUSTERS), MOST_CHECKED_CLUSTERS)
    wants = [method.wants(False) for method in methods]
    if all(queries.empty and targets.empty for queries, targets in wants):
        return Estimate(Streamed(NOTHING_FOUND, NOTHING_FOUND), np.empty(0, np.int64), {}, "exact, without pairs", ())
    if checked_count > MOST_SHARE * bank.items:
        return None
    want, target_want = (functools.reduce(operator.or_, several) for several in zip(*wants, strict=True))
    checking = _Checking(methods, bank, (want, target_want), seed, workers)
    checking.draw(checked_count)
    share = checking.random_share(error)
    only_sums = target_want.empty and want.top == want.best_items == 0
    if only_sums and cluster_outlay(bank, for_clusters) < MOST_CLUSTER_OUTLAY * share:
        clusters = make_clusters(checking.pairs, cluster_count(bank.size), seed, workers)
        by_clusters = checking.by_clusters(clusters, for_clusters, error, share)
        if by_clusters is not None:
            return by_clusters
    if share + checked_count / bank.items > MOST_SHARE:
        return None
    return checking.at_random(share)


def cluster_outlay(bank: Bank, checked: int) -> float:
    """Return what it takes to make clusters and to see how they do, as a share of all pairs."""
    return (cluster_count(bank.size) + checked) / bank.items


class _Checking:
    """The checked items and their true h, and a bank in random order that is tried on them."""

    def __init__(
        self, methods: Sequence[Method], bank: Bank, wants: tuple[Want, Want], seed: int, workers: Workers
    ) -> None:
        self.generator = np.random.default_rng(seed)
        self.bank, self.wants, self.workers = bank, wants, workers
        self.pairs = cast("Dot", bank.queries)
        self.order = self.generator.permutation(bank.size)
        self.target_order = self.generator.permutation(0 if bank.targets is None else bank.targets.shape[0])
        self.streaming = [one for one in methods if any(not want.empty for want in one.wants(False))]
        self.checked, self.some = np.empty(0, np.int64), bank
        self.true: dict[Method, Float64] = {}

    def draw(self, count: int) -> None:
        """Draw the checked items, and compute their true h."""
        self._draw(count)
        self.true = self._h(self._stream(self.some, 1.0, gate=False))

    def _draw(self, count: int) -> None:
        self.checked = random_positions(self.bank.items, count, self.generator)
        targets = None if self.bank.targets is None else self.bank.targets.some_items(self.checked)
        own = self.pairs.some_items(self.checked)
        self.some = Bank(own, targets, own)

    def _h(self, streamed: Streamed) -> dict[Method, Float64]:
        return {one: cast("Float64", one.finish(self.some, streamed, False).h) for one in self.streaming}

    def _errors(self, streamed: Streamed) -> list[Float64]:
        """Return the errors of each method's h on the checked items."""
        h = self._h(streamed)
        return [h[one] - self.true[one] for one in self.streaming]

    def _stream(self, bank: Bank, share: float, *, gate: bool) -> Streamed:
        """Stream a random share of the bank over some or all items; with `gate`, find each query's best items too."""
        orders = (self.order, self.target_order)
        found = [
            self._found(cast("Dot", pairs), want if gate else dataclasses.replace(want, best_items=0), order, share)
            for pairs, want, order in zip((bank.queries, bank.targets), self.wants, orders, strict=True)
        ]
        return Streamed(*found)

    def _found(self, pairs: Dot, want: Want, order: NDArray[np.int64], share: float) -> Found:
        if want.empty:
            return NOTHING_FOUND
        if share >= 1:
            return reduce(pairs, want, self.workers)
        rows = np.sort(order[: rows_of(share, len(order))])
        weights = np.full(len(rows), len(order) / len(rows))
        return _of_rows(pairs, want, rows, weights, self.workers)

    def random_share(self, error: float) -> float:
        """Return a share of the bank, drawn at random, with which no h is off by more; 1 if that is most of it.

        The square of the error falls as 1 / share - 1, the variance of a mean of a part of a finite set.
        """
        share = max(FIRST_SHARE, FEWEST_ROWS / self.bank.size)
        while share < MOST_SHARE:
            found = max(map(spread_of, self._errors(self._stream(self.some, share, gate=False))))
            if found <= error:
                return share
            wanted = 1 / (1 + (error / found) ** 2 * (1 / share - 1))
            share = max(LEAST_GROWTH * share, min(MARGIN * wanted, (1 + wanted) / 2))
        return 1.0

    def at_random(self, share: float) -> Estimate:
        """Stream a random share of the bank over all items."""
        streamed = self._stream(self.bank, share, gate=True)
        rows = rows_of(share, self.bank.size)
        how = f"a random {rows / self.bank.size:.2%} of the bank"
        return self._estimate(streamed, how, rows)

    def by_clusters(self, clusters: Clusters, count: int, error: float, share: float) -> Estimate | None:
        """Compute each item exactly against the clusters that matter; None if that takes more than `share`.

        It is tried on `count` checked items, drawn anew.
        """
        before = self.checked, self.some, self.true
        self._draw(count)
        rule = self._best_rule(clusters, error, share)
        if rule is None:
            self.checked, self.some, self.true = before
            return None
        sums = rule_log_sums(self.pairs, clusters, rule, self.workers)
        text = f"clusters of the bank ({len(clusters.members)}) that make up over {rule.least:.3%} of an item's sum"
        return self._estimate(Streamed(_sums(self.wants[0].betas, sums), NOTHING_FOUND), text, self.bank.size)

    def _best_rule(self, clusters: Clusters, error: float, share: float) -> Rule | None:
        """Return the rule with the fewest pairs whose h is not off by more; None if that takes more than `share`."""
        sizes, betas, pairs = clusters.sizes, self.wants[0].betas, cast("Dot", self.some.queries)
        items = np.asarray(pairs.items((0, len(self.checked))), np.float32)
        self.workers.total += len(self.checked) * (self.bank.size + len(sizes))
        found = self.workers.map(lambda own: cluster_log_sums(pairs, items, own, betas), clusters.members)
        true = np.stack(found).transpose(2, 0, 1)  # (items, clusters, betas)
        total = log_sum(true)
        self.true = self._h(Streamed(_sums(betas, total[:, 0].T), NOTHING_FOUND))
        rule = Rule(1.0, np.array(betas), np.ones(len(betas)))
        expected = rule.expected(mean_scores(pairs, items, clusters), sizes)
        parts, guesses = np.exp(true - total), np.exp(expected - total)
        weight = np.exp(expected - log_sum(expected)).max(axis=2)  # does not depend on the ratios
        for least in LEAST_PARTS:
            near = weight > least
            if NEAR_PAIR_COST * float((near @ sizes).mean()) / self.bank.size + len(sizes) / self.bank.size > share:
                return None
            far_parts, far_guesses = (np.where(near[:, :, None], 0, one).sum(axis=1) for one in (parts, guesses))
            ratios = _ratios(far_parts, far_guesses)
            sums = parts.sum(axis=1) - far_parts + ratios * far_guesses
            errors = self._errors(Streamed(_sums(betas, (np.log(sums) + total[:, 0]).T), NOTHING_FOUND))
            if all(spread_of(one) <= error for one in errors):
                spread_out = all(_is_spread_out(one, error) for one in errors)
                return Rule(least, rule.betas, ratios) if spread_out else None
        return None

    def _estimate(self, streamed: Streamed, how: str, rows: int) -> Estimate:
        notes = (f"the gate is made from {rows} of {self.bank.size} bank queries",) if self.wants[0].best_items else ()
        return Estimate(streamed, self.checked, self.true, f"{how}; error measured on {len(self.checked)} items", notes)


def _ratios(parts: Float64, guesses: Float64) -> Float64:
    """Return by how much far clusters add up to more than is expected of them, (betas,), on items (items, betas)."""
    whole, guessed = parts.sum(axis=0), guesses.sum(axis=0)
    known = (whole > 0) & (guessed > 0)
    return np.where(known, whole / np.where(known, guessed, 1), 1.0)


def _is_spread_out(errors: Float64, error: float) -> bool:
    """Return whether the spread of these errors tells that of others: many make it up, and it is not far too small.

    A spread that falls to almost nothing from one rule to the next was that of a few items, and others like them are
    not among the checked ones.
    """
    return carriers(errors) >= LEAST_CARRIERS and spread_of(errors) >= LEAST_OF_ERROR * error


def carriers(errors: Float64) -> float:
    """Return how many of the errors make up their mean square: all if they are equal, one if one is far off."""
    squares = (errors - errors.mean()) ** 2
    return float(squares.sum() ** 2 / (squares**2).sum()) if squares.any() else float(len(errors))


def rows_of(share: float, count: int) -> int:
    """Return how many rows a share of a set is."""
    return min(count, max(1, round(share * count)))


def _of_rows(pairs: Dot, want: Want, rows: NDArray[np.int64], weights: Float64, workers: Workers) -> Found:
    """Return what some bank queries find, each by its weight; the best items of all others are unknown."""
    some = dataclasses.replace(pairs, query_vectors=pairs.query_vectors.gather(rows))
    found = reduce(some, want, workers, weights=weights)
    items, scores = no_best_items(pairs.shape[0], want.best_items)
    if want.best_items:
        items[rows], scores[rows] = found.best_items, found.best_scores
    return dataclasses.replace(found, best_items=items, best_scores=scores)


def _sums(betas: tuple[float, ...], log_sums: Float64) -> Found:
    return dataclasses.replace(NOTHING_FOUND, log_sums=dict(zip(betas, log_sums, strict=True)))
