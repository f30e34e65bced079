"""Sinkhorn normalisation: balance bank queries against items (SN), and against bank items too (DBSN)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.compute.sinkhorn import (
    KEEPS,
    Held,
    Schedule,
    Solution,
    bank_that_fits,
    cheaper_ways,
    column_potentials,
    foreseen,
)
from unhub.compute.sinkhorn_apart import balance_anywhere
from unhub.compute.workers import Workers
from unhub.data.bank import Bank
from unhub.data.kept_arrays import Declared, Kept
from unhub.data.similarity import Similarity
from unhub.methods.inverted_softmax import BETA_ALIAS
from unhub.methods.method import Arrays, Foreseen, Method, Outcome, require, require_count, require_number

FEWEST_TIMED, MOST_TIMED = 2, 6  # iterations on a few rows, from which the time of others follows
MOST_TRIED = 50  # iterations on a few rows, where a tolerance decides when they end
NO_BANK_ITEMS_NOTE = "there are no bank items, so 'dbsn' is the same as 'sn'"


@dataclass(frozen=True)
class Balanced(Method):
    """What sn and dbsn share: a temperature, a number of iterations, and a strength that h is multiplied by.

    With a `tolerance`, they iterate until the L1 error of the row marginals is below it, at most `iterations` times
    (by default 1,000). A small bank balances its own chance; a `strength` below 1 corrects less. `keep` says how the
    matrix is kept, by default as its size allows: see `unhub.compute.sinkhorn`.
    """

    solves: ClassVar[bool] = True
    iterates: ClassVar[bool] = True
    aliases = BETA_ALIAS
    default_iterations: ClassVar[int] = 10
    tau: float = 0.01
    iterations: int | None = None
    tolerance: float | None = None
    strength: float | None = None
    keep: str | None = None

    def __post_init__(self) -> None:
        require_number(self, "tau", above=0)
        if self.strength is not None:
            require_number(self, "strength", above=0)
        if self.tolerance is not None:
            require_number(self, "tolerance", above=0)
        if self.iterations is None:
            object.__setattr__(self, "iterations", self.default_iterations if self.tolerance is None else 1000)
        require_count(self, "iterations")
        require(self.keep is None or self.keep in KEEPS, self, "keep", f"one of {', '.join(KEEPS)}")

    @property
    def schedule(self) -> Schedule:
        """The parameters in the form that the solver takes."""
        return Schedule(self.tau, cast("int", self.iterations), self.tolerance, self.keep or KEEPS[0])

    @property
    def factor(self) -> float:
        """What h is multiplied by."""
        return 1.0 if self.strength is None else self.strength

    def at_full_strength(self) -> tuple[Method, float]:
        return dataclasses.replace(self, strength=None), self.factor

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
        # `columns` counts the items of the fit and the bank items; items may have been added or removed since.
        columns, targets = int(cast("NDArray[np.int64]", arrays["columns"])[0]), len(arrays["bank_item_h"])
        if columns <= targets:
            raise ValueError(f"the array columns holds {columns}, expected more than the {targets} bank items")

    def solve(self, bank: Bank, workers: Workers) -> Outcome:
        solution = balance_anywhere(self.columns(bank), self.schedule, workers, weights=bank.weights)
        return outcome(solution, bank.items, self.factor)

    def foresee(self, bank: Bank, memory: int) -> Foreseen:
        shape, schedule = self.columns(bank).shape, self.schedule
        kept, passes, kept_bytes = foreseen(shape, schedule, memory)
        wider = shape[1] / bank.items
        ways = tuple((needed, fewer * wider) for needed, fewer in cheaper_ways(shape, schedule, memory))
        fits = bank_that_fits(shape[1], schedule, memory)
        return Foreseen(passes * wider, kept, kept_bytes, tuple(self._trials(kept)), ways, fits)

    def _trials(self, kept: str) -> Iterator[tuple[Method, float]]:
        """Yield what to time: this fit, or what more iterations take than fewer, for each that it has more."""
        trial = dataclasses.replace(self, keep={"recomputed": "none"}.get(kept, kept))
        iterations = self.schedule.iterations
        if kept == "sparse" or self.tolerance is not None:
            yield dataclasses.replace(trial, iterations=min(iterations, MOST_TRIED)), 1.0
        elif iterations <= MOST_TIMED:
            yield trial, 1.0
        else:
            further = (iterations - MOST_TIMED) / (MOST_TIMED - FEWEST_TIMED)
            yield dataclasses.replace(trial, iterations=MOST_TIMED), 1 + further
            yield dataclasses.replace(trial, iterations=FEWEST_TIMED), -further

    def warmed(self, h: Float64, arrays: Arrays, bank: Bank, workers: Workers, iterations: int) -> Outcome:
        """Return the outcome of some more iterations from this h."""
        start = np.concatenate([h / self.factor, cast("Float64", arrays["bank_item_h"])])
        more = dataclasses.replace(self.schedule, iterations=iterations, tolerance=None)
        solution = balance_anywhere(self.columns(bank), more, workers, start=start, weights=bank.weights)
        return outcome(solution, bank.items, self.factor)

    def extended(self, arrays: Arrays, new: Bank, workers: Workers, places: NDArray[np.int64] | None = None) -> Outcome:
        """Compute h from the old queries' alpha; columns keep their share of mass, so nothing else moves."""
        columns = int(cast("NDArray[np.int64]", arrays["columns"])[0])
        log_alpha = cast("Float64", arrays["log_alpha"])
        return Outcome(self.factor * column_potentials(new.queries, self.tau, log_alpha, columns, workers))

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        """Balance the new queries separately and average h by the number of queries: the old queries are not available.

        This is closer to a refit than iterations in which the old queries keep their alpha. log alpha is then shifted
        so that the h of later items is, on average, at the level of these.
        """
        before, total = np.concatenate([h / self.factor, cast("Float64", arrays["bank_item_h"])]), old + new.weight
        # If items were added or removed since the fit, each column's share of the mass has changed.
        before += self.tau * np.log(len(before) / int(cast("NDArray[np.int64]", arrays["columns"])[0]))
        columns = self.columns(new)
        apart = balance_anywhere(columns, self.schedule, workers, weights=new.weights)
        both = (old * before + new.weight * (apart.h - apart.h.mean() + before.mean())) / total
        held = Held(old, before)
        step = balance_anywhere(columns, Schedule(self.tau, 1), workers, start=both, held=held, weights=new.weights)
        level = float((both - step.h).mean()) / self.tau
        old_alpha = cast("Float64", arrays["log_alpha"]) + np.log(old / total)
        changed: dict[str, NDArray[np.generic]] = {
            "log_alpha": np.concatenate([old_alpha, step.log_alpha]) + level,
            "bank_item_h": both[new.items :].copy(),
            "columns": np.array([len(both)], np.int64),
        }
        return Outcome(self.factor * both[: new.items], changed, apart.kept, apart.iterations, notes=apart.notes)


