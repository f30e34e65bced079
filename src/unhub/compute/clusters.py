"""Clusters of the bank: each item meets exactly those that matter to its sum, and the others by their mean alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub import kernels
from unhub.arrays import Float32, Float64, Span, random_positions, spans
from unhub.compute.passes import TILE_ROWS, LogSums, Want, columns_per_tile, reduce
from unhub.compute.workers import Workers
from unhub.data.similarity import Dot
from unhub.data.vectors import Vectors

Positions = NDArray[np.int64]

# An assignment costs as much as meeting one cluster more for each (bank query / item), so clusters grow as sqrt(bank).
CLUSTERS_PER_ROOT = 1.25
TRAINING_ROWS = 32  # of the bank for each cluster: enough for a mean, and a small part of the final assignment
TRAINING_ROUNDS = 4  # chosen, not measured
GROUP_ITEMS = 1 << 17  # items at a time, so that what their clusters found stays small
CHOICE_ENTRIES = 1 << 21  # expected sums at a time


@dataclass(frozen=True, eq=False)
class Clusters:
    """The bank queries of each cluster, and the mean vector of each cluster."""

    members: list[Positions]
    means: Float32

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([len(one) for one in self.members], np.int64)


def cluster_count(bank: int) -> int:
    """Return a power of two near a multiple of the root of the bank."""
    return int(2 ** round(np.log2(CLUSTERS_PER_ROOT * np.sqrt(bank))))


def make_clusters(bank: Dot, count: int, seed: int, workers: Workers) -> Clusters:
    """Divide the bank queries by direction into at most so many clusters (spherical k-means on a sample)."""
    generator = np.random.default_rng(seed)
    queries = bank.query_vectors
    some = random_positions(len(queries), min(len(queries), TRAINING_ROWS * count), generator)
    training = _unit_rows(queries, some, bank)
    centres = training[random_positions(len(training), min(count, len(training)), generator)]
    for _ in range(TRAINING_ROUNDS):
        centres = _directions(training, _nearest_centre(as_rows(training), centres, bank, workers), centres)
    owner = _nearest_centre(queries, centres, bank, workers)
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=len(centres)))
    members = [one for one in np.split(order, ends[:-1]) if len(one)]
    means = np.stack([_unit_rows(queries, one, bank).mean(axis=0, dtype=np.float64) for one in members])
    return Clusters(members, means.astype(np.float32))


def as_rows(rows: Float32) -> Vectors:
    """Return prepared rows as vectors that need no scaling."""
    return Vectors(np.arange(len(rows)), rows).seen(unit_length=True)


def _unit_rows(vectors: Vectors, positions: Positions, like: Dot) -> Float32:
    return vectors.gather(positions).unit_block(0, len(positions), like.kind)


def _nearest_centre(queries: Vectors, centres: Float32, like: Dot, workers: Workers) -> NDArray[np.int32]:
    pairs = Dot(queries, as_rows(centres), like.kind, like.device)
    return reduce(pairs, Want(best_items=1), workers).best_items[:, 0]


def _directions(rows: Float32, owner: NDArray[np.int32], before: Float32) -> Float32:
    """Return the direction of the mean of each cluster; an empty one stays where it was."""
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=len(before))
    held = np.flatnonzero(counts)
    sums = np.add.reduceat(rows[order], (np.cumsum(counts) - counts)[held], axis=0)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    centres = before.copy()
    centres[held] = sums / np.maximum(lengths, np.finfo(np.float32).tiny)
    return centres


@dataclass(frozen=True, eq=False)
class Rule:
    """Which clusters an item meets: those that it expects to make up more than `least` of its sum, at any beta.

    A cluster is expected to add ratio * size * exp(beta * mean score), which stands for it if it is not met. betas and
    ratios: (betas,).
    """

    least: float
    betas: Float64
    ratios: Float64

    def expected(self, scores: Float32, sizes: Positions) -> Float64:
        """Return the logs of what clusters are expected to add, (items, clusters, betas), from the mean scores."""
        return np.asarray(scores[:, :, None] * self.betas + (np.log(sizes)[:, None] + np.log(self.ratios)))

    def chosen(self, expected: Float64) -> NDArray[np.bool_]:
        """Return which clusters each item meets, (items, clusters)."""
        return np.asarray((expected - log_sum(expected) > np.log(self.least)).any(axis=2))


def log_sum(logs: Float64) -> Float64:
    """Return the log-sum over the clusters, (items, 1, betas); -inf where there are none."""
    peak = np.maximum(logs.max(axis=1, keepdims=True), np.finfo(np.float64).min)
    with np.errstate(divide="ignore"):
        return np.asarray(peak + np.log(np.exp(logs - peak).sum(axis=1, keepdims=True)))


def mean_scores(pairs: Dot, items: Float32, clusters: Clusters) -> Float32:
    """Return the mean score of each cluster's queries, (items, clusters), for prepared items."""
    scores = np.empty((len(items), len(clusters.means)), np.float32)
    pairs.queries_by_items(items, clusters.means, scores)
    return scores


def cluster_log_sums(pairs: Dot, items: Float32, queries: Positions, betas: tuple[float, ...]) -> Float64:
    """Return log-sums of prepared items over some queries, (betas, items)."""
    columns = _unit_rows(pairs.query_vectors, queries, pairs)
    sums = LogSums(len(items), betas, pairs.bound, kernels.choose(pairs.device))
    for first, last in spans(len(columns), columns_per_tile(len(items))):
        for top, bottom in spans(len(items), TILE_ROWS):
            tile = np.empty((bottom - top, last - first), np.float32)
            pairs.items_by_queries(items[top:bottom], columns[first:last], tile)
            sums.add(tile, top, None)
    return sums.found()


def rule_log_sums(pairs: Dot, clusters: Clusters, rule: Rule, workers: Workers) -> Float64:
    """Return the log-sums of every item, (betas, items): one tile for each cluster and the items that meet it."""
    n, sizes, betas = pairs.shape[1], clusters.sizes, tuple(rule.betas.tolist())
    sums = np.empty((len(betas), n))

    def choose(span: Span) -> NDArray[np.int64]:
        scores = mean_scores(pairs, np.asarray(pairs.items(span), np.float32), clusters)
        expected = rule.expected(scores, sizes)
        chosen = rule.chosen(expected)
        expected[chosen] = -np.inf
        sums[:, slice(*span)] = log_sum(expected)[:, 0].T
        places, numbers = np.nonzero(chosen)
        return np.stack([span[0] + places, numbers], axis=1)

    def meet(job: tuple[int, Positions]) -> Float64:
        number, owners = job
        if len(owners) == 0:
            return np.empty((len(betas), 0))
        rows = _unit_rows(pairs.item_vectors, owners, pairs)
        found = cluster_log_sums(pairs, rows, clusters.members[number], betas)
        workers.tick(len(owners) * int(sizes[number]))
        return found

    for start, stop in spans(n, GROUP_ITEMS):
        rows = max(1, CHOICE_ENTRIES // (len(sizes) * len(betas)))
        met = np.concatenate(workers.map(choose, spans(stop, rows, start=start)))
        workers.total += int(sizes[met[:, 1]].sum()) + (stop - start) * len(sizes)
        items = met[np.argsort(met[:, 1], kind="stable"), 0]
        owners = np.split(items, np.cumsum(np.bincount(met[:, 1], minlength=len(sizes)))[:-1])
        for own, found in zip(owners, workers.map(meet, enumerate(owners)), strict=True):
            sums[:, own] = np.logaddexp(sums[:, own], found)
    return sums
