"""Changes while serving: items, versions, refits and marks; what is kept, and what a restart finds."""

import gc
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import unhub
from tests.service.spaces import BANK, DIMENSIONS, ITEMS, SAMPLES, cloud, served, small_space, told
from unhub import Vectors, kernels
from unhub.errors import ArgumentError
from unhub.files.version_folders import AboutVersion
from unhub.methods import METHODS
from unhub.service.kept.versions import KeptVersions
from unhub.service.refits import Refits, RefitTask
from unhub.service.served import Gallery, ServedSpace
from unhub.service.version import Version

pytestmark = pytest.mark.once


def search(client: TestClient, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/search", json={"sample": 3, "k": 5, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    for hit in found["hits"]:
        del hit["hub"]  # which depends on whether the counts are there yet
    return found


def saved(correction: Any, path: Path) -> bytes:
    unhub.save(correction, path)
    return path.read_bytes()


def until(client: TestClient, path: str, done: Any, seconds: float = 60) -> dict[str, Any]:
    """Ask until the answer is as wanted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = client.get(path)
        found: dict[str, Any] = answer.json()
        if done(answer.status_code, found):
            return found
        time.sleep(0.02)
    raise AssertionError(found)


def test_added_items_are_found_and_corrected_as_by_extend() -> None:
    space = small_space()
    new = cloud(2, 20)
    with served(space) as (_, client), kernels.prefer("numpy"):
        body = {"ids": ["n1", "n2"], "vectors": new.tolist(), "texts": ["first", "second"]}
        assert client.post("/v1/items", json=body).json() == {"version": "v1.1", "items": ITEMS + 2}
        answer = search(client, k=ITEMS + 2)
        assert answer["version"] == "v1.1"
        grown = unhub.extend(space.correction, Vectors(np.array(["n1", "n2"]), new), cloud(BANK, 2))
        both = Vectors(grown.ids, np.concatenate([np.asarray(space.gallery.held.rows[:]), new]))
        expected = unhub.searcher(both, grown).search(cloud(SAMPLES, 3)[3:4], ITEMS + 2)
    assert [hit["id"] for hit in answer["hits"]] == expected.ids[0].tolist()
    np.testing.assert_allclose([hit["score"] for hit in answer["hits"]], expected.scores[0], rtol=1e-5)
    assert {"first", "second"} <= {hit["text"] for hit in answer["hits"]}


def test_removed_items_are_gone_and_may_come_back() -> None:
    with served() as (_, client):
        assert client.request("DELETE", "/v1/items", json={"ids": ["i3", "i4"]}).json()["items"] == ITEMS - 2
        assert not {"i3", "i4"} & {hit["id"] for hit in search(client, k=ITEMS)["hits"]}
        assert told(client.get("/v1/items/i3"), 404)["argument"] == "id"
        body = {"ids": ["i3"], "vectors": cloud(1, 21).tolist()}
        assert client.post("/v1/items", json=body).json()["version"] == "v1.2"
        assert client.get("/v1/items/i3").json()["text"] is None


def test_replaced_items_are_corrected_as_by_replace_and_kept(tmp_path: Path) -> None:
    space, rows = small_space(), cloud(2, 22)
    changed = {"ids": ["i7", "i3"], "vectors": rows.tolist()}
    texts = space.gallery.texts
    with served(space, state=tmp_path) as (service, client), kernels.prefer("numpy"):
        assert client.put("/v1/items", json=changed).json() == {"version": "v1.1", "items": ITEMS}
        answer = search(client, k=ITEMS)
        after = unhub.replace(space.correction, Vectors(np.array(["i7", "i3"]), rows), cloud(BANK, 2))
        held = service.live.now.gallery.held
        expected = unhub.searcher(held, after).search(cloud(SAMPLES, 3)[3:4], ITEMS)
        assert client.get("/v1/items/i3").json()["text"] == texts["i3"]
        again = {"ids": ["i3"], "vectors": rows[:1].tolist(), "texts": ["other"]}
        assert client.put("/v1/items", json=again).json()["version"] == "v1.2"
        last = search(client, k=ITEMS)
    assert [hit["id"] for hit in answer["hits"]] == expected.ids[0].tolist()
    np.testing.assert_allclose([hit["score"] for hit in answer["hits"]], expected.scores[0], rtol=1e-5)
    with served(small_space(), state=tmp_path) as (_, client):
        assert search(client, k=ITEMS) == last
        assert client.get("/v1/items/i3").json()["text"] == "other"
        for wrong in ({"ids": ["new"], "vectors": rows[:1].tolist()}, {"ids": ["i3"] * 2, "vectors": rows.tolist()}):
            assert told(client.put("/v1/items", json=wrong))["argument"] == "ids"
        assert client.get("/v1/about").json()["version"] == "v1.2"


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ({"ids": ["i1"], "vectors": [[1.0] * DIMENSIONS]}, "ids"),
        ({"ids": ["a", "a"], "vectors": [[1.0] * DIMENSIONS] * 2}, "ids"),
        ({"ids": [7], "vectors": [[1.0] * DIMENSIONS]}, "ids"),
        ({"ids": [""], "vectors": [[1.0] * DIMENSIONS]}, "ids"),
        ({"ids": ["a"], "vectors": [[1.0]]}, "vectors"),
        ({"ids": ["a"], "vectors": [[0.0] * DIMENSIONS]}, "vectors"),
        ({"ids": ["a", "b"], "vectors": [[1.0] * DIMENSIONS]}, "vectors"),
        ({"ids": ["a"], "vectors": [[1.0] * DIMENSIONS], "texts": []}, "texts"),
        ({"ids": [f"n{one}" for one in range(65)], "vectors": [[1.0] * DIMENSIONS] * 65}, "ids"),
    ],
)
def test_wrong_new_items_are_refused_and_change_nothing(body: dict[str, Any], argument: str) -> None:
    with served() as (_, client):
        assert told(client.post("/v1/items", json=body))["argument"] == argument
        assert client.get("/v1/about").json()["version"] == "v1"


def test_items_cannot_be_added_without_the_bank() -> None:
    with served(small_space(bank=None)) as (_, client):
        error = told(client.post("/v1/items", json={"ids": ["n"], "vectors": cloud(1, 3).tolist()}))
    assert error["argument"] == "bank" and "--bank" in error["remedy"]


def test_not_every_item_can_be_removed() -> None:
    with served() as (_, client):
        every = [f"i{row}" for row in range(ITEMS)]
        assert "names all" in told(client.request("DELETE", "/v1/items", json={"ids": every}))["problem"]
        assert told(client.request("DELETE", "/v1/items", json={"ids": ["nobody"]}))["argument"] == "ids"


def test_a_version_is_uploaded_activated_and_rolled_back(tmp_path: Path) -> None:
    space = small_space()
    with kernels.prefer("numpy"):
        other = unhub.fit(space.gallery.held, space.bank, method="is:tau=0.1")
    with served(space) as (_, client), kernels.prefer("numpy"):
        made = client.post("/v1/corrections", content=saved(other, tmp_path / "c.unhub")).json()
        assert (made["name"], made["active"], made["offered"]) == ("v2", False, True)
        assert search(client)["version"] == "v1"
        assert client.post("/v1/corrections/v2/activate").json()["version"] == "v2"
        answer = search(client)
        expected = unhub.searcher(space.gallery.held, other).search(cloud(SAMPLES, 3)[3:4], 5)
        assert answer["version"] == "v2"
        assert [hit["id"] for hit in answer["hits"]] == expected.ids[0].tolist()
        listed = client.get("/v1/corrections").json()
        assert (listed["active"], listed["back"], len(listed["versions"])) == ("v2", "v1", 2)
        assert client.post("/v1/corrections/rollback").json()["version"] == "v1"
        assert search(client)["version"] == "v1"
        told(client.post("/v1/corrections/rollback"), 409)
        told(client.post("/v1/corrections/v9/activate"), 404)


def test_what_is_no_correction_of_these_items_is_refused(tmp_path: Path) -> None:
    space = small_space()
    with kernels.prefer("numpy"):
        others = Vectors(space.gallery.held.ids, cloud(ITEMS, 77))
        elsewhere = unhub.fit(others, space.bank, method="nnn")
        plan = unhub.fit(space.gallery.held, method="otn")
    good = saved(space.correction, tmp_path / "good.unhub")
    with served(space) as (_, client):
        for content in (b"", b"hello", good[:-7], good[:100] + b"x" + good[101:]):
            error = told(client.post("/v1/corrections", content=content))
            assert error["argument"] == "body" and "/tmp" not in error["problem"]
        assert "60 are not" in told(client.post("/v1/corrections", content=saved(elsewhere, tmp_path / "e")))["problem"]
        assert "is a plan" in told(client.post("/v1/corrections", content=saved(plan, tmp_path / "p")))["problem"]
        assert len(client.get("/v1/corrections").json()["versions"]) == 1


def test_an_older_version_follows_the_items(tmp_path: Path) -> None:
    """A version that is activated after the items changed is that of the items as they are now."""
    space = small_space()
    new = cloud(2, 20)
    with kernels.prefer("numpy"):
        other = unhub.fit(space.gallery.held, space.bank, method="is:tau=0.1")
    with served(space) as (service, client), kernels.prefer("numpy"):
        client.post("/v1/corrections", content=saved(other, tmp_path / "c.unhub"))
        client.post("/v1/items", json={"ids": ["n1", "n2"], "vectors": new.tolist()})
        client.request("DELETE", "/v1/items", json={"ids": ["i5", "n2"]})
        assert client.post("/v1/corrections/v2/activate").json()["version"] == "v2.2"
        held = service.live.now.gallery.held
        expected = unhub.fit(held, space.bank, method="is:tau=0.1")
        answer = search(client, k=ITEMS)
        found = unhub.searcher(held, expected).search(cloud(SAMPLES, 3)[3:4], ITEMS)
    assert [hit["id"] for hit in answer["hits"]] == found.ids[0].tolist()


def test_a_restart_serves_what_was_active(tmp_path: Path) -> None:
    space = small_space()
    with kernels.prefer("numpy"):
        other = unhub.fit(space.gallery.held, space.bank, method="is:tau=0.1")
    state = tmp_path / "state"
    with served(space, state=state) as (_, client):
        client.post("/v1/corrections", content=saved(other, tmp_path / "c.unhub"))
        client.post("/v1/corrections/v2/activate")
        client.post("/v1/items", json={"ids": ["n1"], "vectors": cloud(1, 5).tolist(), "texts": ["nüß"]})
        client.request("DELETE", "/v1/items", json={"ids": ["i9"]})
        before = search(client, k=ITEMS)
    with served(small_space(), state=state) as (_, client):
        assert search(client, k=ITEMS) == before
        assert before["version"] == "v2.2"
        assert client.post("/v1/corrections/rollback").json()["version"] == "v1.2"
    with served(small_space(), state=state) as (_, client):
        assert search(client)["version"] == "v1.2"
        assert client.get("/v1/items/n1").json()["text"] == "nüß"
        assert len(client.get("/v1/corrections").json()["versions"]) == 2


@pytest.mark.parametrize("method", [name for name, one in METHODS.items() if one.kind == "bias" and not one.dual])
def test_a_restart_finds_items_added_and_removed_under_every_method(method: str, tmp_path: Path) -> None:
    with served(small_space(method), state=tmp_path) as (_, client):
        client.post("/v1/items", json={"ids": ["n1", "n2"], "vectors": cloud(2, 5).tolist()})
        gone = [*(f"i{row}" for row in range(20)), "n1"]
        assert client.request("DELETE", "/v1/items", json={"ids": gone}).status_code == 200
        before = search(client, k=ITEMS)
    with served(small_space(method), state=tmp_path) as (_, client):
        assert [hit["id"] for hit in search(client, k=ITEMS)["hits"]] == [hit["id"] for hit in before["hits"]]
        assert search(client)["version"] == before["version"] == "v1.2"


@pytest.mark.parametrize("back", [False, True], ids=["gone", "back as another"])
def test_a_restart_finds_a_version_that_was_fitted_on_items_that_are_gone(back: bool, tmp_path: Path) -> None:
    space, new = small_space(), cloud(1, 5)
    with kernels.prefer("numpy"):
        grown = space.gallery.held.stack(Vectors(np.array(["n1"]), new))
        other = unhub.fit(grown, space.bank, method="dis")
    with served(space, state=tmp_path / "state") as (_, client):
        client.post("/v1/items", json={"ids": ["n1"], "vectors": new.tolist()})
        client.post("/v1/corrections", content=saved(other, tmp_path / "c.unhub"))
        client.post("/v1/corrections/v2/activate")
        gone = [*(f"i{row}" for row in range(20)), "n1"]
        assert client.request("DELETE", "/v1/items", json={"ids": gone}).status_code == 200
        if back:
            client.post("/v1/items", json={"ids": ["n1"], "vectors": cloud(1, 6).tolist()})
        before = search(client, k=ITEMS)
    with served(small_space(), state=tmp_path / "state") as (_, client):
        after = search(client, k=ITEMS)
        assert after["version"] == before["version"]
        assert [hit["id"] for hit in after["hits"]] == [hit["id"] for hit in before["hits"]]


def test_the_number_of_a_version_is_never_given_again(tmp_path: Path) -> None:
    space, folder = small_space(), tmp_path / "state" / "corrections"
    with kernels.prefer("numpy"):
        content = saved(unhub.fit(space.gallery.held, space.bank, method="is:tau=0.1"), tmp_path / "c.unhub")
    with served(space, state=tmp_path / "state") as (service, client):
        assert client.post("/v1/corrections", content=content).json()["name"] == "v2"
        service.live.drop("v2")
        assert client.post("/v1/corrections", content=content).json()["name"] == "v3"
    np.save(folder / "v4.bank.npy", cloud(30, 9))  # as of a service that was killed
    with served(space, state=tmp_path / "state") as (_, client):
        assert client.post("/v1/corrections", content=content).json()["name"] == "v5"


def test_a_version_counts_as_active_only_once_all_of_it_is_written(tmp_path: Path) -> None:
    space = small_space()
    with kernels.prefer("numpy"):
        content = saved(unhub.fit(space.gallery.held, space.bank, method="is:tau=0.1"), tmp_path / "c.unhub")
    with served(space, state=tmp_path / "state") as (_, client):
        client.post("/v1/corrections", content=content)
        about = tmp_path / "state" / "corrections" / "v2.json"
        kept = about.read_bytes()
        about.unlink()
        about.mkdir()  # which cannot be written
        assert client.post("/v1/corrections/v2/activate").status_code == 503
        assert client.get("/v1/corrections").json()["active"] == "v1"
        about.rmdir()
        about.write_bytes(kept)
    with served(small_space(), state=tmp_path / "state") as (_, client):
        assert client.get("/v1/about").json()["version"] == "v1"


def test_a_second_service_leaves_a_state_that_is_in_use_alone(tmp_path: Path) -> None:
    with served(state=tmp_path):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(ArgumentError, match="in use by another service"), served(small_space("is"), state=tmp_path):
            pass
        assert sorted(tmp_path.rglob("*")) == before


def test_a_state_that_is_damaged_is_named(tmp_path: Path) -> None:
    with served(state=tmp_path) as (_, client):
        client.post("/v1/items", json={"ids": ["n1"], "vectors": cloud(1, 5).tolist()})
    (tmp_path / "corrections" / "active.json").write_text("{")
    with (
        pytest.raises(ValueError, match=r"active\.json: is not what a folder of versions holds"),
        served(state=tmp_path),
    ):
        pass


def test_old_versions_are_dropped_but_never_the_way_back(tmp_path: Path) -> None:
    space = small_space()
    with served(space, state=tmp_path / "state") as (_, client):
        for number in range(30):
            with kernels.prefer("numpy"):
                one = unhub.fit(space.gallery.held, space.bank, method=f"is:tau={0.1 + number / 100:.2f}")
            name = client.post("/v1/corrections", content=saved(one, tmp_path / "c.unhub")).json()["name"]
            if number == 0:
                client.post(f"/v1/corrections/{name}/activate")
        names = [one["name"] for one in client.get("/v1/corrections").json()["versions"]]
        assert len(names) == 20 and {"v1", "v2", "v31"} <= set(names)
        assert len(list((tmp_path / "state" / "corrections").glob("*.unhub"))) == 20
        assert client.post("/v1/corrections/rollback").json()["version"] == "v1"


def test_a_refit_is_judged_offered_activated_and_rolled_back() -> None:
    with served() as (_, client):
        answer = client.post("/v1/refit", json={"method": "nnn:k=4,alpha=0.5"})
        assert answer.status_code == 202 and answer.json()["state"] == "running"
        told(client.post("/v1/refit", json={}), 409)
        status = until(client, "/v1/refit", lambda _, found: found["state"] != "running")
        assert status["state"] == "offered" and status["version"] == "v2", status
        assert status["judged"]["reason"].endswith(".")
        assert set(status["judged"]["hubness"]) == {"active", "offered"}
        (offered,) = [one for one in client.get("/v1/corrections").json()["versions"] if one["offered"]]
        assert offered["judged"] == status["judged"]
        assert client.post("/v1/corrections/v2/activate").json()["version"] == "v2"
        assert client.get("/v1/refit").json()["state"] == "idle"
        assert client.post("/v1/corrections/rollback").json()["version"] == "v1"


def test_a_refit_is_cancelled_and_an_offer_is_dropped() -> None:
    with served() as (_, client):
        client.post("/v1/refit", json={})
        assert client.delete("/v1/refit").json()["state"] == "cancelled"
        while (answer := client.post("/v1/refit", json={"method": "is:tau=0.1"})).status_code != 202:
            assert "still ending" in told(answer, 409)["problem"]
            time.sleep(0.01)
        until(client, "/v1/refit", lambda _, found: found["state"] == "offered")
        assert client.delete("/v1/refit").json()["state"] == "idle"
        assert len(client.get("/v1/corrections").json()["versions"]) == 1


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ({"method": "otn"}, "method"),
        ({"method": "gc"}, "method"),
        ({"method": "dualis"}, "method"),
        ({"method": "nonsense"}, "method"),
        ({"bank": "log"}, "bank"),
        ({"bank": "both"}, "bank"),
    ],
)
def test_a_refit_that_cannot_be_served_is_refused(body: dict[str, str], argument: str) -> None:
    with served() as (_, client):
        assert told(client.post("/v1/refit", json=body))["argument"] == argument
        assert client.get("/v1/refit").json()["state"] == "idle"


def test_an_offer_that_comes_after_the_cancelling_is_dropped() -> None:
    space = small_space()
    with served(space) as (service, _):
        dropped: list[str] = []

        def offer(*given: Any) -> str:
            refits.cancel()  # between the last look at it and the offer
            return "v2"

        refits = Refits(offer, dropped.append, None, None)
        assert space.bank is not None
        refits.start(RefitTask(service.live.now, space.bank, None, "nnn:k=8", None, "the bank"))
        while refits.status.state == "running":
            time.sleep(0.01)
        refits.close()
    assert (dropped, refits.status.state) == (["v2"], "cancelled")


def test_one_refit_runs_at_a_time_also_after_it_was_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may = threading.Event(), threading.Event()

    def slow(*given: Any, **named: Any) -> None:
        begun.set()
        may.wait(30)

    monkeypatch.setattr(unhub, "tune", slow)
    with served() as (_, client):
        client.post("/v1/refit", json={})
        assert begun.wait(10)
        for state in ("cancelled", "idle"):
            assert client.delete("/v1/refit").json()["state"] == state
            assert "still ending" in told(client.post("/v1/refit", json={}), 409)["problem"]
        may.set()


def test_a_refit_on_the_log_keeps_its_bank(tmp_path: Path) -> None:
    queries = cloud(390, 30)
    with served(state=tmp_path / "state", log=tmp_path / "log") as (_, client):
        told(client.post("/v1/refit", json={"bank": "log"}))
        for query in queries:
            search_body = {"vector": query.tolist(), "k": 2}
            assert client.post("/v1/search", json=search_body).status_code == 200
        client.post("/v1/refit", json={"bank": "log", "method": "nnn:k=4"})
        status = until(client, "/v1/refit", lambda _, found: found["state"] != "running")
        assert status["state"] == "offered", status
        client.post("/v1/corrections/v2/activate")
        added = client.post("/v1/items", json={"ids": ["n1"], "vectors": cloud(1, 5).tolist()})
        before = client.get("/metrics").text
        client.post("/v1/search", json={"sample": 0})
        own = 'unhub_bank_distance{of="bank"}'
        assert client.get("/metrics").text.partition(own)[2] != before.partition(own)[2]  # of the logged queries
        assert client.get("/v1/about").json()["bank"] == {"queries": 390}
        bank = until(client, "/v1/bank", lambda status, _: status == 200)
        assert bank["queries_today"]["count"] == 390 and bank["queries_today"]["sentence"]
    assert len(unhub.read_vectors(tmp_path / "log")) == 390
    assert added.json()["version"] == "v2.1"
    with served(small_space(), state=tmp_path / "state") as (_, client):
        assert client.get("/v1/about").json()["version"] == "v2.1"


def test_a_refit_on_the_bank_takes_that_of_the_active_version(tmp_path: Path) -> None:
    def refitted(client: TestClient, bank: str) -> str:
        assert client.post("/v1/refit", json={"method": "nnn:k=8", "bank": bank}).status_code == 202
        offer = until(client, "/v1/refit", lambda _, found: found["state"] != "running")
        assert offer["state"] == "offered", offer
        client.post(f"/v1/corrections/{offer['version']}/activate")
        why: str = client.get("/v1/corrections").json()["versions"][-1]["why"]
        return why

    with served(small_space(bank=None), log=tmp_path / "log", state=tmp_path / "state") as (service, client):
        for row in cloud(30, 9).tolist():
            client.post("/v1/search", json={"vector": row})
        assert "the log, 30 queries" in refitted(client, "log")
        client.post("/v1/search", json={"vector": cloud(1, 10)[0].tolist()})
        assert "the bank of the active version, 30 queries" in refitted(client, "bank")
        assert service.live.now.bank is not None and len(service.live.now.bank) == 30
        assert client.get("/v1/about").json()["bank"] == {"queries": 30}
    with served(small_space(bank=None), state=tmp_path / "state") as (service, client):  # it kept that bank
        assert client.get("/v1/about").json()["can"]["refit"]
        body = {"ids": ["n"], "vectors": cloud(1, 5).tolist()}
        assert client.post("/v1/items", json=body).json()["version"] == "v3.1"


@pytest.mark.parametrize("method", ["dualis", "dbsn", "dualdis"])
def test_items_that_a_correction_cannot_follow_are_refused_until_a_refit(method: str) -> None:
    space = small_space()
    with kernels.prefer("numpy"):
        fitted = unhub.fit(space.gallery.held, space.bank, bank_items=cloud(30, 9), method=method)
    body = {"ids": ["n"], "vectors": cloud(1, 5).tolist()}
    with served(replace(space, correction=fitted)) as (_, client):
        error = told(client.post("/v1/items", json=body))
        assert error["argument"] == "items" and method in error["problem"] and "/v1/refit" in error["remedy"]
        if not isinstance(fitted, unhub.Bias):
            error = told(client.request("DELETE", "/v1/items", json={"ids": ["i1"]}))
            assert error["argument"] == "items" and "/v1/refit" in error["remedy"]
        client.post("/v1/refit", json={"method": "nnn:k=8"})
        until(client, "/v1/refit", lambda _, found: found["state"] == "offered")
        client.post("/v1/corrections/v2/activate")
        assert client.post("/v1/items", json=body).json() == {"version": "v2.1", "items": ITEMS + 1}


def test_a_state_of_other_items_is_named_and_left_as_it_was(tmp_path: Path) -> None:
    with served(state=tmp_path):
        pass
    before = sorted(path.name for path in (tmp_path / "corrections").iterdir())
    items = Vectors(small_space().gallery.held.ids, cloud(ITEMS, 50))
    with kernels.prefer("numpy"):
        other = replace(
            small_space(), gallery=Gallery(items, {}), correction=unhub.fit(items, cloud(BANK, 2), method="nnn:k=8")
        )
    with pytest.raises(ValueError, match=r"state keeps the version v1, which .*name another folder"):
        with_state(other, tmp_path)
    assert sorted(path.name for path in (tmp_path / "corrections").iterdir()) == before


def test_a_first_start_that_fails_leaves_a_state_that_can_be_used(tmp_path: Path) -> None:
    space = small_space()
    with kernels.prefer("numpy"):
        wrong = unhub.fit(cloud(ITEMS, 50), cloud(BANK, 2), method="nnn:k=8")
    with pytest.raises(ValueError, match="items"):
        with_state(replace(space, correction=wrong), tmp_path)
    with served(space, state=tmp_path) as (_, client):
        assert [one["method"] for one in client.get("/v1/corrections").json()["versions"]] == [space.correction.spec]


def with_state(space: ServedSpace, state: Path) -> None:
    """Start and end a service."""
    with served(space, state=state):
        pass


def test_a_service_that_cannot_start_lets_its_folders_go(tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    with served(state=state, log=log):
        pass
    kept = (state / "corrections" / "v1.json").read_text()
    (state / "corrections" / "v1.json").write_text("{")
    with pytest.raises(ValueError, match="is not what a folder of versions holds"), served(state=state, log=log):
        pass
    (state / "corrections" / "v1.json").write_text(kept)
    (log / "log.json").write_text('{"query_log": 1, "dimensions": 3}')  # found wrong after the folder of marks is held
    with pytest.raises(ValueError, match="holds queries of 3 dimensions"), served(state=state, log=log):
        pass
    (log / "log.json").write_text(f'{{"query_log": 1, "dimensions": {DIMENSIONS}}}')
    with served(state=state, log=log) as (_, client):
        assert client.get("/readyz").status_code == 200


def test_a_kept_bank_is_not_held_in_memory(tmp_path: Path) -> None:
    kept = KeptVersions(tmp_path)
    with kernels.prefer("numpy"):
        made = kept.add(small_space().correction, AboutVersion.now("A test."), Vectors(np.arange(9), cloud(9, 2)))
    assert made.bank is not None and made.bank is kept["v1"].bank
    assert isinstance(made.bank.rows, np.memmap) and np.array_equal(made.bank.block(0, 9), cloud(9, 2))


def test_a_change_that_cannot_be_written_changes_nothing_and_says_so(tmp_path: Path) -> None:
    body = {"ids": ["n"], "vectors": cloud(1, 5).tolist()}
    with served(state=tmp_path) as (_, client):
        (tmp_path / "items").rmdir()
        (tmp_path / "items").write_text("in the way")
        error = told(client.post("/v1/items", json=body), 503)
        assert error["argument"] == "state" and str(tmp_path) not in error["problem"]
        assert client.get("/v1/about").json()["version"] == "v1"


def test_a_count_that_failed_fails_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> None:
        raise ValueError("a count that fails")

    monkeypatch.setattr("unhub.service.service.count_hubs", broken)
    with served() as (_, client):
        time.sleep(0.1)
        assert client.post("/v1/corrections/v1/activate").json()["version"] == "v1"


def test_an_old_version_is_forgotten() -> None:
    def counted(client: TestClient) -> None:
        until(client, "/v1/hubs", lambda status, _: status == 200)
        search(client)

    with served() as (service, client):
        counted(client)
        before = weakref.ref(service.live.now)
        client.post("/v1/items", json={"ids": ["n"], "vectors": cloud(1, 5).tolist()})
        counted(client)
        gc.collect()
        assert before() is None  # and with it the index


def test_marks_are_labels_that_eval_reads(tmp_path: Path) -> None:
    space = small_space()
    with served(space, state=tmp_path) as (_, client), kernels.prefer("numpy"):
        for row, item in ((3, "i1"), (4, "i2")):
            answer = client.post("/v1/marks", json={"query": {"sample": row}, "item": item})
            assert answer.status_code == 200, answer.text
        assert answer.json() == {"marks": 2}
        assert (
            told(client.post("/v1/marks", json={"query": {"sample": 3}, "item": "nobody"}), 404)["argument"] == "item"
        )
    with served(small_space(), state=tmp_path) as (_, client), kernels.prefer("numpy"):
        body = {"query": {"vectors": cloud(2, 8).tolist()}, "item": "i5"}
        assert client.post("/v1/marks", json=body).json() == {"marks": 4}
    queries = unhub.read_vectors(tmp_path / "marks" / "queries")
    np.testing.assert_array_equal(queries.rows[:], np.concatenate([cloud(SAMPLES, 3)[3:5], cloud(2, 8)]))
    relevance = unhub.read_relevance(tmp_path / "marks" / "relevance.csv")
    with kernels.prefer("numpy"):
        result = unhub.evaluate(queries, space.gallery.held, relevance, [space.correction], measures=["R@10"])
    assert result.best is not None


def test_a_mark_that_was_cut_off_is_mended(tmp_path: Path) -> None:
    with served(state=tmp_path) as (_, client):
        client.post("/v1/marks", json={"query": {"sample": 3}, "item": "i1"})
    path = tmp_path / "marks" / "relevance.csv"
    path.write_bytes(path.read_bytes() + b"1,i")
    with served(small_space(), state=tmp_path) as (_, client):
        assert client.post("/v1/marks", json={"query": {"sample": 4}, "item": "i2"}).json() == {"marks": 2}
    assert path.read_text() == "query_id,item_id\n0,i1\n1,i2\n"


def test_marks_need_a_folder() -> None:
    with served() as (_, client):
        assert client.get("/v1/about").json()["can"]["mark"] is False
        assert "--state" in told(client.post("/v1/marks", json={"query": {"sample": 3}, "item": "i1"}))["remedy"]


def test_two_services_do_not_share_a_folder(tmp_path: Path) -> None:
    with served(state=tmp_path), pytest.raises(ValueError, match="in use"), served(small_space(), state=tmp_path):
        pass


def test_nothing_is_kept_without_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with served() as (_, client):
        search(client)
    assert list(tmp_path.iterdir()) == []


def test_a_refit_is_counted_with_the_index_that_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(small_space(index="exact")) as (_, client):
        made, real = [], Version.of

        def noted(*given: Any) -> Version:
            made.append(given[4:])
            return real(*given)

        monkeypatch.setattr(Version, "of", staticmethod(noted))
        client.post("/v1/refit", json={"method": "is:tau=0.1"})
        until(client, "/v1/refit", lambda _, found: found["state"] == "offered")
        assert made == [("exact", None)]
