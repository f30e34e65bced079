"""Reader of Parquet files: a column `embedding` of lists, and optionally `id`; pyarrow is imported when needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.data.vectors import Rows, Stacked
from unhub.errors import optional
from unhub.files.numpy_files import FoundRows
from unhub.files.remote import RemoteFailure, RemoteFile

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

# Names of columns that probably hold ids: ids, ID, key, uuid, image_id, item-key, photoId.
ID_LIKE_NAME = re.compile(r"(?i:(.*[\W_])?(ids?|keys?|uids?|uuids?|guids?)_*)|.*[a-z0-9](Id|ID)s?")
EMBEDDING = "embedding"
BUFFER_BYTES = 1 << 20  # of a column that is read page by page

File: TypeAlias = Path | RemoteFile


def read_parquet(path: Path) -> FoundRows:
    """Read the rows of the column `embedding`, lists of one length, and the ids of the column `id`, if it is there."""
    return FoundRows(as_rows(path, _full(path, EMBEDDING)), lambda: read_parquet_ids(path))


def as_array(path: File, column: pyarrow.ChunkedArray) -> NDArray[np.generic]:
    """Return a column of integers or strings, read from this file, as an array."""
    import pyarrow

    try:
        values: NDArray[np.generic] = column.to_numpy()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: a column of {column.type} cannot be read as ids ({error})") from None
    return values


def columns_of(path: File) -> list[str]:
    """Return the names of a Parquet file's columns."""
    with opened(path) as file:
        return list(file.schema_arrow.names)


def read_column(path: File, name: str) -> pyarrow.ChunkedArray:
    """Read one column as it is."""
    with opened(path) as file:
        check_column(path, file, name)
        column = file.read(columns=[name]).column(name)
        column.validate(full=True)  # texts that are not UTF-8, lists that reach beyond their numbers
        return column


def check_column(path: File, file: pyarrow.parquet.ParquetFile, name: str) -> None:
    """Raise unless there is one column of this name."""
    names = list(file.schema_arrow.names)
    if names.count(name) != 1:
        wrong = "must occur only once" if name in names else "is required"
        raise ValueError(f"{path}: has columns {names}; `{name}` {wrong}")


def read_parquet_ids(path: File) -> NDArray[np.generic] | None:
    """Return the column `id`, or None where no column is named like one."""
    names = columns_of(path)
    if "id" in names:
        return as_array(path, _full(path, "id"))
    if like := next(filter(ID_LIKE_NAME.fullmatch, names), None):
        raise ValueError(
            f"{path}: has no column `id` but `{like}`; rename it to `id`, or give the ids in a file of their own"
        )
    return None


def _full(path: File, name: str) -> pyarrow.ChunkedArray:
    """Read one column; an empty value is an error."""
    column = read_column(path, name)
    check_full(path, column, name)
    return column


def check_full(path: File, column: pyarrow.ChunkedArray, name: str, before: int = 0) -> None:
    """Raise if a value of a column is empty; `before` rows of the file are before it."""
    if column.null_count:
        empty = before + next(row for row, value in enumerate(column.is_null().to_pylist()) if value)
        raise ValueError(f"{path}: row {empty} of the column `{name}` is empty")


@contextmanager
def opened(path: File) -> Iterator[pyarrow.parquet.ParquetFile]:
    """Open a Parquet file; what is wrong with its bytes is a ValueError that names it."""
    path.stat()  # a missing file is a FileNotFoundError, whatever is installed
    optional("pyarrow", "parquet", f"reading {path}")
    parquet = optional("pyarrow.parquet", "parquet", f"reading {path}")
    with (
        path.open("rb") as stream,
        intact(path),
        parquet.ParquetFile(stream, buffer_size=BUFFER_BYTES, pre_buffer=False) as file,
    ):
        yield file


@contextmanager
def intact(path: File) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged file into a ValueError that names it."""
    import pyarrow

    try:
        yield
    except RemoteFailure:
        raise
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        raise ValueError(f"{path}: truncated or not a Parquet file ({error})") from None


def check_lists(path: File, kind: pyarrow.DataType) -> None:
    """Raise unless the type of the column `embedding` is that of lists."""
    import pyarrow

    if not (pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)):
        raise ValueError(f"{path}: the column `embedding` holds {kind}; lists of numbers are required")


def as_rows(path: File, column: pyarrow.ChunkedArray, before: int = 0) -> Rows:
    """Return a column of lists as rows, stacked chunk by chunk, without a copy where pyarrow allows it.

    before: how many rows of the file are before the column, for errors.
    """
    check_lists(path, column.type)
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return np.empty((0, 0), np.float32)
    lengths = np.concatenate([_lengths(chunk) for chunk in chunks])
    if (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise ValueError(
            f"{path}: row {before + row} of the column `embedding` has {lengths[row]} numbers, row {before} has "
            f"{lengths[0]}; embed all with one model"
        )
    parts: list[NDArray[np.generic]] = []
    for chunk in chunks:
        values = chunk.flatten()
        if values.null_count:
            row = before + sum(len(part) for part in parts) + int(np.argmax(values.is_null())) // int(lengths[0])
            raise ValueError(f"{path}: row {row} of the column `embedding` has an empty place in it")
        parts.append(values.to_numpy(zero_copy_only=False).reshape(len(chunk), lengths[0]))
    return parts[0] if len(parts) == 1 else Stacked(parts)


def _lengths(chunk: pyarrow.Array) -> NDArray[np.int64]:
    import pyarrow

    if pyarrow.types.is_fixed_size_list(chunk.type):
        return np.full(len(chunk), chunk.type.list_size)
    lengths: NDArray[np.int64] = chunk.value_lengths().to_numpy()
    return lengths
