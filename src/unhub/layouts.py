"""Layouts: extra dimensions that make plain nearest-neighbour search, in any engine, rank by s - w h.

    ip           g' = [g, -h]                              q' = [q, w]
    l2, cosine   g' = [g, -h, sqrt(R^2 - |g|^2 - h^2)]     q' = [q, w, 0]

In the second form every stored vector has length R, so inner product, cosine and L2 give the same order. A `Layout` may
store r (h - c) for h and send w / r for w, which changes no ranking but which items lie near one another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from unhub.arrays import Float32, Float64, Ids, Kind, rows_per_block, spans, unit
from unhub.atomic import replacing
from unhub.correction import Bias, Correction, check_correction, strengths
from unhub.data.fingerprint import inspect
from unhub.data.vectors import Vectors, VectorsLike, as_vectors, reads_from
from unhub.errors import ArgumentError, seen, unknown
from unhub.matching import locate, prepare_queries, vector_similarity

Form: TypeAlias = Literal["ip", "l2", "cosine"]

Metric: TypeAlias = Literal["cosine", "dot", "l2"]

EXTRA_DIMENSIONS: dict[Form, int] = {"ip": 1, "l2": 2, "cosine": 2}
# The form for an engine whose index is a graph or none; one whose clusters or metric need equal lengths gets the other.
# In every engine the equal-length form ranks right, whatever its metric.
ENGINE_FORMS: Mapping[str, Form] = {
    "chroma": "cosine",
    "faiss": "l2",
    "lancedb": "cosine",
    "milvus": "ip",
    "postgres": "ip",
    "postgresql": "ip",
    "qdrant": "ip",
    "qdrant-edge": "ip",
    "usearch": "ip",
}
METRICS: Mapping[Form, Metric] = {"ip": "dot", "l2": "l2", "cosine": "cosine"}
LEAST_COMPARISONS = 8  # of neighbouring values, to say that they rise and so are distances
HEAD_BYTES = 128  # of a .npy file, which hold its type and its shape
HEADROOM_FACTOR = 1.05  # so that later, slightly longer items still fit


@dataclass(frozen=True)
class Shape:
    """How embeddings of `dimensions` become vectors of `width`: augmented, padded with zeros, then rotated."""

    dimensions: int
    form: Form
    width: int
    rotate: bool = False

    @classmethod
    def of(cls, dimensions: int, form: Form, rotate: bool = False, pad_to: int | None = None) -> Shape:
        """Return the shape of this form, as narrow as possible unless it is padded."""
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


@dataclass(frozen=True)
class Layout:
    """How the items of a correction are stored in an engine, and how queries and scores follow; see `unhub.layout`.

    Items of `dimensions` become vectors of `width`, all of length `radius` unless the form is ip (then it is infinite).
    Biases are stored less `shift`, `ratio` times as large, and strengths are divided by the ratio. gated: whether a
    query needs two searches, since the correction applies to it only if its raw best item is active. engine: where it
    was made for.
    """

    dimensions: int
    form: Form
    width: int
    rotate: bool
    radius: float
    similarity: Kind
    ratio: float = 1.0
    shift: float = 0.0
    strength: float = 1.0
    gated: bool = False
    engine: str = ""

    @property
    def shape(self) -> Shape:
        return Shape(self.dimensions, self.form, self.width, self.rotate)

    @property
    def metric(self) -> Metric:
        """What an engine must compare the stored vectors by."""
        return METRICS[self.form]

    @property
    def rotation(self) -> Float32 | None:
        """The matrix that stored vectors and queries are multiplied by from the right; None without a rotation."""
        return rotation(self.width) if self.rotate else None

    def items(self, items: VectorsLike, correction: Correction, out: str | os.PathLike[str] | None = None) -> Float32:
        """Return the vectors to store, (items, width), float32; the items may be a part of those of the correction.

        out: a .npy file to write them to block by block, and to return mapped, where memory does not hold them.
        An empty file and a matrix of this width are replaced; any other existing file is kept, and is an error.
        """
        vectors, bias, similarity = _checked(items, correction)
        self._check_similarity(similarity, vectors.dimensions, "correction")
        blocks = self._blocks(vectors, bias, similarity)
        if out is None:
            stored = np.empty((len(vectors), self.width), np.float32)
            for start, block in blocks:
                stored[start : start + len(block)] = block
            return stored
        given: object = os.fspath(out) if hasattr(out, "__fspath__") else out
        if not isinstance(given, str) or Path(given).suffix != ".npy":
            raise ArgumentError("out", f"must be a .npy file, got {seen(given)}")
        if reads_from(vectors.rows, Path(out)):
            raise ArgumentError("out", f"is a file of the items, {given!r}", "name another")
        if Path(out).is_file() and not _is_replaceable(Path(out), self.width):
            problem = f"is {given!r}, which exists and is not a matrix of float32 with {self.width} columns"
            raise ArgumentError("out", problem, "name another file, or remove this one")
        with replacing(out) as new, new.open("wb") as file:  # not mapped: a full disk would end the process
            head = {"descr": "<f4", "fortran_order": False, "shape": (len(vectors), self.width)}
            np.lib.format.write_array_header_1_0(file, head)
            for _, block in blocks:
                file.write(np.ascontiguousarray(block, "<f4").data)
                del block  # before the next one is made
        return np.lib.format.open_memmap(out, "r")

    def _blocks(self, vectors: Vectors, bias: Float64, similarity: Kind) -> Iterator[tuple[int, Float32]]:
        """Yield the vectors to store in blocks, each with the position of its first."""
        for start, stop in spans(len(vectors), rows_per_block(self.width)):
            block = vectors.unit_block(start, stop, similarity)
            yield start, self.rows(block, bias[start:stop], vectors.ids[start:stop])

    def rows(self, block: Float32, bias: Float64, ids: Ids) -> Float32:
        """Return the vectors to store for rows that are ready to multiply; raise if one is longer than the radius."""
        stored = self.stored_biases(bias)
        squares = squared_lengths(block, stored)
        over = np.flatnonzero(squares > self.radius**2)
        if len(over):
            raise ArgumentError(
                "radius",
                f"is {self.radius:.6g}, and item {ids[over[0]].item()!r} is longer ({np.sqrt(squares[over[0]]):.6g})",
                "store all items again, in a new layout or with a larger radius",
            )
        return self.shape.items(block, stored, self.radius)

    def stored_biases(self, bias: Float64) -> Float64:
        """Return the numbers that are stored for these biases, with the sign turned."""
        return self.ratio * (bias - self.shift)

    def queries(self, queries: VectorsLike, strength: ArrayLike | None = None) -> Float32:
        """Return the vectors to search with; `strength` is one number or one per query, 0 for the raw ranking."""
        vectors = as_vectors(queries, "queries")
        self._check_similarity(self.similarity, vectors.dimensions, "queries")
        inspect(vectors, "queries", self.similarity)
        ready = vectors.unit_block(0, len(vectors), self.similarity)
        return self.asked(ready, self._weights(strength, len(ready)))

    def asked(self, queries: Float32, weights: Float64) -> Float32:
        """Return the vectors to search with for queries that are ready to multiply."""
        return self.shape.queries(queries, weights / self.ratio)

    def scores(self, engine_scores: ArrayLike, queries: VectorsLike, strength: ArrayLike | None = None) -> Float64:
        """Return s - w h, (queries, k), from what the engine returned, best first.

        That is inner products in the ip form, squared distances in the l2 form, cosines in the cosine form.
        """
        vectors = as_vectors(queries, "queries")
        ready = vectors.unit_block(0, len(vectors), self.similarity)
        return self.read(engine_scores, ready, self._weights(strength, len(ready)))

    def read(self, values: ArrayLike, queries: Float32, weights: Float64) -> Float64:
        """Return s - w h from an engine's values for queries that are ready to multiply."""
        length = squared_lengths(queries, weights / self.ratio)[:, None]
        given = _readable(values, len(queries), self.form, "engine_scores")
        return READINGS[self.form](given, length, self.radius) - self.shift * weights[:, None]

    def originals(self, rows: Float32) -> Float32:
        """Return the items, ready to multiply, that stored vectors were made of."""
        return np.ascontiguousarray(self._unrotated(rows)[:, : self.dimensions])

    def biases(self, rows: Float32) -> Float64:
        """Return what stored vectors hold for the biases; see `stored_biases`."""
        return -self._unrotated(rows)[:, self.dimensions].astype(np.float64)

    def _unrotated(self, rows: Float32) -> Float32:
        """Undo the rotation, and an engine's scaling to length one, as some do under cosine: all had the length R."""
        back = rows @ rotation(self.width).T if self.rotate else rows
        return unit(back) * np.float32(self.radius) if np.isfinite(self.radius) else back

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON can hold it."""
        return {**asdict(self), "radius": None if np.isinf(self.radius) else self.radius}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Layout:
        """Return the layout that `to_json` made."""
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        layout = cls(**{**known, "radius": np.inf if known.get("radius") is None else float(known["radius"])})
        if layout.similarity not in get_args(Kind) or layout.width < layout.dimensions + extra_dimensions(layout.form):
            raise ValueError(f"it is no layout: {dict(given)}")
        return layout

    def _check_similarity(self, similarity: Kind, dimensions: int, name: str) -> None:
        if (similarity, dimensions) != (self.similarity, self.dimensions):
            raise ArgumentError(
                name,
                f"has {dimensions} dimensions under {similarity}, the layout {self.dimensions} under {self.similarity}",
                "use the layout that was made for it",
            )

    def _weights(self, strength: ArrayLike | None, count: int) -> Float64:
        given = np.asarray(self.strength if strength is None else strength, np.float64)
        if given.shape not in ((), (count,)) or not np.isfinite(given).all():
            raise ArgumentError(
                "strength", f"must be one finite number or one per query ({count}), got {seen(strength)}"
            )
        check_gate(self.gated, given)
        return np.broadcast_to(given, (count,))


def layout(
    correction: Correction,
    items: VectorsLike,
    form: Form | Literal["auto"] = "auto",
    engine: str | None = None,
    rotate: bool = False,
    pad_to: int | None = None,
) -> Layout:
    """Return how to store the items of a correction in a vector engine, as one frozen value.

    form: what the engine ranks by, `ip`, `l2` or `cosine`; `auto` takes the one for the engine, or the equal-length
    form, which ranks right under any metric. rotate: spread the extra dimensions over all, for 8-bit codes. pad_to: add
    zeros up to this many dimensions, for product quantisers. Items that come later are stored by the same layout.
    """
    vectors, bias, _ = _checked(items, correction)
    if engine is not None and engine not in ENGINE_FORMS:
        raise unknown("engine", engine, ENGINE_FORMS, "engines")
    if form == "auto":
        form = "cosine" if engine is None else ENGINE_FORMS[engine]
    return layout_of(vectors, correction, bias, Shape.of(vectors.dimensions, form, rotate, pad_to), engine or "")


def layout_of(
    items: Vectors, correction: Correction, bias: Float64, shape: Shape, engine: str, coded: bool = False
) -> Layout:
    """Return the layout of this shape for items with these biases; coded: whether the engine compares by codes."""
    similarity = vector_similarity(correction)
    if shape.form == "ip":
        ratio, shift = bias_place(items, bias, similarity)
    else:
        ratio, shift = bias_ratio(shape.form, items, bias, similarity, coded), 0.0
    radius = shape.radius(items, ratio * (bias - shift), similarity)
    gated = isinstance(correction, Bias) and correction.active is not None
    return Layout(
        shape.dimensions,
        shape.form,
        shape.width,
        shape.rotate,
        radius,
        similarity,
        ratio=ratio,
        shift=shift,
        gated=gated,
        engine=engine,
    )


def bias_place(items: Vectors, bias: Float64, similarity: Kind) -> tuple[float, float]:
    """Return the ratio and the shift of the ip form: the least bias is stored as a number as long as the longest item.

    The shift moves all scores alike. In a graph, which joins items by their inner product, it turns g.g' + h h' into
    about g.g' - h - h': items that answer corrected queries become the ones that a search passes, not the hubs.
    """
    low, spread = float(bias.min()), float(np.ptp(bias))
    reach = max(spread, 1.0 if similarity == "cosine" else float(np.abs(bias).max()))
    length = 1.0 if similarity == "cosine" else longest(items, np.zeros(len(items)), "dot")
    return (length / reach, low + reach) if reach and length else (1.0, 0.0)


def bias_ratio(form: Form, items: Vectors, bias: Float64, similarity: Kind, coded: bool = False) -> float:
    """Return the factor for biases, whose inverse scales the weights, so that h and w are no longer than the vectors.

    Dot products, and h with them, grow with the square of the lengths: h would dominate the distances. Codes are the
    coarser the longer items are, and their errors count the more the longer queries are; the product of the two
    lengths, sqrt(1 + (ratio h)^2) and sqrt(1 + (1 / ratio)^2), is least where ratio^2 is 1 / h.
    """
    largest = float(np.abs(bias).max())
    if form == "ip" or largest == 0:
        return 1.0
    if similarity == "cosine":
        return float(1 / np.sqrt(largest)) if coded else 1.0
    return longest(items, np.zeros(len(items)), "dot") / largest or 1.0


def _is_replaceable(path: Path, width: int) -> bool:
    """Return whether a file is empty, or a matrix that this may have written; items and queries are narrower."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    written = rf"\x93NUMPY\x01\x00..{{'descr': '<f4', 'fortran_order': False, 'shape': \(\d+, {width}\)"
    return not head or re.match(written.encode("latin-1"), head, re.DOTALL) is not None


def check_gate(gated: bool, strength: Float64) -> None:
    """Raise if one strength is given for all queries of a correction that applies to some of them only."""
    if gated and strength.ndim == 0 and strength != 0:
        raise ArgumentError(
            "strength",
            f"is {strength.item():g} for every query, but the correction has a gate",
            "search at strength 0 first, then with one strength per query, from correction.weights(raw_best)",
        )


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
    out: str | os.PathLike[str] | None = None,
) -> Float32:
    """Return the vectors to store in your own index, (items, dimensions + 1 or 2), float32.

    `form` is what the index ranks by: inner product, L2 or cosine. `rotate` spreads the extra dimensions over all
    (for 8-bit quantisers), `pad_to` pads with zeros (for product quantisers). The items may be a part of those of the
    correction if the `radius` of all is given, from `augment_radius`. `layout` keeps all of this. A correction with a
    gate (dis) needs two searches: at strength 0 to find each query's raw best item, then at 1 where it is active. `out`
    is a .npy file to write them to, as in `Layout.items`.
    """
    vectors, bias, similarity = _checked(items, correction)
    shape = Shape.of(vectors.dimensions, form, rotate, pad_to)
    if radius is None:
        if extra_dimensions(form) == 2 and len(vectors) < len(correction):
            raise ArgumentError(
                "radius",
                f"is missing, and these are {len(vectors)} of the {len(correction)} items: the {form} form needs one "
                "radius for all",
                "give that of all items, from augment_radius, or use unhub.layout, which keeps it",
            )
        radius = shape.radius(vectors, bias, similarity)
    return Layout(shape.dimensions, form, shape.width, rotate, radius, similarity).items(vectors, correction, out)


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
    fitted = _as_bias(correction)
    ready = prepare_queries(queries, correction)
    check_gate(fitted.active is not None, np.asarray(strength, np.float64))
    return Shape.of(ready.shape[1], form, rotate, pad_to).queries(ready, strengths(strength, len(ready), correction))


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
    given = _readable(values, len(ready), form, "values")
    if extra_dimensions(form) == 2 and radius is None:
        raise ArgumentError(
            "radius",
            f"is missing, and the {form} form needs it to compute scores",
            "give the radius the items were stored with",
        )
    length = squared_lengths(ready, strengths(strength, len(ready), correction))[:, None]
    return READINGS[form](given, length, radius or 0.0)


def _readable(values: ArrayLike, count: int, form: Form, name: str) -> Float64:
    """Return an engine's values as a matrix; raise if they rise from the best on, as distances do, in another form."""
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 2 or len(given) != count:
        raise ArgumentError(name, f"must be ({count}, k), a row for each query, got shape {given.shape}")
    steps = np.diff(given, axis=1) if np.isfinite(given).all() else np.empty(0)  # empty places are no distances
    if form != "l2" and steps.size >= LEAST_COMPARISONS and (steps >= 0).all() and (steps > 0).any():
        raise ArgumentError(
            name,
            f"rise from the best on, so they are distances, and the {form} form needs similarities",
            "turn them around: some engines return 1 - cosine, 1 - dot or -dot",
        )
    return given


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
