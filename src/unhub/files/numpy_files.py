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

from unhub.data.vectors import Rows, Stacked, as_weights
from unhub.files.named_arrays import MOST_DEFLATE_RATIO, HeldArray, NamedArrays, Pickled, choose, pickled
from unhub.frames.frame_columns import NamedColumns


class FoundRows(NamedTuple):
    """What a reader found: the rows, a function that returns the ids in the file, or None, and the weights, if any."""

    rows: Rows
    ids: Callable[[], NDArray[np.generic] | None]
    weights: NDArray[np.float64] | None = None


Reader: TypeAlias = Callable[[Path, str | None], FoundRows]  # of a file, and the name of an array in it


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
IDS = "ids"
PICKLE_START = b"\x80"  # of every pickle since Python 2.3, whatever its file is called
NPZ = "a .npz file"
PREFERRED = ("vectors", "embedding")  # arrays that hold the rows, whatever else a file holds


@contextmanager
def readable(path: object, kind: str) -> Iterator[None]:
    """Turn what numpy raises for a damaged or foreign file into a ValueError that names it.

    An error of the system, such as a missing file or a denied permission, is raised as it is.
    """
    try:
        yield
    except Pickled:
        raise
    except DAMAGE as error:
        raise ValueError(f"{path}: truncated or not {kind} of plain numbers or text ({error})") from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # a seek to before the beginning, which the file asked for
            raise
        raise ValueError(f"{path}: truncated or not {kind} of plain numbers or text ({error})") from None


def map_npy(path: Path) -> NDArray[np.generic]:
    """Map the array of a .npy file from disk, read-only."""
    with readable(path, "a .npy file"):
        with path.open("rb") as file:
            if file.read(1) == PICKLE_START:
                raise pickled(path)
            file.seek(0)
            version = np.lib.format.read_magic(file)
            if version in HEADERS and HEADERS[version](file)[2].hasobject:
                raise pickled(path)
        return cast("NDArray[np.generic]", np.lib.format.open_memmap(path, mode="r"))


def named_rows(path: Path, arrays: NamedArrays, name: str | None) -> FoundRows:
    """Return the rows that a name or a rule chooses; `ids` are those of `vectors`, or of what the rule chooses.

    Weights are an array that is named.
    """
    named = NamedColumns(name) if name in arrays.held else NamedColumns.written(name, path.name)
    chosen = choose(path, arrays.held, named.vector, PREFERRED)
    weights = None
    if named.weight is not None:
        weights = as_weights(
            _as_list(arrays.read(choose(path, arrays.held, named.weight))[:]), arrays.held[chosen].shape[0]
        )
    if named.id is not None:
        ids = choose(path, arrays.held, named.id)
        return FoundRows(arrays.read(chosen), lambda: _as_list(arrays.read(ids)[:]), weights)
    with_ids = IDS in arrays.held and (named.vector is None or named.vector in PREFERRED)
    return FoundRows(arrays.read(chosen), (lambda: _as_list(arrays.read(IDS)[:])) if with_ids else no_ids, weights)


def _as_list(ids: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return ids as a list, which MATLAB keeps as a matrix of one row or column."""
    return ids.ravel() if ids.ndim == 2 and min(ids.shape) == 1 else np.asarray(ids)


def read_npy(path: Path, name: str | None = None) -> FoundRows:
    """Map the rows of a .npy file, which holds no ids."""
    if name is not None:
        raise ValueError(f"{path}: holds one array, which has no name; leave out {name!r}")
    return FoundRows(map_npy(path), no_ids)


def open_npy(path: Path) -> NamedArrays:
    """Map a .npy file, whose array has no name."""
    array = map_npy(path)
    return NamedArrays({"": _held(array.shape, array.dtype)}, lambda _: array)


def open_npz(path: Path) -> NamedArrays:
    """List the arrays of a .npz file; one that is asked for is loaded, once."""
    if is_npy(path):
        raise ValueError(f"{path}: is a .npy file, not a .npz file; rename it to .npy")
    return NamedArrays(_npz_headers(path), lambda name: load_arrays(path, NPZ, (name,))[1][name])


def read_npz(path: Path) -> FoundRows:
    """Load `vectors` or the only matrix of a .npz file, and `ids` if there are any."""
    return named_rows(path, open_npz(path), None)


def _held(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> HeldArray:
    return HeldArray(shape, dtype.kind in "fiu")


def _npz_headers(path: Path) -> dict[str, HeldArray]:
    found: dict[str, HeldArray] = {}
    with path.open("rb") as file, readable(path, NPZ), zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                shape, _, dtype = HEADERS[version](stream) if version in HEADERS else NAMED_FIELDS
            found[member.filename.removesuffix(".npy")] = _held(shape, dtype)
    return found


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
        if dtype.hasobject:
            raise pickled(archive.filename, f"pickled objects in {member.filename}")
        claimed, there = math.prod(shape) * dtype.itemsize, member.file_size - stream.tell()
        if claimed != there or there > MOST_DEFLATE_RATIO * (member.compress_size + 1):
            raise ValueError(f"{member.filename} should have {claimed} bytes and has {there}")
    with archive.open(member) as stream:
        return cast("NDArray[np.generic]", np.lib.format.read_array(stream, allow_pickle=False))


Header: TypeAlias = Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[np.generic]]]
NAMED_FIELDS = ((), False, np.dtype(np.void))  # what an array of a later version holds, which is not read
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


def open_safetensors(path: Path) -> NamedArrays:
    """List the tensors of a safetensors file; one that is asked for is mapped."""
    start, entries = _safetensors_header(path)
    ids = entries.get(IDS)
    if ids is not None and ids["dtype"][0] not in "IU":
        raise ValueError(f"{path}: the tensor `ids` is of {ids['dtype']}; it must be of integers")
    held = {name: HeldArray(tuple(entry["shape"]), entry["dtype"] in STORED) for name, entry in entries.items()}
    return NamedArrays(held, lambda name: _map_tensor(path, start, entries[name]))


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
