"""Ids: checked, joined and looked up."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence, Set
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def is_integer(text: str) -> bool:
    """Return whether a text is an integer as one is written ("7", not "007"), of 64 bits."""
    return INTEGER.fullmatch(text) is not None and -(1 << 63) <= int(text) < 1 << 63


def as_ids(ids: object, count: int, name: str) -> Ids:
    """Return ids as a read-only array of int64 or strings; they must number `count` and not repeat."""
    array = np.asarray(ids)
    if array.ndim != 1 or len(array) != count:
        raise ValueError(f"{name}: {count} ids are needed, one for each, got shape {array.shape}")
    _check_one_kind(ids, name)
    if array.dtype.kind == "O" and _all_text(array):
        array = array.astype(np.str_)
    if array.dtype.kind not in "iuU":
        raise ValueError(f"{name}: ids must be integers or strings, got {array.dtype}")
    if array.dtype.kind == "u" and count and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: id {array.max()} is over {np.iinfo(np.int64).max}, the largest there may be")
    array = array.astype(np.int64) if array.dtype.kind in "iu" else array.astype(array.dtype.newbyteorder("="))
    nobody = no_id(array.dtype)
    if (array == nobody).any():
        raise ValueError(f"{name}: no id may be {nobody!r}, which stands for a place that no item fills")
    if array.dtype.kind == "U" and count and array.view(np.uint32).max() > sys.maxunicode:
        raise ValueError(f"{name}: an id holds a number that is no character; the file it is from is damaged")
    if count and not _is_increasing(array):
        values, counts = np.unique(array, return_counts=True)
        if len(values) < count:
            raise ValueError(
                f"{name}: ids repeat, for example {values[counts > 1][0].item()!r}; each id must occur once"
            )
    array.setflags(write=False)
    return cast("Ids", array)


def no_id(dtype: np.dtype[np.generic]) -> int | str:
    """Return what stands in the place of an id where there is no item."""
    return "" if dtype.kind == "U" else -1


def _is_increasing(ids: NDArray[np.generic]) -> bool:
    return bool(np.greater(ids[1:], ids[:-1]).all())


def join_ids(first: Ids, second: Ids) -> Ids:
    """Return the ids of two sets, one after the other; they must be of one type and share none."""
    if first.dtype.kind != second.dtype.kind:
        raise ValueError(f"ids must be all integers or all strings, got {_words(first)} and {_words(second)}")
    return as_ids(np.concatenate([first, second]), len(first) + len(second), "ids")


def positions_of(wanted: object, ids: Ids, name: str) -> NDArray[np.int64]:
    """Return where each wanted id stands in `ids`; an id that is not there is an error."""
    asked = _flat(list(wanted) if isinstance(wanted, Set) else wanted, name)
    if len(asked) == 0:
        return np.empty(0, np.int64)
    if (asked.dtype.kind, ids.dtype.kind) not in (("i", "i"), ("u", "i"), ("U", "U")):
        remedy = (
            "give the ids that a mask stands for, ids[mask]"
            if asked.dtype.kind == "b"
            else "name the items as in the fit"
        )
        raise ValueError(f"{name}: the ids are {_words(ids)} here, got {_words(asked)}; {remedy}")
    order = np.argsort(ids, kind="stable")
    places = np.searchsorted(ids, asked, sorter=order)
    found = order[np.minimum(places, len(ids) - 1)]
    missing = ids[found] != asked
    if missing.any():
        raise ValueError(f"{name}: {int(missing.sum())} unknown id(s), for example {asked[missing][0].item()!r}")
    return found


def _flat(ids: object, name: str) -> NDArray[np.generic]:
    """Return one id or several as an array; strings in an array of objects become plain ones."""
    try:
        array = np.atleast_1d(np.asarray(ids))
    except ValueError:
        array = np.empty((0, 0))  # lists of different lengths
    if array.ndim != 1:
        raise ValueError(f"{name} must be a flat collection of ids, got one of collections")
    _check_one_kind(ids, name)
    return array.astype(np.str_) if array.dtype.kind == "O" and _all_text(array) else array


def _check_one_kind(ids: object, name: str) -> None:
    """Raise a ValueError where a list, or an array of objects, is of several kinds: numpy would make them one."""
    listed = isinstance(ids, list | tuple) or (isinstance(ids, np.ndarray) and ids.dtype.kind == "O")
    types = {type(one): one for one in cast("Sequence[object]", ids)} if listed else {}
    kinds = {_kind(found): one for found, one in types.items()}
    if len(kinds) > 1:
        first, second = list(kinds.values())[:2]
        raise ValueError(f"{name}: ids must be all integers or all strings, got {first!r} and {second!r}")


def _kind(found: type) -> type:
    kinds = {bool: (bool, np.bool_), int: (int, np.integer), str: (str,)}
    return next((kind for kind, types in kinds.items() if issubclass(found, types)), found)


def _all_text(array: NDArray[np.generic]) -> bool:
    return all(isinstance(one, str) for one in array.tolist())


def _words(ids: NDArray[np.generic]) -> str:
    return "integers" if ids.dtype.kind in "iu" else "strings" if ids.dtype.kind == "U" else str(ids.dtype)
