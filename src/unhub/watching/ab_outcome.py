"""What an A/B test found: the variants side by side, and in words whether their difference is certain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unhub.evaluation.confidence import FEW_GROUPS, Interval
from unhub.evaluation.tables import Tabled
from unhub.html_tables import Table
from unhub.watching.click_figures import CLICK_FIGURES
from unhub.watching.samples import WATCHED
from unhub.watching.trends import NAMES

FEWEST_UNITS = FEW_GROUPS  # users or queries of a variant: with fewer, nothing is certain
FEWEST_CLICKED = 10  # queries of a variant with a click, likewise
FORMS = {"clicked": ".1%", "click_through": ".2%", "first_click": ".3f", "skewness": ".2f"}
SHARES = ".1%"  # of the others


@dataclass(frozen=True, eq=False)
class Arm:
    """A variant: how many queries it answered, of how many users or queries, how many had a click, and its figures.

    differences: of each figure from that of the baseline; empty for the baseline itself.
    """

    name: str
    queries: int
    units: int
    clicked: int
    figures: Mapping[str, Interval]
    differences: Mapping[str, Interval]

    @property
    def few(self) -> bool:
        """Whether it is too small to be certain of anything."""
        return self.units < FEWEST_UNITS or self.clicked < FEWEST_CLICKED

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values for JSON."""
        counts = {"name": self.name, "queries": self.queries, "units": self.units, "queries_clicked": self.clicked}
        both = {"figures": self.figures, "differences": self.differences}
        return {**counts, **{key: {name: one.to_dict() for name, one in held.items()} for key, held in both.items()}}


@dataclass(frozen=True, eq=False)
class ABTest(Tabled):
    """The variants, the baseline first. by: what was drawn for the intervals, `users` or `queries`.

    size: of the samples, in different queries, that skewness, coverage and the Robin Hood index are of; 0 without them.
    notes: warnings, and what was left out.
    """

    arms: tuple[Arm, ...]
    by: str
    size: int
    notes: tuple[str, ...] = ()

    @property
    def baseline(self) -> Arm:
        """The variant that the others are compared with."""
        return self.arms[0]

    def verdict(self, arm: Arm, figure: str = "clicked") -> str:
        """Return `better` or `worse` than the baseline, `unsure` where that is not certain."""
        apart = arm.differences[figure]
        if not apart.excludes_zero or (figure in CLICK_FIGURES and (arm.few or self.baseline.few)):
            return "unsure"
        return "better" if apart.value * -WATCHED.get(figure, -1) > 0 else "worse"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say of each variant whether more of its queries have a click, and whether that is certain."""
        return tuple(self._sentence(arm) for arm in self.arms[1:])

    def _sentence(self, arm: Arm) -> str:
        apart, word = arm.differences["clicked"], self.verdict(arm)
        told = (
            f"{arm.figures['clicked'].value:.1%} of the queries of {arm.name} have a click, "
            f"{self.baseline.figures['clicked'].value:.1%} of those of {self.baseline.name} ({_points(apart)} points): "
        )
        if word != "unsure":
            return f"{told}{arm.name} is {word}, and that is certain at 95%."
        if arm.few or self.baseline.few:
            return f"{told}there are too few to be certain."
        reach = 50 * (apart.high - apart.low)
        return (
            f"{told}that is not certain; with this much traffic a difference under {reach:.1f} points is hardly seen."
        )

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values for JSON."""
        return {
            "baseline": self.baseline.name,
            "by": self.by,
            "sample_queries": self.size,
            "variants": [arm.to_dict() for arm in self.arms],
            "verdicts": {arm.name: {one: self.verdict(arm, one) for one in arm.differences} for arm in self.arms[1:]},
            "sentences": list(self.sentences),
            "notes": list(self.notes),
        }

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text: a row for each figure, two columns for each variant but the baseline."""
        heads = ["figure", self.baseline.name]
        rows = [["queries", f"{self.baseline.queries:,}"], [self.by, f"{self.baseline.units:,}"]]
        names = {name: CLICK_FIGURES.get(name) or NAMES[name] for name in self.baseline.figures}
        rows += [[called, _shown(self.baseline, name)] for name, called in names.items()]
        for arm in self.arms[1:]:
            heads += [arm.name, "difference", ""]
            counts = [[f"{arm.queries:,}", "", ""], [f"{arm.units:,}", "", ""]]
            compared = [[_shown(arm, name), _apart(arm, name), self.verdict(arm, name)] for name in names]
            rows = [[*row, *more] for row, more in zip(rows, [*counts, *compared], strict=True)]
        return heads, rows if self.by != "queries" else [rows[0], *rows[2:]]

    def shown(self) -> list[str | Table]:
        return [self.cells(), *self.sentences, *self.notes]


def _shown(arm: Arm, figure: str) -> str:
    return f"{arm.figures[figure]:{FORMS.get(figure, SHARES)}}"


def _apart(arm: Arm, figure: str) -> str:
    return f"{arm.differences[figure]:+{FORMS.get(figure, SHARES)}}"


def _points(one: Interval) -> str:
    return f"{Interval(100 * one.value, 100 * one.low, 100 * one.high):+.1f}"
