"""The tables of the page: the main figures at a glance, and all of them side by side."""

from __future__ import annotations

from collections.abc import Callable

from unhub.evaluation.chance import Chance
from unhub.evaluation.confidence import Interval
from unhub.evaluation.evaluate import Row
from unhub.evaluation.hubness import Figures, top_of
from unhub.evaluation.measures import Measure
from unhub.reports.findings import Findings
from unhub.reports.markup import Child, Markup, breakable, join, table, tag

NO_BREAK = "\N{NO-BREAK SPACE}"

HUBNESS: dict[str, Callable[[Figures | Chance], str]] = {
    "skewness": lambda one: f"{one.skewness:.2f}",
    "items never returned": lambda one: f"{one.anti_hubs:.1%}",
    "worst hub": lambda one: f"{one.largest:,.0f}×",
    "places taken by {top}": lambda one: f"{one.top_share:.1%}",
    "places to move for equal shares": lambda one: f"{one.robin_hood:.1%}",
}
CHANCE = "by chance"  # the head of the column for items returned at random


def tiles(findings: Findings) -> Markup:
    """Return the main figures, before and after; only raw if there is no after."""
    shown: list[Markup] = []
    for measure in dict.fromkeys((findings.measures[0], findings.measures[len(findings.measures) // 2])):
        if findings.rows:
            values = [f"{row.values[str(measure)].value:.1f}" for row in findings.rows[:2]]
            gain = "" if findings.alone else f": {_signed(findings.rows[1].gains[str(measure)])}"
            shown.append(_tile(str(measure), values, f"{_meaning(measure)}{gain}"))
    raw = findings.hubness[0]
    notes = {
        "skewness": "0 is balanced",
        "items never returned": f"of {len(raw.counts):,} items",
        "worst hub": f"appearances in {findings.queries:,} top-{raw.k} lists",
    }
    for name, note in notes.items():
        values = [HUBNESS[name](one.figures) for one in findings.hubness[:2]]
        shown.append(_tile(name, values, f"{note}; chance gives {HUBNESS[name](findings.chance)}"))
    return tag("div", *shown, kind="tiles")


def _tile(name: str, values: list[str], more: str) -> Markup:
    before, *after = values
    change = [tag("span", before, kind="before")]
    for value in after:
        change += [tag("span", "→", kind="arrow"), tag("span", value, kind="after")]
    return tag(
        "div",
        tag("div", name, kind="name"),
        tag("div", *change, kind="change"),
        tag("div", more, kind="more"),
        kind="tile",
    )


def _meaning(measure: Measure) -> str:
    if measure.name == "R":
        return "% of queries with an answer " + ("in first place" if measure.k == 1 else f"in the first {measure.k}")
    return measure.family.what


def comparison(findings: Findings) -> Markup:
    """Return every measure of every ranking, with intervals and gains over raw, and the figures of hubness."""
    heads: list[Child] = ["", *(breakable(name) for name in findings.names), CHANCE]
    rows: list[list[Child]] = [
        [measure.with_unit, *(_cell(row, measure) for row in findings.rows), ""]
        for measure in findings.measures
        if findings.rows
    ]
    rows += [[*row] for row in hubness_rows(findings)]
    return table(heads, rows)


def hubness_rows(findings: Findings) -> list[list[str]]:
    """Return the figures of hubness by name, one for each ranking and one for chance."""
    top = top_of(len(findings.setting.item_ids))
    every: list[Figures | Chance] = [*(one.figures for one in findings.hubness), findings.chance]
    return [[name.format(top=top), *map(show, every)] for name, show in HUBNESS.items()]


def _cell(row: Row, measure: Measure) -> Markup:
    value, gain = row.values[str(measure)], row.gains.get(str(measure))
    change: Child = None
    if gain is not None:
        better = gain.value < 0 if measure.family.falls else gain.value > 0
        sure = (" up" if better else " down") if gain.excludes_zero else ""
        change = tag("span", _signed(gain), kind=f"gains{sure}")
    return join(tag("b", f"{value.value:.2f}"), tag("span", _range(value), kind="range"), change)


def _range(one: Interval) -> str:
    return one.brackets().replace(" ", NO_BREAK)


def _signed(one: Interval) -> str:
    return f"{one.value:+.2f} {one.brackets('+.2f').replace(' ', NO_BREAK)}"
