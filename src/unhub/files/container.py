"""The container of what unhub saves: one safetensors file with a manifest, written atomically and checked when read.

The manifest is JSON under the key `unhub` of the file's metadata; `checksum` beside it covers it and every tensor.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from unhub.atomic import check_target, replacing
from unhub.files.declared import Count, as_declared, parse_json

Tensors: TypeAlias = Mapping[str, NDArray[np.generic]]

FORMAT = 1
WHAT = "what"  # the key that a model has in its manifest; a correction has none

DRAWS_MARK = "unhub_draws"  # the first array of a .npz file of draws
DRAWS_MARK_OFFSET = 30  # bytes of a zip file before the name of its first member
HEAD_BYTES = 1 << 16  # at the beginning of a file, searched for its mark
MOST_HEADER_BYTES = 100_000_000  # of a safetensors file, by its own specification


def check_replaceable(
    path: str | os.PathLike[str], mark: bytes = b"", remedy: str = "remove it first, or name another file"
) -> Path:
    """Return where a file written to `path` would land; raise if that would replace a file that is not ours.

    An empty file, such as mktemp makes, may be replaced, and so may a saved correction, model or draws. With a `mark`,
    only a file with this mark near its beginning counts as ours.
    """
    target = check_target(path)
    if target.exists() and not is_replaceable(target, mark):
        made = "made" if mark else "saved"
        raise ValueError(f"{path} exists and is not a file that unhub {made}; {remedy}")
    return target


def is_replaceable(path: Path, mark: bytes = b"") -> bool:
    """Return whether an existing file is empty or ours, as in `check_replaceable`."""
    return path.stat().st_size == 0 or (_is_marked(path, mark) if mark else is_saved(path))


def is_saved(path: Path) -> bool:
    """Return whether unhub saved a file, by its header: a correction, a model or draws, complete or not."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        if head[DRAWS_MARK_OFFSET:].startswith(f"{DRAWS_MARK}.npy".encode()):
            return True
        size = int.from_bytes(head[:8], "little")
        if size > MOST_HEADER_BYTES:  # it is not a safetensors file
            return False
        file.seek(8)
        try:
            header = json.loads(file.read(size))
        except (ValueError, RecursionError):
            return False
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return isinstance(metadata, dict) and "unhub" in metadata


def _is_marked(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return mark in file.read(HEAD_BYTES)


def write_container(
    path: str | os.PathLike[str], manifest: Mapping[str, object], tensors: Tensors, overwrite: bool
) -> None:
    """Write a manifest and tensors to one file; the old file stays until the new one is complete and on disk.

    overwrite: replace any file; else only an empty or a saved one.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = json.dumps(manifest)
    held = {name: plain(array) for name, array in tensors.items()}
    if not overwrite:
        check_replaceable(path)
    with replacing(path) as temporary:
        try:
            save_file(held, temporary, {"unhub": text, "checksum": checksum(text, held)})
        except SafetensorError as error:  # which is no OSError, also if the disk is full
            raise OSError(str(error)) from error


def read_container(path: Path) -> tuple[dict[str, Any], Tensors]:
    """Return the manifest and tensors of a file whose checksum is right; the tensors are read-only."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise ValueError(f"{path} is a folder; a saved correction or model is one file")
    path.open("rb").close()  # so that a missing file is a FileNotFoundError, not an error of the library
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; a saved correction or model is required")
    try:
        with safe_open(path, framework="numpy") as file:
            written = file.metadata() or {}
            if not {"unhub", "checksum"} <= written.keys():
                raise ValueError(f"{path}: a safetensors file, but not a correction or a model that unhub saved")
            # The format is checked first: a newer one may compute the checksum differently.
            manifest = _parse_manifest(path, written["unhub"])
            tensors = {name: _tensor(path, file, name) for name in file.keys()}  # noqa: SIM118  (it is not a dict)
    except SafetensorError as error:
        raise ValueError(f"{path}: truncated, or not a file that unhub saved") from error
    if checksum(written["unhub"], tensors) != written["checksum"]:
        raise ValueError(f"{path}: corrupted, its checksum does not match its contents; save it again")
    for array in tensors.values():
        array.setflags(write=False)
    return manifest, tensors


def _tensor(path: Path, file: Any, name: str) -> NDArray[np.generic]:
    try:
        tensor: NDArray[np.generic] = file.get_tensor(name)
    except (TypeError, AttributeError, KeyError):  # the library's own, for a type that numpy does not have
        raise ValueError(f"{path}: corrupted, its tensor {name!r} is of a type that unhub does not write") from None
    return tensor


def _parse_manifest(path: Path, text: str) -> dict[str, Any]:
    try:
        manifest = as_declared(parse_json(text), dict[str, object], "it")
        number = as_declared(manifest.get("format"), Count, "its format")
    except ValueError as error:
        raise ValueError(f"{path}: corrupted, its manifest cannot be read ({error}); save it again") from None
    if number > FORMAT:
        raise ValueError(
            f"{path}: written by a newer unhub (format {number}, this one reads up to {FORMAT}): upgrade unhub"
        )
    return cast("dict[str, Any]", manifest)


@contextmanager
def naming_contents(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in a ValueError about contents that contradict each other, whose checksum may be right."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: its contents are wrong: {error}; save it again") from None


def checksum(manifest: str, tensors: Tensors) -> str:
    """Return a blake2b hash of the manifest and of every tensor's name, type, shape and bytes."""
    total = hashlib.blake2b(manifest.encode(), digest_size=32)
    for name, array in sorted(tensors.items()):
        total.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        total.update(array.data)
    return total.hexdigest()


def plain(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the array as safetensors wants it: in C order and of this machine's byte order."""
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def unhub_version() -> str:
    """Return the version of unhub that runs."""
    try:
        return metadata.version("unhub")
    except metadata.PackageNotFoundError:
        return "unknown"  # run from a checkout that is not installed
