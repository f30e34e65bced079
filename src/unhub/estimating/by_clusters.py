"""Clusters of the bank: near ones exactly, far ones by their means, as few near ones as keep the error."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float64
from unhub.compute.clusters import cluster_count, make_clusters
from unhub.compute.near import Expected, FarRule, Met, Scratch, cluster_log_sums, expect, log_of, meet
from unhub.compute.passes import Found
from unhub.estimating.checking import LEAST_CARRIERS, Checking, Estimate, carriers, spread_of
from unhub.methods import Method
from unhub.methods.method import NOTHING_FOUND, Streamed

FEWEST_CHECKED, MOST_CHECKED_SHARE = 512, 0.125  # items; of the items
CHECKED_GROWTH = 1.5, 3.0  # at least and at most, from one try to the next: every try reads the whole bank
LEAST_PARTS = tuple(2.0 ** (-half / 2) for half in range(4, 33))  # of an item's sum, from which a cluster is near
# One item far off drives the choice on to the rule where it is no longer far off. There the rest look well spread, and
# an item like it among the others is not seen: so the carriers of the rules just before count too.
RULES_COMPARED = 3
NEAR_PAIR_COST = 1.5  # time of a pair in a cluster's small tile over one of a plain pass; assumed


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The rule with the fewest near clusters that keeps the error; carriers: of its errors, or those just before."""

    least: float
    far: FarRule
    carriers: float


class ByClusters:
    """A bank in clusters, and checked items with the sum of each cluster."""

    def __init__(self, checking: Checking, betas: tuple[float, ...]) -> None:
        self.checking, self.betas = checking, np.array(betas)
        bank, workers = checking.bank, checking.workers
        seed = int(checking.generator.integers(1 << 32))
        self.clusters = make_clusters(checking.pairs, cluster_count(bank.items, bank.size), seed, workers)
        count = len(self.clusters.members)
        self.logs = np.empty((0, count, len(betas)))  # of the sum of each cluster, (checked, clusters, betas)
        self.expected = Expected(np.empty((0, count, len(betas)), np.float32), np.empty((0, len(betas))))
        self.variances = np.empty(0, np.float32)
        self.true: dict[Method, Float64] = {}

    def estimate(self, error: float, share: float) -> Estimate | None:
        """Return the estimate with the fewest pairs; None if it takes longer than this share of the bank at random."""
        checking, count = self.checking, FEWEST_CHECKED
        most = max(FEWEST_CHECKED, int(MOST_CHECKED_SHARE * checking.bank.items))
        while True:
            self._check(count)
            chosen = self._choose(error, share)
            if chosen is None:
                return None
            if chosen.carriers >= LEAST_CARRIERS:
                met = meet(checking.pairs, self.clusters, self.betas, chosen.least, checking.workers)
                text = f"clusters of the bank ({len(self.clusters.members)}) that make up over {chosen.least:.3%} of "
                how = f"{text}an item's sum, the others by their means; error measured on {count} items"
                found = self._found(chosen.far.log_sums(met))
                return Estimate(found, checking.order[:count], self.true, how, ())
            if count == most:
                return None
            wanted = LEAST_CARRIERS / chosen.carriers  # carriers grow about as the items do
            count = min(most, int(np.clip(wanted, *CHECKED_GROWTH) * count))

    def _check(self, count: int) -> None:
        """Compute the sums of each cluster for more items, up to so many."""
        checking, have = self.checking, len(self.logs)
        pairs, clusters, workers = checking.pairs, self.clusters, checking.workers
        new = pairs.some_items(checking.order[have:count])
        items = np.asarray(new.items((0, count - have)), np.float32)
        workers.total += len(items) * (pairs.shape[0] + len(clusters.members))
        tiles = Scratch()
        found = workers.map(lambda own: cluster_log_sums(pairs, items, own, self.betas, tiles), clusters.members)
        expected = expect(pairs, items, clusters, self.betas)
        self.logs = np.concatenate([self.logs, np.stack(found).transpose(2, 0, 1)])
        both = (np.concatenate(pair) for pair in zip(*map(_fields, (self.expected, expected)), strict=True))
        self.expected = Expected(*both)
        self.variances = np.concatenate([self.variances, clusters.variances(items)])
        self.some = checking.some(0, count)
        peak = self.logs.max(axis=1, keepdims=True)
        self.total = peak[:, 0] + np.log(np.exp(self.logs - peak).sum(axis=1))
        self.true = checking.h(self.some, self._found(self.total))

    def _choose(self, error: float, share: float) -> _Chosen | None:
        sizes = self.clusters.sizes
        size = int(sizes.sum())
        parts = np.exp(self.logs - self.total[:, None])
        fewest: list[float] = []
        for least in LEAST_PARTS:
            near = self.expected.near(least)
            if NEAR_PAIR_COST * float((near @ sizes).mean()) + len(sizes) > share * size:
                return None
            near_sum, far_sum = (np.where(one[:, :, None], parts, 0).sum(axis=1) for one in (near, ~near))
            met = Met(self.total + log_of(near_sum), self.expected.far(near), self.variances)
            far = FarRule.fitted(self.betas, met, self.total + log_of(far_sum))
            h = self.checking.h(self.some, self._found(far.log_sums(met)))
            errors = [h[one] - self.true[one] for one in self.checking.methods]
            fewest.append(min(map(carriers, errors)))
            if all(spread_of(one) <= error for one in errors):
                return _Chosen(least, far, min(fewest[-RULES_COMPARED:]))
        return None

    def _found(self, log_sums: Float64) -> Streamed:
        found: Found = dataclasses.replace(
            NOTHING_FOUND, log_sums=dict(zip(self.betas.tolist(), log_sums.T, strict=True))
        )
        return Streamed(found, NOTHING_FOUND)


def _fields(expected: Expected) -> tuple[np.ndarray, np.ndarray]:
    return expected.parts, expected.logs
