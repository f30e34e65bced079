"""Plans: balance a batch of queries against the items by transport or assignment (extra `plans`: POT and SciPy)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np

from unhub.arrays import Float64
from unhub.compute.workers import Progress, Workers
from unhub.correction import Scores
from unhub.data.bank import Bank
from unhub.errors import ArgumentError, optional
from unhub.methods.method import Method, Outcome, require, require_number

SHARE_DIGITS = 9  # of an entry over the largest of its row: smaller values and differences are solver rounding


@dataclass(frozen=True)
class Planned(Method):
    """What the plans share: nothing is fitted, and each batch is solved when it is searched.

    Zero entries of the plan rank by similarity or, with zeros="tied", stay tied as in the paper.
    """

    kind: ClassVar[str] = "plan"
    extra: ClassVar[str] = "plans"
    needs_bank: ClassVar[bool] = False
    solves: ClassVar[bool] = True
    library: ClassVar[str]
    zeros: str = "raw"

    def __post_init__(self) -> None:
        require(self.zeros in ("raw", "tied"), self, "zeros", "'raw' (by similarity) or 'tied' (as in the paper)")

    def check_installed(self) -> None:
        self.solver()  # so that a missing library shows at the fit, not at the first search

    def solve(self, bank: Bank, workers: Workers) -> Outcome:
        return Outcome()

    def solver(self) -> ModuleType:
        """Return the solver's library, or raise an error that says how to install it."""
        return optional(self.library, self.extra, self.name)

    def plan(self, scores: Scores, progress: Progress | None = None) -> Scores:
        """Return scores that rank this batch of queries by its plan."""

        def tell(share: float) -> None:
            if progress is not None and scores.size:
                progress(int(share * scores.size), scores.size)

        planned = ranked(self.shares(scores, tell), scores, self.zeros) if len(scores) else scores
        tell(1.0)
        return planned

    def shares(self, scores: Scores, tell: Callable[[float], None]) -> Float64:
        """Return the plan: how much of each query goes to each item; `tell` is given the share of the work done."""
        raise TypeError(f"{type(self).__name__} does not define a plan")


@dataclass(frozen=True)
class Transport(Planned):
    """Rank a batch by its exact optimal transport plan, cost 1 - s, uniform marginals; the rest by similarity."""

    name: ClassVar[str] = "otn"
    library: ClassVar[str] = "ot"

    def shares(self, scores: Scores, tell: Callable[[float], None]) -> Float64:
        from unhub.compute.transport import NoOptimum, exact_plan  # here: most fits need no plan

        try:
            return exact_plan(self.solver(), 1 - scores.astype(np.float64))
        except NoOptimum as error:
            raise ArgumentError(
                "queries", f"cannot be solved by 'otn': {error}", "give fewer queries at a time"
            ) from None


@dataclass(frozen=True)
class SmoothTransport(Planned):
    """Rank a batch by a transport plan with a squared-L2 regulariser, which is sparse; the rest by similarity."""

    name: ClassVar[str] = "l2n"
    library: ClassVar[str] = "scipy"
    reg: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number(self, "reg", above=0)

    def shares(self, scores: Scores, tell: Callable[[float], None]) -> Float64:
        from unhub.compute.transport import NoOptimum, smooth_plan

        try:
            return smooth_plan(self.solver(), scores.astype(np.float64), self.reg, tell)
        except NoOptimum as error:
            remedy = "give fewer queries at a time, or a larger reg"
            raise ArgumentError("queries", f"cannot be solved by 'l2n': {error}", remedy) from None


@dataclass(frozen=True)
class Assignment(Planned):
    """Rank a batch by its best one-to-one assignment of queries to items; the rest by similarity."""

    name: ClassVar[str] = "hn"
    library: ClassVar[str] = "scipy.optimize"

    def shares(self, scores: Scores, tell: Callable[[float], None]) -> Float64:
        queries, items = self.solver().linear_sum_assignment(scores, maximize=True)
        plan = np.zeros(scores.shape)
        plan[queries, items] = 1.0
        return plan


def ranked(plan: Float64, scores: Scores, zeros: str) -> Float64:
    """Return scores that rank by the plan; where it is zero, by similarity or tied, as `zeros` says.

    A nonzero entry of the plan scores above every similarity of its row: by 1 plus its share of the row's largest
    entry, times the size of the similarities if that is above 1, so that float precision keeps it. Equal entries also
    rank by similarity.
    """
    largest = plan.max(axis=1, keepdims=True)
    share = np.round(np.divide(plan, largest, out=np.zeros_like(plan), where=largest > 0), SHARE_DIGITS)
    if zeros == "tied":
        return np.asarray(share * largest)
    wide = scores.astype(np.float64)
    best, least = wide.max(axis=1, keepdims=True), wide.min(axis=1, keepdims=True)
    size = np.maximum(1.0, np.maximum(best, -least))
    among_equals = 0.5 * 10.0**-SHARE_DIGITS * (wide - least) / np.maximum(best - least, np.finfo(np.float64).tiny)
    return np.where(share > 0, best + size * (1 + share + among_equals), wide)
