"""Trials: rank the items for some queries by every candidate, until the time is up, and keep the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, random_positions
from unhub.compute.progress import Clock, OutOfTime
from unhub.correction import Correction
from unhub.data.relevance import Truth
from unhub.data.similarity import Dot
from unhub.data.vectors import Vectors
from unhub.evaluation.comparing import COUNTED_PLACES
from unhub.evaluation.excluding import LeftOut
from unhub.evaluation.hubness import Figures, figures_of
from unhub.evaluation.measures import Measure
from unhub.evaluation.placing import Additive, Placed, Ranking, as_ranking, occurrences, place, raw_ranking
from unhub.evaluation.ranked import no_truth
from unhub.methods import Method, parse
from unhub.tuning.candidates import Candidate, FittingSets, fitted
from unhub.tuning.outcome import TriedSetting
from unhub.tuning.semi_dual import costs, in_the_midst

SAMPLED_ITEMS = 10_000  # whose h is kept of every candidate, to find the one in the midst of several


@dataclass(frozen=True, eq=False)
class TrialQueries:
    """The queries that rankings are compared on, with their answers and the measure; without labels, neither."""

    queries: Vectors
    truth: Truth
    measure: Measure | None
    left_out: LeftOut | None = None

    @staticmethod
    def without_labels(queries: Vectors, left_out: LeftOut | None = None) -> TrialQueries:
        return TrialQueries(queries, no_truth(len(queries)), None, left_out)

    def values(self, placed: Placed, items: int) -> Float64:
        """Return the values of the measure's parts for each query, (parts, queries); no parts without labels."""
        if self.measure is None:
            return np.empty((0, len(self.queries)))
        places = placed.answers(self.truth, items)
        return np.array([part.values(places) for part in self.measure.parts])

    def pairs(self, sets: FittingSets) -> Dot:
        """Return the similarities of these queries and the items."""
        return Dot(self.queries, sets.items, sets.kind)

    def place(self, rankings: Sequence[Ranking], sets: FittingSets, clock: Clock) -> list[Placed]:
        """Return where each ranking puts the answers and the best items of these queries."""
        best = min(COUNTED_PLACES, len(sets.items))
        return place(self.pairs(sets), self.truth, rankings, clock.rankers(), best, sets.copies, self.left_out)


@dataclass(frozen=True, eq=False)
class Round:
    """What the candidates are fitted on, and the queries that they are compared on."""

    sets: FittingSets
    judges: TrialQueries


@dataclass(frozen=True, eq=False)
class TrialResult:
    """How one candidate did.

    values: of the measure's parts for each query of all rounds, (parts, queries). costs: max over items of s - h for
    each of them, (queries,), and sampled: h on some items; None if the ranking is not a bias.
    """

    method: Method
    values: Float64
    figures: Figures
    costs: Float64 | None
    sampled: Float32 | None
    seconds: float

    @property
    def transport(self) -> float | None:
        """J, the mean cost; see semi_dual."""
        return None if self.costs is None else float(self.costs.mean())


@dataclass(frozen=True, eq=False)
class Trials:
    """What was tried, raw first, and the methods that there was no time for."""

    tried: list[TrialResult]
    left_out: list[Method]

    @property
    def values(self) -> Float64:
        """The values of the measure's parts, (parts, candidates, queries)."""
        return np.stack([one.values for one in self.tried], axis=1)

    def least_transport(self) -> int:
        """Return the candidate that J chooses; see `in_the_midst`. Only those that are a bias take part."""
        rows = [row for row, one in enumerate(self.tried) if one.costs is not None]
        biases = [self.tried[row] for row in rows]
        means = [one.transport for one in biases if one.transport is not None]
        return rows[in_the_midst(means, [one.sampled for one in biases if one.sampled is not None])]

    def table(self, order: NDArray[np.int64], values: Float64 | None = None) -> tuple[TriedSetting, ...]:
        """Return what was tried in this order, with the value of the measure if there are labels."""
        return tuple(
            TriedSetting(
                one.method.spec, None if values is None else float(values[row]), one.figures, one.seconds, one.transport
            )
            for row, one in ((row, self.tried[row]) for row in order.tolist())
        )


def try_all(methods: Sequence[Method], rounds: Sequence[Round], clock: Clock, *, refits: float) -> Trials:
    """Fit every method and rank by it, group by group, while there is time for what comes after.

    refits: how many fits on twice the bank come after.
    """
    bank, items = rounds[0].sets.similarities, len(rounds[0].sets.items)
    wanted = list(dict.fromkeys(method.resolve(bank)[0] for method in methods))
    judging = _Judging(rounds, clock, random_positions(items, min(items, SAMPLED_ITEMS), 0))
    tried: list[TrialResult] = []
    try:
        raw = Candidate(parse("raw"), raw_ranking(items), 0.0, 0.0)
        tried += judging.judge([[raw] for _ in rounds])
        # Each round fits the same methods in the same groups.
        for groups in zip(*(fitted(wanted, one.sets, clock) for one in rounds), strict=True):
            again = max(one.again for group in groups for one in group)
            clock.reserved = max(clock.reserved, refits * again * rounds[0].sets.growth)
            tried += judging.judge(groups)
    except OutOfTime:
        pass
    done = {one.method for one in tried}
    return Trials(tried, [method for method in wanted if method not in done])


