"""The picture of the evidence benchmark: gain by set and method, as a coloured table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure

from evidence_measure import COLUMNS, WITH, WITHOUT, Figures, Gain, signed
from evidence_tables import NOT_MEASURED, title_of
from unhub.evaluation.pictures import INKS, Picture

COLOUR_LIMIT = 8.0  # points of R@1 at the ends of the colours; larger gains have the same colour
DARK_FROM = 6.0  # points from where blue takes light letters; orange never does
CELL_INCHES, LEFT_INCHES, ABOVE_INCHES = (0.68, 0.36), 2.9, 1.35


def picture_of(figures: Sequence[Figures], path: Path) -> None:
    """Draw the gain of every method and of `tune` for each case, as a coloured table."""
    columns: dict[str, list[Gain | None]] = {
        **{name: [one.methods.get(name) for one in figures] for name in COLUMNS},
        "tune": [_gain(one, WITHOUT) for one in figures],
        "tune,\nqueries": [_gain(one, WITH) for one in figures],
        "labelled\nbest": [one.labelled[one.best] for one in figures],
    }
    apart = (len(COLUMNS), len(columns) - 1)  # a gap before these columns
    places = [number + 0.25 * sum(number >= one for one in apart) for number in range(len(columns))]
    colours = LinearSegmentedColormap.from_list("harm and gain", [INKS["raw"], INKS["paper"], INKS["fixed"]])
    norm = TwoSlopeNorm(0, -COLOUR_LIMIT, COLOUR_LIMIT)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for place, gains in zip(places, columns.values(), strict=True):
            for row, gain in enumerate(gains):
                value = 0.0 if gain is None else gain.value
                axes.barh(row, 0.96, 0.92, left=place - 0.48, color=colours(norm(value)))
                sure = gain is not None and (gain.low > 0 or gain.high < 0)
                axes.text(
                    place,
                    row,
                    NOT_MEASURED if gain is None else signed(value),
                    ha="center",
                    va="center",
                    color=INKS["paper"] if value > DARK_FROM else INKS["ink"] if sure else INKS["soft"],
                    fontweight="bold" if sure else "normal",
                )
        axes.set_xlim(-0.6, places[-1] + 0.6)
        axes.set_ylim(len(figures) - 0.4, -0.6)
        axes.set_xticks(places, list(columns))
        axes.set_yticks(range(len(figures)), [f"{title_of(one)} ({one.recall:.1f})" for one in figures])
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_xlabel(
            f"bold: the 95% interval excludes 0.  In brackets: R@1 of raw search.  Colours end at ±{COLOUR_LIMIT:g}.",
            loc="left",
        )

    wide, high = CELL_INCHES
    size = (LEFT_INCHES + wide * (places[-1] + 1), ABOVE_INCHES + high * len(figures))
    words = "Gain in R@1 over raw search of every method, of tune without labels, and of the labelled best, by set."
    Picture("evidence", "Gain in R@1 over raw search, in points", words, draw, size=size).save(path)


def _gain(figures: Figures, rule: str) -> Gain | None:
    return figures.tuned[rule].gain if rule in figures.tuned else None
