"""Asking: the texts of all draws, item by item, so that each is compared with the gallery once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unhub.arrays import Span
from unhub.data.draws import Draws
from unhub.data.ragged import Positions, Ragged, starts_from
from unhub.data.relevance import Truth


@dataclass(frozen=True, eq=False)
class Asked(Ragged):
    """The sets of one size, as rows of texts, (sets, size); row i of `rows` belongs to target i.

    truth: the item that each set searches for.
    """

    FLAT: ClassVar = ("rows",)

    size: int
    rows: Positions
    truth: Truth


@dataclass(frozen=True, eq=False)
class Asking(Ragged):
    """The texts of each target; row i of `texts` belongs to target i.

    items: the positions of the targets, (targets,). texts: the position of each row's text; a text of two items has
    two rows. sizes: the sets, as rows.
    """

    FLAT: ClassVar = ("texts",)
    PER_ROW: ClassVar = ("items",)

    items: Positions
    texts: Positions
    sizes: Mapping[int, Asked]

    @staticmethod
    def of(draws: Draws) -> Asking:
        """Gather the texts of all sets."""
        many = len(draws.text_ids)
        keys = {
            size: drawn.items[drawn.owners][:, None] * many + drawn.texts
            for size, drawn in draws.sizes.items()
            if len(drawn.items)
        }
        every = np.unique(np.concatenate([one.ravel() for one in keys.values()]))
        items, first = np.unique(every // many, return_index=True)
        sizes = {size: _asked(draws, size, items, np.searchsorted(every, one)) for size, one in keys.items()}
        return Asking(np.append(first, len(every)), items, every % many, sizes)

    def blocks(self, rows: int) -> Iterator[Span]:
        """Yield spans of targets with at most `rows` rows together, but at least one target each."""
        start = 0
        while start < len(self.items):
            stop = int(np.searchsorted(self.starts, self.starts[start] + rows, side="right")) - 1
            yield start, (start := max(stop, start + 1))


def _asked(draws: Draws, size: int, items: Positions, rows: Positions) -> Asked:
    drawn = draws.sizes[size]
    counts = np.zeros(len(items), np.int64)
    counts[np.searchsorted(items, drawn.items)] = drawn.counts
    sets = len(rows)
    truth = Truth(np.arange(sets + 1), drawn.items[drawn.owners], np.ones(sets))
    return Asked(starts_from(counts), size, rows, truth)
