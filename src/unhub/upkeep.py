"""Upkeep: extend a correction by items, remove and replace items, merge bank queries; each returns a new one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float64, are_among
from unhub.compute.machines import ON_CLUSTER, cluster, device_on, on_machines
from unhub.compute.passes import Found, Want, reduce
from unhub.compute.precision import SHORT_MULTIPLY, on_h, on_scores
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.sinkhorn import OFF_BALANCE
from unhub.compute.workers import Workers
from unhub.correction import Bias, Correction, Cost, Plan, Source, check_correction
from unhub.data.bank import Bank, BankRows, vector_bank
from unhub.data.fingerprint import Fingerprint, Hashes
from unhub.data.ids import join_ids, positions_of
from unhub.data.kept_arrays import per_item
from unhub.data.similarity import Dot
from unhub.data.vectors import HasSource, Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError, check_whole
from unhub.fitting import centred, kernel_of
from unhub.given_again import (
    LEFT_OUT,
    NOT_IN_CORRECTION,
    OTHER_WEIGHTS,
    UNCHANGED,
    GivenBank,
    changed_items,
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
from unhub.kernels import name_of
from unhub.methods import Method
from unhub.methods.method import LookAgain, Outcome

SKIPPED = "items in the store were skipped: the correction has them"
KNOWN = "were in the bank before and count again"


@shows_progress
@on_machines
def extend(
    correction: Correction,
    new_items: VectorsLike,
    bank: VectorsLike | Sequence[VectorsLike],
    *,
    bank_items: VectorsLike | None = None,
    items: VectorsLike | None = None,
    warm: int = 0,
    threads: int | None = None,
    device: str | None = None,
    precision: str | None = None,
    on: str | None = None,
    progress: ProgressLike = None,
) -> Correction:
    """Return the correction with more items; only those are computed.

    `bank` holds the queries that it was fitted on and that were merged, in any order, in one set or a list of several.
    They are known by their hashes and have the weights of the fit. Queries that are not of the fit are left out, and a
    note counts them.

    Equal to a refit, up to one constant, for every method except sn and dbsn, whose new rows follow the old queries'
    alpha. For those, `warm` iterations over all items (which need the old `items` too) restore the balance. New items
    may copy old ones; the notes of the cost name one. Of a store, the items are added that the correction does not have
    yet, by their ids; the notes say how many were skipped. Under a live name they are those of the source. device,
    precision, on: where and how to multiply, as in `fit`.
    """
    progress = called(progress)
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
    again = same_bank(fitted, bank, bank_items)
    new = vector_bank(added, again.queries, again.targets, kind_of(fitted), workers.reads)
    outcome = _method(fitted).extended(fitted.arrays, new, workers)
    notes += (*again.notes, *_precise(fitted, new, workers))
    h = np.concatenate([fitted.bias, cast("Float64", outcome.h) - fitted.offset])
    grown = dataclasses.replace(
        fitted,
        ids=join_ids(fitted.ids, added.ids),
        item_hashes=np.concatenate([fitted.item_hashes, added_hashes]),
        arrays={**fitted.arrays, **outcome.arrays, "bias": h},
        cost=_cost(workers, fitted, notes=notes),
    )
    return _warmed(grown, old.stack(added), again, warm, workers) if warms and old else grown


@shows_progress
def remove(
    correction: Correction,
    ids: ArrayLike,
    *,
    items: VectorsLike | None = None,
    bank: VectorsLike | Sequence[VectorsLike] | None = None,
    bank_items: VectorsLike | None = None,
    warm: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Correction:
    """Return the correction without these items.

    Drops rows, which equals a refit, up to one constant, for all methods except sn and dbsn (`warm` iterations restore
    their balance). dis needs `items` and `bank` if a removed item was among the best of a bank query; with ids, `items`
    may hold more than those of the correction. A correction fitted on a matrix takes neither.
    """
    progress = called(progress)
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
    again = same_bank(fitted, bank, bank_items) if bank is not None else None
    smaller = dataclasses.replace(
        fitted,
        ids=fitted.ids[stays],
        item_hashes=fitted.item_hashes[stays],
        source=_source_of(fitted, stays),
        arrays=_arrays_of(fitted, stays, left, again, workers),
        cost=_cost(workers, fitted, notes=() if again is None else again.notes),
    )
    return _warmed(smaller, left, again, warm, workers) if warms and left and again else smaller


@shows_progress
@on_machines
def replace(
    correction: Correction,
    changed: VectorsLike,
    bank: VectorsLike | Sequence[VectorsLike],
    *,
    bank_items: VectorsLike | None = None,
    items: VectorsLike | None = None,
    warm: int = 0,
    threads: int | None = None,
    device: str | None = None,
    precision: str | None = None,
    on: str | None = None,
    progress: ProgressLike = None,
) -> Correction:
    """Return the correction with other contents of some items, which were embedded again; ids and order stay.

    `changed` are Vectors with ids of the correction; those with the contents of the fit are skipped, so that all items
    may be given. Of a store, or its source, it is those that the correction has. Equal to removing and extending, and
    so to a refit where these are. `items`, as they were or as they are now, are needed by dis if a changed item was
    among the best of a bank query, and by `warm` iterations of sn and dbsn, unless `changed` are all items. bank,
    device, precision, on: as in `extend`.
    """
    progress = called(progress)
    fitted = _bias(correction, "replace items of")
    workers = Workers(threads, progress=progress, device=name_of(device, precision))
    found = changed_items(fitted, changed)
    if items is None and len(found.items) < len(fitted) <= found.given:
        items = changed
    warms = _warms(fitted, warm, items, bank)
    if not len(found.places):
        return dataclasses.replace(fitted, cost=_cost(workers, fitted, notes=found.notes))
    stays = np.setdiff1d(np.arange(len(fitted)), found.places)
    if not len(stays):
        raise ArgumentError("changed", f"has other contents for all {len(fitted):,} items", "fit again")
    again = same_bank(fitted, bank, bank_items)
    left = None if items is None else same_items(fitted, items, stays)
    new = vector_bank(found.items, again.queries, again.targets, kind_of(fitted), workers.reads)
    kept, places = _arrays_of(fitted, stays, left, again, workers), np.concatenate([stays, found.places])
    outcome = _method(fitted).extended(kept, new, workers, places)
    h, hashes = fitted.bias.copy(), fitted.item_hashes.copy()
    h[found.places], hashes[found.places] = cast("Float64", outcome.h) - fitted.offset, found.hashes
    witness = fitted.source.witness
    after = dataclasses.replace(
        fitted,
        item_hashes=hashes,
        source=dataclasses.replace(fitted.source, witness=None if witness is None else witness.without(found.places)),
        arrays={**fitted.arrays, **outcome.arrays, "bias": h},
        cost=_cost(workers, fitted, notes=(*found.notes, *again.notes, *_precise(fitted, new, workers))),
    )
    if not warms or left is None:
        return after
    now = Vectors(fitted.ids, left.stack(found.items).gather(np.argsort(places)).rows)
    return _warmed(after, now, again, warm, workers)


@shows_progress
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
    progress: ProgressLike = None,
) -> Correction:
    """Return the correction as if `more_bank` had followed its bank; `items` are those it was fitted on.

    Equal to a refit with the parameters of the fit (a clipped k stays clipped), except for sn and dbsn: they balance
    the new queries separately and average h. csls, nnn and dualis must be fitted with mergeable=True. device,
    precision, on: where and how to multiply, as in `fit`.
    """
    progress = called(progress)
    fitted = _bias(correction, "merge into")
    _method(fitted).check_mergeable(fitted.arrays)  # before a cluster starts
    device = device_on(on, device, precision)
    with cluster(on, threads):
        workers = Workers(threads, progress=progress, device=name_of(device, precision))
        gallery = same_items(fitted, items)
        more = as_vectors(more_bank, "more_bank")
        check_dimensions(fitted, more, "more_bank")
        hashes = inspected(fitted, more, "more_bank")
        old_bank = fitted.source.bank or Fingerprint.of(hashes[:0])  # 'raw' needs no bank
        notes = _known_again(fitted.source, old_bank, hashes, more.weights)
        targets = same_bank_items(fitted, bank_items) if _method(fitted).joint else None
        new = vector_bank(gallery, more, targets, kind_of(fitted), workers.reads)
        uncentred = fitted.bias + fitted.offset
        outcome = _method(fitted).merged(uncentred, fitted.arrays, old_bank.total, new, workers)
        bias, offset = centred(cast("Float64", outcome.h))
        known = fitted.source.bank_rows if fitted.source.bank else BankRows(hashes[:0])
        source = dataclasses.replace(
            fitted.source,
            bank=old_bank.followed_by(hashes, more.weights),
            bank_rows=None if known is None else known.followed_by(hashes, more.weights),
        )
        return dataclasses.replace(
            fitted,
            source=source,
            arrays={**fitted.arrays, **outcome.arrays, "bias": bias},
            offset=offset,
            cost=_cost(workers, fitted, outcome, (*notes, *_precise(fitted, new, workers))),
        )


def _known_again(source: Source, old: Fingerprint, hashes: Hashes, weights: Float64 | None) -> tuple[str, ...]:
    """Return a note on queries to merge that the bank has already; raise if that is all, or the file of before grew."""
    is_all = len(hashes) == old.count
    # A single query may well be asked again, so it is no sign of the same bank.
    began = Fingerprint.of(hashes[: old.count], None if weights is None else weights[: old.count])
    if (is_all or old.count > 1) and began == old:
        raise ArgumentError(
            "more_bank",
            f"{'is' if is_all else 'begins with'} the bank of {old.count} queries that the correction was fitted on",
            f"give only the new queries{'' if is_all else f', from row {old.count} on'}",
        )
    if source.bank_rows is None:
        return ()
    known = int(are_among(hashes, source.bank_rows.hashes).sum())
    if known == len(hashes):
        raise ArgumentError(
            "more_bank",
            f"has no new query: all {known:,} are among the {old.count:,} that the correction was fitted on",
            "give only new queries; a fit on the whole log counts repeats",
        )
    return (f"{known:,} of {len(hashes):,} merged queries {KNOWN}",) if known else ()


def _source_of(fitted: Correction, stays: NDArray[np.int64]) -> Source:
    """Return the source of a correction of which these items stay."""
    witness = fitted.source.witness
    return dataclasses.replace(fitted.source, witness=None if witness is None else witness.among(stays))


def _arrays_of(
    fitted: Bias, stays: NDArray[np.int64], left: Vectors | None, again: GivenBank | None, workers: Workers
) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a correction of which only the items at `stays` are left."""
    method = _method(fitted)
    rows = per_item({**fitted.keeps, **method.keeps(mergeable=True, given=fitted.source.similarity == "given")})
    arrays = {name: array[stays] if name in rows else array for name, array in fitted.arrays.items()}
    return {**arrays, **method.removed(fitted.arrays, stays, _look_again(fitted, left, again, workers))}


