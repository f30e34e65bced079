"""Which columns of a table are vectors, ids and weights: those named, else by name, else the only one that fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

from unhub.errors import nearest_name

EMBEDDING, ID = "embedding", "id"
# Names of columns that probably hold ids: ids, ID, key, uuid, image_id, item-key, photoId.
ID_LIKE_NAME = re.compile(r"(?i:(.*[\W_])?(ids?|keys?|uids?|uuids?|guids?)_*)|.*[a-z0-9](Id|ID)s?")
PARTS = ("vector", "id", "weight")
# What stands behind the mark of a file: `vector=clip,id=key,weight=n`, in any order, or only the name of the vectors.
WRITTEN = tuple(
    re.compile(",".join(f"{part}=(?P<{part}>.+)" for part in parts), re.DOTALL)
    for count in (3, 2, 1)
    for parts in permutations(PARTS, count)
)
ARGUMENT, NAME = "{argument}", "{name}"  # in a text that says how a column is named


class WrongColumn(ValueError):
    """What is wrong with a column; whoever read it says where it is from."""


@dataclass(frozen=True)
class NamedColumns:
    """The columns that are meant, if they are named; `how` says in errors how to name them."""

    vector: str | None = None
    id: str | None = None
    how: str = ""
    weight: str | None = None

    @classmethod
    def written(cls, text: str | None, file: str) -> NamedColumns:
        """Return the columns that are written behind the name of a file."""
        how = f"{file}#{ARGUMENT}={NAME}"
        if text is None:
            return cls(how=how)
        found = next(filter(None, (pattern.fullmatch(text) for pattern in WRITTEN)), None)
        return cls(**found.groupdict(), how=how) if found else cls(text, None, how)

    def vector_of(self, names: Sequence[str], fits: Callable[[str], bool]) -> str:
        """Return the column of vectors: the one named, else `embedding`, else the only one of lists of numbers.

        fits: whether a column, which there is once, is of lists of floating numbers.
        """
        if self.vector is not None:
            return _there(names, self.vector)
        if EMBEDDING in names:
            return _there(names, EMBEDDING)
        found = [name for name in names if names.count(name) == 1 and fits(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise WrongColumn(
                f"has columns {_listed(names)}; {_listed(found)} hold vectors: name one{self._as('vector', found[0])}"
            )
        raise WrongColumn(
            f"has columns {_listed(names)}; `{EMBEDDING}` is required, or one of lists of floating numbers"
        )

    def id_of(self, names: Sequence[str], fits: Callable[[str], bool]) -> str | None:
        """Return the column of ids: the one named, else `id`, else the only one that is named like ids; or None.

        fits: whether a column, which there is once, is no column of lists, such as what was returned for a query.
        """
        if self.id is not None:
            return _there(names, self.id)
        like = [name for name in names if ID_LIKE_NAME.fullmatch(name) and (names.count(name) > 1 or fits(name))]
        if ID in like:
            return _there(names, ID)
        if len(like) > 1:
            raise WrongColumn(
                f"has columns {_listed(names)}; {_listed(like)} may hold the ids: name one{self._as('id', like[0])}"
            )
        return like[0] if like else None

    def weight_of(self, names: Sequence[str]) -> str | None:
        """Return the column of weights, which counts only if it is named; or None."""
        return None if self.weight is None else _there(names, self.weight)

    def _as(self, argument: str, name: str) -> str:
        return f", as in {self.how.replace(ARGUMENT, argument).replace(NAME, name)}" if self.how else ""


def _there(names: Sequence[str], name: str) -> str:
    """Return a name; raise unless there is one column of it."""
    if names.count(name) == 1:
        return name
    near = None if name in names else nearest_name(name, names)
    wrong = "must occur only once" if name in names else "is required"
    raise WrongColumn(f"has columns {_listed(names)}; `{name}` {wrong}" + (f", did you mean `{near}`?" if near else ""))


def _listed(names: Sequence[str]) -> str:
    return str([*names])
