"""Index: what answers a search by id, what else one may be able to do, and what those in this process share."""

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

    A searcher asks for no more than this to search with a bias. What else it can do depends on the index: follow items
    that come and go where it is `Changeable`; rank by whole rows, or by mean ranks, where it is `InProcess`.
    """

    @property
    def ids(self) -> Ids:
        """The ids of its items, known without their vectors."""

    def search(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Ids | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Ids]:
        """Return scores and ids, (queries, k), best first.

        Queries are ready to multiply. `allowed` are the only ids to return, each once; 1 <= k <= their number. A place
        that nothing fills has the score -inf and the id -1, or "" where ids are strings.
        """


@runtime_checkable
class Changeable(Protocol):
    """An index whose items may come and go; the biases of the others stay as they are."""

    def add(self, items: Vectors, bias: Float64) -> None:
        """Put items, whose ids are new, after those it holds."""

    def remove(self, ids: Ids) -> None:
        """Drop the items with these ids; those after them move up."""


class InProcess(ABC):
    """An index over vectors of this process, which answers by position along its items as well as by id.

    A searcher asks it by position: no id is looked up.
    """

    @property
    @abstractmethod
    def items(self) -> Vectors:
        """The items it holds; positions count along them."""

    @abstractmethod
    def find(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Positions | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Positions]:
        """Return scores and positions, (queries, k), best first; `allowed` are positions, rising.

        A place that nothing fills has the score -inf and the position -1.
        """

    @abstractmethod
    def add(self, items: Vectors, bias: Float64) -> None:
        """Put items after those it holds."""

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
