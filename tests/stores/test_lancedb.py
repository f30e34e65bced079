"""LanceDB beyond the battery: ids, metrics, indexes and their codes, fields, commits, errors."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stores.engines import filled, rows
from unhub.arrays import Float32, unit
from unhub.errors import ArgumentError
from unhub.stores.engines import store
from unhub.stores.lancedb import RECORDS, LanceStore
from unhub.stores.lancedb_index import KINDS
from unhub.stores.store import Metric, StoredItems

lancedb = pytest.importorskip("lancedb", reason="lancedb is not installed")
arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from lancedb import index as kinds  # noqa: E402

pytestmark = pytest.mark.once


def opened(folder: Path, rest: str = "photos") -> LanceStore:
    found = store(f"lancedb:{folder / 'db'}#{rest}")
    assert isinstance(found, LanceStore)
    return found


def column(vectors: Float32, number: str = "float32") -> Any:
    return arrow.FixedSizeListArray.from_arrays(arrow.array(vectors.astype(number).ravel()), vectors.shape[1])


def user_table(folder: Path, count: int = 300, dimensions: int = 16, **columns: Any) -> Any:
    """Return a table as a user of LanceDB makes it, without unhub."""
    made = {"id": np.arange(count), "vector": column(rows(count, dimensions))} | columns
    return lancedb.connect(folder / "db").create_table("photos", arrow.table(made))


def exact(vectors: Float32, queries: Float32, metric: Metric) -> Float32:
    if metric == "l2":
        return np.asarray(np.square(queries[:, None] - vectors[None]).sum(axis=2))
    scores = unit(queries) @ unit(vectors).T if metric == "cosine" else queries @ vectors.T
    return np.asarray(scores)


# Ids and columns


def test_a_table_without_id_says_how_to_name_a_column(tmp_path: Path) -> None:
    made = arrow.table({"path": ["a", "b"], "vector": column(rows(2)), "size": [1.5, 2.5]})
    lancedb.connect(tmp_path / "db").create_table("photos", made)
    with pytest.raises(ArgumentError, match=r"no column 'id' of ids; name one by \?id= in the address, of: 'path'"):
        opened(tmp_path).describe()
    named = opened(tmp_path, "photos?id=path")
    assert next(named.batches()).ids.tolist() == ["a", "b"]
    with pytest.raises(ArgumentError, match="the column 'size' holds double; ids must be integers or texts"):
        opened(tmp_path, "photos?id=size").describe()


@pytest.mark.parametrize("texts", [False, True])
def test_ids_that_repeat_are_an_error_before_anything_is_read(texts: bool, tmp_path: Path) -> None:
    ids = [f"a{i}" for i in (1, 2, 3, 2)] if texts else [1, 2, 3, 2]
    user_table(tmp_path, 4, id=arrow.array(ids))
    with pytest.raises(ArgumentError, match=r"the id '?a?2'? stands for more than one item"):
        next(opened(tmp_path).batches())
    with pytest.raises(ArgumentError, match="stands for more than one item"):
        opened(tmp_path).fetch(np.array(ids[1:2]))


@pytest.mark.parametrize(
    "kind", ["int8", "uint64", "large_string", "dictionary"], ids=["int8", "uint64", "large texts", "dictionary"]
)
def test_ids_keep_their_type_in_a_copy(kind: str, tmp_path: Path) -> None:
    type_ = arrow.dictionary(arrow.int8(), arrow.string()) if kind == "dictionary" else getattr(arrow, kind)()
    values = list(range(5)) if "int" in kind else list("abcde")
    user_table(tmp_path, 5, id=arrow.array(values, type_))
    source = opened(tmp_path)
    copy = source.sibling("copy")
    copy.create(16, "cosine", like=source)
    for batch in source.batches(payload=True):
        copy.write(batch)
    assert copy.fetch(np.array(values[::-1])).ids.tolist() == values[::-1]
    assert lancedb.connect(tmp_path / "db").open_table("copy").schema.field("id").type == type_


def test_ids_that_no_array_can_hold_are_an_error(tmp_path: Path) -> None:
    user_table(tmp_path, 2, id=arrow.array([1, 2**63], arrow.uint64()))
    with pytest.raises(ArgumentError, match="the id 9223372036854775808 is over"):
        next(opened(tmp_path).batches())


def test_an_item_without_id_or_vector_is_an_error(tmp_path: Path) -> None:
    table = user_table(tmp_path, 2)
    table.add(arrow.table({"id": [7], "vector": arrow.array([None], table.schema.field("vector").type)}))
    with pytest.raises(ArgumentError, match="an item has no vector"):
        list(opened(tmp_path).batches())
    table.delete("id = 7")
    table.add(arrow.table({"id": arrow.array([None], arrow.int64()), "vector": column(rows(1))}))
    with pytest.raises(ArgumentError, match="an item has no id"):
        list(opened(tmp_path).batches())


def test_ids_of_the_other_kind_are_an_error(tmp_path: Path) -> None:
    filled(opened(tmp_path), count=5)
    with pytest.raises(ArgumentError, match="the ids are numbers, and texts were given"):
        opened(tmp_path).fetch(np.array(["100"]))
    with pytest.raises(ArgumentError, match="the ids are numbers, and texts were given"):
        opened(tmp_path).write(StoredItems(np.array(["a"]), rows(1), None))


ODD = ["it's", "a\\'b", "'; DROP TABLE photos; --", 'say "x"', "naïve é 漢", "100%_"]


def test_odd_texts_are_ids_like_others(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(16, "dot")
    photos.write(StoredItems(np.array(ODD), rows(len(ODD)), [{"note": one} for one in ODD]))
    for place, one in enumerate(ODD):
        asked = np.array([one])
        assert photos.fetch(asked).ids.tolist() == [one]
        assert photos.search(rows(1, seed=3), 3, among=asked).ids.tolist() == [[one, "", ""]]
        photos.put_record(one, {"at": place})
    assert photos.records() == {one: {"at": place} for place, one in enumerate(ODD)}
    photos.set_field("h", np.array(ODD), np.arange(6.0))
    photos.remove(np.array(ODD[1:3]))
    left = next(photos.batches(payload=True))
    assert sorted(left.ids.tolist()) == sorted([ODD[0], *ODD[3:]])
    assert left.payload is not None
    held = {one["note"]: one["h"] for one in left.payload}
    assert held == {ODD[0]: 0.0, ODD[3]: 3.0, ODD[4]: 4.0, ODD[5]: 5.0}
    photos.put_record(ODD[2], None)
    assert len(photos.records()) == 5


def test_columns_may_have_odd_names(tmp_path: Path) -> None:
    made = arrow.table({"my 'id": [3, 4], "the vector's": column(rows(2)), "Größe; --": [1, 2]})
    lancedb.connect(tmp_path / "db").create_table("photos", made)
    photos = opened(tmp_path, "photos.the vector's?id=my 'id&metric=dot")
    photos.set_field("h 1's", np.array([4]), np.array([0.5]))
    found = photos.fetch(np.array([4, 3]))
    assert found.payload is not None
    assert [dict(one) for one in found.payload] == [{"Größe; --": 2, "h 1's": 0.5}, {"Größe; --": 1, "h 1's": None}]
    assert photos.search(rows(1, seed=3), 1, where="`Größe; --` = 2").ids.tolist() == [[4]]
    copy = photos.sibling("copy")
    copy.create(18, "dot", like=photos)
    copy.write(StoredItems(np.array([4]), rows(1, 18), found.payload[:1]))
    kept = copy.fetch(np.array([4])).payload
    assert kept is not None and dict(kept[0]) == {"Größe; --": 2, "h 1's": 0.5}


def test_one_of_several_vectors_is_named(tmp_path: Path) -> None:
    user_table(tmp_path, 4, text=column(rows(4, 8)))
    with pytest.raises(ArgumentError, match=r"the columns 'vector', 'text' hold vectors; .* #photos\.vector"):
        opened(tmp_path).describe()
    text = opened(tmp_path, "photos.text")
    assert text.describe().dimensions == 8
    batch = next(text.batches(payload=True))
    assert batch.payload is not None and np.allclose(batch.payload[2]["vector"], rows(4)[2])  # the other is payload
    with pytest.raises(ArgumentError, match="'id' is no column of vectors of one width; such columns are 'vector'"):
        opened(tmp_path, "photos.id").describe()


@pytest.mark.parametrize(("number", "codes"), [("float16", "float16"), ("float64", "none")])
def test_other_floats_are_read_as_they_are_and_kept_in_a_copy(number: str, codes: str, tmp_path: Path) -> None:
    user_table(tmp_path, 20, vector=column(rows(20), number))
    source = opened(tmp_path)
    assert source.describe().codes == codes
    read = next(source.batches()).rows
    assert read.dtype == np.float32 and np.array_equal(read, rows(20).astype(number).astype(np.float32))
    copy = source.sibling("copy")
    copy.create(18, "l2", like=source)
    copy.write(StoredItems(np.arange(20), rows(20, 18), None))
    assert np.array_equal(next(copy.batches()).rows, rows(20, 18).astype(number).astype(np.float32))


def test_vectors_beyond_float16_are_not_written_as_infinity(tmp_path: Path) -> None:
    user_table(tmp_path, 2, vector=column(rows(2), "float16"))
    with pytest.raises(ArgumentError, match="beyond halffloat"):
        opened(tmp_path).write(StoredItems(np.array([9]), rows(1) * np.float32(1e6), None))


# Metrics and searches


def test_the_metric_is_of_the_index_then_of_unhub_then_of_the_address_then_cosine(tmp_path: Path) -> None:
    table = user_table(tmp_path)
    assert opened(tmp_path).describe().metric == "cosine"
    assert opened(tmp_path).describe().settings["metric"].startswith("cosine, assumed since it has no index")
    assert opened(tmp_path, "photos?metric=l2").describe().metric == "l2"
    table.create_index("vector", config=kinds.IvfFlat(distance_type="dot"))
    assert opened(tmp_path).describe().metric == "dot"
    with pytest.raises(ArgumentError, match="is searched by dot, not l2; leave metric out of the address"):
        opened(tmp_path, "photos?metric=l2").search(rows(1), 1)
    other = opened(tmp_path, "photos?metric=dot").sibling("other")
    other.create(16, "l2")
    assert other.describe().metric == "l2"
    with pytest.raises(ArgumentError, match="'manhattan' is unknown"):
        opened(tmp_path, "photos?metric=manhattan")


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize(
    ("kind", "index", "codes"),
    [
        ("IvfFlat", "ivf", "none"),
        ("IvfSq", "ivf", "int8"),
        ("IvfPq", "ivf", "pq"),
        ("IvfRq", "ivf", "binary"),
        ("HnswFlat", "hnsw", "none"),
        ("HnswSq", "hnsw", "int8"),
        ("HnswPq", "hnsw", "pq"),
    ],
)
def test_values_are_true_whatever_the_codes(kind: str, index: str, codes: str, metric: Metric, tmp_path: Path) -> None:
    table = user_table(tmp_path, 600)
    table.create_index("vector", config=getattr(kinds, kind)(distance_type=metric))
    photos = opened(tmp_path)
    about = photos.describe()
    assert (about.index, about.codes, about.metric, about.rescored) == (index, codes, metric, True)
    queries = rows(5, seed=4)
    found = photos.search(queries, 6, effort=1)
    wanted = exact(rows(600), queries, metric)
    assert np.allclose(found.values, np.take_along_axis(wanted, np.asarray(found.ids, np.int64), axis=1), atol=1e-4)
    assert (np.diff(found.values if metric == "l2" else -found.values, axis=1) >= 0).all()


def test_a_narrow_filter_finds_its_items_in_any_partition(tmp_path: Path) -> None:
    table = user_table(tmp_path, 2000)
    table.create_index("vector", config=kinds.IvfFlat(distance_type="dot", num_partitions=64))
    photos, queries = opened(tmp_path), rows(20, seed=5)
    assert (np.sort(photos.search(queries, 3, where="id IN (5, 6, 7)", effort=1).ids) == [5, 6, 7]).all()
    assert (np.sort(photos.search(queries, 2, among=np.array([8, 9])).ids) == [8, 9]).all()


def test_more_effort_finds_more(tmp_path: Path) -> None:
    table = user_table(tmp_path, 3000, 32)
    table.create_index("vector", config=kinds.IvfFlat(distance_type="dot", num_partitions=50))
    photos, queries = opened(tmp_path), rows(40, 32, seed=6)
    best = np.argsort(-exact(rows(3000, 32), queries, "dot"), axis=1)[:, :10]

    def recall(effort: int) -> float:
        found = photos.search(queries, 10, effort=effort).ids
        return float(np.mean([len({*a} & {*b}) / 10 for a, b in zip(found.tolist(), best.tolist(), strict=True)]))

    assert recall(1) < 0.7 < 0.999 < recall(50)


def test_where_is_sql_and_applied_first(tmp_path: Path) -> None:
    written = filled(opened(tmp_path))
    queries = rows(70, seed=1)  # more than one call of the engine takes
    found = opened(tmp_path).search(queries, 4, where="colour = 'red' AND number > 30 OR number = 1")
    allowed = np.array([i for i in range(300) if (i % 3 == 0 and i > 30) or i == 1])
    order = np.argsort(-(queries @ written.rows[allowed].T), axis=1)[:, :4]
    assert np.array_equal(found.ids, written.ids[allowed][order])
    both = opened(tmp_path).search(queries[:1], 9, where="number = 1 OR number = 2", among=np.array([101, 105]))
    assert both.ids[0].tolist() == [101, *[-1] * 8] and np.isneginf(both.values[0, 1:]).all()
    assert (opened(tmp_path).search(queries[:2], 2, among=np.array([], np.int64)).ids == -1).all()
    with pytest.raises(ArgumentError, match=r"db#photos: could not be searched: .*nothing"):
        opened(tmp_path).search(queries, 4, where="nothing = 3")
    with pytest.raises(ArgumentError, match="where must be SQL"):
        opened(tmp_path).search(queries, 4, where={"colour": "red"})


def test_no_queries_and_no_items_are_searched_and_read(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(16, "l2")
    photos.write(StoredItems(np.empty(0, np.int64), rows(0), None))
    photos.finish()
    assert list(photos.batches()) == [] and photos.describe().count == 0
    assert np.isposinf(photos.search(rows(3), 2).values).all() and (photos.search(rows(3), 2).ids == -1).all()
    assert photos.search(rows(0), 2).ids.shape == (0, 2)
    assert photos.fetch(np.array([1])).ids.size == 0
    with pytest.raises(ArgumentError, match="holds no vectors"):
        photos.vectors()


# Indexes carried over


def test_the_index_is_carried_over_with_its_settings(tmp_path: Path) -> None:
    table = user_table(tmp_path, 600, 32)
    table.create_index(
        "vector", config=kinds.HnswPq(distance_type="cosine", num_sub_vectors=4, m=12, ef_construction=80)
    )
    source = opened(tmp_path)
    about = source.describe().settings
    assert (about["index"], about["num_sub_vectors"], about["multiple"]) == ("IVF_HNSW_PQ", "4", "8")
    copy = source.sibling("copy")
    with pytest.raises(ArgumentError, match="takes multiples of 8 dimensions, not 34; pad the vectors to 40"):
        copy.create(34, "l2", like=source)
    assert not copy.exists()
    copy.create(40, "l2", like=source)
    assert copy.describe().index == "flat"
    copy.write(StoredItems(np.arange(600), rows(600, 40), None))
    ticks: list[tuple[int, int]] = []
    copy.finish(progress=lambda done, total: ticks.append((done, total)))
    assert ticks == [(0, 600), (600, 600)]
    built = copy.describe()
    assert (built.metric, built.index, built.codes) == ("l2", "hnsw", "pq")
    assert built.settings["num_sub_vectors"] == "5" and built.settings["indexed"] == "600 of 600"
    for name in ("num_bits", "m", "ef_construction", "max_iterations", "sample_rate"):
        assert built.settings[name] == about[name]


def test_the_number_of_partitions_is_carried_over(tmp_path: Path) -> None:
    user_table(tmp_path, 600).create_index("vector", config=kinds.IvfFlat(distance_type="dot", num_partitions=13))
    source = opened(tmp_path)
    assert source.describe().settings["num_partitions"] == "13"
    copy = source.sibling("copy")
    copy.create(17, "dot", like=source)
    copy.write(StoredItems(np.arange(600), rows(600, 17), None))
    opened(tmp_path, "copy").finish()  # by another process, which knows only the table
    assert copy.describe().settings["num_partitions"] == "13"


def test_a_copy_keeps_its_partitions_when_items_are_added(tmp_path: Path) -> None:
    user_table(tmp_path, 3000).create_index("vector", config=kinds.IvfFlat(distance_type="dot", num_partitions=40))
    source = opened(tmp_path)
    copy = source.sibling("copy")
    copy.create(16, "dot", like=source)
    for start in (0, 3000, 3100):
        copy.write(StoredItems(np.arange(start, start + 3000), rows(3000, seed=start), None))
        copy.finish()
        told = copy.describe()
        assert told.settings["num_partitions"] == "40" and told.settings["indexed"] == f"{told.count} of {told.count}"


def test_segments_of_an_index_are_not_taken_for_partitions(tmp_path: Path) -> None:
    user_table(tmp_path, 600).create_index("vector", config=kinds.IvfSq(distance_type="dot", num_partitions=1))
    photos = opened(tmp_path)
    for start in (1000, 2000):
        photos.write(StoredItems(np.arange(start, start + 300), rows(300, seed=start), None))
        photos.finish()
    assert photos.describe().settings["num_partitions"] == "1"


@pytest.mark.parametrize(
    ("config", "multiple"),
    [
        (kinds.IvfPq(distance_type="dot", num_sub_vectors=8, num_bits=4), 8),
        (kinds.IvfRq(distance_type="dot"), 8),
        (kinds.IvfSq(distance_type="dot"), 1),
    ],
    ids=["4-bit PQ", "RQ", "SQ"],
)
def test_a_copy_of_the_told_multiple_can_be_indexed(config: Any, multiple: int, tmp_path: Path) -> None:
    user_table(tmp_path, 300, 32).create_index("vector", config=config)
    source = opened(tmp_path)
    assert int(source.describe().settings.get("multiple", "1")) == multiple
    copy, width = source.sibling("copy"), 32 + multiple
    copy.create(width, "dot", like=source)
    copy.write(StoredItems(np.arange(300), rows(300, width), None))
    copy.finish()
    assert copy.describe().settings["indexed"] == "300 of 300"


def test_too_few_items_to_train_codes_are_searched_without_index(tmp_path: Path) -> None:
    user_table(tmp_path, 300).create_index("vector", config=kinds.IvfPq(distance_type="dot"))
    source = opened(tmp_path)
    copy = source.sibling("copy")
    copy.create(16, "dot", like=source)
    copy.write(StoredItems(np.arange(200), rows(200), None))
    copy.finish()
    assert copy.describe().index == "flat"
    copy.write(StoredItems(np.arange(200, 300), rows(100, seed=2), None))
    copy.finish()
    assert copy.describe().index == "ivf"


def test_items_written_after_the_index_are_found_and_join_it(tmp_path: Path) -> None:
    user_table(tmp_path, 300).create_index("vector", config=kinds.IvfFlat(distance_type="dot"))
    photos = opened(tmp_path)
    photos.write(StoredItems(np.array([999]), 50 * rows(1, seed=8), None))
    assert photos.search(rows(1, seed=8), 1).ids.tolist() == [[999]]
    assert photos.describe().settings["indexed"] == "300 of 301"
    photos.finish()
    assert photos.describe().settings["indexed"] == "301 of 301"


# Payload and fields


def test_payload_of_every_kind_is_kept(tmp_path: Path) -> None:
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456)
    payload: list[dict[str, Any]] = [
        {"tags": ["a", "b"], "nested": {"x": 1, "y": [1.5]}, "when": at, "raw": b"\0\xff", "ok": True, "none": None},
        {"tags": [], "nested": {"x": 2, "y": []}, "when": None, "raw": b"", "ok": None, "none": None},
    ]
    photos = opened(tmp_path)
    photos.create(16, "dot")
    photos.write(StoredItems(np.arange(2), rows(2), payload))
    photos.write(StoredItems(np.arange(2, 3), rows(1), [{"later": "new"}]))
    seen = [dict(one) for batch in photos.batches(payload=True) for one in batch.payload or []]
    assert seen[0] == {name: held for name, held in payload[0].items() if name != "none"} | {"later": None}
    assert seen[1]["nested"] == {"x": 2, "y": []} and seen[1]["when"] is None
    assert seen[2]["later"] == "new" and seen[2]["tags"] is None
    copy = photos.sibling("copy")
    copy.create(18, "dot", like=photos)
    for batch in photos.batches(payload=True, rows=2):
        copy.write(StoredItems(batch.ids, rows(len(batch.ids), 18), batch.payload))
    copied = copy.fetch(np.arange(3)).payload
    assert copied is not None and [dict(one) for one in copied] == seen


def test_a_value_that_does_not_fit_its_column_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(16, "dot")
    photos.write(StoredItems(np.arange(2), rows(2), [{"size": 1}, {"size": 2}]))
    before = photos.describe().settings["version"]
    for value in (2.5, "2", True):  # of which LanceDB or Arrow alone would make 2, 2 and 1
        with pytest.raises(ArgumentError, match="could not be written: "):
            photos.write(StoredItems(np.array([5]), rows(1), [{"size": value, "new": "x"}]))
    assert photos.describe().settings["version"] == before


def test_a_field_leaves_the_vector_index_as_it_is(tmp_path: Path) -> None:
    table = user_table(tmp_path, 600, colour=["red"] * 600)
    table.create_index("vector", config=kinds.IvfFlat(distance_type="dot"))
    photos = opened(tmp_path)
    for number in range(3):
        chosen = np.random.default_rng(number).permutation(700)[:650]  # some do not exist
        photos.set_field(f"h_{number}", chosen, chosen / 7)
        batch = next(photos.batches(payload=True))
        assert batch.payload is not None
        held = {int(one): row[f"h_{number}"] for one, row in zip(batch.ids, batch.payload, strict=True)}
        assert held == {one: one / 7 if one in chosen else None for one in range(600)}
        assert photos.describe().settings["indexed"] == "600 of 600"
    assert [one.name for one in lancedb.connect(tmp_path / "db").open_table("photos").list_indices()] == ["vector_idx"]


def test_an_index_of_the_user_on_the_ids_stays(tmp_path: Path) -> None:
    table = user_table(tmp_path, 300)
    table.create_index("id", config=kinds.BTree(), name="mine")
    photos = opened(tmp_path)
    for number in range(2):
        photos.set_field("h", np.arange(300), np.arange(300.0) + number / 2)
    table.checkout_latest()
    assert [one.name for one in table.list_indices()] == ["mine"]
    assert table.index_stats("mine").num_unindexed_rows == 0
    assert table.count_rows("h = id + 0.5") == 300


def test_a_field_never_takes_the_place_of_something_else(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=5)
    for name, problem in (("vector", "no field"), ("id", "no field"), ("colour", "holds string"), ("a.b", "name of a")):
        with pytest.raises(ArgumentError, match=problem):
            photos.set_field(name, np.array([100]), np.array([1.0]))
        with pytest.raises(ArgumentError, match=problem):
            photos.drop_field(name)


# Commits


def test_others_see_what_is_written_at_once_and_a_read_under_way_stays_as_it_was(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    filled(one, count=50)
    reading = other.batches(rows=10)
    next(reading)
    one.remove(np.arange(120, 140))
    assert other.describe().count == 30 and sum(len(batch.ids) for batch in reading) == 40
    one.drop()
    assert not other.exists()


def test_ids_that_are_kept_do_not_keep_the_vectors(tmp_path: Path) -> None:
    filled(opened(tmp_path), count=50)
    assert all(batch.ids.flags.owndata for batch in opened(tmp_path).batches())


def test_two_who_put_the_same_new_record_make_one(tmp_path: Path) -> None:
    filled(opened(tmp_path), count=2)

    def put(number: int) -> None:
        mine = opened(tmp_path)
        for turn in range(5):
            mine.put_record("live", {"by": number, "turn": turn})

    threads = [threading.Thread(target=put, args=(number,)) for number in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    table = lancedb.connect(tmp_path / "db").open_table(RECORDS)
    assert table.count_rows() == 1 and opened(tmp_path).record("live") is not None


def test_a_record_that_is_no_json_changes_nothing(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=2)
    with pytest.raises(ArgumentError, match="record cannot be kept as JSON"):
        photos.put_record("a", {"x": {1, 2}})
    assert photos.records() == {}


def test_what_an_ordinary_client_reads_after_publishing(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=5)
    photos.publish("live", "photos", "live:photos", {"collection": "photos"})
    client = lancedb.connect(tmp_path / "db")
    (row,) = client.open_table(RECORDS).search().where("key = 'live:photos'").to_list()
    assert row["value"] == '{"collection": "photos"}'


def test_what_a_killed_create_left_is_no_table_and_can_be_made_again(tmp_path: Path) -> None:
    (tmp_path / "db" / "photos.lance" / "data").mkdir(parents=True)
    (tmp_path / "db" / "photos.lance" / "data" / "half.lance").write_bytes(b"half")
    (tmp_path / "db" / f"{RECORDS}.lance" / "data").mkdir(parents=True)
    photos = opened(tmp_path)
    assert not photos.exists() and photos.records() == {}
    photos.put_record("a", {})
    assert photos.records() == {"a": {}}
    filled(photos, count=5)
    assert photos.describe().count == 5


def test_many_batches_are_added_or_replace_what_is_there(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(16, "dot")
    for start in range(0, 50, 10):
        photos.write(StoredItems(np.arange(start, start + 15), rows(15, seed=start), None))  # a third is there already
    again = opened(tmp_path)
    again.write(StoredItems(np.arange(50, 60), rows(10), None))
    photos.write(StoredItems(np.arange(55, 62), rows(7, seed=77), None))  # which the other wrote meanwhile
    assert photos.describe().count == 62
    assert np.array_equal(photos.fetch(np.arange(55, 62)).rows, rows(7, seed=77))
    assert len({one for batch in photos.batches(rows=7) for one in batch.ids.tolist()}) == 62


def test_more_tables_than_a_page_are_all_named(tmp_path: Path) -> None:
    client = lancedb.connect(tmp_path / "db")
    wanted = [f"t{number:02d}" for number in range(15)]
    for name in wanted:
        client.create_table(name, arrow.table({"id": [1]}))
    assert opened(tmp_path).names() == wanted


# Errors


def test_errors_are_one_line_about_the_store(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="there is no such folder"):
        opened(tmp_path).describe()
    assert not (tmp_path / "db").exists() and opened(tmp_path).names() == [] and opened(tmp_path).records() == {}
    (tmp_path / "db").mkdir()
    with pytest.raises(ArgumentError, match="there is no table 'photos'; the folder holds no tables"):
        next(opened(tmp_path).batches())
    table = user_table(tmp_path, 3)
    with pytest.raises(ArgumentError, match="there is no table 'photo'; the tables are 'photos'"):
        opened(tmp_path, "photo").describe()
    with pytest.raises(ArgumentError, match=r"has 16 dimensions, and the queries have shape \(1, 17\)"):
        opened(tmp_path).search(rows(1, 17), 1)
    with pytest.raises(ArgumentError, match=r"has 16 dimensions, and the rows have shape \(1, 17\)"):
        opened(tmp_path).write(StoredItems(np.array([1]), rows(1, 17), None))
    with pytest.raises(ArgumentError, match="ids has repeated ids"):
        opened(tmp_path).write(StoredItems(np.array([1, 1]), rows(2), None))
    with pytest.raises(ArgumentError, match="exists already"):
        opened(tmp_path).create(16, "dot")
    assert table.version == 1


def test_a_damaged_table_is_said_and_can_be_dropped(tmp_path: Path) -> None:
    user_table(tmp_path, 3)
    for manifest in (tmp_path / "db" / "photos.lance" / "_versions").iterdir():
        manifest.write_bytes(b"x" * 100)
    photos = opened(tmp_path)
    assert photos.exists()
    with pytest.raises(ArgumentError, match=r"could not be opened: .*the table is damaged") as caught:
        photos.describe()
    assert "\n" not in str(caught.value) and ".rs" not in str(caught.value)
    photos.drop()
    assert not photos.exists()


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("no folder")
    with pytest.raises(ArgumentError, match="there is no such folder"):
        opened(tmp_path).describe()
    with pytest.raises(ArgumentError, match=r"could not be created: .*; check that you may write there"):
        opened(tmp_path).create(16, "dot")


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("lancedb:db", "names no collection"),
        ("lancedb:db#photos?key=3", "the unknown option 'key'"),
        ("lancedb://db#photos", "has // after lancedb:"),
        ("lancedb:db://cloud#photos", "LanceDB Cloud"),
        ("lancedb:db#pho'tos; --", "cannot be the name of a table"),
        (f"lancedb:db#{RECORDS}", "where unhub keeps its records"),
    ],
)
def test_a_wrong_address_is_an_error_at_once(address: str, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        store(address)


def test_a_key_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ArgumentError, match="has a key in the address") as caught:
        store("lancedb:s3://AKIAKEY:very-secret@bucket/db#photos")
    assert "secret" not in str(caught.value) and "AKIAKEY" not in str(caught.value)


def test_a_table_whose_name_has_a_period_needs_its_column(tmp_path: Path) -> None:
    lancedb.connect(tmp_path / "db").create_table("a.b", arrow.table({"id": [1], "vector": column(rows(1))}))
    assert opened(tmp_path, "a.b.vector").describe().count == 1
    with pytest.raises(ArgumentError, match=r"there is no table 'a'; name the column of 'a\.b' too: #a\.b\.vector"):
        opened(tmp_path, "a.b").describe()


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_table(tmp_path, 3)
    monkeypatch.setitem(__import__("sys").modules, "lancedb", None)
    with pytest.raises(ImportError, match=r"a LanceDB table needs lancedb: .*\[lancedb\]"):
        opened(tmp_path).describe()


def test_many_items_are_refined_less() -> None:
    kind = KINDS["IvfPq"]
    assert [kind.refined(k) for k in (1, 10, 1000, 5000)] == [30, 30, 5, 2]
    assert [kind.refined(10, effort) for effort in (5, 200, 9000)] == [30, 200, 500]
    assert KINDS["IvfHnswPq"].refined(10, 400) == 40 and KINDS["IvfFlat"].refined(10, 400) == 0
    assert KINDS["IvfFlat"].refined(10) == 0
