"""Hubs of a demo: the items that appear most often, and queries that return them but mean another item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import unhub
from unhub.compute.workers import Progress
from unhub.demo.searched import AskedTexts, Searched
from unhub.evaluation.hubness import Hub, Hubs

LISTED_ITEMS = 10  # for each query
HUB_COUNT = 5
SAMPLED_QUERIES, SHOWN_QUERIES = 60, 6  # queries examined for each hub, and how many of these are printed


@dataclass(frozen=True)
class HubQueries:
    """A hub, and the positions of some queries that mean another item but show the hub too.

    freed: those that no longer show it after the correction. kept: those that still do.
    """

    hub: Hub
    freed: tuple[int, ...]
    kept: tuple[int, ...]


def find_hubs(space: Searched, asked: AskedTexts, threads: int | None = None, progress: Progress | None = None) -> Hubs:
    """Return the five items that most of these queries have among their ten best, before and after the correction."""
    return unhub.worst_hubs(
        asked.vectors,
        space.items,
        space.correction,
        LISTED_ITEMS,
        HUB_COUNT,
        examples=SAMPLED_QUERIES,
        threads=threads,
        progress=progress,
    )


def hub_queries(found: Hubs, asked: AskedTexts, shown: int = SHOWN_QUERIES) -> list[HubQueries]:
    """Choose queries that show a hub but do not mean it, evenly from those that rank it highest to lowest."""
    return [_queries_of(hub, asked, shown) for hub in found.hubs]


def _queries_of(hub: Hub, asked: AskedTexts, count: int) -> HubQueries:
    still = {
        query: one for query, one in zip(hub.queries, hub.still, strict=True) if hub.position not in asked.meant(query)
    }
    shown = _spread(list(still), count)
    return HubQueries(
        hub, tuple(query for query in shown if not still[query]), tuple(query for query in shown if still[query])
    )


def _spread(rows: Sequence[int], count: int) -> Iterable[int]:
    """Return `count` of the rows, evenly from the first to the last."""
    if len(rows) <= count:
        return rows
    return [rows[round(at * (len(rows) - 1) / (count - 1))] for at in range(count)]


def to_dict(found: Hubs, asked: AskedTexts, space: Searched, shown: int = SHOWN_QUERIES) -> dict[str, object]:
    """Return the hubs and the queries chosen for each, for JSON."""

    def described(queries: Iterable[int]) -> list[dict[str, str]]:
        return [
            {"text": asked.texts[query], space.noun: space.items.ids[asked.meant(query)[0]].item()} for query in queries
        ]

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
                "no_longer_for": described(one.freed),
                "still_for": described(one.kept),
            }
            for one in hub_queries(found, asked, shown)
        ],
    }
