"""Draw docs/hubness.png, or the file named: what hubness does to a search, and the same search corrected."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

import unhub
from generated import generate

METHOD = "sn"
K = 10
RAW, CORRECTED, FAIR = "#D55E00", "#0072B2", "#777777"  # of the palette of Okabe and Ito, made for colour-blind readers


def main(target: Path) -> None:
    """Search generated data raw and corrected, and draw both."""
    data = generate(seed=0)
    searcher = unhub.searcher(data.items, unhub.fit(data.items, data.bank, method=METHOD))
    found = {
        name: searcher.search(data.queries, k=K, strength=strength).ids.astype(np.int64)
        for name, strength in (("raw", 0.0), ("corrected", 1.0))
    }
    mpl.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(10, 3.9), layout="constrained", dpi=160, facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    _draw_occurrences(left, found, len(data.items))
    _draw_recall(right, found)
    figure.savefig(target, metadata={"Software": None})


def _draw_occurrences(axes: Axes, found: dict[str, NDArray[np.int64]], items: int) -> None:
    """Draw how often each item is returned, most often first, on a scale that includes 0."""
    counts = {name: np.bincount(ids.ravel(), minlength=items) for name, ids in found.items()}
    for (name, count), colour in zip(counts.items(), (RAW, CORRECTED), strict=True):
        axes.plot(np.arange(1, items + 1), np.sort(count)[::-1], color=colour, linewidth=2.4, label=name)
    queries = len(found["raw"])
    fair = K * queries / items
    axes.axhline(fair, color=FAIR, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    axes.annotate("raw search", (0.4 * items, 4.0), color=RAW, ha="right", va="center")
    axes.annotate("corrected search", (0.36 * items, 14.5), color=CORRECTED, va="center")
    axes.annotate(
        f"equal shares: {fair:g} each", (items, fair), (0, 4), textcoords="offset points", ha="right", color=FAIR
    )
    axes.set_yscale("symlog", linthresh=1)
    axes.set_yticks([0, 1, 10, 100], ["never", "1", "10", "100"])
    axes.set_ylim(-0.15, 1.7 * counts["raw"].max())
    axes.set_xlim(0, items * 1.01)
    axes.set_xlabel(f"the {items:,} items, most often found first")
    axes.set_ylabel(f"in how many top-{K} lists")
    axes.set_title(f"A few hubs fill the answers to {queries:,} queries", loc="left", fontsize=12)
    axes.annotate(
        f"the worst hub is in {counts['raw'].max()} lists,\nand in {counts['corrected'][counts['raw'].argmax()]} after "
        "the correction",
        (1, counts["raw"].max()),
        (22, -6),
        textcoords="offset points",
        va="center",
        arrowprops={"arrowstyle": "-", "color": RAW},
        color=RAW,
    )
    never = {name: (count == 0).mean() for name, count in counts.items()}
    for height, colour, text in (
        (0.55, RAW, f"raw: {never['raw']:.1%} of items never found"),
        (0.25, CORRECTED, f"corrected: {never['corrected']:.1%}"),
    ):
        axes.text(0.86 * items, height, text, color=colour, ha="right", va="center", fontweight="bold")


def _draw_recall(axes: Axes, found: dict[str, NDArray[np.int64]]) -> None:
    """Draw how many queries find their item within 1, 5 and 10 places."""
    places = (1, 5, K)
    for offset, (name, ids), colour in zip((-0.2, 0.2), found.items(), (RAW, CORRECTED), strict=True):
        right = ids == np.arange(len(ids))[:, None]
        recall = [100 * right[:, :k].any(axis=1).mean() for k in places]
        bars = axes.bar(np.arange(len(places)) + offset, recall, 0.38, color=colour, label=name)
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=10)
    axes.set_xticks(range(len(places)), [str(k) for k in places])
    axes.set_ylim(0, 108)
    axes.set_yticks([0, 50, 100])
    axes.set_ylabel("% of queries")
    axes.set_xlabel("the right item is among the first ...")
    axes.set_title("The right items move up", loc="left", fontsize=12)
    axes.legend(frameon=False, loc="upper left")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "docs" / "hubness.png")
