"""`unhub hubs`: the items that crowd the answers, before and after a correction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.folding import show_words, tell, terminal_width
from unhub.cli.inputs import read_gallery, read_named, refuse
from unhub.cli.logged import read_logged, refuse_log_options
from unhub.cli.options import (
    Columns,
    CompareAsFitted,
    Device,
    ExcludeSelf,
    ItemIds,
    ItemsCount,
    ItemTexts,
    Json,
    Logged,
    NumberedTimes,
    On,
    OptionalItems,
    OptionalQueries,
    QueryIds,
    QueryTexts,
    SkipBad,
    Threads,
    TimeUnitChoice,
    whole_number,
)
from unhub.errors import ArgumentError
from unhub.html_tables import visible

if TYPE_CHECKING:
    from unhub.arrays import Ids
    from unhub.data.query_log import QueryLog
    from unhub.evaluation.hubness import Hub, Hubness, Hubs

FIGURES: Mapping[str, tuple[str, str]] = {
    "skewness": (".2f", "how lopsided the counts are; 0 is even"),
    "kurtosis": (".2f", "how long their tail is; 0 is a bell curve"),
    "mean_deviation": (".2f", "how far a count is from the mean count"),
    "largest": (",", "queries that return the worst hub"),
    "anti_hubs": (".1%", "items that no query returns"),
    "top_share": (".1%", "places taken by {top}"),
    "robin_hood": (".1%", "places to move for an even share"),
}
MANY_LEFT_OUT = 0.1  # of the items, by chance


def hubs(
    items: OptionalItems = None,
    queries: OptionalQueries = None,
    hits: Logged = None,
    items_count: ItemsCount = None,
    item_ids: ItemIds = None,
    query_ids: QueryIds = None,
    column: Columns = None,
    time_unit: NumberedTimes = TimeUnitChoice.auto,
    skip_bad: SkipBad = False,
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
    """Show the worst hubs, how often each is returned, raw and corrected, and queries that return it.

    With --hits, no vectors are needed: what was returned is counted.
    """
    from unhub import files
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.hubness import worst_hubs

    with argument("--correction"):
        fitted = None if correction is None else files.load(correction, "correction")
    if hits is not None:
        idle: dict[str, object] = {
            "--queries": queries,
            "--query-ids": query_ids,
            "--exclude-self": exclude_self or None,
        }
        idle |= {"--similarity": similarity, "--device": device, "--on": on}
        refuse(idle, "with --hits, what was returned is counted")
        log = read_logged(hits, column, time_unit.value, skip_bad)
        everything = read_gallery(items, item_ids, items_count, fitted)
        found = worst_hubs(log, everything, None, k, count, examples=examples)
        of_items, of_queries = found.before.item_ids, found.query_ids
    else:
        for name, given in (("--items", items), ("--queries", queries)):
            if given is None:
                raise ArgumentError(name, "is missing", "give it, or a log of what was returned as --hits")
        assert items is not None and queries is not None
        refuse({"--items-count": items_count}, "it goes with --hits")
        refuse_log_options(column, time_unit.value, skip_bad, "it goes with --hits")
        gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
        of_items, of_queries = gallery.ids, asked.ids
    if hits is None:
        said = _texts(item_texts, of_items, "--item-texts")
    else:
        said = _texts_of_returned(item_texts, of_items, everything)
    meant = _texts(query_texts, of_queries, "--query-texts")
    if hits is not None and meant is None:
        meant = _logged_texts(log, of_queries)
    if hits is None:
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
        before = found.before
        among = f"among the {before.k} best of {before.queries:,} queries"
        tell(f"How often each of {len(before.counts):,} items is {among}:", "")
        show_words(_figures(found))
        tell("chance: what each figure would be if queries returned items at random.", *_few(before), *before.notes)
        if hits is not None:
            tell(*log.notes)
        tell("", "The worst hubs:")
    width = terminal_width()
    for number, hub in enumerate(found.hubs, start=1):
        for line in _lines(number, hub, found, said, meant):
            echo(line if width is None else _cut(line, width))


def _few(before: Hubness) -> list[str]:
    """Say that items are never returned because there are few queries, where chance alone leaves out many."""
    if before.chance.anti_hubs < MANY_LEFT_OUT:
        return []
    return [
        f"Chance alone leaves {before.chance.anti_hubs:.1%} of the items out with this few queries: only what is "
        "beyond that is due to hubs."
    ]


def _logged_texts(log: QueryLog, asked: Ids) -> list[str] | None:
    """Return the texts that a log has for queries, each on one line."""
    if log.texts is None:
        return None
    names = range(len(log)) if log.query_ids is None else log.query_ids.tolist()
    texts = dict(zip(names, log.texts.tolist(), strict=True))
    return [" ".join(texts[one].split()) for one in asked.tolist()]


def _texts(path: Path | None, ids: Ids, option: str) -> list[str] | None:
    """Return the texts of vectors with these ids, each on one line; None without a file."""
    from unhub import files

    with argument(option):
        return None if path is None else [" ".join(text.split()) for text in files.read_texts(path).of(ids)]


def _texts_of_returned(path: Path | None, ids: Ids, everything: Ids | int | None) -> list[str] | None:
    """Return the texts of items that a log returned; those of a file without ids are of all items."""
    from unhub import files

    if path is None:
        return None
    with argument("--item-texts"):
        texts = files.read_texts(path)
        if texts.ids is None:
            if everything is None or isinstance(everything, int):
                raise ValueError(
                    f"{path}: has one text per row, and a log does not say which item that is; "
                    "with --hits give --item-ids, or a .csv with id and text"
                )
            texts.of(everything)  # there must be as many
            texts = dataclasses.replace(texts, ids=everything)
        return [" ".join(text.split()) for text in texts.of(ids)]


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
