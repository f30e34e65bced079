"""Copies: items with the same contents, which must tie in every ranking whatever the rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float32, distinct, rows_per_block, spans
from unhub.data.fingerprint import Hashes
from unhub.data.ragged import Positions
from unhub.data.vectors import Vectors, take

ROUNDING_SHARE = 1e-5  # of h, or of 1: copies whose h differ by more differ on purpose


@dataclass(frozen=True, eq=False)
class Copies:
    """The positions of items that are copies, and of the first item that each one copies, (copies,)."""

    positions: Positions
    firsts: Positions

    @staticmethod
    def among(items: Vectors, hashes: Hashes) -> Copies:
        """Return the copies among items with these hashes of their rows."""
        if len(distinct(hashes)) == len(hashes):
            return NO_COPIES
        _, first, back = np.unique(hashes, return_index=True, return_inverse=True)
        positions = np.flatnonzero(first[back] != np.arange(len(hashes)))
        firsts = first[back][positions]
        same = np.empty(len(positions), bool)  # two rows may share a hash by chance
        for start, stop in spans(len(positions), rows_per_block(items.dimensions)):
            one, other = (take(items.rows, of[start:stop]).astype(np.float32) for of in (positions, firsts))
            same[start:stop] = (one == other).all(axis=1)
        return Copies(positions[same], firsts[same])

    def level(self, tile: Float32) -> None:
        """Overwrite the scores of copies with those of their first items, in a (queries, items) tile.

        BLAS may round equal columns of one product differently.
        """
        if len(self.positions):
            tile[:, self.positions] = tile[:, self.firsts]

    def levelled(self, h: Float32) -> Float32:
        """Return h with each copy set to the value of its first item, if the two differ only by rounding."""
        if not len(self.positions):
            return h
        level = h.copy()
        close = np.isclose(h[self.positions], h[self.firsts], rtol=ROUNDING_SHARE, atol=ROUNDING_SHARE)
        level[self.positions[close]] = h[self.firsts[close]]
        return level


NO_COPIES = Copies(np.empty(0, np.int64), np.empty(0, np.int64))
