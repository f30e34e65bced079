"""Tune: try the settings worth trying and choose one, with or without labels, or none if no gain is certain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Kind, random_positions
from unhub.banks.judging import judge_bank
from unhub.compute.progress import Clock, OutOfTime, seconds_of
from unhub.compute.workers import Progress
from unhub.correction import Correction
from unhub.data.copies import Copies
from unhub.data.relevance import RelevanceLike, as_relevance
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors, VectorsLike
from unhub.errors import ArgumentError, check_seed
from unhub.evaluation.confidence import summaries
from unhub.evaluation.inputs import RAW
from unhub.evaluation.measures import Measure, parse_measure
from unhub.evaluation.placing import as_ranking, raw_ranking
from unhub.matching import Matched
from unhub.methods import Method, parse
from unhub.tuning.candidates import FittingSets, count_steps, fit_whole
from unhub.tuning.grid import DataScale, candidates, name_methods, within
from unhub.tuning.labelled import choose
from unhub.tuning.outcome import Tuning
from unhub.tuning.popularity import alikeness
from unhub.tuning.reasons import UNEVENNESS, by_hubness, by_labels, too_short
from unhub.tuning.spread import spread
from unhub.tuning.trials import TrialQueries, gated, specs_of, try_all, without_gate
from unhub.tuning.unlabelled import HubnessChange, change, least_drop, most_even, objection

STEPS_BESIDES_TRIALS = 6  # judging the bank, ranking by raw, fitting the chosen setting, the final check
MOST_TRIAL_QUERIES = 20_000  # bank queries, and queries, that settings are compared on without labels


def tune(
    items: VectorsLike,
    bank: VectorsLike,
    queries: VectorsLike | None = None,
    relevance: RelevanceLike | None = None,
    *,
    bank_items: VectorsLike | None = None,
    methods: str | Sequence[str] = "all",
    measure: str | Measure = "R@1",
    similarity: Kind = "cosine",
    time: float | str | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Try many methods and settings on a bank and return the one to use, or `raw` if no gain is certain.

    With queries and relevance, it is the best by the measure; the gain is measured on queries that had no part in the
    choice. Without relevance, it is the setting that returns the items most evenly to bank queries it was not fitted
    on; queries without labels then show whether the bank suits them.
    methods: "all", or names, each tried over its grid, or specs such as `nnn:k=32,alpha=0.5`, tried as they are.
    time: seconds, or a text such as "10m"; settings that do not fit into it are left out and listed.
    """
    given: dict[str, object] = {"items": items, "bank": bank, "queries": queries}
    for name, value in given.items():
        if isinstance(value, Dense):
            raise ArgumentError(name, "must be vectors, got a matrix of similarities", "give the vectors themselves")
    if relevance is not None and queries is None:
        raise ArgumentError("queries", "must be given with relevance, which says what answers each of them")
    check_seed(seed)
    named, by = name_methods(methods, bank_items is not None), parse_measure(measure)
    clock = Clock(seconds_of(time), progress, threads, memory)
    matched = Matched.of(bank, items, queries, similarity, threads, bank_items)
    sets = _sets(matched)
    notes = [*matched.notes]
    scale = DataScale(
        1.0, len(sets.bank), len(sets.items), True
    )  # the spread changes the temperatures, not their number
    clock.plan(STEPS_BESIDES_TRIALS + count_steps(candidates(named, scale)))
    if relevance is None or matched.queries is None:
        tuning = _without_labels(sets, _asked(matched, seed, notes), named, seed, clock, notes)
    else:
        judged = _labelled_queries(matched, sets, relevance, by, notes)
        tuning = _with_labels(sets, judged, named, by, seed, clock)
    clock.finish()
    return dataclasses.replace(tuning, notes=tuple(notes))


def _sets(matched: Matched) -> FittingSets:
    """Return the items and banks to fit on."""
    gallery = cast("Vectors", matched.items)
    copies = Copies.among(gallery, matched.hashes["items"])
    return FittingSets(gallery, matched.bank, matched.bank_items, matched.kind, copies)


