"""Connections: clients that hang, send bit by bit or do not read are closed in time, and hold up nobody meanwhile."""

import http.client
import json
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.service.spaces import served, small_space
from unhub.service.http.api import application
from unhub.service.http.safety import Access
from unhub.service.http.server import listen, serving
from unhub.service.limits import ServiceLimits

pytestmark = pytest.mark.once

HALF = b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
HANGING = 200


@contextmanager
def listening(limits: ServiceLimits, token: str | None = None) -> Iterator[int]:
    """Serve the small space over real sockets, and yield the port."""
    with served(small_space(bank=None), limits=limits) as (service, _), listen("127.0.0.1", 0) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 13)  # so that little is held of what nobody reads
        with serving(application(service, Access(token)), bound, limits):
            yield bound.getsockname()[1]


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def searched(port: int) -> int:
    """Search over a connection of its own, and return the status."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    client.request("POST", "/v1/search", json.dumps({"sample": 1}), {"content-type": "application/json"})
    status = client.getresponse().status
    client.close()
    return status


def is_healthy(client: socket.socket) -> bool:
    """Ask for health over an open connection."""
    client.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"}"):
        answer += client.recv(1 << 16)
    return answer.startswith(b"HTTP/1.1 200 ")


def seconds_until_closed(client: socket.socket) -> float:
    """Send a letter now and then until the other side does not take any more."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < 6:
        try:
            client.sendall(b"x")
        except OSError:
            break
        time.sleep(0.02)
    return passed


def rest(client: socket.socket) -> bytes:
    """Return all that comes until the other side closes."""
    parts: list[bytes] = []
    while True:
        try:
            part = client.recv(1 << 16)
        except ConnectionResetError:
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


def test_others_are_served_while_many_connections_hang() -> None:
    with listening(ServiceLimits(head_seconds=100)) as port, ExitStack() as stack:
        hanging = [stack.enter_context(connected(port)) for _ in range(HANGING)]
        for client in hanging:
            client.sendall(HALF)
        assert [searched(port) for _ in range(5)] == [200] * 5
        with selectors.DefaultSelector() as ready:  # select itself takes no number of a file over 1,023
            for client in hanging:
                ready.register(client, selectors.EVENT_READ)
            assert not ready.select(0)  # all of them still hang


def test_half_of_a_head_is_closed_in_time() -> None:
    with listening(ServiceLimits(head_seconds=0.5)) as port, connected(port) as silent, connected(port) as half:
        half.sendall(HALF)
        assert not rest(silent)  # it sent nothing, as browsers do that connect ahead
        answer = rest(half)
    assert answer.startswith(b"HTTP/1.1 408 ")
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert (error["argument"], error["problem"]) == ("head", "did not come within 0.5 seconds")


def test_a_monitor_may_ask_for_the_head_alone() -> None:
    with listening(ServiceLimits()) as port, connected(port) as client:
        client.sendall(b"HEAD /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        head, _, body = rest(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and not body


def test_what_is_not_http_is_refused_in_words() -> None:
    with listening(ServiceLimits()) as port:
        for content in (b"\x16\x03\x01 hello\r\n\r\n", HALF + b"x: " + b"y" * 100_000):
            with connected(port) as client:
                client.sendall(content)
                answer = rest(client)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["argument"] == "request"


def test_a_head_that_comes_bit_by_bit_is_closed_too() -> None:
    with listening(ServiceLimits(head_seconds=0.5)) as port, connected(port) as client:
        client.sendall(HALF)
        assert seconds_until_closed(client) < 5


def test_the_next_request_of_a_connection_has_a_deadline_of_its_own() -> None:
    with listening(ServiceLimits(head_seconds=0.5)) as port, connected(port) as client:
        for _ in range(4):  # longer than one deadline together
            assert is_healthy(client)
            time.sleep(0.2)
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert rest(client).startswith(b"HTTP/1.1 408 ")


def test_a_body_of_a_request_that_was_refused_is_not_awaited_for_ever() -> None:
    with listening(ServiceLimits(head_seconds=0.5), "a-token-of-some-length") as port, connected(port) as client:
        client.sendall(HALF + b"content-length: 100000\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 401 ")
        assert seconds_until_closed(client) < 5


def test_who_does_not_read_is_cut_off() -> None:
    asked = 100
    with listening(ServiceLimits(answer_seconds=0.5)) as port, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 13)
        client.settimeout(20)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * asked)
        time.sleep(1.5)
        assert rest(client).count(b"HTTP/1.1 200 ") < asked


def test_of_too_many_connections_the_one_that_waits_longest_is_closed() -> None:
    limits = ServiceLimits(head_seconds=60, connections=10)
    with listening(limits) as port, ExitStack() as stack:
        hanging = [stack.enter_context(connected(port)) for _ in range(40)]
        assert searched(port) == 200
        assert [rest(client) for client in hanging[:30]] == [b""] * 30
        assert is_healthy(hanging[-1])
