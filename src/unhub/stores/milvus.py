"""Milvus: collections of a server, or of Milvus Lite in a folder whose name ends in `.db`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast, final

import numpy as np

from unhub.arrays import Float32, Float64, Ids, rows_per_block, spans
from unhub.compute.workers import Progress
from unhub.stores.address import Address
from unhub.stores.answers import found_of, ids_of
from unhub.stores.milvus_link import MilvusLink, is_lite, milvus_link
from unhub.stores.store import (
    BATCH_ROWS,
    Codes,
    Description,
    IndexKind,
    Metric,
    Nearest,
    Record,
    Store,
    StoredItems,
    Where,
)

METRICS: Mapping[str, Metric] = {"COSINE": "cosine", "IP": "dot", "L2": "l2"}
METRIC_NAMES: Mapping[Metric, str] = {ours: theirs for theirs, ours in METRICS.items()}
CODES: Mapping[str, Codes] = {
    "HNSW_SQ": "int8",
    "HNSW_PQ": "pq",
    "HNSW_PRQ": "pq",
    "IVF_SQ8": "int8",
    "IVF_PQ": "pq",
    "SCANN": "pq",
    "IVF_RABITQ": "binary",
    "DISKANN": "pq",
}
INDEX_KINDS: Mapping[str, IndexKind] = {
    "FLAT": "flat",
    "BRUTE": "flat",
    "HNSW": "hnsw",
    "AUTOINDEX": "hnsw",
    "IVF": "ivf",
    "SCANN": "ivf",
}
RESCORED = ("SCANN", "DISKANN")  # these score again from the vectors; the others do if their setting `refine` says so
BOOKKEEPING = ("field_name", "index_name", "total_rows", "indexed_rows", "pending_index_rows", "state")

RECORDS = "unhub_records"
LONGEST_TEXT = 65_535  # of a field of Milvus
MOST_ROWS = 16_384  # of one answer of Milvus
IDS_AT_ONCE = 1000
QUERIES_AT_ONCE = 256
WAIT_SECONDS = 0.2

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def open_store(address: Address) -> Store:
    """Open `milvus:file.db#photos.vector`, `milvus://host:19530/photos` or `milvus:https://host/photos`."""
    address.check_options("token", "database", "vector")
    link, collection = milvus_link(address)
    return Milvus(address, collection, address.column or address.option("vector"), link)


@dataclass(frozen=True)
class MilvusShape:
    """The schema of a collection: its primary key, its vector, and the fields of its payload as Milvus tells them."""

    primary: str
    vector: str
    dimensions: int
    texts: bool = False
    numbered: bool = False  # whether Milvus itself gives the ids
    fields: Sequence[Mapping[str, Any]] = ()
    dynamic: bool = True
    others: Sequence[str] = ()  # other vectors, which are no payload


@dataclass(frozen=True)
class MilvusIndex:
    """The index on a vector, in Milvus's words."""

    kind: str = "AUTOINDEX"
    metric: str = "COSINE"
    settings: Mapping[str, Any] = field(default_factory=dict)


