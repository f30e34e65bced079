"""Query logs: what was asked, when, what was returned for it and what was clicked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Ids
from unhub.data.ragged import Positions, Ragged, starts_from
from unhub.data.relevance import as_names
from unhub.data.vectors import Gathered, Rows, Stacked, Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError

UNKNOWN = 0  # the position of a click whose place among what was returned is not known

R = TypeVar("R", bound=Ragged)


@dataclass(frozen=True, eq=False)
class IdLists(Ragged):
    """Ids of items, a list for each query, best first."""

    FLAT: ClassVar = ("ids",)

    ids: Ids

    @classmethod
    def of(cls, lists: Iterable[ArrayLike], what: str = "returned") -> IdLists:
        """Return lists of ids, one for each query, as one value; errors call them `what`."""
        held = [np.asarray(one).reshape(-1) for one in lists]
        full = [one for one in held if len(one)]
        flat = np.concatenate(full) if full else np.empty(0, np.int64)
        return cls(starts_from([len(one) for one in held]), as_names(flat, "item ids", what))


@dataclass(frozen=True, eq=False)
class Clicks(Ragged):
    """Ids of clicked items, a list for each query, and the place of each among what was returned.

    The first place is 1; UNKNOWN, 0, where it is not known.
    """

    FLAT: ClassVar = ("ids", "positions")

    ids: Ids
    positions: Positions

    @classmethod
    def of(cls, clicked: IdLists, returned: IdLists | None) -> Clicks:
        """Return clicks with their places among what was returned."""
        if returned is None:
            return cls(clicked.starts, clicked.ids, np.full(len(clicked.ids), UNKNOWN, np.int64))
        codes, shown = _same_kind([clicked.ids, returned.ids])
        places = [
            _place(code, shown[returned.span(row, row + 1)])
            for row, code in zip(clicked.owners.tolist(), codes, strict=True)
        ]
        return cls(clicked.starts, clicked.ids, np.array(places, np.int64))


def _place(item: np.generic, shown: Ids) -> int:
    found = np.flatnonzero(shown == item)
    return int(found[0]) + 1 if len(found) else UNKNOWN


@dataclass(frozen=True, eq=False)
class QueryLog:
    """n logged queries, in the order of the log. What the log does not hold is None.

    query_ids: (n,); one may occur twice. times: (n,) datetime64[us], UTC. texts: (n,). vectors: rows (n, d), in memory
    or mapped. returned: the ids of the items that were returned, best first. clicked: those that were clicked, with
    their places. variants: (n,), which side of an A/B test answered; "" where the log does not say. users: (n,), who
    asked; "" for nobody, or where the log does not say. told_users: (n,), whether it says so, be it nobody; None if it
    says so of all, or of none.

    notes: what was left out when the log was read, in sentences.
    """

    query_ids: Ids | None = None
    times: NDArray[np.datetime64] | None = None
    texts: NDArray[np.object_] | None = None
    vectors: Rows | None = None
    returned: IdLists | None = None
    clicked: Clicks | None = None
    variants: NDArray[np.str_] | None = None
    users: NDArray[np.str_] | None = None
    told_users: NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        counts = {name: _count(value) for name, value in self._held().items()}
        if not counts:
            raise ArgumentError("log", "holds nothing", "give at least one of " + ", ".join(COLUMNS))
        if len({*counts.values()}) > 1:
            told = ", ".join(f"{count} {name}" for name, count in counts.items())
            raise ArgumentError("log", f"has {told}", "give one of each for every query")

    @classmethod
    def of(
        cls,
        *,
        query_ids: ArrayLike | None = None,
        times: ArrayLike | None = None,
        texts: Sequence[str] | None = None,
        vectors: VectorsLike | None = None,
        returned: Iterable[ArrayLike] | None = None,
        clicked: Iterable[ArrayLike] | None = None,
        variants: ArrayLike | None = None,
    ) -> QueryLog:
        """Return a log of lists and arrays, one entry for each query.

        times: what numpy reads as datetime64, in UTC. returned, clicked: a list of item ids for each query; the place
        of a click is found among what was returned.
        """
        shown = None if returned is None else IdLists.of(returned)
        return cls(
            None if query_ids is None else as_names(query_ids, "query ids", "log"),
            None if times is None else np.array(times, "datetime64[us]"),
            None if texts is None else as_objects(texts),
            None if vectors is None else as_vectors(vectors, "vectors").rows,
            shown,
            None if clicked is None else Clicks.of(IdLists.of(clicked, "clicked"), shown),
            None if variants is None else np.array(variants, np.str_),
        )

    def __len__(self) -> int:
        return _count(next(iter(self._held().values())))

    def __repr__(self) -> str:
        return f"<QueryLog: {len(self)} queries with {', '.join(self._held())}>"

    @property
    def says_who(self) -> NDArray[np.bool_]:
        """(n,), whether the log says who asked each query, be it nobody."""
        if self.users is None:
            return np.zeros(len(self), bool)
        return np.ones(len(self), bool) if self.told_users is None else self.told_users

    def gather(self, rows: Positions) -> QueryLog:
        """Return these queries, in this order."""
        picked: dict[str, object] = {name: _rows(value, rows) for name, value in self._held().items()}
        return dataclasses.replace(self, **picked)  # type: ignore[arg-type]

    def to_vectors(self, name: str = "log") -> Vectors:
        """Return the vectors with the query ids, else with the rows as ids, by which clicks know them; or raise.

        Wherever vectors are taken, a log stands for these.
        """
        if self.vectors is None:
            raise ArgumentError(
                name, "is a query log without vectors", "name their column, or make a bank of its texts with add_log"
            )
        if self.query_ids is None:
            return Vectors(np.arange(len(self)), self.vectors)
        ids, counts = np.unique(self.query_ids, return_counts=True)
        if len(ids) < len(self):
            raise ArgumentError(
                name,
                f"is a query log with the query id {ids[counts > 1][0].item()!r} more than once",
                "make a bank of it with add_log, or give log.vectors, whose rows have no ids",
            )
        return Vectors(self.query_ids, self.vectors)

    def _held(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in COLUMNS if getattr(self, name) is not None}


COLUMNS = ("query_ids", "times", "texts", "vectors", "returned", "clicked", "variants", "users", "told_users")


def join_logs(parts: Sequence[QueryLog]) -> QueryLog:
    """Return several logs as one.

    What one of them returned, had clicked or named as variant or user is empty in those that do not say so; the other
    columns must be in all of them or in none.
    """
    if len(parts) == 1:
        return parts[0]
    for name in COLUMNS[:4]:
        has = [getattr(part, name) is not None for part in parts]
        if any(has) and not all(has):
            raise ArgumentError("log", f"has {name} in one part and not in another", "read these parts apart")
    sizes = [len(part) for part in parts]
    return QueryLog(
        _joined_ids([part.query_ids for part in parts if part.query_ids is not None]),
        _concatenated([part.times for part in parts if part.times is not None]),
        _concatenated([part.texts for part in parts if part.texts is not None]),
        _stacked([part.vectors for part in parts if part.vectors is not None]),
        _joined_lists(IdLists, [part.returned for part in parts], sizes),
        _joined_lists(Clicks, [part.clicked for part in parts], sizes),
        _joined_names([part.variants for part in parts], sizes),
        _joined_names([part.users for part in parts], sizes),
        _joined_told(parts),
        tuple(note for part in parts for note in part.notes),
    )


def as_objects(texts: Sequence[str]) -> NDArray[np.object_]:
    """Return texts as an array of objects: of their own lengths each."""
    held = np.empty(len(texts), object)
    held[:] = list(texts)
    return held


def _count(value: object) -> int:
    return int(value.shape[0]) if hasattr(value, "shape") else len(cast("Ragged", value))


def _rows(value: object, rows: Positions) -> object:
    if isinstance(value, Ragged):
        return value.gather(rows)
    return value[rows] if isinstance(value, np.ndarray) else Gathered(cast("Rows", value), rows)


T = TypeVar("T", bound=np.generic)


def _concatenated(arrays: Sequence[NDArray[T]]) -> NDArray[T] | None:
    return np.concatenate(arrays) if arrays else None


def _same_kind(arrays: Sequence[Ids]) -> list[Ids]:
    """Return ids of several arrays as one kind: integers beside strings become the texts that they were."""
    full = [array for array in arrays if len(array)]
    if any(array.dtype.kind == "U" for array in full):
        return [array.astype(np.str_) for array in arrays]
    return [array if len(array) else np.empty(0, np.int64) for array in arrays]


def _joined_ids(arrays: Sequence[Ids]) -> Ids | None:
    return cast("Ids", np.concatenate(_same_kind(arrays))) if arrays else None


def _stacked(parts: Sequence[Rows]) -> Rows | None:
    if not parts:
        return None
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) > 1:
        raise ArgumentError("log", f"has vectors of {widths} dimensions", "read the queries of each model apart")
    if all(type(part) is np.ndarray for part in parts):
        return np.concatenate(cast("Sequence[NDArray[np.generic]]", parts))
    return Stacked(parts)


def _joined_lists(kind: type[R], parts: Sequence[R | None], sizes: Sequence[int]) -> R | None:
    held = [part for part in parts if part is not None]
    if not held:
        return None
    counts = [
        np.zeros(size, np.int64) if part is None else part.counts for part, size in zip(parts, sizes, strict=True)
    ]
    flat = {name: [getattr(part, name) for part in held] for name in kind.FLAT}
    joined = {name: np.concatenate(_same_kind(arrays) if name == "ids" else arrays) for name, arrays in flat.items()}
    return kind(starts_from(np.concatenate(counts)), **joined)


def _joined_names(parts: Sequence[NDArray[np.str_] | None], sizes: Sequence[int]) -> NDArray[np.str_] | None:
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(size, "U1") if part is None else part for part, size in zip(parts, sizes, strict=True)]
    )


def _joined_told(parts: Sequence[QueryLog]) -> NDArray[np.bool_] | None:
    told = np.concatenate([part.says_who for part in parts])
    return None if told.all() or not told.any() else told


NO_QUERIES = QueryLog(query_ids=np.empty(0, np.int64))  # a log without a query yet
