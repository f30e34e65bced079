"""Addresses of Postgres with pgvector: `postgresql://user:password@host:port/database?id=column#schema.table.column`.

Everything in an address that is not unhub's is libpq's own: sslmode, several hosts, `host=/folder` for a socket, and
what an address leaves out comes from the environment (PGPASSWORD, PGSERVICE) and from ~/.pgpass.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from unhub.errors import ArgumentError, optional, unknown
from unhub.stores.address import SECRETS, Address

if TYPE_CHECKING:
    from unhub.stores.postgres_store import PostgresStore

OWN_OPTIONS = ("id", "metric")
METRICS = ("cosine", "dot", "l2")
CONNECT_SECONDS = "10"  # libpq itself would wait for a host that does not answer for minutes


def open_store(address: Address) -> PostgresStore:
    """Return the table of an address; nothing is asked of the server yet."""
    optional("psycopg", "pgvector", "a store in Postgres")
    from unhub.stores.postgres_server import PostgresServer
    from unhub.stores.postgres_store import PostgresStore

    if not address.network:
        raise ArgumentError("store", f"{address} names no server", "begin it with postgresql://host/database")
    parameters = server_parameters(address)
    metric = address.option("metric")
    if metric and metric not in METRICS:
        raise unknown("store", metric, METRICS, "metrics of an address (?metric=)")
    address.named()
    return PostgresStore(address, PostgresServer(parameters))


def server_parameters(address: Address) -> dict[str, str]:
    """Return what libpq connects with. It never sees a password in a text that it could quote in an error."""
    parts = urlsplit(address.place)
    login, at, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options = [(name, value) for name, _, value in (one.partition("=") for one in parts.query.split("&")) if name]
    kept = "&".join(f"{name}={value}" for name, value in options if name not in OWN_OPTIONS + SECRETS)
    secrets = {name: unquote(value) for name, value in options if name in SECRETS}
    if password:
        secrets.setdefault("password", unquote(password))
    defaults = {"application_name": "unhub", "client_encoding": "utf8"}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        defaults["connect_timeout"] = CONNECT_SECONDS
    return defaults | _read_by_libpq(address, f"postgresql://{user}{at}{hosts}{parts.path}?{kept}") | secrets


def _read_by_libpq(address: Address, without_secrets: str) -> dict[str, str]:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return {name: str(value) for name, value in conninfo_to_dict(without_secrets).items()}
    except psycopg.Error as error:
        remedy = f"the options are those of libpq, and {', '.join(OWN_OPTIONS)}"
        raise ArgumentError("store", f"{address}: {' '.join(str(error).split())}", remedy) from None
