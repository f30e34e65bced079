"""Kernel: the interface of every kernel, which is a module of functions or an object with the same methods."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unhub.arrays import Float32, Float64, Floats


@dataclass(frozen=True)
class Limits:
    """What a device takes at a time: the sides and scores of a tile, bytes of items with their running values.

    threads: how many threads keep it busy, one copying while another computes. memory: bytes that are free on it.
    """

    tile_rows: int
    tile_entries: int
    most_columns: int
    state_bytes: int
    threads: int
    memory: int


class Kernel(Protocol):
    """Multiplies a tile and reduces it while it is in cache.

    Blocks of rows, tiles and reservoirs belong to the kernel: `ready` and `empty` make them where it computes, and they
    may be something else than numpy arrays there. All other arguments are numpy arrays, and only they come back. Tiles
    are float32 in C order. Results are written into arrays of the caller. Kernels agree on them up to rounding, and
    exactly on which values are the largest. Weights are above 0 and at most 1; None means all 1.
    """

    @property
    def NAME(self) -> str:
        """The name under which `choose` returns this kernel, in any process."""

    @property
    def ON_DEVICE(self) -> bool:
        """Whether tiles and blocks are on a device, not numpy arrays."""

    @property
    def LIMITS(self) -> Limits | None:
        """What a device takes at a time; None if the kernel computes on numpy arrays."""

    def ready(self, rows: Any, scale: bool) -> Any:
        """Return rows where the kernel computes, ready to multiply: scaled to length one if asked for.

        Rows that are there already are not copied, so do not write to them.
        """

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Any:
        """Return an array where the kernel computes, with any contents: a tile, or part of a reservoir."""

    def host(self, array: Any) -> NDArray[Any]:
        """Return such an array as a numpy array, which may be a view of it."""

    def write(self, scores: NDArray[np.floating], out: Any) -> None:
        """Copy given scores into a tile."""

    def turned(self, tile: Any) -> Any:
        """Return a tile with rows and columns exchanged."""

    def shift(self, tile: Any, offsets: Float32) -> None:
        """Add a number to each column of a tile."""

    def lower(self, tile: Any, weights: Float32, bias: Float32) -> None:
        """Subtract weight * bias from each score; weights are (rows,), biases (columns,)."""

    def best_columns(self, tile: Any) -> NDArray[np.int64]:
        """Return the first column with the largest score of each row, (rows,)."""

    def is_full(self, error: BaseException) -> bool:
        """Return whether an error says that the device has no memory left."""

    def lane(self) -> AbstractContextManager[None]:
        """Return what a thread must be in to compute; when it ends, its work is done."""

    def multiply(self, left: Floats, right: Floats, out: Floats) -> None:
        """Write the inner products of two sets of rows, (left, right); all are float32, or all are float64."""

    def multiply_few(self, left: Float32, right: Float32, out: Float32) -> None:
        """Do `multiply` for what is asked of many rows by few, such as one query or ten."""

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

    def count_over(
        self,
        tile: Float32,
        starts: NDArray[np.int64],
        bars: Float32,
        over: NDArray[np.int64],
        equal: NDArray[np.int64],
    ) -> None:
        """Add to `over` and `equal` how many columns of row i are above, and the same as, each bar of that row.

        The bars of row i are `bars[starts[i]:starts[i + 1]]`.
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

    def keep_shares(
        self, shares: Float32, rises: Float32, draws: Float32, places: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], Float32]:
        """Return the entries of a tile to keep: column j of row i where rise * share > draws[place + j].

        `rises` and `places` are (rows,). What comes back: how many entries each row has, their columns, and their
        shares divided by the chance, min(1, rise * share), that a draw between 0 and 1 keeps them.
        """

    def balance_entries(
        self,
        starts: NDArray[np.int64],
        columns: NDArray[np.int32],
        values: Float32,
        scale: Float64,
        rests: Float64,
        gains: Float64,
        totals: Float64,
        sums: Float64,
    ) -> None:
        """Sweep over kept entries, numpy arrays: sums = rests + entries @ scale, totals += gains * entries / sums.

        The entries of row i are at starts[i]:starts[i + 1].
        """

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
