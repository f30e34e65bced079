"""Qdrant behind its client: local mode on a folder, and what a server may answer."""

from __future__ import annotations

import http.server
import importlib
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.stores.engines import filled, rows
from unhub.deploying.deployment import Mode
from unhub.stores.engines import store
from unhub.stores.qdrant import QdrantStore
from unhub.stores.qdrant_points import RECORDS
from unhub.stores.store import StoredItems

qdrant_client = pytest.importorskip("qdrant_client")
models = pytest.importorskip("qdrant_client.models")
pytestmark = pytest.mark.once

SECRET = "sesame-4711"


def opened(folder: Path, rest: str = "#photos") -> QdrantStore:
    found = store(f"qdrant:{folder}/place{rest}")
    assert isinstance(found, QdrantStore)
    return found


def on_server(text: str) -> QdrantStore:
    found = store(text)
    assert isinstance(found, QdrantStore)
    return found


@pytest.fixture
def two_vectors(tmp_path: Path) -> Path:
    """A collection of an ordinary client with two vectors, of which one point has one only."""
    client = qdrant_client.QdrantClient(path=str(tmp_path / "place"))
    params = {name: models.VectorParams(size=size, distance="Dot") for name, size in (("clip", 4), ("text", 2))}
    client.create_collection("photos", vectors_config=params)
    points = [models.PointStruct(id=n, vector={"clip": [1.0, 2, 3, n], "text": [1.0, n]}) for n in range(3)]
    client.upsert("photos", [*points, models.PointStruct(id=9, vector={"text": [0.0, 1.0]})])
    client.close()
    return tmp_path


def test_a_vector_is_named_where_there_are_several(two_vectors: Path) -> None:
    with pytest.raises(ValueError, match=r"several vectors: 'clip', 'text'; name one in the address: \?vector=NAME"):
        opened(two_vectors).describe()
    with pytest.raises(ValueError, match=r"has no vector 'audio'; its vectors: 'clip', 'text'"):
        opened(two_vectors, "#photos?vector=audio").describe()
    clip = opened(two_vectors, "#photos?vector=clip")
    about = clip.describe()
    assert (about.dimensions, about.count, about.settings["vector"]) == (4, 3, "clip")  # the point 9 has no clip
    assert [batch.ids.tolist() for batch in clip.batches()] == [[0, 1, 2]]
    assert clip.fetch(np.array([9, 1])).rows.tolist() == [[1, 2, 3, 1]]
    assert clip.search(np.array([[0, 0, 0, 1]], np.float32), 2).ids.tolist() == [[2, 1]]
    with pytest.raises(ValueError, match="has other vectors beside, which writing would drop"):
        clip.write(StoredItems(np.array([1]), rows(1, 4)))


@pytest.mark.parametrize("mode", ["vectors", "payload"])
def test_a_live_name_needs_no_name_of_a_vector(two_vectors: Path, mode: Mode) -> None:
    clip = opened(two_vectors, "#photos?vector=clip")
    correction = unhub.fit(clip, rows(20, 4), method="is", similarity="dot")
    unhub.deploy(correction, clip, mode, switch=True)
    clip.close()
    live = opened(two_vectors, "#photos_live")
    asked = rows(3, 4)
    found = unhub.searcher(live, correction).search(asked, 2)
    right = unhub.searcher(live, correction, index="exact").search(asked, 2)
    np.testing.assert_array_equal(found.ids, right.ids)


def test_a_collection_like_it_has_the_vector_of_its_name(two_vectors: Path) -> None:
    clip = opened(two_vectors, "#photos?vector=clip")
    other = clip.sibling("photos_unhub_1")
    other.create(6, "dot", like=clip)
    other.write(StoredItems(np.array([1]), rows(1, 6)))
    clip.close()
    client = qdrant_client.QdrantClient(path=str(two_vectors / "place"))
    assert list(client.get_collection("photos_unhub_1").config.params.vectors) == ["clip"]
    client.close()


def test_settings_are_carried_over_and_told(tmp_path: Path) -> None:
    client = qdrant_client.QdrantClient(path=str(tmp_path / "place"))
    int8 = models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type="int8", quantile=0.99))
    graph = models.HnswConfigDiff(m=12, ef_construct=50)
    params = models.VectorParams(size=16, distance="Cosine", on_disk=True, hnsw_config=graph, quantization_config=int8)
    client.create_collection("photos", vectors_config=params)
    client.close()
    photos = opened(tmp_path)
    told = photos.describe().settings
    assert (
        told["hnsw"].startswith("m 12, ef_construct 50") and told["quantisation"] == "scalar type int8, quantile 0.99"
    )
    assert told["storage"] == "on_disk True"
    other = photos.sibling("other")
    other.create(18, "dot", like=photos)
    about = other.describe()
    assert (about.metric, about.dimensions) == ("dot", 18)
    assert (about.index, about.codes, about.rescored) == ("flat", "none", True)  # local mode uses none of them
    photos.close()
    client = qdrant_client.QdrantClient(path=str(tmp_path / "place"))
    kept = client.get_collection("other").config.params.vectors
    assert (kept.on_disk, kept.hnsw_config, kept.quantization_config) == (True, graph, int8)
    client.close()