def _unseen(matched: Matched, notes: list[str]) -> NDArray[np.int64]:
    """Return the queries that are not in the bank: a correction fitted on a query looks too good on it."""
    hashes = matched.hashes["queries"]
    fresh = np.flatnonzero(~np.isin(hashes, matched.hashes["bank"]))
    if len(fresh) == 0:
        raise ArgumentError("queries", "are all in the bank, so they cannot judge it", "give other queries, or none")
    if len(fresh) < len(hashes):
        notes.append(f"{len(hashes) - len(fresh):,} of {len(hashes):,} queries are in the bank and were left out.")
    return fresh


def _asked(matched: Matched, seed: int, notes: list[str]) -> Vectors | None:
    """Return the queries that judge the bank without labels: each once, and at most MOST_TRIAL_QUERIES of them.

    Repeated queries would make the bank look unlike them.
    """
    if matched.queries is None:
        return None
    fresh = _unseen(matched, notes)
    once = fresh[np.unique(matched.hashes["queries"][fresh], return_index=True)[1]]
    if len(once) < len(fresh):
        notes.append(f"{len(fresh) - len(once):,} queries repeat another one and were left out.")
    if len(once) > MOST_TRIAL_QUERIES:
        notes.append(f"{MOST_TRIAL_QUERIES:,} of {len(once):,} queries, drawn at random, were used.")
        once = np.sort(once)[random_positions(len(once), MOST_TRIAL_QUERIES, seed)]
    return matched.queries if len(once) == len(matched.queries) else matched.queries.gather(np.sort(once))


def _labelled_queries(
    matched: Matched, sets: FittingSets, relevance: RelevanceLike, measure: Measure, notes: list[str]
) -> TrialQueries:
    """Return the labelled queries that are not in the bank."""
    queries = cast("Vectors", matched.queries)
    truth = as_relevance(relevance).against(queries.ids, sets.items.ids)
    fresh = _unseen(matched, notes)
    kept = np.intersect1d(truth.answered, fresh)
    if len(kept) == 0:
        raise ArgumentError(
            "queries",
            "with labels are all in the bank, so they cannot judge it",
            "label other queries, or take these out of the bank",
        )
    if len(kept) < len(fresh):
        notes.append(f"{len(fresh) - len(kept):,} queries have no answer among the items and were left out.")
    return TrialQueries(queries.gather(kept), truth.gather(kept), measure)


def _with_labels(
    sets: FittingSets, judged: TrialQueries, named: Sequence[str], measure: Measure, seed: int, clock: Clock
) -> Tuning:
    """Choose by the measure; keep the choice only if the gain holds on queries that had no part in it."""
    trials = try_all(candidates(named, _scale(sets, seed, clock)), sets, judged, clock, refits=0.5)
    if len(trials.methods) < 2:
        return _nothing_tried(sets, clock, str(measure), too_short(clock), trials.left_out)
    groups = judged.truth.groups
    choice = choose(trials.values, measure, groups, seed)
    values = summaries(measure, trials.values)
    order = np.argsort(values if measure.family.falls else -values, kind="stable")
    winner = trials.methods[choice.winner]
    best = fit_whole(winner if choice.sure else parse(RAW), sets, clock, limited=False)
    reason = by_labels(winner.spec, choice, measure, int(groups.max()) + 1, trials)
    table, left_out = trials.table(order, values), specs_of(trials.left_out)
    return Tuning(best, table, reason, str(measure), choice.gain, len(judged.queries), left_out, clock.seconds)


