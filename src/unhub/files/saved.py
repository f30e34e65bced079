"""A correction on disk: one safetensors file with a manifest, written atomically and checked in full when read.

The manifest is JSON under the key `unhub` of the file's metadata; `checksum` beside it covers it and every tensor.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from unhub.correction import KINDS, Bias, Correction, Cost, Origin, Source, check_correction
from unhub.fingerprint import Fingerprint
from unhub.replacing import replacing
from unhub.vectors import Ids, as_ids

Tensors: TypeAlias = Mapping[str, NDArray[np.generic]]

FORMAT = 1
ARRAY = "array."  # before the names of the correction's own arrays, so that none can be taken for another tensor


class Set(TypedDict):
    """A set of vectors: how many rows, and a hash of their contents in hexadecimal."""

    count: int
    digest: str


class Manifest(TypedDict):
    """What a saved file says about itself."""

    format: int
    kind: str
    method: str
    parameters: dict[str, object]
    similarity: Origin
    dimensions: int | None
    items: Set
    ids: str
    ids_hash: str
    bank: Set | None
    bank_items: Set | None
    offset: float | None
    cost: dict[str, Any]
    versions: dict[str, str]
    created: str


def save(correction: Correction, path: str | os.PathLike[str]) -> None:
    """Write a correction to one file; what stood at `path` stays until the new file is whole and on disk.

    The item vectors of a Rescore are not written: a searcher has them.
    """
    from safetensors.numpy import save_file

    check_correction(correction, "save")
    ids = _pack_ids(correction.ids)
    arrays = {f"{ARRAY}{name}": _plain(array) for name, array in correction.arrays.items()}
    tensors = {**arrays, **ids, "item_hashes": _plain(correction.item_hashes)}
    manifest = json.dumps(_manifest(correction, ids))
    with replacing(path) as temporary:
        save_file(tensors, temporary, {"unhub": manifest, "checksum": _checksum(manifest, tensors)})


def load(path: str | os.PathLike[str]) -> Correction:
    """Read a saved correction; a file that is not one, or not whole, or not as it was written, is a ValueError."""
    from unhub.methods import parse  # here, as it brings the kernels, which reading vectors or a manifest can spare

    manifest, tensors = _open(Path(path))
    try:
        method = parse(manifest["method"])
    except ValueError as error:
        raise ValueError(f"{path}: this unhub has no method {manifest['method']!r} ({error})") from None
    count = manifest["items"]["count"]
    correction = KINDS[manifest["kind"]](
        method=method,
        ids=as_ids(_unpack_ids(tensors, count), count, str(path)),
        item_hashes=cast("NDArray[np.uint64]", tensors["item_hashes"]),
        source=Source(
            similarity=manifest["similarity"],
            dimensions=manifest["dimensions"],
            bank=_fingerprint(manifest["bank"]),
            bank_items=_fingerprint(manifest["bank_items"]),
        ),
        cost=Cost(**{**manifest["cost"], "notes": tuple(manifest["cost"]["notes"])}),
        arrays={name.removeprefix(ARRAY): array for name, array in tensors.items() if name.startswith(ARRAY)},
    )
    if isinstance(correction, Bias) and manifest["offset"] is not None:
        return dataclasses.replace(correction, offset=manifest["offset"])
    return correction


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Return what a saved file says about itself, the whole file checked as `load` checks it."""
    return _open(Path(path))[0]


