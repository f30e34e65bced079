"""Writers of vectors in formats that every command reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from unhub.atomic import replacing
from unhub.data.vectors import Vectors

Writer: TypeAlias = Callable[[Vectors, str | os.PathLike[str]], None]


def write_npy(vectors: Vectors, path: str | os.PathLike[str]) -> None:
    """Write rows to a .npy file, which cannot hold ids: they must be 0, 1, ..."""
    if not np.array_equal(vectors.ids, np.arange(len(vectors))):
        raise ValueError(f"{path}: a .npy file holds no ids, and these rows have some; name a .npz file")
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, vectors.block(0, len(vectors)))


def write_npz(vectors: Vectors, path: str | os.PathLike[str]) -> None:
    """Write rows and ids to a .npz file."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, vectors=vectors.block(0, len(vectors)), ids=vectors.ids)


WRITERS: Mapping[str, Writer] = {".npy": write_npy, ".npz": write_npz}


def vector_writer(path: str | os.PathLike[str]) -> Writer:
    """Return the writer for a file of this name, by its suffix; it replaces an existing file."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        raise ValueError(f"{path}: vectors are written to {' or '.join(WRITERS)} files, got *{suffix}")
    return WRITERS[suffix]
