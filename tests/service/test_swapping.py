"""Swaps under load: while sixteen clients search, versions and items change; an answer belongs to one version."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.service.spaces import cloud, served, small_space
from tests.service.test_changes import saved, until
from unhub import Bias, Vectors, kernels
from unhub.arrays import Float32, Float64
from unhub.service.http.api import application
from unhub.service.http.safety import Access
from unhub.service.http.server import listen, serving

pytestmark = pytest.mark.once

CLIENTS, ROUNDS, K = 16, 6, 8


@dataclass
class Truth:
    """What each version must answer, computed from vectors and biases alone."""

    states: dict[str, tuple[list[str], Float64, Float64]] = field(default_factory=dict)

    def learn(self, name: str, items: Vectors, correction: Bias) -> None:
        rows = np.asarray(items.rows[:], np.float64)
        order = {one: row for row, one in enumerate(items.ids.tolist())}
        rows = rows[[order[one] for one in correction.ids.tolist()]]
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self.states[name] = (correction.ids.tolist(), unit, correction.bias)

    def check(self, query: Float32, strength: float, answer: dict[str, Any]) -> None:
        ids, unit, bias = self.states[answer["version"]]
        asked = query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))
        for ranking, weight in (("hits", strength), ("raw", 0.0)):
            scores = dict(zip(ids, unit @ asked - weight * bias, strict=True))
            best = sorted(scores.values(), reverse=True)[:K]
            found = [hit["score"] for hit in answer[ranking]]
            np.testing.assert_allclose(found, best, atol=1e-5)
            np.testing.assert_allclose(found, [scores[hit["id"]] for hit in answer[ranking]], atol=1e-5)
        shown = {hit["id"]: hit["bias"] for hit in answer["hits"]}
        known = dict(zip(ids, bias, strict=True))
        assert all(abs(known[one] - value) < 1e-6 for one, value in shown.items())


def ask_for_ever(port: int, queries: Float32, stop: threading.Event, note: Callable[[Any], None]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    row = 0
    while not stop.is_set():
        query, strength = queries[row % len(queries)], (0.3, 1.0, 1.5)[row % 3]
        body = json.dumps({"vector": query.tolist(), "k": K, "strength": strength, "raw": True})
        connection.request("POST", "/v1/search", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        note((query, strength, answer.status, json.loads(answer.read())))
        row += 1
    connection.close()


def test_no_answer_fails_and_each_belongs_to_one_version(tmp_path: Path) -> None:
    space = small_space()
    truth, answers, stop = Truth(), [], threading.Event()  # type: ignore[var-annotated]
    with kernels.prefer("numpy"):
        other = unhub.fit(space.gallery.held, space.bank, method="is:tau=0.1")
    with served(space, state=tmp_path / "state", log=tmp_path / "log") as (service, client), kernels.prefer("numpy"):

        def learn() -> None:
            now = service.live.now
            assert isinstance(now.correction, Bias)
            truth.learn(now.name, now.gallery.held, now.correction)

        learn()
        bound: socket.socket = listen("127.0.0.1", 0)
        with serving(application(service, Access()), bound, service.limits):
            port = bound.getsockname()[1]
            clients = [
                threading.Thread(target=ask_for_ever, args=(port, cloud(20, 100 + one), stop, answers.append))
                for one in range(CLIENTS)
            ]
            for one in clients:
                one.start()
            content = saved(other, tmp_path / "c.unhub")
            try:
                assert client.post("/v1/corrections", content=content).json()["name"] == "v2"
                for number in range(ROUNDS):
                    new = {"ids": [f"n{number}"], "vectors": cloud(1, 50 + number).tolist()}
                    for method, path, body in (
                        ("POST", "/v1/corrections/v2/activate", None),
                        ("POST", "/v1/items", new),
                        ("POST", "/v1/corrections/rollback", None),
                        ("DELETE", "/v1/items", {"ids": [f"i{number}"]}),
                    ):
                        answer = client.request(method, path, json=body)
                        assert answer.status_code == 200, answer.text
                        learn()
                        time.sleep(0.05)
                assert client.post("/v1/refit", json={"method": "nnn:k=4,alpha=0.5"}).status_code == 202
                status = until(client, "/v1/refit", lambda _, found: found["state"] != "running", 200)
                assert status["state"] == "offered", status
                assert client.post(f"/v1/corrections/{status['version']}/activate").status_code == 200
                learn()
                time.sleep(0.2)
            finally:
                stop.set()
                for one in clients:
                    one.join()
    failed = [one for one in answers if one[2] != 200]
    assert not failed, failed[0]
    for query, strength, _, answer in answers:
        truth.check(query, strength, answer)
    seen = {answer["version"] for *_, answer in answers}
    assert len(seen) > ROUNDS, seen
    assert len(unhub.read_vectors(tmp_path / "log")) == len(answers)
