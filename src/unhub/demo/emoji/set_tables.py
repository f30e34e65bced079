"""Tables of sets: how often an emoji is found by one, three and five keywords together, raw and corrected."""

from __future__ import annotations

from collections.abc import Iterator

import unhub
from unhub.compute.workers import Progress
from unhub.demo.emoji.space import Descriptions, Space
from unhub.demo.result_tables import CORRECTED, HEADS, MEASURES, Compared, ResultTable, Table
from unhub.multi.results import SetEvaluation

SIZES = (1, 3, 5)
DRAWS = 20  # sets of each emoji and size; with more, the figures change by less than the intervals


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


def set_table(found: SetEvaluation) -> ResultTable:
    """Return the table with a row for each number of keywords and measure."""
    return ResultTable(
        set_cells(found),
        set_cells(found, intervals=False),
        [one.better for size in found.sizes for one in _compared(found, size)],
    )


def set_cells(found: SetEvaluation, intervals: bool = True) -> Table:
    """Return heads and rows of text, a row for each number of keywords and measure.

    The change has its paired interval; without `intervals`, the values have none, for a narrow terminal.
    """
    rows = []
    for size in found.sizes:
        for number, one in enumerate(_compared(found, size)):
            rows.append(["" if number else str(size), *one.cells(intervals)])
    return ["keywords", *HEADS], rows


def _compared(found: SetEvaluation, size: int) -> Iterator[Compared]:
    """Yield each measure, raw, corrected and the change, at one number of keywords."""
    (combination,) = found.combinations
    raw, corrected = (found[combination, ranking, size] for ranking in found.rankings)
    for measure in found.measures:
        name = str(measure)
        yield Compared(measure, raw.values[name], corrected.values[name], corrected.over_raw[name])
