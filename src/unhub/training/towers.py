"""Towers in torch: `linear`, `mlp` or the user's own module, and their export for numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, relu

from unhub.arrays import Float32, spans
from unhub.data.ragged import Positions
from unhub.data.vectors import Vectors, VectorsLike
from unhub.errors import ArgumentError
from unhub.model import Preparation, Tower
from unhub.training.heads import arrays_of
from unhub.training.rows import TrainingRows, as_rows
from unhub.training.settings import Settings

ENCODED_ROWS = 256  # encoded at a time


class Linear(nn.Module):
    """x W^T + b."""

    def __init__(self, features: int, settings: Settings) -> None:
        super().__init__()
        self.linear = nn.Linear(features, settings.dimensions)

    def forward(self, rows: Tensor) -> Tensor:
        """Return (rows, dimensions), of any length."""
        return torch.as_tensor(self.linear(rows))


class Mlp(Linear):
    """A linear path plus one hidden layer: x W^T + b + relu(x U^T + c) V^T."""

    def __init__(self, features: int, settings: Settings) -> None:
        super().__init__(features, settings)
        self.hidden = nn.Linear(features, settings.hidden)
        self.out = nn.Linear(settings.hidden, settings.dimensions, bias=False)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """Return (rows, dimensions), of any length."""
        rows = self.dropout(rows)
        return super().forward(rows) + torch.as_tensor(self.out(self.dropout(relu(self.hidden(rows)))))


class AsItIs(nn.Module):
    """No tower: the rows are in the joint space already."""

    def __init__(self, features: int, settings: Settings) -> None:
        super().__init__()

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rows."""
        return rows


TOWERS: Mapping[str, Callable[[int, Settings], nn.Module]] = {"none": AsItIs, "linear": Linear, "mlp": Mlp}


@dataclass(frozen=True, eq=False)
class TowerSide:
    """The tower of texts or of items in training: what prepares rows, and the module that takes them."""

    module: nn.Module
    preparation: Callable[[Float32], Float32] | None
    device: torch.device

    def inputs(self, rows: TrainingRows, positions: Positions) -> Tensor:
        """Return the rows at these positions as the module takes them."""
        block = rows.take(positions)
        if self.preparation is not None:
            block = self.preparation(np.ascontiguousarray(block, np.float32))
        elif block.dtype.kind == "f":
            block = block.astype(np.float32)
        return torch.from_numpy(np.ascontiguousarray(block)).to(self.device)

    def unit(self, rows: TrainingRows, positions: Positions) -> Tensor:
        """Return unit vectors of the joint space, (positions, dimensions)."""
        out = self.module(self.inputs(rows, positions))
        if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != len(positions):
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ArgumentError(
                "towers",
                f"must return vectors of shape ({len(positions)}, dimensions) for {len(positions)} rows, got {shape}",
            )
        return normalize(out.float(), dim=1)


@dataclass(frozen=True, eq=False)
class ModuleTower:
    """The user's own module as a tower: it needs torch, and the user saves it."""

    side: TowerSide
    dimensions: int
    kind: str = "module"

    def encode(self, rows: VectorsLike, name: str) -> Vectors:
        """Return unit vectors of the joint space with the ids of the rows, float32; errors call the rows `name`."""
        given = as_rows(rows, name)
        vectors = encoded(self.side, given).cpu().numpy()
        lost = np.flatnonzero(~(np.abs(vectors).max(axis=1) > 0))  # nan too
        if len(lost):
            raise ArgumentError(
                name, f"has row {lost[0]}, for which the module returns only zeros or a number that is not finite"
            )
        return Vectors(given.ids, vectors)


def encoded(side: TowerSide, rows: TrainingRows) -> Tensor:
    """Return all rows as unit vectors, some at a time, without gradients."""
    was_training = side.module.training
    side.module.eval()
    try:
        with torch.no_grad():
            parts = [side.unit(rows, np.arange(start, stop)) for start, stop in spans(len(rows), ENCODED_ROWS)]
    finally:
        side.module.train(was_training)
    return torch.cat(parts)


def exported(side: TowerSide, kind: str, features: int, dimensions: int) -> Tower | ModuleTower:
    """Return the tower that numpy runs; the user's own module stays in torch."""
    if kind == "modules":
        return ModuleTower(side, dimensions)
    preparation = side.preparation if isinstance(side.preparation, Preparation) else None  # a Tower scales anyway
    return Tower(kind, features, dimensions, arrays_of(side.module), preparation)
