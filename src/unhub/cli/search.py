"""`unhub search`: queries against items through a saved correction."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from unhub.cli.display import progress
from unhub.cli.errors import argument
from unhub.cli.inputs import read_given, read_named

if TYPE_CHECKING:
    from unhub.search import Hits
    from unhub.vectors import Ids


class Format(StrEnum):
    """How hits are written."""

    table = "table"
    json = "json"
    npz = "npz"


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
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Search with a saved correction."""
    from unhub import files
    from unhub.search import searcher

    if as_json and form not in (None, Format.json):
        raise ValueError(f"--json: --format {form} is asked for too; give one of them")
    write = WRITERS[Format.json if as_json else form or _named_format(output)]
    if output is None and form is Format.npz:
        raise ValueError("--format: npz is not for a terminal; name a file with -o")
    with argument("--output"):
        if output is not None:
            files.check_target(output, items, item_ids, correction, queries)
    with argument("--correction"):
        fitted = files.load(correction)
    gallery = read_named(items, item_ids)
    asked = read_given(queries, "--queries")
    with progress("index", quiet) as advance:
        ready = searcher(gallery, fitted, index=index, threads=threads, progress=advance)
    with progress("search", quiet) as advance:
        hits = ready.search(asked, k=k, strength=strength, progress=advance)
    if output is None:
        write(asked.ids, hits, sys.stdout)
        return
    with files.replacing(output) as temporary, temporary.open("w", encoding="utf-8") as file:
        write(asked.ids, hits, file)


def _named_format(output: Path | None) -> Format:
    """Return the format that a file's name asks for: .json and .npz their own, any other a table."""
    suffix = "" if output is None else output.suffix.lower().removeprefix(".")
    return Format(suffix) if suffix in list(Format) else Format.table


def _rows(queries: Ids, hits: Hits) -> Iterator[tuple[int | str, list[tuple[int | str, float]]]]:
    """Yield each query's id with its (item id, score), best first, without the places that nothing filled."""
    import numpy as np

    filled = np.isfinite(hits.scores)
    for query, ids, scores, there in zip(queries.tolist(), hits.ids, hits.scores, filled, strict=True):
        # Through text, a float32 stays as short as it prints: 0.3 and not 0.30000001192092896.
        yield query, [(one, float(str(score))) for one, score in zip(ids[there].tolist(), scores[there], strict=True)]


def _write_table(queries: Ids, hits: Hits, file: TextIO) -> None:
    from unhub.evaluation.tables import as_text

    rows = [
        (str(query), str(place), f"{score:.4f}", str(item))
        for query, found in _rows(queries, hits)
        for place, (item, score) in enumerate(found, start=1)
    ]
    file.write(f"{as_text(('query', 'place', 'score', 'item'), rows)}\n")


def _write_json(queries: Ids, hits: Hits, file: TextIO) -> None:
    answers = [
        {"query": query, "hits": [{"id": item, "score": score} for item, score in found]}
        for query, found in _rows(queries, hits)
    ]
    file.write(f"{json.dumps(answers, indent=2, ensure_ascii=False)}\n")


def _write_npz(queries: Ids, hits: Hits, file: TextIO) -> None:
    import numpy as np

    np.savez(file.buffer, queries=queries, ids=hits.ids, scores=hits.scores)


WRITERS: Mapping[Format, Callable[[Ids, Hits, TextIO], None]] = {
    Format.table: _write_table,
    Format.json: _write_json,
    Format.npz: _write_npz,
}
