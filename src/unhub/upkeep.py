"""Upkeep: extend a fitted correction by items, remove items, merge more bank queries; each returns a new one."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float64
from unhub.compute.machines import ON_CLUSTER, on_machines
from unhub.compute.passes import Found, Want, reduce
from unhub.compute.precision import SHORT_MULTIPLY, notes_on
from unhub.compute.sinkhorn import OFF_BALANCE
from unhub.compute.workers import Progress, Workers
from unhub.correction import Bias, Correction, Cost, Plan, Source, check_correction
from unhub.data.bank import Bank, vector_bank
from unhub.data.fingerprint import Fingerprint
from unhub.data.ids import join_ids, positions_of
from unhub.data.kept_arrays import per_item
from unhub.data.similarity import Dot
from unhub.data.vectors import HasSource, Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError, check_whole
from unhub.fitting import centred, kernel_of
from unhub.kernels import name_of
from unhub.matching import (
    check_dimensions,
    checked_new_items,
    copies_among,
    inspected,
    kind_of,
    not_yet_in,
    same_bank,
    same_bank_items,
    same_items,
)
from unhub.methods import Method
from unhub.methods.method import LookAgain, Outcome

SKIPPED = "items in the store were skipped: the correction has them"


@on_machines
def extend(
    correction: Correction,
    new_items: VectorsLike,
    bank: VectorsLike,
    *,
    bank_items: VectorsLike | None = None,
    items: VectorsLike | None = None,
    warm: int = 0,
    threads: int | None = None,
    device: str | None = None,
    precision: str | None = None,
    on: str | None = None,
    progress: Progress | None = None,
) -> Correction:
    """Return the correction with more items; only those are computed. `bank` is the one it was fitted on.

    Equal to a refit, up to one constant, for every method except sn and dbsn, whose new rows follow the old queries'
    alpha. For those, `warm` iterations over all items (which need the old `items` too) restore the balance. New items
    may copy old ones; the notes of the cost name one. Of a store, the items are added that the correction does not have
    yet, by their ids; the notes say how many were skipped. Under a live name they are those of the source. device,
    precision, on: where and how to multiply, as in `fit`.
    """
    fitted = _bias(correction, "extend")
    warms = _warms(fitted, warm, items, bank)
    workers = Workers(threads, progress=progress, device=name_of(device, precision))
    notes: tuple[str, ...] = ()
    if isinstance(new_items, HasSource):
        held = new_items.source().vectors()
        unknown = not_yet_in(fitted, held)
        skipped = len(held) - (0 if unknown is None else len(unknown))
        notes = (f"{skipped:,} of {len(held):,} {SKIPPED}",)
        if unknown is None:
            return dataclasses.replace(fitted, cost=_cost(workers, fitted, notes=notes))
        new_items = unknown
    added, added_hashes = checked_new_items(fitted, new_items)
    notes += copies_among(fitted, added, added_hashes, named=isinstance(new_items, Vectors))
    old = same_items(fitted, items) if items is not None else None
    queries, targets = same_bank(fitted, bank, bank_items)
    new = vector_bank(added, queries, targets, kind_of(fitted), workers.reads)
    outcome = _method(fitted).extended(fitted.arrays, new, workers)
    notes += _precise(fitted, new, workers)
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
    correction: Correction,
    ids: ArrayLike,
    *,
    items: VectorsLike | None = None,
    bank: VectorsLike | None = None,
    bank_items: VectorsLike | None = None,
    warm: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Correction:
    """Return the correction without these items.

    Drops rows, which equals a refit, up to one constant, for all methods except sn and dbsn (`warm` iterations restore
    their balance). dis needs `items` and `bank` if a removed item was among the best of a bank query. A correction
    fitted on a matrix takes neither.
    """
    check_correction(correction, "remove from")
    warms = _warms(correction, warm, items, bank)
    gone = positions_of(ids, correction.ids, "ids")
    stays = np.setdiff1d(np.arange(len(correction)), gone)
    if len(stays) == 0:
        raise ArgumentError("ids", f"names all {len(correction)} items, but a correction needs at least one")
    if isinstance(correction, Plan):
        return dataclasses.replace(
            correction,
            ids=correction.ids[stays],
            item_hashes=correction.item_hashes[stays],
            source=_source_of(correction, stays),
        )
    vectors_given = items is not None or bank is not None
    fitted = _bias(correction, "remove from", of_vectors=vectors_given)
    workers = Workers(threads, progress=progress)
    left = same_items(fitted, items).gather(stays) if items is not None else None
    queries, targets = same_bank(fitted, bank, bank_items) if bank is not None else (None, None)
    given = fitted.source.similarity == "given"
    rows = per_item({**fitted.keeps, **_method(fitted).keeps(mergeable=True, given=given)})
    arrays = {name: array[stays] if name in rows else array for name, array in fitted.arrays.items()}
    arrays.update(_method(fitted).removed(fitted.arrays, stays, _look_again(fitted, left, queries, workers)))
    smaller = dataclasses.replace(
        fitted,
        ids=fitted.ids[stays],
        item_hashes=fitted.item_hashes[stays],
        source=_source_of(fitted, stays),
        arrays=arrays,
        cost=_cost(workers, fitted),
    )
    return _warmed(smaller, left, queries, targets, warm, workers) if warms and left and queries else smaller


@on_machines
def merge(
    correction: Correction,
    items: VectorsLike,
    more_bank: VectorsLike,
    *,
    bank_items: VectorsLike | None = None,
    threads: int | None = None,
    device: str | None = None,
    precision: str | None = None,
    on: str | None = None,
    progress: Progress | None = None,
) -> Correction:
    """Return the correction as if `more_bank` had followed its bank; `items` are those it was fitted on.

    Equal to a refit with the parameters of the fit (a clipped k stays clipped), except for sn and dbsn: they balance
    the new queries separately and average h. csls, nnn and dualis must be fitted with mergeable=True. device,
    precision, on: where and how to multiply, as in `fit`.
    """
    fitted = _bias(correction, "merge into")
    workers = Workers(threads, progress=progress, device=name_of(device, precision))
    gallery = same_items(fitted, items)
    more = as_vectors(more_bank, "more_bank")
    check_dimensions(fitted, more, "more_bank")
    hashes = inspected(fitted, more, "more_bank")
    old_bank = fitted.source.bank or Fingerprint.of(hashes[:0])  # 'raw' needs no bank
    is_all = len(hashes) == old_bank.count
    # A single query may well be asked again, so it is no sign of the same bank.
    if (is_all or old_bank.count > 1) and Fingerprint.of(hashes[: old_bank.count]) == old_bank:
        raise ArgumentError(
            "more_bank",
            f"{'is' if is_all else 'begins with'} the bank of {old_bank.count} queries that the correction was "
            "fitted on",
            f"give only the new queries{'' if is_all else f', from row {old_bank.count} on'}",
        )
    targets = same_bank_items(fitted, bank_items) if _method(fitted).joint else None
    new = vector_bank(gallery, more, targets, kind_of(fitted), workers.reads)
    uncentred = fitted.bias + fitted.offset
    outcome = _method(fitted).merged(uncentred, fitted.arrays, old_bank.count, new, workers)
    bias, offset = centred(cast("Float64", outcome.h))
    return dataclasses.replace(
        fitted,
        source=dataclasses.replace(fitted.source, bank=old_bank.followed_by(hashes)),
        arrays={**fitted.arrays, **outcome.arrays, "bias": bias},
        offset=offset,
        cost=_cost(workers, fitted, outcome, _precise(fitted, new, workers)),
    )


def _source_of(fitted: Correction, stays: NDArray[np.int64]) -> Source:
    """Return the source of a correction of which these items stay."""
    witness = fitted.source.witness
    return dataclasses.replace(fitted.source, witness=None if witness is None else witness.among(stays))


def _look_again(fitted: Bias, left: Vectors | None, queries: Vectors | None, workers: Workers) -> LookAgain:
    """Return a function that streams some bank queries over the items that are left, if both were given."""

    def look_again(positions: NDArray[np.int64], want: Want) -> Found:
        if left is None or queries is None:
            given = fitted.source.similarity == "given"
            raise ArgumentError(
                "ids",
                f"names items that were among the best of {len(positions)} bank queries, and "
                f"{fitted.method.name!r} must find others for those",
                "refit on the matrix without them"
                if given
                else "give the items as they were before the removal, and the bank",
            )
        return reduce(Dot(queries.gather(positions), left, kind_of(fitted)), want, workers)

    return look_again


def _warmed(
    fitted: Bias, items: Vectors, queries: Vectors, targets: Vectors | None, warm: int, workers: Workers
) -> Bias:
    """Return the correction after some more iterations."""
    bank = vector_bank(items, queries, targets, kind_of(fitted))
    outcome = _method(fitted).warmed(fitted.bias + fitted.offset, fitted.arrays, bank, workers, warm)
    bias, offset = centred(cast("Float64", outcome.h))
    arrays = {**fitted.arrays, **outcome.arrays, "bias": bias}
    return dataclasses.replace(fitted, arrays=arrays, offset=offset, cost=_cost(workers, fitted, outcome))


def _bias(correction: Correction, verb: str, *, of_vectors: bool = True) -> Bias:
    """Return the correction; raise unless it is one number per item, and fitted on vectors if `of_vectors`."""
    check_correction(correction, verb)
    if not isinstance(correction, Bias):
        raise ArgumentError(
            "correction",
            f"of {correction.spec!r} is more than one number per item: cannot {verb} it",
            "refit",
        )
    if of_vectors and correction.source.similarity == "given":
        raise ArgumentError(
            "correction",
            f"was fitted on a similarity matrix and has no vectors: cannot {verb} it",
            "refit on the matrix as it is now",
        )
    return correction


def _warms(correction: Correction, warm: int, items: VectorsLike | None, bank: VectorsLike | None) -> bool:
    """Return whether there are iterations to run; raise before any work if their inputs are missing."""
    check_whole(warm, "warm", 0)
    method = cast("Method", correction.method)
    if warm == 0 or not method.iterates:
        return False
    missing = [f"the {name}" for name, given in (("items", items), ("bank", bank)) if given is None]
    if missing:
        problem = f"is {warm}, and iterations of {method.name!r} go over the whole bank and all items"
        raise ArgumentError("warm", problem, f"give {' and '.join(missing)} too")
    return True


def _method(fitted: Bias) -> Method:
    return cast("Method", fitted.method)


def _precise(fitted: Bias, new: Bank, workers: Workers) -> tuple[str, ...]:
    """Return a note on the precision of the multiply, if there was one."""
    multiplied = workers.passes and not _method(fitted).stays_here
    return notes_on(workers.kernel, new.queries) if multiplied else ()


def _cost(workers: Workers, fitted: Bias, outcome: Outcome | None = None, notes: tuple[str, ...] = ()) -> Cost:
    """Return the cost of the change; it reports the convergence only if the balance was run again.

    The error that a fit states, with its pairs, is that of the fit alone.
    """
    done = outcome or Outcome(kept="nothing" if _method(fitted).iterates else fitted.cost.kept)
    ran = () if workers.runner is None else (workers.runner.note,)
    return Cost(
        passes=workers.passes,
        seconds=workers.seconds,
        peak_memory=workers.peak_memory,
        kernel=kernel_of(_method(fitted), workers),
        kept=done.kept,
        iterations=done.iterations,
        row_error=done.row_error,
        column_error=done.column_error,
        notes=(*_lasting(fitted.cost.notes, notes), *done.notes, *notes, *ran),
    )


def _lasting(before: tuple[str, ...], now: tuple[str, ...]) -> tuple[str, ...]:
    """Return the notes that still hold: where it ran, what was skipped and how far off balance are of one change.

    bf16 is noted once.
    """
    replaced = any(one.startswith(SHORT_MULTIPLY) for one in now)
    return tuple(
        one
        for one in before
        if not one.endswith((SKIPPED, OFF_BALANCE))
        and not one.startswith((ON_CLUSTER, SHORT_MULTIPLY) if replaced else ON_CLUSTER)
    )
