"""Hubness: how unevenly the items are returned, and the hubs, the items that are returned most often."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids, Kind
from unhub.compute.machines import on_machines
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Resources
from unhub.correction import Correction
from unhub.data.ids import as_ids
from unhub.data.query_log import QueryLog
from unhub.data.runs import Answers, Run
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors, VectorsLike
from unhub.errors import ArgumentError, check_whole
from unhub.evaluation.chance import Chance, chance_of
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.inputs import EvaluationInputs
from unhub.evaluation.placing import Placed, occurrences
from unhub.evaluation.ranked import Ranked
from unhub.evaluation.tables import Tabled
from unhub.html_tables import Table, as_html
from unhub.kernels import name_of

TOP_SHARE = 0.01  # share of the items whose places `top_share` counts


@dataclass(frozen=True)
class Figures:
    """The figures of how often a ranking returns each item, over all items, including those never returned.

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

    item_ids: (items,); of a log whose items are known by their number alone, of those that were returned, which are
    first. notes: for the reader, such as what was left out.
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
        order = order[order < len(self.item_ids)]  # of a log, the ids of items that it never names may not be known
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

    def _repr_html_(self) -> str:
        return as_html([str(self), (("item", "returned"), [[str(one), f"{count:,}"] for one, count in self.worst()])])


def top_items(items: int) -> int:
    """Return 1% of the number of items, at least 1."""
    return max(1, round(TOP_SHARE * items))


def top_of(items: int) -> str:
    """Return in words which items `top_share` is about; 1% of a small gallery is one or two items."""
    top = top_items(items)
    return "the item returned most" if top == 1 else f"the {top:,} items returned most"


def figures_of(counts: NDArray[np.int64]) -> Figures:
    """Return the figures of these counts, (items,)."""
    return figures_from(np.bincount(counts))


def figures_from(amounts: NDArray[np.int64]) -> Figures:
    """Return the figures of counts, by how many items have each count from 0 on: of many items, few counts differ."""
    values = np.flatnonzero(amounts)
    amounts = amounts[values]
    items = int(amounts.sum())
    shares, total = amounts / items, int(values @ amounts)
    apart = values - float(values @ shares)
    spread = float(np.sqrt(np.square(apart) @ shares))
    standard = apart / spread if spread > 0 else np.zeros(len(values))
    deviation = float(np.abs(apart) @ shares)
    in_top = np.diff(np.minimum(np.cumsum(amounts[::-1]), top_items(items)), prepend=0)  # by falling count
    return Figures(
        skewness=float(standard**3 @ shares),
        kurtosis=float(standard**4 @ shares - 3) if spread > 0 else 0.0,
        mean_deviation=deviation,
        largest=int(values[-1]),
        anti_hubs=float(shares[0]) if values[0] == 0 else 0.0,
        top_share=float(values[::-1] @ in_top / total) if total else 0.0,
        robin_hood=items * deviation / (2 * total) if total else 0.0,
    )


def hubness_of(placed: Placed, item_ids: Ids, notes: tuple[str, ...] = ()) -> Hubness:
    """Return the hubness of a ranking from the best items of each query."""
    queries, k = placed.best.shape
    counts = occurrences(placed.best, len(item_ids))
    return Hubness(k, queries, item_ids, counts, figures_of(counts), notes)


def hubness_returned(answers: Answers) -> Hubness:
    """Return the hubness of what a log says was returned, each different query once."""
    known = (NUMBER_UNKNOWN.format(items=answers.items),) if not answers.complete else ()
    repeats = _repeats_note(answers)
    counts = np.zeros(answers.items, np.int64)
    counts[: len(answers.item_ids)] = answers.times
    notes = (*repeats, *known, *answers.notes)
    return Hubness(answers.k, len(answers), answers.item_ids, counts, figures_of(counts), notes)


NUMBER_UNKNOWN = (
    "How many items there are is not known: the figures are over the {items:,} that were returned, so that no item "
    "counts as never returned."
)


def _repeats_note(answers: Answers) -> tuple[str, ...]:
    if answers.traffic == len(answers):
        return ()
    told = f"{answers.traffic:,} queries were logged, {len(answers):,} of them different by their {answers.told_by}"
    return (f"{told}; each of those counts once.",)


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
class Hubs(Tabled):
    """The worst hubs of the raw ranking, worst first, and the hubness before and after a correction."""

    hubs: tuple[Hub, ...]
    before: Hubness
    after: Hubness | None
    query_ids: Ids

    def shown(self) -> list[str | Table]:
        corrected = self.after is not None
        rows = [[str(one.id), f"{one.before:,}", *([f"{one.after:,}"] if corrected else [])] for one in self.hubs]
        heads = ["item", "returned", *(["corrected"] if corrected else [])]
        return [f"raw: {self.before}", *([f"corrected: {self.after}"] if corrected else []), "", (heads, rows)]

    @staticmethod
    def of(ranked: Ranked, count: int, examples: int) -> Hubs:
        """Return the worst hubs of the raw ranking, and their counts in the last ranking."""
        inputs, raw, last = ranked.inputs, ranked.placed[0].best, ranked.placed[-1].best
        before, *corrected = (hubness_of(one, inputs.item_ids, inputs.notes) for one in ranked.placed)
        after = corrected[-1] if corrected else None
        hubs = []
        for item in before.hubs(count).tolist():
            fallen = _fallen(raw, item, examples)
            hubs.append(
                Hub(
                    item,
                    inputs.item_ids[item].item(),
                    int(before.counts[item]),
                    None if after is None else int(after.counts[item]),
                    tuple(fallen.tolist()),
                    tuple((last[fallen] == item).any(axis=1).tolist()),
                )
            )
        return Hubs(tuple(hubs), before, after, inputs.query_ids)

    @staticmethod
    def returned(answers: Answers, query_ids: Ids, count: int, examples: int) -> Hubs:
        """Return the items that a log returns most often, with queries of the log by its `query_ids`."""
        before, best = hubness_returned(answers), answers.best
        hubs = []
        for item in before.hubs(count).tolist():
            fallen = _fallen(best, item, examples)
            name, rows = answers.item_ids[item].item(), tuple(fallen.tolist())
            hubs.append(Hub(item, name, int(before.counts[item]), None, rows, (True,) * len(rows)))
        return Hubs(tuple(hubs), before, None, query_ids[answers.rows])

    def to_dict(self) -> dict[str, object]:
        """Return everything except the counts of all items, as plain values for JSON; queries by id."""
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


