"""Inputs of an evaluation: queries, items and the corrections to compare on them, checked against each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unhub.arrays import Ids, Kind, are_among
from unhub.compute.workers import Workers
from unhub.correction import Bias, Correction, Fitted, Rescore
from unhub.data.copies import NO_COPIES, Copies
from unhub.data.fingerprint import NOTED_REPEATS, Hashes, among, inspect
from unhub.data.relevance import RelevanceLike, Truth, as_relevance
from unhub.data.similarity import Dense, Dot, Similarity, check_similarity
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError, check_whole, seen
from unhub.evaluation.excluding import ExcludeLike, Exclusion, LeftOut
from unhub.evaluation.placing import Additive, Placed, Ranking, as_ranking, check_strength, place, raw_ranking, weighed
from unhub.hopeless_banks import ASK_JUDGE
from unhub.matching import check_widths, locate
from unhub.methods import METHODS

RAW = "raw"
FIT_OR_LOAD = "fit one, or load one that was saved"

Corrections: TypeAlias = Mapping[str, Correction] | Sequence[Correction] | Correction


@dataclass(frozen=True, eq=False)
class EvaluationInputs:
    """What is ranked: the similarity of queries and items, their ids, and corrections by name, in the items' order.

    left_out: the items that are excluded for single queries. notes: on these, and on corrections that are not what
    their name says. leaks: notes on queries that corrections were fitted on.
    """

    similarity: Similarity
    query_ids: Ids
    item_ids: Ids
    corrections: Mapping[str, tuple[Correction, Ranking]]
    copies: Copies = NO_COPIES
    left_out: LeftOut | None = None
    notes: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()

    @staticmethod
    def of(
        queries: VectorsLike | Dense,
        items: VectorsLike | None,
        corrections: Corrections = (),
        similarity: Kind | None = None,
        threads: int | None = None,
        name: str = "queries",
        exclude: ExcludeLike | None = None,
    ) -> EvaluationInputs:
        """Check what a user gives: vectors, or a Dense matrix of (queries, items) similarities and no items.

        name: what errors call the queries. exclude: items that are not ranked for a query, as `evaluate` takes it.
        """
        named = name_corrections(corrections)
        if isinstance(queries, Dense):
            if items is not None:
                raise ArgumentError(
                    "items", "is given, and queries is a Dense matrix, whose columns are the items", "leave it out"
                )
            ranked = {name: (one, _given(one, queries)) for name, one in named.items()}
            rows = np.arange(queries.shape[0])
            left_out, notes = _left_out(exclude, rows, queries.item_ids)
            notes += _without_items(named)
            return EvaluationInputs(queries, rows, queries.item_ids, _but_raw(ranked), NO_COPIES, left_out, notes)
        if items is None:
            raise ArgumentError("items", "is missing", "give the vectors of the gallery")
        asked, gallery = as_vectors(queries, name), as_vectors(items, "items")
        check_widths({name: asked, "items": gallery}, against="items")
        kind = _kind(named, similarity)
        workers = Workers(threads)
        asked_hashes = inspect(asked, name, kind, workers.spread).hashes
        hashes = inspect(gallery, "items", kind, workers.spread).hashes
        ranked = {name: (one, _ordered(one, gallery, hashes)) for name, one in named.items()}
        copies = Copies.among(gallery, hashes)
        left_out, notes = _left_out(exclude, asked.ids, gallery.ids, asked_hashes, hashes)
        notes += _without_items(named)
        if exclude is None:
            notes += _found_by_themselves(asked_hashes, hashes)
        pairs = Dot(Vectors(asked.ids, asked.rows), Vectors(gallery.ids, gallery.rows), kind)  # no hashes to keep
        leaks = _asked_in_fits(named, asked_hashes)
        return EvaluationInputs(pairs, asked.ids, gallery.ids, _but_raw(ranked), copies, left_out, notes, leaks)

    @staticmethod
    def with_one(
        queries: VectorsLike | Dense,
        items: VectorsLike | None,
        correction: Correction | None,
        similarity: Kind | None,
        threads: int | None,
        exclude: ExcludeLike | None,
    ) -> EvaluationInputs:
        """Check the inputs of an evaluation of one correction, or of none."""
        corrections = () if correction is None else (correction,)
        return EvaluationInputs.of(queries, items, corrections, similarity, threads, exclude=exclude)

    def rankings(self, strength: float = 1.0) -> list[Ranking]:
        """Return the raw ranking, then that of each correction at this strength."""
        check_strength(strength)
        return [raw_ranking(len(self.item_ids)), *(weighed(one, strength) for _, one in self.corrections.values())]

    def place(self, truth: Truth, rankings: Sequence[Ranking], workers: Workers, best: int = 0) -> list[Placed]:
        """Return where each ranking puts the answers, and its best items; items with equal contents tie."""
        return place(self.similarity, truth, rankings, workers, best, self.copies, self.left_out)

    def truth(self, relevance: RelevanceLike) -> Truth:
        """Return the positions of the answers, without those that are excluded."""
        truth = as_relevance(relevance).against(self.query_ids, self.item_ids)
        return truth if self.left_out is None else self.left_out.without(truth)

    def places(self, k: int, name: str = "k") -> int:
        """Check that k is a whole number of at least 1, and return it, or the number of items if that is smaller."""
        return min(check_whole(k, name, 1), len(self.item_ids))


def _found_by_themselves(queries: Hashes, items: Hashes) -> tuple[str, ...]:
    """Return a note if most queries are items: each then finds itself, and the figures mean nothing."""
    found = int(among(queries, items).sum())
    if 2 * found < len(queries):
        return ()
    return (
        f"{found:,} of {len(queries):,} queries are items and find themselves: exclude each query's own item from its "
        "ranking.",
    )


def _asked_in_fits(corrections: Mapping[str, Correction], queries: Hashes) -> tuple[str, ...]:
    """Return a note if queries that are measured on are in the bank of a correction."""
    banks = {name: one.source.bank_rows for name, one in corrections.items() if one.source.bank_rows is not None}
    counts = {name: int(are_among(queries, bank.hashes).sum()) for name, bank in banks.items()}
    most = max(counts.values(), default=0)
    if most <= NOTED_REPEATS * len(queries):
        return ()
    names = ", ".join(name for name, count in counts.items() if count == most)
    return (
        f"{most:,} of {len(queries):,} queries are in the bank of {names}, so its figures look too good for new "
        f"queries: measure on others, or take these out of the bank. {ASK_JUDGE} and whether they recur as in a log.",
    )


def _left_out(
    exclude: ExcludeLike | None,
    queries: Ids,
    items: Ids,
    query_hashes: Hashes | None = None,
    item_hashes: Hashes | None = None,
) -> tuple[LeftOut | None, tuple[str, ...]]:
    """Return what is not ranked, and notes on it, such as items that share a query's id but not its vector."""
    if exclude is None:
        return None, ()
    exclusion = Exclusion.of(exclude, queries, items)
    left_out = exclusion.against(queries, items)
    notes = [exclusion.note(left_out)]
    if exclusion.own and query_hashes is not None and item_hashes is not None:
        differ = int((query_hashes[left_out.owners] != item_hashes[left_out.positions]).sum())
        if differ:
            notes.append(
                f"{differ:,} of these items differ from the query with the same id: if that is a mistake, give ids for "
                "both sets."
            )
    return left_out, tuple(notes)


