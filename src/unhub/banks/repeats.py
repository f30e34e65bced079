"""Repeats: join equal and nearly equal bank queries into one with a weight, as a log of queries needs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind, random_positions, rows_per_block, spans
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Progress, Workers
from unhub.data.fingerprint import Hashes, inspect
from unhub.data.similarity import check_similarity
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.methods.method import as_number

Positions = NDArray[np.int64]

# The power of a query's count that is its weight in logs and bank folders; docs/banks/repeats.md has the measurements.
TEMPER = 0.25
# From this cosine on, two queries are the same one. Rounding to 8 bits leaves a row above it. Of 20,000 captions in
# three spaces none were that near without being equal, of 17,000 docstrings three; above 0.99 it was up to 134.
NEAR = 0.999
BLOCK_ROWS = 1024
SAMPLE_ROWS = 4096  # to find the direction in which the rows differ most
ROUNDING = 1e-5  # of a projection


@shows_progress
def join_repeats(
    bank: VectorsLike,
    *,
    near: float = NEAR,
    temper: float = TEMPER,
    similarity: Kind = "cosine",
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Vectors:
    """Return a bank in which each query stands once, with weight count ** temper, in the order of the bank.

    Queries are the same if they are equal, or if one is within `near` of another that stands for both: a cosine, and
    under dot product the same distance relative to their lengths. The one asked most often stays, with its id; counts
    are sums of the weights, if the bank has any. near=1 joins only equal ones. temper: 1 keeps the counts, and a fit is
    that of the whole log; 0 gives every query weight 1.
    Equal queries are found by their hashes, in one read. Near ones need all different queries in memory and about
    m * m / 4 products for m of them, a block at a time.
    """
    progress = called(progress)
    check_similarity(similarity)
    for name, value, most in (("near", near, 1.0), ("temper", temper, np.inf)):
        number = as_number(value)
        if number is None or not 0 <= number <= most or number == np.inf:
            wanted = "a number from 0 to 1" if name == "near" else "a finite number of at least 0"
            raise ArgumentError(name, f"must be {wanted}, got {value!r}")
    queries, workers = as_vectors(bank, "bank"), Workers(threads)
    hashes, unit_length = inspect(queries, "bank", similarity, workers.spread)
    groups = equal_rows(hashes, queries.weights)
    if near < 1 and len(groups.firsts) > 1:
        rows = queries.seen(unit_length).gather(groups.firsts)
        groups = groups.joined(near_rows(rows, near, similarity, progress))
    order = np.argsort(groups.firsts, kind="stable")
    one = queries.again().weighing(None).gather(groups.firsts[order])
    return Vectors(one.ids, one.rows, groups.counts[order] ** float(temper))


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of the same queries: the position of the one that stands for each, and how much it counts."""

    firsts: Positions
    counts: Float64

    def joined(self, owners: Positions) -> Groups:
        """Return groups of these groups; owners: the number of the new group of each, (groups,)."""
        heaviest = np.lexsort((self.firsts, -self.counts, owners))  # the first of each owner stands for it
        starts = np.flatnonzero(np.diff(owners[heaviest], prepend=-1))
        counts = np.add.reduceat(self.counts[heaviest], starts)
        return Groups(self.firsts[heaviest[starts]], counts)


def equal_rows(hashes: Hashes, weights: Float64 | None = None) -> Groups:
    """Return the groups of rows with the same hash; the first row stands for each."""
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], hashes[order[1:]] != hashes[order[:-1]]]))
    counts = np.ones(len(hashes)) if weights is None else weights
    return Groups(order[starts], np.add.reduceat(counts[order], starts))


def near_rows(vectors: Vectors, near: float, kind: Kind, progress: Progress | None = None) -> Positions:
    """Return the number of the group of each row; every row is within `near` of the one that began its group.

    Rows are gone through in the order of their projection on the direction in which they differ most: two near rows
    are near there too, so that a row meets only those within reach before it.
    """
    rows, lengths = _ready(vectors, kind)
    places = rows @ _widest(rows)
    order = np.argsort(places, kind="stable")
    # |a - b|^2 is at most 2 (1 - near) |a| |b|, and the lengths of near rows differ by little.
    reach = np.sqrt(2 * (1 - near)) * float(lengths.max(initial=0)) + ROUNDING
    owners = np.full(len(rows), -1, np.int64)
    begun = np.empty(0, np.int64)  # rows that began a group, in order, as far as they are still within reach
    for start, stop in spans(len(rows), BLOCK_ROWS):
        block = order[start:stop]
        begun = begun[np.searchsorted(places[begun], places[block[0]] - reach) :]
        for first, last in spans(len(begun), BLOCK_ROWS):
            leaders = begun[first:last]
            alike = _alike(rows, lengths, block, leaders, near)
            found = alike.any(axis=1) & (owners[block] < 0)
            owners[block[found]] = owners[leaders[alike[found].argmax(axis=1)]]
        begun = np.concatenate([begun, _begin(block[owners[block] < 0], rows, lengths, near, owners)])
        if progress is not None:
            progress(stop, len(rows))
    return owners


def _begin(left: Positions, rows: Float32, lengths: Float32, near: float, owners: Positions) -> Positions:
    """Give rows that are near no group groups of their own, the first one first; return the rows that began one."""
    alike = _alike(rows, lengths, left, left, near)
    np.fill_diagonal(alike, True)
    if len(left) == np.count_nonzero(alike):
        owners[left] = left
        return left
    taken, begun = np.zeros(len(left), bool), []
    for place in range(len(left)):
        if not taken[place]:
            begun.append(place)
            mine = alike[place] & ~taken
            taken |= mine
            owners[left[mine]] = left[place]
    return left[np.array(begun, np.int64)]


def _alike(rows: Float32, lengths: Float32, some: Positions, others: Positions, near: float) -> NDArray[np.bool_]:
    """Return which rows are near which others: 2 a.b is at least |a|^2 + |b|^2 - 2 (1 - near) |a| |b|."""
    one, other = lengths[some][:, None], lengths[others]
    least = (one - other) ** 2 / 2 + near * one * other
    return np.asarray(rows[some] @ rows[others].T >= least)


def _ready(vectors: Vectors, kind: Kind) -> tuple[Float32, Float32]:
    """Return the rows as they are compared, and their lengths."""
    rows = np.empty((len(vectors), vectors.dimensions), np.float32)
    for start, stop in spans(len(vectors), rows_per_block(vectors.dimensions)):
        rows[start:stop] = vectors.unit_block(start, stop, kind)
    return rows, np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _widest(rows: Float32) -> Float32:
    """Return the direction, of length one, in which a sample of the rows differs most."""
    some = rows[random_positions(len(rows), min(len(rows), SAMPLE_ROWS), 0)].astype(np.float64)
    some -= some.mean(axis=0)
    return np.asarray(np.linalg.eigh(some.T @ some)[1][:, -1], np.float32)
