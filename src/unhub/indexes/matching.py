"""What a search is given, checked against the correction: items are those it was fitted on, queries fit the items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unhub.correction import Bias, Correction
from unhub.effort import Effort
from unhub.fingerprint import inspect
from unhub.vectors import Float32, Float64, Ids, Kind, Vectors, VectorsLike, as_vectors, positions_of

ALTERED = ". Every row differs: are they in another precision (float16 for float32), or scaled to length one?"


class OtherContents(ValueError):
    """Items with the ids of those a correction was fitted on, but with other contents."""


def vector_similarity(correction: Correction) -> Kind:
    """Return the similarity of the vectors a correction was fitted on; one fitted on a given matrix has none."""
    if correction.source.similarity == "given":
        raise ValueError(
            f"this correction ({correction.spec}) was fitted on a given similarity matrix, which says nothing of "
            "vectors; use correction.apply(scores)"
        )
    return correction.source.similarity


class Located(NamedTuple):
    """Where each item stands in a correction, and whether every row was seen to have length one."""

    places: NDArray[np.int64]
    unit_length: bool


def locate(
    items: Vectors, correction: Correction, threads: int | None = None, hashes: NDArray[np.uint64] | None = None
) -> Located:
    """Return where each item stands in the correction; its contents must be those it was fitted on.

    `hashes` are those of the items where they are known already.
    """
    similarity = vector_similarity(correction)
    if items.dimensions != correction.source.dimensions:
        raise ValueError(
            f"items have {items.dimensions} dimensions, the correction was fitted on {correction.source.dimensions}; "
            "use the model it was fitted with, or refit"
        )
    places = _places(items.ids, correction.ids)
    unit_length = False
    if hashes is None:
        hashes, unit_length = inspect(items, "items", similarity, Effort(threads).map)
    differ = np.flatnonzero(hashes != correction.item_hashes[places])
    if len(differ):
        row = int(differ[0])
        raise OtherContents(
            f"items: item {items.ids[row].item()!r} (row {row}) has other contents than it was fitted on, as have "
            f"{len(differ) - 1} more of {len(items)}; refit or extend, or give the ids of rows in another order"
            f"{ALTERED if len(differ) == len(items) else ''}"
        )
    return Located(places, unit_length)


def _places(ids: Ids, fitted: Ids) -> NDArray[np.int64]:
    if len(ids) <= len(fitted) and np.array_equal(ids, fitted[: len(ids)]):
        return np.arange(len(ids))
    if ids.dtype.kind == fitted.dtype.kind:
        unknown = np.flatnonzero(~np.isin(ids, fitted))
        if len(unknown):
            raise ValueError(
                f"items: {len(unknown)} of {len(ids)} items are not in the correction, for example "
                f"{ids[unknown[0]].item()!r}; refit or extend, or give the ids that the items had: Vectors(ids, rows)"
            )
    return positions_of(ids, fitted, "items")


def in_fitted_order(items: Vectors, correction: Correction, threads: int | None = None) -> Vectors:
    """Return the items in the order of the correction, which must have been fitted on exactly these."""
    places, unit_length = locate(items, correction, threads)
    if len(items) < len(correction):
        missing = np.setdiff1d(np.arange(len(correction)), places)
        raise ValueError(
            f"items: {len(missing)} of the {len(correction)} items of the correction are missing, for example "
            f"{correction.ids[missing[0]].item()!r}; give them all, or use unhub.remove"
        )
    # Others than one number per item look for equal scores, which rows that are almost scaled do not give.
    items = items.seen(unit_length and isinstance(correction, Bias))
    return items if np.all(places[1:] > places[:-1]) else items.gather(np.argsort(places))


def prepare_queries(queries: VectorsLike, correction: Correction) -> Float32:
    """Return queries ready to multiply, (queries, dimensions): finite, and of unit length under cosine."""
    similarity = vector_similarity(correction)
    if isinstance(queries, np.ndarray) and queries.ndim == 1:
        raise ValueError(f"queries must be (queries, dimensions), got shape {queries.shape}; use queries[None] for one")
    if isinstance(queries, np.ndarray) and queries.shape == (0, correction.source.dimensions):
        return np.empty(queries.shape, np.float32)  # no queries have no answers, which is no mistake
    vectors = as_vectors(queries, "queries")
    if vectors.dimensions != correction.source.dimensions:
        raise ValueError(
            f"queries have {vectors.dimensions} dimensions, items {correction.source.dimensions}; "
            "embed both with one model"
        )
    inspect(vectors, "queries", similarity)
    return vectors.unit_block(0, len(vectors), similarity)


def check_whole(correction: Correction, weights: Float64) -> None:
    """Raise a ValueError where a correction that is no bias shall be taken in part."""
    if not isinstance(correction, Bias) and np.any(weights != 1):
        raise ValueError(f"strength must be 1 for {correction.spec}, which is not a bias that can be weighed")
