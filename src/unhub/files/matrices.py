"""Files of arrays by name, and `read_matrix`: similarity matrices as papers publish them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from unhub.data.similarity import Dense
from unhub.errors import ArgumentError, naming_file
from unhub.files.named_arrays import NamedArrays, choose, no_reader, refuse_pickle, split_name
from unhub.files.numpy_files import open_npy, open_npz, open_safetensors

Opener: TypeAlias = Callable[[Path], NamedArrays]


def _open_mat(path: Path) -> NamedArrays:
    from unhub.files.mat_files import open_mat  # here: most files do not need it

    return open_mat(path)


def _open_hdf5(path: Path) -> NamedArrays:
    from unhub.files.hdf5_files import open_hdf5

    return open_hdf5(path)


def _open_torch(path: Path) -> NamedArrays:
    from unhub.files.torch_files import open_torch

    return open_torch(path)


# Files of arrays, each by its name.
ARRAYS: Mapping[str, Opener] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".safetensors": open_safetensors,
    ".mat": _open_mat,
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
    ".pt": _open_torch,
    ".pth": _open_torch,
}


@naming_file()
def read_matrix(path: str | os.PathLike[str], name: str | None = None, *, transposed: bool = False) -> Dense:
    """Read a (queries, items) matrix of similarities from a .npy, .npz, .safetensors, .mat, .h5 or torch file.

    It is mapped from disk where the format allows it, otherwise read once.

    name: the array, if the file holds several; `sims.mat#name` does the same.
    transposed: the file has a row for each item and a column for each query.
    """
    place, named = split_name(os.fspath(path))
    if name is not None and named is not None:
        raise ArgumentError("name", f"is {name!r}, and the path names {named!r}", "give one of the two")
    file = Path(place)
    refuse_pickle(file)
    if file.suffix.lower() not in ARRAYS:
        raise no_reader(file, ARRAYS)
    arrays = ARRAYS[file.suffix.lower()](file)
    rows: Any = arrays.read(choose(file, arrays.held, named if name is None else name))
    matrix = rows if isinstance(rows, np.ndarray) else np.asarray(rows[:])  # bfloat16, which numpy does not know
    if matrix.ndim != 2:
        raise ValueError(f"{file}: a matrix (queries, items) is needed, and this is of shape {matrix.shape}")
    return Dense(matrix.T if transposed else matrix)
