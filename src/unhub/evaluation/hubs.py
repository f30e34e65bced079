"""Hubs: the items that are returned most often, before and after a correction, and queries that fall into them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids, Kind
from unhub.compute.workers import Progress, Workers
from unhub.correction import Correction
from unhub.data.similarity import Dense
from unhub.data.vectors import VectorsLike
from unhub.errors import check_whole
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.hubness import Hubness, hubness_of, no_truth
from unhub.evaluation.inputs import Setting


@dataclass(frozen=True)
class Hub:
    """An item, the number of queries it is returned for, and positions of some of these queries.

    after: the number with the correction; None without one. still: for each of the queries, whether it still returns
    the item.
    """

    position: int
    id: int | str
    before: int
    after: int | None
    queries: tuple[int, ...]
    still: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Hubs:
    """The worst hubs of the raw ranking, worst first, and the hubness before and after a correction."""

    hubs: tuple[Hub, ...]
    before: Hubness
    after: Hubness | None
    query_ids: Ids

    def to_dict(self) -> dict[str, object]:
        """Return everything but the counts of all items, as JSON can hold it; queries by id."""
        return {
            "before": self.before.to_dict(),
            "after": None if self.after is None else self.after.to_dict(),
            "notes": list(self.before.notes),
            "hubs": [
                {
                    "id": hub.id,
                    "before": hub.before,
                    "after": hub.after,
                    "queries": [self.query_ids[query].item() for query in hub.queries],
                    "still": list(hub.still) if self.after is not None else None,
                }
                for hub in self.hubs
            ],
        }


def worst_hubs(
    queries: VectorsLike | Dense,
    items: VectorsLike | None = None,
    correction: Correction | None = None,
    k: int = 10,
    count: int = 10,
    *,
    examples: int = 3,
    exclude: ExcludeLike | None = None,
    strength: float = 1.0,
    similarity: Kind | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Hubs:
    """Return the items that most queries have among their k best, and with a correction how often it returns them.

    examples: how many queries to name for each hub, evenly from those that have it first to those that have it last.
    exclude: items that are not ranked for single queries, as `evaluate` takes it.
    """
    for name, number, least in (("count", count, 1), ("examples", examples, 0)):
        check_whole(number, name, least)
    corrections = () if correction is None else (correction,)
    setting = Setting.of(queries, items, corrections, similarity, threads, exclude=exclude)
    workers = Workers(threads, progress=progress)
    placed = setting.place(no_truth(len(setting.query_ids)), setting.rankings(strength), workers, setting.places(k))
    workers.finish()
    before, *corrected = (hubness_of(one, setting.item_ids, setting.notes) for one in placed)
    after = corrected[0] if corrected else None
    hubs = []
    for item in before.hubs(count):
        fallen = _fallen(placed[0].best, int(item), examples)
        kept = (placed[-1].best[fallen] == item).any(axis=1)
        hubs.append(
            Hub(
                int(item),
                setting.item_ids[item].item(),
                int(before.counts[item]),
                None if after is None else int(after.counts[item]),
                tuple(fallen.tolist()),
                tuple(kept.tolist()),
            )
        )
    return Hubs(tuple(hubs), before, after, setting.query_ids)


def _fallen(best: NDArray[np.int32], item: int, count: int) -> NDArray[np.int64]:
    """Return some queries that have the item among their best, evenly from the first place to the last."""
    queries, places = np.nonzero(best == item)
    chosen = np.unique(np.linspace(0, len(queries) - 1, min(count, len(queries))).astype(np.int64))
    return queries[np.argsort(places, kind="stable")[chosen]]
