"""The numba kernel: reduces each row of a tile while it is in cache. `interface` documents each function."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numba.core.compiler_lock import global_compiler_lock

from unhub.arrays import Float32, Float64, are_ordinary, unit
from unhub.kernels import caching, here, plain
from unhub.kernels.lanes import LANE_VALUES, as_bits, as_float, fetch, larger, lowest_bit, over_mask
from unhub.kernels.plain import FLAT_BETA

NAME = "numba"
ON_DEVICE, LIMITS = here.ON_DEVICE, here.LIMITS
empty, host, write, turned = here.empty, here.host, here.write, here.turned
shift, lower, best_columns, is_full, lane = here.shift, here.lower, here.best_columns, here.is_full, here.lane
multiply = plain.multiply  # by BLAS
deviate_rows, balance_deviations = plain.deviate_rows, plain.balance_deviations  # a few numpy passes are fast enough

# Sums and maxima may be reordered, so that they vectorise; there is no NaN, since rows were checked before.
REORDERING_FLAGS = {"reassoc", "nsz", "contract", "arcp", "nnan"}
jit = caching.jit(nogil=True, fastmath=REORDERING_FLAGS, error_model="numpy", boundscheck=False)
exact_jit = caching.jit(nogil=True, fastmath={"contract", "nnan", "nsz"}, error_model="numpy")
# For the functions that check rows, which may still contain NaN.
door_jit = caching.jit(nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")

# A process forked while another thread compiles would inherit numba's held lock and wait for it forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )

LOG2E = np.float32(1.4426950408889634)
MOST_COUNTED_VALUES = 1 << 20
MOST_FEW_ROWS = 12  # from 16 on BLAS is as fast
MOST_HALVINGS = 300  # enough to separate any two float32 values
HALF_WORD, MINUS_ZERO = np.uint64(0xFFFFFFFF), np.uint64(1 << 31)
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
INFINITY, MINUS_INFINITY = np.float32(np.inf), np.float32(-np.inf)
MOST_PEAK_RISE = np.float32(8)  # in units of 1 / beta: how far scores may rise above a peak before it follows
MOST_LEVEL_GAP = np.float32(8)  # in powers of two: how far a level may be from a row's largest score
DROPPED_BITS = np.int32(14)  # of a share's float32, which leave 16
DROPPED_HALF = np.int32(1 << 13)  # half of the lowest bit that is kept
SUBTOTAL_ROWS = 64  # summed in float32 before they go to float64 totals, which loses at most 4e-6 of a sum
# Rows are processed in pieces, so that later data can be prefetched meanwhile: a processor does so by itself only
# within a page of memory, and poorly when several rows are read at once.
PIECE_SCORES = 256
LINE_BYTES = 64
FETCH_AHEAD_SCORES = 10240  # how far ahead to prefetch
# In rows of 16 bits: several rows ahead if these are short, else a little ahead in each of the four that are summed.
FETCH_AHEAD_SHARES, FETCH_AHEAD_IN_ROW, MOST_SHORT_ROW = 6144, 1024, 1 << 12
LEAST_EXPONENT = np.float32(-125.5)  # smaller powers of two leave the range of float32
ROUNDING_SHIFT = np.float32(12582912.0)  # 1.5 * 2**23: float32 has no fraction bits there
# 2**r on [-1/2, 1/2]: the minimax polynomial of degree 5, relative error 9e-8, below float32's own rounding.
C1, C2, C3 = np.float32(0.6931469775979745), np.float32(0.24022242084571085), np.float32(0.055507337449616084)
C4, C5 = np.float32(0.009671512676534846), np.float32(0.0013264726682935268)
# 2**r - 1 on the same range: the Taylor series, which unlike that polynomial is also precise for results near 0.
E1, E2, E3, E4, E5, E6, E7 = (np.float32(math.log(2) ** power / math.factorial(power)) for power in range(1, 8))


@jit
def _largest(values: Float32) -> Any:
    largest = values[0]
    for j in range(len(values)):
        largest = larger(largest, values[j])
    return largest


@exact_jit
def _power(x: Any) -> Any:
    """Return 2**x of a float32 between about -125.5 and 120.

    Adding ROUNDING_SHIFT rounds x to a whole number in the lowest bits, from where it is added to the exponent.
    """
    shifted = x + ROUNDING_SHIFT
    r = x - (shifted - ROUNDING_SHIFT)
    power = ONE + r * (C1 + r * (C2 + r * (C3 + r * (C4 + r * C5))))
    return as_float(as_bits(power) + (as_bits(shifted) << np.int32(23)))


@exact_jit
def exp2_(x: Any) -> Any:
    """Return 2**x of a float32 up to about 120; x below -125.5 is raised to that, which is still negligible."""
    return _power(larger(x, LEAST_EXPONENT))


@exact_jit
def less_one_(x: Any) -> Any:
    """Return 2**x - 1 of a float32 up to about 120, to float32's own precision even near 0."""
    x = larger(x, LEAST_EXPONENT)
    shifted = x + ROUNDING_SHIFT
    r = x - (shifted - ROUNDING_SHIFT)
    whole = as_float(as_bits(ONE) + (as_bits(shifted) << np.int32(23)))
    return whole * (r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * (E6 + r * E7))))))) + (whole - ONE)