def test_integers_beyond_int64_are_read_as_texts(tmp_path: Path) -> None:
    client = qdrant_client.QdrantClient(path=str(tmp_path / "place"))
    client.create_collection("photos", vectors_config=models.VectorParams(size=2, distance="Dot"))
    large = (1 << 64) - 1
    client.upsert("photos", [models.PointStruct(id=one, vector=[1.0, 0.0]) for one in (5, large)])
    client.close()
    photos = opened(tmp_path)
    assert [batch.ids.tolist() for batch in photos.batches()] == [["5", str(large)]]
    assert photos.fetch(np.array([str(large), "5"])).ids.tolist() == [str(large), "5"]


def test_an_alias_is_read_and_followed_when_it_moves(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=4)
    wide = photos.sibling("wide")
    wide.create(18, "dot")
    wide.write(StoredItems(np.array([7]), rows(1, 18)))
    photos.publish("live", "photos", "live:live", {"collection": "photos"})
    live = opened(tmp_path, "#live")
    about = live.describe()
    assert live.exists() and (about.name, about.count, about.settings["alias of"]) == ("live", 4, "photos")
    assert live.collection_of() == "photos" and photos.collection_of() == "photos"
    assert live.search(rows(1), 1).ids.shape == (1, 1)
    photos.publish("live", "wide", "live:live", {"collection": "wide"})
    assert live.search(rows(1, 18), 1).ids.tolist() == [[7]] and live.collection_of() == "wide"
    assert photos.names() == ["photos", "wide"]  # an alias is no collection
    with pytest.raises(ValueError, match="'live' is an alias of 'wide'; drop 'wide' itself"):
        live.drop()
    with pytest.raises(ValueError, match="already a collection or alias 'live'"):
        live.create(4, "dot")
    with pytest.raises(
        ValueError, match=r"no collection 'nothing'; the collections here: photos, wide, live \(alias\)"
    ):
        photos.sibling("nothing").describe()
    photos.close()
    client = qdrant_client.QdrantClient(path=str(tmp_path / "place"))  # as any client of the engine sees it
    assert client.query_points("live", query=rows(1, 18)[0].tolist()).points[0].id == 7
    client.close()


def test_a_live_name_that_is_taken_or_leads_nowhere_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=2)
    photos.sibling("other").create(4, "dot")
    with pytest.raises(ValueError, match="'photos' is a collection, so it can be no alias"):
        photos.publish("photos", "other", "key", {})
    with pytest.raises(ValueError, match="no collection 'gone' to make live"):
        photos.publish("live", "gone", "key", {})
    assert photos.records() == {}
    photos.publish("live", None, "key", {"n": 1})  # no pointer
    assert photos.record("key") == {"n": 1} and not photos.sibling("live").exists()


