"""Tables of the engines benchmark from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emoji_tables import Section
from engines_places import PLACES
from engines_sets import GENERATED, HOW_GENERATED, METHOD, EngineSet

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
        words = [f"Left out, since it was not at hand: {', '.join(absent)}."] if absent else []
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
        f"The correction is `{METHOD}`. The last columns are the share of the corrected best ten among so many candidates, "
        f"the nearest by plain similarity. Generated: {HOW_GENERATED}"
    )
    return Section("The sets, and how many candidates hold the corrected best", words, heads, rows)


def _recalls(mode: str, one: EngineSet, figures: Sequence[Figures]) -> Section:
    rows = []
    for row in figures:
        for way in row.recalls:
            name = row.place + (f", {way.way}" if way.way else "")
            what = row.layout if mode == "vectors" else f"{row.candidates:,}"
            rows.append([name, what, *_pairs(row, way), _verdict(way)])
    told = "layout that `auto` chose" if mode == "vectors" else "candidates that deploy chose"
    heads = ["collection", told, "default: plain", "corrected", "high effort", "plain", "corrected", "limit"]
    return Section(f"Recall in mode `{mode}`: {title_of(one.name)}, {len(one.items):,} items", "", heads, rows)


def _pairs(row: Figures, way: Recalls) -> list[str]:
    place = PLACES[row.place]
    pairs = [f"{one:.3f}" for both in zip(way.plain, way.corrected, strict=True) for one in both]
    if len(pairs) == 2:
        return [*pairs, "exact", "", ""]
    return [*pairs[:2], f"{place.effort} {place.high}", *pairs[2:]]


def _verdict(way: Recalls) -> str:
    return "none" if way.good is None else f"{'holds' if way.good else '**FAILS**'} (-{way.loss:g})"


def _times(mode: str, figures: Sequence[Figures]) -> Section:
    rows = []
    for row in figures:
        if row.problem:
            continue
        ratios = [f"{row.engine:.2f}", f"{row.searched:.2f}"] if mode == "vectors" else [f"{row.searched:.2f}"]
        cells = [row.place, title_of(row.set), f"{row.plain_ms:.2f}", *ratios]
        if mode == "vectors":
            cells.append("holds" if row.engine <= MOST_RATIO else "**FAILS**")
        rows.append([*cells, f"{row.deploy:.1f}", *([] if mode == "vectors" else [f"{row.refit:.1f}"])])
    ratios = ["engine alone", "by `searcher`", f"limit {MOST_RATIO}"] if mode == "vectors" else ["by `searcher`"]
    heads = ["collection", "set", "plain ms", *ratios, "deploy s", *([] if mode == "vectors" else ["refit s"])]
    words = (
        "Plain ms is the median time of one query. The ratios are of the medians of 200 single queries each, corrected and plain "
        "in turn: by the engine alone, and by all that `unhub.searcher` does."
    )
    return Section(f"Times in mode `{mode}`", words, heads, rows)


__all__ = ["GENERATED", "sections_of", "title_of"]
