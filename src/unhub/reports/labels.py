"""Labels: what stands for an item or a query on a page: its text, its picture, or else its id."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import TypeAlias, TypeVar

from unhub.arrays import Ids

T = TypeVar("T")
ByIdOrRow: TypeAlias = Mapping[int | str, T] | Mapping[int, T] | Mapping[str, T] | Sequence[T]
Paths: TypeAlias = ByIdOrRow[str | os.PathLike[str]]

LONGEST = 240  # letters of a text that are shown


@dataclass(frozen=True, eq=False)
class Labels:
    """Texts and paths of pictures of some rows, each perhaps there: in the order of the rows, or by id."""

    what: str
    ids: Ids
    texts: ByIdOrRow[str] | None = None
    pictures: Paths | None = None

    def __post_init__(self) -> None:
        for given, name in ((self.texts, "texts"), (self.pictures, "images")):
            if isinstance(given, str) or (given is not None and not isinstance(given, Mapping | Sequence)):
                raise ValueError(f"{self.what}_{name} must be a list with one for each row, or a mapping by id")
            if given is not None and not isinstance(given, Mapping) and len(given) != len(self.ids):
                raise ValueError(f"{self.what}_{name}: {len(given)} are given, {len(self.ids)} are needed, one per row")
            if isinstance(given, Mapping) and not any(one in given for one in self.ids.tolist()):
                raise ValueError(f"{self.what}_{name}: none is of an id there is, such as {self.ids[0].item()!r}")
        self._check(self.texts, "texts", str, "a text")
        self._check(self.pictures, "images", str | os.PathLike, "a path")

    def _check(self, given: ByIdOrRow[object] | None, name: str, kind: type | UnionType, words: str) -> None:
        for one in () if given is None else given.values() if isinstance(given, Mapping) else given:
            if one is not None and not isinstance(one, kind):
                raise ValueError(f"{self.what}_{name}: each must be {words}, or None where there is none, got {one!r}")

    def text(self, row: int) -> str:
        """Return the text of a row, or what it is and its id."""
        found = self._find(self.texts, row)
        if not found:
            return f"{self.what} {self.ids[row].item()}"
        return found if len(found) <= LONGEST else f"{found[: LONGEST - 1].rstrip()}…"

    def picture(self, row: int) -> str | None:
        """Return the path of a row's picture, or None where it has none."""
        found = self._find(self.pictures, row)
        return None if found is None else os.fspath(found)

    def _find(self, given: ByIdOrRow[T] | None, row: int) -> T | None:
        if given is None:
            return None
        if isinstance(given, Mapping):
            return given.get(self.ids[row].item())
        return given[row]
