"""Tables of the engines benchmark from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emoji_tables import Section
from engines_places import PLACES
from engines_sets import HOW_GENERATED, METHOD, EngineSet

if TYPE_CHECKING:
    from engines import Figures, Recalls

TITLES = {"flickr8k_ridge": "Flickr8k ridge", "flickr8k_vse_holdout": "Flickr8k vse_holdout", "code": "code"}
MOST_RATIO = 1.1


def sections_of(figures: Sequence[Figures], sets: Sequence[EngineSet], absent: Sequence[str]) -> list[Section]:
    """Return what to print, or to put into the page."""
    found = [_sets(sets)]
    for mode in ("vectors", "payload"):
        for one in sets:
            mine = [row for row in figures if (row.mode, row.set) == (mode, one.name)]
            if mine:
                found.append(_recalls(mode, one, mine))
        found.append(_times(mode, [row for row in figures if row.mode == mode]))
    problems = [f"{row.place}, {row.set}, {row.mode}: {row.problem}" for row in figures if row.problem]
    if absent or problems:
        words = [f"Not at hand: {', '.join(absent)}."] if absent else []
        found.append(Section("What was left out", " ".join([*words, *problems])))
    return found


def title_of(name: str) -> str:
    return TITLES.get(name, name)


def _sets(sets: Sequence[EngineSet]) -> Section:
    counts = sorted({count for one in sets for count in one.shares()})
    rows = []
    for one in sets:
        shares, (plain, corrected) = one.shares(), one.skewness()
        rows.append(
            [
                title_of(one.name),
                f"{len(one.items):,} x {one.items.dimensions}",
                f"{len(one.queries):,}",
                f"{plain:.2f}",
                f"{corrected:.2f}",
                *(f"{shares[count]:.3f}" if count in shares else "all" for count in counts),
            ]
        )
    heads = ["set", "items", "queries", "skewness", "corrected", *(f"among {count:,}" for count in counts)]
    words = (
        f"The correction is `{METHOD}`. The last columns are the share of the corrected best ten among so many "
        f"candidates, the nearest by plain similarity. Generated: {HOW_GENERATED}"
    )
    return Section("The sets, and how many candidates hold the corrected best", words, heads, rows)


def _recalls(mode: str, one: EngineSet, figures: Sequence[Figures]) -> Section:
    rows = []
    for row in figures:
        place = PLACES[row.place]
        for way in row.recalls:
            name = row.place + (f", {way.way}" if way.way else "")
            cells = [f"{way.plain[0]:.3f}", f"{way.corrected[0]:.3f}"]
            if mode == "vectors":
                cells.append("default" if row.effort is None else f"{place.effort} {row.effort}: {way.deployed:.3f}")
            high = len(way.plain) > 1
            cells += (
                [f"{place.effort} {place.high}", f"{way.plain[1]:.3f}", f"{way.corrected[1]:.3f}"] if high else [""] * 3
            )
            rows.append([name, row.layout if mode == "vectors" else f"{row.candidates:,}", *cells, _verdict(way)])
    told = "layout that `auto` chose" if mode == "vectors" else "candidates that deploy chose"
    chosen = ["effort that deploy chose"] if mode == "vectors" else []
    heads = ["collection", told, "plain", "corrected", *chosen, "high effort", "plain", "corrected", "limit"]
    return Section(f"Recall in mode `{mode}`: {title_of(one.name)}, {len(one.items):,} items", "", heads, rows)


def _verdict(way: Recalls) -> str:
    """Say whether the limit holds for what was deployed and at the high effort."""
    if way.loss is None:
        return "none"
    corrected = [way.deployed, *way.corrected[1:]]
    low = [p - c for p, c in zip(way.plain, corrected, strict=True)]
    where = [name for name, loss in zip(("as deployed", "at high effort"), low, strict=False) if loss > way.loss + 1e-9]
    return f"**fails** {' and '.join(where)} (-{way.loss:g})" if where else f"holds (-{way.loss:g})"


def _times(mode: str, figures: Sequence[Figures]) -> Section:
    rows = []
    for row in figures:
        if row.problem:
            continue
        ratios = [f"{row.engine:.2f}", f"{row.searched:.2f}"] if mode == "vectors" else [f"{row.searched:.2f}"]
        cells = [row.place, title_of(row.set), f"{row.plain_ms:.2f}", f"{row.around_ms:.2f}", *ratios]
        if mode == "vectors":
            cells.append("holds" if row.engine <= MOST_RATIO else "**fails**")
        rows.append([*cells, f"{row.deploy:.1f}", *([] if mode == "vectors" else [f"{row.refit:.1f}"])])
    ratios = ["engine alone", "by `searcher`", f"limit {MOST_RATIO}"] if mode == "vectors" else ["by `searcher`"]
    heads = [
        "collection",
        "set",
        "plain ms",
        "around it",
        *ratios,
        "deploy s",
        *([] if mode == "vectors" else ["refit s"]),
    ]
    words = (
        "Plain ms is the median time of one query by the engine, and *around it* is how much `unhub.searcher` adds to "
        "a plain search. The ratios are of the medians of 200 single queries each, corrected and plain in turn: by "
        "the engine alone at its default effort, and by `unhub.searcher`, corrected with the effort that deploy chose."
    )
    return Section(f"Times in mode `{mode}`", words, heads, rows)
