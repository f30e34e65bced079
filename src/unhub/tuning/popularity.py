"""Popularity: whether the items returned most are asked for by similar queries, as popular items are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Kind, rows_per_block, spans
from unhub.data.vectors import Vectors

TOP_SHARE = 0.02  # share of the items: those that most queries reach first
FEWEST_PAIRS = 100  # of queries that share a first item: with fewer, the mean says little
# A hub is returned for queries that have little in common, a popular item for similar queries. On good data the figure
# was 0.31 to 0.73; with demand on val that falls as 1 / rank, where a correction costs answers, it was 0.77 or more.
# Chosen on Flickr8k, on val, extra, two galleries of the bank split and val with train, in two spaces; see
# docs/tuning/tune.md.
MOST_ALIKE = 0.75


def alikeness(queries: Vectors, firsts: NDArray[np.int32], items: int, kind: Kind) -> float | None:
    """Return the mean cosine, after centring, of pairs of queries that share one of the most returned first items.

    firsts: the item each query reaches first, (queries,). The centre is the mean query, in which each first item counts
    once, so that popular items do not dominate it. None if under 100 pairs of queries share an item. The cosines of k
    rows of length one sum to |their sum|^2 - k, so the queries are read only twice.
    """
    counts = np.bincount(firsts, minlength=items)
    top = np.argsort(-counts, kind="stable")[: max(1, round(TOP_SHARE * items))]
    pairs = int((counts[top] * (counts[top] - 1)).sum())  # each counted both ways
    if pairs < 2 * FEWEST_PAIRS:
        return None
    place = np.full(items, -1)
    place[top] = np.arange(len(top))
    centre = np.zeros(queries.dimensions)
    blocks = list(spans(len(queries), rows_per_block(queries.dimensions)))
    for start, stop in blocks:
        centre += (1 / counts[firsts[start:stop]]) @ queries.unit_block(start, stop, kind)
    centre /= np.count_nonzero(counts)
    sums = np.zeros((len(top), queries.dimensions))
    rows = 0
    for start, stop in blocks:
        group = place[firsts[start:stop]]
        apart = queries.unit_block(start, stop, kind)[group >= 0] - centre
        lengths = np.linalg.norm(apart, axis=1)
        some = lengths > 0
        np.add.at(sums, group[group >= 0][some], apart[some] / lengths[some, None])
        rows += int(some.sum())
    return float((np.square(sums).sum() - rows) / pairs)
