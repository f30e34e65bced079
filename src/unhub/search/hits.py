"""Hits: what a search returns, made from rankings, exclusions and allowed items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Ids
from unhub.correction import Scores
from unhub.data.ids import no_id, positions_of
from unhub.errors import ArgumentError
from unhub.html_tables import as_html
from unhub.search.hit_columns import Queries, columns, frame, ids_of, rows

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
from unhub.frames.frames import is_column

SHOWN_HITS = 20  # in a notebook
Id: TypeAlias = int | str
GivenId: TypeAlias = Id | UUID
Excluded: TypeAlias = Sequence[GivenId | Collection[GivenId] | None] | Ids
Positions: TypeAlias = NDArray[np.int64]
Ranked: TypeAlias = tuple[Scores, Positions]  # (queries, k) each, best first
Rank: TypeAlias = Callable[[Positions, Float64, int, Positions | None], Ranked]  # queries, strengths, k, allowed items


class Hits(NamedTuple):
    """The ids and scores of the items found, (queries, k) each, best first.

    An empty place has the score -inf and the id -1, or "" if ids are strings. `to_pandas`, `to_polars`, `to_arrow` and
    `to_dicts` make tables with the columns of `unhub search --format csv`: query, rank (1 is the best), id and score,
    without empty places. They take the queries or their ids; without them, queries are numbered from 0.
    """

    ids: Ids
    scores: Scores

    def to_dicts(self, queries: Queries = None) -> list[dict[str, int | str | float]]:
        """Return a dict for each hit."""
        return list(self._dicts(queries))

    def _dicts(self, queries: Queries = None) -> Iterator[dict[str, int | str | float]]:
        for one, found in rows(ids_of(queries, len(self.ids)), self.ids, self.scores):
            for rank, (item, score) in enumerate(found, start=1):
                yield {"query": one, "rank": rank, "id": item, "score": score}

    def to_pandas(self, queries: Queries = None) -> pandas.DataFrame:
        """Return a data frame of pandas."""
        return frame("pandas", self._columns(queries))

    def to_polars(self, queries: Queries = None) -> polars.DataFrame:
        """Return a data frame of polars."""
        made: polars.DataFrame = frame("polars", self._columns(queries))
        return made

    def to_arrow(self, queries: Queries = None) -> pyarrow.Table:
        """Return a table of Arrow."""
        return frame("pyarrow", self._columns(queries))

    def _repr_html_(self) -> str:
        shown = [list(map(str, one.values())) for one in islice(self._dicts(), SHOWN_HITS)]
        more = int(np.isfinite(self.scores).sum()) - len(shown)
        left = [f"and {more:,} more of {len(self.ids):,} queries"] if more else []
        return as_html([(("query", "rank", "id", "score"), shown), *left])

    def _columns(self, queries: Queries) -> Mapping[str, NDArray[np.generic]]:
        return columns(ids_of(queries, len(self.ids)), self.ids, self.scores)


@dataclass(frozen=True, eq=False)
class Names:
    """The ids of the items and their positions."""

    ids: Ids

    @cached_property
    def _sorted(self) -> tuple[Positions, Ids]:
        # Only once, on first use: sorting a million ids takes longer than most searches.
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def positions(self, wanted: object, name: str) -> Positions:
        """Return the positions of these ids; raise an error about the argument `name` if one is unknown."""
        order, ids = self._sorted
        return order[positions_of(wanted, ids, name)]

    def several(self, wanted: Collection[GivenId] | Ids, name: str) -> Positions:
        """Return the positions of the ids of a collection, ascending, without repeats."""
        if isinstance(wanted, str) or not isinstance(wanted, Iterable):
            raise ArgumentError(name, f"must be a collection of ids, got {wanted!r}", "put a single id in a list")
        whole = isinstance(wanted, np.ndarray) or is_column(wanted)
        return np.unique(self.positions(wanted if whole else list(wanted), name))

    def found(self, ids: Ids) -> Positions:
        """Return the positions of the ids that an index returned, -1 for an empty place; raise if one is unknown."""
        positions, strange = self.looked_up(ids)
        if strange.any():
            raise ArgumentError(
                "index",
                f"returned the id {ids[strange][0].item()!r}, which the correction does not cover",
                "extend the correction by the items that were added to the index",
            )
        return positions

    def looked_up(self, ids: Ids) -> tuple[Positions, NDArray[np.bool_]]:
        """Return the positions of the ids that an index returned, -1 for an empty place, and which ids are unknown."""
        order, known = self._sorted
        places = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        empty = ids == no_id(ids.dtype)
        strange = (known[places] != ids) & ~empty
        return np.where(empty | strange, -1, order[places]), strange


@dataclass(frozen=True, eq=False)
class Wanted:
    """What to find in a ranking of `items`: k places for each query, at its strength.

    allowed: the only positions to return, ascending, or None for all. banned: query * items + position of each item
    that must not be returned for that query. together: whether all queries must be ranked at once.
    """

    k: int
    strengths: Float64
    items: int
    allowed: Positions | None = None
    banned: Positions | None = None
    together: bool = False

    def groups(self) -> Iterator[tuple[Positions, int, Positions]]:
        """Yield (queries, how many to fetch, what is banned), so that one long list slows down only its own query."""
        count = len(self.strengths)
        most = self.items if self.allowed is None else len(self.allowed)
        banned = np.empty(0, np.int64) if self.banned is None else self.banned
        if not len(banned):
            yield np.arange(count), min(self.k, most), banned
            return
        lists = np.bincount(banned // self.items, minlength=count)[:count]
        extras = np.where(lists > 0, 1 << np.ceil(np.log2(np.maximum(lists, 1))).astype(np.int64), 0)
        if self.together:
            extras[:] = extras.max(initial=0)
        for extra in np.unique(extras) if count else [0]:
            group = np.flatnonzero(extras == extra)
            mine = banned[np.isin(banned // self.items, group)]
            keys = np.searchsorted(group, mine // self.items) * self.items + mine % self.items
            yield group, min(self.k + int(extra), most), keys


def find_hits(rank: Rank, wanted: Wanted, ids: Ids) -> Hits:
    """Return what `rank` finds for the queries, or sets of queries, of `wanted`."""
    groups, parts = [], []
    for group, fetch, banned in wanted.groups():
        scores: Scores = np.empty((len(group), 0), np.float32)
        places = np.empty((len(group), 0), np.int64)
        if fetch and len(group):
            scores, places = rank(group, wanted.strengths[group], fetch, wanted.allowed)
        groups.append(group)
        parts.append(_filled(scores, places, banned, wanted.k, ids))
    if len(parts) == 1:
        return parts[0]
    back = np.argsort(np.concatenate(groups))
    all_ids, all_scores = (np.concatenate(several) for several in zip(*parts, strict=True))
    return Hits(all_ids[back], all_scores[back])


def _filled(scores: Scores, places: Positions, banned: Positions, k: int, names: Ids) -> Hits:
    """Drop banned items, close the gaps, fill up to k and turn positions into ids."""
    if not len(banned) and places.shape[1] == k and (places >= 0).all():
        return Hits(names[places], scores)
    keys = np.arange(len(places))[:, None] * len(names) + places
    dropped = np.isin(keys, banned) | (places < 0)
    order = np.argsort(dropped, axis=1, kind="stable")[:, :k]
    filled = np.zeros((len(places), k), np.bool_)
    filled[:, : order.shape[1]] = ~np.take_along_axis(dropped, order, axis=1)
    kept = filled[:, : order.shape[1]]
    all_scores = np.full(filled.shape, -np.inf, scores.dtype)
    all_scores[filled] = np.take_along_axis(scores, order, axis=1)[kept]
    ids = np.full(filled.shape, no_id(names.dtype), names.dtype)
    ids[filled] = names[np.take_along_axis(places, order, axis=1)[kept]]
    return Hits(cast("Ids", ids), all_scores)


def listed(exclude: Excluded, count: int) -> tuple[list[GivenId], list[int]]:
    """Return the excluded ids, query by query, and how many each of `count` queries has."""
    text = isinstance(exclude, str) or not isinstance(exclude, Sized)
    if text or len(exclude) != count:
        got = repr(exclude) if text else f"{len(exclude)} entries"
        raise ArgumentError(
            "exclude", f"must have one entry (an id, ids or None) for each of {count} queries, got {got}"
        )
    entries = [_as_tuple(entry, query) for query, entry in enumerate(exclude)]
    return [one for entry in entries for one in entry], [len(entry) for entry in entries]


def _as_tuple(entry: GivenId | Collection[GivenId] | None, query: int) -> tuple[GivenId, ...]:
    if entry is None:
        return ()
    if isinstance(entry, str | int | np.integer | UUID):
        return (entry,)
    if not isinstance(entry, Iterable):
        raise ArgumentError("exclude", f"must have an id, ids or None for each query, got {entry!r} for query {query}")
    return tuple(entry)
