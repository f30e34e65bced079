"""Query logs in tables of pandas, polars and Arrow: their rows as lines of a log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

from unhub.errors import ArgumentError
from unhub.files.log_gathering import LogColumns
from unhub.files.log_lines import BATCH_ROWS, LogLine, column_values
from unhub.frames.frames import HasArrow, naming_column, open_frame

LogLike: TypeAlias = str | os.PathLike[str] | HasArrow


def log_name(log: LogLike, name: str = "log") -> str:
    """Return what errors call a log: its path; a table, as its argument."""
    return os.fspath(log) if isinstance(log, str | os.PathLike) else name


def frame_lines(table: HasArrow, name: str, columns: LogColumns, first: int = 0) -> Iterator[LogLine]:
    """Yield the rows from one on, numbered from 0; only columns of a log are read. Errors call the table `name`."""
    frame = open_frame(table, name)
    keys = [*dict.fromkeys(columns.found_in(frame.names).values())]  # one column may be two fields
    if not keys:
        raise ArgumentError(name, f"has the columns {', '.join(frame.names) or 'none'}; {columns.wanted}")
    if twice := next((key for key in keys if frame.names.count(key) > 1), None):
        raise ArgumentError(name, f"has the column `{twice}` more than once", "name each column once")
    with naming_column(name, table):
        held = {key: frame.arrow(key) for key in keys}
    for start in range(first, len(held[keys[0]]), BATCH_ROWS):
        parts = {key: column.slice(start, BATCH_ROWS).chunks for key, column in held.items()}
        values = {key: [one for chunk in chunks for one in column_values(chunk)] for key, chunks in parts.items()}
        for place, row in enumerate(zip(*values.values(), strict=True), start):
            yield LogLine(place, dict(zip(keys, row, strict=True)))


def row_bytes(row: Mapping[str, object]) -> bytes:
    """Return bytes that are the same for the same row."""
    told = [(key, one.tobytes() if isinstance(one, np.ndarray) else str(one)) for key, one in row.items()]
    return repr(told).encode()
