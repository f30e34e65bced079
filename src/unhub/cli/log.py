"""`unhub log`: a bank folder that follows query logs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import argument, log_argument
from unhub.cli.folding import show_words, tell
from unhub.cli.logged import columns_in
from unhub.cli.options import Columns, Json, NumberedTimes, Quiet, SkipBad, TimeUnitChoice

if TYPE_CHECKING:
    from unhub.logs.bank_folder import AddedLog


def add(
    log: Annotated[
        Path,
        typer.Argument(metavar="LOG", help="A .jsonl, .csv, .tsv (also .gz) or .parquet file, or a folder."),
    ],
    bank: Annotated[Path, typer.Option(metavar="DIR", help="The bank folder; it is made if it is absent.")],
    window: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long queries stay, for example 90d (default: as before).")
    ] = None,
    half_life: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="After which time a query counts half, such as 30d (default: as before)."),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Encoder of texts, as in `unhub embed --model`.")
    ] = None,
    near: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE",
            help="From this cosine on, two queries are the same one (default: as before, at first 0.999).",
        ),
    ] = None,
    temper: Annotated[
        float | None,
        typer.Option(
            metavar="POWER", help="A query asked n times has weight n ** POWER (default: as before, at first 0.25)."
        ),
    ] = None,
    column: Columns = None,
    time_unit: NumberedTimes = TimeUnitChoice.auto,
    skip_bad: SkipBad = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Add what is new in a query log to a bank folder; the same file twice changes nothing."""
    from unhub.logs.bank_folder import add_log

    with argument("LOG"):
        log.stat()  # a missing one is said here
    with log_argument("LOG"), progress("log add", quiet) as advance:
        added = add_log(
            log,
            bank,
            window=window,
            half_life=half_life,
            encoder=encoder,
            near=near,
            temper=temper,
            columns=columns_in(column),
            time_unit=time_unit.value,
            skip_bad=skip_bad,
            progress=advance,
        )
    if as_json:
        echo_json({**dataclasses.asdict(added), "folder": str(added.folder)})
    elif not quiet:
        _show(added)


def _show(added: AddedLog) -> None:
    some = "" if added.known == added.files else f" {added.known:,} of them"
    none_new = f",{some} without anything new" if added.known else ""
    facts = [
        ("new queries", f"{added.added:,}"),
        ("files", f"{added.files:,}{none_new}"),
        *([("logged again", f"{added.repeated:,}")] if added.repeated else []),
        ("too old", f"{added.expired:,}"),
        *([("texts embedded", f"{added.embedded:,}")] if added.embedded else []),
        ("in the bank", f"{added.queries:,} queries, {added.distinct:,} different"),
    ]
    show_words((("bank", str(added.folder)), facts))
    tell(*added.notes)
