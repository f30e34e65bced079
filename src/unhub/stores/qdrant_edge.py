"""Qdrant Edge: Qdrant's engine in this process, `qdrant-edge:folder#photos`; each collection is a shard in a folder.

Without `#name` the folder is the shard itself, and its siblings are beside it. A shard is open in one process at a
time. Records are JSON files beside the shards.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final
from weakref import WeakValueDictionary

from unhub.atomic import beside, remove_strays, replacing, strays
from unhub.compute.workers import Progress
from unhub.errors import ArgumentError, optional
from unhub.stores.address import Address
from unhub.stores.qdrant_filters import edge_filter
from unhub.stores.qdrant_points import (
    DISTANCES,
    ID_FIELD,
    RECORDS,
    Chosen,
    PointFound,
    PointKey,
    PointQuery,
    PointStore,
    PointVector,
    Settings,
    StoredPoint,
    listed,
    record_key,
    vector_of,
)
from unhub.stores.store import Description, Metric, Record, Store, Where

if TYPE_CHECKING:
    import qdrant_edge as edge

CONFIG = "edge_config.json"
SEGMENTS = "segments"  # what makes a folder a shard
NOT_IN_NAMES = '<>:"/\\|?*\0\x1f'  # as Qdrant has it for collections
DEFAULT_HNSW = {"m": 16, "ef_construct": 100}
# The enumerations of a shard's settings, by the setting.
ENUMERATIONS = {
    "memory": "Memory",
    "payload_memory": "Memory",
    "id_tracker_memory": "Memory",
    "datatype": "VectorStorageDatatype",
    "type": "ScalarType",
    "compression": "CompressionRatio",
    "encoding": "BinaryQuantizationEncoding",
    "query_encoding": "BinaryQuantizationQueryEncoding",
    "bits": "TurboQuantBitSize",
}
QUANTISERS = {
    "scalar": "ScalarQuantizationConfig",
    "product": "ProductQuantizationConfig",
    "binary": "BinaryQuantizationConfig",
    "turbo": "TurboQuantQuantizationConfig",
}


@final
class OpenShard:
    """A shard that is opened when first needed; the stores on it in this process share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shard: edge.EdgeShard | None = None

    def shard(self) -> edge.EdgeShard:
        """Return the shard."""
        if self._shard is None:
            self._shard = _edge().EdgeShard.load(str(self.path))
        return cast("edge.EdgeShard", self._shard)

    def close(self) -> None:
        """Close it: all that was written is on disk."""
        if self._shard is not None:
            self._shard.close()
            self._shard = None


# A shard can be open once: it closes with the last store on it.
_SHARDS: WeakValueDictionary[str, OpenShard] = WeakValueDictionary()


