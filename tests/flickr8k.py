"""The Flickr8k embeddings, which are not part of the project: a test that loads them skips where they are absent."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

SPACES = ("ridge", "vse_holdout")


@dataclass(frozen=True)
class Flickr8k:
    """Test and bank embeddings of one space; `truth[i]` is the row of `test_images` that test text i describes."""

    test_texts: NDArray[np.float64]
    test_images: NDArray[np.float64]
    bank_texts: NDArray[np.float64]
    bank_images: NDArray[np.float64]
    truth: NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Embeddings of one split; `truth[i]` is the row of `images` that text i describes."""

    texts: NDArray[np.float64]
    images: NDArray[np.float64]
    truth: NDArray[np.int64]


def folder() -> Path | None:
    """Find the flickr8k folder in $UNHUB_DATA, or where that is unset in ../shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    found = Path(os.environ.get("UNHUB_DATA") or beside) / "flickr8k"
    return found if (found / "meta.json").is_file() else None


def load_split(space: str, split: str) -> Split:
    """Load a split ("train", "bank", "val", "test" or "extra") of a space, or skip the running test."""
    data = folder()
    if data is None:
        pytest.skip("flickr8k embeddings not found: set UNHUB_DATA to the folder that holds flickr8k/")
    meta = json.loads((data / "meta.json").read_text(encoding="utf-8"))
    image_split, text_image = np.array(meta["split"]), np.array(meta["caption_image"], dtype=np.int64)
    image_rows, text_rows = np.flatnonzero(image_split == split), np.flatnonzero(image_split[text_image] == split)
    return Split(
        texts=np.load(data / f"{space}_txt.npy")[text_rows].astype(np.float64),
        images=np.load(data / f"{space}_img.npy")[image_rows].astype(np.float64),
        truth=np.searchsorted(image_rows, text_image[text_rows]).astype(np.int64),
    )


def load(space: str) -> Flickr8k:
    """Load the test and bank splits of a space ("ridge" or "vse_holdout"), or skip the running test."""
    test, bank = load_split(space, "test"), load_split(space, "bank")
    return Flickr8k(test.texts, test.images, bank.texts, bank.images, test.truth)
