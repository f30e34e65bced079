"""Evaluate: every ranking side by side, with intervals, gains over the raw ranking, and each query's rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float64, Ids, Kind
from unhub.compute.machines import on_machines
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Resources
from unhub.data.relevance import RelevanceLike, Truth
from unhub.data.runs import Run
from unhub.data.similarity import Dense
from unhub.data.vectors import VectorsLike
from unhub.errors import check_seed, check_whole
from unhub.evaluation.confidence import FEW_GROUPS, Interval, Resamples, paired_p_values, summaries
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.hubness import Hubness, hubness_of
from unhub.evaluation.inputs import Corrections, EvaluationInputs
from unhub.evaluation.measures import Measure, Places, parse_measures
from unhub.evaluation.ranked import Ranked
from unhub.evaluation.returned import check_names, hubness_in, note_on, places_in
from unhub.evaluation.tables import Tabled, counted
from unhub.html_tables import Table
from unhub.kernels import name_of

DEFAULT_MEASURES = ("R@1", "R@5", "R@10", "MdR", "MnR")


@dataclass(frozen=True, eq=False)
class Row:
    """One ranking: its measures with intervals, its gains over raw with paired intervals, and its hubness.

    p_values: of a paired test of the gain against chance, for the measures that are means over the queries.
    """

    name: str
    values: dict[str, Interval]
    gains: dict[str, Interval]
    p_values: dict[str, float]
    hubness: Hubness | None


@dataclass(frozen=True, eq=False)
class Evaluation(Tabled):
    """A row for each ranking, raw first; and the rank of each answered query's best answer, (rankings, queries).

    query_ids: those answered. unanswered: how many queries have no answer among the items; they only count for hubness.
    absent: how many answers are not among the items. groups: how many groups of queries are drawn together. remarks:
    notes on what was left out, on corrections and on runs. unknown_items: how many different items are absent.
    unknown_queries: how many queries of the relevance are not given.
    """

    rows: tuple[Row, ...]
    measures: tuple[Measure, ...]
    query_ids: Ids
    ranks: Float64
    items: int
    unanswered: int
    absent: int
    groups: int
    remarks: tuple[str, ...] = ()
    unknown_items: int = 0
    unknown_queries: int = 0

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no ranking is named {name!r}; the names are {', '.join(row.name for row in self.rows)}")

    @property
    def best(self) -> Row:
        """The best ranking by the first measure; the first of equal ones."""
        first = self.measures[0]
        sign = -1 if first.family.falls else 1
        return max(self.rows, key=lambda row: sign * row.values[str(first)].value)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader: what was left out, and what a run did not return."""
        counts = (self.unanswered, self.absent, self.groups, self.unknown_items, self.unknown_queries)
        return (*notes_on(*counts), *self.remarks)

    def to_dict(self) -> dict[str, object]:
        """Return everything except the ranks, as plain values for JSON."""
        return {
            "queries": len(self.query_ids),
            "unanswered": self.unanswered,
            "items": self.items,
            "absent_answers": self.absent,
            "unknown_items": self.unknown_items,
            "unknown_queries": self.unknown_queries,
            "groups": self.groups,
            "measures": [str(measure) for measure in self.measures],
            "best": self.best.name,
            "notes": list(self.notes),
            "rankings": [row_to_dict(row) for row in self.rows],
        }

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text: the values with intervals, the gain by the first measure, skewness."""
        first = str(self.measures[0])
        with_hubness = self.rows[0].hubness is not None
        skewness = [f"skewness@{self.rows[0].hubness.k}"] if self.rows[0].hubness is not None else []
        heads = ["ranking", *(str(measure) for measure in self.measures), self.measures[0].gain, "p", *skewness]
        lines = []
        for row in self.rows:
            gain = row.gains.get(first)
            lines.append(
                [
                    f"{row.name} *" if row is self.best and len(self.rows) > 1 else row.name,
                    *(str(row.values[str(measure)]) for measure in self.measures),
                    f"{gain:+.2f}" if gain else "",
                    f"{row.p_values[first]:.4f}" if first in row.p_values else "",
                    *([f"{row.hubness.skewness:.2f}"] if row.hubness is not None and with_hubness else []),
                ]
            )
        return heads, lines

    def shown(self) -> list[str | Table]:
        return [self.cells(), *self.notes]


@shows_progress
@on_machines
def evaluate(
    queries: VectorsLike | Dense,
    items: VectorsLike | None,
    relevance: RelevanceLike,
    corrections: Corrections = (),
    measures: Sequence[str | Measure] | str = DEFAULT_MEASURES,
    *,
    runs: Mapping[str, Run] | None = None,
    exclude: ExcludeLike | None = None,
    strength: float = 1.0,
    similarity: Kind | None = None,
    hubness_k: int | None = 10,
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    device: str | None = None,
    on: str | None = None,
    progress: ProgressLike = None,
) -> Evaluation:
    """Rank the items for each query, raw and with each correction, in one pass, and measure where the answers are.

    queries: (queries, d) or Vectors, or a Dense matrix of (queries, items) similarities, with items None.
    relevance: which items answer which query, by id. Intervals are 95% bootstrap intervals; queries whose first
    answer is the same item, such as the captions of one picture, are drawn together. runs: what other systems returned,
    by name. exclude: items that are neither ranked for a query nor answers to it: "self", the item with the query's own
    id, or an entry per query, as in `Searcher.search`: an id, several, or None. It changes no score and no gate.
    hubness_k: the number of best items in which hubness is counted; None leaves hubness out. device, on:
    where to rank, as in `fit`.
    """
    progress = called(progress)
    resources = Resources(threads, progress=progress, device=name_of(device))
    chosen = parse_measures(measures)
    check_whole(resamples, "resamples", 1)
    check_seed(seed)
    inputs = EvaluationInputs.of(queries, items, corrections, similarity, threads, exclude=exclude)
    truth = inputs.truth(relevance)
    returned = {
        name: run.against(inputs.query_ids, inputs.item_ids, name)
        for name, run in check_names(runs or {}, inputs.corrections).items()
    }
    if inputs.left_out is not None:
        returned = {name: run.without(inputs.left_out.codes, name) for name, run in returned.items()}
    best = 0 if hubness_k is None else inputs.places(hubness_k, "hubness_k")
    ranked = Ranked.of(inputs, resources, truth, best=best, strength=strength)
    places: list[Places] = [*ranked.places]
    hubnesses = [hubness_of(one, inputs.item_ids) if best else None for one in ranked.placed]
    remarks = [*inputs.notes, *inputs.leaks, excluded_note(truth.excluded) if truth.excluded else None]
    for name, run in returned.items():
        places.append(places_in(run, truth))
        hubnesses.append(hubness_in(run, best) if best else None)
        remarks.append(note_on(run, name, truth, places[-1]))
    rows = compare([*ranked.names, *returned], places, chosen, truth, hubnesses, int(resamples), seed)
    return Evaluation(
        rows,
        chosen,
        inputs.query_ids[truth.answered],
        np.stack([one.best_ranks for one in places]),
        ranked.items,
        len(truth.counts) - len(truth.answered),
        truth.absent,
        int(truth.groups.max()) + 1,
        tuple(filter(None, remarks)),
        truth.unknown_items,
        truth.unknown_queries,
    )


def compare(
    names: Sequence[str],
    places: Sequence[Places],
    measures: Sequence[Measure],
    truth: Truth,
    hubnesses: Sequence[Hubness | None],
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[Row, ...]:
    """Measure several rankings of the same queries, and the gain of each over the first."""
    groups = truth.groups[truth.answered]
    drawn = Resamples(groups, resamples, seed)
    every = [np.array([[part.values(one) for one in places] for part in measure.parts]) for measure in measures]
    values: list[dict[str, Interval]] = [{} for _ in places]
    gains: list[dict[str, Interval]] = [{} for _ in places]
    differences: list[tuple[int, str, Float64]] = []
    for measure, of_queries, resampled in zip(measures, every, drawn.summaries(measures, every), strict=True):
        whole = summaries(measure, of_queries)
        for number in range(len(places)):
            values[number][str(measure)] = drawn.interval(float(whole[number]), resampled[:, number])
            if number:
                apart = resampled[:, number] - resampled[:, 0]
                gains[number][str(measure)] = drawn.interval(float(whole[number] - whole[0]), apart)
            if number and measure.family.summary == "mean" and len(measure.parts) == 1:
                differences.append((number, str(measure), of_queries[0, number] - of_queries[0, 0]))
    p_values: list[dict[str, float]] = [{} for _ in places]
    if differences:
        found = paired_p_values(np.stack([apart for *_, apart in differences]), groups, seed)
        for (number, name, _), p_value in zip(differences, found, strict=True):
            p_values[number][name] = float(p_value)
    return tuple(map(Row, names, values, gains, p_values, hubnesses))


def row_to_dict(row: Row) -> dict[str, object]:
    """Return a row as plain values for JSON."""
    return {
        "name": row.name,
        "values": {name: one.to_dict() for name, one in row.values.items()},
        "gains": {name: one.to_dict() for name, one in row.gains.items()},
        "p_values": row.p_values,
        "hubness": None if row.hubness is None else row.hubness.to_dict(),
    }


def excluded_note(answers: int) -> str:
    """Say how many answers were excluded on request."""
    return f"{counted(answers, 'answer is', 'answers are')} left out with the excluded items."


def notes_on(
    unanswered: int, absent: int, groups: int, unknown_items: int = 0, unknown_queries: int = 0
) -> tuple[str, ...]:
    """Say what an evaluation left out, and where its intervals are rough."""
    notes = []
    if unanswered:
        count = "counts" if unanswered == 1 else "count"
        queries = counted(unanswered, "query has", "queries have")
        notes.append(f"{queries} no answer among the items and {count} only for hubness.")
    if absent:
        named = f"; they name {counted(unknown_items, 'unknown item', 'unknown items')}"
        answers = counted(absent, "answer is", "answers are")
        notes.append(f"{answers} not among the items{named if absent > 1 else ''}.")
    if unknown_queries:
        more = counted(unknown_queries, "query that is", "queries that are")
        notes.append(f"Relevance also names {more} not given.")
    if groups == 1:
        notes.append("All queries have the same first answer and are drawn together, so there are no intervals.")
    elif groups < FEW_GROUPS:
        notes.append(
            f"The queries have only {groups} different first answers; intervals and p are rough under {FEW_GROUPS}."
        )
    return tuple(notes)
