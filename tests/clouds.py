"""Clouds of vectors of a known kind, to compare banks and queries on."""

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Kind
from unhub.data.vectors import Vectors, as_vectors

Floats = NDArray[np.float64]
KINDS: tuple[Kind, ...] = ("cosine", "dot")


def unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def some(rows: int, seed: int, dimensions: int = 8, towards: float = 0.0) -> Floats:
    """Return unit rows around a shared direction, `towards` of the way to another one."""
    noise = np.random.default_rng(seed).normal(size=(rows, dimensions))
    noise[:, 0] += 2
    noise[:, 1] += 2 * towards
    return unit(noise)


def vectors(rows: Floats) -> Vectors:
    return as_vectors(rows, "rows")
