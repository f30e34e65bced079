"""A tiny data set with captions, as a reader would return it, and ready vectors of it with hubs."""

from pathlib import Path

import numpy as np

import unhub
from unhub.datasets.dataset import DataSet, Part, Protocol, Side

WIDTH = 8
CAPTIONS = 2
PARTS = {"train": 40, "val": 20, "test": 20}


def part_of(name: str, count: int) -> Part:
    """Return items with two captions each."""
    items = np.array([f"{name} picture {number}" for number in range(count)])
    texts = np.array([f"{one}#{number}" for one in items for number in range(CAPTIONS)])
    answers = np.repeat(items, CAPTIONS)
    return Part(
        Side("image", items, paths=tuple(Path(f"{one}.jpg") for one in items)),
        Side("text", texts, texts=tuple((str(one),) for one in texts)),
        unhub.Relevance(texts, answers),
    )


def tiny(**given: object) -> DataSet:
    """Return the data set; given: what differs from the usual."""
    parts = {name: part_of(name, count) for name, count in PARTS.items()}
    protocol = Protocol("text-image", ("t2i", "i2t"), ("R@1", "R@5", "MdR"))
    counted = {name: (count, CAPTIONS * count) for name, count in PARTS.items()}
    usual = {"parts": parts, "banks": dict(parts), "protocol": protocol, "counted": counted}
    return DataSet("tiny", "official", **{**usual, **given})  # type: ignore[arg-type]


def write_vectors(folder: Path, data: DataSet, seed: int = 0) -> Path:
    """Write the vectors of every part, without ids; a direction that all of them share makes hubs."""
    random = np.random.default_rng(seed)
    folder.mkdir()
    for name, part in data.parts.items():
        pictures = random.normal(size=(len(part.items), WIDTH)) + 1
        texts = np.repeat(pictures, CAPTIONS, axis=0) + random.normal(size=(len(part.queries), WIDTH))
        np.save(folder / f"{name}-items.npy", pictures.astype(np.float32))
        np.save(folder / f"{name}-queries.npy", texts.astype(np.float32))
    return folder
