"""Transport plans between rows and columns of equal weights: exact plans by POT, smooth plans by SciPy.

A smooth plan has a squared-L2 regulariser (Blondel, Seguy and Rolet 2018) and is found by Newton's method. It is P =
max(0, s + u + v) / reg, with a number u per row and v per column for which the rows of P sum to 1/rows and its
columns to 1/columns. They minimise a convex function, which is quadratic as long as the same entries, the active ones,
are above 0. A Newton step goes to the minimum of that quadratic, or as far as the function decreases (Lorenz, Manns and
Meyer 2021). From a distant start that takes many steps if few entries are active. So reg starts so high that all are
active, where the plan has a closed form, and is lowered in stages to the value asked for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64

FEWEST_POT_STEPS = 1_000_000  # allowed; POT's default of 100,000 ends before the optimum at 3,000 x 3,000
FINAL_TOLERANCE_SHARE = 1e-10  # how far each sum of a row or column may be off in the end, relative to it
STAGE_TOLERANCE_SHARE = 1e-2  # the same in the stages before
REG_DIVISOR = 4.0  # of reg from stage to stage; 10 takes as many steps in total
MOST_NEWTON_STEPS = 300  # at one reg; at most 30 were seen
MOST_HALVINGS = 60  # in the search for the length of a step
STEP_REMAINDER_SHARE = 0.85  # of the progress of a stage: what each step leaves to do
DENSE_SHARE = 0.05  # of active entries, from which a dense product is faster
# Added to the diagonal, in proportion to the error, with a minimum: parts of the plan that share no active entry can
# shift against each other freely, which makes the matrix singular.
DAMPING, LEAST_DAMPING = 1e-4, 1e-9


class NoOptimum(ValueError):
    """The solver stopped before the optimum."""


def exact_plan(ot: ModuleType, cost: Float64) -> Float64:
    """Return how much of each row goes to each column, (rows, columns), at the least cost."""
    above_zero = cost - cost.min()  # has the same plan; POT finds none if all costs are below 0
    with warnings.catch_warnings():  # POT's warning is raised as an error below
        warnings.simplefilter("ignore", UserWarning)
        plan, log = ot.emd([], [], above_zero, numItermax=max(FEWEST_POT_STEPS, 100 * cost.size), log=True)
    if log["warning"] is not None:
        raise NoOptimum(f"POT did not reach the optimum ({log['warning']})")
    return cast("Float64", plan)


class Sums(NamedTuple):
    """How far the sums of the rows and of the columns are from what they should be."""

    rows: Float64
    columns: Float64

    def along(self, direction: Sums) -> float:
        return float(self.rows @ direction.rows + self.columns @ direction.columns)


def smooth_plan(scipy: ModuleType, scores: Float64, reg: float, tell: Callable[[float], None]) -> Float64:
    """Return how much of each row goes to each column, (rows, columns): argmin <P, 1 - s> + reg/2 |P|^2.

    Each sum of the plan has a relative error of at most 1e-10. The sums s + u + v are updated, not u and v: with large
    similarities and a small reg, the active sums are much finer than the rounding of s, so the plan belongs to
    similarities that differ from the given ones by their rounding. `tell` is called with an estimate of the share of
    the work done.
    """
    rows, columns = scores.shape
    if rows < columns:  # the matrix of a step is (columns, columns)
        return smooth_plan(scipy, scores.T, reg, tell).T
    moved = scores - scores.mean(axis=1, keepdims=True)
    moved -= moved.mean(axis=0)
    at = max(reg, -float(moved.min()) * scores.size)  # from this reg upwards all entries are active
    if not at < np.inf:
        raise NoOptimum("the similarities are too far apart")
    moved += at / scores.size
    stages = 1 + math.ceil((math.log(at) - math.log(reg)) / math.log(REG_DIVISOR))
    stage = 0

    def step(number: int) -> None:
        tell(min((stage + 1 - STEP_REMAINDER_SHARE**number) / stages, 1.0))

    while at > reg:
        at = max(reg, at / REG_DIVISOR)
        _balance(scipy, moved, at, STAGE_TOLERANCE_SHARE, step)
        stage += 1
    error = _balance(scipy, moved, reg, FINAL_TOLERANCE_SHARE, step)
    if not error <= FINAL_TOLERANCE_SHARE:
        raise NoOptimum(f"the plan's sums are still off by {error:.1g} of their size")
    return cast("Float64", np.maximum(moved, 0) / reg)


def _balance(scipy: ModuleType, moved: Float64, reg: float, enough: float, step: Callable[[int], None]) -> float:
    """Shift rows and columns, in place, until the sums of the plan are right; return the largest relative error.

    enough: the relative error to stop at. step: called with the number of steps so far.
    """
    wanted = np.array([reg / len(moved), reg / moved.shape[1]])

    def off(values: Float64) -> Sums:
        positive = np.maximum(values, 0)
        return Sums(positive.sum(axis=1) - wanted[0], positive.sum(axis=0) - wanted[1])

    error = np.inf
    for number in range(MOST_NEWTON_STEPS):
        step(number)
        sums = off(moved)
        error = max(float(np.abs(part).max() / size) for part, size in zip(sums, wanted, strict=True))
        if error <= enough:
            break
        direction = _direction(scipy, moved > 0, sums, max(DAMPING * min(1.0, error), LEAST_DAMPING))

        def slope(part: float, direction: Sums = direction) -> float:
            return off(_shifted(moved, direction, part)).along(direction)

        length = _length(slope, sums.along(direction))
        if not length > 0:
            break
        moved[:] = _shifted(moved, direction, length)
    return error


def _shifted(moved: Float64, direction: Sums, part: float) -> Float64:
    shifted = moved + part * direction.columns
    shifted += (part * direction.rows)[:, None]
    return shifted


def _direction(scipy: ModuleType, active: NDArray[np.bool_], sums: Sums, damping: float) -> Sums:
    """Return the step to the minimum of the quadratic, with matrix [[row counts, active], [active^T, column counts]].

    The rows are eliminated, which leaves a (columns, columns) matrix.
    """
    weights = 1 / (np.count_nonzero(active, axis=1) + damping)
    if np.count_nonzero(active) > DENSE_SHARE * active.size:
        links = active.astype(np.float64)
        weighed = links * weights[:, None]
        matrix = -(links.T @ weighed)
    else:
        places = np.nonzero(active)
        links, weighed = (
            scipy.sparse.csr_array((values, places), shape=active.shape)
            for values in (np.ones(len(places[0])), weights[places[0]])
        )
        matrix = -(links.T @ weighed).toarray()
    matrix[np.diag_indices_from(matrix)] += np.count_nonzero(active, axis=0) + damping
    try:
        factor = scipy.linalg.cho_factor(matrix, overwrite_a=True)
        columns = scipy.linalg.cho_solve(factor, weighed.T @ sums.rows - sums.columns)
    except (ValueError, np.linalg.LinAlgError) as error:  # after an overflow
        raise NoOptimum(f"the similarities are too far apart ({error})") from None
    return Sums(-weights * (sums.rows + links @ columns), columns)


def _length(slope: Callable[[float], float], start: float) -> float:
    """Return how much of a step to take, at most all of it: up to about where the slope, which only increases, is 0.

    start: the slope at 0; if it is not below 0, only rounding is left and the result is 0. The slope is used because
    values of the function are all equal near its minimum.
    """
    if not start < 0:
        return 0.0
    low, at_low, high, at_high = 0.0, start, 1.0, slope(1.0)
    if at_high <= -0.1 * start:
        return high
    for _ in range(MOST_HALVINGS):
        middle = low + (high - low) * min(max(at_low / (at_low - at_high), 0.05), 0.95)
        here = slope(middle)
        if 0.5 * start <= here <= -0.1 * start:
            return middle
        if here < 0:
            low, at_low = middle, here
        else:
            high, at_high = middle, here
    return low
