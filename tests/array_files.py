"""Files of arrays by name, as h5py, MATLAB 7.3 and torch write them."""

from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

OTHER = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)


def write_h5(path: Path, arrays: dict[str, NDArray[Any]], **options: object) -> None:
    """Write datasets, those named `group/name` in groups."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **options)


def write_mat_73(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write a file as MATLAB 7.3 does: HDF5 after a header of 512 bytes, each matrix by columns, with its class."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            dataset = file.create_dataset(name, data=array.T)
            dataset.attrs["MATLAB_class"] = np.bytes_("double")
        cells = file.create_group("#refs#")
        cells["a"] = OTHER
        refs = file.create_dataset("names", (1, 1), h5py.ref_dtype)
        refs[0, 0] = cells["a"].ref
        refs.attrs["MATLAB_class"] = np.bytes_("cell")
    with path.open("r+b") as head:
        head.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def write_torch(path: Path, arrays: dict[str, NDArray[Any]], zipped: bool = True) -> None:
    """Write tensors by name, in the form of torch 1.6 and later or in the older one."""
    torch = import_module("torch")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=zipped)
