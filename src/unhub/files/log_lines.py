"""Lines of logged queries in .jsonl, .csv, .tsv and .parquet files, one mapping each; those that cannot be read too."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from unhub.errors import EmptyLogError
from unhub.files.log_bytes import LIVE, byte_count, form_of, unpacked
from unhub.files.log_gathering import LogColumns
from unhub.files.log_values import Wrong, shortened
from unhub.files.parquet import opened

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 1 << 12  # rows of a Parquet file held as Python objects at a time
BOM = b"\xef\xbb\xbf"
SHOWN_BAD = 3
NO_TEXT = "is not UTF-8 text"
UNFINISHED = "unexpected end of data"  # in the words of the module csv
TORN_LINES, TORN_BYTES = 20, 1 << 16  # the longest record that is taken for one whose other lines are to come


class Unfinished(Wrong):
    """The last record of a table of texts has a quotation mark that nothing closes: its other lines are to come."""

    def told(self, path: Path, line: LogLine) -> str:
        """Name the torn end of a file: it may be of several lines."""
        return f"{path}, which begins at line {line.number},"


class Endless(Wrong):
    """A record that is open at the end of the file, and too long for one that was cut off: the mark is a mistake."""


class LogLine(NamedTuple):
    """A line of a log: its number, what it holds or why that cannot be read, and its bytes in a file of lines."""

    number: int
    content: Mapping[str, object] | Wrong
    start: int = 0
    stop: int = 0


class RawLine(NamedTuple):
    """A line of a file: its number, from 1 on, its content without the mark of UTF-8, and its bytes in the file."""

    number: int
    content: bytes
    start: int
    stop: int


class Span(NamedTuple):
    """The bytes of a file to read: from a line on, up to an end. lines: how many lines are before the start."""

    start: int
    stop: int
    lines: int = 0


@dataclass
class BadLines:
    """The lines that could not be read: how many, and the first of each kind by name; and torn ends of files.

    strangers: by file, how many lines name a user that is no id, and the first of these.
    """

    count: int = 0
    first: dict[str, str] = field(default_factory=dict)  # by what is wrong with them
    torn: list[str] = field(default_factory=list)
    strangers: dict[str, tuple[int, object]] = field(default_factory=dict)

    def add_stranger(self, path: Path, user: object) -> None:
        """Note a line whose user is no id."""
        count, first = self.strangers.get(str(path), (0, user))
        self.strangers[str(path)] = count + 1, first

    def add(self, path: Path, line: LogLine, why: Wrong) -> None:
        """Note a line that cannot be read."""
        self.count += 1
        if len(self.first) < SHOWN_BAD:
            word = "line" if form_of(path) in LIVE else "row"
            self.first.setdefault(str(why), f"{path}:{line.number}: the {word} {why}")

    @property
    def told(self) -> str:
        """The count and the first lines, in words."""
        more = f"; and {self.count - len(self.first):,} more" if self.count > len(self.first) else ""
        return "; ".join(self.first.values()) + more

    def check(self, skip_bad: bool) -> None:
        """Raise if there are any and they may not be left out."""
        if self.count and not skip_bad:
            raise ValueError(f"{self.told}. Mend the log, or leave such lines out with --skip-bad (skip_bad=True)")

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, in sentences."""
        bad = (f"{self.count:,} bad line{'s' if self.count > 1 else ''} left out: {self.told}.",) if self.count else ()
        torn = (f"The last line of {path} is cut off; it was left out." for path in self.torn)
        return (*bad, *torn, *self.stranger_notes)

    @property
    def stranger_notes(self) -> tuple[str, ...]:
        """Where users are no ids, in sentences."""
        return tuple(
            f"{path}: lines whose user is no id, such as {shortened(first)}: {count:,}. Who asked there is unknown; if "
            "another column says it, name it: user=NAME (--column)."
            for path, (count, first) in self.strangers.items()
        )


def whole_span(path: Path) -> Span:
    """Return all bytes of a file."""
    return Span(0, byte_count(path))


def json_lines(path: Path, span: Span, columns: LogColumns) -> Iterator[LogLine]:
    """Yield every line that is not blank."""
    for number, raw, start, stop in numbered_lines(path, span):
        if raw.strip():
            yield LogLine(number, _as_object(raw), start, stop)


def delimited_lines(path: Path, span: Span, columns: LogColumns) -> Iterator[LogLine]:
    """Yield every record below the head; one of several lines has the number of its first."""
    delimiter = "\t" if form_of(path) == ".tsv" else ","
    head = csv_head(path, delimiter)
    number = span.lines
    taken = span.start  # bytes that the reader has taken, which are whole records between two of them

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in numbered_lines(path, span):
            taken = line.stop
            yield line.content.decode("utf-8", "surrogateescape")

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        before, start = reader.line_num, taken
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            why = _wrong_record(error, reader.line_num - before, taken - start)
            yield LogLine(number + before + 1, why, start, taken)
            continue
        if number + before == 0 or not row:
            continue  # the head, or a blank line
        yield LogLine(number + before + 1, _as_record(head, row), start, taken)


