"""The semi-dual of optimal transport between queries and items, by which rankings are compared without labels.

    J(h) = mean over queries of max over items of (s(q, g) - h(g)),   h with mean 0

J falls as h takes from hubs what they do not deserve, and rises again where h corrects too much or is noise. Taken on
queries that h was not fitted on, the lowest J is the best guess at the best ranking, if all items are wanted alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, spans
from unhub.data.similarity import Dot
from unhub.evaluation.excluding import NOBODY
from unhub.evaluation.placing import Additive

BLOCK_QUERIES = 4096
# Settings whose J is this close to the lowest, as a share of its lead over raw, cannot be told apart; the one in their
# midst is taken. From 0.03 to 0.2 the gains are the same on average over 27 sets and directions.
TOLERANCE_SHARE = 0.1


def top_similarities(pairs: Dot, best: NDArray[np.int32]) -> Float64:
    """Return the similarity of each query to its best item, (queries,); best: its position, or NOBODY."""
    out = np.empty(len(best))
    for start, stop in spans(len(best), BLOCK_QUERIES):
        queries = pairs.query_vectors.unit_block(start, stop, pairs.kind)
        # NOBODY has no similarity; any item will do, since every ranking has nobody there.
        positions = np.maximum(best[start:stop], 0).astype(np.int64)
        own, back = np.unique(positions, return_inverse=True)
        chosen = pairs.item_vectors.gather(own)
        items = chosen.unit_block(0, len(own), pairs.kind)[back]
        out[start:stop] = np.einsum("ij,ij->i", queries, items, dtype=np.float64)
    out[best == NOBODY] = 0.0
    return out


def costs(
    pairs: Dot, ranking: Additive, best: NDArray[np.int32], raw: tuple[NDArray[np.int32], Float64] | None = None
) -> Float64:
    """Return max over items of s - h for each query, (queries,), given the best item by s - h.

    raw: the best items by s and their similarities; queries whose best item is the same need no new product.
    """
    if raw is None:
        similarities = top_similarities(pairs, best)
    else:
        similarities = raw[1].copy()
        moved = np.flatnonzero(best != raw[0])
        if len(moved):
            part = Dot(pairs.query_vectors.gather(moved), pairs.item_vectors, pairs.kind)
            similarities[moved] = top_similarities(part, best[moved])
    h: Float64 = np.asarray(ranking.h, np.float64)
    return np.asarray(similarities - np.where(best == NOBODY, 0.0, h[best] - h.mean()))


def in_the_midst(means: Sequence[float], sampled: Sequence[Float32]) -> int:
    """Return the ranking nearest to the mean of those whose J is about the lowest; the first one is raw.

    means: J of each. sampled: h of each on some items. Differences within a tenth of the lead over raw are chance, and
    the mean of such rankings does better than the one that chance put first; the nearest to it is a setting by name.
    """
    values = np.array(means)
    lowest = values.min()
    near = np.flatnonzero(values <= lowest + TOLERANCE_SHARE * (values[0] - lowest))
    h = np.array([sampled[row] for row in near.tolist()], np.float64)
    return int(near[np.argmin(np.square(h - h.mean(axis=0)).sum(axis=1))])
