"""The server as a process: it starts quickly, ends gracefully, and slow or broken clients stop nobody."""

import json
import resource
import signal
import socket
import threading
import time
import urllib.request
from typing import Any

import pytest

from tests.service.http.running import running

pytestmark = pytest.mark.once


def call(port: int, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def written(body: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return a search as it goes over the wire: its head and its body."""
    content = json.dumps(body).encode()
    lines = ("POST /v1/search HTTP/1.1", "host: localhost", "content-type: application/json")
    return "\r\n".join([*lines, f"content-length: {len(content)}", "", ""]).encode(), content


def test_it_starts_within_three_seconds_of_processor_time() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with running() as (process, port):
        call(port, "/readyz")
        process.kill()
        process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3


def test_the_emoji_are_served_and_a_term_signal_ends_it() -> None:
    with running() as (process, port):
        about = call(port, "/v1/about")
        assert (about["name"], about["demo"], about["can"]["state"]) == ("emoji", True, False)
        answer = call(port, "/v1/search", {"text": "birthday cake zzzzq", "k": 5, "raw": True})
        assert len(answer["hits"]) == 5
        both = call(port, "/v1/search", {"texts": ["birthday", "cake"], "combine": "head", "k": 3})
        assert len(both["hits"]) == 3
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert "--state DIR keeps them" in process.stdout.readline()
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0 and errors == ""


def test_ctrl_c_ends_it_without_a_trace() -> None:
    with running() as (process, _):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0 and errors == ""


def test_a_request_that_is_under_way_is_finished() -> None:
    with running() as (process, port):
        head, body = written({"text": "cake"})
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(head + body[:5])
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            client.sendall(body[5:])
            answer = client.recv(1 << 20)
        assert answer.startswith(b"HTTP/1.1 200")
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_slow_and_broken_clients_stop_nobody() -> None:
    with running() as (_, port):
        slow = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(40)]
        for number, client in enumerate(slow):
            client.sendall(b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\n")
            if number % 2:
                client.sendall(b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        for content in (
            b"\x00\xff\x16\x03\x01",
            b"GET / HTTP/9.9\r\n\r\n",
            b"G" * 100_000,
            b"POST /v1/search HTTP/1.1\r\n",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as broken:
                broken.sendall(content)
        gone = [threading.Thread(target=_leave_early, args=(port,)) for _ in range(8)]
        for one in gone:
            one.start()
        began = time.perf_counter()
        for _ in range(5):
            assert call(port, "/v1/search", {"text": "cake"})["hits"]
        assert time.perf_counter() - began < 10
        for one in gone:
            one.join()
        for client in slow:
            client.close()
        assert call(port, "/healthz") == {"status": "ok"}


def _leave_early(port: int) -> None:
    """Ask and go before the answer comes."""
    head, body = written({"text": "cake", "k": 1000})
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(head + body)
