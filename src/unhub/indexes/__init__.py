"""Indexes: search vectors in this process. One file per engine, one line in INDEXES."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from unhub.arrays import Float64, Kind
from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError, unknown
from unhub.indexes.exact import Exact
from unhub.indexes.faiss import faiss_index
from unhub.indexes.index import Changeable, Index, InProcess
from unhub.indexes.on_device import OnDevice


class Engine(Protocol):
    """Makes an index of items from settings, for example the `HNSW32` of `faiss:HNSW32`."""

    def __call__(
        self,
        items: Vectors,
        bias: Float64,
        similarity: Kind,
        settings: str = "",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> InProcess: ...


INDEXES: Mapping[str, Engine] = {"exact": Exact, "torch": OnDevice, "faiss": faiss_index}


def check_index(spec: object) -> None:
    """Raise an ArgumentError unless the spec is a text; it is parsed when the index is made."""
    if not isinstance(spec, str):
        raise ArgumentError("index", f"must be a text such as 'exact' or 'faiss:HNSW32', got {spec!r}")


def parse(spec: str) -> tuple[Engine, str]:
    """Return the engine and the settings of a spec such as `exact`, `torch:cuda` or `faiss:HNSW32;efSearch=256`."""
    check_index(spec)
    name, _, settings = spec.partition(":")
    if name not in INDEXES:
        raise unknown("index", name, INDEXES, "indexes")
    return INDEXES[name], settings


__all__ = ["INDEXES", "Changeable", "Engine", "InProcess", "Index", "check_index", "parse"]
