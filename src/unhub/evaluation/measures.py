"""Measures: how well a ranking finds the answers. Ties count as their expectation under a random order.

An answer's place is how many items are better and how many are equal, itself included. Expected values over
tied items are those of McSherry and Najork, "Computing information retrieval performance measures efficiently in the
presence of tied scores", 2008.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.errors import ArgumentError, nearest_name

NOT_FOUND = 1 << 40  # items better than an answer that a run did not return: more than any gallery has
GEOMETRIC_CUTOFFS = (1, 5, 10)  # the cut-offs of the recalls whose geometric mean is GM


@dataclass(frozen=True, eq=False)
class Places:
    """The places of the answers of each query: a row for each set of equally scored answers, best first.

    owners: the query of each row. starts: each query's first row, (queries + 1). better, equal: how many items score
    higher, and how many the same. answers, gains: how many answers share the place, and the sum of their grades.
    grades, (all answers), and grade_starts: the grades of each query, highest first.
    """

    starts: NDArray[np.int64]
    owners: NDArray[np.int64]
    better: NDArray[np.int64]
    equal: NDArray[np.int64]
    answers: NDArray[np.int64]
    gains: Float64
    grades: Float64
    grade_starts: NDArray[np.int64]
    items: int

    @staticmethod
    def of(
        starts: NDArray[np.int64],
        better: NDArray[np.int64],
        equal: NDArray[np.int64],
        grades: Float64,
        items: int,
    ) -> Places:
        """Gather answers, those of query i at `starts[i]:starts[i + 1]`; each query has at least one."""
        owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        order = np.lexsort((better, owners))
        falling = np.lexsort((-grades, owners))
        here, ahead = owners[order], better[order]
        first = np.flatnonzero(np.diff(here, prepend=-1) | np.diff(ahead, prepend=-1))
        return Places(
            np.searchsorted(here[first], np.arange(len(starts))),
            here[first],
            ahead[first],
            equal[order][first],
            np.diff(first, append=len(order)),
            np.add.reduceat(grades[order], first) if len(first) else np.empty(0),
            grades[falling],
            starts,
            items,
        )

    @property
    def heads(self) -> NDArray[np.int64]:
        """The row of each query's best answers."""
        return self.starts[:-1]

    def reach(self, k: int) -> int:
        """Return how many items are in the first k places; k itself may be too large for an int64."""
        return min(k, self.items)

    def per_query(self, values: Float64) -> Float64:
        """Return the sum of the rows' values for each query."""
        return np.add.reduceat(values, self.heads)

    @functools.cached_property
    def best_ranks(self) -> Float64:
        """The expected rank of each query's best answer: better + (equal + 1) / (answers + 1), or the last."""
        heads = self.heads
        ranks = self.better[heads] + (self.equal[heads] + 1) / (self.answers[heads] + 1)
        return np.asarray(np.minimum(ranks, self.items))

    @property
    def answers_before(self) -> NDArray[np.int64]:
        """How many answers of the same query come before each row."""
        running = np.cumsum(self.answers) - self.answers
        return running - running[self.heads][self.owners]


Values: TypeAlias = Callable[[Places, int], Float64]


def hits(places: Places, k: int) -> Float64:
    """Return the chance that an answer is among the first k."""
    heads = places.heads
    room, equal, answers = places.reach(k) - places.better[heads], places.equal[heads], places.answers[heads]
    missed = np.where(room <= 0, 1.0, 0.0)
    # Of `equal` items in random order, `room` are seen; none is an answer with chance C(e - t, room) / C(e, room).
    for row in np.flatnonzero((room > 0) & (room < equal)):
        seen = np.arange(room[row])
        missed[row] = np.prod(np.maximum(equal[row] - answers[row] - seen, 0) / (equal[row] - seen))
    return 1 - missed


def best_rank(places: Places, k: int) -> Float64:
    """Return the rank of the best answer."""
    return places.best_ranks


def reciprocal_rank(places: Places, k: int) -> Float64:
    """Return one over the rank of the best answer, 0 beyond k."""
    heads = places.heads
    better, equal, answers = places.better[heads], places.equal[heads], places.answers[heads]
    values = np.where(better < k, 1 / (better + 1), 0.0)
    for row in np.flatnonzero(equal > 1):
        steps = np.arange(equal[row] - answers[row] + 1)
        # The first answer comes after `step` others: each earlier place misses, then one of the answers comes.
        left = equal[row] - steps
        none_yet = np.concatenate([[1.0], np.cumprod(1 - answers[row] / left)[:-1]])
        ranks = better[row] + steps + 1
        values[row] = np.sum((none_yet * answers[row] / left / ranks)[ranks <= k])
    return values


def precision(places: Places, k: int) -> Float64:
    """Return the share of answers among the first k."""
    seen = np.clip((places.reach(k) - places.better) / places.equal, 0, 1)
    return places.per_query(np.asarray(places.answers * seen)) / k


def average_precision(places: Places, k: int) -> Float64:
    """Return the mean over the answers of the precision at their ranks, 0 beyond k."""
    return _average_precision(places, np.full(len(places.heads), places.reach(k)))


def average_precision_of_all(places: Places, k: int) -> Float64:
    """Return the same, 0 beyond as many items as the query has answers (Musgrave et al. 2020)."""
    return _average_precision(places, np.diff(places.grade_starts))


