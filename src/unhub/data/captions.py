"""Captions: which texts describe which item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unhub.data.ragged import Positions, Ragged
from unhub.data.relevance import Truth


@dataclass(frozen=True, eq=False)
class Captions(Ragged):
    """The texts of each item that has any, as positions: row i of `texts` holds those of `items[i]`, ascending."""

    FLAT: ClassVar = ("texts",)
    PER_ROW: ClassVar = ("items",)

    items: Positions
    texts: Positions

    @staticmethod
    def of(truth: Truth) -> Captions:
        """Turn which items answer each text into which texts each item has; a text may describe several items."""
        return Captions.paired(truth.positions, truth.owners)

    @staticmethod
    def paired(items: Positions, texts: Positions) -> Captions:
        """Group pairs of an item and a text that describes it."""
        order = np.lexsort((texts, items))
        described, first = np.unique(items[order], return_index=True)
        return Captions(np.append(first, len(order)), described, texts[order])

    @property
    def described(self) -> Positions:
        """The position of the item that each text describes, (texts,)."""
        return self.items[self.owners]

    def keys(self, texts: int) -> Positions:
        """Return an ascending number for each pair of an item and its text; `texts` is the number of texts."""
        return self.described * texts + self.texts

    def moved(self, texts: Positions, items: Positions) -> Captions:
        """Return the same captions where text i is now at `texts[i]` and item i at `items[i]`."""
        return Captions.paired(items[self.described], texts[self.texts])