@jit
def _sum_by_differences(row: Float32, slope: Any, peak: Any) -> Any:
    """Return the sum of 2**(slope * (score - peak)) as the number of terms plus the sum of each term minus 1.

    If all terms are near 1, that is as precise as the exponents; a plain float32 sum would lose the differences between
    rows.
    """
    total = ZERO
    for j in range(len(row)):
        total += less_one_(slope * (row[j] - peak))
    return np.float64(len(row)) + np.float64(total)


@jit
def _weigh_differences(row: Float32, weights: Float32, slope: Any, peak: Any) -> Any:
    """Return `_sum_by_differences` of weighted scores."""
    total, whole = ZERO, 0.0
    for j in range(len(row)):
        total += weights[j] * less_one_(slope * (row[j] - peak))
        whole += np.float64(weights[j])
    return whole + np.float64(total)


@jit
def _weigh_powers(row: Float32, weights: Float32, slope: Any) -> Any:
    """Return the weighted sum of 2**(slope * score)."""
    total = ZERO
    for j in range(len(row)):
        total += weights[j] * _power(slope * row[j])
    return total


# numba compiles a separate version for `weights=None`, without the branches for weights.


@jit
def add_powers(tile: Float32, betas: Float32, sums: Float64, weights: Any = None) -> None:
    """Add exp(beta * score) to running sums, (rows, betas), where |beta * score| is at most 80.

    A row has at most 6,000 scores: float32 can hold the sum of that many.
    """
    for i in range(tile.shape[0]):
        row = tile[i]
        for b in range(len(betas)):
            slope, total = betas[b] * LOG2E, ZERO
            if weights is not None:
                if betas[b] <= FLAT_BETA:
                    sums[i, b] += _weigh_differences(row, weights, slope, ZERO)
                else:
                    sums[i, b] += np.float64(_weigh_powers(row, weights, slope))
                continue
            if betas[b] <= FLAT_BETA:
                sums[i, b] += _sum_by_differences(row, slope, ZERO)
                continue
            for j in range(len(row)):
                total += _power(slope * row[j])
            sums[i, b] += np.float64(total)


@jit
def _sum_and_largest(row: Float32, slope: Any, peak: Any) -> Any:
    """Return the sum of 2**(slope * (score - peak)) and the largest score, in one read of the row."""
    total, largest = ZERO, row[0]
    for j in range(len(row)):
        value = row[j]
        largest = larger(largest, value)
        total += exp2_(slope * (value - peak))
    return total, largest


@jit
def _weigh_and_largest(row: Float32, weights: Float32, slope: Any, peak: Any) -> Any:
    """Return `_sum_and_largest` of weighted scores."""
    total, largest = ZERO, row[0]
    for j in range(len(row)):
        value = row[j]
        largest = larger(largest, value)
        total += weights[j] * exp2_(slope * (value - peak))
    return total, largest


@jit
def _sum(values: Float32) -> Any:
    total = ZERO
    for j in range(len(values)):
        total += values[j]
    return total


