"""Upkeep: a fitted correction follows its items and its bank: extend, remove, merge. Each returns a new correction."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.bank import vector_bank
from unhub.correction import Bias, Correction, Cost, Plan
from unhub.effort import Effort, Progress
from unhub.fingerprint import Fingerprint, inspect
from unhub.fitting import centred
from unhub.methods import Method
from unhub.methods.inverted_softmax import DynamicInvertedSoftmax, gate
from unhub.methods.method import PER_ITEM, Outcome
from unhub.methods.sinkhorn import Balanced, DualBankSinkhorn
from unhub.passes import Want, reduce
from unhub.similarity import Dot
from unhub.vectors import Float64, Kind, Vectors, VectorsLike, as_vectors, join_ids, positions_of


def extend(
    correction: Correction, new_items: VectorsLike, bank: VectorsLike, *, bank_items: VectorsLike | None = None,
    items: VectorsLike | None = None, warm: int = 0, threads: int | None = None, progress: Progress | None = None,
) -> Correction:  # fmt: skip
    """Return the correction with more items, at the cost of those items alone; `bank` is the one it was fitted on.

    Equal to a refit, up to the one constant, for every method but sn and dbsn, whose new rows follow the old queries'
    alpha. There, `warm` iterations over everything (which need the old `items` too) bring back the balance.
    """
    fitted = _bias(correction, "extend")
    effort = Effort(threads, progress=progress)
    added, added_hashes = _new_items(fitted, new_items)
    old = _same_items(fitted, items) if items is not None else None
    queries, targets = _same_bank(fitted, bank, bank_items)
    new = vector_bank(added, queries, targets, _kind(fitted))
    outcome = _method(fitted).extended(fitted.arrays, new, effort)
    h = np.concatenate([fitted.bias, cast("Float64", outcome.h) - fitted.offset])
    grown = dataclasses.replace(
        fitted,
        ids=join_ids(fitted.ids, added.ids),
        item_hashes=np.concatenate([fitted.item_hashes, added_hashes]),
        arrays={**fitted.arrays, **outcome.arrays, "bias": h},
        cost=_cost(effort, fitted),
    )
    return _warmed(grown, old.stack(added) if old else None, queries, targets, warm, effort)


def remove(
    correction: Correction, ids: ArrayLike, *, items: VectorsLike | None = None, bank: VectorsLike | None = None,
    bank_items: VectorsLike | None = None, warm: int = 0, threads: int | None = None, progress: Progress | None = None,
) -> Correction:  # fmt: skip
    """Return the correction without these items.

    Rows are dropped, which is equal to a refit, up to the one constant, for all but sn and dbsn (`warm` iterations mend
    those). dis needs `items` and `bank` where a removed item was among the best of a bank query.
    """
    gone = positions_of(ids, correction.ids, "ids")
    stays = np.setdiff1d(np.arange(len(correction)), gone)
    if len(stays) == 0:
        raise ValueError(f"ids names all {len(correction)} items; a correction needs at least one")
    if isinstance(correction, Plan):
        return dataclasses.replace(correction, ids=correction.ids[stays], item_hashes=correction.item_hashes[stays])
    fitted = _bias(correction, "remove from")
    effort = Effort(threads, progress=progress)
    left = _same_items(fitted, items).gather(stays) if items is not None else None
    queries, targets = _same_bank(fitted, bank, bank_items) if bank is not None else (None, None)
    arrays = {name: array[stays] if name in PER_ITEM else array for name, array in fitted.arrays.items()}
    if isinstance(fitted.method, DynamicInvertedSoftmax):
        arrays.update(_best_without(fitted, stays, left, queries, effort))
    smaller = dataclasses.replace(
        fitted,
        ids=fitted.ids[stays],
        item_hashes=fitted.item_hashes[stays],
        arrays=arrays,
        cost=_cost(effort, fitted),
    )
    return _warmed(smaller, left, queries, targets, warm, effort)


def merge(
    correction: Correction, items: VectorsLike, more_bank: VectorsLike, *, bank_items: VectorsLike | None = None,
    threads: int | None = None, progress: Progress | None = None,
) -> Correction:  # fmt: skip
    """Return the correction as if its bank had `more_bank` after it; `items` are those it was fitted on.

    Equal to a refit with the parameters of the fit (a k that was clipped stays so), but for sn and dbsn: there the new
    queries are balanced by themselves and h is averaged. csls, nnn and dualis want to be fitted with mergeable=True.
    """
    fitted = _bias(correction, "merge into")
    effort = Effort(threads, progress=progress)
    gallery = _same_items(fitted, items)
    more = as_vectors(more_bank, "more_bank")
    _check_dimensions(fitted, more, "more_bank")
    hashes = inspect(more, "more_bank", _kind(fitted))
    old_bank = cast("Fingerprint", fitted.source.bank)
    targets = _same_targets(fitted, bank_items) if isinstance(fitted.method, DualBankSinkhorn) else None
    new = vector_bank(gallery, more, targets, _kind(fitted))
    uncentred = fitted.bias + fitted.offset
    outcome = _method(fitted).merged(uncentred, fitted.arrays, old_bank.count, new, effort)
    bias, offset = centred(cast("Float64", outcome.h))
    return dataclasses.replace(
        fitted,
        source=dataclasses.replace(fitted.source, bank=old_bank.followed_by(hashes)),
        arrays={**fitted.arrays, **outcome.arrays, "bias": bias},
        offset=offset,
        cost=_cost(effort, fitted, outcome),
    )


def _best_without(
    fitted: Bias, stays: NDArray[np.int64], left: Vectors | None, queries: Vectors | None, effort: Effort
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
            raise ValueError(
                f"dis: {len(hurt)} bank queries had a removed item among their best and must look again; "
                "give unhub.remove items= (as before the removal) and bank="
            )
        found = reduce(Dot(queries.gather(hurt), left, _kind(fitted)), Want(best_items=known.shape[1]), effort)
        best[hurt], scores[hurt] = found.best_items, found.best_scores
    return gate(best, scores, len(stays))


def _warmed(
    fitted: Bias, items: Vectors | None, queries: Vectors | None, targets: Vectors | None, warm: int, effort: Effort
) -> Bias:
    """Run some Sinkhorn iterations from where the correction stands."""
    method = fitted.method
    _check_warm(warm)
    if warm == 0 or not isinstance(method, Balanced):
        return fitted
    if items is None or queries is None:
        raise ValueError(f"{method.name}: warm={warm} iterations go over everything; give items= and bank= too")
    bank = vector_bank(items, queries, targets, _kind(fitted))
    outcome = method.warmed(fitted.bias + fitted.offset, fitted.arrays, bank, effort, warm)
    bias, offset = centred(cast("Float64", outcome.h))
    arrays = {**fitted.arrays, **outcome.arrays, "bias": bias}
    return dataclasses.replace(fitted, arrays=arrays, offset=offset, cost=_cost(effort, fitted, outcome))


def _bias(correction: Correction, verb: str) -> Bias:
    if not isinstance(correction, Bias):
        raise ValueError(f"cannot {verb} a correction of {correction.spec}: refit")
    if correction.source.similarity == "given":
        raise ValueError(f"cannot {verb} a correction that was fitted from a given matrix: refit")
    return correction


def _check_warm(warm: int) -> None:
    if type(warm) is not int or warm < 0:
        raise ValueError(f"warm must be a whole number of at least 0, got {warm!r}")


def _method(fitted: Bias) -> Method:
    return cast("Method", fitted.method)


def _kind(fitted: Bias) -> Kind:
    return cast("Kind", fitted.source.similarity)


def _check_dimensions(fitted: Bias, vectors: Vectors, name: str) -> None:
    if vectors.dimensions != fitted.source.dimensions:
        raise ValueError(f"{name} has {vectors.dimensions} dimensions, the correction {fitted.source.dimensions}")


def _new_items(fitted: Bias, new_items: VectorsLike) -> tuple[Vectors, NDArray[np.uint64]]:
    added = as_vectors(new_items, "new_items")
    _check_dimensions(fitted, added, "new_items")
    if not isinstance(new_items, Vectors):
        if fitted.ids.dtype.kind != "i":
            raise ValueError("new_items need ids, since the fitted items have names: Vectors(ids, rows)")
        added = Vectors(np.arange(len(added)) + int(fitted.ids.max()) + 1, added.rows)
    return added, inspect(added, "new_items", _kind(fitted))


def _same_items(fitted: Bias, items: VectorsLike) -> Vectors:
    """Return the items, which must be those the correction was fitted on, in the same order."""
    gallery = as_vectors(items, "items")
    _check_dimensions(fitted, gallery, "items")
    if len(gallery) != len(fitted):
        raise ValueError(f"items has {len(gallery)} rows, the correction was fitted on {len(fitted)}")
    if isinstance(items, Vectors) and not np.array_equal(gallery.ids, fitted.ids):
        raise ValueError("items have other ids, or another order, than those the correction was fitted on")
    differ = np.flatnonzero(inspect(gallery, "items", _kind(fitted)) != fitted.item_hashes)
    if len(differ):
        raise ValueError(
            f"items: {len(differ)} rows, the first at {differ[0]}, have other contents than those of the fit"
        )
    return Vectors(fitted.ids, gallery.rows)


def _same_bank(fitted: Bias, bank: VectorsLike, bank_items: VectorsLike | None) -> tuple[Vectors, Vectors | None]:
    """Return the bank and the bank items, which must be those the correction was fitted on."""
    queries = as_vectors(bank, "bank")
    _check_print(fitted, queries, fitted.source.bank, "bank")
    return queries, _same_targets(fitted, bank_items)


def _same_targets(fitted: Bias, bank_items: VectorsLike | None) -> Vectors | None:
    used = cast("Method", fitted.method).dual or isinstance(fitted.method, DualBankSinkhorn)
    if fitted.source.bank_items is None or not used:
        return None
    if bank_items is None:
        raise ValueError(f"{fitted.method.name} was fitted with bank_items; give them again")
    targets = as_vectors(bank_items, "bank_items")
    _check_print(fitted, targets, fitted.source.bank_items, "bank_items")
    return targets


def _check_print(fitted: Bias, vectors: Vectors, stored: Fingerprint | None, name: str) -> None:
    _check_dimensions(fitted, vectors, name)
    given = Fingerprint.of(inspect(vectors, name, _kind(fitted)))
    if stored is not None and given.count != stored.count:
        raise ValueError(f"{name} has {given.count} rows, the correction was fitted on {stored.count}")
    if given != stored:
        raise ValueError(f"{name} has other contents, or another order, than the one the correction was fitted on")


def _cost(effort: Effort, fitted: Bias, outcome: Outcome | None = None) -> Cost:
    """Return what the change cost; how far the balance got is stated only where it was run again."""
    done = outcome or Outcome()
    return dataclasses.replace(
        fitted.cost, passes=effort.passes, seconds=effort.seconds, peak_memory=effort.peak_memory, kept=done.kept,
        iterations=done.iterations, row_error=done.row_error, column_error=done.column_error,
    )  # fmt: skip
