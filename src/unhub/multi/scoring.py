"""Rows of an evaluation of sets: measures with intervals and spreads, gains, and areas under the curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unhub.arrays import Float64
from unhub.data.draws import Drawn
from unhub.evaluation.confidence import Interval, Resamples, group_sums, summaries
from unhub.evaluation.measures import Measure, Places
from unhub.multi.set_places import Counts
from unhub.multi.set_spread import repetitions

RECALL = "R"  # the measures whose area under the curve is given


@dataclass(frozen=True, eq=False)
class SetRow:
    """One combination under one ranking, at one size: its measures with 95% intervals over the items, and their spread.

    mean_over_repetitions: each repetition picks one set for every item. For a mean it equals the value; for MdR and GM
    it does not, since their value is over all sets at once. spread: the standard deviation about it; None if an item
    has a single draw. over_raw: the gain over the same combination without a correction, paired; over_first: the gain
    over the first combination under the same ranking.
    """

    combination: str
    ranking: str
    size: int
    values: dict[str, Interval]
    mean_over_repetitions: dict[str, float]
    spread: dict[str, float | None]
    over_raw: dict[str, Interval]
    over_first: dict[str, Interval]

    def to_dict(self) -> dict[str, object]:
        """Return the row as plain values for JSON."""
        return {
            "combination": self.combination,
            "ranking": self.ranking,
            "size": self.size,
            "values": {name: one.to_dict() for name, one in self.values.items()},
            "mean_over_repetitions": self.mean_over_repetitions,
            "spread": self.spread,
            "over_raw": {name: one.to_dict() for name, one in self.over_raw.items()},
            "over_first": {name: one.to_dict() for name, one in self.over_first.items()},
        }


@dataclass(frozen=True, eq=False)
class Area:
    """The area under a recall against 1 to `size` queries, divided by size - 1: the mean height of the curve.

    items: how many have at least `size` texts; the curve is over these items at every size.
    """

    combination: str
    ranking: str
    measure: str
    size: int
    items: int
    value: Interval
    over_raw: Interval | None
    over_first: Interval | None

    @property
    def name(self) -> str:
        """The area as the paper calls it, for example `AUC_5 of R@1`."""
        return f"AUC_{self.size} of {self.measure}"

    def to_dict(self) -> dict[str, object]:
        """Return the area as plain values for JSON."""
        return {
            "combination": self.combination,
            "ranking": self.ranking,
            "measure": self.measure,
            "size": self.size,
            "items": self.items,
            "value": self.value.to_dict(),
            "over_raw": None if self.over_raw is None else self.over_raw.to_dict(),
            "over_first": None if self.over_first is None else self.over_first.to_dict(),
        }


@dataclass(frozen=True)
class Contenders:
    """What is compared: every combination under every ranking, raw first."""

    combinations: tuple[str, ...]
    rankings: tuple[str, ...]

    def __iter__(self) -> Iterator[tuple[int, str, str, int | None, int | None]]:
        """Yield each number, combination and ranking, and the numbers of the contenders its gains are over."""
        for at, combination in enumerate(self.combinations):
            for place, ranking in enumerate(self.rankings):
                raw = at * len(self.rankings) if place else None
                yield at * len(self.rankings) + place, combination, ranking, raw, place if at else None


@dataclass(frozen=True)
class Scoring:
    """How sets are scored: the contenders, the number of items, the measures, and the bootstrap."""

    contenders: Contenders
    items: int
    measures: tuple[Measure, ...]
    resamples: int
    seed: int


def rows_of(size: int, drawn: Drawn, counts: Counts, scoring: Scoring) -> list[SetRow]:
    """Measure every contender at one size.

    A mean is the mean over the items of each item's mean over its sets; a median is the rank with half of the weight on
    each side, where an item weighs one and its sets share that equally. Intervals are by bootstrap over the items.
    """
    weights = 1 / drawn.counts[drawn.owners]
    measures = scoring.measures
    over_items = Resamples(drawn.owners, scoring.resamples, scoring.seed, weights)
    places = places_of_all(counts, scoring.items)
    every = [values_of(measure, places) for measure in measures]
    wholes = [summaries(measure, values, weights) for measure, values in zip(measures, every, strict=True)]
    again = [repetitions(measure, values, drawn, scoring.seed) for measure, values in zip(measures, every, strict=True)]
    resampled = over_items.summaries(measures, every)

    def interval(measure: int, one: int, other: int | None = None) -> Interval:
        return _interval(over_items, wholes[measure], resampled[measure], one, other)

    names = {str(measure): at for at, measure in enumerate(measures)}
    return [
        SetRow(
            combination,
            ranking,
            size,
            {name: interval(at, number) for name, at in names.items()},
            {name: again[at][number].mean for name, at in names.items()},
            {name: again[at][number].spread for name, at in names.items()},
            {name: interval(at, number, raw) for name, at in names.items() if raw is not None},
            {name: interval(at, number, first) for name, at in names.items() if first is not None},
        )
        for number, combination, ranking, raw, first in scoring.contenders
    ]


def places_of_all(counts: Counts, items: int) -> list[Places]:
    """Return where each contender puts the sets' items, combination by combination."""
    sets = counts.better.shape[-1]
    ones, starts = np.ones(sets), np.arange(sets + 1)
    both = zip(counts.better.reshape(-1, sets), counts.equal.reshape(-1, sets), strict=True)
    return [Places.of(starts, better, equal, ones, items) for better, equal in both]


