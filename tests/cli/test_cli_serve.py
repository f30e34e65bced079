"""`unhub serve` on the command line: what it refuses, each in one line, and items of one's own."""

import base64
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.command import fail, write_inputs
from tests.service.http.running import running
from unhub import kernels
from unhub.model import Head, Model, Tower, Towers

pytestmark = pytest.mark.once

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder with items, a correction, a bank, sample queries, texts and pictures."""
    draws = np.random.default_rng(0)
    for name, rows in (("items", 40), ("bank", 300), ("queries", 60)):
        np.save(tmp_path / f"{name}.npy", draws.standard_normal((rows, 8)).astype(np.float32))
    with kernels.prefer("numpy"):
        made = unhub.fit(np.load(tmp_path / "items.npy"), np.load(tmp_path / "bank.npy"), method="nnn:k=8")
        unhub.save(made, tmp_path / "c.unhub")
        plan = unhub.fit(np.load(tmp_path / "items.npy"), method="otn")
        unhub.save(plan, tmp_path / "plan.unhub")
    (tmp_path / "texts.txt").write_text("".join(f"item {row}\n" for row in range(40)))
    (tmp_path / "asked.txt").write_text("".join(f"query {row}\n" for row in range(60)))
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "3.png").write_bytes(PIXEL)
    return tmp_path


def get(port: int, path: str, body: dict[str, Any] | None = None, token: str = "") -> dict[str, Any]:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_items_of_ones_own_are_served_with_all_that_belongs_to_them(own: Path) -> None:
    options = ["--items", "items.npy", "--correction", "c.unhub", "--bank", "bank.npy", "--item-texts", "texts.txt"]
    options += ["--queries", "queries.npy", "--query-texts", "asked.txt", "--item-images", "pictures"]
    (own / "token").write_text("a-token-of-some-length\n")
    options += ["--state", "state", "--log", "log", "--token-file", "token"]
    with running(options, own) as (process, port):
        token = "a-token-of-some-length"
        about = get(port, "/v1/about", token=token)
        assert (about["name"], about["items"], about["ids"], about["method"]) == (
            "items",
            40,
            "integers",
            "nnn:k=8,alpha=0.75",
        )
        assert about["can"] == {
            "text": False,
            "picture": False,
            "samples": 60,
            "combine": ["sa", "ra", "mf"],
            "mark": True,
            "refit": True,
            "log": True,
            "state": True,
        }
        answer = get(port, "/v1/search", {"sample": 5, "k": 40}, token)
        assert answer["asked"] == "query 5"
        assert {hit["id"]: hit["image"] for hit in answer["hits"]}[3] == "/images/3"
        assert {hit["text"] for hit in answer["hits"]} == {f"item {row}" for row in range(40)}
        get(port, "/v1/search", {"vector": np.load(own / "queries.npy")[7].tolist()}, token)
        assert process.stdout is not None and "in the header Authorization: Bearer;" in process.stdout.readline()
        process.terminate()
        process.communicate(timeout=30)
    logged = unhub.read_vectors(own / "log")  # the vector, and not the sample
    assert np.array_equal(logged.block(0, len(logged)), np.load(own / "queries.npy")[7:8])
    exec_lines = "\n".join(about["python"])
    namespace: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch, kernels.prefer("numpy"):
        patch.chdir(own)
        exec(exec_lines, namespace)
        found = namespace["searcher"].search(np.load("queries.npy")[5:6], 40)
    assert found.ids[0].tolist() == [hit["id"] for hit in answer["hits"]]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--correction", "c.unhub"], "--correction goes with items of your own; give --items or --store too"),
        (["--items", "items.npy"], "--correction is missing; give a file that `unhub fit` or `unhub tune` wrote"),
        (["--items", "items.npy", "--correction", "plan.unhub"], "is a plan: it balances a whole batch of queries"),
        (["--items", "bank.npy", "--correction", "c.unhub"], "--items"),
        (["--items", "items.npy", "--correction", "none.unhub"], "none.unhub"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0 is reached by other machines, which needs a token"),
        (["--token-file", "texts.txt", "--host", "0.0.0.0"], "--token-file must hold at least 16 plain letters"),
        (["--cors", "*"], "--cors must be an origin, got '*'; for example 'https://shop.example'"),
        (["--cors", "https://shop.example/page"], "--cors must be an origin"),
        (["--cors", "shop.example"], "--cors must be an origin"),
        (["--port", "99999999"], "--port 99999999 cannot be used"),
        (["--items", "items.npy", "--correction", "c.unhub", "--image-url", "cdn/{id}"], "--image-url must be"),
        (["--items", "items.npy", "--correction", "c.unhub", "--item-images", "nowhere"], "--item-images"),
        (["--items", "items.npy", "--correction", "c.unhub", "--query-texts", "asked.txt"], "--query-texts has no"),
        (["--items", "items.npy", "--correction", "c.unhub", "--log", "pictures"], "--log pictures holds files that"),
        (["--items", "items.npy", "--store", "qdrant://x/y", "--correction", "c.unhub"], "--store and --items both"),
    ],
)
def test_a_mistake_is_one_line(own: Path, options: list[str], told: str) -> None:
    if "--token-file" in options:
        (own / "texts.txt").write_text("short")
    error = fail(own, "serve", "--port", "0", *options) if "--port" not in options else fail(own, "serve", *options)
    assert told in error and error.count("\n") <= 1


def write_model(path: Path, dimensions: int) -> None:
    """Write a model that combines by a head what an encoder made."""
    tower = Tower("none", dimensions, dimensions)
    unhub.save(Model(Towers(tower, tower), Head("mf", dimensions)), path)


def test_a_model_without_its_encoder_combines_vectors_and_says_that_it_takes_no_texts(own: Path) -> None:
    write_model(own / "model.safetensors", 8)
    options = ["--items", "items.npy", "--correction", "c.unhub", "--encoder", "model.safetensors"]
    with running(options, own) as (process, port):
        assert process.stdout is not None and "name that too, by a second --encoder" in process.stdout.readline()
        vectors = np.load(own / "queries.npy")[:2].tolist()
        assert len(get(port, "/v1/search", {"vectors": vectors, "combine": "head"})["hits"]) == 10
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(port, "/v1/search", {"text": "cake"})
        error = json.load(refused.value)["error"]
        assert "a model was named without its encoder" in error["problem"] and "--encoder" in error["remedy"]


def test_a_model_of_another_space_is_refused(own: Path) -> None:
    write_model(own / "model.safetensors", 4)
    error = fail(own, "serve", "--items", "items.npy", "--correction", "c.unhub", "--encoder", "model.safetensors")
    assert "--encoder gives vectors of 4 dimensions, the items have 8; name the one" in error


def test_a_port_that_is_taken_is_named(own: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"--port {port} cannot be used" in fail(own, "serve", "--port", str(port))


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    program = (
        "import sys; sys.modules['fastapi'] = None\nfrom unhub.cli import main\nsys.argv = ['unhub', 'serve']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("unhub: the service needs fastapi: ") and "[serve]" in done.stderr


def test_an_origin_is_taken_as_browsers_send_it(tmp_path: Path) -> None:
    with running(["--cors", "https://Shop.example/"], tmp_path) as (_, port):
        headers = {"origin": "https://shop.example", "content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/search", b'{"text": "cake"}', headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.headers["access-control-allow-origin"] == "https://shop.example"