@shows_progress
@on_machines
def hubness(
    queries: VectorsLike | Dense | QueryLog | Run,
    items: VectorsLike | Ids | int | None = None,
    correction: Correction | None = None,
    k: int = 10,
    *,
    exclude: ExcludeLike | None = None,
    strength: float = 1.0,
    similarity: Kind | None = None,
    threads: int | None = None,
    device: str | None = None,
    on: str | None = None,
    progress: ProgressLike = None,
) -> Hubness:
    """Return how often each item is among the k best of a query, raw or with a correction.

    queries: vectors, a matrix, or a log or run of what was returned. Of a log, `items` may also be the ids of all items
    or how many there are, and the correction names them if `items` is left out. exclude: items to leave
    out of the ranking of each query, as in `evaluate`. device, on: where to rank, as in `fit`.
    """
    progress = called(progress)
    if isinstance(queries, QueryLog | Run):
        return hubness_returned(_answers(as_log(queries), items, correction, k, exclude))
    inputs = EvaluationInputs.with_one(queries, _as_rows(items), correction, similarity, threads, exclude)
    resources = Resources(threads, progress=progress, device=name_of(device))
    ranked = Ranked.of(inputs, resources, best=inputs.places(k), strength=strength, last_alone=True)
    return hubness_of(ranked.placed[0], inputs.item_ids, inputs.notes)


@shows_progress
@on_machines
def worst_hubs(
    queries: VectorsLike | Dense | QueryLog | Run,
    items: VectorsLike | Ids | int | None = None,
    correction: Correction | None = None,
    k: int = 10,
    count: int = 10,
    *,
    examples: int = 3,
    exclude: ExcludeLike | None = None,
    strength: float = 1.0,
    similarity: Kind | None = None,
    threads: int | None = None,
    device: str | None = None,
    on: str | None = None,
    progress: ProgressLike = None,
) -> Hubs:
    """Return the items that most queries have among their k best, and how often a correction returns them.

    queries, items: as in `hubness`; of a log, nothing is compared. examples: how many queries to name for each hub,
    spread evenly from those that rank it first to those that rank it last. exclude: items to leave out of the ranking
    of each query, as in `evaluate`. device, on: where to rank, as in `fit`.
    """
    progress = called(progress)
    for name, number, least in (("count", count, 1), ("examples", examples, 0)):
        check_whole(number, name, least)
    if isinstance(queries, QueryLog | Run):
        log = as_log(queries)
        ids = np.arange(len(log)) if log.query_ids is None else log.query_ids
        return Hubs.returned(_answers(log, items, correction, k, exclude), ids, count, examples)
    inputs = EvaluationInputs.with_one(queries, _as_rows(items), correction, similarity, threads, exclude)
    resources = Resources(threads, progress=progress, device=name_of(device))
    ranked = Ranked.of(inputs, resources, best=inputs.places(k), strength=strength)
    return Hubs.of(ranked, count, examples)


def as_log(given: QueryLog | Run) -> QueryLog:
    """Return what was returned as a log."""
    return given if isinstance(given, QueryLog) else given.as_log


def gallery_of(
    items: VectorsLike | Ids | int | None, correction: Correction | None, name: str = "items"
) -> Ids | int | None:
    """Return the ids of all items, or their number, as a user gave them; None if nothing says."""
    if items is None:
        return None if correction is None else correction.ids
    if isinstance(items, int | np.integer):
        return check_whole(int(items), name, 1)
    if isinstance(items, Vectors):
        return items.ids
    array = np.asarray(items)
    return as_ids(array, len(array), name) if array.ndim == 1 else np.arange(len(array))


def _answers(
    log: QueryLog,
    items: VectorsLike | Ids | int | None,
    correction: Correction | None,
    k: int,
    exclude: ExcludeLike | None,
) -> Answers:
    if exclude is not None:
        raise ArgumentError("exclude", "has no effect on a log", "leave it out: what was returned is counted")
    return Answers.of(log, gallery_of(items, correction), check_whole(k, "k", 1))


def _as_rows(items: VectorsLike | Ids | int | None) -> VectorsLike | None:
    if isinstance(items, int | np.integer):
        raise ArgumentError("items", f"is {items}, and the queries are vectors", "give the vectors of the items")
    return items  # what is no matrix is refused where vectors are checked


def _fallen(best: NDArray[np.int32], item: int, count: int) -> NDArray[np.int64]:
    """Return some queries that have the item among their best, spread evenly from the first place to the last."""
    queries, places = np.nonzero(best == item)
    chosen = np.unique(np.linspace(0, len(queries) - 1, min(count, len(queries))).astype(np.int64))
    return queries[np.argsort(places, kind="stable")[chosen]]
