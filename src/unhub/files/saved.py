"""Save and load a correction or a model, one file each; the file says which it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, overload

from unhub.combine import Combining
from unhub.correction import Correction
from unhub.errors import ArgumentError
from unhub.files.container import WHAT, read_container
from unhub.files.corrections import (
    Manifest,
    load_correction,
    load_saved_layout,
    read_correction_manifest,
    save_correction,
)
from unhub.files.models import MODEL, ModelManifest, load_model, read_model_manifest_of, save_model
from unhub.files.version_folders import active_file, is_version_folder
from unhub.layouts import Layout
from unhub.model import Model


def save(saved: Correction | Model, path: str | os.PathLike[str], *, layout: Layout | None = None) -> None:
    """Write a correction or a model to one file; the old file stays until the new one is complete and on disk.

    A saved file and an empty one are replaced. Any other existing file is kept, and is an error. layout: how the items
    of the correction are stored in an engine, to be read again by `load_layout`.
    """
    if isinstance(saved, Combining):
        if layout is not None:
            raise ArgumentError("layout", "is of a correction, but a model is saved", "leave it out")
        save_model(saved, path)
    else:
        save_correction(saved, path, layout=layout)


def load_layout(path: str | os.PathLike[str]) -> Layout:
    """Read the layout that was saved with a correction."""
    return load_saved_layout(path, read_container(Path(path))[0])


@overload
def load(path: str | os.PathLike[str], wanted: Literal["correction"]) -> Correction: ...
@overload
def load(path: str | os.PathLike[str], wanted: Literal["model"]) -> Model: ...
@overload
def load(path: str | os.PathLike[str], wanted: None = None) -> Any: ...  # only the file says which
def load(path: str | os.PathLike[str], wanted: Literal["correction", "model"] | None = None) -> Correction | Model:
    """Read a saved correction or model; `wanted` says which it must be. Of a folder of `keep`, the active version.

    Any other file, and one that was truncated or changed, is a ValueError.
    """
    path = _file_of(path)
    manifest, tensors = read_container(path)
    if wanted == MODEL or (wanted is None and manifest.get(WHAT) == MODEL):
        return load_model(path, manifest, tensors)
    return load_correction(path, manifest, tensors)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Return what a saved correction says about itself; the whole file is checked, as by `load`."""
    return read_correction_manifest(path, *read_container(Path(path)))


def read_model_manifest(path: str | os.PathLike[str]) -> ModelManifest:
    """Return what a saved model says about itself; the whole file is checked, as by `load`."""
    return read_model_manifest_of(path, *read_container(Path(path)))


def read_any_manifest(path: str | os.PathLike[str]) -> Manifest | ModelManifest:
    """Return what a saved correction or model says about itself, including which it is; the file is read once."""
    path = _file_of(path)
    manifest, tensors = read_container(path)
    if manifest.get(WHAT) == MODEL:
        return read_model_manifest_of(path, manifest, tensors)
    return read_correction_manifest(path, manifest, tensors)


def is_model(path: str | os.PathLike[str]) -> bool:
    """Return whether a file that unhub saved is a model."""
    return read_container(Path(path))[0].get(WHAT) == MODEL


def _file_of(path: str | os.PathLike[str]) -> Path:
    """Return a saved file, which is that of the active version if a folder of versions is named."""
    given = Path(path)
    return active_file(given) if is_version_folder(given) else given
