"""Reservoir: the k largest values of each row of a matrix that arrives tile by tile, and their positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.kernels import Kernel

SPARE_VALUES, LANE_VALUES = 96, 32  # room beyond the k largest: before a cut, and for one comparison


class Reservoir:
    """The k largest values of each row so far, and their positions."""

    def __init__(self, rows: int, k: int, columns: int, kernel: Kernel) -> None:
        room = self.room(k, columns)
        self.k, self.kernel = k, kernel
        self.values = kernel.empty((rows, room), np.float32)
        self.places = kernel.empty((rows, room), np.int32)
        self.counts, self.bars = kernel.empty((rows,), np.int64), kernel.empty((rows,), np.float32)
        self.counts[:], self.bars[:] = 0, -np.inf

    @staticmethod
    def room(k: int, columns: int) -> int:
        """Return how many values a row may hold before it is cut down to k, at most what all columns can add."""
        return min(k + max(k, SPARE_VALUES), columns) + LANE_VALUES

    def add(self, tile: Float32, first: int, row: int = 0) -> None:
        """Add a tile whose rows start at `row` and whose columns have the positions from `first` on."""
        rows = slice(row, row + len(tile))
        held = self.values[rows], self.places[rows], self.counts[rows], self.bars[rows]
        self.kernel.add_top(tile, first, self.k, *held)

    def best_values(self) -> Float32:
        """Return the k largest values of each row, unsorted; -inf where there are fewer."""
        self.kernel.cut_top(self.k, self.values, self.places, self.counts)
        values, counts = self.kernel.host(self.values[:, : self.k]), self.kernel.host(self.counts)
        fewest = int(counts.min(initial=self.k))
        if fewest < self.k:
            values[:, fewest:][np.arange(fewest, values.shape[1]) >= counts[:, None]] = -np.inf
        return np.pad(values, ((0, 0), (0, self.k - values.shape[1])), constant_values=-np.inf)

    def best(self) -> tuple[Float32, NDArray[np.int32]]:
        """Return the k largest values and their positions, best first; among equals the lower position is first.

        A row with fewer values, because of scores of -inf, is filled up with -inf and the position -1.
        """
        self.kernel.cut_top(self.k, self.values, self.places, self.counts)
        counts = self.kernel.host(self.counts)
        width = int(counts.max(initial=0))
        absent = np.arange(width) >= counts[:, None]
        keys = np.where(absent, np.float32(np.inf), -self.kernel.host(self.values[:, :width]))
        order = np.argsort(keys, axis=1, kind="stable")  # positions were added in ascending order
        places = np.where(absent, np.int32(-1), self.kernel.host(self.places[:, :width]))
        return -np.take_along_axis(keys, order, axis=1), np.take_along_axis(places, order, axis=1)
