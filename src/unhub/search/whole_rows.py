"""Whole rows of similarities, for the corrections that are more than one number per item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind, Span, rows_per_block, spans
from unhub.compute.workers import Workers
from unhub.correction import Correction, Plan, Rescore, Scores
from unhub.data.similarity import steady_products
from unhub.data.vectors import Vectors
from unhub.methods.method import ItemByItem, Method

SOLVER_SHARE = 20  # the solver's share of a plan's progress, in units of the multiply's
ROWS_BYTES = 64 << 20  # of similarities at a time, if a correction treats queries separately
BLOCK_ENTRIES = 2 << 20  # of similarities at a time per thread, if it treats items separately


@dataclass(frozen=True, eq=False)
class CorrectedItems:
    """Items, how queries are compared with them, and the correction of their scores."""

    items: Vectors
    similarity: Kind
    correction: Correction

    def __len__(self) -> int:
        return len(self.items)


def rank_rows(
    queries: Float32, corrected: CorrectedItems, k: int, allowed: NDArray[np.int64] | None, workers: Workers
) -> tuple[Scores, NDArray[np.int64]]:
    """Return scores and positions, (queries, k), of the best items by `correction.apply`.

    Rows always cover all items, since the correction is a function of whole rows; `allowed` only says which items may
    be returned. A Plan sees all queries at once. A method that treats each item separately takes all queries for one
    block of items at a time, so that the bank is read once.
    """
    correction = cast("Rescore | Plan", corrected.correction)
    workers.total = work_of(correction) * len(queries) * len(corrected)
    by_item = cast("Method", correction.method).item_by_item(correction) if isinstance(correction, Rescore) else None
    if by_item is not None:
        return _rank_by_item(queries, corrected, by_item, k, allowed, workers)
    at_once = len(queries) if isinstance(correction, Plan) else max(1, ROWS_BYTES // (4 * len(corrected)))
    parts = []
    for start, stop in spans(len(queries), at_once):
        rows = whole_rows(correction, similarities(queries[start:stop], corrected, workers), workers)
        scores, places = best_of(rows if allowed is None else rows[:, allowed], k)
        parts.append((scores, places if allowed is None else allowed[places]))
    return np.concatenate([scores for scores, _ in parts]), np.concatenate([places for _, places in parts])


def work_of(correction: Correction) -> int:
    """Return the work per similarity, in units of progress: the multiply and, for a plan, the solver."""
    return 1 + SOLVER_SHARE if isinstance(correction, Plan) else 1


def whole_rows(correction: Rescore | Plan, scores: Scores, workers: Workers) -> Scores:
    """Return the corrected scores of whole rows, and show the progress of a plan's solver."""
    if isinstance(correction, Plan):
        return correction.apply(scores, workers.part(SOLVER_SHARE * scores.size))
    return correction.apply(scores)


def _rank_by_item(
    queries: Float32,
    corrected: CorrectedItems,
    by_item: ItemByItem,
    k: int,
    allowed: NDArray[np.int64] | None,
    workers: Workers,
) -> tuple[Scores, NDArray[np.int64]]:
    """Return the best items by s - count; each thread processes its own blocks of items."""
    items = corrected.items
    may_return = np.ones(len(items), np.bool_) if allowed is None else np.isin(np.arange(len(items)), allowed)
    most = max(1, ROWS_BYTES // (8 * items.dimensions))  # queries, in float64

    def best_in(blocks: list[Span]) -> Best:
        best = Best(len(queries), k)
        for start, stop in blocks:
            wanted = np.flatnonzero(may_return[start:stop])
            if len(wanted):
                rows, count = items.unit_block(start, stop, corrected.similarity), by_item.counter((start, stop))
            for span in spans(len(queries), min(max(1, BLOCK_ENTRIES // (stop - start)), most)):
                if len(wanted):
                    scores = steady_products(queries[slice(*span)], rows, workers.kernel)
                    best.add(span, (scores - count(scores))[:, wanted], start + wanted)
                workers.tick((span[1] - span[0]) * (stop - start))
        return best

    blocks = list(by_item.blocks())
    parts = [blocks[slice(*part)] for part in spans(len(blocks), -(-len(blocks) // workers.threads))]
    found = workers.map(best_in, parts)
    best = found[0]
    for other in found[1:]:
        best.join(other)
    return best.scores, best.places


class Best:
    """The best items of each query so far; items are added in the order of their positions."""

    def __init__(self, queries: int, k: int) -> None:
        self.scores = np.full((queries, k), -np.inf)
        self.places = np.full((queries, k), -1)

    def add(self, span: Span, scores: Float64, places: NDArray[np.int64]) -> None:
        """Add scores, (queries of the span, items), of items at these places; equal scores lose to earlier ones."""
        better = np.flatnonzero(scores.max(axis=1) > self.scores[slice(*span), -1])
        self._take(span[0] + better, scores[better], np.broadcast_to(places, scores.shape)[better])

    def join(self, later: Best) -> None:
        """Add the best of items at later places."""
        self._take(np.arange(len(self.scores)), later.scores, later.places)

    def _take(self, rows: NDArray[np.int64], scores: Float64, places: NDArray[np.int64]) -> None:
        both = np.concatenate([self.scores[rows], scores], axis=1)
        self.scores[rows], order = best_of(both, self.scores.shape[1])
        self.places[rows] = np.take_along_axis(np.concatenate([self.places[rows], places], axis=1), order, axis=1)


def similarities(queries: Float32, corrected: CorrectedItems, workers: Workers) -> Float32:
    """Return the (queries, items) matrix of s."""
    items = corrected.items
    out = np.empty((len(queries), len(items)), np.float32)

    def fill(span: Span) -> None:
        columns = slice(*span)
        workers.kernel.multiply(queries, items.unit_block(*span, corrected.similarity), out[:, columns])
        workers.tick(out[:, columns].size)

    workers.map(fill, spans(len(items), rows_per_block(items.dimensions)))
    return out


def best_of(scores: Scores, k: int) -> tuple[Scores, NDArray[np.int64]]:
    """Return the k largest scores of each row and their positions, best first, the lower one first among equals."""
    bars = np.partition(scores, -k, axis=1)[:, -k]
    places = np.empty((len(scores), k), np.int64)
    for row, bar, out in zip(scores, bars, places, strict=True):
        candidates = np.flatnonzero(row >= bar)
        out[:] = candidates[np.argsort(-row[candidates], kind="stable")[:k]]
    return cast("Scores", np.take_along_axis(scores, places, axis=1)), places
