"""A trained model on disk: the weights of its towers and its head, and how it was trained."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict, cast

import numpy as np

from unhub.arrays import Float32
from unhub.combine import Combining
from unhub.data.kept_arrays import Declared, Kept, check_arrays
from unhub.errors import ArgumentError
from unhub.files.container import FORMAT, WHAT, Tensors, naming_contents, unhub_version, write_container
from unhub.files.declared import Count, as_declared
from unhub.model import (
    HEADS,
    PREPARED,
    TOWER_ARRAYS,
    TOWERS,
    Head,
    Model,
    Preparation,
    Tower,
    Towers,
    Training,
)

MODEL = "model"


class TowerManifest(TypedDict):
    """What a saved tower is."""

    kind: str
    features: Count
    root: bool | None


class TrainingSettings(TypedDict):
    """What is shown of the settings of a training: queries of a target at a time, whether 1 of them too, the seed."""

    queries: Count
    combination: bool
    seed: int


class TrainingSet(TypedDict):
    """How large a training set was."""

    items: Count
    captions: Count


class TrainingData(TypedDict):
    """What is shown of the data of a training."""

    training: TrainingSet


class ModelManifest(TypedDict):
    """What a saved model says about itself; these types are checked when it is read."""

    format: Count
    what: str
    head: str
    dimensions: Count
    text: TowerManifest
    item: TowerManifest
    training: dict[str, Any]
    versions: dict[str, str]
    created: str


def save_model(model: Combining, path: str | os.PathLike[str], overwrite: bool = False) -> ModelManifest:
    """Write a model to one file and return what it says about itself.

    A model whose towers are modules of the user's own cannot be written. overwrite: replace whatever is at `path`.
    """
    if not isinstance(model, Model):
        raise ArgumentError(
            "saved",
            f"must be a correction or a model, got a {type(model).__name__}",
            "a head is saved with its towers, as one Model",
        )
    if not all(isinstance(tower, Tower) for tower in model.towers):
        raise ArgumentError(
            "saved",
            "has towers that are modules of your own, which one file for numpy cannot hold",
            "save their state with torch, or train with 'linear' or 'mlp' towers",
        )
    sides = {name: cast("Tower", tower) for name, tower in model.towers._asdict().items()}
    tensors = {f"head.{name}": array for name, array in model.head.arrays.items()}
    for side, tower in sides.items():
        tensors |= {f"{side}.{name}": array for name, array in tower.arrays.items()}
        if tower.preparation is not None:
            tensors |= {f"{side}.mean": tower.preparation.mean, f"{side}.scale": tower.preparation.scale}
    manifest = _manifest(model, sides)
    write_container(path, cast("Mapping[str, object]", manifest), tensors, overwrite)
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
        raise ValueError(f"{path}: is a saved correction, not a model")
    with naming_contents(path):
        return cast("ModelManifest", as_declared(manifest, ModelManifest, "its manifest"))


def load_model(path: str | os.PathLike[str], read: dict[str, Any], tensors: Tensors) -> Model:
    """Return the model in a file, once its contents match its manifest and its parts."""
    manifest = as_model_manifest(read, path)
    sides = (manifest["text"], manifest["item"])
    for name, known in ((manifest["head"], HEADS), *((side["kind"], TOWERS) for side in sides)):
        if name not in known:
            raise ValueError(f"{path}: this unhub has no {name!r}; it has {', '.join(known)}")
    with naming_contents(path):
        parts = {name: _under(f"{name}.", tensors) for name in ("head", *Towers._fields)}
        if odd := sorted({*tensors} - {f"{part}.{name}" for part, arrays in parts.items() for name in arrays}):
            raise ValueError(f"it cannot have a tensor {odd[0]!r}")
        head = _head(manifest, parts["head"])
        text, item = (
            _tower(side, manifest["dimensions"], parts[name], name)
            for name, side in zip(Towers._fields, sides, strict=True)
        )
        return Model(Towers(text, item), head, _training(manifest["training"]))


def read_model_manifest_of(path: str | os.PathLike[str], read: dict[str, Any], tensors: Tensors) -> ModelManifest:
    """Return what a saved model says about itself, after checking the whole file."""
    load_model(path, read, tensors)
    return as_model_manifest(read, path)


def _under(beginning: str, tensors: Tensors) -> dict[str, Float32]:
    return {
        name.removeprefix(beginning): cast("Float32", array)
        for name, array in tensors.items()
        if name.startswith(beginning)
    }


def _head(manifest: ModelManifest, arrays: dict[str, Float32]) -> Head:
    name, dimensions = manifest["head"], manifest["dimensions"]
    shapes = HEADS[name].shapes(dimensions)
    _check("head", arrays, {array: Kept("floating", shape) for array, shape in shapes.items()}, {})
    return Head(name, dimensions, arrays)


def _tower(saved: TowerManifest, dimensions: int, arrays: dict[str, Float32], name: str) -> Tower:
    kind, features, root = saved["kind"], saved["features"], saved["root"]
    declared = {**TOWER_ARRAYS[kind], **({} if root is None else PREPARED)}
    _check(name, arrays, declared, {"features": features, "dimensions": dimensions})
    if kind == "none" and features != dimensions:
        raise ValueError(f"the {name} tower is none, and takes {features} features to {dimensions} dimensions")
    preparation = None if root is None else Preparation(arrays.pop("mean"), arrays.pop("scale"), root)
    return Tower(kind, features, dimensions, arrays, preparation)


def _check(part: str, arrays: Mapping[str, Float32], declared: Declared, sizes: Mapping[str, int]) -> None:
    named = {f"{part}.{name}": kept for name, kept in declared.items()}
    check_arrays({f"{part}.{name}": array for name, array in arrays.items()}, named, sizes)


def _training(saved: dict[str, Any]) -> Training:
    training = cast("Training", as_declared(saved, Training, "training"))
    for name, declared in (("settings", TrainingSettings), ("data", TrainingData)):
        if saved[name]:  # a model that was made by hand has none
            as_declared(saved[name], declared, f"training.{name}")
    for number, one in enumerate(training.tried):
        if not one.failed and not 1 <= one.best <= len(one.epochs):
            raise ValueError(f"training.tried[{number}].best is {one.best}, of {len(one.epochs)} epochs")
    return training
