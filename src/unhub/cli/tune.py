"""`unhub tune`: which method and setting to use, or none; the chosen correction is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.errors import NO, argument
from unhub.cli.folding import note_other_items, show, tell, write_correction
from unhub.cli.inputs import check_outputs, note_numbered, read_bank, read_named, read_optional
from unhub.cli.options import (
    Bank,
    BankItems,
    BankWeights,
    CompareBy,
    Device,
    ExcludeSelf,
    ItemIds,
    Items,
    Json,
    Memory,
    On,
    OptionalRelevance,
    Output,
    Overwrite,
    Precision,
    QueryIds,
    Quiet,
    Seed,
    SimilarityChoice,
    Threads,
    vectors,
)
from unhub.errors import ArgumentError


def tune(
    items: Items,
    bank: Bank,
    output: Output,
    queries: Annotated[
        Path | None,
        vectors("Queries to choose by; labels are optional."),
    ] = None,
    relevance: OptionalRelevance = None,
    item_ids: ItemIds = None,
    query_ids: QueryIds = None,
    bank_weights: BankWeights = None,
    bank_items: BankItems = None,
    methods: Annotated[
        str, typer.Option(help="Methods to try: all, or names separated by commas, for example is,nnn:k=32,alpha=0.5.")
    ] = "all",
    measure: Annotated[str, typer.Option(help="Measure to choose by, with --relevance.")] = "R@1",
    similarity: CompareBy = SimilarityChoice.cosine,
    exclude_self: ExcludeSelf = False,
    time: Annotated[str | None, typer.Option(help="Time limit, for example 90s or 10m.")] = None,
    seed: Seed = 0,
    threads: Threads = None,
    memory: Memory = None,
    device: Device = None,
    precision: Precision = None,
    on: On = None,
    allow_raw: Annotated[
        bool, typer.Option("--allow-raw", help="Write 'raw' if no gain is certain, rather than nothing.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Try many methods and settings, and save the best; if no gain is certain, save nothing, with exit code 3."""
    from unhub import files
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.measures import parse_measure
    from unhub.tuning.grid import name_methods
    from unhub.tuning.tune import tune as choose

    inputs = (items, item_ids, bank, bank_weights, bank_items, queries, query_ids, relevance)
    check_outputs([("--output", output)], overwrite, *inputs, versions=True)
    if exclude_self and queries is None:
        raise ArgumentError("--exclude-self", "has no queries to leave out", "give --queries too")
    if query_ids is not None and queries is None:
        raise ArgumentError("--query-ids", "has no queries to name", "give --queries too")
    with argument("--methods", "method"):
        name_methods(methods, dual=bank_items is not None)
    with argument("--measure"):
        parse_measure(measure)
    with argument("--relevance"):
        answers = None if relevance is None else files.read_relevance(relevance)
    gallery, past = read_named(items, item_ids), read_bank(bank, bank_weights)
    note_numbered(items, item_ids, quiet)
    past_items = read_optional(bank_items, "--bank-items")
    asked = None if queries is None else read_named(queries, query_ids, "--queries", "--query-ids")
    with progress("tune", quiet) as advance:
        tuning = choose(
            gallery,
            past,
            asked,
            answers,
            bank_items=past_items,
            methods=methods,
            measure=measure,
            similarity=similarity.value,
            exclude=SELF if exclude_self else None,
            time=time,
            seed=seed,
            threads=threads,
            memory=memory,
            device=device,
            precision=precision,
            on=on,
            progress=advance,
        )
    if tuning.out_of_time:  # and not a mistake: a faster machine would have had the time
        raise TimeoutError(f"--time: {tuning.reason} Nothing was written to {output}.")
    wanted = allow_raw or bool(tuning.gains)
    written = None
    if wanted:
        note_other_items(tuning.best, output, quiet)
        written = write_correction(tuning.best, output, f"Tuned: {tuning.reason}")[0]
    if as_json:
        typer.echo(json.dumps({"path": None if written is None else str(written), **tuning.to_dict()}, indent=2))
    elif not quiet:
        if tuning.table:
            show(tuning.cells())
        done = _nothing_written(output) if written is None else f"Wrote {tuning.best.spec} to {written}."
        tell(tuning.reason, *tuning.notes, done)
    if written is None:
        raise typer.Exit(NO)


def _nothing_written(output: Path) -> str:
    there = "its active version stays" if output.is_dir() else "the file there is as it was"
    stays = f", and {there}" if output.exists() else ""
    return f"Nothing was written to {output}{stays}. To write 'raw' all the same, add --allow-raw."
