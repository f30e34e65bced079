"""SourceItems: the items that a deployment is made of, in a store or at hand, matched with the correction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind, random_positions, spans, unit
from unhub.correction import Bias, Correction, check_correction
from unhub.data.fingerprint import inspect
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.matching import vector_similarity
from unhub.search.hits import Names, Positions
from unhub.stores.store import BATCH_ROWS, FIELD_PREFIX, Payload, Store, StoredItems

SAME_COSINE = 0.9999  # from which on two vectors are the same, scaled or rounded by an engine
SAME_SHARE = 1e-3  # of a vector's length, by which two may differ and be the same: engines round and scale
COMPARED_ITEMS = 1000  # drawn at random, to compare vectors that an engine may have scaled


def as_deployable(correction: Correction) -> Bias:
    """Return a correction that can be deployed; raise for any other."""
    check_correction(correction, "deploy")
    if not isinstance(correction, Bias):
        raise ArgumentError(
            "correction",
            f"of {correction.spec!r} re-scores whole rows of similarities and is not one number per item, so no engine "
            "can hold it",
            "fit one that is, for example nnn, is or sn",
        )
    vector_similarity(correction)
    return correction


@dataclass(frozen=True, eq=False)
class SourceItems:
    """Items in the order of a correction, (items, dimensions), mapped or in memory, and the store they were read from.

    notes: what could not be compared.
    """

    items: Vectors
    correction: Bias
    store: Store | None
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(given: VectorsLike, correction: Bias, items: VectorsLike | None = None) -> SourceItems:
        """Read the items once and compare them with those of the fit: ids, dimensions, contents.

        items: those of the fit, to compare with where an engine has scaled or rounded its vectors.
        """
        store = given if isinstance(given, Store) else None
        vectors = as_vectors(given, "items")
        _check_ids(vectors, correction, store)
        _check_width(vectors, correction, store)
        ordered = vectors.gather(Names(vectors.ids).positions(correction.ids, "items"))
        notes = _compared(ordered, correction, store, None if items is None else as_vectors(items, "items"))
        return SourceItems(ordered, correction, store, notes)

    @property
    def similarity(self) -> Kind:
        return vector_similarity(self.correction)

    def ready(self, positions: Positions) -> Float32:
        """Return some items ready to multiply."""
        some = self.items.gather(positions)
        return some.unit_block(0, len(some), self.similarity)

    def batches(self, meanwhile: Meanwhile) -> Iterator[tuple[StoredItems, Float64]]:
        """Yield the items ready to multiply, with ids, payload and biases; changes in the store since are counted.

        Fields that a deployment wrote are not payload of the items.
        """
        names, bias = Names(self.correction.ids), self.correction.bias
        if self.store is None:
            for start, stop in spans(len(self.items), BATCH_ROWS):
                rows = self.items.unit_block(start, stop, self.similarity)
                yield StoredItems(self.items.ids[start:stop], rows), bias[start:stop]
            return
        seen = 0
        for batch in self.store.batches(payload=True):
            known = ~names.looked_up(batch.ids)[1]
            meanwhile.added += int((~known).sum())
            payload = None
            if batch.payload is not None:
                payload = [own_payload(batch.payload[row]) for row in np.flatnonzero(known).tolist()]
            kept = StoredItems(batch.ids[known], batch.rows[known], payload)
            if not len(kept.ids):
                continue
            positions = names.positions(kept.ids, "items")
            before = self.items.gather(positions).block(0, len(positions))
            meanwhile.changed += int(differing(before, kept.rows).sum())
            seen += len(positions)
            rows = unit(kept.rows) if self.similarity == "cosine" else kept.rows
            yield kept._replace(rows=np.asarray(rows, np.float32)), bias[positions]
        meanwhile.removed += len(self.items) - seen


@dataclass
class Meanwhile:
    """How many items of a store changed while they were copied."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        if not (self.added or self.changed or self.removed):
            return ()
        return (
            f"The source changed meanwhile: {self.added} items were added, {self.changed} changed, {self.removed} "
            "removed. Run sync.",
        )


def differing(first: Float32, second: Float32) -> NDArray[np.bool_]:
    """Return which rows of two sets are not the same, whatever rounding did to them."""
    return np.asarray(np.linalg.norm(first - second, axis=1) > SAME_SHARE * np.linalg.norm(second, axis=1))


def rounding_of(stored: Float32) -> float:
    """Return by which share of itself a stored number may be rounded: less if not all of them are float16 numbers."""
    with np.errstate(over="ignore"):
        return SAME_SHARE if (stored == stored.astype(np.float16)).all() else 1e-6


def own_payload(payload: Payload) -> Payload:
    """Return a payload without the fields that a deployment wrote."""
    return {name: value for name, value in payload.items() if not name.startswith(FIELD_PREFIX)}


