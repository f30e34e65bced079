"""Kernel: the interface of every kernel, which is a module of functions or an object with the same methods."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Floats


class Kernel(Protocol):
    """Multiplies a tile and reduces it while it is in cache.

    Tiles are float32 in C order. Results are written into arrays of the caller. Kernels agree on them up to rounding,
    and exactly on which values are the largest. Weights are above 0 and at most 1; None means all 1.
    """

    @property
    def NAME(self) -> str:
        """The name under which `choose` returns this kernel, in any process."""

    def multiply(self, left: Floats, right: Floats, out: Floats) -> None:
        """Write the inner products of two sets of rows, (left, right); all are float32, or all are float64."""

    def add_powers(self, tile: Float32, betas: Float32, sums: Float64, weights: Float32 | None = None) -> None:
        """Add exp(beta * score) to running sums, (rows, betas), where |beta * score| is at most 80.

        A row has at most 6,000 scores: float32 can hold the sum of that many. With weights, (columns,), each score's
        power is multiplied by that of its column.
        """

    def add_log_sums(
        self, tile: Float32, betas: Float32, peak: Float32, sums: Float64, weights: Float32 | None = None
    ) -> None:
        """Add a tile to running sums of exp(beta * (score - peak)), (rows, betas); the tile may be overwritten.

        `peak`, (rows,), starts at minus infinity and follows the largest score so far. Weights are as in add_powers.
        """

    def add_top(
        self,
        tile: Float32,
        first: int,
        k: int,
        values: Float32,
        places: NDArray[np.int32],
        counts: NDArray[np.int64],
        bars: Float32,
    ) -> None:
        """Add a tile to each row's reservoir, (rows, room), which always holds the row's k largest values so far.

        `places` holds the position of each value: column j has position first + j. Tiles come in that order, so among
        equal values those with the lowest positions are kept.
        """

    def cut_top(self, k: int, values: Float32, places: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        """Shorten each reservoir that add_top filled to its k largest values, in their order."""

    def place_rows(
        self,
        tile: Float32,
        h: Float32,
        weights: Float32,
        starts: NDArray[np.int64],
        positions: NDArray[np.int64],
        better: NDArray[np.int64],
        equal: NDArray[np.int64],
        best: NDArray[np.int32],
    ) -> None:
        """Rank the columns of each row by score - weight * h, with weights of 0 or 1.

        `better` and `equal` receive how many columns score above, and the same as, those at
        `positions[starts[i]:starts[i + 1]]`. `best`, (rows, k), receives the k best columns, best first and the lower
        one first among equals; -1 instead of columns with a score of -inf.
        """

    def add_column_best(self, tile: Float32, first: int, best: Float32, where: NDArray[np.int32]) -> None:
        """Keep each column's largest value and its row (row i has position first + i); among equals the first wins."""

    def soften_rows(
        self,
        scores: Float32,
        h: Float32,
        beta: float,
        out: Float32,
        totals: Float64,
        logs: Float64,
        weights: Float32 | None = None,
    ) -> None:
        """Write each row's softmax of beta * (score - h) to `out`, which may be the scores; add the rows to `totals`.

        `logs` receives each row's log-sum-exp. With weights, (rows,), a row is multiplied by its weight in the totals.
        """

    def soften_short_rows(
        self,
        scores: Float32,
        h: Float32,
        beta: float,
        out: NDArray[np.uint16],
        totals: Float64,
        logs: Float64,
        weights: Float32 | None = None,
    ) -> None:
        """Do `soften_rows` in 16 bits, rounded to nearest, halves up: nine bits of fraction and seven of exponent.

        A share is never above 1, so the first two bits of its float32 are zero and need not be kept.
        """

    def balance_rows(
        self, kept: Float32, scale: Float32, totals: Float64, sums: Float64, weights: Float32 | None = None
    ) -> None:
        """Sweep once over kept rows: sums = kept @ scale, then totals += weight * kept / sums, row by row."""

    def balance_short_rows(
        self, kept: NDArray[np.uint16], scale: Float32, totals: Float64, sums: Float64, weights: Float32 | None = None
    ) -> None:
        """Do `balance_rows` on rows kept in 16 bits."""

    def deviate_rows(
        self,
        scores: Float32,
        h: Float32,
        beta: float,
        out: Float32,
        totals: Float64,
        logs: Float64,
        weights: Float32 | None = None,
    ) -> None:
        """Do `soften_rows` where beta * (score - h) is small: instead of a share, write columns * share - 1."""

    def balance_deviations(
        self, kept: Float32, scale: Float64, totals: Float64, sums: Float64, weights: Float32 | None = None
    ) -> None:
        """Do `balance_rows` on what `deviate_rows` wrote."""

    def hash_rows(
        self,
        block: Float32,
        words: NDArray[np.uint64],
        keys: NDArray[np.uint64],
        sums: NDArray[np.uint64],
        squares: Float32,
    ) -> None:
        """Sum (low half + key) * (high half + key) over each row of 64-bit words, modulo 2**64; and its squares.

        `words` are the same rows as `block`. Each half is a float32; -0.0 counts as 0.0.
        """

    def are_finite(self, block: Float32, finite: NDArray[np.bool_]) -> None:
        """Write for each row whether all its numbers are finite."""

    def unit_rows(self, block: Float32) -> Float32:
        """Return the rows scaled to length one."""
