"""Studies of a method's parameters: the temperature, and k and alpha."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unhub.arrays import Kind
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Resources
from unhub.data.relevance import RelevanceLike
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.inputs import RAW
from unhub.studies.study import QUERY_INTERVAL, Study, show
from unhub.studies.study_inputs import StudyInputs, check_bank_items, numbers, whole_numbers
from unhub.tuning.grid import ALPHAS, NEIGHBOURS

WITH_TEMPERATURE, DUAL = ("is", "sn"), "dbsn"
SPREAD_MULTIPLES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)  # temperatures over the spread of the similarities


@shows_progress
def study_temperature(
    items: VectorsLike,
    bank: VectorsLike,
    queries: VectorsLike,
    relevance: RelevanceLike | None = None,
    *,
    bank_items: VectorsLike | None = None,
    methods: Sequence[str] | None = None,
    temperatures: Iterable[float] | None = None,
    measure: str | None = None,
    exclude: ExcludeLike | None = None,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Study:
    """Try temperatures, by default from 0.25 to 4 times the spread of the similarities.

    methods: names of methods with a `tau`; by default `is` and `sn`, and with bank_items also `dbsn`. measure: for
    example R@1, which needs relevance, or skewness, which does not. exclude: items to leave out of the ranking of each
    query, as in `evaluate`.
    """
    progress = called(progress)
    resources = Resources(threads, progress=progress)
    inputs = StudyInputs(items, queries, relevance, measure, exclude, similarity, seed, resources)
    gallery, past, judge = inputs.gallery, inputs.checked_bank(bank), inputs.judge
    names, notes = tuple(methods or WITH_TEMPERATURE + (() if bank_items is None else (DUAL,))), list[str]()
    for name in names:
        if ":" in name:
            bare = name.partition(":")[0]
            problem = f"must be names without parameters in this study, got {name!r}"
            raise ArgumentError("methods", problem, f"give {bare!r}: the study sets its tau")
    targets = check_bank_items(names, bank_items)
    if temperatures is None:
        unit = inputs.spread(past)
        temperatures = [float(f"{times * unit:.3g}") for times in SPREAD_MULTIPLES]
        notes.append(f"The spread of the similarities is {unit:.3g}; the temperatures are 0.25 to 4 times that.")
    tried = numbers(temperatures, "temperatures")
    specs = [f"{method}:tau={tau!r}" for method in names for tau in tried]
    steps = inputs.steps(2)
    fitted = judge.fit(gallery, past, specs, steps.next(), targets)
    values = judge(gallery, fitted, steps.next())
    return Study(
        "temperature",
        f"Temperature: {inputs.measured} against tau",
        "tau",
        tried,
        judge.name,
        judge.falls,
        {method: tuple(values[f"{method}:tau={tau!r}"] for tau in tried) for method in names},
        values[RAW],
        QUERY_INTERVAL,
        chooses=True,
        log=True,
        notes=(*notes, *judge.notes(gallery)),
        measured=inputs.measured,
    )


@shows_progress
def study_k_and_alpha(
    items: VectorsLike,
    bank: VectorsLike,
    queries: VectorsLike,
    relevance: RelevanceLike | None = None,
    *,
    ks: Iterable[int] | None = None,
    alphas: Iterable[float] = ALPHAS,
    measure: str | None = None,
    exclude: ExcludeLike | None = None,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Study:
    """Try every k with every alpha of `nnn`; by default k is from 1 to 512, up to the size of the bank.

    exclude: items to leave out of the ranking of each query, as in `evaluate`.
    """
    progress = called(progress)
    resources = Resources(threads, progress=progress)
    inputs = StudyInputs(items, queries, relevance, measure, exclude, similarity, seed, resources)
    gallery, past, judge = inputs.gallery, inputs.checked_bank(bank), inputs.judge
    tried = whole_numbers([k for k in NEIGHBOURS if k <= len(past)] if ks is None else ks, "ks")
    weights = numbers(alphas, "alphas")
    steps = inputs.steps(2)
    specs = {(k, alpha): f"nnn:k={k},alpha={alpha!r}" for k in tried for alpha in weights}
    fitted = judge.fit(gallery, past, list(specs.values()), steps.next())
    values = judge(gallery, fitted, steps.next())
    named = zip(show(weights), weights, strict=True)
    return Study(
        "k-alpha",
        f"nnn: {inputs.measured} for each k and alpha",
        "k",
        tried,
        judge.name,
        judge.falls,
        {name: tuple(values[specs[k, alpha]] for k in tried) for name, alpha in named},
        values[RAW],
        QUERY_INTERVAL,
        chooses=True,
        form="grid",
        lines_of="alpha",
        notes=judge.notes(gallery),
        measured=inputs.measured,
    )
