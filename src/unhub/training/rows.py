"""Rows that training reads by position: features, or whatever the user's own module takes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids, spans
from unhub.data.vectors import Gathered, Rows, Stacked, Vectors, VectorsLike, as_vectors, take

STORED_TYPES = (np.ndarray, Gathered, Stacked)  # in memory or mapped
HASHED_ROWS = 4096  # hashed at a time


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Ids, and an array whose first axis is the rows: features (n, d), token ids (n, length), pictures (n, 3, h, w).

    It is a numpy array, or any object with a shape, a dtype and slices, such as one that decodes pictures on demand.
    """

    ids: Ids
    source: Rows

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def held(self) -> bool:
        """Whether the rows are stored, rather than made on demand."""
        return isinstance(self.source, STORED_TYPES)

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.generic]:
        """Return a copy of the rows at these positions."""
        if self.held:
            return take(self.source, positions)
        return np.concatenate([self.source[int(one) : int(one) + 1] for one in positions])

    def digest(self, positions: NDArray[np.int64]) -> str:
        """Return a hash of the ids and rows at these positions; of the ids alone if rows are made on demand."""
        checksum = hashlib.blake2b(f"{self.source.dtype}{self.source.shape}".encode(), digest_size=16)
        checksum.update("\n".join(map(str, self.ids[positions].tolist())).encode("utf-8", "surrogatepass"))
        for start, stop in spans(len(positions) if self.held else 0, HASHED_ROWS):
            checksum.update(np.ascontiguousarray(self.take(positions[start:stop])).data)
        return checksum.hexdigest()


def as_rows(value: VectorsLike, name: str) -> TrainingRows:
    """Return rows of any shape for the user's own module; numbered from 0 if they have no ids."""
    if isinstance(value, Vectors):
        return TrainingRows(value.ids, value.rows)
    if hasattr(value, "shape") and len(getattr(value, "shape", ())) > 2:
        ids = np.arange(value.shape[0])
        return TrainingRows(ids, Vectors(ids, value).rows)  # type: ignore[arg-type]  # an array, or an object with its slices
    given = as_vectors(value, name)
    return TrainingRows(given.ids, given.rows)
