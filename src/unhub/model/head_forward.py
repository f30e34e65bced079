"""Heads: weigh several queries; the forward pass, in numpy, of what `unhub.training` learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from unhub.arrays import Float32, Float64, spans
from unhub.combine import Combination, Weights, distinct_weights, equal_weights, softmax
from unhub.errors import ArgumentError, unknown
from unhub.model.tower_forward import Arrays

HIDDEN_UNITS = 512  # of the network that scores a query
TRANSFORMER_LAYERS, ATTENTION_HEADS, FEED_FORWARD_UNITS = 2, 8, 2048
NORM_EPSILON = 1e-5  # of the layer norms
BLOCK_ROWS = 4096  # queries at a time

Scores: TypeAlias = Callable[[Float32, Arrays], Float32]  # (sets, k, d) unit queries -> (sets, k)
Shapes: TypeAlias = dict[str, tuple[int, ...]]  # of learnt weights, by torch's names


def local_scores(queries: Float32, arrays: Arrays) -> Float32:
    """Score each query separately, by an MLP (d, 512, 1)."""
    hidden = np.maximum(_affine(queries, arrays, "score.0."), 0)
    return np.asarray(_affine(hidden, arrays, "score.2.")[..., 0])


def contextual_scores(queries: Float32, arrays: Arrays) -> Float32:
    """Score each query in the context of its set, by a transformer encoder over the set and then the MLP."""
    for layer in range(TRANSFORMER_LAYERS):
        name = f"encoder.layers.{layer}."
        queries = _normed(queries + _attended(queries, arrays, f"{name}self_attn."), arrays, f"{name}norm1.")
        hidden = np.maximum(_affine(queries, arrays, f"{name}linear1."), 0)
        queries = _normed(queries + _affine(hidden, arrays, f"{name}linear2."), arrays, f"{name}norm2.")
    return local_scores(queries, arrays)


def _affine(rows: Float32, arrays: Arrays, name: str) -> Float32:
    return np.asarray(rows @ arrays[f"{name}weight"].T + arrays[f"{name}bias"])


def _normed(rows: Float32, arrays: Arrays, name: str) -> Float32:
    centred = rows - rows.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
    return np.asarray(centred / spread * arrays[f"{name}weight"] + arrays[f"{name}bias"])


def _attended(queries: Float32, arrays: Arrays, name: str) -> Float32:
    sets, k, d = queries.shape
    mixed = queries @ arrays[f"{name}in_proj_weight"].T + arrays[f"{name}in_proj_bias"]
    asked, keys, values = mixed.reshape(sets, k, 3, ATTENTION_HEADS, d // ATTENTION_HEADS).transpose(2, 0, 3, 1, 4)
    shares = softmax(asked @ keys.swapaxes(2, 3) / np.float32(math.sqrt(d // ATTENTION_HEADS)))
    return _affine((shares @ values).swapaxes(1, 2).reshape(sets, k, d), arrays, f"{name}out_proj.")


def nothing_learnt(d: int) -> Shapes:
    """Return no shapes: this head has no weights."""
    return {}


def local_shapes(d: int) -> Shapes:
    """Return the shapes of the weights of `local_scores`."""
    return {**_affine_shapes("score.0.", d, HIDDEN_UNITS), **_affine_shapes("score.2.", HIDDEN_UNITS, 1)}


def contextual_shapes(d: int) -> Shapes:
    """Return the shapes of the weights of `contextual_scores`; d must divide evenly among the attention heads."""
    if d % ATTENTION_HEADS:
        raise ArgumentError(
            "dimensions",
            f"must be a multiple of {ATTENTION_HEADS} for the {ATTENTION_HEADS} attention heads of 'cg-wf', got {d}",
        )
    shapes = local_shapes(d)
    for layer in range(TRANSFORMER_LAYERS):
        name = f"encoder.layers.{layer}."
        shapes |= {f"{name}self_attn.in_proj_weight": (3 * d, d), f"{name}self_attn.in_proj_bias": (3 * d,)}
        shapes |= _affine_shapes(f"{name}self_attn.out_proj.", d, d)
        shapes |= _affine_shapes(f"{name}linear1.", d, FEED_FORWARD_UNITS)
        shapes |= _affine_shapes(f"{name}linear2.", FEED_FORWARD_UNITS, d)
        shapes |= {f"{name}{norm}.{part}": (d,) for norm in ("norm1", "norm2") for part in ("weight", "bias")}
    return shapes


def _affine_shapes(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}weight": (outputs, inputs), f"{name}bias": (outputs,)}


class Kind(NamedTuple):
    """A kind of head: a description; either fixed weights or learnt scores; and the shapes of what is learnt."""

    what: str
    weights: Weights | None = None
    scores: Scores | None = None
    shapes: Callable[[int], Shapes] = nothing_learnt


HEADS: Mapping[str, Kind] = {
    "mf": Kind("the mean query", weights=equal_weights),
    "ts-wf": Kind("unusual queries weigh more", weights=distinct_weights),
    "lg-wf": Kind("each query has a learnt weight", scores=local_scores, shapes=local_shapes),
    "cg-wf": Kind(
        "each query has a learnt weight that depends on the others", scores=contextual_scores, shapes=contextual_shapes
    ),
}


@dataclass(frozen=True, eq=False)
class Head:
    """A head by name, for queries of this many dimensions; `arrays` are its learnt weights, by torch's names."""

    name: str
    dimensions: int
    arrays: Arrays = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in HEADS:
            raise unknown("head", self.name, HEADS, "heads")
        for name, shape in HEADS[self.name].shapes(self.dimensions).items():
            given = self.arrays[name].shape if name in self.arrays else "none"
            if given != shape:
                raise ArgumentError(
                    "arrays", f"must hold {name} of shape {shape} for the head {self.name!r}, got {given}"
                )

    @property
    def combination(self) -> Combination:
        """The head as a way to combine queries, for a search or an evaluation."""
        kind = HEADS[self.name]
        what = f"trained: similarity to the unit vector of the weighted queries; {kind.what}"
        return Combination(self.name, what, kind.weights or self.weigh, fused=True, dimensions=self.dimensions)

    def weigh(self, queries: Float32) -> Float64:
        """Return alpha of (sets, k, d) unit queries, (sets, k); the rows sum to 1."""
        kind = HEADS[self.name]
        if kind.weights is not None:
            return kind.weights(queries)
        assert kind.scores is not None
        scores = np.empty(queries.shape[:2])
        for start, stop in spans(len(queries), max(1, BLOCK_ROWS // queries.shape[1])):
            scores[start:stop] = kind.scores(queries[start:stop], self.arrays)
        return softmax(scores)
