"""Plans of transport between rows and columns of equal weights: exact ones, by POT, and smooth ones, by SciPy.

A smooth plan has a squared-L2 regulariser (Blondel, Seguy and Rolet 2018) and is found by Newton's method. It is P =
max(0, s + u + v) / reg, with a number u per row and v per column for which the rows of P sum to 1/rows and its
columns to 1/columns. They minimise a convex function that is quadratic as long as the same entries are above 0, its
active ones. A step of Newton's method goes to the least of that quadratic, or as far as the function falls (Lorenz,
Manns and Meyer 2021). From afar that takes many steps where few entries are active. So reg starts where all are, and
the plan has a formula, and is lowered by degrees to the one asked for.
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

FEWEST_STEPS = 1_000_000  # to allow; POT's own 100,000 end before the optimum at 3,000 x 3,000
EXACT = 1e-10  # of a row's sum or a column's: how far each may be off in the end
ROUGH = 1e-2  # the same on the way there
LOWER = 4.0  # by which reg is divided; with 10 the steps are as many
STEPS = 300  # at one reg; 30 are the most that were seen
HALVINGS = 60  # of a step
NEARER = 0.85  # what each step leaves of the progress at one reg
DENSE = 0.05  # the share of active entries from which a dense product is the faster one
# Added to the diagonal, times the error but not below the least: parts of the plan that share no active entry may be
# shifted against each other at no cost, and the matrix is singular.
DAMPING, LEAST_DAMPING = 1e-4, 1e-9


class NoOptimum(ValueError):
    """The solver stopped before the optimum."""


def exact_plan(ot: ModuleType, cost: Float64) -> Float64:
    """Return how much of each row goes to each column, (rows, columns), at the least cost."""
    above_zero = cost - cost.min()  # which is the plan's too; where all costs are below 0, POT finds none
    with warnings.catch_warnings():  # what POT warns of is raised below
        warnings.simplefilter("ignore", UserWarning)
        plan, log = ot.emd([], [], above_zero, numItermax=max(FEWEST_STEPS, 100 * cost.size), log=True)
    if log["warning"] is not None:
        raise NoOptimum(f"POT did not reach the optimum ({log['warning']})")
    return cast("Float64", plan)


class Sums(NamedTuple):
    """How far the rows, and the columns, are from the sums they should have."""

    rows: Float64
    columns: Float64

    def along(self, direction: Sums) -> float:
        return float(self.rows @ direction.rows + self.columns @ direction.columns)


def smooth_plan(scipy: ModuleType, scores: Float64, reg: float, tell: Callable[[float], None]) -> Float64:
    """Return how much of each row goes to each column, (rows, columns): argmin <P, 1 - s> + reg/2 |P|^2.

    Each sum of the plan is within 1e-10 of what it should be, relatively. The sums s + u + v are kept and moved, not u
    and v: where similarities are large and reg is small, the active ones are much finer than the rounding of s, and the
    plan is that of similarities which differ from the given ones by their rounding. `tell` takes the share of the work
    that is done, which is a guess.
    """
    rows, columns = scores.shape
    if rows < columns:  # the matrix of a step is as large as the columns are many
        return smooth_plan(scipy, scores.T, reg, tell).T
    moved = scores - scores.mean(axis=1, keepdims=True)
    moved -= moved.mean(axis=0)
    at = max(reg, -float(moved.min()) * scores.size)  # from here upwards all entries are active
    if not at < np.inf:
        raise NoOptimum("the similarities are too far apart")
    moved += at / scores.size
    stages = 1 + math.ceil((math.log(at) - math.log(reg)) / math.log(LOWER))
    stage = 0

    def step(number: int) -> None:
        tell(min((stage + 1 - NEARER**number) / stages, 1.0))

    while at > reg:
        at = max(reg, at / LOWER)
        _balance(scipy, moved, at, ROUGH, step)
        stage += 1
    error = _balance(scipy, moved, reg, EXACT, step)
    if not error <= EXACT:
        raise NoOptimum(f"the plan's sums are still off by {error:.1g} of their size")
    return cast("Float64", np.maximum(moved, 0) / reg)


def _balance(scipy: ModuleType, moved: Float64, reg: float, enough: float, step: Callable[[int], None]) -> float:
    """Move rows and columns, in place, until the sums of the plan are right; return the largest relative error.

    step: called with how many steps were made.
    """
    wanted = np.array([reg / len(moved), reg / moved.shape[1]])

    def off(values: Float64) -> Sums:
        positive = np.maximum(values, 0)
        return Sums(positive.sum(axis=1) - wanted[0], positive.sum(axis=0) - wanted[1])

    error = np.inf
    for number in range(STEPS):
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
    """Return the step to the least of the quadratic: its matrix is [[row counts, active], [active^T, column counts]].

    The rows are eliminated, which leaves a matrix of columns by columns.
    """
    weights = 1 / (np.count_nonzero(active, axis=1) + damping)
    if np.count_nonzero(active) > DENSE * active.size:
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
    except (ValueError, np.linalg.LinAlgError) as error:  # numbers that have overflowed
        raise NoOptimum(f"the similarities are too far apart ({error})") from None
    return Sums(-weights * (sums.rows + links @ columns), columns)


def _length(slope: Callable[[float], float], start: float) -> float:
    """Return how much of a step to take, at most all of it: to about where the slope, which only rises, is 0.

    start: the slope at 0; unless it is below 0, rounding is all that is left, and the step is none. Values of the
    function would be of no use near its least, where they are equal.
    """
    if not start < 0:
        return 0.0
    low, at_low, high, at_high = 0.0, start, 1.0, slope(1.0)
    if at_high <= -0.1 * start:
        return high
    for _ in range(HALVINGS):
        middle = low + (high - low) * min(max(at_low / (at_low - at_high), 0.05), 0.95)
        here = slope(middle)
        if 0.5 * start <= here <= -0.1 * start:
            return middle
        if here < 0:
            low, at_low = middle, here
        else:
            high, at_high = middle, here
    return low
