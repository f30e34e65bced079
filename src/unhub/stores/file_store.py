"""Stores that are files: siblings and records in their folder, and a search among some of their items."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Ids, rows_per_block, spans, unit
from unhub.data.ids import no_id
from unhub.stores.address import Address
from unhub.stores.answers import EMPTY_VALUES, best_first
from unhub.stores.record_file import read_records, write_record
from unhub.stores.store import Metric, Nearest, Record, Store

Places = NDArray[np.int64]


class FileStore(Store):
    """A file of vectors; others in its folder with the same ending are its siblings. It has no payload, no filters."""

    counts_cheaply: ClassVar[bool] = False

    def __init__(self, address: Address, path: Path) -> None:
        super().__init__(address, path.stem)
        self.path = path

    @abstractmethod
    def at(self, path: Path) -> Store:
        """Return the store of another file."""

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self.path.is_file()

    def names(self) -> list[str]:
        """Return the names of the files in this folder with this ending, without it."""
        folder = self.path.parent
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(one.stem for one in found if one.suffix == self.path.suffix and one.is_file())

    def sibling(self, name: str) -> Store:
        """Return the file of another name in the same folder."""
        if not name or Path(name).name != name or name in (".", ".."):
            raise self.failed(f"{name!r} is no name of a file", "use letters, digits and underscores")
        return self.at(self.path.with_name(f"{name}{self.path.suffix}"))

    def records(self) -> dict[str, Record]:
        """Return the records of this folder."""
        return read_records(self.path.parent)

    def put_record(self, key: str, record: Record | None) -> None:
        """Keep a record in the file of this folder, which is replaced as a whole."""
        write_record(self.path.parent, key, record)

    def state(self) -> tuple[int, int, int]:
        """Return what changes when the file does; raise if there is none."""
        try:
            about = os.stat(self.path)
        except FileNotFoundError:
            raise self.failed(f"there is no file {self.path.name!r}", "check the address") from None
        except OSError as error:
            raise self.failed(f"it cannot be read: {error.strerror}", "check the rights of the file") from None
        if not self.path.is_file():
            raise self.failed("is no file", "check the address")
        return about.st_ino, about.st_mtime_ns, about.st_size

    def check_search(self, queries: Float32, dimensions: int, where: object) -> None:
        """Raise unless the queries fit, and there is no filter."""
        if where is not None:
            raise self.failed(f"{self.engine} has no filters", "leave `where` out")
        if queries.shape[1] != dimensions:
            problem = f"has vectors of {dimensions} dimensions, and {queries.shape[1]} were given"
            raise self.failed(problem, "use vectors of the same model")


def places_of(ids: Ids, wanted: Ids) -> Places:
    """Return where those of the wanted ids that exist are, in the order of the wanted."""
    if (ids.dtype.kind == "U") != (np.asarray(wanted).dtype.kind == "U") or not len(ids):
        return np.empty(0, np.int64)
    order = np.argsort(ids, kind="stable")
    near = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    return cast("Places", near[ids[near] == wanted])


def found_at(ids: Ids, places: Places, values: Float32, metric: Metric) -> Nearest:
    """Return results by id from results by place; -1 is an empty place."""
    if not len(ids):
        return Nearest(np.full(places.shape, EMPTY_VALUES[metric], np.float32), np.full(places.shape, -1, np.int64))
    named = np.where(places < 0, np.array(no_id(ids.dtype), ids.dtype), ids[places])
    kept = np.where(places < 0, np.float32(EMPTY_VALUES[metric]), values)
    return best_first(kept, cast("Ids", named), metric)


def nearest_among(
    decoded: Callable[[Places], Float32], places: Places, queries: Float32, k: int, metric: Metric
) -> tuple[Places, Float32]:
    """Return the k nearest of the items at these places and their values, compared one by one: a graph reaches few."""
    asked = unit(queries) if metric == "cosine" else np.asarray(queries, np.float32)
    best = Nearest(np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64))
    for start, stop in spans(len(places), rows_per_block(queries.shape[1])):
        rows = decoded(places[start:stop])
        values = asked @ (unit(rows) if metric == "cosine" else rows).T
        if metric == "l2":
            values = np.square(asked).sum(axis=1)[:, None] + np.square(rows).sum(axis=1) - 2 * values
        block = np.broadcast_to(places[start:stop], values.shape)
        ranked = best_first(np.hstack([best.values, values]), cast("Ids", np.hstack([best.ids, block])), metric)
        best = Nearest(ranked.values[:, :k], ranked.ids[:, :k])
    gap = ((0, 0), (0, k - best.ids.shape[1]))
    return np.pad(cast("Places", best.ids), gap, constant_values=-1), np.pad(best.values, gap)
