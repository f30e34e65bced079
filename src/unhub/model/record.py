"""Record: how a model was trained: settings, data, each learning rate that was tried, and its epochs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """One pass over the items: its number from 1, the mean loss, and R@1 on validation in percent, if measured."""

    number: int
    loss: float
    recall: float | None = None


@dataclass(frozen=True)
class Tried:
    """A learning rate and its epochs; the epoch numbered `best` was kept.

    failed: in words, what stopped being finite in the next epoch; nothing is kept of such a rate, and best is 0.
    """

    rate: float
    best: int
    epochs: tuple[Epoch, ...]
    failed: str = ""

    @property
    def kept(self) -> Epoch:
        """The epoch that was kept; raises for a rate that failed."""
        if self.failed:
            raise ValueError(f"nothing of the rate {self.rate:g} was kept: {self.failed}")
        return self.epochs[self.best - 1]


@dataclass(frozen=True)
class Training:
    """What was trained on what: `settings` and `data` (sizes and hashes) as JSON values, versions and notes.

    tried: every learning rate, in the order they were tried; rate: the one that was chosen.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    tried: tuple[Tried, ...] = ()
    rate: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> Tried | None:
        """The chosen rate and its epochs."""
        return next((one for one in self.tried if one.rate == self.rate), None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return dataclasses.asdict(self)


def as_tried(saved: Mapping[str, Any]) -> Tried:
    """Return a tried rate from its JSON."""
    return Tried(**{**saved, "epochs": tuple(Epoch(**one) for one in saved["epochs"])})
