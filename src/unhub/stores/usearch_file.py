"""usearch files: an index as usearch saved it, mapped from disk; read and searched, never written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast, final

import numpy as np

from unhub.arrays import Float32, Ids, spans
from unhub.errors import optional
from unhub.stores.address import Address
from unhub.stores.file_store import FileStore, Places, found_at, nearest_among, places_of
from unhub.stores.store import BATCH_ROWS, Codes, Description, Metric, Nearest, Store, StoredItems, Where

METRICS: Mapping[str, Metric] = {"IP": "dot", "Cos": "cosine", "L2sq": "l2"}
CODES: Mapping[str, Codes] = {"F64": "none", "F32": "none", "F16": "float16", "BF16": "other", "I8": "int8"}
BYTE_SCALE = 127  # usearch scales a row to this length before it rounds it to bytes, whatever the metric
QUERIES_AT_ONCE = 256


def open_store(address: Address) -> Store:
    """Open `usearch:photos.usearch`."""
    address.check_options()
    optional("usearch.index", "usearch", "a usearch store")
    return UsearchFile(address, address.path)


@dataclass(frozen=True)
class MappedIndex:
    """A usearch index that is mapped from its file, its ids in increasing order, and the state of the file."""

    index: Any
    ids: Ids
    metric: str
    codes: str
    state: object


@final
class UsearchFile(FileStore):
    """A usearch file. In bytes (i8) rows have length one, so that every metric of usearch ranks by cosine."""

    engine: ClassVar[str] = "usearch"

    def __init__(self, address: Address, path: Path) -> None:
        super().__init__(address, path)
        self._read: MappedIndex | None = None

    def at(self, path: Path) -> UsearchFile:
        """Return the store of another file."""
        return UsearchFile(self.address, path)

    def describe(self) -> Description:
        """Return what it is: a graph of vectors or of shorter numbers, which are not scored again."""
        opened = self._opened()
        index, codes = opened.index, CODES[opened.codes]
        return Description(
            engine=self.engine,
            name=self.name,
            metric=_metric(opened),
            dimensions=int(index.ndim),
            count=len(opened.ids),
            index="hnsw",
            codes=codes,
            rescored=codes == "none",
            settings={
                "metric": opened.metric,
                "dtype": opened.codes,
                "connectivity": str(index.connectivity),
                "expansion_search": str(index.expansion_search),
            },
        )

    def batches(self, payload: bool = False, rows: int = BATCH_ROWS) -> Iterator[StoredItems]:
        """Yield every item by id; shorter numbers are widened."""
        opened = self._opened()
        for start, stop in spans(len(opened.ids), rows):
            places = np.arange(start, stop)
            yield StoredItems(opened.ids[places], _decoded(opened, places), [{} for _ in places] if payload else None)

    def fetch(self, ids: Ids) -> StoredItems:
        """Return those of these items that exist."""
        opened = self._opened()
        places = places_of(opened.ids, ids)
        return StoredItems(opened.ids[places], _decoded(opened, places))

    def search(
        self, queries: Float32, k: int, where: Where = None, among: Ids | None = None, effort: int | None = None
    ) -> Nearest:
        """Return the k nearest items of each query; effort is expansion_search."""
        opened = self._opened()
        self.check_search(queries, int(opened.index.ndim), where)
        metric = _metric(opened)
        if among is not None:
            places = np.unique(places_of(opened.ids, among))
            nearest = nearest_among(lambda some: _decoded(opened, some), places, queries, k, metric)
            return found_at(opened.ids, *nearest, metric)
        places, values = np.full((len(queries), k), -1), np.zeros((len(queries), k), np.float32)
        with _effort(opened.index, effort):
            for start, stop in spans(len(queries) if len(opened.ids) else 0, QUERIES_AT_ONCE):
                found = opened.index.search(np.ascontiguousarray(queries[start:stop], np.float32), k)
                # For one query usearch returns rows without the axis of queries, as long as what was found.
                counts = np.atleast_1d(getattr(found, "counts", len(found)))
                filled = np.arange(np.shape(found.keys)[-1]) < counts[:, None]
                keys = np.searchsorted(opened.ids, np.atleast_2d(found.keys).astype(np.int64))
                places[start:stop, : keys.shape[1]] = np.where(filled, keys, -1)
                distances = np.where(filled, np.atleast_2d(found.distances), 0)
                values[start:stop, : keys.shape[1]] = _values(opened, distances)
        return found_at(opened.ids, places, values, metric)

    def _opened(self) -> MappedIndex:
        """Return the index, opened again only if the file changed."""
        state = self.state()
        if self._read is None or self._read.state != state:
            self._read = self._load(state)
        return self._read

    def _load(self, state: object) -> MappedIndex:
        library = optional("usearch.index", "usearch", "a usearch store")
        try:
            about = library.Index.metadata(str(self.path))
            index = library.Index.restore(str(self.path), view=True) if about else None
        except (RuntimeError, ValueError):
            index = None
        if index is None:
            remedy = "name a file that Index.save of usearch wrote"
            raise self.failed("is not an index that usearch can read, or it is damaged", remedy)
        metric, codes = about["kind_metric"].name, about["kind_scalar"].name
        if metric not in METRICS or codes not in CODES:
            problem = f"its metric is {metric} and its numbers are {codes}"
            raise self.failed(problem, f"unhub takes the metrics {', '.join(METRICS)} of {', '.join(CODES)}")
        keys = np.asarray(index.keys)
        if len(keys) and keys.max() >= 1 << 63:
            raise self.failed("has ids of more than 63 bits", "use smaller ones")
        ids = np.sort(keys).astype(np.int64)
        if (np.diff(ids) == 0).any():
            raise self.failed("has several vectors under one id", "give each vector an id of its own")
        return MappedIndex(index, ids, metric, codes, state)


def _metric(opened: MappedIndex) -> Metric:
    return "cosine" if opened.codes == "I8" else METRICS[opened.metric]


def _decoded(opened: MappedIndex, places: Places) -> Float32:
    if not len(places):
        return np.empty((0, int(opened.index.ndim)), np.float32)
    rows = np.asarray(opened.index.get(opened.ids[places].astype(np.uint64)), np.float32)
    return cast("Float32", rows / np.float32(BYTE_SCALE)) if opened.codes == "I8" else rows


def _values(opened: MappedIndex, distances: Float32) -> Float32:
    """Return similarities, or squared distances under l2, from what usearch returns: 1 - s, or a squared distance."""
    if opened.codes != "I8" or opened.metric == "Cos":
        return distances if opened.metric == "L2sq" else 1 - distances
    if opened.metric == "L2sq":
        return 1 - distances / np.float32(2 * BYTE_SCALE**2)
    return (1 - distances) / np.float32(BYTE_SCALE**2)


@contextmanager
def _effort(index: Any, effort: int | None) -> Iterator[None]:
    """Let the graph look at this many items inside the `with` block."""
    before = index.expansion_search
    index.expansion_search = effort or before
    try:
        yield
    finally:
        index.expansion_search = before
