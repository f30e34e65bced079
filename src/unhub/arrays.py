"""Arrays: types, spans of rows, unit rows and random positions."""

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


def random_positions(count: int, size: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
    """Return `size` of the positions 0 to count - 1, drawn without replacement and sorted; one seed, one draw."""
    return np.sort(np.random.default_rng(seed).choice(count, size, replace=False)).astype(np.int64, copy=False)
