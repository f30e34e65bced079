"""Examples: six queries side by side, raw and corrected, chosen by a rule and not by hand.

The rule: of the keywords of `val`, take the four whose emoji gained most in reciprocal rank, 1 / (corrected rank) -
1 / (raw rank), and the two whose emoji lost most. Ties go to the first by text, then by emoji; no emoji and no text
comes twice. If fewer gained or lost, there are fewer examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import unhub
from unhub.compute.workers import Progress
from unhub.demo.finding import Answer, Finder

GAINS, LOSSES = 4, 2


@dataclass(frozen=True)
class Example:
    """A keyword, the emoji that it means, the ranks of that emoji, and the results."""

    emoji: str
    name: str
    raw_rank: float
    corrected_rank: float
    answer: Answer

    def to_dict(self) -> dict[str, object]:
        """Return the example for JSON."""
        ranks = {"raw_rank": self.raw_rank, "corrected_rank": self.corrected_rank}
        return {"emoji": self.emoji, "name": self.name, **ranks, **self.answer.to_dict()}


@dataclass(frozen=True)
class Examples:
    """The examples, gains first, and for how many keywords the emoji moved up, moved down or kept its rank."""

    shown: tuple[Example, ...]
    nearer: int
    further: int
    same: int

    def to_dict(self) -> dict[str, object]:
        """Return everything for JSON."""
        counts = {"nearer": self.nearer, "further": self.further, "same": self.same}
        return {**counts, "shown": [one.to_dict() for one in self.shown]}


def choose_examples(finder: Finder, progress: Progress | None = None) -> Examples:
    """Rank the emoji of every keyword of `val`, raw and corrected, and return the examples that the rule picks."""
    space = finder.space
    asked = space.descriptions("val", "keyword")
    raw, corrected = unhub.evaluate(
        asked.vectors,
        space.items,
        asked.relevance,
        {"corrected": space.correction},
        ["MRR"],
        hubness_k=None,
        resamples=1,
        threads=finder.threads,
        progress=progress,
    ).ranks
    emoji = space.items.ids[asked.items].tolist()
    gains = (1 / corrected - 1 / raw).tolist()
    rows = [*_most(gains, asked.texts, emoji, GAINS), *_most([-one for one in gains], asked.texts, emoji, LOSSES)]
    shown = tuple(
        Example(
            emoji[row], finder.names[emoji[row]], float(raw[row]), float(corrected[row]), finder.find(asked.texts[row])
        )
        for row in rows
    )
    return Examples(shown, int((corrected < raw).sum()), int((corrected > raw).sum()), int((corrected == raw).sum()))


def _most(gains: Sequence[float], texts: Sequence[str], emoji: Sequence[str], count: int) -> list[int]:
    """Return the rows that gained most, without rows that did not gain."""
    taken: list[int] = []
    for row in sorted(range(len(gains)), key=lambda row: (-gains[row], texts[row], emoji[row])):
        if len(taken) == count or gains[row] <= 0:
            break
        if all(emoji[row] != emoji[other] and texts[row] != texts[other] for other in taken):
            taken.append(row)
    return taken
