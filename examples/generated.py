"""Generated embeddings of two modalities, with hubs and with the right answer of every query known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Data:
    """Items and queries, query i about item i, and a bank: earlier queries and the items those were about."""

    items: NDArray[np.float32]
    queries: NDArray[np.float32]
    bank: NDArray[np.float32]
    bank_items: NDArray[np.float32]


def generate(
    items: int = 2000, bank: int = 6000, dimensions: int = 96, topics: int = 60, noise: float = 1.5, seed: int = 0
) -> Data:
    """Draw meanings, then an item and a query for each: the meaning, noise, and the direction of the modality.

    As with CLIP, all queries share one direction and all items another. An item whose noise happens to lean towards the
    queries' direction scores high with every query: a hub.
    """
    random = np.random.default_rng(seed)

    def draw(rows: int, scale: float = 1.0) -> NDArray[np.float64]:
        return random.normal(scale=scale / dimensions**0.5, size=(rows, dimensions))

    centres, item_cone, query_cone = draw(topics), draw(1, 1.1), draw(1, 1.1)

    def pairs(count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        meaning = centres[random.integers(topics, size=count)] + draw(count, 0.8)
        return _unit(meaning + item_cone + draw(count, noise)), _unit(meaning + query_cone + draw(count, noise))

    here, asked = pairs(items)
    earlier_items, earlier_queries = pairs(bank)
    return Data(here, asked, earlier_queries, earlier_items)


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit
