"""Study: what a parameter does to a measure, as numbers, a table and a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unhub.evaluation.confidence import Interval
from unhub.evaluation.pictures import Picture
from unhub.evaluation.tables import Tabled
from unhub.html_tables import Table
from unhub.studies.charts import CHARTS

QUERY_INTERVAL = "95% interval over the queries"
CHOSEN_HERE_NOTE = "The best was chosen on these same queries: measure it on others before you trust its figure."


@dataclass(frozen=True, eq=False)
class Study(Tabled):
    """A value of the measure for each setting of a parameter: `lines[name][i]` is of `settings[i]`.

    raw: without a correction; None if it changes with the settings and is a line itself. falls: lower is better.
    ranges: what an interval spans; empty without intervals. chooses: whether to name the best setting. lines_of: what
    the lines differ in. form: how it is drawn, one of `curves`, `bars`, `grid`; log: on a log scale. specs: the full
    specs of lines that have short names. measured: the measure with its unit.
    """

    name: str
    title: str
    parameter: str
    settings: tuple[float | str, ...]
    measure: str
    falls: bool
    lines: Mapping[str, tuple[Interval, ...]]
    raw: Interval | None
    ranges: str
    chooses: bool
    form: str = "curves"
    lines_of: str = "method"
    log: bool = False
    notes: tuple[str, ...] = ()
    specs: Mapping[str, str] = field(default_factory=dict)
    measured: str = ""

    @property
    def best(self) -> tuple[str, float | str, Interval]:
        """The best line, setting and value; the first of equal ones."""
        every = [
            (name, setting, value)
            for name, values in self.lines.items()
            for setting, value in zip(self.settings, values, strict=True)
        ]
        sign = -1 if self.falls else 1
        return max(every, key=lambda one: sign * one[2].value)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows of a table of text, a row for each setting."""
        corner = f"{self.parameter} \\ {self.lines_of}" if self.form == "grid" else self.parameter
        heads = [corner, *map(self.label, self.lines)]
        rows = [
            [setting, *(self._cell(line[place]) for line in self.lines.values())]
            for place, setting in enumerate(show(self.settings))
        ]
        return heads, rows

    def label(self, line: str) -> str:
        """Return a line's full name: a method with all its parameters."""
        return self.specs.get(line, line)

    def _cell(self, value: Interval) -> str:
        # A grid has no room for intervals; `to_dict` has them.
        return str(value) if self.ranges and self.form != "grid" else f"{value.value:.2f}"

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as plain values for JSON."""
        return {
            "study": self.name,
            "parameter": self.parameter,
            "measure": self.measure,
            "lower_is_better": self.falls,
            "intervals": self.ranges or None,
            "settings": list(self.settings),
            "raw": None if self.raw is None else self.raw.to_dict(),
            "lines": {name: [value.to_dict() for value in values] for name, values in self.lines.items()},
            "best": self._best() if self.chooses else None,
            "notes": [*self._caution, *self.notes],
        }

    @property
    def chart(self) -> Picture:
        """The picture, not yet drawn."""
        return CHARTS[self.form](self)

    def picture(self, path: str | os.PathLike[str]) -> None:
        """Draw the study into a .png or .svg file; this needs matplotlib, the extra `plot`, and no display."""
        self.chart.save(path)

    def _best(self) -> dict[str, object]:
        name, setting, value = self.best
        return {"line": name, "setting": setting, **value.to_dict()}

    @property
    def _caution(self) -> list[str]:
        return [CHOSEN_HERE_NOTE] if self.chooses else []

    @property
    def sentences(self) -> list[str]:
        """The lines below the table: raw, the best setting if there is a choice, and what the figures are."""
        raw = [] if self.raw is None else [f"raw: {self.raw}"]
        best = [f"best: {self.best_words}"] if self.chooses else []
        brackets = [f"In brackets: {self.ranges}."] if self.ranges else []
        return [*raw, *best, *brackets, *self._caution, *self.notes]

    @property
    def best_words(self) -> str:
        """The best value and where it was found."""
        name, setting, value = self.best
        shown = show(self.settings)[self.settings.index(setting)]
        return f"{value}, {self.lines_of} {self.label(name)}, {self.parameter} {shown}"

    def shown(self) -> list[str | Table]:
        return [self.title, "", self.cells(), *self.sentences]


def show(settings: Sequence[float | str]) -> list[str]:
    """Return settings as text, with four digits, or more if two would look the same."""
    short = [f"{one:,}" if isinstance(one, int) else one if isinstance(one, str) else f"{one:.4g}" for one in settings]
    return short if len(set(short)) == len(set(settings)) else [str(one) for one in settings]
