"""Inputs held against each other and against a correction: items are those of its fit, all sets are of one width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Ids, Kind
from unhub.compute.workers import Workers
from unhub.correction import Bias, Correction
from unhub.data.fingerprint import Fingerprint, Hashes, inspect
from unhub.data.ids import positions_of
from unhub.data.similarity import check_similarity
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.methods import Method

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
        hashes, unit_length = inspect(items, "items", similarity, Workers(threads).map)
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


def kind_of(fitted: Bias) -> Kind:
    """Return the similarity of the vectors a correction was fitted on."""
    return cast("Kind", fitted.source.similarity)


def check_dimensions(fitted: Bias, vectors: Vectors, name: str) -> None:
    """Raise a ValueError unless the vectors are as wide as those of the fit."""
    if vectors.dimensions != fitted.source.dimensions:
        raise ValueError(f"{name} has {vectors.dimensions} dimensions, the correction {fitted.source.dimensions}")


def checked_new_items(fitted: Bias, new_items: VectorsLike) -> tuple[Vectors, Hashes]:
    """Return new items, numbered on from the highest id where they have none, and the hashes of their contents."""
    added = as_vectors(new_items, "new_items")
    check_dimensions(fitted, added, "new_items")
    if not isinstance(new_items, Vectors):
        if fitted.ids.dtype.kind != "i":
            raise ValueError("new_items need ids, since the fitted items have names: Vectors(ids, rows)")
        added = Vectors(np.arange(len(added)) + int(fitted.ids.max()) + 1, added.rows)
    return added, inspect(added, "new_items", kind_of(fitted)).hashes


def copies_among(fitted: Bias, added: Vectors, hashes: Hashes, named: bool) -> tuple[str, ...]:
    """Return a note on new items with the contents of old ones; the whole old gallery without names is a mistake."""
    if not named and len(fitted) > 1 and np.array_equal(hashes[: len(fitted)], fitted.item_hashes):
        raise ValueError(
            f"new_items begin with the {len(fitted)} items the correction has already; give the new ones alone, "
            f"from row {len(fitted)} on"
        )
    order = np.argsort(hashes)  # of the few new ones, not of the many old ones
    places = np.minimum(np.searchsorted(hashes, fitted.item_hashes, sorter=order), len(hashes) - 1)
    old = np.flatnonzero(hashes[order[places]] == fitted.item_hashes)
    if not len(old):
        return ()
    count = int(np.isin(hashes, fitted.item_hashes[old]).sum())
    new, known = (ids.item() for ids in (added.ids[order[places[old[0]]]], fitted.ids[old[0]]))
    return (f"{count} of {len(added)} new items have the contents of old ones: {new!r} is a copy of {known!r}",)


def same_items(fitted: Bias, items: VectorsLike) -> Vectors:
    """Return the items, which must be those the correction was fitted on, in the same order."""
    gallery = as_vectors(items, "items")
    check_dimensions(fitted, gallery, "items")
    if len(gallery) != len(fitted):
        raise ValueError(f"items has {len(gallery)} rows, the correction was fitted on {len(fitted)}")
    if isinstance(items, Vectors) and not np.array_equal(gallery.ids, fitted.ids):
        raise ValueError("items have other ids, or another order, than those the correction was fitted on")
    differ = np.flatnonzero(inspect(gallery, "items", kind_of(fitted)).hashes != fitted.item_hashes)
    if len(differ):
        raise ValueError(
            f"items: {len(differ)} rows, the first at {differ[0]}, have other contents than those of the fit"
        )
    return Vectors(fitted.ids, gallery.rows)


def same_bank(fitted: Bias, bank: VectorsLike, bank_items: VectorsLike | None) -> tuple[Vectors, Vectors | None]:
    """Return the bank and the bank items, which must be those the correction was fitted on."""
    queries = as_vectors(bank, "bank")
    _check_print(fitted, queries, fitted.source.bank, "bank")
    return queries, same_bank_items(fitted, bank_items)


def same_bank_items(fitted: Bias, bank_items: VectorsLike | None) -> Vectors | None:
    """Return the bank items, which must be those of the fit; None where the method uses none."""
    method = cast("Method", fitted.method)
    if fitted.source.bank_items is None or not (method.dual or method.joint):
        return None
    if bank_items is None:
        raise ValueError(f"{fitted.method.name} was fitted with bank_items; give them again")
    targets = as_vectors(bank_items, "bank_items")
    _check_print(fitted, targets, fitted.source.bank_items, "bank_items")
    return targets


def _check_print(fitted: Bias, vectors: Vectors, stored: Fingerprint | None, name: str) -> None:
    check_dimensions(fitted, vectors, name)
    given = Fingerprint.of(inspect(vectors, name, kind_of(fitted)).hashes)
    if stored is None:
        return  # raw may do without
    if given.count != stored.count:
        raise ValueError(f"{name} has {given.count} rows, the correction was fitted on {stored.count}")
    if given != stored:
        raise ValueError(f"{name} has other contents, or another order, than the one the correction was fitted on")


@dataclass(frozen=True, eq=False)
class Matched:
    """A bank, and items and queries where they are given: all of one width, with a hash of each row."""

    bank: Vectors
    items: Vectors | None
    queries: Vectors | None
    hashes: dict[str, Hashes]
    kind: Kind

    @staticmethod
    def of(
        bank: VectorsLike,
        items: VectorsLike | None,
        queries: VectorsLike | None,
        similarity: Kind,
        threads: int | None,
    ) -> Matched:
        """Check what a user gives."""
        check_similarity(similarity)
        given = {"bank": bank, "items": items, "queries": queries}
        sets = {name: as_vectors(value, name) for name, value in given.items() if value is not None}
        for name, vectors in sets.items():
            if vectors.dimensions != sets["bank"].dimensions:
                raise ValueError(
                    f"the bank has {sets['bank'].dimensions} dimensions, {name} have {vectors.dimensions}; "
                    "embed both with one model"
                )
        workers = Workers(threads)
        hashes = {name: inspect(vectors, name, similarity, workers.map).hashes for name, vectors in sets.items()}
        return Matched(sets["bank"], sets.get("items"), sets.get("queries"), hashes, similarity)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say where most bank queries are items, by mistake or for want of queries."""
        found = int(np.isin(self.hashes["bank"], self.hashes["items"]).sum()) if self.items is not None else 0
        if 2 * found < len(self.bank):
            return ()
        return (f"{found:,} of {len(self.bank):,} bank queries are items: a bank is past queries, so give those.",)
