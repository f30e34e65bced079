"""Draw docs/hubness.png, or the file named: what hubs do to a search for functions, and the same search corrected.

    python benchmarks/picture.py [FILE] [--code DIR ...]

The data is that of `unhub demo`: the functions of Python and of the installed packages, or of what --code names. It
prints the caption with the figures, which depend on what is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unhub import kernels
from unhub.compute.workers import Progress
from unhub.demo.functions.function_demo import FunctionDemo, compared, open_demo
from unhub.demo.functions.function_lines import title
from unhub.demo.hubs import find_hubs
from unhub.demo.result_tables import Compared
from unhub.evaluation.hubness import Hubness, Hubs

RAW, CORRECTED, FAIR = "#D55E00", "#0072B2", "#777777"  # of the palette of Okabe and Ito, made for colour-blind readers
RECALLS = ("R@1", "R@5", "R@10")


@contextmanager
def in_words(label: str) -> Iterator[Progress]:
    """Say what is being done; nothing is drawn meanwhile."""
    print(f"{label} ...", flush=True)
    yield lambda done, total: None


def main(target: Path, code: list[str]) -> None:
    """Search the functions raw and corrected, draw both, and print the caption."""
    with kernels.prefer("numpy"):
        demo = open_demo(code, in_words)
        measured = {str(one.measure): one for one in compared(demo.measure())}
        found = find_hubs(demo.library, demo.library.questions("queries"))
    mpl.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(10, 3.9), layout="constrained", dpi=160, facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    _draw_occurrences(left, demo, found)
    _draw_recall(right, [measured[name] for name in RECALLS])
    figure.savefig(target, metadata={"Software": None})
    print(caption(demo, found, measured["R@1"]))


def caption(demo: FunctionDemo, found: Hubs, first: Compared) -> str:
    """Return what the picture shows, with its figures."""
    assert found.after is not None
    never = [f"{one.figures.anti_hubs:.1%}" for one in (found.before, found.after)]
    worst = found.hubs[0]
    library = demo.library
    return (
        f"{len(library.items):,} functions of Python and of {len(library.read.packages) - 1} installed packages, asked "
        f"for by {found.before.queries:,} docstrings. Raw, `{title(library, worst.position)}` is in {worst.before:,} "
        f"lists of ten and {never[0]} of the functions are in none; corrected, that hub is in {worst.after:,} and "
        f"{never[1]} are in none. R@1 rises from {first.raw.value:.1f} to {first.corrected.value:.1f} "
        f"({first.change:+.1f})."
    )


def _draw_occurrences(axes: Axes, demo: FunctionDemo, found: Hubs) -> None:
    """Draw how often each function is returned, most often first, on a scale that includes 0."""
    assert found.after is not None
    sides: dict[str, Hubness] = {"raw": found.before, "corrected": found.after}
    items = len(found.before.counts)
    for (name, one), colour in zip(sides.items(), (RAW, CORRECTED), strict=True):
        axes.plot(np.arange(1, items + 1), np.sort(one.counts)[::-1], color=colour, linewidth=2.4, label=name)
    fair = found.before.k * found.before.queries / items
    axes.axhline(fair, color=FAIR, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    axes.annotate(
        f"equal shares: {fair:.1f} each", (items, fair), (0, 4), textcoords="offset points", ha="right", color=FAIR
    )
    axes.set_yscale("symlog", linthresh=1)
    axes.set_yticks([0, 1, 10, 100], ["never", "1", "10", "100"])
    axes.set_ylim(-0.15, 2.2 * found.before.counts.max())
    axes.set_xlim(-0.012 * items, items * 1.01)
    axes.set_xlabel(f"the {items:,} functions, most often found first")
    axes.set_ylabel(f"in how many top-{found.before.k} lists")
    axes.set_title(f"A few hubs fill the answers to {found.before.queries:,} queries", loc="left", fontsize=12)
    worst = found.hubs[0]
    axes.annotate(
        f"{title(demo.library, worst.position)}\nis in {worst.before:,} lists, in {worst.after:,} after the correction",
        (1, worst.before),
        (24, -4),
        textcoords="offset points",
        va="center",
        arrowprops={"arrowstyle": "-", "color": RAW},
        color=RAW,
    )
    for height, colour, text in (
        (0.55, RAW, f"raw search: {found.before.figures.anti_hubs:.1%} never found"),
        (0.25, CORRECTED, f"corrected: {found.after.figures.anti_hubs:.1%}"),
    ):
        axes.text(0.7 * items, height, text, color=colour, ha="right", va="center", fontweight="bold")


def _draw_recall(axes: Axes, measured: list[Compared]) -> None:
    """Draw how many queries find their function within 1, 5 and 10 places."""
    sides = {
        "raw": [one.raw.value for one in measured],
        "corrected": [one.corrected.value for one in measured],
    }
    for offset, (name, recall), colour in zip((-0.2, 0.2), sides.items(), (RAW, CORRECTED), strict=True):
        bars = axes.bar(np.arange(len(recall)) + offset, recall, 0.38, color=colour, label=name)
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=10)
    axes.set_xticks(range(len(measured)), [str(one.measure).removeprefix("R@") for one in measured])
    axes.set_ylim(0, 1.25 * max(sides["corrected"]))
    axes.set_ylabel("% of queries")
    axes.set_xlabel("the right function is among the first ...")
    axes.set_title("The right functions move up", loc="left", fontsize=12)
    axes.legend(frameon=False, loc="upper left")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    picture = Path(__file__).resolve().parents[1] / "docs" / "hubness.png"
    parser.add_argument("file", nargs="?", type=Path, default=picture)
    parser.add_argument("--code", action="append", default=[], help="as in `unhub demo`")
    given = parser.parse_args()
    main(given.file, given.code)
