"""Qdrant: collections of a server, `qdrant://host:6333/photos?vector=clip`, or of the client's local mode.

Local mode, `qdrant:folder#photos`, is the client's own exact search over a folder, for small collections and tests.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast, final
from urllib.parse import unquote, urlsplit

from unhub.compute.workers import Progress
from unhub.errors import ArgumentError, optional
from unhub.stores.address import Address
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
    StoredPoint,
    listed,
    record_key,
    vector_of,
)
from unhub.stores.store import Description, Metric, Record, Store, Where

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.http import models as rest

OPTIONS = ("vector", "api_key", "tls", "timeout")
PORT = 6333
TIMEOUT_SECONDS = 60
FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0  # seconds between looks at a collection that is being indexed
META = "meta.json"  # the file by which local mode knows a folder as its own


class ClientSource(Protocol):
    """Where a client comes from: it connects when it is first needed."""

    local: bool
    hint: str  # what else may be wrong where nothing answers

    def client(self, make: bool = True) -> QdrantClient | None:
        """Return the client; None where there is nothing yet and it should not be made."""
        ...

    def close(self) -> None:
        """Let go of the client until it is needed again."""
        ...


@final
class QdrantServer:
    """A client of a server, which does not connect before its first request."""

    local = False

    def __init__(self, url: str, key: str | None, timeout: int, hint: str) -> None:
        self._url, self._key, self._timeout, self.hint = url, key, timeout, hint
        self._client: QdrantClient | None = None

    def client(self, make: bool = True) -> QdrantClient | None:
        """Return the client."""
        if self._client is None:
            parts = urlsplit(self._url)
            made = _library().QdrantClient(
                url=f"{parts.scheme}://{parts.netloc}",
                port=PORT,  # where the URL has none
                prefix=parts.path.strip("/") or None,
                api_key=self._key,
                timeout=self._timeout,
                check_compatibility=False,  # it warns in a thread, also where no server answers
            )
            self._client = cast("QdrantClient", made)
        return self._client

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None


@final
class QdrantFolder:
    """A folder of local mode, which one client of one process may have open."""

    local = True
    hint = ""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._client: QdrantClient | None = None

    def client(self, make: bool = True) -> QdrantClient | None:
        """Return the client; a folder that does not exist is created only if asked for."""
        if self._client is None:
            known = (self._path / META).is_file()
            if not known and self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
                raise ValueError("is no folder of Qdrant's local mode")
            if not known and not make:
                return None
            self._client = cast("QdrantClient", _library().QdrantClient(path=str(self._path)))
            weakref.finalize(self, self._client.close)  # also at exit, before what closing needs is gone
        return self._client

    def close(self) -> None:
        """Close the folder, so that another client can open it."""
        if self._client is not None:
            self._client.close()
            self._client = None


# A folder can be open once: all stores on it in this process share the client, which closes with the last of them.
_FOLDERS: weakref.WeakValueDictionary[str, QdrantFolder] = weakref.WeakValueDictionary()


@final
class QdrantStore(PointStore):
    """A collection behind Qdrant's client; its name may be an alias."""

    engine = "qdrant"

    def __init__(self, address: Address, name: str, source: ClientSource) -> None:
        super().__init__(address, name)
        self._source = source

    # Reading

    def exists(self) -> bool:
        """Return whether there is a collection or an alias of this name."""
        with self._asking():
            client = self._source.client(make=False)
            return client is not None and client.collection_exists(self.name)

    def collection_of(self) -> str:
        """Return the name of the collection: another than the given one where that is an alias."""
        return self._aliases().get(self.name, self.name)

    def describe(self) -> Description:
        """Return what it is; of local mode, which searches exactly, the index is flat."""
        vector, info = self.vector(fresh=True), self._info()
        local, collection = self._source.local, self.collection_of()
        settings = {**vector.told(), "status": info.status.value, "segments": str(info.segments_count)}
        settings["indexed vectors"] = str(info.indexed_vectors_count or 0)
        if info.payload_schema:
            settings["payload indexes"] = listed(
                {name: one.data_type.value for name, one in info.payload_schema.items()}
            )
        if collection != self.name:
            settings["alias of"] = collection
        if local:
            settings["mode"] = "local, exact: settings of the index and the codes are kept but not used"
        return Description(
            self.engine,
            self.name,
            vector.metric,
            vector.dimensions,
            self._count(vector),
            "flat" if local or not vector.hnsw.get("m") else "hnsw",
            "none" if local else vector.kind_of_codes,
            local or vector.rescored,
            settings,
        )

    def read_vector(self) -> PointVector:
        """Return the vector that the address means."""
        config = self._info().config
        vectors = config.params.vectors or {}
        named = vectors if isinstance(vectors, dict) else {"": vectors}
        codes = config.quantization_config
        return vector_of(
            self,
            self._asked,
            {name: _settings(one) for name, one in named.items()},
            list(config.params.sparse_vectors or {}),
            _settings(config.hnsw_config),
            _settings(codes) if codes is not None else {},
        )

    def page(
        self, start: PointKey | None, limit: int, payload: bool, chosen: Chosen = None
    ) -> tuple[list[StoredPoint], PointKey | None]:
        """Return the points from a key on."""
        with self._asking():
            records, following = self._client().scroll(
                self.name,
                scroll_filter=chosen,
                limit=limit,
                offset=start,
                with_payload=payload or [ID_FIELD],
                with_vectors=[name] if (name := self.vector().name) else True,
            )
        return [self._point(record) for record in records], cast("PointKey | None", following)

    def points(self, keys: Sequence[PointKey], rows: bool) -> list[StoredPoint]:
        """Return those of these points that exist."""
        vectors: bool | list[str] = [name] if rows and (name := self.vector().name) else rows
        with self._asking():
            found = self._client().retrieve(self.name, keys, with_payload=[ID_FIELD], with_vectors=vectors)
        return [self._point(record) for record in found]

    def find(self, queries: Sequence[PointQuery], chosen: Chosen) -> list[list[PointFound]]:
        """Return what each query finds."""
        requests = [self._request(query, chosen) for query in queries]
        with self._asking():
            answers = self._client().query_batch_points(self.name, requests)
        return [
            [PointFound(cast("PointKey", hit.id), hit.score, hit.payload or {}) for hit in one.points]
            for one in answers
        ]

    def choose(self, where: Where, keys: Sequence[PointKey] | None) -> Chosen:
        """Return a filter of the client; `where` is one, or its JSON."""
        models = _models()
        with self._asking("does not understand the filter"):
            if where is not None and not isinstance(where, models.Filter):
                as_json = isinstance(where, str)  # as from a command line
                where = (models.Filter.model_validate_json if as_json else models.Filter.model_validate)(where)
        if keys is None:
            return where
        return models.Filter(must=[*([where] if where is not None else []), models.HasIdCondition(has_id=list(keys))])

    def choose_not_negative(self) -> Chosen:
        """Return the filter for points whose kept id is no negative integer."""
        models = _models()
        return models.Filter(must_not=[models.FieldCondition(key=ID_FIELD, range=models.Range(lt=0))])

    # Writing

    def names(self) -> list[str]:
        """Return the names of the collections, without aliases."""
        with self._asking():
            client = self._source.client(make=False)
            found = [one.name for one in client.get_collections().collections] if client is not None else []
        return sorted(name for name in found if name != RECORDS)

    def sibling(self, name: str) -> QdrantStore:
        """Return another collection of the same server or folder."""
        return QdrantStore(self.address, name, self._source)

    def create(self, dimensions: int, metric: Metric, like: Store | None = None) -> None:
        """Create it with the graph, codes, storage, shards and payload indexes of another, or Qdrant's defaults."""
        if self.name == RECORDS:
            raise self.failed(f"cannot create {RECORDS!r}, where records are kept", "use another name")
        if self.exists():
            raise self.failed(f"there is already a collection or alias {self.name!r}", "drop it or use another name")
        models, distance = _models(), DISTANCES[metric]
        name, params, options, indexes = self._asked, None, dict[str, Any](), dict[str, Any]()
        if like is not None:
            if not isinstance(like, QdrantStore):
                raise ArgumentError("like", f"is {like!r}, of another engine", "leave it out")
            name, params, options, indexes = like.carried(name)
        with self._asking():
            if params is None:
                params = models.VectorParams(size=dimensions, distance=distance)
            else:
                params = params.model_copy(update={"size": dimensions, "distance": models.Distance(distance)})
            client = self._client(make=True)
            client.create_collection(self.name, vectors_config={name: params} if name else params, **options)
            try:
                for field, schema in indexes.items():
                    client.create_payload_index(self.name, field, field_schema=schema)
            except BaseException:
                client.delete_collection(self.name)
                raise
        self.forget()

    def carried(self, name: str) -> tuple[str, Any, dict[str, Any], dict[str, Any]]:
        """Return what a collection like this one takes over: its vector's name and settings, options and indexes."""
        models, vector, info = _models(), self.vector(fresh=True), self._info()
        params, vectors = info.config.params, info.config.params.vectors
        kept = ("shard_number", "replication_factor", "write_consistency_factor", "on_disk_payload", "payload")
        options = {one: getattr(params, one, None) for one in (*kept, "id_tracker")}
        if str(getattr(params.sharding_method, "value", "")) == "custom":  # writing would need the key of a shard
            del options["shard_number"]
        options["quantization_config"] = info.config.quantization_config
        options["hnsw_config"] = models.HnswConfigDiff(**_settings(info.config.hnsw_config))
        options["optimizers_config"] = models.OptimizersConfigDiff(**_settings(info.config.optimizer_config))
        # In local mode indexes have no effect but a warning.
        schemas = {} if self._source.local else info.payload_schema
        indexes = {field: schema.params or schema.data_type for field, schema in schemas.items()}
        found = vectors[vector.name] if isinstance(vectors, dict) else vectors
        return name or vector.name, found, {one: held for one, held in options.items() if held is not None}, indexes

    def put(self, points: Sequence[StoredPoint]) -> None:
        """Write points."""
        models, name = _models(), self.vector().name
        with self._asking():
            made = [
                models.PointStruct(id=key, vector={name: row} if name else row, payload=payload)
                for key, row, payload in points
            ]
            self._client().upsert(self.name, made, wait=True)

    def delete(self, keys: Sequence[PointKey]) -> None:
        """Drop points."""
        with self._asking():
            self._client().delete(self.name, _models().PointIdsList(points=list(keys)), wait=True)

    def finish(self, progress: Progress | None = None) -> None:
        """Wait until the optimiser has built the index: until the collection is green."""
        wait = FIRST_WAIT
        while (status := (info := self._info()).status.value) != "green":
            if status == "red":
                raise self.failed("has a failed optimiser", "look at the server's log")
            with self._asking():
                if status == "grey":  # optimising was not started: any update of the settings starts it
                    self._client().update_collection(self.name, optimizers_config=_models().OptimizersConfigDiff())
            if progress is not None and info.points_count:
                progress(min(info.indexed_vectors_count or 0, info.points_count), info.points_count)
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def drop(self) -> None:
        """Drop the collection, if it exists; an alias is not dropped."""
        if not self.exists():
            return
        if (collection := self.collection_of()) != self.name:
            raise self.failed(f"{self.name!r} is an alias of {collection!r}", f"drop {collection!r} itself")
        with self._asking():
            self._client().delete_collection(self.name)
        self.forget()

    def put_values(self, field: str, values: Sequence[tuple[PointKey, float]]) -> None:
        """Set a field of points that exist."""
        models = _models()
        changes = [
            models.SetPayloadOperation(set_payload=models.SetPayload(payload={field: value}, points=[key]))
            for key, value in values
        ]
        with self._asking():
            self._client().batch_update_points(self.name, changes, wait=True)

    def delete_values(self, path: str) -> None:
        """Drop a field of every point."""
        with self._asking():
            self._client().delete_payload(self.name, [path], _models().Filter(), wait=True)

    # Records: points of one small collection, whose payload is the record as a text

    def records(self) -> dict[str, Record]:
        """Return all records."""
        kept: dict[str, Record] = {}
        with self._asking():
            client = self._source.client(make=False)
            if client is None or not client.collection_exists(RECORDS):
                return kept
            following = None
            while True:
                points, following = client.scroll(RECORDS, limit=1000, offset=following, with_payload=True)
                for payload in (point.payload or {} for point in points):
                    kept[payload["key"]] = json.loads(payload["record"])
                if following is None:
                    return kept

    def put_record(self, key: str, record: Record | None) -> None:
        """Keep a record: one write of one point."""
        models, point = _models(), record_key(key)
        text = json.dumps(record, allow_nan=False)
        with self._asking():
            client = self._client(make=True)
            if not client.collection_exists(RECORDS):
                if record is None:
                    return
                smallest = models.VectorParams(size=1, distance=models.Distance.DOT)
                try:
                    client.create_collection(RECORDS, vectors_config=smallest)
                except Exception:
                    if not client.collection_exists(RECORDS):  # another process may have made it meanwhile
                        raise
            if record is None:
                client.delete(RECORDS, models.PointIdsList(points=[point]), wait=True)
            else:
                kept = models.PointStruct(id=point, vector=[0.0], payload={"key": key, "record": text})
                client.upsert(RECORDS, [kept], wait=True)

    def aliases(self) -> list[str]:
        """Return the aliases of all collections."""
        return [*self._aliases()]

    def publish(self, live: str, collection: str | None, key: str, record: Record) -> None:
        """Keep the record, then move the alias in one step; until then the alias serves what it did."""
        models = _models()
        moves: list[Any] = []
        if collection is not None:
            names = self.names()
            if live in names:
                raise self.failed(f"{live!r} is a collection, so it can be no alias", "choose another live name")
            if collection not in names:
                raise self.failed(f"there is no collection {collection!r} to make live", "deploy it first")
            changes = [models.CreateAlias(collection_name=collection, alias_name=live)]
            moves = [models.CreateAliasOperation(create_alias=one) for one in changes]
            if live in self._aliases():
                moves.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=live)))
        self.put_record(key, record)
        if moves:
            with self._asking():
                self._client().update_collection_aliases(moves)

    def close(self) -> None:
        """Let go of the server or folder, for this store and its siblings; the next call opens it again."""
        self._source.close()

    # Inside

    def _client(self, make: bool = False) -> QdrantClient:
        client = self._source.client(make)
        if client is None:
            raise self.failed("the folder does not exist", "check the address")
        return client

    def _info(self) -> rest.CollectionInfo:
        with self._asking():
            client = self._source.client(make=False)
            try:
                if client is not None:
                    return client.get_collection(self.name)
            except Exception:
                if client is not None and client.collection_exists(self.name):
                    raise
        raise self.failed(f"there is no collection {self.name!r}", f"the collections here: {self._listed()}")

    def _listed(self) -> str:
        return ", ".join([*self.names(), *(f"{alias} (alias)" for alias in self._aliases())]) or "none"

    def _aliases(self) -> dict[str, str]:
        with self._asking():
            client = self._source.client(make=False)
            found = client.get_aliases().aliases if client is not None else []
        return {one.alias_name: one.collection_name for one in found}

    def _count(self, vector: PointVector) -> int:
        """Return how many points have the vector."""
        models = _models()
        having = models.Filter(must=[models.HasVectorCondition(has_vector=vector.name)]) if vector.name else None
        with self._asking():
            return self._client().count(self.name, count_filter=having, exact=True).count

    def _request(self, query: PointQuery, chosen: Chosen) -> rest.QueryRequest:
        models, using = _models(), self.vector().name or None
        # Local mode searches exactly and warns of parameters.
        params = models.SearchParams(hnsw_ef=query.effort) if query.effort and not self._source.local else None
        if query.correcting is None:
            made = models.QueryRequest(
                query=query.row, using=using, filter=chosen, params=params, limit=query.k, with_payload=[ID_FIELD]
            )
            return cast("rest.QueryRequest", made)
        field, candidates = query.correcting
        less = models.MultExpression(mult=[-query.weight, field])
        made = models.QueryRequest(
            prefetch=models.Prefetch(query=query.row, using=using, filter=chosen, limit=candidates),
            query=models.FormulaQuery(formula=models.SumExpression(sum=["$score", less]), defaults={field: 0.0}),
            limit=query.k,
            with_payload=[ID_FIELD],
        )
        return cast("rest.QueryRequest", made)

    def _point(self, record: rest.Record) -> StoredPoint:
        rows: Any = record.vector
        row = rows.get(self.vector().name) if isinstance(rows, dict) else rows
        return StoredPoint(cast("PointKey", record.id), row, record.payload or {})

    @contextmanager
    def _asking(self, doing: str = "") -> Iterator[None]:
        """Raise what the client raises as one clear error, without what was sent, which holds the key."""
        try:
            yield
        except (ArgumentError, ImportError):
            raise
        except Exception as error:
            raise self._told(error, doing) from None

    def _told(self, error: Exception, doing: str) -> ArgumentError:
        exceptions = optional("qdrant_client.http.exceptions", "qdrant", "Qdrant")
        if isinstance(error, exceptions.ResponseHandlingException):
            source, transport = error.source, optional("httpx", "qdrant", "Qdrant").TransportError
            if isinstance(source, transport):
                remedy = f"start it, or check host and port{self._source.hint}"
                return self.failed(f"no Qdrant answers there ({type(source).__name__})", remedy)
        if isinstance(error, exceptions.ResponseHandlingException | json.JSONDecodeError):
            if self._source.local:
                return self.failed(f"is damaged: {error}", "restore the folder from a copy")
            return self.failed("what answers there does not answer as Qdrant does", "check host and port")
        if isinstance(error, exceptions.UnexpectedResponse):
            said = _said(error.content)
            if error.status_code in (401, 403):
                problem = f"refuses: {said or 'wrong API key, or no right to do this'}"
                return self.failed(problem, "give a key with the right as api_key= or in QDRANT_API_KEY")
            problem = said or f"answers {error.status_code}, not as Qdrant does"
            return self.failed(problem, "" if said else "check host and port")
        return self.failed(" ".join(filter(None, [doing, str(error) or type(error).__name__])))


