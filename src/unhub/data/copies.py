"""Copies: items with the same contents, which are level in every ranking however a multiply rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, rows_per_block, spans
from unhub.data.fingerprint import Hashes
from unhub.data.vectors import Vectors, take

ROUNDING = 1e-5  # of h, or of 1: twins whose h differ by more do so for a reason


@dataclass(frozen=True, eq=False)
class Twins:
    """The positions of items that are copies, and of the first item that each is a copy of, (copies,)."""

    copies: NDArray[np.int64]
    firsts: NDArray[np.int64]

    @staticmethod
    def among(items: Vectors, hashes: Hashes) -> Twins:
        """Return the twins among items with these hashes of their rows."""
        if len(np.unique(hashes)) == len(hashes):
            return NO_TWINS
        _, first, back = np.unique(hashes, return_index=True, return_inverse=True)
        copies = np.flatnonzero(first[back] != np.arange(len(hashes)))
        firsts = first[back][copies]
        same = np.empty(len(copies), bool)  # two rows may share a hash by chance
        for start, stop in spans(len(copies), rows_per_block(items.dimensions)):
            one, other = (take(items.rows, of[start:stop]).astype(np.float32) for of in (copies, firsts))
            same[start:stop] = (one == other).all(axis=1)
        return Twins(copies[same], firsts[same])

    def level(self, tile: Float32) -> None:
        """Write the first twins' scores over those of the copies, (queries, items): BLAS rounds columns unlike."""
        if len(self.copies):
            tile[:, self.copies] = tile[:, self.firsts]

    def levelled(self, h: Float32) -> Float32:
        """Return h with that of the first twins for the copies, where they differ by rounding."""
        if not len(self.copies):
            return h
        level = h.copy()
        close = np.isclose(h[self.copies], h[self.firsts], rtol=ROUNDING, atol=ROUNDING)
        level[self.copies[close]] = h[self.firsts[close]]
        return level


NO_TWINS = Twins(np.empty(0, np.int64), np.empty(0, np.int64))