@final
class Milvus(Store):
    """A collection of Milvus, or an alias of one. Records are rows of the collection `unhub_records`."""

    engine: ClassVar[str] = "milvus"

    def __init__(self, address: Address, name: str, column: str, link: MilvusLink) -> None:
        super().__init__(address, name)
        self.column, self.link = column, link

    # Reading

    def exists(self) -> bool:
        """Return whether there is a collection or an alias of this name."""
        if self.link.is_missing():
            return False
        with self._client() as client:
            return bool(client.has_collection(self.name))

    def describe(self) -> Description:
        """Return what it is; Lite tells of the index only what was asked for when it was made."""
        shape = self._shape()
        index = self._indexing(shape.vector)
        if index is None:
            raise self.failed(f"has no index on {shape.vector!r}, so it cannot be searched", "create one in Milvus")
        settings = {name: _shown(value) for name, value in index.settings.items()}
        rescored = index.kind in RESCORED or _shown(index.settings.get("refine", "")).lower() == "true"
        codes = CODES.get(index.kind, "none")
        return Description(
            engine=self.engine,
            name=self.name,
            metric=METRICS[index.metric],
            dimensions=shape.dimensions,
            count=self._count(),
            index=_index_kind(index.kind),
            codes=codes,
            rescored=codes == "none" or rescored,
            settings={"index_type": index.kind, "metric_type": index.metric, "vector": shape.vector, **settings},
        )

    def batches(self, payload: bool = False, rows: int = BATCH_ROWS) -> Iterator[StoredItems]:
        """Yield every item once, by primary key."""
        shape = self._shape()
        for found in self._pages(shape, payload, min(rows, MOST_ROWS)):
            yield self._batch(shape, found, payload)

    def fetch(self, ids: Ids) -> StoredItems:
        """Return those of these items that exist, with their payload."""
        shape = self._shape()
        kept: dict[object, Mapping[str, Any]] = {}
        for part in self._conditions(shape, ids):
            kept |= {one[shape.primary]: one for one in self._query(shape, part, True)}
        return self._batch(shape, [kept[one] for one in ids.tolist() if one in kept], True)

    def search(
        self, queries: Float32, k: int, where: Where = None, among: Ids | None = None, effort: int | None = None
    ) -> Nearest:
        """Return the k nearest items of each query; effort is ef of a graph and nprobe of clusters."""
        shape = self._shape()
        index = self._indexing(shape.vector) or MilvusIndex()
        self._check_width(queries, shape)
        conditions = [f"({where})"] if where else []
        if among is not None:
            conditions.append(_one_of(shape.primary, among.tolist()))
        params: dict[str, int] = {}
        if effort is not None and _index_kind(index.kind) == "ivf":
            params = {"nprobe": effort}
        elif effort is not None:
            params = {"ef": max(effort, k)}
        ids: list[list[object]] = []
        values: list[list[float]] = []
        self._load()
        for start, stop in spans(len(queries), QUERIES_AT_ONCE):
            with self._client() as client:
                found = client.search(
                    self.name,
                    data=list(np.ascontiguousarray(queries[start:stop], np.float32)),
                    limit=k,
                    filter=" and ".join(conditions),
                    anns_field=shape.vector,
                    output_fields=[shape.primary],
                    search_params={"params": params},
                )
            ids += [list(one.ids) for one in found]
            values += [list(one.distances) for one in found]
        return found_of(ids, values, k, METRICS[index.metric])

    # Writing

    def names(self) -> list[str]:
        """Return the names of all collections of this database; aliases are none."""
        if self.link.is_missing():
            return []
        with self._client() as client:
            return [name for name in client.list_collections() if name != RECORDS]

    def sibling(self, name: str) -> Milvus:
        """Return another collection of the same database; its vector is its only one."""
        return Milvus(self.address, name, "", self.link)

    def read_by(self) -> dict[str, str]:
        """Return the name of the vector, if the address has it."""
        return {"vector": self.column} if self.column else {}

    def read_as(self, told: Mapping[str, str]) -> Milvus:
        """Return the collection with the vector that was told."""
        known = self.column or told.get("vector", "")
        return self if known == self.column else Milvus(self.address, self.name, known, self.link)

    def create(self, dimensions: int, metric: Metric, like: Store | None = None) -> None:
        """Create it empty; its ids become texts with the first text that is written into it."""
        shape, index = MilvusShape("id", self.column or "vector", dimensions), MilvusIndex()
        if isinstance(like, Milvus):
            shape = replace(like._shape(), dimensions=dimensions, numbered=False)
            index = like._indexing(shape.vector) or index
        if self.exists():
            raise self.failed(f"there is a collection {self.name!r} already", "use another name, or drop it first")
        self._make(shape, replace(index, metric=METRIC_NAMES[metric]))

    def write(self, batch: StoredItems) -> None:
        """Add or replace items."""
        shape = self._shape()
        self._check_width(batch.rows, shape)
        self._check_ids(shape)
        payload = batch.payload if batch.payload is not None else [{}] * len(batch.ids)
        for name in (shape.primary, shape.vector):
            if any(name in one for one in payload):
                problem = f"the payload has a field {name!r}, which is the name of the primary key or of the vector"
                raise self.failed(problem, "rename it in the payload")
        texts = batch.ids.dtype.kind == "U"
        if texts != shape.texts:
            if self._count():
                has, got = ("texts", "integers") if shape.texts else ("integers", "texts")
                raise self.failed(f"has {has} as ids, and the items to write have {got}", "use one kind of ids")
            index = self._indexing(shape.vector) or MilvusIndex()
            self.drop()
            shape = replace(shape, texts=texts)
            self._make(shape, index)
        ids = batch.ids.tolist()
        for start, stop in spans(len(ids), rows_per_block(shape.dimensions)):
            rows = np.ascontiguousarray(batch.rows[start:stop], np.float32)
            data = [
                {**held, shape.primary: one, shape.vector: row}
                for one, row, held in zip(ids[start:stop], rows, payload[start:stop], strict=True)
            ]
            with self._client() as client:
                self._replace(client, data)

    def remove(self, ids: Ids) -> None:
        """Drop the items with these ids."""
        for part in self._conditions(self._shape(), ids):
            with self._client() as client:
                client.delete(self.name, filter=part)

    def finish(self, progress: Progress | None = None) -> None:
        """Flush, and wait until the index holds all that was written."""
        shape = self._shape()
        with self._client() as client:
            client.flush(self.name)
        while (about := self._index_state(shape.vector)) and int(about.get("pending_index_rows", 0)):
            if progress is not None:
                progress(int(about["indexed_rows"]), int(about["total_rows"]))
            time.sleep(WAIT_SECONDS)
        self._load()

    def drop(self) -> None:
        """Drop it, unless an alias points at it: who searches by the alias would find nothing."""
        if not self.exists():
            return
        with self._client() as client:
            aliases = client.list_aliases(self.name)["aliases"]
            if aliases:
                raise self.failed(f"the alias {aliases[0]!r} points at {self.name!r}", "switch to another first")
            client.drop_collection(self.name)

    def set_field(self, name: str, ids: Ids, values: Float64) -> None:
        """Set one number of the payload by partial updates, which Milvus has since 2.6."""
        shape = self._shape()
        self._check_ids(shape)
        if name in (shape.primary, shape.vector):
            raise self.failed(f"{name!r} is its primary key or its vector", "name another field")
        if not shape.dynamic and name not in [one["name"] for one in shape.fields]:
            remedy = (
                f"add the field to its schema, or make it anew with enable_dynamic_field=True: {name!r} has no place"
            )
            raise self.failed("takes no fields but those of its schema", remedy)
        for start, stop in spans(len(ids), BATCH_ROWS):
            # An update of an item that is gone would fail for want of its vector.
            there = set(self.fetch(ids[start:stop]).ids.tolist())
            pairs = zip(ids[start:stop].tolist(), values[start:stop].tolist(), strict=True)
            data = [{shape.primary: one, name: value} for one, value in pairs if one in there]
            if data:
                with self._client() as client:
                    client.upsert(self.name, data, partial_update=True)

    def drop_field(self, name: str) -> None:
        """Write every item that has the field again without it: an update cannot take a field away."""
        shape = self._shape()
        self._check_ids(shape)
        if name in [one["name"] for one in shape.fields]:
            raise self.failed(f"the field {name!r} is of its schema, which unhub does not change", "drop it in Milvus")
        for rows in self._pages(shape, True, BATCH_ROWS):
            data = [{key: held for key, held in one.items() if key != name} for one in rows if name in one]
            if data:
                with self._client() as client:
                    self._replace(client, data)

    # Records

    def records(self) -> dict[str, Record]:
        """Return all records of this database."""
        place = self.sibling(RECORDS)
        if not place.exists() or place._indexing("nothing") is None:  # it was interrupted before the first record
            return {}
        shape = MilvusShape("key", "nothing", 2, texts=True)
        pages = place._pages(shape, True, BATCH_ROWS)
        return {one["key"]: json.loads(one["record"]) for rows in pages for one in rows}

    def put_record(self, key: str, record: Record | None) -> None:
        """Keep a record as one row, whose writing Milvus does at once."""
        place = self.sibling(RECORDS)
        text = json.dumps(record)
        if len(text) > LONGEST_TEXT:
            raise self.failed(f"the record {key!r} has {len(text)} letters; Milvus holds {LONGEST_TEXT}")
        if record is None:
            if place.exists():
                place._load()
                with self._client() as client:
                    client.delete(RECORDS, filter=f"key == {_literal(key)}")
            return
        if place.exists() and place._indexing("nothing") is None:
            place.drop()
        if not place.exists():
            column = {"name": "record", "type": self.link.library.DataType.VARCHAR}
            fields = [{**column, "params": {"max_length": LONGEST_TEXT}}]
            place._make(MilvusShape("key", "nothing", 2, texts=True, fields=fields), MilvusIndex("FLAT", "L2"))
        with self._client() as client:
            # Milvus has no collection without a vector.
            client.upsert(RECORDS, [{"key": key, "record": text, "nothing": [0.0, 0.0]}])

    def publish(self, live: str, collection: str | None, key: str, record: Record) -> None:
        """Keep the record, then point the alias at the collection; until then the alias serves what it did."""
        if collection is not None and live in self.names():
            raise self.failed(f"{live!r} is a collection, which an alias cannot replace", "use another live name")
        self.put_record(key, record)
        if collection is not None:
            with self._client() as client:
                known = client.has_collection(live)  # also of an alias
                (client.alter_alias if known else client.create_alias)(collection, live)

    def aliases(self) -> list[str]:
        """Return the aliases of all collections."""
        with self._client() as client:
            return [one for name in client.list_collections() for one in client.list_aliases(name)["aliases"]]

    # Inside

    def _client(self) -> AbstractContextManager[Any]:
        return self.link.client(self.name)

    def _replace(self, client: Any, data: list[dict[str, Any]]) -> None:
        """Write whole rows over those with the same keys: in Lite an upsert keeps old fields, an insert does not."""
        (client.insert if is_lite(client) else client.upsert)(self.name, data)

    def _shape(self) -> MilvusShape:
        if self.link.is_missing():
            raise self.failed(f"there is no such database, so no collection {self.name!r}", "check the address")
        with self._client() as client:
            about = client.describe_collection(self.name)
        types = self.link.library.DataType
        fields = about["fields"]
        primary = next(one for one in fields if one.get("is_primary"))
        dense = [one for one in fields if one["type"] == types.FLOAT_VECTOR]
        named = [one for one in dense if one["name"] == self.column] if self.column else dense
        if len(named) != 1:
            has = ", ".join(repr(one["name"]) for one in dense) or "none"
            wanted = f"no vector {self.column!r} of float32" if self.column else "not one vector of float32"
            raise self.failed(f"has {wanted}", f"name one in the address, as in #photos.vector; it has {has}")
        vectors = {int(kind) for name, kind in types.__members__.items() if "VECTOR" in name}
        return MilvusShape(
            primary["name"],
            named[0]["name"],
            int(named[0]["params"]["dim"]),
            primary["type"] == types.VARCHAR,
            bool(about.get("auto_id") or primary.get("auto_id")),
            [one for one in fields if not one.get("is_primary") and int(one["type"]) not in vectors],
            bool(about.get("enable_dynamic_field")),
            [one["name"] for one in fields if int(one["type"]) in vectors and one is not named[0]],
        )

    def _index_state(self, vector: str) -> dict[str, Any] | None:
        with self._client() as client:
            if not client.list_indexes(self.name, field_name=vector):
                return None
            return cast("dict[str, Any] | None", client.describe_index(self.name, vector))

    def _indexing(self, vector: str) -> MilvusIndex | None:
        about = self._index_state(vector)
        if about is None:
            return None
        if about["metric_type"] not in METRICS:
            raise self.failed(f"its metric is {about['metric_type']}", f"unhub takes {', '.join(METRICS)}")
        nested = about.get("params")
        settings = dict(nested) if isinstance(nested, dict) else {}
        known = (*BOOKKEEPING, "index_type", "metric_type", "params")
        settings |= {name: value for name, value in about.items() if name not in known}
        return MilvusIndex(about["index_type"], about["metric_type"], settings)

    def _make(self, shape: MilvusShape, index: MilvusIndex) -> None:
        """Create the collection with its index, empty and loaded."""
        types = self.link.library.DataType
        with self._client() as client:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=shape.dynamic)
            if shape.texts:
                schema.add_field(shape.primary, types.VARCHAR, is_primary=True, max_length=LONGEST_TEXT)
            else:
                schema.add_field(shape.primary, types.INT64, is_primary=True)
            schema.add_field(shape.vector, types.FLOAT_VECTOR, dim=shape.dimensions)
            for one in shape.fields:
                about = {key: one[key] for key in ("nullable", "element_type", "is_partition_key") if key in one}
                schema.add_field(one["name"], one["type"], **one["params"], **about)
            indexes = client.prepare_index_params()
            # Nested, since Lite takes settings in no other way; a server takes them in both.
            nested = {"params": dict(index.settings)} if index.settings else {}
            indexes.add_index(shape.vector, index_type=index.kind, metric_type=index.metric, params=nested)
            client.create_collection(self.name, schema=schema, index_params=indexes)

    def _load(self) -> None:
        """Have it loaded, without which Milvus does not read; Lite forgets it when its process ends."""
        with self._client() as client:
            if client.get_load_state(self.name)["state"].name != "Loaded":
                client.load_collection(self.name)

    def _count(self) -> int:
        self._load()
        with self._client() as client:
            found = client.query(self.name, output_fields=["count(*)"], consistency_level="Strong")
        return int(found[0]["count(*)"])

    def _query(self, shape: MilvusShape, condition: str, payload: bool, **options: Any) -> list[dict[str, Any]]:
        self._load()
        fields = ["*", shape.vector] if payload else [shape.primary, shape.vector]
        with self._client() as client:
            return list(client.query(self.name, condition, output_fields=fields, consistency_level="Strong", **options))

    def _pages(self, shape: MilvusShape, payload: bool, rows: int) -> Iterator[list[dict[str, Any]]]:
        """Yield all rows by primary key, some at a time. Milvus's own iterator does not escape the keys."""
        after = ""
        # `iterator` asks for the order of the keys.
        while found := self._query(shape, after, payload, limit=rows, iterator="True", reduce_stop_for_best=True):
            yield found
            after = f"{shape.primary} > {_literal(found[-1][shape.primary])}"

    def _batch(self, shape: MilvusShape, found: Sequence[Mapping[str, Any]], payload: bool) -> StoredItems:
        ids = ids_of([one[shape.primary] for one in found]) if found else np.empty(0, "U1" if shape.texts else np.int64)
        rows = np.array([one[shape.vector] for one in found], np.float32).reshape(len(found), shape.dimensions)
        if not payload:
            return StoredItems(ids, rows)
        hidden = (shape.primary, shape.vector, *shape.others)
        return StoredItems(
            ids, rows, [{name: held for name, held in one.items() if name not in hidden} for one in found]
        )

    def _conditions(self, shape: MilvusShape, ids: Ids) -> Iterator[str]:
        """Yield conditions that select these ids, some at a time; ids of the other kind select nothing."""
        if (ids.dtype.kind == "U") == shape.texts:
            self._load()
            for start, stop in spans(len(ids), IDS_AT_ONCE):
                yield _one_of(shape.primary, ids[start:stop].tolist())

    def _check_width(self, rows: Float32, shape: MilvusShape) -> None:
        if rows.shape[1] != shape.dimensions:
            problem = f"has vectors of {shape.dimensions} dimensions, and {rows.shape[1]} were given"
            raise self.failed(problem, "use vectors of the same model")

    def _check_ids(self, shape: MilvusShape) -> None:
        if shape.numbered:
            problem = "its ids are given by Milvus (auto_id), which gives other ones when items are written again"
            raise self.failed(problem, "deploy to a collection beside it, with mode vectors")


def _literal(value: object) -> str:
    """Return a number or a text as Milvus's filters write it."""
    return f'"{value.translate(ESCAPES)}"' if isinstance(value, str) else str(value)


def _one_of(name: str, values: Sequence[object]) -> str:
    return f"{name} in [{', '.join(map(_literal, values))}]"


def _index_kind(name: str) -> IndexKind:
    return INDEX_KINDS.get(name.partition("_")[0], "other")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
