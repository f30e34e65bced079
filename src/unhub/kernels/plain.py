"""The numpy kernel, used without numba. `interface` documents each function."""

from __future__ import annotations

import os
import threading
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Floats, spans, unit
from unhub.kernels import here

NAME = "numpy"
ON_DEVICE, LIMITS = here.ON_DEVICE, here.LIMITS
empty, host, write, turned = here.empty, here.host, here.write, here.turned
shift, lower, best_columns, is_full, lane = here.shift, here.lower, here.best_columns, here.is_full, here.lane
CACHE_ENTRIES = 1 << 19  # reduced at a time: about the cache size; with less, threads wait for each other
MOST_ROWS = 1024  # of a piece, since numpy sums rows one after the other in float32
FLAT_BETA = np.float32(2)  # up to this beta, exp(beta * cosine) is summed as 1 plus its difference from 1
FLAT_MEAN = np.float32(-0.7)  # and so is exp(x) if the mean of x is above this: half of a row may be near 1
DROPPED_BITS, DROPPED_HALF = np.uint32(14), np.uint32(1 << 13)  # of a share's float32, to keep 16; half of the last

# Threads that make many short calls spend their time on passing the interpreter's lock around. With turns for only half
# of them they soon fall out of step: some reduce their tiles while the others multiply theirs.
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_TURNS: threading.BoundedSemaphore


