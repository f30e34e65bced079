"""`unhub multi search`: sets of queries against items through a saved correction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.encoding import check_combinations, corrected_items, encode
from unhub.cli.errors import argument
from unhub.cli.hits import FormatOption, check_strength, hits_writer, note_few_items, write_hits
from unhub.cli.inputs import check_outputs, read_named
from unhub.cli.options import (
    TABLES,
    EncodedItems,
    HitsOutput,
    Index,
    ItemIds,
    Items,
    Json,
    NoNotes,
    Overwrite,
    Queries,
    QueryIds,
    Saved,
    Strength,
    Threads,
    Trained,
    whole_number,
)
from unhub.errors import ArgumentError


def search(
    items: Items,
    correction: Saved,
    queries: Queries,
    sets: Annotated[Path, typer.Option(help=f"Which queries form a set: {TABLES} with set_id and query_id.")],
    item_ids: ItemIds = None,
    query_ids: QueryIds = None,
    combine: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How to combine the queries of a set: sa, ra, mf or ts-wf (default: sa)."),
    ] = None,
    model: Trained = None,
    encoded_items: EncodedItems = False,
    k: Annotated[int, whole_number(1, "-k", help="Number of items to return for each set.")] = 10,
    strength: Strength = 1.0,
    index: Index = None,
    form: FormatOption = None,
    output: HitsOutput = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: NoNotes = False,
    as_json: Json = False,
) -> None:
    """Search with several queries for each target and a saved correction."""
    from unhub import files
    from unhub.search.searcher import searcher

    check_strength(strength)
    check_combinations([] if combine is None else [combine])
    inputs = (items, item_ids, correction, queries, query_ids, sets, model)
    check_outputs([("--output", output)], overwrite, *inputs)
    write = hits_writer(form, as_json, output)
    with argument("--correction"):
        fitted = files.load(correction, "correction")
    with argument("--sets"):
        named = files.read_sets(sets)
    with argument("--model"):
        trained = None if model is None else files.load(model, "model")
    gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
    asked, gallery = encode(trained, asked, "queries", gallery, encoded_items)
    if asked.dimensions != gallery.dimensions:
        raise ArgumentError(
            "--queries",
            f"has {asked.dimensions} dimensions, --items {gallery.dimensions}",
            "embed both with one model",
        )
    with argument("--sets"):
        rows = named.of(asked)
    with corrected_items(trained is not None and not encoded_items), progress("index", quiet) as advance:
        ready = searcher(gallery, fitted, index=index, threads=threads, progress=advance)
    how = combine or trained or "sa"
    note_few_items(k, len(ready), quiet)
    with progress("search", quiet) as advance:
        hits = ready.search_sets(rows, k=k, combine=how, strength=strength, progress=advance)
    write_hits(write, named.ids, hits, output, "set", quiet, as_json)
