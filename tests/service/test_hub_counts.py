"""The pages about hubs, items and the bank: what is counted, against the library's own counts."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.service.spaces import BANK, DIMENSIONS, ITEMS, SAMPLES, served, small_space, told
from tests.service.test_changes import until
from unhub import kernels

pytestmark = pytest.mark.once


def test_counts_are_those_of_the_library() -> None:
    space = small_space()
    assert space.samples is not None
    with served(space) as (_, client), kernels.prefer("numpy"):
        page = until(client, "/v1/hubs?k=7", lambda status, _: status == 200)
        given = (space.samples.vectors, space.gallery.held, space.correction, 7)
        found = unhub.worst_hubs(*given, 5)
    assert found.after is not None
    for side, hubness in (("raw", found.before), ("corrected", found.after)):
        assert page[side]["largest"] == hubness.figures.largest
        assert page[side]["skewness"] == pytest.approx(hubness.skewness)
        counts = np.repeat(*np.array(page["counts"][side]).T)
        np.testing.assert_array_equal(counts, np.sort(hubness.counts))
    assert page["queries"] == SAMPLES and page["from"] == "sample queries"
    assert page["chance"]["anti_hubs"] == pytest.approx(found.before.chance.anti_hubs)
    assert sum(items for _, items in page["counts"]["chance"]) == pytest.approx(ITEMS, abs=0.5)
    worst = [(one["id"], one["raw"], one["corrected"]) for one in page["worst"]["raw"][:5]]
    assert worst == [(hub.id, hub.before, hub.after) for hub in found.hubs]
    assert page["worst"]["raw"][0]["queries"][0]["text"].startswith("sample ")
    assert page["never"]["raw"]["count"] == int((found.before.counts == 0).sum())


def test_hubs_are_marked_by_how_often_they_are_returned() -> None:
    with served() as (service, client):
        page = until(client, "/v1/hubs?k=10", lambda status, _: status == 200)
        counts = service.counts(service.live.now)
        assert counts is not None
        often = counts.hubness("raw", 10).counts
        limit = often.mean() + 2 * often.std()
        for one in page["worst"]["raw"]:
            assert one["hub"] == (one["raw"] > limit)
        assert any(one["hub"] for one in page["worst"]["raw"])


def test_an_item_has_a_page() -> None:
    with served() as (_, client):
        worst = until(client, "/v1/hubs", lambda status, _: status == 200)["worst"]["raw"][0]
        page = client.get(f"/v1/items/{worst['id']}").json()
    assert page["counts"]["raw"] == worst["raw"] and page["counts"]["corrected"] == worst["corrected"]
    assert len(page["queries"]["raw"]) == min(worst["raw"], 50)
    assert [hit["rank"] for hit in page["neighbours"]["raw"]] == list(range(1, 11))
    assert worst["id"] not in [hit["id"] for hit in page["neighbours"]["corrected"]]
    assert 1 <= page["bias_place"] <= ITEMS and page["bias"] == worst["bias"]


def test_without_samples_bank_queries_are_counted() -> None:
    with served(small_space(samples=None)) as (_, client):
        page = until(client, "/v1/hubs", lambda status, _: status == 200)
        assert (page["from"], page["queries"]) == ("bank queries", BANK)


def test_without_any_queries_hubs_are_those_of_large_bias() -> None:
    with served(small_space(samples=None, bank=None)) as (service, client):
        assert "--queries" in told(client.get("/v1/hubs"))["remedy"]
        hits = client.post("/v1/search", json={"item": "i1", "k": ITEMS}).json()["hits"]
        bias = service.live.now.bias
        assert bias is not None
        limit = bias.mean() + 2 * bias.std()
        assert all(hit["hub"] == (hit["bias"] > limit) for hit in hits)
        page = client.get("/v1/items/i1").json()
        assert page["counts"] is None
        assert "--bank" in told(client.get("/v1/bank"))["remedy"]


def test_too_deep_counts_are_refused() -> None:
    with served() as (_, client):
        until(client, "/v1/hubs?k=50", lambda status, _: status == 200)
        assert told(client.get("/v1/hubs?k=51"))["argument"] == "k"
        told(client.get("/v1/hubs?k=0"), 422)


def test_the_bank_is_judged() -> None:
    space = small_space()
    assert space.samples is not None and space.bank is not None
    with served(space) as (_, client), kernels.prefer("numpy"):
        page = until(client, "/v1/bank", lambda status, _: status == 200)
        report = unhub.judge_bank(space.gallery.held, space.bank, space.samples.vectors, distances=False)
    assert (page["verdict"], page["conclusion"]) == (report.verdict, report.conclusion)
    assert page["cells"] == [list(row) for row in report.cells()]
    assert page["queries_today"] is None


def test_a_version_that_is_no_longer_live_is_not_counted() -> None:
    with served() as (service, _):
        gone = replace(service.live.now, correction_name="v0")
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert service.counts(gone) is None
            time.sleep(0.01)


def test_the_queries_of_today_are_looked_at_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(log=tmp_path / "log") as (_, client):
        until(client, "/v1/bank", lambda status, _: status == 200)
        client.post("/v1/search", json={"vector": [1.0] * DIMENSIONS})
        assert client.get("/v1/bank").json()["queries_today"]["count"] == 0
        monkeypatch.setattr("unhub.service.service.LOOKED_SECONDS", 0)
        assert client.get("/v1/bank").json()["queries_today"]["count"] == 1
