"""A correction on disk: h and what else its method keeps, ids, a hash of each item, and what it was fitted on."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids, Kind
from unhub.compute.workers import available_memory
from unhub.correction import KINDS, Bias, Correction, Cost, Origin, Source, check_correction
from unhub.data.bank import BankRows, whole
from unhub.data.fingerprint import Fingerprint
from unhub.data.ids import as_ids
from unhub.data.kept_arrays import BANK_WEIGHT, Kept, check_arrays
from unhub.data.vectors import as_texts
from unhub.data.witness import MARKS, Witness
from unhub.errors import ArgumentError
from unhub.files.container import (
    FORMAT,
    WHAT,
    Tensors,
    checksum,
    naming_contents,
    plain,
    unhub_version,
    write_container,
)
from unhub.files.declared import Count, as_declared
from unhub.layouts import Form, Layout

if TYPE_CHECKING:
    from unhub.methods import Method

MOST_TEXT_GROWTH = 100  # times the text itself; ids that take less are not compared with the free memory
NO_ESTIMATE = {"pairs": None, "error": None, "how": ""}  # in the cost of a file saved before these were stated
ARRAY_PREFIX = "array."  # before the names of the correction's own arrays, so that none has the name of another tensor
WITNESS_PREFIX = "witness."
BANK_PREFIX = "bank."


class Set(TypedDict):
    """A set of vectors: how many rows, a hash of their contents in hexadecimal, and the sum of weights other than 1."""

    count: Count
    digest: str
    weight: NotRequired[float]


class SavedLayout(TypedDict):
    """A layout as JSON; radius is null where there is none."""

    dimensions: Count
    form: Form
    width: Count
    rotate: bool
    radius: float | None
    similarity: Kind
    ratio: float
    shift: NotRequired[float]
    strength: float
    gated: bool
    engine: str


class Manifest(TypedDict):
    """What a saved correction says about itself; these types are checked when it is read."""

    format: Count
    kind: str
    method: str
    parameters: dict[str, object]
    similarity: Origin
    dimensions: Count | None
    items: Set
    ids: str
    ids_hash: str
    bank: Set | None
    bank_items: Set | None
    offset: float | None
    cost: dict[str, Any]
    versions: dict[str, str]
    created: str
    layout: NotRequired[SavedLayout]


def save_correction(
    correction: Correction, path: str | os.PathLike[str], overwrite: bool = False, layout: Layout | None = None
) -> Manifest:
    """Write a correction, with its layout if it has one, to one file and return what it says about itself.

    The item vectors of a Rescore are not written: a searcher has them. overwrite: replace whatever is at `path`.
    """
    check_correction(correction, "save")
    try:
        check_contents(correction)
    except ValueError as error:
        problem = f"({correction.spec}) cannot be saved, since the file could not be read again: {error}"
        raise ArgumentError("correction", problem) from None
    ids = _pack_ids(correction.ids)
    arrays = {f"{ARRAY_PREFIX}{name}": array for name, array in correction.arrays.items()}
    source = {**_witness_tensors(correction.source), **_bank_tensors(correction.source)}
    tensors = {**arrays, **ids, **source, "item_hashes": correction.item_hashes}
    manifest = _manifest(correction, ids)
    if layout is not None:
        if (layout.dimensions, layout.similarity) != (correction.source.dimensions, correction.source.similarity):
            problem = f"is for {layout.dimensions} dimensions under {layout.similarity}"
            of = f"{correction.source.dimensions} under {correction.source.similarity}"
            raise ArgumentError("layout", f"{problem}, the correction for {of}", "make one for this correction")
        manifest["layout"] = cast("SavedLayout", layout.to_json())
    write_container(path, cast("Mapping[str, object]", manifest), tensors, overwrite)
    return manifest


def load_correction(path: str | os.PathLike[str], read: dict[str, Any], tensors: Tensors) -> Correction:
    """Return the correction in a file, once its contents match its manifest and its method."""
    from unhub.methods import parse  # here: it imports the kernels, which reading vectors does not need

    manifest = as_correction_manifest(read, path)
    try:
        method = parse(manifest["method"])
    except ValueError as error:
        raise ValueError(f"{path}: this unhub has no method {manifest['method']!r} ({error})") from None
    with naming_contents(path):
        _check_parameters(manifest, method)
        hashes = _item_hashes(manifest, tensors)
        source = _source(manifest, method)
        source = dataclasses.replace(
            source, witness=_witness(tensors, len(hashes)), bank_rows=_bank_rows(tensors, source.bank)
        )
        correction = KINDS[method.kind](
            method=method,
            ids=_unpack_ids(manifest, tensors, len(hashes)),
            item_hashes=hashes,
            source=source,
            cost=as_declared({**NO_ESTIMATE, **manifest["cost"]}, Cost, "cost", closed=True),
            arrays={
                name.removeprefix(ARRAY_PREFIX): array
                for name, array in tensors.items()
                if name.startswith(ARRAY_PREFIX)
            },
        )
        if isinstance(correction, Bias):
            offset = as_declared(manifest["offset"], float, "offset")
            correction = dataclasses.replace(correction, offset=float(offset))
        check_contents(correction)
    return correction


def load_saved_layout(path: str | os.PathLike[str], read: dict[str, Any]) -> Layout:
    """Return the layout that was saved with a correction; raise if it was saved without one."""
    manifest = as_correction_manifest(read, path)
    if "layout" not in manifest:
        raise ValueError(f"{path}: was saved without a layout; make one with unhub.layout and save it along")
    with naming_contents(path):
        return Layout.from_json(cast("Mapping[str, Any]", manifest["layout"]))


def read_correction_manifest(path: str | os.PathLike[str], read: dict[str, Any], tensors: Tensors) -> Manifest:
    """Return what a saved correction says about itself, after checking the whole file."""
    load_correction(path, read, tensors)
    return as_correction_manifest(read, path)


def as_correction_manifest(manifest: dict[str, Any], path: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of a correction; that of a model is an error."""
    if WHAT in manifest:
        raise ValueError(f"{path}: is a saved {manifest[WHAT]}, not a correction")
    with naming_contents(path):
        return cast("Manifest", as_declared(manifest, Manifest, "its manifest", closed=True))


