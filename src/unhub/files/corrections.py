"""A correction on disk: h and what else its method keeps, ids, a hash of each item, and what it was fitted on."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from unhub.correction import KINDS, Bias, Correction, Cost, Origin, Source, check_correction
from unhub.files.container import (
    CORRECTION_FILE,
    FORMAT,
    WHAT,
    Tensors,
    checksum,
    plain,
    unhub_version,
    write_container,
)
from unhub.fingerprint import Fingerprint
from unhub.vectors import Ids, as_ids

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


def save_correction(correction: Correction, path: str | os.PathLike[str]) -> Manifest:
    """Write a correction to one file and return what it says about itself.

    The item vectors of a Rescore are not written: a searcher has them.
    """
    check_correction(correction, "save")
    ids = _pack_ids(correction.ids)
    arrays = {f"{ARRAY}{name}": array for name, array in correction.arrays.items()}
    tensors = {**arrays, **ids, "item_hashes": correction.item_hashes}
    manifest = _manifest(correction, ids)
    write_container(path, CORRECTION_FILE, cast("Mapping[str, object]", manifest), tensors)
    return manifest


def load_correction(path: str | os.PathLike[str], read: dict[str, Any], tensors: Tensors) -> Correction:
    """Return the correction that a file holds."""
    from unhub.methods import parse  # here, as it brings the kernels, which reading vectors or a manifest can spare

    manifest = as_correction_manifest(read, path)
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


def as_correction_manifest(manifest: dict[str, Any], path: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of a correction; that of a model is an error."""
    if WHAT in manifest:
        raise ValueError(f"{path}: is a saved {manifest[WHAT]}, not a correction, which unhub.fit makes")
    return cast("Manifest", manifest)


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
        "ids_hash": checksum("", ids or {"ids": plain(correction.ids)}),
        "bank": _set(correction.source.bank),
        "bank_items": _set(correction.source.bank_items),
        "offset": float(correction.offset) if isinstance(correction, Bias) else None,
        "cost": dataclasses.asdict(correction.cost),
        "versions": {"unhub": unhub_version(), "numpy": np.__version__, "python": platform.python_version()},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _set(fingerprint: Fingerprint | None) -> Set | None:
    return None if fingerprint is None else _sized(fingerprint)


def _sized(fingerprint: Fingerprint) -> Set:
    # In hexadecimal, because JSON readers elsewhere round integers of 64 bits.
    return {"count": fingerprint.count, "digest": f"{fingerprint.digest:016x}"}


def _fingerprint(saved: Set | None) -> Fingerprint | None:
    return None if saved is None else Fingerprint(saved["count"], int(saved["digest"], 16))


def _pack_ids(ids: Ids) -> Tensors:
    """Return ids as tensors: none for 0..n-1, one of integers, or strings as UTF-8 bytes and where each begins."""
    if ids.dtype.kind == "i":
        return {} if np.array_equal(ids, np.arange(len(ids))) else {"ids": plain(ids)}
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
