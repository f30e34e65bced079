"""Doctor: look at a store and a correction, say what is stored, what was measured, what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, random_positions
from unhub.correction import Bias, Correction
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.deploying.deployment import Deployment, Measured, allowed_loss
from unhub.deploying.live import live_of, place_of, waiting_of
from unhub.deploying.measuring import KEPT_SHARE, Sample, measure
from unhub.deploying.source import COMPARED_ITEMS, SAME_COSINE, SourceItems, as_deployable, rounding_of
from unhub.errors import ArgumentError
from unhub.layouts import METRICS, Form, Layout, bias_place, bias_ratio, rotation
from unhub.matching import vector_similarity
from unhub.search.hits import Names
from unhub.search.in_store import StoreIndex, behind, deployed_index, digest_of, plain_index
from unhub.stores.store import Description, Store

LINE_ROUNDS = 10  # each leaves the half out that is farther from the line, so that some wrong items do not bend it
MOST = 0.5  # share of the items that have their bias where the rest is wrong, not the way they were looked at
EQUAL_LENGTHS = 1e-3  # lengths that differ by less, as a share, are equal
UNIT = 1e-3  # how far from one a query's length may be
NAIVE_CODES = ("int8", "pq", "binary", "other")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. good: None for a remark that is neither right nor wrong."""

    good: bool | None
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Judged:
    """A deployment, or a collection as it is, that a doctor judged. state: `live`, `waits`, or "" for neither."""

    what: str
    state: str
    findings: tuple[Finding, ...]
    measured: Measured | None = None

    @property
    def good(self) -> bool:
        return all(one.good is not False for one in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON can hold it."""
        measured = None if self.measured is None else asdict(self.measured)
        return {"what": self.what, "state": self.state, "good": self.good, "measured": measured}

    def __str__(self) -> str:
        state = {"live": ", which is live", "waits": ", which waits to be switched", "": ""}[self.state]
        return f"Verdict on {self.what}{state}: it {'works' if self.good else 'does not work as it should'}."


@dataclass(frozen=True)
class Diagnosis:
    """What a doctor found. remarks: on the store as a whole. judged: what is live, then what waits to be switched."""

    store: str
    remarks: tuple[Finding, ...]
    judged: tuple[Judged, ...]

    @property
    def good(self) -> bool:
        """The verdict: whether all that was judged works."""
        return all(one.good for one in self.judged)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was looked at."""
        return (*self.remarks, *(finding for one in self.judged for finding in one.findings))

    @property
    def measured(self) -> Measured | None:
        """What sample queries found in the first that was judged."""
        return self.judged[0].measured

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "store": self.store,
            "good": self.good,
            "findings": [asdict(one) for one in self.findings],
            "measured": None if self.measured is None else asdict(self.measured),
            "judged": [one.to_dict() for one in self.judged],
        }

    def __str__(self) -> str:
        marks = {True: "ok   ", False: "WRONG", None: "     "}
        lines = [self.store]
        for one in self.findings:
            lines.append(f"  {marks[one.good]}  {one.text}")
            if one.remedy:
                lines.append(f"           {one.remedy}")
        return "\n".join([*lines, *map(str, self.judged)])


def doctor(
    store: Store,
    correction: Correction,
    queries: VectorsLike | None = None,
    *,
    items: VectorsLike | None = None,
    threads: int | None = None,
) -> Diagnosis:
    """Check what a store holds against a correction, and measure it with sample queries.

    Looked at is what is live, and what was deployed last and waits to be switched, if it is of this correction. Where
    there is neither it is the collection itself: plain vectors, or vectors that were augmented by hand.
    items: those of the fit, to compare with what the engine holds.
    """
    fitted = as_deployable(correction)
    served = live_of(store)
    place = place_of(store, served)
    live, waiting = None if served is None else served.now, waiting_of(place, served)
    # Vectors that came from a file have no collection of their own.
    known = waiting if live is None else live
    about = (place if known is None or place.exists() else place.sibling(known.collection)).describe()
    remarks = [Finding(None, text) for text in _stored(about)]
    if queries is not None:
        remarks += _queries(as_vectors(queries, "queries"), fitted)
    visit = _Visit(place, fitted, queries, items, threads)
    digest, judged = digest_of(fitted), []
    waits = waiting is not None and (live is None or waiting.digest == digest)
    if live is not None and live.mode == "plain":
        beside = "no deployment is left" if waiting is None else f"{waiting.what} waits"
        remarks.append(Finding(None, f"plain is live; {beside}"))
    elif live is not None and waits and live.digest != digest:
        remarks.append(Finding(None, f"live: {_told(live)}; of another correction, so it was not judged"))
    elif live is not None:
        judged.append(visit.judged(live.what, "live", f"live: {_told(live)}", visit.deployed(live)))
    if waiting is not None and waits:
        told = f"waits to be switched: {_told(waiting)}"
        judged.append(visit.judged(waiting.what, "waits", told, visit.deployed(waiting)))
    elif waiting is not None:
        told = f"waits to be switched: {_told(waiting)}; of another correction, so it was not judged"
        remarks.append(Finding(None, told, "Give that correction to look at it before it is switched."))
    if not judged and about.dimensions == fitted.source.dimensions:
        state, told = ("", "plain vectors; nothing is deployed") if live is None else ("live", "plain vectors")
        judged.append(visit.judged(place.name, state, told, visit.plain()))
    elif not judged:
        told = "no record of a deployment; looked at as vectors augmented by hand"
        judged.append(visit.judged(place.name, "", told, visit.by_hand(about)))
    return Diagnosis(str(store.address), tuple(remarks), tuple(judged))


