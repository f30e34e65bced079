"""Where the vectors of a data set come from: ready files, or an encoder; and their hash."""

from __future__ import annotations

import hashlib
from typing import Literal, Protocol, TypeAlias

import numpy as np

from unhub.compute.workers import Progress
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors
from unhub.datasets.dataset import Side

Which: TypeAlias = Literal["items", "queries"]
SideVectors: TypeAlias = tuple[Vectors, tuple[str, ...]]  # vectors, and notes on what has none


class VectorSource(Protocol):
    """Gives the vectors of the sides of a data set."""

    @property
    def name(self) -> str:
        """The model, as results and tables call it."""

    def has(self, part: str, which: Which, side: Side) -> bool:
        """Say whether there are vectors of this side."""

    def unusable(self, part: str, which: Which, side: Side) -> str:
        """Say in a note why none of what is there can be used; nothing where something can."""

    def vectors(self, part: str, which: Which, side: Side, progress: Progress | None) -> SideVectors:
        """Return the vectors of a side under its ids, in its order, and notes on those that have none."""


def digest_of(*several: Vectors | Dense | None) -> str:
    """Return a hash of ids and rows; results are kept only for the same ones."""
    found = hashlib.blake2b(digest_size=8)
    for one in several:
        if one is None:
            found.update(b"none")
            continue
        if isinstance(one, Dense):
            one = Vectors(np.arange(one.shape[0]), one.matrix)
        found.update("\n".join(map(str, one.ids.tolist())).encode("utf-8", "surrogateescape"))
        for _, block in one.blocks():
            found.update(block.tobytes())
    return found.hexdigest()
