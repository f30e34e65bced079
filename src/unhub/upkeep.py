"""Upkeep: a fitted correction follows its items and its bank: extend, remove, merge. Each returns a new correction."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float64
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Progress, Workers
from unhub.correction import Bias, Correction, Cost, Plan, check_correction
from unhub.data.bank import vector_bank
from unhub.data.fingerprint import Fingerprint, inspect
from unhub.data.ids import join_ids, positions_of
from unhub.data.kept_arrays import per_item
from unhub.data.similarity import Dot
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.fitting import centred
from unhub.matching import (
    check_dimensions,
    checked_new_items,
    copies_among,
    kind_of,
    same_bank,
    same_bank_items,
    same_items,
)
from unhub.methods import Method
from unhub.methods.inverted_softmax import DynamicInvertedSoftmax, gate
from unhub.methods.method import Outcome
from unhub.methods.sinkhorn import Balanced


def extend(
    correction: Correction, new_items: VectorsLike, bank: VectorsLike, *, bank_items: VectorsLike | None = None,
    items: VectorsLike | None = None, warm: int = 0, threads: int | None = None, progress: Progress | None = None,
) -> Correction:  # fmt: skip
    """Return the correction with more items, at the cost of those items alone; `bank` is the one it was fitted on.

    Equal to a refit, up to the one constant, for every method but sn and dbsn, whose new rows follow the old queries'
    alpha. There, `warm` iterations over everything (which need the old `items` too) bring back the balance. New items
    with the contents of old ones are taken in, and the cost's notes name one.
    """
    fitted = _bias(correction, "extend")
    warms = _warms(fitted, warm, items, bank)
    workers = Workers(threads, progress=progress)
    added, added_hashes = checked_new_items(fitted, new_items)
    notes = copies_among(fitted, added, added_hashes, named=isinstance(new_items, Vectors))
    old = same_items(fitted, items) if items is not None else None
    queries, targets = same_bank(fitted, bank, bank_items)
    new = vector_bank(added, queries, targets, kind_of(fitted))
    outcome = _method(fitted).extended(fitted.arrays, new, workers)
    h = np.concatenate([fitted.bias, cast("Float64", outcome.h) - fitted.offset])
    grown = dataclasses.replace(
        fitted,
        ids=join_ids(fitted.ids, added.ids),
        item_hashes=np.concatenate([fitted.item_hashes, added_hashes]),
        arrays={**fitted.arrays, **outcome.arrays, "bias": h},
        cost=_cost(workers, fitted, notes=notes),
    )
    return _warmed(grown, old.stack(added), queries, targets, warm, workers) if warms and old else grown


def remove(
    correction: Correction, ids: ArrayLike, *, items: VectorsLike | None = None, bank: VectorsLike | None = None,
    bank_items: VectorsLike | None = None, warm: int = 0, threads: int | None = None, progress: Progress | None = None,
) -> Correction:  # fmt: skip
    """Return the correction without these items.

    Rows are dropped, which is equal to a refit, up to the one constant, for all but sn and dbsn (`warm` iterations mend
    those). dis needs `items` and `bank` where a removed item was among the best of a bank query. Where the fit was on a
    given matrix, neither is taken.
    """
    check_correction(correction, "remove from")
    warms = _warms(correction, warm, items, bank)
    gone = positions_of(ids, correction.ids, "ids")
    stays = np.setdiff1d(np.arange(len(correction)), gone)
    if len(stays) == 0:
        raise ValueError(f"ids names all {len(correction)} items; a correction needs at least one")
    if isinstance(correction, Plan):
        return dataclasses.replace(correction, ids=correction.ids[stays], item_hashes=correction.item_hashes[stays])
    vectors_given = items is not None or bank is not None
    fitted = _bias(correction, "remove from", of_vectors=vectors_given)
    workers = Workers(threads, progress=progress)
    left = same_items(fitted, items).gather(stays) if items is not None else None
    queries, targets = same_bank(fitted, bank, bank_items) if bank is not None else (None, None)
    given = fitted.source.similarity == "given"
    rows = per_item({**fitted.keeps, **_method(fitted).keeps(mergeable=True, given=given)})
    arrays = {name: array[stays] if name in rows else array for name, array in fitted.arrays.items()}
    if isinstance(fitted.method, DynamicInvertedSoftmax):
        arrays.update(_best_without(fitted, stays, left, queries, workers))
    smaller = dataclasses.replace(
        fitted,
        ids=fitted.ids[stays],
        item_hashes=fitted.item_hashes[stays],
        arrays=arrays,
        cost=_cost(workers, fitted),
    )
    return _warmed(smaller, left, queries, targets, warm, workers) if warms and left and queries else smaller


def merge(
    correction: Correction, items: VectorsLike, more_bank: VectorsLike, *, bank_items: VectorsLike | None = None,
    threads: int | None = None, progress: Progress | None = None,
) -> Correction:  # fmt: skip
    """Return the correction as if its bank had `more_bank` after it; `items` are those it was fitted on.

    Equal to a refit with the parameters of the fit (a k that was clipped stays so), but for sn and dbsn: there the new
    queries are balanced by themselves and h is averaged. csls, nnn and dualis want to be fitted with mergeable=True.
    """
    fitted = _bias(correction, "merge into")
    workers = Workers(threads, progress=progress)
    gallery = same_items(fitted, items)
    more = as_vectors(more_bank, "more_bank")
    check_dimensions(fitted, more, "more_bank")
    hashes = inspect(more, "more_bank", kind_of(fitted)).hashes
    old_bank = fitted.source.bank or Fingerprint.of(hashes[:0])  # raw may do without a bank
    is_all = len(hashes) == old_bank.count
    # One query may well be asked again.
    if (is_all or old_bank.count > 1) and Fingerprint.of(hashes[: old_bank.count]) == old_bank:
        raise ValueError(
            f"more_bank {'is' if is_all else 'begins with'} the very bank of {old_bank.count} queries that the "
            f"correction was fitted on; give the new queries alone{'' if is_all else f', from row {old_bank.count} on'}"
        )
    targets = same_bank_items(fitted, bank_items) if _method(fitted).joint else None
    new = vector_bank(gallery, more, targets, kind_of(fitted))
    uncentred = fitted.bias + fitted.offset
    outcome = _method(fitted).merged(uncentred, fitted.arrays, old_bank.count, new, workers)
    bias, offset = centred(cast("Float64", outcome.h))
    return dataclasses.replace(
        fitted,
        source=dataclasses.replace(fitted.source, bank=old_bank.followed_by(hashes)),
        arrays={**fitted.arrays, **outcome.arrays, "bias": bias},
        offset=offset,
        cost=_cost(workers, fitted, outcome),
    )


def _best_without(
    fitted: Bias, stays: NDArray[np.int64], left: Vectors | None, queries: Vectors | None, workers: Workers
) -> dict[str, NDArray[np.generic]]:
    """Return each bank query's best of the items that stay; those that lost one are looked up again."""
    renumber = np.full(len(fitted), -1, np.int32)
    renumber[stays] = np.arange(len(stays), dtype=np.int32)
    known = cast("NDArray[np.int32]", fitted.arrays["best_items"])
    best = np.where(known >= 0, renumber[known], -1)
    scores = np.array(fitted.arrays["best_scores"], np.float32)
    hurt = np.flatnonzero(((best < 0) & (known >= 0)).any(axis=1))
    if len(hurt):
        if left is None or queries is None:
            vectors = "give unhub.remove items= (as before the removal) and bank="
            raise ValueError(
                f"dis: {len(hurt)} bank queries had a removed item among their best and must look again; "
                + ("refit on the matrix" if fitted.source.similarity == "given" else vectors)
            )
        found = reduce(Dot(queries.gather(hurt), left, kind_of(fitted)), Want(best_items=known.shape[1]), workers)
        best[hurt], scores[hurt] = found.best_items, found.best_scores
    return gate(best, scores, len(stays))


