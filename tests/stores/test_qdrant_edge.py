"""Qdrant's engine in this process: graphs, codes, settings, shards on disk and processes that are killed."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stores.engines import filled, rows
from unhub.stores.engines import store
from unhub.stores.qdrant_edge import QdrantEdgeStore
from unhub.stores.qdrant_points import RECORDS
from unhub.stores.store import StoredItems

edge = pytest.importorskip("qdrant_edge")
pytestmark = pytest.mark.once

GRAPH = edge.HnswIndexConfig(m=4, ef_construct=16, full_scan_threshold=10, memory=edge.Memory.Cached)
SMALL = edge.EdgeOptimizersConfig(indexing_threshold=1, default_segment_number=1)  # in KB: a graph from a few rows on


def opened(folder: Path, rest: str = "#photos") -> QdrantEdgeStore:
    found = store(f"qdrant-edge:{folder}/place{rest}")
    assert isinstance(found, QdrantEdgeStore)
    return found


def made(folder: Path, name: str = "photos", **options: Any) -> Path:
    """Make a shard as any user of the engine does."""
    path = folder / "place" / name
    path.parent.mkdir(exist_ok=True)
    vectors = options.pop("vectors", edge.EdgeVectorParams(size=16, distance=edge.Distance.Dot))
    edge.EdgeShard.create(str(path), edge.EdgeConfig(vectors=vectors, **options)).close()
    return path


def test_a_graph_is_built_when_finished_and_searched_with_the_effort_given(tmp_path: Path) -> None:
    made(tmp_path, hnsw_config=GRAPH, optimizers=SMALL)
    photos, items, queries = opened(tmp_path), rows(2000), rows(50, seed=1)
    photos.write(StoredItems(np.arange(2000), items))
    assert photos.describe().settings["indexed vectors"] == "0"
    photos.finish()
    about = photos.describe()
    assert about.index == "hnsw" and about.settings["indexed vectors"] == "2000" and about.count == 2000
    assert about.settings["hnsw"].startswith("m 4, ef_construct 16")
    exact = np.argsort(-(queries @ items.T), axis=1)[:, :10]

    def recall(effort: int) -> float:
        found = photos.search(queries, 10, effort=effort).ids
        return float(np.mean([len({*a} & {*b}) / 10 for a, b in zip(found, exact, strict=True)]))

    assert recall(10) < recall(500) and recall(500) > 0.95
    with pytest.raises(ValueError, match="effort must be a whole number of at least 1"):
        photos.search(queries, 10, effort=0)


QUANTISERS: dict[str, tuple[Any, str, bool, str]] = {
    "scalar": (edge.ScalarQuantizationConfig(edge.ScalarType.Int8, quantile=0.99), "int8", False, "type int8"),
    "product": (edge.ProductQuantizationConfig(edge.CompressionRatio.X16), "pq", False, "compression x16"),
    "binary": (
        edge.BinaryQuantizationConfig(
            encoding=edge.BinaryQuantizationEncoding.OneAndHalfBits,
            query_encoding=edge.BinaryQuantizationQueryEncoding.Scalar8Bits,
        ),
        "binary",
        True,
        "encoding one_and_half_bits, query_encoding scalar8bits",
    ),
    "turbo": (edge.TurboQuantQuantizationConfig(bits=edge.TurboQuantBitSize.Bits1_5), "other", True, "bits bits1_5"),
    "turbo 4": (edge.TurboQuantQuantizationConfig(bits=edge.TurboQuantBitSize.Bits4), "other", False, "bits bits4"),
}


@pytest.mark.parametrize("kind", QUANTISERS)
def test_a_quantiser_is_told_carried_over_and_rescored_as_told(kind: str, tmp_path: Path) -> None:
    config, codes, rescored, told = QUANTISERS[kind]
    made(tmp_path, quantization_config=config, hnsw_config=GRAPH, optimizers=SMALL)
    photos = opened(tmp_path)
    about = photos.describe()
    assert (about.codes, about.rescored) == (codes, rescored) and told in about.settings["quantisation"]
    other = photos.sibling("other")
    other.create(18, "dot", like=photos)
    assert other.settings()["quantization_config"] == photos.settings()["quantization_config"]
    items, queries = rows(500, 18), rows(5, 18, seed=1)
    other.write(StoredItems(np.arange(500), items))
    other.finish()
    found = other.search(queries, 5)
    exact = np.take_along_axis(queries @ items.T, found.ids.astype(np.int64), axis=1)
    assert np.allclose(found.values, exact, atol=1e-4) == rescored


def test_every_setting_is_carried_over(tmp_path: Path) -> None:
    vector = edge.EdgeVectorParams(
        size=16,
        distance=edge.Distance.Cosine,
        on_disk=True,
        datatype=edge.VectorStorageDatatype.Float16,
        hnsw_config=edge.HnswIndexConfig(m=7, ef_construct=33, full_scan_threshold=10, payload_m=3),
        quantization_config=edge.ScalarQuantizationConfig(edge.ScalarType.Int8, memory=edge.Memory.Pinned),
    )
    other = edge.EdgeVectorParams(size=2, distance=edge.Distance.Dot)
    made(tmp_path, vectors={"clip": vector, "text": other}, optimizers=SMALL, payload_memory=edge.Memory.Cached)
    with pytest.raises(ValueError, match="several vectors: 'clip', 'text'"):
        opened(tmp_path).describe()
    photos = opened(tmp_path, "#photos?vector=clip")
    shard = edge.UpdateOperation.create_field_index
    with photos._asking():
        photos._shard().update(shard("colour", edge.PayloadSchemaType.Keyword))
        photos._shard().update(shard("text", edge.TextIndexParams(lowercase=True)))
    new = photos.sibling("new")
    new.create(18, "dot", like=photos)
    before, after = photos.settings(), new.settings()
    assert after["vectors"] == {"clip": {**before["vectors"]["clip"], "size": 18, "distance": "Dot"}}
    assert {name: after[name] for name in before if "vectors" not in name} == {
        name: before[name] for name in before if "vectors" not in name
    }
    assert {*new.describe().settings["payload indexes"].split(", ")} == {"colour keyword", "text text"}
    assert new.describe().settings["hnsw"].startswith("m 7, ef_construct 33")
    with pytest.raises(ValueError, match="has other vectors beside"):
        photos.write(StoredItems(np.array([1]), rows(1)))


def test_float16_storage_is_read_back_as_it_is(tmp_path: Path) -> None:
    half = edge.VectorStorageDatatype.Float16
    made(tmp_path, vectors=edge.EdgeVectorParams(size=16, distance=edge.Distance.Dot, datatype=half))
    photos, items = opened(tmp_path), rows(5)
    photos.write(StoredItems(np.arange(5), items))
    assert photos.describe().codes == "float16"
    assert np.array_equal(photos.fetch(np.arange(5)).rows, items.astype(np.float16).astype(np.float32))


def test_a_manhattan_or_many_vectors_for_an_item_are_refused(tmp_path: Path) -> None:
    made(tmp_path, vectors=edge.EdgeVectorParams(size=4, distance=edge.Distance.Manhattan))
    with pytest.raises(ValueError, match="compares by Manhattan; the metrics are Cosine, Dot, Euclid"):
        opened(tmp_path).describe()
    many = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
    made(tmp_path, "b", vectors=edge.EdgeVectorParams(size=4, distance=edge.Distance.Dot, multivector_config=many))
    with pytest.raises(ValueError, match="only one for each item is supported"):
        opened(tmp_path, "#b").describe()


def test_the_folder_itself_may_be_the_shard(tmp_path: Path) -> None:
    made(tmp_path)
    photos = opened(tmp_path, "/photos")
    assert photos.name == "photos" and photos.describe().count == 0
    photos.sibling("other").create(4, "dot", like=photos)
    assert opened(tmp_path).names() == ["other", "photos"] == photos.names()
    photos.put_record("a", {"n": 1})
    assert opened(tmp_path).record("a") == {"n": 1}


def test_what_is_written_is_there_for_any_user_of_the_engine(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    batch = filled(photos, count=20)
    photos.close()
    shard = edge.EdgeShard.load(str(tmp_path / "place" / "photos"))
    assert shard.count(edge.CountRequest(True)) == 20
    assert np.array_equal(np.array(shard.retrieve([100], False, True)[0].vector, np.float32), batch.rows[0])
    with pytest.raises(ValueError, match=r"cannot be opened: .*; close it in the other process that has it open"):
        photos.describe()
    shard.close()
    assert photos.describe().count == 20


def test_a_filter_of_the_engine_and_every_condition_as_json(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(4, "dot")
    payload: list[dict[str, Any]] = [
        {"text": "a red cat", "when": "2024-05-01T00:00:00Z", "at": {"lon": 13.4, "lat": 52.5}, "tags": ["a", "b"]},
        {"text": "a dog", "when": "2020-05-01T00:00:00Z", "at": {"lon": 2.3, "lat": 48.8}, "tags": [], "none": None},
        {"parts": [{"kind": "x", "n": 1}, {"kind": "y", "n": 2}]},
    ]
    photos.write(StoredItems(np.arange(3), rows(3, 4), payload))
    box = {"top_left": {"lon": 13, "lat": 53}, "bottom_right": {"lon": 14, "lat": 52}}
    ring = {"points": [{"lon": x, "lat": y} for x, y in ((13, 52), (14, 52), (14, 53), (13, 53), (13, 52))]}
    y1 = {"must": [{"key": "kind", "match": {"value": "y"}}, {"key": "n", "match": {"value": 1}}]}
    conditions: list[tuple[dict[str, Any], set[int]]] = [
        ({"key": "text", "match": {"text": "cat"}}, {0}),
        ({"key": "tags", "match": {"except": ["a", "b"]}}, set()),
        ({"key": "when", "range": {"gte": "2022-01-01T00:00:00Z"}}, {0}),
        ({"key": "at", "geo_bounding_box": box}, {0}),
        ({"key": "at", "geo_radius": {"center": {"lon": 2.3, "lat": 48.9}, "radius": 20000.0}}, {1}),
        ({"key": "at", "geo_polygon": {"exterior": ring}}, {0}),
        ({"key": "tags", "values_count": {"gte": 2}}, {0}),
        ({"is_empty": {"key": "tags"}}, {1, 2}),
        ({"is_null": {"key": "none"}}, {1}),
        ({"has_id": [0, 2]}, {0, 2}),
        ({"has_vector": ""}, {0, 1, 2}),
        ({"nested": {"key": "parts", "filter": y1}}, set()),
        ({"must_not": [{"has_id": [0]}]}, {1, 2}),
    ]
    for condition, wanted in conditions:
        found = photos.search(rows(1, 4), 3, {"must": condition}).ids[0]
        assert {*found.tolist()} - {-1} == wanted, condition
    least = {"min_should": {"conditions": [{"has_id": [0, 1]}, {"has_id": [1, 2]}], "min_count": 2}}
    assert photos.search(rows(1, 4), 1, least).ids.tolist() == [[1]]
    own = edge.Filter(must=[edge.HasIdCondition({2})])
    assert photos.search(rows(1, 4), 2, own).ids.tolist() == [[2, -1]]
    mixed = {"must": [edge.HasIdCondition({2})]}
    assert photos.search(rows(1, 4), 2, mixed).ids.tolist() == [[2, -1]]
    with pytest.raises(ValueError, match="a match has one of value, text"):
        photos.search(rows(1, 4), 2, {"must": [{"key": "text", "match": {"like": "%"}}]})


def test_other_folders_are_no_collections_and_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "place" / "photos"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("mine")
    photos = opened(tmp_path)
    assert photos.names() == [] and not photos.exists()
    photos.drop()
    with pytest.raises(ValueError, match="there is already something at"):
        photos.create(4, "dot")
    assert [one.name for one in mine.iterdir()] == ["notes.txt"]


def test_a_damaged_shard_or_record_is_one_clear_error(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=3)
    photos.put_record("a", {"n": 1})
    (record,) = (tmp_path / "place" / RECORDS).iterdir()
    record.write_text("{")
    with pytest.raises(ValueError, match="photos: has damaged records"):
        photos.records()
    photos.close()
    (tmp_path / "place" / "photos" / "edge_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"photos: cannot be opened: .* it is damaged"):
        photos.describe()


def test_publishing_needs_a_collection_and_keeps_the_record_whole(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=3)
    with pytest.raises(ValueError, match="no collection 'gone' to make live"):
        photos.publish("live", "gone", "live:live", {})
    photos.publish("live", "photos", "live:live", {"collection": "photos"})
    (record,) = (tmp_path / "place" / RECORDS).iterdir()
    assert json.loads(record.read_text()) == {"key": "live:live", "record": {"collection": "photos"}}


WRITING = """
import sys
import numpy as np
from unhub.stores.engines import store
from unhub.stores.store import StoredItems
photos = store(sys.argv[1])
photos.create(8, "dot")
for start in range(0, 10**9, 100):
    photos.write(StoredItems(np.arange(start, start + 100), np.ones((100, 8), np.float32), [{"n": 1}] * 100))
    if start % 500 == 0:
        photos.finish()
    print(start + 100, flush=True)
