"""Seeds: how much the result depends on the bank drawn: mean and standard deviation over several random banks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unhub.arrays import Kind
from unhub.banks.sampling import sample_bank
from unhub.compute.progress import ProgressLike, Steps, called, shows_progress
from unhub.correction import Correction
from unhub.data.relevance import RelevanceLike
from unhub.data.runs import Run
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError, check_seed, check_whole
from unhub.evaluation.evaluate import DEFAULT_MEASURES, Evaluation, Row, evaluate
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.inputs import RAW, Corrections, name_corrections
from unhub.evaluation.measures import Measure
from unhub.evaluation.returned import check_names
from unhub.evaluation.tables import Tabled
from unhub.fitting import fit
from unhub.html_tables import Table
from unhub.matching import checked_now, checked_once
from unhub.methods import Method


@dataclass(frozen=True)
class Spread:
    """The mean over the banks and the sample standard deviation (n - 1); None if no bank was drawn."""

    mean: float
    deviation: float | None

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Return the spread of some values; a single one has no deviation."""
        return Spread(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)

    def __format__(self, form: str) -> str:
        apart = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        return f"{self.mean:{form}}{apart}"

    def to_dict(self) -> dict[str, float | None]:
        """Return both numbers by name."""
        return {"mean": self.mean, "deviation": self.deviation}


@dataclass(frozen=True, eq=False)
class SeedRow:
    """One ranking over the banks: its measures, its gains over raw, and its skewness."""

    name: str
    values: dict[str, Spread]
    gains: dict[str, Spread]
    skewness: Spread | None


@dataclass(frozen=True, eq=False)
class OverSeeds(Tabled):
    """A row for each ranking, raw first, over banks of `size` queries drawn with `seeds`.

    evaluation: the evaluation of each single bank.
    """

    rows: tuple[SeedRow, ...]
    evaluation: Evaluation
    size: int
    seeds: tuple[int, ...]

    def __getitem__(self, name: str) -> SeedRow:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no ranking is named {name!r}; the names are {', '.join(row.name for row in self.rows)}")

    @property
    def best(self) -> SeedRow:
        """The best ranking by the mean of the first measure; the first of equal ones."""
        first = self.evaluation.measures[0]
        sign = -1 if first.family.falls else 1
        return max(self.rows, key=lambda row: sign * row.values[str(first)].mean)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader: how many banks there were, and what the evaluation left out."""
        drawn = f"Means and standard deviations over {len(self.seeds)} random banks of {self.size:,} queries."
        return (drawn, *self.evaluation.notes)

    def to_dict(self) -> dict[str, object]:
        """Return the means and deviations, and under `banks` every single ranking, as plain values for JSON."""
        return {
            "bank_size": self.size,
            "seeds": list(self.seeds),
            "best": self.best.name,
            "rankings": [
                {
                    "name": row.name,
                    "values": {name: one.to_dict() for name, one in row.values.items()},
                    "gains": {name: one.to_dict() for name, one in row.gains.items()},
                    "skewness": None if row.skewness is None else row.skewness.to_dict(),
                }
                for row in self.rows
            ],
            "banks": self.evaluation.to_dict(),
        }

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text: means and deviations, the gain by the first measure, skewness."""
        measures = [str(measure) for measure in self.evaluation.measures]
        counted = self.evaluation.rows[0].hubness
        skewness = [] if counted is None else [f"skewness@{counted.k}"]
        lines = [
            [
                f"{row.name} *" if row is self.best and len(self.rows) > 1 else row.name,
                *(f"{row.values[measure]:.2f}" for measure in measures),
                f"{row.gains[measures[0]]:+.2f}" if row.gains else "",
                *([f"{row.skewness:.2f}"] if row.skewness is not None else []),
            ]
            for row in self.rows
        ]
        return ["ranking", *measures, self.evaluation.measures[0].gain, *skewness], lines

    def shown(self) -> list[str | Table]:
        return [self.cells(), *self.notes]


@shows_progress
def over_seeds(
    queries: VectorsLike,
    items: VectorsLike,
    relevance: RelevanceLike,
    bank: VectorsLike,
    methods: Sequence[str | Method] | str | Method,
    size: int,
    seeds: int = 3,
    measures: Sequence[str | Measure] | str = DEFAULT_MEASURES,
    *,
    bank_items: VectorsLike | None = None,
    corrections: Corrections = (),
    runs: Mapping[str, Run] | None = None,
    exclude: ExcludeLike | None = None,
    similarity: Kind | None = None,
    hubness_k: int | None = 10,
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> OverSeeds:
    """Fit methods on several random banks of `size` queries, and evaluate all of them in one pass.

    seeds: how many banks are drawn, with the seeds `seed`, `seed` + 1, ... corrections and runs are evaluated once.
    bank_items: all are used with every bank. exclude: as in `evaluate`.
    """
    progress = called(progress)
    count, first = check_whole(seeds, "seeds", 2, ", to have a deviation"), check_seed(seed)
    drawn = tuple(range(first, first + count))
    past, gallery = checked_now(bank, "bank", similarity or "cosine", threads), checked_once(items, "items")
    targets = None if bank_items is None else checked_once(bank_items, "bank_items")
    fixed, steps = name_corrections(corrections), Steps(progress, len(drawn) + 1)
    named = [methods] if isinstance(methods, str | Method) else list(methods)
    fitted: dict[str, dict[str, Correction]] = {}
    for one in drawn:
        part = past.gather(sample_bank(past, size, seed=one))
        several = fit(
            gallery,
            part,
            method=named,
            bank_items=targets,
            similarity=similarity or "cosine",
            threads=threads,
            progress=steps.next(),
        )
        for name, correction in name_corrections(several).items():
            if correction.spec != RAW:  # raw always has a row
                fitted.setdefault(name, {})[f"{name} (seed {one})"] = correction
    taken = fitted.keys() & fixed.keys()
    if taken:
        problem = f"has one named {min(taken)!r}, the name of another ranking"
        raise ArgumentError("corrections", problem, "give it another name")
    check_names(runs or {}, {*fitted, *fixed})
    alone = {name: correction for several in fitted.values() for name, correction in several.items()}
    evaluation = evaluate(
        queries,
        gallery,
        relevance,
        {**fixed, **alone},
        measures,
        runs=runs,
        exclude=exclude,
        similarity=similarity,
        hubness_k=hubness_k,
        seed=seed,
        threads=threads,
        progress=steps.next(),
    )
    members = {RAW: [RAW], **_alone(fixed), **{name: list(several) for name, several in fitted.items()}, **_alone(runs)}
    rows = (_over(name, [evaluation[one] for one in several]) for name, several in members.items())
    return OverSeeds(tuple(rows), evaluation, int(size), drawn)


def _alone(names: Iterable[str] | None) -> dict[str, list[str]]:
    return {name: [name] for name in names or ()}


def _over(name: str, rows: Sequence[Row]) -> SeedRow:
    values = {measure: Spread.of([row.values[measure].value for row in rows]) for measure in rows[0].values}
    gains = {measure: Spread.of([row.gains[measure].value for row in rows]) for measure in rows[0].gains}
    counted = [row.hubness.skewness for row in rows if row.hubness is not None]
    return SeedRow(name, values, gains, Spread.of(counted) if counted else None)
