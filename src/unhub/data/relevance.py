"""Relevance: which items answer which query, by id, many to many, with grades."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float64, Ids
from unhub.data.ids import is_integer
from unhub.data.ragged import Positions, Ragged, starts_of
from unhub.errors import ArgumentError
from unhub.frames.frames import HasArrow, frame_columns, is_table, plain_ids

EXACT_FLOATS = 1 << 53  # from here on, several integers round to the same float


@dataclass(frozen=True, eq=False)
class Relevance:
    """Pairs of a query and an item that answers it, by id; a higher grade answers better. Only grades over 0 are kept.

    query_ids, item_ids and grades are (pairs,) each; grades are 1 where none are given.
    """

    query_ids: Ids
    item_ids: Ids
    grades: Float64

    def __init__(self, query_ids: ArrayLike, item_ids: ArrayLike, grades: ArrayLike | None = None) -> None:
        queries, items = as_names(query_ids, "query ids"), as_names(item_ids, "item ids")
        given = np.ones(len(queries)) if grades is None else as_numbers(grades, "grades")
        if not len(queries) == len(items) == len(given):
            raise ArgumentError(
                "relevance",
                f"has {len(queries)} query ids, {len(items)} item ids and {len(given)} grades",
                "give one of each for every pair",
            )
        if not np.isfinite(given).all():
            bad = int(np.flatnonzero(~np.isfinite(given))[0])
            raise ArgumentError("relevance", f"has the grade {given[bad]} in pair {bad}", "grades must be finite")
        kept = _first_of_each(queries, items, given)
        if len(kept) < len(queries):
            queries, items, given = queries[kept], items[kept], given[kept]
        for name, array in (("query_ids", queries), ("item_ids", items), ("grades", given)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if len(self) == 0:
            raise ArgumentError("relevance", "holds no pair with a grade over 0")

    def __len__(self) -> int:
        return len(self.query_ids)

    def __repr__(self) -> str:
        return f"<Relevance: {len(self)} pairs of {len(np.unique(self.query_ids))} queries>"

    def reversed(self) -> Relevance:
        """Return the other direction: each item is a query, answered by what it answers."""
        return Relevance(self.item_ids, self.query_ids, self.grades)

    def against(self, queries: Ids, items: Ids) -> Truth:
        """Return the answers to these queries as positions of these items."""
        query_names, item_names = matching(self.query_ids, queries, "query"), matching(self.item_ids, items, "item")
        query_places, item_places = places_of(query_names, queries), places_of(item_names, items)
        asked = query_places >= 0
        if not asked.any():
            raise ArgumentError(
                "relevance",
                f"names none of the {len(queries)} queries: it has {query_names[0].item()!r}, the queries have "
                f"{queries[0].item()!r}",
                "give the queries the ids of the table",
            )
        usable = asked & (item_places >= 0)
        if not usable.any():
            raise ArgumentError(
                "relevance",
                f"names none of the {len(items)} items as an answer to these queries: it has "
                f"{item_names[asked][0].item()!r}, the items have {items[0].item()!r}",
                "give the items the ids of the table",
            )
        order = np.argsort(query_places[usable], kind="stable")  # stable, to keep the order of the table
        strange = asked & (item_places < 0)
        return Truth(
            starts_of(query_places[usable][order], len(queries)),
            item_places[usable][order],
            self.grades[usable][order],
            absent=int(strange.sum()),
            unknown_items=len(np.unique(self.item_ids[strange])),
            unknown_queries=len(np.unique(self.query_ids[~asked])),
        )


@dataclass(frozen=True, eq=False)
class Truth(Ragged):
    """The answers to some queries: row i of `positions` holds the positions of the items that answer query i.

    They are in the order of the table, so which one is first does not depend on the order of the items. absent: how
    many answers to these queries are not among the items. excluded: how many were left out on request. unknown_items:
    how many distinct items the absent answers name. unknown_queries: how many queries of the table are not among these.
    """

    FLAT: ClassVar = ("positions", "grades")

    positions: Positions
    grades: Float64
    absent: int = 0
    excluded: int = 0
    unknown_items: int = 0
    unknown_queries: int = 0

    @property
    def answered(self) -> NDArray[np.int64]:
        """The positions of the queries that have an answer."""
        return np.flatnonzero(self.counts)

    @property
    def groups(self) -> NDArray[np.int64]:
        """The group of each query, (queries,): queries with the same first answer share one; -1 without an answer.

        The captions of one picture are not independent, so they are resampled together. Groups are numbered in
        the order of the queries, whatever the order of the items.
        """
        groups = np.full(len(self.counts), -1, np.int64)
        answers = self.positions[self.starts[self.answered]]
        _, first, back = np.unique(answers, return_index=True, return_inverse=True)
        groups[self.answered] = np.argsort(np.argsort(first))[back]
        return groups


RelevanceLike: TypeAlias = (
    Relevance | Mapping[int, object] | Mapping[str, object] | Sequence[object] | NDArray[np.generic] | HasArrow
)


def as_relevance(value: RelevanceLike) -> Relevance:
    """Return a user's input as Relevance.

    value: a Relevance; a mapping from a query id to an item id, to several, or to a mapping of item id to grade; rows
    of (query id, item id) or (query id, item id, grade); or a table of pandas, polars or Arrow with the columns
    `query_id`, `item_id` and perhaps `grade`.
    """
    if isinstance(value, Relevance):
        return value
    if is_table(value):
        return Relevance(*frame_columns(value, "relevance", ("query_id", "item_id"), ("grade",)))
    if isinstance(value, Mapping):
        rows = [(query, item, grade) for query, answers in value.items() for item, grade in _graded(answers)]
        return Relevance(*_columns(rows, 3))
    if isinstance(value, np.ndarray):
        if value.ndim != 2 or value.shape[1] not in (2, 3):
            raise ArgumentError(
                "relevance", f"must have 2 or 3 columns (query id, item id, grade), got shape {value.shape}"
            )
        return Relevance(*(value[:, column] for column in range(value.shape[1])))
    listed: object = value  # an untyped caller may pass anything
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        widths = {len(row) if isinstance(row, Sequence) and not isinstance(row, str) else -1 for row in listed}
        if widths <= {2} or widths == {3}:
            return Relevance(*_columns(listed, max(widths, default=2)))
        if widths <= {2, 3}:
            raise ArgumentError(
                "relevance", "has rows of 2 and rows of 3 (query id, item id, grade)", "grade all or none"
            )
    raise ArgumentError(
        "relevance",
        "must be a Relevance, a mapping of query id to item ids, a table, or rows of (query id, item id[, grade]), "
        f"got {type(value).__name__}",
        "if it names a file, read the file first",
    )


def _graded(answers: object) -> Iterator[tuple[object, object]]:
    if isinstance(answers, Mapping):
        yield from answers.items()
    elif isinstance(answers, Collection) and not isinstance(answers, str):
        yield from ((one, 1.0) for one in answers)
    else:
        yield answers, 1.0


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[NDArray[np.generic]]:
    try:
        return [np.array([row[column] for row in rows]) for column in range(width)]
    except ValueError:
        raise ArgumentError("relevance", "has lists as ids", "each id must be an integer or a string") from None


def as_names(ids: ArrayLike, what: str, source: str = "relevance") -> Ids:
    """Return a copy of the ids of a table as integers or strings; errors call the table `source`."""
    array = np.asarray(plain_ids(ids, source))
    if array.dtype.kind == "O" and all(isinstance(one, str) for one in array.tolist()):
        array = array.astype(np.str_)
    if array.dtype.kind == "f" and np.isfinite(array).all() and np.array_equal(array, np.trunc(array)):
        _check_size(array, EXACT_FLOATS, source, f"{what} that are floats must be under 2**53, to be exact")
        array = array.astype(np.int64)  # a numeric table has the same type for ids and grades
    if array.ndim != 1 or (array.dtype.kind not in "iuU" and len(array)):
        raise ArgumentError(
            source,
            f"has {what} of type {array.dtype} and shape {array.shape}",
            f"{what} must be a list of integers or strings",
        )
    if array.dtype.kind == "u":
        _check_size(array, 1 << 63, source, f"{what} must be under 2**63")
    return cast("Ids", array.astype(np.int64 if array.dtype.kind != "U" else array.dtype))


def _check_size(numbers: NDArray[np.generic], end: int, source: str, rule: str) -> None:
    large = np.abs(numbers) >= end
    if large.any():
        raise ArgumentError(source, f"has the id {numbers[large][0]}", f"{rule}; give them as strings")


def as_numbers(values: ArrayLike, what: str, source: str = "relevance") -> Float64:
    """Return a copy of the numbers of a table; errors call the table `source`."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim != 1:
        raise ArgumentError(source, f"has {what} {values!r}", f"{what} must be a list of numbers, one for each pair")
    return array


