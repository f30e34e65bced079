"""Bank: past queries against the items, and beside them, for a dual bank, bank items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unhub.arrays import Kind
from unhub.data.similarity import Dense, Dot, Similarity
from unhub.data.vectors import Stacked, Vectors


@dataclass(frozen=True, eq=False)
class Bank:
    """What a method may look at: (bank queries, items), and for a dual bank (bank items, items).

    `joint` is (bank queries, items and then bank items), which is `queries` where there are no bank items.
    """

    queries: Similarity
    targets: Similarity | None
    joint: Similarity

    @property
    def size(self) -> int:
        """How many bank queries there are."""
        return self.queries.shape[0]

    @property
    def items(self) -> int:
        """How many items there are."""
        return self.queries.shape[1]


def vector_bank(items: Vectors, bank: Vectors, bank_items: Vectors | None, kind: Kind) -> Bank:
    """Return the bank of these vectors; nothing is multiplied yet."""
    queries = Dot(bank, items, kind)
    if bank_items is None:
        return Bank(queries, None, queries)
    joint = Vectors(np.arange(len(items) + len(bank_items)), Stacked([items.rows, bank_items.rows]))
    return Bank(queries, Dot(bank_items, items, kind), Dot(bank, joint, kind))


def matrix_bank(scores: Dense, bank_items: Dense | None, method: str, joint: bool) -> Bank:
    """Return the bank of given matrices, with bank_items as this method has them.

    The joint form (dbsn) is of (bank queries, bank items), the others are of (bank items, items).
    """
    if bank_items is None:
        return Bank(scores, None, scores)
    if bank_items.shape[0 if joint else 1] != scores.shape[0 if joint else 1]:
        wanted = f"({scores.shape[0]} bank queries, bank items)" if joint else f"(bank items, {scores.shape[1]} items)"
        raise ValueError(f"{method} wants bank_items as {wanted}, got {bank_items.shape}")
    if joint:
        return Bank(scores, None, Dense(np.concatenate([scores.matrix, bank_items.matrix], axis=1)))
    return Bank(scores, bank_items, scores)
