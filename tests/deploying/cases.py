"""A gallery with strong hubs in an engine, with queries and a bank, for tests of deployments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import unhub
from tests.stores.engines import COLOURS, Engine
from unhub.arrays import Float32, Ids, Kind
from unhub.correction import Bias
from unhub.data.vectors import Vectors
from unhub.search.hits import Hits
from unhub.stores.store import Store, StoredItems

ITEMS, DIMENSIONS = 300, 12


def gallery(count: int = ITEMS, seed: int = 0) -> Float32:
    """Return items of which the first few are near the mean query, and so hubs."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, DIMENSIONS))
    rows[:, 0] += np.where(np.arange(count) < count // 20, 2.5, 0.4)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def asking(count: int, seed: int) -> Float32:
    """Return queries, most of which are near each other; not of length one."""
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSIONS))
    rows[:, 0] += 1.5
    return rows.astype(np.float32)


@dataclass(frozen=True)
class Deployed:
    """A filled store, the correction fitted on it, and what exact search finds."""

    store: Store
    correction: Bias
    rows: Float32
    ids: Ids
    queries: Float32

    def exact(self, k: int = 10, strength: float = 1.0) -> Hits:
        return unhub.searcher(Vectors(self.ids, self.rows), self.correction).search(self.queries, k, strength)


def in_engine(engine: Engine, folder: Path, similarity: Kind = "cosine", method: str = "nnn:k=16") -> Deployed:
    """Fill a store of the engine and fit a correction on it."""
    if similarity not in engine.metrics:
        pytest.skip(f"the engine cannot: {engine.name} has no {similarity}")
    store = engine.open(folder)
    rows, ids = gallery(), np.arange(1000, 1000 + ITEMS)
    store.create(DIMENSIONS, similarity)
    payload = [{"colour": COLOURS[i % 3], "number": i} for i in range(ITEMS)]
    store.write(StoredItems(ids, rows, None if "payload" in engine.cannot else payload))
    store.finish()
    correction = cast("Bias", unhub.fit(store, asking(500, 1), method=method, similarity=similarity))
    held = store.vectors()
    order = np.argsort(held.ids)
    return Deployed(store, correction, np.asarray(held.rows)[order], held.ids[order], asking(60, 2))
