"""Every engine does what the interface of a store says, on the engine itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.stores.engines import Engine, engines, filled, rows
from unhub.arrays import Float32, unit
from unhub.stores.store import Metric, Store, StoredItems

pytestmark = pytest.mark.once

METRICS: tuple[Metric, ...] = ("cosine", "dot", "l2")


def exact(batch: StoredItems, queries: Float32, metric: Metric) -> Float32:
    """Return what a search returns as values, for every item."""
    if metric == "cosine":
        return np.asarray(unit(queries) @ unit(batch.rows).T, np.float32)
    if metric == "dot":
        return np.asarray(queries @ batch.rows.T, np.float32)
    return np.asarray(np.square(queries[:, None] - batch.rows[None]).sum(axis=2), np.float32)


def read_all(store: Store, payload: bool = False) -> StoredItems:
    parts = list(store.batches(payload=payload, rows=64))
    assert all(len(part.ids) <= 64 for part in parts)
    ids = np.concatenate([part.ids for part in parts])
    kept = [one for part in parts for one in (part.payload or [])]
    return StoredItems(ids, np.concatenate([part.rows for part in parts]), kept)


@engines
@pytest.mark.parametrize("texts", [False, True], ids=["numbers", "texts"])
def test_what_is_written_is_read_back(engine: Engine, texts: bool, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    assert not store.exists()
    written = filled(store, texts=texts)
    assert store.exists() and store.name in store.names()
    found = read_all(store, payload=True)
    order = np.argsort(found.ids)
    by_id = np.argsort(written.ids)
    assert found.ids.dtype.kind == written.ids.dtype.kind
    assert np.array_equal(found.ids[order], written.ids[by_id])
    assert found.rows.dtype == np.float32 and np.allclose(found.rows[order], written.rows[by_id], atol=1e-6)
    if "payload" in engine.cannot:
        return
    assert written.payload is not None and found.payload is not None
    assert [dict(found.payload[i]) for i in order] == [dict(written.payload[i]) for i in by_id]


@engines
@pytest.mark.parametrize("metric", METRICS)
def test_it_describes_itself(engine: Engine, metric: Metric, tmp_path: Path) -> None:
    if metric not in engine.metrics:
        pytest.skip(f"the engine cannot: {engine.name} has no {metric}")
    store = engine.open(tmp_path)
    filled(store, metric=metric)
    about = store.describe()
    assert (about.name, about.metric, about.dimensions, about.count) == (store.name, metric, 16, 300)


@engines
@pytest.mark.parametrize("metric", METRICS)
def test_a_search_gives_the_values_of_its_metric(engine: Engine, metric: Metric, tmp_path: Path) -> None:
    if metric not in engine.metrics:
        pytest.skip(f"the engine cannot: {engine.name} has no {metric}")
    store = engine.open(tmp_path)
    written, queries = filled(store, metric=metric), rows(7, seed=1)
    found = store.search(queries, 10)
    wanted = exact(written, queries, metric)
    order = np.argsort(wanted if metric == "l2" else -wanted, axis=1, kind="stable")[:, :10]
    assert np.array_equal(found.ids, written.ids[order])
    assert np.allclose(found.values, np.take_along_axis(wanted, order, axis=1), atol=1e-4)


@engines
def test_a_search_among_some_ids_finds_only_those(engine: Engine, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    written, queries = filled(store), rows(3, seed=1)
    allowed = written.ids[::7]
    found = store.search(queries, 5, among=allowed)
    wanted = exact(written, queries, "dot")[:, ::7]
    assert np.array_equal(found.ids, allowed[np.argsort(-wanted, axis=1)[:, :5]])


@engines
def test_more_places_than_items_are_left_empty(engine: Engine, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    written = filled(store, count=5)
    found = store.search(rows(2, seed=1), 8)
    assert found.ids.shape == found.values.shape == (2, 8)
    assert np.array_equal(np.sort(found.ids[:, :5]), np.tile(np.sort(written.ids), (2, 1)))
    assert (found.ids[:, 5:] == -1).all()


@engines
def test_items_are_fetched_replaced_and_removed(engine: Engine, tmp_path: Path) -> None:
    engine.needs("replacing")
    store = engine.open(tmp_path)
    written = filled(store)
    asked = np.array([160, 5, 101, 399])
    assert store.fetch(asked).ids.tolist() == [160, 101, 399]  # there is no 5
    assert np.allclose(store.fetch(asked).rows, written.rows[[60, 1, 299]], atol=1e-6)
    replacement = 10 * rows(1, seed=9)  # so long that it is nearest to itself by inner product too
    store.write(StoredItems(asked[:1], replacement, [{"colour": "grey", "number": -1}]))
    assert np.allclose(store.fetch(asked[:1]).rows, replacement, atol=1e-5)
    store.remove(np.array([101, 5]))
    assert store.describe().count == 299
    assert store.fetch(np.array([101])).ids.size == 0
    assert store.search(replacement, 1).ids.tolist() == [[160]]


@engines
def test_a_field_is_set_and_dropped_and_nothing_else_changes(engine: Engine, tmp_path: Path) -> None:
    engine.needs("payload")
    store = engine.open(tmp_path)
    written = filled(store, count=30)
    values = np.linspace(-1, 1, 30)
    store.set_field("h_1", written.ids, values)
    found = read_all(store, payload=True)
    assert found.payload is not None and written.payload is not None
    kept = {int(one): dict(payload) for one, payload in zip(found.ids, found.payload, strict=True)}
    for one, value, payload in zip(written.ids.tolist(), values.tolist(), written.payload, strict=True):
        assert kept[one]["h_1"] == pytest.approx(value, abs=1e-7)
        assert {name: held for name, held in kept[one].items() if name != "h_1"} == dict(payload)
    store.drop_field("h_1")
    store.drop_field("h_1")  # again is no error
    dropped = read_all(store, payload=True).payload
    assert dropped is not None and all(one.get("h_1") is None for one in dropped)
    assert np.allclose(read_all(store).rows[np.argsort(found.ids)], found.rows[np.argsort(found.ids)])


@engines
def test_records_are_kept_replaced_and_removed(engine: Engine, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    filled(store, count=5)
    assert store.records() == {} and store.record("a") is None
    store.put_record("a", {"n": 1, "text": "é", "list": [1.5, None, True]})
    store.put_record("b", {})
    store.put_record("a", {"n": 2})
    assert store.records() == {"a": {"n": 2}, "b": {}}
    store.put_record("b", None)
    store.put_record("b", None)
    assert store.records() == {"a": {"n": 2}}
    assert store.sibling("other").record("a") == {"n": 2}
    assert store.names() == [store.name]  # where records are kept is no collection of the user's


@engines
def test_a_sibling_is_made_like_it_and_dropped(engine: Engine, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    written = filled(store)
    other = store.sibling("photos_unhub_1")
    assert not other.exists()
    other.create(18, "dot", like=store)
    other.write(StoredItems(written.ids, rows(300, 18), written.payload))
    other.finish()
    assert other.describe().dimensions == 18 and other.describe().count == 300
    assert sorted(store.names()) == [store.name, "photos_unhub_1"]
    other.drop()
    other.drop()
    assert not other.exists() and store.describe().count == 300


@engines
def test_a_live_name_points_at_one_collection_after_the_other(engine: Engine, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    filled(store, count=20)
    for number in (1, 2):
        other = store.sibling(f"photos_unhub_{number}")
        other.create(16, "dot", like=store)
        other.write(StoredItems(np.arange(20), rows(20, seed=number), None))
        other.finish()
        store.publish("photos_live", other.name, "live:photos_live", {"collection": other.name})
        assert store.record("live:photos_live") == {"collection": other.name}
    assert not store.taken("photos_live") and store.taken("photos")


@engines
def test_vectors_are_read_into_a_mapped_file(engine: Engine, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    written = filled(store)
    read = store.vectors()
    assert isinstance(read.rows, np.memmap)
    order = np.argsort(read.ids)
    assert np.allclose(np.asarray(read.rows)[order], written.rows, atol=1e-6)


@engines
def test_a_collection_that_is_not_there_is_one_clear_error(engine: Engine, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    with pytest.raises(ValueError, match="photos"):
        store.describe()
