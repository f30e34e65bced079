"""`unhub hubs`: the items that crowd the answers, before and after a correction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.folding import show_words, tell, terminal_width
from unhub.cli.inputs import read_named
from unhub.cli.options import (
    CompareAsFitted,
    Device,
    ExcludeSelf,
    ItemIds,
    Items,
    ItemTexts,
    Json,
    On,
    Queries,
    QueryIds,
    QueryTexts,
    Threads,
    whole_number,
)
from unhub.evaluation.tables import visible

if TYPE_CHECKING:
    from unhub.arrays import Ids
    from unhub.evaluation.hubness import Hub, Hubs

FIGURES: Mapping[str, tuple[str, str]] = {
    "skewness": (".2f", "how lopsided the counts are; 0 is even"),
    "kurtosis": (".2f", "how long their tail is; 0 is a bell curve"),
    "mean_deviation": (".2f", "how far a count is from the mean count"),
    "largest": (",", "queries that return the worst hub"),
    "anti_hubs": (".1%", "items that no query returns"),
    "top_share": (".1%", "places taken by {top}"),
    "robin_hood": (".1%", "places to move for an even share"),
}


def hubs(
    items: Items,
    queries: Queries,
    item_ids: ItemIds = None,
    query_ids: QueryIds = None,
    correction: Annotated[Path | None, typer.Option(help="A file written by `unhub fit`, to compare with.")] = None,
    k: Annotated[int, whole_number(1, "-k", help="Number of items that a query returns.")] = 10,
    count: Annotated[int, whole_number(1, help="Number of hubs to show.")] = 10,
    examples: Annotated[int, whole_number(0, help="Number of queries to show for each hub.")] = 3,
    item_texts: ItemTexts = None,
    query_texts: QueryTexts = None,
    exclude_self: ExcludeSelf = False,
    similarity: CompareAsFitted = None,
    threads: Threads = None,
    device: Device = None,
    on: On = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show only the hubs, and no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Show the worst hubs, how often each is returned, raw and corrected, and queries that return it."""
    from unhub import files
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.hubness import worst_hubs

    with argument("--correction"):
        fitted = None if correction is None else files.load(correction, "correction")
    gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
    said = _texts(item_texts, gallery.ids, "--item-texts")
    meant = _texts(query_texts, asked.ids, "--query-texts")
    with progress("hubs", quiet) as advance:
        found = worst_hubs(
            asked,
            gallery,
            fitted,
            k,
            count,
            examples=examples,
            exclude=SELF if exclude_self else None,
            similarity=None if similarity is None else similarity.value,
            threads=threads,
            device=device,
            on=on,
            progress=advance,
        )
    if as_json:
        echo_json(_as_json(found, said, meant))
        return
    if not quiet:
        among = f"among the {found.before.k} best of {len(asked):,} queries"
        tell(f"How often each of {len(gallery):,} items is {among}:", "")
        show_words(_figures(found))
        tell("chance: what each figure would be if queries returned items at random.", *found.before.notes)
        tell("", "The worst hubs:")
    width = terminal_width()
    for number, hub in enumerate(found.hubs, start=1):
        for line in _lines(number, hub, found, said, meant):
            echo(line if width is None else _cut(line, width))


def _texts(path: Path | None, ids: Ids, option: str) -> list[str] | None:
    """Return the texts of vectors with these ids, each on one line; None without a file."""
    from unhub import files

    with argument(option):
        return None if path is None else [" ".join(text.split()) for text in files.read_texts(path).of(ids)]


def _figures(found: Hubs) -> tuple[list[str], list[list[str]]]:
    from unhub.evaluation.hubness import top_of

    sides = {"raw": found.before, "corrected": found.after}
    shown = {name: side.figures for name, side in sides.items() if side is not None}
    chance = found.before.chance
    top = top_of(len(found.before.counts))
    rows = [
        [
            figure.replace("_", " "),
            *(f"{getattr(side, figure):{form}}" for side in shown.values()),
            f"{getattr(chance, figure):{',.1f' if form == ',' else form}}",
            meaning.format(top=top),
        ]
        for figure, (form, meaning) in FIGURES.items()
    ]
    return ["figure", *shown, "chance", "what it says"], rows


def _lines(number: int, hub: Hub, found: Hubs, said: list[str] | None, meant: list[str] | None) -> list[str]:
    """Return a hub as lines: what it is, how often it is returned, and queries that return it."""
    corrected = "" if hub.after is None else f", {hub.after:,} once corrected"
    lines = [
        f"{number:>3}. {_name(hub.id, hub.position, said)}",
        f"     returned for {hub.before:,} queries{corrected}",
    ]
    for query, still in zip(hub.queries, hub.still, strict=True):
        fate = "" if hub.after is None else "(still) " if still else "(no longer) "
        lines.append(f"       {fate}{_name(found.query_ids[query].item(), query, meant)}")
    return lines


def _name(name: int | str, row: int, texts: list[str] | None) -> str:
    return visible(str(name) if texts is None else f"{name}  {texts[row]}")


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _as_json(found: Hubs, said: list[str] | None, meant: list[str] | None) -> dict[str, object]:
    """Return what the library returns, with the texts, if any, in the order of the ids."""
    texts: dict[str, object] = {}
    if said is not None:
        texts["item_texts"] = [said[hub.position] for hub in found.hubs]
    if meant is not None:
        texts["query_texts"] = [[meant[query] for query in hub.queries] for hub in found.hubs]
    return {**found.to_dict(), **texts}
