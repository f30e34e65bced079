"""Charts of a study: curves, bars and a grid, each with the raw ranking for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unhub.arrays import Float64
from unhub.evaluation.confidence import Interval
from unhub.evaluation.inputs import RAW
from unhub.evaluation.pictures import INKS, LINE_INKS, Picture, axis_of, draw_legend, draw_levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unhub.studies.study import Study


FRAME = (("#ffffff", 4.4), ("#111111", 1.8))  # colour and width: black inside white, visible on light and dark cells
DASHES = (4, 2.4)  # lengths of a dash and a gap: two dashes and a gap fill the line of a legend
MOST_LETTERS = 40  # of the names below bars, above which they are turned so as not to overlap
TICK_DISTANCE_SHARE = 0.16  # of the axis: the smallest distance between two labelled settings


def curves(study: Study) -> Picture:
    """Draw a line for each method over the settings, with a band for its interval."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = np.array(study.settings, dtype=np.float64)
        for (name, values), ink in zip(study.lines.items(), _inks(study.lines), strict=False):
            middle, low, high = _columns(values)
            axes.fill_between(places, low, high, color=INKS[ink], alpha=0.16, linewidth=0)
            axes.plot(places, middle, color=INKS[ink], linewidth=2, marker="o", markersize=3.6, label=study.label(name))
        _draw_raw(axes, study.raw)
        if study.log:
            axes.set_xscale("log")
            tick_settings(axes, study.settings)
        axes.set_xlabel(study.parameter)
        axes.set_ylabel(_measured(study))
        draw_levels(axes)
        draw_legend(axes)

    return Picture(study.name, study.title, _words(study), draw)


def bars(study: Study) -> Picture:
    """Draw a bar for each setting and method, with its interval."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        width = 0.8 / len(study.lines)
        for number, ((name, values), ink) in enumerate(zip(study.lines.items(), _inks(study.lines), strict=False)):
            middle, low, high = _columns(values)
            places = np.arange(len(middle)) + (number - (len(study.lines) - 1) / 2) * width
            errors = np.abs(np.stack([middle - low, high - middle]))
            style = {"ecolor": INKS["ink"], "elinewidth": 1, "capsize": 2.5}
            axes.bar(
                places,
                middle,
                0.92 * width,
                color=INKS[ink],
                label=study.label(name),
                yerr=errors if study.ranges else None,
                error_kw=style,
            )
        _draw_raw(axes, study.raw)
        names = [str(one) for one in study.settings]
        axes.set_xticks(range(len(names)), names)
        if sum(map(len, names)) > MOST_LETTERS:
            for one in axes.get_xticklabels():
                one.set(rotation=40, ha="right", rotation_mode="anchor")
        axes.set_xlabel(study.parameter)
        axes.set_ylabel(_measured(study))
        draw_legend(axes)

    return Picture(study.name, study.title, _words(study), draw)


def grid(study: Study) -> Picture:
    """Draw a cell for each line and setting, the best one framed; purple is better than raw, orange worse."""

    def draw(figure: Figure) -> None:
        from matplotlib.patches import Rectangle

        axes = figure.subplots()
        values = np.array([[one.value for one in line] for line in study.lines.values()])
        raw = study.raw.value if study.raw is not None else float(values.mean())
        reach = float(np.abs(values - raw).max()) or 1.0
        form = ".2f" if np.abs(values).max() < 10 else ".1f"
        colours = "PuOr_r" if study.falls else "PuOr"
        low, high = raw - reach, raw + reach
        image = axes.imshow(values, colours, aspect="auto", interpolation="none", vmin=low, vmax=high, origin="lower")
        for row, column in np.ndindex(values.shape):
            ink = "#ffffff" if abs(values[row, column] - raw) > 0.6 * reach else "#111111"
            axes.text(column, row, f"{values[row, column]:{form}}", ha="center", va="center", fontsize=7, color=ink)
        name, setting, _ = study.best
        spot = (study.settings.index(setting) - 0.5, list(study.lines).index(name) - 0.5)
        for colour, width in FRAME:
            frame = Rectangle(spot, 1, 1, fill=False, edgecolor=colour, linewidth=width, clip_on=False, zorder=3)
            axes.add_patch(frame)
        axes.set_xticks(range(len(study.settings)), [str(one) for one in study.settings])
        axes.set_yticks(range(len(study.lines)), list(study.lines))
        axes.set_xlabel(study.parameter)
        axes.set_ylabel(study.lines_of)
        bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
        if np.any(values != raw):  # otherwise the bar has no length
            bar.ax.set_ylim(min(float(values.min()), raw), max(float(values.max()), raw))
        bar.ax.axhline(raw, color="#111111", linewidth=1.2)
        bar.set_label(f"{_measured(study)}; the line is raw, {raw:{form}}")
        bar.outline.set_visible(False)

    return Picture(study.name, study.title, _words(study), draw, size=(6.2, 4.2))


CHARTS: Mapping[str, Callable[[Study], Picture]] = {"curves": curves, "bars": bars, "grid": grid}


def _inks(lines: Mapping[str, Sequence[Interval]]) -> list[str]:
    """Return a colour for each line; raw has its own, and the others repeat after the last one."""
    named = [name for name in lines if name != RAW]
    return [RAW if name == RAW else LINE_INKS[named.index(name) % len(LINE_INKS)] for name in lines]


def _columns(values: Sequence[Interval]) -> Float64:
    """Return the values, their low and their high ends, (3, values); an unknown end is the value itself."""
    columns = np.array([(one.value, one.low, one.high) for one in values]).T
    return np.where(np.isfinite(columns), columns, columns[0])


def _draw_raw(axes: Axes, raw: Interval | None) -> None:
    if raw is not None:
        axes.axhline(raw.value, color=INKS["raw"], linewidth=1.6, linestyle=(0, DASHES), label=RAW, zorder=1.5)


def tick_settings(axes: Axes, settings: Sequence[float | str]) -> None:
    """Label a log scale with the settings: the smallest, the largest, and as many others as fit."""
    values = sorted({float(one) for one in settings})
    first, last = np.log(values[0]), np.log(values[-1])
    kept = values[:1]
    for value in values[1:]:
        # If there is no room, the largest replaces the one before it, unless that is the smallest.
        if value == values[-1] and len(kept) > 1 and np.log(value / kept[-1]) < TICK_DISTANCE_SHARE * (last - first):
            kept.pop()
        if value == values[-1] or np.log(value / kept[-1]) >= TICK_DISTANCE_SHARE * (last - first):
            kept.append(value)
    axes.set_xticks(kept, [f"{one:,.3g}" if one < 1000 else f"{one:,.0f}" for one in kept])
    axes.minorticks_off()


def _measured(study: Study) -> str:
    return axis_of(study.measured or study.measure, study.falls)


def _words(study: Study) -> str:
    raw = "" if study.raw is None else f" Raw: {study.raw}."
    best = f" Best: {study.best_words}." if study.chooses else ""
    return f"{study.title}.{raw}{best}"
