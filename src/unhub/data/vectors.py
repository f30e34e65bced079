"""Vectors: ids and rows, in memory or mapped from disk, checked on input and read block by block."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from unhub.arrays import Float32, Float64, Ids, Kind, rows_per_block, spans, unit
from unhub.data.ids import as_ids, is_integer, join_ids, positions_of
from unhub.data.tensors import Exchangeable, TensorRows, as_host
from unhub.errors import ArgumentError
from unhub.frames.frames import HasArrow, column_rows, is_column, is_table
from unhub.kernels import Kernel

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
SAFE_SHIFT = 1e30  # subtracting it from a finite float32 never overflows: the largest ones are 2e31 apart
CHECKED_ENTRIES = 1 << 18  # numbers at a time


class Rows(Protocol):
    """The part of the array interface needed to read (n, d) rows in blocks; numpy arrays and memory maps have it."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    def __getitem__(self, key: slice, /) -> NDArray[np.generic]: ...


class Stacked:
    """Several row sources, one below the other, without copying them."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self.parts = tuple(parts)
        if not self.parts:
            raise ArgumentError("parts", "is empty", "give at least one")
        widths = {part.shape[1] for part in self.parts}
        if len(widths) > 1:
            raise ArgumentError("parts", f"have different numbers of dimensions: {sorted(widths)}")
        self.starts = np.cumsum([0, *(part.shape[0] for part in self.parts)])
        self.shape = (int(self.starts[-1]), self.parts[0].shape[1])
        self.dtype = np.result_type(*(part.dtype for part in self.parts))

    def __repr__(self) -> str:
        first = getattr(self.parts[0], "name", type(self.parts[0]).__name__)
        return f"Stacked(shape={self.shape}, dtype={self.dtype}, parts={len(self.parts)}, first={first!r})"

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        start, stop, step = key.indices(self.shape[0])
        if step != 1:
            return take(self, np.arange(start, stop, step))
        if stop <= start:
            return self.parts[0][0:0]
        first, last = (int(owner) - 1 for owner in np.searchsorted(self.starts, (start, stop - 1), side="right"))
        if first == last:
            before = int(self.starts[first])
            return self.parts[first][start - before : stop - before]
        out = np.empty((stop - start, self.shape[1]), self.dtype)
        for part, before in zip(self.parts[first : last + 1], self.starts[first : last + 1].tolist(), strict=True):
            # One at a time: each piece may be of a file that is mapped, and a process can open some only.
            out[max(before - start, 0) : before + part.shape[0] - start] = part[max(start - before, 0) : stop - before]
        return out

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return _in_memory(self, dtype, copy)


@runtime_checkable
class TakesRows(Protocol):
    """Rows that can be read at many positions at once, faster than one by one."""

    def take_rows(self, positions: NDArray[np.int64]) -> NDArray[np.generic]:
        """Copy the rows at these positions, in this order."""


class Gathered:
    """Some rows of a source, by position, copied only when read."""

    def __init__(self, rows: Rows, positions: NDArray[np.int64]) -> None:
        self.rows, self.positions = rows, positions
        self.shape = (len(positions), rows.shape[1])
        self.dtype = rows.dtype

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        return take(self.rows, self.positions[key])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return _in_memory(self, dtype, copy)


def _in_memory(rows: Rows, dtype: DTypeLike | None, copy: bool | None) -> NDArray[np.generic]:
    """Return all rows as one array, for numpy's `__array__`."""
    if copy is False:
        raise ArgumentError(
            "copy", "is False, but rows from several sources become one array only by copying", "leave it out"
        )
    return np.asarray(rows[:], dtype)


