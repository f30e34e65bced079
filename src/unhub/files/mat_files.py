"""Reader of MATLAB files: versions 5 to 7 mapped or read once, version 7.3, which is HDF5, by h5py.

scipy reads them too, but a damaged file can crash it, and it copies what could be mapped.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unhub.files.hdf5_files import open_hdf5
from unhub.files.named_arrays import HeldArray, NamedArrays, check_size
from unhub.files.numpy_files import readable

KIND = "a .mat file of MATLAB 5 to 7.3"
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
HDF5_STARTS = (0, 512)  # MATLAB puts a header of its own before it
HEAD_BYTES = 128  # of the file
ORDERS = {b"IM": "<", b"MI": ">"}  # the end of the file's head, by which the order of bytes is known
VERSION = 0x0100
MATRIX, COMPRESSED = 14, 15  # elements of a file
OPAQUE = 17  # a class of arrays that have no shape: objects of programs
IS_COMPLEX = 0x08
CLASSES = dict(enumerate(("cell", "struct", "object", "char", "sparse", "double", "single"), start=1))
NUMERIC_CLASSES = range(6, 16)  # double, single, and integers of 8 to 64 bits
NUMBERS: Mapping[int, str] = {  # how numbers are stored, perhaps in fewer bytes than their class has
    **{1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4"},
    **{7: "f4", 9: "f8", 12: "i8", 13: "u8"},
}
PEEK_BYTES = 4096  # of an element, more than its flags, shape and name take
PIECE_BYTES = 1 << 20  # unfolded at a time


class Variable(NamedTuple):
    """A variable: its class, where its element begins, and for one of numbers where these are in the element."""

    matlab_class: int
    shape: tuple[int, ...]
    start: int
    stored: int
    is_compressed: bool
    dtype: str | None = None
    numbers_at: int = 0


def open_mat(path: Path) -> NamedArrays:
    """List the variables of a MATLAB file."""
    if _is_hdf5(path):
        return open_hdf5(path)
    with readable(path, KIND), path.open("rb") as file:
        found = dict(_variables(file, path.stat().st_size))
    held = {name: HeldArray(one.shape, one.dtype is not None) for name, one in found.items()}
    return NamedArrays(held, lambda name: _read(path, name, found[name]))


def _read(path: Path, name: str, variable: Variable) -> NDArray[np.generic]:
    """Map the numbers of a variable, or unfold them into memory, once."""
    if variable.dtype is None:
        known = CLASSES.get(variable.matlab_class, "object")
        of = "complex numbers" if variable.matlab_class in NUMERIC_CLASSES else f"of MATLAB's class {known}"
        raise ValueError(f"{path}: {name} is {of}, not a matrix of real numbers")
    dtype, shape = np.dtype(variable.dtype), variable.shape
    if 0 in shape:
        return np.empty(shape, dtype)
    if not variable.is_compressed:
        with readable(path, KIND):
            mapped = np.memmap(path, dtype, "r", variable.start + variable.numbers_at, shape, order="F")
        return np.require(mapped, requirements="A")
    check_size(path, name, shape, dtype.itemsize, variable.stored)
    numbers = np.empty(math.prod(shape), dtype)
    with readable(path, KIND), path.open("rb") as file:
        file.seek(variable.start)
        _fill(numbers.view(np.uint8), _unfolded(file, variable.stored), variable.numbers_at)
    return numbers.reshape(shape, order="F")


def _variables(file: BinaryIO, size: int) -> Iterator[tuple[str, Variable]]:
    head = file.read(HEAD_BYTES)
    order = ORDERS.get(head[-2:])
    if order is None or len(head) < HEAD_BYTES or struct.unpack(f"{order}H", head[-4:-2]) != (VERSION,):
        raise ValueError("its head is another; if it is older, save it again with -v7")
    at = HEAD_BYTES
    while at < size:
        kind, stored = struct.unpack(f"{order}2I", file.read(8))
        at += 8
        if at + stored > size:
            raise ValueError(f"an element of {stored:,} bytes begins at {at:,}, and the file ends at {size:,}")
        if kind in (MATRIX, COMPRESSED) and stored:
            found = _parsed(_peek(file, stored, kind == COMPRESSED), order)
            if found is not None:
                name, variable = found
                yield name, variable._replace(start=at, stored=stored, is_compressed=kind == COMPRESSED)
        at += stored
        file.seek(at)


def _peek(file: BinaryIO, stored: int, is_compressed: bool) -> bytes:
    """Return the beginning of an element, after its tag."""
    head = file.read(min(stored, PEEK_BYTES))
    return zlib.decompressobj().decompress(head, PEEK_BYTES)[8:] if is_compressed else head


def _parsed(head: bytes, order: str) -> tuple[str, Variable] | None:
    """Return the name and the variable of a matrix; None if it is an object without a shape, or has no name."""
    (flags, _), at = _values(head, 0, order, "I")
    matlab_class = flags & 0xFF
    if matlab_class == OPAQUE:
        return None
    shape, at = _values(head, at, order, "i")
    letters, at = _values(head, at, order, "B")
    name = bytes(letters).decode("latin-1")
    if min(shape, default=-1) < 0:
        raise ValueError(f"{name} has the shape {shape}")
    variable = Variable(matlab_class, shape, 0, 0, False)
    if matlab_class in NUMERIC_CLASSES and not (flags >> 8) & IS_COMPLEX and 0 not in shape:
        kind, count, numbers_at, _ = _tag(head, at, order)
        dtype = np.dtype(order + NUMBERS[kind])
        if count != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name} of shape {shape} has {count:,} bytes")
        variable = variable._replace(dtype=dtype.str, numbers_at=numbers_at)
    elif matlab_class in NUMERIC_CLASSES and 0 in shape:
        variable = variable._replace(dtype="<f8")
    return (name, variable) if name else None


def _tag(head: bytes, at: int, order: str) -> tuple[int, int, int, int]:
    """Return the type and bytes of a part of an element, where its data are, and where the next part begins."""
    first, count = struct.unpack_from(f"{order}2I", head, at)
    if first >> 16:  # a part of up to four bytes has them in its tag
        return first & 0xFFFF, first >> 16, at + 4, at + 8
    return first, count, at + 8, at + 8 + -(-count // 8) * 8


def _values(head: bytes, at: int, order: str, code: str) -> tuple[tuple[int, ...], int]:
    """Return the whole numbers of a part, and where the next part begins."""
    _, count, data, following = _tag(head, at, order)
    return struct.unpack_from(f"{order}{count // struct.calcsize(code)}{code}", head, data), following


def _unfolded(file: BinaryIO, stored: int) -> Iterator[bytes]:
    """Yield what a compressed element unfolds to, after its tag, in pieces; damage is an error at the end."""
    unfold, left, skip = zlib.decompressobj(), stored, 8
    while not unfold.eof:
        folded = unfold.unconsumed_tail or file.read(min(left, PIECE_BYTES))
        left -= 0 if unfold.unconsumed_tail else len(folded)
        piece = unfold.decompress(folded, PIECE_BYTES)
        if not piece and not folded:
            raise EOFError("a compressed variable breaks off")
        yield piece[skip:]
        skip = max(0, skip - len(piece))


def _fill(target: NDArray[np.uint8], pieces: Iterator[bytes], skip: int) -> None:
    """Copy pieces, without the first `skip` bytes, into an array; read to the end, where zlib checks its sum."""
    at = -skip
    for piece in pieces:
        begin, end = max(0, -at), min(len(piece), len(target) - at)
        if end > begin:
            target[at + begin : at + end] = np.frombuffer(piece, np.uint8)[begin:end]
        at += len(piece)
    if at < len(target):
        raise EOFError("a compressed variable breaks off")


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(HDF5_STARTS[-1] + len(HDF5_SIGNATURE))
    return any(head[start:].startswith(HDF5_SIGNATURE) for start in HDF5_STARTS)
