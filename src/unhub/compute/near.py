"""Near clusters of a bank: each item meets exactly those that matter to it, and the others count by their means."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub import kernels
from unhub.arrays import Float32, Float64, Span, spans
from unhub.compute.clusters import Clusters, Positions, unit_rows
from unhub.compute.passes import TILE_ROWS, LogSums, columns_per_tile
from unhub.compute.workers import Workers
from unhub.data.similarity import Dot

# Items at a time: as few as there is memory for, should each meet every cluster, and no fewer than make whole tiles.
MOST_GROUP_ITEMS, FEWEST_GROUP_ITEMS = 1 << 17, 1 << 12
PAIR_BYTES = 40  # of an item and a cluster that it meets: their numbers, twice, the order of these, and a sum
CHOICE_ENTRIES = 1 << 21  # expected parts at a time
# Scores within a cluster spread, which adds exp(beta**2 * variance / 2) if they are normal. At a high beta the largest
# ones matter most, and they are smaller than normal ones.
SPREAD_SHARE = 0.5
SMALLEST = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Expected:
    """What each cluster is expected to add to an item's sum: size * exp(beta * score of its mean + its spread).

    parts: (items, clusters, betas), as parts of what all of them add. logs: of that, (items, betas).
    """

    parts: Float32
    logs: Float64

    def near(self, least: float) -> NDArray[np.bool_]:
        """Return which clusters an item meets, (items, clusters): those that make up more than this, at any beta."""
        return np.asarray((self.parts > least).any(axis=2))

    def far(self, near: NDArray[np.bool_]) -> Float64:
        """Return the logs of what the other clusters are expected to add, (items, betas)."""
        return self.logs + log_of(np.where(near[:, :, None], 0, self.parts).sum(axis=1, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Met:
    """What some items found: logs of the sums over near clusters, and of what far ones are expected to add.

    near, far: (items, betas). variances: of an item's scores within a cluster, (items,).
    """

    near: Float64
    far: Float64
    variances: Float32

    def features(self, betas: Float64) -> Float64:
        """Return what tells how much far clusters add beyond what is expected, (items, betas, features).

        A score of variance v adds exp(beta**2 * v / 2) times as much as its mean, if it is normal.
        """
        known = np.logaddexp(self.near, self.far)
        share = np.maximum(self.far, known + np.log(SMALLEST)) - known
        return np.stack([np.ones_like(known), self.variances[:, None] * betas**2 / 2, share, known], axis=2)


@dataclass(frozen=True, eq=False)
class FarRule:
    """By how much far clusters add more than is expected of their means, fitted on items whose sums are known.

    coefficients: (betas, features), of the log of that ratio. lowest, highest: of the features, where it was fitted.
    """

    betas: Float64
    coefficients: Float64
    lowest: Float64
    highest: Float64

    @classmethod
    def fitted(cls, betas: Float64, met: Met, far: Float64) -> FarRule:
        """Fit the ratios on items whose far sums have these logs, (items, betas).

        Each item counts by the part of its sum that is far, since an error there moves its log-sum by so much.
        """
        features = met.features(betas)
        weights = np.exp(features[:, :, 2:3])
        known = np.isfinite(far) & np.isfinite(met.far)
        wanted = np.where(known, far - np.where(known, met.far, 0), 0)[:, :, None]
        weights *= known[:, :, None]
        solved = [
            np.linalg.lstsq((weights * features)[:, one], (weights * wanted)[:, one, 0], rcond=None)[0]
            for one in range(len(betas))
        ]
        return cls(betas, np.stack(solved), features.min(axis=0), features.max(axis=0))

    def log_sums(self, met: Met) -> Float64:
        """Return the log-sums over all clusters, (items, betas)."""
        features = np.clip(met.features(self.betas), self.lowest, self.highest)
        return np.asarray(np.logaddexp(met.near, met.far + (features * self.coefficients).sum(axis=2)))


def expect(pairs: Dot, items: Float32, clusters: Clusters, betas: Float64) -> Expected:
    """Return what clusters are expected to add to the sums of prepared items."""
    scores = np.empty((len(items), len(clusters.means)), np.float32)
    pairs.queries_by_items(items, clusters.means, scores)
    variances = np.outer(clusters.variances(items), clusters.widths)
    spreads = SPREAD_SHARE / 2 * variances[:, :, None] * betas.astype(np.float32) ** 2
    logs = scores[:, :, None] * betas.astype(np.float32) + np.log(clusters.sizes).astype(np.float32)[:, None] + spreads
    peak = logs.max(axis=1, keepdims=True)
    parts = np.exp(logs - peak)
    total = parts.sum(axis=1, keepdims=True)
    return Expected(parts / total, (peak[:, 0] + np.log(total[:, 0])).astype(np.float64))


class Scratch(threading.local):
    """A buffer of each thread, used again and again: new memory costs a third of a small tile's multiply."""

    def __init__(self) -> None:
        self.buffer = np.empty(0, np.float32)

    def array(self, rows: int, columns: int) -> Float32:
        """Return an array with any contents, which the next one overwrites."""
        if len(self.buffer) < rows * columns:
            self.buffer = np.empty(rows * columns, np.float32)
        return self.buffer[: rows * columns].reshape(rows, columns)


