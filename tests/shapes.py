"""Small generated data with hubs, for what is shown to people: two queries for each item, and a bank like them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests import oracles


@dataclass(frozen=True)
class Data:
    """Items, queries, a bank, and which item answers which query; query i is about item i // 2."""

    items: NDArray[np.float32]
    queries: NDArray[np.float32]
    bank: NDArray[np.float32]

    @property
    def relevance(self) -> list[tuple[int, int]]:
        return [(query, query // 2) for query in range(len(self.queries))]

    @property
    def scores(self) -> oracles.Floats:
        return oracles.cosine(self.queries.astype(np.float64), self.items.astype(np.float64))

    @property
    def bank_scores(self) -> oracles.Floats:
        return oracles.cosine(self.bank.astype(np.float64), self.items.astype(np.float64))

    def recall(self, scores: oracles.Floats, k: int) -> float:
        """Return R@k in per cent, by the slow reference."""
        return oracles.recall_at(scores, [{query // 2} for query in range(len(self.queries))], k)


def generate(items: int = 90, bank: int = 260, dimensions: int = 24, noise: float = 1.1, seed: int = 3) -> Data:
    """Draw meanings, then items and queries around them, each kind pushed in a direction of its own."""
    random = np.random.default_rng(seed)

    def draw(rows: int, scale: float = 1.0) -> NDArray[np.float64]:
        return random.normal(scale=scale / dimensions**0.5, size=(rows, dimensions))

    cone, meanings, others = draw(1), draw(items), draw(bank)
    return Data(
        (meanings + draw(items, noise)).astype(np.float32),
        (np.repeat(meanings, 2, axis=0) + cone + draw(2 * items, noise)).astype(np.float32),
        (others + cone + draw(bank, noise)).astype(np.float32),
    )
