"""Index: the interface of an index, what some can do besides, and what those in this process share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, TypeAlias, cast, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Ids
from unhub.compute.workers import Progress
from unhub.data.ids import no_id, positions_of
from unhub.data.vectors import Vectors

Positions: TypeAlias = NDArray[np.int64]


class Index(Protocol):
    """Items with their biases, searched by s(q, g) - weight(q) * bias(g); they need not be in this process.

    A searcher needs nothing else to search with a bias. An index that is `Changeable` can also add and remove items,
    and one that is `InProcess` can rank by whole rows or mean ranks.
    """

    @property
    def ids(self) -> Ids:
        """The ids of its items."""

    def search(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Ids | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Ids]:
        """Return scores and ids, (queries, k), best first.

        Queries are ready to multiply. `allowed` are the only ids to return, without repeats; 1 <= k <= their number. An
        empty place has the score -inf and the id -1, or "" if ids are strings.
        """


@runtime_checkable
class Changeable(Protocol):
    """An index that can add and remove items; the biases of the others stay the same."""

    def add(self, items: Vectors, bias: Float64) -> None:
        """Add items with new ids after those it holds."""

    def remove(self, ids: Ids) -> None:
        """Drop the items with these ids; those after them move up."""


class InProcess(ABC):
    """An index over vectors in this process, which answers by position as well as by id.

    A searcher asks by position, which saves looking up ids.
    """

    @property
    @abstractmethod
    def items(self) -> Vectors:
        """The items it holds, in the order of their positions."""

    @abstractmethod
    def find(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Positions | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Positions]:
        """Return scores and positions, (queries, k), best first; `allowed` are positions, ascending.

        An empty place has the score -inf and the position -1.
        """

    @abstractmethod
    def add(self, items: Vectors, bias: Float64) -> None:
        """Add items after those it holds."""

    @abstractmethod
    def drop(self, positions: Positions) -> None:
        """Drop the items at these positions; those after them move up."""

    @property
    def ids(self) -> Ids:
        """The ids of its items, in their order."""
        return self.items.ids

    @final
    def search(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Ids | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Ids]:
        """Return scores and ids, (queries, k), best first; `allowed` are ids."""
        positions = None if allowed is None else np.sort(positions_of(allowed, self.ids, "allowed"))
        scores, found = self.find(queries, weights, k, positions, progress)
        return scores, cast("Ids", np.where(found < 0, no_id(self.ids.dtype), self.ids[found]))

    @final
    def remove(self, ids: Ids) -> None:
        """Drop the items with these ids."""
        self.drop(positions_of(ids, self.ids, "ids"))
