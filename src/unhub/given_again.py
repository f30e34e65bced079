"""Given again: the sets that a correction was fitted on, known by its hashes when upkeep is given them once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Ids, Kind, are_among
from unhub.compute.workers import Workers
from unhub.correction import Bias
from unhub.data.fingerprint import Fingerprint, Hashes, inspect
from unhub.data.ids import positions_of
from unhub.data.vectors import Gathered, HasSource, HoldsVectors, Stacked, Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.methods import Method

GIVE_FITTED_REMEDY = "give what the correction was fitted on"
NOT_IN_CORRECTION = "items in the store are not in the correction; extend it by them"
UNCHANGED = "items have the contents of the fit and stay as they are"
LEFT_OUT = "are not of the fit and were left out"
OTHER_WEIGHTS = "are those of the fit; the others that were given do not count"


def kind_of(fitted: Bias) -> Kind:
    """Return the similarity of the vectors a correction was fitted on."""
    return cast("Kind", fitted.source.similarity)


def inspected(fitted: Bias, vectors: Vectors, name: str) -> Hashes:
    """Check vectors under the similarity of a fit, and return the hashes of their rows."""
    return inspect(vectors, name, kind_of(fitted), Workers(1).spread).hashes


def check_dimensions(fitted: Bias, vectors: Vectors, name: str) -> None:
    """Raise unless the vectors have as many dimensions as those of the fit."""
    if vectors.dimensions != fitted.source.dimensions:
        raise ArgumentError(
            name,
            f"has {vectors.dimensions} dimensions, the correction {fitted.source.dimensions}",
            "embed it with the model of the fit",
        )


def not_yet_in(fitted: Bias, held: Vectors) -> Vectors | None:
    """Return those items that a correction does not have yet, by their ids; None if it has them all."""
    if held.ids.dtype.kind != fitted.ids.dtype.kind:
        return held  # `join_ids` says what is wrong with them
    new = np.flatnonzero(~np.isin(held.ids, fitted.ids))
    return held.gather(new) if len(new) else None


def checked_new_items(fitted: Bias, new_items: VectorsLike) -> tuple[Vectors, Hashes]:
    """Return new items and the hashes of their rows; items without ids are numbered from the highest id on."""
    added = as_vectors(new_items, "new_items")
    check_dimensions(fitted, added, "new_items")
    if not isinstance(new_items, Vectors):
        if fitted.ids.dtype.kind != "i":
            raise ArgumentError(
                "new_items", "has no ids, but the ids of the fitted items are strings", "give ids with the new items"
            )
        added = Vectors(np.arange(len(added)) + int(fitted.ids.max()) + 1, added.rows)
    if added.ids.dtype.kind == fitted.ids.dtype.kind and (known := np.isin(added.ids, fitted.ids)).any():
        count, some = int(known.sum()), added.ids[int(known.argmax())].item()
        problem = f"has {count:,} of {len(added):,} items that the correction has already, for example {some!r}"
        raise ArgumentError("new_items", problem, "give only the new ones; replace those whose vectors changed")
    return added, inspected(fitted, added, "new_items")


def copies_among(fitted: Bias, added: Vectors, hashes: Hashes, named: bool) -> tuple[str, ...]:
    """Return a note on new items that copy old ones; raise if they begin with all the old items, without ids."""
    if not named and len(fitted) > 1 and np.array_equal(hashes[: len(fitted)], fitted.item_hashes):
        raise ArgumentError(
            "new_items",
            f"begins with the {len(fitted)} items that the correction already has",
            f"give only the new ones, from row {len(fitted)} on",
        )
    order = np.argsort(hashes)  # sort the few new ones, not the many old ones
    places = np.minimum(np.searchsorted(hashes, fitted.item_hashes, sorter=order), len(hashes) - 1)
    old = np.flatnonzero(hashes[order[places]] == fitted.item_hashes)
    if not len(old):
        return ()
    count = int(are_among(hashes, fitted.item_hashes[old]).sum())
    new, known = (ids.item() for ids in (added.ids[order[places[old[0]]]], fitted.ids[old[0]]))
    return (f"{count} of {len(added)} new items have the contents of old ones: {new!r} is a copy of {known!r}",)


def same_items(fitted: Bias, items: VectorsLike, places: NDArray[np.int64] | None = None) -> Vectors:
    """Return the items of the fit in its order, or those at some places; raise unless all are among what is given.

    Items with ids are taken by these, and so are the rows of an array that is longer than the fit, by their numbers.
    """
    gallery = as_vectors(items, "items")
    check_dimensions(fitted, gallery, "items")
    named = isinstance(items, Vectors | HoldsVectors)
    if not named and (len(gallery) < len(fitted) or (len(gallery) > len(fitted) and fitted.ids.dtype.kind != "i")):
        raise ArgumentError(
            "items", f"has {len(gallery)} rows, the correction was fitted on {len(fitted)}", GIVE_FITTED_REMEDY
        )
    wanted = fitted.ids if places is None else fitted.ids[places]
    if named or len(gallery) > len(fitted):
        gallery = rows_named(gallery, wanted, "items")
    elif places is not None:
        gallery = gallery.gather(places)
    hashes = fitted.item_hashes if places is None else fitted.item_hashes[places]
    differ = np.flatnonzero(inspected(fitted, gallery, "items") != hashes)
    if len(differ):
        first = f"of item {wanted[differ[0]].item()!r}" if named else f"at {differ[0]}"
        raise ArgumentError(
            "items", f"differs from the items of the fit in {len(differ)} rows, the first {first}", GIVE_FITTED_REMEDY
        )
    return Vectors(wanted, gallery.rows)


def rows_named(held: Vectors, wanted: Ids, name: str) -> Vectors:
    """Return the rows of these items of a correction, by their ids; raise if one is missing."""
    missing = wanted if held.ids.dtype.kind != wanted.dtype.kind else wanted[~are_among(wanted, held.ids)]
    if len(missing):
        problem = f"lacks {len(missing):,} of the {len(wanted):,} items of the correction, for example "
        raise ArgumentError(name, f"{problem}{missing[0].item()!r}", "give them all, under the ids of the fit")
    return held if np.array_equal(held.ids, wanted) else held.among(wanted)


class Changed(NamedTuple):
    """Items with new contents, in the order of the correction: their hashes, their places in it, and notes.

    given: how many items were looked at.
    """

    items: Vectors
    hashes: Hashes
    places: NDArray[np.int64]
    given: int
    notes: tuple[str, ...] = ()


def changed_items(fitted: Bias, changed: VectorsLike) -> Changed:
    """Return those of the items whose contents are not those of the fit; of a store, those that the fit has."""
    notes: tuple[str, ...] = ()
    if isinstance(changed, HasSource):
        held = changed.source().vectors()
        unknown = not_yet_in(fitted, held)
        if unknown is not None:
            notes = (f"{len(unknown):,} of {len(held):,} {NOT_IN_CORRECTION}",)
            held = held.among(held.ids[~are_among(held.ids, unknown.ids)])
    elif isinstance(changed, Vectors | HoldsVectors):
        held = as_vectors(changed, "changed")
    else:
        raise ArgumentError("changed", "has no ids", "give unhub.Vectors(ids, rows), with the ids of the fit")
    check_dimensions(fitted, held, "changed")
    strange = not_yet_in(fitted, held)
    if strange is not None:
        problem = f"has {len(strange):,} items that the correction lacks, for example {strange.ids[0].item()!r}"
        raise ArgumentError("changed", problem, "extend the correction by them, and replace only what it has")
    places = positions_of(held.ids, fitted.ids, "changed")
    hashes = inspected(fitted, held, "changed")
    rows = np.flatnonzero(hashes != fitted.item_hashes[places])
    if len(rows) < len(held):
        notes += (f"{len(held) - len(rows):,} of {len(held):,} {UNCHANGED}",)
    rows = rows[np.argsort(places[rows])]
    return Changed(held.gather(rows), hashes[rows], places[rows], len(held), notes)


class GivenBank(NamedTuple):
    """The bank of a fit as it was given again: in the order of the fit and with its weights; bank items; and notes."""

    queries: Vectors
    targets: Vectors | None
    notes: tuple[str, ...] = ()


def same_bank(
    fitted: Bias, bank: VectorsLike | Sequence[VectorsLike], bank_items: VectorsLike | None = None
) -> GivenBank:
    """Return the bank and the bank items; raise unless every query of the fit is among what is given.

    bank: vectors, or several that are taken together, in any order. Queries that the fit did not have are left out.
    """
    queries = _as_one_bank(bank)
    check_dimensions(fitted, queries, "bank")
    source, hashes = fitted.source, inspected(fitted, queries, "bank")
    if source.bank_rows is None:
        _check_print(fitted, queries, source.bank, "bank")
        return GivenBank(queries, same_bank_items(fitted, bank_items))
    if np.array_equal(hashes, source.bank_rows.hashes):
        places = np.arange(len(hashes))
    else:
        places = source.bank_rows.places_in(hashes)
    missing = int((places < 0).sum())
    if missing:
        problem = f"lacks {missing:,} of the {len(places):,} queries that the correction was fitted on"
        raise ArgumentError("bank", problem, "give all that was fitted on and merged, in any order, or refit")
    weights, notes = source.bank_rows.weights, []
    strange = len(queries) - int(are_among(hashes, source.bank_rows.hashes).sum())
    if strange:
        notes.append(f"{strange:,} of {len(queries):,} queries of the bank {LEFT_OUT}")
    if queries.weights is not None and not np.array_equal(queries.weights[places], _counts(weights, len(places))):
        notes.append(f"the weights of the bank {OTHER_WEIGHTS}")
    if not np.array_equal(places, np.arange(len(queries))):
        queries = Vectors(np.arange(len(places)), Gathered(queries.rows, places))  # a query may stand there twice
    return GivenBank(queries.weighing(weights), same_bank_items(fitted, bank_items), tuple(notes))


def _counts(weights: Float64 | None, count: int) -> Float64:
    return np.ones(count) if weights is None else weights


def _as_one_bank(bank: VectorsLike | Sequence[VectorsLike]) -> Vectors:
    """Return a bank; of a list of several, all their queries."""
    parts = sets_of(bank, "bank")
    widths = sorted({one.dimensions for one in parts})
    if len(widths) > 1:
        problem = f"has parts of {' and '.join(map(str, widths))} dimensions"
        raise ArgumentError("bank", problem, "give what was embedded with the model of the fit")
    if len(parts) == 1:
        return parts[0]
    weights = None
    if any(one.weights is not None for one in parts):
        weights = np.concatenate([_counts(one.weights, len(one)) for one in parts])
    rows = Stacked([one.rows for one in parts])
    return Vectors(np.arange(rows.shape[0]), rows, weights)


def sets_of(given: VectorsLike | Sequence[VectorsLike], name: str) -> list[Vectors]:
    """Return one set of vectors, or each of a list of several."""
    sets = given if isinstance(given, list | tuple) and given and all(map(_is_a_set, given)) else [given]
    return [as_vectors(cast("VectorsLike", one), name) for one in sets]


def _is_a_set(value: object) -> bool:
    """Return whether an entry of a list is a set of vectors, and not one vector."""
    return isinstance(value, Vectors | HoldsVectors) or getattr(value, "ndim", 0) == 2


def same_bank_items(fitted: Bias, bank_items: VectorsLike | None) -> Vectors | None:
    """Return the bank items; raise unless they are those of the fit. None if the method uses none."""
    method = cast("Method", fitted.method)
    if fitted.source.bank_items is None or not (method.dual or method.joint):
        return None
    if bank_items is None:
        raise ArgumentError(
            "bank_items", f"is missing, and {fitted.method.name!r} was fitted with bank items", "give them again"
        )
    targets = as_vectors(bank_items, "bank_items")
    _check_print(fitted, targets, fitted.source.bank_items, "bank_items")
    return targets


def _check_print(fitted: Bias, vectors: Vectors, stored: Fingerprint | None, name: str) -> None:
    check_dimensions(fitted, vectors, name)
    given = Fingerprint.of(inspected(fitted, vectors, name), vectors.weights)
    if stored is None:
        return  # 'raw' needs no bank
    if given.count != stored.count:
        raise ArgumentError(
            name, f"has {given.count} rows, the correction was fitted on {stored.count}", GIVE_FITTED_REMEDY
        )
    if given != stored:
        if (given.weight is None) != (stored.weight is None):
            has, had = ("has no", "with") if given.weight is None else ("has", "without")
            raise ArgumentError(name, f"{has} weights, but the correction was fitted {had} weights", GIVE_FITTED_REMEDY)
        what = "contents or their order" if stored.weight is None else "contents, weights or their order"
        raise ArgumentError(name, f"differs from the one of the fit in its {what}", GIVE_FITTED_REMEDY)
