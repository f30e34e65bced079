"""Periods: the hubness of a day, or of a log that names no times, as one line of the history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from math import isfinite, sqrt

import numpy as np

from unhub.data.query_log import QueryLog
from unhub.data.runs import Answers
from unhub.evaluation.chance import Chance, chance_of
from unhub.evaluation.confidence import Interval
from unhub.evaluation.hubness import figures_from, top_items
from unhub.watching.samples import WATCHED, Sampled, amounts_of

FEWEST_QUERIES = 50  # different ones: with fewer, a period is not judged
SHOWN_HUBS = 10


@dataclass(frozen=True)
class Range:
    """A figure of a period with its 95% interval, whose ends are None where they are not known, and by chance."""

    value: float
    low: float | None
    high: float | None
    chance: float

    @property
    def interval(self) -> Interval:
        """The figure with its interval."""
        ends = (self.value if end is None else end for end in (self.low, self.high))
        return Interval(self.value, *ends)

    @property
    def over(self) -> float:
        """How much the figure is over what chance gives."""
        return self.value - self.chance

    @property
    def ratio(self) -> float:
        """The figure as a share of what chance gives."""
        return self.value / self.chance if self.chance else 1.0


@dataclass(frozen=True)
class HubCount:
    """An item that is returned often: its id as text, and how many different queries return it."""

    id: str
    queries: int


@dataclass(frozen=True)
class Drift:
    """How far the queries of a period are from the bank, and the limits above which that is far; None: not known."""

    shift: float
    shift_limit: float
    nearness: float | None
    nearness_limit: float

    @property
    def far(self) -> bool:
        """Whether the queries are not like the bank."""
        return self.shift > self.shift_limit or (self.nearness is not None and self.nearness > self.nearness_limit)


@dataclass(frozen=True)
class Period:
    """What was returned in a day (UTC), or in a log without times; figures are of different queries, each once.

    period: the day, or when a log without times was watched. content: a hash of what was returned. logged: how many
    queries, repeats included. returned: how many different items. coverage: the share of the items that were returned.
    traffic_skewness and traffic_largest count repeats. sizes: the same figures of samples of so many queries, as
    [value, low, high]: periods are compared in samples of one size.
    """

    period: str
    dated: bool
    content: str
    watched: str
    queries: int
    logged: int
    told_by: str
    k: int
    items: int
    items_known: bool
    returned: int
    skewness: Range
    coverage: Range
    robin_hood: Range
    largest: int
    largest_chance: float
    traffic_skewness: float
    traffic_skewness_chance: float
    traffic_largest: int
    hubs: tuple[HubCount, ...]
    drift: Drift | None
    sizes: Mapping[str, Mapping[str, list[float]]]

    @property
    def judged(self) -> bool:
        """Whether there are enough queries to judge."""
        return self.queries >= FEWEST_QUERIES

    def at(self, size: int, figure: str) -> Interval:
        """Return a figure of samples of this size."""
        return Interval(*self.sizes[str(size)][figure])

    @property
    def named(self) -> str:
        """The period in words."""
        return self.period if self.dated else f"the log watched at {self.period}"


def days_of(log: QueryLog) -> Iterator[tuple[str | None, np.ndarray]]:
    """Yield the days of a log in order, UTC, each with its rows in order of time; None and all rows without times."""
    if log.times is None:
        yield None, np.arange(len(log))
        return
    days = log.times.astype("datetime64[D]")
    order = np.argsort(log.times, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(days[order]).astype(np.int64)) + 1):
        yield str(days[rows[0]]), rows


def content_of(answers: Answers) -> str:
    """Return a hash of what was returned, whatever the order of the log."""
    names = answers.item_ids.tolist()
    lines = sorted(
        f"{asked}:{[names[one] for one in answers.positions[answers.span(row, row + 1)]]}"
        for row, asked in enumerate(answers.asked.tolist())
    )
    digest = blake2b(f"{answers.k} {answers.items} {answers.complete}\n".encode(), digest_size=8)
    for line in lines:
        digest.update(f"{line}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def period_of(
    name: str | None, content: str, answers: Answers, sampled: Sampled, drift: Drift | None, now: datetime | None = None
) -> Period:
    """Return the line of a period from its answers."""
    watched = (now or datetime.now(UTC)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    chance = chance_of(len(answers.positions), len(answers), answers.items, top_items(answers.items))
    traffic = figures_from(amounts_of(answers.traffic_times, answers.items))
    expected = {"skewness": chance.skewness, "coverage": 1 - chance.anti_hubs, "robin_hood": chance.robin_hood}
    most = np.argsort(-answers.times, kind="stable")[:SHOWN_HUBS].tolist()
    return Period(
        name or watched,
        name is not None,
        content,
        watched,
        len(answers),
        answers.traffic,
        answers.told_by,
        answers.k,
        answers.items,
        answers.complete,
        len(answers.item_ids),
        **{figure: _range(one, expected[figure]) for figure, one in sampled.whole.items()},
        largest=int(answers.times.max(initial=0)),
        largest_chance=chance.largest,
        traffic_skewness=traffic.skewness,
        traffic_skewness_chance=_traffic_skewness(answers, chance),
        traffic_largest=int(answers.traffic_times.max(initial=0)),
        hubs=tuple(HubCount(str(answers.item_ids[one]), int(answers.times[one])) for one in most),
        drift=drift,
        sizes={
            str(size): {figure: [one[figure].value, one[figure].low, one[figure].high] for figure in WATCHED}
            for size, one in sampled.sizes.items()
        },
    )


def _range(one: Interval, chance: float) -> Range:
    low, high = (end if isfinite(end) else None for end in (one.low, one.high))
    return Range(one.value, low, high, chance)


def _traffic_skewness(answers: Answers, chance: Chance) -> float:
    """Return the skewness of traffic whose different queries return items at random, each as often as it was asked.

    The count of an item is then the sum of a_q B_q over the queries, B_q being 1 with probability p. Its third cumulant
    is p (1 - p) (1 - 2p) sum a^3, its variance p (1 - p) sum a^2; with a = 1 everywhere, `chance` has the same.
    """
    asked = answers.asked.astype(np.float64)
    return float(chance.skewness * np.sum(asked**3) / np.sum(asked**2) ** 1.5 * sqrt(len(asked)))
