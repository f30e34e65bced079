"""Comparing: one measure, with its interval, for many corrections in one pass, with or without labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Kind
from unhub.compute.workers import Progress, Resources
from unhub.correction import Correction
from unhub.data.relevance import Relevance, RelevanceLike, Truth, as_relevance
from unhub.data.vectors import Vectors, VectorsLike
from unhub.errors import ArgumentError, check_seed
from unhub.evaluation.confidence import Interval, Resamples, summaries
from unhub.evaluation.excluding import Exclusion
from unhub.evaluation.hubness import figures_of
from unhub.evaluation.inputs import RAW, EvaluationInputs
from unhub.evaluation.measures import Measure, parse_measure
from unhub.evaluation.placing import occurrences
from unhub.evaluation.ranked import Ranked
from unhub.fitting import fit
from unhub.matching import checked_once

SKEWNESS = "skewness"
COUNTED_PLACES = 10  # best items of each query in which hubness is counted
JACKKNIFE_PARTS = 20  # parts of the queries, each left out once for the interval of a skewness
NORMAL_QUANTILE = 1.96  # standard errors on each side of a 95% interval


@dataclass(frozen=True, eq=False)
class Judge:
    """What corrections are compared by: the queries, a measure, and which items answer them, if known.

    measure: None is skewness, which needs no labels. exclusion: items that are not ranked for single queries.
    """

    queries: Vectors
    relevance: Relevance | None
    measure: Measure | None
    similarity: Kind = "cosine"
    seed: int = 0
    threads: int | None = None
    exclusion: Exclusion | None = None

    @staticmethod
    def of(
        queries: VectorsLike,
        relevance: RelevanceLike | None,
        measure: str | None,
        similarity: Kind,
        seed: int,
        threads: int | None,
        exclusion: Exclusion | None = None,
    ) -> Judge:
        """Check what a user gives; the default measure is R@1 with labels and skewness without."""
        wanted = measure if measure is not None else SKEWNESS if relevance is None else "R@1"
        if wanted != SKEWNESS and relevance is None:
            raise ArgumentError("measure", f"{wanted!r} needs relevance", f"give relevance, or choose {SKEWNESS!r}")
        return Judge(
            checked_once(queries, "queries"),
            None if relevance is None else as_relevance(relevance),
            None if wanted == SKEWNESS else parse_measure(wanted),
            similarity,
            check_seed(seed),
            threads,
            exclusion,
        )

    @property
    def name(self) -> str:
        """The measure as a user types it."""
        return f"{SKEWNESS}@{COUNTED_PLACES}" if self.measure is None else str(self.measure)

    @property
    def falls(self) -> bool:
        """Whether lower is better."""
        return self.measure is None or self.measure.family.falls

    def __call__(
        self, items: Vectors, corrections: Mapping[str, Correction], progress: Progress | None = None
    ) -> dict[str, Interval]:
        """Return the measure of the raw ranking and of each correction, by name, over these items."""
        inputs, resources = self._inputs(items, corrections), Resources(self.threads, progress=progress)
        if self.measure is None or self.relevance is None:
            ranked = Ranked.of(inputs, resources, best=inputs.places(COUNTED_PLACES))
            values = [skewness_of(one.best, len(items), self.seed) for one in ranked.placed]
        else:
            truth = inputs.truth(self.relevance)
            values = measured(Ranked.of(inputs, resources, truth), truth, self.measure, self.seed)
        return dict(zip([RAW, *inputs.corrections], values, strict=True))

    def counts(
        self, items: Vectors, corrections: Mapping[str, Correction], k: int, progress: Progress | None = None
    ) -> dict[str, NDArray[np.int64]]:
        """Return how often each item is among the k best of a query, raw and with each correction, by name."""
        inputs, resources = self._inputs(items, corrections), Resources(self.threads, progress=progress)
        ranked = Ranked.of(inputs, resources, best=inputs.places(k))
        counted = (occurrences(one.best, len(items)) for one in ranked.placed)
        return dict(zip([RAW, *inputs.corrections], counted, strict=True))

    def fit(
        self,
        items: Vectors,
        bank: VectorsLike,
        specs: Sequence[str],
        progress: Progress | None = None,
        bank_items: Vectors | None = None,
    ) -> dict[str, Correction]:
        """Fit the methods of these specs in one pass, under the similarity of this judge."""
        methods = list(dict.fromkeys(specs))
        fitted = fit(
            items,
            bank,
            method=methods,
            bank_items=bank_items,
            similarity=self.similarity,
            threads=self.threads,
            progress=progress,
        )
        return dict(zip(methods, fitted, strict=True))

    def answers(self, items: Vectors) -> NDArray[np.int64]:
        """Return the positions of the items that answer some query; none without labels."""
        if self.measure is None or self.relevance is None:
            return np.empty(0, np.int64)
        return np.unique(self._truth(items, self.relevance).positions)

    def answered_by(self, items: Vectors) -> Judge:
        """Return this judge with only the queries that these items answer; with all of them without labels."""
        if self.measure is None or self.relevance is None:
            return self
        truth = self._truth(items, self.relevance)
        return dataclasses.replace(self, queries=self.queries.gather(truth.answered))

    def notes(self, items: Vectors) -> tuple[str, ...]:
        """Say which items are not ranked, if any."""
        return () if self.exclusion is None else self._inputs(items, {}).notes

    def _inputs(self, items: Vectors, corrections: Mapping[str, Correction]) -> EvaluationInputs:
        return EvaluationInputs.of(
            self.queries, items, corrections, self.similarity, self.threads, exclude=self.exclusion
        )

    def _truth(self, items: Vectors, relevance: Relevance) -> Truth:
        truth = relevance.against(self.queries.ids, items.ids)
        return truth if self.exclusion is None else self.exclusion.against(self.queries.ids, items.ids).without(truth)


def measured(ranked: Ranked, truth: Truth, measure: Measure, seed: int) -> list[Interval]:
    """Return a measure of each ranking with its bootstrap interval, over the same resamples."""
    values = ranked.values(measure)
    drawn = Resamples(truth.groups[truth.answered], seed=seed)
    (resampled,) = drawn.summaries([measure], [values])
    wholes = summaries(measure, values)
    return [drawn.interval(float(whole), of_one) for whole, of_one in zip(wholes, resampled.T, strict=True)]


def skewness_of(best: NDArray[np.int32], items: int, seed: int) -> Interval:
    """Return the skewness of the counts with a 95% interval by the jackknife over 20 parts of the queries.

    A bootstrap would draw some queries twice, and so create hubs.
    """
    return jackknife([best], items, seed, lambda counts: figures_of(counts[0]).skewness)


def jackknife(
    rankings: Sequence[NDArray[np.int32]],
    items: int,
    seed: int,
    figure: Callable[[Sequence[NDArray[np.int64]]], float],
) -> Interval:
    """Return a figure of the counts of rankings with a 95% interval: each of 20 parts of the queries is left out once.

    rankings: the best items of the same queries, (queries, k) each.
    """
    queries = len(rankings[0])
    parts = min(JACKKNIFE_PARTS, queries)
    part = np.random.default_rng(seed).permutation(queries) % parts
    every = [occurrences(best, items) for best in rankings]
    value = figure(every)
    left_out = np.array(
        [
            figure(
                [counts - occurrences(best[part == one], items) for counts, best in zip(every, rankings, strict=True)]
            )
            for one in range(parts)
        ]
    )
    error = float(np.sqrt((parts - 1) / parts * np.square(left_out - left_out.mean()).sum()))
    return Interval(value, value - NORMAL_QUANTILE * error, value + NORMAL_QUANTILE * error)
