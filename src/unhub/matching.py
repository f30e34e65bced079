"""Matching: check inputs once, against each other and against the items that a correction was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Ids, Kind, are_among
from unhub.compute.workers import Workers
from unhub.correction import Bias, Correction
from unhub.data.fingerprint import CheckedOnce, Hashes, inspect
from unhub.data.ids import positions_of
from unhub.data.similarity import check_similarity
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.hopeless_banks import items_as_bank

ONE_MODEL_REMEDY = "embed both with one model"
ALL_ROWS_DIFFER_HINT = (
    ". Every row differs: are they in another precision (float16 for float32), or scaled to length one?"
)


class OtherContents(ArgumentError):
    """Items that have the ids of the fitted items but different contents."""


def checked_once(value: VectorsLike, name: str) -> CheckedOnce:
    """Return a user's input as vectors that are checked and hashed once, however many functions use them.

    Every public function that passes its vectors on to other functions starts with this.
    """
    vectors = as_vectors(value, name)
    return vectors if isinstance(vectors, CheckedOnce) else CheckedOnce(vectors)


def checked_now(value: VectorsLike, name: str, similarity: Kind, threads: int | None = None) -> CheckedOnce:
    """Return vectors as `checked_once` does, with every row already checked, so that parts are not checked again."""
    vectors = checked_once(value, name)
    inspect(vectors, name, similarity, Workers(threads).spread)
    return vectors


def check_widths(sets: Mapping[str, Vectors], against: str) -> None:
    """Raise unless all sets, by name, have as many dimensions as the set named `against`."""
    width = sets[against].dimensions
    for name, vectors in sets.items():
        if vectors.dimensions != width:
            problem = f"has {vectors.dimensions} dimensions, the {against.replace('_', ' ')} {width}"
            raise ArgumentError(name, problem, ONE_MODEL_REMEDY)


def vector_similarity(correction: Correction) -> Kind:
    """Return the similarity of the vectors a correction was fitted on; raise for one fitted on a matrix."""
    if correction.source.similarity == "given":
        raise ArgumentError(
            "correction",
            f"of {correction.spec!r} was fitted on a similarity matrix and has no vectors",
            "apply it to a matrix of scores",
        )
    return correction.source.similarity


class Located(NamedTuple):
    """The position of each item in a correction, and whether every row was found to have length one."""

    places: NDArray[np.int64]
    unit_length: bool


def locate(
    items: Vectors, correction: Correction, threads: int | None = None, hashes: NDArray[np.uint64] | None = None
) -> Located:
    """Return the position of each item in the correction; raise where its contents differ from the fit.

    hashes: those of the items, if they are already known.
    """
    similarity = vector_similarity(correction)
    if items.dimensions != correction.source.dimensions:
        raise ArgumentError(
            "items",
            f"has {items.dimensions} dimensions, the correction was fitted on {correction.source.dimensions}",
            "use the model it was fitted with, or refit",
        )
    try:
        places = _places(items.ids, correction.ids)
    except ArgumentError:
        _check_swapped(inspect(items, "items", similarity, Workers(threads).spread).hashes, correction)
        raise
    unit_length = False
    if hashes is None:
        hashes, unit_length = inspect(items, "items", similarity, Workers(threads).spread)
    differ = np.flatnonzero(hashes != correction.item_hashes[places])
    if len(differ):
        row = int(differ[0])
        _check_swapped(hashes, correction)
        raise OtherContents(
            "items",
            f"differs from the items of the fit in row {row} (item {items.ids[row].item()!r}) and in "
            f"{len(differ) - 1} more of {len(items)} rows",
            "refit or extend the correction; if only the order of the rows changed, give their ids"
            f"{ALL_ROWS_DIFFER_HINT if len(differ) == len(items) else ''}",
        )
    return Located(places, unit_length)


def _check_swapped(hashes: Hashes, correction: Correction) -> None:
    """Raise if most of these items are the bank queries of a fit whose own items they are not."""
    bank = correction.source.bank_rows
    found = 0 if bank is None else int(are_among(hashes, bank.hashes).sum())
    if 2 * found > len(hashes) and not are_among(hashes, correction.item_hashes).any():
        raise OtherContents(
            "items",
            f"has {found:,} of {len(hashes):,} rows that were the bank of the fit, and none of its items",
            "items and bank were swapped there: fit again",
        )


def _places(ids: Ids, fitted: Ids) -> NDArray[np.int64]:
    if len(ids) <= len(fitted) and np.array_equal(ids, fitted[: len(ids)]):
        return np.arange(len(ids))
    if ids.dtype.kind == fitted.dtype.kind:
        unknown = np.flatnonzero(~np.isin(ids, fitted))
        if len(unknown):
            raise ArgumentError(
                "items",
                f"has {len(unknown)} of {len(ids)} rows that are not in the correction, for example "
                f"{ids[unknown[0]].item()!r}",
                "refit or extend the correction, or give the ids that the items had in the fit",
            )
    return positions_of(ids, fitted, "items")


def in_fitted_order(items: Vectors, correction: Correction, threads: int | None = None) -> Vectors:
    """Return the items in the order of the correction; raise unless it was fitted on exactly these."""
    places, unit_length = locate(items, correction, threads)
    if len(items) < len(correction):
        missing = np.setdiff1d(np.arange(len(correction)), places)
        raise ArgumentError(
            "items",
            f"lacks {len(missing)} of the {len(correction)} items of the correction, for example "
            f"{correction.ids[missing[0]].item()!r}",
            "give them all, or remove the missing ones from the correction",
        )
    # Corrections other than a bias compare scores for equality, which rows of only nearly unit length would break.
    items = items.seen(unit_length and isinstance(correction, Bias))
    return items if np.all(places[1:] > places[:-1]) else items.gather(np.argsort(places))


def prepare_queries(queries: VectorsLike, correction: Correction) -> Float32:
    """Return queries ready to multiply, (queries, dimensions): finite, and of unit length under cosine."""
    similarity = vector_similarity(correction)
    if isinstance(queries, np.ndarray) and queries.ndim == 1:
        raise ArgumentError(
            "queries", f"must be (queries, dimensions), got shape {queries.shape}", "give one query as a single row"
        )
    vectors = as_vectors(queries, "queries", least=0)  # an empty batch is valid and gets no answers
    if vectors.dimensions != correction.source.dimensions:
        raise ArgumentError(
            "queries",
            f"has {vectors.dimensions} dimensions, the items {correction.source.dimensions}",
            ONE_MODEL_REMEDY,
        )
    if not len(vectors):
        return np.empty((0, vectors.dimensions), np.float32)
    inspect(vectors, "queries", similarity)
    return vectors.unit_block(0, len(vectors), similarity)


def check_unweighed(correction: Correction, weights: Float64) -> None:
    """Raise if a correction that is not a bias has a weight other than 1."""
    if not isinstance(correction, Bias) and np.any(weights != 1):
        raise not_weighed(correction)


def not_weighed(correction: Correction) -> ArgumentError:
    """Return the error for a strength other than 1 with a correction that is not a bias."""
    return ArgumentError("strength", f"must be 1 for {correction.spec!r}, since only a bias can be scaled")


@dataclass(frozen=True, eq=False)
class Matched:
    """A bank, with items, queries and bank items if given: all of the same dimensions, with a hash of each row.

    counts: how often each bank query was asked, if repeats were joined without weighing them.
    """

    bank: CheckedOnce
    items: CheckedOnce | None
    queries: CheckedOnce | None
    bank_items: CheckedOnce | None
    hashes: dict[str, Hashes]
    kind: Kind
    counts: Float64 | None = None

    @staticmethod
    def of(
        bank: VectorsLike,
        items: VectorsLike | None,
        queries: VectorsLike | None,
        similarity: Kind,
        threads: int | None,
        bank_items: VectorsLike | None = None,
    ) -> Matched:
        """Check every row of a user's inputs."""
        check_similarity(similarity)
        given = {"bank": bank, "items": items, "queries": queries, "bank_items": bank_items}
        sets = {name: checked_once(value, name) for name, value in given.items() if value is not None}
        check_widths(sets, against="items" if "items" in sets else "bank")
        workers = Workers(threads)
        hashes = {name: inspect(vectors, name, similarity, workers.spread).hashes for name, vectors in sets.items()}
        return Matched(sets["bank"], sets.get("items"), sets.get("queries"), sets.get("bank_items"), hashes, similarity)

    def only(self, parts: Mapping[str, NDArray[np.int64]]) -> Matched:
        """Return the same with only the rows at these positions of the sets that are named."""
        sets = {name: getattr(self, name) for name in ("bank", "items", "queries", "bank_items")}
        sets.update({name: sets[name].gather(positions) for name, positions in parts.items()})
        hashes = {**self.hashes, **{name: self.hashes[name][positions] for name, positions in parts.items()}}
        counts = self.counts
        if counts is not None and "bank" in parts:
            counts = counts[parts["bank"]]
        return Matched(**sets, hashes=hashes, kind=self.kind, counts=counts)

    @property
    def leaked(self) -> int:
        """How many queries are also in the bank, by their hashes."""
        return int(are_among(self.hashes["queries"], self.hashes["bank"]).sum()) if self.queries is not None else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if most bank queries are items, by mistake or for lack of past queries."""
        return items_as_bank(self.hashes["items"], self.hashes["bank"]) if self.items is not None else ()
