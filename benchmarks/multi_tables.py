"""Tables and the picture of the multi-query study, from what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unhub.arrays import Float64
from unhub.evaluation.pictures import INKS, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Measured: TypeAlias = Sequence[Mapping[str, Any]]  # one per row, seed and ranking, with its figures
Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]

FIGURES = ("R@1", "R@5", "R@10", "MdR", "MnR", "AUC_3", "AUC_5")
PAIRS = (
    ("SA", "Baseline, 1 query"),
    ("SA", "RA"),
    ("MF", "SA"),
    ("TS-WF", "MF"),
    ("LG-WF", "MF"),
    ("CG-WF", "MF"),
    ("Cmb (MF), 1 query", "Baseline, 1 query"),
    ("MF, 1 query", "Baseline, 1 query"),
    ("Cmb (MF), 5 queries", "SA"),
    ("Cmb (MF), 5 queries", "MF"),
)
TRAINED = {"1": "SA", "2": "MF of 2, 5 queries", "3": "MF of 3, 5 queries", "5": "MF"}
RESAMPLES = 2000


def as_markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def of(measured: Measured, row: str, ranking: str = "raw") -> list[Mapping[str, Any]]:
    """Return what was measured of a row, for every seed."""
    return [one for one in measured if (one["row"], one["ranking"]) == (row, ranking)]


def table(measured: Measured, rows: Iterable[str], ranking: str, chosen: Mapping[str, tuple[str, float]]) -> Table:
    """Return the figures of every row: the mean over the seeds and the standard deviation."""
    corrected = ["correction"] if ranking == "corrected" else []
    lines = []
    for row in rows:
        mine = of(measured, row, ranking)
        cells = []
        for figure in FIGURES:
            values = np.array([one[figure] for one in mine])
            cells.append(f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(mine) > 1 else f"{values[0]:.1f}")
        lines.append([row, *([f"{chosen[row][1]:g} x `{chosen[row][0]}`"] if corrected else []), *cells])
    return ["", *corrected, *FIGURES], lines


def comparisons(measured: Measured) -> Table:
    """Return differences in R@1 with 95% intervals over the images, paired, each image's mean over the seeds."""
    pairs = [(one, other, "raw", "raw") for one, other in PAIRS]
    pairs += [(row, row, "corrected", "raw") for row in dict.fromkeys(one["row"] for one in measured)]
    lines = []
    for one, other, ranking, against in pairs:
        difference = _firsts(measured, one, ranking) - _firsts(measured, other, against)
        low, high = _interval(difference)
        apart = [
            a["R@1"] - b["R@1"] for a, b in zip(of(measured, one, ranking), of(measured, other, against), strict=True)
        ]
        name = f"{one} over {other}" if one != other else f"{one}, corrected over raw"
        seeds = ", ".join(f"{value:+.1f}" for value in apart)
        lines.append([name, f"{100 * difference.mean():+.1f}", f"[{low:+.1f}, {high:+.1f}]", seeds])
    return ["R@1", "difference", "95% interval", "by seed"], lines


def _firsts(measured: Measured, row: str, ranking: str) -> Float64:
    return np.asarray(np.mean([one["first"] for one in of(measured, row, ranking)], axis=0))


def _interval(values: Float64) -> tuple[float, float]:
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(100 * values[drawn].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def curves(measured: Measured) -> Table:
    """Return R@1 by the number of queries in training and in the test."""
    lines = []
    for number, row in TRAINED.items():
        mean = np.mean([one["curve"] for one in of(measured, row)], axis=0)
        lines.append([number, *(f"{value:.1f}" for value in mean)])
    return ["queries in training", *(f"test with {size}" for size in range(1, 6))], lines


def draw(measured: Measured, path: Path) -> None:
    """Draw R@1 against the number of queries: by method, and by the number of queries in training."""
    methods = {"RA": "RA", "SA": "SA", "MF": "MF", "CG-WF": "CG-WF", "Cmb (MF)": "Cmb (MF), 5 queries"}
    trained = {f"{number} in training": row for number, row in TRAINED.items()}

    def lines(axes: Axes, rows: Mapping[str, str], inks: Sequence[str]) -> None:
        for (name, row), ink in zip(rows.items(), inks, strict=True):
            every = np.array([one["curve"] for one in of(measured, row)])
            places, mean = np.arange(1, 6), every.mean(axis=0)
            axes.fill_between(places, every.min(axis=0), every.max(axis=0), color=INKS[ink], alpha=0.15, linewidth=0)
            axes.plot(places, mean, color=INKS[ink], linewidth=1.8, marker="o", markersize=3.4, label=name)
        axes.set_xlabel("queries in the test")
        axes.set_xticks(range(1, 6))
        axes.grid(axis="y", color=INKS["faint"], linewidth=0.8)
        axes.set_axisbelow(True)
        axes.legend(loc="lower right")  # rising curves leave room there

    def both(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        lines(left, methods, ("soft", "raw", "fixed", "third", "fourth"))
        lines(right, trained, ("raw", "fourth", "third", "fixed"))
        left.set_ylabel("R@1 on test")

    words = "R@1 on test against the number of queries, by method and by the number of queries in training."
    Picture("multi", "Several captions of one picture, Flickr8k", words, both, size=(9.2, 3.8)).save(path)
