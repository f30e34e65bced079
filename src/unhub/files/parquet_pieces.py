"""Parquet shards: rows of the column of vectors, read in pieces of some row groups, or of a part of a large one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import spans
from unhub.files.local_file import LocalFile
from unhub.files.parquet import File, as_rows, intact, label_of, naming, opened, vector_column
from unhub.files.pieces import PIECE_BYTES
from unhub.files.remote import RemoteFile
from unhub.frames.arrow_columns import check_lists
from unhub.frames.frame_columns import NamedColumns

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


class Place(NamedTuple):
    """Where a piece is: in these row groups, and if it is part of a large one, how many such parts are before it."""

    groups: tuple[int, ...]
    part: int | None


class ParquetPieces:
    """A Parquet file as pieces; it is opened anew in each thread, and in another process.

    The sizes are from the footer; rows are checked as they are read, and the file must still be the one that was found.
    """

    def __init__(self, file: LocalFile | RemoteFile, open_files: OpenFiles, named: NamedColumns) -> None:
        self._open_files = open_files
        self._column, groups, width = "", list[int](), 0
        self.dtype: np.dtype[np.generic] = np.dtype(np.float32)
        with opened(file) as found:
            if found.metadata.num_rows:  # else there may be no column, or one of no lists, as pandas writes it
                self._column = vector_column(file, found, named)
                self.dtype = _number_type(file, found, self._column)
                groups, width = _sizes(file, found, self._column)
        self.file = file
        self.shape = (sum(groups), width)
        self._rows = max(1, PIECE_BYTES // max(1, width * self.dtype.itemsize))
        self._places, sizes = _cut(groups, self._rows)
        self.starts: NDArray[np.int64] = np.cumsum([0, *sizes])

    def read_piece(self, number: int) -> NDArray[np.generic]:
        """Read and check the rows of a piece."""
        place, before = self._places[number], int(self.starts[number])
        try:
            with intact(self.file):
                reading = self._open_files.reading(self.file, self._column)
                column = reading.whole(place.groups) if place.part is None else reading.part(place, self._rows)
                column.validate(full=True)
        finally:
            self.file.check()  # in another file anything may be wrong
        rows = np.asarray(as_rows(self.file, column, self._column, before))
        expected = (int(self.starts[number + 1]) - before, self.shape[1])
        if rows.shape != expected:
            raise ValueError(f"{self.file}: holds {rows.shape} numbers from row {before} on, and not {expected}")
        return rows


class OpenFiles:
    """The Parquet file that each thread has open, one at a time of all the shards of a set.

    A copy for another process has none.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def __reduce__(self) -> tuple[type[OpenFiles], tuple[()]]:
        return OpenFiles, ()

    def reading(self, file: File, column: str) -> _Reading:
        """Return the open file of this thread, for one of its columns."""
        held: _Reading | None = getattr(self._local, "held", None)
        if held is None or (held.file, held.column) != (file, column):
            held = self._local.held = _Reading(file, column)
        return held


class _Reading:
    """A Parquet file that one thread reads, and how far it has come in a large row group."""

    def __init__(self, file: File, column: str) -> None:
        self.file, self.column = file, column
        self._stack = ExitStack()
        self._file: pyarrow.parquet.ParquetFile = self._stack.enter_context(opened(file))
        self._group, self._next = -1, 0
        self._parts: Iterator[pyarrow.ChunkedArray] = iter(())

    def __del__(self) -> None:
        self._stack.close()

    def whole(self, groups: tuple[int, ...]) -> pyarrow.ChunkedArray:
        """Return the column of whole row groups."""
        return self._file.read_row_groups(list(groups), columns=[self.column], use_threads=False).column(self.column)

    def part(self, place: Place, rows: int) -> pyarrow.ChunkedArray:
        """Return a part of the column of a row group, which can only be read from its beginning."""
        import pyarrow

        (group,), wanted = place.groups, int(place.part or 0)
        if group != self._group or wanted < self._next:
            self._group, self._next = group, 0
            self._parts = self._file.iter_batches(rows, row_groups=[group], columns=[self.column], use_threads=False)
        try:
            for batch in self._parts:
                self._next += 1
                if self._next > wanted:
                    return pyarrow.chunked_array([batch.column(self.column)])
        except BaseException:
            self._group = -1  # the batches end after an error: begin again
            raise
        self._group = -1
        raise ValueError(f"{self.file}: row group {group} has fewer rows than the file says")


def _cut(groups: list[int], most: int) -> tuple[list[Place], list[int]]:
    """Return pieces of at most `most` rows, and their sizes: several row groups each, or a part of a large one."""
    places: list[Place] = []
    sizes: list[int] = []
    room = 0  # in the last piece
    for group, rows in enumerate(groups):
        if rows == 0:
            continue
        if rows > most:
            parts = list(spans(rows, most))
            places += [Place((group,), part) for part in range(len(parts))]
            sizes += [stop - start for start, stop in parts]
            room = 0
        elif rows <= room:
            places[-1] = Place((*places[-1].groups, group), None)
            sizes[-1] += rows
            room -= rows
        else:
            places.append(Place((group,), None))
            sizes.append(rows)
            room = most - rows
    return places, sizes


def _number_type(file: File, found: pyarrow.parquet.ParquetFile, column: str) -> np.dtype[np.generic]:
    """Return the type of the numbers in the lists of a column."""
    with naming(file):
        kind = check_lists(found.schema_arrow.field(column).type, label_of(column))
    dtype: np.dtype[np.generic] = np.dtype(kind.value_type.to_pandas_dtype())
    return dtype


def _sizes(file: File, found: pyarrow.parquet.ParquetFile, column: str) -> tuple[list[int], int]:
    """Return the rows of each row group, and the length of the lists, by the footer."""
    import pyarrow

    about, kind = found.metadata, found.schema_arrow.field(column).type
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    (leaf,) = [
        number
        for number in range(about.num_columns)
        if about.schema.column(number).path == column or about.schema.column(number).path.startswith(f"{column}.")
    ]
    rows = [int(group.num_rows) for group in groups]
    if pyarrow.types.is_fixed_size_list(kind):
        return rows, int(kind.list_size)
    numbers = sum(int(group.column(leaf).num_values) for group in groups)
    if sum(rows) and numbers % sum(rows):
        problem = f"{numbers} numbers in {sum(rows)} lists, which differ in length or are empty"
        raise ValueError(f"{file}: {label_of(column)} has {problem}; embed all with one model")
    return rows, numbers // sum(rows) if sum(rows) else 0
