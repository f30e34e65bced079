"""Plans: balance a batch of queries against the items by transport or assignment (extra `plans`: POT and SciPy)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, cast

import numpy as np

from unhub.bank import Bank
from unhub.correction import Scores
from unhub.effort import Effort
from unhub.extras import optional
from unhub.methods.method import Method, Outcome, require, require_number
from unhub.methods.simplex import NoOptimum, exact_plan
from unhub.vectors import Float64

TIE = 1e-9  # of the largest entry of a row: entries of a plan that differ by less are equal


@dataclass(frozen=True)
class Planned(Method):
    """What the plans share: nothing is fitted but the parameters, and each batch is solved when it comes.

    Entries of the plan that are zero rank by similarity, or stay tied, as the paper has them, with zeros="tied".
    """

    kind: ClassVar[str] = "plan"
    extra: ClassVar[str] = "plans"
    needs_bank: ClassVar[bool] = False
    solves: ClassVar[bool] = True
    library: ClassVar[str]
    zeros: str = "raw"

    def __post_init__(self) -> None:
        require(self.zeros in ("raw", "tied"), self, "zeros", "'raw' (by similarity) or 'tied' (as the paper has it)")

    def solve(self, bank: Bank, effort: Effort) -> Outcome:
        self.solver()  # at the fit, so that it is not at the first search that its absence is noticed
        return Outcome()

    def solver(self) -> ModuleType:
        """Import the library that solves, or say how to install it."""
        return optional(self.library, self.extra, self.name)

    def plan(self, scores: Scores) -> Scores:
        """Return scores that rank this batch by its plan."""
        return ranked(self.shares(scores), scores, self.zeros)

    def shares(self, scores: Scores) -> Float64:
        """Return the plan: how much of each query goes to each item."""
        raise TypeError(f"{type(self).__name__} has no plan of its own")


@dataclass(frozen=True)
class Transport(Planned):
    """Rank a batch by its exact optimal transport plan, cost 1 - s, uniform marginals; the rest by similarity."""

    name: ClassVar[str] = "otn"
    library: ClassVar[str] = "ot"

    def shares(self, scores: Scores) -> Float64:
        try:
            return exact_plan(self.solver(), 1 - scores.astype(np.float64))
        except NoOptimum as error:
            raise ValueError(f"otn: {error}; give fewer queries at a time") from None


@dataclass(frozen=True)
class SmoothTransport(Planned):
    """Rank a batch by a transport plan with a squared-L2 regulariser, which is sparse; the rest by similarity."""

    name: ClassVar[str] = "l2n"
    library: ClassVar[str] = "ot.smooth"
    reg: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number(self, "reg", above=0)

    def shares(self, scores: Scores) -> Float64:
        smooth = self.solver()
        with warnings.catch_warnings():  # POT passes SciPy an option that newer versions of it deprecate
            warnings.simplefilter("ignore", DeprecationWarning)
            cost = 1 - scores.astype(np.float64)
            return cast("Float64", smooth.smooth_ot_dual(*_uniform(scores), cost, self.reg, reg_type="l2"))


@dataclass(frozen=True)
class Assignment(Planned):
    """Rank a batch by its best one-to-one assignment of queries to items; the rest by similarity."""

    name: ClassVar[str] = "hn"
    library: ClassVar[str] = "scipy.optimize"

    def shares(self, scores: Scores) -> Float64:
        queries, items = self.solver().linear_sum_assignment(scores, maximize=True)
        plan = np.zeros(scores.shape)
        plan[queries, items] = 1.0
        return plan


def _uniform(scores: Scores) -> tuple[Float64, Float64]:
    queries, items = scores.shape
    return np.full(queries, 1 / queries), np.full(items, 1 / items)


def ranked(plan: Float64, scores: Scores, zeros: str) -> Float64:
    """Return scores that rank by the plan, and where it is zero by similarity, or leave those tied as the paper does.

    An entry of the plan scores above every similarity of its row: 1 and its share of the row's largest. Entries of one
    size, up to a solver's rounding, rank by similarity too.
    """
    if zeros == "tied":
        return plan
    wide = scores.astype(np.float64)
    largest = plan.max(axis=1, keepdims=True)
    share = np.divide(plan, largest, out=np.zeros_like(plan), where=largest > 0)
    best, least = wide.max(axis=1, keepdims=True), wide.min(axis=1, keepdims=True)
    among_equals = TIE * (wide - least) / np.maximum(best - least, np.finfo(np.float64).tiny)
    return np.where(plan > 0, best + 1 + share + among_equals, wide)