@dataclass(frozen=True)
class Sinkhorn(Balanced):
    """Bias each item so that bank queries and items balance: h = -tau * log beta after some Sinkhorn iterations."""

    name: ClassVar[str] = "sn"


@dataclass(frozen=True)
class DualBankSinkhorn(Balanced):
    """Sinkhorn over the items and the bank items together; only the items' part of h is used."""

    name: ClassVar[str] = "dbsn"
    joint: ClassVar[bool] = True

    def resolve(self, bank: Bank) -> tuple[Method, tuple[str, ...]]:
        return self, (NO_BANK_ITEMS_NOTE,) if bank.joint is bank.queries else ()

    def columns(self, bank: Bank) -> Similarity:
        return bank.joint


def outcome(solution: Solution, items: int, factor: float) -> Outcome:
    """Return h of the items times a factor, and what later items need, which has no factor: log alpha and so on."""
    arrays: dict[str, NDArray[np.generic]] = {
        "log_alpha": solution.log_alpha,
        "bank_item_h": solution.h[items:].copy(),
        "columns": np.array([len(solution.h)], np.int64),
    }
    return Outcome(
        factor * solution.h[:items],
        arrays,
        solution.kept,
        solution.iterations,
        solution.row_error,
        solution.column_error,
        solution.notes,
    )
