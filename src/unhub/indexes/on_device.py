"""On a device: exact search by torch over items that stay there, such as `torch:cuda`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from unhub import kernels
from unhub.arrays import Float32, Float64, Kind, rows_per_block, spans
from unhub.compute.nearest import BiasedQueries, nearest
from unhub.compute.passes import no_room
from unhub.compute.workers import Progress, Resources
from unhub.data.tensors import TensorRows
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError, MissingLibrary
from unhub.indexes.exact import Exact
from unhub.indexes.index import InProcess, Positions

ANY_DEVICE = "cpu"  # where torch finds no other


@final
class OnDevice(InProcess):
    """An index whose items are on a device, ready to multiply; scores and ties are those of `exact`, up to rounding."""

    def __init__(
        self,
        items: Vectors,
        bias: Float64,
        similarity: Kind,
        settings: str = "",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Bring the items to the device that the settings name, by default to the fastest that is there."""
        self._device = _kernel_of(settings)
        self._exact = Exact(items, bias, similarity, threads=threads)
        self._there = self._brought(items)

    @property
    def items(self) -> Vectors:
        """The items as they were given, in their order."""
        return self._exact.items

    def find(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Positions | None = None,
        progress: Progress | None = None,
    ) -> tuple[Float32, Positions]:
        """Return scores and positions, (queries, k), best first; equal scores go to the lower position."""
        there = Vectors(np.arange(len(self._there)), self._there)
        bias = self._exact.bias if allowed is None else self._exact.bias[allowed]
        resources = Resources(self._exact.threads, progress=progress, device=self._device)
        # Their rows were scaled when they came, so that a product is all there is to do.
        searched = there if allowed is None else there.gather(allowed)
        scores, places = nearest(BiasedQueries(queries, weights, bias), searched, "dot", k, resources)
        return scores, places if allowed is None else np.where(places >= 0, allowed[places], -1)

    def add(self, items: Vectors, bias: Float64) -> None:
        """Add items after those it holds; only they are brought to the device."""
        old, new = self._there.tensor, self._brought(items).tensor
        with self._naming_memory(len(old) + len(new)):
            both = kernels.choose(self._device).empty((len(old) + len(new), self.items.dimensions))
            both[: len(old)], both[len(old) :] = old, new
        self._exact.add(items, bias)
        self._there = TensorRows(both)

    def drop(self, positions: Positions) -> None:
        """Drop items; those after them move up."""
        self._there = TensorRows(self._there.gather(np.delete(np.arange(len(self._there)), positions)))
        self._exact.drop(positions)

    def _brought(self, items: Vectors) -> TensorRows:
        """Return the items on the device, ready to multiply; rows that are there and of length one are not copied."""
        kernel, similarity = kernels.choose(self._device), self._exact.similarity
        with self._naming_memory(len(items)):
            if isinstance(items.rows, TensorRows):
                return TensorRows(items.ready_block(0, len(items), similarity, kernel))
            rows: Any = kernel.empty((len(items), items.dimensions))
            for start, stop in spans(len(items), rows_per_block(items.dimensions)):
                rows[start:stop] = items.ready_block(start, stop, similarity, kernel)
            return TensorRows(rows)

    @contextmanager
    def _naming_memory(self, count: int) -> Iterator[None]:
        """Say what there is no room for, if the device is out of memory."""
        kernel = kernels.choose(self._device)
        try:
            yield
        except RuntimeError as error:
            if kernel.is_full(error):
                raise no_room(kernel, f"with {count:,} items of {self.items.dimensions} dimensions") from None
            raise


def _kernel_of(settings: str) -> str:
    """Return the name of the kernel for what follows `torch:`; errors are about the index."""
    try:
        name = kernels.name_of(settings or kernels.AUTO) or kernels.name_of(ANY_DEVICE)
    except (ArgumentError, MissingLibrary) as error:
        raise error.of("index") from None
    if name is None or not name.startswith("torch:"):
        raise ArgumentError("index", f"'torch:{settings}' names no device of torch", "write 'torch:cuda', 'torch:cpu'")
    return name
