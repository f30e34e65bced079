"""Hubness: how unevenly the items are returned, and whom a ranking favours."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Ids, Kind
from unhub.compute.workers import Progress, Workers
from unhub.correction import Correction
from unhub.data.ids import positions_of
from unhub.data.relevance import RelevanceLike, Truth
from unhub.data.similarity import Dense
from unhub.data.vectors import VectorsLike
from unhub.evaluation.chance import Chance, chance_of
from unhub.evaluation.excluding import NOBODY, ExcludeLike
from unhub.evaluation.inputs import Setting
from unhub.evaluation.measures import Measure
from unhub.evaluation.placing import Placed, occurrences

TOP_SHARE = 0.01  # of the items, whose share of all places is told


@dataclass(frozen=True)
class Figures:
    """What the counts of a ranking come to, over all items, those never returned included.

    skewness: third standardised moment, 0 where all counts are equal. kurtosis: fourth, less 3. mean_deviation: mean
    absolute deviation from the mean. largest: how often the worst hub is returned. anti_hubs: share of items that are
    never returned. top_share: share of all places taken by the 1% most returned, one item at least. robin_hood:
    share of places that would have to move for all items to be returned equally often.
    """

    skewness: float
    kurtosis: float
    mean_deviation: float
    largest: int
    anti_hubs: float
    top_share: float
    robin_hood: float


@dataclass(frozen=True, eq=False)
class Hubness:
    """How often each item is among the k best of a query: the figures, and the counts, (items,).

    notes: what a reader must know, such as what was left out.
    """

    k: int
    queries: int
    item_ids: Ids
    counts: NDArray[np.int64]
    figures: Figures
    notes: tuple[str, ...] = ()

    @property
    def skewness(self) -> float:
        return self.figures.skewness

    @functools.cached_property
    def chance(self) -> Chance:
        """What the figures would be if the same places were given to items at random."""
        return chance_of(int(self.counts.sum()), self.queries, len(self.counts), top_items(len(self.counts)))

    def hubs(self, count: int) -> NDArray[np.int64]:
        """Return the positions of the items returned most often, without those that never are."""
        order = np.argsort(-self.counts, kind="stable")[:count]
        return order[self.counts[order] > 0]

    def worst(self, count: int = 10) -> list[tuple[int | str, int]]:
        """Return the items returned most often, as (id, how often)."""
        order = np.argsort(-self.counts, kind="stable")[:count]
        return [(self.item_ids[place].item(), int(self.counts[place])) for place in order]

    def to_dict(self) -> dict[str, object]:
        """Return the figures by name, and under `chance` what chance gives for each."""
        sizes = {"k": self.k, "queries": self.queries, "items": len(self.counts)}
        return {**sizes, **asdict(self.figures), "chance": asdict(self.chance)}

    def __str__(self) -> str:
        figures, chance = self.figures, self.chance
        return (
            f"{self.queries:,} queries, k = {self.k}, {len(self.counts):,} items: skewness {figures.skewness:.2f}, "
            f"the worst hub returned {figures.largest:,} times, {figures.anti_hubs:.1%} of the items never, "
            f"{figures.top_share:.1%} of the places go to {top_of(len(self.counts))}; chance alone gives "
            f"{chance.skewness:.2f}, {chance.largest:,.1f} times, {chance.anti_hubs:.1%} and {chance.top_share:.1%}"
        )


def top_items(items: int) -> int:
    """Return how many items are 1% of them, one at least."""
    return max(1, round(TOP_SHARE * items))


def top_of(items: int) -> str:
    """Return which items `top_share` is of, in words: 1% of a small gallery is one or two of them."""
    top = top_items(items)
    return "the item returned most" if top == 1 else f"the {top:,} items returned most"


def figures_of(counts: NDArray[np.int64]) -> Figures:
    """Return what counts come to."""
    mean = float(counts.mean())
    apart = counts - mean
    spread = float(np.sqrt(np.square(apart).mean()))
    standard = apart / spread if spread > 0 else np.zeros(len(counts))
    total = int(counts.sum())
    top = top_items(len(counts))
    return Figures(
        skewness=float((standard**3).mean()),
        kurtosis=float((standard**4).mean() - 3) if spread > 0 else 0.0,
        mean_deviation=float(np.abs(apart).mean()),
        largest=int(counts.max()),
        anti_hubs=float((counts == 0).mean()),
        top_share=float(np.sort(counts)[-top:].sum() / total) if total else 0.0,
        robin_hood=float(np.abs(apart).sum() / (2 * total)) if total else 0.0,
    )


def hubness(
    queries: VectorsLike | Dense,
    items: VectorsLike | None = None,
    correction: Correction | None = None,
    k: int = 10,
    *,
    exclude: ExcludeLike | None = None,
    strength: float = 1.0,
    similarity: Kind | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Hubness:
    """Return how often each item is among the k best of a query, raw or with a correction.

    exclude: items that are not ranked for single queries, as `evaluate` takes it.
    """
    corrections = () if correction is None else (correction,)
    setting = Setting.of(queries, items, corrections, similarity, threads, exclude=exclude)
    workers = Workers(threads, progress=progress)
    (placed,) = setting.place(
        no_truth(len(setting.query_ids)), [setting.rankings(strength)[-1]], workers, best=setting.places(k)
    )
    workers.finish()
    return hubness_of(placed, setting.item_ids, setting.notes)


def hubness_of(placed: Placed, item_ids: Ids, notes: tuple[str, ...] = ()) -> Hubness:
    """Return the hubness of a ranking that was placed with the best items of each query."""
    queries, k = placed.best.shape
    counts = occurrences(placed.best, len(item_ids))
    return Hubness(k, queries, item_ids, counts, figures_of(counts), notes)


def no_truth(queries: int) -> Truth:
    """Return the answers to queries of which none are known."""
    return Truth(np.zeros(queries + 1, np.int64), np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class GroupBias:
    """How much a ranking favours group A over group B among the n best: (#A - #B) / n, averaged over the queries.

    share_a, share_b: their mean shares of the n best. precision: the mean share of answers among the n best of the
    queries that have any, where answers are given. All but n are fractions.
    """

    n: int
    bias: float
    share_a: float
    share_b: float
    precision: float | None


def group_bias(
    queries: VectorsLike | Dense,
    items: VectorsLike | None,
    group_a: ArrayLike,
    group_b: ArrayLike,
    correction: Correction | None = None,
    n: int = 10,
    *,
    relevance: RelevanceLike | None = None,
    exclude: ExcludeLike | None = None,
    strength: float = 1.0,
    similarity: Kind | None = None,
    threads: int | None = None,
) -> GroupBias:
    """Return how much the n best items of the queries favour one group of items, by id, over another.

    exclude: items that are not ranked for single queries, as `evaluate` takes it.
    """
    corrections = () if correction is None else (correction,)
    setting = Setting.of(queries, items, corrections, similarity, threads, exclude=exclude)
    inside = [np.zeros(len(setting.item_ids)), np.zeros(len(setting.item_ids))]
    for name, ids, flags in zip(("group_a", "group_b"), (group_a, group_b), inside, strict=True):
        flags[positions_of(ids, setting.item_ids, name)] = 1
    if np.any(inside[0] * inside[1]):
        both = setting.item_ids[int(np.flatnonzero(inside[0] * inside[1])[0])].item()
        raise ValueError(f"group_a and group_b share items, for example {both!r}; an item is of one group")
    truth = None if relevance is None else setting.truth(relevance)
    (placed,) = setting.place(
        truth or no_truth(len(setting.query_ids)), [setting.rankings(strength)[-1]], Workers(threads),
        best=setting.places(n, "n"),
    )  # fmt: skip
    places = placed.best.shape[1]
    there = placed.best != NOBODY
    share_a, share_b = (float((flags[placed.best] * there).mean()) for flags in inside)
    found = None if truth is None else Measure("P", places).values(placed.answers(truth, len(setting.item_ids)))
    return GroupBias(places, share_a - share_b, share_a, share_b, None if found is None else float(found.mean()) / 100)
