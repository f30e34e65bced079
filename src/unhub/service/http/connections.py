"""Connections: how long a client may take to send a request and to read its answer, and how many there may be.

uvicorn bounds only the pause between two requests. It parses by h11 here, also where a faster parser is installed: h11
bounds the size of a head, and what is served behaves the same everywhere.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from unhub.service.http.safety import problem_of
from unhub.service.limits import Refused, ServiceLimits

OTHER_FILES = 100  # that the process may have open besides its connections


class BoundedConnection(H11Protocol):
    """A connection that is closed if the head of a request does not come in time, or its answer is not read in time."""

    limits = ServiceLimits()
    most = limits.connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request; where there are too many connections, close the one that waits longest."""
        super().connection_made(transport)
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._waits_since = self.loop.time()
        self._watch_head()
        if len(self.connections) > self.most:
            waiting = [one for one in self.connections if isinstance(one, BoundedConnection) and not one.is_answering]
            longest = min(waiting, key=lambda one: one._waits_since)
            self.connections.discard(longest)  # at once: others may come before it is lost
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        for timer in (self._head_timer, self._read_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    @property
    def is_answering(self) -> bool:
        """Whether the head of a request has come whose answer is not whole yet."""
        return not getattr(self.cycle, "response_complete", True)  # there is no cycle before the first head

    def data_received(self, data: bytes) -> None:
        """Take what was sent: a part of a head, or the rest of a body whose request was answered, has a deadline."""
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(self.limits.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        super().resume_writing()
        if self._read_timer is not None:
            self._read_timer.cancel()

    def _watch_head(self) -> None:
        if self.is_answering:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self._give_up)

    def _give_up(self) -> None:
        """Close; who has sent a part of a head hears why."""
        if not self.transport.is_closing() and self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            late = f"did not come within {self.limits.head_seconds:g} seconds"
            self._refuse(Refused(408, "head", late, "send it at once"))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(
            Refused(400, "request", "is not of HTTP/1.1, or its head is too large", "see /api for what is taken")
        )
        self.transport.close()

    def _refuse(self, error: Refused) -> None:
        told = problem_of(error)
        headers = {"content-type": "application/json", "content-length": str(len(told)), "connection": "close"}
        start = h11.Response(status_code=error.status, headers=[*headers.items()])
        self.transport.write(
            b"".join(self.conn.send(one) or b"" for one in (start, h11.Data(data=told), h11.EndOfMessage()))
        )


def bounded_connections(given: ServiceLimits) -> type[BoundedConnection]:
    """Return the class of connections with these limits, and not more of them than the system lets a process open."""
    settings: dict[str, Any] = {"limits": given, "most": min(given.connections, _most_files() - OTHER_FILES)}
    return type("LimitedConnection", (BoundedConnection,), settings)


def _most_files() -> int:
    try:
        import resource
    except ImportError:  # as on Windows, where sockets are no files
        return 1 << 31
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 31 if allowed == resource.RLIM_INFINITY else max(allowed, 2 * OTHER_FILES)
