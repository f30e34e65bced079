"""Similarity: a (queries, items) matrix that need not exist. Dot multiplies vectors, Dense holds a matrix."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub import kernels
from unhub.arrays import Float32, Float64, Ids, Kind, Span, spans
from unhub.data.ids import as_ids
from unhub.data.vectors import Vectors, as_vectors, not_finite
from unhub.errors import ArgumentError
from unhub.kernels import Kernel

BLOCK_ROWS = 4096  # vectors prepared at a time for a mean
READ_BYTES = 4 << 20  # of a given matrix: still in cache when read again
Run: TypeAlias = Callable[[Callable[[Span], Float64], Iterable[Span]], Iterable[Float64]]
Block: TypeAlias = NDArray[np.generic]  # rows prepared for multiplying; a slice of a block is a block


class Similarity(Protocol):
    """A matrix that yields blocks: rows are queries, columns are items, higher is better."""

    @property
    def shape(self) -> Span: ...
    @property
    def width(self) -> int:
        """How many float32 numbers a row of a prepared block takes."""

    @property
    def bound(self) -> float:
        """The largest absolute score that is possible, up to rounding; infinite if unknown."""

    def reach(self) -> float:
        """Return `bound`, or if that is infinite, compute it from all vectors or scores."""

    def queries(self, span: Span) -> Block:
        """Prepare these queries for `items_by_queries` and `queries_by_items`."""

    def items(self, span: Span) -> Block:
        """Prepare these items in the same way."""

    def items_by_queries(self, items: Block, queries: Block, out: Float32) -> None:
        """Write the scores with a row per item, so that one item's scores are contiguous."""

    def queries_by_items(self, queries: Block, items: Block, out: Float32) -> None:
        """Write the scores with a row per query."""

    @property
    def rows_at_once(self) -> int:
        """The best number of rows, at most, to request from `ready_rows` at a time."""

    def ready_rows(self, queries: Block, items: Block, out: Float32) -> Float32:
        """Return the scores with a row per query, C order: `out`, or a view of existing scores. Do not write to it."""

    def rounding(self, items: Block, queries: Block) -> Float32:
        """Return how far a score may be from its steady product, (items, queries), or (1, 1) if that is one number."""

    def mean_scores(self, weights: Float64 | None = None, run: Run = map) -> Float64:
        """Return each item's mean score over the queries, (items,), weighted if weights are given.

        run: applies a function that can be pickled to spans of rows, perhaps on other machines.
        """

    def some_items(self, positions: NDArray[np.int64]) -> Similarity:
        """Return the same queries against some of the items."""

    def some_queries(self, positions: NDArray[np.int64]) -> Similarity:
        """Return some of the queries against the same items."""

    def turned(self) -> Similarity:
        """Return the same scores with queries and items exchanged."""

    def on(self, device: str | None) -> Similarity:
        """Return the same matrix, multiplied by the kernel of this name; None is the default kernel of each call."""


@dataclass(frozen=True, eq=False)
class Dot:
    """Inner products of two sets of vectors, of unit length under cosine; computed tile by tile, never kept."""

    query_vectors: Vectors
    item_vectors: Vectors
    kind: Kind = "cosine"
    device: str | None = None

    @property
    def shape(self) -> Span:
        return len(self.query_vectors), len(self.item_vectors)

    @property
    def width(self) -> int:
        return self.item_vectors.dimensions

    @property
    def bound(self) -> float:
        return 1.0 if self.kind == "cosine" else np.inf

    def reach(self) -> float:
        return self.bound if self.kind == "cosine" else _longest(self.query_vectors) * _longest(self.item_vectors)

    def queries(self, span: Span) -> Block:
        return self._ready(self.query_vectors, span)

    def items(self, span: Span) -> Block:
        return self._ready(self.item_vectors, span)

    def _ready(self, vectors: Vectors, span: Span) -> Float32:
        return cast("Float32", vectors.ready_block(*span, self.kind, kernels.choose(self.device)))

    def items_by_queries(self, items: Block, queries: Block, out: Float32) -> None:
        kernels.choose(self.device).multiply(cast("Float32", items), cast("Float32", queries), out)

    def queries_by_items(self, queries: Block, items: Block, out: Float32) -> None:
        kernels.choose(self.device).multiply(cast("Float32", queries), cast("Float32", items), out)

    @property
    def rows_at_once(self) -> int:
        return len(self.query_vectors)

    def ready_rows(self, queries: Block, items: Block, out: Float32) -> Float32:
        self.queries_by_items(queries, items, out)
        return out

    def rounding(self, items: Block, queries: Block) -> Float32:
        share = np.float32(product_rounding(self.width))
        if self.kind == "cosine":
            return np.full((1, 1), share)
        return share * _lengths(items)[:, None] * _lengths(queries)

    def mean_scores(self, weights: Float64 | None = None, run: Run = map) -> Float64:
        m, n = self.shape
        total = functools.reduce(np.add, run(functools.partial(_total, self, weights), spans(m, BLOCK_ROWS)))
        mean = total / (m if weights is None else weights.sum())
        return np.concatenate(list(run(functools.partial(_scores_of_one, self, mean), spans(n, BLOCK_ROWS))))

    def some_items(self, positions: NDArray[np.int64]) -> Dot:
        return Dot(self.query_vectors, self.item_vectors.gather(positions), self.kind, self.device)

    def some_queries(self, positions: NDArray[np.int64]) -> Dot:
        return Dot(self.query_vectors.gather(positions), self.item_vectors, self.kind, self.device)

    def turned(self) -> Self:
        return dataclasses.replace(self, query_vectors=self.item_vectors, item_vectors=self.query_vectors)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.query_vectors.bare(), self.item_vectors.bare(), self.kind, self.device)

    def on(self, device: str | None) -> Self:
        return dataclasses.replace(self, device=device)


