"""The result of an evaluation of sets: rows by size, combination and ranking, areas, a table and a curve."""

from __future__ import annotations

import os
from dataclasses import dataclass

from unhub.data.draws import Draws
from unhub.evaluation.measures import Measure
from unhub.evaluation.pictures import Picture
from unhub.evaluation.tables import Tabled
from unhub.html_tables import Table
from unhub.multi.curves import curve
from unhub.multi.scoring import Area, SetRow


@dataclass(frozen=True, eq=False)
class SetEvaluation(Tabled):
    """A row for each size, combination and ranking, and areas under the curves.

    rankings: raw, then each correction by name. items: the size of the gallery. targets: how many items each size is
    measured on; left_out: how many have fewer texts than the size. draws: which texts were used together.
    """

    rows: tuple[SetRow, ...]
    areas: tuple[Area, ...]
    measures: tuple[Measure, ...]
    combinations: tuple[str, ...]
    rankings: tuple[str, ...]
    items: int
    targets: dict[int, int]
    left_out: dict[int, int]
    notes: tuple[str, ...]
    draws: Draws

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of queries that were used together."""
        return tuple(self.targets)

    def __getitem__(self, key: tuple[str, str, int]) -> SetRow:
        """Return the row of a combination, a ranking and a size."""
        for row in self.rows:
            if (row.combination, row.ranking, row.size) == key:
                return row
        raise KeyError(
            f"no row {key!r}; it has the combinations {', '.join(self.combinations)}, rankings "
            f"{', '.join(self.rankings)} and sizes {', '.join(map(str, self.sizes))}"
        )

    def area(self, combination: str, ranking: str, size: int, measure: str | None = None) -> Area:
        """Return the area under a recall, by default the first measured, over 1 to `size` queries."""
        for one in self.areas:
            asked = (one.combination, one.ranking, one.size) == (combination, ranking, size)
            if asked and measure in (None, one.measure):
                return one
        raise KeyError(
            f"no area up to {size} for {combination}, {ranking}; there are areas of R@k, from 1 query to each size"
        )

    def to_dict(self) -> dict[str, object]:
        """Return every figure as plain values for JSON."""
        return {
            "items": self.items,
            "combinations": list(self.combinations),
            "rankings": list(self.rankings),
            "measures": [str(measure) for measure in self.measures],
            "draws": self.draws.count,
            "seed": self.draws.seed,
            "sizes": [
                {"size": size, "targets": count, "left_out": self.left_out[size]}
                for size, count in self.targets.items()
            ],
            "rows": [row.to_dict() for row in self.rows],
            "areas": [area.to_dict() for area in self.areas],
            "notes": list(self.notes),
        }

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text; a single query is the same under every combination and has one row."""
        first = self.measures[0]
        corrected = len(self.rankings) > 1
        several = len(self.combinations) > 1 and max(self.sizes) > 1
        heads = ["sets", *map(str, self.measures), f"sd of {first}"]
        heads += [f"{first.gain} over raw"] * corrected + [f"over {self.combinations[0]}"] * several
        lines = [
            [
                self._label(row),
                *(str(row.values[str(measure)]) for measure in self.measures),
                "" if (spread := row.spread[str(first)]) is None else f"{spread:.2f}",
                *[f"{row.over_raw[str(first)]:+.2f}" if row.over_raw else ""] * corrected,
                *[f"{row.over_first[str(first)]:+.2f}" if row.over_first and row.size > 1 else ""] * several,
            ]
            for row in self.rows
            if row.size > 1 or row.combination == self.combinations[0]
        ]
        return heads, lines

    def area_cells(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text of the areas under the first recall; no rows without areas."""
        shown = [area for area in self.areas if area.measure == self.areas[0].measure]
        names = list(dict.fromkeys(area.name for area in shown))
        by_line: dict[str, list[str]] = {}
        for area in shown:
            by_line.setdefault(self._line(area.combination, area.ranking), []).append(str(area.value))
        return ["area", *names], [[line, *values] for line, values in by_line.items()]

    def _label(self, row: SetRow) -> str:
        if row.size == 1:
            return "1 query" if len(self.rankings) == 1 else f"1 query, {row.ranking}"
        return f"{row.size} queries, {self._line(row.combination, row.ranking)}"

    def _line(self, combination: str, ranking: str) -> str:
        return combination if len(self.rankings) == 1 else f"{combination}, {ranking}"

    @property
    def chart(self) -> Picture:
        """The curve of the first measure against the number of queries, not yet drawn."""
        return curve(self)

    def picture(self, path: str | os.PathLike[str]) -> None:
        """Draw the curve into a .png or .svg file; this needs matplotlib, the extra `plot`, and no display."""
        self.chart.save(path)

    def shown(self) -> list[str | Table]:
        areas: list[str | Table] = ["", self.area_cells()] if self.areas else []
        return [self.cells(), *areas, *self.notes]
