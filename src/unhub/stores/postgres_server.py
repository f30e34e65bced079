"""A connection to Postgres that is opened when first needed, and what its errors mean in plain words."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, final

import psycopg

from unhub.errors import ArgumentError
from unhub.stores.address import HIDDEN, SECRETS

PostgresConnection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Failed: TypeAlias = Callable[[str, str], ArgumentError]

CONNECTING = "check host, port, user, password and database; a password may also stand in PGPASSWORD or ~/.pgpass"
AGAIN = "try again: the next call connects anew"
# What to do about errors of the server, by SQLSTATE or its first two letters.
REMEDIES: Mapping[str, str] = {
    "08": AGAIN,
    "57": AGAIN,
    "21": "give each id once",
    "22": "check the values",
    "23": "check ids and payload against the constraints of the table",
    "28": CONNECTING,
    "2B": "publish another table under the live name first",
    "3D": CONNECTING,
    "3F": "create the schema first",
    "42501": "ask the owner of the database for the right (CREATE on the schema, TEMPORARY on the database)",
    "42601": "where= is a condition in SQL, such as colour = 'red'",
    "42703": "check the columns that where= names",
    "42P01": "check the name of the table",
    "42P07": "drop it first",
    "42P10": "the id column needs a primary key or a unique constraint to be written",
    "53": "give the server more room, or its session less work_mem",
    "54": "use fewer dimensions",
}


@final
class PostgresServer:
    """One database of a server. Who uses its connection holds the lock; a lost connection is opened again."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters
        self._held: list[PostgresConnection] = []
        self.lock = threading.RLock()
        weakref.finalize(self, _close, self._held)

    def same_place(self, other: PostgresServer) -> bool:
        """Return whether both are the same database."""
        return self is other or self._parameters == other._parameters

    def connect(self, failed: Failed) -> PostgresConnection:
        """Return a new connection, which who asked for it closes.

        Nothing is prepared, so that a pooler may give each transaction another session of the server.
        """
        parameters: dict[str, Any] = {**self._parameters, "autocommit": True, "prepare_threshold": None}
        with self.telling(failed, connecting=True):
            return psycopg.connect(**parameters)

    def connection(self, failed: Failed) -> PostgresConnection:
        """Return the connection that is kept, opened anew if it was lost."""
        if not self._held or self._held[0].closed:
            _close(self._held)
            self._held.append(self.connect(failed))
        return self._held[0]

    @contextmanager
    def telling(self, failed: Failed, connecting: bool = False) -> Iterator[None]:
        """Raise what libpq or the server reports as one line in plain words, without a password."""
        try:
            yield
        except psycopg.Error as error:
            problem, remedy = _meaning(error, connecting)
            for name in SECRETS:
                if secret := self._parameters.get(name):
                    problem = problem.replace(secret, HIDDEN)
            raise failed(problem, remedy) from None


def _meaning(error: psycopg.Error, connecting: bool) -> tuple[str, str]:
    """Return the problem and the remedy."""
    said = " ".join((error.diag.message_primary or str(error)).split())
    if connecting:
        return f"cannot connect to Postgres ({said})", CONNECTING
    if error.sqlstate is not None:
        return f"Postgres says: {said}", REMEDIES.get(error.sqlstate) or REMEDIES.get(error.sqlstate[:2], "")
    if isinstance(error, psycopg.OperationalError):
        return f"the connection to Postgres was lost ({said})", AGAIN
    return said, ""  # of psycopg itself, such as a text with NUL


def _close(held: list[PostgresConnection]) -> None:
    while held:
        held.pop().close()
