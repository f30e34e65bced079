"""The network simplex: an exact plan of transport between rows and columns of equal weights (POT)."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import cast

from unhub.arrays import Float64

FEWEST_STEPS = 1_000_000  # to allow; POT's own 100,000 end before the optimum at 3,000 x 3,000


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