def check_contents(correction: Correction) -> None:
    """Raise a ValueError unless a correction's arrays are those that its kind and its method declare."""
    method, source = cast("Method", correction.method), correction.source
    given = source.similarity == "given"
    declared = [{**correction.keeps, **method.keeps(mergeable, given)} for mergeable in (False, True)]
    sizes = {"items": len(correction)}
    if source.bank is not None:
        sizes["bank"] = source.bank.count
        if source.bank.weight is not None:
            sizes[BANK_WEIGHT] = whole(source.bank.weight)
    if source.dimensions is not None:
        sizes["dimensions"] = source.dimensions
    if not given:
        sizes["bank_items"] = 0 if source.bank_items is None else source.bank_items.count
    check_arrays(correction.arrays, declared[correction.arrays.keys() == declared[1].keys()], sizes)
    method.check(correction.arrays, sizes)


def _check_parameters(manifest: Manifest, method: Method) -> None:
    if manifest["kind"] != method.kind:
        raise ValueError(f"kind is {manifest['kind']!r}, that of {method.name} {method.kind!r}")
    values = method.values
    for name, value in manifest["parameters"].items():
        if type(value) is not type(values.get(name)) or value != values[name]:
            raise ValueError(f"the parameter {name} is {value!r}, the method {manifest['method']}")


def _source(manifest: Manifest, method: Method) -> Source:
    """Return what the correction was fitted on, which must be all that its method needs."""
    similarity, dimensions = manifest["similarity"], manifest["dimensions"]
    bank, bank_items = _fingerprint(manifest["bank"], "bank"), _fingerprint(manifest["bank_items"], "bank_items")
    if similarity == "given":
        if (dimensions, bank, bank_items) != (None, None, None):
            raise ValueError("dimensions, bank and bank_items must be null where a similarity matrix was given")
    elif dimensions is None:
        raise ValueError(f"dimensions is None, the similarity {similarity}")
    elif bank is None and method.needs_bank:
        raise ValueError(f"bank is None, and {method.name} needs one")
    elif bank_items is None and method.dual:
        raise ValueError(f"bank_items is None, and {method.name} needs them")
    return Source(similarity, dimensions, bank, bank_items)


def _item_hashes(manifest: Manifest, tensors: Tensors) -> NDArray[np.uint64]:
    """Return the hash of each item; their number and their digest must be those of the manifest."""
    for name in tensors:
        if not name.startswith((ARRAY_PREFIX, WITNESS_PREFIX, BANK_PREFIX)) and name not in (
            "item_hashes",
            "ids",
            "ids.text",
            "ids.starts",
        ):
            raise ValueError(f"it cannot have a tensor {name!r}")
    wanted = {"item_hashes": Kept("uint64", ("items",))}
    check_arrays({name: tensors[name] for name in wanted if name in tensors}, wanted, {})
    hashes = cast("NDArray[np.uint64]", tensors["item_hashes"])
    if manifest["items"]["count"] != len(hashes):
        raise ValueError(f"items.count is {manifest['items']['count']}, and there are {len(hashes)} hashes of items")
    if _fingerprint(manifest["items"], "items") != Fingerprint.of(hashes):
        raise ValueError("items.digest is not that of the hashes of the items")
    return hashes


def _witness_tensors(source: Source) -> Tensors:
    witness = source.witness
    if witness is None:
        return {}
    named: Tensors = {"places": witness.places, "marks": witness.marks, "lengths": witness.lengths}
    return {f"{WITNESS_PREFIX}{name}": plain(array) for name, array in named.items()}


