"""Ranked: every ranking of checked inputs in one pass, with the places of the answers."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float64
from unhub.compute.workers import Resources
from unhub.data.relevance import Truth
from unhub.evaluation.inputs import RAW, EvaluationInputs
from unhub.evaluation.measures import Measure, Places
from unhub.evaluation.placing import Placed


@dataclass(frozen=True, eq=False)
class Ranked:
    """Rankings of the same items for the same queries, by name: raw first, then each correction.

    truth: where the answers are; None without relevance. placed: where each ranking puts the answers, and
    the best items of each query.
    """

    inputs: EvaluationInputs
    names: tuple[str, ...]
    truth: Truth | None
    placed: tuple[Placed, ...]

    @staticmethod
    def of(
        inputs: EvaluationInputs,
        resources: Resources,
        truth: Truth | None = None,
        *,
        best: int = 0,
        strength: float = 1.0,
        last_alone: bool = False,
    ) -> Ranked:
        """Rank the items for every query.

        truth: where the answers are, from `inputs.truth(relevance)`; None without relevance.
        best: how many of the best items of each query to keep. strength: how much of each correction to apply.
        last_alone: rank only by the last correction, or by raw if there is none.
        """
        names, rankings = (RAW, *inputs.corrections), inputs.rankings(strength)
        if last_alone:
            names, rankings = names[-1:], rankings[-1:]
        workers = resources.workers()
        placed = inputs.place(truth or no_truth(len(inputs.query_ids)), rankings, workers, best)
        workers.finish()
        return Ranked(inputs, names, truth, tuple(placed))

    @property
    def items(self) -> int:
        """How many items are ranked."""
        return len(self.inputs.item_ids)

    @functools.cached_property
    def places(self) -> tuple[Places, ...]:
        """The places of the answers in each ranking, for the queries that have any; needs relevance."""
        if self.truth is None:
            raise RuntimeError("there is no relevance, so no answer has a place")  # a bug, not a user's mistake
        return tuple(one.answers(self.truth, self.items) for one in self.placed)

    def values(self, measure: Measure) -> Float64:
        """Return a measure's parts for each answered query, (parts, rankings, queries)."""
        return np.array([[part.values(one) for one in self.places] for part in measure.parts])


def no_truth(queries: int) -> Truth:
    """Return the truth of queries without any known answer."""
    return Truth(np.zeros(queries + 1, np.int64), np.empty(0, np.int64), np.empty(0))
