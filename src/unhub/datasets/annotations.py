"""Readers of annotation files that several data sets share; a file that is wrong is an error about the data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unhub.data.ids import read_lines
from unhub.datasets.described import Download
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError
from unhub.files.columns import read_columns, text_column

POINTER = b"version https://git-lfs"
PAGES = (b"<!doctype", b"<html")
PICKLES = (".pkl", ".pickle", ".p")
SAFE_PICKLES = (
    "a pickle may run anything on this machine, so none is opened here; docs/datasets/datasets.md shows how to turn "
    "it into .json without running it"
)


def need(files: Scanned, wanted: Download) -> Path:
    """Return the nearest of the files that are wanted; raise if there is none, with what to fetch."""
    found = files.find(*wanted.names)
    if found is not None:
        return found
    dangling = files.find_dangling(*wanted.names)
    if dangling is not None:
        remedy = f"fetch what it leads to, as by `git annex get` or `dvc pull`, or {wanted.fetch}"
        raise ArgumentError("data", f"{files.folder} has {dangling}, a link to what is not there", remedy)
    stems = [name.removesuffix(".json") for name in wanted.names]
    pickled = files.find(*(f"{stem}{suffix}" for stem in stems for suffix in PICKLES))
    if pickled is not None:
        problem = f"{files.folder} has {pickled.name}, a pickle, where {wanted.title} is needed"
        raise ArgumentError("data", problem, SAFE_PICKLES)
    raise ArgumentError("data", f"{files.folder} has no {wanted.title} ({files.count:,} files below it)", wanted.fetch)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    check_download(path)
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        problem = f"{path} is not whole JSON ({error})"
        raise ArgumentError("data", problem, "the download is perhaps cut short: fetch the file again") from None


def read_list(path: Path) -> list[str]:
    """Return the names of a list, one on a line; a file of the form .csv has a head, which is left out."""
    lines = [line.strip() for line in _lines(path)]
    names = [line for line in lines[1 if path.suffix == ".csv" else 0 :] if line]
    twice = len(names) - len({*names})
    if not names or twice:
        problem = f"{path} names {twice} of its entries twice" if names else f"{path} is empty"
        raise ArgumentError("data", problem, "fetch the file again")
    return names


def read_fields(path: Path, separator: str | None, least: int, most: int) -> list[list[str]]:
    """Return the fields of each line that is not empty, never unquoted; None separates by runs of white space.

    The last field keeps the separators in it. An error names the line that has too few fields.
    """
    rows = [(number, line.split(separator, most - 1)) for number, line in enumerate(_lines(path), 1) if line.strip()]
    short = next((number for number, row in rows if len(row) < least), None)
    if short is not None or not rows:
        problem = f"{path}: line {short} has fewer than {least} fields" if rows else f"{path} is empty"
        raise ArgumentError("data", problem, "the download is perhaps cut short, or another version: fetch it again")
    return [row for _, row in rows]


def read_table(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> list[list[str]]:
    """Return these columns of a .csv or .tsv file with a head, row by row; one that is optional may be missing."""
    check_download(path)
    try:
        arrays = read_columns(path, [text_column(one, "" if one in optional else None) for one in columns])
    except ValueError as error:
        needed = ", ".join(one for one in columns if one not in optional)
        more = f"; it may have {', '.join(optional)} too" if optional else ""
        raise ArgumentError("data", str(error), f"a file with the columns {needed} is wanted{more}") from None
    return [list(row) for row in zip(*(array.tolist() for array in arrays), strict=True)]


@contextmanager
def of_form(path: Path, form: str) -> Iterator[None]:
    """Raise an error about the data where the block finds something else in a file than its form allows."""
    try:
        yield
    except ArgumentError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        problem = f"{path} has another form than is known here ({type(error).__name__}: {error})"
        raise ArgumentError(
            "data", problem, f"a file of the form {form} is wanted; it may be another version"
        ) from None


def text_of(value: object) -> str:
    """Return a text, or tokens joined by spaces; raise unless it is one of them."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def texts_of(value: object) -> list[str]:
    """Return the texts of a list, each a text or its tokens; a single text is no list, but of letters."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list of texts")
    return [text_of(one) for one in value]


def texts_by_id(path: Path) -> Mapping[str, list[str]]:
    """Return the captions of a JSON file {id: [caption, ...]}, where a caption is a text or a list of tokens."""
    with of_form(path, '{id: ["caption", ...]}'):
        return {
            name: [captions] if isinstance(captions, str) else texts_of(captions)
            for name, captions in read_json(path).items()
        }


def _lines(path: Path) -> list[str]:
    check_download(path)
    try:
        return read_lines(path)
    except UnicodeDecodeError as error:
        raise ArgumentError("data", f"{path} is not UTF-8 text ({error})", "fetch the file again") from None


def check_download(path: Path) -> None:
    """Raise if a file is what a download leaves in place of the file itself."""
    with path.open("rb") as file:
        start = file.read(64).lstrip().lower()
    if not start:
        raise ArgumentError("data", f"{path} is empty", "fetch the file again")
    if start.startswith(POINTER):
        raise ArgumentError("data", f"{path} is only a pointer of Git LFS", "run `git lfs pull` where it came from")
    if start.startswith(PAGES):
        raise ArgumentError(
            "data", f"{path} is a web page", "the link wants a login or has moved: fetch the file again"
        )
