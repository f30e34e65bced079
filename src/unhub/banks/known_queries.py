"""Known queries: one that is a bank query written with other digits counts as that bank query.

A log in JSON holds vectors rounded to a few digits, and the queries of today come as float32 or float16. By their exact
numbers none of them would be in the bank, and a fit would be judged by queries that it was fitted on.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Kind, are_among, random_positions, rows_per_block, spans
from unhub.banks.distances import mean_row
from unhub.banks.repeats import NEAR, Positions
from unhub.banks.traffic import once
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Progress, Workers
from unhub.data.fingerprint import Hashes
from unhub.data.similarity import Dot
from unhub.data.vectors import Vectors
from unhub.matching import Matched

MOST_AT_FIRST = 20_000  # different queries; if none of so many is near a bank query, no further ones are compared


def with_known_queries(matched: Matched, threads: int | None = None, progress: Progress | None = None) -> Matched:
    """Return the same, where each query that nearly equals a bank query has the hash of the nearest one.

    Only queries that are not in the bank number for number are compared, each once, with all different bank queries.
    """
    if matched.queries is None:
        return matched
    asked, past = matched.hashes["queries"], matched.hashes["bank"]
    each = once(asked)
    new, rows = each[~are_among(asked[each], past)], once(past)
    workers = Workers(threads, progress=progress)
    first = new[random_positions(len(new), min(len(new), MOST_AT_FIRST), 0)]
    others = np.setdiff1d(new, first)
    bank = matched.bank.weighing(None).gather(rows)
    same: dict[int, int] = {}
    for some in (first, others):
        if len(some) and (same or some is first):
            same.update(_same(matched.queries.gather(some), bank, matched.kind, workers, asked[some], past[rows]))
    workers.finish()
    if not same:
        return matched
    return dataclasses.replace(matched, hashes={**matched.hashes, "queries": _renamed(asked, same)})


def _same(queries: Vectors, bank: Vectors, kind: Kind, workers: Workers, asked: Hashes, past: Hashes) -> dict[int, int]:
    """Return the hash of the nearest bank query by that of each query that nearly equals it.

    Near is a cosine of NEAR about the mean of the bank, and the same distance where lengths differ: in a space where
    all vectors point much the same way, different queries have a cosine above NEAR.
    """
    centre = mean_row(bank, kind).astype(np.float32)
    asking, past_rows = (
        Vectors(one.ids, _Placed(one, kind, centre, last)) for one, last in ((queries, False), (bank, True))
    )
    nearest = reduce(Dot(asking, past_rows, "dot"), Want(best_items=1), workers).best_items[:, 0].astype(np.int64)
    near = np.zeros(len(queries), bool)
    for start, stop in spans(len(queries), rows_per_block(queries.dimensions)):
        one = queries.unit_block(start, stop, kind) - centre
        each, back = np.unique(nearest[start:stop], return_inverse=True)
        other = (bank.gather(each).unit_block(0, len(each), kind) - centre)[back]
        lengths = np.sqrt(_squares(one) * _squares(other))
        near[start:stop] = _squares(one - other) <= 2 * (1 - NEAR) * lengths
    return dict(zip(asked[near].tolist(), past[nearest[near]].tolist(), strict=True))


def _squares(rows: Float32) -> Float32:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _renamed(asked: Hashes, same: dict[int, int]) -> Hashes:
    """Return the hashes of queries, with those of bank queries where they are the same."""
    own: Positions = np.argsort(np.fromiter(same, np.uint64, len(same)))
    known = np.fromiter(same, np.uint64, len(same))[own]
    names = np.fromiter(same.values(), np.uint64, len(same))[own]
    places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[places] == asked, names[places], asked)


class _Placed:
    """Rows as they are compared, minus a centre, with one more number: of a row and a query, the nearest has the
    largest product.

    Of bank queries (`past`) it is minus half the squared length, of queries it is 1.
    """

    def __init__(self, vectors: Vectors, kind: Kind, centre: Float32, past: bool) -> None:
        self.vectors, self.kind, self.centre, self.past = vectors, kind, centre, past
        self.shape, self.dtype = (len(vectors), vectors.dimensions + 1), np.dtype(np.float32)

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        start, stop, _ = key.indices(len(self.vectors))
        rows = self.vectors.unit_block(start, stop, self.kind) - self.centre
        last = -_squares(rows) / 2 if self.past else np.ones(len(rows), np.float32)
        return np.concatenate([rows, last[:, None]], axis=1)
