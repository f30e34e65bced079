"""Frames and columns of pandas, polars and Arrow as arrays; none of these is imported unless an object is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unhub.errors import ArgumentError, optional

SOME_ROWS = 8  # that tell the type of a column of objects
LAZY = ("LazyFrame", "LazyGroupBy")


class HasArrow(Protocol):
    """A table or a column that others can read where it is: of pandas, polars, Arrow and others."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


def library_of(value: object) -> str:
    """Return which library a frame or a column is of: pandas, polars or pyarrow, "" for anything else."""
    for one in type(value).__mro__:
        name = one.__module__.partition(".")[0]
        if name in READERS and one.__name__ in KINDS:
            return name
    return ""


# The classes of tables and of columns, by name: their libraries may not be there.
TABLES = ("DataFrame", "LazyFrame", "Table", "RecordBatch")
COLUMNS = ("Series", "Index", "Array", "ChunkedArray")
KINDS = (*TABLES, *COLUMNS)


def is_table(value: object) -> bool:
    """Return whether a value is a table of pandas, polars or Arrow."""
    return bool(library_of(value)) and any(one.__name__ in TABLES for one in type(value).__mro__)


def is_column(value: object) -> bool:
    """Return whether a value is one column of such a table."""
    return bool(library_of(value)) and not is_table(value)


@dataclass(frozen=True)
class Frame:
    """A table: the names of its columns, and what reads one of them as a column of its library."""

    library: str
    names: Sequence[str]
    read: Callable[[int], Any]

    def arrow(self, name: str) -> Any:
        """Return a column as one of Arrow."""
        return READERS[self.library](self.read(self.names.index(name)))

    def is_vectors(self, name: str) -> bool:
        """Return whether a column is of lists of floating numbers."""
        from unhub.frames.arrow_columns import is_float_lists

        column = self.read(self.names.index(name))
        return _may_be_lists(column) and is_float_lists(READERS[self.library](column[:SOME_ROWS]).type)

    def may_be_ids(self, name: str) -> bool:
        """Return whether a column is one that ids may have, and no lists."""
        return not _may_be_lists(self.read(self.names.index(name)))


def open_frame(value: Any, name: str, with_index: bool = True) -> Frame:
    """Return a table by its columns, of which a named index of pandas is one; errors call it `name`."""
    library = library_of(value)
    if type(value).__name__ in LAZY:
        raise ArgumentError(name, "is a LazyFrame, which holds no rows yet", "give it with .collect()")
    if library == "pandas":
        if with_index and value.index.names != [None]:  # a column that was made the index is still a column
            value = value.reset_index()
        return Frame(library, [str(one) for one in value.columns], lambda place: value.iloc[:, place])
    if library == "polars":
        return Frame(library, list(value.columns), lambda place: value.to_series(place))
    return Frame(library, list(value.schema.names), lambda place: value.column(place))


@contextmanager
def naming_column(name: str, value: object) -> Iterator[None]:
    """Turn what is wrong with a column into an error about the argument."""
    optional("pyarrow", "parquet", f"{name}, a {type(value).__name__} of {library_of(value)},")
    import pyarrow

    from unhub.frames.frame_columns import WrongColumn

    try:
        yield
    except WrongColumn as error:
        raise ArgumentError(name, f"cannot be read: {error}") from None
    except (pyarrow.ArrowException, TypeError) as error:
        problem = f"cannot be read as a column of one kind ({' '.join(str(error).split())})"
        raise ArgumentError(name, problem, "give lists of numbers, or a numpy array") from None


def column_rows(column: Any, name: str) -> list[NDArray[np.generic]] | None:
    """Return a column of lists as matrices, without a copy where its library allows it; None if it holds no lists."""
    if not _may_be_lists(column):
        return None
    from unhub.frames.arrow_columns import parts_of

    with naming_column(name, column):
        return parts_of(READERS[library_of(column)](column), "the column")


def column_names(column: Any, name: str, label: str = "the column") -> Any:
    """Return a column of ids as what numpy reads: UUIDs are text; an empty value is an error."""
    from unhub.frames.arrow_columns import names_of
    from unhub.frames.uuids import without_uuids

    library = library_of(column)
    if library == "pyarrow":
        with naming_column(name, column):
            return names_of(_of_arrow(column), label)
    empty = np.asarray(column.isna() if library == "pandas" else column.is_null())
    if empty.any():
        raise ArgumentError(name, f"cannot be read: row {int(np.argmax(empty))} of {label} is empty")
    held = np.array(column.to_list(), object) if str(column.dtype) == "Object" else np.asarray(column)
    return without_uuids(held)


def plain_ids(ids: object, name: str) -> object:
    """Return ids as what numpy reads, whether they are a column of a frame or UUIDs; any others as they are."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind != "O":
        return ids
    if is_column(ids):
        return column_names(ids, name)
    from unhub.frames.uuids import without_uuids  # here: arrays of integers and texts do not need it

    return without_uuids(ids)


def frame_columns(value: Any, name: str, wanted: Sequence[str], also: Sequence[str]) -> list[Any]:
    """Return these columns of a table, and those others that it has, as what numpy reads."""
    frame = open_frame(value, name)
    missing = next((one for one in wanted if one not in frame.names), None)
    twice = next((one for one in (*wanted, *also) if [*frame.names].count(one) > 1), None)
    if missing or twice:
        problem = f"`{missing}` is required" if missing else f"`{twice}` must occur only once"
        raise ArgumentError(name, f"has columns {[*frame.names]}", problem)
    there = [one for one in (*wanted, *also) if one in frame.names]
    return [column_names(frame.read(frame.names.index(one)), name, f"the column `{one}`") for one in there]


def _may_be_lists(column: Any) -> bool:
    """Return whether a column may hold lists, from its type and, where that says nothing, from its first value."""
    if library_of(column) == "pyarrow":
        from unhub.frames.arrow_columns import is_numeric_lists

        return is_numeric_lists(column.type) or _is_nested(column.type)
    kind = str(column.dtype)
    if library_of(column) == "polars":
        return kind.startswith(("List", "Array"))
    if "list" in kind:
        return True
    if getattr(column.dtype, "kind", "O") != "O" or kind != "object":
        return False
    first = next((one for one in column if one is not None and one is not np.nan), None)
    return isinstance(first, list | tuple | np.ndarray) or hasattr(first, "__dlpack__")


def _is_nested(kind: Any) -> bool:
    return bool(kind.num_fields)


def _of_pandas(column: Any) -> Any:
    import pyarrow

    return _of_arrow(pyarrow.array(column, from_pandas=True))


def _of_polars(column: Any) -> Any:
    return _of_arrow(column.to_arrow())


def _of_arrow(column: Any) -> Any:
    """Return an array or a chunked one as a chunked one."""
    import pyarrow

    return column if isinstance(column, pyarrow.ChunkedArray) else pyarrow.chunked_array([column])


READERS: dict[str, Callable[[Any], Any]] = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}
