"""Milvus, in Lite: filters, ids of any letters, indexes carried over, aliases, payload of every kind, errors."""

from __future__ import annotations

import os
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

import unhub
from tests.stores.engines import filled, rows
from unhub.arrays import Ids
from unhub.deploying.deployment import Mode
from unhub.errors import ArgumentError
from unhub.stores.engines import store
from unhub.stores.milvus import Milvus
from unhub.stores.store import Metric, StoredItems

pytestmark = pytest.mark.once
pymilvus = pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

ODD = ["it's", 'a"b', "back\\slash", "new\nline", "tab\t", "é", "x'] or id != '", 'y"] or id != "', "%", "-1", "{a}"]


def opened(folder: Path, collection: str = "photos") -> Milvus:
    made = store(f"milvus:{folder}/x.db#{collection}")
    assert isinstance(made, Milvus)
    return made


def client_of(folder: Path) -> Any:
    return pymilvus.MilvusClient(str(folder / "x.db"))


def made(folder: Path, index: str, metric: str = "IP", **options: Any) -> Milvus:
    """Create `photos` as a user of Milvus would, with a field of its schema."""
    client = client_of(folder)
    schema = client.create_schema(auto_id=options.get("auto_id", False), enable_dynamic_field=True)
    schema.add_field("key", pymilvus.DataType.INT64, is_primary=True)
    schema.add_field("clip", pymilvus.DataType.FLOAT_VECTOR, dim=16)
    schema.add_field("title", pymilvus.DataType.VARCHAR, max_length=50, nullable=True)
    for name in options.get("more", ()):
        schema.add_field(name, pymilvus.DataType.FLOAT_VECTOR, dim=4)
    indexes = client.prepare_index_params()
    nested = {"params": options.get("params", {})}
    indexes.add_index("clip", index_type=index, metric_type=metric, params=nested)
    for name in options.get("more", ()):
        indexes.add_index(name, index_type="FLAT", metric_type="L2")
    client.create_collection("photos", schema=schema, index_params=indexes)
    return opened(folder)


@pytest.mark.parametrize("mode", ["vectors", "payload"])
def test_a_live_name_needs_no_name_of_a_vector(tmp_path: Path, mode: Mode) -> None:
    made(tmp_path, "FLAT", more=("other",))
    given = [{"key": n, "clip": one.tolist(), "other": [1.0] * 4} for n, one in enumerate(rows(30))]
    client_of(tmp_path).insert("photos", given)
    clip = opened(tmp_path, "photos.clip")
    correction = unhub.fit(clip, rows(20, seed=1), method="is", similarity="dot")
    unhub.deploy(correction, clip, mode, switch=True)
    live = opened(tmp_path, "photos_live")
    found = unhub.searcher(live, correction).search(rows(3, seed=2), 5)
    right = unhub.searcher(live, correction, index="exact").search(rows(3, seed=2), 5)
    np.testing.assert_array_equal(found.ids, right.ids)