def _average_precision(places: Places, reaches: NDArray[np.int64]) -> Float64:
    """Return the average precision of each query over its own first items, (queries,)."""
    before, reach = places.answers_before, reaches[places.owners]
    values = np.where(places.better < reach, (before + 1) / (places.better + 1), 0.0)
    for row in np.flatnonzero(places.equal > 1):
        equal, answers = places.equal[row], places.answers[row]
        steps = np.arange(equal)
        ranks = places.better[row] + steps + 1
        above = before[row] + 1 + steps * (answers - 1) / (equal - 1)
        values[row] = answers / equal * np.sum((above / ranks)[ranks <= reach[row]])
    return places.per_query(values) / np.diff(places.grade_starts)


def discounted_gain(places: Places, k: int) -> Float64:
    """Return the discounted gain of the first k as a share of the best possible one; a gain is a grade."""
    most = places.reach(k)
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(most) + 2))])
    reach = discounts[np.minimum(places.better + places.equal, most)] - discounts[np.minimum(places.better, most)]
    found = places.per_query(places.gains / places.equal * reach)
    counts = np.diff(places.grade_starts)
    ranks = np.minimum(np.arange(len(places.grades)) - np.repeat(places.grade_starts[:-1], counts), most)
    share = np.append(np.diff(discounts), 0.0)  # the gain of an answer that comes after the first k
    return found / np.add.reduceat(places.grades * share[ranks], places.grade_starts[:-1])


@dataclass(frozen=True)
class Family:
    """Measures that differ only in the cut-off k.

    cut: whether a cut-off is "needed", "allowed" or neither (""). summary: over the queries, "mean" or "median".
    percent: given as a percentage. falls: lower is better.
    """

    values: Values
    what: str
    cut: str = ""
    summary: str = "mean"
    percent: bool = True
    falls: bool = False


MEASURES: Mapping[str, Family] = {
    "R": Family(hits, "recall: queries with an answer among the first k", cut="needed"),
    "GM": Family(hits, "geometric mean of R@1, R@5 and R@10"),
    "MdR": Family(best_rank, "median rank of the best answer", summary="median", percent=False, falls=True),
    "MnR": Family(best_rank, "mean rank of the best answer", percent=False, falls=True),
    "MRR": Family(reciprocal_rank, "mean reciprocal rank of the best answer", cut="allowed"),
    "mAP": Family(average_precision, "mean average precision over all answers", cut="allowed"),
    "mAP@R": Family(average_precision_of_all, "mean average precision of as many items as there are answers"),
    "nDCG": Family(discounted_gain, "normalised discounted cumulative gain, a gain being a grade", cut="allowed"),
    "P": Family(precision, "precision: share of answers among the first k", cut="needed"),
}


@dataclass(frozen=True)
class Measure:
    """A measure that prints as it is typed: `R@10`, `MdR`, `nDCG@10`."""

    name: str
    k: int | None = None

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"

    @property
    def family(self) -> Family:
        return MEASURES[self.name]

    @property
    def with_unit(self) -> str:
        """The measure with its unit, for a title or an axis: `R@10 (%)`, `MdR (rank)`."""
        return f"{self} ({'%' if self.family.percent else 'rank'})"

    @property
    def gain(self) -> str:
        """What a difference is called: where lower is better, a rise is no gain."""
        return f"{'change' if self.family.falls else 'gain'} in {self}"

    @property
    def parts(self) -> tuple[Measure, ...]:
        """The measures whose values are summarised: itself, except for the geometric mean."""
        return tuple(Measure("R", k) for k in GEOMETRIC_CUTOFFS) if self.name == "GM" else (self,)

    def values(self, places: Places) -> Float64:
        """Return the value for each query, as a percentage if it is a share, (queries,)."""
        return self.family.values(places, self.k or places.items) * (100 if self.family.percent else 1)


def parse_measure(text: str | Measure, argument: str = "measure") -> Measure:
    """Return the measure that a text such as `R@10` names; `argument` is the name used in errors."""
    match = re.fullmatch(r"([A-Za-z]+(?:@R)?)(?:@([1-9][0-9]*))?", str(text), re.IGNORECASE)
    known = ", ".join(f"{name}@k" if family.cut else name for name, family in MEASURES.items())
    if match is None:
        raise ArgumentError(argument, f"must be a text such as 'R@10', got {text!r}", f"the measures are {known}")
    names = {name.lower(): name for name in MEASURES}
    name = names.get(match[1].lower())
    if name is None:
        near = nearest_name(match[1], names)
        hint = f"did you mean {names[near]!r}? " if near else ""
        raise ArgumentError(argument, f"{text!r} is unknown", f"{hint}the measures are {known}")
    family = MEASURES[name]
    if family.cut == "needed" and match[2] is None:
        raise ArgumentError(argument, f"{name!r} needs a cut-off", f"give one, for example {name}@10")
    if not family.cut and match[2] is not None:
        raise ArgumentError(argument, f"{name!r} has no cut-off, got {text!r}", f"write {name}")
    return Measure(name, int(match[2]) if match[2] else None)


def parse_measures(texts: Sequence[str | Measure] | str) -> tuple[Measure, ...]:
    """Return the measures that these texts name, each once; one text may name several, separated by commas."""
    if not isinstance(texts, Iterable):
        raise ArgumentError("measures", f"must be a text such as 'R@1,R@10' or a list of such texts, got {texts!r}")
    several = texts.split(",") if isinstance(texts, str) else texts
    each = (parse_measure(one.strip() if isinstance(one, str) else one, "measures") for one in several)
    measures = tuple(dict.fromkeys(each))
    if not measures:
        raise ArgumentError("measures", "is empty", "name at least one, for example R@10")
    return measures
