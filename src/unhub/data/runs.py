"""Runs: what another system returned, by query and score; and answers, what a log says was returned."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float64, Ids
from unhub.data.fingerprint import inspect
from unhub.data.query_log import IdLists, QueryLog
from unhub.data.ragged import Positions, Ragged, starts_of
from unhub.data.relevance import as_names, as_numbers, matching, places_of
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError

AS_LIST = "log them as a list, in .csv separated by spaces"


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

    @classmethod
    def of_log(cls, log: QueryLog) -> Run:
        """Return what a log says was returned; of a query that was logged several times, the last answer.

        Without query ids a query is known by its row in the log.
        """
        returned = returned_in(log)
        names = np.arange(len(log)) if log.query_ids is None else log.query_ids
        order = np.arange(len(log)) if log.times is None else np.argsort(log.times, kind="stable")
        last = order[len(log) - 1 - np.unique(names[order][::-1], return_index=True)[1]]
        lists, ranks = _once_each(returned.gather(last))
        return cls(names[last][lists.owners], lists.ids, -ranks - 1.0)

    @functools.cached_property
    def as_log(self) -> QueryLog:
        """The same as a log, with a query for each id; among equal scores the item that is listed first is first."""
        queries, back = np.unique(self.query_ids, return_inverse=True)
        order = np.lexsort((-self.scores, back))
        lists = IdLists(starts_of(back[order], len(queries)), self.item_ids[order])
        return QueryLog(cast("Ids", queries), returned=lists)

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


@dataclass(frozen=True, eq=False)
class Answers(Ragged):
    """The first k items that were returned for each different query of a log, best first, as positions in `item_ids`.

    item_ids: of the items that were returned, (found,). items: how many there are in all. asked: how often each query
    was logged, (queries,); it counts with what was returned for it first. rows: where in the log it stands first.

    complete: whether the number of items is known; else those that were returned are all. told_by: what tells queries
    apart. notes: what was left out, in sentences.
    """

    FLAT: ClassVar = ("positions",)
    PER_ROW: ClassVar = ("asked", "rows")

    positions: Positions
    asked: Positions
    rows: Positions
    item_ids: Ids
    items: int
    k: int
    complete: bool
    told_by: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, log: QueryLog, gallery: Ids | int | None = None, k: int = 10) -> Answers:
        """Return the answers of a log. gallery: the ids of all items, or how many there are; None if not known."""
        codes, told_by = _different(log)
        _, rows, asked = np.unique(codes, return_index=True, return_counts=True)
        order = np.argsort(rows, kind="stable")
        rows, asked = rows[order], asked[order]
        whole = returned_in(log).gather(rows)
        lists, ranks = _once_each(whole)
        notes = []
        if twice := len(whole.ids) - len(lists.ids):
            notes.append(f"{twice:,} times an item stands in one answer again; it counts once for each query.")
        first = ranks < k
        lists = lists.keep(first)
        of_items, spots = _codes(lists.ids)
        names = lists.ids[spots]
        if isinstance(gallery, np.ndarray):
            there = places_of(*_as_one_kind(names, gallery)) >= 0
            if not there.all():
                notes.append(_unknown(names[~there], int((~there[of_items]).sum()), len(gallery)))
            if not there.any():
                problem = f"returns none of the {len(gallery):,} items; it has {names[0].item()!r}, the items have "
                remedy = AS_LIST if _look_joined(whole) else "give the items that were searched"
                raise ArgumentError("hits", f"{problem}{gallery[0].item()!r}", remedy)
            lists, of_items = lists.keep(there[of_items]), (np.cumsum(there) - 1)[of_items[there[of_items]]]
            names = names[there]
        elif _look_joined(whole):
            most = f"Every query returned one item, and most ids hold a comma, such as {whole.ids[0].item()!r}"
            notes.append(f"{most}. If these are several ids, {AS_LIST}.")
        count = len(gallery) if isinstance(gallery, np.ndarray) else gallery
        if count is not None and count < len(names):
            problem = f"is {count:,}, but {len(names):,} different items were returned"
            raise ArgumentError("items_count", problem, "give the number of all items that were searched")
        if empty := int((lists.counts == 0).sum()):
            notes.append(f"{empty:,} of {len(rows):,} different queries were answered with nothing.")
        k = min(k, int(lists.counts.max(initial=1)) or 1)
        total = len(names) if count is None else int(count)
        return cls(lists.starts, of_items, asked, rows, names, total, k, count is not None, told_by, tuple(notes))

    @property
    def traffic(self) -> int:
        """How many queries were logged, repeats included."""
        return int(self.asked.sum())

    @functools.cached_property
    def times(self) -> NDArray[np.int64]:
        """How many different queries return each item that was returned, (found,)."""
        return np.bincount(self.positions, minlength=len(self.item_ids)).astype(np.int64)

    @functools.cached_property
    def traffic_times(self) -> NDArray[np.int64]:
        """How often each item that was returned was returned, repeated queries included, (found,)."""
        weights = self.asked[self.owners].astype(np.float64)
        return np.bincount(self.positions, weights, len(self.item_ids)).astype(np.int64)

    @property
    def best(self) -> NDArray[np.int32]:
        """The positions of the items of each query, best first, (queries, k); -1 in a place that was not filled."""
        found = np.full((len(self), self.k), -1, np.int32)
        owners = self.owners
        found[owners, np.arange(len(owners)) - self.starts[owners]] = self.positions
        return found


def returned_in(log: QueryLog) -> IdLists:
    """Return what a log says was returned; raise if it says nothing."""
    if log.returned is None or not len(log.returned.ids):
        remedy = "name their column: returned=NAME (--column)"
        raise ArgumentError("hits", "do not say which items were returned", remedy)
    return log.returned


def _look_joined(lists: IdLists) -> bool:
    """Return whether what should be lists of ids looks like texts of several ids, separated by commas."""
    if lists.ids.dtype.kind != "U" or not len(lists.ids) or lists.counts.max() > 1:
        return False
    return bool((np.char.find(cast("NDArray[np.str_]", lists.ids), ",") >= 0).mean() > 0.5)


def _different(log: QueryLog) -> tuple[NDArray[np.int64], str]:
    """Return a number for each query of a log, the same for equal queries, and what tells them apart."""
    if log.texts is not None:
        return _codes(log.texts)[0], "text"
    if log.vectors is not None:
        rows = Vectors(np.arange(len(log)), log.vectors)
        return np.unique(inspect(rows, "vectors", "dot").hashes, return_inverse=True)[1], "vector"
    if log.query_ids is not None:
        return _codes(log.query_ids)[0], "id"
    return np.arange(len(log)), "row"


def _codes(names: NDArray[np.generic]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a number for each name, from 0 on by first occurrence, and where each number occurs first."""
    if names.dtype.kind == "i":
        _, first, back = np.unique(names, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return np.argsort(order)[back], first[order]
    seen: dict[object, int] = {}  # sorting long texts is slow
    codes = np.fromiter((seen.setdefault(name, len(seen)) for name in names.tolist()), np.int64, len(names))
    return codes, np.unique(codes, return_index=True)[1]


def _once_each(lists: IdLists) -> tuple[IdLists, Positions]:
    """Return lists without an id that stands in the same list before, and the place of each, from 0 on."""
    codes, spots = _codes(lists.ids)
    first = np.unique(lists.owners * max(1, len(spots)) + codes, return_index=True)[1]
    kept = np.zeros(len(codes), bool)
    kept[first] = True
    once = lists.keep(kept)
    return once, np.arange(len(once.ids)) - once.starts[once.owners]


def _as_one_kind(names: Ids, ids: Ids) -> tuple[Ids, Ids]:
    if names.dtype.kind == ids.dtype.kind:
        return names, ids
    return cast("Ids", names.astype(np.str_)), cast("Ids", ids.astype(np.str_))


def _unknown(names: Ids, times: int, items: int) -> str:
    answers = "1 answer names" if times == 1 else f"{times:,} answers name"
    ids = "an id that is" if len(names) == 1 else f"{len(names):,} ids that are"
    return f"{answers} {ids} not among the {items:,} items, such as {names[0].item()!r}; they are left out."
