"""Attributes of items, from a table on disk, and the items that a filter in SQL selects.

SQLite, which comes with Python, evaluates the filter on a copy in memory, and may do nothing but compare columns.
"""

from __future__ import annotations

import csv
import os
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids, are_among
from unhub.data.ids import as_ids
from unhub.data.relevance import matching
from unhub.data.vectors import as_plain
from unhub.errors import ArgumentError, naming_file, optional
from unhub.files import columns
from unhub.files.attribute_values import Attribute, fits, of_texts, of_values
from unhub.files.columns import read_columns
from unhub.files.named_arrays import kind_of, split_name
from unhub.files.parquet import as_array, intact, label_of, naming, opened
from unhub.frames.arrow_columns import may_be_ids
from unhub.frames.frame_columns import NamedColumns, WrongColumn
from unhub.frames.frames import HasArrow, column_names, is_table, naming_column, open_frame

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
# Texts, names in any of three quotes, and comments, which SQLite reads as a whole; and what else is looked at.
WHOLE = r"""'[^']*'|"(?P<name>(?:[^"]|"")*)"|\[[^\]]*\]|`[^`]*`|--[^\n]*|/\*.*?\*/"""
TOKEN = re.compile(rf"{WHOLE}|(?P<bracket>[()])|(?<![\w.])(?P<integer>[0-9]{{19,}})(?![\w.])", re.DOTALL)
NUMBER_FUNCTIONS = ("abs", "coalesce", "ifnull", "max", "min", "nullif", "round")
TEXT_FUNCTIONS = ("glob", "instr", "length", "like", "lower", "ltrim", "rtrim", "substr", "substring", "trim", "upper")
TIME_FUNCTIONS = ("date", "datetime", "julianday", "strftime", "time", "unixepoch")
FUNCTIONS = frozenset((*NUMBER_FUNCTIONS, *TEXT_FUNCTIONS, *TIME_FUNCTIONS))
TABLE, ROW = "items", '"unhub: row"'
LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
INSTRUCTIONS = 1_000_000  # between two looks at ctrl-C


@dataclass(frozen=True, eq=False)
class Attributes:
    """The attributes of some items by name, a column each; `source` names the table in errors."""

    ids: Ids
    columns: Mapping[str, Attribute]
    source: str

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, filter: str, ids: Ids | None = None) -> Ids:
        """Return the ids of the items that a filter selects, such as "colour = 'red' and price < 20"; of `ids` only.

        It is what stands behind WHERE in SQL, as SQLite reads it. An empty value is NULL.
        """
        self._check_parts(filter)
        names = [*self.columns]
        used = self._run(filter, names, empty=True)[1]
        for name in used:
            refused = self.columns[name].refused
            if refused is not None:
                raise ArgumentError(
                    "where", f"compares {name!r}, whose numbers in {self.source} {refused[0]}", refused[1]
                )
        rows = self._run(filter, [name for name in names if name in used])[0]
        if ids is None:
            return self.ids[rows]
        known = matching(self.ids, ids, "item", self.source)
        if not are_among(known, ids).any():
            raise ValueError(f"{self.source}: has none of the items, for example {ids[0].item()!r}")
        found = known[rows]
        return found[are_among(found, ids)]

    def _check_parts(self, filter: str) -> None:
        """Raise for what SQLite would take for something else.

        It reads a quoted name that is no column as a text, integers beyond 64 bits as floats, and with a bracket that
        closes the one around the filter, a second SELECT.
        """
        known = {_folded(name) for name in self.columns}
        depth = 0
        for found in TOKEN.finditer(filter):
            name, bracket, integer = found["name"], found["bracket"], found["integer"]
            if name is not None and _folded(name.replace('""', '"')) not in known:
                raise self._wrong(filter, f"{found[0]} is no column, and texts stand in single quotes")
            if integer is not None and not fits(integer):
                raise self._wrong(filter, f"{integer} is beyond 64 bits, and a column of such is of texts")
            depth += {"(": 1, ")": -1}.get(bracket, 0)
            if depth < 0:
                raise self._wrong(filter, "a bracket is closed that was not opened, and a filter is one expression")

    def _wrong(self, filter: str, problem: object) -> ArgumentError:
        return ArgumentError(
            "where", f"cannot be read: {problem}", f"got {filter!r}, and the columns are {', '.join(self.columns)}"
        )

    def _run(self, filter: str, names: Sequence[str], empty: bool = False) -> tuple[NDArray[np.int64], set[str]]:
        """Return the rows that a filter selects, of none if `empty`, and the columns that it looks at."""
        used: set[str] = set()
        refused: list[str] = []

        def allow(action: int, first: str | None, second: str | None, *_: str | None) -> int:
            if action == sqlite3.SQLITE_READ and first == TABLE:
                if second is not None and second in names:
                    used.add(second)
                return sqlite3.SQLITE_OK
            if action == sqlite3.SQLITE_SELECT or (action == sqlite3.SQLITE_FUNCTION and second in FUNCTIONS):
                return sqlite3.SQLITE_OK
            refused.append(f"{second}()" if action == sqlite3.SQLITE_FUNCTION else "it does more than compare columns")
            return sqlite3.SQLITE_DENY

        with_types = [_quoted(name) + (" NUMERIC" if self.columns[name].is_number else " TEXT") for name in names]
        database = sqlite3.connect(":memory:")
        try:
            database.execute(f"CREATE TABLE {TABLE} ({', '.join([f'{ROW} INTEGER PRIMARY KEY', *with_types])})")
            if not empty:
                values = [range(len(self)), *(self.columns[name].values for name in names)]
                marks = ", ".join("?" * len(values))
                database.executemany(f"INSERT INTO {TABLE} VALUES ({marks})", zip(*values, strict=True))
            database.set_authorizer(allow)
            database.set_progress_handler(lambda: 0, INSTRUCTIONS)
            found = database.execute(f"SELECT {ROW} FROM {TABLE} WHERE (\n{filter}\n)").fetchall()
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise self._wrong(filter, f"{refused[0]} is not allowed" if refused else error) from None
        finally:
            database.close()
        return np.array([row for (row,) in found], np.int64), used


