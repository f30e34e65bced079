"""Safety: who may call, how much they may send, and the headers of every answer; a middleware of ASGI."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from unhub.errors import ArgumentError
from unhub.service.limits import Refused, ServiceLimits

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_PATHS = ("/", "/api", "/healthz", "/readyz", "/openapi.json")  # without data, so without a token
HEALTH_PATHS = ("/healthz", "/readyz", "/metrics")  # answered under any load
OPEN_FOLDER = "/static/"
UPLOADS = "/v1/corrections"  # takes whole files
LOGGER = logging.getLogger("unhub.service")
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
DRAINED_BYTES, DRAINED_SECONDS = 64 << 20, 5.0  # of a body that is too large: who still sends does not see the answer


class NotTakenError(Exception):
    """Raised where a client does not read its answer."""


@dataclass(frozen=True)
class Access:
    """Who may call. token: asked of everybody, if there is one. origins: other sites whose pages may call the API."""

    token: str | None = field(default=None, repr=False)
    origins: tuple[str, ...] = ()
    image_host: str | None = None

    @property
    def policy(self) -> str:
        """The Content-Security-Policy: nothing from elsewhere but the pictures of a host that was named."""
        images = " ".join(["'self'", "data:", "blob:", *([self.image_host] if self.image_host else [])])
        return (
            f"default-src 'self'; img-src {images}; object-src 'none'; base-uri 'none'; form-action 'self'; "
            "frame-ancestors 'none'"
        )


class Guard:
    """Refuses what must not get through, reads bodies within limits, and adds the headers of safety."""

    def __init__(
        self, app: ASGIApp, access: Access, limits: ServiceLimits, observe: Callable[[str, int, float], None]
    ) -> None:
        """observe: hears the route, the status and the seconds of every answer."""
        self.app, self.access, self.limits, self._observe = app, access, limits, observe
        self._reading = self._working = self._uploads = 0
        self._headers = [
            (b"content-security-policy", access.policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server leaves the body out
        began, started = time.perf_counter(), False

        async def send_safely(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                route = getattr(scope.get("route"), "path", "other")  # the path itself may hold anything
                self._observe(route, message["status"], time.perf_counter() - began)
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() != b"server"]
                cached = b"no-cache" if scope["path"].startswith(OPEN_FOLDER) else b"no-store"
                message = {**message, "headers": [*kept, *self._headers, (b"cache-control", cached)]}
            try:
                async with asyncio.timeout(self.limits.answer_seconds):
                    await send(message)
            except TimeoutError:
                raise NotTakenError from None

        uploads = _is_upload(scope)
        full = uploads and self._uploads >= self.limits.uploads
        self._uploads += uploads
        try:
            if full:
                await send_error(send_safely, _too_many(self.limits.uploads))
            else:
                await self._answer(scope, receive, send_safely, lambda: started)
        except NotTakenError:
            pass  # the server closes a connection whose answer is not whole
        finally:
            self._uploads -= uploads

    async def _answer(self, scope: Scope, receive: Receive, send_safely: Send, started: Callable[[], bool]) -> None:
        """Check and read a request, and let it through."""
        try:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            self._check_caller(scope, headers)
            body = await self._read(scope, headers, receive)
        except Refused as error:
            await send_error(send_safely, error)
            return
        except ConnectionError:
            return  # the client left while it was sending
        if self._working >= self.limits.working and scope["path"] not in HEALTH_PATHS:
            await send_error(send_safely, _too_many(self.limits.working))
            return
        self._working += 1
        try:
            await self.app(scope, _replaying(body, receive), send_safely)
        except NotTakenError:
            raise
        except Exception:  # a bug: told to who runs the service, not to who called it
            LOGGER.exception("%s %s failed", scope["method"], getattr(scope.get("route"), "path", "a path"))
            if not started():
                await send_error(send_safely, Refused(500, "service", "failed", "look at what it printed"))
        finally:
            self._working -= 1

    def _check_caller(self, scope: Scope, headers: dict[str, str]) -> None:
        path, token = scope["path"], self.access.token
        if token is None and not is_local(_host(headers.get("host", ""))):
            # A page elsewhere may have let its own name point here: without a token only local names are answered.
            raise Refused(403, "Host", f"{headers.get('host', '')!r} is not this machine", "call it as localhost")
        if token is not None and not _is_open(path) and not _same(headers.get("authorization", ""), token):
            remedy = "send the header Authorization: Bearer and the token"
            raise Refused(401, "Authorization", "is missing or holds another token", remedy)
        origin = headers.get("origin")
        own = origin is None or origin in self.access.origins or origin.partition("://")[2] == headers.get("host")
        if scope["method"] in CHANGING and not own:
            raise Refused(403, "Origin", f"{origin!r} may not call this service", "name it with --cors")

    async def _read(self, scope: Scope, headers: dict[str, str], receive: Receive) -> bytes:
        """Return the body, of a limited size, within a limited time."""
        declared = headers.get("content-length", "0")
        if declared == "0" and "transfer-encoding" not in headers:
            return b""
        if _is_open(scope["path"]) or scope["path"] in HEALTH_PATHS:
            raise Refused(413, "body", "is not taken here", "send none")
        limits, uploads = self.limits, _is_upload(scope)
        most = limits.upload_bytes if uploads else limits.body_bytes
        seconds = limits.upload_seconds if uploads else limits.body_seconds
        if self._reading >= self.limits.reading:
            raise _too_many(self.limits.reading)
        self._reading += 1
        try:
            async with asyncio.timeout(seconds):
                if declared.isdigit() and int(declared) > most:
                    if "expect" not in headers:  # else the client waits for a word before it sends
                        await _drain(receive)
                    raise _too_large(most)
                return await _body(receive, most)
        except TimeoutError:
            raise Refused(408, "body", f"did not come within {seconds:g} seconds", "send it at once") from None
        finally:
            self._reading -= 1


async def _body(receive: Receive, most: int) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > most:
            if more:
                await _drain(receive)
            raise _too_large(most)
    return b"".join(parts)


async def _drain(receive: Receive) -> None:
    """Let a client send what is left of its body, up to some size and time."""
    left, more = DRAINED_BYTES, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAINED_SECONDS):
            while more and left > 0:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _is_upload(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["path"].rstrip("/") == UPLOADS)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a receive that gives the body that was read, and then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def is_local(host: str) -> bool:
    """Return whether a host is this machine by its own name, which no other machine reaches."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(header: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:  # brackets that do not match
        return ""


def _same(header: str, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(header.encode("latin-1"), f"Bearer {token}".encode())


def _too_large(most: int) -> Refused:
    return Refused(413, "body", f"is over {most:,} bytes", "send less at once")


def _too_many(most: int) -> Refused:
    return Refused(429, "requests", f"are over {most:,} at the same time", "try again in a second")


def problem_of(error: ArgumentError) -> bytes:
    """Return an error as JSON."""
    told = {"argument": error.name, "problem": error.problem, "remedy": error.remedy}
    return json.dumps({"error": told}).encode()


async def send_error(send: Send, error: Refused) -> None:
    """Answer with an error."""
    body = problem_of(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if error.status == 429:
        headers.append((b"retry-after", b"1"))
    if error.status in (408, 413):
        headers.append((b"connection", b"close"))  # the rest of the body must not be taken for a request
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