def _told(one: Deployment) -> str:
    effort = "" if one.effort is None else f", searched with the effort {one.effort}"
    return f"{one.mode}, {one.what}, {one.spec}{effort}"


def _stored(about: Description) -> Iterator[str]:
    codes = "" if about.codes == "none" else f", codes {about.codes}{'' if about.rescored else ' (not re-scored)'}"
    yield (
        f"{about.engine} {about.name}: {about.count:,} vectors of {about.dimensions} dimensions, {about.metric}, index "
        f"{about.index}{codes}"
    )
    if about.settings:
        yield "; ".join(f"{name}: {value}" for name, value in about.settings.items())


def _queries(queries: Vectors, fitted: Bias) -> Iterator[Finding]:
    """Remark on queries that a client must scale itself."""
    if vector_similarity(fitted) != "cosine":
        return
    lengths = np.linalg.norm(queries.block(0, min(len(queries), COMPARED_ITEMS)), axis=1)
    if np.abs(lengths - 1).max() > UNIT:
        yield Finding(
            None,
            f"the queries have lengths from {lengths.min():.3g} to {lengths.max():.3g}",
            "A client in another language must scale each to length one before it appends the strength.",
        )


def _judged(measured: Measured) -> Iterator[Finding]:
    loss = "" if measured.allowed_loss is None else f" (at most {measured.allowed_loss:.3f} below plain is good)"
    remedy = (
        "Deploy with queries, which measures the effort (ef, nprobe) that it needs; or re-score codes, or rotate them."
    )
    yield Finding(
        measured.good if measured.allowed_loss is not None else None,
        f"{measured}{loss}",
        "" if measured.good else remedy,
    )


