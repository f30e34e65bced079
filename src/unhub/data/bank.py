"""Bank: past queries against the items and, in a dual bank, bank items against the items."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float64, Kind
from unhub.data.similarity import Dense, Dot, Run, Similarity
from unhub.data.vectors import Stacked, Vectors
from unhub.errors import ArgumentError

ROUNDING_SHARE = 1e-9  # of a sum of weights, far more than its rounding


@dataclass(frozen=True, eq=False)
class Bank:
    """What a method may use: (bank queries, items) and, for a dual bank, (bank items, items).

    `joint` is (bank queries, items and then bank items), the same as `queries` without bank items. `weights`,
    (bank queries,), say how often each bank query counts; None means once. run: how to apply a function to spans of
    rows, as `mean_scores` takes it.
    """

    queries: Similarity
    targets: Similarity | None
    joint: Similarity
    weights: Float64 | None = None
    run: Run = map

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        if self.weights.shape != (self.size,):
            raise ArgumentError(
                "weights", f"has shape {self.weights.shape}, the bank {self.size} queries", "give one weight per query"
            )
        wrong = np.flatnonzero(~((self.weights > 0) & (self.weights < np.inf)))
        if len(wrong):
            raise ArgumentError(
                "weights",
                f"must be finite and above 0, got {self.weights[wrong[0]]:g} for bank query {wrong[0]}",
                "leave out queries that do not count",
            )

    @property
    def size(self) -> int:
        """How many bank queries there are."""
        return self.queries.shape[0]

    @property
    def weight(self) -> float:
        """The sum of the weights of the bank queries."""
        return self.size if self.weights is None else float(self.weights.sum())

    @property
    def whole_weight(self) -> int:
        """The sum of the weights, rounded down to a whole number but for rounding: ten times 0.1 is 1."""
        return math.floor(self.weight * (1 + ROUNDING_SHARE))

    def mean_scores(self) -> Float64:
        """Return each item's mean score over the bank queries, (items,)."""
        return self.queries.mean_scores(self.weights, self.run)

    @property
    def items(self) -> int:
        """How many items there are."""
        return self.queries.shape[1]


def vector_bank(items: Vectors, bank: Vectors, bank_items: Vectors | None, kind: Kind, run: Run = map) -> Bank:
    """Return the bank of these vectors, without multiplying anything yet."""
    queries = Dot(bank, items, kind)
    if bank_items is None:
        return Bank(queries, None, queries, run=run)
    joint = Vectors(np.arange(len(items) + len(bank_items)), Stacked([items.rows, bank_items.rows]))
    return Bank(queries, Dot(bank_items, items, kind), Dot(bank, joint, kind), run=run)


def matrix_bank(scores: Dense, bank_items: Dense | None, method: str, joint: bool) -> Bank:
    """Return the bank of given matrices, with bank_items in the form that this method takes.

    The joint form (dbsn) is (bank queries, bank items); the other is (bank items, items).
    """
    if bank_items is None:
        return Bank(scores, None, scores)
    if bank_items.shape[0 if joint else 1] != scores.shape[0 if joint else 1]:
        wanted = f"({scores.shape[0]} bank queries, bank items)" if joint else f"(bank items, {scores.shape[1]} items)"
        raise ArgumentError("bank_items", f"must be {wanted} for {method!r}, got {bank_items.shape}")
    if joint:
        return Bank(scores, None, Dense(np.concatenate([scores.matrix, bank_items.matrix], axis=1)))
    return Bank(scores, bank_items, scores)
