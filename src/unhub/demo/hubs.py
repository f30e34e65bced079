"""Hubs of the demo: the emoji that turn up everywhere, and what was asked for when they did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import unhub
from unhub.compute.workers import Progress
from unhub.demo.space import Descriptions, Space
from unhub.evaluation.hubness import Hub, Hubs

K = 10  # an emoji is shown where it is among so many best
COUNT = 5
SAMPLE, SHOWN = 60, 6  # queries looked at for each hub, and of these how many are told


@dataclass(frozen=True)
class Swallowed:
    """A hub and some queries that asked for another emoji, but were shown it too; as positions of the queries.

    freed: those that are no longer shown it once corrected. kept: those that still are.
    """

    hub: Hub
    freed: tuple[int, ...]
    kept: tuple[int, ...]


def find_hubs(space: Space, asked: Descriptions, threads: int | None = None, progress: Progress | None = None) -> Hubs:
    """Return the five emoji that most of these queries have among their ten best, before and after the correction."""
    return unhub.worst_hubs(
        asked.vectors, space.items, space.correction, K, COUNT, examples=SAMPLE, threads=threads, progress=progress
    )


def swallowed(found: Hubs, asked: Descriptions) -> list[Swallowed]:
    """Name queries for each hub, those that ask for the hub itself left out.

    They are spread evenly from those that have it first to those that have it last.
    """
    return [_swallowed(hub, asked) for hub in found.hubs]


def _swallowed(hub: Hub, asked: Descriptions) -> Swallowed:
    still = {
        query: one for query, one in zip(hub.queries, hub.still, strict=True) if asked.items[query] != hub.position
    }
    told = _spread(list(still), SHOWN)
    return Swallowed(
        hub, tuple(query for query in told if not still[query]), tuple(query for query in told if still[query])
    )


def _spread(rows: Sequence[int], count: int) -> Iterable[int]:
    """Return so many of the rows, evenly from the first to the last."""
    if len(rows) <= count:
        return rows
    return [rows[round(at * (len(rows) - 1) / (count - 1))] for at in range(count)]


def to_dict(found: Hubs, asked: Descriptions, space: Space) -> dict[str, object]:
    """Return the hubs and the queries named for each as JSON can hold them."""

    def told(queries: Iterable[int]) -> list[dict[str, str]]:
        return [{"text": asked.texts[query], "emoji": space.items.ids[asked.items[query]].item()} for query in queries]

    assert found.after is not None
    return {
        "before": found.before.to_dict(),
        "after": found.after.to_dict(),
        "worst": [
            {
                "id": one.hub.id,
                "name": space.names[one.hub.position],
                "before": one.hub.before,
                "after": one.hub.after,
                "no_longer_for": told(one.freed),
                "still_for": told(one.kept),
            }
            for one in swallowed(found, asked)
        ],
    }
