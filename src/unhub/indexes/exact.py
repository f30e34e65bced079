"""Exact search: score every item, tile by tile, so that the whole matrix of scores never exists."""

from __future__ import annotations

from typing import final

import numpy as np

from unhub.arrays import Float32, Float64, Kind, unit
from unhub.compute.nearest import BiasedQueries, nearest
from unhub.compute.workers import Progress, Resources
from unhub.data.ids import join_ids
from unhub.data.vectors import Gathered, Rows, Stacked, Vectors, check_range, take
from unhub.errors import ArgumentError
from unhub.indexes.index import InProcess, Positions

SMALL_PART_ROWS = 4096


@final
class Exact(InProcess):
    """An index that holds nothing but the items and their biases."""

    def __init__(
        self,
        items: Vectors,
        bias: Float64,
        similarity: Kind,
        settings: str = "",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if settings:
            raise ArgumentError("index", f"'exact' takes no settings, got {settings!r}", "write 'exact' alone")
        self._items, self.bias, self.similarity, self.threads = items, bias, similarity, threads

    @property
    def items(self) -> Vectors:
        """The items, in their order."""
        return self._items

    def find(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Positions | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Positions]:
        """Return scores and positions, (queries, k), best first; equal scores go to the lower position."""
        items = self.items if allowed is None else self.items.gather(allowed)
        bias = self.bias if allowed is None else self.bias[allowed]
        resources = Resources(self.threads, progress=progress)
        scores, places = nearest(BiasedQueries(queries, weights, bias), items, self.similarity, k, resources)
        return scores, places if allowed is None else np.where(places >= 0, allowed[places], -1)

    def scores_at(self, queries: Float32, weights: Float64, positions: Positions) -> Float32:
        """Return the scores of each query at its own positions, (queries, candidates)."""
        rows = np.asarray(take(self.items.rows, positions.ravel()), dtype=np.float32)
        rows = unit(rows) if self.items.want_scaling(0, len(self.items), self.similarity) else rows
        candidates = rows.reshape(*positions.shape, self.items.dimensions)
        products: Float32 = np.matmul(candidates, queries[:, :, None])[:, :, 0]
        with np.errstate(over="ignore"):
            scores = (products - weights[:, None] * self.bias[positions]).astype(np.float32)
        check_range(scores)
        return scores

    def add(self, items: Vectors, bias: Float64) -> None:
        """Add items after those it holds."""
        grown = self.grown(items, bias)
        self._items, self.bias = grown.items, grown.bias

    def drop(self, positions: Positions) -> None:
        """Drop items; those after them move up."""
        kept = np.delete(np.arange(len(self.items)), positions)
        rows = _gathered(self.items.rows, kept)
        self._items, self.bias = Vectors(self.items.ids[kept], rows).seen(self.items.unit_length), self.bias[kept]

    def grown(self, items: Vectors, bias: Float64) -> Exact:
        """Return an index of the items it holds, followed by these."""
        rows, unit_length = _stacked(self.items.rows, items.rows), self.items.unit_length and items.unit_length
        both = Vectors(join_ids(self.items.ids, items.ids), rows).seen(unit_length)
        return Exact(both, np.concatenate([self.bias, bias]), self.similarity, threads=self.threads)


# Rows stay a flat stack of parts, however often items are added and removed.


def _gathered(rows: Rows, kept: Positions) -> Rows:
    """Return some of the rows, in ascending order."""
    if isinstance(rows, Gathered):
        return Gathered(rows.rows, rows.positions[kept])
    if not isinstance(rows, Stacked):
        return Gathered(rows, kept)
    edges = np.searchsorted(kept, rows.starts)
    parts = [
        _gathered(part, kept[first:last] - start)
        for part, start, first, last in zip(rows.parts, rows.starts, edges, edges[1:], strict=False)
        if last > first
    ]
    return Stacked(parts)


def _stacked(rows: Rows, new: Rows) -> Rows:
    """Return the rows with new ones below; join small parts, so that many additions do not make many parts."""
    parts = [*rows.parts] if isinstance(rows, Stacked) else [rows]
    while len(parts) > 1 and parts[-1].shape[0] + new.shape[0] <= SMALL_PART_ROWS:
        new = np.concatenate([parts.pop()[:], new[:]])
    return Stacked([*parts, new])
