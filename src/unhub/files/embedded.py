"""The folder that `unhub embed` writes (rows to map, their ids, a manifest), and its reader."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from unhub.data.vectors import as_texts
from unhub.files.declared import Count, Natural, as_declared, parse_json
from unhub.files.numpy_files import FoundRows, map_npy

FORMAT = 1
ROWS, IDS, MANIFEST = "embeddings.npy", "ids.json", "manifest.json"
UNFINISHED = ".unfinished"  # added to the name of the folder until the work is done


class Encoded(TypedDict):
    """The model: its name as it was given, its class, and a hash of its weights."""

    name: str
    type: str
    digest: str


class Given(TypedDict):
    """What was to be embedded: how many, and a hash of ids with texts or contents of files."""

    count: int
    digest: str


class EmbeddingTask(TypedDict):
    """What makes two runs the same work."""

    format: int
    kind: str
    model: Encoded
    settings: dict[str, str | int | None]
    inputs: Given


class Left(TypedDict):
    """An input that was skipped, and why."""

    id: int | str
    reason: str


class Sized(TypedDict):
    """What every reader of the folder needs of its manifest."""

    format: Count
    rows: Natural
    dimensions: Natural


class EmbeddingManifest(EmbeddingTask):
    """What the folder says about itself. `truncated` texts were longer than the model reads."""

    source: str
    rows: int
    dimensions: int
    dtype: str
    skipped: list[Left]
    truncated: int
    versions: dict[str, str]
    created: str


def is_embedded(path: Path) -> bool:
    """Return whether a folder is one that `unhub embed` finished."""
    return (path / MANIFEST).is_file()


def read_embedded(path: Path) -> FoundRows:
    """Map the rows of a folder that `unhub embed` wrote, with their ids."""
    manifest, rows = read_embedding_manifest(path), map_npy(path / ROWS)
    if rows.shape != (manifest["rows"], manifest["dimensions"]):
        raise ValueError(
            f"{path}: {MANIFEST} says {manifest['rows']} rows of {manifest['dimensions']} dimensions, {ROWS} has shape "
            f"{rows.shape}; embed again"
        )
    return FoundRows(rows, lambda: _read_ids(path / IDS))


def read_embedding_manifest(path: Path) -> EmbeddingManifest:
    """Return what a folder that `unhub embed` wrote says about itself."""
    try:
        manifest: EmbeddingManifest = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
        number = as_declared(manifest, Sized, "it")["format"]
    except ValueError as error:
        raise ValueError(
            f"{path / MANIFEST}: is not a manifest that `unhub embed` wrote ({error}); embed again"
        ) from None
    if number > FORMAT:
        raise ValueError(
            f"{path}: written by a newer unhub (format {number}, this one reads up to {FORMAT}): upgrade unhub"
        )
    return manifest


def _read_ids(path: Path) -> NDArray[np.generic]:
    try:
        ids = as_declared(parse_json(path.read_text(encoding="utf-8")), list[object], "it")
        if ids and isinstance(ids[0], str):
            return as_texts(as_declared(ids, list[str], "it"))
        return np.array(as_declared(ids, list[int], "it"), np.int64)
    except ValueError as error:
        raise ValueError(f"{path}: corrupted, it does not hold ids as JSON ({error}); embed again") from None
