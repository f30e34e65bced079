"""FAISS: any index that its factory can make, over the augmented vectors."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind, are_ordinary, rows_per_block, spans
from unhub.compute.workers import Progress
from unhub.data.vectors import HARMLESS, LARGEST, Vectors
from unhub.indexes.exact import Exact
from unhub.indexes.factory import (
    REFINED,
    errors_of,
    is_coded,
    is_refined,
    is_transformed,
    library,
    open_index,
    parts_of,
    plain_factory,
    set_parameters,
    threads_of,
    training_sample,
)
from unhub.layouts import Form, Layout, longest, squared_lengths

FEW = 0.1  # a graph walks past what it may not return: below this share of allowed items, exact search is as fast
OVERFETCH = 4  # times k, from an index that cannot filter
COMPARED_ITEMS, COMPARED_QUERIES, COMPARED_PLACES = 4096, 256, 10  # to see which form of the vectors its codes keep
QUERY_BYTES = 32 << 20  # of candidates' rows at a time
UNLIKE = 1e3  # times longer or shorter than the items: such queries are scaled, or their products drown in the squares


@dataclass(frozen=True)
class Stored:
    """How FAISS is given vectors: biases are multiplied by `ratio` and weights divided by it, items have one length."""

    layout: Layout
    ratio: float
    radius: float

    @property
    def scale(self) -> float:
        """What everything stored is multiplied by: any one length gives the same order.

        Squared distances leave the range of float32 before products do, and FAISS aborts the whole process.
        """
        ordinary = are_ordinary(np.array([min(self.radius, LARGEST)], np.float32))
        return 1.0 if self.layout.form == "ip" or ordinary else 1 / self.radius

    def items(self, block: Float32, bias: Float64) -> Float32:
        """Return what to hold of these items: scaled before it becomes float32, which may not hold the radius."""
        scale = self.scale
        if scale != 1:
            block = (block.astype(np.float64) * scale).astype(np.float32)
        return self.layout.items(block, self.ratio * scale * bias, self.radius * scale)

    def queries(self, queries: Float32, weights: Float64) -> Float32:
        """Return augmented queries, near in length to what is stored where that is compared by distance."""
        if self.layout.form == "ip":
            return self.layout.queries(queries, weights)
        weights = weights / self.ratio
        lengths = np.sqrt(squared_lengths(queries, weights))
        stored = self.radius * self.scale
        unlike = (lengths > UNLIKE * stored) | ((lengths < stored / UNLIKE) & (lengths > 0))
        factors = np.where(unlike, stored / np.where(unlike, lengths, 1.0), 1.0)
        if unlike.any():
            queries = (queries * factors[:, None]).astype(np.float32)
        return self.layout.queries(queries, weights * factors)


class Faiss:
    """Settings are a factory string, then FAISS's own parameters: `HNSW32`, `IVF256,Flat;nprobe=32`.

    `Flat` ranks by inner product; every other index gets vectors of one length and L2, which keep the recall of graphs
    and clusters. Scores are computed from the items themselves, so no quantiser's rounding shows in them. Without
    parameters efSearch is 128, nprobe twice the square root of the number of clusters, and RFlat looks at 4 k again.
    An index of codes (PQ, SQ) gets the vectors rotated or as they are, whichever finds more in a sample of the items,
    and 4 k of what it finds are scored.
    What the index may leave out (removed items, items not allowed) never takes a place: a query that comes back short
    is answered exactly.
    """

    def __init__(
        self,
        items: Vectors,
        bias: Float64,
        similarity: Kind,
        settings: str = "",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.exact = Exact(items, bias, similarity, threads=threads)
        self.settings, self.threads = settings, threads
        self._build(progress)

    @property
    def items(self) -> Vectors:
        return self.exact.items

    def _build(self, progress: Progress | None = None) -> None:
        """Make the index anew from the items at hand; what was there stays if that fails."""
        given, _, parameters = self.settings.partition(";")
        factory = plain_factory(given)
        form: Form = "ip" if factory == "Flat" else "l2"
        index, stored = self._trained(factory, form, parameters, rotate=False)
        coded = is_coded(index)
        if coded and not is_transformed(index):
            turned = self._trained(factory, form, parameters, rotate=True)
            if self._found_again(*turned) > self._found_again(index, stored):
                index, stored = turned
        self._store(index, stored, 0, progress)
        self._index, self.stored = index, stored
        self._fetched = REFINED if coded and not is_refined(index) else 1
        self.positions = np.arange(len(self.items))
        self._whole = True

    def _trained(self, factory: str, form: Form, parameters: str, rotate: bool) -> tuple[Any, Stored]:
        """Return an index that holds nothing yet, and how it is to be given the items."""
        with errors_of(self.settings), threads_of(self.threads):
            index, width = open_index(factory, self.items.dimensions, form)
            set_parameters(index, parameters)
            layout = Layout.of(self.items.dimensions, form, rotate, pad_to=width)
            ratio = self._ratio(form)
            stored = Stored(layout, ratio, layout.radius(self.items, ratio * self.exact.bias, self.exact.similarity))
            if not index.is_trained:
                index.train(self._vectors_at(training_sample(index, len(self.items)), stored))
        return index, stored

    def _vectors_at(self, places: NDArray[np.int64], stored: Stored) -> Float32:
        """Return the vectors to store for the items at these places."""
        block = self.items.gather(places).unit_block(0, len(places), self.exact.similarity)
        return stored.items(block, self.exact.bias[places])

    def _found_again(self, index: Any, stored: Stored) -> float:
        """Return which share of the best of some items a trained index finds, where some of them ask; it is emptied."""
        drawn = np.random.default_rng(0).permutation(len(self.items))[:COMPARED_ITEMS]
        some = Exact(self.items.gather(drawn), self.exact.bias[drawn], self.exact.similarity, threads=self.threads)
        asked = some.items.unit_block(0, min(COMPARED_QUERIES, len(drawn)), self.exact.similarity)
        weights, k = np.ones(len(asked)), min(COMPARED_PLACES, len(drawn))
        _, right = some.search(asked, weights, k)
        with errors_of(self.settings), threads_of(self.threads):
            index.add(self._vectors_at(drawn, stored))
            found = index.search(stored.queries(asked, weights), k)[1]
            index.reset()
        return float(np.mean([np.isin(one, other).mean() for one, other in zip(right, found, strict=True)]))

    def _ratio(self, form: Form) -> float:
        """Return what biases are multiplied by, and weights divided: then h is no longer than the vectors, nor w.

        Dot products grow with the square of the lengths, and h with them: distances would hold nothing but h.
        """
        largest = float(np.abs(self.exact.bias).max())
        if form == "ip" or self.exact.similarity == "cosine" or largest == 0:
            return 1.0
        return longest(self.items, np.zeros(len(self.items)), "dot") / largest or 1.0

    def _store(self, index: Any, stored: Stored, first: int, progress: Progress | None = None) -> None:
        """Hand the items from `first` on to FAISS."""
        step = rows_per_block(stored.layout.width) if _grows(index) else len(self.items)
        for start, stop in spans(len(self.items), step, start=first):
            block = self.items.unit_block(start, stop, self.exact.similarity)
            with errors_of(self.settings), threads_of(self.threads):
                index.add(stored.items(block, self.exact.bias[start:stop]))
            if progress is not None:
                progress(stop - first, len(self.items) - first)

    def add(self, items: Vectors, bias: Float64) -> None:
        """Put items after those it holds; one over the radius makes all be stored anew.

        Whatever stops it half-way, such as a lack of memory, leaves the items, and the answers, as they were.
        """
        first, before = len(self.items), (self.exact.items, self.exact.bias)
        self.exact.add(items, bias)
        try:
            too_long = longest(items, self.stored.ratio * bias, self.exact.similarity) > self.stored.radius
            if not self._whole or not _grows(self._index) or too_long:
                self._build()
            else:
                self._grow(first)
        except BaseException:
            self.exact.items, self.exact.bias = before
            raise

    def _grow(self, first: int) -> None:
        """Hand the items from `first` on to the index there is; what was stored before a failure is passed over."""
        try:
            self._store(self._index, self.stored, first)
        except BaseException:
            stored = self._index.ntotal - len(self.positions)
            self.positions = np.concatenate([self.positions, np.full(stored, -1)])
            self._whole = False  # FAISS may have stored a row that its graph or clusters do not know
            raise
        self.positions = np.concatenate([self.positions, np.arange(first, len(self.items))])

    def remove(self, positions: NDArray[np.int64]) -> None:
        """Drop items: their places in FAISS, which a graph cannot free, are passed over until half of all are such."""
        moved = np.full(len(self.items) + 1, -1)
        kept = np.delete(np.arange(len(self.items)), positions)
        moved[kept] = np.arange(len(kept))
        self.exact.remove(positions)
        self.positions = moved[self.positions]  # -1 stays -1: it looks up the last entry
        if 2 * len(self.items) < len(self.positions):
            # Too few may be left to train on, or too little memory: what was made of more items serves them.
            with contextlib.suppress(ValueError, MemoryError):
                self._build()

    def search(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: NDArray[np.int64] | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, NDArray[np.int64]]:
        """Return scores and positions, (queries, k), best first."""
        few = allowed is not None and len(allowed) < FEW * len(self.items)
        if few or self._may_overflow(weights):
            return self.exact.search(queries, weights, k, allowed, progress)
        scores = np.empty((len(queries), k), np.float32)
        found = np.empty((len(queries), k), np.int64)
        step = max(1, min(1024, QUERY_BYTES // (4 * self._fetched * k * self.items.dimensions)))
        for start, stop in spans(len(queries), step):
            here = slice(start, stop)
            scores[here], found[here] = self._answer(queries[here], weights[here], k, allowed)
            if progress is not None:
                progress(stop, len(queries))
        return scores, found

    def _may_overflow(self, weights: Float64) -> bool:
        """Whether corrected scores, which an index of inner products computes, may leave float32."""
        reach = (
            np.abs(weights).max(initial=0) * np.abs(self.exact.bias).max() if self.stored.layout.form == "ip" else 0.0
        )
        return bool(reach > HARMLESS)

    def _answer(
        self, queries: Float32, weights: Float64, k: int, allowed: NDArray[np.int64] | None
    ) -> tuple[Float32, NDArray[np.int64]]:
        fetched = min(self._fetched * k, len(self.positions))
        candidates = self._candidates(self.stored.queries(queries, weights), max(k, fetched), allowed)
        scores = self.exact.scores_at(queries, weights, np.maximum(candidates, 0))
        scores[candidates < 0] = -np.inf
        order = np.lexsort((candidates, -scores))[:, :k]
        scores, found = np.take_along_axis(scores, order, axis=1), np.take_along_axis(candidates, order, axis=1)
        short = np.flatnonzero((found < 0).any(axis=1))
        if len(short):
            scores[short], found[short] = self.exact.search(queries[short], weights[short], k, allowed)
        return scores, found

    def _candidates(self, vectors: Float32, k: int, allowed: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the positions FAISS finds for augmented queries, (queries, k or more), -1 where it finds none."""
        if allowed is None and len(self.positions) == len(self.items):
            with errors_of(self.settings), threads_of(self.threads):
                return cast("NDArray[np.int64]", self._index.search(vectors, k)[1])
        wanted = np.zeros(len(self.items) + 1, np.bool_)
        wanted[slice(len(self.items)) if allowed is None else allowed] = True
        try:
            with threads_of(self.threads):
                slots = self._index.search(vectors, k, params=_filtering(self._index, wanted[self.positions]))[1]
        except RuntimeError:  # this kind of index cannot filter
            with errors_of(self.settings), threads_of(self.threads):
                slots = self._index.search(vectors, min(OVERFETCH * k, len(self.positions)))[1]
        places = np.where(slots < 0, -1, self.positions[slots])
        return np.where(wanted[places], places, -1)


def _grows(index: Any) -> bool:
    """Whether items can be added in parts; these graphs are made in one go."""
    at_once = library().IndexNSG | library().IndexNNDescent
    return not any(isinstance(part, at_once) for part in parts_of(index))


def _filtering(index: Any, selected: NDArray[np.bool_]) -> object:
    """Return search parameters that keep the index to these of its places, at the effort it is set to."""
    faiss = library()
    selector = faiss.IDSelectorBitmap(np.packbits(selected, bitorder="little"))

    def within(part: Any) -> object:
        part = faiss.downcast_index(part)
        if isinstance(part, faiss.IndexPreTransform):
            return faiss.SearchParametersPreTransform(index_params=within(part.index))
        if isinstance(part, faiss.IndexRefine):
            return faiss.IndexRefineSearchParameters(k_factor=part.k_factor, base_index_params=within(part.base_index))
        if isinstance(part, faiss.IndexIVF):
            return faiss.SearchParametersIVF(sel=selector, nprobe=part.nprobe)
        if isinstance(part, faiss.IndexHNSW):
            return faiss.SearchParametersHNSW(sel=selector, efSearch=part.hnsw.efSearch)
        return faiss.SearchParameters(sel=selector)

    return within(index)
