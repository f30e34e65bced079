"""Trends: is a figure of the last period different from before, by more than noise?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from unhub.evaluation.confidence import Interval
from unhub.watching.periods import Period
from unhub.watching.samples import SIZES, WATCHED

WEEK = 7  # periods whose mean the last one is compared with

NAMES = {"skewness": "skewness", "coverage": "share of the items found", "robin_hood": "Robin Hood index"}


@dataclass(frozen=True)
class Change:
    """A figure of the last period less that of earlier ones, all in samples of `size` queries, with a 95% interval.

    since: which earlier periods, in words.
    """

    figure: str
    since: str
    size: int
    before: Interval
    now: Interval
    difference: Interval

    @property
    def word(self) -> str:
        """`better`, `worse`, or `unsure` where the change may be noise."""
        if not self.difference.excludes_zero:
            return "unsure"
        return "worse" if self.difference.value * WATCHED[self.figure] > 0 else "better"

    def __str__(self) -> str:
        form = ".2f" if self.figure == "skewness" else ".1%"
        moved = f"{self.before.value:{form}} to {self.now.value:{form}} ({self.difference:+{form}})"
        sure = f"{self.word}, by more than noise" if self.word != "unsure" else "the change may be noise"
        return f"{NAMES[self.figure]} against {self.since}: {moved}, in samples of {self.size:,} queries: {sure}."


def changes(periods: Sequence[Period]) -> tuple[Change, ...]:
    """Compare the last period that is judged with the one before it and with the mean of up to seven before it.

    Periods whose number of items is not known are over other items each, and are not compared.
    """
    judged = [one for one in periods if one.judged and one.items_known]
    if not judged or not next(one for one in reversed(periods) if one.judged).items_known:
        return ()
    last = judged[-1]
    alike = [one for one in judged[:-1] if one.k == last.k and one.sizes]
    found: list[Change] = []
    for earlier, since in ((alike[-1:], "the one before"), (alike[-WEEK:], "the mean of the {count} before")):
        if not earlier or (found and len(earlier) == 1):
            continue
        common = set(last.sizes).intersection(*(one.sizes for one in earlier))
        if not common:
            continue
        size = max(map(int, common))
        named = since.format(count=len(earlier)) if len(earlier) > 1 else earlier[0].named
        for figure in WATCHED:
            before = mean([one.at(size, figure) for one in earlier])
            now = last.at(size, figure)
            found.append(Change(figure, named, size, before, now, difference(now, before)))
    return tuple(found)


def not_compared(periods: Sequence[Period]) -> tuple[str, ...]:
    """Say which of the last periods before the one that is compared were left out, and why."""
    judged = [one for one in periods if one.judged]
    if not judged or judged[-1] is periods[0]:
        return ()
    last, recent, fewest = judged[-1], judged[-1 - WEEK : -1], 2 * SIZES[0]
    if not recent:
        return (f"No period before {last.named} has {fewest} different queries, which a comparison needs.",)
    if not last.items_known:
        return (f"{last.named} is not compared with those before it: how many items there are is not known.",)
    if not last.sizes:
        return (f"{last.named} is not compared with those before it: it has fewer than {fewest} different queries.",)
    known = [one for one in recent if one.items_known]
    depths = [one.k for one in known if one.k != last.k]
    others = " or ".join(map(str, sorted(set(depths))))
    unknown, few = len(recent) - len(known), sum(one.k == last.k and not one.sizes for one in known)
    reasons = (
        (unknown, "how many items there were is not known."),
        (
            len(depths),
            f"{_they(len(depths), 'counts', 'count')} the first {others} of each answer, and {last.named} the first "
            f"{last.k}. To compare them, watch all days with k = {min([last.k, *depths])}.",
        ),
        (few, f"{_they(few, 'has', 'have')} fewer than {fewest} different queries."),
    )
    return tuple(f"{_which(count, recent, last)}: {reason}" for count, reason in reasons if count)


def _they(count: int, does: str, do: str) -> str:
    return f"it {does}" if count == 1 else f"they {do}"


def _which(count: int, recent: Sequence[Period], last: Period) -> str:
    """Say that so many of the periods before the last one are not compared with it."""
    if len(recent) == 1:
        return f"{recent[0].named} is not compared with {last.named}"
    are = "is" if count == 1 else "are"
    return f"{count} of the {len(recent)} periods before {last.named} {are} not compared with it"


def mean(values: Sequence[Interval]) -> Interval:
    """Return the mean of independent values, its interval by how far each reaches (Zou and Donner 2008)."""
    count = len(values)
    middle = sum(one.value for one in values) / count
    below = sqrt(sum((one.value - one.low) ** 2 for one in values)) / count
    above = sqrt(sum((one.high - one.value) ** 2 for one in values)) / count
    return Interval(middle, middle - below, middle + above)


def difference(one: Interval, other: Interval) -> Interval:
    """Return one value less another that is independent of it, its interval likewise."""
    middle = one.value - other.value
    below = sqrt((one.value - one.low) ** 2 + (other.high - other.value) ** 2)
    above = sqrt((one.high - one.value) ** 2 + (other.value - other.low) ** 2)
    return Interval(middle, middle - below, middle + above)
