"""Runs: what another system returned, by query and score, judged beside the rankings of our own."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.evaluation.excluding import LeftOut
from unhub.evaluation.hubness import Hubness, figures_of
from unhub.evaluation.measures import NOT_FOUND, Places
from unhub.evaluation.placing import Placed
from unhub.evaluation.relevance import Truth, as_names, as_numbers, matching, places_of
from unhub.evaluation.setting import RAW
from unhub.vectors import Float64, Ids


@dataclass(frozen=True, eq=False)
class Run:
    """Items that were returned for queries, with scores, by id; (returned,) each. A higher score comes first."""

    query_ids: Ids
    item_ids: Ids
    scores: Float64

    def __init__(self, query_ids: ArrayLike, item_ids: ArrayLike, scores: ArrayLike) -> None:
        queries, items = as_names(query_ids, "query ids", "run"), as_names(item_ids, "item ids", "run")
        given = as_numbers(scores, "scores", "run")
        if not len(queries) == len(items) == len(given):
            raise ValueError(
                f"run: {len(queries)} query ids, {len(items)} item ids and {len(given)} scores; one of each is needed"
            )
        if not len(given):
            raise ValueError("run is empty: no item was returned for any query")
        if not np.isfinite(given).all():
            raise ValueError(f"run: scores must be finite, got {given[~np.isfinite(given)][0]}")
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
            raise ValueError(
                f"{name} answers none of the {len(queries)} queries: it has {self.query_ids[0].item()!r}, "
                f"the queries have {queries[0].item()!r}; give the queries the ids of the run"
            )
        owners = asked[known]
        positions = places_of(matching(self.item_ids[known], items, "item", name), items)
        if positions.min() < 0:
            strange = self.item_ids[known][positions < 0]
            raise ValueError(
                f"{name} returns {len(strange)} items that are not among the {len(items)} items, for example "
                f"{strange[0].item()!r}; give the items the ids of the run"
            )
        order = np.lexsort((positions, -self.scores[known], owners))
        returned = Returned(owners[order], positions[order], self.scores[known][order], len(queries), items)
        codes = np.sort(returned.codes)
        twice = codes[1:][codes[1:] == codes[:-1]]
        if len(twice):
            query, item = divmod(int(twice[0]), len(items))
            raise ValueError(f"{name} returns item {items[item].item()!r} twice for query {queries[query].item()!r}")
        return returned


@dataclass(frozen=True, eq=False)
class Returned:
    """The items of a run as positions, best first within each query; `owners` are the positions of the queries."""

    owners: NDArray[np.int64]
    positions: NDArray[np.int64]
    scores: Float64
    queries: int
    item_ids: Ids

    @property
    def codes(self) -> NDArray[np.int64]:
        """One number for each pair of a query and an item."""
        return self.owners * len(self.item_ids) + self.positions

    def places(self, truth: Truth) -> Places:
        """Return the places of the answers among what was returned, NOT_FOUND for those that were not."""
        rows = np.arange(len(self.owners))
        heads = np.searchsorted(self.owners, self.owners)  # the first item returned for the same query
        first = np.diff(self.owners, prepend=-1).astype(bool) | (np.diff(self.scores, prepend=np.nan) != 0)
        starts = np.flatnonzero(first)
        tie = np.cumsum(first) - 1
        better, equal = starts[tie] - heads, np.diff(starts, append=len(rows))[tie]
        order = np.argsort(self.codes)
        wanted = truth.owners * len(self.item_ids) + truth.positions
        spots = order[np.minimum(np.searchsorted(self.codes, wanted, sorter=order), len(order) - 1)]
        found = self.codes[spots] == wanted
        placed = Placed(
            np.where(found, better[spots], NOT_FOUND), np.where(found, equal[spots], 1), np.empty((0, 0), np.int32)
        )
        return placed.answers(truth, len(self.item_ids))

    def hubness(self, k: int) -> Hubness:
        """Return how often each item is among the first k that were returned; of ties, the first items count."""
        heads = np.searchsorted(self.owners, self.owners)
        first = self.positions[np.arange(len(self.owners)) - heads < k]
        counts = np.bincount(first, minlength=len(self.item_ids)).astype(np.int64)
        return Hubness(k, self.queries, self.item_ids, counts, figures_of(counts))

    def without(self, left_out: LeftOut, name: str) -> Returned:
        """Return what was returned less what is not to be ranked; errors call the run `name`."""
        kept = ~np.isin(self.codes, left_out.codes)
        if not kept.any():
            raise ValueError(f"{name} returns nothing but items that exclude leaves out")
        return dataclasses.replace(
            self, owners=self.owners[kept], positions=self.positions[kept], scores=self.scores[kept]
        )

    def note(self, name: str, truth: Truth, places: Places) -> str | None:
        """Say how many answers the run did not return, and what became of them; nothing where it returned all."""
        missing = int(places.answers[places.better == NOT_FOUND].sum())
        if not missing:
            return None
        return (
            f"{name} did not return {missing:,} of the {len(truth.positions):,} answers; these count as not found, "
            f"and in MdR and MnR as of rank {len(self.item_ids):,}."
        )


def check_names(runs: Mapping[str, Run], taken: Collection[str]) -> Mapping[str, Run]:
    """Return the runs, none of which may bear a name that a ranking of our own has."""
    if not isinstance(runs, Mapping):
        raise ValueError(f"runs must be a mapping of names to what unhub.read_run returned, got {type(runs).__name__}")
    for name, run in runs.items():
        if not isinstance(name, str):
            raise ValueError(f"runs must be named by texts, got the name {name!r}")
        if not isinstance(run, Run):
            raise ValueError(f"runs must be what unhub.read_run returned, by name; {name!r} is {type(run).__name__}")
        if name == RAW or name in taken:
            raise ValueError(f"runs: another ranking is named {name!r}; choose another name")
    return runs
