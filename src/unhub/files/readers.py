"""The one reader of vector files, chosen by the suffix; a folder is of `unhub embed`, clip-retrieval or a log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.data.ids import as_ids, read_lines
from unhub.data.vectors import Rows, Vectors, as_plain, as_texts, as_vectors
from unhub.errors import naming_file
from unhub.files.numpy_files import FoundRows, Reader, map_npy, read_npy, read_npz, read_safetensors


def read_parquet(path: Path) -> FoundRows:
    """Read rows and ids from a Parquet file."""
    from unhub.files.parquet import read_parquet  # here: most files do not need it

    return read_parquet(path)


READERS: Mapping[str, Reader] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".safetensors": read_safetensors,
}


@naming_file()
def read_vectors(path: str | os.PathLike[str], *, ids: str | os.PathLike[str] | None = None) -> Vectors:
    """Read ids and rows from a file or folder; .npy, .safetensors and folders stay on disk, mapped.

    `ids` is a file of ids (see `read_ids`), which takes precedence over those of the file itself. Without ids, rows
    are numbered from 0.
    """
    if ids is not None:
        return name_rows(read_rows(path), read_ids(ids), str(ids))
    return as_vectors(read_as_held(path), str(path))


@naming_file()
def read_as_held(path: str | os.PathLike[str]) -> Vectors | Rows:
    """Read a file or folder: ids and rows, or only rows, which the caller may number."""
    found = _read(Path(path))
    rows = as_vectors(found.rows, str(path))
    named = found.ids()
    return rows.rows if named is None else name_rows(rows, named, str(path))


@naming_file()
def read_rows(path: str | os.PathLike[str]) -> Vectors:
    """Read only the rows, numbered from 0 whatever ids the file holds."""
    return as_vectors(_read(Path(path)).rows, str(path))


@naming_file()
def name_rows(rows: Vectors, ids: NDArray[np.generic], source: str) -> Vectors:
    """Return the rows with these ids, one for each row; errors call the ids by their `source`."""
    return Vectors(as_ids(ids, len(rows), source), rows.rows)


def _read(path: Path) -> FoundRows:
    if path.is_dir():
        return _read_folder(path)
    if path.suffix.lower() in READERS:
        return READERS[path.suffix.lower()](path)
    path.stat()  # a missing path is a FileNotFoundError, whatever its suffix
    named = f"files named *{path.suffix}" if path.suffix else kind_of(path)
    raise ValueError(
        f"{path}: no reader for {named}; there are {', '.join(READERS)} and the folders of `unhub embed`, "
        "clip-retrieval and `unhub serve --log`"
    )


def _read_folder(path: Path) -> FoundRows:
    from unhub.files.clip_retrieval import read_clip_folder  # here: most files do not need it
    from unhub.files.embedded import is_embedded, read_embedded
    from unhub.files.query_logs import is_query_log, read_query_log

    if is_query_log(path):
        return read_query_log(path)
    return read_embedded(path) if is_embedded(path) else read_clip_folder(path)


def kind_of(path: Path) -> str:
    """Return what a path is, for an error that says that it cannot be read."""
    return "a folder" if path.is_dir() else f"*{path.suffix}" if path.suffix else "a file whose name has no suffix"


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
