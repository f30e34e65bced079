"""Approximate: wrap an approximate engine so that its answers are exact in everything but recall.

Candidates are scored from the items themselves; places of removed items are skipped; an engine that cannot filter is
asked for more; and what it cannot answer well is answered by exact search.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, rows_per_block, spans
from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors
from unhub.indexes.exact import Exact
from unhub.indexes.index import InProcess, Positions
from unhub.indexes.stored import Stored

# A graph must walk through items it may not return: below this share of allowed items, exact search is as fast.
EXACT_SHARE = 0.1
OVERFETCH_FACTOR = 4  # times k, fetched from an engine that cannot filter
CANDIDATE_BYTES = 32 << 20  # of candidate rows at a time
BATCH_QUERIES = 1024
SAMPLE_ITEMS, SAMPLE_QUERIES, SAMPLE_PLACES = 4096, 256, 10  # to measure how much an engine finds


class Backend(Protocol):
    """The interface of an engine: augmented vectors in places, numbered from 0 in the order they were added.

    stored: the form of the vectors it receives. fetch_factor: how many times k of its candidates are worth scoring.
    grows: whether vectors may be added in parts and later; an engine that does not grow is built in one go.
    """

    @property
    def stored(self) -> Stored: ...
    @property
    def fetch_factor(self) -> int: ...
    @property
    def grows(self) -> bool: ...
    def __len__(self) -> int:
        """Return how many places there are, including those that an interrupted `add` left behind."""

    def add(self, vectors: Float32) -> None:
        """Store vectors in the next places."""

    def find(self, vectors: Float32, k: int) -> Positions:
        """Return the places nearest to each vector, (vectors, k), -1 for none."""

    def find_among(self, vectors: Float32, k: int, selected: NDArray[np.bool_]) -> Positions | None:
        """Return the same among `selected` places, (places,), only; None if the engine cannot filter."""


Opener: TypeAlias = Callable[[Exact], Backend]  # makes a trained, empty engine for the items of an exact index


@final
class Approximate(InProcess):
    """An engine over augmented vectors, together with the exact index of the same items.

    Removed items and items that are not allowed never take a place in the results: a query with too few is answered
    exactly.
    """

    def __init__(self, exact: Exact, opener: Opener, progress: Progress | None = None) -> None:
        self.exact, self._open = exact, opener
        self._build(progress)

    @property
    def items(self) -> Vectors:
        """The items, in their order."""
        return self.exact.items

    def _build(self, progress: Progress | None = None) -> None:
        """Build a new engine from the current items; the old one stays if that fails."""
        backend = self._open(self.exact)
        self._store(backend, 0, progress)
        self.backend = backend
        self.positions = np.arange(len(self.items))  # of the item in each place, -1 for none
        self._whole = True

    def _store(self, backend: Backend, first: int, progress: Progress | None = None) -> None:
        """Add the items from `first` on to an engine."""
        step = rows_per_block(backend.stored.shape.width) if backend.grows else len(self.items)
        for start, stop in spans(len(self.items), step, start=first):
            block = self.items.unit_block(start, stop, self.exact.similarity)
            backend.add(backend.stored.items(block, self.exact.bias[start:stop]))
            if progress is not None:
                progress(stop - first, len(self.items) - first)

    def add(self, items: Vectors, bias: Float64) -> None:
        """Add items after those it holds; if one is too long for the layout, all are stored again.

        If it is interrupted, for example by a lack of memory, the items and the answers stay as they were.
        """
        before = self.exact
        self.exact = before.grown(items, bias)
        try:
            fits = self.backend.stored.fits(items, bias, self.exact.similarity)
            if self._whole and self.backend.grows and fits:
                self._grow(len(before.items))
            else:
                self._build()
        except BaseException:
            self.exact = before
            raise

    def _grow(self, first: int) -> None:
        """Add the items from `first` on to the engine; what it stored before a failure is skipped."""
        try:
            self._store(self.backend, first)
        except BaseException:
            stored = len(self.backend) - len(self.positions)
            self.positions = np.concatenate([self.positions, np.full(stored, -1)])
            self._whole = False  # the engine may hold a row that its graph or clusters lack
            raise
        self.positions = np.concatenate([self.positions, np.arange(first, len(self.items))])

    def drop(self, positions: Positions) -> None:
        """Drop items; their places, which a graph cannot free, are skipped until they are half of all."""
        moved = np.full(len(self.items) + 1, -1)
        kept = np.delete(np.arange(len(self.items)), positions)
        moved[kept] = np.arange(len(kept))
        self.exact.drop(positions)
        self.positions = moved[self.positions]  # -1 stays -1: it indexes the last entry
        if 2 * len(self.items) < len(self.positions):
            # Too few items may be left to train on, or too little memory: the larger engine still serves them.
            with contextlib.suppress(ValueError, MemoryError):
                self._build()

    def find(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Positions | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Positions]:
        """Return scores and positions, (queries, k), best first."""
        few = allowed is not None and len(allowed) < EXACT_SHARE * len(self.items)
        if few or self.backend.stored.may_overflow(weights, self.exact.bias):
            return self.exact.find(queries, weights, k, allowed, progress)
        scores = np.empty((len(queries), k), np.float32)
        found = np.empty((len(queries), k), np.int64)
        row_bytes = 4 * self.backend.fetch_factor * k * self.items.dimensions
        for start, stop in spans(len(queries), max(1, min(BATCH_QUERIES, CANDIDATE_BYTES // row_bytes))):
            here = slice(start, stop)
            scores[here], found[here] = self._answer(queries[here], weights[here], k, allowed)
            if progress is not None:
                progress(stop, len(queries))
        return scores, found

    def _answer(
        self, queries: Float32, weights: Float64, k: int, allowed: Positions | None
    ) -> tuple[Float32, Positions]:
        fetched = min(self.backend.fetch_factor * k, len(self.positions))
        candidates = self._candidates(self.backend.stored.queries(queries, weights), max(k, fetched), allowed)
        scores = self.exact.scores_at(queries, weights, np.maximum(candidates, 0))
        scores[candidates < 0] = -np.inf
        order = np.lexsort((candidates, -scores))[:, :k]
        scores, found = np.take_along_axis(scores, order, axis=1), np.take_along_axis(candidates, order, axis=1)
        short = np.flatnonzero((found < 0).any(axis=1))
        if len(short):
            scores[short], found[short] = self.exact.find(queries[short], weights[short], k, allowed)
        return scores, found

    def _candidates(self, vectors: Float32, k: int, allowed: Positions | None) -> Positions:
        """Return the positions the engine finds for augmented queries, (queries, k or more), -1 for none."""
        if allowed is None and len(self.positions) == len(self.items):
            return self.backend.find(vectors, k)
        wanted = np.zeros(len(self.items) + 1, np.bool_)  # the last entry stands for places without an item
        wanted[slice(len(self.items)) if allowed is None else allowed] = True
        places = self.backend.find_among(vectors, k, wanted[self.positions])
        if places is None:
            places = self.backend.find(vectors, min(OVERFETCH_FACTOR * k, len(self.positions)))
        found = np.where(places < 0, -1, self.positions[places])
        return np.where(wanted[found], found, -1)


def share_found(backend: Backend, exact: Exact) -> float:
    """Fill an empty engine with a sample of items and return its recall, with some of them as queries.

    For an engine that stores codes, this tells which form of the vectors the codes preserve better.
    """
    drawn = np.random.default_rng(0).permutation(len(exact.items))[:SAMPLE_ITEMS]
    some = Exact(exact.items.gather(drawn), exact.bias[drawn], exact.similarity, threads=exact.threads)
    asked = some.items.unit_block(0, min(SAMPLE_QUERIES, len(drawn)), exact.similarity)
    weights, k = np.ones(len(asked)), min(SAMPLE_PLACES, len(drawn))
    _, right = some.find(asked, weights, k)
    rows = some.items.unit_block(0, len(drawn), exact.similarity)
    backend.add(backend.stored.items(rows, some.bias))
    found = backend.find(backend.stored.queries(asked, weights), k)
    return float(np.mean([np.isin(one, other).mean() for one, other in zip(right, found, strict=True)]))
