"""Inputs checked against each other and against a correction, once: all of one width, the items those of its fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Ids, Kind
from unhub.compute.workers import Workers
from unhub.correction import Bias, Correction
from unhub.data.fingerprint import CheckedOnce, Fingerprint, Hashes, inspect
from unhub.data.ids import positions_of
from unhub.data.similarity import check_similarity
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.methods import Method

ONE_MODEL = "embed both with one model"
ALL_ROWS_DIFFER = ". Every row differs: are they in another precision (float16 for float32), or scaled to length one?"


class OtherContents(ArgumentError):
    """Items with the ids of those a correction was fitted on, but with other contents."""


def checked_once(value: VectorsLike, name: str) -> CheckedOnce:
    """Return what a user gives as vectors that are checked and hashed once, however many functions they reach.

    Every public function that passes its vectors on to others begins with this.
    """
    vectors = as_vectors(value, name)
    return vectors if isinstance(vectors, CheckedOnce) else CheckedOnce(vectors)


def checked_now(value: VectorsLike, name: str, similarity: Kind, threads: int | None = None) -> CheckedOnce:
    """Return vectors as `checked_once` does, with every row checked already: parts of them need not be again."""
    vectors = checked_once(value, name)
    inspect(vectors, name, similarity, Workers(threads).map)
    return vectors


def check_widths(sets: Mapping[str, Vectors], against: str) -> None:
    """Raise unless all sets, by name, are as wide as the one of the name `against`."""
    width = sets[against].dimensions
    for name, vectors in sets.items():
        if vectors.dimensions != width:
            raise ArgumentError(name, f"has {vectors.dimensions} dimensions, {against} {width}", ONE_MODEL)


def vector_similarity(correction: Correction) -> Kind:
    """Return the similarity of the vectors a correction was fitted on; one fitted on a given matrix has none."""
    if correction.source.similarity == "given":
        raise ArgumentError(
            "correction",
            f"{correction.spec} was fitted on a given similarity matrix, which says nothing of vectors",
            "apply it to a matrix of scores",
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
        raise ArgumentError(
            "items",
            f"has {items.dimensions} dimensions, the correction was fitted on {correction.source.dimensions}",
            "use the model it was fitted with, or refit",
        )
    places = _places(items.ids, correction.ids)
    unit_length = False
    if hashes is None:
        hashes, unit_length = inspect(items, "items", similarity, Workers(threads).map)
    differ = np.flatnonzero(hashes != correction.item_hashes[places])
    if len(differ):
        row = int(differ[0])
        raise OtherContents(
            "items",
            f"has other contents in row {row}, item {items.ids[row].item()!r}, than the correction was fitted on, and "
            f"in {len(differ) - 1} more of {len(items)} rows",
            "refit or extend the correction, or give the ids of rows in another order"
            f"{ALL_ROWS_DIFFER if len(differ) == len(items) else ''}",
        )
    return Located(places, unit_length)


def _places(ids: Ids, fitted: Ids) -> NDArray[np.int64]:
    if len(ids) <= len(fitted) and np.array_equal(ids, fitted[: len(ids)]):
        return np.arange(len(ids))
    if ids.dtype.kind == fitted.dtype.kind:
        unknown = np.flatnonzero(~np.isin(ids, fitted))
        if len(unknown):
            raise ArgumentError(
                "items",
                f"has {len(unknown)} of {len(ids)} rows that are not in the correction, for example "
                f"{ids[unknown[0]].item()!r}",
                "refit or extend the correction, or give the ids that the items had in the fit",
            )
    return positions_of(ids, fitted, "items")


def in_fitted_order(items: Vectors, correction: Correction, threads: int | None = None) -> Vectors:
    """Return the items in the order of the correction, which must have been fitted on exactly these."""
    places, unit_length = locate(items, correction, threads)
    if len(items) < len(correction):
        missing = np.setdiff1d(np.arange(len(correction)), places)
        raise ArgumentError(
            "items",
            f"lacks {len(missing)} of the {len(correction)} items of the correction, for example "
            f"{correction.ids[missing[0]].item()!r}",
            "give them all, or remove the missing ones from the correction",
        )
    # Corrections other than a bias look for equal scores, which rows of almost length one do not give.
    items = items.seen(unit_length and isinstance(correction, Bias))
    return items if np.all(places[1:] > places[:-1]) else items.gather(np.argsort(places))


def prepare_queries(queries: VectorsLike, correction: Correction) -> Float32:
    """Return queries ready to multiply, (queries, dimensions): finite, and of unit length under cosine."""
    similarity = vector_similarity(correction)
    if isinstance(queries, np.ndarray) and queries.ndim == 1:
        raise ArgumentError(
            "queries", f"must be (queries, dimensions), got shape {queries.shape}", "give one query as a single row"
        )
    if isinstance(queries, np.ndarray) and queries.shape == (0, correction.source.dimensions):
        return np.empty(queries.shape, np.float32)  # no queries get no answers: not a mistake
    vectors = as_vectors(queries, "queries")
    if vectors.dimensions != correction.source.dimensions:
        raise ArgumentError(
            "queries", f"has {vectors.dimensions} dimensions, items {correction.source.dimensions}", ONE_MODEL
        )
    inspect(vectors, "queries", similarity)
    return vectors.unit_block(0, len(vectors), similarity)


def check_whole(correction: Correction, weights: Float64) -> None:
    """Raise where a correction that is not a bias gets a weight other than 1."""
    if not isinstance(correction, Bias) and np.any(weights != 1):
        raise not_weighed(correction)


def not_weighed(correction: Correction) -> ArgumentError:
    """Return the error of a strength other than 1 for a correction that is not a bias."""
    return ArgumentError("strength", f"must be 1 for {correction.spec}, since only a bias can be weighed")


def kind_of(fitted: Bias) -> Kind:
    """Return the similarity of the vectors a correction was fitted on."""
    return cast("Kind", fitted.source.similarity)


def check_dimensions(fitted: Bias, vectors: Vectors, name: str) -> None:
    """Raise unless the vectors are as wide as those of the fit."""
    if vectors.dimensions != fitted.source.dimensions:
        raise ArgumentError(
            name,
            f"has {vectors.dimensions} dimensions, the correction {fitted.source.dimensions}",
            "embed it with the model of the fit",
        )


def checked_new_items(fitted: Bias, new_items: VectorsLike) -> tuple[Vectors, Hashes]:
    """Return new items, numbered on from the highest id where they have none, and the hashes of their contents."""
    added = as_vectors(new_items, "new_items")
    check_dimensions(fitted, added, "new_items")
    if not isinstance(new_items, Vectors):
        if fitted.ids.dtype.kind != "i":
            raise ArgumentError(
                "new_items", "has no ids, and the fitted items have names", "give ids with the new items"
            )
        added = Vectors(np.arange(len(added)) + int(fitted.ids.max()) + 1, added.rows)
    return added, inspect(added, "new_items", kind_of(fitted)).hashes


def copies_among(fitted: Bias, added: Vectors, hashes: Hashes, named: bool) -> tuple[str, ...]:
    """Return a note on new items with the contents of old ones; the whole old gallery without names is a mistake."""
    if not named and len(fitted) > 1 and np.array_equal(hashes[: len(fitted)], fitted.item_hashes):
        raise ArgumentError(
            "new_items",
            f"begins with the {len(fitted)} items that the correction already has",
            f"give only the new ones, from row {len(fitted)} on",
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
        raise ArgumentError(
            "items", f"has {len(gallery)} rows, the correction was fitted on {len(fitted)}", "give the items of the fit"
        )
    if isinstance(items, Vectors) and not np.array_equal(gallery.ids, fitted.ids):
        raise ArgumentError("items", "has other ids, or another order, than the correction was fitted on")
    differ = np.flatnonzero(inspect(gallery, "items", kind_of(fitted)).hashes != fitted.item_hashes)
    if len(differ):
        raise ArgumentError(
            "items",
            f"has other contents in {len(differ)} rows, the first at {differ[0]}, than the correction was fitted on",
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
        raise ArgumentError("bank_items", f"is missing, and {fitted.method.name!r} was fitted with it", "give it again")
    targets = as_vectors(bank_items, "bank_items")
    _check_print(fitted, targets, fitted.source.bank_items, "bank_items")
    return targets


def _check_print(fitted: Bias, vectors: Vectors, stored: Fingerprint | None, name: str) -> None:
    check_dimensions(fitted, vectors, name)
    given = Fingerprint.of(inspect(vectors, name, kind_of(fitted)).hashes)
    if stored is None:
        return  # raw may do without
    if given.count != stored.count:
        raise ArgumentError(
            name, f"has {given.count} rows, the correction was fitted on {stored.count}", "give those of the fit"
        )
    if given != stored:
        raise ArgumentError(name, "has other contents, or another order, than the one the correction was fitted on")


@dataclass(frozen=True, eq=False)
class Matched:
    """A bank, and items, queries and bank items where they are given: all of one width, with a hash of each row."""

    bank: CheckedOnce
    items: CheckedOnce | None
    queries: CheckedOnce | None
    bank_items: CheckedOnce | None
    hashes: dict[str, Hashes]
    kind: Kind

    @staticmethod
    def of(
        bank: VectorsLike,
        items: VectorsLike | None,
        queries: VectorsLike | None,
        similarity: Kind,
        threads: int | None,
        bank_items: VectorsLike | None = None,
    ) -> Matched:
        """Check what a user gives, every row of it."""
        check_similarity(similarity)
        given = {"bank": bank, "items": items, "queries": queries, "bank_items": bank_items}
        sets = {name: checked_once(value, name) for name, value in given.items() if value is not None}
        check_widths(sets, against="bank")
        workers = Workers(threads)
        hashes = {name: inspect(vectors, name, similarity, workers.map).hashes for name, vectors in sets.items()}
        return Matched(sets["bank"], sets.get("items"), sets.get("queries"), sets.get("bank_items"), hashes, similarity)

    @property
    def leaked(self) -> int:
        """How many queries are in the bank, number for number."""
        return int(np.isin(self.hashes["queries"], self.hashes["bank"]).sum()) if self.queries is not None else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """A note where most bank queries are items, by mistake or because there were no past queries."""
        found = int(np.isin(self.hashes["bank"], self.hashes["items"]).sum()) if self.items is not None else 0
        if 2 * found < len(self.bank):
            return ()
        return (f"{found:,} of {len(self.bank):,} bank queries are items: a bank is past queries, so give those.",)