def _open(path: Path) -> tuple[Manifest, Tensors]:
    """Return the manifest and tensors of a file whose checksum is right."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise ValueError(f"{path} is a folder; a saved correction is one file")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; a saved correction is wanted")
    try:
        with safe_open(path, framework="numpy") as file:
            written = file.metadata() or {}
            if not {"unhub", "checksum"} <= written.keys():
                raise ValueError(f"{path}: a safetensors file, but not a correction that unhub saved")
            # The format is looked at before the checksum, which a newer one may compute otherwise.
            manifest = _parse_manifest(path, written["unhub"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is not a dict)
    except SafetensorError as error:
        raise ValueError(f"{path}: truncated, or not a file that unhub saved ({error})") from None
    if _checksum(written["unhub"], tensors) != written["checksum"]:
        raise ValueError(f"{path}: corrupted, its checksum does not match its contents; save it again")
    for array in tensors.values():
        array.setflags(write=False)
    return manifest, tensors


def _parse_manifest(path: Path, text: str) -> Manifest:
    try:
        manifest: Manifest = json.loads(text)
        number = int(manifest["format"])
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{path}: corrupted, its manifest cannot be read; save it again") from None
    if number > FORMAT:
        raise ValueError(
            f"{path}: written by a newer unhub (format {number}, this one reads up to {FORMAT}): upgrade unhub"
        )
    return manifest


def _manifest(correction: Correction, ids: Tensors) -> Manifest:
    from unhub.methods import parse

    return {
        "format": FORMAT,
        "kind": correction.kind,
        "method": correction.spec,
        "parameters": dict(parse(correction.spec).values),
        "similarity": correction.source.similarity,
        "dimensions": correction.source.dimensions,
        "items": _sized(Fingerprint.of(correction.item_hashes)),
        "ids": {(): "0..n-1", ("ids",): "integers"}.get(tuple(ids), "strings"),
        "ids_hash": _checksum("", ids or {"ids": _plain(correction.ids)}),
        "bank": _set(correction.source.bank),
        "bank_items": _set(correction.source.bank_items),
        "offset": float(correction.offset) if isinstance(correction, Bias) else None,
        "cost": dataclasses.asdict(correction.cost),
        "versions": {"unhub": _unhub_version(), "numpy": np.__version__, "python": platform.python_version()},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _unhub_version() -> str:
    try:
        return metadata.version("unhub")
    except metadata.PackageNotFoundError:
        return "unknown"  # run from a checkout that is not installed


def _set(fingerprint: Fingerprint | None) -> Set | None:
    return None if fingerprint is None else _sized(fingerprint)


def _sized(fingerprint: Fingerprint) -> Set:
    # In hexadecimal, because JSON readers elsewhere round integers of 64 bits.
    return {"count": fingerprint.count, "digest": f"{fingerprint.digest:016x}"}


def _fingerprint(saved: Set | None) -> Fingerprint | None:
    return None if saved is None else Fingerprint(saved["count"], int(saved["digest"], 16))


def _plain(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the array as safetensors wants it: in C order and of this machine's byte order."""
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def _checksum(manifest: str, tensors: Tensors) -> str:
    """Return a blake2b hash of the manifest and of every tensor's name, type, shape and bytes."""
    checksum = hashlib.blake2b(manifest.encode(), digest_size=32)
    for name, array in sorted(tensors.items()):
        checksum.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        checksum.update(array.data)
    return checksum.hexdigest()


def _pack_ids(ids: Ids) -> Tensors:
    """Return ids as tensors: none for 0..n-1, one of integers, or strings as UTF-8 bytes and where each begins."""
    if ids.dtype.kind == "i":
        return {} if np.array_equal(ids, np.arange(len(ids))) else {"ids": _plain(ids)}
    # A file name that is not UTF-8 reaches Python as surrogates; they must survive too.
    encoded = [one.encode("utf-8", "surrogatepass") for one in ids.tolist()]
    return {
        "ids.text": np.frombuffer(b"".join(encoded), np.uint8),
        "ids.starts": np.cumsum([0, *map(len, encoded)], dtype=np.int64),
    }


def _unpack_ids(tensors: Tensors, count: int) -> NDArray[np.generic]:
    if "ids" in tensors:
        return tensors["ids"]
    if "ids.text" not in tensors:
        return np.arange(count)
    text, starts = tensors["ids.text"].tobytes(), tensors["ids.starts"].tolist()
    return np.array([text[start:stop].decode("utf-8", "surrogatepass") for start, stop in pairwise(starts)], np.str_)
