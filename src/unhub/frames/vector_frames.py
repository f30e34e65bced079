"""Vectors in a table of pandas, polars or Arrow: a column of lists, or columns of numbers; their ids and weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unhub.errors import ArgumentError
from unhub.frames.arrow_columns import parts_of, weights_of
from unhub.frames.frame_columns import ID_LIKE_NAME, NamedColumns
from unhub.frames.frames import Frame, column_names, library_of, naming_column, open_frame

HOW = 'unhub.Vectors.from_frame(frame, {argument}="{name}")'
# What pandas calls an index that was written as a column: by to_csv, reset_index or to_parquet.
INDEX_NAME = re.compile(r"Unnamed: \d+|index|level_\d+|__index_level_\d+__")


def frame_vectors(
    value: Any, name: str, vector: str | None = None, id_column: str | None = None, weight: str | None = None
) -> tuple[list[NDArray[np.generic]], Any, NDArray[np.float64] | None]:
    """Return the rows, the ids and the weights, or None for these two, of a table.

    vector, id_column, weight: the columns, if they are named.
    """
    columns, weights = NamedColumns(vector, id_column, HOW, weight), None
    if weight is not None:
        frame = open_frame(value, name)
        with naming_column(name, value):
            columns.weight_of(frame.names)
            weights = weights_of(frame.arrow(weight), f"the column `{weight}`")
    matrix = None if columns.vector is not None else _matrix(value, name, columns)
    if matrix is not None:
        return *matrix, weights
    frame = open_frame(value, name)
    with naming_column(name, value):
        vectors = columns.vector_of(frame.names, frame.is_vectors)
        rows = parts_of(frame.arrow(vectors), f"the column `{vectors}`")
        named = columns.id_of(frame.names, frame.may_be_ids)
    return rows, _index_ids(value, name) if named is None else _ids_of(frame, named, name), weights


def _matrix(value: Any, name: str, columns: NamedColumns) -> tuple[list[NDArray[np.generic]], Any] | None:
    """Return the rows and the ids of a table that is a matrix: but for ids and weights, all columns are of numbers."""
    frame, id_column = open_frame(value, name, with_index=False), columns.id
    places = [place for place, one in enumerate(frame.names) if one not in (id_column, columns.weight)]
    has_ids = frame.names.count(id_column) == 1
    if id_column is not None and not has_ids and [id_column] != getattr(getattr(value, "index", None), "names", None):
        return None
    kinds = {place: _kind_of(frame.read(place)) for place in places}
    like_ids = any(ID_LIKE_NAME.fullmatch(frame.names[place]) for place in places)
    if like_ids or {*kinds.values()} - {*"iuf"} or (frame.names and not places):
        return None
    mixed = "f" in kinds.values()
    stray = [
        frame.names[place]
        for place, kind in kinds.items()
        if (mixed and kind != "f") or INDEX_NAME.fullmatch(frame.names[place])
    ]
    if stray:
        problem = f"is of numbers, and the columns {stray} look like ids or an index among its dimensions"
        how = HOW.format(argument="id", name=stray[0])
        raise ArgumentError(
            name, problem, f"name the ids, as in {how}, drop the columns, or make them floating numbers"
        )
    if not has_ids:
        plain = all(_nullable(frame.read(place)) is None for place in range(len(frame.names)))
        whole = plain and len(places) == len(frame.names)
        return [np.asarray(value) if whole else _side_by_side(frame, places, name)], _index_ids(value, name)
    return [_side_by_side(frame, places, name)], _ids_of(frame, str(id_column), name)


def _side_by_side(frame: Frame, places: Sequence[int], name: str) -> NDArray[np.generic]:
    return np.column_stack([_numbers_of(frame.read(place), name, frame.names[place]) for place in places])


def _numbers_of(column: Any, name: str, label: str) -> NDArray[np.generic]:
    """Return a column of numbers as an array; an empty value of a nullable type of pandas is an error."""
    kind = _nullable(column)
    if kind is None:
        return np.asarray(column)
    empty = column.isna().to_numpy()
    if empty.any():
        raise ArgumentError(name, f"cannot be read: row {int(np.argmax(empty))} of the column `{label}` is empty")
    found: NDArray[np.generic] = column.to_numpy(kind)
    return found


def _nullable(column: Any) -> np.dtype[Any] | None:
    """Return numpy's type for a nullable one of pandas, which numpy would read as objects; None for any other."""
    return getattr(getattr(column, "dtype", None), "numpy_dtype", None)


def _ids_of(frame: Frame, column: str, name: str) -> Any:
    return column_names(frame.read(frame.names.index(column)), name, f"the column `{column}`")


def _index_ids(value: Any, name: str) -> Any:
    """Return the labels of an index of pandas as ids; None if it only numbers the rows, or there is none."""
    if library_of(value) != "pandas":
        return None
    index = value.index
    kind = getattr(index.dtype, "kind", "O")
    remedy = "give frame.reset_index(drop=True) to number the rows"
    if index.nlevels > 1 or kind not in "iuO":
        problem = f"has an index of {index.nlevels} levels" if index.nlevels > 1 else f"has an index of {index.dtype}"
        raise ArgumentError(name, f"{problem}, which cannot be ids", remedy)
    if not index.is_unique:
        again = index[index.duplicated()].tolist()[0]
        raise ArgumentError(
            name, f"has the label {again!r} more than once in its index, whose labels are the ids", remedy
        )
    labels = column_names(index, name, "the index")
    return None if kind in "iu" and np.array_equal(labels, np.arange(len(index))) else labels


def _kind_of(column: Any) -> str:
    """Return numpy's letter for the type of a column."""
    if library_of(column) == "pandas":
        return str(getattr(column.dtype, "kind", "O"))
    if library_of(column) == "polars":
        return "i" if column.dtype.is_integer() else "f" if column.dtype.is_numeric() else "O"
    import pyarrow.types as types

    return "i" if types.is_integer(column.type) else "f" if types.is_floating(column.type) else "O"