def _without_labels(
    sets: FittingSets, queries: Vectors | None, named: Sequence[str], seed: int, clock: Clock, notes: list[str]
) -> Tuning:
    """Choose what returns the items most evenly, unless the bank is unfit or the queries see no fewer hubs."""
    fitting, judging = halves(len(sets.bank), seed)
    half = dataclasses.replace(sets, bank=sets.bank.gather(fitting))
    methods = _for_half(candidates(named, _scale(half, seed, clock)), sets, half, notes)
    began = clock.seconds
    try:
        report = judge_bank(
            sets.items,
            sets.bank,
            queries,
            similarity=sets.kind,
            distances=False,
            seed=seed,
            threads=clock.threads,
            progress=clock.watch(),
        )
    except OutOfTime:
        return _nothing_tried(sets, clock, UNEVENNESS, too_short(clock), methods)
    against = objection(report)
    if against is not None:
        return _nothing_tried(sets, clock, UNEVENNESS, against)
    looked = clock.seconds - began
    # Real queries judge what they would get, bank queries what was fitted on the other half.
    judged = TrialQueries.without_labels(sets.bank.gather(judging))
    last = judged if queries is None else TrialQueries.without_labels(queries)
    refits = 1.5 if queries is None else 1.0
    # Judging the bank ranked the items for as many queries, so the final check takes about as long.
    trials = try_all(methods, half, judged, clock, refits=refits, after=looked)
    if len(trials.methods) < 2:
        return _nothing_tried(sets, clock, UNEVENNESS, too_short(clock), trials.left_out)
    order = np.argsort([one.robin_hood for one in trials.figures], kind="stable")
    winner = trials.methods[most_even(trials.unevenness, trials.strengths)]
    best = fit_whole(winner, sets, clock, limited=False)
    shown = best if queries is not None else fit_whole(winner, half, clock, limited=False)
    seen = _seen(shown, last, sets, seed, clock)
    if not seen.worthwhile:
        best = fit_whole(parse(RAW), sets, clock, limited=False)
    reason = by_hubness(winner.spec, seen, trials, queries is not None)
    table, left_out = trials.table(order), specs_of(trials.left_out)
    return Tuning(best, table, reason, UNEVENNESS, None, len(judged.queries), left_out, clock.seconds)


def _for_half(methods: Sequence[Method], sets: FittingSets, half: FittingSets, notes: list[str]) -> list[Method]:
    """Check methods against the whole bank, and return them as they can be tried on half of it."""
    tried = []
    for method in methods:
        method.resolve(sets.similarities)
        tried.append(within(method, len(half.bank)))
        if tried[-1] != method:
            notes.append(f"{method.spec} was tried as {tried[-1].spec}, since settings are compared on half the bank.")
    return list(dict.fromkeys(tried))


def _seen(correction: Correction, judged: TrialQueries, sets: FittingSets, seed: int, clock: Clock) -> HubnessChange:
    """Return how much a correction changes the hubness that these queries see."""
    items, ranking = len(sets.items), as_ranking(correction)
    forms = [ranking, without_gate(ranking)] if gated(ranking) else [ranking]
    raw, *corrected = judged.place([raw_ranking(items), *forms], sets, clock, limited=False)
    changes = (change(raw.best, one.best, items, seed) for one in corrected)
    return HubnessChange(
        max(changes, key=lambda one: one.value),
        len(judged.queries),
        least_drop(raw.best.size, items),
        alikeness(judged.queries, raw.best[:, 0], items, sets.kind),
    )


def halves(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the bank queries to fit on and of those to judge by, at random, each in rising order."""
    order = np.random.default_rng(seed).permutation(count)
    middle = (count + 1) // 2
    return np.sort(order[:middle]), np.sort(order[middle:][:MOST_TRIAL_QUERIES])


def _scale(sets: FittingSets, seed: int, clock: Clock) -> DataScale:
    apart = spread(sets.items, sets.bank, similarity=sets.kind, seed=seed, threads=clock.threads)
    return DataScale(apart, len(sets.bank), len(sets.items), sets.bank_items is not None)


def _nothing_tried(
    sets: FittingSets, clock: Clock, measure: str, reason: str, left_out: Sequence[Method] = ()
) -> Tuning:
    """Return raw, with the reason why nothing was tried."""
    best = fit_whole(parse(RAW), sets, clock, limited=False)
    return Tuning(best, (), reason, measure, None, 0, specs_of(left_out), clock.seconds)
