"""Arrays: types, spans of rows, unit rows, distinct values and random positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Float32: TypeAlias = NDArray[np.float32]
Float64: TypeAlias = NDArray[np.float64]
Floats = TypeVar("Floats", NDArray[np.float32], NDArray[np.float64])
Ids: TypeAlias = NDArray[np.int64] | NDArray[np.str_]
Kind: TypeAlias = Literal["cosine", "dot"]
Span: TypeAlias = tuple[int, int]
T = TypeVar("T", bound=np.generic)

BLOCK_BYTES = 16 << 20


def spans(count: int, size: int, start: int = 0, *, short_first: bool = False) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of consecutive blocks of `size` up to `count`; the last (or first) may be shorter."""
    if short_first and (short := (count - start) % size):
        yield start, start + short
        start += short
    for first in range(start, count, size):
        yield first, min(first + size, count)


def rows_per_block(dimensions: int) -> int:
    """Return how many float32 rows fit into BLOCK_BYTES, at least one."""
    return max(1, BLOCK_BYTES // (4 * dimensions))


def unit(block: Float32) -> Float32:
    """Return the rows scaled to length one."""
    lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
    if are_ordinary(lengths):
        return cast("Float32", block * (np.float32(1) / lengths)[:, None])
    wide = block.astype(np.float64)  # the squares of such rows are outside the range of float32
    return cast("Float32", (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32))


def are_ordinary(lengths: Float32) -> bool:
    """Return whether rows of these lengths have squares within the range of float32."""
    return bool(((lengths > 1e-15) & (lengths < 1e18)).all())


def distinct(values: NDArray[T]) -> NDArray[T]:
    """Return the distinct values, ascending; numpy's unique hashes them, which took 100 times as long at 10,000,000."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def are_among(values: NDArray[T], known: NDArray[T]) -> NDArray[np.bool_]:
    """Return which of the values are among the known ones, as numpy's isin does, which hashes too."""
    if not len(known):
        return np.zeros(len(values), bool)
    order, ordered = np.argsort(values), np.sort(known)
    places = np.minimum(np.searchsorted(ordered, values[order]), len(ordered) - 1)
    found = np.empty(len(values), bool)
    found[order] = ordered[places] == values[order]
    return found


def random_positions(count: int, size: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
    """Return `size` of the positions 0 to count - 1, drawn without replacement and sorted; one seed, one draw."""
    return np.sort(np.random.default_rng(seed).choice(count, size, replace=False)).astype(np.int64, copy=False)