@final
class QdrantEdgeStore(PointStore):
    """A shard of Qdrant's engine in this process."""

    engine = "qdrant-edge"
    counts_cheaply = False

    def __init__(self, address: Address, place: Path, name: str) -> None:
        super().__init__(address, name)
        self._place = place
        path = os.path.realpath(place / name)
        shared = _SHARDS.get(path)
        if shared is None:
            shared = _SHARDS[path] = OpenShard(Path(path))
        self._open = shared

    # Reading

    def exists(self) -> bool:
        """Return whether there is a shard of this name."""
        return _is_shard(self._place / self.name)

    def describe(self) -> Description:
        """Return what it is."""
        vector = self.vector(fresh=True)
        with self._asking():
            info, module = self._shard().info(), _edge()
            having = module.Filter(must=[module.HasVectorCondition(vector.name)])
            # Exact: after a kill the points of unfinished segments are counted twice otherwise.
            count = self._shard().count(module.CountRequest(exact=True, filter=having))
        settings = {**vector.told(), "segments": str(info.segments_count)}
        settings["indexed vectors"] = str(info.indexed_vectors_count)
        if info.payload_schema:
            kinds = {name: str(one.data_type).rpartition(".")[2].lower() for name, one in info.payload_schema.items()}
            settings["payload indexes"] = listed(kinds)
        return Description(
            self.engine,
            self.name,
            vector.metric,
            vector.dimensions,
            count,
            "hnsw" if vector.hnsw.get("m") else "flat",
            vector.kind_of_codes,
            vector.rescored,
            settings,
        )

    def read_vector(self) -> PointVector:
        """Return the vector that the address means, by the settings beside the shard."""
        config = self.settings()
        graph = {**DEFAULT_HNSW, **(config.get("hnsw_config") or {})}
        sparse = list(config.get("sparse_vectors") or {})
        codes = config.get("quantization_config") or {}
        return vector_of(self, self._asked, config.get("vectors") or {}, sparse, graph, codes)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the shard, which the engine keeps in a file once it has opened it."""
        with self._asking():
            self._shard()
            return cast("dict[str, Any]", json.loads((self._open.path / CONFIG).read_text("utf-8")))

    def page(
        self, start: PointKey | None, limit: int, payload: bool, chosen: Chosen = None
    ) -> tuple[list[StoredPoint], PointKey | None]:
        """Return the points from a key on."""
        name = self.vector().name
        with self._asking():
            records, following = self._shard().scroll(
                _edge().ScrollRequest(
                    offset=start,
                    limit=limit,
                    filter=chosen,
                    with_payload=payload or [ID_FIELD],
                    with_vector=[name] if name else True,
                )
            )
        return [_point(record, name) for record in records], _key(following) if following is not None else None

    def points(self, keys: Sequence[PointKey], rows: bool) -> list[StoredPoint]:
        """Return those of these points that exist."""
        name = self.vector().name
        with self._asking():
            found = self._shard().retrieve(list(keys), [ID_FIELD], [name] if rows and name else rows)
        return [_point(record, name) for record in found]

    def find(self, queries: Sequence[PointQuery], chosen: Chosen) -> list[list[PointFound]]:
        """Return what each query finds."""
        with self._asking():
            requests = [self._request(query, chosen) for query in queries]
            answers = self._shard().query_batch(_edge().QueryBatchRequest(requests))
        return [[PointFound(_key(hit.id), hit.score, hit.payload or {}) for hit in hits] for hits in answers]

    def choose(self, where: Where, keys: Sequence[PointKey] | None) -> Chosen:
        """Return a filter of the engine; `where` is one, or one of Qdrant's client, or its JSON."""
        module = _edge()
        with self._asking("does not understand the filter: "):
            chosen = edge_filter(module, where) if where is not None else None
        if keys is None:
            return chosen
        among = module.HasIdCondition(set(keys))
        return module.Filter(must=[*([chosen] if chosen is not None else []), among])

    def choose_not_negative(self) -> Chosen:
        """Return the filter for points whose kept id is no negative integer."""
        module = _edge()
        return module.Filter(must_not=[module.FieldCondition(ID_FIELD, range=module.RangeFloat(lt=0))])

    # Writing

    def names(self) -> list[str]:
        """Return the names of the shards in the folder."""
        if not self._place.is_dir():
            return []
        return sorted(one.name for one in self._place.iterdir() if _is_shard(one) and not one.name.startswith("."))

    def sibling(self, name: str) -> QdrantEdgeStore:
        """Return another shard of the same folder."""
        return QdrantEdgeStore(self.address, self._place, _checked_name(self.address, name))

    def create(self, dimensions: int, metric: Metric, like: Store | None = None) -> None:
        """Create it with the graph, codes, storage and payload indexes of another, or Qdrant's defaults."""
        target = self._open.path
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise self.failed(f"there is already something at {target}", "drop it or use another name")
        config, name, indexes = dict[str, Any](), self._asked, dict[str, Any]()
        if like is not None:
            if not isinstance(like, QdrantEdgeStore):
                raise ArgumentError("like", f"is {like!r}, of another engine", "leave it out")
            config, name, indexes = like.carried(name)
        with self._asking():
            # Made under another name, so that a shard of this name is always whole.
            target.parent.mkdir(parents=True, exist_ok=True)
            for stray in strays(target):  # of a process that was killed
                shutil.rmtree(stray, ignore_errors=True)
            made = beside(target)
            try:
                shard = _edge().EdgeShard.create(str(made), _config(config, name, dimensions, metric))
                for field, schema in indexes.items():
                    shard.update(_edge().UpdateOperation.create_field_index(field, schema))
                shard.flush()
                shard.close()
                made.rename(target)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
        self.forget()

    def carried(self, name: str) -> tuple[dict[str, Any], str, dict[str, Any]]:
        """Return what a shard like this one takes over: settings with its vector alone, its name, payload indexes."""
        config, vector = self.settings(), self.vector(fresh=True)
        with self._asking():
            schema = self._shard().info().payload_schema
        indexes = {field: one.params or one.data_type for field, one in schema.items()}
        return {**config, "vectors": config["vectors"][vector.name]}, name or vector.name, indexes

    def put(self, points: Sequence[StoredPoint]) -> None:
        """Write points."""
        module, name = _edge(), self.vector().name
        with self._asking():
            made = [module.Point(key, {name: row} if name else row, payload) for key, row, payload in points]
            self._shard().update(module.UpdateOperation.upsert_points(made))

    def delete(self, keys: Sequence[PointKey]) -> None:
        """Drop points."""
        with self._asking():
            self._shard().update(_edge().UpdateOperation.delete_points(list(keys)))

    def finish(self, progress: Progress | None = None) -> None:
        """Build the index, which a shard does only when told, and wait until it is on disk."""
        self.vector(fresh=True)
        with self._asking():
            self._shard().optimize()
            self._shard().flush()

    def drop(self) -> None:
        """Drop the shard, if it exists: first its name, then its files, also those that a killed process left."""
        with self._asking():
            for stray in strays(self._open.path):
                shutil.rmtree(stray, ignore_errors=True)
        if not self.exists():
            return
        with self._asking():
            self._shard()  # which no other process may have open
            self._open.close()
            gone = beside(self._open.path)
            self._open.path.rename(gone)
            shutil.rmtree(gone)
        self.forget()

    def put_values(self, field: str, values: Sequence[tuple[PointKey, float]]) -> None:
        """Set a field of points that exist."""
        change = _edge().UpdateOperation.set_payload
        with self._asking():
            for key, value in values:
                self._shard().update(change([key], {field: value}))

    def delete_values(self, path: str) -> None:
        """Drop a field of every point."""
        module = _edge()
        with self._asking():
            self._shard().update(module.UpdateOperation.delete_payload_by_filter(module.Filter(), [path]))

    # Records: a file each

    def records(self) -> dict[str, Record]:
        """Return all records."""
        with self._asking("has damaged records: "):
            read = [json.loads(path.read_text("utf-8")) for path in sorted(self._records.glob("*.json"))]
            return {one["key"]: one["record"] for one in read}

    def put_record(self, key: str, record: Record | None) -> None:
        """Keep a record in a file that appears whole."""
        path, text = self._records / f"{record_key(key)}.json", json.dumps({"key": key, "record": record})
        with self._asking():
            if self._records.is_dir():
                remove_strays(path)
            if record is None:
                path.unlink(missing_ok=True)
                return
            self._records.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_text(text, "utf-8")

    def publish(self, live: str, collection: str | None, key: str, record: Record) -> None:
        """Keep the record, which alone says what is live: shards have no aliases."""
        if collection is not None and collection not in self.names():
            raise self.failed(f"there is no collection {collection!r} to make live", "deploy it first")
        self.put_record(key, record)

    def close(self) -> None:
        """Close the shard for every store on it, so that another process can open it; the next call opens it again."""
        with self._asking():
            self._open.close()

    # Inside

    @property
    def _records(self) -> Path:
        return self._place / RECORDS

    def _shard(self) -> edge.EdgeShard:
        if not self.exists():
            here = ", ".join(self.names()) or "none"
            raise self.failed(f"there is no collection {self.name!r}", f"the collections here: {here}")
        try:
            return self._open.shard()
        except Exception as error:
            remedy = "close it in the other process that has it open; if none has, it is damaged"
            raise self.failed(f"cannot be opened: {error}", remedy) from None

    def _request(self, query: PointQuery, chosen: Chosen) -> edge.QueryRequest:
        module, using = _edge(), self.vector().name or None
        nearest = module.Query.Nearest(query.row, using=using)
        params = module.SearchParams(hnsw_ef=query.effort) if query.effort else None
        if query.correcting is None:
            made = module.QueryRequest(
                limit=query.k, query=nearest, filter=chosen, params=params, with_payload=[ID_FIELD]
            )
            return cast("edge.QueryRequest", made)
        field, candidates = query.correcting
        expression = module.Expression
        less = expression.Mult([expression.Constant(-query.weight), expression.Variable(field)])
        made = module.QueryRequest(
            limit=query.k,
            prefetches=[module.Prefetch(limit=candidates, query=nearest, filter=chosen)],
            query=module.Formula(expression.Sum([expression.Variable("$score"), less]), {field: 0.0}),
            with_payload=[ID_FIELD],
        )
        return cast("edge.QueryRequest", made)

    @contextmanager
    def _asking(self, doing: str = "") -> Iterator[None]:
        """Raise what the engine raises, which has no types of its own, as one clear error."""
        try:
            yield
        except (ArgumentError, ImportError):
            raise
        except Exception as error:
            raise self.failed(f"{doing}{str(error) or type(error).__name__}") from None