@dataclass(frozen=True, eq=False)
class _Visit:
    """What a doctor looks with."""

    place: Store
    fitted: Bias
    queries: VectorsLike | None
    items: VectorsLike | None
    threads: int | None

    def judged(self, what: str, state: str, told: str, looked: Iterator[Finding | Measured]) -> Judged:
        """Return what was found; where looking fails, that is the last finding."""
        found, measured = [Finding(None, told)], None
        try:
            for one in looked:
                if isinstance(one, Measured):
                    measured = one
                    found += _judged(one)
                else:
                    found.append(one)
        except ArgumentError as error:
            found.append(Finding(False, f"{error.name} {error.problem}", error.remedy))
        return Judged(what, state, tuple(found), measured)

    def deployed(self, deployment: Deployment) -> Iterator[Finding | Measured]:
        """Look at a deployment: its record, its collection, its vectors, its recall."""
        place, fitted, queries, threads = self.place, self.fitted, self.queries, self.threads
        late = behind(place, deployment.to_json()) if place.exists() else None
        if late is not None:
            yield Finding(False, late.text, late.remedy)
        same = deployment.digest == digest_of(fitted)
        yield Finding(
            same,
            "the correction is the one that was deployed" if same else f"another one was deployed ({deployment.spec})",
            "" if same else "Give the one that was deployed, or deploy this one; if it was only extended, run sync.",
        )
        if not same:
            return
        source = SourceItems.of(place, fitted, self.items) if place.exists() else None
        if source is not None:
            yield Finding(True, "the source has the items of the correction")
            yield from (Finding(None, note) for note in source.notes)
        target = place.sibling(deployment.collection)
        if deployment.mode == "vectors":
            yield from _target(target, deployment, fitted, source)
        else:
            yield from _field(place, deployment, fitted)
        if queries is not None:
            items_source = source or SourceItems(_in_order(target.vectors(), fitted), fitted, None)
            sample = Sample.of(items_source, queries, threads)
            index = deployed_index(place, fitted, deployment.to_json())
            loss = allowed_loss(index.store.describe())
            if deployment.mode == "payload":
                loss = max(loss or 0.0, 1 - KEPT_SHARE)
            yield measure(index, place if source is not None else None, sample, loss)
        else:
            yield Finding(None, "what it finds was not measured", "Give sample queries to measure it.")

    def plain(self) -> Iterator[Finding | Measured]:
        """Look at plain vectors: whether they are those of the correction, and how many candidates would be needed."""
        place, fitted, queries, threads = self.place, self.fitted, self.queries, self.threads
        source = SourceItems.of(place, fitted, self.items)
        yield Finding(True, "it has the items of the correction")
        yield from (Finding(None, note) for note in source.notes)
        index = plain_index(place, fitted)
        if queries is None:
            return
        sample = Sample.of(source, queries, threads)
        candidates, share = sample.candidates_needed(source, threads)
        yield Finding(None, f"the {candidates:,} nearest items hold {share:.3f} of the corrected best")
        yield replace(measure(index, place, sample, None), allowed_loss=1 - KEPT_SHARE)

    def by_hand(self, about: Description) -> Iterator[Finding | Measured]:
        """Look at vectors that somebody augmented: the form, the radius, the biases, and what a search finds."""
        place, fitted, queries, threads = self.place, self.fitted, self.queries, self.threads
        dimensions = fitted.source.dimensions or 0
        extra = about.dimensions - dimensions
        if extra < 1:
            raise place.failed(
                f"has {about.dimensions} dimensions, the correction was fitted on {dimensions}",
                "use the model it was fitted with, or refit",
            )
        stored = _in_order(place.vectors(), fitted)
        rows = stored.block(0, len(stored))
        rounding, rotated = rounding_of(rows), False
        hand = _ByHand.of(rows, fitted, rounding)
        if hand.alike.mean() < MOST:
            turned = _ByHand.of(rows @ rotation(about.dimensions).T, fitted, rounding)
            rotated = bool(turned.alike.mean() >= MOST)
            hand = turned if rotated else hand
        rows, scale, alike = hand.rows, hand.scale, hand.alike
        form: Form = "ip" if extra == 1 else "l2" if about.metric == "l2" else "cosine"
        cosine = vector_similarity(fitted) == "cosine"
        if form == "ip":
            right = about.metric == "dot"
            yield Finding(
                right,
                f"one extra dimension is the ip form, and the collection compares by {about.metric}",
                "" if right else "Use an inner-product collection, or the equal-length form (two extra dimensions).",
            )
        else:
            lengths = scale if cosine else np.linalg.norm(rows, axis=1)
            equal = bool(np.ptp(lengths) <= EQUAL_LENGTHS * lengths.max())
            yield Finding(
                equal,
                "all vectors were stored with one radius"
                if equal
                else f"vectors were stored with different radii ({lengths.max() / lengths.min():.3f} times apart)",
                "" if equal else "Store all of them again with one layout; items that come later take its radius.",
            )
        undone = " once the rotation is undone" if rotated else ""
        yield Finding(
            bool(alike.all()),
            f"{int(alike.sum()):,} of {len(alike):,} items have the bias of the correction in dimension {dimensions}"
            f"{undone}",
            "" if alike.all() else "They were stored with another correction, or turned another way.",
        )
        originals, ratio, shift = rows[:, :dimensions], hand.ratio, hand.shift
        if alike.mean() >= MOST:
            yield from _scaled(ratio, form, Vectors(fitted.ids, originals), fitted)
        if queries is None or not alike.any():
            return
        if about.codes in NAIVE_CODES and not rotated:
            yield Finding(None, f"codes {about.codes} hold the extra dimension badly unless the vectors are rotated")
        similarity = vector_similarity(fitted)
        radius = np.inf if form == "ip" else float(np.median(1 / scale if cosine else np.linalg.norm(rows, axis=1)))
        gated = fitted.active is not None
        layout = Layout(dimensions, form, about.dimensions, rotated, radius, similarity, ratio, shift, gated=gated)
        if METRICS[form] != about.metric:
            layout = replace(layout, form="cosine" if about.metric == "cosine" else "l2", radius=1.0)
        source = SourceItems(Vectors(fitted.ids, originals), fitted, None)
        yield measure(StoreIndex(place, fitted, layout), None, Sample.of(source, queries, threads), allowed_loss(about))


@dataclass(frozen=True, eq=False)
class _ByHand:
    """Vectors that somebody augmented, the lengths of their items, and by which line most biases are stored in them.

    alike: which items have the bias of the correction, by that line.
    """

    rows: Float32
    scale: Float64
    ratio: float
    shift: float
    alike: NDArray[np.bool_]

    @staticmethod
    def of(rows: Float32, fitted: Bias, rounding: float) -> _ByHand:
        """Look for the biases of a correction beside its items; rounding: of what is stored, see `rounding_of`."""
        dimensions = fitted.source.dimensions or 0
        held = rows[:, dimensions].astype(np.float64)
        scale = np.linalg.norm(rows[:, :dimensions], axis=1).astype(np.float64)
        if vector_similarity(fitted) == "cosine":
            held /= np.where(scale > 0, scale, 1.0)
        ratio, shift = _line(held, fitted.bias)
        # A shift makes what is stored longer than the biases.
        tolerance = 1e-4 * np.abs(fitted.bias).max() + rounding * np.abs(held).max() / ratio
        alike = np.isclose(shift - held / ratio, fitted.bias, rtol=1e-3, atol=tolerance)
        return _ByHand(rows, scale, ratio, shift, alike)


