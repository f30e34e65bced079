"""`unhub log forget`: a person's queries leave logs, banks and corrections."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import NO, argument, log_argument
from unhub.cli.folding import show_words, tell
from unhub.cli.inputs import GivenPath, read_given, read_named, read_optional
from unhub.cli.logged import columns_in
from unhub.cli.options import VECTORS, Columns, Json, Quiet, Threads, vectors
from unhub.errors import ArgumentError
from unhub.evaluation.tables import counted

if TYPE_CHECKING:
    from unhub.data.vectors import Vectors
    from unhub.logs.forgetting import Forgotten

ID_FILES = (".txt", ".npy", ".csv", ".tsv", ".json", ".jsonl", ".ids", ".lst")  # a name with these is meant as a file
MOST_SHOWN = 10  # ids; --json prints them all


def forget(
    query_ids: Annotated[
        str | None, typer.Option(metavar="FILE|IDS", help="Ids of the queries: a file with one per line, or a,b,c.")
    ] = None,
    users: Annotated[
        str | None, typer.Option(metavar="FILE|IDS", help="Users, all of whose queries go: a file, or a,b,c.")
    ] = None,
    bank: Annotated[Path | None, typer.Option(metavar="DIR", help="The bank folder.")] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(metavar="LOG", help="A file or a folder of a log, which loses the lines; repeatable."),
    ] = None,
    correction: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE|DIR", help="A saved correction, or a folder of .unhub files; repeatable."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of `unhub serve --state`: versions and marks.")
    ] = None,
    items: Annotated[
        list[Path] | None, vectors(f"The items of the corrections, in any order: {VECTORS}; repeatable.")
    ] = None,
    item_ids: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Ids of the items: not needed here, and only checked; repeatable."),
    ] = None,
    bank_items: Annotated[Path | None, vectors("The bank items of the corrections, if they use them.")] = None,
    other_bank: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Another bank that corrections were fitted on, as it was; repeatable."),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit corrections whose bank is not at hand on the bank folder.")
    ] = False,
    drop_inactive: Annotated[
        bool, typer.Option("--drop-inactive", help="Delete versions that cannot be fitted again and are not active.")
    ] = False,
    column: Columns = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave lines in the logs whose id cannot be read.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Remove queries from logs, a bank folder, corrections and what a service keeps, all or nothing.

    Exit code 3: something may still hold some of them, or an id or a user was found nowhere.
    """
    from unhub.logs.forgetting import forget_queries

    with log_argument("--log"), progress("log forget", quiet) as advance:
        forgotten = forget_queries(
            _ids(query_ids, "--query-ids"),
            users=_ids(users, "--users"),
            bank=bank,
            logs=log or (),
            corrections=correction or (),
            state=state,
            items=_items(items or (), item_ids or ()),
            bank_items=read_optional(bank_items, "--bank-items"),
            other_banks=_other_banks(other_bank or ()),
            refit=refit,
            drop_inactive=drop_inactive,
            columns=columns_in(column),
            skip_bad=skip_bad,
            dry_run=dry_run,
            threads=threads,
            progress=advance,
        )
    if as_json:
        echo_json(dataclasses.asdict(forgotten))
    elif not quiet:
        _show(forgotten)
    if not forgotten.all_gone:
        raise typer.Exit(NO)


def _items(paths: Sequence[Path], ids: Sequence[Path]) -> list[Vectors] | None:
    """Read the sets of items, each with its ids if there are any."""
    if ids and len(ids) != len(paths):
        problem = f"is given {counted(len(ids), 'time', 'times')}, and --items {counted(len(paths), 'time', 'times')}"
        raise ArgumentError("--item-ids", problem, "give one for each, in the same order, or none: they are not needed")
    named: Sequence[Path | None] = ids or [None] * len(paths)
    return [read_named(path, one) for path, one in zip(paths, named, strict=True)] or None


def _other_banks(paths: Sequence[str]) -> dict[str, Vectors]:
    """Read other banks, each once, however it is spelt."""
    once = {os.path.realpath(path): path for path in reversed(paths)}
    return {path: read_given(GivenPath(path), "--other-bank") for path in reversed(once.values())}


def _ids(given: str | None, option: str) -> list[str]:
    """Return the ids in a file, or those that were typed; none if the option was left out."""
    from unhub import files

    if given is None:
        return []
    if not Path(given).is_file():
        if "," not in given and (os.sep in given or Path(given).suffix.lower() in ID_FILES):
            remedy = "name a file that is there; if this is an id, put it into a file"
            raise ArgumentError(option, f"is {given}, and there is no such file", remedy)
        return [one.strip() for one in given.split(",") if one.strip()]
    with argument(option):
        return [str(one) for one in files.read_ids(given, text=True)]


def _show(forgotten: Forgotten) -> None:
    would = "would go" if forgotten.dry_run else "gone"
    facts = [(f"{would} from {place}", f"{count:,}") for place, count in forgotten.removed.items()]
    facts += [("would be fitted again" if forgotten.dry_run else "fitted again", path) for path in forgotten.refitted]
    verb = "would be deleted" if forgotten.dry_run else "deleted"
    facts += [(f"{verb}, not active", f"{path}: {why}") for path, why in forgotten.dropped.items()]
    asked = [
        (
            f"{what} to forget",
            f"{count:,}" + ("" if forgotten.completed else f", {count - len(missing):,} of them found"),
        )
        for what, count, missing in (
            ("queries", forgotten.queries, forgotten.missing),
            ("users", forgotten.users, forgotten.missing_users),
        )
        if count
    ]
    show_words((asked[0], [*asked[1:], *facts]))
    for what, names in (("", forgotten.missing), (" of users", forgotten.missing_users)):
        if names:
            more = f" and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
            tell(f"Found nowhere{what}: {', '.join(names[:MOST_SHOWN])}{more}.")
    tell(*forgotten.notes)
