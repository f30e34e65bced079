"""Bank: past queries against the items and, in a dual bank, bank items against the items."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Kind
from unhub.data.fingerprint import Fingerprint, Hashes
from unhub.data.similarity import Dense, Dot, Run, Similarity
from unhub.data.vectors import Stacked, Vectors, as_weights
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
        if self.weights is not None:
            as_weights(self.weights, self.size)

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
        """The sum of the weights, rounded down to a whole number; see `whole`."""
        return whole(self.weight)

    def mean_scores(self) -> Float64:
        """Return each item's mean score over the bank queries, (items,)."""
        return self.queries.mean_scores(self.weights, self.run)

    @property
    def items(self) -> int:
        """How many items there are."""
        return self.queries.shape[1]


@dataclass(frozen=True, eq=False)
class BankRows:
    """The bank queries of a fit, in its order: the hash of each one's contents, and the weights if there are any."""

    hashes: Hashes
    weights: Float64 | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the bank."""
        return Fingerprint.of(self.hashes, self.weights)

    def followed_by(self, hashes: Hashes, weights: Float64 | None) -> BankRows:
        """Return the rows of this bank with more queries after it."""
        both = None
        if self.weights is not None or weights is not None:
            parts = (self.hashes, self.weights), (hashes, weights)
            both = np.concatenate([np.ones(len(rows)) if known is None else known for rows, known in parts])
        return BankRows(np.concatenate([self.hashes, hashes]), both)

    def places_in(self, hashes: Hashes) -> NDArray[np.int64]:
        """Return where each query is among rows with these hashes, (queries,); -1 where it is missing."""
        order = np.argsort(hashes, kind="stable")
        places = order[np.minimum(np.searchsorted(hashes, self.hashes, sorter=order), len(hashes) - 1)]
        return np.where(hashes[places] == self.hashes, places, -1)


def whole(weight: float) -> int:
    """Return a sum of weights, rounded down to a whole number but for rounding: ten times 0.1 is 1."""
    return math.floor(weight * (1 + ROUNDING_SHARE))


def vector_bank(items: Vectors, bank: Vectors, bank_items: Vectors | None, kind: Kind, run: Run = map) -> Bank:
    """Return the bank of these vectors, with the weights of the bank, without multiplying anything yet."""
    queries = Dot(bank, items, kind)
    if bank_items is None:
        return Bank(queries, None, queries, bank.weights, run)
    joint = Vectors(np.arange(len(items) + len(bank_items)), Stacked([items.rows, bank_items.rows]))
    return Bank(queries, Dot(bank_items, items, kind), Dot(bank, joint, kind), bank.weights, run)


def matrix_bank(
    scores: Dense, bank_items: Dense | None, method: str, joint: bool, weights: Float64 | None = None
) -> Bank:
    """Return the bank of given matrices, with bank_items in the form that this method takes.

    The joint form (dbsn) is (bank queries, bank items); the other is (bank items, items). weights: of the bank queries.
    """
    if bank_items is None:
        return Bank(scores, None, scores, weights)
    if bank_items.shape[0 if joint else 1] != scores.shape[0 if joint else 1]:
        wanted = f"({scores.shape[0]} bank queries, bank items)" if joint else f"(bank items, {scores.shape[1]} items)"
        raise ArgumentError("bank_items", f"must be {wanted} for {method!r}, got {bank_items.shape}")
    if joint:
        return Bank(scores, None, Dense(np.concatenate([scores.matrix, bank_items.matrix], axis=1)), weights)
    return Bank(scores, bank_items, scores, weights)
