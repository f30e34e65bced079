"""Chroma: collections in a folder, or of a server started by `chroma run`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar, cast, final
from urllib.parse import unquote, urlsplit

import numpy as np

from unhub.arrays import Float32, Float64, Ids, spans
from unhub.data.vectors import as_texts
from unhub.errors import ArgumentError, optional
from unhub.stores.address import HIDDEN, Address
from unhub.stores.answers import found_of, ids_of
from unhub.stores.store import (
    BATCH_ROWS,
    Description,
    Metric,
    Nearest,
    Payload,
    Record,
    Store,
    StoredItems,
    Where,
    filter_of,
)

METRICS: Mapping[str, Metric] = {"cosine": "cosine", "ip": "dot", "l2": "l2"}
SPACES: Mapping[Metric, str] = {ours: theirs for theirs, ours in METRICS.items()}

RECORDS = "unhub_records"
KEYED = "record:"  # before the key of a record, since Chroma has no empty id
INTEGERS = "unhub_integer_ids"  # in the metadata of a collection whose ids were written as integers
DIMENSIONS = "unhub_dimensions"  # Chroma itself learns them from the first item
DOCUMENT = "chroma:document"  # the field of the payload for an item's document; Chroma keeps the name free
DATABASE_FILE = "chroma.sqlite3"
DEFAULT_PORT = 8000
ROWS_AT_ONCE = 5000  # Chroma takes at most some 5,461
QUERIES_AT_ONCE = 256
NAMES_AT_ONCE = 100


def open_store(address: Address) -> Store:
    """Open `chroma:folder#photos`, `chroma://host:8000/photos` or `chroma:https://host/photos`."""
    address.check_options("token", "tenant", "database")
    library = optional("chromadb", "chroma", "a Chroma store")
    token = address.option("token") or os.environ.get("CHROMA_TOKEN", "")
    if not address.network:
        return Chroma(address, address.named(), ChromaPlace(address, library, token))
    name = unquote(urlsplit(address.place).path).strip("/") or address.named()
    return Chroma(address, name, ChromaPlace(address, library, token))


@dataclass
class ChromaPlace:
    """A folder or a server of Chroma, connected when it is first used; a folder that is missing would be created."""

    address: Address
    library: ModuleType
    token: str = field(default="", repr=False)
    connected: Any = field(default=None, repr=False)

    def is_missing(self) -> bool:
        """Return whether it is a folder that does not exist."""
        return not self.address.network and not self.address.path.exists()

    @contextmanager
    def client(self, collection: str) -> Iterator[Any]:
        """Yield the client; what it raises becomes one error in plain words, without secrets."""
        errors = optional("chromadb.errors", "chroma", "a Chroma store")
        network_errors = optional("httpx", "chroma", "a Chroma store").HTTPError
        try:
            if self.connected is None:
                self.connected = self._connected()
            yield self.connected
            return
        except ArgumentError:
            raise
        except errors.NotFoundError:
            explained = self.failed(f"there is no collection {collection!r}", "check the name")
        except network_errors:
            explained = self._silent()
        except (errors.ChromaError, ValueError, TypeError) as error:
            message = " ".join(str(error).split())
            explained = self.failed(f"Chroma says: {message.replace(self.token, HIDDEN) if self.token else message}")
        raise explained from None

    def failed(self, problem: str, remedy: str = "") -> ArgumentError:
        """Return an error about this place."""
        return ArgumentError("store", f"{self.address}: {problem}", remedy)

    def _silent(self) -> ArgumentError:
        return self.failed("Chroma does not answer there", "start it, and check the host, the port and the token")

    def _connected(self) -> Any:
        settings = self.library.config.Settings(anonymized_telemetry=False)
        option = self.address.option
        where = {name: option(name) for name in ("tenant", "database") if option(name)}
        if not self.address.network:
            self._check_folder()
            return self.library.PersistentClient(self.address.place, settings=settings, **where)
        parts = urlsplit(self.address.place)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else DEFAULT_PORT)
        headers = {"x-chroma-token": self.token, "Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            return self.library.HttpClient(parts.hostname, port, secure, headers, settings, **where)
        except ValueError:  # what Chroma raises where nobody answers
            raise self._silent() from None

    def _check_folder(self) -> None:
        path = self.address.path
        if path.exists() and not path.is_dir():
            raise self.failed("is a file, and Chroma keeps its data in a folder", "check the address")
        if path.is_dir() and any(path.iterdir()) and not (path / DATABASE_FILE).is_file():
            raise self.failed("is a folder of something else, not of Chroma", "check the address")
        if not path.absolute().parent.is_dir():
            raise self.failed("is in a folder that does not exist", "create the folder first")


@final
class Chroma(Store):
    """A collection of Chroma. Records are documents of the collection `unhub_records`.

    Ids are texts. Where integers were written by unhub, the collection says so, and they are read as integers.
    """

    engine: ClassVar[str] = "chroma"
    filters_by_json: ClassVar[bool] = True

    def __init__(self, address: Address, name: str, place: ChromaPlace) -> None:
        super().__init__(address, name)
        self.place = place

    # Reading

    def exists(self) -> bool:
        """Return whether there is a collection of this name."""
        return self.name in self._all_names()

    def describe(self) -> Description:
        """Return what it is. Chroma has a graph of the vectors as they are."""
        with self._collection() as collection:
            settings, kind = _index_settings(collection)
            first = collection.get(limit=1, include=["embeddings"])["embeddings"]
            known = (collection.metadata or {}).get(DIMENSIONS, 0)
            return Description(
                engine=self.engine,
                name=self.name,
                metric=METRICS[settings["space"]],
                dimensions=int(len(first[0]) if len(first) else known),
                count=int(collection.count()),
                index="hnsw" if kind == "hnsw" else "other",
                settings={name: str(value) for name, value in settings.items()},
            )

    def batches(self, payload: bool = False, rows: int = BATCH_ROWS) -> Iterator[StoredItems]:
        """Yield every item, in the order they were added."""
        start = 0
        while True:
            with self._collection() as collection:
                found = collection.get(limit=rows, offset=start, include=_wanted(payload))
                batch = _batch(collection, found, payload)
            if not len(batch.ids):
                return
            yield batch
            start += rows

    def fetch(self, ids: Ids) -> StoredItems:
        """Return those of these items that exist, with their payload."""
        with self._collection() as collection:
            parts = []
            for start, stop in spans(len(ids), ROWS_AT_ONCE):
                asked = list(filter(None, _texts(collection, ids[start:stop])))  # an empty id is an error in Chroma
                found = collection.get(ids=asked, include=_wanted(True)) if asked else {"ids": []}
                parts.append(_batch(collection, _in_order(found, asked), True))
        if len(parts) == 1:
            return parts[0]
        joined = np.concatenate([part.ids for part in parts]) if parts else np.empty(0, ids.dtype)
        rows = np.concatenate([part.rows for part in parts]) if parts else np.empty((0, 0), np.float32)
        return StoredItems(cast("Ids", joined), rows, [one for part in parts for one in part.payload or ()])

    def search(
        self, queries: Float32, k: int, where: Where = None, among: Ids | None = None, effort: int | None = None
    ) -> Nearest:
        """Return the k nearest items of each query.

        Chroma has no effort for one search, but its graph looks at as many items as it is asked for: so many are asked
        for, and the best k are returned.
        """
        ids: list[list[object]] = []
        values: list[list[float]] = []
        try:
            chosen = None if where is None else filter_of(where)
        except ValueError as error:
            remedy = 'write one of Chroma as JSON, for example {"colour": "red"}'
            raise ArgumentError("where", f"is no filter of Chroma: {error}", remedy) from None
        with self._collection() as collection:
            settings, _ = _index_settings(collection)
            metric = METRICS[settings["space"]]
            allowed = None if among is None else _texts(collection, among)
            if not collection.count() or allowed == []:
                return found_of([[]] * len(queries), [[]] * len(queries), k, metric)
            for start, stop in spans(len(queries), QUERIES_AT_ONCE):
                found = collection.query(
                    query_embeddings=np.ascontiguousarray(queries[start:stop], np.float32),
                    n_results=max(k, effort or 0),
                    where=chosen,
                    ids=allowed,
                    include=["distances"],
                )
                ids += [_own_ids(collection, one[:k]).tolist() for one in found["ids"]]
                values += [[one if metric == "l2" else 1 - one for one in row[:k]] for row in found["distances"]]
        return found_of(ids, values, k, metric)

    # Writing

    def names(self) -> list[str]:
        """Return the names of all collections here."""
        return [name for name in self._all_names() if name != RECORDS]

    def sibling(self, name: str) -> Chroma:
        """Return another collection in the same place."""
        return Chroma(self.address, name, self.place)

    def create(self, dimensions: int, metric: Metric, like: Store | None = None) -> None:
        """Create it empty, with the settings of the graph of another collection."""
        if self.exists():
            raise self.failed(f"there is a collection {self.name!r} already", "use another name, or drop it first")
        settings: dict[str, Any] = {}
        if isinstance(like, Chroma):
            with like._collection() as collection:
                found, kind = _index_settings(collection)
                settings = dict(found) if kind == "hnsw" else {}
        self._make({DIMENSIONS: dimensions}, {**settings, "space": SPACES[metric]})

    def write(self, batch: StoredItems) -> None:
        """Add or replace items; what their old payload had and the new one does not is taken away."""
        payload = batch.payload if batch.payload is not None else [{}] * len(batch.ids)
        with self._collection() as collection:
            known = (collection.metadata or {}).get(DIMENSIONS, batch.rows.shape[1])
            if batch.rows.shape[1] != known:
                problem = f"has vectors of {known} dimensions, and {batch.rows.shape[1]} were given"
                raise self.failed(problem, "use vectors of the same model")
            self._agree_on_ids(collection, batch.ids)
            for start, stop in spans(len(batch.ids), ROWS_AT_ONCE):
                ids = [str(one) for one in batch.ids[start:stop].tolist()]
                found = collection.get(ids=ids, include=["metadatas"])
                old = dict(zip(found["ids"], found["metadatas"], strict=True))
                held = list(zip(ids, payload[start:stop], strict=True))
                documents = [one.get(DOCUMENT) for _, one in held]
                collection.upsert(
                    ids=ids,
                    embeddings=np.ascontiguousarray(batch.rows[start:stop], np.float32),
                    metadatas=[_metadata(one, old.get(name)) for name, one in held],
                    documents=documents if any(one is not None for one in documents) else None,
                )

    def remove(self, ids: Ids) -> None:
        """Drop the items with these ids."""
        with self._collection() as collection:
            for start, stop in spans(len(ids), ROWS_AT_ONCE):
                asked = _texts(collection, ids[start:stop])
                if asked:
                    collection.delete(ids=asked)

    def drop(self) -> None:
        """Drop the collection, if it exists."""
        if self.exists():
            with self.place.client(self.name) as client:
                client.delete_collection(self.name)

    def set_field(self, name: str, ids: Ids, values: Float64) -> None:
        """Set one number of the metadata of these items; the rest of it stays."""
        self._check_field(name)
        with self._collection() as collection:
            for start, stop in spans(len(ids), ROWS_AT_ONCE):
                asked = _texts(collection, ids[start:stop])
                numbers = [{name: float(one)} for one in values[start:stop]]
                if asked:
                    collection.update(ids=asked, metadatas=numbers)

    def drop_field(self, name: str) -> None:
        """Take a field from the metadata of every item that has it."""
        self._check_field(name)
        start = 0
        with self._collection() as collection:
            while (found := collection.get(limit=ROWS_AT_ONCE, offset=start, include=["metadatas"]))["ids"]:
                pairs = zip(found["ids"], found["metadatas"], strict=True)
                having = [one for one, held in pairs if name in (held or {})]
                if having:
                    collection.update(ids=having, metadatas=[{name: None} for _ in having])
                start += ROWS_AT_ONCE

    # Records

    def records(self) -> dict[str, Record]:
        """Return all records kept here."""
        place = self.sibling(RECORDS)
        if not place.exists():
            return {}
        with place._collection() as collection:
            found = collection.get(include=["documents"])
        pairs = zip(found["ids"], found["documents"], strict=True)
        return {one.removeprefix(KEYED): json.loads(text) for one, text in pairs}

    def put_record(self, key: str, record: Record | None) -> None:
        """Keep a record as one document, which Chroma writes in one transaction."""
        place = self.sibling(RECORDS)
        if not place.exists():
            if record is None:
                return
            place._make({DIMENSIONS: 1}, {"space": "l2"})
        with place._collection() as collection:
            if record is None:
                collection.delete(ids=[KEYED + key])
            else:
                # Chroma has no item without a vector.
                collection.upsert(ids=[KEYED + key], embeddings=[[0.0]], documents=[json.dumps(record)])

    # Inside

    @contextmanager
    def _collection(self) -> Iterator[Any]:
        if self.place.is_missing():
            raise self.failed(f"there is no such folder, so no collection {self.name!r}", "check the address")
        with self.place.client(self.name) as client:
            yield client.get_collection(self.name, embedding_function=None)

    def _all_names(self) -> list[str]:
        if self.place.is_missing():
            return []
        names: list[str] = []
        with self.place.client(self.name) as client:
            while found := client.list_collections(limit=NAMES_AT_ONCE, offset=len(names)):
                names += [one.name for one in found]
        return sorted(names)

    def _make(self, metadata: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        with self.place.client(self.name) as client:
            configuration = {"hnsw": {name: one for name, one in settings.items() if one is not None}}
            client.create_collection(
                self.name, metadata=dict(metadata), configuration=configuration, embedding_function=None
            )

    def _agree_on_ids(self, collection: Any, ids: Ids) -> None:
        """Note in an empty collection that its ids are integers; a collection has one kind of ids."""
        integers, noted = ids.dtype.kind != "U", _has_integers(collection)
        if integers == noted:
            return
        if collection.count():
            has, got = ("integers", "texts") if noted else ("texts", "integers")
            raise self.failed(f"has {has} as ids, and the items to write have {got}", "use one kind of ids")
        kept = {name: one for name, one in (collection.metadata or {}).items() if not name.startswith("hnsw:")}
        collection.modify(metadata={**kept, INTEGERS: integers})

    def _check_field(self, name: str) -> None:
        if name == DOCUMENT:
            raise self.failed(f"{name!r} is the document of an item", "name another field")


def _index_settings(collection: Any) -> tuple[dict[str, Any], str]:
    """Return the settings of the index, with its space, and whether it is hnsw or spann."""
    about = collection.configuration_json  # `configuration` would load the embedding function
    kind = "hnsw" if about.get("hnsw") else "spann"
    return dict(about.get(kind) or {"space": "l2"}), kind


def _has_integers(collection: Any) -> bool:
    return bool((collection.metadata or {}).get(INTEGERS))


def _own_ids(collection: Any, ids: Sequence[str]) -> Ids:
    return ids_of([int(one) for one in ids]) if _has_integers(collection) else as_texts(ids)


def _texts(collection: Any, ids: Ids) -> list[str]:
    """Return ids as Chroma holds them, none if they are of the other kind: Chroma would take an empty list for all."""
    same = (ids.dtype.kind != "U") == _has_integers(collection)
    return [str(one) for one in ids.tolist()] if same else []


def _wanted(payload: bool) -> list[str]:
    return ["embeddings", "metadatas", "documents"] if payload else ["embeddings"]


def _in_order(found: Mapping[str, Any], asked: Sequence[str]) -> dict[str, Any]:
    """Return what was found in the order it was asked for."""
    places = {one: place for place, one in enumerate(found["ids"])}
    order = [places[one] for one in asked if one in places]
    names = [name for name in ("ids", "embeddings", "metadatas", "documents") if name in found]
    return {name: [found[name][place] for place in order] for name in names}


def _batch(collection: Any, found: Mapping[str, Any], payload: bool) -> StoredItems:
    ids = _own_ids(collection, found["ids"])
    width = int((collection.metadata or {}).get(DIMENSIONS, 0))
    rows = np.array(found["embeddings"], np.float32) if len(ids) else np.empty((0, width), np.float32)
    if not payload:
        return StoredItems(ids, rows)
    if not len(ids):
        return StoredItems(ids, rows, [])
    return StoredItems(ids, rows, [_payload(*one) for one in zip(found["metadatas"], found["documents"], strict=True)])


def _payload(metadata: Payload | None, document: str | None) -> Payload:
    held = dict(metadata or {})
    return held if document is None else {**held, DOCUMENT: document}


def _metadata(payload: Payload, old: Payload | None) -> Payload | None:
    """Return the metadata to write; None takes an old field away, and Chroma has no empty metadata."""
    gone = {name: None for name in old or {} if name not in payload}
    return {**gone, **{name: one for name, one in payload.items() if name != DOCUMENT}} or None
