"""`unhub diff`: what changed from one saved correction to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.folding import show, show_words, tell
from unhub.cli.inputs import read_followed, read_optional
from unhub.cli.options import VECTORS, ItemIds, Json, Quiet, Threads, vectors, whole_number

if TYPE_CHECKING:
    from unhub.correction import Correction


def diff(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A file written by `unhub fit`.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another one, to compare with it.")],
    queries: Annotated[Path | None, vectors("Queries whose answers are compared; give --items too.")] = None,
    items: Annotated[Path | None, vectors(f"The items of both: {VECTORS}; others may be among them.")] = None,
    item_ids: ItemIds = None,
    k: Annotated[int, whole_number(1, "-k", help="Number of answers to compare for each query.")] = 10,
    count: Annotated[int, whole_number(1, help="Number of items that changed most to show.")] = 5,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show what changed from one saved correction to another: items, h, bank, and the answers to some queries."""
    from unhub import differences

    before, after = _read(first, "FIRST"), _read(second, "SECOND")
    asked = read_optional(queries, "--queries")
    held = None if items is None else read_followed(items, item_ids, before)
    with progress("diff", quiet) as advance:
        found = differences.diff(
            before, after, queries=asked, items=held, k=k, count=count, threads=threads, progress=advance
        )
    if as_json:
        echo_json(found.to_dict())
    if quiet or as_json:
        return
    show_words((("what", "before", "after"), found.facts))
    echo()
    tell(*found.sentences)
    for title, moved in found.moves():
        tell("", title)
        show(differences.moved_table(moved))


def _read(path: Path, name: str) -> Correction:
    from unhub import files

    with argument(name):
        return files.load(path, "correction")
