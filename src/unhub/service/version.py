"""Version: one correction over one state of the items, with its searcher; every answer comes from one of these."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

import unhub
from unhub.arrays import Float32, Float64, Ids
from unhub.correction import Bias, Correction, Plan
from unhub.data.vectors import Vectors, take
from unhub.errors import ArgumentError
from unhub.search.hits import Hits, Id, Names, Positions
from unhub.search.searcher import Searcher, searcher
from unhub.stores.store import Store

if TYPE_CHECKING:
    from unhub.combine import CombinationLike
    from unhub.search.hits import Excluded
    from unhub.service.served import Gallery
    from unhub.stores.store import Where

LARGEST_EXACT = 1 << 53  # of the integers that a float64 holds
FIRST_SURROGATE, LAST_SURROGATE = 0xD800, 0xDFFF  # letters that no text of UTF-8 has
HUB_DEVIATIONS = 2.0  # above the mean: of the counts, or of the biases where nothing was counted


class UnknownItem(ArgumentError):
    """An item that is not among those served."""


@dataclass(frozen=True, eq=False)
class Version:
    """A correction and the items, ready to search; it never changes, so that an answer belongs wholly to it.

    correction_name: that of the correction, such as v2. bank: what the correction was fitted on, which new items need.
    raw: a searcher without correction, where the corrected one cannot be asked at strength 0.
    """

    correction_name: str
    gallery: Gallery
    correction: Correction
    searcher: Searcher
    raw: Searcher | None
    bank: Vectors | None
    when: float = field(default_factory=time.time)

    @staticmethod
    def of(
        correction_name: str,
        gallery: Gallery,
        correction: Correction,
        bank: Vectors | None,
        index: str | None = None,
        threads: int | None = None,
    ) -> Version:
        """Index the items for a correction that was fitted on them; raise for one that a service cannot use."""
        check_servable(correction)
        check_ids(correction.ids)
        made = searcher(gallery.items, correction, index, threads=threads)
        raw = None
        if not isinstance(correction, Bias):
            similarity = correction.source.similarity
            flat = unhub.fit(gallery.held, method="raw", similarity=cast("unhub.arrays.Kind", similarity))
            raw = searcher(gallery.held, flat, threads=threads)
        version = Version(correction_name, gallery, correction, made, raw, bank)
        version.names.looked_up(correction.ids[:1])  # sorts the ids, which the first search need not wait for
        return version

    @property
    def name(self) -> str:
        """The name that answers carry: that of the correction, and the number of changes to the items, if any."""
        revision = self.gallery.revision
        return f"{self.correction_name}.{revision}" if revision else self.correction_name

    def __len__(self) -> int:
        return len(self.searcher)

    @cached_property
    def names(self) -> Names:
        """The ids of the items and their positions, in the order of the correction."""
        return Names(self.correction.ids)

    @property
    def bias(self) -> Float64 | None:
        """h of each item, or None where the correction is more than that."""
        return self.correction.bias if isinstance(self.correction, Bias) else None

    @cached_property
    def bias_places(self) -> Positions | None:
        """The place of each item by its bias, 1 for the largest."""
        if self.bias is None:
            return None
        places = np.empty(len(self.bias), np.int64)
        places[np.argsort(-self.bias, kind="stable")] = np.arange(1, len(self.bias) + 1)
        return places

    @cached_property
    def largely_biased(self) -> frozenset[int]:
        """The positions of items whose bias is far above the others': hubs, where nothing was counted."""
        if self.bias is None or not len(self.bias):
            return frozenset()
        return far_above(self.bias)

    def position(self, one: Id, name: str = "item") -> int:
        """Return the position of an item; raise if it is not served."""
        ids = self.correction.ids
        if isinstance(one, int) == (ids.dtype.kind == "i") and _fits(one):
            position = int(self.names.looked_up(np.array([one]))[0][0])
            if position >= 0:
                return position
        kind = "an integer" if ids.dtype.kind == "i" else "a text"
        raise UnknownItem(name, f"{one!r} is not one of the {len(self):,} items", f"give the id of one, {kind}")

    def vector(self, one: Id) -> Float32:
        """Return the vector of an item as a query, (1, dimensions)."""
        position = self.position(one)
        items = self.gallery.items
        if isinstance(items, Store):
            found = items.served().fetch(self.correction.ids[position : position + 1])
            layout = items.served().layout()
            if not len(found.ids):
                raise UnknownItem("item", f"{one!r} is no longer in the store", "sync the correction with the store")
            return found.rows if layout is None else layout.originals(found.rows)
        return np.asarray(take(self.searcher.items.rows, np.array([position])), np.float32)

    def search(
        self,
        sets: Sequence[Float32],
        k: int,
        strength: Float64,
        combine: CombinationLike | None = None,
        among: Sequence[Id] | None = None,
        exclude: Excluded | None = None,
        where: Where = None,
    ) -> Hits:
        """Return the k best items of each set of queries, (1, dimensions) each where nothing is combined."""
        return _search(self.searcher, sets, k, strength, combine, (among, exclude, where))

    def search_raw(
        self,
        sets: Sequence[Float32],
        k: int,
        combine: CombinationLike | None = None,
        among: Sequence[Id] | None = None,
        exclude: Excluded | None = None,
        where: Where = None,
    ) -> Hits:
        """Return the k best items of each set of queries without the correction."""
        if self.raw is not None:
            return _search(self.raw, sets, k, np.ones(len(sets)), combine, (among, exclude, where))
        return _search(self.searcher, sets, k, np.zeros(len(sets)), combine, (among, exclude, where))


