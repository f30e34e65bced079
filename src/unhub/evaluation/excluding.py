"""Excluding: items that are left out of the ranking of single queries, such as the query itself if it is an item."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids, Span
from unhub.data.ids import positions_of
from unhub.data.ragged import Positions, Ragged, starts_of
from unhub.data.relevance import Truth, places_of
from unhub.errors import ArgumentError
from unhub.search.hits import Excluded, listed

SELF = "self"  # a text alone is never a list of ids, so it cannot be mistaken for one
NOBODY = -1  # in a place for which no item is left


@dataclass(frozen=True, eq=False)
class Exclusion:
    """Pairs of a query and an item that is not ranked for it, by id, both (pairs,).

    own: whether these are the items with the queries' own ids.
    """

    query_ids: Ids
    item_ids: Ids
    own: bool = False

    @staticmethod
    def of(exclude: ExcludeLike, queries: Ids, items: Ids) -> Exclusion:
        """Check what a user gives for these queries: "self", or an entry for each, as `Searcher.search` takes it."""
        if isinstance(exclude, Exclusion):
            return exclude
        if isinstance(exclude, str):
            if exclude != SELF:
                raise ArgumentError(
                    "exclude",
                    f"must be {SELF!r}, or have one entry (an id, ids or None) for each of {len(queries)} queries, "
                    f"got {exclude!r}",
                )
            return Exclusion._own(queries, items)
        ids, counts = listed(exclude, len(queries))
        return Exclusion(
            queries[np.repeat(np.arange(len(queries)), counts)], items[positions_of(ids, items, "exclude")]
        )

    @staticmethod
    def _own(queries: Ids, items: Ids) -> Exclusion:
        """Pair each query with the item that has its id; integers also name ids that are strings."""
        alike = queries.dtype.kind == items.dtype.kind
        places = places_of(queries, items) if alike else places_of(queries.astype(np.str_), items.astype(np.str_))
        found = places >= 0
        if not found.any():
            raise ArgumentError(
                "exclude",
                "cannot leave out the item with the query's own id, since no item has the id of a query: the queries "
                f"have {queries[0].item()!r}, the items have {items[0].item()!r}",
                "give ids for both",
            )
        return Exclusion(queries[found], items[places[found]], own=True)

    def against(self, queries: Ids, items: Ids) -> LeftOut:
        """Return the pairs as positions among these queries and items, ignoring pairs with unknown ids."""
        owners, positions = places_of(self.query_ids, queries), places_of(self.item_ids, items)
        there = (owners >= 0) & (positions >= 0)
        codes = np.unique(owners[there] * len(items) + positions[there])
        return LeftOut(starts_of(codes // len(items), len(queries)), codes % len(items), len(items))

    def note(self, left_out: LeftOut) -> str:
        """Say what is left out."""
        queries, touched = len(left_out.counts), int(np.count_nonzero(left_out.counts))
        if self.own:
            some = f"{touched:,} of {queries:,} queries; no item has the id of the others"
            return f"The item with the query's own id is left out for {'every query' if touched == queries else some}."
        return f"{len(left_out.positions):,} items are left out, for {touched:,} of {queries:,} queries."


ExcludeLike: TypeAlias = Exclusion | Excluded


@dataclass(frozen=True, eq=False)
class LeftOut(Ragged):
    """The positions of the items that are not ranked; row i of `positions` belongs to query i."""

    FLAT: ClassVar = ("positions",)

    positions: Positions
    items: int

    @property
    def codes(self) -> NDArray[np.int64]:
        """One number for each excluded pair of a query and an item."""
        return self.owners * self.items + self.positions

    def of(self, query: int) -> NDArray[np.int64]:
        """Return the items that one query leaves out."""
        return self.positions[self.span(query, query + 1)]

    def within(self, span: Span) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows, from the start of a span of queries, and the columns that are left out."""
        rows = np.repeat(np.arange(span[1] - span[0]), self.counts[slice(*span)])
        return rows, self.positions[self.span(*span)]

    def empty_places(self, span: Span, best: NDArray[np.int32]) -> None:
        """Write NOBODY into the places of `best`, (queries of the span, k), for which no item is left."""
        left = self.items - self.counts[slice(*span)]
        if len(left) and left.min() < best.shape[1]:
            best[np.arange(best.shape[1]) >= left[:, None]] = NOBODY

    def without(self, truth: Truth) -> Truth:
        """Return a truth without the answers that are left out, and with their number; raise if none remain."""
        kept = ~np.isin(truth.owners * self.items + truth.positions, self.codes)
        if not kept.any():
            raise ArgumentError("exclude", "leaves out every answer to every query", "leave some answers in")
        return dataclasses.replace(truth.keep(kept), excluded=int((~kept).sum()))
