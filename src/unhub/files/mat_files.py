"""Reader of MATLAB files: versions 5 to 7 mapped or read once, version 7.3, which is HDF5, by h5py; structs of 5 to 7.

scipy reads them too, but a damaged file can crash it, and it copies what could be mapped.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

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
STRUCT, CHAR = 2, 4  # classes of arrays
OPAQUE = 17  # a class of arrays that have no shape: objects of programs
IS_COMPLEX = 0x08
CLASSES = dict(enumerate(("cell", "struct", "object", "char", "sparse", "double", "single"), start=1))
NUMERIC_CLASSES = range(6, 16)  # double, single, and integers of 8 to 64 bits
NUMBERS: Mapping[int, str] = {  # how numbers are stored, perhaps in fewer bytes than their class has
    **{1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4"},
    **{7: "f4", 9: "f8", 12: "i8", 13: "u8"},
}
ENCODINGS: Mapping[int, str] = {  # how a text is stored
    **{1: "latin-1", 2: "latin-1", 16: "utf-8"},
    **{4: "utf-16", 17: "utf-16", 18: "utf-32"},
}
ENDINGS = {"<": "-le", ">": "-be"}  # of the encodings of several bytes
MOST_STRUCT_BYTES = 1 << 28  # unfolded; Cars-196 has 7 MB
PEEK_BYTES = 4096  # of an element, more than its flags, shape and name take
PIECE_BYTES = 1 << 20  # unfolded at a time


Field: TypeAlias = str | float | NDArray[np.generic]  # a text, a number, or numbers


class Variable(NamedTuple):
    """A variable: its class, where its element begins, and for one of numbers where these are in the element."""

    matlab_class: int
    shape: tuple[int, ...]
    start: int
    stored: int
    is_compressed: bool
    dtype: str | None = None
    numbers_at: int = 0


class ArrayHead(NamedTuple):
    """What an array begins with: its class, its shape and its name, empty within a struct."""

    matlab_class: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str


def open_mat(path: Path) -> NamedArrays:
    """List the variables of a MATLAB file."""
    if _is_hdf5(path):
        return open_hdf5(path)
    with readable(path, KIND), path.open("rb") as file:
        found = dict(_variables(file, _order(file), path.stat().st_size))
    held = {name: HeldArray(one.shape, one.dtype is not None) for name, one in found.items()}
    return NamedArrays(held, lambda name: _read(path, name, found[name]))


def read_struct(path: Path, name: str) -> dict[str, list[Field]]:
    """Return the fields of an array of structs, each with its texts and numbers in the order of the array."""
    if _is_hdf5(path):
        raise ValueError(f"{path}: is a .mat file of version 7.3, whose structs are not read; save it again with -v7")
    with readable(path, KIND), path.open("rb") as file:
        order = _order(file)
        found = dict(_variables(file, order, path.stat().st_size))
        if name not in found or found[name].matlab_class != STRUCT:
            raise ValueError(f"it holds no struct {name!r}, but {', '.join(found) or 'nothing'}")
        return _fields(_content(file, found[name]), order)


def _content(file: BinaryIO, variable: Variable) -> bytes:
    """Return the element of a variable, after its tag."""
    file.seek(variable.start)
    if not variable.is_compressed:
        return file.read(variable.stored)
    content = bytearray()
    for piece in _unfolded(file, variable.stored):
        content += piece
        if len(content) > MOST_STRUCT_BYTES:
            raise ValueError(f"a struct takes more than {MOST_STRUCT_BYTES:,} bytes")
    return bytes(content)


def _fields(content: bytes, order: str) -> dict[str, list[Field]]:
    """Return the texts and numbers of each field of the structs in an element."""
    head, at = _head(content, 0, order)
    (width,), at = _values(content, at, order, "i")
    letters, at = _values(content, at, order, "B")
    if width < 1 or not letters:
        raise ValueError("its structs have no fields")
    names = [bytes(letters[first : first + width]) for first in range(0, len(letters), width)]
    fields: dict[str, list[Field]] = {name.partition(b"\0")[0].decode("latin-1"): [] for name in names}
    for _ in range(math.prod(head.shape)):  # ends with the content at the latest, since each field takes a part of it
        for values in fields.values():
            kind, _, data, at = _tag(content, at, order)
            if kind != MATRIX:
                raise ValueError(f"a field is of type {kind}")
            values.append(_field(content, data, order))
    return fields


def _field(content: bytes, at: int, order: str) -> Field:
    """Return the text or the numbers of a field."""
    head, at = _head(content, at, order)
    is_text = head.matlab_class == CHAR
    if head.is_complex or not (is_text or head.matlab_class in NUMERIC_CLASSES):
        raise ValueError(f"a field is {_of(head)}, not a text or real numbers")
    kind, count, data, _ = _tag(content, at, order)
    if data + count > len(content):
        raise ValueError(f"a field of {count:,} bytes begins at {data:,}, and there are {len(content):,}")
    if not is_text:
        numbers = np.frombuffer(content, np.dtype(order + NUMBERS[kind]), math.prod(head.shape), data)
        return numbers[0].item() if len(numbers) == 1 else numbers.reshape(head.shape, order="F")
    if head.shape[0] > 1:
        raise ValueError(f"a text of shape {head.shape} has several lines")
    encoding = ENCODINGS[kind]
    return content[data : data + count].decode(encoding + (ENDINGS[order] if encoding[-2:] in ("16", "32") else ""))


def _read(path: Path, name: str, variable: Variable) -> NDArray[np.generic]:
    """Map the numbers of a variable, or unfold them into memory, once."""
    if variable.dtype is None:
        raise ValueError(f"{path}: {name} is {_of(variable)}, not a matrix of real numbers")
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


def _of(head: Variable | ArrayHead) -> str:
    """Say of what class an array is that is no array of real numbers."""
    known = CLASSES.get(head.matlab_class, "object")
    return "complex numbers" if head.matlab_class in NUMERIC_CLASSES else f"of MATLAB's class {known}"


def _order(file: BinaryIO) -> str:
    """Return the order of the bytes of a file, and leave it where its variables begin."""
    head = file.read(HEAD_BYTES)
    order = ORDERS.get(head[-2:])
    if order is None or len(head) < HEAD_BYTES or struct.unpack(f"{order}H", head[-4:-2]) != (VERSION,):
        raise ValueError("its head is another; if it is older, save it again with -v7")
    return order


def _variables(file: BinaryIO, order: str, size: int) -> Iterator[tuple[str, Variable]]:
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
    found, at = _head(head, 0, order)
    if found.matlab_class == OPAQUE:
        return None
    name, shape = found.name, found.shape
    variable = Variable(found.matlab_class, shape, 0, 0, False)
    if found.matlab_class in NUMERIC_CLASSES and not found.is_complex and 0 not in shape:
        kind, count, numbers_at, _ = _tag(head, at, order)
        dtype = np.dtype(order + NUMBERS[kind])
        if count != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name} of shape {shape} has {count:,} bytes")
        variable = variable._replace(dtype=dtype.str, numbers_at=numbers_at)
    elif found.matlab_class in NUMERIC_CLASSES and 0 in shape:
        variable = variable._replace(dtype="<f8")
    return (name, variable) if name else None


def _head(element: bytes, at: int, order: str) -> tuple[ArrayHead, int]:
    """Return what an element of an array begins with, and where the next part of it begins."""
    (flags, _), at = _values(element, at, order, "I")
    matlab_class = flags & 0xFF
    if matlab_class == OPAQUE:
        return ArrayHead(matlab_class, False, (), ""), at
    shape, at = _values(element, at, order, "i")
    letters, at = _values(element, at, order, "B")
    name = bytes(letters).decode("latin-1")
    if min(shape, default=-1) < 0:
        raise ValueError(f"{name} has the shape {shape}")
    return ArrayHead(matlab_class, bool((flags >> 8) & IS_COMPLEX), shape, name), at


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