def _folded(name: str) -> str:
    """Return a name as SQLite compares it: only the letters of ASCII have a case."""
    return name.translate(LOWER)


def _quoted(name: str) -> str:
    """Return a name as SQL writes one, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


@naming_file()
def read_attributes(path: str | os.PathLike[str] | HasArrow) -> Attributes:
    """Read the attributes of items: .csv, .tsv, .jsonl or .parquet, with a column `id` and one for each attribute.

    `attributes.csv#id=photo` names another column of ids. Of a .csv or .tsv, a column of plain numbers is of numbers. A
    table of pandas, polars or Arrow is taken as it is.
    """
    if is_table(path):
        return _of_frame(cast("HasArrow", path))
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError("path", f"is a {type(path).__name__}", "give a path, or a table of pandas, polars or Arrow")
    place, written = split_name(os.fspath(path))
    file = Path(place)
    named = NamedColumns.written(written, file.name)
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        file.stat()
        raise ValueError(f"{file}: attributes are read from {', '.join(SUFFIXES)} files, not from {kind_of(file)}")
    ids, found = _of_texts(file, named) if suffix in (".csv", ".tsv") else _of_arrow(file, named)
    return _attributes(ids, found, str(file))


def _attributes(ids: NDArray[np.generic], found: Mapping[str, Attribute], source: str) -> Attributes:
    _check_once([*found], source)
    return Attributes(as_ids(ids, len(ids), source), found, source)


def _check_once(names: Sequence[str], source: str) -> None:
    """Raise if two columns have one name, for SQL."""
    folded = [_folded(name) for name in names]
    twice = next((name for name in names if folded.count(_folded(name)) > 1), None)
    if twice is not None:
        raise ValueError(f"{source}: has columns {[*names]}; `{twice}` must occur only once, whatever its case")


def _of_frame(table: HasArrow) -> Attributes:
    """Return the columns of a table in memory."""
    source = "attributes"
    frame = open_frame(table, source)
    _check_once(frame.names, source)
    name = _id_column(source, frame.names, NamedColumns(), frame.may_be_ids)
    ids = column_names(frame.read(frame.names.index(name)), source, label_of(name))
    with naming_column(source, table):
        found = {one: of_values(frame.arrow(one).to_pylist()) for one in frame.names if frame.may_be_ids(one)}
    return _attributes(ids, found, source)


def _id_column(file: Path | str, names: Sequence[str], named: NamedColumns, fits: Callable[[str], bool]) -> str:
    with naming(file):
        found = named.id_of(names, fits)
        if found is None:
            raise WrongColumn(f"has columns {[*names]}; `id` is required")
    return found


def _of_texts(file: Path, named: NamedColumns) -> tuple[NDArray[np.generic], dict[str, Attribute]]:
    with columns.opened(file) as lines:
        heads = next(csv.reader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ","), [])
    name = _id_column(file, heads, named, lambda _: True)
    found = dict(zip(heads, read_columns(file, [columns.text_column(head) for head in heads]), strict=True))
    texts = [str(one) for one in found[name]]
    if "" in texts:
        raise ValueError(f"{file}: row {texts.index('')} of the column `{name}` is empty")
    return as_plain(texts), {head: of_texts([str(one) or None for one in values]) for head, values in found.items()}


def _of_arrow(file: Path, named: NamedColumns) -> tuple[NDArray[np.generic], dict[str, Attribute]]:
    if file.suffix.lower() == ".parquet":
        with opened(file) as parquet:
            table = parquet.read()
    else:
        file.stat()
        optional("pyarrow.json", "parquet", f"reading {file}")
        with intact(file, "lines of JSON"):
            table = _json_table(file)
    name = _id_column(file, table.column_names, named, lambda one: may_be_ids(table.schema.field(one).type))
    import pyarrow

    found: dict[str, Attribute] = {}
    for head, column in zip(table.column_names, table.columns, strict=True):
        if not pyarrow.types.is_nested(column.type):  # a list or an object is nothing to compare
            with intact(file, "a table"):
                column.validate(full=True)
                found[head] = of_values(column.to_pylist())
    return as_array(file, table.column(name), name), found


def _json_table(file: Path) -> Any:
    """Return lines of JSON as a table, in which texts stay texts: Arrow makes times of those that look like some."""
    import pyarrow
    from pyarrow import json

    table = json.read_json(file)
    times = [field.name for field in table.schema if pyarrow.types.is_timestamp(field.type)]
    if not times:
        return table
    schema = pyarrow.schema([(name, pyarrow.string()) for name in times])
    return json.read_json(file, parse_options=json.ParseOptions(explicit_schema=schema)).select(table.column_names)
