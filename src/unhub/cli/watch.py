"""`unhub watch`: hubness day by day, of what production returned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import NO, argument
from unhub.cli.folding import show, tell
from unhub.cli.inputs import check_outputs, read_gallery, read_optional
from unhub.cli.logged import read_logged
from unhub.cli.options import (
    Columns,
    CompareAsFitted,
    ItemIds,
    ItemsCount,
    Json,
    NumberedTimes,
    OptionalBank,
    OptionalItems,
    Quiet,
    Seed,
    SkipBad,
    Threads,
    TimeUnitChoice,
    whole_number,
)
from unhub.errors import EmptyLogError


def watch(
    hits: Annotated[
        Path,
        typer.Option(metavar="LOG", help="What was returned: a query log, a TREC run, or hits of `unhub search -o`."),
    ],
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .jsonl file to which each new day is added.")
    ] = None,
    correction: Annotated[Path | None, typer.Option(help="A file written by `unhub fit`; it names the items.")] = None,
    items: OptionalItems = None,
    item_ids: ItemIds = None,
    items_count: ItemsCount = None,
    bank: OptionalBank = None,
    column: Columns = None,
    time_unit: NumberedTimes = TimeUnitChoice.auto,
    skip_bad: SkipBad = False,
    k: Annotated[int, whole_number(1, "-k", help="Number of first places that count.")] = 10,
    max_skewness: Annotated[
        float | None, typer.Option(help="Alarm if the skewness is more than this over that of chance.")
    ] = None,
    min_coverage: Annotated[
        float | None, typer.Option(help="Alarm if less than this share of what chance would find is found.")
    ] = None,
    prometheus: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file to write for Prometheus' textfile collector.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="An .html page, or a .png or .svg picture.")
    ] = None,
    days: Annotated[
        int | None, whole_number(0, help="Number of days to show, the last ones; 0 shows all (default: 14).")
    ] = None,
    similarity: CompareAsFitted = None,
    seed: Seed = 0,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Watch the hubness of what was returned, day by day; exit code 3 is an alarm. No vectors or labels are needed."""
    from unhub import files
    from unhub.data.query_log import NO_QUERIES
    from unhub.watching.watch import watch as watch_hits
    from unhub.watching.watched import SHOWN_PERIODS

    outputs = [("--prometheus", prometheus), ("--output", output)]
    check_outputs(outputs, True, hits, history, correction, items, item_ids, bank)
    with argument("--correction"):
        fitted = None if correction is None else files.load(correction, "correction")
    gallery = read_gallery(items, item_ids, items_count, fitted)
    past = read_optional(bank, "--bank")
    try:
        log = read_logged(hits, column, time_unit.value, skip_bad)
    except EmptyLogError:
        if history is None or not history.exists():
            raise
        log = NO_QUERIES
    with progress("watch", quiet) as advance:
        found = watch_hits(
            log,
            items=gallery,
            correction=fitted,
            bank=past,
            history=history,
            k=k,
            max_skewness=max_skewness,
            min_coverage=min_coverage,
            prometheus=prometheus,
            path=output,
            similarity=None if similarity is None else similarity.value,
            seed=seed,
            threads=threads,
            progress=advance,
        )
    if as_json:
        echo_json(found.to_dict())
    elif not quiet:
        shown = SHOWN_PERIODS if days is None else days
        show(found.cells(shown))
        tell(*found.hidden(shown, "--days 0 shows all"), "")
        tell(*found.sentences, *(f"ALARM: {one}" for one in found.alarms), *found.notes)
        tell(*(f"wrote {path}" for _, path in outputs if path is not None))
    if found.alarms:
        raise typer.Exit(NO)
