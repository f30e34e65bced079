"""Searches over HTTP: the numbers of a searcher, and errors that name the argument."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.compute.test_range import bent
from tests.service.spaces import ITEMS, cloud, served, small_space, told
from unhub import Vectors, kernels
from unhub.arrays import Float32
from unhub.search.hits import Id
from unhub.service.kept.picture_files import PictureFiles
from unhub.service.served import Gallery, ServedSpace

pytestmark = pytest.mark.once


@pytest.mark.parametrize("strength", [0.0, 0.6, 1.0, 1.5])
def test_an_answer_has_the_numbers_of_a_searcher(strength: float) -> None:
    space = small_space()
    queries = cloud(5, 9)
    with served(space) as (_, client), kernels.prefer("numpy"):
        searcher = unhub.searcher(space.gallery.held, space.correction)
        for query in queries:
            body = {"vector": query.tolist(), "k": 7, "strength": strength}
            answer = client.post("/v1/search", json=body).json()
            ids, scores = searcher.search(query[None], 7, strength)
            assert [hit["id"] for hit in answer["hits"]] == ids[0].tolist()
            np.testing.assert_allclose([hit["score"] for hit in answer["hits"]], scores[0], rtol=1e-6)
            assert [hit["rank"] for hit in answer["hits"]] == list(range(1, 8))
            assert answer["version"] == "v1"


@pytest.mark.parametrize("combine", ["sa", "ra", "mf"])
def test_several_queries_are_combined_as_by_the_searcher(combine: str) -> None:
    space = small_space()
    several = cloud(3, 9)
    with served(space) as (_, client), kernels.prefer("numpy"):
        answer = client.post("/v1/search", json={"vectors": several.tolist(), "combine": combine, "k": 5}).json()
        found = unhub.searcher(space.gallery.held, space.correction).search_sets([several], 5, combine)
    assert [hit["id"] for hit in answer["hits"]] == found.ids[0].tolist()
    np.testing.assert_allclose([hit["score"] for hit in answer["hits"]], found.scores[0], rtol=1e-5)


def test_both_rankings_say_where_a_hit_is_in_the_other() -> None:
    with served() as (_, client):
        answer = client.post("/v1/search", json={"sample": 4, "k": 10, "raw": True}).json()
        whole = client.post("/v1/search", json={"sample": 4, "k": ITEMS, "strength": 0}).json()
    raw = {hit["id"]: hit["rank"] for hit in whole["hits"]}
    corrected = {hit["id"]: hit["rank"] for hit in answer["hits"]}
    assert answer["fetched"] == ITEMS
    assert [hit["raw_rank"] for hit in answer["hits"]] == [raw[hit["id"]] for hit in answer["hits"]]
    assert [hit["id"] for hit in answer["raw"]] == [hit["id"] for hit in whole["hits"][:10]]
    shown = [(hit["id"], hit["rank_corrected"]) for hit in answer["raw"] if hit["id"] in corrected]
    assert shown == [(one, corrected[one]) for one, _ in shown]


def test_an_item_finds_others_but_not_itself() -> None:
    with served() as (_, client):
        answer = client.post("/v1/search", json={"item": "i7", "k": ITEMS}).json()
    assert len(answer["hits"]) == ITEMS - 1
    assert "i7" not in [hit["id"] for hit in answer["hits"]]
    assert answer["hits"][0]["text"].startswith("item <b>")


def test_among_and_exclude() -> None:
    with served() as (_, client):
        body = {"sample": 0, "among": ["i1", "i2", "i3"], "exclude": ["i2"]}
        answer = client.post("/v1/search", json=body).json()
    assert {hit["id"] for hit in answer["hits"]} == {"i1", "i3"}


@pytest.mark.parametrize(
    ("body", "argument", "problem"),
    [
        ({"vector": [1.0, 2.0]}, "vector", "has 2 dimensions, the items 8"),
        ({"vector": [0.0] * 8}, "vector", "zero"),
        ({"vector": [1e39] * 8}, "vector", "beyond float32"),
        ({"sample": 0, "k": 0}, "k", "must be from 1 to 1,000, got 0"),
        ({"sample": 0, "k": 1001}, "k", "must be from 1 to 1,000, got 1,001"),
        ({"sample": 0, "strength": 1.6}, "strength", "must be from 0 to 1.5"),
        ({"sample": 0, "strength": -1}, "strength", "must be from 0 to 1.5"),
        ({"sample": 900}, "sample", "unknown id"),
        ({"sample": 0, "among": ["nobody"]}, "among", "unknown id"),
        ({"sample": 0, "among": [3]}, "among", "integers"),
        ({"sample": 0, "exclude": ["nobody"]}, "exclude", "unknown id"),
        ({"sample": 0, "where": {"price": 3}}, "where", "filter of an engine"),
        ({"sample": 0, "combine": "sa"}, "combine", "is for several queries"),
        ({"vectors": [[1.0] * 8] * 2, "combine": "median"}, "combine", "'median' is unknown"),
        ({"vectors": [[1.0] * 8] * 65}, "vectors", "has 65 entries, at most 64"),
        ({"text": "a cake"}, "text", "no encoder was named"),
        ({"picture": "aGVsbG8="}, "picture", "cannot be turned into a vector here"),
    ],
)
def test_a_wrong_argument_is_named(body: dict[str, object], argument: str, problem: str) -> None:
    with served() as (_, client):
        error = told(client.post("/v1/search", json=body))
    assert error["argument"] == argument
    assert problem in error["problem"]


@pytest.mark.parametrize("item", ["nobody", 3, 1 << 70])
def test_an_unknown_item_is_not_found(item: object) -> None:
    with served() as (_, client):
        assert told(client.post("/v1/search", json={"item": item}), 404)["argument"] == "item"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"sample": 0, "vector": [1.0] * 8},
        {"vector": []},
        {"vector": ["a"]},
        {"vectors": []},
        {"sample": 0, "k": "ten"},
        {"sample": 0, "k": True},
        {"sample": 0, "strenght": 1},
        {"sample": [0]},
        [1, 2],
        "text",
    ],
)
def test_a_misshapen_body_is_refused_in_words(body: object) -> None:
    with served() as (_, client):
        told(client.post("/v1/search", json=body), 422)


@pytest.mark.parametrize("content", [b"", b"{", b'{"vector": [NaN]}', b"\xff\xfe", b'{"vector": [1e999]}'])
def test_a_body_that_is_no_json_is_refused(content: bytes) -> None:
    headers = {"content-type": "application/json"}
    with served() as (_, client):
        told(client.post("/v1/search", content=content, headers=headers), 422)


def test_a_plan_is_refused_in_words() -> None:
    space = small_space()
    with kernels.prefer("numpy"):
        plan = unhub.fit(space.gallery.held, method="otn")
    refused = pytest.raises(ValueError, match="is a plan: it balances a whole batch of queries")
    with refused, served(replace(space, correction=plan)):
        pass


def test_a_correction_of_whole_rows_is_served_at_full_strength() -> None:
    with served(small_space("gc")) as (_, client):
        answer = client.post("/v1/search", json={"sample": 1, "raw": True}).json()
        assert client.get("/v1/about").json()["kind"] == "rescore"
        assert answer["hits"][0]["bias"] is None
        told(client.post("/v1/search", json={"sample": 1, "strength": 0.5}))
    assert len(answer["raw"]) == len(answer["hits"]) == 10


def test_rerank_is_that_of_the_library() -> None:
    space = small_space()
    ids, scores = [["i1", "i2", "i3"], ["i4", "i5"]], [[0.5, 0.4, 0.3], [0.2, 0.1]]
    with served(space) as (_, client), kernels.prefer("numpy"):
        answer = client.post("/v1/rerank", json={"ids": ids, "scores": scores, "k": 2}).json()
        for row, named, given in zip(answer["hits"], ids, scores, strict=True):
            found = unhub.rerank([named], [given], space.correction, 2)
            assert [hit["id"] for hit in row] == found.ids[0].tolist()
        told(client.post("/v1/rerank", json={"ids": [["i1"]], "scores": [[0.1, 0.2]]}))
        told(client.post("/v1/rerank", json={"ids": [["nobody"]], "scores": [[0.1]]}))
        for large in (1e39, -1e300):
            error = told(client.post("/v1/rerank", json={"ids": [["i1", "i2"]], "scores": [[0.1, large]]}))
            assert error["argument"] == "scores" and "beyond float32" in error["problem"]
        error = told(client.post("/v1/rerank", json={"ids": [["i1", "i2", "i1"]], "scores": [[0.3, 0.2, 0.1]]}))
        assert error["argument"] == "ids" and "'i1' more than once" in error["problem"]


def test_candidates_keep_the_type_of_their_ids() -> None:
    items = Vectors(np.array(["1", "2", "3"]), cloud(3, 1))
    with kernels.prefer("numpy"):
        space = ServedSpace("digits", Gallery(items, {}), unhub.fit(items, cloud(50, 2), method="nnn:k=2"))
    with served(space) as (_, client):
        for ids in ([1, "2"], ["2", ""], [1]):
            error = told(client.post("/v1/rerank", json={"ids": [ids, ["3"]], "scores": [[0.5] * len(ids), [0.1]]}))
            assert error["argument"] == "ids" and "a text" in error["remedy"]
        answer = client.post("/v1/rerank", json={"ids": [[], ["3"]], "scores": [[], [0.1]]}).json()
        assert [[hit["id"] for hit in row] for row in answer["hits"]] == [[], ["3"]]
        assert client.post("/v1/rerank", json={"ids": [[]], "scores": [[]]}).json()["hits"] == [[]]


class OneAtATime:
    """An encoder of pictures that notes how many it is asked for at the same time."""

    takes_pictures = True

    def __init__(self) -> None:
        self._lock, self._now, self.most = threading.Lock(), 0, 0

    def texts(self, texts: Sequence[str]) -> Float32:
        return cloud(len(texts), 5)

    def picture(self, content: bytes) -> Float32:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.05)
        with self._lock:
            self._now -= 1
        return cloud(1, content[0])

    def unknown(self, text: str) -> list[str]:
        return []


def test_pictures_are_unfolded_one_at_a_time() -> None:
    encoder = OneAtATime()
    with served(small_space(encoder=encoder)) as (_, client), ThreadPoolExecutor(4) as pool:
        body = {"picture": base64.b64encode(b"\1 picture").decode()}
        answers = list(pool.map(lambda _: client.post("/v1/search", json=body), range(4)))
    assert [one.status_code for one in answers] == [200] * 4 and encoder.most == 1


class SlowPictures(PictureFiles):
    """A folder that notes on which threads it is looked into."""

    def find(self, one: Id) -> Path | None:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise AssertionError("the disk was read on the event loop")
        return super().find(one)


def test_the_event_loop_does_not_look_for_pictures(tmp_path: Path) -> None:
    with served(small_space(pictures=SlowPictures(tmp_path))) as (_, client):
        assert client.post("/v1/search", json={"sample": 0}).status_code == 200
        assert client.get("/v1/items/i1").status_code == 200


def test_samples_are_listed_in_parts() -> None:
    with served() as (_, client):
        part = client.get("/v1/samples", params={"start": 68, "count": 5}).json()
    assert part == {"total": 70, "samples": [{"id": 68, "text": "sample 68"}, {"id": 69, "text": "sample 69"}]}


def test_lists_of_ids_are_limited() -> None:
    many = ["i1"] * 10_001
    with served() as (_, client):
        assert client.get("/v1/about").json()["limits"]["ids"] == 10_000
        for name in ("among", "exclude"):
            assert told(client.post("/v1/search", json={"sample": 0, name: many}), 422)["argument"] == name
            assert client.post("/v1/search", json={"sample": 0, name: many[:10_000]}).status_code == 200
        told(client.post("/v1/rerank", json={"ids": [many], "scores": [[0.1] * len(many)]}), 422)


def test_only_what_somebody_asked_is_logged_and_counted(tmp_path: Path) -> None:
    vector = cloud(1, 4)[0].tolist()
    with served(log=tmp_path / "log") as (_, client):
        for body in ({"vector": vector}, {"vectors": [vector, vector]}):
            client.post("/v1/search", json=body)
        for body in ({"vector": vector, "log": False}, {"item": "i1"}):
            assert client.post("/v1/search", json=body).status_code == 200
        assert client.get("/v1/items/i1").status_code == 200
        assert "unhub_queries_total 3.0" in client.get("/metrics").text
        assert client.post("/v1/search", json={"sample": 1}).status_code == 200
    assert len(unhub.read_vectors(tmp_path / "log")) == 3


def test_an_answer_says_whether_the_query_was_corrected() -> None:
    space = small_space()
    with kernels.prefer("numpy"):
        space = replace(space, correction=unhub.fit(space.gallery.held, cloud(12, 2), method="dis"))
    assert space.samples is not None
    with served(space) as (_, client), kernels.prefer("numpy"):
        raw = unhub.fit(space.gallery.held, method="raw")
        best = unhub.searcher(space.gallery.held, raw).search(space.samples.vectors.rows, 1).ids[:, 0].tolist()
        assert isinstance(space.correction, unhub.Bias) and space.correction.active is not None
        active = set(space.correction.ids[space.correction.active].tolist())
        said = [client.post("/v1/search", json={"sample": row, "raw": True}).json() for row in range(len(best))]
        assert [one["corrected"] for one in said] == [one in active for one in best]
        assert {one["corrected"] for one in said} == {True, False}
        assert client.post("/v1/search", json={"sample": 0}).json()["corrected"] is None


@pytest.mark.parametrize("large", [(1 << 53) + 1, -(1 << 62)])
def test_ids_that_a_page_would_round_are_refused(large: int) -> None:
    def of(first: int) -> ServedSpace:
        items = Vectors(np.array([first, 1, 2, 3]), cloud(4, 1))
        with kernels.prefer("numpy"):
            return ServedSpace("numbers", Gallery(items, {}), unhub.fit(items, cloud(50, 2), method="nnn:k=2"))

    with pytest.raises(ValueError, match="beyond 2\\^53"), served(of(large)):
        pass
    with served(of(1 << 53)) as (_, client):
        assert client.post("/v1/search", json={"item": 1 << 53}).status_code == 200


def test_an_id_that_ends_in_nul_is_no_other_id() -> None:
    with served() as (_, client):
        for path in ("/v1/items/i1%00", "/images/i1%00"):
            assert told(client.get(path), 404)["argument"] == "id"
        one = "i1\0"
        vector = cloud(1, 4)[0].tolist()
        for path, body in (
            ("/v1/search", {"item": one}),
            ("/v1/search", {"sample": 0, "among": [one]}),
            ("/v1/search", {"sample": 0, "exclude": [one]}),
            ("/v1/rerank", {"ids": [[one]], "scores": [[0.5]]}),
            ("/v1/items", {"ids": ["n\0"], "vectors": [vector]}),
        ):
            assert "ends in NUL" in told(client.post(path, json=body), 422)["problem"]
        assert "ends in NUL" in told(client.request("DELETE", "/v1/items", json={"ids": [one]}), 422)["problem"]
        assert client.get("/v1/about").json()["items"] == 60


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/items", {"ids": ["n\ud800"], "vectors": [[1.0] * 8]}),
        ("/v1/items", {"ids": ["n"], "vectors": [[1.0] * 8], "texts": ["half \udc00"]}),
        ("/v1/search", {"text": "\ud800"}),
        ("/v1/search", {"item": "\ud800"}),
    ],
)
def test_what_is_not_valid_text_is_refused_at_the_door(path: str, body: dict[str, object]) -> None:
    with served() as (_, client):
        headers = {"content-type": "application/json"}
        answer = client.post(path, content=json.dumps(body).encode(), headers=headers)
        error = told(answer, 422)
        assert error["argument"] == "body" and "hex escape" in error["problem"]  # JSON itself has no such texts
        assert client.get("/v1/about").json()["version"] == "v1"


def test_ids_that_json_lacks_are_refused_and_texts_are_escaped() -> None:
    space = small_space()
    texts: dict[Id, str] = {"i1": "of a file \udcff"}
    with served(replace(space, gallery=replace(space.gallery, texts=texts))) as (_, client):
        assert client.get("/v1/items/i1").json()["text"] == texts["i1"]
    items = Vectors(np.array(["a\udcff", "b"]), cloud(2, 1))
    with kernels.prefer("numpy"):
        strange = ServedSpace("names", Gallery(items, {}), unhub.fit(items, cloud(50, 2), method="nnn:k=2"))
    with pytest.raises(ValueError, match="is not valid text, as where the name of a file"), served(strange):
        pass


@pytest.mark.parametrize(
    ("content", "argument", "problem"),
    [
        (b"{", "body", "is not JSON: "),
        (b"", "body", "is missing"),
        (b"[" * 100_000, "body", "is not JSON: recursion limit exceeded"),
        (b'{"sample": 0, "k": ' + b"9" * 5000 + b"}", "body", "is not JSON: number out of range"),
        (b"\xff", "body", "is not JSON: "),
        (b'{"sample": true}', "sample", "is no id: an id is an integer or a text"),
        (b'{"sample": 0, "k": 1.5}', "k", "should be a valid integer"),
        (b'{"sample": 0, "x": 1}', "x", "is not known here"),
        (b'{"sample": 0, "item": "i1"}', "body", "give exactly one of "),
    ],
)
def test_a_body_that_is_wrong_is_told_in_words(content: bytes, argument: str, problem: str) -> None:
    with served(small_space(samples=None, bank=None)) as (_, client):
        answer = client.post("/v1/search", content=content, headers={"content-type": "application/json"})
        error = told(answer, 422)
    assert error["argument"] == argument and error["problem"].startswith(problem)


def test_scores_beyond_float32_are_an_error_in_words() -> None:
    items, fitted, queries = bent()
    space = ServedSpace("long", Gallery(Vectors(np.arange(len(items)), items), {}), fitted)
    with served(space) as (_, client):
        error = told(client.post("/v1/search", json={"vector": queries[0].tolist(), "k": 10}))
        assert error["argument"] == "strength" and "the largest float32" in error["problem"] and error["remedy"]
        assert client.post("/v1/search", json={"vector": queries[0].tolist(), "strength": 0}).status_code == 200
        error = told(client.post("/v1/search", json={"vector": [3e38] * 8}))
        assert error["argument"] == "vector" and "overflow float32" in error["problem"]
        scores = [[-1.5e38, 1e38]]
        error = told(client.post("/v1/rerank", json={"ids": [[0, 1]], "scores": scores, "k": 2}))
        assert error["argument"] == "strength"
