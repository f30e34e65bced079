"""Sinkhorn normalisation: balance bank queries against items (SN), and against bank items too (DBSN)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.compute.sinkhorn import Held, Schedule, Solution, balance, column_potentials
from unhub.compute.workers import Workers
from unhub.data.bank import Bank
from unhub.data.kept_arrays import Declared, Kept
from unhub.data.similarity import Similarity
from unhub.methods.inverted_softmax import TAU_BETA
from unhub.methods.method import Arrays, Method, Outcome, require_count, require_number

WITHOUT_ITEMS = "there are no bank items, so this is sn"


@dataclass(frozen=True)
class Balanced(Method):
    """What sn and dbsn share: a temperature, and how far to iterate.

    With a `tolerance`, iterate until the L1 error of the row marginals is below it, at most `iterations` times, which
    is then 1,000 unless it is given.
    """

    solves: ClassVar[bool] = True
    iterates: ClassVar[bool] = True
    aliases = TAU_BETA
    default_iterations: ClassVar[int] = 10
    tau: float = 0.01
    iterations: int | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        require_number(self, "tau", above=0)
        if self.tolerance is not None:
            require_number(self, "tolerance", above=0)
        if self.iterations is None:
            object.__setattr__(self, "iterations", self.default_iterations if self.tolerance is None else 1000)
        require_count(self, "iterations")

    @property
    def schedule(self) -> Schedule:
        """How far to iterate, as the solver takes it."""
        return Schedule(self.tau, cast("int", self.iterations), self.tolerance)

    def columns(self, bank: Bank) -> Similarity:
        """Return what the bank queries are balanced against."""
        return bank.queries

    def keeps(self, mergeable: bool, given: bool) -> Declared:
        return {
            "log_alpha": Kept("float64", ("bank",)),
            "bank_item_h": Kept("float64", ("bank_items" if self.joint else 0,)),
            "columns": Kept("int64", (1,), least=1),
        }

    def check(self, arrays: Arrays, sizes: Mapping[str, int]) -> None:
        # The items of the fit and the bank items; items may have come and gone since.
        columns, targets = int(cast("NDArray[np.int64]", arrays["columns"])[0]), len(arrays["bank_item_h"])
        if columns <= targets:
            raise ValueError(f"the array columns says {columns}; more than the {targets} bank items is wanted")

    def solve(self, bank: Bank, workers: Workers) -> Outcome:
        return outcome(balance(self.columns(bank), self.schedule, workers, weights=bank.weights), bank.items)

    def warmed(self, h: Float64, arrays: Arrays, bank: Bank, workers: Workers, iterations: int) -> Outcome:
        """Return the outcome of some more iterations from where h stands."""
        start = np.concatenate([h, cast("Float64", arrays["bank_item_h"])])
        more = Schedule(self.tau, iterations)
        return outcome(balance(self.columns(bank), more, workers, start=start, weights=bank.weights), bank.items)

    def extended(self, arrays: Arrays, new: Bank, workers: Workers) -> Outcome:
        """Follow the old queries' alpha; a column keeps the share of mass it had in the fit, so nothing else moves."""
        columns = int(cast("NDArray[np.int64]", arrays["columns"])[0])
        log_alpha = cast("Float64", arrays["log_alpha"])
        return Outcome(column_potentials(new.queries, self.tau, log_alpha, columns, workers))

    def merged(self, h: Float64, arrays: Arrays, old: int, new: Bank, workers: Workers) -> Outcome:
        """Balance the new queries by themselves and average h by the number of queries, since the old are not at hand.

        Closer to a refit than iterations in which the old queries keep their alpha. log alpha is then shifted so that
        rows which come later stand, on average, at the level of these.
        """
        before, total = np.concatenate([h, cast("Float64", arrays["bank_item_h"])]), old + new.weight
        # Where items came or went since the fit, a column's share of the mass is another now.
        before += self.tau * np.log(len(before) / int(cast("NDArray[np.int64]", arrays["columns"])[0]))
        columns = self.columns(new)
        apart = balance(columns, self.schedule, workers, weights=new.weights)
        both = (old * before + new.weight * (apart.h - apart.h.mean() + before.mean())) / total
        held = Held(old, before)
        step = balance(columns, Schedule(self.tau, 1), workers, start=both, held=held, weights=new.weights)
        level = float((both - step.h).mean()) / self.tau
        old_alpha = cast("Float64", arrays["log_alpha"]) + np.log(old / total)
        changed: dict[str, NDArray[np.generic]] = {
            "log_alpha": np.concatenate([old_alpha, step.log_alpha]) + level,
            "bank_item_h": both[new.items :].copy(),
            "columns": np.array([len(both)], np.int64),
        }
        return Outcome(both[: new.items].copy(), changed, apart.kept, apart.iterations)


@dataclass(frozen=True)
class Sinkhorn(Balanced):
    """Bias each item so that bank queries and items balance: h = -tau * log beta after some Sinkhorn iterations."""

    name: ClassVar[str] = "sn"


@dataclass(frozen=True)
class DualBankSinkhorn(Balanced):
    """Sinkhorn over the items and the bank items together; the items' part is kept."""

    name: ClassVar[str] = "dbsn"
    joint: ClassVar[bool] = True

    def resolve(self, bank: Bank) -> tuple[Method, tuple[str, ...]]:
        return self, (WITHOUT_ITEMS,) if bank.joint is bank.queries else ()

    def columns(self, bank: Bank) -> Similarity:
        return bank.joint


def outcome(solution: Solution, items: int) -> Outcome:
    """Return h of the items, and what later rows need: log alpha, h of the bank items, the number of columns."""
    arrays: dict[str, NDArray[np.generic]] = {
        "log_alpha": solution.log_alpha,
        "bank_item_h": solution.h[items:].copy(),
        "columns": np.array([len(solution.h)], np.int64),
    }
    return Outcome(
        solution.h[:items].copy(), arrays, solution.kept, solution.iterations, solution.row_error, solution.column_error
    )