@jit
def add_log_sums(tile: Float32, betas: Float32, peak: Float32, sums: Float64, weights: Any = None) -> None:
    """Add a tile to running sums of exp(beta * (score - peak)), (rows, betas).

    `peak` is the largest score of the row's first tile. It follows the running maximum only when that is so far above
    that the exponents would lose precision, so most rows are read only once.
    """
    steepest = betas[0]
    for b in range(len(betas)):
        steepest = larger(steepest, betas[b])
    for i in range(tile.shape[0]):
        row = tile[i]
        if peak[i] == MINUS_INFINITY:
            peak[i] = _largest(row)
        for b in range(len(betas)):
            slope = betas[b] * LOG2E
            if weights is None:
                total, largest = _sum_and_largest(row, slope, peak[i])
            else:
                total, largest = _weigh_and_largest(row, weights, slope, peak[i])
            if b == 0 and steepest * (largest - peak[i]) > MOST_PEAK_RISE:
                for c in range(len(betas)):
                    sums[i, c] *= np.exp(np.float64(betas[c]) * (np.float64(peak[i]) - np.float64(largest)))
                peak[i] = largest
                if weights is None:
                    total, largest = _sum_and_largest(row, slope, peak[i])
                else:
                    total, largest = _weigh_and_largest(row, weights, slope, peak[i])
            if weights is not None:
                if total > HALF * _sum(weights):
                    sums[i, b] += _weigh_differences(row, weights, slope, peak[i])
                else:
                    sums[i, b] += np.float64(total)
            elif total > HALF * np.float32(len(row)):  # most terms are near 1
                sums[i, b] += _sum_by_differences(row, slope, peak[i])
            else:
                sums[i, b] += np.float64(total)


@jit
def _least(values: Float32) -> Any:
    least = -values[0]
    for j in range(len(values)):
        least = larger(least, -values[j])
    return -least


@jit
def _over(values: Float32, bar: Any) -> Any:
    """Count the values over the bar."""
    count = ZERO  # a float counter is fastest with float comparisons, and is exact up to 2**24
    for j in range(len(values)):
        count += ONE if values[j] > bar else ZERO
    return int(count)


@exact_jit
def _middle(low: Any, high: Any) -> Any:
    return HALF * low + HALF * high  # not HALF * (low + high), which overflows for large values


@jit
def _raise_bar(values: Float32, k: int, most: int, bar: Any, over: int) -> Any:
    """Bisect for a bar with k to `most` values over it, from one with `over` values over it; counting vectorises.

    Returns (bar, how many are over it, ceiling). At least k are over the bar. Equal values can make the count jump past
    the window; the ceiling is then that value, with fewer than k values over it.
    """
    low, ceiling = larger(bar, _least(values)), _largest(values)
    for _ in range(MOST_HALVINGS):
        middle = _middle(low, ceiling)
        if middle <= low or middle >= ceiling:
            break
        count = _over(values, middle)
        if count < k:
            ceiling = middle
        else:
            low, bar, over = middle, middle, count
            if over <= most:
                break
    return bar, over, ceiling


@jit
def _cut(values: Float32, places: np.ndarray, k: int, most: int) -> Any:
    """Shorten a reservoir of k or more values to its k largest, or to `most`, in order; return (count, bar).

    Later values equal to the k-th are dropped: at least k of the values kept are at or over the bar.
    """
    bar = _least(values)
    over, ceiling = _over(values, bar), bar
    if over > most:
        bar, over, ceiling = _raise_bar(values, k, most, bar, over)
    count = 0
    if k <= over and over <= most:
        for j in range(len(values)):  # write each value, and keep it if it counts: no branch to mispredict
            value = values[j]
            values[count] = value
            places[count] = places[j]
            count += 1 if value > bar else 0
        return count, bar
    bar = ceiling  # a tie at the k-th value: take all above it, and the first of the equal ones
    equals = k - _over(values, bar)
    for j in range(len(values)):
        value = values[j]
        take = value > bar
        if value == bar and equals > 0:
            take = True
            equals -= 1
        if take:
            values[count] = value
            places[count] = places[j]
            count += 1
    return count, bar


