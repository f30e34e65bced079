"""The live version: which correction over which items answers now, and every way to change that while it answers."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

import unhub
from unhub.arrays import Float32, Ids
from unhub.correction import Correction
from unhub.data.ids import as_ids
from unhub.data.vectors import Gathered, Stacked, Vectors
from unhub.errors import ArgumentError
from unhub.files.kept_state import ITEMS
from unhub.files.version_folders import CORRECTIONS, AboutVersion
from unhub.given_again import same_bank
from unhub.search.hits import Id
from unhub.service.hit_lists import Json
from unhub.service.kept.item_changes import ItemChange, KeptChanges
from unhub.service.kept.versions import KeptCorrection, KeptVersions
from unhub.service.questions import check_vectors
from unhub.service.version import Version, check_servable

if TYPE_CHECKING:
    from unhub.service.bodies import ChangedItemsBody, NewItemsBody
    from unhub.service.served import Gallery, ServedSpace


class LiveVersion:
    """The version that answers is `now`: a request reads it once, and a change puts another in its place.

    Changes come one after the other. Each is on disk, where there is a folder, before it is visible.
    """

    def __init__(self, space: ServedSpace, state: Path | None) -> None:
        self._space = space
        self._lock = threading.Lock()
        check_servable(space.correction)
        self.versions = KeptVersions(None if state is None else state / CORRECTIONS)
        self._changes = KeptChanges(None if state is None else state / ITEMS)
        known = self.versions.same_as(space.correction)
        given = self._first(known)
        self.given = given.name  # of the correction that the service was started with
        try:
            self.now = self._begun(given)
        except Exception:
            if known is None:
                self.versions.drop(given.name)  # or the folder would keep what cannot be served
            raise
        if self.versions.history is None:
            self.versions.activate(given.name)

    def to_dict(self) -> Json:
        """Return all versions and which is active."""
        active, history = self.now.correction_name, self.versions.history
        back = history.before[-1] if history is not None and history.before else None
        return {"active": active, "back": back, "versions": [one.to_dict(active) for one in self.versions]}

    def offer(self, correction: Correction, about: AboutVersion, bank: Vectors | None) -> str:
        """Keep a correction as a version that can be activated, and return its name."""
        with self._lock:
            return self.versions.add(correction, about, bank).name

    def drop(self, name: str) -> None:
        """Forget a version that was offered and is not wanted."""
        with self._lock:
            self.versions.drop(name)

    def upload(self, content: bytes) -> Json:
        """Keep a saved correction as a version; it must be of exactly the items that are served."""
        correction = _loaded(content)
        check_servable(correction)
        with self._lock:
            _check_items(correction, self.now)
            made = self.versions.add(
                correction, replace(AboutVersion.now(f"Uploaded: {correction.spec}."), offered=True)
            )
            return made.to_dict(self.now.correction_name)

    def activate(self, name: str) -> Json:
        """Answer by another version from now on."""
        with self._lock:
            made = self._made(self.versions[name], self.now.gallery, self.now)
            self.versions.activate(name)
            self.now = made
            return {"version": made.name, **self.to_dict()}

    def roll_back(self) -> Json:
        """Answer by the version that was active before."""
        with self._lock:
            made = self._made(self.versions[self.versions.before()], self.now.gallery, self.now)
            self.versions.roll_back()
            self.now = made
            return {"version": made.name, **self.to_dict()}

    def add_items(self, body: NewItemsBody) -> Json:
        """Add items; the correction is extended by them, which needs the bank that it was fitted on."""
        with self._lock:
            now = self.now
            ids, rows = _given_items(body, now.gallery)
            change = ItemChange(ids, rows, dict(zip(body.ids, body.texts or (), strict=False)))
            gallery = change.applied(now.gallery)
            return self._change(change, gallery, _extended(now.correction, Vectors(ids, rows), now.bank))

    def replace_items(self, body: ChangedItemsBody) -> Json:
        """Give items other vectors; those without a new text keep theirs."""
        with self._lock:
            now = self.now
            ids, rows = _given_items(body, now.gallery)
            texts = {one: now.gallery.texts[one] for one in body.ids if one in now.gallery.texts}
            texts |= dict(zip(body.ids, body.texts or (), strict=False))
            change = ItemChange(ids, rows, texts, gone=tuple(body.ids))
            gallery = change.applied(now.gallery)
            smaller = _reduced(now, body.ids)
            return self._change(change, gallery, _extended(smaller, Vectors(ids, rows), now.bank))

    def remove_items(self, ids: Sequence[Id]) -> Json:
        """Remove items."""
        with self._lock:
            now = self.now
            empty = now.gallery.held.ids[:0], np.empty((0, now.gallery.held.dimensions), np.float32)
            change = ItemChange(*empty, gone=tuple(ids))
            gallery = change.applied(now.gallery)
            return self._change(change, gallery, _reduced(now, ids))

    def _change(self, change: ItemChange, gallery: Gallery, correction: Correction) -> Json:
        now = self.now
        made = Version.of(now.correction_name, gallery, correction, now.bank, self._space.index, self._space.threads)
        self._changes.keep(change, gallery.revision)
        self.now = made
        return {"version": made.name, "items": len(made)}

    def _first(self, known: KeptCorrection | None) -> KeptCorrection:
        """Return the version of the correction that the service was started with; known: the same, if it was kept."""
        given = self._space.correction
        if known is not None:
            return replace(known, correction=given)
        return self.versions.add(given, AboutVersion.now(f"The service was started with it: {given.spec}."))

    def _begun(self, given: KeptCorrection) -> Version:
        """Return the version that was active, over the items as they were last."""
        space, history = self._space, self.versions.history
        first = self._made(given, space.gallery)  # what was given must fit together, whatever was kept
        gallery = self._changes.replay(space.gallery)
        kept = given if history is None else self.versions[history.active]
        if gallery is space.gallery and kept.correction is first.correction:
            return first
        try:
            return self._made(kept, gallery, first)
        except ArgumentError as error:
            problem = f"keeps the version {kept.name}, which cannot be served over these items ({error})"
            raise ArgumentError("state", problem, "give what it was made with, or name another folder") from error

    def _made(self, kept: KeptCorrection, gallery: Gallery, now: Version | None = None) -> Version:
        """Return a kept correction over the items as they are now; `now` is a version of what was before."""
        bank = self._space.bank if kept.bank is None else kept.bank
        correction = kept.correction if now is None else _adapted(kept.correction, gallery, bank)
        return Version.of(kept.name, gallery, correction, bank, self._space.index, self._space.threads)


def _given_items(body: NewItemsBody | ChangedItemsBody, gallery: Gallery) -> tuple[Ids, Float32]:
    """Return the ids and vectors that were sent, with a text for each or none."""
    if len(body.vectors) != len(body.ids):
        problem = f"has {len(body.vectors)} rows, there are {len(body.ids)} ids"
        raise ArgumentError("vectors", problem, "give one for each")
    if body.texts is not None and len(body.texts) != len(body.ids):
        raise ArgumentError("texts", f"has {len(body.texts)} texts, there are {len(body.ids)} ids")
    rows = check_vectors(body.vectors, gallery.held.dimensions, "vectors")
    return as_ids(list(body.ids), len(body.ids), "ids"), rows


def _loaded(content: bytes) -> Correction:
    with tempfile.TemporaryDirectory(prefix="unhub-") as folder:
        path = Path(folder) / "uploaded.unhub"
        path.write_bytes(content)
        try:
            return unhub.load(path, "correction")
        except ValueError as error:
            told = str(error).replace(str(path), "it")
            raise ArgumentError("body", f"is not a saved correction ({told})", "send a file of unhub.save") from None


def _check_items(correction: Correction, now: Version) -> None:
    """Raise unless a correction is of exactly the items that are served."""
    have = dict(zip(now.correction.ids.tolist(), now.correction.item_hashes.tolist(), strict=True))
    given = dict(zip(correction.ids.tolist(), correction.item_hashes.tolist(), strict=True))
    if have != given:
        differ = sum(have.get(one) != print_ for one, print_ in given.items()) or len(have) - len(given)
        raise ArgumentError(
            "body",
            f"is a correction of {len(given):,} items, of which {differ:,} are not, or not so, among the "
            f"{len(have):,} served",
            "fit it on the items that are served now",
        )


def _adapted(correction: Correction, gallery: Gallery, bank: Vectors | None) -> Correction:
    """Return a correction without the items that are gone, and with those that came since it was fitted."""
    if gallery.revision == 0:
        return correction
    held = gallery.held
    # An item that was removed and added again is another one, whatever its id.
    old = set(held.ids.tolist()) - (set() if gallery.extra is None else set(gallery.extra.ids.tolist()))
    fitted_on_extra = _same_extra(correction, gallery)
    old |= fitted_on_extra
    gone = [one for one in correction.ids.tolist() if one not in old]
    if gone:
        correction = _without(correction, gone, gallery, bank)
    known = set(correction.ids.tolist())
    new = np.flatnonzero([one not in known for one in held.ids.tolist()])
    return correction if not len(new) else _extended(correction, held.gather(new), bank)


def _without(correction: Correction, gone: Sequence[Id], gallery: Gallery, bank: Vectors | None) -> Correction:
    """Return a kept correction without some items; some methods must look at the bank again for that."""
    try:
        return unhub.remove(correction, np.array(gone))
    except ArgumentError:
        if bank is None:
            raise
    items = _fitted_items(correction, gallery)
    if items is not None:
        with suppress(ArgumentError):  # under an id there may have been another vector
            return unhub.remove(correction, np.array(gone), items=items, bank=bank)
    # Items that came later and are gone again are nowhere any more. A refit finds the same, up to one constant.
    queries = same_bank(cast("unhub.Bias", correction), bank).queries
    similarity = cast("unhub.arrays.Kind", correction.source.similarity)
    return unhub.fit(gallery.held, queries, method=correction.spec, similarity=similarity)


def _fitted_items(correction: Correction, gallery: Gallery) -> Vectors | None:
    """Return the items that a correction was fitted on; None if some of them are neither first items nor present."""
    from_extra = _same_extra(correction, gallery)
    first, later = cast("Vectors", gallery.base), gallery.extra
    places = {one: row for row, one in enumerate(first.ids.tolist())}
    if later is not None:
        places |= {one: len(first) + row for row, one in enumerate(later.ids.tolist()) if one in from_extra}
    ids = correction.ids.tolist()
    if not all(one in places for one in ids):
        return None
    every = Stacked([first.rows] if later is None else [first.rows, later.rows])
    return Vectors(correction.ids, Gathered(every, np.array([places[one] for one in ids])))


def _same_extra(correction: Correction, gallery: Gallery) -> set[Id]:
    """Return the ids of added items that a correction was fitted on, with the same contents."""
    if gallery.extra is None:
        return set()
    from unhub.data.fingerprint import inspect

    prints = inspect(gallery.extra, "items", correction.source.similarity).hashes  # type: ignore[arg-type]
    fitted = dict(zip(correction.ids.tolist(), correction.item_hashes.tolist(), strict=True))
    named = zip(gallery.extra.ids.tolist(), prints.tolist(), strict=True)
    return {one for one, print_ in named if fitted.get(one) == print_}


def _check_follows(correction: Correction, change: str) -> None:
    """Raise for a correction that only a fit on all items could follow; change: "added" or "removed"."""
    why = ""
    if not isinstance(correction, unhub.Bias):
        why = "is more than one number per item"
    elif change == "added" and correction.source.bank_items is not None:
        why = "was fitted with bank items, which the service does not have"
    if why:
        remedy = "POST /v1/refit, which offers a version that follows the items; activate it first"
        raise ArgumentError("items", f"cannot be {change}: the active correction, {correction.spec}, {why}", remedy)


def _extended(correction: Correction, new: Vectors, bank: Vectors | None) -> Correction:
    _check_follows(correction, "added")
    if bank is None:
        remedy = "start the service with --bank, the queries that the correction was fitted on"
        raise ArgumentError("bank", "is missing, and new items are corrected by it", remedy)
    try:
        return unhub.extend(correction, new, bank)
    except ArgumentError as error:
        raise error.of("vectors" if error.name == "new_items" else error.name) from None


def _reduced(now: Version, ids: Sequence[Id]) -> Correction:
    """Return the correction of a version without some items; some methods must look at the bank again for that."""
    _check_follows(now.correction, "removed")
    gone = now.names.several(list(ids), "ids")
    named = now.correction.ids[gone]
    try:
        return unhub.remove(now.correction, named)
    except ArgumentError:
        if now.bank is None:
            raise
        items = Vectors(now.correction.ids, now.searcher.items.rows)
        return unhub.remove(now.correction, named, items=items, bank=now.bank)