def _about(store: Store | None) -> str:
    return "" if store is None else f" ({store.address})"


def _check_ids(vectors: Vectors, correction: Bias, store: Store | None) -> None:
    held, fitted = vectors.ids, correction.ids
    if held.dtype.kind != fitted.dtype.kind:
        raise ArgumentError(
            "items" if store is None else "store",
            f"has ids such as {held[0].item()!r}{_about(store)}, the correction such as {fitted[0].item()!r}",
            "fit on the same ids, for example on the store itself",
        )
    missing, new = fitted[~np.isin(fitted, held)], held[~np.isin(held, fitted)]
    if len(missing):
        raise ArgumentError(
            "items" if store is None else "store",
            f"has {len(held):,} items{_about(store)} and lacks {len(missing):,} of the {len(fitted):,} of the "
            f"correction, for example {missing[0].item()!r}",
            "are these the right items?"
            if len(missing) == len(fitted)
            else "remove them from the correction (unhub remove), or refit",
        )
    if len(new):
        raise ArgumentError(
            "items" if store is None else "store",
            f"has {len(new):,} items{_about(store)} that the correction does not cover, for example {new[0].item()!r}",
            "extend the correction by them (unhub extend), or refit",
        )


def _check_width(vectors: Vectors, correction: Bias, store: Store | None) -> None:
    if vectors.dimensions != correction.source.dimensions:
        raise ArgumentError(
            "items" if store is None else "store",
            f"has {vectors.dimensions} dimensions{_about(store)}, the correction was fitted on "
            f"{correction.source.dimensions}",
            "use the model it was fitted with, or refit",
        )


def _compared(ordered: Vectors, correction: Bias, store: Store | None, items: Vectors | None) -> tuple[str, ...]:
    """Compare contents with those of the fit; return a note if that was not possible."""
    similarity = vector_similarity(correction)
    if items is not None:
        _check_cosines(ordered, items.gather(Names(items.ids).positions(correction.ids, "items")), similarity)
        return ()
    differ = inspect(ordered, "items", similarity).hashes != correction.item_hashes
    if not differ.any():
        return ()
    share = f"{int(differ.sum()):,} of {len(ordered):,} items"
    if store is not None:  # engines scale and round vectors, some even while they search
        return (f"{share} in the store {_resemblance(ordered, differ, correction, store)}",)
    raise ArgumentError("items", f"has {share} whose numbers are not those of the fit", "refit")


def _resemblance(ordered: Vectors, differ: NDArray[np.bool_], correction: Bias, store: Store) -> str:
    """Say how far items that have not the numbers of the fit are like it; raise if they are of another model."""
    witness = correction.source.witness
    seen = witness is not None and bool(differ[witness.places].any())
    if witness is None or not seen or store.describe().codes not in ("none", "float16"):
        return (
            "have not the very numbers of the fit: the engine scaled or rounded them, or they changed. They were "
            "matched by id alone; give the items of the fit to compare them."
        )
    similarity = vector_similarity(correction)
    cosines, length = witness.cosines(ordered, similarity), " or another length" if similarity == "dot" else ""
    other, compared = int((cosines < SAME_COSINE).sum()), len(cosines)
    unlike = ordered.ids[witness.places[cosines.argmin()]].item()
    if other > compared / 2:
        raise ArgumentError(
            "store",
            f"has other vectors than the correction was fitted on ({store.address}): of {compared:,} compared, "
            f"{other:,} have a cosine below {SAME_COSINE}{length}, for example {unlike!r}",
            "embed both with one model, or refit",
        )
    if other:
        return f"have not the very numbers of the fit, and of {compared:,} compared {other:,} changed. Refit."
    return f"were scaled or rounded by the engine; of {compared:,} compared all are those of the fit."


def _check_cosines(held: Vectors, fitted: Vectors, similarity: Kind) -> None:
    drawn = random_positions(len(held), min(len(held), COMPARED_ITEMS), 0)
    first, second = (one.gather(drawn).unit_block(0, len(drawn), "cosine") for one in (held, fitted))
    cosines = np.einsum("ij,ij->i", first, second, dtype=np.float64)
    if similarity == "dot":
        here, there = (np.linalg.norm(one.gather(drawn).block(0, len(drawn)), axis=1) for one in (held, fitted))
        cosines = np.where(np.isclose(here, there, rtol=1 - SAME_COSINE, atol=0), cosines, -1.0)
    worst = int(cosines.argmin())
    if cosines[worst] < SAME_COSINE:
        raise ArgumentError(
            "items",
            f"differ from those of the fit: of {len(drawn):,} compared, {int((cosines < SAME_COSINE).sum()):,} have a "
            f"cosine below {SAME_COSINE}, for example {held.ids[drawn[worst]].item()!r}",
            "embed both with one model, or refit",
        )
