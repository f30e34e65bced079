"""`unhub search`: queries against items through a saved correction."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from unhub.cli.display import echo, progress
from unhub.cli.errors import argument
from unhub.cli.hits import FormatOption, check_strength, hits_writer, note_few_items, write_hits
from unhub.cli.inputs import check_outputs, read_given, read_named, read_or_open
from unhub.cli.options import (
    Device,
    HitsOutput,
    Index,
    ItemIds,
    Items,
    Json,
    NoNotes,
    Overwrite,
    Queries,
    Saved,
    Strength,
    Threads,
    Where,
    whole_number,
)
from unhub.errors import ArgumentError


def search(
    items: Items,
    correction: Saved,
    queries: Queries,
    item_ids: ItemIds = None,
    k: Annotated[int, whole_number(1, "-k", help="Number of items to return for each query.")] = 10,
    strength: Strength = 1.0,
    index: Index = None,
    where: Where = None,
    form: FormatOption = None,
    output: HitsOutput = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    device: Device = None,
    quiet: NoNotes = False,
    as_json: Json = False,
) -> None:
    """Search with a saved correction."""
    from unhub import files, kernels
    from unhub.search.searcher import searcher

    check_outputs([("--output", output)], overwrite, items, item_ids, correction, queries)
    if device is not None and index is not None:
        raise ArgumentError("--device", "and --index both say where to search", "give one of them")
    write = hits_writer(form, as_json, output)
    check_strength(strength)
    with argument("--correction"):
        fitted = files.load(correction, "correction")
    gallery = read_or_open(items, "--items") if item_ids is None else read_named(items, item_ids)
    asked = read_given(queries, "--queries")
    with _warnings_as_notes(quiet), progress("index", quiet) as advance:
        ready = searcher(gallery, fitted, index=index or kernels.check_name(device), threads=threads, progress=advance)
    note_few_items(k, len(ready), quiet)
    with progress("search", quiet) as advance:
        hits = ready.search(asked, k=k, strength=strength, progress=advance, where=where)
    write_hits(write, asked.ids, hits, output, "query", quiet, as_json)


@contextmanager
def _warnings_as_notes(quiet: bool) -> Iterator[None]:
    """Say on stderr what the library warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in () if quiet else caught:
        echo(f"unhub: note: {one.message}", err=True)
