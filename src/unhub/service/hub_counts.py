"""Hub counts: how often each item of a version is returned, raw and corrected, and which queries return it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Ids, random_positions, spans
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.evaluation.chance import binomial
from unhub.evaluation.hubness import Hubness, figures_of
from unhub.service.hit_lists import Describing, Json
from unhub.service.served import ServedSpace
from unhub.service.version import Version, far_above

Side: TypeAlias = Literal["raw", "corrected"]
SIDES: tuple[Side, Side] = ("raw", "corrected")
COUNTED_QUERIES = 5000  # at most, at random
COUNTED_DEPTH = 50  # places of each query
HUB_PLACES = 10  # by which an item is marked as a hub
TOGETHER = 64  # queries in one search, so that others are not kept waiting
WORST, WORST_QUERIES, NEVER, ITEM_QUERIES = 20, 5, 50, 50  # how many are listed


@dataclass(frozen=True, eq=False)
class AskedQueries:
    """The queries that are counted: their vectors, texts if they have some, and where they are from."""

    vectors: Vectors
    texts: tuple[str, ...] | None
    source: str

    @staticmethod
    def of(space: ServedSpace) -> AskedQueries | None:
        """Return the sample queries, else queries of the bank; None where there are neither."""
        if space.samples is not None:
            vectors, texts, source = space.samples.vectors, space.samples.texts, "sample queries"
        elif space.bank is not None:
            vectors, texts, source = space.bank, None, "bank queries"
        else:
            return None
        if len(vectors) > COUNTED_QUERIES:
            chosen = random_positions(len(vectors), COUNTED_QUERIES, 0)
            vectors = vectors.gather(chosen)
            texts = None if texts is None else tuple(texts[row] for row in chosen)
        return AskedQueries(vectors, texts, source)

    def named(self, row: int) -> Json:
        """Return a query for JSON."""
        return {"id": self.vectors.ids[row].item(), "text": None if self.texts is None else self.texts[row]}


@dataclass(frozen=True, eq=False)
class HubCounts:
    """The best items of every query, (queries, depth) positions each, -1 for an empty place.

    name, ids: of the version. They hold no version, so that an old one is forgotten with its index.
    """

    name: str
    ids: Ids
    asked: AskedQueries
    best: dict[Side, NDArray[np.int64]]

    @cached_property
    def marked(self) -> frozenset[int]:
        """The positions of the hubs: items returned far more often than the others by the raw ranking."""
        return far_above(self._counts("raw", HUB_PLACES).astype(np.float64))

    def _counts(self, side: Side, k: int) -> NDArray[np.int64]:
        first = self.best[side][:, :k]
        return np.bincount(first[first >= 0], minlength=len(self.ids)).astype(np.int64)

    def hubness(self, side: Side, k: int) -> Hubness:
        """Return how unevenly the items are returned."""
        counts = self._counts(side, k)
        return Hubness(k, len(self.asked.vectors), self.ids, counts, figures_of(counts))

    def page(self, k: int, describing: Describing) -> Json:
        """Return the hubs for JSON."""
        if not 1 <= k <= COUNTED_DEPTH:
            raise ArgumentError("k", f"must be from 1 to {COUNTED_DEPTH}, got {k}")
        both = {side: self.hubness(side, k) for side in SIDES}
        chance = both["raw"].chance
        return {
            "ready": True,
            "version": self.name,
            "k": k,
            "queries": len(self.asked.vectors),
            "from": self.asked.source,
            **{side: asdict(one.figures) for side, one in both.items()},
            "chance": asdict(chance),
            "counts": {
                **{side: _histogram(one.counts) for side, one in both.items()},
                "chance": _expected(both["raw"]),
            },
            "worst": {side: self._worst(side, k, both, describing) for side in SIDES},
            "never": {side: self._never(both[side], describing) for side in SIDES},
        }

    def item(self, position: int, k: int = HUB_PLACES) -> Json:
        """Return how often one item is returned, and by which queries."""
        places = len(self.asked.vectors) * min(k, len(self.ids))
        counts = {side: int(self._counts(side, k)[position]) for side in SIDES}
        return {
            "counts": {**counts, "chance": round(places / len(self.ids), 3), "queries": len(self.asked.vectors)},
            "queries": {side: self._queries(side, position, k, ITEM_QUERIES) for side in SIDES},
        }

    def _queries(self, side: Side, position: int, k: int, most: int) -> list[Json]:
        rows, places = np.nonzero(self.best[side][:, :k] == position)
        order = np.argsort(places, kind="stable")[:most]
        return [{**self.asked.named(int(rows[one])), "rank": int(places[one]) + 1} for one in order]

    def _worst(self, side: Side, k: int, both: dict[Side, Hubness], describing: Describing) -> list[Json]:
        return [
            {
                **describing.item(position),
                **{name: int(one.counts[position]) for name, one in both.items()},
                "queries": self._queries(side, position, k, WORST_QUERIES),
            }
            for position in both[side].hubs(WORST).tolist()
        ]

    def _never(self, one: Hubness, describing: Describing) -> Json:
        absent = np.flatnonzero(one.counts == 0)
        shown = [describing.item(position) for position in absent[:NEVER].tolist()]
        return {"share": float(len(absent) / len(one.counts)), "count": len(absent), "items": shown}


def count_hubs(version: Version, asked: AskedQueries, tick: Callable[[float], None]) -> HubCounts:
    """Rank every query, raw and corrected; `tick` hears the share that is done and may raise to stop."""
    depth = min(COUNTED_DEPTH, len(version))
    best: dict[Side, list[NDArray[np.int64]]] = {side: [] for side in SIDES}
    for start, stop in spans(len(asked.vectors), TOGETHER):
        tick(start / len(asked.vectors))
        block = asked.vectors.block(start, stop)
        sets = [block[row : row + 1] for row in range(len(block))]
        ones: Float64 = np.ones(len(sets))
        best["raw"].append(_positions(version, version.search_raw(sets, depth).ids))
        best["corrected"].append(_positions(version, version.search(sets, depth, ones).ids))
    return HubCounts(
        version.name, version.correction.ids, asked, {side: np.concatenate(parts) for side, parts in best.items()}
    )


def _positions(version: Version, ids: Ids) -> NDArray[np.int64]:
    return version.names.looked_up(ids)[0]


def _histogram(counts: NDArray[np.int64]) -> list[list[int]]:
    """Return [count, how many items are returned that often], by the count."""
    values, items = np.unique(counts, return_counts=True)
    return [[int(value), int(number)] for value, number in zip(values, items, strict=True)]


def _expected(one: Hubness) -> list[list[float]]:
    """Return the same as chance alone would have it, where at least a hundredth of an item is expected."""
    items = len(one.counts)
    first, law = binomial(one.queries, int(one.counts.sum()) / (one.queries * items))
    return [
        [first + place, round(share * items, 3)] for place, share in enumerate(law.tolist()) if share * items >= 0.01
    ]
