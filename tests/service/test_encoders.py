"""Texts and pictures as queries, by a tiny CLIP: the vectors are those of the encoder itself."""

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests import media, tiny_encoders
from tests.service.spaces import served, small_space, told
from unhub import Vectors, kernels
from unhub.service.encoders import open_encoder
from unhub.service.served import Gallery, ServedSpace

pytest.importorskip("torch", reason="torch is not installed: the extra train has it")
image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> ServedSpace:
    """Return pictures that a tiny CLIP encoded, with the encoder."""
    folder = tmp_path_factory.mktemp("clip")
    tiny_encoders.write_clip(folder / "model")
    encoder = open_encoder(str(folder / "model"), None)
    rows = encoder.texts([f"a {colour} {form}" for colour in ("red", "green", "blue") for form in ("square", "circle")])
    items = Vectors(np.arange(len(rows)), rows)
    with kernels.prefer("numpy"):
        raw = unhub.fit(items, method="raw")
    return replace(small_space(), gallery=Gallery(items, {}), correction=raw, samples=None, bank=None, encoder=encoder)


def png(width: int = 40, height: int = 30) -> bytes:
    content = io.BytesIO()
    image.fromarray(media.colours(3, height, width)).save(content, "PNG")
    return content.getvalue()


def test_a_text_is_searched_with_the_vector_of_the_encoder(space: ServedSpace) -> None:
    assert space.encoder is not None
    vector = space.encoder.texts(["a dark circle"])[0]
    with served(space) as (_, client):
        about = client.get("/v1/about").json()
        assert about["can"]["text"] and about["can"]["picture"]
        by_text = client.post("/v1/search", json={"text": "a dark circle"}).json()
        by_vector = client.post("/v1/search", json={"vector": vector.tolist()}).json()
        assert [hit["id"] for hit in by_text["hits"]] == [hit["id"] for hit in by_vector["hits"]]
        both = client.post("/v1/search", json={"texts": ["a dark circle", "in the picture"], "combine": "mf"})
        assert len(both.json()["hits"]) == 6
        assert told(client.post("/v1/search", json={"text": " "}))["problem"] == "is empty"
        assert "2,000" in told(client.post("/v1/search", json={"text": "a " * 2000}))["problem"]


def test_a_picture_is_searched_with(space: ServedSpace, tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(png())
    assert space.encoder is not None
    vector = space.encoder.picture(png())[0]
    with served(space) as (_, client):
        body = {"picture": base64.b64encode(png()).decode()}
        by_picture = client.post("/v1/search", json=body).json()
        by_vector = client.post("/v1/search", json={"vector": vector.tolist()}).json()
        assert [hit["id"] for hit in by_picture["hits"]] == [hit["id"] for hit in by_vector["hits"]]


def test_what_is_no_picture_is_refused(space: ServedSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    bitmap = io.BytesIO()
    image.new("RGB", (4, 4)).save(bitmap, "BMP")
    with served(space) as (_, client):
        for content in (b"", b"hello", png()[:60], bitmap.getvalue(), b"<svg/>"):
            body = {"picture": base64.b64encode(content).decode()}
            assert told(client.post("/v1/search", json=body))["argument"] == "picture"
        assert "base64" in told(client.post("/v1/search", json={"picture": "not base64!"}))["problem"]
        monkeypatch.setattr("unhub.service.encoders.MOST_PIXELS", 100)
        body = {"picture": base64.b64encode(png()).decode()}
        assert "40 x 30 pixels" in told(client.post("/v1/search", json=body))["problem"]
