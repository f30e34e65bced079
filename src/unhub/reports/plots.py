"""Charts of a report: how often items are returned, and the similarities of some queries and items."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.evaluation.excluding import NOBODY
from unhub.evaluation.pictures import INKS, Picture, draw_legend
from unhub.evaluation.placing import Additive
from unhub.reports.before_after import drawn, worst_hubs
from unhub.reports.findings import Findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST_IN_SHARES = 4.0  # returns in an equal share: with fewer, items are grouped by their counts
SIDE_INKS = {"raw": "raw", "corrected": "fixed"}
SAMPLE_SIZE = 20  # queries in the picture of similarities, and as many items beside the hubs


def occurrences(findings: Findings) -> Picture:
    """Draw how often each item is returned, most often first, on a log scale that includes 0."""
    counts = {name: np.sort(one.counts)[::-1] for name, one in findings.sides.items()}
    k, fair, items = findings.hubness[0].k, findings.fair_share, len(findings.setting.item_ids)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for name, sorted_counts in counts.items():
            axes.plot(np.arange(1, items + 1), sorted_counts, color=INKS[SIDE_INKS[name]], linewidth=2.2, label=name)
        axes.axhline(fair, color=INKS["soft"], linewidth=1, linestyle=(0, (4, 3)), label=f"equal share: {fair:.3g}")
        top = max(int(one[0]) for one in counts.values())
        axes.set_yscale("symlog", linthresh=1)
        ticks = [0, *(10**power for power in range(8) if 10**power <= top)]
        axes.set_yticks(ticks, ["never", *(f"{tick:,}" for tick in ticks[1:])])
        axes.minorticks_off()
        axes.set_ylim(-0.12, 1.6 * top)
        axes.set_xlim(0, 1.01 * items)
        axes.set_xlabel(f"the {items:,} items, most returned first")
        axes.set_ylabel(f"times in a top-{k} list")
        draw_legend(axes)

    words = f"How often each of {items:,} items is among the first {k}. " + " ".join(
        f"{name.capitalize()}: the worst hub {one[0]:,} times, {np.mean(one == 0):.1%} of the items never."
        for name, one in counts.items()
    )
    return Picture("occurrences", "How often each item is returned", words, draw)


def shares(findings: Findings) -> Picture:
    """Draw how many items are never returned, and how many less or more often than an equal share."""
    edges, names = _bins(findings.fair_share)
    counted = {name: np.histogram(one.counts, bins=edges)[0] for name, one in findings.sides.items()}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = np.arange(len(names))
        for number, (name, counts) in enumerate(counted.items()):
            offset = 0.4 * (number - (len(counted) - 1) / 2)
            bars = axes.bar(places + offset, counts, 0.38, color=INKS[SIDE_INKS[name]], label=name)
            axes.bar_label(bars, [f"{count:,}" if count else "" for count in counts], fontsize=7, padding=1)
        axes.set_xticks(places, names, fontsize=8)
        axes.set_ylabel("number of items")
        in_shares = ", divided by an equal share" if findings.fair_share >= FEWEST_IN_SHARES else ""
        axes.set_xlabel(f"times returned{in_shares}")
        axes.margins(y=0.1)
        draw_legend(axes)

    words = f"Items by how often they are returned, {' and '.join(counted)}: " + "; ".join(
        f"{name}: {' and '.join(f'{count:,}' for count in counts)}"
        for name, *counts in zip(names, *counted.values(), strict=True)
    )
    return Picture("shares", "How many items get an equal share", f"{words}.", draw)


def _bins(fair: float) -> tuple[list[float], list[str]]:
    """Return the edges of the bins and their names; in equal shares if a share is several returns."""
    if fair >= FEWEST_IN_SHARES:
        edges = [0.0, 0.5, *(times * fair for times in (0.5, 1, 2, 4, 8)), np.inf]
        return edges, ["never", "under ½", "½ to 1", "1 to 2", "2 to 4", "4 to 8", "over 8"]
    return [0, 0.5, 1.5, 2.5, 4.5, 8.5, 16.5, np.inf], ["never", "1", "2", "3, 4", "5 to 8", "9 to 16", "over 16"]


def similarities(findings: Findings, seed: int = 0) -> list[Picture]:
    """Draw the scores of some queries, raw and corrected: with the worst hubs, and with their answers or other items.

    Only a bias keeps scores on the scale of the raw ones; for other corrections only the raw scores are drawn.
    """
    queries, columns, hubs = sample(findings, seed)
    scores = {"raw": scores_of(findings, queries, columns)}
    ranking = None if findings.alone else findings.setting.corrections[findings.shown][1]
    if isinstance(ranking, Additive):
        gate = np.ones(len(queries)) if ranking.active is None else ranking.active[raw_best(findings, queries)]
        scores["corrected"] = (scores["raw"] - gate[:, None] * ranking.h[columns]).astype(np.float32)
    ends = [float(np.quantile(np.stack(list(scores.values())), share)) for share in (0.02, 0.995)]
    own = "their answers" if findings.truth is not None else "other items"
    pictures = []
    for (name, shown), best in zip(scores.items(), findings.best, strict=False):
        returned = (best[queries][:, None, :] == columns[None, :, None]).any(axis=2)
        words = (
            f"Scores of {len(queries)} queries with the {hubs} worst hubs and with {own}, {name}: "
            f"{returned[:, :hubs].sum()} times a hub is among the first {best.shape[1]}, "
            f"{returned[:, hubs:].sum()} times one of {own}."
        )
        draw = functools.partial(_draw_scores, shown, returned, hubs, own, ends)
        pictures.append(Picture(f"similarities-{name}", f"Scores, {name}", words, draw))
    return pictures


def _draw_scores(
    scores: Float32, returned: NDArray[np.bool_], hubs: int, own: str, ends: list[float], figure: Figure
) -> None:
    axes = figure.subplots()
    image = axes.imshow(scores, cmap="viridis", vmin=ends[0], vmax=ends[1], interpolation="none", aspect="auto")
    rows, columns = np.nonzero(returned)
    axes.plot(columns, rows, "o", color="#ff2e63", markeredgecolor="#ffffff", markersize=5, markeredgewidth=0.8)
    axes.axvline(hubs - 0.5, color=INKS["paper"], linewidth=3)
    middles = [(hubs - 1) / 2, hubs + (scores.shape[1] - hubs - 1) / 2]
    axes.set_xticks(middles, [f"the {hubs} worst hubs", own])
    axes.tick_params(length=0)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_ylabel(f"{len(scores)} queries")
    bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label("score")
    bar.outline.set_visible(False)


def sample(findings: Findings, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return some queries, items to compare them with, and how many of those are hubs; the hubs come first.

    With labels the other items are the first answers of the queries, in their order; without, they are drawn.
    """
    generator = np.random.default_rng(seed)
    hubs = [hub.item for hub in worst_hubs(findings)]
    if findings.truth is None:
        others = np.setdiff1d(np.arange(len(findings.setting.item_ids)), hubs)
        queries = np.array(drawn(np.arange(findings.queries), SAMPLE_SIZE, generator))
        return queries, np.array([*hubs, *drawn(others, SAMPLE_SIZE, generator)]), len(hubs)
    first = findings.truth.positions[findings.truth.starts[:-1][findings.truth.answered]]
    # One random query for each answer, so that every answer has a column of its own.
    order = generator.permutation(len(first))
    _, places = np.unique(first[order], return_index=True)
    queries = np.array(drawn(findings.truth.answered[order[places]], SAMPLE_SIZE, generator))
    answers = [int(findings.answers(int(query))[0]) for query in queries]
    return queries, np.array([*hubs, *answers]), len(hubs)


def raw_best(findings: Findings, queries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the best item of each query by raw score, including items excluded from its ranking."""
    best: NDArray[np.int64] = findings.best[0][queries, 0].astype(np.int64)
    left_out = findings.setting.left_out
    if left_out is None:
        return best
    for row, query in enumerate(queries.tolist()):
        among = np.array([one for one in (best[row], *left_out.of(query)) if one != NOBODY])
        best[row] = among[scores_of(findings, queries[row : row + 1], among)[0].argmax()]
    return best


def scores_of(findings: Findings, queries: NDArray[np.int64], items: NDArray[np.int64]) -> Float32:
    """Return the similarities of some queries and items, (queries, items)."""
    each, places = np.unique(items, return_inverse=True)
    similarity = findings.setting.similarity.some_items(each)
    ready = similarity.items((0, len(each)))
    scores = np.empty((len(queries), len(each)), np.float32)
    for row, query in enumerate(queries.tolist()):
        similarity.queries_by_items(similarity.queries((query, query + 1)), ready, scores[row : row + 1])
    return scores[:, places]
