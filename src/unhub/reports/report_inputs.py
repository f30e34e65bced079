"""What a report is about: items, bank and queries, checked against each other once, and the corrections it shows."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from unhub.arrays import Kind, are_among, random_positions
from unhub.banks.known_queries import with_known_queries
from unhub.banks.traffic import recur
from unhub.compute.workers import Progress
from unhub.correction import Correction
from unhub.data.fingerprint import Hashes, inspect
from unhub.data.relevance import Relevance, Truth
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.evaluation.excluding import Exclusion
from unhub.evaluation.inputs import RAW, Corrections, name_corrections
from unhub.fitting import fit
from unhub.matching import Matched, check_widths
from unhub.tuning.spread import usual_methods
from unhub.tuning.tune import tune

MOST_SECONDS = 300.0  # for choosing a correction
# For the curves; the page says how many were used.
MOST_STUDY_QUERIES, MOST_STUDY_BANK_QUERIES = 5_000, 20_000


@dataclass(frozen=True, eq=False)
class ReportInputs:
    """The sets of a report and how they are compared. bank: None if corrections are shown without it."""

    items: Vectors
    bank: Vectors | None
    queries: Vectors
    relevance: Relevance | None
    exclusion: Exclusion | None
    similarity: Kind
    seed: int
    threads: int | None
    fitted: tuple[Correction, ...] = ()  # the corrections, which know the hashes of their banks, if there is no bank

    @functools.cached_property
    def matched(self) -> Matched | None:
        """The three sets, checked against each other, with a hash of each row; None without a bank."""
        if self.bank is None:
            return None
        return Matched.of(self.bank, self.items, self.queries, self.similarity, self.threads)

    @functools.cached_property
    def hashes(self) -> dict[str, Hashes]:
        """A hash of each row of the sets that there are."""
        if self.matched is not None:
            return self.matched.hashes
        sets = {"items": self.items, "queries": self.queries}
        check_widths(sets, against="items")
        return {name: inspect(held, name, self.similarity).hashes for name, held in sets.items()}

    @functools.cached_property
    def known(self) -> Matched | None:
        """The matched sets, where queries that are bank queries but for rounding are known as these."""
        return None if self.matched is None else with_known_queries(self.matched, self.threads)

    @functools.cached_property
    def truth(self) -> Truth | None:
        """Which items answer which query, without excluded items; None without relevance."""
        if self.relevance is None:
            return None
        truth = self.relevance.against(self.queries.ids, self.items.ids)
        if self.exclusion is None:
            return truth
        return self.exclusion.against(self.queries.ids, self.items.ids).without(truth)

    @functools.cached_property
    def leaked(self) -> int:
        """How many queries are in the bank too, or in that of a correction as far as it tells."""
        if self.known is not None:
            return self.known.leaked
        rows = [one.source.bank_rows for one in self.fitted if one.source.bank_rows is not None]
        past = np.concatenate([np.empty(0, np.uint64), *(one.hashes for one in rows)])
        return int(are_among(self.hashes["queries"], past).sum())

    @functools.cached_property
    def study_queries(self) -> Vectors:
        """The queries of the curves; with relevance, only queries that have an answer."""
        asked = self.queries if self.truth is None else self.queries.gather(self.truth.answered)
        return _at_most(asked, MOST_STUDY_QUERIES, self.seed)

    @functools.cached_property
    def study_bank(self) -> Vectors | None:
        """The bank of the curves, if there is a bank."""
        return None if self.bank is None else _at_most(self.bank, MOST_STUDY_BANK_QUERIES, self.seed)


def _at_most(vectors: Vectors, count: int, seed: int) -> Vectors:
    """Return the vectors, or `count` of them drawn at random."""
    if len(vectors) <= count:
        return vectors
    return vectors.gather(random_positions(len(vectors), count, seed))


@dataclass(frozen=True, eq=False)
class Chosen:
    """The corrections of a report by name, the one to show first; whether it is advised; and why.

    reason: None if the caller gave the corrections.
    """

    corrections: dict[str, Correction]
    advised: bool = True
    reason: str | None = None

    @property
    def note(self) -> str | None:
        """How the first correction was chosen, for a reader."""
        if self.reason is None:
            return None
        if self.advised:
            return f"The correction was chosen without looking at labels. {self.reason}"
        shown = next(iter(self.corrections))
        return f"Tuning advises against a correction; {shown} is shown for comparison. {self.reason}"


def given_or_chosen(inputs: ReportInputs, corrections: Corrections | None, progress: Progress | None) -> Chosen:
    """Return the given corrections by name, or what `tune` chooses."""
    if corrections is None:
        return choose(inputs, progress)
    named = name_corrections(corrections)
    if not named:
        raise ArgumentError("corrections", "is empty", "give at least one, or leave it out to have one chosen")
    return Chosen(named)


def choose(inputs: ReportInputs, progress: Progress | None = None) -> Chosen:
    """Choose by the queries without their labels, so that the labels can measure the choice fairly.

    If `tune` advises against a correction, a usual one is shown for comparison.
    """
    if inputs.exclusion is not None:
        problem = "cannot be used while a correction is chosen, since all items are ranked for that"
        raise ArgumentError("exclude", problem, "give the corrections to show")
    if inputs.bank is None or inputs.known is None:
        problem = "is missing, and without a correction to show one is chosen on it"
        raise ArgumentError("bank", problem, "give it, or a correction (--correction)")
    if inputs.leaked == len(inputs.queries) and not recur(inputs.known):
        problem = "are all in the bank, so they cannot be used to choose a correction"
        raise ArgumentError("queries", problem, "take them out of the bank, give other queries, or give a correction")
    items, bank, similarity, seed, threads = inputs.items, inputs.bank, inputs.similarity, inputs.seed, inputs.threads
    tuning = tune(
        items,
        bank,
        inputs.queries,
        similarity=similarity,
        time=MOST_SECONDS,
        seed=seed,
        threads=threads,
        progress=progress,
    )
    _, robust = usual_methods(items, bank, similarity=similarity, seed=seed, threads=threads)
    beside = fit(items, bank, method=robust, similarity=similarity, threads=threads)
    if tuning.best.method.name == RAW:
        return Chosen(name_corrections(beside), advised=False, reason=tuning.reason)
    others = [beside] if tuning.best.spec != beside.spec else []
    return Chosen(name_corrections([tuning.best, *others]), reason=tuning.reason)
