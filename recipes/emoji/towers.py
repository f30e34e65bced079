"""Towers that start where ridge regression ends: texts unchanged, pictures mapped to the mean of their texts.

With a thousand pictures to learn from, towers that start at random unlearn what the words' vectors know.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from unhub.arrays import Float32, Float64
from unhub.model.tower_forward import Preparation, Tower

RIDGE_STRENGTH = 0.3  # of the ridge, as a share of the mean squared length of a row


class Residual(nn.Module):
    """A given linear map, plus a hidden layer whose output starts at zero."""

    def __init__(self, weight: Float64, bias: Float64, hidden: int, dropout: float) -> None:
        super().__init__()
        out, features = weight.shape
        self.linear = nn.Linear(features, out)
        self.hidden = nn.Linear(features, hidden)
        self.out = nn.Linear(hidden, out, bias=False)
        self.dropout = nn.Dropout(dropout)
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(weight))
            self.linear.bias.copy_(torch.from_numpy(bias))
            self.out.weight.zero_()

    def forward(self, rows: Tensor) -> Tensor:
        """Return x W^T + b + relu(x U^T + c) V^T, as a Tower of the kind `mlp` does."""
        seen = self.dropout(rows)
        return cast("Tensor", self.linear(seen) + self.out(self.dropout(torch.relu(self.hidden(seen)))))

    def export(self, preparation: Preparation | None) -> Tower:
        """Return the trained tower as numpy runs it."""
        arrays = {name: one.detach().numpy().copy() for name, one in self.state_dict().items()}
        out, features = self.linear.weight.shape
        return Tower("mlp", features, out, arrays, preparation)


def text_tower(dimensions: int, hidden: int, dropout: float) -> Residual:
    """Return a tower that leaves texts unchanged."""
    return Residual(np.eye(dimensions), np.zeros(dimensions), hidden, dropout)


def picture_tower(pictures: Float32, targets: Float64, hidden: int, dropout: float) -> Residual:
    """Return a tower that maps prepared pictures to their targets, the mean texts, by ridge regression."""
    rows, middle = pictures.astype(np.float64), targets.mean(axis=0)
    mean = rows.mean(axis=0)
    centred = rows - mean
    kernel = centred @ centred.T
    kernel[np.diag_indices(len(kernel))] += RIDGE_STRENGTH * np.trace(kernel) / len(kernel)
    weight = (centred.T @ np.linalg.solve(kernel, targets - middle)).T
    return Residual(weight, middle - weight @ mean, hidden, dropout)
