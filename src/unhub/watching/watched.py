"""What was watched: the periods, what changed, and which limits the last period is beyond."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass

from unhub.evaluation.tables import Tabled, counted
from unhub.html_tables import Table
from unhub.watching.periods import FEWEST_QUERIES, Period, Range
from unhub.watching.trends import Change, changes, not_compared

SHOWN_PERIODS = 14  # in the table, the last ones, unless told otherwise


@dataclass(frozen=True)
class AlarmLimits:
    """The limits beyond which there is an alarm: skewness over chance, and items found as a share of chance's."""

    max_skewness: float | None = None
    min_coverage: float | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self.max_skewness is not None or self.min_coverage is not None

    def alarms(self, period: Period) -> tuple[str, ...]:
        """Say what of a period is beyond the limits."""
        found = []
        skewness, coverage = period.skewness, period.coverage
        if self.max_skewness is not None and skewness.over > self.max_skewness:
            found.append(
                f"skewness is {skewness.over:.2f} over chance ({skewness.value:.2f} against {skewness.chance:.2f}), "
                f"the limit is {self.max_skewness:g}"
                f"{_doubt(skewness, skewness.chance + self.max_skewness)}."
            )
        if self.min_coverage is not None and coverage.ratio < self.min_coverage:
            found.append(
                f"{coverage.ratio:.1%} of the items that chance would find were found ({coverage.value:.1%} against "
                f"{coverage.chance:.1%} of all), the limit is {self.min_coverage:.1%}"
                f"{_doubt(coverage, coverage.chance * self.min_coverage)}."
            )
        return tuple(found)


def _doubt(one: Range, limit: float) -> str:
    """Say so if the interval of a figure holds the limit too."""
    return "; with other queries it may be within" if one.interval.low <= limit <= one.interval.high else ""


@dataclass(frozen=True, eq=False)
class Watch(Tabled):
    """What `watch` found: the periods of the history in order of time, and those that this call added.

    notes: what was left out, in sentences.
    """

    periods: tuple[Period, ...]
    new: tuple[Period, ...]
    limits: AlarmLimits
    notes: tuple[str, ...] = ()

    @property
    def current(self) -> Period:
        """The last period with enough queries to judge; without one, the last period."""
        return next((one for one in reversed(self.periods) if one.judged), self.periods[-1])

    @functools.cached_property
    def changes(self) -> tuple[Change, ...]:
        """How the current period differs from those before it."""
        return changes(self.periods)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What of the current period is beyond the limits, in sentences; none if it has too few queries to judge."""
        return self.limits.alarms(self.current) if self.current.judged else ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the current period shows, in sentences."""
        return (*hubness_told(self.current), *drift_told(self.current), *map(str, self.changes), *self.left_out)

    @property
    def left_out(self) -> tuple[str, ...]:
        """What could not be judged or compared, in sentences."""
        told = []
        if not self.current.judged:
            told.append(f"No period has {FEWEST_QUERIES} different queries, too few to judge: there can be no alarm.")
        elif self.current is not self.periods[-1]:
            few = counted(self.periods[-1].queries, "different query", "different queries")
            told.append(f"{self.periods[-1].named} has {few}, too few to judge: {self.current.named} is judged.")
        return (*told, *not_compared(self.periods))

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values for JSON."""
        return {
            "current": self.current.period,
            "judged": self.current.judged,
            "alarms": list(self.alarms),
            "limits": asdict(self.limits),
            "periods": [asdict(one) for one in self.periods],
            "added": [one.period for one in self.new],
            "changes": [{**asdict(one), "word": one.word} for one in self.changes],
            "sentences": list(self.sentences),
            "notes": list(self.notes),
        }

    def cells(self, days: int = SHOWN_PERIODS) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text: the last days, or all of them for 0."""
        heads = ["period", "queries", "different", "skewness", "by chance", "found", "by chance", "Robin Hood", "most"]
        return heads, [_row(one) for one in self.periods[-days:]]

    def hidden(self, days: int = SHOWN_PERIODS, all_of_them: str = "cells(0) holds all") -> tuple[str, ...]:
        """Say so if there are days that the table of the last ones leaves out; all_of_them: where they are."""
        if not 0 < days < len(self.periods):
            return ()
        last = "The last day of" if days == 1 else f"The last {days:,} days of"
        return (f"{last} {len(self.periods):,} {'is' if days == 1 else 'are'} shown; {all_of_them}.",)

    def shown(self) -> list[str | Table]:
        return [self.cells(), *self.hidden(), *self.sentences, *(f"ALARM: {one}" for one in self.alarms), *self.notes]


def _row(one: Period) -> list[str]:
    return [
        one.period,
        f"{one.logged:,}",
        f"{one.queries:,}",
        _ranged(one.skewness, ".2f"),
        f"{one.skewness.chance:.2f}",
        _ranged(one.coverage, ".1%"),
        f"{one.coverage.chance:.1%}",
        f"{one.robin_hood.value:.1%}",
        f"{one.largest:,}",
    ]


def _ranged(one: Range, form: str) -> str:
    return f"{one.value:{form}}" if one.low is None else f"{one.interval:{form}}"


def hubness_told(one: Period) -> tuple[str, ...]:
    """Say what a period shows: its queries, its skewness, the items it found, its hubs."""
    skewness, coverage = one.skewness, one.coverage
    told = [
        f"{one.named}: {one.queries:,} different queries by their {one.told_by}, {one.logged:,} with repeats; the "
        f"first {one.k} of each count.",
        f"Skewness {skewness.value:.2f}; chance alone gives {skewness.chance:.2f}. With repeats it is "
        f"{one.traffic_skewness:.2f}, and chance gives {one.traffic_skewness_chance:.2f}.",
    ]
    if one.items_known:
        told.append(
            f"Of {one.items:,} items, {1 - coverage.value:.1%} were never returned. Chance alone leaves out "
            f"{1 - coverage.chance:.1%}: of what it would find, {coverage.ratio:.1%} was found."
        )
    hubs = ", ".join(f"{hub.id} ({hub.queries:,})" for hub in one.hubs[:3])
    told.append(f"Returned for most queries: {hubs}; by chance the most is {one.largest_chance:,.1f}.")
    return tuple(told)


def drift_told(one: Period) -> tuple[str, ...]:
    """Say whether the queries of a period are like the bank, if that is known."""
    if one.drift is None:
        return ()
    drift = one.drift
    near = "" if drift.nearness is None else f", nearness {drift.nearness:.2f} (limit {drift.nearness_limit:.2f})"
    figures = f"shift {drift.shift:.1%} (limit {drift.shift_limit:.1%}){near}"
    if drift.far:
        return (f"The queries are no longer like the bank: {figures}. Collect new queries and fit again.",)
    return (f"The queries are still like the bank: {figures}.",)
