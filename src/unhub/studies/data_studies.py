"""Studies of the data: the size of the bank, where it comes from, and a gallery that grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from unhub.arrays import Kind, random_positions
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Resources
from unhub.correction import Correction
from unhub.data.relevance import RelevanceLike
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError, check_whole
from unhub.evaluation.confidence import Interval
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.inputs import RAW
from unhub.matching import checked_once
from unhub.methods import parse
from unhub.studies.seeds import Spread
from unhub.studies.study import QUERY_INTERVAL, Study
from unhub.studies.study_inputs import StudyInputs, check_bank_items, full_specs, whole_numbers
from unhub.tuning.grid import within

SMALLEST_BANK_SIZE = 10
GALLERY_SHARES = (0.125, 0.25, 0.5, 0.75, 1.0)
USUAL_NAMES = ("is", "nnn")  # of the usual methods, whose parameters differ from bank to bank


@shows_progress
def study_bank_size(
    items: VectorsLike,
    bank: VectorsLike,
    queries: VectorsLike,
    relevance: RelevanceLike | None = None,
    *,
    bank_items: VectorsLike | None = None,
    methods: Sequence[str] | None = None,
    sizes: Iterable[int] | None = None,
    seeds: int = 3,
    measure: str | None = None,
    exclude: ExcludeLike | None = None,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Study:
    """Fit on random parts of the bank, several of each size, and give their mean and standard deviation.

    methods: by default `is` at the spread of the similarities, and `nnn:k=32,alpha=0.5`; a k above a size is
    cut to it. bank_items: all are used at every size, since only the bank queries change. exclude: items to leave out
    of the ranking of each query, as in `evaluate`.
    """
    progress = called(progress)
    resources = Resources(threads, progress=progress)
    inputs = StudyInputs(items, queries, relevance, measure, exclude, similarity, seed, resources)
    gallery, judge = inputs.gallery, inputs.judge
    past = inputs.checked_bank(bank)
    check_whole(seeds, "seeds", 1)
    specs = list(methods or inputs.usual_methods(past))
    targets = check_bank_items(specs, bank_items)
    tried = whole_numbers(_usual_sizes(len(past)) if sizes is None else sizes, "sizes", len(past), "bank")
    draws = {size: 1 if size == len(past) else seeds for size in tried}
    steps = inputs.steps(sum(draws.values()) + 1)
    fitted: dict[str, Correction] = {}
    generator = np.random.default_rng(seed)
    for size in tried:
        for draw in range(draws[size]):
            part = past.gather(random_positions(len(past), size, generator))
            fitting = {spec: within(parse(spec), size).spec for spec in specs}
            corrections = judge.fit(gallery, part, list(fitting.values()), steps.next(), targets)
            fitted |= {f"{spec} {size} {draw}": corrections[fitting[spec]] for spec in specs}
    values = judge(gallery, fitted, steps.next())

    def line(spec: str) -> tuple[Interval, ...]:
        drawn = ([values[f"{spec} {size} {draw}"].value for draw in range(draws[size])] for size in tried)
        return tuple(map(_over_draws, drawn))

    once = ("The whole bank was fitted once, so it has no spread.",) if len(past) in tried else ()
    return Study(
        "bank-size",
        f"Bank size: {inputs.measured} as the bank grows",
        "bank queries",
        tried,
        judge.name,
        judge.falls,
        {spec: line(spec) for spec in specs},
        values[RAW],
        f"one standard deviation on either side of the mean of {seeds} random banks",
        chooses=False,
        log=True,
        notes=(*once, *judge.notes(gallery)),
        specs=full_specs(specs),
        measured=inputs.measured,
    )


@shows_progress
def study_bank_source(
    items: VectorsLike,
    banks: Mapping[str, VectorsLike],
    queries: VectorsLike,
    relevance: RelevanceLike | None = None,
    *,
    bank_items: VectorsLike | None = None,
    methods: Sequence[str] | None = None,
    measure: str | None = None,
    exclude: ExcludeLike | None = None,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Study:
    """Fit on each of several banks, given by name, and measure all of them on the same queries.

    methods: by default `is` at the spread of the similarities of each bank, and `nnn:k=32,alpha=0.5`.
    bank_items: the same for every bank. exclude: as in `evaluate`.
    """
    progress = called(progress)
    resources = Resources(threads, progress=progress)
    inputs = StudyInputs(items, queries, relevance, measure, exclude, similarity, seed, resources)
    gallery, judge = inputs.gallery, inputs.judge
    if not banks:
        raise ArgumentError("banks", "is empty", "give at least one bank, by name")
    steps = inputs.steps(len(banks) + 1)
    fitted: dict[str, Correction] = {}
    notes = []
    labels = methods or USUAL_NAMES
    beside = None if bank_items is None else checked_once(bank_items, "bank_items")
    for name, bank in banks.items():
        past = inputs.checked_bank(bank, f"bank {name!r}")
        specs = list(methods or inputs.usual_methods(past))
        targets = check_bank_items(specs, beside)
        corrections = judge.fit(gallery, past, specs, steps.next(), targets)
        fitted |= {f"{label} {name}": corrections[spec] for label, spec in zip(labels, specs, strict=True)}
        with_methods = "" if methods else f", with {' and '.join(specs)}"
        notes.append(f"{name}: {len(past):,} queries{with_methods}.")
    values = judge(gallery, fitted, steps.next())
    return Study(
        "bank-source",
        f"Bank source: {inputs.measured} with each bank",
        "bank",
        tuple(banks),
        judge.name,
        judge.falls,
        {label: tuple(values[f"{label} {name}"] for name in banks) for label in labels},
        values[RAW],
        QUERY_INTERVAL,
        chooses=True,
        form="bars",
        notes=(*notes, *judge.notes(gallery)),
        specs=full_specs(methods or ()),
        measured=inputs.measured,
    )


@shows_progress
def study_growth(
    items: VectorsLike,
    bank: VectorsLike,
    queries: VectorsLike,
    relevance: RelevanceLike | None = None,
    *,
    bank_items: VectorsLike | None = None,
    methods: Sequence[str] | None = None,
    sizes: Iterable[int] | None = None,
    measure: str | None = None,
    exclude: ExcludeLike | None = None,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Study:
    """Let the gallery grow in random order, refit at each size, and measure the raw and the corrected rankings.

    With relevance, items that answer a query come first, and every size uses the queries that the smallest gallery
    answers, so only the number of other items changes. bank_items: the same for every gallery. exclude: as in
    `evaluate`.
    """
    progress = called(progress)
    resources = Resources(threads, progress=progress)
    inputs = StudyInputs(items, queries, relevance, measure, exclude, similarity, seed, resources)
    gallery, past = inputs.gallery, inputs.checked_bank(bank)
    judge = inputs.judge
    specs = list(methods or inputs.usual_methods(past))
    targets = check_bank_items(specs, bank_items)
    shares = [max(1, round(share * len(gallery))) for share in GALLERY_SHARES]
    tried = tuple(sorted(whole_numbers(shares if sizes is None else sizes, "sizes", len(gallery), "gallery")))
    order = np.random.default_rng(seed).permutation(len(gallery))
    order = order[np.argsort(~np.isin(order, judge.answers(gallery)), kind="stable")]
    steps = inputs.steps(2 * len(tried))
    followed = judge.answered_by(gallery.gather(np.sort(order[: tried[0]])))
    lines: dict[str, list[Interval]] = {RAW: [], **{spec: [] for spec in specs}}
    for size in tried:
        part = gallery.gather(np.sort(order[:size]))
        values = followed(part, judge.fit(part, past, specs, steps.next(), targets), steps.next())
        for name, line in lines.items():
            line.append(values[name])
    return Study(
        "growth",
        f"Gallery growth: {inputs.measured} as items are added",
        "items",
        tried,
        judge.name,
        judge.falls,
        {name: tuple(line) for name, line in lines.items()},
        None,
        QUERY_INTERVAL,
        chooses=False,
        log=True,
        notes=(f"{len(followed.queries):,} queries are used at every size.", *followed.notes(gallery)),
        specs=full_specs(specs),
        measured=inputs.measured,
    )


def _usual_sizes(bank: int) -> tuple[int, ...]:
    """Return sizes that grow by a factor of about three, up to the whole bank."""
    steps = [round(SMALLEST_BANK_SIZE * 10 ** (step / 2)) for step in range(16)]
    return (*(size for size in steps if size <= 0.7 * bank), bank)


def _over_draws(values: Sequence[float]) -> Interval:
    """Return the mean, minus and plus one standard deviation; a single value has none."""
    spread = Spread.of(values)
    apart = spread.deviation or 0.0
    return Interval(spread.mean, spread.mean - apart, spread.mean + apart)
