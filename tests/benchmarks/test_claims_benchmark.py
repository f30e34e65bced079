"""The benchmark of the papers' claims on a tiny set in the layout of the real one: what it measures and writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.flickr8k import SPACES

pytestmark = pytest.mark.once

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGE = "# Claims\n\n<!-- tables -->\n\nof yesterday\n\n<!-- end of tables -->\n\nAfter.\n"
SPLITS = {"train": 10, "bank": 60, "val": 40, "test": 40}
LISTS = {"train": ("train", "bank"), "dev": ("val",), "test": ("test",)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write images with five captions each, their official lists, and embeddings with a shared direction."""
    embeddings, lists = tmp_path / "flickr8k", tmp_path / "annotations" / "Flickr8k"
    embeddings.mkdir()
    lists.mkdir(parents=True)
    split = [name for name, count in SPLITS.items() for _ in range(count)]
    images = [f"{number}_{name}.jpg" for number, name in enumerate(split)]
    captions = [f"{image}#{number}" for image in images for number in range(5)]
    owners = np.repeat(np.arange(len(images)), 5)
    meta = {"image_ids": images, "caption_ids": captions, "caption_image": owners.tolist(), "split": split}
    (embeddings / "meta.json").write_text(json.dumps(meta))
    for seed, space in enumerate(SPACES):
        random = np.random.default_rng(seed)
        pictures = random.normal(size=(len(images), 12)) + 0.5
        texts = pictures[owners] + 1.5 * random.normal(size=(len(captions), 12))
        np.save(embeddings / f"{space}_img.npy", pictures.astype(np.float16))
        np.save(embeddings / f"{space}_txt.npy", texts.astype(np.float16))
    (lists / "Flickr8k.token.txt").write_text("".join(f"{one}\ta caption\n" for one in captions))
    for name, parts in LISTS.items():
        chosen = [image for image, part in zip(images, split, strict=True) if part in parts]
        (lists / f"Flickr_8k.{name}Images.txt").write_text("\n".join(chosen))
    return tmp_path


def test_every_claim_gets_an_answer_and_goes_into_the_page(data: Path, tmp_path: Path) -> None:
    (tmp_path / "claims.md").write_text(PAGE)
    command = [sys.executable, str(BENCHMARKS / "claims.py"), "--work", str(tmp_path / "W"), "--threads", "1"]
    given = ["--space", "ridge", "--directions", "t2i", "--docs", str(tmp_path / "claims.md")]
    environment = {**os.environ, "UNHUB_DATA": str(data), "PYTHONPATH": str(BENCHMARKS.parent / "src")}
    done = subprocess.run([*command, *given], env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "claims.md").read_text()
    assert "of yesterday" not in page
    assert done.stdout.strip() in page
    rows = [line for line in page.splitlines() if line.startswith("| ") and "`qbnorm`" in line]
    assert len(rows) == 8
    assert all(
        row.rstrip("| ").rsplit("|", 1)[1].strip() in ("agrees", "does not agree", "not certain") for row in rows
    )
    assert "`nnn:" in page
    assert len(list((tmp_path / "W" / "results").glob("*.json"))) == 1
