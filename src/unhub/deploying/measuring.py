"""Measuring: what an engine finds for sample queries, corrected and plain, against exact search on the same items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from unhub.arrays import Float32, Ids, random_positions
from unhub.compute.workers import Progress
from unhub.data.ids import no_id
from unhub.data.vectors import VectorsLike, as_vectors
from unhub.deploying.deployment import Measured
from unhub.deploying.source import SourceItems
from unhub.errors import ArgumentError
from unhub.evaluation.hubness import figures_of
from unhub.matching import prepare_queries
from unhub.search.hits import Names
from unhub.search.in_store import StoreIndex
from unhub.search.searcher import Searcher
from unhub.stores.store import IndexKind, Store

PLACES = 10
MOST_QUERIES = 2000  # of a sample, drawn at random from more
TIMED_QUERIES = 30  # one after the other, for the time that one takes
EFFORTS: Mapping[IndexKind, Sequence[int]] = {  # to try where the engine's default does not find enough
    "hnsw": (100, 150, 200, 300, 400, 600, 800, 1000),
    "ivf": (2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500),
}
CANDIDATES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
KEPT_SHARE = 0.99  # of the corrected best that must be among the candidates


@dataclass(frozen=True, eq=False)
class Sample:
    """Sample queries, ready to multiply, and the best items of each by exact search, corrected and plain."""

    queries: Float32
    k: int
    corrected: Ids
    plain: Ids

    @staticmethod
    def of(source: SourceItems, queries: VectorsLike, threads: int | None = None, seed: int = 0) -> Sample:
        """Search the items exactly; more queries than enough are drawn from."""
        given = as_vectors(queries, "queries")
        if len(given) > MOST_QUERIES:
            given = given.gather(random_positions(len(given), MOST_QUERIES, seed))
        ready = prepare_queries(given, source.correction)
        k = min(PLACES, len(source.items))
        exact = Searcher(source.items, source.correction, "exact", threads)
        return Sample(ready, k, exact.search(ready, k).ids, exact.search(ready, k, strength=0).ids)

    def recall(self, found: Ids, right: Ids) -> float:
        """Return the share of the right items that were found, over all queries."""
        return float(np.mean([np.isin(wanted, got).mean() for wanted, got in zip(right, found, strict=True)]))

    def candidates_needed(self, source: SourceItems, threads: int | None = None) -> tuple[int, float]:
        """Return how many of the nearest items hold nearly all of the corrected best, and what share they hold."""
        exact = Searcher(source.items, source.correction, "exact", threads)
        most = min(CANDIDATES[-1], len(source.items))
        shares = np.zeros(len(CANDIDATES))
        step = max(1, (1 << 22) // most)
        for start in range(0, len(self.queries), step):
            here = slice(start, start + step)
            nearest = exact.search(self.queries[here], most, strength=0).ids
            for row, wanted in zip(nearest, self.corrected[here], strict=True):
                places = np.flatnonzero(np.isin(row, wanted))
                shares += [(places < count).sum() / len(wanted) for count in CANDIDATES]
        shares /= len(self.queries)
        enough = int(np.argmax(shares >= KEPT_SHARE)) if (shares >= KEPT_SHARE).any() else len(CANDIDATES) - 1
        return CANDIDATES[enough], float(shares[enough])


def measure(
    index: StoreIndex, plain: Store | None, sample: Sample, loss: float | None, progress: Progress | None = None
) -> Measured:
    """Search a deployment and the plain collection; without one, the deployment at strength 0."""
    searcher = Searcher(None, index.correction, index)

    def corrected(queries: Float32) -> Ids:
        return searcher.search(queries, sample.k).ids

    def uncorrected(queries: Float32) -> Ids:
        if plain is not None:
            return plain.search(queries, sample.k).ids
        return searcher.search(queries, sample.k, strength=0).ids

    found, found_plain = corrected(sample.queries), uncorrected(sample.queries)
    if progress is not None:
        progress(1, 2)
    times = [_milliseconds(search, sample.queries) for search in (corrected, uncorrected)]
    if progress is not None:
        progress(2, 2)
    return Measured(
        len(sample.queries),
        sample.k,
        sample.recall(found_plain, sample.plain),
        sample.recall(found, sample.corrected),
        times[1],
        times[0],
        _skewness(found_plain, index.ids),
        _skewness(found, index.ids),
        loss,
    )


def effort_needed(index: StoreIndex, sample: Sample, measured: Measured) -> int | None:
    """Return the least effort at which the corrected search finds enough; None for the engine's default.

    Enough is with something to spare; where no effort has, as much as is promised and about as much as any effort
    finds. The default stays where it finds that, or where no effort does.
    """
    allowed = measured.allowed_loss or 0.0
    found: dict[int, float] = {}
    for effort in EFFORTS.get(index.store.describe().index, ()):
        searcher = Searcher(None, index.correction, replace(index, effort=effort))
        found[effort] = sample.recall(searcher.search(sample.queries, sample.k).ids, sample.corrected)
        if replace(measured, corrected_recall=found[effort]).has_spare:
            return effort
    enough = max(measured.plain_recall - allowed, max(found.values(), default=0.0) - allowed / 10)
    if measured.corrected_recall >= enough:
        return None
    return min((effort for effort, recall in found.items() if recall >= enough), default=None)


def _milliseconds(search: Callable[[Float32], Any], queries: Float32) -> float:
    """Return the median time of one query, asked alone."""
    taken = []
    for row in range(min(TIMED_QUERIES, len(queries))):
        began = perf_counter()
        search(queries[row : row + 1])
        taken.append(1000 * (perf_counter() - began))
    return float(median(taken))


def _skewness(found: Ids, ids: Ids) -> float:
    if found.dtype.kind != ids.dtype.kind:
        raise ArgumentError("store", f"returned ids such as {found.flat[0].item()!r}, not those of the correction")
    places = Names(ids).found(found[found != no_id(found.dtype)])
    return figures_of(np.bincount(places, minlength=len(ids))).skewness
