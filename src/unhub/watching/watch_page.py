"""The page and the picture of what was watched: the last period, the days before it, the hubs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unhub.arrays import Float64
from unhub.evaluation.pictures import INKS, Picture, draw_legend, draw_levels
from unhub.reports.markup import Child, Markup, join, table, tag
from unhub.reports.report_page import figure, page_of, section
from unhub.watching.periods import Period, Range
from unhub.watching.trends import NAMES, WEEK
from unhub.watching.watched import SHOWN_PERIODS, Watch, drift_told, hubness_told

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Hubness watch"
CHARTED = {"skewness": "skewness", "coverage": "share of the items found"}
SHOWN_FORMS = {"skewness": ".2f", "coverage": ".1%", "robin_hood": ".1%"}
MOST_TICKS = 4
NO_BREAK_HYPHEN = "\N{NON-BREAKING HYPHEN}"
BADGES = {"better": "good", "worse": "bad", "unsure": ""}


def page_of_watch(watch: Watch) -> bytes:
    """Return the page as one HTML file that loads nothing from the network."""
    return page_of(TITLE, [_head(watch), _days(watch), _changes(watch), _hubs(watch), _notes(watch)]).encode()


def picture_of(watch: Watch) -> Picture:
    """Draw skewness and coverage over time, below one another, each with its interval and what chance gives."""
    periods = watch.periods

    def draw(drawn: Figure) -> None:
        for axes, name in zip(drawn.subplots(len(CHARTED), 1, sharex=True), CHARTED, strict=True):
            _draw(axes, periods, name)

    return Picture("watch", TITLE, _words(periods), draw, (6.4, 5.6))


def _chart(periods: Sequence[Period], name: str) -> Picture:
    title = f"{CHARTED[name].capitalize()}, by day" if periods[-1].dated else CHARTED[name].capitalize()
    return Picture(f"watch-{name}", title, _words(periods, name), lambda drawn: _draw(drawn.subplots(), periods, name))


def _draw(axes: Axes, periods: Sequence[Period], name: str) -> None:
    places = np.arange(len(periods))
    values, low, high, chance = columns(periods, name)
    ink = INKS["fixed"]
    axes.fill_between(places, low, high, color=ink, alpha=0.16, linewidth=0)
    axes.plot(places, values, color=ink, linewidth=2, marker="o", markersize=3.6, label="returned")
    few = np.array([not one.judged for one in periods])
    if few.any():
        axes.plot(
            places[few], values[few], "o", color=INKS["paper"], markeredgecolor=ink, markersize=5, label="few queries"
        )
    axes.plot(places, chance, color=INKS["soft"], linewidth=1.4, linestyle=(0, (4, 2.4)), label="by chance")
    chosen = places[:: -(-len(places) // MOST_TICKS)]
    axes.set_xticks(chosen, [periods[one].period[:10] for one in chosen])
    axes.margins(x=0.04)
    axes.set_ylim(bottom=min(0.0, float(np.min(low))))
    axes.set_ylabel(CHARTED[name])
    if name == "coverage":
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}" if value < 0.001 else f"{value:.1%}")
    draw_levels(axes)
    draw_legend(axes)


def columns(periods: Sequence[Period], name: str) -> Float64:
    """Return a figure, its low and high end and its value by chance over periods, (4, periods)."""
    ranges = [getattr(one, name) for one in periods]
    return np.array([(one.value, one.interval.low, one.interval.high, one.chance) for one in ranges]).T


def _words(periods: Sequence[Period], name: str = "skewness") -> str:
    values, _, _, chance = columns(periods, name)
    over = f"{periods[0].period[:10]} to {periods[-1].period[:10]}"
    spread = f"from {values.min():.3g} to {values.max():.3g}, last {values[-1]:.3g}; chance gives {chance[-1]:.3g}"
    return f"{CHARTED[name].capitalize()}, {over}: {spread}."


def _head(watch: Watch) -> Markup:
    one = watch.current
    kind, word, look = ("bad", "alarm", "harm") if watch.alarms else ("good", "within the limits", "gain")
    if not one.judged:
        kind, word, look = "warn", "too few queries to judge", "unsure"
    elif not watch.limits.any:
        kind, word, look = "", "no limits set", "none"
    drifted = one.drift is not None and one.drift.far
    return tag(
        "header",
        tag("h1", TITLE),
        tag("p", f"{one.named}: what was returned for {one.queries:,} different queries.", kind="lead"),
        tag(
            "section",
            tag("span", word, kind=f"badge word {kind}"),
            tag("span", "queries drift from the bank", kind="badge word warn") if drifted else None,
            *(tag("p", sentence) for sentence in (*hubness_told(one)[1:], *drift_told(one))),
            *(tag("p", sentence) for sentence in _conclusions(watch)),
            kind=f"verdict {look}",
            aria_label="Verdict",
        ),
        tag("div", *_tiles(one), kind="tiles"),
    )


def _conclusions(watch: Watch) -> list[str]:
    """Return what the limits say."""
    if watch.alarms:
        return [f"{alarm[0].upper()}{alarm[1:]}" for alarm in watch.alarms]
    if not watch.current.judged:
        return ["There are too few queries to judge."]
    return ["No figure is beyond its limit." if watch.limits.any else "No limits are set, so there can be no alarm."]


def _tiles(one: Period) -> list[Markup]:
    shown = {
        "skewness": (f"{one.skewness.value:.2f}", f"chance gives {one.skewness.chance:.2f}"),
        "items found": (f"{one.coverage.value:.1%}", f"of {one.items:,}; chance finds {one.coverage.chance:.1%}"),
        "worst hub": (f"{one.largest:,}×", f"by chance {one.largest_chance:,.1f}"),
        "queries": (f"{one.queries:,}", f"{one.logged:,} with repeats"),
    }
    return [
        tag(
            "div",
            tag("div", name, kind="name"),
            tag("div", value, kind="change"),
            tag("div", more, kind="more"),
            kind="tile",
        )
        for name, (value, more) in shown.items()
    ]


def _days(watch: Watch) -> Markup:
    note = "Each different query counts once. The band and the brackets are 95% intervals over the queries."
    charts = tag("div", *(figure(_chart(watch.periods, name)) for name in CHARTED), kind="pair")
    heads: list[Child] = ["period", "queries", "skewness", "found", "Robin Hood", "worst hub"]
    rows = [_day(one) for one in reversed(watch.periods[-SHOWN_PERIODS:])]
    return section(
        "Day by day" if watch.periods[-1].dated else "Log by log",
        tag("p", note, kind="note"),
        charts,
        *(tag("p", one, kind="note") for one in watch.hidden(all_of_them="the pictures show all")),
        tag("div", table(heads, rows), kind="card"),
    )


def _day(one: Period) -> list[Child]:
    """Return a row: the period, and its figures with their intervals and what chance gives."""
    queries = join(f"{one.queries:,}", tag("span", f"{one.logged:,} with repeats", kind="range"))
    cells = [_cell(getattr(one, name), form) for name, form in SHOWN_FORMS.items()]
    most = join(f"{one.largest:,}×", tag("span", f"by chance {one.largest_chance:,.1f}", kind="range"))
    return [one.period.replace("-", NO_BREAK_HYPHEN), queries, *cells, most]


def _cell(one: Range, form: str) -> Markup:
    ends = "" if one.low is None else one.interval.brackets(form)
    by_chance = f"by chance {one.chance:{form}}"
    return join(f"{one.value:{form}}", *(tag("span", line, kind="range") for line in (ends, by_chance)))


def _changes(watch: Watch) -> Markup:
    if not watch.changes:
        return Markup("")
    rows: list[list[Child]] = []
    for one in watch.changes:
        form = ".2f" if one.figure == "skewness" else ".1%"
        badge = tag("span", one.word if one.word != "unsure" else "may be noise", kind=f"badge {BADGES[one.word]}")
        values = f"{one.before.value:{form}}", f"{one.now.value:{form}}", f"{one.difference:+{form}}"
        rows.append([NAMES[one.figure], one.since, *values, badge])
    sizes = " or ".join(f"{size:,}" for size in sorted({one.size for one in watch.changes}))
    note = (
        f"Days are compared in samples of {sizes} queries, since figures depend on how many there are; so they differ "
        f"from those above. Of earlier days, at most {WEEK} count."
    )
    heads: list[Child] = ["figure", "against", "then", "now", "difference", ""]
    return section("What changed", tag("p", note, kind="note"), tag("div", table(heads, rows), kind="card"))


def _hubs(watch: Watch) -> Markup:
    one = watch.current
    rows: list[list[Child]] = [[hub.id, f"{hub.queries:,}", f"{hub.queries / one.queries:.1%}"] for hub in one.hubs]
    heads: list[Child] = ["item", "queries that return it", "share of the queries"]
    return section(f"The items returned most, {one.named}", tag("div", table(heads, rows), kind="card"))


def _notes(watch: Watch) -> Markup:
    told = (*watch.left_out, *watch.notes)
    return section("Notes", *(tag("p", note, kind="note") for note in told)) if told else Markup("")
