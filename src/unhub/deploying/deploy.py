"""Deploy: put a correction into a vector engine beside what is there, and measure it before it goes live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from unhub.arrays import random_positions, spans
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Progress
from unhub.correction import Bias, Correction
from unhub.data.vectors import VectorsLike
from unhub.deploying.deployment import BESIDE, Deployment, Mode, allowed_loss, items_digest_of, made_of, next_number
from unhub.deploying.live import live_name_of, live_of, place_of, switch
from unhub.deploying.measuring import KEPT_SHARE, Sample, effort_needed, measure
from unhub.deploying.source import Meanwhile, SourceItems, as_deployable
from unhub.deploying.syncing import sync_field, sync_vectors
from unhub.deploying.unfinished import drop_debris, making
from unhub.errors import ArgumentError
from unhub.layouts import ENGINE_FORMS, Form, Layout, Shape, extra_dimensions, layout_of
from unhub.search.in_store import UNMEASURED_CANDIDATES, deployed_index, digest_of, plain_index
from unhub.stores.store import BATCH_ROWS, FIELD_PREFIX, Description, Store, StoredItems

NOT_SWITCHED = "It was not switched: it finds less than is promised. Look at it, and switch if that is acceptable."
TRIAL_ITEMS = 10_000  # at least, stored twice, to see whether a rotation helps codes
TRIAL_BYTES = 24 << 20  # of vectors at least: Qdrant neither codes nor indexes less than 20 MB


@dataclass(frozen=True)
class Options:
    """How to deploy: the form of the vectors, whether to rotate them ("auto" measures), and for whom."""

    form: Form | Literal["auto"] = "auto"
    rotate: bool | Literal["auto"] = "auto"
    threads: int | None = None
    progress: Progress | None = None


@shows_progress
def deploy(
    correction: Correction,
    store: VectorsLike,
    mode: Mode = "vectors",
    *,
    to: Store | None = None,
    queries: VectorsLike | None = None,
    items: VectorsLike | None = None,
    alias: str | None = None,
    form: Form | Literal["auto"] = "auto",
    rotate: bool | Literal["auto"] = "auto",
    switch: bool = False,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Deployment:
    """Put a correction into a store beside what is there, measure it, and go live with it only if asked to.

    mode: `vectors` writes augmented vectors into a new collection; `payload` writes each item's bias into a new field,
    and a search corrects the nearest candidates, as many as the sample needs. The collection itself is never changed
    otherwise. store: the source. to: the collection to make it beside, for vectors at hand or another place than the
    source. queries: a sample to measure with; what finds less than is promised does not go live by itself. items: those
    of the fit, to compare with what the engine holds. alias: the live name (default: that of the collection and
    `_live`). What a killed run left behind is dropped, and what it had finished is taken over.
    """
    progress = called(progress)
    fitted = as_deployable(correction)
    if mode not in ("vectors", "payload"):
        raise ArgumentError("mode", f"must be 'vectors' or 'payload', got {mode!r}")
    held = _source_of(store) if isinstance(store, Store) else store
    place = _place(held, to)
    live = live_name_of(place, alias)
    source = SourceItems.of(held, fitted, items)
    sample = None if queries is None else Sample.of(source, queries, threads)
    options = Options(form, rotate, threads, progress)
    work = _Work(fitted, place, source, sample, live, options)
    done = work.vectors() if mode == "vectors" else work.payload()
    if switch and done.measured is not None and not done.measured.good:
        return replace(done, notes=(*done.notes, NOT_SWITCHED))
    if switch:
        _switch(place, done)
    return done


_switch = switch  # `switch` is an argument above


def _source_of(store: Store) -> Store:
    """Return the collection itself; under a live name, the source of what is live."""
    return place_of(store, live_of(store))


def _place(source: VectorsLike, to: Store | None) -> Store:
    """Return the collection that the deployment is made beside: the source itself, unless another one is named."""
    if to is not None and not isinstance(to, Store):
        raise ArgumentError("to", f"must be a store, got {type(to).__name__}", "open one with unhub.store")
    if to is not None:
        beside = _source_of(to)
        if isinstance(source, Store) and (beside.engine, beside.name, beside.address.place) == (
            source.engine,
            source.name,
            source.address.place,
        ):
            return source
        return beside
    if not isinstance(source, Store):
        raise ArgumentError("to", "is missing, and vectors at hand must be put into a store", "name the store")
    return source


@dataclass(frozen=True, eq=False)
class _Work:
    """One deployment on its way."""

    correction: Bias
    place: Store
    source: SourceItems
    sample: Sample | None
    live: str
    options: Options

    def _new(self, mode: Mode, collection: str, number_notes: Sequence[str] = ()) -> Deployment:
        served = live_of(self.place)
        return Deployment(
            mode,
            self.place.name,
            collection,
            self.live,
            len(self.source.items),
            digest_of(self.correction),
            self.correction.spec,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            replaces="" if served is None else served.now.what,
            notes=(*self.source.notes, *number_notes),
            read_by=self.place.read_by(),
            items_digest=items_digest_of(self.correction.ids),
        )

    def vectors(self) -> Deployment:
        """Write augmented vectors into a new collection beside the source, or take over a finished one."""
        like = self.place if self.source.store is self.place else None
        about = None if like is None else like.describe()
        dropped = drop_debris(self.place)
        layout = self._layout(about, like)
        for old in made_of(self.place):
            same = (old.digest, old.layout) == (digest_of(self.correction), layout)
            if old.mode == "vectors" and same and self._is_whole(old):
                return self._taken_over(old, dropped)
        target = self.place.sibling(f"{self.place.name}{BESIDE}{next_number(self.place)}")
        done = replace(self._new("vectors", target.name, dropped), layout=layout)
        meanwhile = Meanwhile()
        with making(self.place, done, target):
            self._write(target, layout, like, meanwhile)
            notes = (*done.notes, *meanwhile.notes, *_of_another_kind(about, target), *self._by_another_metric(like))
            done = self._measured(replace(done, notes=notes))
            self.place.put_record(done.key, done.to_json())
        return done

    def _by_another_metric(self, like: Store | None) -> tuple[str, ...]:
        """Return a note where the source ranks by something else than the correction, so that plain means that."""
        try:
            if like is not None:
                plain_index(like, self.correction)
        except ArgumentError as error:
            return (f"Plain results are those of the source, {error.problem}: the two are not of one ranking.",)
        return ()

    def _taken_over(self, old: Deployment, notes: Sequence[str]) -> Deployment:
        """Return a finished deployment of the same correction, once it is up to date with the source."""
        if old.mode == "payload":
            counts, _ = sync_field(self.place, self.correction, old)
        else:
            counts = sync_vectors(self.place.sibling(old.collection), self.source, old, self.options.progress)
        taken = f"{old.what} was there already and was taken over; {sum(counts)} items of it were brought up to date."
        new = self._new(old.mode, old.collection, (*notes, taken))
        # Without a sample, what was measured before still holds, and searches still need that effort.
        known = replace(new, measured=old.measured, effort=old.effort) if self.sample is None else new
        done = self._measured(replace(known, layout=old.layout, field=old.field, candidates=old.candidates))
        self.place.put_record(done.key, done.to_json())
        return done

    def _is_whole(self, old: Deployment) -> bool:
        held = self.place.sibling(old.collection)
        return held.exists() and held.describe().count == old.items

    def _write(self, target: Store, layout: Layout, like: Store | None, meanwhile: Meanwhile) -> None:
        """Create a collection, write every item into it, and build its index."""
        target.create(layout.width, layout.metric, like)
        written = 0
        for batch, bias in self.source.batches(meanwhile):
            target.write(batch._replace(rows=layout.rows(batch.rows, bias, batch.ids)))
            written += len(batch.ids)
            if self.options.progress is not None:
                self.options.progress(written, len(self.source.items))
        target.finish(self.options.progress)

    def _layout(self, about: Description | None, like: Store | None) -> Layout:
        """Return the layout for the engine: equal lengths for clusters, a rotation where codes gain by it."""
        form = self.options.form
        if form == "auto":
            form = ENGINE_FORMS[self.place.engine]
            if about is not None and self.place.engine == "faiss":
                form = "ip"  # FAISS also picks clusters by inner product, which finds more than equal lengths do
            elif about is not None and about.index == "ivf" and extra_dimensions(form) == 1:
                form = "cosine"  # clusters of lengths alike: in pgvector this finds more than the l2 form
        coded = about is not None and about.codes in ("int8", "pq", "binary", "other")
        multiple = 1 if about is None else int(about.settings.get("multiple", "1"))
        rotate = self.options.rotate
        plain = self._shaped(form, rotate is True, multiple, coded)
        if rotate != "auto" or not coded or like is None:
            return plain
        rotated = self._shaped(form, True, multiple, coded)
        # Without a difference, as where so few items are not coded yet, the rotation is the safe choice.
        return rotated if self._found(rotated, like) >= self._found(plain, like) else plain

    def _shaped(self, form: Form, rotate: bool, multiple: int, coded: bool) -> Layout:
        width = self.source.items.dimensions + extra_dimensions(form)
        shape = Shape.of(self.source.items.dimensions, form, rotate, -(-width // multiple) * multiple)
        return layout_of(self.source.items, self.correction, self.correction.bias, shape, self.place.engine, coded)

    def _found(self, layout: Layout, like: Store) -> float:
        """Return the recall of a layout on some of the items, stored for the trial; items stand in for queries."""
        count = len(self.source.items)
        enough = max(TRIAL_ITEMS, TRIAL_BYTES // (4 * layout.width))
        drawn = random_positions(count, min(count, enough), 0)
        rows, bias, ids = self.source.ready(drawn), self.correction.bias[drawn], self.correction.ids[drawn]
        asked = rows[:: max(1, len(rows) // 200)] if self.sample is None else self.sample.queries[:200]
        scores = asked @ rows.T - bias
        right = ids[np.argsort(-scores, axis=1, kind="stable")[:, :10]]
        trial = self.place.sibling(f"{self.place.name}{BESIDE}{next_number(self.place)}")
        with making(self.place, replace(self._new("vectors", trial.name), layout=layout), trial):
            trial.create(layout.width, layout.metric, like)
            for start, stop in spans(len(rows), BATCH_ROWS):
                here = slice(start, stop)
                trial.write(StoredItems(ids[here], layout.rows(rows[here], bias[here], ids[here])))
            trial.finish()
            found = trial.search(layout.asked(asked, np.ones(len(asked))), min(10, len(ids))).ids
            trial.drop()
        return float(np.mean([np.isin(one, other).mean() for one, other in zip(right, found, strict=True)]))

    def payload(self) -> Deployment:
        """Write each item's bias into a new field of the source, and measure how many candidates are needed."""
        place = self.place
        candidates, notes = UNMEASURED_CANDIDATES, []
        if not place.changes:
            raise ArgumentError("mode", f"'payload' cannot be used: {place.engine} has no payload", "deploy vectors")
        if self.source.store is not place:
            raise ArgumentError(
                "mode", "'payload' needs the items in the store itself", "use vectors, or leave `to` out"
            )
        if self.sample is not None:
            candidates, share = self.sample.candidates_needed(self.source, self.options.threads)
            if share < KEPT_SHARE:
                notes.append(
                    f"{candidates:,} candidates hold {share:.2f} of the corrected best; vectors would hold all."
                )
        else:
            notes.append(f"Without queries the number of candidates was not measured; it is {candidates:,}.")
        plain_index(place, self.correction)  # raises unless metric and dimensions are those of the fit
        notes += drop_debris(place)
        for old in made_of(place):
            same = (old.digest, old.candidates) == (digest_of(self.correction), candidates)
            if old.mode == "payload" and same:
                return self._taken_over(old, notes)
        field = f"{FIELD_PREFIX}{next_number(place)}"
        done = replace(self._new("payload", place.name, notes), field=field, candidates=candidates)
        with making(place, done):
            for start, stop in spans(len(self.correction), BATCH_ROWS):
                place.set_field(field, self.correction.ids[start:stop], self.correction.bias[start:stop])
                if self.options.progress is not None:
                    self.options.progress(stop, len(self.correction))
            place.settle()
            done = self._measured(done)
            place.put_record(done.key, done.to_json())
        return done

    def _measured(self, done: Deployment) -> Deployment:
        """Return the deployment with what the sample found in it."""
        if self.sample is None:
            return done
        index = deployed_index(self.place, self.correction, done.to_json())
        loss = allowed_loss(index.store.describe())
        if done.mode == "payload":
            loss = max(loss or 0.0, 1 - KEPT_SHARE)
        plain = self.place if self.source.store is self.place else None
        measured = measure(index, plain, self.sample, loss)
        if done.mode == "payload" or measured.has_spare:
            return replace(done, measured=measured)
        effort = effort_needed(index, self.sample, measured)
        if effort is None:
            return replace(done, measured=measured)
        note = (
            f"Searches ask for the effort {effort}: by the engine's default they find {measured.corrected_recall:.3f}."
        )
        measured = measure(replace(index, effort=effort), plain, self.sample, loss)
        return replace(done, measured=measured, effort=effort, notes=(*done.notes, note))


def _of_another_kind(about: Description | None, made: Store) -> tuple[str, ...]:
    """Return a note where an engine could not make the kind of index that the source has."""
    if about is None or made.describe().index == about.index:
        return ()
    kind = made.describe().index
    return (f"Its index is of the kind {kind}: another of the source's kind, {about.index}, could not be made.",)