def _first_of_each(queries: Ids, items: Ids, grades: Float64) -> NDArray[np.int64]:
    """Return the pairs with a grade over 0, each once; raise if a pair has two grades."""
    query_codes, item_codes = _codes(queries), _codes(items)
    codes = query_codes * (int(item_codes.max(initial=0)) + 1) + item_codes
    _, first, back = np.unique(codes, return_index=True, return_inverse=True)
    differ = np.flatnonzero(grades != grades[first][back])
    if len(differ):
        pair = differ[0]
        raise ArgumentError(
            "relevance",
            f"has two grades for query {queries[pair].item()!r} and item {items[pair].item()!r}, "
            f"{grades[first[back[pair]]]:g} and {grades[pair]:g}",
            "give each pair one grade",
        )
    return np.sort(first[grades[first] > 0])


def _codes(names: Ids) -> NDArray[np.int64]:
    """Return a number for each name, the same for equal ones; long strings are hashed, since sorting them is slow."""
    if names.dtype.kind != "U":
        return np.unique(names, return_inverse=True)[1]
    seen: dict[str, int] = {}
    numbers = (seen.setdefault(name, len(seen)) for name in names.tolist())
    return np.fromiter(numbers, np.int64, len(names))


def matching(names: Ids, ids: Ids, what: str, source: str = "relevance") -> Ids:
    """Return names in the type of ids: whole numbers also match ids that are strings, and vice versa."""
    if names.dtype.kind == ids.dtype.kind:
        return names
    if ids.dtype.kind == "U":
        return cast("Ids", names.astype(np.str_))
    strange = next((name for name in names.tolist() if not is_integer(name)), None)
    if strange is None:
        return names.astype(np.int64)
    raise ArgumentError(
        source,
        f"has the {what} id {strange!r}, but {what} ids are integers here, for example {ids[0].item()!r}",
        "give the vectors their ids, or use row numbers in the table",
    )


def places_of(names: Ids, ids: Ids) -> NDArray[np.int64]:
    """Return the position of each name in ids, or -1 if it is missing."""
    order = np.argsort(ids, kind="stable")
    spots = np.minimum(np.searchsorted(ids, names, sorter=order), len(ids) - 1)
    found = order[spots]
    return np.where(ids[found] == names, found, -1)
