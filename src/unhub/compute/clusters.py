"""Clusters of the bank queries by direction, and how their scores spread around that of their mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, random_positions, unit
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Workers
from unhub.data.similarity import Dot
from unhub.data.vectors import Vectors, take

Positions = NDArray[np.int64]

# With more clusters, those that an item meets are smaller; but every item meets the means of all, which bounds their
# number by the root of the bank, and every bank query is compared with all, which bounds it by the number of items.
CLUSTERS_PER_ROOT, ITEMS_PER_CLUSTER = 1.25, 32
TRAINING_ROWS = 32  # of the bank for each cluster: enough for a mean, and a small part of the final assignment
TRAINING_ROUNDS = 4  # chosen, not measured


@dataclass(frozen=True, eq=False)
class Clusters:
    """The bank queries of each cluster, the mean of each, and the scatter of queries around their means.

    scatter: (d, d), the mean outer product of a query less the mean of its cluster, over all clusters.
    widths: (clusters,), the mean square distance of a query from the mean of its cluster; 1 on average.
    """

    members: list[Positions]
    means: Float32
    scatter: Float32
    widths: Float32

    @property
    def sizes(self) -> Positions:
        return np.array([len(one) for one in self.members], np.int64)

    def variances(self, items: Float32) -> Float32:
        """Return the variance of each item's scores within a cluster, (items,), as far as clusters are alike."""
        return np.asarray(np.einsum("ij,ij->i", items @ self.scatter, items))


def cluster_count(items: int, bank: int) -> int:
    """Return how many clusters cost little beside what they save: a power of two."""
    return int(2 ** round(np.log2(max(1, min(CLUSTERS_PER_ROOT * np.sqrt(bank), items / ITEMS_PER_CLUSTER)))))


def make_clusters(bank: Dot, count: int, seed: int, workers: Workers) -> Clusters:
    """Divide the bank queries by direction into at most so many clusters (spherical k-means on a sample)."""
    generator = np.random.default_rng(seed)
    queries = bank.query_vectors
    some = random_positions(len(queries), min(len(queries), TRAINING_ROWS * count), generator)
    training = unit_rows(queries, some, bank)
    centres = training[random_positions(len(training), min(count, len(training)), generator)]
    for _ in range(TRAINING_ROUNDS):
        centres = _directions(training, _nearest_centre(_as_vectors(training), centres, bank, workers), centres)
    owner = _nearest_centre(queries, centres, bank, workers)
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=len(centres)))
    members = [one for one in np.split(order, ends[:-1]) if len(one)]

    def mean_and_width(own: Positions) -> tuple[Float32, float]:
        rows = unit_rows(queries, own, bank)
        mean = rows.mean(axis=0)
        return mean, float(np.vdot(rows, rows)) / len(rows) - float(mean @ mean)

    found = workers.map(mean_and_width, members)
    means = np.stack([mean for mean, _ in found])
    widths = np.maximum([width for _, width in found], 0).astype(np.float32)
    middle = np.average(widths, weights=[len(own) for own in members])
    numbers = np.empty(len(queries), np.int64)
    for number, own in enumerate(members):
        numbers[own] = number
    apart = training - means[numbers[some]]
    scatter = np.asarray(apart.T @ apart / np.float32(len(apart)), np.float32)
    return Clusters(members, means, scatter, widths / np.float32(middle) if middle else np.ones_like(widths))


def unit_rows(vectors: Vectors, positions: Positions, like: Dot) -> Float32:
    """Return the vectors at these positions, ready to multiply; their ids, which take as long, are left alone."""
    rows = np.ascontiguousarray(take(vectors.rows, positions), np.float32)
    return unit(rows) if like.kind == "cosine" and not vectors.unit_length else rows


def _as_vectors(rows: Float32) -> Vectors:
    """Return prepared rows as vectors that need no scaling."""
    return Vectors(np.arange(len(rows)), rows).seen(unit_length=True)


def _nearest_centre(queries: Vectors, centres: Float32, like: Dot, workers: Workers) -> NDArray[np.int32]:
    pairs = Dot(queries, _as_vectors(centres), like.kind, like.device)
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