def _look_again(fitted: Bias, left: Vectors | None, again: GivenBank | None, workers: Workers) -> LookAgain:
    """Return a function that streams some bank queries over the items that are left, if both were given."""

    def look_again(positions: NDArray[np.int64], want: Want) -> Found:
        if left is None or again is None:
            given = fitted.source.similarity == "given"
            raise ArgumentError(
                "ids",
                f"names items that were among the best of {len(positions)} bank queries, and "
                f"{fitted.method.name!r} must find others for those",
                "refit on the matrix without them"
                if given
                else "give the items as they were before the removal, and the bank",
            )
        return reduce(Dot(again.queries.gather(positions), left, kind_of(fitted)), want, workers)

    return look_again


def _warmed(fitted: Bias, items: Vectors, again: GivenBank, warm: int, workers: Workers) -> Bias:
    """Return the correction after some more iterations."""
    bank = vector_bank(items, again.queries, again.targets, kind_of(fitted))
    outcome = _method(fitted).warmed(fitted.bias + fitted.offset, fitted.arrays, bank, workers, warm)
    bias, offset = centred(cast("Float64", outcome.h))
    arrays = {**fitted.arrays, **outcome.arrays, "bias": bias}
    return dataclasses.replace(fitted, arrays=arrays, offset=offset, cost=_cost(workers, fitted, outcome, again.notes))


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


def _warms(correction: Correction, warm: int, items: object, bank: object) -> bool:
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
    return on_h(on_scores(workers.kernel, new.queries), _method(fitted).gain) if multiplied else ()


def _cost(workers: Workers, fitted: Bias, outcome: Outcome | None = None, notes: tuple[str, ...] = ()) -> Cost:
    """Return the cost of the change; it reports the convergence only if the balance was run again.

    The pairs are those of the fit alone. The error that it states stays: what is added is exact, and the rest is not.
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
        error=fitted.cost.error,
        how=fitted.cost.how,
    )


def _lasting(before: tuple[str, ...], now: tuple[str, ...]) -> tuple[str, ...]:
    """Return the notes that still hold: where it ran, what was skipped and how far off balance are of one change.

    bf16 is noted once.
    """
    replaced = any(one.startswith(SHORT_MULTIPLY) for one in now)
    return tuple(
        one
        for one in before
        if not one.endswith((SKIPPED, OFF_BALANCE, LEFT_OUT, OTHER_WEIGHTS, NOT_IN_CORRECTION, UNCHANGED))
        and not one.startswith((ON_CLUSTER, SHORT_MULTIPLY) if replaced else ON_CLUSTER)
    )
