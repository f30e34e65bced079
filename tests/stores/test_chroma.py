"""Chroma, in a folder and as a server: filters, ids, documents, settings carried over, effort, errors."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stores.engines import filled, rows
from unhub.arrays import Ids
from unhub.errors import ArgumentError
from unhub.stores.chroma import Chroma
from unhub.stores.engines import store
from unhub.stores.store import Metric, StoredItems

pytestmark = pytest.mark.once
chromadb = pytest.importorskip("chromadb")

ODD = ["it's", 'a"b', "new\nline", "7", "é", "' or 1=1 --", "%"]


def opened(folder: Path, collection: str = "photos") -> Chroma:
    found = store(f"chroma:{folder}/database#{collection}")
    assert isinstance(found, Chroma)
    return found


def client_of(folder: Path) -> Any:
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    return chromadb.PersistentClient(f"{folder}/database", settings=settings)


def made(folder: Path, **hnsw: Any) -> Any:
    """Create `photos` as a user of Chroma would."""
    client = client_of(folder)
    return client.create_collection("photos", configuration={"hnsw": hnsw}, embedding_function=None)


def test_a_filter_is_passed_through(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    written = filled(photos)
    found = photos.search(rows(2, seed=1), 12, where={"$and": [{"colour": "red"}, {"number": {"$lt": 30}}]})
    assert set(found.ids[:, :10].ravel().tolist()) == set(written.ids[:30:3].tolist())
    assert (found.ids[:, 10:] == -1).all() and np.isneginf(found.values[:, 10:]).all()
    told = photos.search(rows(2, seed=1), 12, where='{"$and": [{"colour": "red"}, {"number": {"$lt": 30}}]}')
    assert np.array_equal(told.ids, found.ids)  # as a command line gives it
    for wrong in ("colour = 'red'", "[1]", 3):
        with pytest.raises(ArgumentError, match="where is no filter of Chroma"):
            photos.search(rows(1), 2, where=wrong)
    both = photos.search(rows(2, seed=1), 3, where={"colour": "red"}, among=written.ids[:3])
    assert set(both.ids.ravel().tolist()) == {100, -1}
    with pytest.raises(ArgumentError, match=r"Chroma says: .*where"):
        photos.search(rows(1), 2, where={"$foo": 1})


def test_ids_of_a_user_are_texts_even_where_they_look_like_numbers(tmp_path: Path) -> None:
    made(tmp_path, space="l2").add(ids=[str(one) for one in range(5)], embeddings=rows(5))
    photos = opened(tmp_path)
    assert photos.fetch(np.array(["3", "1", "", "nope"])).ids.tolist() == ["3", "1"]
    assert photos.fetch(np.array([3, 1])).ids.size == 0
    assert photos.search(rows(5), 1).ids.ravel().tolist() == ["0", "1", "2", "3", "4"]
    with pytest.raises(ArgumentError, match="has texts as ids, and the items to write have integers"):
        photos.write(StoredItems(np.arange(2), rows(2), None))


def test_ids_of_any_letters_are_read_found_and_removed(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    ids = np.array(ODD)
    photos.create(16, "l2")
    photos.write(StoredItems(ids, rows(len(ODD)), None))
    assert [one for batch in photos.batches(rows=2) for one in batch.ids.tolist()] == ODD
    assert photos.fetch(ids[::-1]).ids.tolist() == ODD[::-1]
    alone: Ids = ids[5:6]
    assert photos.search(rows(2), 2, among=alone).ids.tolist() == [[ODD[5], ""]] * 2
    photos.remove(alone)
    assert photos.describe().count == len(ODD) - 1


def test_payload_documents_and_nothing_come_back_and_are_replaced(tmp_path: Path) -> None:
    collection = made(tmp_path, space="cosine")
    collection.add(
        ids=["a", "b", "c"],
        embeddings=rows(3),
        metadatas=[{"n": 1, "x": 0.1, "yes": True, "list": ["a", "b"]}, None, {"n": 2}],
        documents=["a é document", "another", None],
    )
    photos = opened(tmp_path)
    wanted = [
        {"n": 1, "x": 0.1, "yes": True, "list": ["a", "b"], "chroma:document": "a é document"},
        {"chroma:document": "another"},
        {"n": 2},
    ]
    (batch,) = photos.batches(payload=True)
    assert [dict(one) for one in batch.payload or []] == wanted
    other = photos.sibling("photos_unhub_1")
    other.create(16, "cosine", like=photos)
    other.write(batch)
    assert [dict(one) for one in other.fetch(batch.ids).payload or []] == wanted
    other.write(StoredItems(batch.ids[:1], batch.rows[:1], [{"only": 1, "chroma:document": "new"}]))
    assert other.fetch(batch.ids[:1]).payload == [{"only": 1, "chroma:document": "new"}]
    with pytest.raises(ArgumentError, match=r"Chroma says: .*dict"):
        other.write(StoredItems(batch.ids[:1], batch.rows[:1], [{"nested": {"a": 1}}]))


def test_settings_of_the_graph_are_described_and_carried_over(tmp_path: Path) -> None:
    made(tmp_path, space="ip", max_neighbors=7, ef_construction=33).add(ids=["a"], embeddings=rows(1))
    photos = opened(tmp_path)
    about = photos.describe()
    assert (about.metric, about.index, about.codes, about.dimensions) == ("dot", "hnsw", "none", 16)
    other = photos.sibling("photos_unhub_1")
    other.create(18, "l2", like=photos)
    like = other.describe()
    assert (like.metric, like.dimensions, like.count) == ("l2", 18, 0)
    assert (like.settings["max_neighbors"], like.settings["ef_construction"]) == ("7", "33")


def test_the_metric_of_an_old_collection_is_read_from_its_metadata(tmp_path: Path) -> None:
    client_of(tmp_path).create_collection("photos", metadata={"hnsw:space": "cosine"}, embedding_function=None)
    photos = opened(tmp_path)
    photos.write(StoredItems(np.arange(5), rows(5), None))
    assert photos.describe().metric == "cosine" and photos.fetch(np.array([4])).ids.tolist() == [4]


def test_effort_is_for_one_search_alone(tmp_path: Path) -> None:
    held = rows(3000)
    collection = made(tmp_path, space="l2", max_neighbors=4, ef_construction=8, ef_search=1)
    collection.add(ids=[str(one) for one in range(3000)], embeddings=held)
    photos, queries = opened(tmp_path), rows(50, seed=1)
    wanted = np.argsort(np.square(queries[:, None] - held[None]).sum(axis=2), axis=1)[:, :10].astype(str)
    shares = [float((photos.search(queries, 10, effort=effort).ids == wanted).mean()) for effort in (400, None)]
    assert shares[1] < shares[0] - 0.1
    assert photos.describe().settings["ef_search"] == "1"


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_vectors_are_read_back_unscaled(tmp_path: Path, metric: Metric) -> None:
    photos = opened(tmp_path)
    written = filled(photos, count=30, metric=metric)
    rounding = 1e-6 if metric == "cosine" else 0  # under cosine Chroma keeps the length apart
    assert np.allclose(photos.fetch(written.ids).rows, written.rows, atol=0, rtol=rounding)


def test_an_empty_collection_is_read_and_searched(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(16, "cosine")
    assert photos.describe().count == 0 and list(photos.batches()) == []
    assert photos.search(rows(2), 3).ids.tolist() == [[-1] * 3] * 2
    with pytest.raises(ArgumentError, match="holds no vectors"):
        photos.vectors()


@pytest.mark.parametrize("key", ["", "a'b\"c\\", "live:é"])
def test_records_have_keys_of_any_letters(tmp_path: Path, key: str) -> None:
    photos = opened(tmp_path)
    photos.put_record(key, {"n": 1})
    assert photos.records() == {key: {"n": 1}}
    photos.put_record(key, None)
    assert photos.records() == {} and photos.names() == []


def test_many_collections_are_all_listed(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    for number in range(103):
        client.create_collection(f"one_{number:03}", embedding_function=None)
    assert opened(tmp_path).names() == [f"one_{number:03}" for number in range(103)]


def test_a_record_survives_the_kill_of_its_writer(tmp_path: Path) -> None:
    program = f"""