@jit
def _gather(row: Float32, first: int, k: int, values: Float32, places: np.ndarray, count: int, bar: Any) -> Any:
    """Add the values over the bar to a reservoir of `count` values, none below it; return the new (count, bar)."""
    columns, room = len(row), len(values)
    whole = columns - columns % LANE_VALUES
    for start in range(0, whole, LANE_VALUES):
        mask = over_mask(row, start, bar)
        if mask == 0:
            continue
        if count + LANE_VALUES > room:
            count, bar = _cut(values[:count], places, k, k + (k >> 3))
            mask = over_mask(row, start, bar)
        while mask != 0:
            j = start + int(lowest_bit(mask))
            mask &= mask - np.uint32(1)
            values[count] = row[j]
            places[count] = first + j
            count += 1
    if count + LANE_VALUES > room:
        count, bar = _cut(values[:count], places, k, k + (k >> 3))
    for j in range(whole, columns):
        if row[j] > bar:
            values[count] = row[j]
            places[count] = first + j
            count += 1
    return count, bar


@door_jit
def _mean_and_deviation(values: Float32) -> Any:
    """Return the mean and the standard deviation; 0 and 0 if float32 cannot hold the squares."""
    shift = values[0]  # keeps the squares small if all values are near each other
    total, squares = ZERO, ZERO
    for j in range(len(values)):
        value = values[j] - shift
        total += value
        squares += value * value
    count = np.float32(len(values))
    mean = total / count
    square = squares / count - mean * mean
    if not (square > ZERO and square < INFINITY):
        return ZERO, ZERO
    return shift + mean, np.sqrt(square)


@jit
def _fill(
    row: Float32, first: int, k: int, values: Float32, places: np.ndarray, count: int, bar: Any, height: Any
) -> Any:
    """Add one row to its reservoir of `count` values, all over the bar; return the new (count, bar, height).

    Most values of a reservoir's first row cannot matter, so it starts with a guessed bar: `height` standard deviations
    above the row's mean, the number that was right for the rows before. If fewer than k values are over the guess, a
    bar is searched for.
    """
    columns = len(row)
    if count > 0 or columns <= 2 * k:
        count, bar = _gather(row, first, k, values, places, count, bar)
        return count, bar, height
    mean, deviation = _mean_and_deviation(row)
    if deviation > ZERO:
        count, bar = _gather(row, first, k, values, places, 0, mean + height * deviation)
    if count < k:
        bar, _, _ = _raise_bar(row, k, k + (k >> 1), MINUS_INFINITY, columns)
        count, bar = _gather(row, first, k, values, places, 0, bar)
    if deviation > ZERO and bar > MINUS_INFINITY:
        aim = np.float32(k) + np.float32(4) * np.sqrt(np.float32(k))  # so that chance rarely leaves fewer than k
        height = (bar - mean) / deviation + np.float32(0.1) * (np.float32(count) / aim - ONE)
    return count, bar, height


@jit
def add_top(
    tile: Float32, first: int, k: int, values: Float32, places: np.ndarray, counts: np.ndarray, bars: Float32
) -> None:
    """Add a tile to each row's reservoir, (rows, room), which always holds the row's k largest values so far.

    `places` holds the position of each value: column j has position first + j. Tiles come in that order, so among equal
    values those with the lowest positions are kept.
    """
    height = ZERO
    for i in range(tile.shape[0]):
        counts[i], bars[i], height = _fill(tile[i], first, k, values[i], places[i], counts[i], bars[i], height)


@jit
def cut_top(k: int, values: Float32, places: np.ndarray, counts: np.ndarray) -> None:
    """Shorten each reservoir that add_top filled to its k largest values, in their order."""
    for i in range(len(values)):
        if counts[i] > k:
            counts[i], _ = _cut(values[i, : counts[i]], places[i], k, k)


@jit
def _over_and_equal(values: Float32, bar: Any) -> Any:
    """Count the values over the bar and those equal to it, in parts, since floats count only up to 2**24."""
    all_over, all_equal = 0, 0
    for start in range(0, len(values), MOST_COUNTED_VALUES):
        part = values[start : start + MOST_COUNTED_VALUES]
        over, equal = ZERO, ZERO
        for j in range(len(part)):
            over += ONE if part[j] > bar else ZERO
            equal += ONE if part[j] == bar else ZERO
        all_over += int(over)
        all_equal += int(equal)
    return all_over, all_equal


@jit
def _best_first(values: Float32, places: np.ndarray, best: np.ndarray) -> None:
    """Sort a few values, largest first and the lower place first among equals; write the first places to `best`.

    If there are fewer than `best` has room for, the rest is -1.
    """
    for i in range(1, len(values)):
        value, place = values[i], places[i]
        j = i
        while j > 0 and values[j - 1] < value:
            values[j], places[j] = values[j - 1], places[j - 1]
            j -= 1
        values[j], places[j] = value, place
    for i in range(len(best)):
        best[i] = places[i] if i < len(places) else -1


