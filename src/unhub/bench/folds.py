"""Folds: a test of several parts is measured on each of them, and a case is the mean over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf
from typing import Any

import numpy as np

from unhub.bench.problems import TEST
from unhub.bench.result_file import CASES, CaseKey, key_of
from unhub.bench.sources.vector_source import SideVectors, VectorSource, Which
from unhub.compute.workers import Progress
from unhub.datasets.dataset import DataSet, Part, Side

AVERAGED = ("hubness", "distances")  # numbers by name
COUNTED = ("asked", "queries", "items", "bank_queries", "bank_items")


@dataclass(frozen=True, eq=False)
class FoldVectors:
    """The vectors of a source where the test is one of the folds."""

    source: VectorSource
    fold: str

    @property
    def name(self) -> str:
        """The model, as results and tables call it."""
        return self.source.name

    def has(self, part: str, which: Which, side: Side) -> bool:
        """Say whether there are vectors of this side."""
        return self.source.has(self._named(part), which, side)

    def unusable(self, part: str, which: Which, side: Side) -> str:
        """Say in a note why none of what is there can be used; nothing where something can."""
        return self.source.unusable(self._named(part), which, side)

    def vectors(self, part: str, which: Which, side: Side, progress: Progress | None) -> SideVectors:
        """Return the vectors of a side, and notes on those that have none."""
        return self.source.vectors(self._named(part), which, side, progress)

    def _named(self, part: str) -> str:
        return self.fold if part == TEST else part


def folds_of(data: DataSet) -> list[str]:
    """Return the parts that are folds of the test; one alone is the test itself."""
    return [name for name in data.parts if name.partition("-")[0] == TEST]


def folds_there(data: DataSet, vectors: VectorSource) -> tuple[list[str], list[str]]:
    """Return the folds that there are vectors of, the first one in any case, and a note where these are not all."""
    folds = folds_of(data)
    there = [one for one in folds if one == TEST or all(vectors.has(one, *side) for side in _sides(data.parts[one]))]
    count = "one" if len(there) == 1 else len(there)
    return there, [f"Vectors of {count} of {len(folds)} test parts are there."] if len(there) < len(folds) else []


def _sides(part: Part) -> tuple[tuple[Which, Side], ...]:
    return ("items", part.items), ("queries", part.queries)


def of_fold(data: DataSet, fold: str) -> DataSet:
    """Return the data set with one fold as its test; the others are in no part and in no bank."""
    others = {name: part for name, part in data.parts.items() if name not in folds_of(data)}
    test = {TEST: data.parts[fold]}
    return replace(data, parts={**others, **test}, banks={**data.banks, **test})


def mean_cases(
    contents: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    is_new: Callable[[CaseKey], bool] = lambda key: False,
) -> list[dict[str, Any]]:
    """Return the cases that every fold has, each as the mean over the folds.

    before: the means there were; they stay if they are of what the folds have. is_new: says which cases every fold has
    measured now; the others may be of a run that was stopped between two folds, and are not made into a mean.
    """
    by_key = [{key_of(case): case for case in content[CASES]} for content in contents]
    kept = {key_of(case): dict(case) for case in before}
    means = []
    for key in by_key[0]:
        several = [cases[key] for cases in by_key if key in cases]
        if len(several) == len(by_key):
            if is_new(key):
                means.append(mean_case(several))
            elif key in kept and kept[key]["inputs"] == _inputs_of(several):
                means.append(kept[key])
    return means


def _inputs_of(cases: Sequence[Mapping[str, Any]]) -> str:
    return " | ".join(case["inputs"] for case in cases)


def mean_case(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean of one case over the folds; they share no query, so their intervals are independent."""
    # What a fold does not have, such as distances without their library, has no mean.
    averages = {
        name: _mean_numbers([case[name] for case in cases]) if all(case.get(name) for case in cases) else None
        for name in AVERAGED
        if name in cases[0]
    }
    # The smallest, so that a fold of which a part is missing is seen.
    counts = {name: min(case[name] for case in cases) for name in COUNTED if cases[0].get(name) is not None}
    return {
        **cases[0],
        **counts,
        "inputs": _inputs_of(cases),
        "values": _means([case["values"] for case in cases]),
        "gains": _means([case["gains"] for case in cases]),
        **averages,
        "notes": list(dict.fromkeys(note for case in cases for note in case.get("notes", ()))),
        "seconds": round(sum(case.get("seconds", 0.0) for case in cases), 3),
        "folds": len(cases),
    }


def mean_interval(intervals: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the mean of independent values; the distance to each end is the root of the sum of squares over n."""
    values = [one["value"] or 0.0 for one in intervals]
    mean, ends = float(np.mean(values)), []
    for name, sign in (("low", -1), ("high", 1)):
        known = [one[name] for one in intervals]
        apart = [inf if end is None else end - value for end, value in zip(known, values, strict=True)]
        far = hypot(*apart) / len(values)
        ends.append(mean + sign * far if far < inf else None)
    return {"value": mean, "low": ends[0], "high": ends[1]}


def _means(several: Sequence[Mapping[str, Mapping[str, float | None]]]) -> dict[str, dict[str, float | None]]:
    return {name: mean_interval([one[name] for one in several]) for name in several[0]}


def _mean_numbers(several: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean of each number; what is no number, or absent in a fold, is that of the first."""
    first = several[0]
    return {
        name: float(np.mean([one[name] for one in several]))
        if isinstance(value, float) or (isinstance(value, int) and len({one[name] for one in several}) > 1)
        else value
        for name, value in first.items()
    }
