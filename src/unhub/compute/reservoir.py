"""Reservoir: the k largest values of each row of a matrix that comes tile by tile, and where they stood."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.kernels import Kernel

SPARE_VALUES, LANE_VALUES = 96, 32  # room beyond the k largest: before a cut, and for what is compared at a time


class Reservoir:
    """The k largest values of each row so far, and where they stood."""

    def __init__(self, rows: int, k: int, columns: int, kernel: Kernel) -> None:
        room = self.room(k, columns)
        self.k, self.kernel = k, kernel
        self.values = np.empty((rows, room), np.float32)
        self.places = np.empty((rows, room), np.int32)
        self.counts = np.zeros(rows, np.int64)
        self.bars = np.full(rows, -np.inf, np.float32)

    @staticmethod
    def room(k: int, columns: int) -> int:
        """Return how many values a row may hold before it is cut down to k: no more than will ever come."""
        return min(k + max(k, SPARE_VALUES), columns) + LANE_VALUES

    def add(self, tile: Float32, first: int, row: int = 0) -> None:
        """Add a tile: its rows are this reservoir's from `row` on, its columns have the places from `first` on."""
        rows = slice(row, row + len(tile))
        held = self.values[rows], self.places[rows], self.counts[rows], self.bars[rows]
        self.kernel.add_top(tile, first, self.k, *held)

    def best_values(self) -> Float32:
        """Return the k largest values of each row, in no order; -inf where there are fewer."""
        self.kernel.cut_top(self.k, self.values, self.places, self.counts)
        values = self.values[:, : self.k]
        fewest = int(self.counts.min(initial=self.k))
        if fewest < self.k:
            values[:, fewest:][np.arange(fewest, values.shape[1]) >= self.counts[:, None]] = -np.inf
        return np.pad(values, ((0, 0), (0, self.k - values.shape[1])), constant_values=-np.inf)

    def best(self) -> tuple[Float32, NDArray[np.int32]]:
        """Return the k largest values and their places, best first, the lower place first among equals.

        A row with fewer, which scores of -inf leave, has -inf and the place -1 after them.
        """
        self.kernel.cut_top(self.k, self.values, self.places, self.counts)
        width = int(self.counts.max(initial=0))
        absent = np.arange(width) >= self.counts[:, None]
        keys = np.where(absent, np.float32(np.inf), -self.values[:, :width])
        order = np.argsort(keys, axis=1, kind="stable")  # places came in rising order
        places = np.where(absent, np.int32(-1), self.places[:, :width])
        return -np.take_along_axis(keys, order, axis=1), np.take_along_axis(places, order, axis=1)
