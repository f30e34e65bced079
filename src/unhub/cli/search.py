"""`unhub search`: queries against items through a saved correction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.errors import argument
from unhub.cli.hits import HITS_FILE, Format, check_strength, hits_writer, note_few_items, write_hits
from unhub.cli.inputs import read_given, read_named


def search(
    items: Annotated[Path, typer.Option(help="The gallery the correction was fitted on.")],
    correction: Annotated[Path, typer.Option(help="The file that `unhub fit` wrote.")],
    queries: Annotated[Path, typer.Option(help="The queries, in the same formats as the items.")],
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many items to return for each query.")] = 10,
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
    """Search with a saved correction."""
    from unhub import files
    from unhub.search.searcher import searcher

    with argument("--output"):
        if output is not None:
            files.check_target(output, items, item_ids, correction, queries, kind=HITS_FILE)
    write = hits_writer(form, as_json, output)
    check_strength(strength)
    with argument("--correction"):
        fitted = files.load(correction, "correction")
    gallery = read_named(items, item_ids)
    asked = read_given(queries, "--queries")
    with progress("index", quiet) as advance:
        ready = searcher(gallery, fitted, index=index, threads=threads, progress=advance)
    note_few_items(k, len(ready), quiet)
    with progress("search", quiet) as advance:
        hits = ready.search(asked, k=k, strength=strength, progress=advance)
    write_hits(write, asked.ids, hits, output, "query", quiet, as_json)