def _witness(tensors: Tensors, count: int) -> Witness | None:
    """Return the witness of the items; None in a file that was written before there were any."""
    held = {name: array for name, array in tensors.items() if name.startswith(WITNESS_PREFIX)}
    if not held:
        return None
    wanted = {
        f"{WITNESS_PREFIX}places": Kept("int64", ("witnesses",), below="items"),
        f"{WITNESS_PREFIX}marks": Kept("float32", ("witnesses", MARKS)),
        f"{WITNESS_PREFIX}lengths": Kept("float32", ("witnesses",)),
    }
    check_arrays(held, wanted, {"items": count})
    return Witness(*(cast("Any", held[name]) for name in wanted))


def _bank_tensors(source: Source) -> Tensors:
    rows = source.bank_rows
    if rows is None:
        return {}
    weights = {} if rows.weights is None else {f"{BANK_PREFIX}weights": plain(rows.weights)}
    return {f"{BANK_PREFIX}hashes": plain(rows.hashes), **weights}


def _bank_rows(tensors: Tensors, bank: Fingerprint | None) -> BankRows | None:
    """Return the queries of the bank; None in a file that was written before they were kept."""
    held = {name: array for name, array in tensors.items() if name.startswith(BANK_PREFIX)}
    if not held:
        return None
    if bank is None:
        raise ValueError("it has hashes of bank queries, and bank is null")
    wanted = {
        f"{BANK_PREFIX}hashes": Kept("uint64", ("bank",)),
        f"{BANK_PREFIX}weights": Kept("float64", ("bank",), optional=True),
    }
    check_arrays(held, wanted, {"bank": bank.count})
    rows = BankRows(*(cast("Any", held.get(name)) for name in wanted))
    if rows.fingerprint != bank:
        raise ValueError("bank.digest is not that of the hashes of the bank queries")
    return rows


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
        "ids": _ids_kind(ids),
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
    sized: Set = {"count": fingerprint.count, "digest": f"{fingerprint.digest:016x}"}
    if fingerprint.weight is not None:
        sized["weight"] = fingerprint.weight
    return sized


def _fingerprint(saved: Set | None, name: str) -> Fingerprint | None:
    if saved is None:
        return None
    if re.fullmatch("[0-9a-f]{16}", saved["digest"]) is None:
        raise ValueError(f"{name}.digest is {saved['digest']!r}; 16 hexadecimal digits are required")
    weight = saved.get("weight")
    if weight is not None and not 0 < weight < np.inf:
        raise ValueError(f"{name}.weight is {weight}; a finite sum of weights above 0 is required")
    return Fingerprint(saved["count"], int(saved["digest"], 16), weight)


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


def _ids_kind(ids: Tensors) -> str:
    return {(): "0..n-1", ("ids",): "integers"}.get(tuple(ids), "strings")


def _unpack_ids(manifest: Manifest, tensors: Tensors, count: int) -> Ids:
    """Return the ids of `count` items; their kind and their hash must be those of the manifest."""
    held = {name: array for name, array in tensors.items() if name == "ids" or name.startswith("ids.")}
    if manifest["ids"] != _ids_kind(held):
        raise ValueError(f"ids is {manifest['ids']!r}, and the tensors are those of {_ids_kind(held)!r}")
    wanted = {
        "0..n-1": {},
        "integers": {"ids": Kept("int64", ("items",), least=np.iinfo(np.int64).min)},
        "strings": {"ids.text": Kept("uint8", ("letters",)), "ids.starts": Kept("int64", ("starts",))},
    }[manifest["ids"]]
    check_arrays(held, wanted, {"items": count, "starts": count + 1})
    ids = as_ids(_texts(held, count) if "ids.text" in held else held.get("ids", np.arange(count)), count, "ids")
    if manifest["ids_hash"] != checksum("", held or {"ids": plain(ids)}):
        raise ValueError("ids_hash is not that of the ids")
    return ids


def _texts(held: Tensors, count: int) -> NDArray[np.str_]:
    text, starts = held["ids.text"].tobytes(), cast("NDArray[np.int64]", held["ids.starts"])
    lengths = np.diff(starts)
    if starts[0] != 0 or starts[-1] != len(text) or (lengths < 0).any():
        raise ValueError("the array ids.starts does not rise from 0 to the length of ids.text")
    room = int(lengths.max()) * count * 4  # numpy gives every text the room of the longest
    if room > MOST_TEXT_GROWTH * len(text) and room > available_memory():
        raise ValueError(f"{count} ids with one of {lengths.max()} bytes among them do not fit into memory")
    try:
        listed = [text[start:stop].decode("utf-8", "surrogatepass") for start, stop in pairwise(starts.tolist())]
    except UnicodeDecodeError as error:
        raise ValueError(f"the ids are not UTF-8 text ({error})") from None
    return as_texts(listed)
