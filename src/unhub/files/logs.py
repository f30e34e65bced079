"""The one reader of query logs: files of lines, Parquet tables, folders of them, and of `unhub serve --log`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from unhub.arrays import Float32
from unhub.data.query_log import QueryLog, join_logs
from unhub.data.vectors import Rows
from unhub.errors import ArgumentError, EmptyLogError, naming_file
from unhub.files.log_bytes import LIVE, byte_count, ends_in_line, form_of
from unhub.files.log_frames import LogLike, frame_lines, log_name
from unhub.files.log_gathering import SERVED, Gathering, LogColumns
from unhub.files.log_lines import FORMATS, BadLines, Endless, LogLine, Span, Unfinished, whole_span
from unhub.files.log_values import AUTO, TimeUnit, Wrong, check_directed
from unhub.files.named_arrays import kind_of
from unhub.files.query_logs import LINES, is_query_log, log_dimensions, map_segment, segments, whole_rows
from unhub.frames.frames import HasArrow, is_table

KINDS = f"{', '.join(FORMATS)} files, those of lines also as .gz,"
MOST_NAMED = 5  # of files that are not read
PIECE_QUERIES = 1 << 13  # logged queries held as Python objects at a time


@dataclass(frozen=True)
class LogFile:
    """A file of a log: of lines or a table, or a segment of `unhub serve --log`, which has rows beside the lines.

    frame: a table in memory, which is called by the path.
    """

    path: Path
    dimensions: int | None = None  # of a segment
    frame: HasArrow | None = None

    @property
    def rows_path(self) -> Path:
        """The file of the rows of a segment."""
        return self.path.with_suffix(".vectors")


@dataclass
class LogReading:
    """How a log is read: its columns, whether bad lines are left out, and which there were.

    as_bank: whether the queries are for a bank, which takes no vector of zeros, as searches under dot product may log,
    and no time to come. width: of the vectors that a bank has.
    """

    columns: LogColumns = field(default_factory=LogColumns)
    skip_bad: bool = False
    as_bank: bool = False
    width: int | None = None
    bad: BadLines = field(default_factory=BadLines)


def read_log(
    path: str | os.PathLike[str] | HasArrow,
    *,
    query_id: str | None = None,
    text: str | None = None,
    vector: str | None = None,
    time: str | None = None,
    returned: str | None = None,
    clicked: str | None = None,
    position: str | None = None,
    variant: str | None = None,
    user: str | None = None,
    time_unit: TimeUnit = AUTO,
    skip_bad: bool = False,
) -> QueryLog:
    """Read a query log: a .jsonl, .csv, .tsv or .parquet file, a folder of such files, or of `unhub serve --log`.

    Files of lines may be packed by gzip, as in day.jsonl.gz. A table of pandas, polars or Arrow is a log too.

    A line is a query. The arguments up to `user` name its columns; left out, these names are looked for: query_id,
    qid, id; query, text, query_text; vector, embedding, query_vector; time, timestamp, ts; ids, returned, results,
    hits; clicked, click, clicks; click_position, position, positions; variant, arm; user, user_id, session, session_id.
    Which item ids were returned, best first, and which were clicked are lists; in .csv and .tsv these, and vectors, are
    JSON or separated by spaces. The place of a click counts from 1, and is looked up among what was returned where the
    log does not say it.

    time_unit: "s", "ms", "us" or "ns", of times that are numbers since 1970. By "auto", numbers below 1e11 are seconds,
    below 1e14 milliseconds, below 1e17 microseconds, and nanoseconds above; one file has one unit. Other times are ISO
    8601, in UTC where they name no zone, or columns of dates or timestamps of a .parquet file.

    skip_bad: leave out lines that cannot be read, and say so in `notes`; else they are an error that names them. The
    last line of a file that ends within it, as a live log may, is always left out and noted.

    Files of a folder are read in the order of their names, also in folders inside it; `notes` names those of other
    kinds, such as rotated ones (day.jsonl.1), and hidden ones, which are not read. Vectors of `unhub serve --log` stay
    on disk, mapped; the version that answered is the variant. Of lines with `query` and `hits` alone, as `unhub search
    -o hits.jsonl` writes them, `query` is the id.
    """
    columns = LogColumns(query_id, text, vector, time, returned, clicked, position, variant, user, time_unit)
    return read_log_by(path, LogReading(columns, skip_bad), "path")


@naming_file()
def read_log_by(log: LogLike, reading: LogReading, name: str = "log") -> QueryLog:
    """Read a query log as `read_log` does; errors call a table `name`."""
    path = log_name(log, name)
    pieces = [piece for file in log_files(log, name) for piece in log_pieces(file, reading)]
    reading.bad.check(reading.skip_bad)
    if not pieces:
        if reading.bad.count:
            raise ValueError(f"{path}: has no line that can be read: {reading.bad.told}")
        raise EmptyLogError(f"{path}: is a log without a query yet")
    try:
        return replace(join_logs(pieces), notes=(*reading.bad.notes, *not_read(log)))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def log_files(log: LogLike, name: str = "log") -> list[LogFile]:
    """Return the files of a log, in the order in which they are read."""
    if is_table(log):
        return [LogFile(Path(name), frame=cast("HasArrow", log))]
    if not isinstance(log, str | os.PathLike):
        problem = f"is a {type(log).__name__}"
        raise ArgumentError(name, problem, "give a path, or a table of pandas, polars or Arrow")
    path = Path(log)
    if path.is_dir():
        found = _in_folder(path)
        if not found and not is_query_log(path):
            raise EmptyLogError(f"{path}: holds no log; {KINDS} are read")
        return found
    path.stat()  # a missing file or folder is a FileNotFoundError
    if form_of(path) not in FORMATS:
        raise ValueError(f"{path}: logs are read from {KINDS} and folders, not from {kind_of(path)}")
    return [LogFile(path)]


def log_pieces(file: LogFile, reading: LogReading, span: Span | None = None) -> Iterator[QueryLog]:
    """Yield the queries of a file, some at a time; its bad lines are added to those of the reading.

    A span is read up to its end, whatever the file holds after it. Without one, a last line that is cut off is left
    out. Nothing is raised for bad lines: whoever has read everything asks `reading.bad`.
    """
    if file.dimensions is not None:
        yield from _segment_pieces(file, reading, span)
        return
    path, form = file.path, form_of(file.path)
    live = span is None and file.frame is None and form in LIVE and not ends_in_line(path, byte_count(path))
    gathering = Gathering(reading.columns, form in (".csv", ".tsv"), reading.as_bank, reading.width)
    waiting: tuple[LogLine, Wrong] | None = None  # a bad line, which is torn if nothing follows
    lines = (
        FORMATS[form](path, span or whole_span(path), reading.columns)
        if file.frame is None
        else frame_lines(file.frame, str(path), reading.columns, span.start if span else 0)
    )
    for line in lines:
        if waiting is not None:
            reading.bad.add(path, *waiting)
            waiting = None
        try:
            if isinstance(line.content, Wrong):
                raise line.content
            gathering.add(line.content)
        except Wrong as why:
            waiting = line, why
        if len(gathering) == PIECE_QUERIES:
            yield gathering.take()
    if waiting is not None and isinstance(waiting[1], Unfinished):
        reading.bad.torn.append(waiting[1].told(path, waiting[0]))
    elif waiting is not None and isinstance(waiting[1], Endless):
        reading.bad.add(path, *waiting)
    elif waiting is not None and live and (gathering.split_lists or isinstance(waiting[0].content, Wrong)):
        reading.bad.torn.append(str(path))
    elif waiting is not None:
        reading.bad.add(path, *waiting)
    for user in gathering.unread_users:
        reading.bad.add_stranger(path, user)
    if len(gathering):
        yield gathering.take()
    if reading.as_bank:
        if gathering.odd_first:
            raise ValueError(f"{path}: {gathering.odd_first}")
        reading.width = gathering.width
    if gathering.other_model and not (span and span.start):  # a file that goes on had others before
        raise ValueError(f"{path}: {gathering.other_model}")
    if name := gathering.missing():
        raise ValueError(f"{path}: no line has the column `{name}`")


def _segment_pieces(file: LogFile, reading: LogReading, span: Span | None) -> Iterator[QueryLog]:
    """Yield the queries of a segment of `unhub serve --log`, whose rows stay mapped."""
    assert file.dimensions is not None
    count = whole_rows(file.rows_path, file.dimensions)
    if not count:
        return
    rows = map_segment(file.rows_path, count, file.dimensions)
    gathering = Gathering(SERVED, split_lists=False, as_bank=reading.as_bank)
    kept: list[int] = []
    for line in FORMATS[LINES](file.path, span or whole_span(file.path), SERVED):
        if line.number > count:
            break
        try:
            if isinstance(line.content, Wrong):
                raise line.content
            if reading.as_bank:
                check_directed(rows[line.number - 1])
            gathering.add(line.content)
            kept.append(line.number - 1)
        except Wrong as why:
            reading.bad.add(file.path, line, why)
        if len(gathering) == PIECE_QUERIES:
            yield replace(gathering.take(), vectors=_some(rows, kept))
            kept = []
    for user in gathering.unread_users:
        reading.bad.add_stranger(file.path, user)
    if kept:
        yield replace(gathering.take(), vectors=_some(rows, kept))


def _some(rows: Float32, kept: Sequence[int]) -> Rows:
    """Return these rows, without a copy where they follow each other."""
    if kept[-1] - kept[0] == len(kept) - 1:
        return rows[kept[0] : kept[-1] + 1]
    return np.array(rows[np.array(kept)])


def _in_folder(folder: Path) -> list[LogFile]:
    return [one for one in _looked_at(folder) if isinstance(one, LogFile)]


def _looked_at(folder: Path) -> Iterator[LogFile | Path]:
    """Yield the files of a log in a folder, and the paths of what is not read there but holds something."""
    if is_query_log(folder):
        dimensions = log_dimensions(folder)
        yield from (LogFile(path.with_suffix(LINES), dimensions) for path in segments(folder))
        return
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith((".", "_"))
        if path.is_dir() and not hidden:
            yield from _looked_at(path)
        elif not hidden and form_of(path) in FORMATS:
            yield LogFile(path)
        elif path.is_dir() or (path.is_file() and path.stat().st_size):
            yield path


def not_read(log: LogLike) -> tuple[str, ...]:
    """Say which files of a folder are not read, as rotated and hidden ones; nothing of other logs."""
    if not isinstance(log, str | os.PathLike) or not Path(log).is_dir():
        return ()
    names = [str(one.relative_to(log)) for one in _looked_at(Path(log)) if isinstance(one, Path)]
    if not names:
        return ()
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return (
        f"{os.fspath(log)}: not read are {', '.join(names[:MOST_NAMED])}{more} (in all {len(names):,}): {KINDS} are "
        "read, and nothing whose name begins with a dot or an underscore. Rename or unpack what belongs to the log.",
    )
