"""Draws: which texts of each item form one set of queries, by size; the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.data.captions import Captions
from unhub.data.ragged import Positions, Ragged, starts_from
from unhub.data.relevance import RelevanceLike, as_relevance, matching, places_of
from unhub.data.vectors import VectorsLike, as_vectors
from unhub.errors import ArgumentError, check_seed, check_whole

DEFAULT_SIZES = (1, 2, 3, 5)
DEFAULT_DRAWS = 100  # as in Wang et al. 2022


@dataclass(frozen=True, eq=False)
class Drawn(Ragged):
    """The sets of one size: row i of `texts` holds those of `items[i]` as positions of texts, (sets, size).

    whole: whether an item's sets are all subsets of its texts, each once, (items,). short: how many items were left out
    because they have some texts but fewer than the size.
    """

    FLAT: ClassVar = ("texts",)
    PER_ROW: ClassVar = ("items", "whole")

    items: Positions
    texts: Positions
    whole: NDArray[np.bool_]
    short: int

    def moved(self, texts: Positions, items: Positions) -> Drawn:
        """Return the same sets where text i is now at `texts[i]` and item i at `items[i]`."""
        ordered = self.gather(np.argsort(items[self.items]))
        return replace(ordered, items=items[ordered.items], texts=np.sort(texts[ordered.texts], axis=1))


@dataclass(frozen=True, eq=False)
class Draws:
    """Sets of texts for each item and size: `count` drawn without replacement, or all if there are at most that many.

    text_ids, item_ids: the ids of all texts and items. captions: which texts each item had. They make sure that draws
    are used only with the data they were made for.
    """

    text_ids: Ids
    item_ids: Ids
    captions: Captions
    sizes: Mapping[int, Drawn]
    count: int
    seed: int

    @staticmethod
    def of(
        texts: VectorsLike,
        items: VectorsLike,
        relevance: RelevanceLike,
        sizes: Iterable[int] = DEFAULT_SIZES,
        draws: int = DEFAULT_DRAWS,
        seed: int = 0,
    ) -> Draws:
        """Draw sets of texts for every item that has texts by `relevance`, which maps a text's id to its items' ids.

        Every draw is independent, so the same set may occur twice. An item with at most `draws` different sets of a
        size gets each of them once instead. The random bits are those of PCG64 seeded with (seed, size), and a set is
        the positions of the smallest of them, so every version of numpy draws the same sets.
        """
        text_ids, item_ids = as_vectors(texts, "texts").ids, as_vectors(items, "items").ids
        captions = Captions.of(as_relevance(relevance).against(text_ids, item_ids))
        return Draws.drawn(text_ids, item_ids, captions, check_sizes(sizes), draws, seed)

    @staticmethod
    def drawn(text_ids: Ids, item_ids: Ids, captions: Captions, sizes: Iterable[int], draws: int, seed: int) -> Draws:
        """Draw sets from known captions."""
        count, first = check_whole(draws, "draws", 1), check_seed(seed)
        sets = {size: _draw(captions, size, count, first) for size in sizes}
        return Draws(text_ids, item_ids, captions, sets, count, first)

    def __repr__(self) -> str:
        sets = ", ".join(f"{len(one.texts)} of size {size}" for size, one in self.sizes.items())
        return f"<Draws of {len(self.text_ids)} texts for {len(self.item_ids)} items: {sets}>"

    def against(self, text_ids: Ids, item_ids: Ids, captions: Captions) -> Draws:
        """Return the draws for these texts, items and captions, in any order; raise if they were made for others."""
        texts, items = _moves(self.text_ids, text_ids, "text"), _moves(self.item_ids, item_ids, "item")
        before, now = (one.keys(len(text_ids)) for one in (self.captions.moved(texts, items), captions))
        strange = np.setxor1d(before, now)
        if len(strange):
            item, text = divmod(int(strange[0]), len(text_ids))
            pairs = "1 pair" if len(strange) == 1 else f"{len(strange)} pairs"
            then, today = ("described", "does not") if strange[0] in before else ("did not describe", "does")
            raise ArgumentError(
                "draws",
                f"differs from the relevance in {pairs}: text {text_ids[text].item()!r} {then} item "
                f"{item_ids[item].item()!r} and now {today}",
                "draw again, or give the relevance of the draws",
            )
        sizes = {size: one.moved(texts, items) for size, one in self.sizes.items()}
        return Draws(text_ids, item_ids, captions, sizes, self.count, self.seed)


def check_sizes(sizes: Iterable[int]) -> tuple[int, ...]:
    """Return a user's sizes in ascending order, without repeats."""
    given: object = sizes  # an untyped caller may pass anything
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentError("sizes", f"must be a list of whole numbers, for example 1, 2, 3, 5, got {given!r}")
    each = {check_whole(size, "sizes", 1) for size in given}
    if not each:
        raise ArgumentError("sizes", "is empty", "give at least one number of texts per set")
    return tuple(sorted(each))


def _moves(before: Ids, now: Ids, what: str) -> Positions:
    """Return the current position of each id of the draws."""
    names = matching(before, now, what, "draws")
    places = places_of(names, now)
    if len(before) != len(now) or (places < 0).any():
        strange = names[places < 0]
        example = f", and {strange[0].item()!r} is missing" if len(strange) else ""
        raise ArgumentError(
            "draws",
            f"were made for {len(before)} {what}s, got {len(now)}{example}",
            f"draw again, or give the {what}s of the draws",
        )
    return places


def _draw(captions: Captions, size: int, count: int, seed: int) -> Drawn:
    enough = np.flatnonzero(captions.counts >= size)
    bits = np.random.PCG64(np.random.SeedSequence([seed, size]))
    sets = [*_sets(captions, enough, size, count, bits)]
    whole = np.array([comb(int(texts), size) <= count for texts in captions.counts[enough]], np.bool_)
    return Drawn(
        starts_from([*map(len, sets)]),
        captions.items[enough],
        np.concatenate(sets) if sets else np.empty((0, size), np.int64),
        whole,
        len(captions.items) - len(enough),
    )


def _sets(captions: Captions, numbers: Positions, size: int, count: int, bits: np.random.PCG64) -> Iterator[Positions]:
    """Yield the sets of some of the items, (sets, size) each."""
    for number in numbers:
        texts = captions.texts[captions.span(number, number + 1)]
        if comb(len(texts), size) <= count:
            yield texts[_every(len(texts), size)]
        else:
            keys = bits.random_raw(count * len(texts)).reshape(count, len(texts))
            yield np.sort(texts[np.argsort(keys, axis=1, kind="stable")[:, :size]], axis=1)


@cache
def _every(texts: int, size: int) -> Positions:
    return np.array([*combinations(range(texts), size)], np.int64)
