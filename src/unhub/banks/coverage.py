"""Coverage: how many items come first for some bank query, and how many should (Bogolin et al. 2022, 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Kind, random_positions
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Progress, Workers
from unhub.data.similarity import Dot
from unhub.data.vectors import Vectors

Against = Literal["queries", "items"]

# A bank with less than this share of the expected coverage is narrow; docs/banks/bank_limits.md has the measurements.
NARROW_RATIOS = {"queries": 0.75, "items": 0.4}
MOST_PLACES = 10  # of each query's ranking; fewer if that is over a twentieth of the items
PROBE_ITEMS = 5000  # items used as queries if none are given


@dataclass(frozen=True)
class Coverage:
    """How many items come first for some bank query, and whether that is too few.

    size: of the equally large samples that are compared. here: how many items `size` bank queries reach, on average.
    expected: how many different items `size` real queries have in one of their first places, the one with the fewest.
    The first place alone would expect too much: under a strong model, queries that ask for every item once reach them
    all, but past queries ask for some items twice and for things that are not in the gallery. Without queries,
    expected is how many items are the nearest neighbour of `size` items; None if there is only one item.
    place: the place of the queries that gave `expected`.
    """

    reached: int
    items: int
    size: int
    here: float
    expected: float | None
    against: Against
    place: int = 1

    @property
    def share(self) -> float:
        """The share of the items that the whole bank reaches."""
        return self.reached / self.items

    @property
    def ratio(self) -> float | None:
        """What the bank reaches as a share of what is expected."""
        return None if self.expected is None else self.here / self.expected

    @property
    def limit(self) -> float | None:
        """The ratio under which a bank is narrow, less two standard deviations of a count of draws."""
        if self.expected is None:
            return None
        chance = sqrt((1 - min(1.0, self.expected / self.size)) / self.expected)
        return NARROW_RATIOS[self.against] - 2 * chance

    @property
    def narrow(self) -> bool:
        """Whether the bank reaches clearly less than expected."""
        return self.ratio is not None and self.limit is not None and self.ratio < self.limit


def first_items(
    queries: Vectors, items: Vectors, kind: Kind, *, threads: int | None = None, progress: Progress | None = None
) -> NDArray[np.int64]:
    """Return the position of the item that each query reaches first, (queries,)."""
    return _best(queries, items, kind, 1, threads, progress)[:, 0]


def _best(
    queries: Vectors, items: Vectors, kind: Kind, places: int, threads: int | None, progress: Progress | None
) -> NDArray[np.int64]:
    """Return the positions of the best items of each query, best first, (queries, places)."""
    workers = Workers(threads, progress=progress)
    found = reduce(Dot(queries, items, kind), Want(best_items=places), workers)
    workers.finish()
    return found.best_items.astype(np.int64)


def distinct(firsts: NDArray[np.int64], size: int) -> float:
    """Return how many distinct items `size` of these queries, drawn at random, reach on average.

    The item that c of m queries reach is missed by all draws with probability C(m - c, size) / C(m, size).
    """
    counts = np.unique(firsts, return_counts=True)[1]
    m = len(firsts)
    some, of_each = np.unique(counts, return_counts=True)
    missed = [exp(_log_ways(m - int(c), size) - _log_ways(m, size)) if m - c >= size else 0.0 for c in some]
    return float(of_each @ (1 - np.array(missed)))


def _log_ways(many: int, some: int) -> float:
    """Return the logarithm of the number of ways to choose some of many, plus log(some!)."""
    return lgamma(many + 1) - lgamma(many - some + 1)


def coverage(
    bank_firsts: NDArray[np.int64],
    items: Vectors,
    queries: Vectors | None,
    kind: Kind,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Coverage:
    """Return the coverage of a bank, given the item that each of its queries reaches first."""
    if queries is None:
        best = _nearest_others(items, kind, seed, threads, progress)
    else:
        best = _best(queries, items, kind, max(1, min(MOST_PLACES, len(items) // 20)), threads, progress)
    size = min(len(bank_firsts), len(best) or len(bank_firsts))
    held = [distinct(items_of, size) for items_of in best.T] if len(best) else []
    return Coverage(
        len(np.unique(bank_firsts)),
        len(items),
        size,
        distinct(bank_firsts, size),
        min(held, default=None),
        "items" if queries is None else "queries",
        int(np.argmin(held)) + 1 if held else 1,
    )


def _nearest_others(
    items: Vectors, kind: Kind, seed: int, threads: int | None, progress: Progress | None
) -> NDArray[np.int64]:
    """Return the nearest other item of each item, or of 5,000 of them, (items, 1); empty for a single item."""
    if len(items) == 1:
        return np.empty((0, 1), np.int64)
    probes = np.arange(len(items))
    if len(items) > PROBE_ITEMS:
        probes = random_positions(len(items), PROBE_ITEMS, seed)
    best = _best(items.gather(probes), items, kind, 2, threads, progress)
    return np.where(best[:, 0] == probes, best[:, 1], best[:, 0])[:, None]
