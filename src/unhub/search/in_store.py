"""Search in a store: by what was deployed there, or by over-fetching and subtracting."""

from __future__ import annotations

import hashlib
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from unhub.arrays import Float32, Float64, Ids
from unhub.compute.workers import Progress
from unhub.correction import Bias, Correction
from unhub.data.ids import no_id
from unhub.errors import ArgumentError
from unhub.layouts import Layout, Metric
from unhub.matching import vector_similarity
from unhub.search.rerank import reranked
from unhub.stores.store import LIVE, Correcting, Record, Store, Where

PACKAGE = __name__.split(".")[0]

UNIT_LENGTH = 1e-3  # how far from one a vector's length may be
UNMEASURED_CANDIDATES = 1000  # nearest items that are corrected where deploy has not measured how many are needed


@dataclass(frozen=True, eq=False)
class StoreIndex:
    """The items of a correction in a store, searched there by s - weight * bias.

    layout: that of the vectors in the store, None where they are the plain ones; then candidates are fetched and their
    biases subtracted, by the engine if it can and the biases are in a field, else here. effort: that of a search by the
    layout, None for the engine's default.
    """

    store: Store
    correction: Bias
    layout: Layout | None = None
    correcting: Correcting | None = None
    metric: Metric = "cosine"
    where: Where = None
    effort: int | None = None

    @property
    def ids(self) -> Ids:
        """The ids of the correction's items, which deploy has compared with those of the store."""
        return self.correction.ids

    def search(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Ids | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Ids]:
        """Return scores and ids, (queries, k), best first."""
        scores, ids = self._answer(queries, weights, k, allowed)
        if progress is not None:
            progress(len(queries), len(queries))
        if (ids == no_id(ids.dtype)).all():
            ids = cast("Ids", np.full(ids.shape, no_id(self.ids.dtype), self.ids.dtype))
        if ids.dtype.kind != self.ids.dtype.kind:
            raise self.store.failed(
                f"returned ids such as {ids.flat[0].item()!r}, and those of the correction are of another type",
                "fit on the store itself, so that the ids are the same",
            )
        return scores, ids

    def _answer(self, queries: Float32, weights: Float64, k: int, allowed: Ids | None) -> tuple[Float32, Ids]:
        if self.layout is not None:
            found = self.store.search(self.layout.asked(queries, weights), k, self.where, allowed, self.effort)
            scores = self.layout.read(found.values, queries, weights).astype(np.float32)
            scores[found.ids == no_id(found.ids.dtype)] = -np.inf
            return scores, found.ids
        correcting = self.correcting or Correcting("", UNMEASURED_CANDIDATES)
        if not np.any(weights):
            correcting = correcting._replace(candidates=k)
        elif self.store.subtracts and correcting.field:
            correcting = correcting._replace(candidates=max(k, correcting.candidates))
            found = self.store.search_less(queries, weights, k, correcting, self.where, allowed)
            return found.values, found.ids
        found = self.store.search(queries, max(k, correcting.candidates), self.where, allowed)
        similarities = similarities_of(found.values, self.metric)
        # The searcher has applied the gate to the weights already.
        best = reranked(found.ids, similarities, without_gate(self.correction), k, weights, covered_only=True)
        return cast("Float32", best.scores), best.ids


def without_gate(correction: Bias) -> Bias:
    """Return the correction as if it applied to every query."""
    if correction.active is None:
        return correction
    return replace(correction, arrays={"bias": correction.bias})


def similarities_of(values: Float32, metric: Metric) -> Float64:
    """Return the similarities that a store's values stand for; under l2, of vectors and queries of length one."""
    wide = values.astype(np.float64)
    return 1 - wide / 2 if metric == "l2" else wide


def digest_of(correction: Bias) -> str:
    """Return a hash of the biases and ids of a correction, by which a deployment knows it again."""
    total = hashlib.blake2b(np.ascontiguousarray(correction.bias, "<f8").tobytes(), digest_size=16)
    for one in correction.ids.tolist():
        total.update(f"\0{one}".encode("utf-8", "surrogatepass"))
    return total.hexdigest()


def live_record(store: Store) -> tuple[str, Record] | None:
    """Return the live name of a store and what is deployed under it, by that name or by that of its source."""
    records = store.records()
    if (record := records.get(f"{LIVE}{store.name}")) is not None:
        return store.name, record
    for key, record in sorted(records.items()):
        if key.startswith(LIVE) and record["now"]["source"] == store.name:
            return key.removeprefix(LIVE), record
    store.check_switched(records)
    return None