def test_reading_a_folder_that_does_not_exist_makes_none(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    assert not photos.exists() and photos.names() == [] and photos.records() == {}
    photos.drop()
    with pytest.raises(ValueError, match="there is no collection 'photos'; the collections here: none"):
        photos.describe()
    assert not (tmp_path / "place").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    for call in (opened(tmp_path).exists, lambda: opened(tmp_path).create(4, "dot")):
        with pytest.raises(ValueError, match="is no folder of Qdrant's local mode"):
            call()
    assert [one.name for one in place.iterdir()] == ["notes.txt"]


def test_a_damaged_folder_is_one_clear_error(tmp_path: Path) -> None:
    filled(photos := opened(tmp_path), count=2)
    photos.close()
    (tmp_path / "place" / "meta.json").write_text("{")
    with pytest.raises(ValueError, match=r"store qdrant:.*place#photos: is damaged: .*; restore"):
        photos.describe()


# The client drops the file of the lock that it did not get.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed file:ResourceWarning")
def test_a_folder_that_another_client_has_open_is_one_clear_error(tmp_path: Path) -> None:
    client = qdrant_client.QdrantClient(path=str(tmp_path / "place"))
    with pytest.raises(ValueError, match="already accessed by another instance"):
        opened(tmp_path).exists()
    client.close()
    assert not opened(tmp_path).exists()


def test_records_are_kept_as_they_are(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    for number in range(3):
        photos.put_record(f"key {number}", {"n": number, "float": 1.0, "'; --": [None, {"é": "\0"}]})
    assert photos.record("key 2") == {"n": 2, "float": 1.0, "'; --": [None, {"é": "\0"}]}
    assert type(photos.records()["key 2"]["float"]) is float and RECORDS not in photos.names()
    with pytest.raises(ValueError, match="not JSON compliant"):
        photos.put_record("key 2", {"n": float("nan")})
    assert len(photos.records()) == 3


# A server


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


CALLS: list[Any] = [
    lambda one: one.exists(),
    lambda one: one.describe(),
    lambda one: one.names(),
    lambda one: one.records(),
    lambda one: one.put_record("a", {}),
    lambda one: one.search(rows(1), 1),
    lambda one: one.create(4, "dot"),
    lambda one: one.publish("live", "photos", "a", {}),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_is_not_running_is_one_clear_error_without_the_key(call: Any) -> None:
    port = closed_port()
    photos = on_server(f"qdrant://127.0.0.1:{port}/photos?api_key={SECRET}")
    with pytest.raises(ValueError, match=rf"qdrant://127.0.0.1:{port}/photos.* no Qdrant answers there") as raised:
        call(photos)
    assert "tls=0" in str(raised.value)
    assert SECRET not in "".join(traceback.format_exception(raised.value)) and SECRET not in repr(photos)


@pytest.fixture
def answering() -> Iterator[Any]:
    """A server that answers every request alike, as a proxy or Qdrant's own door does, and notes the requests."""
    asked: list[tuple[str, str, str | None]] = []
    answer = {"status": 200, "body": b"<html>"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.command, self.path, self.headers.get("api-key")))
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(int(answer["status"]))  # type: ignore[call-overload]
            self.end_headers()
            self.wfile.write(answer["body"])  # type: ignore[arg-type]

        do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1], answer, asked
        server.shutdown()
        thread.join()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
@pytest.mark.parametrize("body", [b"Invalid API key or JWT", b'{"status": {"error": "Forbidden: no rights"}}'])
@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_one_clear_error_without_it(answering: Any, status: int, body: bytes) -> None:
    port, answer, asked = answering
    answer.update(status=status, body=body)
    photos = on_server(f"qdrant://127.0.0.1:{port}/photos?api_key={SECRET}&tls=0")
    for call in CALLS:
        with pytest.raises(ValueError, match=r"photos\?api_key=\*\*\*&tls=0: refuses: .*QDRANT_API_KEY") as raised:
            call(photos)
        assert SECRET not in "".join(traceback.format_exception(raised.value))
    assert {key for *_, key in asked} == {SECRET}


@pytest.mark.parametrize(("status", "said"), [(200, "does not answer as Qdrant"), (404, "answers 404"), (502, "502")])
def test_what_is_not_qdrant_is_one_clear_error(answering: Any, status: int, said: str) -> None:
    port, answer, _ = answering
    answer.update(status=status, body=b"<html>")
    with pytest.raises(ValueError, match=rf"{said}.*check host and port"):
        on_server(f"qdrant://127.0.0.1:{port}/photos").names()


def test_what_qdrant_says_is_passed_on(answering: Any) -> None:
    port, answer, _ = answering
    answer.update(status=500, body=b'{"status": {"error": "Service internal error: no space left"}}')
    with pytest.raises(ValueError, match="photos: Service internal error: no space left"):
        on_server(f"qdrant://127.0.0.1:{port}/photos").names()


def test_the_host_and_key_may_come_from_the_environment(answering: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port, _, asked = answering
    with pytest.raises(ValueError, match="names no host; add it, or set QDRANT_URL"):
        store("qdrant:///photos")
    monkeypatch.setenv("QDRANT_URL", f"http://127.0.0.1:{port}/")
    monkeypatch.setenv("QDRANT_API_KEY", SECRET)
    with pytest.warns(UserWarning, match="insecure connection"), pytest.raises(ValueError, match="as Qdrant does"):
        on_server("qdrant:///some%20photos").exists()
    assert asked == [("GET", "/collections/some%20photos/exists", SECRET)]


def test_a_path_before_the_collection_is_that_of_a_proxy(answering: Any) -> None:
    port, _, asked = answering
    with pytest.raises(ValueError, match="as Qdrant does"):
        on_server(f"qdrant://127.0.0.1:{port}/search/v1/photos").exists()
    assert asked == [("GET", "/search/v1/collections/photos/exists", None)]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("qdrant://localhost:6333", "names no collection in its path"),
        ("qdrant://localhost:6333/", "names no collection in its path"),
        ("qdrant://localhost:6333/photos#x", "names no collection in its path"),
        ("qdrant://localhost:many/photos", "a port or timeout that is no whole number"),
        ("qdrant://localhost/photos?timeout=long", "a port or timeout that is no whole number"),
        (f"qdrant://me:{SECRET}@localhost/photos", "has a user, which Qdrant has not"),
        (f"qdrant://localhost/photos?key=1&api_key={SECRET}", "unknown option 'key'"),
        ("qdrant:folder", "names no collection"),
    ],
)
def test_a_wrong_address_is_refused_at_once(address: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        store(address)
    assert SECRET not in str(raised.value)


def test_a_missing_library_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("unhub.stores.qdrant")
    for name in [one for one in sys.modules if one.partition(".")[0] == "qdrant_client"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not one.endswith("site-packages")])
    with pytest.raises(ImportError, match=r"Qdrant needs qdrant_client: .* install .*\[qdrant\]"):
        store("qdrant:folder#photos")
