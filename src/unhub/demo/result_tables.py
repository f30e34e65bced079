"""Tables: how often the emoji are found by one, three and five keywords, and how evenly, raw and corrected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import unhub
from unhub.compute.workers import Progress
from unhub.demo.space import Descriptions, Space
from unhub.evaluation.confidence import Interval
from unhub.evaluation.hubness import Hubs
from unhub.evaluation.measures import Measure
from unhub.multi.results import SetEvaluation

SIZES = (1, 3, 5)
MEASURES = ("R@1", "R@5", "R@10", "MdR")
DRAWS = 20  # sets of each emoji and size; with more, the figures change by less than the intervals
CORRECTED = "corrected"

Table: TypeAlias = tuple[list[str], list[list[str]]]

# Figures of hubness for newcomers: a label, and the format of the number.
EVENNESS: Mapping[str, tuple[str, str]] = {
    "skewness": ("skewness of the counts (0 is even)", ".2f"),
    "largest": ("keywords that show the worst hub", ",d"),
    "anti_hubs": ("emoji that no keyword shows", ".1%"),
    "robin_hood": ("results to change for equal shares", ".1%"),
}


def measure(
    space: Space, asked: Descriptions, threads: int | None = None, progress: Progress | None = None
) -> SetEvaluation:
    """Search for each emoji with 1, 3 and 5 of these keywords at once, raw and corrected.

    An emoji with fewer keywords than a size is left out of it. Sets are drawn with a fixed seed.
    """
    return unhub.evaluate_sets(
        asked.vectors,
        space.items,
        asked.relevance,
        SIZES,
        DRAWS,
        space.model,
        {CORRECTED: space.correction},
        MEASURES,
        threads=threads,
        progress=progress,
    )


def set_cells(found: SetEvaluation, intervals: bool = True) -> Table:
    """Return heads and rows of text, a row for each number of keywords and measure.

    The change has its paired interval; without `intervals`, the values have none, for a narrow terminal.
    """
    rows = []
    for size in found.sizes:
        for number, (name, raw, corrected, change) in enumerate(_compared(found, size)):
            both = (f"{one:.1f}" if intervals else f"{one.value:.1f}" for one in (raw, corrected))
            rows.append(["" if number else str(size), str(name), *both, f"{change:+z.1f}"])
    return ["keywords", "measure", "raw", CORRECTED, "change"], rows


def verdicts(found: SetEvaluation) -> list[bool | None]:
    """Return for each row of `set_cells` whether the change is an improvement; None if it may be chance."""
    return [
        (change.value > 0) is not measure.family.falls if change.excludes_zero else None
        for size in found.sizes
        for measure, _, _, change in _compared(found, size)
    ]


def _compared(found: SetEvaluation, size: int) -> Iterator[tuple[Measure, Interval, Interval, Interval]]:
    """Yield each measure, raw, corrected and the change, at one number of keywords."""
    (combination,) = found.combinations
    raw, corrected = (found[combination, ranking, size] for ranking in found.rankings)
    for measure in found.measures:
        name = str(measure)
        yield measure, raw.values[name], corrected.values[name], corrected.over_raw[name]


def hubness_cells(found: Hubs) -> Table:
    """Return heads and rows of text on how evenly the emoji are shown."""
    assert found.after is not None
    sides = (found.before.figures, found.after.figures)
    rows = [
        [what, *(format(getattr(side, figure), form) for side in sides)] for figure, (what, form) in EVENNESS.items()
    ]
    return ["", "raw", CORRECTED], rows
