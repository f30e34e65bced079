"""The one reader of vector files, chosen by the suffix; folders, patterns and remote files have their own."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.data.ids import as_ids, read_lines
from unhub.data.vectors import Rows, Vectors, as_plain, as_texts, as_vectors
from unhub.errors import ArgumentError, naming_file
from unhub.files.matrices import ARRAYS, Opener
from unhub.files.named_arrays import if_a_log, no_reader, refuse_pickle, split_name
from unhub.files.numpy_files import FoundRows, Reader, map_npy, named_rows, read_npy
from unhub.files.remote import shown
from unhub.frames.frame_columns import NamedColumns

Place: TypeAlias = str | os.PathLike[str]

LANCE = ".lance"


def _read_parquet(path: Path, name: str | None) -> FoundRows:
    from unhub.files.parquet import read_parquet  # here: most files do not need it

    return read_parquet(path, NamedColumns.written(name, path.name))


def _read_arrow(path: Path, name: str | None) -> FoundRows:
    from unhub.files.arrow_files import read_arrow

    return read_arrow(path, NamedColumns.written(name, path.name))


def _read_array(opener: Opener, path: Path, name: str | None) -> FoundRows:
    return named_rows(path, opener(path), name)


READERS: Mapping[str, Reader] = {
    ".npy": read_npy,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    **{suffix: partial(_read_array, opener) for suffix, opener in ARRAYS.items() if suffix != ".npy"},
}


def read_vectors(path: Place | Sequence[Place], *, ids: Place | None = None) -> Vectors:
    """Read ids and rows from a file, a folder, a pattern such as `items/*.parquet`, or a remote address.

    Of a file with several arrays (.npz, .safetensors, .mat, .h5, .pt), `features.mat#name` names one. Of a table
    (.parquet, .arrow, .feather, a folder of Lance or Hugging Face), `items.parquet#vector=clip,id=key` names columns,
    and `bank.parquet#weight=count` that of the weights of bank queries.

    A list of .npy or of .parquet files on a disk is read as one set, in the order of the list.

    .npy, .safetensors, uncompressed Arrow and folders stay on disk, mapped. Of several .npy or .parquet files, and of
    remote ones (s3://, gs://, https://), rows are read when they are asked for.

    `ids` is a file of ids (see `read_ids`), which takes precedence over those of the file itself. Without ids, rows
    are numbered from 0.
    """
    if isinstance(path, list | tuple):
        return _read_listed(path, ids)
    if not isinstance(path, str | os.PathLike):
        problem = f"must be a file, a folder, a pattern or a list of files, got {type(path).__name__}"
        raise ArgumentError("path", problem)
    with naming_file():
        if ids is not None:
            return name_rows(read_rows(path), read_ids(ids), str(ids))
        return as_vectors(read_as_held(path), shown(path))


def _read_listed(paths: Sequence[Place], ids: Place | None) -> Vectors:
    from unhub.files.shards import read_listed  # here: most files do not need it

    found = read_listed([os.fspath(one) for one in paths])
    with naming_file():
        rows = as_vectors(found.rows, "path")
        named = found.ids() if ids is None else read_ids(ids)
        return rows if named is None else name_rows(rows, named, "path" if ids is None else str(ids))


@naming_file()
def read_as_held(path: str | os.PathLike[str]) -> Vectors | Rows:
    """Read vectors as `read_vectors` does: ids and rows, or only rows, which the caller may number."""
    found = _read(os.fspath(path))
    rows = as_vectors(found.rows, shown(path)).weighing(found.weights)
    named = found.ids()
    if named is None:
        return rows.rows if rows.weights is None else rows
    return name_rows(rows, named, shown(path))


def columns_like_ids(path: str | os.PathLike[str]) -> list[str]:
    """Return the columns of a file of Parquet or Arrow that may hold its ids, if none is named like ids."""
    place, name = split_name(os.fspath(path))
    file = Path(place)
    if NamedColumns.written(name, file.name).id is not None or not file.is_file():
        return []
    if READERS.get(file.suffix.lower()) is _read_parquet:
        from unhub.files.parquet import parquet_columns_like_ids

        return parquet_columns_like_ids(file)
    if READERS.get(file.suffix.lower()) is _read_arrow:
        from unhub.files.arrow_files import arrow_columns_like_ids

        return arrow_columns_like_ids(file)
    return []


@naming_file()
def read_rows(path: str | os.PathLike[str]) -> Vectors:
    """Read only the rows, numbered from 0 whatever ids the file holds."""
    place = os.fspath(path)
    columns = split_name(place)[1]
    if columns is not None and NamedColumns.written(columns, place).id is not None:
        raise ValueError(f"{shown(path)}: names its ids, and others are given; leave one of them out")
    found = _read(place)
    return as_vectors(found.rows, shown(path)).weighing(found.weights)


@naming_file()
def name_rows(rows: Vectors, ids: NDArray[np.generic], source: str) -> Vectors:
    """Return the rows with these ids, one for each row; errors call the ids by their `source`."""
    return Vectors(as_ids(ids, len(rows), source), rows.rows, rows.weights)


def _read(place: str) -> FoundRows:
    file, name = split_name(place)
    if "://" in place:
        from unhub.files.shards import read_remote  # here: most files do not need it

        return read_remote(file, name)
    path = Path(file)
    if glob.has_magic(file) and not path.exists():
        from unhub.files.shards import read_pattern

        return read_pattern(file, name)
    if path.is_dir():
        return _read_folder(path, name)
    refuse_pickle(path)
    if path.suffix.lower() in READERS:
        return READERS[path.suffix.lower()](path, name)
    programs = "`unhub embed`, clip-retrieval, `unhub serve --log` and `unhub log add`"
    folders = f"folders of .npy or .parquet files, of Lance, of Hugging Face data sets, of {programs}"
    refused = no_reader(path, (*READERS, f"and {folders}"))
    from unhub.files.log_bytes import LIVE, form_of

    if form_of(path) in LIVE:
        raise ValueError(f"{path}: holds lines, not vectors; {if_a_log(path)}, else one of {', '.join(READERS)}")
    raise refused


def _read_folder(path: Path, name: str | None) -> FoundRows:
    from unhub.files.arrow_files import is_dataset, read_dataset, read_lance
    from unhub.files.bank_folders import is_bank_folder, read_bank_folder  # here: most files do not need it
    from unhub.files.clip_retrieval import is_clip_folder, read_clip_folder
    from unhub.files.embedded import UNFINISHED, is_embedded, read_embedded
    from unhub.files.query_logs import is_query_log, read_query_log
    from unhub.files.shards import read_folder_of_shards

    columns = NamedColumns.written(name, path.name)
    if path.suffix.lower() == LANCE:
        return read_lance(path, columns)
    if is_dataset(path):
        return read_dataset(path, columns)
    if name is not None:
        return read_folder_of_shards(path, name)
    if is_query_log(path):
        return read_query_log(path)
    if is_bank_folder(path):
        return read_bank_folder(path)
    if is_embedded(path):
        return read_embedded(path)
    if is_clip_folder(path):
        return read_clip_folder(path)
    if path.resolve().name.endswith(UNFINISHED):
        raise ValueError(f"{path}: `unhub embed` has not finished this folder; run it again")
    return read_folder_of_shards(path)


def read_weights(path: str | os.PathLike[str]) -> Float64:
    """Read the weights of bank queries from a text file with one number per line, or from a .npy file."""
    path = Path(path)
    if path.suffix.lower() == ".npy":
        return np.array(map_npy(path), np.float64)
    try:
        lines = read_lines(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: weights must be text, one number per line, or a .npy file ({error})") from None
    weights = np.empty(len(lines))
    for number, line in enumerate(lines):
        try:
            weights[number] = float(line)
        except ValueError:
            raise ValueError(f"{path}: line {number + 1} is {line!r}; one number per line is needed") from None
    return weights


def read_ids(path: str | os.PathLike[str], *, text: bool = False) -> NDArray[np.generic]:
    """Read ids from a text file with one id per line, or from a .npy file.

    Lines that are all plain integers ("7", not "007") give integers, any others strings; with `text` all do.
    """
    path = Path(path)
    if path.suffix.lower() == ".npy":
        return np.array(map_npy(path))
    try:
        lines = read_lines(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: ids must be UTF-8 text, one per line, or a .npy file ({error})") from None
    if "" in lines:
        raise ValueError(f"{path}: line {lines.index('') + 1} is empty; one id per line is needed")
    try:
        return as_texts(lines) if text else as_plain(lines)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
