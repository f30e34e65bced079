"""Where vectors live: one file per engine, one line in INDEXES."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind
from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors
from unhub.indexes.exact import Exact
from unhub.indexes.faiss import Faiss


class Index(Protocol):
    """Items with their biases, searched by s(q, g) - weight(q) * bias(g)."""

    @property
    def items(self) -> Vectors:
        """The items it holds; positions count along them."""

    def search(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: NDArray[np.int64] | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, NDArray[np.int64]]:
        """Return scores and positions, (queries, k), best first and every place filled.

        Queries are ready to multiply; `allowed` are the only positions to return, rising; 1 <= k <= their number.
        """

    def add(self, items: Vectors, bias: Float64) -> None:
        """Put items after those it holds."""

    def remove(self, positions: NDArray[np.int64]) -> None:
        """Drop items; those after them move up."""


class Engine(Protocol):
    """What makes an index of items, from settings such as the `HNSW32` of `faiss:HNSW32`."""

    def __call__(
        self,
        items: Vectors,
        bias: Float64,
        similarity: Kind,
        settings: str = "",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Index: ...


INDEXES: Mapping[str, Engine] = {"exact": Exact, "faiss": Faiss}


def check_index(spec: object) -> None:
    """Raise a ValueError unless the spec is a text; what it says is read when the index is made."""
    if not isinstance(spec, str):
        raise ValueError(f"index must be a text such as 'exact' or 'faiss:HNSW32', got {spec!r}")


def parse(spec: str) -> tuple[Engine, str]:
    """Return the engine and the settings of a spec such as `exact` or `faiss:HNSW32;efSearch=256`."""
    check_index(spec)
    name, _, settings = spec.partition(":")
    if name not in INDEXES:
        near = difflib.get_close_matches(name, INDEXES, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown index {name!r}: the indexes are {', '.join(INDEXES)}{hint}")
    return INDEXES[name], settings