@jit
def place_rows(
    tile: Float32,
    h: Float32,
    weights: Float32,
    starts: np.ndarray,
    positions: np.ndarray,
    better: np.ndarray,
    equal: np.ndarray,
    best: np.ndarray,
) -> None:
    """Rank the columns of each row by score - weight * h, with weights of 0 or 1.

    `better` and `equal` receive how many columns score above, and the same as, those at
    `positions[starts[i]:starts[i + 1]]`. `best`, (rows, k), receives the k best columns, best first and the lower one
    first among equals; -1 instead of columns with a score of -inf.
    """
    rows, columns = tile.shape
    k = best.shape[1]
    corrected = np.empty(columns, np.float32)
    room = min(k + max(k, 96), columns) + LANE_VALUES
    values, places = np.empty(room, np.float32), np.empty(room, np.int32)
    height = ZERO
    for i in range(rows):
        row, weight = tile[i], weights[i]
        for j in range(columns):
            corrected[j] = row[j] - weight * h[j]
        for pair in range(starts[i], starts[i + 1]):
            better[pair], equal[pair] = _over_and_equal(corrected, corrected[positions[pair]])
        if k:
            count, _, height = _fill(corrected, 0, k, values, places, 0, MINUS_INFINITY, height)
            if count > k:
                count, _ = _cut(values[:count], places, k, k)
            _best_first(values[:count], places[:count], best[i])


@jit
def count_over(tile: Float32, starts: np.ndarray, bars: Float32, over: np.ndarray, equal: np.ndarray) -> None:
    """Add to `over` and `equal` how many columns of row i are above, and the same as, each bar of that row."""
    for i in range(len(tile)):
        for pair in range(starts[i], starts[i + 1]):
            above, same = _over_and_equal(tile[i], bars[pair])
            over[pair] += above
            equal[pair] += same


@jit
def add_column_best(tile: Float32, first: int, best: Float32, where: np.ndarray) -> None:
    """Keep each column's largest value and its row (row i has position first + i); among equals the first one wins.

    It takes four rows at a time, so that `best` and `where` are read and written a quarter as often. The last row may
    be read more than once, which changes nothing, since only a larger value replaces another.
    """
    rows, columns = tile.shape
    last = rows - 1
    for i in range(0, rows, 4):
        a, b, c, d = tile[i], tile[min(i + 1, last)], tile[min(i + 2, last)], tile[min(i + 3, last)]
        place = np.int32(first + i)
        for j in range(columns):
            value, spot = best[j], where[j]
            spot = place if a[j] > value else spot
            value = larger(a[j], value)
            spot = place + np.int32(1) if b[j] > value else spot
            value = larger(b[j], value)
            spot = place + np.int32(2) if c[j] > value else spot
            value = larger(c[j], value)
            spot = place + np.int32(3) if d[j] > value else spot
            value = larger(d[j], value)
            best[j], where[j] = value, spot


