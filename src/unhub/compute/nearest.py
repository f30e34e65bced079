"""Nearest: find the exact best items of each query, tile by tile on several threads."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind, Span, spans
from unhub.compute.passes import TileSizes, split, with_room
from unhub.compute.reservoir import Reservoir
from unhub.compute.workers import Resources
from unhub.data.vectors import SAFE_SHIFT, Vectors, check_range

GROUP_QUERIES = 1280  # at a time: each thread keeps results for this many


@dataclass(frozen=True, eq=False)
class BiasedQueries:
    """Queries ready to multiply, (queries, dimensions), and what to subtract from their scores: weight(q) * bias(g).

    weights: (queries,), or None for all 1. bias: (items,), or None for all 0.
    """

    queries: Float32
    weights: Float64 | None = None
    bias: Float64 | None = None


def nearest(
    asked: BiasedQueries, items: Vectors, similarity: Kind, k: int, resources: Resources
) -> tuple[Float32, NDArray[np.int64]]:
    """Return the scores and positions, (queries, k), of the k best items by s(q,g) - weight(q) * bias(g), best first.

    Equal scores go to the lower position. 1 <= k <= items. An empty place has the score -inf and the
    position -1.
    """
    workers, queries = resources.workers(), asked.queries
    workers.total = len(queries) * len(items)
    weights = np.ones(len(queries)) if asked.weights is None else asked.weights
    bias = np.zeros(len(items)) if asked.bias is None else asked.bias
    may_overflow = float(np.abs(weights).max(initial=0)) * float(np.abs(bias).max(initial=0)) > SAFE_SHIFT
    rounds = -(-len(queries) // (GROUP_QUERIES * workers.lanes))
    few = len(queries) <= GROUP_QUERIES  # threads split few queries by items, many by queries
    groups = list(spans(len(queries), len(queries) if few else -(-len(queries) // (rounds * workers.lanes))))
    parts = split(len(items), workers.lanes if few else 1)
    kernel = workers.kernel

    def answer(job: tuple[Span, Span]) -> tuple[Float32, NDArray[np.int32]]:
        return with_room(kernel, lambda sizes: answer_in(job, sizes))

    def answer_in(job: tuple[Span, Span], sizes: TileSizes) -> tuple[Float32, NDArray[np.int32]]:
        group, part = job
        rows = group[1] - group[0]
        reservoir = Reservoir(rows, k, part[1] - part[0], kernel)
        columns = sizes.columns(rows)
        buffer = kernel.empty((rows * min(columns, part[1] - part[0]),))
        own, strength = queries[slice(*group)], weights[slice(*group)].astype(np.float32)
        asking = kernel.ready(own, False)
        for start, stop in spans(part[1], columns, start=part[0]):
            tile = buffer[: rows * (stop - start)].reshape(rows, stop - start)
            penalty = bias[start:stop].astype(np.float32)
            if kernel.ON_DEVICE:
                block = items.ready_block(start, stop, similarity, kernel)
            else:
                block = items.unit_block(start, stop, similarity)
            # Make the tile in the way that copies less: correct each score, or extend items by one dimension. The
            # latter sums in any order, so large numbers may overflow on the way.
            if kernel.ON_DEVICE or may_overflow or rows < block.shape[1]:
                kernel.multiply_few(asking, block, tile)
                kernel.lower(tile, strength, penalty)
            else:
                longer = np.concatenate([own, strength[:, None]], axis=1)
                kernel.multiply(longer, np.concatenate([block, -penalty[:, None]], axis=1), tile)
            if may_overflow:
                check_range(kernel.host(tile))
            reservoir.add(tile, start)
            workers.tick(rows * (stop - start))
        return reservoir.best()

    found = iter(workers.map(answer, itertools.product(groups, parts)))
    scores = np.full((len(queries), k), -np.inf, np.float32)
    places = np.full((len(queries), k), -1)
    for group in groups:
        best = [next(found) for _ in parts]
        values, where = (np.concatenate(several, axis=1) for several in zip(*best, strict=True))
        order = np.argsort(-values, axis=1, kind="stable")[:, :k]  # parts are in the order of positions
        scores[slice(*group), : order.shape[1]] = np.take_along_axis(values, order, axis=1)
        places[slice(*group), : order.shape[1]] = np.take_along_axis(where, order, axis=1)
    return scores, places
