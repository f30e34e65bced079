"""Small items with captions to train on: both are noisy views of what an item is, of different widths."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import unhub


@dataclass(frozen=True)
class Captioned:
    """Captions and items with ids of their own, and (caption id, item id) pairs."""

    texts: unhub.Vectors
    items: unhub.Vectors
    relevance: list[tuple[str, str]]

    @property
    def all(self) -> tuple[unhub.Vectors, unhub.Vectors, list[tuple[str, str]]]:
        return self.texts, self.items, self.relevance


def captioned(items: int = 40, seed: int = 0, most: int = 4, features: tuple[int, int] = (12, 20)) -> Captioned:
    """Return items with 1 to `most` captions each; the seed draws the items, the two views are always the same."""
    views = [np.random.default_rng(7).normal(size=(6, width)) for width in features]
    random = np.random.default_rng(seed)
    what = random.normal(size=(items, 6))
    owners = np.repeat(np.arange(items), 1 + np.arange(items) % most)
    texts = what[owners] @ views[0] + random.normal(size=(len(owners), features[0]))
    shown = np.maximum(what @ views[1] + 0.3 * random.normal(size=(items, features[1])), 0)
    mixed = random.permutation(len(owners))  # so that nothing hangs on the order of the captions
    names: NDArray[np.str_] = np.array([f"caption {number}" for number in range(len(owners))])
    pairs = [(str(names[place]), f"item {owner}") for place, owner in enumerate(owners[mixed])]
    return Captioned(
        unhub.Vectors(names, texts[mixed].astype(np.float32)),
        unhub.Vectors(np.array([f"item {number}" for number in range(items)]), shown.astype(np.float32)),
        pairs,
    )