def _without_items(corrections: Mapping[str, Correction]) -> tuple[str, ...]:
    """Return a note on the corrections that use bank items but were fitted without them."""
    joint = {name: one for name, one in corrections.items() if METHODS[one.method.name].joint}
    names = [name for name, one in joint.items() if not len(one.arrays["bank_item_h"])]
    return (f"Fitted without bank items, and so the same as 'sn': {', '.join(names)}.",) if names else ()


def name_corrections(corrections: Corrections) -> dict[str, Correction]:
    """Return corrections by name: their specs, numbered where those repeat."""
    given: object = corrections  # an untyped caller may give anything
    if isinstance(given, str) or not isinstance(given, Iterable | Fitted):
        raise ArgumentError("corrections", f"must be one fitted correction or several, got {seen(given)}", FIT_OR_LOAD)
    if isinstance(corrections, Mapping):
        named = dict(corrections)
        for key in named:
            if not isinstance(key, str):
                raise ArgumentError("corrections", f"must be named by texts, got the name {key!r}")
    else:
        named = {}
        for one in [corrections] if isinstance(corrections, Fitted) else corrections:
            spec = _fitted(one).spec
            same = sum(other.spec == spec for other in named.values())
            named[spec if not same else f"{spec} ({same + 1})"] = one
    for name, one in named.items():
        zero = isinstance(_fitted(one), Bias) and not np.any(one.arrays["bias"])
        if name == RAW and not zero:
            raise ArgumentError(
                "corrections",
                f"has one named {RAW!r}, which is the ranking without a correction",
                "choose another name",
            )
    return named


