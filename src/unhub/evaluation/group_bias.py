"""Group bias: how much a ranking favours one group of items over another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unhub.arrays import Kind
from unhub.compute.workers import Resources
from unhub.correction import Correction
from unhub.data.ids import positions_of
from unhub.data.relevance import RelevanceLike
from unhub.data.similarity import Dense
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError
from unhub.evaluation.excluding import NOBODY, ExcludeLike
from unhub.evaluation.inputs import EvaluationInputs
from unhub.evaluation.measures import Measure
from unhub.evaluation.ranked import Ranked


@dataclass(frozen=True)
class GroupBias:
    """How much a ranking favours group A over group B among the n best: (#A - #B) / n, averaged over the queries.

    share_a, share_b: their mean shares of the n best. precision: the mean share of answers among the n best, over
    the queries that have answers; None without relevance. All except n are fractions.
    """

    n: int
    bias: float
    share_a: float
    share_b: float
    precision: float | None


def group_bias(
    queries: VectorsLike | Dense,
    items: VectorsLike | None,
    group_a: ArrayLike,
    group_b: ArrayLike,
    correction: Correction | None = None,
    n: int = 10,
    *,
    relevance: RelevanceLike | None = None,
    exclude: ExcludeLike | None = None,
    strength: float = 1.0,
    similarity: Kind | None = None,
    threads: int | None = None,
) -> GroupBias:
    """Return how much the n best items of the queries favour one group of items, by id, over another.

    exclude: items to leave out of the ranking of each query, as in `evaluate`.
    """
    inputs = EvaluationInputs.with_one(queries, items, correction, similarity, threads, exclude)
    inside = [np.zeros(len(inputs.item_ids)), np.zeros(len(inputs.item_ids))]
    for name, ids, flags in zip(("group_a", "group_b"), (group_a, group_b), inside, strict=True):
        flags[positions_of(ids, inputs.item_ids, name)] = 1
    if np.any(inside[0] * inside[1]):
        both = inputs.item_ids[int(np.flatnonzero(inside[0] * inside[1])[0])].item()
        raise ArgumentError("group_b", f"shares items with group_a, such as {both!r}", "put each item into one group")
    truth = None if relevance is None else inputs.truth(relevance)
    ranked = Ranked.of(
        inputs, Resources(threads), truth, best=inputs.places(n, "n"), strength=strength, last_alone=True
    )
    best = ranked.placed[0].best
    there = best != NOBODY
    share_a, share_b = (float((flags[best] * there).mean()) for flags in inside)
    found = None if truth is None else float(ranked.values(Measure("P", best.shape[1]))[0, 0].mean()) / 100
    return GroupBias(best.shape[1], share_a - share_b, share_a, share_b, found)
