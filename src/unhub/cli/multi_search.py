"""`unhub multi search`: sets of queries against items through a saved correction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.encoding import EncodedItems, check_combinations, corrected_items, encode
from unhub.cli.errors import argument
from unhub.cli.hits import HITS_FILE, Format, check_strength, hits_writer, note_few_items, write_hits
from unhub.cli.inputs import check_outputs, read_named


def search(
    items: Annotated[Path, typer.Option(help="The gallery the correction was fitted on.")],
    correction: Annotated[Path, typer.Option(help="The file that `unhub fit` wrote.")],
    queries: Annotated[Path, typer.Option(help="The queries, in the same formats as the items.")],
    sets: Annotated[
        Path, typer.Option(help="Which queries go together: .csv, .tsv, .jsonl or .parquet with set_id, query_id.")
    ],
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")] = None,
    query_ids: Annotated[Path | None, typer.Option(help="Ids of the queries, likewise.")] = None,
    combine: Annotated[
        str | None, typer.Option(help="How a set is made one: sa, ra, mf or ts-wf; sa by default.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A file that `unhub multi train` wrote: it encodes queries and items, its head combines."),
    ] = None,
    encoded_items: EncodedItems = False,
    k: Annotated[int, typer.Option("-k", min=1, help="How many items to return for each set.")] = 10,
    strength: Annotated[float, typer.Option(help="How much of the correction to apply: 0 is none, 1 all.")] = 1.0,
    index: Annotated[str, typer.Option(help="Where to search: exact, or faiss: and a factory string.")] = "exact",
    form: Annotated[
        Format | None,
        typer.Option("--format", help="How to write the hits; by default what the name after -o says, or a table."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file to write instead of stdout.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress and no notes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Search with several queries for each target."""
    from unhub import files
    from unhub.search.searcher import searcher

    check_strength(strength)
    check_combinations([] if combine is None else [combine])
    check_outputs({"--output": (output, HITS_FILE)}, items, item_ids, correction, queries, query_ids, sets, model)
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
        raise ValueError(
            f"queries have {asked.dimensions} dimensions, items {gallery.dimensions}; embed both with one model"
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