def _line(held: Float64, bias: Float64) -> tuple[float, float]:
    """Return the ratio and the shift that a layout had if most of these numbers were stored for these biases.

    1 and 0 where they are the biases themselves, or no line at all.
    """
    if np.median(np.abs(held + bias)) <= 1e-4 * np.abs(bias).max(initial=0.0):
        return 1.0, 0.0
    if np.ptp(bias) == 0:
        return 1.0, float(np.median(held + bias))
    near = np.ones(len(bias), np.bool_)
    for _ in range(LINE_ROUNDS):
        slope, start = np.polyfit(-bias[near], held[near], 1)
        apart = np.abs(held + slope * bias - start)
        near = apart <= np.median(apart)
        if np.ptp(bias[near]) == 0:
            return 1.0, 0.0
    return (float(slope), float(start / slope)) if slope > 0 else (1.0, 0.0)


def _scaled(ratio: float, form: Form, items: Vectors, fitted: Bias) -> Iterator[Finding]:
    """Find fault with biases that are stored smaller or larger than any layout of these items has them.

    Under dot a layout of fewer items, made before the correction was extended, may have had another ratio.
    """
    similarity = vector_similarity(fitted)
    if form == "ip":
        usual, _ = bias_place(items, fitted.bias, similarity)
    else:
        usual = bias_ratio(form, items, fitted.bias, similarity)
    if not np.isclose(ratio, (1.0, usual), rtol=1e-2).any():
        yield Finding(
            False if similarity == "cosine" else None,
            f"the biases are stored {ratio:.3g} times as large as they are",
            f"Unless clients divide the strength by {ratio:.3g}, store them again, by a layout of this correction.",
        )


def _in_order(vectors: Vectors, fitted: Bias) -> Vectors:
    return vectors.gather(Names(vectors.ids).positions(fitted.ids, "items"))


def _target(target: Store, deployment: Deployment, fitted: Bias, source: SourceItems | None) -> Iterator[Finding]:
    about, layout = target.describe(), deployment.layout
    if layout is None:
        yield Finding(False, "the record of the deployment has no layout", "Deploy again.")
        return
    right = (about.dimensions, about.metric) == (layout.width, layout.metric)
    yield Finding(
        right,
        f"its vectors have {about.dimensions} dimensions under {about.metric}, the layout {layout.width} under "
        f"{layout.metric}",
        "" if right else "Deploy again.",
    )
    counted = about.count == len(fitted)
    yield Finding(
        counted,
        f"it holds {about.count:,} items, the correction {len(fitted):,}",
        "" if counted else "Run sync, or deploy again.",
    )
    if right and counted and source is not None:
        drawn = random_positions(len(fitted), min(len(fitted), COMPARED_ITEMS), 0)
        batch = target.fetch(fitted.ids[drawn])
        positions = Names(fitted.ids).positions(batch.ids, "items")
        wanted = layout.rows(source.ready(positions), fitted.bias[positions], fitted.ids[positions])
        alike = _cosines(batch.rows, wanted) >= SAME_COSINE
        yield Finding(
            bool(alike.all()),
            f"{int(alike.sum()):,} of {len(alike):,} stored vectors that were compared are what they should be",
            "" if alike.all() else "Items changed in the source since: run sync.",
        )


def _cosines(first: Float32, second: Float32) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    products = np.einsum("ij,ij->i", first, second, dtype=np.float64)
    lengths = np.linalg.norm(first, axis=1).astype(np.float64) * np.linalg.norm(second, axis=1)
    return np.asarray(products / np.maximum(lengths, 1e-30))


def _field(place: Store, deployment: Deployment, fitted: Bias) -> Iterator[Finding]:
    batch = next(iter(place.batches(payload=True)))
    held = [payload.get(deployment.field) for payload in batch.payload or ()]
    wanted = fitted.bias[Names(fitted.ids).positions(batch.ids, "items")]
    alike = [value is not None and bool(np.isclose(value, h, atol=1e-6)) for value, h in zip(held, wanted, strict=True)]
    yield Finding(
        all(alike),
        f"{sum(alike):,} of {len(alike):,} items that were looked at have the right bias in the field "
        f"{deployment.field}",
        "" if all(alike) else "Run sync, or deploy again.",
    )
