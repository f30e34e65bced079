"""Lines of log files that are removed: found by the ids of their queries, and left out of a new file."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unhub.arrays import Float32
from unhub.files.joint_change import JointChange
from unhub.files.log_bytes import (
    CHUNK_BYTES,
    LIVE,
    byte_count,
    ends_in_line,
    form_of,
    is_packed,
    line_end,
    unpacked,
    written_like,
)
from unhub.files.log_gathering import SERVED, LogColumns
from unhub.files.log_lines import FORMATS, Endless, LogLine, whole_span
from unhub.files.log_values import Wrong, as_id, as_user, logged_vector
from unhub.files.logs import LogFile, LogReading
from unhub.files.parquet import opened
from unhub.files.query_logs import map_segment, whole_rows

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class ToForget:
    """Whose queries are to be forgotten: their ids, users, and ids of queries that are known to be of these users.

    A query whose user is known goes by that and by its own id, and not because another query of its id is of the user.
    """

    query_ids: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    of_users: frozenset[str] = frozenset()

    def takes(self, query_id: str, user: str | None) -> bool:
        """Return whether a query is to be forgotten. query_id: "" for none; user: None where nothing says who asked."""
        return query_id in self.query_ids or (query_id in self.of_users if user is None else user in self.users)


@dataclass(eq=False)
class FoundLines:
    """Lines of one file that are to go. read: what was known of the file when it was read.

    places: their numbers among all lines of a segment, or rows of a table, from 0. spans: their bytes in a file of
    lines, in order. ids: how often each id occurs. vectors: those of the lines that have one; placed: the ids of these.
    users: who asked.
    """

    file: LogFile
    read: os.stat_result
    places: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    ids: Counter[str] = field(default_factory=Counter)
    vectors: list[Float32] = field(default_factory=list)
    placed: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    looked_at: int = 0  # lines that can be read
    named: bool = False  # whether any line has an id
    tells_users: bool = False  # whether any line says who asked
    has_users: bool = False  # whether any line has the column of users, whatever it says there
    strangers: int = 0  # of how many of the lines that stay the user is unknown

    def __len__(self) -> int:
        return len(self.places)

    @property
    def is_lines(self) -> bool:
        """Whether the file is one of lines, and no table."""
        return form_of(self.file.path) in LIVE

    @property
    def spans_are_bytes(self) -> bool:
        """Whether the lines are known by their bytes, as those of a table are not."""
        return self.is_lines or self.file.dimensions is not None

    def bytes_kept(self, stop: int) -> int:
        """Return how many of the first bytes of the file stay."""
        return stop - sum(min(end, stop) - start for start, end in self.spans if start < stop)

    def row_kept(self) -> bytes:
        """Return the first row of a segment that stays, as it is on disk; nothing for other files."""
        rows = _rows_of(self.file)
        gone = {*self.places}
        first = next((row for row in range(len(rows)) if row not in gone), None)
        return b"" if first is None else rows[first].tobytes()


def find_lines(file: LogFile, wanted: ToForget, reading: LogReading) -> FoundLines:
    """Find the lines of these queries; lines whose id cannot be read are added to the bad ones of the reading."""
    path = file.path
    if file.dimensions is not None:  # a service numbers its queries, so an id of another log names another query there
        wanted = dataclasses.replace(wanted, of_users=frozenset())
    found = FoundLines(file, path.stat())
    columns = reading.columns if file.dimensions is None else SERVED
    rows = _rows_of(file)
    last: tuple[LogLine, Wrong] | None = None
    for place, line in enumerate(_lines(file, columns)):
        if last is not None:
            reading.bad.add(path, *last)
            last = None
        if file.dimensions is not None and place >= len(rows):
            break
        try:
            _look(found, place, line, wanted, columns, rows)
        except Wrong as why:
            last = line, why
    endless = last is not None and isinstance(last[1], Endless)
    if last is not None and found.is_lines and not endless and not ends_in_line(path, byte_count(path)):
        reading.bad.torn.append(str(path))
    elif last is not None:
        reading.bad.add(path, *last)
    return found


def _lines(file: LogFile, columns: LogColumns) -> Iterator[LogLine]:
    if file.dimensions is not None and not len(_rows_of(file)):
        return iter(())
    return FORMATS[form_of(file.path)](file.path, whole_span(file.path), columns)


def _look(found: FoundLines, place: int, line: LogLine, wanted: ToForget, columns: LogColumns, rows: Float32) -> None:
    if isinstance(line.content, Wrong):
        raise line.content
    keys = columns.found_in(line.content)
    query_id, user = _id_of(line.content, keys), None
    if wanted.users and "user" in keys:
        user = as_user(line.content[keys["user"]], columns.user is not None)
    found.looked_at += 1
    found.named |= query_id != ""
    found.tells_users |= user is not None
    found.has_users |= "user" in keys
    if not wanted.takes(query_id, user):
        found.strangers += bool(wanted.users) and user is None
        return
    if query_id:
        found.ids[query_id] += 1
    if user:
        found.users.add(user)
    found.places.append(place)
    found.spans.append((line.start, line.stop))
    vector: Float32 | None = np.array(rows[place]) if len(rows) else None
    if vector is None and "vector" in keys:
        vector = logged_vector(line.content[keys["vector"]])
    if vector is not None:
        found.vectors.append(vector)
        found.placed.add(query_id)


def _id_of(line: Mapping[str, object], keys: Mapping[str, str]) -> str:
    """Return the id of a line, "" for none."""
    value = line[keys["query_id"]] if "query_id" in keys else None
    return "" if value is None or value == "" else as_id(value)


def remove_lines(change: JointChange, found: FoundLines) -> Path | None:
    """Write the file without these lines, to take its place; return the new one, None if nothing is left of it."""
    path, file = found.file.path, found.file
    if file.dimensions is not None:
        return _remove_rows(change, found)
    with change.replacing(path, read=found.read, grows=found.is_lines and not is_packed(path)) as new:
        if found.is_lines:
            write_without(path, new, found.spans)
        else:
            _write_table_without(path, new, found.places)
    return new


def _remove_rows(change: JointChange, found: FoundLines) -> Path | None:
    """Write a segment of `unhub serve --log` anew; rows without a line, which a killed writer left, go too."""
    path, rows = found.file.path, _rows_of(found.file)
    stays = np.setdiff1d(np.arange(len(rows)), found.places)
    if not len(stays):
        change.delete(path)
        change.delete(found.file.rows_path)
        return None
    write_rows(change, found.file.rows_path, rows, stays)
    with change.replacing(path) as new:
        write_without(path, new, [*found.spans, (line_end(path, len(rows)), found.read.st_size)])
    return new


def write_rows(change: JointChange, path: Path, rows: Float32, stays: Sequence[int] | np.ndarray) -> None:
    """Write some rows of a segment, to take its place."""
    with change.replacing(path) as new, new.open("wb") as file:
        for row in stays:
            file.write(rows[row].tobytes())


def write_without(path: Path, new: Path, spans: Sequence[tuple[int, int]]) -> None:
    """Copy a file without these bytes, which are in order."""
    size = byte_count(path)
    with unpacked(path) as source, written_like(path, new) as file:
        for start, stop in zip([0, *(stop for _, stop in spans)], [*(start for start, _ in spans), None], strict=True):
            source.seek(start)
            left = (size if stop is None else stop) - start
            while left > 0 and (chunk := source.read(min(CHUNK_BYTES, left))):
                file.write(chunk)
                left -= len(chunk)


def _write_table_without(path: Path, new: Path, places: Sequence[int]) -> None:
    """Copy a Parquet file without these rows, one group of rows at a time."""
    import pyarrow
    import pyarrow.parquet

    gone, first = np.array(places), 0
    with opened(path) as file:
        schema, codec = file.schema_arrow, file.metadata.row_group(0).column(0).compression
    with pyarrow.parquet.ParquetWriter(new, schema, compression=codec) as writer:
        for table in _groups_of_rows(path):
            kept = ~np.isin(np.arange(first, first + len(table)), gone)
            first += len(table)
            if kept.any():
                writer.write_table(table.filter(pyarrow.array(kept)))


def _groups_of_rows(path: Path) -> Iterator[pyarrow.Table]:
    """Yield the groups of rows of a Parquet file; what fails in writing them elsewhere is not said of this file."""
    with opened(path) as file:
        for group in range(file.metadata.num_row_groups):
            yield file.read_row_group(group, use_threads=False)


def _rows_of(file: LogFile) -> Float32:
    """Map the rows of a segment that have a line; no rows for another file."""
    if file.dimensions is None or not (count := whole_rows(file.rows_path, file.dimensions)):
        return np.empty((0, file.dimensions or 1), np.float32)
    return map_segment(file.rows_path, count, file.dimensions)
