"""Writers of vectors in formats that every command reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from unhub.atomic import FileKind, file_kind, replacing
from unhub.data.vectors import Vectors

Writer: TypeAlias = Callable[[Vectors, str | os.PathLike[str]], None]

# Plain arrays, which carry no mark of ours: the user's own files of this form are of the same kind.
NPY_FILE = file_kind("a .npy file", rb"\x93NUMPY")
NPZ_FILE = file_kind("a .npz file of vectors and ids", archives=[("vectors", "ids")])


def write_npy(vectors: Vectors, path: str | os.PathLike[str]) -> None:
    """Write rows to a .npy file, which has no room for ids: they must be 0, 1, ..."""
    if not np.array_equal(vectors.ids, np.arange(len(vectors))):
        raise ValueError(f"{path}: a .npy file holds no ids, and these rows have some; name a .npz file")
    with replacing(path, NPY_FILE) as temporary, temporary.open("wb") as file:
        np.save(file, vectors.block(0, len(vectors)))


def write_npz(vectors: Vectors, path: str | os.PathLike[str]) -> None:
    """Write rows and ids to a .npz file."""
    with replacing(path, NPZ_FILE) as temporary, temporary.open("wb") as file:
        np.savez(file, vectors=vectors.block(0, len(vectors)), ids=vectors.ids)


class VectorFile(NamedTuple):
    """A form of file for vectors: what it may replace, and what writes it."""

    kind: FileKind
    write: Writer


VECTOR_FILES: Mapping[str, VectorFile] = {
    ".npy": VectorFile(NPY_FILE, write_npy),
    ".npz": VectorFile(NPZ_FILE, write_npz),
}


def vector_file(path: str | os.PathLike[str]) -> VectorFile:
    """Return the form of file that a name asks for by its suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in VECTOR_FILES:
        raise ValueError(f"{path}: vectors are written to {' or '.join(VECTOR_FILES)} files, got *{suffix}")
    return VECTOR_FILES[suffix]
