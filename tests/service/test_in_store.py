"""A store that is served: searched in its engine, with its own filters; its items are changed there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.service.spaces import ITEMS, cloud, served, small_space, told
from tests.service.test_changes import until
from unhub import kernels
from unhub.service.served import Gallery
from unhub.stores.store import Store, StoredItems

pytestmark = pytest.mark.once


@pytest.fixture
def gallery(tmp_path: Path) -> Gallery:
    """Return items named i0, i1, ... in a table of LanceDB, with a price each."""
    items = small_space().gallery.held
    store = unhub.store(f"lancedb:{tmp_path}#photos")
    store.create(items.dimensions, "cosine")
    payload = [{"price": row} for row in range(ITEMS)]
    store.write(StoredItems(items.ids, np.asarray(items.rows[:], np.float32), payload))
    return Gallery(unhub.store(f"lancedb:{tmp_path}#photos"), {"i1": "first"})


def test_a_store_is_searched_in_its_engine(gallery: Gallery) -> None:
    with kernels.prefer("numpy"):
        fitted = unhub.fit(gallery.items, cloud(400, 2), method="nnn:k=8")
        space = replace(small_space(), gallery=gallery, correction=fitted)
        expected = unhub.searcher(gallery.items, fitted).search(cloud(70, 3)[5:6], 10)
        held = small_space().gallery.held
        truth = unhub.searcher(held, unhub.fit(held, cloud(400, 2), method="nnn:k=8")).search(cloud(70, 3)[5:6], 10)
    with served(space, allow_where=True) as (_, client):
        answer = client.post("/v1/search", json={"sample": 5, "raw": True}).json()
        assert [hit["id"] for hit in answer["hits"]] == expected.ids[0].tolist() == truth.ids[0].tolist()
        body = {"sample": 5, "where": "price < 3", "k": 10}
        assert {hit["id"] for hit in client.post("/v1/search", json=body).json()["hits"]} == {"i0", "i1", "i2"}
        error = told(client.post("/v1/search", json={"sample": 5, "where": "no such filter <"}))
        assert error["argument"] == "where" and error["problem"].startswith("was refused by the engine: could not")
        assert "i7" not in [hit["id"] for hit in client.post("/v1/search", json={"item": "i7"}).json()["hits"]]
        assert until(client, "/v1/hubs", lambda status, _: status == 200, 120)["queries"] == 70
        assert client.get("/v1/items/i1").json()["text"] == "first"
        assert client.get("/v1/about").json()["can"]["combine"] == ["sa", "mf"]
        error = told(client.post("/v1/items", json={"ids": ["n"], "vectors": cloud(1, 1).tolist()}))
        assert "are in a store" in error["problem"]


def test_a_store_that_is_down_is_told_and_comes_back(
    gallery: Gallery, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unhub.service.store_probe.GOOD_SECONDS", 0.0)
    table, away = tmp_path / "photos.lance", tmp_path / "away"
    with kernels.prefer("numpy"):
        space = replace(small_space(samples=None, bank=None), gallery=gallery)
    asked = {"vector": cloud(1, 3)[0].tolist()}
    with served(space, allow_where=True) as (_, client):
        assert client.get("/readyz").status_code == 200
        table.rename(away)
        for answer in (
            client.get("/readyz"),
            client.post("/v1/search", json=asked),
            client.post("/v1/search", json={**asked, "where": "price < 3"}),
            client.post("/v1/search", json={"item": "i1"}),
            client.get("/v1/items/i1"),
        ):
            error = told(answer, 503)
            assert (error["argument"], error["problem"]) == ("store", "does not answer")
            assert str(tmp_path) not in answer.text
        assert client.get("/healthz").status_code == 200
        assert str(tmp_path) in caplog.text  # who runs the service is told which store, and why
        away.rename(table)
        assert client.get("/readyz").status_code == 200
        assert client.post("/v1/search", json=asked).status_code == 200


def test_sql_of_callers_is_refused_unless_it_was_allowed(gallery: Gallery) -> None:
    with kernels.prefer("numpy"):
        space = replace(small_space(samples=None), gallery=gallery)
    query = {"vector": cloud(1, 3)[0].tolist()}
    with served(space) as (_, client):
        for where in ("price < 3", "1 = 1) OR (SELECT 1", ["price < %s", [3]], {"price": 3}):
            error = told(client.post("/v1/search", json={**query, "where": where}), 403)
            assert error["argument"] == "where" and "--allow-where" in error["remedy"]
        assert client.post("/v1/search", json=query).status_code == 200


def test_filters_that_are_json_are_always_allowed(tmp_path: Path) -> None:
    items = small_space().gallery.held
    store = unhub.store(f"qdrant-edge:{tmp_path}#photos")
    store.create(items.dimensions, "cosine")
    payload = [{"price": row} for row in range(ITEMS)]
    store.write(StoredItems(items.ids, np.asarray(items.rows[:], np.float32), payload))
    body = {"vector": cloud(1, 3)[0].tolist(), "where": {"must": [{"key": "price", "range": {"lt": 3}}]}}
    with served(replace(small_space(samples=None), gallery=Gallery(store, {}))) as (_, client):
        hits = client.post("/v1/search", json=body).json()["hits"]
    assert {hit["id"] for hit in hits} == {"i0", "i1", "i2"}


def test_a_store_with_a_deployed_correction_is_not_refitted(gallery: Gallery) -> None:
    assert isinstance(gallery.items, Store)
    with kernels.prefer("numpy"):
        fitted = unhub.fit(gallery.items, cloud(400, 2), method="nnn:k=8")
        unhub.deploy(fitted, gallery.items, switch=True)
    with served(replace(small_space(), gallery=gallery, correction=fitted)) as (_, client):
        assert not client.get("/v1/about").json()["can"]["refit"]
        error = told(client.post("/v1/refit", json={"method": "nnn:k=4"}))
        assert error["argument"] == "refit" and "unhub deploy" in error["remedy"]
