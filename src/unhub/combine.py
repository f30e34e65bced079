"""Combine: make one query of several descriptions of one target (multi-query retrieval, Wang et al. 2022).

A weighted form ranks by the similarity to sum_i alpha_i q_i, alpha >= 0 with sum 1, over unit queries q_i. The mean of
the similarities (sa) has alpha = 1 / k. The fused forms then scale the sum to the length of a query, which matters when
a correction is subtracted. The mean of ranks (ra) is not a vector: it needs every query's whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float32, Float64, Kind, spans
from unhub.data.fingerprint import inspect
from unhub.data.ragged import Ragged, starts_from
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError, unknown

TEMPERATURE = 0.5  # of ts-wf, as in the authors' code
BLOCK_ENTRIES = 4 << 20  # of queries at a time
ROUNDING_SHARE = 1e-6  # of the longest query: a shorter sum is only rounding

Weights: TypeAlias = Callable[[Float32], Float64]  # (sets, k, d) unit queries -> alpha, (sets, k)


def equal_weights(queries: Float32) -> Float64:
    """Return alpha = 1 / k."""
    return np.full(queries.shape[:2], 1 / queries.shape[1])


def distinct_weights(queries: Float32) -> Float64:
    """Return the softmax over i of -(mean similarity to the other queries) / t: unusual queries weigh more."""
    k = queries.shape[1]
    if k == 1:
        return np.ones(queries.shape[:2])
    gram = np.matmul(queries, queries.swapaxes(1, 2)).astype(np.float64)
    others = (gram.sum(axis=2) - np.einsum("sii->si", gram)) / (k - 1)
    return softmax(-others / TEMPERATURE)


def softmax(scores: Float64) -> Float64:
    """Return shares that sum to 1 along the last axis."""
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Combination:
    """How several queries become one: by ranks, or by weights that sum to 1, scaled to the length of a query if fused.

    dimensions: of the queries it was trained for; None takes any.
    """

    name: str
    what: str
    weights: Weights = equal_weights
    fused: bool = False
    by_rank: bool = False
    dimensions: int | None = None


COMBINATIONS: Mapping[str, Combination] = {
    one.name: one
    for one in (
        Combination("sa", "mean of the similarities"),
        Combination("ra", "mean of the ranks, equal ones ordered by the mean of the similarities", by_rank=True),
        Combination("mf", "similarity to the unit vector of the mean query", fused=True),
        Combination(
            "ts-wf",
            "similarity to the unit vector of the weighted queries; unusual queries weigh more",
            distinct_weights,
            fused=True,
        ),
    )
}


@runtime_checkable
class Combining(Protocol):
    """Something with its own way to combine queries, for example a trained Model."""

    @property
    def combination(self) -> Combination: ...


CombinationLike: TypeAlias = str | Combination | Combining


def as_combination(combine: CombinationLike, dimensions: int) -> Combination:
    """Return the combination of this name or model, for queries with this many dimensions."""
    found = combine.combination if isinstance(combine, Combining) else combine
    if isinstance(found, str) and found in COMBINATIONS:
        found = COMBINATIONS[found]
    if isinstance(found, str):
        raise unknown("combine", found, COMBINATIONS, "combinations, besides a trained model,")
    if not isinstance(found, Combination):
        raise ArgumentError("combine", f"must be {', '.join(COMBINATIONS)} or a trained model, got {found!r}")
    if found.dimensions not in (None, dimensions):
        raise ArgumentError(
            "combine",
            f"is the head {found.name!r}, trained for {found.dimensions} dimensions, but the queries have {dimensions}",
            "encode texts and items with the model's towers first",
        )
    return found


@dataclass(frozen=True, eq=False)
class Sets(Ragged):
    """Sets of queries ready to multiply: set i is row i of `queries`, (queries of all sets, d), at least one query."""

    FLAT: ClassVar = ("queries",)

    queries: Float32

    @staticmethod
    def of(sets: Iterable[ArrayLike], dimensions: int, similarity: Kind) -> Sets:
        """Check sets of (k, d) arrays, each with k of at least 1; rows become unit vectors under cosine."""
        if isinstance(sets, Vectors) or (isinstance(sets, np.ndarray) and sets.ndim == 2):
            raise ArgumentError(
                "sets",
                f"must be a list of (k, d) arrays, one for each target, got one array of shape {_shape(sets)}",
                "put a single set in a list",
            )
        if isinstance(sets, str) or not isinstance(sets, Iterable):
            raise ArgumentError("sets", f"must be a list of (k, d) arrays, one for each target, got {sets!r}")
        parts = [_set(one, f"sets[{number}]") for number, one in enumerate(sets)]
        for number, part in enumerate(parts):
            if part.dimensions != dimensions:
                raise ArgumentError(
                    f"sets[{number}]",
                    f"has {part.dimensions} dimensions, the items {dimensions}",
                    "embed both with one model",
                )
        starts = starts_from([*map(len, parts)])
        if not parts:
            return Sets(starts, np.empty((0, dimensions), np.float32))
        together = Vectors(np.arange(starts[-1]), np.concatenate([part.block(0, len(part)) for part in parts]))
        try:
            inspect(together, "sets", similarity)
        except ValueError:  # find out which set is wrong only now that one is
            for number, part in enumerate(parts):
                inspect(part, f"sets[{number}]", similarity)
            raise
        return Sets(starts, together.unit_block(0, len(together), similarity))

    def combined(self, how: Combination) -> Float32:
        """Return one vector for each set, (sets, d)."""
        out = np.empty((len(self), self.queries.shape[1]), np.float32)
        for size in np.unique(self.counts):
            alike = np.flatnonzero(self.counts == size)
            for start, stop in spans(len(alike), max(1, BLOCK_ENTRIES // (int(size) * out.shape[1]))):
                mine = alike[start:stop]
                queries = self.queries[self.starts[mine][:, None] + np.arange(size)]
                out[mine] = combine_queries(queries, how, mine)
        return out


def _shape(sets: Vectors | NDArray[np.generic]) -> tuple[int, ...]:
    return tuple((sets.rows if isinstance(sets, Vectors) else sets).shape)


def _set(queries: VectorsLike, name: str) -> Vectors:
    if isinstance(queries, Sized) and len(queries) == 0:
        raise ArgumentError(name, "is empty", "a set needs at least one query")
    return as_vectors(queries, name)


def combine_queries(queries: Float32, how: Combination, numbers: NDArray[np.int64]) -> Float32:
    """Return one vector for each set of (sets, k, d) queries; `numbers` are the sets' numbers, for errors."""
    wide = queries.astype(np.float64)
    lengths = np.sqrt((wide**2).sum(axis=2))
    alpha = shares(queries, lengths, how)
    mean = np.matmul(alpha[:, None, :], wide)[:, 0]
    if how.fused:
        scale = stretches(alpha, lengths, np.sqrt((mean**2).sum(axis=1)))
        if not scale.all():
            raise ArgumentError(
                f"sets[{numbers[np.flatnonzero(scale == 0)[0]]}]",
                "has queries that sum to zero, which has no direction",
                "combine with 'sa'",
            )
        mean *= scale[:, None]
    return np.asarray(mean, np.float32)


