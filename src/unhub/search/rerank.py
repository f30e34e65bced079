"""Rerank: correct what any engine returned, by subtracting the biases of its candidates."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from unhub.arrays import Float64, Ids
from unhub.correction import Bias, Correction, check_correction, strengths
from unhub.data.ids import no_id
from unhub.data.vectors import check_range
from unhub.errors import ArgumentError, check_whole
from unhub.frames.uuids import without_uuids
from unhub.search.hits import Hits, Names, Positions


def rerank(
    ids: ArrayLike, scores: ArrayLike, correction: Correction, k: int | None = None, strength: ArrayLike = 1.0
) -> Hits:
    """Return the k best of the candidates that an engine returned, by score - strength * bias.

    ids and scores are (queries, candidates), similarities as the correction was fitted on, best first; an empty place
    has the id -1, or "" if ids are texts. The corrected best are only found if they are among the candidates: fetch
    many more than k, a hundred or a thousand. k: all candidates if it is left out.
    """
    check_correction(correction, "re-rank with")
    if not isinstance(correction, Bias):
        raise ArgumentError(
            "correction",
            f"of {correction.spec!r} needs whole rows of similarities, not a few candidates",
            "use a correction that is one number per item, or search with a searcher",
        )
    named = np.asarray(without_uuids(np.asarray(ids)))
    given = np.asarray(scores, np.float64)
    if named.ndim != 2 or given.shape != named.shape:
        problem = f"must be (queries, candidates), as ids are, got shape {given.shape} and {named.shape}"
        raise ArgumentError("scores", problem)
    if named.dtype.kind != correction.ids.dtype.kind:
        if named.dtype.kind == "u" and correction.ids.dtype.kind == "i":
            named = named.astype(np.int64)
        else:
            wanted = "integers" if correction.ids.dtype.kind == "i" else "texts"
            raise ArgumentError("ids", f"must be {wanted}, as those of the correction, got {named.dtype}")
    places = k if k is None else check_whole(k, "k", 1)
    weights = strengths(strength, len(named), correction)
    try:
        return reranked(named, given, correction, places or named.shape[1], weights)
    except ArgumentError as error:
        raise error.of("ids" if error.name == "index" else error.name) from None


def reranked(ids: Ids, scores: Float64, correction: Bias, k: int, weights: Float64, covered_only: bool = False) -> Hits:
    """Return the k best candidates by score - weight * bias; the first candidate of a row is the raw best.

    covered_only: whether candidates that the correction does not cover are left out, not refused.
    """
    names = Names(correction.ids)
    positions = names.looked_up(ids)[0] if covered_only else names.found(ids)
    empty = positions < 0
    if not np.isfinite(scores[~empty]).all():
        raise ArgumentError("scores", "must be finite for every candidate")
    if correction.active is not None and ids.shape[1]:
        raw_best: Positions = np.take_along_axis(
            positions, np.where(empty, -np.inf, scores).argmax(axis=1)[:, None], axis=1
        )[:, 0]
        weights = correction.weights(raw_best, weights)
    corrected = np.where(empty, -np.inf, scores - weights[:, None] * correction.bias[positions])
    with np.errstate(over="ignore"):
        check_range(np.where(empty, 0, corrected).astype(np.float32))
    order = np.argsort(-corrected, axis=1, kind="stable")[:, :k]
    found = np.full((len(ids), k), no_id(ids.dtype), ids.dtype)
    best = np.full((len(ids), k), -np.inf, np.float32)
    found[:, : order.shape[1]] = np.take_along_axis(ids, order, axis=1)
    best[:, : order.shape[1]] = np.take_along_axis(corrected, order, axis=1)
    found[np.isneginf(best)] = no_id(ids.dtype)
    return Hits(cast("Ids", found), best)
