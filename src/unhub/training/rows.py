"""Rows that training reads by position: features, or whatever a module of one's own takes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.data.vectors import Gathered, Stacked, Vectors, VectorsLike, as_vectors, take
from unhub.data.vectors import Rows as Source

HELD = (np.ndarray, Gathered, Stacked)  # in memory or mapped


@dataclass(frozen=True, eq=False)
class Rows:
    """Ids, and an array whose first axis is the rows: features (n, d), token ids (n, length), pictures (n, 3, h, w).

    It is a numpy array, or whatever has a shape, a dtype and slices, such as one that decodes pictures as asked.
    """

    ids: Ids
    source: Source

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def held(self) -> bool:
        """Whether the rows are there, rather than made as asked."""
        return isinstance(self.source, HELD)

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.generic]:
        """Return a copy of the rows at these positions."""
        if self.held:
            return take(self.source, positions)
        return np.concatenate([self.source[int(one) : int(one) + 1] for one in positions])

    def digest(self, positions: NDArray[np.int64]) -> str:
        """Return a hash of the ids and rows at these positions; of rows that are made as asked, of the ids alone."""
        checksum = hashlib.blake2b(f"{self.source.dtype}{self.source.shape}".encode(), digest_size=16)
        checksum.update("\n".join(map(str, self.ids[positions].tolist())).encode("utf-8", "surrogatepass"))
        for start in range(0, len(positions) if self.held else 0, 4096):
            checksum.update(np.ascontiguousarray(self.take(positions[start : start + 4096])).data)
        return checksum.hexdigest()


def as_rows(value: VectorsLike, name: str) -> Rows:
    """Return rows for a module of one's own, of any shape and kind; numbered from 0 where they have no ids."""
    if isinstance(value, Vectors):
        return Rows(value.ids, value.rows)
    if hasattr(value, "shape") and len(getattr(value, "shape", ())) > 2:
        ids = np.arange(value.shape[0])
        return Rows(ids, Vectors(ids, value).rows)  # type: ignore[arg-type]  # an array, or what slices as one
    given = as_vectors(value, name)
    return Rows(given.ids, given.rows)