def _search(
    by: Searcher,
    sets: Sequence[Float32],
    k: int,
    strength: Float64,
    combine: CombinationLike | None,
    limits: tuple[Sequence[Id] | None, Excluded | None, Where],
) -> Hits:
    among, exclude, where = limits
    if combine is None:
        return by.search(np.concatenate(sets), k, strength, exclude, among, where=where)
    return by.search_sets(sets, k, combine, strength, exclude, among, where=where)


def _fits(one: Id) -> bool:
    # An array of texts would drop the NUL and find another id.
    return not one.endswith("\0") if isinstance(one, str) else -(1 << 63) <= one < 1 << 63


def check_servable(correction: Correction) -> None:
    """Raise for a plan: it ranks a whole batch of queries at once, and a service answers one at a time."""
    if isinstance(correction, Plan):
        raise ArgumentError(
            "correction",
            f"of {correction.spec!r} is a plan: it balances a whole batch of queries, and a service answers one query "
            "at a time",
            "fit a method that is one number per item, such as is or nnn",
        )


def check_ids(ids: Ids) -> None:
    """Raise for an integer id that a page, and many a reader of JSON, would round, and for a text that JSON lacks."""
    if ids.dtype.kind != "i":
        letters = np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), -1)
        halves = ((letters >= FIRST_SURROGATE) & (letters <= LAST_SURROGATE)).any(axis=1)
        if halves.any():
            problem = f"{ids[halves][0].item()!r} is not valid text, as where the name of a file is not UTF-8"
            raise ArgumentError("ids", problem, "name the item otherwise")
        return
    numbers = cast("Positions", ids)
    large = numbers[(numbers > LARGEST_EXACT) | (numbers < -LARGEST_EXACT)]
    if len(large):
        problem = f"{large[0]} is beyond 2^53, where JavaScript and many readers of JSON round"
        raise ArgumentError("ids", problem, "name the items by texts: the same digits, as strings")


def far_above(values: Float64) -> frozenset[int]:
    """Return the positions of the values over the mean by more than HUB_DEVIATIONS standard deviations."""
    limit = float(values.mean()) + HUB_DEVIATIONS * float(values.std())
    return frozenset(np.flatnonzero(values > limit).tolist())
