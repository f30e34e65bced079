"""Hit lists: from what a search found to the JSON of an answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np

from unhub.arrays import Ids
from unhub.correction import Scores
from unhub.files.picture_addresses import address_of
from unhub.search.hits import Id
from unhub.service.questions import Question, Reply
from unhub.service.version import Version

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Describing:
    """What is said of an item besides its place: its text, its picture, its bias, and whether it is a hub.

    has_picture: whether the named folder has a picture of an item. image_url: where else pictures are, with {id} in it.
    """

    version: Version
    hubs: Collection[int]
    has_picture: Callable[[Id], bool] | None = None
    image_url: str | None = None

    def item(self, position: int) -> Json:
        """Return what is known of the item at a position."""
        one: Id = self.version.correction.ids[position].item()
        bias = self.version.bias
        return {
            "id": one,
            "text": self.version.gallery.texts.get(one),
            "image": self.image(one),
            "bias": None if bias is None else round(float(bias[position]), 7),
            "hub": position in self.hubs,
        }

    def image(self, one: Id) -> str | None:
        """Return the address of an item's picture, None if it has none."""
        if self.image_url is not None:
            return address_of(self.image_url, one)
        if self.has_picture is not None and self.has_picture(one):
            return f"/images/{quote(str(one), safe='')}"
        return None

    def hits(self, ids: Ids, scores: Scores) -> list[Json]:
        """Return items in their order, with places and scores."""
        positions = self.version.names.looked_up(ids)[0].tolist()
        return [
            {"rank": rank, "score": short(score), **self.item(position)}
            for rank, (position, score) in enumerate(zip(positions, scores, strict=True), start=1)
        ]


def short(score: object) -> float:
    """Return a float32 with the few digits that it has: 0.3 and not 0.30000001192092896."""
    return float(str(score))


def answer_of(question: Question, found: Reply, describing: Describing) -> Json:
    """Return the answer to a question; with the raw ranking, both say where a hit is in the other."""
    k = question.k
    hits = describing.hits(found.ids[:k], found.scores[:k])
    told = {"version": question.version.name, "k": k, "strength": question.strength, "fetched": found.depth}
    answer: Json = {**told, "hits": hits}
    if found.raw is None:
        for one in hits:
            one["raw_rank"] = None
        return {**answer, "corrected": None}
    raw_ids, raw_scores = found.raw
    raw_ranks, ranks = _ranks(raw_ids), _ranks(found.ids)
    answer["corrected"] = _differ(found, raw_ids, raw_scores)
    for one in hits:
        one["raw_rank"] = raw_ranks.get(one["id"])
    answer["raw"] = describing.hits(raw_ids[:k], raw_scores[:k])
    for one in answer["raw"]:
        one["rank_corrected"] = ranks.get(one["id"])
    return answer


def _differ(found: Reply, raw_ids: Ids, raw_scores: Scores) -> bool:
    """Return whether the query was corrected: some methods leave a query as it is, and then no score differs."""
    _, here, there = np.intersect1d(found.ids, raw_ids, return_indices=True)
    return not len(here) or not np.allclose(found.scores[here], raw_scores[there], rtol=1e-5, atol=1e-6)


def _ranks(ids: Ids) -> dict[Id, int]:
    return {one: rank for rank, one in enumerate(ids.tolist(), start=1)}
