"""Matched sets: vectors that are to be compared with each other, checked at the door and hashed row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unhub.effort import Effort
from unhub.fingerprint import Hashes, inspect
from unhub.fitting import check_similarity
from unhub.vectors import Kind, Vectors, VectorsLike, as_vectors


@dataclass(frozen=True, eq=False)
class Matched:
    """A bank, and items and queries where they are given: all of one width, with a hash of each row."""

    bank: Vectors
    items: Vectors | None
    queries: Vectors | None
    hashes: dict[str, Hashes]
    kind: Kind

    @staticmethod
    def of(
        bank: VectorsLike,
        items: VectorsLike | None,
        queries: VectorsLike | None,
        similarity: Kind,
        threads: int | None,
    ) -> Matched:
        """Check what a user gives."""
        check_similarity(similarity)
        given = {"bank": bank, "items": items, "queries": queries}
        sets = {name: as_vectors(value, name) for name, value in given.items() if value is not None}
        for name, vectors in sets.items():
            if vectors.dimensions != sets["bank"].dimensions:
                raise ValueError(
                    f"the bank has {sets['bank'].dimensions} dimensions, {name} have {vectors.dimensions}; "
                    "embed both with one model"
                )
        effort = Effort(threads)
        hashes = {name: inspect(vectors, name, similarity, effort.map).hashes for name, vectors in sets.items()}
        return Matched(sets["bank"], sets.get("items"), sets.get("queries"), hashes, similarity)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say where most bank queries are items, by mistake or for want of queries."""
        found = int(np.isin(self.hashes["bank"], self.hashes["items"]).sum()) if self.items is not None else 0
        if 2 * found < len(self.bank):
            return ()
        return (f"{found:,} of {len(self.bank):,} bank queries are items: a bank is past queries, so give those.",)
