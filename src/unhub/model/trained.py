"""Model: two towers into one joint space, and a head that weighs several queries in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from unhub.combine import Combination
from unhub.data.vectors import Vectors, VectorsLike
from unhub.errors import ArgumentError
from unhub.model.head_forward import Head
from unhub.model.record import Epoch, Training


class TowerLike(Protocol):
    """Turns rows into unit vectors of the joint space: a Tower, or your own torch module during training."""

    @property
    def kind(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def encode(self, rows: VectorsLike, name: str) -> Vectors: ...


class Towers(NamedTuple):
    """The tower of the texts and the tower of the items."""

    text: TowerLike
    item: TowerLike


@dataclass(frozen=True, eq=False)
class Model:
    """Towers and a head that were trained together; pass it as `combine` to search and evaluate."""

    towers: Towers
    head: Head
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        text, item = self.towers
        if not text.dimensions == item.dimensions == self.head.dimensions:
            raise ArgumentError(
                "towers",
                f"must share one space with the head: the text tower has {text.dimensions} dimensions, the item tower "
                f"{item.dimensions}, the head {self.head.dimensions}",
            )

    def __repr__(self) -> str:
        return f"<Model {self.head.name}: {self.towers.text.kind} towers, {self.dimensions} dimensions>"

    @property
    def dimensions(self) -> int:
        """How many dimensions the joint space has."""
        return self.head.dimensions

    @property
    def combination(self) -> Combination:
        """How the head combines several queries into one; they must come from `encode_texts`."""
        return self.head.combination

    @property
    def history(self) -> tuple[Epoch, ...]:
        """The epochs of the chosen learning rate."""
        chosen = self.training.chosen
        return () if chosen is None else chosen.epochs

    @property
    def notes(self) -> tuple[str, ...]:
        """What training left out or did differently than asked, in words."""
        return self.training.notes

    def encode_texts(self, texts: VectorsLike) -> Vectors:
        """Return the texts as unit vectors of the joint space, float32, with their ids."""
        return self.towers.text.encode(texts, "texts")

    def encode_items(self, items: VectorsLike) -> Vectors:
        """Return the items as unit vectors of the joint space, float32, with their ids."""
        return self.towers.item.encode(items, "items")
