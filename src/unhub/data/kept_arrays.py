"""Kept arrays: what a method, a correction or a model declares about its arrays, and how that is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

ITEMS = "items"
BANK_WEIGHT = "bank weight"  # the sum of the weights of the bank queries, rounded down, if these have weights
EMPTY_SIDES = ("bank_items",)  # sides that may have length 0 if their size is unknown


@dataclass(frozen=True)
class Kept:
    """The type and sides of an array; a side is a number or the name of a size (items, bank, dimensions).

    dtype: numpy's name, or `floating` for any float type. Floats must be finite; `unfilled` also allows -inf, and
    `narrow` requires that they are finite in float32. least: the smallest whole number allowed. below: the side that
    the numbers are positions of. optional: the array may be missing.
    """

    dtype: str
    sides: tuple[int | str, ...]
    least: int = 0
    below: str = ""
    unfilled: bool = False
    narrow: bool = False
    optional: bool = False


Declared = Mapping[str, Kept]
Arrays = Mapping[str, NDArray[np.generic]]


def per_item(declared: Declared) -> set[str]:
    """Return the arrays that have a row for each item."""
    return {name for name, kept in declared.items() if kept.sides[0] == ITEMS}


def check_arrays(arrays: Arrays, declared: Declared, sizes: Mapping[str, int]) -> None:
    """Raise a ValueError unless these are the declared arrays; a named side has the same size in all of them."""
    declared = {name: kept for name, kept in declared.items() if name in arrays or not kept.optional}
    for name in sorted({*arrays} ^ {*declared}):
        raise ValueError(f"the array {name} is {'missing' if name in declared else 'not expected'}")
    known = dict(sizes)
    for name, kept in declared.items():
        _check_type(name, arrays[name], kept)
        _check_shape(name, arrays[name], kept, known)
    for name, kept in declared.items():
        _check_values(name, arrays[name], kept, known)


def _check_type(name: str, array: NDArray[np.generic], kept: Kept) -> None:
    native = array.dtype.newbyteorder("=")
    if not (np.issubdtype(native, np.floating) if kept.dtype == "floating" else native == kept.dtype):
        raise ValueError(f"the array {name} has type {array.dtype}, expected {kept.dtype}")


def _check_shape(name: str, array: NDArray[np.generic], kept: Kept, sizes: dict[str, int]) -> None:
    wanted: list[int | str] = [sizes.get(side, side) if isinstance(side, str) else side for side in kept.sides]
    sound = array.ndim == len(wanted) and all(
        (length > 0 or side in EMPTY_SIDES) if isinstance(side, str) else side == length
        for side, length in zip(wanted, array.shape, strict=True)
    )
    if not sound:
        words = ", ".join(map(str, wanted))
        raise ValueError(f"the array {name} has shape {array.shape}, expected ({words})")
    sizes.update((side, length) for side, length in zip(kept.sides, array.shape, strict=True) if isinstance(side, str))


def _check_values(name: str, array: NDArray[np.generic], kept: Kept, sizes: Mapping[str, int]) -> None:
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            wrong = ~np.isfinite(array.astype(np.float32, copy=False) if kept.narrow else array)
        if kept.unfilled and wrong.any():
            wrong &= array != -np.inf
        wanted = "a number that is finite in float32" if kept.narrow else "a finite number"
    elif array.dtype.kind == "b":
        wrong = array.view(np.uint8) > 1
        wanted = "true or false"
    else:
        numbers = cast("NDArray[np.integer]", array)
        wrong = numbers < kept.least
        wanted = f"a whole number of at least {kept.least}"
        if kept.below:
            wrong |= numbers >= sizes[kept.below]
            wanted += f" and below {sizes[kept.below]}"
    if wrong.any():
        raise ValueError(f"the array {name} holds {array[wrong][0]}, expected {wanted}")
