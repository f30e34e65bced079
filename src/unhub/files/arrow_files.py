"""Reader of tables of Arrow: .arrow and .feather files, folders of Hugging Face's `save_to_disk`, folders of Lance.

The first two hold Arrow's own layout and are mapped: a column of fixed lists is the matrix itself, unless it is
compressed. Lance is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from unhub.data.vectors import stacked
from unhub.errors import optional
from unhub.files.numpy_files import FoundRows
from unhub.files.parquet import as_array, intact, label_of, naming
from unhub.frames.arrow_columns import check_lists, columns_like_ids, is_float_lists, may_be_ids, parts_of, weights_of
from unhub.frames.frame_columns import NamedColumns, WrongColumn

if TYPE_CHECKING:
    import pyarrow

FILE_MARK, OLD_FEATHER_MARK = b"ARROW1", b"FEA1"
KIND = "an Arrow file"
# What Hugging Face writes beside the rows.
ABOUT, STATE, SPLITS = "dataset_info.json", "state.json", "dataset_dict.json"


def read_arrow(path: Path, named: NamedColumns) -> FoundRows:
    """Map the column of vectors of a file, and read that of the ids, if there is one, and of the weights, if named."""
    return _read(path, [path], named)


def is_dataset(path: Path) -> bool:
    """Return whether a folder is what `save_to_disk` of Hugging Face wrote."""
    return (path / SPLITS).is_file() or ((path / STATE).is_file() and (path / ABOUT).is_file())


def read_dataset(path: Path, named: NamedColumns) -> FoundRows:
    """Map the column of vectors of a data set on disk, whose files are in the order that it says."""
    if (path / SPLITS).is_file():
        splits = sorted(one.name for one in path.iterdir() if is_dataset(one))
        remedy = f"name one of them, such as {path / splits[0]}" if splits else "none of them is there"
        raise ValueError(f"{path}: holds the splits {splits}; {remedy}")
    state = path / STATE
    try:
        told = json.loads(state.read_bytes())
        names = [str(one["filename"]) for one in told["_data_files"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{state}: is not what `save_to_disk` wrote ({error})") from None
    if any(Path(name).name != name for name in names):
        raise ValueError(f"{state}: names files outside its folder")
    if told.get("_indices_files") or told.get("_indices_data_files"):
        raise ValueError(
            f"{path}: was saved with a selection of rows beside them; save it again with a newer `datasets`"
        )
    if not names:
        raise ValueError(f"{path}: holds no rows")
    return _read(path, [path / name for name in names], named)


def _read(source: Path, files: Sequence[Path], named: NamedColumns) -> FoundRows:
    with _opened(files[0]) as reader:
        schema = reader.schema
    with naming(source):
        vectors = named.vector_of(schema.names, lambda name: is_float_lists(schema.field(name).type))
        check_lists(schema.field(vectors).type, label_of(vectors))
    parts: list[NDArray[np.generic]] = []
    for file in files:
        column = _column(file, vectors)
        with naming(file):
            found = parts_of(column, label_of(vectors))
            if parts and found and found[0].shape[1] != parts[0].shape[1]:
                problem = f"has {found[0].shape[1]} numbers, row 0 of {files[0].name} has {parts[0].shape[1]}"
                raise WrongColumn(f"row 0 of {label_of(vectors)} {problem}; embed all with one model")
        parts += found
    return FoundRows(
        stacked(parts), lambda: _ids(source, files, schema, named), _weights(source, files, schema.names, named)
    )


def _ids(
    source: Path, files: Sequence[Path], schema: pyarrow.Schema, named: NamedColumns
) -> NDArray[np.generic] | None:
    with naming(source):
        name = named.id_of(schema.names, lambda one: may_be_ids(schema.field(one).type))
    if name is None:
        return None
    return np.concatenate([as_array(file, _column(file, name), name) for file in files])


def arrow_columns_like_ids(path: Path) -> list[str]:
    """Return the columns that may be ids by what they hold, if none is by its name."""
    with _opened(path) as reader:
        schema = reader.schema
    return columns_like_ids(schema, lambda name: _column(path, name))


def _weights(
    source: Path, files: Sequence[Path], names: Sequence[str], named: NamedColumns
) -> NDArray[np.float64] | None:
    with naming(source):
        name = named.weight_of(names)
        return (
            None
            if name is None
            else np.concatenate([weights_of(_column(file, name), label_of(name)) for file in files])
        )


def _column(file: Path, name: str) -> pyarrow.ChunkedArray:
    """Return one column of a file, mapped; of a compressed file, the others are unpacked too, a batch at a time."""
    with _opened(file) as reader, intact(file, KIND):
        with naming(file):
            NamedColumns(name).vector_of(reader.schema.names, lambda _: False)  # there once
        chunks = [batch.column(name) for batch in _batches(reader)]
        column = optional("pyarrow", "parquet", f"reading {file}").chunked_array(chunks, reader.schema.field(name).type)
        column.validate(full=True)
        return column


def _batches(reader: Any) -> Iterable[pyarrow.RecordBatch]:
    """Return the batches of a file of either form."""
    if hasattr(reader, "num_record_batches"):
        return map(reader.get_batch, range(reader.num_record_batches))
    return cast("Iterable[pyarrow.RecordBatch]", reader)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Map a file of either form."""
    file.stat()  # a missing file is a FileNotFoundError, whatever is installed
    pyarrow = optional("pyarrow", "parquet", f"reading {file}")
    ipc = optional("pyarrow.ipc", "parquet", f"reading {file}")
    with file.open("rb") as stream:
        mark = stream.read(len(FILE_MARK))
    if mark.startswith(OLD_FEATHER_MARK):
        raise ValueError(f"{file}: is Feather of version 1; write it again with pyarrow.feather.write_feather")
    with intact(file, KIND):
        reader = (ipc.open_file if mark == FILE_MARK else ipc.open_stream)(pyarrow.memory_map(str(file)))
        list(reader.schema.names)  # which may not be text
    yield reader


def read_lance(path: Path, named: NamedColumns) -> FoundRows:
    """Read the columns of vectors, ids and weights of a table of Lance, as they are now."""
    lancedb = optional("lancedb", "lancedb", f"reading {path}")
    with _of_lance(path):
        table = lancedb.connect(str(path.absolute().parent)).open_table(path.stem)
        schema = table.schema

    def column(name: str) -> pyarrow.ChunkedArray:
        with _of_lance(path):
            return table.search().select([name]).to_arrow().column(name)

    def ids() -> NDArray[np.generic] | None:
        with naming(path):
            name = named.id_of(schema.names, lambda one: may_be_ids(schema.field(one).type))
        return None if name is None else as_array(path, column(name), name)

    with naming(path):
        vectors = named.vector_of(schema.names, lambda name: is_float_lists(schema.field(name).type))
        check_lists(schema.field(vectors).type, label_of(vectors))
        weight = named.weight_of(schema.names)
        weights = None if weight is None else weights_of(column(weight), label_of(weight))
        return FoundRows(stacked(parts_of(column(vectors), label_of(vectors))), ids, weights)


@contextmanager
def _of_lance(path: Path) -> Iterator[None]:
    """Turn what Lance raises for a damaged table into a ValueError that names it."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path}: damaged or not a table of Lance ({' '.join(str(error).split())})") from None