@dataclass(frozen=True, eq=False, repr=False)
class Dense:
    """A given (queries, items) matrix of similarities, for example one released with a paper.

    In a fit, its rows are the bank queries. Rows are checked when they are first read, which saves a separate pass.
    """

    matrix: NDArray[np.floating]
    item_ids: Ids
    _device: str | None
    _finite: NDArray[np.bool_]  # which rows were read, by any thread

    def __init__(self, matrix: ArrayLike, item_ids: ArrayLike | None = None) -> None:
        rows = as_vectors(matrix, "the similarity matrix", "(queries, items)").rows
        ids = np.arange(rows.shape[1]) if item_ids is None else item_ids
        object.__setattr__(self, "matrix", rows)
        object.__setattr__(self, "item_ids", as_ids(ids, rows.shape[1], "item_ids"))
        object.__setattr__(self, "_device", None)
        object.__setattr__(self, "_finite", np.zeros(rows.shape[0], np.bool_))

    def __repr__(self) -> str:
        return f"<Dense: {self.shape[0]} queries, {self.shape[1]} items>"

    @property
    def shape(self) -> Span:
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def width(self) -> int:
        return 2

    @property
    def bound(self) -> float:
        return np.inf

    def reach(self) -> float:
        blocks = (self.matrix[start:stop] for start, stop in spans(self.shape[0], self.rows_at_once))
        return max(float(np.abs(block).max()) for block in blocks)

    def queries(self, span: Span) -> Block:
        return np.arange(*span)  # a prepared block of a given matrix is just its positions

    def items(self, span: Span) -> Block:
        return np.arange(*span)

    def items_by_queries(self, items: Block, queries: Block, out: Float32) -> None:
        kernels.choose(self._device).write(self._part(queries, items).T, out)

    def queries_by_items(self, queries: Block, items: Block, out: Float32) -> None:
        kernels.choose(self._device).write(self._part(queries, items), out)

    @property
    def rows_at_once(self) -> int:
        return max(1, READ_BYTES // (4 * self.shape[1]))

    def ready_rows(self, queries: Block, items: Block, out: Float32) -> Float32:
        part, kernel = np.asarray(self._part(queries, items)), kernels.choose(self._device)
        if not kernel.ON_DEVICE and part.dtype == np.float32 and part.flags.carray:
            return part  # a read-only array is copied: numba would compile again for it
        kernel.write(part, out)
        return out

    def _part(self, queries: Block, items: Block) -> NDArray[np.floating]:
        start, stop = int(queries[0]), int(queries[-1]) + 1
        self.check((start, stop))
        return self.matrix[start:stop][:, int(items[0]) : int(items[-1]) + 1]

    def check(self, span: Span | None = None) -> None:
        """Raise an ArgumentError if a number in these rows (by default, in any row) is not finite."""
        first, end = span or (0, self.shape[0])
        if self._finite[first:end].all():
            return
        for start, stop in spans(end, self.rows_at_once, start=first):
            finite = np.empty(stop - start, np.bool_)
            with np.errstate(over="ignore"):  # a float64 that float32 cannot hold becomes infinite
                block = np.ascontiguousarray(self.matrix[start:stop], np.float32)
            kernels.choose_here(self._device).are_finite(block, finite)
            if not finite.all():
                row = start + int(finite.argmin())
                raise not_finite("the similarity matrix", row, self.matrix[row : row + 1][0])
            self._finite[start:stop] = True

    def rounding(self, items: Block, queries: Block) -> Float32:
        return np.zeros((1, 1), np.float32)

    def mean_scores(self, weights: Float64 | None = None, run: Run = map) -> Float64:
        self.check()
        total, kernel = np.zeros(self.shape[1]), kernels.choose_here(self._device)
        for start, stop in spans(self.shape[0], self.rows_at_once):
            block = self.matrix[start:stop]
            if weights is None:
                total += block.sum(axis=0, dtype=np.float64)
            else:
                total += _products(weights[None, start:stop], block.T, kernel)[0]
        return total / (self.shape[0] if weights is None else float(weights.sum()))

    def some_items(self, positions: NDArray[np.int64]) -> Dense:
        return Dense(self.matrix[:, positions]).on(self._device)

    def some_queries(self, positions: NDArray[np.int64]) -> Dense:
        spans_of_one = [(place, place + 1) for place in positions.tolist()]
        for span in spans_of_one:
            self.check(span)  # while rows have the numbers that the user knows
        return Dense(np.concatenate([self.matrix[start:stop] for start, stop in spans_of_one])).on(self._device)

    def turned(self) -> Dense:
        if not hasattr(self.matrix, "T"):
            problem = "is read row by row, but is needed by columns too"
            raise ArgumentError("the similarity matrix", problem, "give an array or a mapped .npy file")
        self.check()  # before it is turned, when rows have the numbers that the user knows
        return Dense(self.matrix.T).on(self._device)

    def on(self, device: str | None) -> Dense:
        same = copy.copy(self)  # shares the record of which rows were read
        object.__setattr__(same, "_device", device)
        return same


def _total(similarity: Dot, weights: Float64 | None, span: Span) -> Float64:
    """Return the sum of some of the queries, (dimensions,), weighted if weights are given."""
    queries = cast("Float32", similarity.queries(span))
    if weights is None:
        return np.asarray(queries.sum(axis=0, dtype=np.float64))
    return np.asarray(_products(weights[None, slice(*span)], queries.T, kernels.choose(similarity.device))[0])


def _scores_of_one(similarity: Dot, query: Float64, span: Span) -> Float64:
    """Return the scores of one query with some of the items, (items,)."""
    return np.asarray(_products(similarity.items(span), query[None], kernels.choose(similarity.device))[:, 0])


def steady_products(left: Block, right: Block, kernel: Kernel) -> Float32:
    """Return the products of two sets of rows, with values that do not depend on the block they are computed in.

    How float32 sums round depends on the size of the block. So do float64 sums, but rounding them to float32 at the end
    hides that in all but one of many millions.
    """
    return np.asarray(_products(left, right, kernel), np.float32)


def _products(left: Block, right: Block, kernel: Kernel) -> Float64:
    """Return the inner products of two sets of rows, (left, right), computed in float64."""
    out = np.empty((len(left), len(right)))
    kernel.multiply(left.astype(np.float64, copy=False), right.astype(np.float64, copy=False), out)
    return out


def product_rounding(dimensions: int) -> float:
    """Return how far a float32 product may be from a steady one, relative to the product of the rows' lengths.

    Among thirty million products of positive rows, the random rows that round worst, the largest error was three
    quarters of this. Rows of zeros and one other value, whose products all round the same way, can be off by more.
    """
    return (8 + 1.5 * float(np.sqrt(dimensions))) * float(np.finfo(np.float32).eps) / 2


def _longest(vectors: Vectors) -> float:
    return max(float(_lengths(block).max()) for _, block in vectors.blocks())


def _lengths(rows: Block) -> Float32:
    block = rows.astype(np.float32, copy=False)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", block, block)), np.float32)


def check_similarity(similarity: str) -> None:
    """Raise an ArgumentError unless this is a known similarity."""
    if similarity not in ("cosine", "dot"):
        raise ArgumentError("similarity", f"must be 'cosine' or 'dot', got {similarity!r}")
