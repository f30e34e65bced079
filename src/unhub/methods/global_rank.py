"""Globally corrected retrieval: rank an item by how many bank queries are closer to it than the query is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from unhub import kernels
from unhub.arrays import Float32, Float64, Kind, Span, spans
from unhub.compute.weights import Weights
from unhub.compute.workers import Workers
from unhub.correction import Rescore, Scores
from unhub.data.bank import Bank
from unhub.data.kept_arrays import ITEMS, Declared, Kept
from unhub.data.similarity import Block, Dense, Dot, Similarity, steady_products
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.methods.method import Arrays, Foreseen, Method, Outcome, bank_side, refused, require_count

BLOCK_ENTRIES = 8 << 20  # scores of a block of items against the whole bank
MOST_BLOCK_ITEMS = 4096  # in a block, so that many queries can be compared with it
BLOCK_PRODUCTS = 1 << 20  # float64 products at a time


@dataclass(frozen=True)
class GloballyCorrected(Method):
    """Score each item by minus the number of bank queries closer to it than the query, ties by similarity.

    A bank query is closer if its score is higher by more than the rounding error of a product (see `product_rounding`),
    so that no query is closer than itself; scores of a given matrix are compared as they are, in float32. By default
    counts are otherwise exact: each call computes the bank's scores again, block by block. With `quantiles`, each item
    keeps that many quantiles of its bank scores and counts are interpolated, with an error below
    bank / (quantiles - 1). Bank queries count by their weights, which must be whole numbers with `quantiles`.
    """

    name: ClassVar[str] = "gc"
    kind: ClassVar[str] = "rescore"
    stays_here: ClassVar[bool] = True
    solves: ClassVar[bool] = True
    quantiles: int | None = None

    def __post_init__(self) -> None:
        require_count(self, "quantiles", optional=True)
        if self.quantiles == 1:
            raise refused(self, "quantiles", "a whole number of at least 2", 1)

    def keeps(self, mergeable: bool, given: bool) -> Declared:
        if self.quantiles is not None:
            return {"tables": Kept("float32", (ITEMS, self.quantiles)), "bank_size": Kept("int64", (1,), least=1)}
        weights = {"bank_weights": Kept("float64", ("bank",), optional=True)}
        if given:
            return {"bank_scores": Kept("float32", ("bank", ITEMS)), **weights}
        return {"bank": Kept("float32", ("bank", "dimensions")), **weights}

    def check(self, arrays: Arrays, sizes: Mapping[str, int]) -> None:
        if self.quantiles is None:
            weights = cast("Float64", arrays.get("bank_weights", np.ones(1)))
            if not (weights > 0).all():
                raise ValueError(f"the array bank_weights holds {weights.min():g}, expected weights above 0")
            return
        size, whole = int(cast("NDArray[np.int64]", arrays["bank_size"])[0]), bank_side(sizes)
        if size != sizes.get(whole, size):
            raise ValueError(f"the array bank_size holds {size}, but the bank has {sizes[whole]} queries")
        tables = cast("Float32", arrays["tables"])
        if (tables[:, 1:] < tables[:, :-1]).any():
            raise ValueError("the array tables holds a row of quantiles that decreases, expected ascending ones")

    def solve(self, bank: Bank, workers: Workers) -> Outcome:
        weights = None if bank.weights is None else np.array(bank.weights, np.float64)
        scores = bank.queries if isinstance(bank.queries, Dense) else _LikeLaterQueries.of(cast("Dot", bank.queries))
        if self.quantiles is not None:
            if weights is not None:
                Weights(weights).check_whole("quantiles", "leave out quantiles")
            tables, size = self._tables(scores, weights, bank.whole_weight, workers), bank.whole_weight
            error = max(0, -(-(size - 1) // (self.quantiles - 1)) - 1)
            kept = f"{self.quantiles} quantiles per item; counts are off by at most {error} of {size}"
            return Outcome(arrays={"tables": tables, "bank_size": np.array([size], np.int64)}, kept=kept)
        weighed: dict[str, NDArray[np.generic]] = {} if weights is None else {"bank_weights": weights}
        if isinstance(scores, Dense):
            scores.check()
            copied = np.array(scores.matrix, np.float32)
            return Outcome(arrays={"bank_scores": copied, **weighed}, kept="a copy of the given matrix, in float32")
        rows = np.empty((bank.size, scores.width), np.float32)
        for span in spans(bank.size, 4096):
            rows[slice(*span)] = scores.queries(span)
        return Outcome(arrays={"bank": rows, **weighed}, kept="the bank; its scores are computed at each call")

    def foresee(self, bank: Bank, memory: int) -> Foreseen:
        if self.quantiles is None:
            return Foreseen(0.0, kept_bytes=4 * bank.size * bank.queries.width)
        return Foreseen(1.0, kept_bytes=4 * bank.items * self.quantiles, trials=((self, 1.0),))

    def _tables(self, similarity: Similarity, weights: Float64 | None, size: int, workers: Workers) -> Float32:
        levels = _levels(size, cast("int", self.quantiles))
        tables = np.empty((similarity.shape[1], len(levels)), np.float32)
        workers.total += similarity.shape[0] * similarity.shape[1]

        def fill(span: Span) -> None:
            if weights is None:
                ordered = sorted_thresholds(similarity, span)
                tables[slice(*span)] = ordered[:, levels]
            else:  # a query of weight 3 has three levels
                ordered, own = weighed_thresholds(similarity, span, weights)
                for row, (values, ends) in enumerate(zip(ordered, np.cumsum(own, axis=1), strict=True)):
                    tables[span[0] + row] = values[np.searchsorted(ends, levels, side="right")]
            workers.tick(ordered.size)

        workers.map(fill, spans(similarity.shape[1], _items_per_block(similarity.shape[0])))
        workers.passes += 1
        return tables

    def rescore(self, scores: Scores, fitted: Rescore) -> Scores:
        """Return -(count - s), where count is the number of bank queries that score strictly higher on the item."""
        closer = self.item_by_item(fitted)
        out = np.empty(scores.shape)
        for start, stop in closer.blocks():
            out[:, start:stop] = scores[:, start:stop] - closer.counter((start, stop))(scores[:, start:stop])
        return out

    def item_by_item(self, fitted: Rescore) -> Counted | Interpolated:
        """Return a counter of the bank queries closer to an item than a query is, for a block of items at a time."""
        if self.quantiles is not None:
            size = int(cast("NDArray[np.int64]", fitted.arrays["bank_size"])[0])
            return Interpolated(cast("Float32", fitted.arrays["tables"]), size)
        return Counted(self._similarity(fitted), cast("Float64 | None", fitted.arrays.get("bank_weights")))

    def _similarity(self, fitted: Rescore) -> Similarity:
        if "bank_scores" in fitted.arrays:
            return Dense(cast("Float32", fitted.arrays["bank_scores"]))
        if fitted.items is None:
            raise ArgumentError(
                "correction",
                "of 'gc' compares the bank with the items at each call and has no items",
                "bind the items to it",
            )
        rows = cast("Float32", fitted.arrays["bank"])
        return _ReadyQueries(Vectors(np.arange(len(rows)), rows), fitted.items, cast("Kind", fitted.source.similarity))


@dataclass(frozen=True, eq=False)
class Counted:
    """Exact counts, from the bank's sorted scores on a block of items, computed once for all queries."""

    similarity: Similarity
    weights: Float64 | None = None

    def blocks(self) -> Iterator[Span]:
        return spans(self.similarity.shape[1], _items_per_block(self.similarity.shape[0]))

    def counter(self, span: Span) -> Callable[[Scores], Float64]:
        if self.weights is not None:
            return self._weighed(span, self.weights)
        thresholds = sorted_thresholds(self.similarity, span)

        def count(scores: Scores) -> Float64:
            counts = np.empty(scores.shape)
            for item, (bank, asked) in enumerate(zip(thresholds, _in_columns(scores), strict=True)):
                counts[:, item] = len(bank) - np.searchsorted(bank, asked, side="right")
            return counts

        return count

    def _weighed(self, span: Span, weights: Float64) -> Callable[[Scores], Float64]:
        thresholds, own = weighed_thresholds(self.similarity, span, weights)
        from_here = np.zeros((len(own), own.shape[1] + 1))  # what the bank queries from each place on weigh together
        np.cumsum(own[:, ::-1], axis=1, out=from_here[:, -2::-1])

        def count(scores: Scores) -> Float64:
            counts = np.empty(scores.shape)
            for item, (bank, left, asked) in enumerate(zip(thresholds, from_here, _in_columns(scores), strict=True)):
                counts[:, item] = left[np.searchsorted(bank, asked, side="right")]
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
        tables, levels = self.tables[slice(*span)], _levels(self.size, self.tables.shape[1])
        # Between two entries at levels a < b, at least a + 1 and at most b thresholds are no higher.
        fewest = np.concatenate([[0], levels + 1])
        gaps = np.diff(tables.astype(np.float64), axis=1)
        slopes = np.zeros((len(tables), len(fewest)))  # zero below the first entry and above the last
        np.divide(np.diff(levels) - 1, gaps, out=slopes[:, 1:-1], where=gaps > 0)

        def count(scores: Scores) -> Float64:
            counts = np.empty(scores.shape)
            for item, (table, slope, asked) in enumerate(zip(tables, slopes, _in_columns(scores), strict=True)):
                place = np.searchsorted(table, asked, side="right")
                # Beyond either end there is nothing to interpolate, also for an infinite score.
                way = np.clip(asked, table[0], table[-1]) - table[np.maximum(place - 1, 0)].astype(np.float64)
                counts[:, item] = self.size - (fewest[place] + way * slope[place])
            return counts

        return count


