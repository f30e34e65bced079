"""What Qdrant behind its client and Qdrant in process share, on both."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stores.engines import filled, rows
from unhub.arrays import Ids, unit
from unhub.stores.engines import store
from unhub.stores.qdrant_points import ID_FIELD, PointStore, keys_of
from unhub.stores.store import Correcting, StoredItems

pytest.importorskip("qdrant_client")
pytest.importorskip("qdrant_edge")
pytestmark = pytest.mark.once

UUID_TEXT = "7f9c24e8-3b12-4fef-91e0-c0ffee000001"
Opened = Callable[..., PointStore]


@pytest.fixture(params=["qdrant", "qdrant-edge"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    def open_named(name: str = "photos", options: str = "") -> PointStore:
        found = store(f"{request.param}:{tmp_path}/place#{name}{options}")
        assert isinstance(found, PointStore)
        return found

    return open_named


def written(place: PointStore, ids: Ids, payload: list[dict[str, Any]] | None = None) -> StoredItems:
    batch = StoredItems(ids, rows(len(ids)), payload)
    if not place.exists():
        place.create(16, "dot")
    place.write(batch)
    return batch


def all_of(place: PointStore) -> dict[int | str, dict[str, Any]]:
    return {
        one: dict(kept)
        for batch in place.batches(payload=True, rows=3)
        for one, kept in zip(batch.ids.tolist(), batch.payload or [], strict=True)
    }


ODD_TEXTS = np.array(["photo/1.jpg", UUID_TEXT, UUID_TEXT.upper(), "7", "-7", "007", "é", "'; drop table x; --", " "])


def test_odd_texts_are_ids_in_every_call(opened: Opened) -> None:
    place = opened()
    batch = written(place, ODD_TEXTS, [{"n": n} for n in range(len(ODD_TEXTS))])
    assert all_of(place) == {str(one): {"n": n} for n, one in enumerate(ODD_TEXTS)}
    assert np.array_equal(place.fetch(ODD_TEXTS[::-1]).ids, ODD_TEXTS[::-1])
    assert np.array_equal(place.fetch(ODD_TEXTS).rows, batch.rows)
    assert set(place.search(rows(1, seed=1), len(ODD_TEXTS)).ids[0]) == set(ODD_TEXTS)
    assert set(place.search(rows(1, seed=1), 3, among=ODD_TEXTS[:2]).ids[0]) == {*ODD_TEXTS[:2], ""}
    place.set_field("h", ODD_TEXTS[:2], np.array([1.0, 2.0]))
    assert all_of(place)["photo/1.jpg"] == {"n": 0, "h": 1.0} and all_of(place)[UUID_TEXT]["h"] == 2.0
    place.remove(ODD_TEXTS[:1])
    assert set(all_of(place)) == set(ODD_TEXTS[1:])


def test_negative_integers_stay_integers(opened: Opened) -> None:
    place, ids = opened(), np.array([-5, 0, 5, -(1 << 63), (1 << 63) - 1])
    written(place, ids)
    assert set(all_of(place)) == set(ids.tolist())
    found = place.search(rows(1, seed=1), 5)
    assert found.ids.dtype == np.int64 and set(found.ids[0]) == set(ids.tolist())
    assert place.fetch(ids).ids.tolist() == ids.tolist()


def test_a_collection_of_integers_and_texts_has_texts_everywhere(opened: Opened) -> None:
    place = opened()
    written(place, np.arange(5))
    assert place.search(rows(1, seed=1), 2, among=np.arange(3)).ids.dtype == np.int64
    written(place, np.array([UUID_TEXT]))
    assert [batch.ids.dtype.kind for batch in place.batches(rows=2)] == ["U", "U", "U"]
    found = place.search(rows(1, seed=1), 2, among=np.array(["0", "3", UUID_TEXT]))
    assert found.ids.dtype.kind == "U" and set(found.ids[0]) <= {"0", "3", UUID_TEXT}
    assert np.array_equal(place.fetch(np.array(["3", "4", "5"])).ids, ["3", "4"])
    place.remove(np.array(["3"]))
    assert set(all_of(place)) == {"0", "1", "2", "4", UUID_TEXT}


def test_an_id_kept_beside_is_not_found_by_its_uuid(opened: Opened) -> None:
    place = opened()
    written(place, np.array(["photo"]))
    assert place.fetch(np.array([str(keys_of("photo")[0])])).ids.size == 0


def test_integers_and_uuids_need_no_field(opened: Opened) -> None:
    place = opened()
    written(place, np.array([UUID_TEXT]))
    written(place, np.array([3]))
    points, _ = place.page(None, 10, True)
    assert [point.key for point in points] == [3, UUID_TEXT] and not any(point.payload for point in points)


def test_payload_of_every_kind_comes_back_as_json(opened: Opened) -> None:
    place, day = opened(), datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    odd = uuid.UUID(UUID_TEXT)
    given = {
        "nested": {"a": [1, 2.5, {"b": None}]},
        "none": None,
        "empty": [],
        "texts": ["é", '"', "'; --"],
        "yes": True,
        "when": day,
        "numpy": np.float32(0.5),
        "array": np.arange(3),
        "uuid": odd,
        "a.b": 1,
    }
    written(place, np.array(["x"]), [given])
    wanted = {**given, "when": day.isoformat(), "numpy": 0.5, "array": [0, 1, 2], "uuid": UUID_TEXT}
    assert all_of(place) == {"x": wanted}


@pytest.mark.parametrize("payload", [{"a": float("nan")}, {"a": {"b": [b"bytes"]}}, {ID_FIELD: 1}])
def test_payload_that_cannot_be_held_is_refused_before_anything_is_written(
    opened: Opened, payload: dict[str, Any]
) -> None:
    place = opened()
    place.create(16, "dot")
    with pytest.raises(ValueError, match=r"store .*photos.* 8"):
        place.write(StoredItems(np.array([7, 8]), rows(2), [{}, payload]))
    assert place.describe().count == 0


def test_rows_that_are_not_finite_or_of_other_dimensions_are_refused(opened: Opened) -> None:
    place, bad = opened(), rows(2)
    place.create(16, "dot")
    bad[1, 3] = np.inf
    with pytest.raises(ValueError, match="NaN or infinity, as in the row of 8"):
        place.write(StoredItems(np.array([7, 8]), bad))
    with pytest.raises(ValueError, match="has 16 dimensions, the rows have 18"):
        place.write(StoredItems(np.array([7]), rows(1, 18)))
    with pytest.raises(ValueError, match="has 16 dimensions, the queries have 18"):
        place.search(rows(1, 18), 3)
    with pytest.raises(ValueError, match="2 ids, 1 rows and 2 payloads"):
        place.write(StoredItems(np.array([7, 8]), rows(1)))
    assert place.describe().count == 0


RED: dict[str, Any] = {"must": [{"key": "colour", "match": {"value": "red"}}]}


def test_where_is_a_filter_as_json_or_of_the_client(opened: Opened) -> None:
    from qdrant_client import models

    place = opened()
    batch, query = filled(place, count=30), rows(1, seed=1)
    red = models.Filter(must=[models.FieldCondition(key="colour", match=models.MatchValue(value="red"))])
    exact = batch.ids[::3][np.argsort(-(query @ batch.rows[::3].T)[0])]
    assert np.array_equal(place.search(query, 10, RED).ids[0], exact)
    assert np.array_equal(place.search(query, 10, red).ids[0], exact)
    among = batch.ids[:6]
    assert set(place.search(query, 6, RED, among).ids[0]) == {100, 103, -1}
    either: dict[str, Any] = {
        "should": [RED, {"key": "number", "range": {"gte": 28}}],
        "must_not": [{"has_id": [100]}, {"key": "colour", "match": {"any": ["green", "'; --"]}}],
    }
    assert set(place.search(query, 30, either).ids[0]) == {*batch.ids[3::3].tolist(), 129, -1}


@pytest.mark.parametrize("where", ["colour = red", {"colour": "red"}, {"must": [{"key": "colour", "is": "red"}]}, 7])
def test_a_filter_that_is_none_is_one_clear_error(opened: Opened, where: object) -> None:
    place = opened()
    filled(place, count=3)
    with pytest.raises(ValueError, match=r"photos: does not understand the filter"):
        place.search(rows(1), 1, where)


@pytest.mark.parametrize("field", ["h", "h 1.x", "h-é"])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_the_engine_subtracts_a_field_with_the_weight_of_each_query(opened: Opened, field: str, metric: Any) -> None:
    place = opened()
    batch, queries = filled(place, count=40, metric=metric), rows(3, seed=1)
    h, weights = np.random.default_rng(2).normal(0, 3, 40), np.array([0.0, 1.0, -0.5])
    place.set_field(field, batch.ids[:-1], h[:-1])
    h[-1] = 0.0  # an item without the field loses nothing
    plain = unit(queries) @ unit(batch.rows).T if metric == "cosine" else queries @ batch.rows.T
    wanted = plain - weights[:, None] * h
    order = np.argsort(-wanted, axis=1)[:, :7]
    found = place.search_less(queries, weights, 7, Correcting(field, 40))
    assert np.array_equal(found.ids, batch.ids[order])
    assert np.allclose(found.values, np.take_along_axis(wanted, order, axis=1), atol=1e-4)
    few = place.search_less(queries, weights, 1, Correcting(field, 2))
    near = np.argsort(-plain, axis=1)[:, :2]
    best = np.take_along_axis(wanted, near, axis=1).argmax(axis=1)
    assert np.array_equal(few.ids[:, 0], batch.ids[near[np.arange(3), best]])
    only = place.search_less(queries, weights, 7, Correcting(field, 40), RED, batch.ids[:12])
    assert set(only.ids[0]) == {100, 103, 106, 109, -1}


def test_squared_distances_have_nothing_to_subtract_from(opened: Opened) -> None:
    place = opened()
    filled(place, count=3, metric="l2")
    with pytest.raises(ValueError, match="metric l2, which has no similarity"):
        place.search_less(rows(1), np.ones(1), 1, Correcting("h", 3))


def test_a_field_of_an_item_that_is_not_there_is_refused_before_anything_is_set(opened: Opened) -> None:
    place = opened()
    filled(place, count=3)
    with pytest.raises(ValueError, match="has no item 7"):
        place.set_field("h", np.array([100, 7]), np.ones(2))
    with pytest.raises(ValueError, match="NaN or infinity"):
        place.set_field("h", np.array([100]), np.array([np.nan]))
    for name in ('a"b', "", ID_FIELD):
        with pytest.raises(ValueError, match="cannot be named"):
            place.set_field(name, np.array([100]), np.ones(1))
    assert all("h" not in kept for kept in all_of(place).values())


def test_cosine_collections_hold_rows_of_length_one(opened: Opened) -> None:
    place = opened()
    batch = filled(place, count=5, metric="cosine")
    assert np.allclose(place.fetch(batch.ids).rows, unit(batch.rows), atol=1e-6)


def test_an_empty_collection_is_read_and_searched(opened: Opened) -> None:
    place = opened()
    place.create(16, "dot")
    place.write(StoredItems(np.array([], np.int64), rows(0), []))
    place.finish()
    assert place.describe().count == 0 and list(place.batches()) == []
    assert place.search(rows(2), 3).ids.tolist() == [[-1] * 3] * 2
    assert place.fetch(np.array([1])).rows.shape == (0, 16)
    assert place.search(rows(0), 3).ids.shape == (0, 3)
    place.set_field("h", np.array([], np.int64), np.array([]))
    place.remove(np.array([1]))
    place.drop_field("h")
    with pytest.raises(ValueError, match="holds no vectors"):
        place.vectors()


def test_pages_are_of_the_size_asked_for_and_in_one_order(opened: Opened) -> None:
    place, ids = opened(), np.array([f"photo {n}" for n in range(10)])
    written(place, ids)
    parts = [batch.ids.tolist() for batch in place.batches(rows=4)]
    assert [len(part) for part in parts] == [4, 4, 2] and {one for part in parts for one in part} == {*ids.tolist()}
    assert [batch.ids.tolist() for batch in place.batches(rows=4)] == parts


@pytest.mark.parametrize("name", ["it's; drop table x --", "photos.v2", "a b&c=d", "фото", "100%"])
def test_odd_names_are_names(opened: Opened, name: str) -> None:
    place = opened(name.replace("%", "%25"))
    filled(place, count=3)
    assert place.names() == [name] and place.describe().name == name
    place.put_record(name, {"name": name})
    assert place.record(name) == {"name": name}
    place.drop()
    assert place.names() == []


@pytest.mark.parametrize("name", ["a/b", "..", 'a"b', "a|b", "unhub_records"])
def test_names_that_qdrant_refuses_are_one_clear_error(opened: Opened, name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="store "):
        opened("photos").sibling(name).create(4, "dot")
    assert opened("photos").names() == [] and not (tmp_path / "b").exists()


def test_what_exists_is_not_created_again(opened: Opened) -> None:
    place = opened()
    filled(place, count=3)
    with pytest.raises(ValueError, match="there is already"):
        place.create(16, "dot")
    assert place.describe().count == 3


def test_two_stores_of_one_place_see_each_other(opened: Opened) -> None:
    first, second = opened(), opened()
    filled(first, count=3)
    assert second.describe().count == 3
    first.drop()
    assert not second.exists()
    with pytest.raises(ValueError, match="there is no collection 'photos'"):
        second.search(rows(1), 1)


def test_a_place_is_closed_and_opened_again(opened: Opened) -> None:
    place: Any = opened()
    batch = filled(place, count=3)
    place.put_record("a", {"n": 1})
    place.close()
    place.close()
    again = opened()
    assert np.array_equal(again.fetch(batch.ids).rows, batch.rows) and again.record("a") == {"n": 1}


def test_another_metric_or_dimension_is_seen_when_a_collection_is_made_again(opened: Opened) -> None:
    place, other = opened(), opened()
    filled(place, count=3)
    assert other.search(rows(1), 1).ids.shape == (1, 1)
    place.drop()
    place.create(16, "l2")
    place.write(StoredItems(np.array([1]), rows(1)))
    assert other.search(rows(1), 1).values.tolist() == [[0.0]]
    place.drop()
    place.create(18, "dot")
    place.write(StoredItems(np.array([1]), rows(1, 18)))
    assert other.search(rows(1, 18), 1).ids.tolist() == [[1]]


def test_another_engine_is_not_like_it(opened: Opened, tmp_path: Path) -> None:
    place = opened()
    kind = "qdrant-edge" if place.engine == "qdrant" else "qdrant"
    other = store(f"{kind}:{tmp_path}/elsewhere#photos")
    with pytest.raises(ValueError, match="of another engine"):
        place.create(4, "dot", like=other)
    assert not place.exists()
