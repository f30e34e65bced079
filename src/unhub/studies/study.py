"""Study: what a parameter does to a measure, as numbers, a table and a picture."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.evaluation.confidence import Interval
from unhub.evaluation.pictures import Picture
from unhub.evaluation.tables import as_text
from unhub.methods import METHODS, parse
from unhub.studies.charts import CHARTS

OVER_QUERIES = "95% interval over the queries"
PICKED_HERE = "The best was picked on these very queries: measure it on others before you trust its figure."


@dataclass(frozen=True, eq=False)
class Study:
    """A value of the measure for each setting of a parameter: `lines[name][i]` is of `settings[i]`.

    raw: without a correction, None where it changes with the settings and is a line itself. falls: lower is better.
    ranges: what an interval spans. chooses: the settings are there to choose from, so that a best is worth naming.
    lines_of: what tells the lines apart. form: how it is drawn, one of `curves`, `bars`, `grid`; log: on a log scale.
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

    @property
    def best(self) -> tuple[str, float | str, Interval]:
        """The line, the setting and the value that are best; of equals, the first."""
        every = [
            (name, setting, value)
            for name, values in self.lines.items()
            for setting, value in zip(self.settings, values, strict=True)
        ]
        sign = -1 if self.falls else 1
        return max(every, key=lambda one: sign * one[2].value)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text, a row for each setting."""
        corner = f"{self.parameter} \\ {self.lines_of}" if self.form == "grid" else self.parameter
        heads = [corner, *self.lines]
        rows = [
            [setting, *(self._cell(line[place]) for line in self.lines.values())]
            for place, setting in enumerate(show(self.settings))
        ]
        return heads, rows

    def _cell(self, value: Interval) -> str:
        # A grid has no room for intervals; `to_dict` has them.
        return f"{value.value:.2f}" if self.form == "grid" else str(value)

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as JSON can hold them."""
        return {
            "study": self.name,
            "parameter": self.parameter,
            "measure": self.measure,
            "lower_is_better": self.falls,
            "intervals": self.ranges,
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
        return [PICKED_HERE] if self.chooses else []

    @property
    def sentences(self) -> list[str]:
        """What is to be said below the table: raw, the best where there is one to choose, and what the figures are."""
        raw = [] if self.raw is None else [f"raw: {self.raw}"]
        best = [f"best: {self.best_words}"] if self.chooses else []
        return [*raw, *best, f"In brackets: {self.ranges}.", *self._caution, *self.notes]

    @property
    def best_words(self) -> str:
        """The best value and where it was found."""
        name, setting, value = self.best
        shown = show(self.settings)[self.settings.index(setting)]
        return f"{value}, {self.lines_of} {name}, {self.parameter} {shown}"

    def __str__(self) -> str:
        return "\n".join([self.title, "", as_text(*self.cells()), *self.sentences])


def second_bank(methods: Sequence[str], bank_items: VectorsLike | None) -> Vectors | None:
    """Return the bank items of a study, which are there if and only if one of the methods uses them."""
    users = [one.name for one in map(parse, methods) if one.dual or one.joint]
    if users and bank_items is None:
        alone = ", and without them is sn" if METHODS[users[0]].joint else ""
        raise ValueError(f"{users[0]} needs bank_items, the training items beside the bank{alone}")
    if bank_items is not None and not users:
        raise ValueError(f"bank_items are used by none of {', '.join(methods)}; name a method that does, such as dbsn")
    return None if bank_items is None else as_vectors(bank_items, "bank_items")


def show(settings: Sequence[float | str]) -> list[str]:
    """Return settings as a person writes them, with four digits where that tells them apart."""
    short = [f"{one:,}" if isinstance(one, int) else one if isinstance(one, str) else f"{one:.4g}" for one in settings]
    return short if len(set(short)) == len(set(settings)) else [str(one) for one in settings]


def numbers(given: Iterable[float], name: str) -> tuple[float, ...]:
    """Return numbers that a user gives, in a list or an array, each once."""
    return tuple(float(one) for one in _each(given, name, Real, "numbers"))


def whole_numbers(given: Iterable[int], name: str, most: int | None = None, of: str = "") -> tuple[int, ...]:
    """Return whole numbers that a user gives, each once; most: what none may be over, of what it is the size."""
    each = tuple(int(one) for one in _each(given, name, Integral, "whole numbers"))
    wrong = [] if most is None else [one for one in each if not 1 <= one <= most]
    if wrong:
        raise ValueError(f"{name} must be from 1 to {most}, the size of the {of}, got {wrong[0]}")
    return each


def _each(given: Iterable[float], name: str, kind: type, words: str) -> list[float]:
    each = list(dict.fromkeys(given))
    if not each:
        raise ValueError(f"{name} is empty; give at least one, or leave it out")
    for one in each:
        if not isinstance(one, kind) or isinstance(one, bool):
            raise ValueError(f"{name} must be {words}, got {one!r}")
    return each