def _in_columns(scores: Scores) -> Float32:
    """Return the scores with a row per item, in float32 like the bank's, so that equal scores stay equal."""
    return np.ascontiguousarray(scores.T, np.float32)


class _Steady(Dot):
    """Products that do not depend on the size of the block they are computed in."""

    def items_by_queries(self, items: Block, queries: Block, out: Float32) -> None:
        out[...] = steady_products(items, queries, kernels.choose(self.device))


class _LikeLaterQueries(_Steady):
    """A bank scaled exactly as later queries are, to the last bit, even if its rows are nearly of length one."""

    @classmethod
    def of(cls, bank: Dot) -> _LikeLaterQueries:
        return cls(bank.query_vectors.seen(False), bank.item_vectors.seen(False), bank.kind, bank.device)

    def queries(self, span: Span) -> Float32:
        return self.query_vectors.unit_block(*span, self.kind)


class _ReadyQueries(_Steady):
    """A bank that was prepared for multiplying at the fit."""

    def queries(self, span: Span) -> Float32:
        return self.query_vectors.block(*span)


def sorted_thresholds(similarity: Similarity, span: Span) -> Float32:
    """Return the score below which a query is farther than each bank query, (items, bank queries), ascending."""
    thresholds = _thresholds(similarity, span)
    thresholds.sort(axis=1)
    return thresholds