def open_store(address: Address) -> QdrantEdgeStore:
    """Open a shard: the one of this name in the folder, or the folder itself where the address names none."""
    _edge()
    address.check_options("vector")
    if address.network:
        raise ArgumentError("store", f"{address} has a host", "qdrant-edge is a folder; use qdrant:// for a server")
    name = ".".join(filter(None, [address.collection, address.column]))
    if name:
        return QdrantEdgeStore(address, address.path, _checked_name(address, name))
    whole = Path(os.path.realpath(address.path))
    return QdrantEdgeStore(address, whole.parent, _checked_name(address, whole.name))


def _checked_name(address: Address, name: str) -> str:
    """Return a name that is safe as that of a folder in the place."""
    if not name or name.startswith(".") or name == RECORDS or len(name.encode()) > 200 or set(name) & set(NOT_IN_NAMES):
        raise ArgumentError("store", f"{address}: no collection can be named {name!r}", "use letters, digits and _")
    return name


def _is_shard(path: Path) -> bool:
    return (path / SEGMENTS).is_dir()


def _edge() -> Any:
    return optional("qdrant_edge", "qdrant", "Qdrant Edge")


def _key(key: Any) -> PointKey:
    """Return a key: the engine gives UUIDs as objects."""
    return key if isinstance(key, int) else str(key)