def _fitted(correction: object) -> Fitted:
    if not isinstance(correction, Fitted):
        raise ArgumentError("corrections", f"must be fitted corrections, got {seen(correction)}", FIT_OR_LOAD)
    return correction


def _but_raw(ranked: dict[str, tuple[Correction, Ranking]]) -> dict[str, tuple[Correction, Ranking]]:
    """Leave out corrections that are raw, since the raw ranking is always there; they were checked like the others."""
    return {name: both for name, both in ranked.items() if name != RAW}


def _kind(corrections: Mapping[str, Correction], similarity: Kind | None) -> Kind:
    """Return the similarity that all corrections agree on; cosine by default."""
    if similarity is not None:
        check_similarity(similarity)
    for name, one in corrections.items():
        if one.source.similarity == "given":
            raise ArgumentError(
                "corrections",
                f"has {name}, which was fitted on a given similarity matrix",
                "evaluate it on a matrix of similarities too",
            )
        if similarity is not None and one.source.similarity != similarity:
            raise ArgumentError(
                "corrections",
                f"has {name}, which was fitted under {one.source.similarity} similarity, not under {similarity}",
                "evaluate corrections of one similarity together",
            )
        similarity = one.source.similarity
    return similarity or "cosine"


def _given(correction: Correction, matrix: Dense) -> Ranking:
    if correction.source.similarity != "given" or not np.array_equal(correction.ids, matrix.item_ids):
        raise ArgumentError(
            "corrections", f"has {correction.spec}, which was not fitted on a matrix of these {matrix.shape[1]} items"
        )
    return as_ranking(correction)


def _ordered(correction: Correction, items: Vectors, hashes: np.ndarray) -> Ranking:
    """Return the ranking of a correction for the items in the order they are given in."""
    places = locate(items, correction, hashes=hashes).places
    if len(items) != len(correction):
        raise ArgumentError(
            "items",
            f"has {len(items)} rows, {correction.spec} was fitted on {len(correction)}",
            "give them all, or remove the missing ones from the correction",
        )
    ranking = as_ranking(correction)
    if isinstance(ranking, Additive):
        return Additive(ranking.h[places], None if ranking.active is None else ranking.active[places])
    if np.any(places[1:] < places[:-1]):
        raise ArgumentError(
            "items", f"must be in the order of the fit for {correction.spec}, which looks at whole rows"
        )
    if isinstance(ranking, Rescore):
        # The hashes above show that the rows are those of the fit; `bind` would hash them again.
        ranking = dataclasses.replace(ranking, items=Vectors(correction.ids, items.rows))
    return ranking
