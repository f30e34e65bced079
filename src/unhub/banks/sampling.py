"""Sampling: draw a part of a bank, also a bad one on purpose."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Kind, random_positions, rows_per_block, spans
from unhub.banks.coverage import first_items
from unhub.banks.distances import half_squares, mean_row
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError, check_seed, unknown
from unhub.matching import Matched

Positions = NDArray[np.int64]


def sample_bank(
    bank: VectorsLike,
    size: int,
    how: str = "random",
    *,
    items: VectorsLike | None = None,
    queries: VectorsLike | None = None,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
) -> Positions:
    """Return the positions of `size` bank queries, in rising order.

    how: "random"; "stratified", an equal share for each item that comes first for some bank query, as far as possible;
    "adversarial", those that reach the fewest items (Bogolin et al. 2022, 4.2); "near" and "far", those nearest to and
    farthest from the mean of the queries, or of the items without queries. "stratified" and "adversarial" need items.
    """
    ways = ("random", *ORDERS)
    if how not in ways:
        raise unknown("how", how, ways, "ways to sample")
    count = len(as_vectors(bank, "bank"))
    if not isinstance(size, Integral) or isinstance(size, bool) or not 1 <= size <= count:
        raise ArgumentError("size", f"must be a whole number from 1 to {count}, the size of the bank, got {size!r}")
    generator = np.random.default_rng(check_seed(seed))
    if how == "random":  # the bank need not be read
        return random_positions(count, int(size), generator)
    order = ORDERS[how](Matched.of(bank, items, queries, similarity, threads), generator, threads)
    return np.sort(order[: int(size)])


def _stratified(sets: Matched, generator: np.random.Generator, threads: int | None) -> Positions:
    """Return the bank in rounds: one query for each item reached, then a second one, and so on."""
    firsts = _firsts(sets, "stratified", threads)
    chance = generator.permutation(len(firsts))
    by_item = np.lexsort((chance, firsts))
    _, starts, counts = np.unique(firsts[by_item], return_index=True, return_counts=True)
    rounds = np.empty(len(firsts), np.int64)
    rounds[by_item] = np.arange(len(firsts)) - np.repeat(starts, counts)
    return np.lexsort((chance, rounds))


def _adversarial(sets: Matched, generator: np.random.Generator, threads: int | None) -> Positions:
    """Return the bank item by item, the worst hub first: no other bank of the same size reaches fewer items."""
    firsts = _firsts(sets, "adversarial", threads)
    crowd = np.bincount(firsts)[firsts]
    return np.lexsort((generator.permutation(len(firsts)), firsts, -crowd))


def _near(sets: Matched, generator: np.random.Generator, threads: int | None) -> Positions:
    """Return the bank by its distance from the mean of the queries, nearest first."""
    return np.argsort(_from_mean(sets, "near"), kind="stable")


def _far(sets: Matched, generator: np.random.Generator, threads: int | None) -> Positions:
    """Return the bank by its distance from the mean of the queries, farthest first."""
    return np.argsort(-_from_mean(sets, "far"), kind="stable")


ORDERS: dict[str, Callable[[Matched, np.random.Generator, int | None], Positions]] = {
    "stratified": _stratified,
    "adversarial": _adversarial,
    "near": _near,
    "far": _far,
}


def _firsts(sets: Matched, how: str, threads: int | None) -> Positions:
    if sets.items is None:
        raise ArgumentError("items", f"is missing, but {how!r} needs the first item of each bank query", "give items")
    return first_items(sets.bank, sets.items, sets.kind, threads=threads)


def _from_mean(sets: Matched, how: str) -> Float64:
    """Return half the squared distance of each bank query from the mean of the queries, up to a constant."""
    center: Vectors | None = sets.queries if sets.queries is not None else sets.items
    if center is None:
        raise ArgumentError(
            "queries", f"is missing, but {how!r} needs their mean or that of the items", "give queries or items"
        )
    mean = mean_row(center, sets.kind)
    blocks = spans(len(sets.bank), rows_per_block(sets.bank.dimensions))
    scores: Float64 = np.concatenate([sets.bank.unit_block(*span, sets.kind) @ mean for span in blocks])
    return np.asarray(half_squares(sets.bank, sets.kind) - scores)