def _point(record: edge.Record, name: str) -> StoredPoint:
    rows: Any = record.vector
    row = rows.get(name) if isinstance(rows, dict) else rows
    return StoredPoint(_key(record.id), row, record.payload or {})


# Settings, from the file of a shard to what makes another


def _config(config: Settings, name: str, dimensions: int, metric: Metric) -> edge.EdgeConfig:
    """Return the settings of a new shard out of those of another, whose `vectors` are one vector's; {} for defaults."""
    module = _edge()
    made = {one: value for one, value in config.items() if value is not None}
    made.pop("sparse_vectors", None)
    vector = {one: value for one, value in made.pop("vectors", {}).items() if value is not None}
    vector |= {"size": dimensions, "distance": getattr(module.Distance, DISTANCES[metric])}
    params = module.EdgeVectorParams(**_built(vector))
    optimizers = made.pop("optimizers", None)
    if optimizers:
        made["optimizers"] = module.EdgeOptimizersConfig(**optimizers)
    return cast("edge.EdgeConfig", module.EdgeConfig(vectors={name: params} if name else params, **_built(made)))


def _built(settings: Settings) -> dict[str, Any]:
    """Return settings with objects of the engine for what is JSON in its file."""
    builders: Mapping[str, Callable[[Any], Any]] = {"hnsw_config": _graph, "quantization_config": _quantiser}
    built: dict[str, Any] = {}
    for name, value in settings.items():
        if name in builders:
            built[name] = builders[name](value)
        else:
            built[name] = _member(ENUMERATIONS[name], value) if name in ENUMERATIONS else value
    return built


def _graph(settings: Settings) -> edge.HnswIndexConfig:
    return cast("edge.HnswIndexConfig", _edge().HnswIndexConfig(**_built(settings)))


def _quantiser(settings: Settings) -> Any:
    ((kind, given),) = settings.items()
    return getattr(_edge(), QUANTISERS[kind])(**_built(given))


def _member(enumeration: str, text: str) -> Any:
    """Return the member of an enumeration that a file spells in small letters: `one_and_half_bits`."""
    members = getattr(_edge(), enumeration)
    plain = text.replace("_", "").lower()
    return next(getattr(members, one) for one in dir(members) if one.replace("_", "").lower() == plain)
