"""Tables: how often the right item is found, and how evenly items are shown, raw and corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from unhub.evaluation.confidence import Interval
from unhub.evaluation.hubness import Hubs
from unhub.evaluation.measures import Measure

MEASURES = ("R@1", "R@5", "R@10", "MdR")
CORRECTED = "corrected"

Table: TypeAlias = tuple[list[str], list[list[str]]]

# Figures of hubness for newcomers: a label, and the format of the number.
EVENNESS: Mapping[str, tuple[str, str]] = {
    "skewness": ("skewness of the counts (0 is even)", ".2f"),
    "largest": ("{queries} that show the worst hub", ",d"),
    "anti_hubs": ("{items} that no {query} shows", ".1%"),
    "robin_hood": ("results to change for equal shares", ".1%"),
}


@dataclass(frozen=True)
class Compared:
    """A measure, raw and corrected, with the change and its paired interval."""

    measure: Measure
    raw: Interval
    corrected: Interval
    change: Interval

    @property
    def better(self) -> bool | None:
        """Whether the change is an improvement; None if it may be chance."""
        if not self.change.excludes_zero:
            return None
        return (self.change.value > 0) is not self.measure.family.falls

    def cells(self, intervals: bool = True) -> list[str]:
        """Return the measure and its three values as text; without `intervals`, only the change has one."""
        both = (f"{one:.1f}" if intervals else f"{one.value:.1f}" for one in (self.raw, self.corrected))
        return [str(self.measure), *both, f"{self.change:+z.1f}"]


HEADS = ("measure", "raw", CORRECTED, "change")


@dataclass(frozen=True)
class ResultTable:
    """A table, the same without intervals of the values for a narrow terminal, and for each row whether it is better.

    better: None where the change may be chance, or there is none.
    """

    full: Table
    brief: Table
    better: Sequence[bool | None]

    @staticmethod
    def of(compared: Sequence[Compared]) -> ResultTable:
        """Return a table with a row for each measure."""
        full, brief = ([one.cells(intervals) for one in compared] for intervals in (True, False))
        return ResultTable((list(HEADS), full), (list(HEADS), brief), [one.better for one in compared])

    @staticmethod
    def plain(shown: Table) -> ResultTable:
        """Return a table that has one form, and no changes."""
        return ResultTable(shown, shown, [None] * len(shown[1]))


def hubness_cells(found: Hubs, query: str, queries: str, items: str) -> Table:
    """Return heads and rows of text on how evenly items are shown; the words are what to call them."""
    assert found.after is not None
    sides = (found.before.figures, found.after.figures)
    nouns = {"query": query, "queries": queries, "items": items}
    rows = [
        [what.format(**nouns), *(format(getattr(side, figure), form) for side in sides)]
        for figure, (what, form) in EVENNESS.items()
    ]
    return ["", "raw", CORRECTED], rows
