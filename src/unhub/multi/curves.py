"""The curve of an evaluation of sets: a measure against the number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unhub.evaluation.pictures import INKS, Picture, axis_of, draw_levels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unhub.multi.results import SetEvaluation

COLOURS = ("fixed", "raw", "third", "fourth", "soft")  # for the combinations, in order
DASHES: Sequence[tuple[float, Sequence[float]]] = (  # for the rankings, last one first
    (0, ()),
    (0, (4, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
)
SIZE_INCHES = (6.4, 4.0)


def curve(found: SetEvaluation) -> Picture:
    """Draw a line for each combination and ranking; the best one has a band for its interval."""
    measure = found.measures[0]
    lines = {
        (combination, ranking): [found[combination, ranking, size].values[str(measure)] for size in found.sizes]
        for combination in found.combinations
        for ranking in found.rankings
    }
    sign = -1 if measure.family.falls else 1
    best = max(lines, key=lambda one: sign * lines[one][-1].value)

    inks = {one: INKS[COLOURS[at % len(COLOURS)]] for at, one in enumerate(found.combinations)}
    dashes = {one: DASHES[at % len(DASHES)] for at, one in enumerate(reversed(found.rankings))}

    def draw(figure: Figure) -> None:
        from matplotlib.lines import Line2D

        axes = figure.subplots()
        for (combination, ranking), values in lines.items():
            ink = inks[combination]
            if (combination, ranking) == best:
                low, high = np.array([(one.low, one.high) for one in values]).T
                known = np.isfinite(low) & np.isfinite(high)
                places = np.array(found.sizes)[known]
                axes.fill_between(places, low[known], high[known], color=ink, alpha=0.14, linewidth=0)
            middle = [one.value for one in values]
            axes.plot(
                found.sizes, middle, color=ink, linestyle=dashes[ranking], linewidth=1.8, marker="o", markersize=3.6
            )
        axes.set_xticks(found.sizes)
        axes.set_xlabel("queries for one target")
        axes.set_ylabel(axis_of(measure.with_unit, measure.family.falls))
        draw_levels(axes)
        # A colour shows the combination, a dash pattern the ranking.
        colours = [Line2D([], [], color=ink, linewidth=1.8, marker="o", markersize=3.6) for ink in inks.values()]
        figure.legend(colours, list(inks), loc="outside right upper")
        if len(found.rankings) > 1:
            lined = [Line2D([], [], color=INKS["ink"], linewidth=1.8, linestyle=dashes[one]) for one in found.rankings]
            figure.legend(lined, found.rankings, loc="outside right lower", handlelength=3)

    first, last = (lines[best][at].value for at in (0, -1))
    words = (
        f"{measure} against the number of queries. Best at {found.sizes[-1]}: {best[0]}, {best[1]}, {last:.2f}, "
        f"against {first:.2f} with {found.sizes[0]}."
    )
    return Picture("queries", f"{measure} against the number of queries", words, draw, size=SIZE_INCHES)
