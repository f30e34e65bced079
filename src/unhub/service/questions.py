"""Questions: what one search asks of a version, and the search that answers many of them together."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from unhub.arrays import Float32, Ids
from unhub.combine import CombinationLike
from unhub.correction import Scores
from unhub.errors import ArgumentError
from unhub.search.hits import Hits, Id
from unhub.service.version import Version

FETCHED = 200  # places looked at in both rankings, to say how far an item moved

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Question:
    """One query, or several for one target, of one version.

    combine: how several become one; None for a single query. where: a filter of the engine. both: whether the raw
    ranking is wanted too. counted: whether the metrics count it as a query.
    """

    version: Version
    vectors: Float32
    k: int
    strength: float
    combine: CombinationLike | None = None
    among: tuple[Id, ...] | None = None
    exclude: tuple[Id, ...] = ()
    where: Any = None
    both: bool = False
    counted: bool = True

    @property
    def depth(self) -> int:
        """How many places to fetch."""
        return min(len(self.version), max(self.k, FETCHED)) if self.both else self.k

    @cached_property
    def key(self) -> Key:
        """What questions have in common that one search can answer."""
        how = self.combine if self.combine is None or isinstance(self.combine, str) else id(self.combine)
        return id(self.version), how, self.among, None if self.where is None else _written(self.where)


@dataclass(frozen=True, eq=False)
class Reply:
    """The ids and scores that one question found, best first; raw: those of the raw ranking, if it was wanted."""

    ids: Ids
    scores: Scores
    raw: tuple[Ids, Scores] | None
    depth: int


def _written(where: object) -> str:
    try:
        return json.dumps(where, sort_keys=True)
    except RecursionError:
        raise ArgumentError("where", "is nested too deeply", "give a simpler filter") from None


def find_all(questions: Sequence[Question]) -> list[Reply | Exception]:
    """Answer the questions, with one search for all that have the same version, combination and filters."""
    groups: dict[Key, list[int]] = {}
    for place, one in enumerate(questions):
        groups.setdefault(one.key, []).append(place)
    answers: dict[int, Reply | Exception] = {}
    for places in groups.values():
        answers.update(zip(places, _each([questions[place] for place in places]), strict=True))
    return [answers[place] for place in range(len(questions))]


def _each(group: Sequence[Question]) -> Sequence[Reply | Exception]:
    """Answer a group; where it fails as a whole, each alone, so that a wrong question fails nobody else."""
    try:
        return _find(group)
    except Exception as error:
        return [error] if len(group) == 1 else [_each([one])[0] for one in group]


def _find(group: Sequence[Question]) -> list[Reply]:
    first = group[0]
    both = [one for one in group if one.both]
    corrected = _asked(group, lambda sets, k, **limits: first.version.search(sets, k, _strengths(group), **limits))
    raw = _asked(both, first.version.search_raw) if both else None
    found, at = [], 0
    for row, one in enumerate(group):
        beside = None
        if one.both and raw is not None:
            beside = _cut(raw, at, one.depth)
            at += 1
        found.append(Reply(*_cut(corrected, row, one.depth), beside, one.depth))
    return found


def _asked(group: Sequence[Question], search: Callable[..., Hits]) -> Hits:
    """Search for the whole group: as many places as the deepest wants."""
    first = group[0]
    exclude = [one.exclude or None for one in group] if any(one.exclude for one in group) else None
    return search(
        [one.vectors for one in group],
        max(one.depth for one in group),
        combine=first.combine,
        among=first.among,
        exclude=exclude,
        where=first.where,
    )


def _strengths(group: Sequence[Question]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([one.strength for one in group], np.float64)


def _cut(hits: Hits, row: int, depth: int) -> tuple[Ids, Scores]:
    """Return the first places of a row, without empty ones."""
    ids, scores = hits.ids[row, :depth], hits.scores[row, :depth]
    there = np.isfinite(scores)
    return ids[there], scores[there]


def check_vectors(vectors: Sequence[Sequence[float]], dimensions: int, name: str) -> Float32:
    """Return vectors that somebody sent as rows, (vectors, dimensions); raise unless each has these dimensions."""
    for place, one in enumerate(vectors):
        if len(one) != dimensions:
            which = "" if name == "vector" else f" in row {place}"
            raise ArgumentError(
                name, f"has {len(one)} dimensions{which}, the items {dimensions}", "embed both with one model"
            )
    with np.errstate(over="ignore"):
        rows = np.array(vectors, np.float32)
    if not np.isfinite(rows).all():
        raise ArgumentError(name, "holds a number beyond float32", "scale the numbers")
    return rows
