"""Milvus's link: how a server or a folder of Milvus Lite is reached, and its errors in plain words."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from unhub.errors import ArgumentError, optional
from unhub.stores.address import HIDDEN, Address

CONNECT_SECONDS = 10
FAILED_TO_CONNECT = 2  # Milvus's code
ENDING = ".db"
LOGGERS = ("pymilvus", "milvus_lite", "grpc")


def milvus_link(address: Address) -> tuple[MilvusLink, str]:
    """Return how the database of an address is reached, and the collection in it.

    A server: `host:port/[database/]collection`, or `host:port/database#collection.column`.
    """
    library = optional("pymilvus", "milvus", "a Milvus store")
    if not address.network:
        return MilvusLink(address, library, address.place), address.named()
    parts = urlsplit(address.place)
    before, _, last = unquote(parts.path).strip("/").rpartition("/")
    collection, database = (address.collection, last) if address.collection else (last, before)
    user, _, host = parts.netloc.rpartition("@")
    scheme = "http" if parts.scheme == address.scheme else parts.scheme
    token = unquote(user) or address.option("token") or os.environ.get("MILVUS_TOKEN", "")
    link = MilvusLink(address, library, f"{scheme}://{host}", token, database or address.option("database"))
    return link, collection or address.named()


@dataclass
class MilvusLink:
    """A database of Milvus, connected when it is first used; to connect to a folder that is missing creates it."""

    address: Address
    library: ModuleType
    url: str
    token: str = field(default="", repr=False)
    database: str = ""
    connected: Any = field(default=None, repr=False)

    def is_missing(self) -> bool:
        """Return whether it is a folder that does not exist."""
        return not self.address.network and not os.path.lexists(self.url)

    @contextmanager
    def client(self, collection: str) -> Iterator[Any]:
        """Yield the client; what it raises becomes one error in plain words, without secrets, and nothing is logged."""
        with _quiet():
            try:
                if self.connected is None:
                    self.connected = self._connected()
                yield self.connected
                return
            except self.library.MilvusException as error:
                explained = self._explained(error, collection)
        raise explained from None

    def _connected(self) -> Any:
        if not self.address.network:
            self._check_folder()
        try:
            return self.library.MilvusClient(self.url, token=self.token, db_name=self.database, timeout=CONNECT_SECONDS)
        except self.library.exceptions.ConnectionConfigException:
            if self.address.network:
                raise
            remedy = "close the other process, or run `milvus-lite server` and use milvus://localhost:19530"
            problem = "Milvus Lite does not open it: another process has it, or it is damaged"
            raise self._failed(problem, remedy) from None

    def _check_folder(self) -> None:
        path = self.address.path
        if path.suffix != ENDING:
            raise self._failed(f"a database of Milvus Lite has a name that ends in {ENDING}", "check the address")
        if path.is_file():
            remedy = "write the data anew; older versions of Milvus Lite kept it in a file, which this one cannot read"
            raise self._failed("is a file, and a database of Milvus Lite is a folder", remedy)
        if path.is_dir() and any(path.iterdir()) and not (path / "LOCK").exists():
            raise self._failed("is a folder of something else, not of Milvus Lite", "check the address")
        parent = path.absolute().parent
        if not parent.is_dir():
            raise self._failed("is in a folder that does not exist", "create the folder first")
        if self.is_missing() and not os.access(parent, os.W_OK):
            raise self._failed("cannot be created: no permission to write into its folder", "use another folder")
        optional("milvus_lite", "milvus", "a database of Milvus in a folder")

    def _explained(self, error: Any, collection: str) -> ArgumentError:
        codes = self.library.exceptions.ErrorCode
        if error.code == FAILED_TO_CONNECT:
            return self._failed("Milvus does not answer there", "start it, and check the host, the port and the token")
        if error.code == codes.COLLECTION_NOT_FOUND:
            return self._failed(f"there is no collection {collection!r}", "check the name")
        message = " ".join(str(error.message).split()) or f"error {error.code}"
        for secret in filter(None, (self.token, self.token.partition(":")[2])):
            message = message.replace(secret, HIDDEN)
        return self._failed(f"Milvus says: {message}", "")

    def _failed(self, problem: str, remedy: str) -> ArgumentError:
        return ArgumentError("store", f"{self.address}: {problem}", remedy)


def is_lite(client: Any) -> bool:
    """Return whether it is Milvus Lite that answers, in a folder or as a server."""
    return str(client.get_server_version()).startswith("milvus_lite")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep pymilvus and Lite from logging a traceback for every error before it is raised."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)
