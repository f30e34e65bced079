"""Examples: six queries side by side, raw and corrected, chosen by a rule and not by hand.

The rule: of some queries, take the four whose item gained most in reciprocal rank, 1 / (corrected rank) -
1 / (raw rank), and the two whose item lost most. Ties go to the first by text, then by item; no item and no text
comes twice. If fewer gained or lost, there are fewer examples. Where a query asks for several items, the rank is that
of the first one found, and the item is the first that it asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import unhub
from unhub.arrays import Float64
from unhub.compute.workers import Progress
from unhub.demo.finding import Answer, Finder
from unhub.demo.searched import AskedTexts

GAINS, LOSSES = 4, 2


@dataclass(frozen=True)
class Example:
    """A query, the item that it means, the ranks of that item, and the results.

    right: every item that the query means. noun: what an item is called.
    """

    id: str
    name: str
    right: frozenset[str]
    noun: str
    raw_rank: float
    corrected_rank: float
    answer: Answer

    def to_dict(self) -> dict[str, object]:
        """Return the example for JSON."""
        ranks = {"raw_rank": self.raw_rank, "corrected_rank": self.corrected_rank}
        return {self.noun: self.id, "name": self.name, **ranks, **self.answer.to_dict()}


@dataclass(frozen=True)
class Examples:
    """The examples, gains first, and for how many queries the item moved up, moved down or kept its rank."""

    shown: tuple[Example, ...]
    nearer: int
    further: int
    same: int

    def to_dict(self) -> dict[str, object]:
        """Return everything for JSON."""
        counts = {"nearer": self.nearer, "further": self.further, "same": self.same}
        return {**counts, "shown": [one.to_dict() for one in self.shown]}


def choose_examples(finder: Finder, asked: AskedTexts, progress: Progress | None = None) -> Examples:
    """Rank the item of every query, raw and corrected, and return the examples that the rule picks."""
    found = unhub.evaluate(
        asked.vectors,
        finder.space.items,
        asked.relevance,
        {"corrected": finder.space.correction},
        ["MRR"],
        hubness_k=None,
        resamples=1,
        threads=finder.threads,
        progress=progress,
    )
    return examples_of(finder, asked, *found.ranks)


def examples_of(finder: Finder, asked: AskedTexts, raw: Float64, corrected: Float64) -> Examples:
    """Return the examples that the rule picks by the rank of every query's item, raw and corrected, (queries,) each."""
    space = finder.space
    meant = [space.items.ids[list(asked.meant(query))].tolist() for query in range(len(asked))]
    items = [several[0] for several in meant]
    gains = (1 / corrected - 1 / raw).tolist()
    rows = [*_most(gains, asked.texts, items, GAINS), *_most([-one for one in gains], asked.texts, items, LOSSES)]
    shown = tuple(
        Example(
            items[row],
            finder.names[items[row]],
            frozenset(meant[row]),
            space.noun,
            float(raw[row]),
            float(corrected[row]),
            finder.answer((asked.texts[row],)),
        )
        for row in rows
    )
    return Examples(shown, int((corrected < raw).sum()), int((corrected > raw).sum()), int((corrected == raw).sum()))


def _most(gains: Sequence[float], texts: Sequence[str], items: Sequence[str], count: int) -> list[int]:
    """Return the rows that gained most, without rows that did not gain."""
    taken: list[int] = []
    for row in sorted(range(len(gains)), key=lambda row: (-gains[row], texts[row], items[row])):
        if len(taken) == count or gains[row] <= 0:
            break
        if all(items[row] != items[other] and texts[row] != texts[other] for other in taken):
            taken.append(row)
    return taken
