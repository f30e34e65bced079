"""Store: the interface of a collection of vectors in a database, and what every engine shares.

A store holds vectors with ids and payload. What unhub publishes in it are other collections beside it, fields of its
payload, and records: small JSON values by key, which say what is live.
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from unhub.arrays import Float32, Float64, Ids
from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors, as_texts
from unhub.errors import ArgumentError
from unhub.layouts import Layout
from unhub.layouts import Metric as Metric  # every engine needs it beside the interface
from unhub.stores.address import Address

IndexKind: TypeAlias = Literal["flat", "hnsw", "ivf", "other"]
Codes: TypeAlias = Literal["none", "float16", "int8", "pq", "binary", "other"]
Record: TypeAlias = dict[str, Any]  # what JSON can hold
Payload: TypeAlias = Mapping[str, Any]
Where: TypeAlias = Any  # a filter in the engine's own language

BATCH_ROWS = 1000
LIVE = "live:"  # and a live name: the key of the record of what is searched under it
MADE = "made:"  # and a collection: the key of the record of a collection that deploy made
FIELD = "field:"  # and a collection, a slash and a field: the key of the record of a field that deploy wrote
FIELD_PREFIX = "unhub_h_"  # of fields with biases


@dataclass(frozen=True)
class Description:
    """What a collection is. rescored: whether items found by codes are scored again from their vectors.

    settings: everything else worth telling about the index and its codes, in the engine's words.
    """

    engine: str
    name: str
    metric: Metric
    dimensions: int
    count: int
    index: IndexKind = "flat"
    codes: Codes = "none"
    rescored: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)


class StoredItems(NamedTuple):
    """Some rows of a store, (n, dimensions), their ids, and their payload if it was asked for."""

    ids: Ids
    rows: Float32
    payload: Sequence[Payload] | None = None


class Nearest(NamedTuple):
    """What an engine found, (queries, k) each, best first.

    values: similarities under cosine and dot, squared distances under l2. An empty place has the id -1 or "".
    """

    values: Float32
    ids: Ids


class Store(ABC):
    """A collection of vectors in a database. Every method may raise an ArgumentError in plain words about `store`."""

    engine: ClassVar[str]
    # Whether the engine itself can search by s - weight * field over the nearest candidates.
    subtracts: ClassVar[bool] = False
    # Whether items are counted without reading or locking the whole collection.
    counts_cheaply: ClassVar[bool] = True
    changes: ClassVar[bool] = True  # whether items of a finished collection can change
    # Whether a filter is JSON that the engine checks, not a text of a language that could ask for more than a filter.
    filters_by_json: ClassVar[bool] = False

    def __init__(self, address: Address, name: str) -> None:
        self.address, self.name = address, name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    # Reading

    @abstractmethod
    def exists(self) -> bool:
        """Return whether there is a collection of this name."""

    @abstractmethod
    def describe(self) -> Description:
        """Return what it is; raise if there is no such collection."""

    @abstractmethod
    def batches(self, payload: bool = False, rows: int = BATCH_ROWS) -> Iterator[StoredItems]:
        """Yield every item once, in an order that stays the same while nothing changes, a few rows at a time."""

    @abstractmethod
    def fetch(self, ids: Ids) -> StoredItems:
        """Return those of these items that exist, in the order of the ids."""

    @abstractmethod
    def search(
        self, queries: Float32, k: int, where: Where = None, among: Ids | None = None, effort: int | None = None
    ) -> Nearest:
        """Return the k nearest items of each query by the engine's own index.

        where: a filter in the engine's language. among: the only ids to return. effort: the engine's ef or nprobe, for
        this search alone.
        """

    def search_less(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        correcting: Correcting,
        where: Where = None,
        among: Ids | None = None,
    ) -> Nearest:
        """Return the k best items by s - weight * field among the nearest candidates, computed by the engine."""
        raise self.cannot("subtract a field")

    # Writing; an engine without these is read and searched only

    def names(self) -> list[str]:
        """Return the names of all collections here."""
        raise self.cannot("list collections")

    def sibling(self, name: str) -> Store:
        """Return the collection of another name in the same place, whether it exists or not."""
        raise self.cannot("hold another collection")

    def create(self, dimensions: int, metric: Metric, like: Store | None = None) -> None:
        """Create it empty, with the index and codes of a store of the same engine, or the engine's default."""
        raise self.cannot("create a collection")

    def write(self, batch: StoredItems) -> None:
        """Add items, or replace those with the same ids, with their payload."""
        raise self.cannot("write items")

    def remove(self, ids: Ids) -> None:
        """Drop the items with these ids; ids that it does not have are ignored."""
        raise self.cannot("remove items")

    def finish(self, progress: Progress | None = None) -> None:  # noqa: B027  (some engines index as they write)
        """Build the index of what was written and wait until it answers."""

    def drop(self) -> None:
        """Drop the whole collection, if it exists."""
        raise self.cannot("drop a collection")

    def set_field(self, name: str, ids: Ids, values: Float64) -> None:
        """Set one number of the payload for these items; the rest of the payload and the vectors stay."""
        raise self.cannot("set a field")

    def settle(self) -> None:  # noqa: B027  (in most engines a field is not part of the index)
        """Bring the index back to what it was before fields were set, and wait until it is."""

    def drop_field(self, name: str) -> None:
        """Drop a field from the payload of every item, if it is there."""
        raise self.cannot("drop a field")

    # Records

    def record(self, key: str) -> Record | None:
        """Return the record of a key, None if there is none."""
        return self.records().get(key)

    def records(self) -> dict[str, Record]:
        """Return all records kept in this place."""
        return {}

    def put_record(self, key: str, record: Record | None) -> None:
        """Keep a record, whole or not at all; None removes it."""
        raise self.cannot("keep records")

    def publish(self, live: str, collection: str | None, key: str, record: Record) -> None:
        """Keep a record and point the live name, where the engine has aliases or views, at a collection.

        In one step where the engine allows it, else the record first. Who reads either sees a collection that exists.
        None: no pointer.
        """
        self.put_record(key, record)

    def taken(self, live: str) -> bool:
        """Return whether a live name is that of a collection, or of an alias that unhub did not make."""
        return live in self.names() or (live in self.aliases() and self.record(f"{LIVE}{live}") is None)

    def aliases(self) -> list[str]:
        """Return the names that stand for other collections, where the engine has such."""
        return []

    # Shared

    def cannot(self, what: str) -> ArgumentError:
        """Return the error for what an engine cannot do."""
        return ArgumentError("store", f"{self.address}: {self.engine} cannot {what} here", "use another store")

    def failed(self, problem: str, remedy: str = "") -> ArgumentError:
        """Return an error about this store, without secrets."""
        return ArgumentError("store", f"{self.address}: {problem}", remedy)

    def read_by(self) -> dict[str, str]:
        """Return what its address says of how it is read, for a record; a live name does not say it."""
        return {}

    def read_as(self, told: Mapping[str, str]) -> Store:
        """Return the store read as `read_by` told, as far as its own address says nothing else."""
        return self

    def source_of(self, now: Record) -> Store:
        """Return the collection that a deployment was made of, read as it was then."""
        source = self if self.name == now["source"] else self.sibling(now["source"])
        return source.read_as(now.get("read_by", {}))

    def collection_in(self, now: Record) -> Store:
        """Return the collection that a deployment is searched in."""
        source = self.source_of(now)
        return source if now["collection"] == source.name else source.sibling(now["collection"])

    def served(self) -> Store:
        """Return the collection that is searched under a live name; any other store is its own."""
        records = self.records()
        record = records.get(f"{LIVE}{self.name}")
        if record is not None:
            return self.collection_in(record["now"])
        self.check_switched(records)
        return self

    def source(self) -> Store:
        """Return the collection that what is live under its name was made of; any other store is its own."""
        record = self.record(f"{LIVE}{self.name}")
        source = self if record is None else self.source_of(record["now"])
        return source if source.exists() else self

    def check_switched(self, records: Mapping[str, Record]) -> None:
        """Raise if it has the live name of a deployment that nobody has switched to."""
        made = [one for key, one in records.items() if key.startswith((MADE, FIELD)) and one["live"] == self.name]
        if not made or self.exists():
            return
        source = made[-1]["source"]
        lives = [key for key, one in records.items() if key.startswith(LIVE) and one["now"]["source"] == source]
        if lives:
            raise self.failed(
                f"nothing is live under {self.name!r}", f"{source!r} is live as {lives[0][len(LIVE) :]!r}"
            )
        before, _, after = str(self.address).rpartition(self.name)
        problem = f"nothing was switched yet, so nothing is live under {self.name!r}"
        raise self.failed(problem, f"to go live with what was deployed: unhub switch '{before}{source}{after}'")

    def vectors(self) -> Vectors:
        """Read every item once, into a mapped temporary file that goes with the result; ids are the store's.

        What `deploy` made has a layout, and gives back the items that it was made of; so does its live name.
        """
        if (served := self.served()) is not self:
            return served.vectors()
        about, layout = self.describe(), self.layout()
        if about.count == 0:
            raise self.failed("holds no vectors", "write some first")
        with tempfile.NamedTemporaryFile(prefix="unhub-", suffix=".rows") as file:
            ids: list[Ids] = []
            for batch in self.batches():
                rows = batch.rows if layout is None else layout.originals(batch.rows)
                file.write(np.ascontiguousarray(rows, np.float32).data)
                ids.append(batch.ids)
            file.flush()
            count = sum(map(len, ids))
            # The file has no name once it is closed and lives as long as the map.
            width = about.dimensions if layout is None else layout.dimensions
            mapped = np.memmap(Path(file.name), np.float32, "r", shape=(count, width))
        return Vectors(joined_ids(ids), mapped)

    def layout(self) -> Layout | None:
        """Return the layout of what `deploy` made; None for any other collection."""
        made = self.record(f"{MADE}{self.collection_of()}")
        return None if made is None else Layout.from_json(made["layout"])

    def collection_of(self) -> str:
        """Return the collection behind the name, which may be an alias."""
        return self.name


class Correcting(NamedTuple):
    """How an engine corrects by a field of the payload: its name, and how many nearest candidates are re-scored."""

    field: str
    candidates: int


def filter_of(where: object) -> dict[str, Any]:
    """Return a filter that is a JSON object: as it is, as text, as from a command line, or as a model of pydantic.

    Raise a ValueError for anything else.
    """
    dump: Callable[..., Any] | None = getattr(where, "model_dump", None)
    given = dump(mode="json", exclude_none=True) if dump is not None else where
    if isinstance(given, str):
        given = json.loads(given)
    if not isinstance(given, Mapping):
        raise ValueError(f"{where!r} is neither a filter nor its JSON")
    return {str(name): value for name, value in given.items() if value is not None}


def joined_ids(parts: Sequence[Ids]) -> Ids:
    """Return the ids of several batches as one array: texts, unless all are integers."""
    if all(part.dtype.kind in "iu" for part in parts):
        return np.concatenate(parts).astype(np.int64, copy=False)
    return as_texts([str(one) for part in parts for one in part.tolist()])
