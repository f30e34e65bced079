"""The server: uvicorn on a socket of ours, which ends gracefully on SIGTERM and ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import gc
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from unhub.errors import ArgumentError
from unhub.service.http.connections import bounded_connections
from unhub.service.limits import ServiceLimits

GRACE_SECONDS = 30  # for requests that are under way when the end is asked for
SWITCH_SECONDS = 0.001  # that the thread which searches may keep the event loop waiting
BACKLOG = 512  # connections that may wait to be accepted


class GracefulServer(uvicorn.Server):
    """A server that ends after what is under way, and then returns: the caller decides the exit code."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run`: uvicorn would raise them again at the end."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound, so that a port that is taken is an error before anything is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: only then does asyncio send small answers at once, and not 40 ms later.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)
        return bound
    except (OSError, OverflowError) as error:
        bound.close()
        wrong_host = isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL
        name = "host" if wrong_host else "port"
        remedy = "name another with --host" if name == "host" else "name another with --port, or 0 for any that is free"
        given = host if name == "host" else str(port)
        raise ArgumentError(
            name, f"{given} cannot be used: {getattr(error, 'strerror', None) or error}", remedy
        ) from None


def run(
    app: ASGIApp,
    bound: socket.socket,
    limits: ServiceLimits,
    ready: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or ctrl-C; then finish what is under way.

    `ready` is called once requests are answered, `ending` when the end was asked for.
    """
    asyncio.run(_serve(_server(app, limits), bound, ready, ending))


@contextlib.contextmanager
def serving(app: ASGIApp, bound: socket.socket, limits: ServiceLimits) -> Iterator[None]:
    """Serve from a thread while the block runs, without any signal: for programs that do something else besides."""
    server = _server(app, limits)
    work = contextvars.copy_context().run
    thread = threading.Thread(target=work, args=(asyncio.run, server.serve([bound])), name="server", daemon=True)
    thread.start()
    try:
        while thread.is_alive() and not server.started:
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join()


def _server(app: ASGIApp, limits: ServiceLimits) -> GracefulServer:
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="off",
        http=bounded_connections(limits),
        ws="none",
    )
    return GracefulServer(config)


async def _serve(
    server: GracefulServer, bound: socket.socket, ready: Callable[[], None], ending: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        ending()
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, end)
    gc.collect()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what was loaded stays: looking through it again and again would hold up answers
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if not serving.done():
        ready()
    await serving