def index_of(store: Store, correction: Correction) -> StoreIndex:
    """Return the index of what is live in a store; its plain vectors, over-fetched, if nothing is."""
    if not isinstance(correction, Bias):
        raise ArgumentError(
            "correction",
            f"of {correction.spec!r} ranks by whole rows of similarities, which an engine does not compute",
            "name an index, for example exact, so that the vectors are read and searched here",
        )
    found = live_record(store)
    if found is None or found[1]["now"]["mode"] == "plain":
        return plain_index(store if found is None else store.source_of(found[1]["now"]), correction)
    return deployed_index(store, correction, found[1]["now"])


class Behind(NamedTuple):
    """How far a deployment is behind its source, and what to do about it, in words."""

    text: str
    remedy: str


def behind(source: Store, now: Record) -> Behind | None:
    """Return how many items a deployment is behind its source, by counting them; None if it is not."""
    count, items, payload = source.describe().count, now["items"], now["mode"] == "payload"
    if count == items or now["mode"] == "plain" or (payload and count < items):
        return None
    what = f"{now['collection']}, field {now['field']}," if payload else now["collection"]
    if count < items:
        fate, update = "removed since, still found", "remove them from its correction (unhub remove)"
    else:
        fate, update = "added since, not found", "extend its correction by them (unhub extend)"
    then = f"run: unhub sync '{source.address}' --correction FILE" if source.changes or payload else "deploy it again"
    return Behind(
        f"{what} has {items:,} items, and its source {count:,}: at least {abs(count - items):,} {fate}",
        f"To bring it up to date, {update}, then {then}",
    )


def warn_if_behind(store: Store) -> None:
    """Warn if what is live in a store is behind its source, where counting is cheap."""
    found = live_record(store)
    if found is None or not store.counts_cheaply:
        return
    now, late = found[1]["now"], None
    with suppress(ArgumentError):  # a source that is gone or may not be read is no hindrance to a search
        late = behind(store.source_of(now), now)
    if late is not None:
        warnings.warn(f"{late.text}. {late.remedy}", stacklevel=_levels_to_caller())


def _levels_to_caller() -> int:
    """Return how far up the stack the first line outside of this package is, seen from the caller of this function."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).split(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    return level


def plain_index(store: Store, correction: Bias, correcting: Correcting | None = None) -> StoreIndex:
    """Return the index that over-fetches from plain vectors."""
    about = store.describe()
    similarity = vector_similarity(correction)
    if about.dimensions != correction.source.dimensions:
        raise store.failed(
            f"has {about.dimensions} dimensions, the correction was fitted on {correction.source.dimensions}",
            "use the model it was fitted with, or refit",
        )
    if {"cosine": "cosine", "dot": "dot", "l2": "cosine"}[about.metric] != similarity:
        raise store.failed(
            f"compares by {about.metric}, the correction was fitted under {similarity}",
            "fit under the similarity of the store, or deploy vectors",
        )
    if about.metric == "l2":
        _check_lengths(store)
    return StoreIndex(store, correction, None, correcting, about.metric)


def _check_lengths(store: Store) -> None:
    """Raise unless vectors have length one: only then does a squared distance tell the cosine."""
    first = next(iter(store.batches()), None)
    lengths = np.ones(1) if first is None else np.linalg.norm(first.rows, axis=1)
    if np.abs(lengths - 1).max() > UNIT_LENGTH:
        raise store.failed(
            f"compares by l2, and has vectors of lengths from {lengths.min():.3g} to {lengths.max():.3g}",
            "deploy vectors, or store them with length one",
        )


def deployed_index(store: Store, correction: Bias, now: Record) -> StoreIndex:
    """Return the index of a deployment; raise if it is of another correction."""
    if now["digest"] != digest_of(correction):
        raise store.failed(
            f"serves a correction of {now['spec']!r} made on {now['created']}, and this is another ({correction.spec})",
            "load the correction that was deployed, or deploy this one",
        )
    target = store.collection_in(now)
    if now["mode"] == "payload":
        return plain_index(target, correction, Correcting(now["field"], now["candidates"]))
    return StoreIndex(target, correction, Layout.from_json(now["layout"]), effort=now.get("effort"))