def compare(fitted: Correction, one: Round, clock: Clock) -> Trials:
    """Return how raw and one fitted correction do, without a limit of time."""
    items = len(one.sets.items)
    method = cast("Method", fitted.method)
    judging = _Judging([one], clock.without_limit(), random_positions(items, min(items, SAMPLED_ITEMS), 0))
    rankings = [(parse("raw"), raw_ranking(items)), (method, as_ranking(fitted))]
    return Trials(judging.judge([[Candidate(name, ranking, 0.0, 0.0) for name, ranking in rankings]]), [])


class _Judging:
    """Ranks by candidates in every round; raw, which comes first, is kept for comparison."""

    def __init__(self, rounds: Sequence[Round], clock: Clock, sample: NDArray[np.int64]) -> None:
        self._rounds, self._clock, self._sample = rounds, clock, sample
        self._raw: list[tuple[NDArray[np.int32], Float64]] = []

    def judge(self, groups: Sequence[Sequence[Candidate]]) -> list[TrialResult]:
        """Return how the candidates of a group did; groups: the same methods, fitted in each round."""
        began, items = self._clock.seconds, len(self._rounds[0].sets.items)
        placed = [self._place(one, group) for one, group in zip(self._rounds, groups, strict=True)]
        each = (self._clock.seconds - began) / len(groups[0])
        tried = []
        for row, candidates in enumerate(zip(*groups, strict=True)):
            counts = sum(occurrences(shown[row].best, items) for shown, _ in placed)
            tried.append(
                TrialResult(
                    candidates[0].method,
                    self._values(row, [shown for shown, _ in placed]),
                    figures_of(np.asarray(counts)),
                    self._costs(row, candidates, [open_ for _, open_ in placed]),
                    self._sampled(candidates),
                    sum(one.seconds for one in candidates) + each,
                )
            )
        return tried

    def _place(self, one: Round, group: Sequence[Candidate]) -> tuple[list[Placed], list[Placed]]:
        """Return the places by each ranking, and those by each without its gate."""
        rankings = [candidate.ranking for candidate in group]
        ungated = {row: without_gate(ranking) for row, ranking in enumerate(rankings) if gated(ranking)}
        placed = one.judges.place([*rankings, *ungated.values()], one.sets, self._clock)
        opened = dict(zip(ungated, placed[len(group) :], strict=True))
        shown = placed[: len(group)]
        return shown, [opened.get(row, own) for row, own in enumerate(shown)]

    def _values(self, row: int, placed: Sequence[list[Placed]]) -> Float64:
        """Return the values of the measure's parts for each query of all rounds."""
        pairs = zip(self._rounds, placed, strict=True)
        return np.concatenate([one.judges.values(shown[row], len(one.sets.items)) for one, shown in pairs], axis=1)

    def _costs(self, row: int, candidates: Sequence[Candidate], placed: Sequence[list[Placed]]) -> Float64 | None:
        """Return the cost for each query of all rounds, by the correction without its gate.

        A gate mixes the raw ranking and the corrected one, and max over items of a mixture is no dual of anything; so
        a gated ranking counts as its correction applied to all queries.
        """
        parts = []
        for number, (one, candidate, open_) in enumerate(zip(self._rounds, candidates, placed, strict=True)):
            if not isinstance(candidate.ranking, Additive):
                return None
            best, pairs = open_[row].best[:, 0], one.judges.pairs(one.sets)
            known = self._raw[number] if number < len(self._raw) else None
            parts.append(costs(pairs, candidate.ranking, best, known))
            if known is None:
                self._raw.append((best, parts[-1]))  # h of raw is 0, so these are similarities
        return np.concatenate(parts)

    def _sampled(self, candidates: Sequence[Candidate]) -> Float32 | None:
        biases = [one.ranking.h[self._sample] for one in candidates if isinstance(one.ranking, Additive)]
        return np.mean(biases, axis=0, dtype=np.float32) if biases else None


def specs_of(methods: Sequence[Method]) -> tuple[str, ...]:
    """Return the specs of methods, as a user types them."""
    return tuple(method.spec for method in methods)


def gated(ranking: Ranking) -> TypeGuard[Additive]:
    """Return whether a ranking corrects some queries and leaves the others raw."""
    return isinstance(ranking, Additive) and ranking.active is not None


def without_gate(ranking: Additive) -> Additive:
    """Return the ranking that corrects every query."""
    return replace(ranking, active=None)