"""


HOLDING = """
import sys
from unhub.stores.engines import store
photos = store(sys.argv[1])
photos.create(8, "dot")
photos.describe()
print("open", flush=True)
sys.stdin.read()
"""


def test_a_shard_that_another_process_has_open_is_refused(tmp_path: Path) -> None:
    address = f"qdrant-edge:{tmp_path}/place#photos"
    command = [sys.executable, "-c", HOLDING, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        for call in (store(address).describe, store(address).drop):
            with pytest.raises(ValueError, match="close it in the other process"):
                call()
        process.communicate()
    assert store(address).describe().count == 0


def test_what_was_written_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    address = f"qdrant-edge:{tmp_path}/place#photos"
    process = subprocess.Popen([sys.executable, "-c", WRITING, address], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        done = [int(out.readline()) for _ in range(12)]
        process.send_signal(signal.SIGKILL)
        done += [int(line) for line in out.read().split()]
    process.wait()
    photos = store(address)
    count = photos.describe().count
    assert count in (done[-1], done[-1] + 100)  # the last write may have been cut off before it was told
    assert sum(len(batch.ids) for batch in photos.batches()) == count
    photos.write(StoredItems(np.array([10**6]), np.ones((1, 8), np.float32)))
    photos.finish()
    assert photos.describe().count == count + 1


def test_a_shard_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = opened(tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        photos.create(4, "dot")
    assert not photos.exists() and list((tmp_path / "place").iterdir()) == []
    monkeypatch.undo()
    stray = tmp_path / "place" / ".photos.0123abcd.tmp"  # as a killed process leaves it
    stray.mkdir()
    photos.create(4, "dot")
    assert [one.name for one in (tmp_path / "place").iterdir()] == ["photos"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("qdrant-edge://host/photos", "has a host"),
        ("qdrant-edge:folder#photos?ef=3", "unknown option 'ef'; the options are vector"),
        ("qdrant-edge:folder#../photos", "no collection can be named"),
        (f"qdrant-edge:folder#{RECORDS}", "no collection can be named"),
    ],
)
def test_a_wrong_address_is_refused_at_once(address: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        store(address)


def test_a_missing_library_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("unhub.stores.qdrant_edge")
    monkeypatch.delitem(sys.modules, "qdrant_edge")
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not one.endswith("site-packages")])
    with pytest.raises(ImportError, match=r"Qdrant Edge needs qdrant_edge: .* install .*\[qdrant\]"):
        store("qdrant-edge:folder#photos")
