"""Hubs of the demo: the emoji that appear most often, and keywords that return them but mean another emoji."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import unhub
from unhub.compute.workers import Progress
from unhub.demo.space import Descriptions, Space
from unhub.evaluation.hubness import Hub, Hubs

LISTED_EMOJI = 10  # for each keyword
HUB_COUNT = 5
SAMPLED_KEYWORDS, SHOWN_KEYWORDS = 60, 6  # keywords examined for each hub, and how many of these are printed


@dataclass(frozen=True)
class HubKeywords:
    """A hub, and the positions of some queries that mean another emoji but show the hub too.

    freed: those that no longer show it after the correction. kept: those that still do.
    """

    hub: Hub
    freed: tuple[int, ...]
    kept: tuple[int, ...]


def find_hubs(space: Space, asked: Descriptions, threads: int | None = None, progress: Progress | None = None) -> Hubs:
    """Return the five emoji that most of these queries have among their ten best, before and after the correction."""
    return unhub.worst_hubs(
        asked.vectors,
        space.items,
        space.correction,
        LISTED_EMOJI,
        HUB_COUNT,
        examples=SAMPLED_KEYWORDS,
        threads=threads,
        progress=progress,
    )


def hub_keywords(found: Hubs, asked: Descriptions) -> list[HubKeywords]:
    """Choose queries that show a hub but do not mean it, evenly from those that rank it highest to lowest."""
    return [_keywords_of(hub, asked) for hub in found.hubs]


def _keywords_of(hub: Hub, asked: Descriptions) -> HubKeywords:
    still = {
        query: one for query, one in zip(hub.queries, hub.still, strict=True) if asked.items[query] != hub.position
    }
    shown = _spread(list(still), SHOWN_KEYWORDS)
    return HubKeywords(
        hub, tuple(query for query in shown if not still[query]), tuple(query for query in shown if still[query])
    )


def _spread(rows: Sequence[int], count: int) -> Iterable[int]:
    """Return `count` of the rows, evenly from the first to the last."""
    if len(rows) <= count:
        return rows
    return [rows[round(at * (len(rows) - 1) / (count - 1))] for at in range(count)]


def to_dict(found: Hubs, asked: Descriptions, space: Space) -> dict[str, object]:
    """Return the hubs and the queries chosen for each, for JSON."""

    def described(queries: Iterable[int]) -> list[dict[str, str]]:
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
                "no_longer_for": described(one.freed),
                "still_for": described(one.kept),
            }
            for one in hub_keywords(found, asked)
        ],
    }
