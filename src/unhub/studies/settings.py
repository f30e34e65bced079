"""Studies of a method's parameters: the temperature, and k and alpha."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unhub.arrays import Kind
from unhub.compute.progress import Steps
from unhub.compute.workers import Progress
from unhub.data.relevance import RelevanceLike
from unhub.data.vectors import VectorsLike, as_vectors
from unhub.evaluation.comparing import Judge
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.inputs import RAW
from unhub.studies.study import OVER_QUERIES, Study, numbers, second_bank, show, whole_numbers
from unhub.tuning.grid import ALPHAS, NEIGHBOURS
from unhub.tuning.spread import spread

WITH_TEMPERATURE, DUAL = ("is", "sn"), "dbsn"
TIMES_SPREAD = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)  # temperatures, in spreads of the similarities


def study_temperature(
    items: VectorsLike, bank: VectorsLike, queries: VectorsLike, relevance: RelevanceLike | None = None, *,
    bank_items: VectorsLike | None = None, methods: Sequence[str] | None = None,
    temperatures: Iterable[float] | None = None, measure: str | None = None, exclude: ExcludeLike | None = None,
    similarity: Kind = "cosine", seed: int = 0, threads: int | None = None, progress: Progress | None = None,
) -> Study:  # fmt: skip
    """Try temperatures, by default from a quarter of the spread of the similarities to four times it.

    methods: names of those with a `tau`, by default `is` and `sn`, and with bank_items `dbsn` too. measure: such as
    R@1, which needs relevance, or skewness, which does not. exclude: items that are not ranked for single queries, as
    `evaluate` takes it.
    """
    gallery = as_vectors(items, "items")
    judge = Judge.of(queries, relevance, measure, similarity, seed, threads, exclude, gallery)
    names, notes = tuple(methods or WITH_TEMPERATURE + (() if bank_items is None else (DUAL,))), list[str]()
    for name in names:
        if ":" in name:
            bare = name.partition(":")[0]
            raise ValueError(f"method {name!r} has parameters; give {bare!r} alone: the study sets its temperature")
    targets = second_bank(names, bank_items)
    if temperatures is None:
        unit = spread(gallery, bank, similarity=similarity, seed=seed, threads=threads)
        temperatures = [float(f"{times * unit:.3g}") for times in TIMES_SPREAD]
        notes.append(f"The spread of the similarities is {unit:.3g}; the temperatures are 0.25 to 4 times that.")
    tried = numbers(temperatures, "temperatures")
    specs = [f"{method}:tau={tau!r}" for method in names for tau in tried]
    steps = Steps(progress, 2)
    fitted = judge.fit(gallery, bank, specs, steps.next(), targets)
    values = judge(gallery, fitted, steps.next())
    lines = {method: tuple(values[f"{method}:tau={tau!r}"] for tau in tried) for method in names}
    return Study(
        "temperature", f"Temperature: {judge.name} as tau grows", "tau", tried, judge.name, judge.falls,
        lines, values[RAW], OVER_QUERIES, chooses=True, log=True, notes=(*notes, *judge.notes(gallery)),
    )  # fmt: skip


def study_k_and_alpha(
    items: VectorsLike, bank: VectorsLike, queries: VectorsLike, relevance: RelevanceLike | None = None, *,
    ks: Iterable[int] | None = None, alphas: Iterable[float] = ALPHAS, measure: str | None = None,
    exclude: ExcludeLike | None = None, similarity: Kind = "cosine", seed: int = 0, threads: int | None = None,
    progress: Progress | None = None,
) -> Study:  # fmt: skip
    """Try every k with every alpha of nnn; k by default from 1 to 512, as far as the bank reaches.

    exclude: items that are not ranked for single queries, as `evaluate` takes it.
    """
    gallery = as_vectors(items, "items")
    judge = Judge.of(queries, relevance, measure, similarity, seed, threads, exclude, gallery)
    past = as_vectors(bank, "bank")
    tried = whole_numbers([k for k in NEIGHBOURS if k <= len(past)] if ks is None else ks, "ks")
    weights = numbers(alphas, "alphas")
    steps = Steps(progress, 2)
    specs = {(k, alpha): f"nnn:k={k},alpha={alpha!r}" for k in tried for alpha in weights}
    fitted = judge.fit(gallery, past, list(specs.values()), steps.next())
    values = judge(gallery, fitted, steps.next())
    lines = {
        name: tuple(values[specs[k, alpha]] for k in tried) for name, alpha in zip(show(weights), weights, strict=True)
    }
    return Study(
        "k-alpha", f"nnn: {judge.name} for each k and alpha", "k", tried, judge.name, judge.falls, lines, values[RAW],
        OVER_QUERIES, chooses=True, form="grid", lines_of="alpha", notes=judge.notes(gallery),
    )  # fmt: skip
