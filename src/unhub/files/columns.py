"""Columns of a table on disk (.csv, .tsv, .jsonl, .parquet, TREC lines), read piece by piece; errors name the line."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import spans
from unhub.data.vectors import as_plain
from unhub.files.parquet import as_array, columns_of, read_column
from unhub.frames.arrow_columns import is_uuids

if TYPE_CHECKING:
    import pyarrow

Piece: TypeAlias = tuple[Sequence[int], Sequence[Sequence[str]]]  # numbers of lines, and a list of fields per column
Convert: TypeAlias = Callable[[Sequence[str]], NDArray[np.generic]]

T = TypeVar("T")

PIECE_ROWS = 1 << 9  # rows held as Python objects at a time: with more of them the garbage collector takes over


@dataclass(frozen=True)
class Column:
    """A column to read: the types its values may have, and how they become an array.

    default: the value of every row if the column is missing; without one, the column is required.
    """

    name: str
    accepts: tuple[type, ...]
    convert: Convert
    wants: str
    default: str | None = None


class NoColumn(ValueError):
    """A table lacks a column that is required, or has it twice."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


def id_column(name: str) -> Column:
    """Return a column of ids, which become integers where all are plain ones."""
    return Column(name, (int, str), _names, "an integer or a string that is not empty")


def number_column(name: str, default: str | None = None) -> Column:
    """Return a column of finite numbers."""
    return Column(name, (int, float), _numbers, "a finite number", default)


def text_column(name: str, default: str | None = None) -> Column:
    """Return a column of texts, which may be empty."""
    return Column(name, (str,), lambda texts: np.array(texts, object), "a text", default)


def read_columns(path: Path, columns: Sequence[Column]) -> list[NDArray[np.generic]]:
    """Read these columns of a .csv, .tsv, .jsonl or .parquet file, an array each."""
    return gather(path, TABLES[path.suffix.lower()](path, columns), columns)


def gather(path: Path, pieces: Iterable[Piece], columns: Sequence[Column]) -> list[NDArray[np.generic]]:
    """Return an array for each column; an error names the line of the first wrong value."""
    done: list[list[NDArray[np.generic]]] = [[] for _ in columns]
    for lines, texts in pieces:
        for column, values, arrays in zip(columns, texts, done, strict=True):
            try:
                arrays.append(column.convert(values))
            except ValueError:
                raise next(
                    wrong_value(path, line, column, value)
                    for line, value in zip(lines, values, strict=True)
                    if _fails(column, value)
                ) from None
    if not done[0]:
        raise ValueError(f"{path}: holds no rows")
    return [_joined(arrays) for arrays in done]


def split_lines(path: Path, fields: Sequence[str], wanted: Sequence[int]) -> Iterator[Piece]:
    """Yield some fields of each line of a file; fields are separated by spaces or tabs."""
    with opened(path) as lines:
        for numbers, rows in _pieces((number, line.split()) for number, line in enumerate(lines, start=1)):
            for number, row in zip(numbers, rows, strict=True):
                if len(row) != len(fields):
                    raise ValueError(
                        f"{path}: line {number} has {len(row)} fields, {len(fields)} are required: `{' '.join(fields)}`"
                    )
            yield numbers, [[row[place] for row in rows] for place in wanted]


