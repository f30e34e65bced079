"""Safety: tokens, limits, headers, origins and pictures; what must not get through does not."""

import asyncio
import base64
import json
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.service.spaces import DIMENSIONS, served, small_space, told
from unhub.service.http.safety import Access, Guard
from unhub.service.kept.picture_files import PictureFiles
from unhub.service.limits import ServiceLimits
from unhub.service.metrics import BankDistances

pytestmark = pytest.mark.once

TOKEN = "a-token-of-some-length"
SEARCH = {"sample": 0}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_every_answer_has_the_headers_of_safety() -> None:
    with served() as (_, client):
        for path in ("/v1/about", "/v1/nothing", "/static/none.js", "/healthz"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'self'" in policy and "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "server" not in headers and "access-control-allow-origin" not in headers


def test_a_token_is_asked_of_everybody() -> None:
    with served(access=Access(TOKEN)) as (_, client):
        for wrong in (
            {},
            {"Authorization": TOKEN},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": "Bearer \x7f"},
        ):
            answer = client.post("/v1/search", json=SEARCH, headers=wrong)
            assert told(answer, 401)["argument"] == "Authorization"
            assert TOKEN not in answer.text and answer.headers["www-authenticate"] == "Bearer"
        for path in ("/metrics", "/v1/about", "/images/i1", "/v1/hubs"):
            told(client.get(path), 401)
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert client.get(path).status_code == 200
        good = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/v1/search", json=SEARCH, headers=good).status_code == 200
        assert client.get("/v1/about", headers={**good, "host": "search.example:8000"}).status_code == 200


def test_a_token_is_not_shown_in_what_is_printed() -> None:
    assert TOKEN not in repr(Access(TOKEN))


def test_without_a_token_only_local_names_are_answered() -> None:
    with served() as (_, client):
        for host in ("evil.example", "evil.example:8000", "localhost.evil.example", "192.168.0.7", "", "[::1"):
            assert told(client.get("/v1/about", headers={"host": host}), 403)["argument"] == "Host"
        for host in ("localhost:8000", "127.0.0.1:1", "[::1]:8000"):
            assert client.get("/v1/about", headers={"host": host}).status_code == 200


def test_pages_of_other_sites_change_nothing() -> None:
    with served() as (_, client):
        headers = {"origin": "https://evil.example"}
        assert told(client.post("/v1/corrections/rollback", headers=headers), 403)["argument"] == "Origin"
        assert client.post("/v1/search", json=SEARCH, headers={"origin": "http://localhost"}).status_code == 200
        answer = client.options("/v1/search", headers={**headers, "access-control-request-method": "POST"})
        assert "access-control-allow-origin" not in answer.headers


def test_a_named_site_may_call() -> None:
    origin = "https://shop.example"
    with served(access=Access(origins=(origin,))) as (_, client):
        answer = client.post("/v1/search", json=SEARCH, headers={"origin": origin})
        assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == origin
        told(client.post("/v1/search", json=SEARCH, headers={"origin": "https://other.example"}), 403)


def test_a_large_body_is_refused() -> None:
    limits = ServiceLimits(body_bytes=500)
    with served(limits=limits) as (_, client):
        large = json.dumps({"vector": [1.0] * 500}).encode()
        headers = {"content-type": "application/json"}
        assert "500 bytes" in told(client.post("/v1/search", content=large, headers=headers), 413)["problem"]
        pieces = (large[at : at + 100] for at in range(0, len(large), 100))  # of no declared length
        told(client.post("/v1/search", content=pieces, headers=headers), 413)
        assert client.post("/v1/search", json={"vector": [1.0] * DIMENSIONS}).status_code == 200
        told(client.post("/v1/corrections", content=large))  # whose limit is another


Message: TypeAlias = MutableMapping[str, Any]


async def silence() -> Message:
    """Receive from a client that sends nothing."""
    await asyncio.sleep(60)
    return {"type": "http.request"}


async def never(scope: object, receive: object, send: object) -> None:
    raise AssertionError("it was let through")


def guarded(app: Any, limits: ServiceLimits) -> Guard:
    return Guard(app, Access(), limits, lambda route, status, seconds: None)


async def statuses(guard: Guard, method: str, path: str, receive: Any = silence, **headers: str) -> list[int]:
    """Send one request through a guard, and return the statuses of its answers."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    given = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    pairs = [(name.encode(), value.encode()) for name, value in given.items()]
    await guard({"type": "http", "method": method, "path": path, "headers": pairs}, receive, send)
    return [message["status"] for message in sent if message["type"] == "http.response.start"]


def test_a_body_that_does_not_come_is_given_up() -> None:
    guard = guarded(never, ServiceLimits(body_seconds=0.05))
    assert asyncio.run(statuses(guard, "POST", "/v1/search", content_length="9")) == [408]


def test_an_upload_may_take_longer() -> None:
    guard = guarded(never, ServiceLimits(body_seconds=0, upload_seconds=0.05))

    async def asked() -> float:
        began = asyncio.get_running_loop().time()
        assert await statuses(guard, "POST", "/v1/corrections", content_length="9") == [408]
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(asked()) >= 0.05


async def fine(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})


def test_health_is_answered_while_slow_bodies_take_every_place() -> None:
    async def asked() -> None:
        guard = guarded(fine, ServiceLimits(body_seconds=60, reading=1, working=0))
        slow = asyncio.create_task(statuses(guard, "POST", "/v1/search", content_length="9"))
        await asyncio.sleep(0.01)
        assert await statuses(guard, "POST", "/v1/search", content_length="9") == [429]
        for path in ("/healthz", "/readyz", "/metrics"):
            assert await statuses(guard, "GET", path) == [200]
        slow.cancel()

    asyncio.run(asked())


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/static/app.js", "/openapi.json"])
@pytest.mark.parametrize("headers", [{"content_length": "9"}, {"transfer_encoding": "chunked"}])
def test_no_body_is_read_where_none_is_wanted(path: str, headers: dict[str, str]) -> None:
    assert asyncio.run(statuses(guarded(never, ServiceLimits()), "GET", path, **headers)) == [413]


def test_only_an_upload_may_be_large() -> None:
    guard = guarded(never, ServiceLimits(body_bytes=10, upload_bytes=1000))
    large = {"content_length": "500", "expect": "100-continue"}
    assert asyncio.run(statuses(guard, "GET", "/v1/corrections", **large)) == [413]


def test_a_body_that_is_too_large_is_taken_before_it_is_refused() -> None:
    left = [100] * 5

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * left.pop(), "more_body": bool(left)}

    guard = guarded(never, ServiceLimits(body_bytes=10))
    assert asyncio.run(statuses(guard, "POST", "/v1/search", receive, content_length="500")) == [413]
    assert not left  # a client that still sends would lose the answer
    left.extend([100] * 5)
    assert asyncio.run(statuses(guard, "POST", "/v1/search", receive, transfer_encoding="chunked")) == [413]
    assert not left


def test_a_client_that_does_not_read_frees_its_place(caplog: pytest.LogCaptureFixture) -> None:
    async def stuck(message: Message) -> None:
        await asyncio.sleep(60)

    async def asked() -> list[int]:
        guard = guarded(fine, ServiceLimits(answer_seconds=0.05, working=1))
        scope = {"type": "http", "method": "GET", "path": "/v1/about", "headers": [(b"host", b"localhost")]}
        await guard(scope, silence, stuck)
        return await statuses(guard, "GET", "/v1/about")

    assert asyncio.run(asyncio.wait_for(asked(), 10)) == [200]
    assert not caplog.records


def test_too_many_requests_are_told_to_wait() -> None:
    with served(limits=ServiceLimits(working=0)) as (_, client):
        answer = client.get("/v1/about")
        assert told(answer, 429)["remedy"] and answer.headers["retry-after"] == "1"


def test_a_path_that_is_not_there_is_an_error_in_words() -> None:
    with served() as (_, client):
        assert told(client.get("/v1/nothing"), 404)["argument"] == "path"
        assert told(client.put("/v1/search"), 405)["argument"] == "path"
        assert told(client.get("/static/../http/api.py"), 404)
        assert told(client.get("/static/%2e%2e/http/api.py"), 404)


@pytest.mark.parametrize("bug", [lambda: 1 / 0, lambda: int("secret")], ids=["division", "value"])
def test_a_bug_shows_nothing_of_itself(bug: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    with served() as (service, client):
        service.about = bug  # type: ignore[method-assign]
        answer = client.get("/v1/about")
        assert answer.status_code == 500 and "ZeroDivision" not in answer.text and "secret" not in answer.text
        assert answer.json()["error"]["argument"] == "service"
    assert "GET /v1/about failed" in caplog.text


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    (folder / "sub").mkdir(parents=True)
    (folder / "i1.png").write_bytes(PIXEL)
    (folder / "i2").write_bytes(PIXEL)
    (folder / "i3.png").write_bytes(b"<svg onload=alert(1)>")
    (tmp_path / "secret.png").write_bytes(PIXEL)
    (folder / "i4.png").symlink_to(tmp_path / "secret.png")
    (folder / "i5.png").symlink_to(folder / "i1.png")
    (folder / "i6.png").mkdir()
    return folder


def test_pictures_come_from_the_folder_alone(pictures: Path) -> None:
    with served(small_space(pictures=PictureFiles(pictures))) as (_, client):
        for one in ("i1", "i2", "i5"):
            answer = client.get(f"/images/{one}")
            assert (answer.status_code, answer.content) == (200, PIXEL)
            assert answer.headers["content-type"] == "image/png"
        for one in ("i3", "i4", "i6", "i7"):
            told(client.get(f"/images/{one}"), 404)
        for one in (
            "..%2fsecret",
            "../secret.png",
            "%2e%2e/secret.png",
            "/etc/passwd",
            "i1.png",
            "..%5csecret",
            "i1%00",
        ):
            told(client.get(f"/images/{one}"), 404)
        hits = client.post("/v1/search", json={"sample": 0, "k": 60}).json()["hits"]
        shown = {hit["id"]: hit["image"] for hit in hits if hit["image"]}
        assert shown["i1"] == "/images/i1" and "i4" not in shown and "i7" not in shown


@pytest.mark.parametrize(
    "name",
    ["../secret", "a/../../secret", "/etc/passwd", "", "..", "a\0b", "a\\..\\b", "x" * 5000, "x" * 300, "\ud800"],
)
def test_no_name_leads_out_of_the_folder(pictures: Path, name: str) -> None:
    assert PictureFiles(pictures).find(name) is None


def test_a_picture_in_a_subfolder_is_found(pictures: Path) -> None:
    (pictures / "sub" / "a.png").write_bytes(PIXEL)
    assert PictureFiles(pictures).read("sub/a.png") == (PIXEL, "image/png")
    assert PictureFiles(pictures).has("sub/a") and not PictureFiles(pictures).has("sub/b")


def test_pictures_elsewhere_are_named_and_allowed() -> None:
    space, access = small_space(image_url="https://cdn.example/{id}.jpg"), Access(image_host="https://cdn.example")
    with served(space, access) as (_, client):
        answer = client.post("/v1/search", json={"sample": 0, "k": 1})
        hit = answer.json()["hits"][0]
        assert hit["image"] == f"https://cdn.example/{hit['id']}.jpg"
        assert "img-src 'self' data: blob: https://cdn.example;" in answer.headers["content-security-policy"]


def test_a_query_without_a_direction_has_no_distance_from_the_bank() -> None:
    distances = BankDistances(small_space().bank)
    distances.add(np.zeros((1, DIMENSIONS), np.float32))
    assert np.isnan(distances.recent())
    distances.add(np.ones((1, DIMENSIONS), np.float32))
    assert 0 <= distances.recent() < 2


def test_metrics_tell_of_requests_and_hubness() -> None:
    with served() as (_, client):
        for row in range(5):
            client.post("/v1/search", json={"sample": row})
        client.get("/v1/anything/at/all")
        text = client.get("/metrics").text
    assert 'unhub_requests_total{path="/v1/search",status="200"} 5.0' in text
    assert 'unhub_requests_total{path="other",status="404"} 1.0' in text
    assert "unhub_queries_total 5.0" in text
    assert 'unhub_returned_hubness{figure="robin_hood"}' in text
    assert 'unhub_returned_hubness{figure="robin_hood_chance"}' in text
    assert 'unhub_bank_distance{of="recent queries"} 0.' in text
    assert 'unhub_request_seconds_bucket{le="0.05",path="/v1/search"}' in text
