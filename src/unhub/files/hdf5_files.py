"""Reader of HDF5 files, .mat of MATLAB 7.3 among them: mapped where a dataset is in one piece, else read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unhub.data.vectors import Rows
from unhub.errors import optional
from unhub.files.named_arrays import HeldArray, NamedArrays, check_size
from unhub.files.numpy_files import readable

KIND = "an HDF5 file"
MATLAB_CLASS = "MATLAB_class"  # an attribute of what MATLAB wrote, which keeps a matrix by columns
MATLAB_OWN = "#"  # begins the names of groups in which MATLAB keeps what is inside cells


def open_hdf5(path: Path) -> NamedArrays:
    """List the datasets of a file, those in groups as `group/name`."""
    h5py = optional("h5py", "matrices", "reading HDF5 files and those of MATLAB 7.3")
    found: dict[str, HeldArray] = {}

    def note(name: str, thing: Any) -> None:
        if isinstance(thing, h5py.Dataset) and thing.shape is not None and not name.startswith(MATLAB_OWN):
            shape = thing.shape[::-1] if MATLAB_CLASS in thing.attrs else thing.shape
            found[name] = HeldArray(shape, thing.dtype.kind in "fiu")

    def read(name: str) -> Rows:
        if not found[name].is_numeric:
            raise ValueError(f"{path}: {name} holds references or texts, not real numbers")
        with readable(path, KIND), h5py.File(path, "r") as file:
            dataset = file[name]
            rows = _rows(path, dataset)
            return cast("Rows", rows.T if MATLAB_CLASS in dataset.attrs else rows)

    path.open("rb").close()  # so that a missing file is a FileNotFoundError, not an error of the library
    with readable(path, KIND), h5py.File(path, "r") as file:
        file.visititems(note)
    return NamedArrays(found, read)


def _rows(path: Path, dataset: Any) -> NDArray[np.generic]:
    """Return all of a dataset: mapped if it lies in the file in one piece, else read into memory, once."""
    if 0 in dataset.shape:
        return np.empty(dataset.shape, dataset.dtype)
    start = dataset.id.get_offset()
    if start is not None and dataset.external is None:
        return np.require(np.memmap(path, dataset.dtype, "r", start, dataset.shape), requirements="A")
    check_size(path, dataset.name, dataset.shape, dataset.dtype.itemsize, dataset.id.get_storage_size())
    rows = np.empty(dataset.shape, dataset.dtype)
    dataset.read_direct(rows)
    return rows
