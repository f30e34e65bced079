"""`unhub search`: queries against items through a saved correction."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, progress
from unhub.cli.encoding import encode_texts
from unhub.cli.errors import argument
from unhub.cli.hits import FormatOption, check_strength, hits_writer, note_few_items, write_hits
from unhub.cli.inputs import check_outputs, only_fitted, read_given, read_named, read_or_open
from unhub.cli.options import (
    AttributesFile,
    Device,
    HitsOutput,
    Index,
    ItemIds,
    Items,
    Json,
    NoNotes,
    Overwrite,
    Saved,
    Strength,
    Threads,
    Where,
    vectors,
    whole_number,
)
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.arrays import Ids
    from unhub.data.vectors import Vectors
    from unhub.stores.store import Store


def search(
    items: Items,
    correction: Saved,
    queries: Annotated[Path | None, vectors("The queries, in the same formats; or give --query.")] = None,
    query: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A text to search for, with --encoder; repeatable.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="What embeds --query: the model that `unhub embed` made the items with."),
    ] = None,
    item_ids: ItemIds = None,
    k: Annotated[int, whole_number(1, "-k", help="Number of items to return for each query.")] = 10,
    strength: Strength = 1.0,
    index: Index = None,
    where: Where = None,
    attributes: AttributesFile = None,
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
    from unhub.data.vectors import Vectors
    from unhub.search.searcher import searcher

    check_outputs([("--output", output)], overwrite, items, item_ids, correction, queries, attributes)
    if device is not None and index is not None:
        raise ArgumentError("--device", "and --index both say where to search", "give one of them")
    kernel = kernels.name_of(device)
    there = (
        kernel if kernel is not None and kernel.startswith("torch:") else None
    )  # as an index; others prefer a kernel
    _check_asked(queries, query, encoder)
    write = hits_writer(form, as_json, output)
    check_strength(strength)
    with argument("--correction"):
        fitted = files.load(correction, "correction")
    gallery = read_or_open(items, "--items") if item_ids is None else read_named(items, item_ids)
    if isinstance(gallery, Vectors):
        gallery = only_fitted(gallery, fitted, quiet)
    among = None
    if attributes is not None or (where is not None and isinstance(gallery, Vectors)):
        among = _selected(gallery, where, attributes, quiet)
    if queries is not None:
        asked = read_given(queries, "--queries")
    else:
        asked = encode_texts(query or [], encoder or "", fitted, quiet)
    with kernels.prefer(kernel), _warnings_as_notes(quiet), progress("index", quiet) as advance:
        ready = searcher(gallery, fitted, index=index or there, threads=threads, progress=advance)
    note_few_items(k, len(ready), quiet)
    with kernels.prefer(kernel), progress("search", quiet) as advance:
        filter = where if among is None else None
        hits = ready.search(asked, k=k, strength=strength, among=among, progress=advance, where=filter)
    write_hits(write, asked.ids, hits, output, "query", quiet, as_json)


def _check_asked(queries: Path | None, texts: list[str] | None, encoder: str | None) -> None:
    """Refuse options that do not go together, before anything is read."""
    if queries is not None and (texts or encoder is not None):
        option = "--query" if texts else "--encoder"
        raise ArgumentError(option, "and --queries both say what to search for", "give one of them")
    if queries is None and not texts:
        remedy = "give --queries, a file of vectors, or --query, a text, with --encoder"
        raise ArgumentError("--queries", "is missing", remedy)
    if queries is None and encoder is None:
        raise ArgumentError("--encoder", "is missing", "name the model that embeds --query")


def _selected(gallery: Vectors | Store, where: str | None, attributes: Path | None, quiet: bool) -> Ids:
    """Return the ids of the items that --where selects by --attributes."""
    from unhub import files
    from unhub.data.vectors import Vectors

    if attributes is None:
        raise ArgumentError(
            "--where", "needs a table of attributes, since the items are in a file", "give --attributes"
        )
    if where is None:
        raise ArgumentError("--attributes", "is a table to filter by, and there is no filter", "give --where too")
    if not isinstance(gallery, Vectors):
        raise ArgumentError(
            "--attributes", "goes with items in a file; a store filters by its own fields", "leave it out"
        )
    with argument("--attributes"):
        table = files.read_attributes(attributes)
    with argument("--where", "where"):
        selected = table.where(where, gallery.ids)
    if not len(selected) and not quiet:
        echo(f"unhub: note: --where selects none of the {len(gallery):,} items", err=True)
    return selected


@contextmanager
def _warnings_as_notes(quiet: bool) -> Iterator[None]:
    """Say on stderr what the library warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in () if quiet else caught:
        echo(f"unhub: note: {one.message}", err=True)
