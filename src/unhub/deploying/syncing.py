"""Sync: bring a deployment up to date with its source: items that were added, changed or removed there since."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Ids, spans
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Progress
from unhub.correction import Bias, Correction
from unhub.data.vectors import VectorsLike
from unhub.deploying.deployment import Deployment, Live, items_digest_of, made_of
from unhub.deploying.live import live_of, place_of
from unhub.deploying.source import (
    SAME_SHARE,
    Meanwhile,
    SourceItems,
    as_deployable,
    differing,
    own_payload,
    rounding_of,
)
from unhub.layouts import Layout
from unhub.search.in_store import digest_of
from unhub.stores.store import BATCH_ROWS, Payload, Store, StoredItems, joined_ids

Counts: TypeAlias = tuple[int, int, int]  # of items that were added, changed and removed

UNSURE = (
    "An item that was written anew lacks its field, as a new one does: such items count as removed and added here, and "
    "not as changed."
)


@dataclass(frozen=True)
class Synced:
    """How many items of a deployment were added, changed and removed; notes: what of that is not certain."""

    deployment: Deployment
    added: int
    changed: int
    removed: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.added:,} added, {self.changed:,} changed, {self.removed:,} removed"


@shows_progress
def sync(
    store: Store,
    correction: Correction,
    *,
    items: VectorsLike | None = None,
    progress: ProgressLike = None,
) -> Synced:
    """Write into what is live, or was deployed last, what changed in the source since; searches go on meanwhile.

    The correction must cover the items that the source has now: `extend` it by new ones first, and `remove` those that
    are gone. Biases of the other items must be as they were; after a refit, deploy again. items: those of the fit, to
    compare with what the engine holds.
    """
    progress = called(progress)
    fitted = as_deployable(correction)
    served = live_of(store)
    place = place_of(store, served)
    deployment = _current(store, place, served)
    if not place.exists():
        raise store.failed("was made of items from elsewhere, which sync cannot read", "deploy them again")
    source = SourceItems.of(place, fitted, items)
    if deployment.mode == "payload":
        counts, notes = sync_field(place, fitted, deployment)
    else:
        counts, notes = sync_vectors(place.sibling(deployment.collection), source, deployment, progress), ()
    synced = datetime.now(UTC).isoformat(timespec="milliseconds")
    new = replace(
        deployment,
        items=len(fitted),
        digest=digest_of(fitted),
        spec=fitted.spec,
        synced=synced,
        items_digest=items_digest_of(fitted.ids),
    )
    place.put_record(new.key, new.to_json())
    if served is not None and served.now.key == deployment.key:
        live = Live(served.name, new, served.before)
        place.put_record(live.key, live.to_json())
    return Synced(new, *counts, notes)


def _current(store: Store, place: Store, served: Live | None) -> Deployment:
    if served is not None and served.now.mode != "plain":
        return served.now
    finished = made_of(place)
    if not finished:
        raise store.failed("nothing was deployed here that could be brought up to date", "deploy a correction first")
    return finished[-1]


def sync_vectors(target: Store, source: SourceItems, deployment: Deployment, progress: Progress | None) -> Counts:
    """Compare every stored vector and its payload with what belongs there, and write only those that differ."""
    layout = deployment.layout
    if layout is None:
        raise target.failed("its record has no layout", "deploy again")
    fitted, positions = source.correction, {one: row for row, one in enumerate(source.correction.ids.tolist())}
    held, moved = np.zeros(len(fitted), np.bool_), np.zeros(len(fitted), np.bool_)
    # Two engines do not give a payload back alike.
    compares = source.store is not None and source.store.engine == target.engine
    payloads = np.zeros(len(fitted), np.int64)
    gone: list[Ids] = []
    for batch in target.batches(payload=compares):
        known = np.array([one in positions for one in batch.ids.tolist()], np.bool_)
        gone.append(batch.ids[~known])
        rows = np.array([positions[one] for one in batch.ids[known].tolist()], np.int64)
        if len(rows):
            held[rows] = True
            moved[rows] = _differing(target, layout, batch.rows[known], source.ready(rows), fitted.bias[rows])
            payloads[rows] = _digests(batch.payload, len(batch.ids))[known]
    wanted = ~held | moved
    written, meanwhile = 0, Meanwhile()
    for batch, bias in source.batches(meanwhile) if compares or wanted.any() else ():
        rows = np.array([positions[one] for one in batch.ids.tolist()], np.int64)
        if compares:
            wanted[rows] |= _digests(batch.payload, len(rows)) != payloads[rows]
        mine = wanted[rows]
        if mine.any():
            rows_to_write = layout.rows(batch.rows[mine], bias[mine], batch.ids[mine])
            payload = None if batch.payload is None else [batch.payload[row] for row in np.flatnonzero(mine).tolist()]
            target.write(StoredItems(batch.ids[mine], rows_to_write, payload))
        written += len(rows)
        if progress is not None:
            progress(written, len(fitted))
    removed = joined_ids(gone) if any(map(len, gone)) else fitted.ids[:0]
    if len(removed):
        target.remove(removed)
    return int((~held).sum()), int((wanted & held).sum()), len(removed)


def _digests(payloads: Sequence[Payload] | None, count: int) -> NDArray[np.int64]:
    """Return a number for each payload by which to compare it; a field without a value is none."""
    if payloads is None:
        return np.zeros(count, np.int64)
    own = (sorted((name, value) for name, value in own_payload(one).items() if value is not None) for one in payloads)
    return np.fromiter((hash(json.dumps(one, sort_keys=True, default=repr)) for one in own), np.int64, count)


def _differing(target: Store, layout: Layout, stored: Float32, ready: Float32, bias: Float64) -> NDArray[np.bool_]:
    """Return which items have another vector; raise if an item has the same vector and another bias."""
    moved = differing(layout.originals(stored), ready)
    held, right = layout.biases(stored), layout.stored_biases(bias)
    # Of the biases, not of what is stored for them, which a shift makes longer.
    tolerance = SAME_SHARE * layout.ratio * np.abs(bias).max(initial=0.0)
    rounding = rounding_of(stored) * (np.linalg.norm(ready, axis=1) + np.abs(right))
    refitted = int((np.abs(held - right) > tolerance + rounding)[~moved].sum())
    if refitted:
        raise target.failed(
            f"{refitted} items have other biases in this correction than in what is stored, so it was refitted",
            "deploy it; sync is for items that were added, changed or removed",
        )
    return moved


def sync_field(place: Store, fitted: Bias, deployment: Deployment) -> tuple[Counts, tuple[str, ...]]:
    """Set the field of items that lack it or have another bias; return the counts, and a note if they are unsure.

    An item lacks it if it is new, or was written anew: engines drop the fields of an item with the rest of it.
    """
    positions = {one: row for row, one in enumerate(fitted.ids.tolist())}
    wanted, lacking, changed = [], 0, 0
    for batch in place.batches(payload=True):
        for one, payload in zip(batch.ids.tolist(), batch.payload or (), strict=True):
            value = payload.get(deployment.field)
            if value is None:
                lacking += 1
            elif not np.isclose(value, fitted.bias[positions[one]], rtol=1e-6, atol=1e-9):
                changed += 1
            else:
                continue
            wanted.append(positions[one])
    if 2 * changed > len(fitted):
        raise place.failed(
            f"{changed:,} items have other biases in this correction than in the field, so it was refitted",
            "deploy it; sync is for items that were added, changed or removed",
        )
    rows = np.array(wanted, np.int64)
    for start, stop in spans(len(rows), BATCH_ROWS):
        some = rows[start:stop]
        place.set_field(deployment.field, fitted.ids[some], fitted.bias[some])
    place.settle()  # always: a killed run may have set the field and no more
    if deployment.items_digest == items_digest_of(fitted.ids):  # none came or went
        return (0, changed + lacking, 0), ()
    removed = max(0, deployment.items + lacking - len(fitted))
    return (lacking, changed, removed), (UNSURE,) if lacking and removed else ()
