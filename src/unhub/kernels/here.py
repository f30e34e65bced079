"""Here: what the kernels on numpy arrays share: blocks, tiles and running values are plain arrays of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unhub.arrays import Float32
from unhub.kernels.interface import Limits

ON_DEVICE = False
LIMITS: Limits | None = None  # the callers know what suits a processor's caches


def empty(shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Return an array of this shape with any contents."""
    return np.empty(shape, dtype)


def host(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array itself: it is a numpy array already."""
    return array


def write(scores: NDArray[np.floating], out: Float32) -> None:
    """Copy given scores into a tile."""
    out[...] = scores


def turned(tile: Float32) -> Float32:
    """Return the tile with rows and columns exchanged, in C order."""
    return np.ascontiguousarray(tile.T)


def shift(tile: Float32, offsets: Float32) -> None:
    """Add a number to each column of a tile."""
    tile += offsets


def lower(tile: Float32, weights: Float32, bias: Float32) -> None:
    """Subtract weight * bias from each score; weights are (rows,), biases (columns,)."""
    with np.errstate(over="ignore"):  # the caller reports it
        tile -= weights[:, None] * bias


def best_columns(tile: Float32) -> NDArray[np.int64]:
    """Return the first column with the largest score of each row, (rows,)."""
    return np.asarray(tile.argmax(axis=1))


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a device has no memory left: never, since there is none."""
    return False


@contextmanager
def lane() -> Iterator[None]:
    """Let this thread compute: nothing to prepare."""
    yield
