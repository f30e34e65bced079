"""A/B tests: raw against corrected by what people clicked, with intervals, and whether the difference is certain."""

from __future__ import annotations

from collections.abc import Mapping
from math import erfc, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids, distinct
from unhub.correction import Correction
from unhub.data.query_log import QueryLog
from unhub.data.runs import Answers
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError, check_seed, check_whole, unknown
from unhub.evaluation.confidence import RESAMPLES, Interval
from unhub.evaluation.hubness import NUMBER_UNKNOWN, gallery_of
from unhub.evaluation.inputs import RAW
from unhub.files.log_frames import LogLike
from unhub.files.relevance_files import read_hits
from unhub.methods.method import as_number
from unhub.watching.ab_outcome import FEWEST_CLICKED, FEWEST_UNITS, ABTest, Arm
from unhub.watching.click_figures import CLICK_FIGURES, ratios_of
from unhub.watching.samples import WATCHED, sampled
from unhub.watching.trends import difference

UNEQUAL = 0.001  # a split that chance gives less often than this is not the intended one


def ab_test(
    hits: LogLike | QueryLog,
    *,
    items: VectorsLike | Ids | int | None = None,
    correction: Correction | None = None,
    baseline: str | None = None,
    split: Mapping[str, float] | None = None,
    k: int = 10,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ABTest:
    """Compare the variants of a log by clicks, coverage and hubness.

    hits: a log that says which variant answered each query and what was clicked, the path of one, or one as a
    table. items, correction: which items there are, as in `watch`, for coverage and hubness. baseline: the variant
    that the others are compared with; by default "raw", else the first by name. split: how the queries were meant
    to be split, as weights by variant; equally by default.

    Intervals are 95% bootstrap intervals over the users, where the log names the user of every query, else over the
    queries. Coverage and hubness are of different queries, in samples of one size.
    """
    check_seed(seed)
    k, resamples = check_whole(k, "k", 1), check_whole(resamples, "resamples", 1)
    log = hits if isinstance(hits, QueryLog) else read_hits(hits)
    gallery = gallery_of(items, correction)
    log, notes = _with_variant(log)
    assert log.variants is not None
    names = _names(log.variants, baseline)
    arms = [log.variants == name for name in names]
    units, by = _units(log)
    if by == "queries" and log.users is not None and (log.users != "").any():
        nobody = int((log.users == "").sum())
        notes.append(
            f"{nobody:,} of {len(log):,} queries name no user, so all count as independent. If variants were assigned "
            "by user, the intervals are too narrow: log every user, or leave these queries out."
        )
    alone = [len(np.unique(units[arm])) for arm in arms]
    crossing = sum(alone) > len(np.unique(units))
    values, differences = ratios_of(log).compared(arms, units, resamples, seed)
    shown = log.returned is not None and len(log.returned.ids) > 0
    returned = len(distinct(log.returned.ids)) if log.returned is not None else 0
    answers = _answers(log, arms, returned if gallery is None else gallery, k) if shown else []
    hubness, size = _hubness(answers, seed) if shown else ([], 0)
    found = []
    for at, (name, arm) in enumerate(zip(names, arms, strict=True)):
        figures = dict(zip(CLICK_FIGURES, values[at], strict=True)) | (hubness[at] if hubness else {})
        apart = dict(zip(CLICK_FIGURES, differences[at], strict=True))
        apart |= {figure: difference(hubness[at][figure], hubness[0][figure]) for figure in WATCHED} if hubness else {}
        clicked = log.gather(np.flatnonzero(arm)).clicked
        assert clicked is not None
        found.append(
            Arm(name, int(arm.sum()), alone[at], int((clicked.counts > 0).sum()), figures, apart if at else {})
        )
    counts = [int(arm.sum()) for arm in arms] if crossing else alone
    notes += _split_notes(names, counts, split, "queries" if crossing else by)
    if shown:
        notes += [f"{name}: {note}" for name, one in zip(names, answers, strict=True) for note in one.notes]
        notes += _length_notes(log, names, arms, answers[0].k if size else 0)
    if crossing and by == "users":
        notes.append("Some users met several variants; all their queries are drawn together.")
    if size and gallery is None:
        notes.append(NUMBER_UNKNOWN.format(items=returned))
    return ABTest(tuple(found), by, size, (*notes, *_few_notes(found, by)))


def _with_variant(log: QueryLog) -> tuple[QueryLog, list[str]]:
    """Return the queries that say which variant answered, and the notes so far."""
    if log.variants is None:
        raise ArgumentError("hits", "do not say which variant answered", "name its column: variant=NAME (--column)")
    told = log.variants != ""
    notes = [*log.notes]
    if not told.all():
        notes.append(f"{int((~told).sum()):,} queries name no variant; they are left out.")
        log = log.gather(np.flatnonzero(told))
    return log, notes


def _names(variants: NDArray[np.str_], baseline: str | None) -> list[str]:
    """Return the names of the variants, the baseline first."""
    names = sorted(set(variants.tolist()))
    if len(names) < 2:
        problem = f"have only the variant {names[0]!r}" if names else "have no variant"
        raise ArgumentError("hits", problem, "an A/B test needs two")
    if baseline is not None and baseline not in names:
        raise unknown("baseline", baseline, names, "variants")
    first = baseline or (RAW if RAW in names else names[0])
    return [first, *(name for name in names if name != first)]


def _units(log: QueryLog) -> tuple[NDArray[np.int64], str]:
    """Return which queries are drawn together, numbered from 0, and what they have in common."""
    if log.users is not None and (log.users != "").all():
        return np.unique(log.users, return_inverse=True)[1], "users"
    return np.arange(len(log)), "queries"


def _answers(log: QueryLog, arms: list[NDArray[np.bool_]], gallery: Ids | int, k: int) -> list[Answers]:
    """Return what each arm returned, cut to the places that all have: fewer places return fewer items."""
    found = [Answers.of(log.gather(np.flatnonzero(arm)), gallery, k) for arm in arms]
    places = min(one.k for one in found)
    if all(one.k == places for one in found):
        return found
    return [Answers.of(log.gather(np.flatnonzero(arm)), gallery, places) for arm in arms]


def _hubness(answers: list[Answers], seed: int) -> tuple[list[dict[str, Interval]], int]:
    """Return the watched figures of each arm in samples of one size, and the size; 0 if there are too few queries."""
    size = min(map(len, answers)) // 2
    if not size:
        return [], 0
    return [dict(sampled(one, (size,), seed=seed).sizes[size]) for one in answers], size


def _length_notes(log: QueryLog, names: list[str], arms: list[NDArray[np.bool_]], places: int) -> list[str]:
    """Say so if the variants returned lists of different length; places: how many the hubness is of, 0 without it."""
    assert log.returned is not None
    lengths = [int(log.returned.counts[arm].max()) for arm in arms]
    if len(set(lengths)) == 1:
        return []
    told = ", ".join(f"{length:,} in {name}" for name, length in zip(names, lengths, strict=True))
    hubness = f" Skewness, coverage and Robin Hood index are of the first {places:,}." if places else ""
    return [
        f"The longest lists have different lengths: {told}.{hubness} The figures of clicks are of whole lists: "
        "a longer one has more to click."
    ]


def _split_notes(names: list[str], counts: list[int], split: Mapping[str, float] | None, by: str) -> list[str]:
    """Warn where a variant has clearly more or fewer units than it should have."""
    wanted = _weights(names, split)
    notes = []
    for name, count, weight in list(zip(names, counts, wanted, strict=True))[1:]:
        both, share = count + counts[0], weight / (weight + wanted[0])
        deviation = (count - both * share) / sqrt(both * share * (1 - share))
        chance = erfc(abs(deviation) / sqrt(2))
        if chance < UNEQUAL:
            notes.append(
                f"WARNING: the split is not the intended one: {name} has {count:,} {by}, {names[0]} {counts[0]:,}, and "
                f"{share:.1%} of both were meant for {name} (p = {chance:.1g} by chance). Find out why before you "
                "believe any difference."
            )
    return notes


def _weights(names: list[str], split: Mapping[str, float] | None) -> list[float]:
    if split is None:
        return [1.0] * len(names)
    for name in split:
        if name not in names:
            raise unknown("split", name, names, "variants")
    weights = [as_number(split.get(name)) for name in names]
    for name, weight in zip(names, weights, strict=True):
        if weight is None or not (isfinite(weight) and weight > 0):
            raise ArgumentError("split", f"has {split.get(name)!r} for {name!r}", "give each variant a number over 0")
    return [weight for weight in weights if weight is not None]


def _few_notes(arms: list[Arm], by: str) -> list[str]:
    few = [one for one in arms if one.few]
    return [
        f"{one.name} has {one.units:,} {by} and {one.clicked:,} queries with a click: too few to be certain of "
        f"anything; {FEWEST_UNITS} and {FEWEST_CLICKED} are the least."
        for one in few
    ]
