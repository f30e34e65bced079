"""Runs: what another system returned, by query and score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float64, Ids
from unhub.data.ragged import Positions, Ragged, starts_of
from unhub.data.relevance import as_names, as_numbers, matching, places_of
from unhub.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Run:
    """Items returned for queries, by id, with scores, (returned,) each; a higher score ranks first."""

    query_ids: Ids
    item_ids: Ids
    scores: Float64

    def __init__(self, query_ids: ArrayLike, item_ids: ArrayLike, scores: ArrayLike) -> None:
        queries, items = as_names(query_ids, "query ids", "run"), as_names(item_ids, "item ids", "run")
        given = as_numbers(scores, "scores", "run")
        if not len(queries) == len(items) == len(given):
            raise ArgumentError(
                "run",
                f"has {len(queries)} query ids, {len(items)} item ids and {len(given)} scores",
                "give one of each for every item returned",
            )
        if not len(given):
            raise ArgumentError("run", "is empty: no item was returned for any query")
        if not np.isfinite(given).all():
            raise ArgumentError("run", f"has the score {given[~np.isfinite(given)][0]}", "scores must be finite")
        for name, array in (("query_ids", queries), ("item_ids", items), ("scores", given)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.query_ids)

    def __repr__(self) -> str:
        return f"<Run: {len(self)} items returned for {len(np.unique(self.query_ids))} queries>"

    def against(self, queries: Ids, items: Ids, name: str) -> Returned:
        """Return what was returned for these queries as positions; errors call the run `name`."""
        asked = places_of(matching(self.query_ids, queries, "query", name), queries)
        known = asked >= 0
        if not known.any():
            raise ArgumentError(
                name,
                f"answers none of the {len(queries)} queries: it has {self.query_ids[0].item()!r}, the queries have "
                f"{queries[0].item()!r}",
                "give the queries the ids of the run",
            )
        owners = asked[known]
        positions = places_of(matching(self.item_ids[known], items, "item", name), items)
        if positions.min() < 0:
            strange = self.item_ids[known][positions < 0]
            raise ArgumentError(
                name,
                f"returns {len(strange)} items that are not among the {len(items)} items, for example "
                f"{strange[0].item()!r}",
                "give the items the ids of the run",
            )
        order = np.lexsort((positions, -self.scores[known], owners))
        starts = starts_of(owners[order], len(queries))
        returned = Returned(starts, positions[order], self.scores[known][order], items)
        codes = np.sort(returned.codes)
        twice = codes[1:][codes[1:] == codes[:-1]]
        if len(twice):
            query, item = divmod(int(twice[0]), len(items))
            raise ArgumentError(name, f"returns item {items[item].item()!r} twice for query {queries[query].item()!r}")
        return returned


@dataclass(frozen=True, eq=False)
class Returned(Ragged):
    """The items of a run as positions: row i holds those of query i, best first."""

    FLAT: ClassVar = ("positions", "scores")

    positions: Positions
    scores: Float64
    item_ids: Ids

    @property
    def codes(self) -> NDArray[np.int64]:
        """One number for each pair of a query and an item."""
        return self.owners * len(self.item_ids) + self.positions

    def without(self, codes: NDArray[np.int64], name: str) -> Returned:
        """Return what was returned without the pairs of these codes; errors call the run `name`."""
        kept = ~np.isin(self.codes, codes)
        if not kept.any():
            raise ArgumentError(name, "returns only items that are excluded")
        return self.keep(kept)