def take(rows: Rows, positions: NDArray[np.int64]) -> NDArray[np.generic]:
    """Copy the rows at these positions, in this order."""
    if isinstance(rows, np.ndarray):
        return cast("NDArray[np.generic]", rows[positions])
    if isinstance(rows, Gathered):
        return take(rows.rows, rows.positions[positions])
    if isinstance(rows, TakesRows):
        return rows.take_rows(positions)
    out = np.empty((len(positions), rows.shape[1]), rows.dtype)
    if isinstance(rows, Stacked):
        owner = np.searchsorted(rows.starts, positions, side="right") - 1
        for part in np.unique(owner):
            mine = owner == part
            out[mine] = take(rows.parts[part], positions[mine] - rows.starts[part])
        return out
    for place, position in enumerate(positions):
        out[place] = rows[int(position) : int(position) + 1][0]
    return out


def at_hand(rows: Rows) -> bool:
    """Return whether single rows are read as fast as neighbours: in memory or mapped, and not in pieces of files."""
    if isinstance(rows, Gathered):
        return at_hand(rows.rows)
    if isinstance(rows, Stacked):
        return all(map(at_hand, rows.parts))
    return isinstance(rows, np.ndarray | TensorRows) or getattr(rows, "is_mapped", False)


def reads_from(rows: Rows, path: Path) -> bool:
    """Return whether rows are read from a file while they are used: one that is mapped, under any of its names."""
    if isinstance(rows, Gathered):
        return reads_from(rows.rows, path)
    if isinstance(rows, Stacked):
        return any(reads_from(part, path) for part in rows.parts)
    base: object = rows
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    file = base.filename if isinstance(base, np.memmap) else getattr(base, "path", None)
    return file is not None and path.exists() and Path(file).exists() and path.samefile(file)


def with_others(rows: Rows, places: NDArray[np.int64], others: Rows) -> Rows:
    """Return rows with others in these places; only the others are copied, and rows that are in no place are let go.

    What is put in again and again is one array beside the source, which may be mapped: at most twice as many rows.
    """
    count = rows.shape[0]
    if len(places) == count:
        return Gathered(others, np.argsort(places))
    source, order = rows, np.arange(count)
    if isinstance(rows, Gathered) and isinstance(rows.rows, Stacked) and all(map(_in_ram, rows.rows.parts[1:])):
        source, order = rows.rows, rows.positions.copy()
    parts = [*source.parts] if isinstance(source, Stacked) else [source]
    order[places] = source.shape[0] + np.arange(len(places))
    found = Gathered(Stacked([*parts, np.asarray(others[:])]), order)
    if found.rows.shape[0] <= 2 * count:
        return found
    first = parts[0].shape[0]
    put = np.flatnonzero(order >= first)
    copied = take(found, put)
    if len(put) == count:
        return cast("Rows", copied)
    order[put] = first + np.arange(len(put))
    return Gathered(Stacked([parts[0], copied]), order)


def _in_ram(rows: Rows) -> bool:
    return isinstance(rows, np.ndarray) and not isinstance(rows, np.memmap)


