"""Findings: what one pass over queries and items shows about the raw ranking and the corrections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.compute.workers import Progress, Resources
from unhub.data.relevance import RelevanceLike, Truth
from unhub.evaluation.chance import Chance
from unhub.evaluation.comparing import COUNTED_PLACES
from unhub.evaluation.evaluate import DEFAULT_MEASURES, Row, compare
from unhub.evaluation.hubness import Hubness, hubness_of
from unhub.evaluation.inputs import EvaluationInputs
from unhub.evaluation.measures import Measure, parse_measures
from unhub.evaluation.ranked import Ranked

SIDES = ("raw", "corrected")  # the names of the first two rankings, side by side
SHOWN_PLACES = 5  # first places of a query that the page shows


@dataclass(frozen=True, eq=False)
class Findings:
    """Rankings by name, raw first and then the one shown beside it, if any; and what was measured of each.

    truth is None, and rows and ranks are empty, without relevance. ranks: of the best answer of each
    answered query, (rankings, queries). best: positions of the first items, (queries, places), for each ranking.
    """

    setting: EvaluationInputs
    names: tuple[str, ...]
    truth: Truth | None
    measures: tuple[Measure, ...]
    rows: tuple[Row, ...]
    ranks: Float64
    hubness: tuple[Hubness, ...]
    best: tuple[NDArray[np.int32], ...]

    @staticmethod
    def of(
        setting: EvaluationInputs,
        relevance: RelevanceLike | None,
        measures: Sequence[str | Measure] | str = DEFAULT_MEASURES,
        seed: int = 0,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Findings:
        """Rank in one pass, raw and with every correction, and measure."""
        chosen = parse_measures(measures)
        truth = None if relevance is None else setting.truth(relevance)
        ranked = Ranked.of(setting, Resources(threads, progress=progress), truth, best=setting.places(COUNTED_PLACES))
        hubness = tuple(hubness_of(one, setting.item_ids) for one in ranked.placed)
        rows: tuple[Row, ...] = ()
        ranks = np.empty((len(ranked.names), 0))
        if truth is not None:
            rows = compare(ranked.names, ranked.places, chosen, truth, hubness, seed=seed)
            ranks = np.stack([one.best_ranks for one in ranked.places])
        best = tuple(one.best for one in ranked.placed)
        return Findings(setting, ranked.names, truth, chosen, rows, ranks, hubness, best)

    @property
    def queries(self) -> int:
        return len(self.setting.query_ids)

    @property
    def alone(self) -> bool:
        """Whether there is only the raw ranking."""
        return len(self.names) == 1

    @property
    def shown(self) -> str:
        """The correction that is shown beside the raw ranking: the first one, or raw if it is alone."""
        return self.names[0 if self.alone else 1]

    @property
    def sides(self) -> dict[str, Hubness]:
        """The hubness of the raw ranking and of the one beside it."""
        return dict(zip(SIDES, self.hubness, strict=False))

    @property
    def fair_share(self) -> float:
        """How often each item would be returned if all were returned equally often."""
        return self.hubness[0].k * self.queries / len(self.setting.item_ids)

    @property
    def chance(self) -> Chance:
        """The figures of counts that differ by chance alone."""
        return self.hubness[0].chance

    @property
    def reach(self) -> int:
        """How many first places count as found: those of the first measure, such as R@1, or those shown."""
        return self.measures[0].k or SHOWN_PLACES

    @property
    def reached(self) -> str:
        """Those places in words."""
        return "in first place" if self.reach == 1 else f"among the first {self.reach}"

    def moved(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the queries whose best answer came into the places of `reach` with the correction, and left them."""
        if self.truth is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        before, after = self.ranks[0] <= self.reach, self.ranks[1] <= self.reach
        return self.truth.answered[after & ~before], self.truth.answered[before & ~after]

    def answers(self, query: int) -> NDArray[np.int64]:
        """Return the positions of the items that answer a query."""
        if self.truth is None:
            return np.empty(0, np.int64)
        return self.truth.positions[self.truth.starts[query] : self.truth.starts[query + 1]]
