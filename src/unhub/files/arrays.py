"""Readers of array files: .npy and safetensors mapped from disk, .npz loaded."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from unhub.vectors import Rows, Stacked


class Found(NamedTuple):
    """What a reader found: the rows, and a way to get the ids the file holds, or None where it holds none."""

    rows: Rows
    ids: Callable[[], NDArray[np.generic] | None]


Reader: TypeAlias = Callable[[Path], Found]


def no_ids() -> None:
    """Return None, as the ids of a file that holds none."""


@contextmanager
def readable(path: Path, kind: str) -> Iterator[None]:
    """Turn what numpy raises for a damaged or foreign file into a ValueError that names it."""
    try:
        yield
    except (ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: truncated or not {kind} of plain numbers or text ({error})") from None


def map_npy(path: Path) -> NDArray[np.generic]:
    """Map the array of a .npy file from disk, read-only."""
    with readable(path, "a .npy file"):
        return cast("NDArray[np.generic]", np.lib.format.open_memmap(path, mode="r"))


def read_npy(path: Path) -> Found:
    """Map the rows of a .npy file, which holds no ids."""
    return Found(map_npy(path), no_ids)


def read_npz(path: Path) -> Found:
    """Load `vectors` and, where it is there, `ids` from a .npz file."""
    with readable(path, "a .npz file"), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it is a .npy file")
        names = archive.files
        arrays = {name: archive[name] for name in ("vectors", "ids") if name in names}
    if "vectors" not in arrays:
        raise ValueError(f"{path}: holds {names}; an array `vectors` is wanted, and beside it, if you like, `ids`")
    return Found(arrays["vectors"], lambda: arrays.get("ids"))


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


def read_safetensors(path: Path) -> Found:
    """Map the tensor `vectors`, `embedding` or the only matrix of a safetensors file; `ids` is an optional tensor."""
    start, entries = _safetensors_header(path)
    matrices = [name for name, entry in entries.items() if len(entry["shape"]) == 2]
    chosen = [name for name in ("vectors", "embedding") if name in entries] or matrices
    if "vectors" not in chosen and len(chosen) != 1:
        shapes = {name: tuple(entry["shape"]) for name, entry in entries.items()}
        raise ValueError(f"{path}: holds {shapes}; a tensor `vectors` or `embedding` is wanted, or a single matrix")
    ids = entries.get("ids")
    return Found(
        _map_tensor(path, start, entries[chosen[0]]),
        no_ids if ids is None else lambda: np.array(_map_tensor(path, start, ids)),
    )


def _safetensors_header(path: Path) -> tuple[int, dict[str, Entry]]:
    """Return where the tensors' bytes begin and the tensors by name."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy"):
            pass  # opening it checks that the header is sound and covers the whole file
    except SafetensorError as error:
        raise ValueError(f"{path}: truncated or not a safetensors file ({error})") from None
    # The library would copy a tensor into memory; where it lies in the file is all that is needed to map it.
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    if "unhub" in header.pop("__metadata__", {}):
        raise ValueError(f"{path}: is a saved correction or model, not vectors; read it with unhub.load")
    return 8 + size, header


def _map_tensor(path: Path, start: int, entry: Entry) -> Rows:
    if entry["dtype"] not in STORED:
        raise ValueError(f"{path}: tensors of {entry['dtype']} are not read; save it as one of {', '.join(STORED)}")
    dtype, shape = np.dtype(STORED[entry["dtype"]]), tuple(entry["shape"])
    if 0 in shape:
        return np.empty(shape, dtype)  # no bytes cannot be mapped
    tensor = np.memmap(path, dtype, "r", start + entry["data_offsets"][0], shape)
    if entry["dtype"] == "BF16" and len(shape) == 2:
        return Stacked([BFloat16(tensor)])
    return cast("Rows", np.require(tensor, requirements="A"))
