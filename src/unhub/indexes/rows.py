"""Whole rows of similarities, for the corrections that are more than one number per item."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.correction import Plan, Rescore, Scores
from unhub.effort import Effort
from unhub.similarity import Span
from unhub.vectors import Float32, Kind, Vectors, rows_per_block, spans

ROWS_BYTES = 64 << 20  # of similarities at a time, where a correction takes queries one by one


def rank_rows(
    queries: Float32,
    items: Vectors,
    similarity: Kind,
    correction: Rescore | Plan,
    k: int,
    allowed: NDArray[np.int64] | None,
    effort: Effort,
) -> tuple[Scores, NDArray[np.int64]]:
    """Return scores and positions, (queries, k), of the best items by `correction.apply`.

    Rows are always of all items, since that is what the correction is a function of; `allowed` only says which may be
    returned. A Plan sees all queries at once.
    """
    effort.total = len(queries) * len(items)
    together = len(queries) if isinstance(correction, Plan) else max(1, ROWS_BYTES // (4 * len(items)))
    parts = []
    for start, stop in spans(len(queries), together):
        corrected = correction.apply(similarities(queries[start:stop], items, similarity, effort))
        scores, places = best_of(corrected if allowed is None else corrected[:, allowed], k)
        parts.append((scores, places if allowed is None else allowed[places]))
    return np.concatenate([scores for scores, _ in parts]), np.concatenate([places for _, places in parts])


def similarities(queries: Float32, items: Vectors, similarity: Kind, effort: Effort) -> Float32:
    """Return the (queries, items) matrix of s."""
    out = np.empty((len(queries), len(items)), np.float32)

    def fill(span: Span) -> None:
        columns = slice(*span)
        np.matmul(queries, items.unit_block(*span, similarity).T, out=out[:, columns])
        effort.tick(out[:, columns].size)

    effort.map(fill, spans(len(items), rows_per_block(items.dimensions)))
    return out


def best_of(scores: Scores, k: int) -> tuple[Scores, NDArray[np.int64]]:
    """Return the k largest scores of each row and where they stand, best first, the lower place first among equals."""
    bars = np.partition(scores, -k, axis=1)[:, -k]
    places = np.empty((len(scores), k), np.int64)
    for row, bar, out in zip(scores, bars, places, strict=True):
        candidates = np.flatnonzero(row >= bar)
        out[:] = candidates[np.argsort(-row[candidates], kind="stable")[:k]]
    return cast("Scores", np.take_along_axis(scores, places, axis=1)), places
