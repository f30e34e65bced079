"""Embeddings of CUB-200-2011, which are not part of the project: a test that loads them skips where they are absent."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

FIRST_TEST_CLASS = 101  # of 200; the classes before it are the bank


@dataclass(frozen=True)
class Cub:
    """Images of birds that ask for each other, with the class of each; the bank is of other classes."""

    images: NDArray[np.float64]
    labels: NDArray[np.int64]
    bank: NDArray[np.float64]


def load() -> Cub:
    """Load the images from $UNHUB_DATA, or from ../shared/data beside the checkout, or skip the running test."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("UNHUB_DATA") or beside) / "cub"
    if not (folder / "meta.json").is_file():
        pytest.skip("cub embeddings not found: set UNHUB_DATA to the folder that holds cub/")
    labels = np.array(json.loads((folder / "meta.json").read_text(encoding="utf-8"))["label"], np.int64)
    images = np.load(folder / "images.npy").astype(np.float64)
    test = labels >= FIRST_TEST_CLASS
    return Cub(images[test], labels[test], images[~test])
