"""Stored: the form of vectors in an approximate engine: augmented, of equal length, and within float32."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float32, Float64, Kind, are_ordinary
from unhub.data.vectors import LARGEST_FLOAT32, SAFE_SHIFT, Vectors
from unhub.layouts import Shape, bias_ratio, longest, squared_lengths

# A query this many times longer or shorter than the items is scaled, else squared lengths swamp its products.
LENGTH_RATIO_LIMIT = 1e3


@dataclass(frozen=True)
class Stored:
    """A shape whose biases are multiplied by `ratio` and whose weights are divided by it; items have one length."""

    shape: Shape
    ratio: float
    radius: float

    @classmethod
    def of(cls, shape: Shape, items: Vectors, bias: Float64, similarity: Kind) -> Stored:
        """Return how these items are stored in this shape."""
        ratio = bias_ratio(shape.form, items, bias, similarity)
        return cls(shape, ratio, shape.radius(items, ratio * bias, similarity))

    @property
    def scale(self) -> float:
        """The factor for everything stored; any common length gives the same order.

        Squared distances overflow float32 before products do, and FAISS then aborts the whole process.
        """
        ordinary = are_ordinary(np.array([min(self.radius, LARGEST_FLOAT32)], np.float32))
        return 1.0 if self.shape.form == "ip" or ordinary else 1 / self.radius

    def items(self, block: Float32, bias: Float64) -> Float32:
        """Return the vectors to store for these items, scaled before float32, which may not hold the radius."""
        scale = self.scale
        if scale != 1:
            block = (block.astype(np.float64) * scale).astype(np.float32)
        return self.shape.items(block, self.ratio * scale * bias, self.radius * scale)

    def queries(self, queries: Float32, weights: Float64) -> Float32:
        """Return augmented queries; for comparison by distance, about as long as the stored vectors."""
        if self.shape.form == "ip":
            return self.shape.queries(queries, weights)
        weights = weights / self.ratio
        lengths = np.sqrt(squared_lengths(queries, weights))
        stored = self.radius * self.scale
        too_long, too_short = lengths > LENGTH_RATIO_LIMIT * stored, lengths < stored / LENGTH_RATIO_LIMIT
        unlike = too_long | (too_short & (lengths > 0))
        factors = np.where(unlike, stored / np.where(unlike, lengths, 1.0), 1.0)
        if unlike.any():
            queries = (queries * factors[:, None]).astype(np.float32)
        return self.shape.queries(queries, weights * factors)

    def fits(self, items: Vectors, bias: Float64, similarity: Kind) -> bool:
        """Return whether more items can be stored with the first ones: none is longer than the radius."""
        return longest(items, self.ratio * bias, similarity) <= self.radius

    def may_overflow(self, weights: Float64, bias: Float64) -> bool:
        """Return whether corrected scores, which an inner-product index computes, may overflow float32."""
        reach = np.abs(weights).max(initial=0) * np.abs(bias).max() if self.shape.form == "ip" else 0.0
        return bool(reach > SAFE_SHIFT)
