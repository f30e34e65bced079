"""Globally corrected retrieval: rank an item by how many bank queries are closer to it than the query is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from unhub.bank import Bank
from unhub.correction import Origin, Rescore, Scores
from unhub.effort import Effort
from unhub.methods.method import Method, Outcome, require_count
from unhub.similarity import Dense, Dot, Similarity, Span
from unhub.vectors import Float32, Float64, Kind, Vectors, spans

ROUNDING = 2e-7  # of a float32 product of two vectors, as a share of their lengths
BLOCK_ENTRIES = 8 << 20  # scores of a block of items against the whole bank that are held at a time
MOST_ITEMS = 4096  # in a block, so that many queries can be held against it


@dataclass(frozen=True)
class GloballyCorrected(Method):
    """Score each item by minus the number of bank queries closer to it than the query, ties by similarity.

    Exact by default: the bank's scores are computed again, block by block, at each call. With `quantiles`, each item
    keeps that many quantiles of its bank scores and the count is interpolated: off by at most bank / (quantiles - 1).
    """

    name: ClassVar[str] = "gc"
    kind: ClassVar[str] = "rescore"
    solves: ClassVar[bool] = True
    quantiles: int | None = None

    def __post_init__(self) -> None:
        require_count(self, "quantiles", optional=True)
        if self.quantiles == 1:
            raise ValueError("gc: quantiles must be at least 2, got 1")

    def solve(self, bank: Bank, effort: Effort) -> Outcome:
        if self.quantiles is not None:
            tables = self._tables(bank.queries, effort)
            error = -(-bank.size // (self.quantiles - 1))
            kept = f"{self.quantiles} quantiles per item; counts are off by at most {error} of {bank.size}"
            return Outcome(arrays={"tables": tables, "bank_size": np.array([bank.size])}, kept=kept)
        if isinstance(bank.queries, Dense):
            return Outcome(arrays={"bank_scores": np.array(bank.queries.matrix, np.float32)}, kept="the given matrix")
        queries = cast("Dot", bank.queries)
        asked = queries.query_vectors.seen(unit_length=False)  # scaled as later queries are: equal ones score alike
        rows = np.empty((bank.size, queries.width), np.float32)
        for span in spans(bank.size, 4096):
            rows[slice(*span)] = asked.unit_block(*span, queries.kind)
        return Outcome(arrays={"bank": rows}, kept="the bank; its scores are computed at each call")

    def _tables(self, similarity: Similarity, effort: Effort) -> Float32:
        levels = np.linspace(0, similarity.shape[0] - 1, cast("int", self.quantiles)).round().astype(np.int64)
        tables = np.empty((similarity.shape[1], len(levels)), np.float32)
        effort.total += similarity.shape[0] * similarity.shape[1]

        def fill(span: Span) -> None:
            ordered = sorted_bank_scores(similarity, span)
            tables[slice(*span)] = ordered[:, levels]
            effort.tick(ordered.size)

        effort.map(fill, spans(similarity.shape[1], _items_per_block(similarity.shape[0])))
        effort.passes += 1
        return tables

    def rescore(self, scores: Scores, fitted: Rescore) -> Scores:
        """Return -(count - s), with count the number of bank queries that score strictly higher on the item."""
        closer = self.closer(fitted)
        out = np.empty(scores.shape)
        for start, stop in closer.blocks():
            out[:, start:stop] = scores[:, start:stop] - closer.counter((start, stop))(scores[:, start:stop])
        return out

    def closer(self, fitted: Rescore) -> Closer:
        """Return what counts the bank queries that are closer to an item than a query is, some items at a time."""
        if self.quantiles is not None:
            size = int(cast("NDArray[np.int64]", fitted.arrays["bank_size"])[0])
            return Interpolated(cast("Float32", fitted.arrays["tables"]), size)
        return Counted(self._similarity(fitted), fitted.source.similarity)

    def _similarity(self, fitted: Rescore) -> Similarity:
        if "bank_scores" in fitted.arrays:
            return Dense(cast("Float32", fitted.arrays["bank_scores"]))
        if fitted.items is None:
            raise ValueError("gc counts over the bank anew at each call and needs the items: correction.bind(items)")
        rows = cast("Float32", fitted.arrays["bank"])
        return _ReadyQueries(Vectors(np.arange(len(rows)), rows), fitted.items, cast("Kind", fitted.source.similarity))


class Closer(Protocol):
    """Counts of the bank queries that score higher on an item, which look at that item alone."""

    def blocks(self) -> Iterator[Span]:
        """Yield spans of items to be worked on at a time."""

    def counter(self, span: Span) -> Callable[[Scores], Float64]:
        """Return the function from scores on these items, (queries, items), to counts; the bank is looked at here."""


@dataclass(frozen=True, eq=False)
class Counted:
    """Exact counts: the bank's scores on a block of items are computed and sorted, for any number of queries."""

    similarity: Similarity
    origin: Origin

    def blocks(self) -> Iterator[Span]:
        return spans(self.similarity.shape[1], _items_per_block(self.similarity.shape[0]))

    def counter(self, span: Span) -> Callable[[Scores], Float64]:
        ordered = sorted_bank_scores(self.similarity, span)
        # How far a product may be off, so that a query which is in the bank is not closer than itself.
        longest = np.maximum(-ordered[:, 0], ordered[:, -1])
        lengths = {"cosine": np.ones_like(longest), "dot": longest, "given": np.zeros_like(longest)}
        off = np.float32(ROUNDING) * lengths[self.origin]

        def count(scores: Scores) -> Float64:
            counts = np.empty(scores.shape)
            for item, bank in enumerate(ordered):
                counts[:, item] = len(bank) - np.searchsorted(bank, scores[:, item] + off[item], side="right")
            return counts

        return count


@dataclass(frozen=True, eq=False)
class Interpolated:
    """Counts read off each item's table of quantiles."""

    tables: Float32
    size: int

    def blocks(self) -> Iterator[Span]:
        return spans(len(self.tables), _items_per_block(self.tables.shape[1]))

    def counter(self, span: Span) -> Callable[[Scores], Float64]:
        levels = np.linspace(0, self.size - 1, self.tables.shape[1]).round() + 1

        def count(scores: Scores) -> Float64:
            counts = np.empty(scores.shape)
            for item, table in enumerate(self.tables[slice(*span)]):
                counts[:, item] = self.size - np.interp(scores[:, item], table, levels, left=0, right=self.size)
            return counts

        return count


class _ReadyQueries(Dot):
    """A bank that was made ready to multiply when it was fitted."""

    def queries(self, span: Span) -> Float32:
        return self.query_vectors.block(*span)


def sorted_bank_scores(similarity: Similarity, span: Span) -> Float32:
    """Return the bank's scores on these items, (items, bank queries), rising."""
    items = similarity.items(span)
    scores = np.empty((len(items), similarity.shape[0]), np.float32)
    for start, stop in spans(similarity.shape[0], 8192):
        part = np.empty((len(items), stop - start), np.float32)
        similarity.items_by_queries(items, similarity.queries((start, stop)), part)
        scores[:, start:stop] = part
    scores.sort(axis=1)
    return scores


def _items_per_block(bank_size: int) -> int:
    return max(1, min(MOST_ITEMS, BLOCK_ENTRIES // bank_size))
