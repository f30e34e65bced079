"""Rank aggregation: rank items by their exact mean rank over the queries of a set, in blocks of queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, spans
from unhub.combine import Sets, average_ranks
from unhub.compute.workers import Workers
from unhub.correction import Bias, Plan, Scores
from unhub.matching import check_unweighed
from unhub.search.whole_rows import ROWS_BYTES, CorrectedItems, similarities, whole_rows, work_of

RANKS_BYTES = 16 << 20  # of ranks at a time


def rank_by_mean_rank(
    sets: Sets,
    corrected: CorrectedItems,
    weights: Float64,
    k: int,
    allowed: NDArray[np.int64] | None,
    workers: Workers,
) -> tuple[Scores, NDArray[np.int64]]:
    """Return minus the mean rank, and positions, (sets, k), of the best items; mean scores break ties.

    Ranks are among all items, by corrected score; `allowed` only says which items may be returned.
    """
    correction, count = corrected.correction, len(corrected)
    check_unweighed(correction, weights)
    workers.total = work_of(correction) * len(sets.queries) * count
    owners = sets.owners
    scores = np.empty((len(sets), k))
    places = np.empty((len(sets), k), np.int64)
    ranks, means = np.zeros(count), np.zeros(count)  # of the current set, which may span several blocks
    at_once = len(owners) if isinstance(correction, Plan) else max(1, ROWS_BYTES // (4 * count))
    for first, end in spans(len(owners), at_once):
        rows: Scores = similarities(sets.queries[first:end], corrected, workers)
        rows = rows if isinstance(correction, Bias) else whole_rows(correction, rows, workers)
        for start, stop in spans(end, max(workers.threads, RANKS_BYTES // (8 * count)), start=first):
            some = rows[start - first : stop - first]
            if isinstance(correction, Bias):
                some = correction.apply(some, weights[owners[start:stop]])
            for query, row, of_row in zip(range(start, stop), some, workers.map(average_ranks, some), strict=True):
                ranks += of_row
                means += row
                number = owners[query]
                if query + 1 == sets.starts[number + 1]:
                    mean_ranks = ranks / sets.counts[number]
                    places[number] = _best(mean_ranks, means, k, allowed)
                    scores[number] = -mean_ranks[places[number]]
                    ranks[:], means[:] = 0, 0
    return scores, places


def _best(mean_ranks: Float64, sums: Float64, k: int, allowed: NDArray[np.int64] | None) -> NDArray[np.int64]:
    some = np.arange(len(mean_ranks)) if allowed is None else allowed
    bar = np.partition(mean_ranks[some], k - 1)[k - 1]
    candidates = some[mean_ranks[some] <= bar]
    order = np.lexsort((-sums[candidates], mean_ranks[candidates]))
    return np.asarray(candidates[order[:k]])
