"""The rows of one .npy file of several: mapped where it is here, read in ranges where it is not."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from unhub.files.local_file import LocalFile
from unhub.files.numpy_files import HEADERS, map_npy, readable
from unhub.files.pieces import PIECE_BYTES
from unhub.files.remote import RemoteFile

MOST_MAPPED = 64  # files of a set: each map holds a file handle, of which a process may have 256 only


class Maps:
    """The files of a set that are mapped, which are those that were read last. A copy for another process has none."""

    def __init__(self) -> None:
        self.of = functools.lru_cache(MOST_MAPPED)(map_npy)

    def __reduce__(self) -> tuple[type[Maps], tuple[()]]:
        return Maps, ()


class MappedNpy:
    """A .npy file by its path and its sizes, mapped when it is read; so it is in another process.

    Whenever rows are read, the file must be the one that was found.
    """

    is_mapped = True

    def __init__(self, file: LocalFile, maps: Maps) -> None:
        mapped = map_npy(file.path)
        _check_matrix(file, mapped.shape)
        self.file, self.path, self.dtype, self._maps = file, file.path, mapped.dtype, maps
        self.name = str(file)
        self.shape = (mapped.shape[0], mapped.shape[1])

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        return self._rows()[key]

    def take_rows(self, positions: NDArray[np.int64]) -> NDArray[np.generic]:
        """Copy the rows at these positions, in this order."""
        return self._rows()[positions]

    def _rows(self) -> NDArray[np.generic]:
        mapped = self._maps.of(self.path)
        self.file.check()  # now: it may have been replaced before it was mapped
        return mapped


class NpyPieces:
    """A remote .npy file as pieces, each read in one range."""

    def __init__(self, file: RemoteFile) -> None:
        self.file = file
        with file.open() as stream, readable(file, "a .npy file"):
            version = np.lib.format.read_magic(stream)
            if version not in HEADERS:
                raise ValueError(f"it is of version {version}, which is for arrays with named fields")
            shape, by_columns, self.dtype = HEADERS[version](stream)
            self._first_byte = stream.tell()
            if self.dtype.hasobject:
                raise ValueError("it holds objects of Python")
            if self._first_byte + math.prod(shape) * self.dtype.itemsize > file.size:
                raise ValueError(f"it should hold {shape} numbers and has {file.size} bytes")
        _check_matrix(file, shape)
        if by_columns and min(shape) > 1:
            raise ValueError(f"{file}: is stored column by column; save it with numpy.ascontiguousarray")
        self.shape = (int(shape[0]), int(shape[1]))
        rows = max(1, PIECE_BYTES // max(1, self._row_bytes))
        self.starts: NDArray[np.int64] = np.append(np.arange(0, self.shape[0], rows), self.shape[0])

    @property
    def _row_bytes(self) -> int:
        return self.shape[1] * self.dtype.itemsize

    def read_piece(self, number: int) -> NDArray[np.generic]:
        """Read the rows of a piece."""
        start, stop = (self._first_byte + int(row) * self._row_bytes for row in self.starts[number : number + 2])
        held = self.file.read(start, stop)
        self.file.check()
        return np.frombuffer(held, self.dtype).reshape(-1, self.shape[1])


def _check_matrix(file: LocalFile | RemoteFile, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(f"{file}: must be a matrix (rows, dimensions), got shape {shape}")