def shares(queries: Float32, lengths: Float64, how: Combination) -> Float64:
    """Return alpha for (sets, k, d) queries of these lengths, (sets, k); a zero query stays zero."""
    if queries.shape[1] == 1 or how.weights is equal_weights:
        return equal_weights(queries)
    return how.weights((queries / np.where(lengths > 0, lengths, 1)[..., None]).astype(np.float32))


def stretches(alpha: Float64, lengths: Float64, norms: Float64) -> Float64:
    """Return the factor that scales each weighted sum to the mean length of its queries; 0 if the sum is zero."""
    if alpha.shape[1] == 1:
        return np.ones(len(alpha))
    lost = norms <= ROUNDING_SHARE * lengths.max(axis=1)
    return np.where(lost, 0, (alpha * lengths).sum(axis=1) / np.where(lost, 1, norms))


def average_ranks(scores: NDArray[np.floating]) -> Float64:
    """Return the rank of each entry of a row, (items,), 1 for the largest; equal entries share their mean rank."""
    order = np.argsort(-scores)
    falling = scores[order]
    first = np.flatnonzero(np.concatenate([[True], falling[1:] != falling[:-1]]))
    sizes = np.diff(first, append=len(scores))
    ranks = np.empty(len(scores))
    ranks[order] = np.repeat(first + (sizes + 1) / 2, sizes)
    return ranks
