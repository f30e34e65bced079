"""Heads in torch: the weight of each of several queries, masked where sets differ in size (Wang et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unhub.arrays import Float32
from unhub.combine import TEMPERATURE
from unhub.model import Head
from unhub.model.head_forward import (
    ATTENTION_HEADS,
    FEED_FORWARD_UNITS,
    HIDDEN_UNITS,
    TRANSFORMER_LAYERS,
    contextual_shapes,
)


class Weighing(nn.Module):
    """A head: one unit vector from several, their weighted sum; the mask `here`, (sets, k), says which exist."""

    def scores(self, queries: Tensor, here: Tensor) -> Tensor:
        """Return a score for each query, (sets, k), from (sets, k, d) unit queries."""
        raise NotImplementedError

    def weights(self, queries: Tensor, here: Tensor) -> Tensor:
        """Return alpha, (sets, k): rows sum to 1, and missing queries have weight 0."""
        return self.scores(queries, here).masked_fill(~here, -torch.inf).softmax(dim=1)

    def forward(self, queries: Tensor, here: Tensor) -> Tensor:
        """Return one unit vector for each set, (sets, d)."""
        return normalize((self.weights(queries, here).unsqueeze(2) * queries).sum(dim=1), dim=1)


class Mean(Weighing):
    """mf: alpha = 1 / k."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()

    def scores(self, queries: Tensor, here: Tensor) -> Tensor:
        """Return the same score for all queries."""
        return torch.zeros_like(here, dtype=queries.dtype)


class Distinct(Weighing):
    """ts-wf: softmax over i of -(mean similarity to the other queries) / t."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()

    def scores(self, queries: Tensor, here: Tensor) -> Tensor:
        """Return minus the mean similarity to the others, over t; a single query has the score 0."""
        there = here.to(queries.dtype)
        gram = queries @ queries.transpose(1, 2)
        others = there.unsqueeze(1) * (1 - torch.eye(here.shape[1], dtype=queries.dtype, device=queries.device))
        return -(gram * others).sum(dim=2) / others.sum(dim=2).clamp(min=1) / TEMPERATURE


class Local(Weighing):
    """lg-wf: an MLP (d, 512, 1) on each query."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dimensions, HIDDEN_UNITS), nn.ReLU(), nn.Linear(HIDDEN_UNITS, 1))

    def scores(self, queries: Tensor, here: Tensor) -> Tensor:
        """Return the MLP's score of each query alone."""
        return torch.as_tensor(self.score(queries)).squeeze(2)


class Contextual(Local):
    """cg-wf: a transformer encoder over the queries of a set, then the MLP."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions)
        contextual_shapes(dimensions)  # raises where torch would fail later, with a worse message
        layer = nn.TransformerEncoderLayer(dimensions, ATTENTION_HEADS, FEED_FORWARD_UNITS, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, TRANSFORMER_LAYERS, enable_nested_tensor=False)

    def scores(self, queries: Tensor, here: Tensor) -> Tensor:
        """Return the MLP's score of each query, encoded together with the others."""
        return super().scores(self.encoder(queries, src_key_padding_mask=~here), here)


HEADS: Mapping[str, Callable[[int], Weighing]] = {
    "mf": Mean,
    "ts-wf": Distinct,
    "lg-wf": Local,
    "cg-wf": Contextual,
}


def arrays_of(module: nn.Module) -> dict[str, Float32]:
    """Return a copy of the weights by name, as numpy arrays."""
    weights = module.state_dict().items()
    return {name: weight.detach().to("cpu", torch.float32).clone().numpy() for name, weight in weights}


def exported(head: Weighing, name: str, dimensions: int) -> Head:
    """Return the head as numpy runs it."""
    return Head(name, dimensions, arrays_of(head))