@jit
def _row_powers(scores: Float32, i: int, h: Float32, slope: Any, level: Any, powers: Float32) -> Any:
    """Write 2**(slope * (score - h - level)) of a row; return their sum and the largest score - h."""
    columns, in_order = scores.shape[1], scores.reshape(-1)
    total, largest = ZERO, scores[i, 0] - h[0]
    for start in range(0, columns, PIECE_SCORES):
        stop = min(start + PIECE_SCORES, columns)
        later = i * columns + FETCH_AHEAD_SCORES
        for j in range(start, stop, LINE_BYTES // 4):
            fetch(in_order, later + j)
        row, row_h, row_powers = scores[i, start:stop], h[start:stop], powers[start:stop]
        for j in range(len(row)):
            value = row[j] - row_h[j]
            largest = larger(largest, value)
            power = exp2_(slope * (value - level))
            row_powers[j] = power
            total += power
    return total, largest


@jit
def _soften(scores: Float32, i: int, h: Float32, slope: Any, level: Any, powers: Float32) -> Any:
    """Write the powers of a row relative to a level near its largest score - h; return their sum and that level.

    The level of the row before usually suffices, and then the row is read only once.
    """
    total, largest = _row_powers(scores, i, h, slope, level, powers)
    above = slope * (largest - level)
    if not (above <= MOST_LEVEL_GAP and above >= -MOST_LEVEL_GAP):
        level = largest
        total, largest = _row_powers(scores, i, h, slope, level, powers)
    return total, level


@jit
def _hand_over(subtotals: Float32, totals: Float64) -> None:
    """Add float32 subtotals to the totals and reset them to 0."""
    for j in range(len(totals)):
        totals[j] += np.float64(subtotals[j])
        subtotals[j] = ZERO


@jit
def soften_rows(
    scores: Float32, h: Float32, beta: float, out: Float32, totals: Float64, logs: Float64, weights: Any = None
) -> None:
    """Write each row's softmax of beta * (score - h) to `out`, which may be the scores; add the rows to `totals`.

    `logs` receives each row's log-sum-exp.
    """
    powers, subtotals = np.empty(scores.shape[1], np.float32), np.zeros(scores.shape[1], np.float32)
    slope, level = np.float32(beta) * LOG2E, scores[0, 0] - h[0]
    for i in range(len(scores)):
        soft = out[i]
        total, level = _soften(scores, i, h, slope, level, powers)
        logs[i] = beta * np.float64(level) + np.log(np.float64(total))
        scale = ONE / total
        if weights is None:
            for j in range(len(powers)):
                value = powers[j] * scale
                soft[j] = value
                subtotals[j] += value
        else:
            weight = weights[i]
            for j in range(len(powers)):
                value = powers[j] * scale
                soft[j] = value
                subtotals[j] += weight * value
        if i % SUBTOTAL_ROWS == SUBTOTAL_ROWS - 1:
            _hand_over(subtotals, totals)
    _hand_over(subtotals, totals)


@jit
def soften_short_rows(
    scores: Float32, h: Float32, beta: float, out: np.ndarray, totals: Float64, logs: Float64, weights: Any = None
) -> None:
    """Do `soften_rows` in 16 bits, rounded to nearest, halves up: nine bits of fraction and seven of exponent.

    A share is never above 1, so the first two bits of its float32 are zero and need not be kept.
    """
    powers, subtotals = np.empty(scores.shape[1], np.float32), np.zeros(scores.shape[1], np.float32)
    slope, level = np.float32(beta) * LOG2E, scores[0, 0] - h[0]
    for i in range(len(scores)):
        soft = out[i]
        total, level = _soften(scores, i, h, slope, level, powers)
        logs[i] = beta * np.float64(level) + np.log(np.float64(total))
        scale = ONE / total
        if weights is None:
            for j in range(len(powers)):
                value = powers[j] * scale
                soft[j] = np.uint16((as_bits(value) + DROPPED_HALF) >> DROPPED_BITS)
                subtotals[j] += value
        else:
            weight = weights[i]
            for j in range(len(powers)):
                value = powers[j] * scale
                soft[j] = np.uint16((as_bits(value) + DROPPED_HALF) >> DROPPED_BITS)
                subtotals[j] += weight * value
        if i % SUBTOTAL_ROWS == SUBTOTAL_ROWS - 1:
            _hand_over(subtotals, totals)
    _hand_over(subtotals, totals)


def multiply_few(left: Float32, right: Float32, out: Float32) -> None:
    """Do `multiply` without BLAS if the left rows are few: BLAS first copies all of the right ones, twice the work."""
    if 1 < len(left) <= MOST_FEW_ROWS:
        _multiply_few(left, right, out)
    else:
        multiply(left, right, out)


@jit
def _multiply_few(left: Float32, right: Float32, out: Float32) -> None:
    """Multiply four left rows by two right ones at a time; at the ends, some again."""
    last, end = len(left) - 1, len(right) - 1
    for j in range(0, len(right), 2):
        k = min(j + 1, end)
        one, other = right[j], right[k]
        for start in range(0, len(left), 4):
            g = max(0, min(start, last - 3))
            h, i, l = min(g + 1, last), min(g + 2, last), min(g + 3, last)  # noqa: E741
            p, q, r, s = left[g], left[h], left[i], left[l]
            a, b, c, d, w, x, y, z = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
            for n in range(len(one)):
                a, b, c, d = a + p[n] * one[n], b + q[n] * one[n], c + r[n] * one[n], d + s[n] * one[n]
                w, x, y, z = w + p[n] * other[n], x + q[n] * other[n], y + r[n] * other[n], z + s[n] * other[n]
            out[g, j], out[h, j], out[i, j], out[l, j] = a, b, c, d
            out[g, k], out[h, k], out[i, k], out[l, k] = w, x, y, z


@jit
def balance_rows(kept: Float32, scale: Float32, totals: Float64, sums: Float64, weights: Any = None) -> None:
    """Sweep once over kept rows: sums = kept @ scale, then totals += weight * kept / sums, row by row."""
    rows, columns = kept.shape
    subtotals = np.zeros(columns, np.float32)
    for i in range(rows):
        row = kept[i]
        total = ZERO
        for j in range(columns):
            total += row[j] * scale[j]
        sums[i] = total
        share = (ONE if weights is None else weights[i]) / total
        for j in range(columns):
            subtotals[j] += share * row[j]
        if i % SUBTOTAL_ROWS == SUBTOTAL_ROWS - 1:
            _hand_over(subtotals, totals)
    _hand_over(subtotals, totals)


@jit
def _lengthen(bits: Any) -> Any:
    return as_float(np.int32(bits) << DROPPED_BITS)


@jit
def _weigh(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, scale: Float32) -> Any:
    """Return the weighted sums of four rows of 16 bits."""
    w, x, y, z = ZERO, ZERO, ZERO, ZERO
    for j in range(len(scale)):
        w += _lengthen(a[j]) * scale[j]
        x += _lengthen(b[j]) * scale[j]
        y += _lengthen(c[j]) * scale[j]
        z += _lengthen(d[j]) * scale[j]
    return w, x, y, z


@jit
def balance_short_rows(kept: np.ndarray, scale: Float32, totals: Float64, sums: Float64, weights: Any = None) -> None:
    """Do `balance_rows` on rows kept in 16 bits.

    It adds four rows to the totals at a time, so that these are read and written a quarter as often. The same loop sums
    the next four rows, and prefetches what it will sum.
    """
    rows, columns = kept.shape
    in_order = kept.reshape(-1)
    distance = FETCH_AHEAD_SHARES if columns <= MOST_SHORT_ROW else FETCH_AHEAD_IN_ROW
    subtotals = np.zeros(columns, np.float32)
    whole = rows - rows % 4
    if whole:
        w, x, y, z = _weigh(kept[0], kept[1], kept[2], kept[3], scale)
        for i in range(0, whole, 4):
            sums[i], sums[i + 1], sums[i + 2], sums[i + 3] = w, x, y, z
            to_a, to_b, to_c, to_d = ONE / w, ONE / x, ONE / y, ONE / z
            if weights is not None:
                to_a, to_b = weights[i] * to_a, weights[i + 1] * to_b
                to_c, to_d = weights[i + 2] * to_c, weights[i + 3] * to_d
            ahead = min(i + 4, whole - 4)  # at the end the last four are summed again, and the result is not used
            later = ahead * columns + distance
            w, x, y, z = ZERO, ZERO, ZERO, ZERO
            for start in range(0, columns, PIECE_SCORES):
                stop = min(start + PIECE_SCORES, columns)
                for place in range(later, later + 4 * columns, columns):
                    for j in range(start, stop, LINE_BYTES // 2):
                        fetch(in_order, place + j)
                part, scales = subtotals[start:stop], scale[start:stop]
                # Not a function that returns four of these: it would cost the loop a fifth of its speed.
                a, b = kept[i, start:stop], kept[i + 1, start:stop]
                c, d = kept[i + 2, start:stop], kept[i + 3, start:stop]
                p, q = kept[ahead, start:stop], kept[ahead + 1, start:stop]
                r, s = kept[ahead + 2, start:stop], kept[ahead + 3, start:stop]
                for j in range(len(part)):
                    first = to_a * _lengthen(a[j]) + to_b * _lengthen(b[j])
                    second = to_c * _lengthen(c[j]) + to_d * _lengthen(d[j])
                    part[j] += first + second
                    w += _lengthen(p[j]) * scales[j]
                    x += _lengthen(q[j]) * scales[j]
                    y += _lengthen(r[j]) * scales[j]
                    z += _lengthen(s[j]) * scales[j]
            if i % SUBTOTAL_ROWS == SUBTOTAL_ROWS - 4:
                _hand_over(subtotals, totals)
    for i in range(whole, rows):
        row = kept[i]
        total, _, _, _ = _weigh(row, row, row, row, scale)
        sums[i] = total
        share = (ONE if weights is None else weights[i]) / total
        for j in range(columns):
            subtotals[j] += share * _lengthen(row[j])
    _hand_over(subtotals, totals)


@jit
def keep_shares(shares: Float32, rises: Float32, draws: Float32, places: np.ndarray) -> Any:
    """Return the entries to keep: column j of row i where rise * share > draws[place + j]; see `interface`."""
    rows, width = shares.shape
    counts = np.empty(rows, np.int64)
    columns, values = np.empty(rows * width, np.int32), np.empty(rows * width, np.float32)  # only pages in use count
    over = np.full(-(-width // LANE_VALUES) * LANE_VALUES, MINUS_INFINITY)
    filled = 0
    for i in range(rows):
        row, rise, drawn, before = shares[i], rises[i], draws[places[i] : places[i] + width], filled
        least = ONE / rise
        for j in range(width):
            over[j] = row[j] * rise - drawn[j]
        for start in range(0, width, LANE_VALUES):
            mask = over_mask(over, start, ZERO)
            while mask != 0:
                j = start + int(lowest_bit(mask))
                columns[filled], values[filled] = j, max(row[j], least)
                filled += 1
                mask &= mask - np.uint32(1)
        counts[i] = filled - before
    return counts, columns[:filled].copy(), values[:filled].copy()


@jit
def balance_entries(
    starts: np.ndarray,
    columns: np.ndarray,
    values: Float32,
    scale: Float64,
    rests: Float64,
    gains: Float64,
    totals: Float64,
    sums: Float64,
) -> None:
    """Sweep once over kept entries: sums = rests + entries @ scale, then totals += gains * entries / sums."""
    for i in range(len(sums)):
        total = rests[i]
        for entry in range(starts[i], starts[i + 1]):
            total += values[entry] * scale[columns[entry]]
        sums[i] = total
        share = gains[i] / total
        for entry in range(starts[i], starts[i + 1]):
            totals[columns[entry]] += share * values[entry]


@door_jit
def hash_rows(block: Float32, words: np.ndarray, keys: np.ndarray, sums: np.ndarray, squares: Float32) -> None:
    """Sum (low half + key) * (high half + key) over each row of 64-bit words, modulo 2**64; and its squares as floats.

    `words` are the same rows as `block`. Each half is a float32; -0.0 counts as 0.0.
    """
    low_keys, high_keys = keys[0], keys[1]
    for i in range(len(block)):
        row, pairs = block[i], words[i]
        total, square = np.uint64(0), ZERO
        for j in range(len(pairs)):
            low, high = pairs[j] & HALF_WORD, pairs[j] >> np.uint64(32)
            low = np.uint64(0) if low == MINUS_ZERO else low
            high = np.uint64(0) if high == MINUS_ZERO else high
            total += (low + low_keys[j]) * (high + high_keys[j])
        for j in range(len(row)):
            square += row[j] * row[j]
        sums[i], squares[i] = total, square


@door_jit
def are_finite(block: Float32, finite: np.ndarray) -> None:
    """Write for each row whether all its numbers are finite."""
    for i in range(len(block)):
        row, zeros = block[i], ZERO
        for j in range(len(row)):
            zeros += row[j] * ZERO  # NaN if the number is infinite or NaN
        finite[i] = zeros == ZERO


@door_jit
def _scale_rows(block: Float32, out: Float32, lengths: Float32) -> None:
    for i in range(len(block)):
        row, scaled = block[i], out[i]
        square = ZERO
        for j in range(len(row)):
            square += row[j] * row[j]
        lengths[i] = np.sqrt(square)
        scale = ONE / lengths[i]
        for j in range(len(row)):
            scaled[j] = row[j] * scale


def unit_rows(block: Float32) -> Float32:
    """Return the rows scaled to length one; each is read from memory once."""
    out, lengths = np.empty_like(block), np.empty(len(block), np.float32)
    _scale_rows(block, out, lengths)
    return out if are_ordinary(lengths) else unit(block)


def ready(rows: Float32, scale: bool) -> Float32:
    """Return rows ready to multiply."""
    return unit_rows(rows) if scale else rows
