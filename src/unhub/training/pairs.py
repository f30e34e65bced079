"""Pairs: which captions describe which item, and the batches that training draws from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.data.relevance import RelevanceLike, as_relevance

Positions = NDArray[np.int64]
NOBODY = -1  # in the place of a caption that a set does not have


class Batch(NamedTuple):
    """Items (targets,) and the captions of each, (targets, k), as positions; -1 where a target has fewer captions."""

    items: Positions
    texts: Positions


@dataclass(frozen=True, eq=False)
class Pairs:
    """Items with captions: those of `items[i]` are `texts[starts[i]:starts[i + 1]]`, all as positions."""

    items: Positions
    starts: Positions
    texts: Positions
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(relevance: RelevanceLike, texts: Ids, items: Ids, queries: int = 1, validation: bool = False) -> Pairs:
        """Find the captions of each item; what is left out and items with fewer captions than `queries` are counted.

        A caption that describes several items belongs to each. In validation an item without a caption can still be
        found, if wrongly.
        """
        table = as_relevance(relevance)
        truth = table.against(texts, items)
        order = np.argsort(truth.positions, kind="stable")
        described, counts = np.unique(truth.positions, return_counts=True)
        of = " of validation" if validation else ""
        lost, short = len(table) - len(truth.positions), int((counts < queries).sum())
        silent, stray = len(items) - len(described), len(texts) - len(truth.answered)
        fate = "are not asked for, but may be found" if validation else "are left out"
        said = {
            f"{lost:,} of {len(table):,} pairs{of} name a caption or an item that is not there, and are left out": lost,
            f"{silent:,} of {len(items):,} items{of} without a caption {fate}": silent,
            f"{stray:,} of {len(texts):,} captions{of} of no item are left out": stray,
            f"{short:,} of {len(described):,} items{of} have fewer than {queries} captions, and come with all": short,
        }
        notes = tuple(note for note, count in said.items() if count)
        return Pairs(described, np.concatenate([[0], np.cumsum(counts)]), truth.owners[order], notes)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def counts(self) -> Positions:
        """How many captions each item has, (items,)."""
        return np.diff(self.starts)

    def batches(self, seed: int, epoch: int, size: int, queries: int, combination: bool) -> Iterator[Batch]:
        """Yield every item once, in an order drawn anew, with captions drawn without replacement.

        Each item comes with `queries` captions, or with combination training with one or with `queries` of them, by the
        toss of a coin. What is drawn depends on the seed and the number of the epoch alone.
        """
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(len(self))
        for part in np.array_split(order, -(-len(self) // size)):  # of nearly one size, so that no batch is tiny
            wanted = np.full(len(part), queries)
            if combination:
                wanted[generator.random(len(part)) < 0.5] = 1
            yield Batch(self.items[part], self._drawn(part, wanted, generator))

    def sets(self, size: int, seed: int) -> Batch:
        """Return disjoint sets of `size` captions of each item, drawn once; all of them where an item has fewer."""
        generator = np.random.default_rng([seed, size])
        counts = self.counts
        mixed = self._drawn(np.arange(len(self)), counts, generator)
        owners = [np.repeat(item, max(1, count // size)) for item, count in enumerate(counts.tolist())]
        places = [np.arange(len(one)) * size for one in owners]
        rows, firsts = np.concatenate(owners), np.concatenate(places)
        padded = np.pad(mixed, ((0, 0), (0, size)), constant_values=NOBODY)
        return Batch(self.items[rows], padded[rows[:, None], firsts[:, None] + np.arange(size)])

    def _drawn(self, part: Positions, wanted: Positions, generator: np.random.Generator) -> Positions:
        """Return so many captions of these items in random order, (part, most of them); -1 fills up."""
        counts = self.counts[part]
        keys = generator.random((len(part), int(counts.max())))
        places = np.arange(keys.shape[1])
        keys[places >= counts[:, None]] = np.inf  # behind those that exist
        chosen = np.argsort(keys, axis=1, kind="stable")[:, : int(wanted.max())]
        texts = self.texts[np.minimum(self.starts[part][:, None] + chosen, len(self.texts) - 1)]
        kept = np.arange(chosen.shape[1]) < np.minimum(wanted, counts)[:, None]
        return np.where(kept, texts, NOBODY)