def test_a_filter_is_passed_through(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    written = filled(photos)
    found = photos.search(rows(2, seed=1), 5, where='colour == "red" and number < 30')
    assert set(found.ids.ravel().tolist()) <= set(written.ids[:30:3].tolist())
    few = photos.search(rows(2, seed=1), 5, where="number < 2")
    assert (few.ids[:, 2:] == -1).all() and np.isneginf(few.values[:, 2:]).all()
    both = photos.search(rows(2, seed=1), 300, where='colour == "red" or number == 1', among=written.ids[:3])
    assert set(both.ids[0].tolist()) == {100, 101, -1}


def test_a_filter_that_is_not_understood_is_one_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    photos = opened(tmp_path)
    filled(photos, count=5)
    with pytest.raises(ArgumentError, match=r"Milvus says: .*'bar'"):
        photos.search(rows(1), 2, where="foo bar")
    assert "Traceback" not in "".join(capfd.readouterr())


def test_ids_of_any_letters_are_read_found_and_removed(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    ids = np.array(ODD)
    photos.create(16, "l2")
    photos.write(StoredItems(ids, rows(len(ids)), None))
    photos.finish()
    assert [one for batch in photos.batches(rows=1) for one in batch.ids.tolist()] == sorted(ODD)
    assert photos.fetch(ids[::-1]).ids.tolist() == ODD[::-1]
    for one, row in zip(ODD, rows(len(ids)), strict=True):
        alone: Ids = np.array([one])
        assert photos.search(row[None], 2, among=alone).ids.tolist() == [[one, ""]]
    photos.remove(ids[6:8])
    assert photos.describe().count == len(ODD) - 2


def test_ids_below_zero_are_integers(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    ids = np.array([-5, 0, 7, -(2**63), 2**63 - 1])
    photos.create(16, "l2")
    photos.write(StoredItems(ids, rows(5), None))
    assert [one for batch in photos.batches(rows=2) for one in batch.ids.tolist()] == sorted(ids.tolist())
    assert photos.fetch(ids).ids.tolist() == ids.tolist()


@pytest.mark.parametrize(
    ("index", "params", "kind", "codes"),
    [
        ("HNSW", {"M": 8, "efConstruction": 40}, "hnsw", "none"),
        ("HNSW_SQ", {"M": 8}, "hnsw", "int8"),
        ("IVF_SQ8", {"nlist": 4}, "ivf", "int8"),
        ("FLAT", {}, "flat", "none"),
    ],
)
def test_an_index_is_described_and_carried_over(
    tmp_path: Path, index: str, params: dict[str, int], kind: str, codes: str
) -> None:
    photos = made(tmp_path, index, "L2", params=params)
    photos.write(StoredItems(np.arange(40), rows(40), [{"title": f"t{i}", "n": i} for i in range(40)]))
    about = photos.describe()
    assert (about.index, about.codes, about.rescored, about.metric) == (kind, codes, codes == "none", "l2")
    assert about.settings.items() >= {"index_type": index, **{name: str(one) for name, one in params.items()}}.items()
    other = photos.sibling("photos_unhub_1")
    other.create(18, "dot", like=photos)
    other.write(
        StoredItems(np.arange(3), rows(3, 18), [{"title": None, "n": 1}, {"title": "b", "n": None}, {"title": "c"}])
    )
    other.finish()
    made_like = other.describe()
    assert (made_like.dimensions, made_like.metric) == (18, "dot")
    kept = ("index_type", "vector", *params)
    assert {name: made_like.settings[name] for name in kept} == {name: about.settings[name] for name in kept}
    described = client_of(tmp_path).describe_collection("photos_unhub_1")
    assert [one["name"] for one in described["fields"]] == ["key", "clip", "title"]
    assert [dict(one) for one in other.fetch(np.arange(3)).payload or []] == [
        {"title": None, "n": 1},
        {"title": "b", "n": None},
        {"title": "c"},
    ]


def test_effort_is_for_one_search_alone(tmp_path: Path) -> None:
    photos = made(tmp_path, "IVF_FLAT", "L2", params={"nlist": 64})
    photos.write(StoredItems(np.arange(2000), rows(2000), None))
    photos.finish()
    queries = rows(50, seed=1)
    every, few, default = photos.search(queries, 10, effort=64), photos.search(queries, 10, effort=1), None
    default = photos.search(queries, 10)
    wanted = np.argsort(np.square(queries[:, None] - rows(2000)[None]).sum(axis=2), axis=1)[:, :10]
    assert (every.ids == wanted).mean() > 0.999
    assert (few.ids == wanted).mean() < 0.7 < (default.ids == wanted).mean() < 0.999


def test_a_graph_takes_effort_as_ef(tmp_path: Path) -> None:
    photos = made(tmp_path, "HNSW", "L2", params={"M": 4, "efConstruction": 8})
    photos.write(StoredItems(np.arange(3000), rows(3000), None))
    photos.finish()
    queries = rows(50, seed=1)
    wanted = np.argsort(np.square(queries[:, None] - rows(3000)[None]).sum(axis=2), axis=1)[:, :10]
    shares = [(photos.search(queries, 10, effort=effort).ids == wanted).mean() for effort in (1, 400)]
    assert shares[0] < shares[1] - 0.1


def test_payload_of_every_kind_comes_back(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    payload: list[dict[str, Any]] = [
        {"text": "é \"quoted\" 'text'\n", "none": None, "list": [1, "a", None], "nested": {"a": {"b": [1.5]}}},
        {"yes": True, "big": 2**53, "small": 1e-300},
        {},
    ]
    photos.create(16, "cosine")
    photos.write(StoredItems(np.arange(3), rows(3), payload))
    (batch,) = photos.batches(payload=True)
    assert [dict(one) for one in batch.payload or []] == payload
    photos.write(StoredItems(np.arange(1), rows(1), [{"only": 1}]))  # replaces all of it
    assert [dict(one) for one in photos.fetch(np.arange(1)).payload or []] == [{"only": 1}]


def test_an_empty_collection_is_read_and_searched(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(16, "cosine")
    photos.finish()
    assert photos.describe().count == 0 and list(photos.batches()) == []
    assert photos.search(rows(2), 3).ids.tolist() == [[-1] * 3] * 2
    assert photos.fetch(np.arange(3)).rows.shape == (0, 16)
    with pytest.raises(ArgumentError, match="holds no vectors"):
        photos.vectors()


def test_an_alias_is_seen_by_an_ordinary_client_and_guards_its_collection(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=20)
    other = photos.sibling("photos_unhub_1")
    other.create(16, "dot", like=photos)
    other.write(StoredItems(np.arange(20), rows(20), None))
    other.finish()
    photos.publish("photos_live", other.name, "live", {"a": 1})
    assert len(client_of(tmp_path).query("photos_live", filter="id < 5", output_fields=["id"])) == 5
    assert opened(tmp_path, "photos_live").describe().count == 20
    assert sorted(photos.names()) == ["photos", "photos_unhub_1"]
    with pytest.raises(ArgumentError, match=r"photos_live.* points at"):
        other.drop()
    with pytest.raises(ArgumentError, match="is a collection, which an alias cannot replace"):
        photos.publish("photos", other.name, "live", {"a": 2})
    assert photos.record("live") == {"a": 1}
    photos.publish("photos_live", photos.name, "live", {"a": 3})
    other.drop()
    assert photos.names() == ["photos"]


@pytest.mark.parametrize("key", ["", "a'b\"c\\", "live:é", 'x"] or key != "'])
def test_records_have_keys_of_any_letters(tmp_path: Path, key: str) -> None:
    photos = opened(tmp_path)
    photos.put_record("other", {"n": 0})
    photos.put_record(key, {"n": 1})
    assert photos.records() == {"other": {"n": 0}, key: {"n": 1}}
    photos.put_record(key, None)
    assert photos.records() == {"other": {"n": 0}}


def test_a_record_that_is_too_long_is_refused(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    with pytest.raises(ArgumentError, match="Milvus holds 65535"):
        photos.put_record("a", {"text": "x" * 70_000})
    assert photos.records() == {}


def test_a_record_survives_the_kill_of_its_writer(tmp_path: Path) -> None:
    program = f"""
from unhub.stores.engines import store
photos = store("milvus:{tmp_path}/x.db#photos")
photos.create(4, "dot")
photos.put_record("a", {{"n": 1}})
print("put", flush=True)
import time; time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stdout.readline() == "put\n"
        with pytest.raises(ArgumentError, match="another process has it"):
            opened(tmp_path).describe()
        run.send_signal(signal.SIGKILL)
    assert opened(tmp_path).record("a") == {"n": 1}
    assert opened(tmp_path).describe().count == 0


def test_a_place_for_records_that_was_left_half_made_is_made_again(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    schema = client.create_schema(enable_dynamic_field=True)
    schema.add_field("key", pymilvus.DataType.VARCHAR, is_primary=True, max_length=10)
    schema.add_field("nothing", pymilvus.DataType.FLOAT_VECTOR, dim=2)
    client.create_collection("unhub_records", schema=schema)  # without an index
    photos = opened(tmp_path)
    assert photos.records() == {}
    photos.put_record("a", {"n": 1})
    assert photos.records() == {"a": {"n": 1}}


def test_ids_that_milvus_gives_are_not_written_over(tmp_path: Path) -> None:
    photos = made(tmp_path, "FLAT", auto_id=True)
    client = client_of(tmp_path)
    client.insert("photos", [{"clip": rows(1)[0], "title": "a"}])
    with pytest.raises(ArgumentError, match="auto_id"):
        photos.set_field("h", np.array([1]), np.array([1.0]))
    other = photos.sibling("other")
    (batch,) = photos.batches(payload=True)
    other.create(16, "dot", like=photos)
    other.write(batch)  # with the ids that Milvus gave
    assert other.fetch(batch.ids).ids.tolist() == batch.ids.tolist()


def test_one_of_several_vectors_is_named_in_the_address(tmp_path: Path) -> None:
    photos = made(tmp_path, "FLAT", more=["other"])
    row = {"key": 1, "clip": rows(1)[0], "other": [1.0] * 4, "title": "a", "n": 2}
    client_of(tmp_path).insert("photos", [row])
    with pytest.raises(ArgumentError, match="it has 'clip', 'other'"):
        photos.describe()
    clip = opened(tmp_path, "photos.clip")
    assert clip.describe().dimensions == 16
    assert opened(tmp_path, "photos.other").describe().metric == "l2"
    (batch,) = clip.batches(payload=True)
    assert [dict(one) for one in batch.payload or []] == [{"title": "a", "n": 2}]
    clip.set_field("h", np.array([1]), np.array([0.5]))
    clip.drop_field("n")
    assert [dict(one) for one in clip.fetch(np.array([1])).payload or []] == [{"title": "a", "h": 0.5}]
    assert client_of(tmp_path).query("photos", filter="key == 1", output_fields=["other"])[0]["other"] == [1.0] * 4
    with pytest.raises(ArgumentError, match="no vector 'nope'"):
        opened(tmp_path, "photos.nope").describe()


def test_a_field_is_set_only_for_items_that_are_there(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=3)
    photos.set_field("h", np.array([101, 7]), np.array([0.5, 0.25]))
    assert photos.describe().count == 3
    assert photos.fetch(np.array([101])).payload == [{"colour": "green", "number": 1, "h": 0.5}]


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_vectors_are_read_back_unscaled(tmp_path: Path, metric: Metric) -> None:
    photos = opened(tmp_path)
    written = filled(photos, count=30, metric=metric)
    assert np.array_equal(photos.fetch(written.ids).rows, written.rows)


def refused(problem: str, photos: Milvus, call: str, *arguments: Any) -> None:
    with pytest.raises(ArgumentError, match=problem) as caught:
        getattr(photos, call)(*arguments)
    assert caught.value.name == "store" and str(photos.address) in str(caught.value)


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=3)
    refused("16 dimensions, and 5 were given", photos, "write", StoredItems(np.arange(1), rows(1, 5), None))
    refused("16 dimensions, and 5 were given", photos, "search", rows(1, 5), 2)
    refused("has integers as ids", photos, "write", StoredItems(np.array(["a"]), rows(1), None))
    refused("name of the primary key", photos, "write", StoredItems(np.arange(1), rows(1), [{"id": 7}]))
    refused("there is a collection 'photos' already", photos, "create", 16, "dot")
    refused("primary key or its vector", photos, "set_field", "vector", np.array([100]), np.array([1.0]))
    assert photos.describe().count == 3


def test_a_database_that_is_missing_is_not_created_by_reading(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    refused("no such database", photos, "describe")
    assert photos.records() == {} and photos.names() == [] and not photos.exists()
    photos.drop()
    photos.put_record("a", None)
    assert not (tmp_path / "x.db").exists()
    refused("does not exist", opened(tmp_path / "nowhere"), "create", 4, "dot")


def test_what_is_no_database_of_lite_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "old.db").write_bytes(b"SQLite format 3")
    (tmp_path / "foreign.db").mkdir()
    (tmp_path / "foreign.db" / "file").touch()
    (tmp_path / "other").mkdir()
    for name, problem in {"old.db": "is a file", "foreign.db": "something else", "other": "ends in .db"}.items():
        photos = store(f"milvus:{tmp_path}/{name}#photos")
        with pytest.raises(ArgumentError, match=problem):
            photos.describe()
    assert [path.name for path in (tmp_path / "foreign.db").iterdir()] == ["file"]


def test_an_address_needs_a_collection_and_known_options(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="names no collection"):
        store(f"milvus:{tmp_path}/x.db")
    with pytest.raises(ArgumentError, match="unknown option 'colour'"):
        store(f"milvus:{tmp_path}/x.db#a?colour=red")


@pytest.mark.parametrize(
    "address",
    [
        "milvus://root:s3cret@127.0.0.1:9/photos",
        "milvus://127.0.0.1:9/photos?token=s3cret",
        "milvus://127.0.0.1:9/default#photos.vector?token=s3cret",
        "milvus:http://root:s3cret@127.0.0.1:9/photos",
    ],
)
def test_a_server_that_does_not_answer_is_one_error_without_its_password(
    address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ArgumentError, match="does not answer") as caught:
        store(address).describe()
    shown = [str(caught.value), repr(store(address)), *capfd.readouterr()]
    assert caught.value.__suppress_context__ and not any("s3cret" in text for text in shown)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run Milvus Lite as a server of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    folder = tmp_path_factory.mktemp("server")
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield port
        finally:
            run.terminate()


def test_a_server_is_used_by_its_host_and_port(server: int) -> None:
    photos = store(f"milvus://127.0.0.1:{server}/photos")
    written = filled(photos, count=30, texts=True)
    assert photos.search(written.rows[:2], 1, among=written.ids[:2]).ids.shape == (2, 1)
    photos.put_record("a", {"n": 1})
    again = store(f"milvus:http://127.0.0.1:{server}/default#photos.vector?token=unused")
    assert again.record("a") == {"n": 1} and again.describe().count == 30
    with pytest.raises(ArgumentError, match="there is no collection 'nope'"):
        store(f"milvus://127.0.0.1:{server}/nope").describe()


def test_the_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "MILVUS_TOKEN", "s3cret")
    photos = store("milvus://127.0.0.1:9/photos")
    assert isinstance(photos, Milvus) and photos.link.token == "s3cret" and "s3cret" not in repr(photos.link)
