"""A trained model on disk: the weights of its towers and its head, and how it was trained."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict, cast

import numpy as np

from unhub.combine import Combining
from unhub.files.container import FORMAT, WHAT, Tensors, saved_file, unhub_version, write_container
from unhub.model import HEADS, TOWERS, Head, Model, Preparation, Tower, Towers, Training
from unhub.vectors import Float32

MODEL = "model"
MODEL_FILE = saved_file("a saved model", MODEL)


class TowerManifest(TypedDict):
    """What a saved tower is."""

    kind: str
    features: int
    root: bool | None


class ModelManifest(TypedDict):
    """What a saved model says about itself."""

    format: int
    what: str
    head: str
    dimensions: int
    text: TowerManifest
    item: TowerManifest
    training: dict[str, Any]
    versions: dict[str, str]
    created: str


def save_model(model: Combining, path: str | os.PathLike[str]) -> ModelManifest:
    """Write a model to one file and return what it says about itself.

    One whose towers are modules of the user's own cannot be written.
    """
    if not isinstance(model, Model):
        raise ValueError(
            f"a correction or a model is saved, got a {type(model).__name__}; a head goes with its towers, as "
            "unhub.model.Model(towers, head)"
        )
    if not all(isinstance(tower, Tower) for tower in model.towers):
        raise ValueError(
            "model: its towers are modules of your own, which one file for numpy cannot hold; save them with "
            "torch.save(module.state_dict(), path), or train with towers='linear' or 'mlp'"
        )
    sides = {name: cast("Tower", tower) for name, tower in model.towers._asdict().items()}
    tensors = {f"head.{name}": array for name, array in model.head.arrays.items()}
    for side, tower in sides.items():
        tensors |= {f"{side}.{name}": array for name, array in tower.arrays.items()}
        if tower.preparation is not None:
            tensors |= {f"{side}.mean": tower.preparation.mean, f"{side}.scale": tower.preparation.scale}
    manifest = _manifest(model, sides)
    write_container(path, MODEL_FILE, cast("Mapping[str, object]", manifest), tensors)
    return manifest


def _manifest(model: Model, sides: Mapping[str, Tower]) -> ModelManifest:
    return {
        "format": FORMAT,
        "what": MODEL,
        "head": model.head.name,
        "dimensions": model.dimensions,
        "text": _tower_manifest(sides["text"]),
        "item": _tower_manifest(sides["item"]),
        "training": model.training.to_dict(),
        "versions": {"unhub": unhub_version(), "numpy": np.__version__},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _tower_manifest(tower: Tower) -> TowerManifest:
    root = None if tower.preparation is None else tower.preparation.root
    return {"kind": tower.kind, "features": tower.features, "root": root}


def as_model_manifest(manifest: dict[str, Any], path: str | os.PathLike[str]) -> ModelManifest:
    """Return the manifest of a model; that of anything else is an error."""
    if manifest.get(WHAT) != MODEL:
        raise ValueError(f"{path}: is a saved correction, not a model, which unhub.training.train makes")
    return cast("ModelManifest", manifest)


def load_model(path: str | os.PathLike[str], read: dict[str, Any], tensors: Tensors) -> Model:
    """Return the model that a file holds."""
    manifest = as_model_manifest(read, path)
    sides = (manifest["text"], manifest["item"])
    for name, known in ((manifest["head"], HEADS), *((side["kind"], TOWERS) for side in sides)):
        if name not in known:
            raise ValueError(f"{path}: this unhub has no {name!r}; it has {', '.join(known)}")
    head = Head(manifest["head"], manifest["dimensions"], _under("head.", tensors))
    text, item = (
        _tower(side, manifest["dimensions"], _under(f"{name}.", tensors))
        for name, side in zip(Towers._fields, sides, strict=True)
    )
    return Model(Towers(text, item), head, Training.from_dict(manifest["training"]))


def _under(beginning: str, tensors: Tensors) -> dict[str, Float32]:
    return {
        name.removeprefix(beginning): cast("Float32", array)
        for name, array in tensors.items()
        if name.startswith(beginning)
    }


def _tower(saved: TowerManifest, dimensions: int, arrays: dict[str, Float32]) -> Tower:
    preparation = None
    if saved["root"] is not None:
        preparation = Preparation(arrays.pop("mean"), arrays.pop("scale"), saved["root"])
    return Tower(saved["kind"], saved["features"], dimensions, arrays, preparation)
