"""`unhub bench` on pictures, clips and sounds in official layouts: from the files, by a tiny encoder, to a table."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

import unhub
from tests import media, tiny_encoders
from tests.command import succeed
from tests.datasets.official_layouts import WRITERS

pytestmark = pytest.mark.once

CLOSE = 2e-3  # of float16, in which vectors are kept


def fill(folder: Path) -> None:
    """Put a picture, clip or sound of its own into every media file."""
    for number, path in enumerate(sorted(one for one in folder.rglob("*") if one.is_file())):
        match path.suffix.lower():
            case ".jpg" | ".jpeg" | ".png":
                Image.fromarray(media.colours(number)).save(path)
            case ".mp4":
                media.write_video(path, 8 + 6 * number)
            case ".wav" | ".flac":
                rate = tiny_encoders.CLAP_RATE
                codec = {".wav": "pcm_s16le", ".flac": "flac"}[path.suffix]
                media.write_sound(path, media.tones(1, rate, seed=number), rate, codec)


class Way(NamedTuple):
    """A data set, the folder of a tiny encoder, a table, and the model and direction of the table that is run."""

    data_set: str
    encoder: Callable[[Path], Path]
    table: str
    model: str
    direction: str


WAYS = [
    Way("flickr30k", tiny_encoders.write_clip, "nnn:1", "CLIP", "t2i"),
    Way("msrvtt", tiny_encoders.write_clip, "dbsn:1", "CLIP4Clip", "t2v"),
    Way("audiocaps", tiny_encoders.write_clap, "dbsn:3", "zs CLAP", "t2a"),
    Way("cub", lambda folder: tiny_encoders.write_picture_model(folder, "ViT"), "dbsn:A5", "DINO", "i2i"),
    Way("imagenet", tiny_encoders.write_clip, "dbsn:A6", "zs CLIP ViT-B/32", "i2t"),
]


@pytest.mark.parametrize("way", WAYS, ids=[way.data_set for way in WAYS])
def test_files_in_the_official_layout_become_a_table(tmp_path: Path, way: Way) -> None:
    (tmp_path / "data").mkdir()
    WRITERS[way.data_set](tmp_path / "data")
    fill(tmp_path / "data")
    way.encoder(tmp_path / "model")
    paper = way.table.partition(":")[0]
    run = ("bench", "run", way.data_set, "--data", "data", "--encoder", "model", "--model", way.model, "--work", "W")
    succeed(tmp_path, *run, "--paper", paper, "--directions", way.direction, "--threads", "1")

    lines = json.loads(succeed(tmp_path, "bench", "table", way.table, "--work", "W", "--json"))["lines"]
    data = unhub.datasets.load(way.data_set, tmp_path / "data")
    measured = [line for line in lines if line["measured"]]
    assert {(line["data_set"], line["model"], line["direction"]) for line in measured} == {
        (way.data_set, way.model, way.direction)
    }
    assert len({line["method"] for line in measured}) > 1
    size = [len(data.queries), len(data.items)]
    assert all(line["measured_size"] == size != line["official_size"] for line in measured)  # that split is larger
    assert all(line["off_protocol"] and line["inside"] is None for line in measured)

    encoder = unhub.load_encoder(tmp_path / "model", device="cpu")
    which, side = ("queries", data.queries) if data.items.kind == "text" else ("items", data.items)
    (kept,) = (tmp_path / "W" / "embeddings").glob(f"*/*/test-{which}-*")
    rows = unhub.read_vectors(kept)
    vectors = np.asarray(rows.rows[:], np.float32)
    paths = [path for path in side.paths or () if path is not None]
    assert rows.ids.tolist() == side.ids.tolist() and len(paths) == len(side)
    if side.kind == "video":
        made = np.asarray(unhub.embed_videos(paths, encoder, tmp_path / "clips").vectors.rows[:], np.float32)
    else:
        made = encoder.sounds(paths) if side.kind == "audio" else encoder.images(paths)
    np.testing.assert_allclose(vectors, made, atol=CLOSE)
    assert len(np.unique(vectors, axis=0)) == len(side), "files that all look alike prove nothing"
