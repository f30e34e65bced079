"""Study of occurrences: how many items are returned never, once, twice, and so on, raw and with several methods."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Kind
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Resources
from unhub.data.vectors import VectorsLike
from unhub.errors import check_whole
from unhub.evaluation.confidence import Interval
from unhub.evaluation.excluding import ExcludeLike
from unhub.evaluation.hubness import figures_of
from unhub.studies.study import Study
from unhub.studies.study_inputs import StudyInputs, check_bank_items, full_specs


@shows_progress
def study_occurrences(
    items: VectorsLike,
    bank: VectorsLike,
    queries: VectorsLike,
    *,
    bank_items: VectorsLike | None = None,
    methods: Sequence[str] | None = None,
    k: int = 10,
    exclude: ExcludeLike | None = None,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Study:
    """Count how often each item is among the k best of a query, and show the share of items with each count.

    Counts above two are grouped, each group up to twice the one before. methods: by default `is` at the spread of the
    similarities, and `nnn:k=32,alpha=0.5`. bank_items, exclude: as in the other studies.
    """
    progress = called(progress)
    resources = Resources(threads, progress=progress)
    inputs = StudyInputs(items, queries, None, None, exclude, similarity, seed, resources)
    gallery, judge, past = inputs.gallery, inputs.judge, inputs.checked_bank(bank)
    check_whole(k, "k", 1)
    specs = list(methods or inputs.usual_methods(past))
    targets = check_bank_items(specs, bank_items)
    steps = inputs.steps(2)
    fitted = judge.fit(gallery, past, specs, steps.next(), targets)
    counts = judge.counts(gallery, fitted, k, steps.next())
    groups = {name: group_of(one) for name, one in counts.items()}
    names = group_names(max(int(one.max()) for one in groups.values()))
    shares = {name: 100 * np.bincount(one, minlength=len(names)) / len(gallery) for name, one in groups.items()}
    return Study(
        "occurrences",
        f"How often items are among the first {k}",
        f"times among the first {k}",
        tuple(names),
        "share of items (%)",
        False,
        {name: tuple(Interval(float(one), -inf, inf) for one in share) for name, share in shares.items()},
        None,
        "",
        chooses=False,
        form="bars",
        notes=(*(f"{name}: {_words(one)}." for name, one in counts.items()), *judge.notes(gallery)),
        specs=full_specs(specs),
    )


def group_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the group of each count: 0 for none, 1 for one, 2 for two, 3 for three and four, ..."""
    above = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64) + 1
    return np.where(counts == 0, 0, above)


def group_names(last: int) -> list[str]:
    """Return the counts of each group in words, up to the group of this number."""
    wide = [f"{2 ** (number - 2) + 1:,} to {2 ** (number - 1):,}" for number in range(3, last + 1)]
    return ["never", "1", "2", *wide][: max(last, 1) + 1]


def _words(counts: NDArray[np.int64]) -> str:
    found = figures_of(counts)
    never = f"{found.anti_hubs:.1%} of the items never"
    return f"skewness {found.skewness:.2f}, the worst hub {found.largest:,} times, {never}"