def values_of(measure: Measure, places: Sequence[Places]) -> Float64:
    """Return a measure's parts for each set, (parts, contenders, sets)."""
    return np.array([[part.values(one) for one in places] for part in measure.parts])


def areas_of(drawn: Mapping[int, Drawn], counts: Mapping[int, Counts], scoring: Scoring) -> list[Area]:
    """Return the areas up to every size over 1, if size 1 was measured; between sizes the curve is a straight line."""
    recalls = [measure for measure in scoring.measures if measure.name == RECALL]
    found: list[Area] = []
    places = {size: places_of_all(one, scoring.items) for size, one in counts.items()}
    for measure in recalls if 1 in drawn else ():
        curves = {size: _item_means(measure, one, places[size]) for size, one in drawn.items()}
        for last in [size for size in drawn if size > 1]:
            sizes = [size for size in drawn if size <= last]
            heights = np.array([curves[size][:, np.isin(drawn[size].items, drawn[last].items)] for size in sizes])
            steps = np.diff(sizes)[:, None, None]
            areas = (steps * (heights[1:] + heights[:-1]) / 2).sum(axis=0) / (last - 1)
            found += _areas(areas, str(measure), last, scoring)
    return found


def _areas(areas: Float64, measure: str, size: int, scoring: Scoring) -> Iterator[Area]:
    """Yield the areas of the contenders, given the areas of each item, (contenders, items)."""
    mean = Measure("MnR")  # any measure that is a plain mean would do
    over_items = Resamples(np.arange(areas.shape[1]), scoring.resamples, scoring.seed)
    whole, (resampled,) = areas.mean(axis=1), over_items.summaries([mean], [areas[None]])
    for number, combination, ranking, raw, first in scoring.contenders:
        value, over_raw, over_first = (
            _interval(over_items, whole, resampled, number, other) for other in (None, raw, first)
        )
        yield Area(
            combination,
            ranking,
            measure,
            size,
            areas.shape[1],
            value,
            None if raw is None else over_raw,
            None if first is None else over_first,
        )


def _interval(over_items: Resamples, wholes: Float64, resampled: Float64, one: int, other: int | None) -> Interval:
    """Return the interval of a contender, or of its gain over another."""
    if other is None:
        return over_items.interval(float(wholes[one]), resampled[:, one])
    return over_items.interval(float(wholes[one] - wholes[other]), resampled[:, one] - resampled[:, other])


def _item_means(measure: Measure, drawn: Drawn, places: Sequence[Places]) -> Float64:
    """Return the mean over each item's sets, (contenders, items)."""
    return group_sums(values_of(measure, places)[0], drawn.owners) / drawn.counts
