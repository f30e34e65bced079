"""Log files that a bank folder knows by their content: which bytes of a file are new, whatever its name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from unhub.files.bank_folders import LogSource
from unhub.files.log_bytes import CHUNK_BYTES, LIVE, byte_count, ends_in_line, form_of, line_end, unpacked
from unhub.files.log_frames import frame_lines, row_bytes
from unhub.files.log_gathering import LogColumns
from unhub.files.log_lines import FORMATS, Span, Unfinished
from unhub.files.logs import LogFile
from unhub.files.query_logs import ROW_TYPE, whole_rows
from unhub.frames.frames import HasArrow

DEFAULT = LogColumns()
JSON_LINES, TABLES = (".jsonl", ".ndjson"), (".csv", ".tsv")


class NewPart(NamedTuple):
    """What a file has that the bank does not: a span, and the source to note once it is added.

    torn: the name of a last line that is cut off, "" if there is none.
    """

    span: Span
    source: LogSource
    torn: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether everything in the file is known."""
        return self.span.start >= self.span.stop


def new_part(
    file: LogFile, sources: Sequence[LogSource], columns: LogColumns = DEFAULT, beside: Sequence[LogSource] = ()
) -> NewPart:
    """Find the longest beginning of a file that was added before, and return what comes after it.

    beside: other files of the same log; one may be a copy, but does not go on in another file that begins like it.
    A file of a table is known as a whole or not at all; a table in memory by its rows, of these columns.
    """
    if file.frame is not None:
        return _new_rows(file.frame, str(file.path), columns, sources)
    stop, torn = _whole_bytes(file)
    grows = file.dimensions is not None or form_of(file.path) in LIVE
    wanted = sorted({one["bytes"] for one in sources if one["bytes"] < stop and grows} | {stop})
    known = {(one["bytes"], one["digest"]) for one in (*sources, *beside)}
    found = Span(0, stop)
    digest = _begun(file)
    lines = done = 0
    with unpacked(file.path) as stream:
        for end in wanted:
            while done < end and (chunk := stream.read(min(CHUNK_BYTES, end - done))):
                digest.update(chunk)
                lines += chunk.count(b"\n")
                done += len(chunk)
            if (done, digest.hexdigest()) in known:
                found = Span(done, stop, lines)
    source: LogSource = {"bytes": done, "lines": lines, "digest": digest.hexdigest()}
    if form_of(file.path) in TABLES and found.start < stop:  # a record may be of several lines
        for line in FORMATS[form_of(file.path)](file.path, found, columns):
            if isinstance(line.content, Unfinished):
                found, source = found._replace(stop=line.start), source_of(file.path, line.start, b"")
                return NewPart(found, source, line.content.told(file.path, line))
    return NewPart(found, source, str(file.path) if torn else "")


def _new_rows(table: HasArrow, name: str, columns: LogColumns, sources: Sequence[LogSource]) -> NewPart:
    """Return the rows of a table after the longest beginning of it that was added before."""
    known = {(one["lines"], one["digest"]) for one in sources}
    digest = hashlib.blake2b(digest_size=16)
    found = rows = size = 0
    for line in frame_lines(table, name, columns):
        content = row_bytes(cast("Mapping[str, object]", line.content))
        digest.update(content)
        rows, size = rows + 1, size + len(content)
        if (rows, digest.hexdigest()) in known:
            found = rows
    source: LogSource = {"bytes": size, "lines": rows, "digest": digest.hexdigest()}
    return NewPart(Span(found, rows, found), source)


def source_of(path: Path, stop: int, first_row: bytes) -> LogSource:
    """Return what to note of the first bytes of a file; first_row: of a segment, else nothing."""
    digest, lines, left = hashlib.blake2b(first_row, digest_size=16), 0, stop
    with unpacked(path) as stream:
        while left > 0 and (chunk := stream.read(min(CHUNK_BYTES, left))):
            digest.update(chunk)
            lines += chunk.count(b"\n")
            left -= len(chunk)
    return {"bytes": stop - left, "lines": lines, "digest": digest.hexdigest()}


def _begun(file: LogFile) -> hashlib.blake2b:
    """Return a hash that has begun with the first row of a segment: its lines do not tell what was asked."""
    digest = hashlib.blake2b(digest_size=16)
    if file.dimensions is not None and file.rows_path.is_file():
        with file.rows_path.open("rb") as stream:
            digest.update(stream.read(file.dimensions * ROW_TYPE.itemsize))
    return digest


def _whole_bytes(file: LogFile) -> tuple[int, bool]:
    """Return how many bytes of a file are whole lines, and whether a part of a line follows.

    The last line of JSON may lack its end; that of a table of texts may go on, so that it waits for its end.
    """
    path, size = file.path, byte_count(file.path)
    if file.dimensions is not None:
        return line_end(path, whole_rows(file.rows_path, file.dimensions)), False
    if form_of(path) not in LIVE or ends_in_line(path, size):
        return size, False
    last = _last_line_start(path, size)
    if form_of(path) in JSON_LINES and _is_json(path, last):
        return size, False
    return last, True


def _last_line_start(path: Path, size: int) -> int:
    with unpacked(path) as stream:
        end = size
        while end > 0:
            start = max(0, end - CHUNK_BYTES)
            stream.seek(start)
            at = stream.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0


def _is_json(path: Path, start: int) -> bool:
    import json

    with unpacked(path) as stream:
        stream.seek(start)
        try:
            return isinstance(json.loads(stream.read().decode()), dict)
        except (ValueError, RecursionError):
            return False
