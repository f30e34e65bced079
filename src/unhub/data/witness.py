"""Witness: a few numbers of some items, by which they are known again after an engine has scaled or rounded them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind, random_positions
from unhub.data.vectors import Vectors

MOST_ITEMS = 500
MARKS = 8  # of an item: enough to tell a cosine of 0.9999 from one of 0.999
SEED = 0x756E687562


@dataclass(frozen=True, eq=False)
class Witness:
    """The items at `places`, drawn at random, each with its `marks`, (places, marks), and its length.

    The marks are the products of the item, scaled to length one, with fixed random directions, so that the squared
    distance of two items is about the mean square of the differences of their marks.
    """

    places: NDArray[np.int64]
    marks: Float32
    lengths: Float32

    @staticmethod
    def of(items: Vectors) -> Witness:
        """Draw from these items, which must have been checked."""
        return Witness.at(items, random_positions(len(items), min(len(items), MOST_ITEMS), SEED))

    @staticmethod
    def at(items: Vectors, places: NDArray[np.int64]) -> Witness:
        """Take the items at these places."""
        some = items.gather(places)
        directions = np.random.default_rng(SEED).standard_normal((items.dimensions, MARKS))
        rows = some.block(0, len(some)).astype(np.float64)
        lengths = np.linalg.norm(rows, axis=1)
        rows /= np.where(lengths > 0, lengths, 1.0)[:, None]
        return Witness(places, (rows @ directions).astype(np.float32), lengths.astype(np.float32))

    def cosines(self, items: Vectors, similarity: Kind) -> Float64:
        """Return about which cosine each has with the item now in its place, -1 if a length matters and differs."""
        now = Witness.at(items, self.places)
        found = 1 - np.mean((self.marks.astype(np.float64) - now.marks) ** 2, axis=1) / 2
        if similarity == "dot":
            found[~np.isclose(self.lengths, now.lengths, rtol=1e-3, atol=0)] = -1.0
        return np.asarray(found)

    def among(self, stays: NDArray[np.int64]) -> Witness | None:
        """Return what is left of it once only the items at these positions, in rising order, are; None if nothing."""
        left = np.isin(self.places, stays)
        if not left.any():
            return None
        return Witness(np.searchsorted(stays, self.places[left]), self.marks[left], self.lengths[left])

    def without(self, places: NDArray[np.int64]) -> Witness | None:
        """Return it without the items at these places, which have other contents now; None if nothing is left."""
        left = ~np.isin(self.places, places)
        return Witness(self.places[left], self.marks[left], self.lengths[left]) if left.any() else None