def _free_turns() -> None:
    """Free all turns; a forked process needs this, since the threads that took some do not exist in it."""
    global _TURNS
    _TURNS = threading.BoundedSemaphore(max(1, _CORES // 2))


_free_turns()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_turns)


def _slabs(tile: NDArray[np.generic]) -> list[slice]:
    return [slice(*span) for span in spans(tile.shape[0], min(MOST_ROWS, max(1, CACHE_ENTRIES // tile.shape[1])))]


def _row_dots(left: Float32, right: Float32) -> Float32:
    """Return the inner product of each pair of rows, by BLAS, which takes half the time of einsum."""
    return np.asarray(np.matmul(left[:, None, :], right[:, :, None])[:, 0, 0])


def multiply(left: Floats, right: Floats, out: Floats) -> None:
    """Write the inner products of two sets of rows, (left, right), by BLAS; all are float32, or all are float64."""
    np.matmul(left, right.T, out=out)


def multiply_few(left: Float32, right: Float32, out: Float32) -> None:
    """Do `multiply`, by BLAS too."""
    multiply(left, right, out)


def add_powers(tile: Float32, betas: Float32, sums: Float64, weights: Float32 | None = None) -> None:
    """Add exp(beta * score) to running sums, (rows, betas), where |beta * score| is at most 80."""
    slabs = _slabs(tile)
    room = np.empty((3, *tile[slabs[0]].shape), np.float32)  # the tile is not written to
    ones = np.ones(tile.shape[1], np.float32) if weights is None else weights
    with _TURNS:
        for rows in slabs:
            for b, beta in enumerate(betas):
                if beta <= FLAT_BETA:
                    work = np.multiply(tile[rows], beta, out=room[0, : len(tile[rows])])
                    sums[rows, b] += _sum_by_differences(work, ones)
                else:
                    sums[rows, b] += _sum_exp(tile[rows], beta, ones, room[:, : len(tile[rows])])


def _sum_by_differences(exponents: Float32, weights: Float32) -> Float64:
    """Return weighted sums of exp(x) over rows as the sum of weights plus that of exp(x) - 1; overwrites x."""
    over = np.asarray(np.expm1(exponents, out=exponents) @ weights, np.float64)
    return np.asarray(np.sum(weights, dtype=np.float64) + over)


def sum_exp_of_numpy(slab: Float32, beta: np.float32, weights: Float32, room: Float32) -> Float32:
    """Return the weighted sums of exp(beta * score) over rows; overwrites `room`, of the size of three slabs."""
    powers = np.exp(np.multiply(slab, beta, out=room[0]), out=room[0])
    return np.asarray(powers @ weights)


# 2**x is 1 + STEEPNESS * x / ((x - CENTRE)**2 + HEIGHT) for x from -0.5 to 0.5, with a relative error of 4.4e-7: the
# form of Pade's second approximation, with the constants that minimise the largest error.
STEEPNESS, CENTRE, HEIGHT = np.float32(17.355678), np.float32(4.3389196), np.float32(6.2128849)
EXPONENT_BIT = 23  # the lowest bit of a float32's exponent, which is stored plus 127
EXPONENT_SHIFT = np.float32(2**23 + 127)  # plus a whole number, its last bits are that number plus 127


def sum_exp_of_fractions(slab: Float32, beta: np.float32, weights: Float32, room: Float32) -> Float32:
    """Do `sum_exp_of_numpy` in simple arithmetic: 2 to the nearest whole number, times 2 to the remainder."""
    left, whole, work = room
    np.multiply(slab, np.float32(beta / np.log(2)), out=left)
    np.rint(left, out=whole)
    np.subtract(left, whole, out=left)
    np.add(whole, EXPONENT_SHIFT, out=whole)
    bits = whole.view(np.int32)
    powers = np.left_shift(bits, EXPONENT_BIT, out=bits).view(np.float32)
    np.subtract(left, CENTRE, out=work)
    np.multiply(work, work, out=work)
    np.add(work, HEIGHT, out=work)
    np.divide(left, work, out=work)
    total = powers @ weights
    if (weights != 1).any():
        np.multiply(powers, weights, out=powers)
    return np.asarray(total + STEEPNESS * _row_dots(powers, work))


def _is_exp_quick() -> bool:
    """Return whether numpy computes 16 exponentials at once; with 8, simple arithmetic takes a third less time."""
    extensions = np.show_config(mode="dicts").get("SIMD Extensions", {})
    names = [*extensions.get("baseline", []), *extensions.get("found", [])]
    return any(name.startswith(("AVX512", "X86_V4")) for name in names)


_sum_exp = sum_exp_of_numpy if _is_exp_quick() else sum_exp_of_fractions


def add_log_sums(tile: Float32, betas: Float32, peak: Float32, sums: Float64, weights: Float32 | None = None) -> None:
    """Add a tile to running sums of exp(beta * (score - peak)), (rows, betas); the tile is overwritten."""
    ones = np.ones(tile.shape[1], np.float32) if weights is None else weights
    whole = ones.sum(dtype=np.float64).astype(np.float32)
    for rows in _slabs(tile):
        slab = tile[rows]
        top = np.maximum(peak[rows], slab.max(axis=1))
        drop = peak[rows].astype(np.float64) - top
        sums[rows] *= np.exp(drop[:, None] * betas)
        peak[rows] = top
        with np.errstate(over="ignore"):  # far below the peak the power is 0
            np.subtract(slab, top[:, None], out=slab)
            means = slab @ ones / whole
            for b, beta in enumerate(betas):
                work = np.multiply(slab, beta, out=slab if b == len(betas) - 1 else None)
                flat = np.flatnonzero(beta * means > FLAT_MEAN)
                precise = _sum_by_differences(work[flat], ones)
                totals = np.asarray(np.exp(work, out=work) @ ones, np.float64)
                totals[flat] = precise
                sums[rows, b] += totals


def add_top(
    tile: Float32,
    first: int,
    k: int,
    values: Float32,
    places: NDArray[np.int32],
    counts: NDArray[np.int64],
    bars: Float32,
) -> None:
    """Add a tile to each row's reservoir, (rows, room), which always holds the row's k largest values so far."""
    for rows in _slabs(tile):
        slab = tile[rows]
        over = slab > bars[rows, None]
        fresh = over.sum(axis=1)
        if not fresh.any():
            continue
        held = counts[rows]
        width = int((held + fresh).max())
        merged = np.full((len(slab), width), -np.inf, np.float32)
        where = np.zeros((len(slab), width), np.int32)
        old = np.arange(width) < held[:, None]
        merged[old] = values[rows, : int(held.max())][old[:, : int(held.max())]]
        where[old] = places[rows, : int(held.max())][old[:, : int(held.max())]]
        new = (np.arange(width) >= held[:, None]) & (np.arange(width) < (held + fresh)[:, None])
        merged[new] = slab[over]
        where[new] = first + np.nonzero(over)[1]
        filled = old | new
        if width > k:
            keep = _largest_mask(merged, k) & filled
            filled = np.arange(k) < keep.sum(axis=1)[:, None]
            kept, spots = merged[keep], where[keep]
            merged, where = np.full((len(slab), k), -np.inf, np.float32), np.zeros((len(slab), k), np.int32)
            merged[filled], where[filled] = kept, spots
        values[rows, : merged.shape[1]], places[rows, : merged.shape[1]] = merged, where
        counts[rows] = filled.sum(axis=1)
        full = counts[rows] == k
        if merged.shape[1] == k:
            bars[rows] = np.where(full, merged.min(axis=1), bars[rows])


def cut_top(k: int, values: Float32, places: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Do nothing: here add_top never leaves more than the k largest values."""


def _largest_mask(values: Float32 | Float64, k: int) -> NDArray[np.bool_]:
    """Mark the k largest values of each row; among equal values the first ones."""
    kth = np.partition(values, values.shape[1] - k, axis=1)[:, [values.shape[1] - k]]
    above = np.greater(values, kth)
    equal = np.equal(values, kth)
    room = k - above.sum(axis=1)
    return cast("NDArray[np.bool_]", above | (equal & (np.cumsum(equal, axis=1) <= room[:, None])))


def place_rows(
    tile: Float32 | Float64,
    h: Float32,
    weights: Float32,
    starts: NDArray[np.int64],
    positions: NDArray[np.int64],
    better: NDArray[np.int64],
    equal: NDArray[np.int64],
    best: NDArray[np.int32],
) -> None:
    """Rank the columns of each row by score - weight * h, with weights of 0 or 1."""
    k = best.shape[1]
    for rows in _slabs(tile):
        corrected = tile[rows] - weights[rows, None] * h
        for place in range(int(np.diff(starts[rows.start : rows.stop + 1]).max(initial=0))):
            pairs = starts[rows] + place
            there = pairs < starts[rows.start + 1 : rows.stop + 1]
            pairs = pairs[there]
            bars = corrected[there, positions[pairs]][:, None]
            better[pairs] = (corrected[there] > bars).sum(axis=1)
            equal[pairs] = (corrected[there] == bars).sum(axis=1)
        if k:
            columns = np.nonzero(_largest_mask(corrected, k))[1].reshape(len(corrected), k)
            order = np.argsort(-np.take_along_axis(corrected, columns, axis=1), axis=1, kind="stable")
            columns = np.where(np.isneginf(np.take_along_axis(corrected, columns, axis=1)), -1, columns)
            best[rows] = np.take_along_axis(columns, order, axis=1)


def count_over(
    tile: Float32, starts: NDArray[np.int64], bars: Float32, over: NDArray[np.int64], equal: NDArray[np.int64]
) -> None:
    """Add to `over` and `equal` how many columns of row i are above, and the same as, each bar of that row."""
    for rows in _slabs(tile):
        for place in range(int(np.diff(starts[rows.start : rows.stop + 1]).max(initial=0))):
            pairs = starts[rows] + place
            there = pairs < starts[rows.start + 1 : rows.stop + 1]
            pairs = pairs[there]
            own = tile[rows][there]
            over[pairs] += (own > bars[pairs, None]).sum(axis=1)
            equal[pairs] += (own == bars[pairs, None]).sum(axis=1)


def add_column_best(tile: Float32, first: int, best: Float32, where: NDArray[np.int32]) -> None:
    """Keep each column's largest value and its row (row i has position first + i); among equals the first wins."""
    row = tile.argmax(axis=0)
    value = tile[row, np.arange(tile.shape[1])]
    better = value > best
    best[better] = value[better]
    where[better] = first + row[better]


def soften_rows(
    scores: Float32,
    h: Float32,
    beta: float,
    out: Float32,
    totals: Float64,
    logs: Float64,
    weights: Float32 | None = None,
) -> None:
    """Write each row's softmax of beta * (score - h) to `out`, which may be the scores; add the rows to `totals`.

    `logs` receives each row's log-sum-exp.
    """
    for rows in _slabs(scores):
        slab = out[rows]
        np.subtract(scores[rows], h, out=slab)
        largest = slab.max(axis=1)
        np.subtract(slab, largest[:, None], out=slab)
        np.multiply(slab, np.float32(beta), out=slab)
        np.exp(slab, out=slab)
        total = slab.sum(axis=1)
        np.multiply(slab, (np.float32(1) / total)[:, None], out=slab)
        totals += slab.sum(axis=0) if weights is None else weights[rows] @ slab
        logs[rows] = beta * largest.astype(np.float64) + np.log(total.astype(np.float64))


def soften_short_rows(
    scores: Float32,
    h: Float32,
    beta: float,
    out: NDArray[np.uint16],
    totals: Float64,
    logs: Float64,
    weights: Float32 | None = None,
) -> None:
    """Do `soften_rows` in 16 bits, rounded to nearest, halves up: nine bits of fraction and seven of exponent."""
    slabs = _slabs(scores)
    room = np.empty_like(scores[slabs[0]])
    for rows in slabs:
        soft = room[: len(scores[rows])]
        soften_rows(scores[rows], h, beta, soft, totals, logs[rows], None if weights is None else weights[rows])
        out[rows] = (soft.view(np.uint32) + DROPPED_HALF) >> DROPPED_BITS


def balance_rows(kept: Float32, scale: Float32, totals: Float64, sums: Float64, weights: Float32 | None = None) -> None:
    """Sweep once over kept rows: sums = kept @ scale, then totals += weight * kept / sums, row by row."""
    for rows in _slabs(kept):
        total = kept[rows] @ scale
        sums[rows] = total
        totals += ((np.float32(1) if weights is None else weights[rows]) / total) @ kept[rows]


def balance_short_rows(
    kept: NDArray[np.uint16], scale: Float32, totals: Float64, sums: Float64, weights: Float32 | None = None
) -> None:
    """Do `balance_rows` on rows kept in 16 bits."""
    for rows in _slabs(kept):
        wide = (kept[rows].astype(np.uint32) << DROPPED_BITS).view(np.float32)
        balance_rows(wide, scale, totals, sums[rows], None if weights is None else weights[rows])


def deviate_rows(
    scores: Float32,
    h: Float32,
    beta: float,
    out: Float32,
    totals: Float64,
    logs: Float64,
    weights: Float32 | None = None,
) -> None:
    """Do `soften_rows` where beta * (score - h) is small: instead of a share, write columns * share - 1.

    All shares are nearly equal, and this is as precise as the exponents.
    """
    columns = scores.shape[1]
    for rows in _slabs(scores):
        slab = out[rows]
        np.subtract(scores[rows], h, out=slab)
        np.multiply(slab, np.float32(beta), out=slab)
        np.expm1(slab, out=slab)
        mean = slab.mean(axis=1, dtype=np.float64)
        np.subtract(slab, mean[:, None].astype(np.float32), out=slab)
        np.multiply(slab, (1 / (1 + mean))[:, None].astype(np.float32), out=slab)
        if weights is None:
            totals += (len(slab) + slab.sum(axis=0, dtype=np.float64)) / columns
        else:
            wide = weights[rows].astype(np.float64)
            totals += (wide.sum() + wide @ slab) / columns
        logs[rows] = np.log(columns) + np.log1p(mean)


def balance_deviations(
    kept: Float32, scale: Float64, totals: Float64, sums: Float64, weights: Float32 | None = None
) -> None:
    """Do `balance_rows` on what `deviate_rows` wrote."""
    columns, whole = kept.shape[1], scale.sum()
    for rows in _slabs(kept):
        total = (whole + (kept[rows] @ scale.astype(np.float32)).astype(np.float64)) / columns
        sums[rows] = total
        share = (1 if weights is None else weights[rows].astype(np.float64)) / total
        totals += (share.sum() + (share.astype(np.float32) @ kept[rows]).astype(np.float64)) / columns


def keep_shares(
    shares: Float32, rises: Float32, draws: Float32, places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], Float32]:
    """Return the entries to keep: column j of row i where rise * share > draws[place + j]; see `interface`."""
    windows = np.lib.stride_tricks.sliding_window_view(draws, shares.shape[1])
    kept = [np.flatnonzero(shares[i] * rises[i] > windows[places[i]]) for i in range(len(shares))]
    values = [np.maximum(shares[i, some], 1 / rises[i]) for i, some in enumerate(kept)]
    counts = np.array([len(some) for some in kept], np.int64)
    return counts, np.concatenate(kept).astype(np.int32), np.concatenate(values).astype(np.float32)


def balance_entries(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: Float32,
    scale: Float64,
    rests: Float64,
    gains: Float64,
    totals: Float64,
    sums: Float64,
) -> None:
    """Sweep once over kept entries: sums = rests + entries @ scale, then totals += gains * entries / sums."""
    rows = np.repeat(np.arange(len(sums)), np.diff(starts))
    sums[:] = rests + np.bincount(rows, values * scale[columns], len(sums))
    totals += np.bincount(columns, values * (gains / sums)[rows], len(totals))


def hash_rows(
    block: Float32, words: NDArray[np.uint64], keys: NDArray[np.uint64], sums: NDArray[np.uint64], squares: Float32
) -> None:
    """Sum (low half + key) * (high half + key) over each row of 64-bit words, modulo 2**64; and its squares as floats.

    `words` are the same rows as `block`. Each half is a float32; -0.0 counts as 0.0.
    """
    slabs = _slabs(block)
    pairs, halves = (np.empty_like(words[slabs[0]]) for _ in range(2))
    for rows in slabs:
        low, high = pairs[: len(words[rows])], halves[: len(words[rows])]
        floats = low.view(np.float32)
        np.add(block[rows], np.float32(0), out=floats)  # -0.0 + 0.0 is 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            squares[rows] = _row_dots(floats, floats)
        np.right_shift(low, np.uint64(32), out=high)
        np.bitwise_and(low, np.uint64(0xFFFFFFFF), out=low)
        low += keys[0]
        high += keys[1]
        np.einsum("ij,ij->i", low, high, out=sums[rows])


def are_finite(block: Float32, finite: NDArray[np.bool_]) -> None:
    """Write for each row whether all its numbers are finite."""
    for rows in _slabs(block):
        np.isfinite(block[rows]).all(axis=1, out=finite[rows])


def unit_rows(block: Float32) -> Float32:
    """Return the rows scaled to length one."""
    return unit(block)


def ready(rows: Float32, scale: bool) -> Float32:
    """Return rows ready to multiply."""
    return unit_rows(rows) if scale else rows
