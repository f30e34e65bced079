"""Checked items: some items whose true h is known, so that the error of an estimate is known on them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, are_among
from unhub.compute.workers import Workers
from unhub.data.bank import Bank
from unhub.data.similarity import Dot
from unhub.methods import Method
from unhub.methods.method import Outcome, Streamed

# Measured on 3,000 draws of checked items, from five sets at three temperatures: with 16 carriers or more, the error of
# the others was within a factor of 1.5 in 98 of 100 draws, and never 1.8 times as large; with 8 to 12, in 85 of 100.
LEAST_CARRIERS = 16.0


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the pass found, estimated; the true h of the checked items, by method; and how it was done.

    copies: items that are also bank queries, a few, whose true h is known too. residual: the standard error of the
    "true" h, by method, where most of the checked items did not meet the whole bank.
    """

    streamed: Streamed
    checked: NDArray[np.int64]
    true: dict[Method, Float64]
    how: str
    notes: tuple[str, ...]
    copies: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    true_of_copies: dict[Method, Float64] = field(default_factory=dict)
    residual: dict[Method, float] = field(default_factory=dict)

    def finish(self, method: Method, bank: Bank) -> tuple[Outcome, float]:
        """Return the outcome of a method and the standard error of its h, over all items.

        h gets the level of the checked items, so that it fits items that are added later, and their true values.
        """
        outcome = method.finish(bank, self.streamed, False)
        if method not in self.true:
            return outcome, 0.0
        h = cast("Float64", outcome.h).copy()
        off = h[self.checked] - self.true[method]
        h -= off.mean()
        h[self.checked] = self.true[method]
        if len(self.copies):
            h[self.copies] = self.true_of_copies[method]
        unknown = 1 - (len(off) + len(self.copies)) / len(h)
        error = math.hypot(spread_of(off) * math.sqrt(unknown), self.residual.get(method, 0.0))
        return dataclasses.replace(outcome, h=h), error


class Checking:
    """The methods that need pairs, and items in random order, of which the first ones are checked.

    copies: items that are also bank queries; they are not in the order.
    """

    def __init__(
        self, methods: Sequence[Method], bank: Bank, seed: int, workers: Workers, copies: NDArray[np.int64]
    ) -> None:
        self.generator = np.random.default_rng(seed)
        self.bank, self.workers = bank, workers
        self.pairs = cast("Dot", bank.queries)
        self.methods = [one for one in methods if any(not want.empty for want in one.wants(False))]
        order = self.generator.permutation(bank.items)
        self.order, self.copies = order[~are_among(order, copies)], copies

    def some(self, first: int, end: int) -> Bank:
        """Return the bank against some of the items, by their places in the random order."""
        return self.against(self.order[first:end])

    def against(self, positions: NDArray[np.int64]) -> Bank:
        """Return the bank against the items at these positions."""
        targets = None if self.bank.targets is None else self.bank.targets.some_items(positions)
        queries = self.pairs.some_items(positions)
        return Bank(queries, targets, queries, self.bank.weights)

    def h(self, some: Bank, streamed: Streamed) -> dict[Method, Float64]:
        """Return the h of each method on some of the items."""
        return {one: cast("Float64", one.finish(some, streamed, False).h) for one in self.methods}


def spread_of(errors: Float64) -> float:
    """Return the standard error of centred values, from the errors of some of them."""
    return float(errors.std(ddof=1))


def carriers(errors: Float64) -> float:
    """Return how many of the errors make up their mean square: all if they are equal, one if one is far off."""
    squares = (errors - errors.mean()) ** 2
    return float(squares.sum() ** 2 / (squares**2).sum()) if squares.any() else float(len(errors))
