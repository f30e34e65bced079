"""Hits on the command line: how they are written, to a file or to a terminal."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, TypeAlias

import typer

from unhub.cli.display import echo, json_text, write_table
from unhub.cli.errors import argument
from unhub.cli.options import one_of
from unhub.errors import ArgumentError
from unhub.html_tables import visible

if TYPE_CHECKING:
    from unhub.arrays import Ids
    from unhub.search.hit_columns import Found
    from unhub.search.hits import Hits

# Takes the ids of queries or of sets, their hits, the file, and the word for one: query or set.
Write: TypeAlias = "Callable[[Ids, Hits, TextIO, str], None]"


class Format(StrEnum):
    """How hits are written."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"
    npz = "npz"


FORMAT_BY_SUFFIX = {
    "": Format.table,
    ".txt": Format.table,
    **{f".{one}": one for one in Format if one is not Format.table},
}
FormatOption: TypeAlias = Annotated[
    Format | None,
    one_of(Format, "--format", help="Format of the hits (default: by the suffix of --output, else a table)."),
]


def hits_writer(form: Format | None, as_json: bool, output: Path | None) -> Write:
    """Return the writer for the format that is given, or else for the suffix of the file."""
    if as_json and form not in (None, Format.json):
        raise ArgumentError("--json", f"contradicts --format {form}", "give one of them")
    if output is None and form is Format.npz and sys.stdout.isatty():
        raise ArgumentError("--format", "npz cannot be shown on a terminal", "name a file with -o, or use > or |")
    with argument("--output"):
        return WRITERS[Format.json if as_json else form or _named_format(output)]


def write_hits(
    write: Write, asked: Ids, hits: Hits, output: Path | None, word: str, quiet: bool, as_json: bool
) -> None:
    """Write the hits to stdout, or to a file that was checked before, which appears whole or not at all."""
    from unhub import files

    if output is None:
        write(asked, hits, sys.stdout, word)
        return
    with (
        files.replacing(output) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        write(asked, hits, file, word)
    if as_json:
        typer.echo(json.dumps({"path": str(output), PLURALS[word]: len(asked), "k": hits.ids.shape[1]}, indent=2))
    elif not quiet:
        echo(f"wrote {output}: the hits of {len(asked):,} {word if len(asked) == 1 else PLURALS[word]}")


def check_strength(strength: float) -> None:
    """Refuse a strength below 0, which would add to the hubs."""
    if strength < 0:
        raise ArgumentError("--strength", f"must be at least 0, got {strength:g}", "0 is no correction, 1 is all of it")


def note_few_items(k: int, items: int, quiet: bool) -> None:
    """Say on stderr if there are fewer items than -k."""
    if k > items and not quiet:
        typer.echo(f"unhub: note: -k is {k:,}, but there are only {items:,} items: all of them are returned", err=True)


def _named_format(output: Path | None) -> Format:
    """Return the format for the suffix of a file; a table without a file or a suffix."""
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in FORMAT_BY_SUFFIX:
        known = ", ".join(filter(None, FORMAT_BY_SUFFIX))
        raise ValueError(f"{output}: hits are written to {known} files, got *{suffix}; name one, or give --format")
    return FORMAT_BY_SUFFIX[suffix]


def _rows(asked: Ids, hits: Hits) -> Iterator[tuple[int | str, Found]]:
    from unhub.search.hit_columns import rows  # here, since it loads numpy

    return rows(asked, hits.ids, hits.scores)


def _write_table(asked: Ids, hits: Hits, file: TextIO, word: str) -> None:
    rows = [
        (str(one), str(place), f"{score:.4f}", str(item))
        for one, found in _rows(asked, hits)
        for place, (item, score) in enumerate(found, start=1)
    ]
    write_table((word, "place", "score", "item"), rows, file)


def _answers(asked: Ids, hits: Hits, word: str) -> Iterator[dict[str, object]]:
    for one, found in _rows(asked, hits):
        yield {word: one, "hits": [{"id": item, "score": score} for item, score in found]}


def _write_json(asked: Ids, hits: Hits, file: TextIO, word: str) -> None:
    file.write(f"{json_text([*_answers(asked, hits, word)], file)}\n")


def _write_json_lines(asked: Ids, hits: Hits, file: TextIO, word: str) -> None:
    for answer in _answers(asked, hits, word):
        file.write(f"{json_text(answer, file, indent=None)}\n")


def _as_utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _write_csv(asked: Ids, hits: Hits, file: TextIO, word: str) -> None:
    """Write ids as they are, even those that a spreadsheet takes for formulas: a changed id is another item's.

    On a terminal they are shown as in a table; what is not UTF-8 is escaped, since no text file can hold it.
    """
    spell = visible if file.isatty() else _as_utf8
    names = {one: spell(str(one)) for one in [*asked.tolist(), *hits.ids.ravel().tolist()]}
    for name in names.values():  # before the first line: part of a table would look complete
        try:
            name.encode(file.encoding or "utf-8")
        except UnicodeEncodeError as error:
            raise ArgumentError(
                "--format",
                f"csv in {file.encoding} has no {name[error.start]!a}, which is part of an id",
                "write to a file with -o, which is UTF-8, or use json or npz",
            ) from None
    writer = csv.writer(_Lines(file), lineterminator=_Lines.END)
    writer.writerow((word, "rank", "id", "score"))
    writer.writerows(
        (names[one], rank, names[item], score)
        for one, found in _rows(asked, hits)
        for rank, (item, score) in enumerate(found, start=1)
    )


class _Lines:
    """Writes Unix line ends; the csv writer is given both characters, so that it quotes a cell with either."""

    END = "\r\n"

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix(self.END) + "\n")


PLURALS = {"query": "queries", "set": "sets"}


def _write_npz(asked: Ids, hits: Hits, file: TextIO, word: str) -> None:
    import numpy as np

    write: Callable[..., None] = np.savez  # whose types take our arrays for its options
    write(file.buffer, **{PLURALS[word]: asked, "ids": hits.ids, "scores": hits.scores})


WRITERS: Mapping[Format, Write] = {
    Format.table: _write_table,
    Format.json: _write_json,
    Format.jsonl: _write_json_lines,
    Format.csv: _write_csv,
    Format.npz: _write_npz,
}