def open_store(address: Address) -> QdrantStore:
    """Open a collection of a server or of a folder of local mode."""
    _library()
    address.check_options(*OPTIONS)
    if address.network:
        return _on_server(address)
    folder = os.path.realpath(address.place)
    # A collection's name may hold a dot; what the address splits off as a column is part of it.
    name = ".".join(filter(None, [address.named(), address.column]))
    shared = _FOLDERS.get(folder)
    if shared is None:
        shared = _FOLDERS[folder] = QdrantFolder(Path(folder))
    return QdrantStore(address, name, shared)


def _on_server(address: Address) -> QdrantStore:
    """Return a collection of a server; without a host it is the one of QDRANT_URL."""
    parts = urlsplit(address.place)
    prefix, _, name = unquote(parts.path).rpartition("/")
    if not name or address.collection:
        example = "for example qdrant://localhost:6333/photos"
        raise ArgumentError("store", f"{address} names no collection in its path", example)
    key = address.option("api_key") or os.environ.get("QDRANT_API_KEY") or None
    try:
        timeout = int(address.option("timeout") or TIMEOUT_SECONDS)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ArgumentError("store", f"{address} has a port or timeout that is no whole number") from None
    if parts.username or parts.password:
        raise ArgumentError("store", f"{address} has a user, which Qdrant has not", "give the key as ?api_key=")
    if not host:
        if not (url := os.environ.get("QDRANT_URL", "")):
            raise ArgumentError("store", f"{address} names no host", "add it, or set QDRANT_URL")
        return QdrantStore(address, name, QdrantServer(url.rstrip("/") + prefix, key, timeout, ""))
    tls = address.option("tls")
    # As Qdrant's client does: a key is sent in the open only where the user says so.
    safe = tls == "1" or (tls == "" and key is not None)
    hint = "; with a key TLS is used, tls=0 turns it off" if safe and tls == "" else ""
    shown_host = f"[{host}]" if ":" in host else host
    url = f"{'https' if safe else 'http'}://{shown_host}:{port or PORT}{prefix}"
    return QdrantStore(address, name, QdrantServer(url, key, timeout, hint))


def _library() -> ModuleType:
    return optional("qdrant_client", "qdrant", "Qdrant")


def _models() -> Any:
    return optional("qdrant_client.models", "qdrant", "Qdrant")


def _settings(model: Any) -> dict[str, Any]:
    """Return a model of the client as JSON."""
    return cast("dict[str, Any]", model.model_dump(mode="json", exclude_none=True))


def _said(content: bytes) -> str:
    """Return the error in an answer of Qdrant, "" where it is not one of Qdrant's."""
    try:
        return str(json.loads(content)["status"]["error"])
    except (ValueError, TypeError, KeyError):
        return ""
