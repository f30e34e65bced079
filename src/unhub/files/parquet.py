"""Reader of Parquet files: a column of lists, perhaps ids and weights; pyarrow is imported when needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.data.vectors import Rows, stacked
from unhub.errors import optional
from unhub.files.local_file import LocalFile
from unhub.files.log_gathering import NAMES
from unhub.files.named_arrays import if_a_log
from unhub.files.numpy_files import FoundRows
from unhub.files.remote import RemoteFailure, RemoteFile
from unhub.frames.arrow_columns import columns_like_ids, is_float_lists, may_be_ids, names_of, parts_of, weights_of
from unhub.frames.frame_columns import NamedColumns, WrongColumn

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

BUFFER_BYTES = 1 << 20  # of a column that is read page by page

File: TypeAlias = Path | LocalFile | RemoteFile


def read_parquet(path: Path, named: NamedColumns) -> FoundRows:
    """Read the column of vectors, lists of one length, that of ids, if there is one, and of weights, if named."""
    with opened(path) as file:
        vectors = vector_column(path, file, named)
    rows = as_rows(path, read_column(path, vectors), vectors)
    return FoundRows(rows, lambda: read_parquet_ids(path, named), read_parquet_weights(path, named))


def vector_column(path: File, file: pyarrow.parquet.ParquetFile, named: NamedColumns) -> str:
    """Return the name of the column of vectors."""
    schema = file.schema_arrow
    try:
        return named.vector_of(schema.names, lambda name: is_float_lists(schema.field(name).type))
    except WrongColumn as error:
        hint = f"; {if_a_log(path)}" if {*schema.names} & {*NAMES["text"]} else ""
        raise ValueError(f"{path}: {error}{hint}") from None


def as_array(path: File, column: pyarrow.ChunkedArray, name: str) -> NDArray[np.generic]:
    """Return a column of integers, strings or UUIDs, read from this file, as an array."""
    with naming(path):
        return names_of(column, label_of(name))


def label_of(name: str) -> str:
    """Return what errors call a column."""
    return f"the column `{name}`"


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Name the file in what is wrong with a column of it."""
    try:
        yield
    except WrongColumn as error:
        raise ValueError(f"{path}: {error}") from None


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


def read_parquet_ids(path: File, named: NamedColumns) -> NDArray[np.generic] | None:
    """Return the column of ids, or None where no column is named like one."""
    with opened(path) as file:
        schema = file.schema_arrow
    with naming(path):
        name = named.id_of(schema.names, lambda one: may_be_ids(schema.field(one).type))
    return None if name is None else as_array(path, read_column(path, name), name)


def parquet_columns_like_ids(path: Path) -> list[str]:
    """Return the columns that may be ids by what they hold, if none is by its name."""
    with opened(path) as file:
        schema = file.schema_arrow
    return columns_like_ids(schema, lambda name: read_column(path, name))


def read_parquet_weights(path: File, named: NamedColumns) -> Float64 | None:
    """Return the column of weights, or None where none is named."""
    if named.weight is None:
        return None
    with naming(path):
        name = str(named.weight_of(columns_of(path)))
        return weights_of(read_column(path, name), label_of(name))


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
def intact(path: File, kind: str = "a Parquet file") -> Iterator[None]:
    """Turn what pyarrow raises for a damaged file into a ValueError that names it."""
    import pyarrow

    try:
        yield
    except RemoteFailure:
        raise
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        raise ValueError(f"{path}: truncated or not {kind} ({' '.join(str(error).split())})") from None


def as_rows(path: File, column: pyarrow.ChunkedArray, name: str, before: int = 0) -> Rows:
    """Return a column of lists as rows, stacked chunk by chunk, without a copy where pyarrow allows it.

    before: how many rows of the file are before the column, for errors.
    """
    with naming(path):
        return stacked(parts_of(column, label_of(name), before))