@contextmanager
def opened(path: Path) -> Iterator[Iterator[str]]:
    """Open a text file of UTF-8, with its line ends as they are."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            yield file
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: must be UTF-8 text ({error})") from None


def _delimited(path: Path, columns: Sequence[Column]) -> Iterator[Piece]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with opened(path) as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            heads = next(reader, [])
            places = _places(path, columns, heads)
            for numbers, rows in _pieces((reader.line_num, row) for row in reader):
                for number, row in zip(numbers, rows, strict=True):
                    if len(row) != len(heads):
                        raise ValueError(f"{path}: line {number} has {len(row)} fields, the head {len(heads)}")
                yield (
                    numbers,
                    [
                        [str(column.default)] * len(rows) if place is None else [row[place] for row in rows]
                        for column, place in zip(columns, places, strict=True)
                    ],
                )
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from None


def _json_lines(path: Path, columns: Sequence[Column]) -> Iterator[Piece]:
    with opened(path) as lines:
        for numbers, rows in _pieces((number, line.strip()) for number, line in enumerate(lines, start=1)):
            objects = [_object(path, number, row, columns) for number, row in zip(numbers, rows, strict=True)]
            yield (
                numbers,
                [
                    _as_texts(path, numbers, column, [one.get(column.name, column.default) for one in objects])
                    for column in columns
                ],
            )


def _object(path: Path, number: int, line: str, columns: Sequence[Column]) -> dict[str, object]:
    try:
        one = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: line {number} is not JSON ({error})") from None
    if not isinstance(one, dict):
        raise ValueError(f"{path}: line {number} is not an object such as {{{columns[0].name!r}: ...}}")
    for column in columns:
        if column.default is None and column.name not in one:
            raise NoColumn(f"{path}: line {number} has keys {list(one)}; `{column.name}` is required", column.name)
    return one


def _parquet(path: Path, columns: Sequence[Column]) -> Iterator[Piece]:
    places = _places(path, columns, columns_of(path))
    tables = [
        None if place is None else _as_read(path, column.name) for column, place in zip(columns, places, strict=True)
    ]
    for start, stop in spans(max(len(table) for table in tables if table is not None), PIECE_ROWS):
        rows = range(start, stop)
        yield (
            rows,
            [
                [str(column.default)] * len(rows)
                if table is None
                else _as_texts(path, rows, column, table.slice(start, len(rows)).to_pylist())
                for column, table in zip(columns, tables, strict=True)
            ],
        )


def _as_read(path: Path, name: str) -> pyarrow.ChunkedArray:
    """Return a column of a Parquet file, of which UUIDs are texts."""
    column = read_column(path, name)
    if not is_uuids(column.type):
        return column
    import pyarrow

    return pyarrow.chunked_array([pyarrow.array(as_array(path, column, name).astype(object))])


TABLES: Mapping[str, Callable[[Path, Sequence[Column]], Iterator[Piece]]] = {
    ".csv": _delimited,
    ".tsv": _delimited,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}


def _pieces(rows: Iterable[tuple[int, T]]) -> Iterator[tuple[list[int], list[T]]]:
    """Yield numbered rows, some at a time, without the empty ones."""
    filled = (row for row in rows if row[1])
    while some := list(islice(filled, PIECE_ROWS)):
        yield [number for number, _ in some], [row for _, row in some]


def _places(path: Path, columns: Sequence[Column], heads: Sequence[str]) -> list[int | None]:
    """Return the position of each column under the heads; None for an optional one that is missing."""
    for column in columns:
        if heads.count(column.name) != 1 and (column.default is None or column.name in heads):
            wrong = "must occur only once" if column.name in heads else "is required"
            raise NoColumn(f"{path}: has columns {list(heads)}; `{column.name}` {wrong}", column.name)
    return [heads.index(column.name) if column.name in heads else None for column in columns]


def _as_texts(path: Path, lines: Sequence[int], column: Column, values: Sequence[object]) -> list[str]:
    """Return typed values as they would be written in a table; a default is a text already."""
    accepted = {*column.accepts} if column.default is None else {*column.accepts, str}
    if not set(map(type, values)) <= accepted:
        raise next(
            wrong_value(path, line, column, value)
            for line, value in zip(lines, values, strict=True)
            if type(value) not in accepted
        )
    return [str(value) for value in values]


def wrong_value(path: Path, line: int, column: Column, value: object) -> ValueError:
    """Return the error that a value of a file is not what its column must hold."""
    word = "row" if path.suffix.lower() == ".parquet" else "line"
    return ValueError(f"{path}: {word} {line}: {column.name} is {value!r}; {column.wants} is required")


def _fails(column: Column, value: str) -> bool:
    try:
        column.convert([value])
    except ValueError:
        return True
    return False


def _names(texts: Sequence[str]) -> NDArray[np.generic]:
    if "" in texts:
        raise ValueError("an id is empty")
    return as_plain(texts)


def _numbers(texts: Sequence[str]) -> NDArray[np.generic]:
    numbers = [float(text) for text in texts]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number is not finite")
    return np.array(numbers)


def _joined(pieces: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
    """Return the pieces of a column as one; plain integers beside strings become the texts that they were."""
    if any(piece.dtype.kind == "U" for piece in pieces):
        return np.concatenate([piece.astype(np.str_) for piece in pieces])
    return np.concatenate(pieces)