from unhub.stores.engines import store
store("chroma:{tmp_path}/database#photos").put_record("a", {{"n": 1}})
print("put", flush=True)
import time; time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stdout.readline() == "put\n"
        run.send_signal(signal.SIGKILL)
    assert opened(tmp_path).record("a") == {"n": 1}


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=3)
    for problem, call, arguments in (
        ("16 dimensions, and 5 were given", "write", (StoredItems(np.arange(1), rows(1, 5), None),)),
        ("Chroma says: .*dimension", "search", (rows(1, 5), 2)),
        ("has integers as ids", "write", (StoredItems(np.array(["a"]), rows(1), None),)),
        ("already", "create", (16, "dot")),
        ("document of an item", "set_field", ("chroma:document", np.array([1]), np.array([1.0]))),
    ):
        with pytest.raises(ArgumentError, match=problem) as caught:
            getattr(photos, call)(*arguments)
        assert caught.value.name == "store" and str(photos.address) in str(caught.value)
    with pytest.raises(ArgumentError, match=r"Chroma says: .*name"):
        photos.sibling("a'b; drop").create(16, "dot")
    assert photos.describe().count == 3 and photos.names() == ["photos"]


def test_a_folder_that_is_missing_is_not_created_by_reading(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    with pytest.raises(ArgumentError, match="no such folder"):
        photos.describe()
    assert photos.records() == {} and photos.names() == [] and not photos.exists()
    photos.put_record("a", None)
    photos.drop()
    assert not (tmp_path / "database").exists()


def test_what_is_no_folder_of_chroma_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "text").touch()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "chroma.sqlite3").write_bytes(b"no database" * 100)
    for name, problem in {"file": "is a file", "foreign": "something else", "damaged": "Chroma says"}.items():
        with pytest.raises(ArgumentError, match=problem):
            store(f"chroma:{tmp_path}/{name}#photos").describe()
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == ["text"]


