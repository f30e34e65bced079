"""A random part of the bank: each of its queries stands for several."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.compute.passes import Found, Want, no_best_items, reduce
from unhub.compute.workers import Workers
from unhub.data.bank import Bank
from unhub.data.similarity import Dot
from unhub.estimating.checking import LEAST_CARRIERS, Checking, Estimate, carriers, spread_of
from unhub.methods import Method
from unhub.methods.method import NOTHING_FOUND, Streamed

# Items that are checked for a first idea, and before a part is used; and at most, of the items.
FIRST_CHECKED, LAST_CHECKED, MOST_CHECKED_SHARE = 128, 512, 0.2
FIRST_SHARE, FEWEST_ROWS = 1 / 64, 256  # of the bank, to begin with
MARGIN, LEAST_GROWTH = 1.1, 1.2  # of a predicted share, and of a share that did not do
SHARE_DIGITS = 3  # of a share: it follows from errors, which threads and machines round in their own ways


class RandomPart:
    """A bank in random order, whose first part is tried on the checked items."""

    def __init__(self, checking: Checking, wants: tuple[Want, Want]) -> None:
        self.checking, self.wants = checking, wants
        bank = checking.bank
        self.orders = (
            checking.generator.permutation(bank.size),
            checking.generator.permutation(0 if bank.targets is None else bank.targets.shape[0]),
        )
        self.checked = 0
        self.true: dict[Method, Float64] = {one: np.empty(0) for one in checking.methods}
        self._check(FIRST_CHECKED)

    def _check(self, count: int) -> None:
        """Compute the true h of more items, up to so many."""
        new = self.checking.some(self.checked, count)
        more = self.checking.h(new, self._stream(new, 1.0, gate=False))
        self.true = {one: np.concatenate([h, more[one]]) for one, h in self.true.items()}
        self.checked = count
        self.some = self.checking.some(0, count)

    def with_copies(self, found: Estimate) -> Estimate:
        """Add the true h of the items that are also bank queries."""
        copies = self.checking.copies
        if len(copies) == 0:
            return found
        some = self.checking.against(copies)
        true = self.checking.h(some, self._stream(some, 1.0, gate=False))
        return dataclasses.replace(found, copies=copies, true_of_copies=true)

    def confirmed(self, error: float, share: float, most: float) -> float:
        """Return at least this share, seen on more checked items."""
        count = min(LAST_CHECKED, int(MOST_CHECKED_SHARE * self.checking.bank.items))
        if share < most and count > self.checked:
            self._check(count)
        return self.share(error, most, share)

    def share(self, error: float, most: float, start: float = FIRST_SHARE) -> float:
        """Return a share of the bank with which no h is off by more; 1 if that is more than `most`.

        The square of the error falls as 1 / share - 1, the variance of a mean of a part of a finite set.
        """
        share = max(start, FEWEST_ROWS / self.checking.bank.size)
        while share < most:
            estimated = self.checking.h(self.some, self._stream(self.some, share, gate=False))
            errors = [estimated[one] - self.true[one] for one in self.checking.methods]
            found = max(map(spread_of, errors))
            if found <= error:
                if min(map(carriers, errors)) >= LEAST_CARRIERS:
                    return share
                if 2 * self.checked > MOST_CHECKED_SHARE * self.checking.bank.items:
                    return 1.0
                self._check(2 * self.checked)
                continue
            wanted = 1 / (1 + (error / found) ** 2 * (1 / share - 1))
            share = max(LEAST_GROWTH * share, min(MARGIN * wanted, (1 + wanted) / 2))
            share = float(f"{share:.{SHARE_DIGITS}g}")
        return 1.0

    def estimate(self, share: float) -> Estimate:
        """Stream this share of the bank over all items."""
        bank = self.checking.bank
        streamed = self._stream(bank, share, gate=True)
        rows = rows_of(share, bank.size)
        how = f"a random {rows / bank.size:.2%} of the bank; error measured on {self.checked} items"
        notes = (f"the gate is made from {rows} of {bank.size} bank queries",) if self.wants[0].best_items else ()
        return Estimate(streamed, self.checking.order[: self.checked], self.true, how, notes)

    def _stream(self, bank: Bank, share: float, *, gate: bool) -> Streamed:
        """Stream a share of the bank over some or all items; with `gate`, find each query's best items too."""
        found = [
            _found(
                cast("Dot", pairs),
                want if gate else dataclasses.replace(want, best_items=0),
                order if share >= 1 else np.sort(order[: rows_of(share, len(order))]),
                weights,
                self.checking.workers,
            )
            for pairs, want, order, weights in zip(
                (bank.queries, bank.targets), self.wants, self.orders, (bank.weights, None), strict=True
            )
        ]
        return Streamed(*found)


def rows_of(share: float, count: int) -> int:
    """Return how many rows a share of a set is."""
    return min(count, max(1, round(share * count)))


def _found(pairs: Dot, want: Want, rows: NDArray[np.int64], weights: Float64 | None, workers: Workers) -> Found:
    """Return what some or all bank queries find, each for several; the best items of all others are unknown."""
    if want.empty:
        return NOTHING_FOUND
    count = pairs.shape[0]
    if len(rows) == count:
        return reduce(pairs, want, workers, weights=weights)
    some = dataclasses.replace(pairs, query_vectors=pairs.query_vectors.gather(rows))
    own = np.ones(len(rows)) if weights is None else weights[rows]
    whole = count if weights is None else float(weights.sum())
    found = reduce(some, want, workers, weights=own * (whole / float(own.sum())))
    items, scores = no_best_items(count, want.best_items)
    if want.best_items:
        items[rows], scores[rows] = found.best_items, found.best_scores
    return dataclasses.replace(found, best_items=items, best_scores=scores)
