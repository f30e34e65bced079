"""Towers: turn a row of features into a unit vector of the joint space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from unhub.arrays import Float32, Float64, rows_per_block, unit
from unhub.data.fingerprint import inspect
from unhub.data.kept_arrays import Declared, Kept
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError

Arrays: TypeAlias = Mapping[str, Float32]
Forward: TypeAlias = Callable[[Float32, Arrays], Float32]


@dataclass(frozen=True, eq=False)
class Preparation:
    """What is applied to a row before the learnt part: an optional square root, then (x - mean) * scale.

    The root is sign(x) sqrt(|x|). A column that was constant in training has scale 0: nothing was learnt from it.
    """

    mean: Float32
    scale: Float32
    root: bool = False

    @staticmethod
    def of(vectors: Vectors, root: bool | None = None) -> Preparation:
        """Learn the mean and the deviation of each column from training rows.

        By default, `root` is True if no value is negative: such features are activations after a ReLU or counts, whose
        spread grows with their size, and a root evens that out.
        """
        rooted = _never_negative(vectors) if root is None else root
        mean = _column_mean(vectors, rooted, np.zeros(vectors.dimensions), power=1)
        deviation = np.sqrt(_column_mean(vectors, rooted, mean, power=2))
        varies = deviation > 1e-6 * np.maximum(np.abs(mean), 1e-6)
        scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
        return Preparation(mean.astype(np.float32), scale.astype(np.float32), rooted)

    def __call__(self, block: Float32) -> Float32:
        """Return the prepared rows, (rows, features)."""
        return np.asarray((_rooted(block, self.root) - self.mean) * self.scale, np.float32)


def _never_negative(vectors: Vectors) -> bool:
    return all(float(block.min()) >= 0 for _, block in vectors.blocks())


def _column_mean(vectors: Vectors, root: bool, about: Float64, power: int) -> Float64:
    total = np.zeros(vectors.dimensions)
    for _, block in vectors.blocks():
        total += ((_rooted(block, root).astype(np.float64) - about) ** power).sum(axis=0)
    return total / len(vectors)


def _rooted(block: Float32, root: bool) -> Float32:
    return np.asarray(np.copysign(np.sqrt(np.abs(block)), block)) if root else block


def as_it_is(block: Float32, arrays: Arrays) -> Float32:
    """Return the rows unchanged: they are already in the joint space."""
    return block


def linear(block: Float32, arrays: Arrays) -> Float32:
    """Return x W^T + b."""
    return np.asarray(block @ arrays["linear.weight"].T + arrays["linear.bias"])


def mlp(block: Float32, arrays: Arrays) -> Float32:
    """Return a linear path plus one hidden layer: x W^T + b + relu(x U^T + c) V^T."""
    hidden = np.maximum(block @ arrays["hidden.weight"].T + arrays["hidden.bias"], 0)
    return np.asarray(linear(block, arrays) + hidden @ arrays["out.weight"].T)


TOWERS: Mapping[str, Forward] = {"none": as_it_is, "linear": linear, "mlp": mlp}

_LINEAR = {
    "linear.weight": Kept("floating", ("dimensions", "features")),
    "linear.bias": Kept("floating", ("dimensions",)),
}
_HIDDEN = {
    "hidden.weight": Kept("floating", ("hidden", "features")),
    "hidden.bias": Kept("floating", ("hidden",)),
    "out.weight": Kept("floating", ("dimensions", "hidden")),
}
TOWER_ARRAYS: Mapping[str, Declared] = {"none": {}, "linear": _LINEAR, "mlp": {**_LINEAR, **_HIDDEN}}
PREPARED: Declared = {name: Kept("floating", ("features",)) for name in ("mean", "scale")}


@dataclass(frozen=True, eq=False)
class Tower:
    """Turns rows of `features` into unit vectors of `dimensions`: a preparation, then `none`, `linear` or `mlp`.

    arrays: the learnt weights, by torch's names.
    """

    kind: str
    features: int
    dimensions: int
    arrays: Arrays = field(default_factory=dict)
    preparation: Preparation | None = None

    def encode(self, rows: VectorsLike, name: str) -> Vectors:
        """Return unit vectors of the joint space with the ids of the rows, float32; errors call the rows `name`."""
        vectors = as_vectors(rows, name)
        if vectors.dimensions != self.features:
            raise ArgumentError(
                name,
                f"has {vectors.dimensions} dimensions, this tower was trained on {self.features}",
                "give the features of the same encoder",
            )
        inspect(vectors, name, "cosine" if self.kind == "none" else "dot")
        out = np.empty((len(vectors), self.dimensions), np.float32)
        for start, block in vectors.blocks(rows_per_block(max(self.features, self.dimensions))):
            out[start : start + len(block)] = self._unit(block, start, name)
        return Vectors(vectors.ids, out)

    def _unit(self, block: Float32, start: int, name: str) -> Float32:
        prepared = block if self.preparation is None else self.preparation(block)
        out = TOWERS[self.kind](prepared, self.arrays)
        lost = np.flatnonzero(~(np.einsum("ij,ij->i", out, out) > 0))  # also NaN, after an overflow
        if len(lost):
            problem = f"has row {start + lost[0]}, which its tower maps to a vector without direction"
            raise ArgumentError(name, problem, "check the features of that row")
        return unit(out)