def _warmed(
    fitted: Bias, items: Vectors, queries: Vectors, targets: Vectors | None, warm: int, workers: Workers
) -> Bias:
    """Run some Sinkhorn iterations from where the correction stands."""
    bank = vector_bank(items, queries, targets, kind_of(fitted))
    outcome = cast("Balanced", fitted.method).warmed(fitted.bias + fitted.offset, fitted.arrays, bank, workers, warm)
    bias, offset = centred(cast("Float64", outcome.h))
    arrays = {**fitted.arrays, **outcome.arrays, "bias": bias}
    return dataclasses.replace(fitted, arrays=arrays, offset=offset, cost=_cost(workers, fitted, outcome))


def _bias(correction: Correction, verb: str, *, of_vectors: bool = True) -> Bias:
    """Return the correction, which must be one number per item, and fitted on vectors where those are at hand."""
    check_correction(correction, verb)
    if not isinstance(correction, Bias):
        raise ValueError(f"cannot {verb} a correction of {correction.spec}: refit")
    if of_vectors and correction.source.similarity == "given":
        raise ValueError(
            f"cannot {verb} a correction that was fitted from a given matrix: refit on the matrix as it is now"
        )
    return correction


def _warms(correction: Correction, warm: object, items: VectorsLike | None, bank: VectorsLike | None) -> bool:
    """Return whether there are iterations to run; what they need is asked for before anything is computed."""
    if isinstance(warm, bool) or not isinstance(warm, int | np.integer) or warm < 0:
        raise ValueError(f"warm must be a whole number of at least 0, got {warm!r}")
    method = correction.method
    if warm == 0 or not isinstance(method, Balanced):
        return False
    missing = [f"{name}=" for name, given in (("items", items), ("bank", bank)) if given is None]
    if missing:
        raise ValueError(f"{method.name}: warm={warm} iterations go over everything; give {' and '.join(missing)} too")
    return True


def _method(fitted: Bias) -> Method:
    return cast("Method", fitted.method)


def _cost(workers: Workers, fitted: Bias, outcome: Outcome | None = None, notes: tuple[str, ...] = ()) -> Cost:
    """Return what the change cost; how far the balance got, and on what, is stated only where it was run again."""
    done = outcome or Outcome(kept="nothing" if isinstance(fitted.method, Balanced) else fitted.cost.kept)
    return dataclasses.replace(
        fitted.cost, passes=workers.passes, seconds=workers.seconds, peak_memory=workers.peak_memory, kept=done.kept,
        iterations=done.iterations, row_error=done.row_error, column_error=done.column_error,
        notes=(*fitted.cost.notes, *notes),
    )  # fmt: skip
