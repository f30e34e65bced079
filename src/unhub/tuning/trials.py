"""Trials: rank the items for some queries by every candidate, until the time is up, and keep the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.compute.progress import Clock, OutOfTime
from unhub.data.relevance import Truth
from unhub.data.similarity import Dot
from unhub.data.vectors import Vectors
from unhub.evaluation.comparing import COUNTED_PLACES
from unhub.evaluation.hubness import Figures, figures_of
from unhub.evaluation.measures import Measure
from unhub.evaluation.placing import Additive, Placed, Ranking, occurrences, place, raw_ranking
from unhub.evaluation.ranked import no_truth
from unhub.methods import Method, parse
from unhub.tuning.candidates import Candidate, FittingSets, fitted
from unhub.tuning.outcome import TriedSetting


@dataclass(frozen=True, eq=False)
class TrialQueries:
    """The queries that rankings are compared on, with their answers and the measure; without labels, neither."""

    queries: Vectors
    truth: Truth
    measure: Measure | None

    @staticmethod
    def without_labels(queries: Vectors) -> TrialQueries:
        return TrialQueries(queries, no_truth(len(queries)), None)

    def values(self, placed: Placed, items: int) -> Float64:
        """Return the values of the measure's parts for each query, (parts, queries); no parts without labels."""
        if self.measure is None:
            return np.empty((0, len(self.queries)))
        places = placed.answers(self.truth, items)
        return np.array([part.values(places) for part in self.measure.parts])

    def place(self, rankings: Sequence[Ranking], sets: FittingSets, clock: Clock, limited: bool = True) -> list[Placed]:
        """Return where each ranking puts the answers and the best items of these queries."""
        workers = clock.workers(limited)
        best = min(COUNTED_PLACES, len(sets.items))
        return place(Dot(self.queries, sets.items, sets.kind), self.truth, rankings, workers, best, sets.copies)


@dataclass(frozen=True, eq=False)
class Trials:
    """What was tried, raw first: the methods, values by query, (parts, methods, queries), hubness, seconds.

    unevenness: the Robin Hood index that rankings are compared by without labels, see `uneven`. strengths: the standard
    deviation of h, infinite if a ranking is not just a bias. left_out: the methods that there was no time for.
    """

    methods: list[Method]
    values: Float64
    figures: list[Figures]
    unevenness: list[float]
    strengths: list[float]
    seconds: list[float]
    left_out: list[Method]

    def table(self, order: NDArray[np.int64], values: Float64 | None = None) -> tuple[TriedSetting, ...]:
        """Return what was tried in this order, with the value of the measure if there are labels."""
        return tuple(
            TriedSetting(
                self.methods[row].spec,
                None if values is None else float(values[row]),
                self.figures[row],
                self.seconds[row],
            )
            for row in order.tolist()
        )


def try_all(
    methods: Sequence[Method],
    sets: FittingSets,
    judged: TrialQueries,
    clock: Clock,
    *,
    refits: float,
    after: float = 0.0,
) -> Trials:
    """Fit every method and rank by it, group by group, while there is time for what comes after.

    refits: how many fits on twice the bank come after. after: the seconds that the rest takes.
    """
    bank = sets.similarities
    wanted = list(dict.fromkeys(method.resolve(bank)[0] for method in methods))
    tried: list[Method] = []
    values: list[Float64] = []
    figures: list[Figures] = []
    unevenness: list[float] = []
    strengths: list[float] = []
    seconds: list[float] = []

    def judge(group: Sequence[Candidate]) -> None:
        before, items = clock.seconds, len(sets.items)
        rankings = [one.ranking for one in group]
        ungated = {row: without_gate(one) for row, one in enumerate(rankings) if judged.measure is None and gated(one)}
        placed = judged.place([*rankings, *ungated.values()], sets, clock)
        opened = dict(zip(ungated, placed[len(group) :], strict=True))
        each = (clock.seconds - before) / len(group)
        for row, (candidate, one) in enumerate(zip(group, placed[: len(group)], strict=True)):
            tried.append(candidate.method)
            values.append(judged.values(one, items))
            figures.append(figures_of(occurrences(one.best, items)))
            unevenness.append(uneven([one, opened[row]] if row in opened else [one], items))
            strengths.append(strength(candidate.ranking))
            seconds.append(candidate.seconds + each)

    clock.reserved = after
    try:
        judge([Candidate(parse("raw"), raw_ranking(len(sets.items)), 0.0, 0.0)])
        for group in fitted(wanted, sets, clock):
            clock.reserved = max(clock.reserved, after + refits * max(one.again for one in group))
            judge(group)
    except OutOfTime:
        pass
    left_out = [method for method in wanted if method not in tried]
    stacked = np.stack(values, axis=1) if values else np.empty((0, 0, 0))
    return Trials(tried, stacked, figures, unevenness, strengths, seconds, left_out)


def specs_of(methods: Sequence[Method]) -> tuple[str, ...]:
    """Return the specs of methods, as a user types them."""
    return tuple(method.spec for method in methods)


def gated(ranking: Ranking) -> TypeGuard[Additive]:
    """Return whether a ranking corrects some queries and leaves the others raw."""
    return isinstance(ranking, Additive) and ranking.active is not None


def without_gate(ranking: Additive) -> Additive:
    """Return the ranking that corrects every query."""
    return replace(ranking, active=None)


def uneven(placed: Sequence[Placed], items: int) -> float:
    """Return the Robin Hood index that a ranking is judged by, given its places with and without its gate.

    A gate mixes the raw ranking and the corrected one. Their hubs are different items, so the mixture looks more even
    than either, even if the answers get worse, and must not be chosen for that. A gated ranking therefore counts as no
    more even than its correction applied to all queries.
    """
    return max(figures_of(occurrences(one.best, items)).robin_hood for one in placed)


def strength(ranking: Ranking) -> float:
    """Return the standard deviation of a ranking's h; infinite if it is not just a bias."""
    return float(ranking.h.std(dtype=np.float64)) if isinstance(ranking, Additive) else inf