def _wrong_record(error: csv.Error, lines: int, size: int) -> Wrong:
    """Say what is wrong with a record of so many lines and bytes."""
    if str(error) != UNFINISHED:
        return Wrong(f"is not a record of the table ({error})")
    if lines <= TORN_LINES and size <= TORN_BYTES:
        return Unfinished(f"is not a record of the table ({error})")
    return Endless(f"opens a quotation mark that nothing closes, up to the end of the file, {lines:,} lines on")


def csv_head(path: Path, delimiter: str) -> list[str]:
    """Return the names of the columns."""
    with unpacked(path) as file:
        first = file.readline().removeprefix(BOM)
    try:
        head = next(csv.reader([first.decode()], delimiter=delimiter, strict=True), [])
    except UnicodeDecodeError:
        raise ValueError(
            f"{path}: {NO_TEXT}; a table of texts, whose first line names the columns, is required"
        ) from None
    except csv.Error as error:
        raise ValueError(f"{path}: the first line must name the columns ({error})") from None
    if not head:
        raise EmptyLogError(f"{path}: is empty; the first line must name the columns")
    if twice := next((name for name in head if head.count(name) > 1), None):
        raise ValueError(f"{path}: has columns {head}; `{twice}` must occur only once")
    return head


def parquet_lines(path: Path, span: Span, columns: LogColumns) -> Iterator[LogLine]:
    """Yield every row, numbered from 0; only columns of a log are read."""
    with opened(path) as file:
        names = list(file.schema_arrow.names)
        keys = columns.found_in(names)
        if not keys:
            raise ValueError(f"{path}: has the columns {', '.join(names) or 'none'}; {columns.wanted}")
        row = 0
        for batch in file.iter_batches(BATCH_ROWS, columns=[*keys.values()], use_threads=False):
            batch.validate(full=True)
            held = {key: column_values(batch.column(key)) for key in keys.values()}
            for place in range(batch.num_rows):
                yield LogLine(row, {key: values[place] for key, values in held.items()})
                row += 1


Lines: TypeAlias = Callable[[Path, Span, LogColumns], Iterator[LogLine]]

FORMATS: Mapping[str, Lines] = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".csv": delimited_lines,
    ".tsv": delimited_lines,
    ".parquet": parquet_lines,
}


def numbered_lines(path: Path, span: Span) -> Iterator[RawLine]:
    """Yield the lines of a part of a file."""
    with unpacked(path) as file:
        file.seek(span.start)
        start, number = span.start, span.lines
        while start < span.stop and (raw := file.readline(span.stop - start)):
            number += 1
            yield RawLine(number, raw.removeprefix(BOM) if number == 1 else raw, start, start + len(raw))
            start += len(raw)


def _as_object(raw: bytes) -> Mapping[str, object] | Wrong:
    try:
        one = json.loads(raw.decode())
    except UnicodeDecodeError:
        return Wrong(NO_TEXT)
    except (ValueError, RecursionError) as error:
        return Wrong(f"is not JSON ({error})")
    return one if isinstance(one, dict) else Wrong('is not an object such as {"query": "..."}')


def _as_record(head: list[str], row: list[str]) -> Mapping[str, object] | Wrong:
    if len(row) != len(head):
        return Wrong(f"has {len(row)} fields, the head {len(head)}")
    if not all(part.isascii() or part.isprintable() or _is_text(part) for part in row):
        return Wrong(NO_TEXT)
    return dict(zip(head, row, strict=True))


def _is_text(part: str) -> bool:
    try:
        part.encode()
    except UnicodeEncodeError:
        return False
    return True


def column_values(column: pyarrow.Array) -> list[object]:
    """Return the values of a column; lists of numbers, such as vectors, as arrays."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pyarrow.types.is_timestamp(kind) or pyarrow.types.is_date(kind):
        unit = "D" if pyarrow.types.is_date32(kind) else "ms" if pyarrow.types.is_date64(kind) else kind.unit
        counts = column.view(pyarrow.int32() if unit == "D" else pyarrow.int64()).to_pylist()
        return [None if count is None else np.datetime64(count, unit) for count in counts]  # type: ignore[arg-type]  # of arrow
    lists = pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)
    if lists and pyarrow.types.is_floating(kind.value_type) and not column.null_count:
        numbers = column.flatten()
        if not numbers.null_count:
            flat = numbers.to_numpy(zero_copy_only=False)
            ends = (
                range(0, len(flat) + 1, kind.list_size)
                if pyarrow.types.is_fixed_size_list(kind)
                else [0, *column.value_lengths().to_numpy().cumsum().tolist()]
            )
            return [flat[ends[row] : ends[row + 1]] for row in range(len(column))]
    return column.to_pylist()  # type: ignore[no-any-return]
