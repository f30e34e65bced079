"""FAISS files: an index as FAISS writes it, with ids of its own, of a file beside it, or 0 to n - 1."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, cast, final

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Ids, rows_per_block, spans
from unhub.atomic import replacing
from unhub.compute.workers import Progress
from unhub.data.ids import as_ids, read_lines
from unhub.data.vectors import as_plain, as_texts
from unhub.errors import ArgumentError
from unhub.indexes.factory import (
    check_training,
    is_coded,
    is_refined,
    library,
    parameters_of,
    threads_of,
    training_sample,
)
from unhub.stores.address import Address
from unhub.stores.faiss_kinds import (
    codes_of,
    factory_of,
    is_decodable,
    kind_of_index,
    labels_of,
    metric_of,
    settings_of,
)
from unhub.stores.file_store import FileStore, found_at, nearest_among, places_of
from unhub.stores.store import (
    BATCH_ROWS,
    Description,
    Metric,
    Nearest,
    Store,
    StoredItems,
    Where,
    joined_ids,
)

IDS_ENDING = ".ids.json"  # text ids of an index that unhub wrote stand beside it
NORMALISED = "L2norm,"  # what makes inner products cosines, in a factory string
UNREADABLE = "it cannot give its vectors back"


def open_store(address: Address) -> Store:
    """Open `faiss:photos.index` or `faiss:photos.index?ids=ids.txt`."""
    address.check_options("ids")
    library()
    ids = address.option("ids")
    return FaissFile(address, address.path, Path(ids) if ids else None)


@dataclass(frozen=True)
class IndexFile:
    """An index in memory. `index` is without its map of ids; `labels` are what it calls its items, `ids` what we do."""

    index: Any
    labels: NDArray[np.int64]
    ids: Ids
    kept: tuple[object, object]  # the whole index, which owns its parts, and the state of the file


@dataclass
class Spool:
    """Items to be indexed: rows in a temporary file, which training and adding read in blocks."""

    dimensions: int
    factory: str
    metric: Metric
    rows: IO[bytes]
    ids: list[Ids]


@final
class FaissFile(FileStore):
    """An index file. A new one is spooled, and appears when it is finished."""

    engine: ClassVar[str] = "faiss"
    changes: ClassVar[bool] = False

    def __init__(self, address: Address, path: Path, ids_path: Path | None = None) -> None:
        super().__init__(address, path)
        self.ids_path = ids_path
        self._read: IndexFile | None = None
        self._spool: Spool | None = None

    # Reading

    def at(self, path: Path) -> FaissFile:
        """Return the store of another file."""
        return FaissFile(self.address, path)

    def read_by(self) -> dict[str, str]:
        """Return the file of ids, as seen from the folder of the index."""
        return {} if self.ids_path is None else {"ids": os.path.relpath(self.ids_path, self.path.parent)}

    def read_as(self, told: Mapping[str, str]) -> FaissFile:
        """Return the store with the file of ids that was told, unless it has one."""
        if self.ids_path is not None or "ids" not in told:
            return self
        return FaissFile(self.address, self.path, self.path.parent / told["ids"])

    def describe(self) -> Description:
        """Return what it is. Inner products of rows that the index scales to length one are cosines."""
        index = self._opened().index
        return Description(
            engine=self.engine,
            name=self.name,
            metric=metric_of(index),
            dimensions=int(index.d),
            count=int(index.ntotal),
            index=kind_of_index(index),
            codes=codes_of(index),
            rescored=is_refined(index) or not is_coded(index),
            settings=settings_of(index),
        )

    def batches(self, payload: bool = False, rows: int = BATCH_ROWS) -> Iterator[StoredItems]:
        """Yield every item, in the order they were added; codes are decoded."""
        opened = self._opened()
        for start, stop in spans(len(opened.ids), rows):
            yield self._batch(opened, np.arange(start, stop), payload)

    def fetch(self, ids: Ids) -> StoredItems:
        """Return those of these items that exist."""
        opened = self._opened()
        return self._batch(opened, places_of(opened.ids, ids), False)

    def search(
        self, queries: Float32, k: int, where: Where = None, among: Ids | None = None, effort: int | None = None
    ) -> Nearest:
        """Return the k nearest items of each query; effort is efSearch or nprobe.

        Items named in `among` are decoded and compared one by one, since a graph reaches few of them.
        """
        opened = self._opened()
        self.check_search(queries, int(opened.index.d), where)
        if among is not None:
            places = np.unique(places_of(opened.ids, among))
            metric = metric_of(opened.index)
            nearest = nearest_among(lambda some: self._decoded(opened, some), places, queries, k, metric)
            return found_at(opened.ids, *nearest, metric)
        at_least = None if effort is None else max(effort, k if kind_of_index(opened.index) == "hnsw" else 1)
        options = {} if effort is None else {"params": parameters_of(opened.index, effort=at_least)}
        try:
            with threads_of(None):
                values, labels = opened.index.search(np.ascontiguousarray(queries, np.float32), k, **options)
        except RuntimeError as error:
            raise self.failed(f"FAISS says: {_first_line(error)}") from None
        # Labels increase, so that a sorted search gives their places.
        places = np.searchsorted(opened.labels, labels)
        return found_at(opened.ids, np.where(labels < 0, -1, places), values, metric_of(opened.index))

    # Writing

    def create(self, dimensions: int, metric: Metric, like: Store | None = None) -> None:
        """Begin an index with the factory string of another, or a flat one; the file appears when it is finished."""
        if self.exists():
            raise self.failed(f"there is a file {self.path.name!r} already", "use another name, or drop it first")
        if not self.path.absolute().parent.is_dir():
            raise self.failed("is in a folder that does not exist", "create the folder first")
        factory = factory_of(like._opened().index) if isinstance(like, FaissFile) else "Flat"
        self._index_of(factory, dimensions, metric)  # raises where the factory does not take these dimensions
        rows = tempfile.TemporaryFile(prefix="unhub-")  # noqa: SIM115 it is closed when the index is finished
        self._spool = Spool(dimensions, factory, metric, rows, [])

    def write(self, batch: StoredItems) -> None:
        """Keep items for the index that was begun; a finished one does not change."""
        spool = self._spooled("write items into a finished index")
        if batch.payload is not None and any(batch.payload):
            raise self.failed("FAISS has no payload", "leave it out")
        if batch.rows.shape[1] != spool.dimensions:
            problem = f"has vectors of {spool.dimensions} dimensions, and {batch.rows.shape[1]} were given"
            raise self.failed(problem, "use vectors of the same model")
        spool.rows.write(np.ascontiguousarray(batch.rows, np.float32).data)
        spool.ids.append(batch.ids)

    def finish(self, progress: Progress | None = None) -> None:
        """Train, add and write the file, which appears whole."""
        spool = self._spooled("finish an index that was not begun")
        ids = as_ids(joined_ids(spool.ids) if spool.ids else np.empty(0, np.int64), sum(map(len, spool.ids)), "ids")
        spool.rows.flush()
        shape = (len(ids), spool.dimensions)
        rows = np.memmap(spool.rows, np.float32, "r", shape=shape) if len(ids) else np.empty(shape, np.float32)
        faiss, texts = library(), ids.dtype.kind == "U"
        index = self._index_of(spool.factory, spool.dimensions, spool.metric)
        try:
            with threads_of(None):
                _train(index, rows, spool.factory)
                whole = index if texts else faiss.IndexIDMap2(index)
                _add(whole, rows, None if texts else ids, progress)
        except RuntimeError as error:
            raise self.failed(f"FAISS says: {_first_line(error)}") from None
        try:
            if texts:
                with replacing(self._own_ids()) as path:  # before the index, which is read with it
                    path.write_text(json.dumps(ids.tolist()), encoding="utf-8")
            else:
                self._own_ids().unlink(missing_ok=True)
            with replacing(self.path) as path:
                faiss.write_index(whole, str(path))
        except OSError as error:
            raise self.failed(f"the file cannot be written: {error}") from None
        spool.rows.close()
        self._spool = None

    def drop(self) -> None:
        """Remove the file, and what unhub wrote beside it."""
        if self._spool is not None:
            self._spool.rows.close()
        self._spool = self._read = None
        self.path.unlink(missing_ok=True)
        self._own_ids().unlink(missing_ok=True)

    # Inside

    def _own_ids(self) -> Path:
        return self.path.with_name(self.path.name + IDS_ENDING)

    def _spooled(self, what: str) -> Spool:
        if self._spool is None:
            raise self.failed(f"FAISS cannot {what}", "deploy again: that makes a new one")
        return self._spool

    def _index_of(self, factory: str, dimensions: int, metric: Metric) -> Any:
        faiss = library()
        products = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
        whole = NORMALISED + factory if metric == "cosine" else factory
        try:
            return faiss.index_factory(dimensions, whole, products)
        except RuntimeError:
            problem = f"the index {factory} does not take vectors of {dimensions} dimensions"
            raise self.failed(problem, "pad them to a number that its parts divide") from None

    def _opened(self) -> IndexFile:
        """Return the index, read again only if the file changed."""
        state = self.state()
        if self._read is None or self._read.kept[1] != state:
            self._read = self._load(state)
        return self._read

    def _load(self, state: object) -> IndexFile:
        faiss = library()
        try:
            owner = index = faiss.read_index(str(self.path))  # which owns all parts of it
        except RuntimeError:
            remedy = "name a file that faiss.write_index wrote; indexes of bits are not read"
            raise self.failed("is not an index that FAISS can read, or it is damaged", remedy) from None
        if index.metric_type not in (faiss.METRIC_L2, faiss.METRIC_INNER_PRODUCT):
            raise self.failed("its metric is neither L2 nor inner product", "build it with one of these")
        own: Ids | None = None
        if isinstance(index, faiss.IndexIDMap):
            own = faiss.vector_to_array(index.id_map)
            index = faiss.downcast_index(owner.index)
        labels = labels_of(index)
        given = self._given_ids()
        ids = given if given is not None else own if own is not None else labels
        try:
            checked = as_ids(ids, len(labels), "ids")
        except ArgumentError as error:
            raise self.failed(f"its list of ids {error.problem}", error.remedy) from None
        return IndexFile(index, labels, checked, (owner, state))

    def _given_ids(self) -> Ids | None:
        """Return the ids of the file that the address names, or of the one that unhub wrote."""
        path = self.ids_path
        try:
            if path is None:
                path = self._own_ids()
                return as_texts(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None
            return as_plain(read_lines(path))
        except (OSError, ValueError) as error:
            raise self.failed(f"the file of ids {path} cannot be read: {error}", "write one id per line") from None

    def _batch(self, opened: IndexFile, places: NDArray[np.int64], payload: bool) -> StoredItems:
        rows = self._decoded(opened, places)
        return StoredItems(opened.ids[places], rows, [{} for _ in places] if payload else None)

    def _decoded(self, opened: IndexFile, places: NDArray[np.int64]) -> Float32:
        """Return the rows at these places. One is tried alone first: many that fail would end the process."""
        index = opened.index
        if not len(places):
            return np.empty((0, int(index.d)), np.float32)
        if not is_decodable(index):
            raise self.failed(UNREADABLE, "use the vectors it was built from")
        try:
            index.reconstruct(int(opened.labels[places[0]]))
            return cast("Float32", index.reconstruct_batch(np.ascontiguousarray(opened.labels[places])))
        except RuntimeError:
            raise self.failed(UNREADABLE, "use the vectors it was built from") from None


def _train(index: Any, rows: Float32, factory: str) -> None:
    if not index.is_trained:
        check_training(index, len(rows), factory)
        index.train(rows[training_sample(index, len(rows))])


def _add(index: Any, rows: Float32, ids: Ids | None, progress: Progress | None) -> None:
    for start, stop in spans(len(rows), rows_per_block(rows.shape[1])):
        block = np.ascontiguousarray(rows[start:stop])
        if ids is None:
            index.add(block)
        else:
            index.add_with_ids(block, ids[start:stop])
        if progress is not None:
            progress(stop, len(rows))


def _first_line(error: RuntimeError) -> str:
    """Return what FAISS says without the place in its source."""
    return str(error).splitlines()[0].rpartition("failed: ")[2]
