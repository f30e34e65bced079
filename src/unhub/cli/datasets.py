"""`unhub datasets`: the papers' data sets, and what of one is there."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unhub.cli.commands import CONTEXT_SETTINGS, Commands
from unhub.cli.display import echo, echo_json, table, wrapped
from unhub.cli.errors import NO
from unhub.cli.folding import tell
from unhub.cli.options import Json, Quiet

if TYPE_CHECKING:
    from unhub.datasets.checked import Checked, CheckedPart
    from unhub.datasets.described import Download, Known

DATASET_COMMANDS = {"check": ("datasets", "check")}
LIST_HEADS = ("name", "task, test sizes", "what to download, from where; terms")
LIST_WIDTHS = (11, 18, 47)  # 80 columns in all
FILE_HEADS, FILE_WIDTHS = ("file", "where"), {0: 38, 1: 40}
PART_HEADS = ("part", "items", "official", "queries", "official", "media missing")
NEEDED, SPARE = "missing, and needed", "missing; needed if the others do not say enough"
ANYWHERE = (
    "Files may lie anywhere below the folder given as --data: they are found by their names. Those in brackets are "
    "not needed to measure on the test part; most are for banks."
)


class DatasetCommands(Commands):
    """The group of `unhub datasets`."""

    known = DATASET_COMMANDS


datasets = typer.Typer(name="datasets", add_completion=False, context_settings=CONTEXT_SETTINGS, cls=DatasetCommands)


@datasets.callback(invoke_without_command=True)
def datasets_command(context: typer.Context, quiet: Quiet = False, as_json: Json = False) -> None:
    """List the papers' data sets: sizes, what to download, terms. `check` says what of one is there."""
    from unhub.datasets import DATASETS

    if context.invoked_subcommand is not None:
        return
    if as_json:
        echo_json([_described(known) for known in DATASETS.values()])
    elif not quiet:
        rows = [row for known in DATASETS.values() for row in (*_rows(known), ("", "", ""))]
        table(LIST_HEADS, rows[:-1])
        tell("", ANYWHERE, "To see what is there: unhub datasets check NAME --data DIR")


def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set, as `unhub datasets` lists it.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="The folder that holds it.")],
    split: Annotated[str | None, typer.Option(help="One of its splits (default: the usual one).")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say what of a data set is there, what is missing, and its counts; exit code 3 if the test part is incomplete."""
    from unhub.datasets import check as check_folder

    found = check_folder(name, data, split)
    if as_json:
        echo_json({**dataclasses.asdict(found), "complete": found.complete})
    elif not quiet:
        _show(found)
    if not found.complete:
        raise typer.Exit(NO)


def _show(found: Checked) -> None:
    files = [
        (one.title, one.path or (SPARE if one.spare else NEEDED if one.needed else "missing, not needed to measure"))
        for one in found.files
    ]
    table(FILE_HEADS, [line for row in files for line in wrapped(row, FILE_WIDTHS)])
    if found.parts:
        echo()
        banks = [dataclasses.replace(bank, name=f"{bank.name} (bank)") for bank in found.banks]
        table(PART_HEADS, [_counts(part) for part in (*found.parts, *banks)])
    verdict = "complete" if found.complete else "not complete"
    tell("", *([found.problem] if found.problem else found.notes))
    tell(f"{found.name}, split {found.split}: the test part is {verdict}.")


def _counts(part: CheckedPart) -> tuple[str, ...]:
    items, queries = ("?", "?") if part.official is None else (f"{one:,}" for one in part.official)
    missing = f"{part.missing:,} of {part.media:,}" if part.missing else f"none of {part.media:,}"
    return part.name, f"{part.items:,}", items, f"{part.queries:,}", queries, missing


def _rows(known: Known) -> list[tuple[str, ...]]:
    """Return the lines of a data set in the list."""
    sizes = [f"{split}: {_size(known, split)}" for split in known.splits]
    facts = [known.task, *sizes, *_unverified(known)]
    sources: dict[str, list[str]] = {}
    for one in known.files:
        sources.setdefault(one.source, []).append(_said(one))
    files = [f"From {source}: {', '.join(listed)}." for source, listed in sources.items()]
    columns = ([known.name], facts, [*files, f"Terms: {known.terms}."])
    cells = (
        [line for cell in column for line in textwrap.wrap(cell, width, break_on_hyphens=False)]
        for column, width in zip(columns, LIST_WIDTHS, strict=True)
    )
    return list(itertools.zip_longest(*cells, fillvalue=""))


def _size(known: Known, split: str) -> str:
    sizes = known.sizes.get(split, {}).get("test")
    return f"{sizes[0]:,} items, {sizes[1]:,} queries" if sizes else "as many as there are"


def _unverified(known: Known) -> list[str]:
    if not known.unverified:
        return []
    some = "" if {*known.unverified} == {*known.splits} else f" for {' and '.join(known.unverified)}"
    return [f"layout not verified{some}"]


def _said(wanted: Download) -> str:
    splits = f"; for {' and '.join(wanted.splits)}" if wanted.splits else ""
    said = f"{wanted.title} ({wanted.holds}{splits})"
    return said if wanted.needed else f"[{said}]"


def _described(known: Known) -> dict[str, Any]:
    return {
        "name": known.name,
        "title": known.title,
        "task": known.task,
        "splits": known.splits,
        "sizes": known.sizes,
        "files": [dataclasses.asdict(one) for one in known.files],
        "terms": known.terms,
        "verified": [split for split in known.splits if split not in known.unverified],
        "protocol": dataclasses.asdict(known.protocol),
    }
