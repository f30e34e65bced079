"""Batches: what training and validation draw from the captions of items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from unhub.data.captions import Captions
from unhub.data.ragged import Positions
from unhub.training.settings import Settings

NOBODY = -1  # in the place of a missing caption


class Batch(NamedTuple):
    """Items (targets,) and the captions of each, (targets, k), as positions; -1 if a target has fewer captions."""

    items: Positions
    texts: Positions


def batches(captions: Captions, settings: Settings, epoch: int) -> Iterator[Batch]:
    """Yield every item once, in a random order, with captions drawn without replacement.

    Each item comes with `settings.queries` captions; with combination training, with one or with `queries` of them, at
    even odds. What is drawn depends only on the seed and the number of the epoch.
    """
    generator = np.random.default_rng([settings.seed, epoch])
    order = generator.permutation(len(captions))
    for part in np.array_split(
        order, -(-len(captions) // settings.batch)
    ):  # of nearly equal sizes, so that none is tiny
        wanted = np.full(len(part), settings.queries)
        if settings.combination:
            wanted[generator.random(len(part)) < 0.5] = 1
        yield Batch(captions.items[part], _drawn(captions, part, wanted, generator))


def validation_sets(captions: Captions, size: int, seed: int) -> Batch:
    """Return disjoint sets of `size` captions of each item, drawn once; all captions of an item that has fewer."""
    generator = np.random.default_rng([seed, size])
    counts = captions.counts
    mixed = _drawn(captions, np.arange(len(captions)), counts, generator)
    owners = [np.repeat(item, max(1, count // size)) for item, count in enumerate(counts.tolist())]
    places = [np.arange(len(one)) * size for one in owners]
    rows, firsts = np.concatenate(owners), np.concatenate(places)
    padded = np.pad(mixed, ((0, 0), (0, size)), constant_values=NOBODY)
    return Batch(captions.items[rows], padded[rows[:, None], firsts[:, None] + np.arange(size)])


def _drawn(captions: Captions, part: Positions, wanted: Positions, generator: np.random.Generator) -> Positions:
    """Return `wanted` captions of each of these items in random order, (part, largest wanted), padded with -1."""
    counts = captions.counts[part]
    keys = generator.random((len(part), int(counts.max())))
    places = np.arange(keys.shape[1])
    keys[places >= counts[:, None]] = np.inf  # behind those that exist
    chosen = np.argsort(keys, axis=1, kind="stable")[:, : int(wanted.max())]
    texts = captions.texts[np.minimum(captions.starts[part][:, None] + chosen, len(captions.texts) - 1)]
    kept = np.arange(chosen.shape[1]) < np.minimum(wanted, counts)[:, None]
    return np.where(kept, texts, NOBODY)