def stacked(parts: Sequence[NDArray[np.generic]]) -> NDArray[np.generic] | Stacked:
    """Return matrices as one set of rows, without copying them."""
    if len(parts) > 1:
        return Stacked(parts)
    return parts[0] if parts else np.empty((0, 0), np.float32)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Ids and rows: `rows` is (n, d), `ids` names each row (integers or strings, without repeats, -1 or "").

    `weights`, (n,), say how often each row counts where the rows are a bank, finite and above 0; None means once.
    `unit_length` says that every row is known to have length one and needs no scaling under cosine.
    """

    ids: Ids
    rows: Rows
    weights: Float64 | None = None
    unit_length: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _host(self.rows, "rows"))
        if len(getattr(self.ids, "shape", ())) == 2 and len(getattr(self.rows, "shape", (0,))) == 1:
            raise ArgumentError("ids", "is a matrix and rows is not", "give the ids first, then the rows")
        if not hasattr(self.rows, "shape"):
            raise ArgumentError(
                "rows", f"must be an array (n, d), got {type(self.rows).__name__}", "make it a numpy array"
            )
        count = len(self.rows.shape) and self.rows.shape[0]
        object.__setattr__(self, "ids", as_ids(self.ids, count, "ids"))
        if self.weights is not None:
            object.__setattr__(self, "weights", as_weights(self.weights, count))

    @classmethod
    def from_frame(
        cls, frame: object, *, vector: str | None = None, id: str | None = None, weight: str | None = None
    ) -> Vectors:
        """Return the rows and the ids of a table of pandas, polars or Arrow, shared with it where that is possible.

        vector: the column of lists of numbers; if it is left out, `embedding`, else the only one of floating numbers.
        id: the column of ids; if it is left out, `id`, else the only one that is named like ids, else the index of
        pandas, else 0, 1, ... If there is no column of lists and all others are of numbers, these are the dimensions.
        weight: of a bank, the column that says how often each query counts.
        """
        if not is_table(frame):
            raise ArgumentError("frame", f"must be a table of pandas, polars or Arrow, got {type(frame).__name__}")
        return as_vectors(_of_table(frame, "frame", vector, id, weight), "frame")

    def __len__(self) -> int:
        return self.rows.shape[0]

    @property
    def dimensions(self) -> int:
        return self.rows.shape[1]

    def blocks(self, rows: int | None = None) -> Iterator[tuple[int, Float32]]:
        """Yield (first row, block); each block is a float32 copy or view of the unscaled rows."""
        for start, stop in spans(len(self), rows or rows_per_block(self.dimensions)):
            yield start, self.block(start, stop)

    def block(self, start: int, stop: int) -> Float32:
        """Return rows start..stop in float32, C order; it may be a view of the source, so do not write to it."""
        with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite, which `inspect` rejects
            return np.ascontiguousarray(self.rows[start:stop], dtype=np.float32)

    def ready_block(self, start: int, stop: int, similarity: Kind, kernel: Kernel) -> Any:
        """Return rows start..stop where the kernel computes, ready to multiply; rows that are there are not copied."""
        rows: Any = self.block_there(start, stop) if kernel.ON_DEVICE else self.block(start, stop)
        return kernel.ready(rows, self.want_scaling(start, stop, similarity))

    def block_there(self, start: int, stop: int) -> Any:
        """Return rows start..stop where they are: a tensor on its device, else as `block` does."""
        rows = self.rows
        if isinstance(rows, TensorRows):
            return rows.tensor[start:stop]
        if isinstance(rows, Gathered) and isinstance(rows.rows, TensorRows):
            return rows.rows.gather(rows.positions[start:stop])
        return self.block(start, stop)

    def unit_block(self, start: int, stop: int, similarity: Kind) -> Float32:
        """Return rows start..stop ready to multiply, of length one under cosine; it may be a view, as in `block`."""
        block = self.block(start, stop)
        return unit(block) if self.want_scaling(start, stop, similarity) else block

    def want_scaling(self, start: int, stop: int, similarity: Kind) -> bool:
        """Return whether rows start..stop, which have been read, must be scaled before they are multiplied."""
        return similarity == "cosine" and not self.are_unit(start, stop)

    def are_unit(self, start: int, stop: int) -> bool:
        """Return whether rows start..stop, which have been read, are known to have length one."""
        return self.unit_length

    def seen(self, unit_length: bool) -> Vectors:
        """Return the same vectors, noting whether every row is known to have length one."""
        known = copy.copy(self)
        object.__setattr__(known, "unit_length", unit_length)
        return known

    def again(self) -> Vectors:
        """Return the same vectors as if they came from a caller, with nothing known about their lengths."""
        return Vectors(self.ids, self.rows, self.weights)

    def weighing(self, weights: ArrayLike | None) -> Vectors:
        """Return the same vectors with these weights, one for each row; None for none."""
        weighed = copy.copy(self)
        object.__setattr__(weighed, "weights", None if weights is None else as_weights(weights, len(self)))
        return weighed

    def gather(self, positions: NDArray[np.int64]) -> Vectors:
        """Return the vectors at these positions, in this order; bare ones stay bare."""
        if isinstance(self.rows, Gathered):
            rows = Gathered(self.rows.rows, self.rows.positions[positions])
        else:
            rows = Gathered(self.rows, positions)
        if not len(self.ids):
            return _bare(rows, self.unit_length)
        weights = None if self.weights is None else self.weights[positions]
        return Vectors(self.ids[positions], rows, weights).seen(self.unit_length)

    def among(self, ids: object) -> Vectors:
        """Return the vectors with these ids, in their order; raise if one is missing."""
        return self.gather(positions_of(ids, self.ids, "ids"))

    def bare(self) -> Vectors:
        """Return only the rows, without ids or what else is known of them, to be sent to another process."""
        return _bare(self.rows, self.unit_length)

    def stack(self, other: Vectors) -> Vectors:
        """Return these vectors followed by the others, whose ids must all be new; rows without weights weigh 1."""
        rows, weights = Stacked([self.rows, other.rows]), None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate(
                [np.ones(len(one)) if one.weights is None else one.weights for one in (self, other)]
            )
        return Vectors(join_ids(self.ids, other.ids), rows, weights).seen(self.unit_length and other.unit_length)


def _bare(rows: Rows, unit_length: bool) -> Vectors:
    """Return vectors without ids."""
    bare = object.__new__(Vectors)  # whose check would ask for an id for each row
    bare.__dict__.update(ids=np.arange(0), rows=rows, weights=None, unit_length=unit_length)
    return bare


def as_weights(weights: ArrayLike, count: int) -> Float64:
    """Return one weight for each of `count` bank queries, finite and above 0."""
    try:
        array: Float64 = np.asarray(as_host(weights, "weights"), np.float64)
    except (TypeError, ValueError):
        raise ArgumentError("weights", f"must be numbers, got {type(weights).__name__}", "give one per query") from None
    if array.shape != (count,):
        raise ArgumentError(
            "weights", f"has shape {array.shape}, the bank {count} queries", "give one weight per query"
        )
    wrong = np.flatnonzero(~((array > 0) & (array < np.inf)))
    if len(wrong):
        raise ArgumentError(
            "weights",
            f"must be finite and above 0, got {array[wrong[0]]:g} for bank query {wrong[0]}",
            "leave out queries that do not count",
        )
    return array


@runtime_checkable
class HoldsVectors(Protocol):
    """What can read its vectors when they are needed, for example a store."""

    def vectors(self) -> Vectors:
        """Read them all; they may be mapped from disk."""


@runtime_checkable
class GivesVectors(Protocol):
    """What has vectors beside other things, for example a query log."""

    def to_vectors(self, name: str) -> Vectors:
        """Return them with their ids, or raise; errors call the whole `name`."""


@runtime_checkable
class HasSource(HoldsVectors, Protocol):
    """What holds vectors that may be made of others, to which new items come."""

    def source(self) -> HoldsVectors:
        """Return what they were made of; itself if of nothing else."""


VectorsLike: TypeAlias = Vectors | Rows | ArrayLike | Exchangeable | HoldsVectors | GivesVectors | HasArrow


def as_vectors(value: VectorsLike, name: str, axes: str = "(rows, dimensions)", least: int = 1) -> Vectors:
    """Return `value` as Vectors, with ids 0..n-1 if it has none; errors call it `name` and its two axes `axes`.

    least: how many rows there must be.
    """
    if is_table(value):
        value = _of_table(value, name)
    elif isinstance(value, GivesVectors):
        value = value.to_vectors(name)
    elif isinstance(value, HoldsVectors):
        value = value.vectors()
    given = value if isinstance(value, Vectors) else None
    rows = given.rows if given else _as_rows(value, name)
    if isinstance(rows, np.ma.MaskedArray):
        raise ArgumentError(name, "is a masked array, whose mask would be ignored", "fill it, or drop the masked rows")
    if len(rows.shape) != 2:
        raise ArgumentError(name, f"must be a matrix {axes}, got shape {tuple(rows.shape)}")
    # The bfloat16 of other libraries is no floating type to numpy, which converts it all the same.
    numbers = np.issubdtype(rows.dtype, np.floating) or np.issubdtype(rows.dtype, np.integer)
    if not numbers and rows.dtype.name != "bfloat16":
        raise ArgumentError(name, f"must hold real numbers (float16, float32 or float64), got {rows.dtype}")
    if rows.shape[0] < least or rows.shape[1] == 0:
        raise ArgumentError(name, f"is empty: shape {tuple(rows.shape)} {axes}", "give at least one of each")
    return given.again() if given else Vectors(np.arange(rows.shape[0]), rows)


def _as_rows(value: object, name: str) -> Rows:
    if isinstance(value, str | os.PathLike):
        raise ArgumentError(name, f"must be vectors, got the text {os.fspath(value)!r}", "read the file first")
    value = _host(value, name)
    if isinstance(getattr(value, "dtype", None), np.dtype) and hasattr(value, "shape"):
        return cast("Rows", value)  # for example an HDF5 dataset, read block by block
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ArgumentError(name, f"is not a matrix: its rows differ in length ({error})") from None


def _of_table(
    table: object, name: str, vector: str | None = None, id_column: str | None = None, weight: str | None = None
) -> Vectors | Rows:
    """Return a table as vectors: a column of lists or columns of numbers, and perhaps ids and weights."""
    from unhub.frames.vector_frames import frame_vectors  # here: arrays do not need it

    parts, ids, weights = frame_vectors(table, name, vector, id_column, weight)
    rows = stacked(parts)
    if weights is None and ids is None:
        return rows
    count = rows.shape[0]
    return Vectors(np.arange(count) if ids is None else as_ids(ids, count, name), rows, weights)


def _host(value: object, name: str) -> object:
    """Return what numpy can read: a column of lists as a matrix, a tensor as an array; others as they are."""
    parts = column_rows(value, name) if is_column(value) else None
    return as_host(value, name) if parts is None else stacked(parts)


def as_texts(texts: Sequence[str]) -> NDArray[np.str_]:
    """Return texts as an array; raise a ValueError if one ends in NUL, which the array would drop."""
    if "\0" in "".join(texts) and any(text.endswith("\0") for text in texts):
        raise ValueError("an id ends in NUL, which an array of texts cannot hold")
    return np.array(texts, np.str_)


def as_plain(texts: Sequence[str]) -> Ids:
    """Return ids that were read as text: integers where all are plain ones ("7", not "007"), else strings."""
    if all(map(is_integer, texts)):
        return np.array([int(text) for text in texts], np.int64)
    return as_texts(texts)


def row_not_finite(matrix: NDArray[np.floating]) -> int | None:
    """Return the first row that holds NaN or infinity, or None if every number is finite."""
    for start, stop in spans(len(matrix), max(1, CHECKED_ENTRIES // max(1, matrix.shape[1]))):
        finite = np.isfinite(matrix[start:stop])
        if not finite.all():
            return start + int(finite.all(axis=1).argmin())
    return None


def not_finite(name: str, number: int, given: NDArray[np.generic]) -> ArgumentError:
    """Return the error for row `number` of the set `name`, which is not finite in float32; `given` is that row."""
    with np.errstate(over="ignore"):
        row = given.astype(np.float32)
    at = int(np.isfinite(row).argmin())
    if np.isfinite(given[at]):
        problem = f"holds {given[at]:g} in row {number}, which is beyond float32 ({LARGEST_FLOAT32:.6g} at most)"
        return ArgumentError(name, problem, "scale the numbers")
    return ArgumentError(name, f"holds {row[at]} in row {number}", "every number must be finite in float32")


def check_range(corrected: NDArray[np.floating]) -> None:
    """Raise if scores of finite similarities and biases, (queries, items), are outside the range of float32.

    That is possible only if strength * bias is above SAFE_SHIFT, so it is called only then.
    """
    if row_not_finite(corrected) is not None:
        problem = f"times a bias leaves corrected scores beyond {LARGEST_FLOAT32:.6g}, the largest float32"
        raise ArgumentError("strength", problem, "use a smaller one, or scale the vectors and refit")
