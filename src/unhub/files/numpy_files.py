"""Readers of array files: .npy and safetensors mapped from disk, .npz loaded."""

from __future__ import annotations

import errno
import json
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from unhub.data.vectors import Rows, Stacked


class FoundRows(NamedTuple):
    """What a reader found: the rows, and a function that returns the ids in the file, or None."""

    rows: Rows
    ids: Callable[[], NDArray[np.generic] | None]


Reader: TypeAlias = Callable[[Path], FoundRows]


def no_ids() -> None:
    """Return None: the file holds no ids."""


# What numpy and the zip reader raise for damaged bytes: RuntimeError for a member with a password, SyntaxError and
# TokenError for a header that is not a Python literal.
DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    EOFError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
MOST_DEFLATE_RATIO = 1100  # bytes of an array for each byte in its archive: deflate reaches 1032


@contextmanager
def readable(path: object, kind: str) -> Iterator[None]:
    """Turn what numpy raises for a damaged or foreign file into a ValueError that names it.

    An error of the system, such as a missing file or a denied permission, is raised as it is.
    """
    try:
        yield
    except DAMAGE as error:
        raise ValueError(f"{path}: truncated or not {kind} of plain numbers or text ({error})") from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # a seek to before the beginning, which the file asked for
            raise
        raise ValueError(f"{path}: truncated or not {kind} of plain numbers or text ({error})") from None


def map_npy(path: Path) -> NDArray[np.generic]:
    """Map the array of a .npy file from disk, read-only."""
    with readable(path, "a .npy file"):
        return cast("NDArray[np.generic]", np.lib.format.open_memmap(path, mode="r"))


def read_npy(path: Path) -> FoundRows:
    """Map the rows of a .npy file, which holds no ids."""
    return FoundRows(map_npy(path), no_ids)


def read_npz(path: Path) -> FoundRows:
    """Load `vectors`, and `ids` if there are any, from a .npz file."""
    if is_npy(path):
        raise ValueError(f"{path}: is a .npy file, not a .npz file; rename it to .npy")
    names, arrays = load_arrays(path, "a .npz file", ("vectors", "ids"))
    if "vectors" not in arrays:
        raise ValueError(f"{path}: holds {names}; it must have an array `vectors`, and may have `ids`")
    return FoundRows(arrays["vectors"], lambda: arrays.get("ids"))


def is_npy(path: Path) -> bool:
    """Return whether a file is a .npy file by its first bytes, whatever its name."""
    with path.open("rb") as file:
        return file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX


def load_arrays(
    path: Path, kind: str, wanted: Container[str] | None = None
) -> tuple[list[str], dict[str, NDArray[np.generic]]]:
    """Return the names of all arrays of a .npz file, and the wanted arrays, by default all."""
    with path.open("rb") as file, readable(path, kind), zipfile.ZipFile(file) as archive:
        members = [(member.filename.removesuffix(".npy"), member) for member in archive.infolist()]
        names = [name for name, _ in members]
        if len({*names}) < len(names):
            raise ValueError(f"it holds {Counter(names).most_common(1)[0][0]!r} twice")
        return names, {name: _load(archive, one) for name, one in members if wanted is None or name in wanted}


def _load(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[np.generic]:
    """Return an array, after checking that the size in its header is that of the file."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in HEADERS:
            raise ValueError(f"it is of version {version}, which is for arrays with named fields")
        shape, _, dtype = HEADERS[version](stream)
        claimed, there = math.prod(shape) * dtype.itemsize, member.file_size - stream.tell()
        if not dtype.hasobject and (claimed != there or there > MOST_DEFLATE_RATIO * (member.compress_size + 1)):
            raise ValueError(f"{member.filename} should have {claimed} bytes and has {there}")
    with archive.open(member) as stream:
        return cast("NDArray[np.generic]", np.lib.format.read_array(stream, allow_pickle=False))


Header: TypeAlias = Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[np.generic]]]
HEADERS: Mapping[tuple[int, int], Header] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class Entry(TypedDict):
    """A tensor in the header of a safetensors file."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


STORED: Mapping[str, str] = {
    "BF16": "<u2",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    **{f"{sign}{8 * size}": f"<{sign.lower()}{size}" for sign in "IU" for size in (1, 2, 4, 8)},
}


class BFloat16:
    """Rows of bfloat16, which numpy does not know: the upper halves of float32, widened as they are read."""

    def __init__(self, halves: NDArray[np.uint16]) -> None:
        self.halves = halves
        self.shape = halves.shape
        self.dtype = np.dtype(np.float32)

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        return (self.halves[key].astype(np.uint32) << np.uint32(16)).view(np.float32)


def read_safetensors(path: Path) -> FoundRows:
    """Map the tensor `vectors`, `embedding` or the only matrix of a safetensors file; `ids` is an optional tensor."""
    start, entries = _safetensors_header(path)
    matrices = [name for name, entry in entries.items() if len(entry["shape"]) == 2]
    chosen = [name for name in ("vectors", "embedding") if name in entries] or matrices
    if "vectors" not in chosen and len(chosen) != 1:
        shapes = {name: tuple(entry["shape"]) for name, entry in entries.items()}
        raise ValueError(f"{path}: holds {shapes}; it must have a tensor `vectors` or `embedding`, or a single matrix")
    ids = entries.get("ids")
    if ids is not None and ids["dtype"][0] not in "IU":
        raise ValueError(f"{path}: the tensor `ids` is of {ids['dtype']}; it must be of integers")
    return FoundRows(
        _map_tensor(path, start, entries[chosen[0]]),
        no_ids if ids is None else lambda: np.array(_map_tensor(path, start, ids)),
    )


def _safetensors_header(path: Path) -> tuple[int, dict[str, Entry]]:
    """Return where the tensors' bytes begin and the tensors by name."""
    from safetensors import SafetensorError, safe_open

    path.open("rb").close()  # so that a missing file is a FileNotFoundError, not an error of the library
    try:
        with safe_open(path, framework="numpy"):
            pass  # opening it checks that the header is sound and covers the whole file
    except SafetensorError as error:
        raise ValueError(f"{path}: truncated or not a safetensors file ({error})") from None
    # The library would copy a tensor into memory; to map it, its place in the file is enough.
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    if "unhub" in header.pop("__metadata__", {}):
        raise ValueError(f"{path}: is a saved correction or model, not vectors")
    return 8 + size, header


def _map_tensor(path: Path, start: int, entry: Entry) -> Rows:
    if entry["dtype"] not in STORED:
        raise ValueError(f"{path}: tensors of {entry['dtype']} cannot be read; save it as one of {', '.join(STORED)}")
    dtype, shape = np.dtype(STORED[entry["dtype"]]), tuple(entry["shape"])
    if 0 in shape:
        return np.empty(shape, dtype)  # an empty range cannot be mapped
    tensor = np.memmap(path, dtype, "r", start + entry["data_offsets"][0], shape)
    if entry["dtype"] == "BF16" and len(shape) == 2:
        return Stacked([BFloat16(tensor)])
    return cast("Rows", np.require(tensor, requirements="A"))
