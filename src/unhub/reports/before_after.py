"""Before and after: the worst hubs and some queries, drawn by rules that the page states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.evaluation.excluding import NOBODY
from unhub.reports.findings import SHOWN_PLACES, Findings

HUB_COUNT = 8
QUERIES_PER_HUB = 3
EXAMPLE_COUNT = 4  # queries that gained, and as many that lost

HUB_RULE = (
    f"The {HUB_COUNT} items that the raw ranking returns most often. Below each are up to {QUERIES_PER_HUB} queries "
    "that it answers wrongly, drawn at random from those that rank it first or, if none do, among the first {k}."
)
UNLABELLED_HUB_RULE = HUB_RULE.replace(" that it answers wrongly", "")
EXAMPLE_RULE = (
    "These are not hand-picked. Up to {count} each are drawn at random (seed {seed}) from the {came:,} queries that "
    "have their answer {reached} now and did not before, and from the {left:,} that lost it."
)
UNLABELLED_EXAMPLE_RULE = (
    "These are not hand-picked. Up to {count} are drawn at random (seed {seed}) from the {came:,} queries whose first "
    "{shown} items changed. Without relevance, it is not known which are better or worse."
)


@dataclass(frozen=True, eq=False)
class ShownHub:
    """An item that is returned often: its position, its counts before and after, and queries that return it.

    after: None if nothing is compared with the raw ranking.
    """

    item: int
    before: int
    after: int | None
    queries: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ShownQuery:
    """A query with its first items before and after; ranks are of its best answer, None without labels."""

    query: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    ranks: tuple[float, float] | None

    @property
    def word(self) -> str:
        """What happened to the query: `gained` or `lost`; `changed` without labels."""
        if self.ranks is None:
            return "changed"
        return "gained" if self.ranks[1] < self.ranks[0] else "lost"


def worst_hubs(findings: Findings, seed: int = 0) -> list[ShownHub]:
    """Return the items that the raw ranking returns most often."""
    generator = np.random.default_rng(seed)
    before, after = findings.hubness[0], None if findings.alone else findings.hubness[1].counts
    return [
        ShownHub(
            item,
            int(before.counts[item]),
            None if after is None else int(after[item]),
            _queries_of(findings, item, generator),
        )
        for item in before.hubs(HUB_COUNT).tolist()
    ]


def _queries_of(findings: Findings, item: int, generator: np.random.Generator) -> tuple[int, ...]:
    best = findings.best[0]
    for reach in (1, best.shape[1]):
        found = np.flatnonzero((best[:, :reach] == item).any(axis=1))
        wrong = [query for query in found.tolist() if item not in findings.answers(query)]
        if wrong:
            return tuple(drawn(np.array(wrong), QUERIES_PER_HUB, generator))
    return ()


def examples(findings: Findings, seed: int = 0) -> list[ShownQuery]:
    """Return queries that gained, then queries that lost; without labels, queries whose first items changed."""
    generator = np.random.default_rng(seed)
    groups = findings.moved() if findings.truth is not None else (changed(findings),)
    return [_example(findings, query) for group in groups for query in drawn(group, EXAMPLE_COUNT, generator)]


def changed(findings: Findings) -> NDArray[np.int64]:
    """Return the queries whose first items change with the correction."""
    before, after = (np.sort(best[:, :SHOWN_PLACES], axis=1) for best in findings.best[:2])
    return np.flatnonzero((before != after).any(axis=1))


def _example(findings: Findings, query: int) -> ShownQuery:
    firsts = (best[query, :SHOWN_PLACES] for best in findings.best[:2])
    before, after = (tuple(first[first != NOBODY].tolist()) for first in firsts)
    if findings.truth is None:
        return ShownQuery(query, before, after, None)
    place = int(np.searchsorted(findings.truth.answered, query))
    return ShownQuery(query, before, after, (float(findings.ranks[0, place]), float(findings.ranks[1, place])))


def drawn(values: NDArray[np.int64], count: int, generator: np.random.Generator) -> list[int]:
    """Return some of the values, drawn at random, in rising order."""
    some = generator.choice(values, min(count, len(values)), replace=False) if len(values) else values
    return [int(one) for one in np.sort(some)]
