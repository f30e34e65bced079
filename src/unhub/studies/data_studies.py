"""Studies of the data: the size of the bank, where it comes from, and a gallery that grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from unhub.arrays import Kind, random_positions
from unhub.compute.progress import Steps
from unhub.compute.workers import Progress
from unhub.correction import Correction
from unhub.data.relevance import RelevanceLike
from unhub.data.vectors import VectorsLike, as_vectors
from unhub.errors import check_whole
from unhub.evaluation.comparing import Judge
from unhub.evaluation.confidence import Interval
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.inputs import RAW
from unhub.methods import parse
from unhub.studies.study import OVER_QUERIES, Study, second_bank, whole_numbers
from unhub.tuning.grid import within
from unhub.tuning.spread import usual_methods

SMALLEST_BANK = 10
GALLERY_SHARES = (0.125, 0.25, 0.5, 0.75, 1.0)


def study_bank_size(
    items: VectorsLike, bank: VectorsLike, queries: VectorsLike, relevance: RelevanceLike | None = None, *,
    bank_items: VectorsLike | None = None, methods: Sequence[str] | None = None, sizes: Iterable[int] | None = None,
    seeds: int = 3, measure: str | None = None, exclude: ExcludeLike | None = None, similarity: Kind = "cosine",
    seed: int = 0, threads: int | None = None, progress: Progress | None = None,
) -> Study:  # fmt: skip
    """Fit on random parts of the bank, several of each size, and tell the mean and the spread over them.

    methods: by default `is` at the spread of the similarities, and `nnn:k=32,alpha=0.5`; a k over a size is cut to it.
    bank_items: all of them stay at every size, since it is the bank of queries that is studied. exclude: items that are
    not ranked for single queries, as `evaluate` takes it.
    """
    gallery = as_vectors(items, "items")
    judge = Judge.of(queries, relevance, measure, similarity, seed, threads, exclude, gallery)
    past = as_vectors(bank, "bank")
    check_whole(seeds, "seeds", 1)
    specs = list(methods or usual_methods(gallery, past, similarity=similarity, seed=seed, threads=threads))
    targets = second_bank(specs, bank_items)
    tried = whole_numbers(_usual_sizes(len(past)) if sizes is None else sizes, "sizes", len(past), "bank")
    draws = {size: 1 if size == len(past) else seeds for size in tried}
    steps = Steps(progress, sum(draws.values()) + 1)
    fitted: dict[str, Correction] = {}
    generator = np.random.default_rng(seed)
    for size in tried:
        for draw in range(draws[size]):
            part = past.gather(random_positions(len(past), size, generator))
            fitting = {spec: within(parse(spec), size).spec for spec in specs}
            corrections = judge.fit(gallery, part, list(fitting.values()), steps.next(), targets)
            fitted |= {f"{spec} {size} {draw}": corrections[fitting[spec]] for spec in specs}
    values = judge(gallery, fitted, steps.next())
    lines = {
        spec: tuple(_over_draws([values[f"{spec} {size} {draw}"].value for draw in range(draws[size])])
                    for size in tried) for spec in specs
    }  # fmt: skip
    once = ("The whole bank was fitted once, so it has no spread.",) if len(past) in tried else ()
    return Study(
        "bank-size", f"Bank size: {judge.name} as the bank grows", "bank queries", tried, judge.name, judge.falls,
        lines, values[RAW], f"one standard deviation on each side of the mean of {seeds} random banks", chooses=False,
        log=True, notes=(*once, *judge.notes(gallery)),
    )  # fmt: skip


def study_bank_source(
    items: VectorsLike, banks: Mapping[str, VectorsLike], queries: VectorsLike,
    relevance: RelevanceLike | None = None, *, bank_items: VectorsLike | None = None,
    methods: Sequence[str] | None = None, measure: str | None = None, exclude: ExcludeLike | None = None,
    similarity: Kind = "cosine", seed: int = 0, threads: int | None = None, progress: Progress | None = None,
) -> Study:  # fmt: skip
    """Fit on each of several banks, given by name, and compare what they bring to the same queries.

    methods: by default `is` at the spread of the similarities of each bank, and `nnn:k=32,alpha=0.5`.
    bank_items: the same ones beside every bank. exclude: as `evaluate` takes it.
    """
    gallery = as_vectors(items, "items")
    judge = Judge.of(queries, relevance, measure, similarity, seed, threads, exclude, gallery)
    if not banks:
        raise ValueError("banks is empty; give at least one bank by name, for example {'captions': bank}")
    steps = Steps(progress, len(banks) + 1)
    fitted: dict[str, Correction] = {}
    for name, bank in banks.items():
        past = as_vectors(bank, f"bank {name!r}")
        specs = list(methods or usual_methods(gallery, past, similarity=similarity, seed=seed, threads=threads))
        labels = methods or ("is", "nnn")
        targets = second_bank(specs, bank_items)
        corrections = judge.fit(gallery, past, specs, steps.next(), targets)
        fitted |= {f"{label} {name}": corrections[spec] for label, spec in zip(labels, specs, strict=True)}
    values = judge(gallery, fitted, steps.next())
    lines = {label: tuple(values[f"{label} {name}"] for name in banks) for label in methods or ("is", "nnn")}
    sizes = (f"{name}: {len(as_vectors(bank, name)):,} queries." for name, bank in banks.items())
    return Study(
        "bank-source", f"Bank source: {judge.name} with each bank", "bank", tuple(banks), judge.name, judge.falls,
        lines, values[RAW], OVER_QUERIES, chooses=True, form="bars",
        notes=(*sizes, *judge.notes(gallery)),
    )  # fmt: skip


def study_growth(
    items: VectorsLike, bank: VectorsLike, queries: VectorsLike, relevance: RelevanceLike | None = None, *,
    bank_items: VectorsLike | None = None, methods: Sequence[str] | None = None, sizes: Iterable[int] | None = None,
    measure: str | None = None, exclude: ExcludeLike | None = None, similarity: Kind = "cosine", seed: int = 0,
    threads: int | None = None, progress: Progress | None = None,
) -> Study:  # fmt: skip
    """Let the gallery grow in random order, refit at each size, and follow the raw and the corrected rankings.

    With labels, items that answer a query come first, and the queries are at every size those that the smallest gallery
    answers, so that only the number of other items changes. bank_items: the same ones beside every gallery.
    exclude: as `evaluate` takes it.
    """
    gallery, past = as_vectors(items, "items"), as_vectors(bank, "bank")
    judge = Judge.of(queries, relevance, measure, similarity, seed, threads, exclude, gallery)
    specs = list(methods or usual_methods(gallery, past, similarity=similarity, seed=seed, threads=threads))
    targets = second_bank(specs, bank_items)
    shares = [max(1, round(share * len(gallery))) for share in GALLERY_SHARES]
    tried = tuple(sorted(whole_numbers(shares if sizes is None else sizes, "sizes", len(gallery), "gallery")))
    order = np.random.default_rng(seed).permutation(len(gallery))
    order = order[np.argsort(~np.isin(order, judge.answers(gallery)), kind="stable")]
    steps = Steps(progress, 2 * len(tried))
    followed = judge.answered_by(gallery.gather(np.sort(order[: tried[0]])))
    lines: dict[str, list[Interval]] = {RAW: [], **{spec: [] for spec in specs}}
    for size in tried:
        part = gallery.gather(np.sort(order[:size]))
        values = followed(part, judge.fit(part, past, specs, steps.next(), targets), steps.next())
        for name, line in lines.items():
            line.append(values[name])
    return Study(
        "growth", f"Gallery growth: {judge.name} as items are added", "items", tried, judge.name, judge.falls,
        {name: tuple(line) for name, line in lines.items()}, None, OVER_QUERIES, chooses=False, log=True,
        notes=(f"{len(followed.queries):,} queries at every size.", *followed.notes(gallery)),
    )  # fmt: skip


def _usual_sizes(bank: int) -> tuple[int, ...]:
    """Return sizes in steps of about three, up to the whole bank."""
    steps = [round(SMALLEST_BANK * 10 ** (step / 2)) for step in range(16)]
    return (*(size for size in steps if size <= 0.7 * bank), bank)


def _over_draws(values: Sequence[float]) -> Interval:
    mean, apart = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Interval(mean, mean - apart, mean + apart)
