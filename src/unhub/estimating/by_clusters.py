"""Clusters of the bank: near ones exactly, far ones by their means, as few near ones as keep the error."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float64, spans
from unhub.compute.clusters import cluster_count, make_clusters
from unhub.compute.near import Expected, FarRule, Met, Scratch, cluster_log_sums, expect, log_of, meet
from unhub.compute.passes import Found
from unhub.estimating.checking import LEAST_CARRIERS, Checking, Estimate, carriers, spread_of
from unhub.methods import Method
from unhub.methods.method import NOTHING_FOUND, Streamed

FEWEST_CHECKED = 512  # items that meet the whole bank, at first
MOST_CHECKED_SHARE = 0.125  # of the items, that meet the whole bank
MOST_DEEP_SHARE, MOST_DEEP = 0.5, 8192  # of the items, and items, if most of them meet only what matters of the bank
# Of all rules, the first one is taken whose error seems small enough, and it often seems smaller than it is: so more
# carriers are wanted than of the error of one rule, unless there are enough items.
RULE_CARRIERS, ENOUGH_CHECKED = 1.5 * LEAST_CARRIERS, 4096
CHECKED_GROWTH = 1.5, 6.0  # at least and at most, from one try to the next: every try reads the whole bank
EVERY_CLUSTER = -1.0  # each makes up more than this
LEAST_PARTS = tuple(2.0 ** (-half / 2) for half in range(4, 41))  # of an item's sum, from which a cluster is near
# What further items are checked with is itself off by up to this part of the error, as seen on the first ones. They are
# few: but if it were off by four times as much as is seen, the true error would be 1.26 times as large.
DEEP_ERROR_SHARE = 0.2
# One item far off drives the choice on to the rule where it is no longer far off. There the rest look well spread, and
# an item like it among the others is not seen: so the carriers of the rules just before count too.
RULES_COMPARED = 3
NEAR_PAIR_COST = 1.5  # time of a pair in a cluster's small tile over one of a plain pass; assumed


@dataclass(frozen=True, eq=False)
class TriedRule:
    """A rule on the checked items: a cluster is near if it is expected to make up more than `least` of an item's sum.

    errors: of the checked items' h, by method. share: of all pairs, which take as long as this rule with all items.
    """

    least: float
    far: FarRule
    errors: dict[Method, Float64]
    share: float


class ByClusters:
    """A bank in clusters, and checked items with the sum of each cluster that they met.

    The first items meet the whole bank. If more are needed, these meet all but what hardly matters, `deep`: a rule with
    an error that is small beside the one to be measured, `residual`.
    """

    def __init__(self, checking: Checking, betas: tuple[float, ...]) -> None:
        self.checking, self.betas = checking, np.array(betas)
        bank, workers = checking.bank, checking.workers
        seed = int(checking.generator.integers(1 << 32))
        self.clusters = make_clusters(checking.pairs, cluster_count(bank.items, bank.size), seed, workers)
        count = len(self.clusters.members)
        self.logs = np.empty((0, count, len(betas)))  # of the sum of each cluster, (checked, clusters, betas)
        self.total = np.empty((0, len(betas)))
        self.expected = Expected(np.empty((0, count, len(betas)), np.float32), np.empty((0, len(betas))))
        self.variances = np.empty(0, np.float32)
        self.true: dict[Method, Float64] = {}
        self.deep: TriedRule | None = None
        self.residual = dict.fromkeys(checking.methods, 0.0)
        self._check(FEWEST_CHECKED)

    def choose(self, error: float, share: float) -> TriedRule | None:
        """Return the rule with the fewest pairs that keeps the error; None if it takes more than this share of them."""
        while True:
            chosen, fewest = self._first_within(error, share)
            wanted = RULE_CARRIERS if len(self.logs) < ENOUGH_CHECKED else LEAST_CARRIERS
            if chosen is None or fewest >= wanted:
                return chosen
            if self.deep is None:
                self._deepen(DEEP_ERROR_SHARE * error)
            items = self.checking.bank.items
            most = MOST_CHECKED_SHARE * items if self.deep is None else min(MOST_DEEP_SHARE * items, MOST_DEEP)
            growth = np.clip(wanted / fewest, *CHECKED_GROWTH)  # carriers grow about as the items do
            count = int(min(growth * len(self.logs), most))
            if count <= len(self.logs):
                return None
            self._check(count)

    def estimate(self, chosen: TriedRule) -> Estimate:
        """Return what the rule finds for all items."""
        met = meet(self.checking.pairs, self.clusters, self.betas, chosen.least, self.checking.workers)
        text = f"clusters of the bank ({len(self.clusters.members)}) that make up over {chosen.least:.3%} of "
        how = f"{text}an item's sum, the others by their means; error measured on {len(self.logs)} items"
        if self.deep is not None:
            first = f"{FEWEST_CHECKED} of them with the whole bank"
            how = f"{how}, {first}, the others with clusters that make up over {self.deep.least:.3%}"
        checked = self.checking.order[: len(self.logs)]
        return Estimate(self._found(chosen.far.log_sums(met)), checked, self.true, how, (), residual=self.residual)

    def _check(self, count: int) -> None:
        """Compute the sums of clusters for more items, up to so many: of all clusters, or of those that matter."""
        checking, clusters, deep, have = self.checking, self.clusters, self.deep, len(self.logs)
        new = checking.pairs.some_items(checking.order[have:count])
        items = np.asarray(new.items((0, count - have)), np.float32)
        expected, variances = expect(checking.pairs, items, clusters, self.betas), clusters.variances(items)
        near = expected.near(EVERY_CLUSTER if deep is None else deep.least)
        logs = np.full(expected.parts.shape, -np.inf)
        checking.workers.total += int((near @ clusters.sizes).sum()) + near.size
        tiles = Scratch()

        def add(number: int) -> None:
            own, members = np.flatnonzero(near[:, number]), clusters.members[number]
            if len(own):
                rows = items if len(own) == len(items) else items[own]
                logs[own, number] = cluster_log_sums(checking.pairs, rows, members, self.betas, tiles).T
            checking.workers.tick(len(own) * len(members) + len(items))

        checking.workers.map(add, range(len(clusters.members)))
        total = np.logaddexp.reduce(logs, axis=1)
        if deep is not None:
            total = deep.far.log_sums(Met(total, expected.far(near), variances))
        self.logs, self.total = np.concatenate([self.logs, logs]), np.concatenate([self.total, total])
        both = (np.concatenate(pair) for pair in zip(*map(_fields, (self.expected, expected)), strict=True))
        self.expected, self.variances = Expected(*both), np.concatenate([self.variances, variances])
        self.some = checking.some(0, count)
        self.true = checking.h(self.some, self._found(self.total))

    def _first_within(self, error: float, share: float) -> tuple[TriedRule | None, float]:
        """Return the first rule that keeps the error, and the fewest carriers of it and of those just before."""
        fewest: list[float] = []
        for tried in self._tries():
            if tried.share > share:
                break
            fewest.append(min(map(carriers, tried.errors.values())))
            if all(math.hypot(spread_of(off), self.residual[one]) <= error for one, off in tried.errors.items()):
                return tried, min(fewest[-RULES_COMPARED:])
        return None, 0.0

    def _deepen(self, error: float) -> None:
        """Find what further items can be checked with, if anything comes so near."""
        for tried in self._tries():
            spreads = {one: spread_of(off) for one, off in tried.errors.items()}
            if max(spreads.values()) <= error:
                self.deep, self.residual = tried, spreads
                return

    def _tries(self) -> Iterator[TriedRule]:
        """Yield rules with ever more near clusters, on the checked items; each thread tries one at a time."""
        workers, parts = self.checking.workers, np.exp(self.logs - self.total[:, None])
        for start, stop in spans(len(LEAST_PARTS), workers.threads):
            yield from workers.map(functools.partial(self._tried, parts), LEAST_PARTS[start:stop])

    def _tried(self, parts: Float64, least: float) -> TriedRule:
        sizes, near = self.clusters.sizes, self.expected.near(least)
        near_sum = np.where(near[:, :, None], parts, 0).sum(axis=1)
        far_sum = np.where(np.asarray(near.all(axis=1))[:, None], 0, np.maximum(1 - near_sum, 0))
        met = Met(self.total + log_of(near_sum), self.expected.far(near), self.variances)
        far = FarRule.fitted(self.betas, met, self.total + log_of(far_sum))
        h = self.checking.h(self.some, self._found(far.log_sums(met)))
        errors = {one: h[one] - self.true[one] for one in self.checking.methods}
        share = (NEAR_PAIR_COST * float((near @ sizes).mean()) + len(sizes)) / int(sizes.sum())
        return TriedRule(least, far, errors, share)

    def _found(self, log_sums: Float64) -> Streamed:
        found: Found = dataclasses.replace(
            NOTHING_FOUND, log_sums=dict(zip(self.betas.tolist(), log_sums.T, strict=True))
        )
        return Streamed(found, NOTHING_FOUND)


def _fields(expected: Expected) -> tuple[np.ndarray, np.ndarray]:
    return expected.parts, expected.logs
