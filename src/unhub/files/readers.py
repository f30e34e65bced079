"""The one reader of vector files that every command uses: the suffix chooses, a folder is clip-retrieval's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.files.arrays import Found, Reader, map_npy, read_npy, read_npz, read_safetensors
from unhub.files.clip_retrieval import read_clip_folder
from unhub.files.parquet import read_parquet
from unhub.vectors import Vectors, as_ids, as_vectors

READERS: Mapping[str, Reader] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".safetensors": read_safetensors,
}

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def read_vectors(path: str | os.PathLike[str], *, ids: str | os.PathLike[str] | None = None) -> Vectors:
    """Read ids and rows from a file or folder; .npy, .safetensors and clip-retrieval folders stay on disk, mapped.

    `ids` is a file of ids (see `read_ids`) and goes before those of the file itself. Where there are none, rows are
    numbered from 0.
    """
    path = Path(path)
    found = _read(path)
    vectors = as_vectors(found.rows, str(path))
    named = found.ids() if ids is None else read_ids(ids)
    if named is None:
        return vectors
    return Vectors(as_ids(named, len(vectors), str(path if ids is None else ids)), vectors.rows)


def _read(path: Path) -> Found:
    if path.is_dir():
        return read_clip_folder(path)
    if path.suffix.lower() in READERS:
        return READERS[path.suffix.lower()](path)
    path.stat()  # a path that is not there is FileNotFoundError, whatever its suffix
    raise ValueError(
        f"{path}: no reader for files named *{path.suffix}; there are {', '.join(READERS)} and clip-retrieval folders"
    )


def read_ids(path: str | os.PathLike[str]) -> NDArray[np.generic]:
    """Read ids from a text file with one id per line, or from a .npy file.

    Lines that are all plain integers ("7", not "007") give integers, any others strings.
    """
    path = Path(path)
    if path.suffix.lower() == ".npy":
        return np.array(map_npy(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: ids must be UTF-8 text, one per line, or a .npy file ({error})") from None
    # Not splitlines(), which also breaks at characters that may stand inside an id.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if "" in lines:
        raise ValueError(f"{path}: line {lines.index('') + 1} is empty; one id per line is needed")
    if all(map(INTEGER.fullmatch, lines)):
        return np.array([int(line) for line in lines], np.int64)
    return np.array(lines, np.str_)