def cluster_log_sums(pairs: Dot, items: Float32, queries: Positions, betas: Float64, tiles: Scratch) -> Float64:
    """Return log-sums of prepared items over some queries, (betas, items)."""
    columns = unit_rows(pairs.query_vectors, queries, pairs)
    sums = LogSums(len(items), tuple(betas.tolist()), pairs.bound, kernels.choose(pairs.device))
    for first, last in spans(len(columns), columns_per_tile(len(items))):
        for top, bottom in spans(len(items), TILE_ROWS):
            tile = tiles.array(bottom - top, last - first)
            pairs.items_by_queries(items[top:bottom], columns[first:last], tile)
            sums.add(tile, top, None)
    return sums.found()


def meet(pairs: Dot, clusters: Clusters, betas: Float64, least: float, workers: Workers) -> Met:
    """Compute every item exactly against its near clusters: one tile for each cluster and the items that meet it."""
    room = workers.memory // (PAIR_BYTES * len(clusters.members))
    at_once = max(FEWEST_GROUP_ITEMS, min(MOST_GROUP_ITEMS, room))
    groups = [_meet_group(pairs, clusters, (betas, least), span, workers) for span in spans(pairs.shape[1], at_once)]
    parts = zip(*((one.near, one.far, one.variances) for one in groups), strict=True)
    return Met(*(np.concatenate(part) for part in parts))


def _meet_group(pairs: Dot, clusters: Clusters, rule: tuple[Float64, float], group: Span, workers: Workers) -> Met:
    (betas, least), sizes = rule, clusters.sizes
    items = np.asarray(pairs.items(group), np.float32)
    near = np.full((len(items), len(betas)), -np.inf)
    far = np.empty_like(near)
    rows, tiles = Scratch(), Scratch()

    def choose(span: Span) -> NDArray[np.int32]:
        expected = expect(pairs, items[slice(*span)], clusters, betas)
        chosen = expected.near(least)
        far[slice(*span)] = expected.far(chosen)
        places, numbers = np.nonzero(chosen)
        return np.stack([span[0] + places, numbers], axis=1).astype(np.int32)

    def add(job: tuple[int, NDArray[np.int32]]) -> Float64:
        number, owners = job
        own = np.take(items, owners, axis=0, out=rows.array(len(owners), items.shape[1]), mode="clip")
        found = cluster_log_sums(pairs, own, clusters.members[number], betas, tiles)
        workers.tick(len(owners) * int(sizes[number]))
        return found

    at_once = max(1, CHOICE_ENTRIES // (len(sizes) * len(betas)))
    met = np.concatenate(workers.map(choose, spans(len(items), at_once)))
    workers.total += int(sizes[met[:, 1]].sum()) + len(items) * len(sizes)
    by_cluster = met[np.argsort(met[:, 1], kind="stable"), 0]
    owners = np.split(by_cluster, np.cumsum(np.bincount(met[:, 1], minlength=len(sizes)))[:-1])
    jobs = [(number, own) for number, own in enumerate(owners) if len(own)]
    for (_, own), found in zip(jobs, workers.map(add, jobs), strict=True):
        near[own] = np.logaddexp(near[own], found.T)
    return Met(near, far, clusters.variances(items))


def log_of(values: Float64) -> Float64:
    """Return the logs of sums, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(values)
