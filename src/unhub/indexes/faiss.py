"""FAISS: any index that its factory can make, over the augmented vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind
from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.indexes.approximate import Approximate, share_found
from unhub.indexes.exact import Exact
from unhub.indexes.factory import (
    REFINE_FACTOR,
    check_training,
    grows,
    is_coded,
    is_refined,
    is_transformed,
    library,
    open_index,
    parameters_of,
    threads_of,
    training_sample,
)
from unhub.indexes.index import Positions
from unhub.indexes.stored import Stored

T = TypeVar("T")


def faiss_index(
    items: Vectors,
    bias: Float64,
    similarity: Kind,
    settings: str = "",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Approximate:
    """Return a FAISS index; settings are a factory string, then FAISS's own parameters: `IVF256,Flat;nprobe=32`.

    `Flat` ranks by inner product; every other index uses L2 on vectors of equal length, which keeps the recall of
    graphs and clusters. By default, efSearch is 128, nprobe is twice the square root of the number of clusters, and
    RFlat re-ranks 4 k candidates. An index of codes (PQ, SQ) stores the vectors rotated or as they are, whichever finds
    more in a sample of the items, and 4 k of its candidates are scored.
    """
    exact = Exact(items, bias, similarity, threads=threads)
    return Approximate(exact, partial(open_faiss, settings=settings), progress)


def open_faiss(exact: Exact, settings: str) -> Faiss:
    """Return a trained, empty FAISS index for these items."""
    plain = _trained(exact, settings, rotate=False)
    if not plain.coded or is_transformed(plain.index):
        return plain
    rotated = _trained(exact, settings, rotate=True)
    better = rotated if share_found(rotated, exact) > share_found(plain, exact) else plain
    better.index.reset()
    return better


def _trained(exact: Exact, settings: str, rotate: bool) -> Faiss:
    with threads_of(exact.threads):
        index, shape = open_index(settings, exact.items.dimensions, rotate)
    backend = Faiss(index, Stored.of(shape, exact.items, exact.bias, exact.similarity), settings, exact.threads)
    if not index.is_trained:
        check_training(index, len(exact.items), settings)
        places = training_sample(index, len(exact.items))
        block = exact.items.gather(places).unit_block(0, len(places), exact.similarity)
        backend.train(backend.stored.items(block, exact.bias[places]))
    return backend


@final
class Faiss:
    """A FAISS index as a backend; FAISS itself numbers places from 0 in the order vectors were added."""

    def __init__(self, index: Any, stored: Stored, settings: str, threads: int | None) -> None:
        self.index, self.stored, self.settings, self.threads = index, stored, settings, threads
        self.coded = is_coded(index)
        self.fetch_factor = REFINE_FACTOR if self.coded and not is_refined(index) else 1
        self.grows = grows(index)

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def train(self, vectors: Float32) -> None:
        """Learn clusters and codes from a sample of the vectors."""
        self._run(
            lambda: self.index.train(vectors),
            f"cannot be trained on {len(vectors)} items",
            "use fewer clusters or centroids, or the exact index, which needs no training",
        )

    def add(self, vectors: Float32) -> None:
        """Store vectors in the next places."""
        self._run(lambda: self.index.add(vectors), f"failed to add {len(vectors)} vectors")

    def find(self, vectors: Float32, k: int) -> Positions:
        """Return the places nearest to each vector, (vectors, k), -1 for none."""
        found = self._run(lambda: self.index.search(vectors, k), f"failed to search for the best {k}")
        return cast("Positions", found[1])

    def find_among(self, vectors: Float32, k: int, selected: NDArray[np.bool_]) -> Positions | None:
        """Return the same among selected places only, or None if this kind of index cannot filter."""
        try:
            selector = library().IDSelectorBitmap(np.packbits(selected, bitorder="little"))
            with threads_of(self.threads):
                return cast("Positions", self.index.search(vectors, k, params=parameters_of(self.index, selector))[1])
        except RuntimeError:
            return None

    def _run(self, work: Callable[[], T], failure: str, remedy: str = "") -> T:
        try:
            with threads_of(self.threads):
                return work()
        except RuntimeError as error:
            raise ArgumentError("index", f"'faiss:{self.settings}' {failure}: {error}", remedy) from error
