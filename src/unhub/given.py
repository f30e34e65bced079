"""What upkeep is given, checked against the correction: the bank and items of the fit, and items that are new."""

from __future__ import annotations

from typing import cast

import numpy as np

from unhub.correction import Bias
from unhub.fingerprint import Fingerprint, Hashes, inspect
from unhub.methods import Method
from unhub.vectors import Kind, Vectors, VectorsLike, as_vectors


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