def weighed_thresholds(similarity: Similarity, span: Span, weights: Float64) -> tuple[Float32, Float64]:
    """Return the thresholds of `sorted_thresholds`, and the weight of the bank query of each."""
    thresholds = _thresholds(similarity, span)
    order = np.argsort(thresholds, axis=1)
    return np.take_along_axis(thresholds, order, axis=1), weights[order]


def _thresholds(similarity: Similarity, span: Span) -> Float32:
    items = similarity.items(span)
    thresholds = np.empty((len(items), similarity.shape[0]), np.float32)
    for start, stop in spans(similarity.shape[0], max(256, BLOCK_PRODUCTS // len(items))):
        part, queries = np.empty((len(items), stop - start), np.float32), similarity.queries((start, stop))
        similarity.items_by_queries(items, queries, part)
        np.subtract(part, similarity.rounding(items, queries), out=thresholds[:, start:stop])
    return thresholds


def _levels(bank_size: int, quantiles: int) -> NDArray[np.int64]:
    """Return the positions of the quantiles among the sorted scores, from the first to the last."""
    return np.linspace(0, bank_size - 1, quantiles).round().astype(np.int64)


def _items_per_block(bank_size: int) -> int:
    return max(1, min(MOST_BLOCK_ITEMS, BLOCK_ENTRIES // bank_size))
