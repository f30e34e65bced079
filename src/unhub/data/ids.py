"""Ids: check, join and look up."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence, Set
from pathlib import Path
from typing import cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.errors import ArgumentError
from unhub.frames.frames import plain_ids

_FROZEN: WeakValueDictionary[int, NDArray[np.generic]] = WeakValueDictionary()  # what `as_ids` returned
INTEGER_PATTERN = re.compile(r"0|-?[1-9][0-9]{0,18}")


def is_integer(text: str) -> bool:
    """Return whether a text is a plain 64-bit integer ("7", not "007")."""
    return INTEGER_PATTERN.fullmatch(text) is not None and -(1 << 63) <= int(text) < 1 << 63


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file; other characters that may end a line, such as a lone \\r, stay inside it."""
    content = path.read_bytes().decode("utf-8-sig")
    return [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")]


def as_ids(ids: object, count: int, name: str) -> Ids:
    """Return ids as a read-only array of int64 or strings; raise unless there are `count`, none repeated."""
    ids = plain_ids(ids, name)
    array = np.asarray(ids)
    if array.ndim != 1 or len(array) != count:
        found = (
            f"{len(array)} {'id' if len(array) == 1 else 'ids'}" if array.ndim == 1 else f"ids of shape {array.shape}"
        )
        raise ArgumentError(name, f"has {found}, {count} are needed", "give one id for each")
    _check_unchanged(ids, name)
    if array.dtype.kind == "O" and _all_text(array):
        array = array.astype(np.str_)
    if array.dtype.kind not in "iuU":
        raise ArgumentError(name, f"has {_odd(array)}", "ids must be integers or strings")
    if array.dtype.kind == "u" and count and array.max() > np.iinfo(np.int64).max:
        raise ArgumentError(
            name, f"has the id {array.max()}, over {np.iinfo(np.int64).max}, the largest integer", "use strings as ids"
        )
    kept = _FROZEN.get(id(array)) is array and not array.flags.writeable  # others could be made writeable again
    as_held = np.dtype(np.int64) if array.dtype.kind in "iu" else array.dtype.newbyteorder("=")
    array = array.astype(as_held, copy=not kept)
    nobody = no_id(array.dtype)
    if (array == nobody).any():
        raise ArgumentError(name, f"has the id {nobody!r}, which marks an empty place in results", "use another id")
    if array.dtype.kind == "U" and count and array.view(np.uint32).max() > sys.maxunicode:
        raise ArgumentError(name, "has an id that is not valid text", "the file it was read from is damaged")
    if count and not _is_increasing(array):
        values, counts = np.unique(array, return_counts=True)
        if len(values) < count:
            example = values[counts > 1][0].item()
            raise ArgumentError(name, f"has repeated ids, for example {example!r}", "each id must occur once")
    array.setflags(write=False)
    _FROZEN[id(array)] = array
    return cast("Ids", array)


def no_id(dtype: np.dtype[np.generic]) -> int | str:
    """Return the value that results hold where there is no item."""
    return "" if dtype.kind == "U" else -1


def _is_increasing(ids: NDArray[np.generic]) -> bool:
    return bool(np.greater(ids[1:], ids[:-1]).all())


def join_ids(ids: Ids, new: Ids, name: str = "new_items") -> Ids:
    """Return ids followed by new ones of the same type, all different; errors call the new ones `name`."""
    if ids.dtype.kind != new.dtype.kind:
        raise ArgumentError(
            name, f"has {_described(new)}, the ids before are {_plural(ids)}", "give all integers or all strings as ids"
        )
    return as_ids(np.concatenate([ids, new]), len(ids) + len(new), name)


def positions_of(wanted: object, ids: Ids, name: str) -> NDArray[np.int64]:
    """Return the position of each wanted id in `ids`; raise if one is missing."""
    asked = _flat(list(wanted) if isinstance(wanted, Set) else wanted, name)
    if len(asked) == 0:
        return np.empty(0, np.int64)
    if (asked.dtype.kind, ids.dtype.kind) not in (("i", "i"), ("u", "i"), ("U", "U")):
        remedy = "give the ids that the mask selects" if asked.dtype.kind == "b" else "name the items as in the fit"
        raise ArgumentError(name, f"has {_described(asked)}, the ids here are {_plural(ids)}", remedy)
    order = np.argsort(ids, kind="stable")
    places = np.searchsorted(ids, asked, sorter=order)
    found = order[np.minimum(places, len(ids) - 1)]
    missing = ids[found] != asked
    if missing.any():
        count = int(missing.sum())
        raise ArgumentError(
            name, f"has {count} unknown id{'s' if count > 1 else ''}, for example {asked[missing][0].item()!r}"
        )
    return found


def _flat(ids: object, name: str) -> NDArray[np.generic]:
    """Return one id or several as an array; an object array of strings becomes a string array."""
    ids = plain_ids(ids, name)
    try:
        array = np.atleast_1d(np.asarray(ids))
    except ValueError:
        array = np.empty((0, 0))  # lists of different lengths
    if array.ndim != 1:
        raise ArgumentError(name, "must be a flat list of ids, got a list of lists")
    _check_unchanged(ids, name)
    return array.astype(np.str_) if array.dtype.kind == "O" and _all_text(array) else array


def _check_unchanged(ids: object, name: str) -> None:
    """Raise for what numpy would convert: ids of several types in a list or an object array, texts that end in NUL."""
    listed = isinstance(ids, list | tuple) or (isinstance(ids, np.ndarray) and ids.dtype.kind == "O")
    given = cast("Sequence[object]", ids) if listed else [ids] if isinstance(ids, str) else []
    kinds = {_kind(found): one for found, one in {type(one): one for one in given}.items()}
    if len(kinds) > 1:
        first, second = list(kinds.values())[:2]
        raise ArgumentError(
            name, f"has ids of several types, for example {first!r} and {second!r}", "give all integers or all strings"
        )
    if str in kinds:
        for one in given:
            if str(one).endswith("\0"):
                raise ArgumentError(
                    name, f"has the id {one!r}, which ends in NUL", "arrays of texts drop it: rename it"
                )


def _kind(found: type) -> type:
    kinds = {bool: (bool, np.bool_), int: (int, np.integer), str: (str,)}
    return next((kind for kind, types in kinds.items() if issubclass(found, types)), found)


def _all_text(array: NDArray[np.generic]) -> bool:
    return all(isinstance(one, str) for one in array.tolist())


def _odd(array: NDArray[np.generic]) -> str:
    """Return what is wrong with ids that are neither integers nor strings."""
    listed = array.tolist() if array.dtype.kind == "O" else []
    row, one = next(((row, one) for row, one in enumerate(listed) if not isinstance(one, str)), (0, None))
    return f"the id {one!r} in row {row}" if listed else f"ids of type {array.dtype}"


def _described(ids: NDArray[np.generic]) -> str:
    return f"ids of type {ids.dtype}" if ids.dtype.kind not in "iuU" else f"ids that are {_plural(ids)}"


def _plural(ids: NDArray[np.generic]) -> str:
    return "strings" if ids.dtype.kind == "U" else "integers"