@pytest.mark.parametrize(
    "address", ["chroma://127.0.0.1:9/photos?token=s3cret", "chroma:http://user:s3cret@127.0.0.1:9/photos"]
)
def test_a_server_that_does_not_answer_is_one_error_without_its_token(
    address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ArgumentError, match="does not answer") as caught:
        store(address).describe()
    shown = [str(caught.value), repr(store(address)), *capfd.readouterr()]
    assert caught.value.__suppress_context__ and not any("s3cret" in text for text in shown)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run Chroma's own server."""
    program = shutil.which("chroma", path=str(Path(sys.executable).parent))
    assert program is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    folder = tmp_path_factory.mktemp("server")
    command = [program, "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder) as run:
        try:
            for _ in range(300):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield port
        finally:
            run.terminate()


def test_a_server_is_used_by_its_host_and_port(server: int) -> None:
    photos = store(f"chroma://127.0.0.1:{server}/photos?token=unused")
    with pytest.raises(ArgumentError, match="there is no collection 'photos'"):
        photos.describe()
    written = filled(photos, metric="cosine")
    again = store(f"chroma:http://127.0.0.1:{server}/photos")
    assert again.describe().count == 300 and again.describe().metric == "cosine"
    assert again.search(written.rows[:3], 1, where={"number": {"$lt": 3}}).ids.ravel().tolist() == [100, 101, 102]
    again.set_field("h", written.ids, np.linspace(0, 1, 300))
    assert photos.fetch(np.array([399])).payload == [{"colour": "blue", "number": 299, "h": 1.0}]
    photos.put_record("a", {"n": 1})
    assert again.record("a") == {"n": 1} and again.names() == ["photos"]
