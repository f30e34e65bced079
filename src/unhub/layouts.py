"""Layouts: extra dimensions that make plain nearest-neighbour search, in any engine, rank by s - w h.

    ip           g' = [g, -h]                              q' = [q, w]
    l2, cosine   g' = [g, -h, sqrt(R^2 - |g|^2 - h^2)]     q' = [q, w, 0]

In the second form every stored vector has length R, so inner product, cosine and L2 give the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unhub.arrays import Float32, Float64, Kind, rows_per_block, spans
from unhub.correction import Bias, Correction, check_correction, strengths
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError, unknown
from unhub.matching import locate, prepare_queries, vector_similarity

Form: TypeAlias = Literal["ip", "l2", "cosine"]

EXTRA_DIMENSIONS: dict[Form, int] = {"ip": 1, "l2": 2, "cosine": 2}
HEADROOM_FACTOR = 1.05  # so that later, slightly longer items still fit


@dataclass(frozen=True)
class Layout:
    """How embeddings of `dimensions` become vectors of `width`: augmented, padded with zeros, then rotated."""

    dimensions: int
    form: Form
    width: int
    rotate: bool = False

    @classmethod
    def of(cls, dimensions: int, form: Form, rotate: bool = False, pad_to: int | None = None) -> Layout:
        """Return the layout of this form, as narrow as possible unless it is padded."""
        needed = dimensions + extra_dimensions(form)
        if pad_to is not None and pad_to < needed:
            raise ArgumentError("pad_to", f"must be at least {needed}, which the {form} form takes, got {pad_to}")
        return cls(dimensions, form, needed if pad_to is None else pad_to, rotate)

    def radius(self, items: Vectors, bias: Float64, similarity: Kind) -> float:
        """Return R for these items: a little over the longest, or infinity if the form needs no bound."""
        return HEADROOM_FACTOR * longest(items, bias, similarity) if extra_dimensions(self.form) == 2 else np.inf

    def items(self, block: Float32, bias: Float64, radius: float) -> Float32:
        """Return the vectors to store for items (ready to multiply) with these biases."""
        out = self._widened(block, -bias)
        if extra_dimensions(self.form) == 2:
            # If the radius is exactly the longest item's length, its remainder may round to just below zero.
            out[:, self.dimensions + 1] = np.sqrt(np.maximum(radius**2 - squared_lengths(block, bias), 0.0))
        return self._rotated(out)

    def queries(self, queries: Float32, weights: Float64) -> Float32:
        """Return the vectors to search with for queries (ready to multiply) at these weights."""
        return self._rotated(self._widened(queries, weights))

    def _widened(self, block: Float32, extra: Float64) -> Float32:
        out = np.zeros((len(block), self.width), np.float32)
        out[:, : self.dimensions] = block
        out[:, self.dimensions] = extra
        return out

    def _rotated(self, block: Float32) -> Float32:
        return block @ rotation(self.width) if self.rotate else block


def extra_dimensions(form: Form) -> int:
    """Return how many dimensions a form adds."""
    if form not in EXTRA_DIMENSIONS:
        raise unknown("form", form, EXTRA_DIMENSIONS, "forms")
    return EXTRA_DIMENSIONS[form]


@lru_cache(maxsize=2)
def rotation(dimensions: int) -> Float32:
    """Return the orthogonal matrix of this size, the same for every rotated set."""
    gaussian = np.random.default_rng(dimensions).standard_normal((dimensions, dimensions))
    q, r = np.linalg.qr(gaussian)
    # The signs of QR depend on the library; a positive diagonal gives the same matrix everywhere.
    matrix = (q * np.where(np.diag(r) < 0, -1.0, 1.0)).astype(np.float32)
    matrix.setflags(write=False)
    return matrix


def squared_lengths(block: Float32, bias: Float64) -> Float64:
    """Return |g|^2 + h^2 of each row."""
    squares: Float64 = np.einsum("ij,ij->i", block, block, dtype=np.float64)
    return squares + bias**2


def longest(items: Vectors, bias: Float64, similarity: Kind) -> float:
    """Return the length of the longest [g, -h]."""
    blocks = spans(len(items), rows_per_block(items.dimensions))
    squares = (squared_lengths(items.unit_block(*span, similarity), bias[slice(*span)]).max() for span in blocks)
    return float(np.sqrt(max(squares)))


def augment(
    items: VectorsLike,
    correction: Correction,
    form: Form = "ip",
    rotate: bool = False,
    pad_to: int | None = None,
    radius: float | None = None,
) -> Float32:
    """Return the vectors to store in your own index, (items, dimensions + 1 or 2), float32.

    `form` is what the index ranks by: inner product, L2 or cosine. `rotate` spreads the extra dimensions over all
    (for 8-bit quantisers), `pad_to` pads with zeros (for product quantisers). The items may be a part of those of the
    correction; to add more later, pass the `radius` of the first ones, from `augment_radius`. A correction with a gate
    (dis) needs two searches: at strength 0 to find each query's raw best item, then at 1 where that item is active.
    """
    vectors, bias, similarity = _checked(items, correction)
    layout = Layout.of(vectors.dimensions, form, rotate, pad_to)
    length = layout.radius(vectors, bias, similarity) if radius is None else radius
    out = np.empty((len(vectors), layout.width), np.float32)
    for start, stop in spans(len(vectors), rows_per_block(layout.width)):
        block = vectors.unit_block(start, stop, similarity)
        squares = squared_lengths(block, bias[start:stop])
        over = np.flatnonzero(squares > length**2)
        if len(over):
            raise ArgumentError(
                "radius",
                f"is {length:.6g}, and item {vectors.ids[start + over[0]].item()!r} is longer "
                f"({np.sqrt(squares[over[0]]):.6g})",
                "store all items again with a larger one",
            )
        out[start:stop] = layout.items(block, bias[start:stop], length)
    return out


def augment_radius(items: VectorsLike, correction: Correction) -> float:
    """Return the radius R that `augment` uses for these items in the l2 and cosine forms, with 5% headroom."""
    return HEADROOM_FACTOR * longest(*_checked(items, correction))


def augment_queries(
    queries: VectorsLike,
    correction: Correction,
    strength: ArrayLike = 1.0,
    form: Form = "ip",
    rotate: bool = False,
    pad_to: int | None = None,
) -> Float32:
    """Return the vectors to search with; `strength` (one number, or one per query) is w, and 0 ranks by raw score.

    `form`, `rotate` and `pad_to` must be those the items were stored with.
    """
    _as_bias(correction)
    ready = prepare_queries(queries, correction)
    return Layout.of(ready.shape[1], form, rotate, pad_to).queries(ready, strengths(strength, len(ready), correction))


def augment_scores(
    values: ArrayLike,
    queries: VectorsLike,
    correction: Correction,
    strength: ArrayLike = 1.0,
    form: Form = "ip",
    radius: float | None = None,
) -> Float64:
    """Return s - w h, (queries, k), from the values that the index returned.

    `values` are inner products in the ip form, squared distances in the l2 form, cosines in the cosine form;
    the latter two need the `radius`.
    """
    _as_bias(correction)
    ready = prepare_queries(queries, correction)
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 2 or len(given) != len(ready):
        raise ArgumentError("values", f"must be ({len(ready)}, k), a row for each query, got shape {given.shape}")
    if extra_dimensions(form) == 2 and radius is None:
        raise ArgumentError(
            "radius",
            f"is missing, and the {form} form needs it to compute scores",
            "give the radius the items were stored with",
        )
    length = squared_lengths(ready, strengths(strength, len(ready), correction))[:, None]
    return READINGS[form](given, length, radius or 0.0)


READINGS: dict[Form, Callable[[Float64, Float64, float], Float64]] = {
    "ip": lambda values, length, radius: values,
    "l2": lambda values, length, radius: (length + radius**2 - values) / 2,
    "cosine": lambda values, length, radius: values * radius * np.sqrt(length),
}


def _as_bias(correction: Correction) -> Bias:
    check_correction(correction, "augment vectors with")
    if not isinstance(correction, Bias):
        raise ArgumentError(
            "correction",
            f"of {correction.spec!r} re-scores whole rows of similarities and is not one number per item, so it cannot "
            "be stored in an index",
            "search with a searcher instead",
        )
    return correction


def _checked(items: VectorsLike, correction: Correction) -> tuple[Vectors, Float64, Kind]:
    fitted = _as_bias(correction)
    vectors = as_vectors(items, "items")
    places = locate(vectors, fitted).places
    return vectors, fitted.bias[places], vector_similarity(fitted)
