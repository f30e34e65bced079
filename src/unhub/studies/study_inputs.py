"""What a study is given: items, queries and a measure, checked once, and the settings to try."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from unhub.arrays import Kind
from unhub.compute.progress import Steps
from unhub.compute.workers import Resources
from unhub.data.relevance import RelevanceLike
from unhub.data.vectors import Vectors, VectorsLike
from unhub.errors import ArgumentError
from unhub.evaluation.comparing import Judge
from unhub.evaluation.excluding import ExcludeLike, Exclusion
from unhub.matching import check_widths, checked_now, checked_once
from unhub.methods import METHODS, parse
from unhub.tuning.spread import spread, usual_methods


@dataclass(frozen=True, eq=False)
class StudyInputs:
    """The inputs of every study, unchecked; `gallery` and `judge` are the same, checked once.

    measure: None is R@1 with relevance and skewness without.
    """

    items: VectorsLike
    queries: VectorsLike
    relevance: RelevanceLike | None
    measure: str | None
    exclude: ExcludeLike | None
    similarity: Kind
    seed: int
    resources: Resources

    @functools.cached_property
    def gallery(self) -> Vectors:
        """The items."""
        return self.checked(self.items, "items")

    @functools.cached_property
    def judge(self) -> Judge:
        """The queries and the measure that corrections are compared by."""
        asked = checked_once(self.queries, "queries")
        exclusion = None if self.exclude is None else Exclusion.of(self.exclude, asked.ids, self.gallery.ids)
        threads = self.resources.threads
        return Judge.of(asked, self.relevance, self.measure, self.similarity, self.seed, threads, exclusion)

    @property
    def measured(self) -> str:
        """The measure with its unit, for a title or an axis: `R@1 (%)`."""
        return self.judge.name if self.judge.measure is None else self.judge.measure.with_unit

    def checked(self, value: VectorsLike, name: str) -> Vectors:
        """Return vectors whose parts are fitted or measured later; every row is checked here, once."""
        return checked_now(value, name, self.similarity, self.resources.threads)

    def checked_bank(self, value: VectorsLike, name: str = "bank") -> Vectors:
        """Return a bank as wide as the items, with every row checked."""
        bank = checked_once(value, name)
        check_widths({name: bank, "items": self.gallery}, "items")
        return self.checked(bank, name)

    def steps(self, count: int) -> Steps:
        """Return the steps that the study's progress is shown in."""
        return Steps(self.resources.progress, count)

    def spread(self, bank: VectorsLike) -> float:
        """Return the spread of the similarities of a bank and the items."""
        return spread(self.gallery, bank, similarity=self.similarity, seed=self.seed, threads=self.resources.threads)

    def usual_methods(self, bank: Vectors) -> list[str]:
        """Return the methods to fit on a bank when none are named."""
        threads = self.resources.threads
        return [*usual_methods(self.gallery, bank, similarity=self.similarity, seed=self.seed, threads=threads)]


def check_bank_items(methods: Sequence[str], bank_items: VectorsLike | None) -> Vectors | None:
    """Return the bank items of a study; they must be given exactly if one of the methods uses them."""
    users = [one.name for one in map(parse, methods) if one.dual or one.joint]
    if users and bank_items is None:
        alone = ", or study 'sn', which is the same without them" if METHODS[users[0]].joint else ""
        raise ArgumentError(
            "bank_items", f"must be given for {users[0]!r}", f"give the training items beside the bank{alone}"
        )
    if bank_items is not None and not users:
        names = ", ".join(map(repr, methods))
        raise ArgumentError(
            "bank_items", f"are used by none of {names}", "name a method that uses them, such as 'dbsn'"
        )
    return None if bank_items is None else checked_once(bank_items, "bank_items")


def full_specs(methods: Iterable[str]) -> dict[str, str]:
    """Return the full spec of each method by the name given: `dbsn` is `dbsn:tau=0.01,iterations=10`."""
    return {method: parse(method).spec for method in methods}


def numbers(given: Iterable[float], name: str) -> tuple[float, ...]:
    """Return numbers that a user gives, in a list or an array, each once."""
    return tuple(float(one) for one in _each(given, name, Real, "numbers"))


def whole_numbers(given: Iterable[int], name: str, most: int | None = None, of: str = "") -> tuple[int, ...]:
    """Return whole numbers that a user gives, each once; most: the largest allowed, which is the size of `of`."""
    each = tuple(int(one) for one in _each(given, name, Integral, "whole numbers"))
    wrong = [] if most is None else [one for one in each if not 1 <= one <= most]
    if wrong:
        raise ArgumentError(name, f"must be from 1 to {most}, the size of the {of}, got {wrong[0]}")
    return each


def _each(given: Iterable[float], name: str, kind: type, words: str) -> list[float]:
    each = list(dict.fromkeys(given))
    if not each:
        raise ArgumentError(name, "is empty", "give at least one value, or leave it out")
    for one in each:
        if not isinstance(one, kind) or isinstance(one, bool):
            raise ArgumentError(name, f"must be {words}, got {one!r}")
    return each
