"""Tune: try the settings worth trying and choose one, with or without labels, or none if no gain is certain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Kind, are_among, distinct, random_positions
from unhub.banks.judging import FEWEST_QUERIES, judge_bank
from unhub.banks.known_queries import with_known_queries
from unhub.banks.repeats import equal_rows
from unhub.banks.traffic import once, recur
from unhub.compute.machines import on_machines
from unhub.compute.progress import Clock, OutOfTime, ProgressLike, called, seconds_of, shows_progress
from unhub.data.copies import Copies
from unhub.data.fingerprint import are_repeating, inspect
from unhub.data.ragged import starts_of
from unhub.data.relevance import RelevanceLike, as_relevance
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors, VectorsLike
from unhub.errors import ArgumentError, check_seed
from unhub.evaluation.confidence import summaries
from unhub.evaluation.excluding import NOBODY, ExcludeLike, Exclusion, LeftOut
from unhub.evaluation.inputs import RAW
from unhub.evaluation.measures import Measure, parse_measure
from unhub.evaluation.placing import raw_ranking
from unhub.matching import Matched
from unhub.methods import Method, parse
from unhub.tuning.candidates import FittingSets, count_steps, fit_whole
from unhub.tuning.grid import ITEMS_SEEN, DataScale, candidates, name_methods, within
from unhub.tuning.labelled import FEWEST_GROUPS, choose, gains
from unhub.tuning.large import CONFIRMING_QUERIES, GallerySample, confirmation, sample
from unhub.tuning.outcome import Tuning
from unhub.tuning.popularity import FEWEST_COMPARED, MOST_COMPARED, Demand, Repeats, cosine_of_means, demand, repeats
from unhub.tuning.reasons import TRANSPORT, by_labels, by_transport, too_short
from unhub.tuning.recurring import halves, held_out, joined_note, with_repeats_joined
from unhub.tuning.sight import temperatures
from unhub.tuning.spread import spread
from unhub.tuning.trials import Round, TrialQueries, Trials, compare, specs_of, try_all
from unhub.tuning.unlabelled import Fall, objection

# Finding queries in the bank, judging the bank, ranking by raw twice, fitting the chosen setting, the final check.
STEPS_BESIDES_TRIALS = 8
STEPS_TO_CONFIRM = 3  # fitting raw and the chosen setting on the whole, and perhaps on half of the bank
MOST_ITEMS = 100_000  # with more, settings are compared on a sample: see `large`
MOST_TRIAL_QUERIES = 20_000  # bank queries, or queries, that settings are compared on without labels
# Of the mean bank query and the mean item, from which on the items may stand in for queries. Two modalities lie apart:
# 0 to 0.2 in CLIP's spaces; texts of two kinds by one encoder have 0.66 to 0.95, pictures and pictures 0.97. Below it a
# bank from elsewhere is not noticed without queries; above it a good bank may be refused.
SAME_KIND_COSINE = 0.95


@shows_progress
@on_machines
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
    exclude: ExcludeLike | None = None,
    time: float | str | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    device: str | None = None,
    precision: str | None = None,
    on: str | None = None,
    progress: ProgressLike = None,
) -> Tuning:
    """Try many methods and settings on a bank and return the one to use, or `raw` if no gain is certain.

    With queries and relevance, it is the best by the measure; the gain is measured on queries that had no part in the
    choice. Without relevance, it is the setting with the lowest transport cost for the queries, or, without queries,
    for bank queries that it was not fitted on.
    methods: "all", or names, each tried over its grid, or specs such as `nnn:k=32,alpha=0.5`, tried as they are.
    exclude: items that are not ranked for a query: "self", the item with its own id, or an entry for each query.
    time: seconds, or a text such as "10m"; settings that do not fit into it are left out and listed.
    device, precision, on: where and how to multiply, as in `fit`; settings are compared in fp32.
    """
    progress = called(progress)
    given: dict[str, object] = {"items": items, "bank": bank, "queries": queries}
    for name, value in given.items():
        if isinstance(value, Dense):
            raise ArgumentError(name, "must be vectors, got a matrix of similarities", "give the vectors themselves")
    if relevance is not None and queries is None:
        raise ArgumentError("queries", "must be given with relevance, which says what answers each of them")
    check_seed(seed)
    named, by = name_methods(methods, bank_items is not None), parse_measure(measure)
    clock = Clock(seconds_of(time), progress, threads, memory, device, precision)
    plain = Matched.of(bank, items, queries, similarity, threads, bank_items)
    joined, notes = with_repeats_joined(plain), [*plain.notes]
    # The temperatures change with the data, not their number.
    scale = DataScale(1.0, len(joined.bank), len(cast("Vectors", joined.items)), True, tuple(map(float, ITEMS_SEEN)))
    tried = candidates(named, scale)
    clock.plan(STEPS_BESIDES_TRIALS + 2 * count_steps(tried) + STEPS_TO_CONFIRM)  # at most
    matched = whole = with_known_queries(joined, threads, clock.watch(limited=False))
    rounds = 2 if queries is None or (whole.leaked > 0 and recur(whole)) else 1
    excluded = _exclusion(matched, exclude)
    part = None if excluded is not None or scale.items <= MOST_ITEMS else _sample(whole, relevance, tried, seed)
    clock.plan(STEPS_BESIDES_TRIALS + rounds * count_steps(tried) + (0 if part is None else STEPS_TO_CONFIRM))
    clock.watch()  # the queries are known
    if part is not None:
        matched = part.matched
        notes.append(part.note)
    sets = _sets(matched, 1.0 if part is None else part.growth)
    if relevance is None or matched.queries is None:
        tuning = _without_labels(matched, sets, excluded, named, seed, clock, notes)
    else:
        labelled = _labelled(matched, sets, relevance, by, excluded, seed, notes)
        tuning = _with_labels(sets, labelled, named, by, seed, clock)
        few = len(np.unique(labelled.groups)) < FEWEST_GROUPS
        if few and not tuning.out_of_time and any(parse(one).kind == "bias" for one in named):
            notes.append(f"{FEWEST_GROUPS} labelled items are needed to choose by labels; the choice was made without.")
            free = _without_labels(matched, sets, excluded, named, seed, clock, notes)
            tuning = dataclasses.replace(tuning, best=free.best, reason=free.reason)
    if joined is not plain and tuning.table:
        notes.append(joined_note(plain, joined))
    if part is not None:
        tuning = _confirmed(tuning, whole, part, relevance, by, seed, clock)
    clock.finish()
    return dataclasses.replace(tuning, notes=tuple(dict.fromkeys(notes)))


def _sets(matched: Matched, growth: float = 1.0) -> FittingSets:
    """Return the items and banks to fit on."""
    gallery = cast("Vectors", matched.items)
    copies = Copies.among(gallery, matched.hashes["items"])
    return FittingSets(gallery, matched.bank, matched.bank_items, matched.kind, copies, growth)


def _sample(whole: Matched, relevance: RelevanceLike | None, methods: Sequence[Method], seed: int) -> GallerySample:
    """Return a sample to choose on."""
    truth = None
    if relevance is not None and whole.queries is not None:
        truth = as_relevance(relevance).against(whole.queries.ids, cast("Vectors", whole.items).ids)
    counts = [getattr(method, method.bank_count) or 0 for method in methods if method.bank_count]
    return sample(whole, truth, 2 * max(counts, default=0), seed)


def _confirmed(
    tuning: Tuning,
    whole: Matched,
    part: GallerySample,
    relevance: RelevanceLike | None,
    measure: Measure,
    seed: int,
    clock: Clock,
) -> Tuning:
    """Return the setting that a sample chose, fitted on the whole, if the gain is certain there too; else raw."""
    sets, winner = _sets(whole), cast("Method", tuning.best.method)
    raw = fit_whole(parse(RAW), sets, clock, limited=False)
    if winner.name == RAW:
        return dataclasses.replace(tuning, best=raw, seconds=clock.seconds)
    best = None
    if part.confirming is None:
        # Half of the bank judges a fit on the other half.
        fitting, judging = halves(whole.hashes["bank"], seed)
        judging = judging[random_positions(len(judging), min(len(judging), CONFIRMING_QUERIES), seed)]
        half = dataclasses.replace(sets, bank=sets.bank.gather(fitting))
        judges = TrialQueries.without_labels(sets.bank.gather(judging))
        fitted = fit_whole(within(winner, len(fitting)), half, clock, limited=False)
    else:
        asking = whole.only({"queries": part.confirming})
        (one, *_) = _judged_by_queries(asking, sets, None, seed, [])
        if relevance is not None:
            answered = _labelled(asking, sets, relevance, measure, None, seed, [])
            one = answered.rounds[0] if len(np.unique(answered.groups)) >= FEWEST_GROUPS else one
        judges = one.judges
        fitted = fit_whole(within(winner, len(one.sets.bank)), one.sets, clock, limited=False)
        best = fitted if one.sets is sets else None
    trials = compare(fitted, Round(sets, judges), clock)
    labelled = judges.measure is not None
    if labelled:
        (change,) = gains(trials.values, measure, judges.truth.groups, seed)
        sure = change.high < 0 if measure.family.falls else change.low > 0
    else:
        fall = _fall(trials, 1)
        change, sure = fall.change, fall.sure
    by = str(measure) if labelled else None
    reason = confirmation(change, sure, winner.spec, tuning.reason, len(sets.items), by, part.apart)
    if not sure:
        best = raw
    elif best is None:
        best = fit_whole(winner, sets, clock, limited=False)
    gain = change if labelled else None
    if labelled and sure and not part.apart:
        gain = tuning.gain  # by the folds of the sample: on the whole, the queries that chose would flatter it
    return dataclasses.replace(tuning, best=best, reason=reason, gain=gain, seconds=clock.seconds)


def _exclusion(matched: Matched, exclude: ExcludeLike | None) -> Exclusion | None:
    """Return the items that a user wants left out for single queries."""
    if exclude is None:
        return None
    if matched.queries is None:
        raise ArgumentError("exclude", "leaves items out for queries, but there are none", "give queries too")
    return Exclusion.of(exclude, matched.queries.ids, cast("Vectors", matched.items).ids)


def _left_out(excluded: Exclusion | None, queries: Vectors, sets: FittingSets) -> LeftOut | None:
    return None if excluded is None else excluded.against(queries.ids, sets.items.ids)


def _own_items(asking: NDArray[np.uint64], items: NDArray[np.uint64]) -> LeftOut | None:
    """Return the items, by hash, that each query equals, copies too: a query says nothing by finding itself."""
    order = np.argsort(items, kind="stable")
    first = np.searchsorted(items, asking, sorter=order)
    counts = np.searchsorted(items, asking, side="right", sorter=order) - first
    if not counts.any():
        return None
    owners = np.repeat(np.arange(len(asking)), counts)
    within_group = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    return LeftOut(starts_of(owners, len(asking)), order[first[owners] + within_group], len(items))


def _unseen(matched: Matched, notes: list[str]) -> NDArray[np.int64]:
    """Return the queries that are not in the bank: a correction fitted on a query looks too good on it.

    Where queries recur, as in a log, all may judge: what is fitted for those in the bank leaves them out.
    """
    hashes = matched.hashes["queries"]
    fresh = np.flatnonzero(~are_among(hashes, matched.hashes["bank"]))
    if len(fresh) < len(hashes) and recur(matched):
        count = len(hashes) - len(fresh)
        notes.append(f"{count:,} of {len(hashes):,} queries are in the bank, as in a log: no fit on them judged them.")
        return np.arange(len(hashes))
    if len(fresh) == 0:
        raise ArgumentError("queries", "are all in the bank, so they cannot judge it", "give other queries, or none")
    if len(fresh) < len(hashes):
        notes.append(f"{len(hashes) - len(fresh):,} of {len(hashes):,} queries are in the bank and were left out.")
    return fresh


def _judging_queries(matched: Matched, seed: int, notes: list[str]) -> NDArray[np.int64]:
    """Return the positions of queries that judge without labels: each once, and at most MOST_TRIAL_QUERIES of them."""
    fresh = _unseen(matched, notes)
    each = fresh[once(matched.hashes["queries"][fresh])]
    if len(each) < len(fresh):
        notes.append(f"{len(fresh) - len(each):,} queries repeat another one and were left out.")
    if len(each) > MOST_TRIAL_QUERIES:
        notes.append(f"{MOST_TRIAL_QUERIES:,} of {len(each):,} queries, drawn at random, were used.")
        each = each[random_positions(len(each), MOST_TRIAL_QUERIES, seed)]
    return each


@dataclass(frozen=True, eq=False)
class _Labelled:
    """The rounds that labelled queries judge, and the group of each query of all rounds; see `Truth.groups`."""

    rounds: list[Round]
    groups: NDArray[np.int64]


def _labelled(
    matched: Matched,
    sets: FittingSets,
    relevance: RelevanceLike,
    measure: Measure,
    excluded: Exclusion | None,
    seed: int,
    notes: list[str],
) -> _Labelled:
    """Return what labelled queries judge; none of them judges a fit on itself."""
    queries = cast("Vectors", matched.queries)
    truth = as_relevance(relevance).against(queries.ids, sets.items.ids)
    left_out = _left_out(excluded, queries, sets)
    if left_out is not None:
        truth = left_out.without(truth)
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
    parts = held_out(sets, matched.hashes["bank"], matched.hashes["queries"], kept, seed)
    rounds = []
    for part, positions in parts:
        judges = queries.gather(positions)
        left_out = _left_out(excluded, judges, sets)
        rounds.append(Round(part, TrialQueries(judges, truth.gather(positions), measure, left_out)))
    return _Labelled(rounds, truth.gather(np.concatenate([positions for _, positions in parts])).groups)


def _with_labels(
    sets: FittingSets, judged: _Labelled, named: Sequence[str], measure: Measure, seed: int, clock: Clock
) -> Tuning:
    """Choose by the measure, or without labels if that does better; keep it only if the gain is certain."""
    rounds, groups = judged.rounds, judged.groups
    methods = _for_parts(candidates(named, _scale(sets, seed, clock)), sets, rounds, [])
    trials = try_all(methods, rounds, clock, refits=0.5 * len(rounds))
    if len(trials.tried) < 2:
        return _nothing_tried(sets, clock, str(measure), too_short(clock), trials.left_out)
    free = trials.least_transport()
    choice = choose(trials.values, measure, groups, seed, free if _fall(trials, free).sure else None)
    values = summaries(measure, trials.values)
    order = np.argsort(values if measure.family.falls else -values, kind="stable")
    winner = trials.tried[choice.winner].method
    best = fit_whole(winner if choice.sure else parse(RAW), sets, clock, limited=False)
    reason = by_labels(winner.spec, choice, measure, trials)
    table, left_out = trials.table(order, values), specs_of(trials.left_out)
    return Tuning(best, table, reason, str(measure), choice.gain, len(groups), left_out, clock.seconds)


def _without_labels(
    matched: Matched,
    sets: FittingSets,
    excluded: Exclusion | None,
    named: Sequence[str],
    seed: int,
    clock: Clock,
    notes: list[str],
) -> Tuning:
    """Choose by the transport cost for the queries, or for bank queries that a setting was not fitted on."""
    named, by_queries = _biases(named, notes), matched.queries is not None
    methods = candidates(named, _scale(sets, seed, clock))
    if not by_queries:
        try:
            against = _bank_objection(sets, seed, clock)
        except OutOfTime:
            return _nothing_tried(sets, clock, TRANSPORT, too_short(clock), methods)
        if against is not None:
            return _nothing_tried(sets, clock, TRANSPORT, against)
    if by_queries:
        rounds = _judged_by_queries(matched, sets, excluded, seed, notes)
    else:
        rounds = _crossed_halves(sets, matched.hashes["bank"], seed)
    methods = _for_parts(methods, sets, rounds, notes)
    try:
        repeated = _repeats(matched, sets, excluded, seed, clock)
        demanded = _demand(matched, sets, excluded, seed, clock)
        # The chosen setting is fitted again on the whole bank, and perhaps tried again, by the bank or the items.
        trials = try_all(methods, rounds, clock, refits=1.0 + 0.5 * len(rounds))
    except OutOfTime:
        trials = Trials([], methods)
    if len(trials.tried) < 2:
        return _nothing_tried(sets, clock, TRANSPORT, too_short(clock), trials.left_out)
    order = np.argsort(np.array([one.transport for one in trials.tried], np.float64), kind="stable")
    row = trials.least_transport()
    winner = trials.tried[row].method
    fall = dataclasses.replace(_fall(trials, row), repeats=repeated, demand=demanded)
    if not by_queries and fall.worthwhile:
        fall = dataclasses.replace(fall, stand_ins=_fall_of_items(winner, matched, sets, seed, clock))
    elif by_queries and row and not fall.sure and fall.queries >= FEWEST_QUERIES:
        fall = dataclasses.replace(fall, bank=_fall_of_bank(winner, sets, matched.hashes["bank"], seed, clock))
    best = fit_whole(winner if fall.worthwhile else parse(RAW), sets, clock, limited=False)
    reason = by_transport(winner.spec, fall, trials, by_queries)
    judges = sum(len(one.judges.queries) for one in rounds)
    return Tuning(best, trials.table(order), reason, TRANSPORT, None, judges, specs_of(trials.left_out), clock.seconds)


def _judged_by_queries(
    matched: Matched, sets: FittingSets, excluded: Exclusion | None, seed: int, notes: list[str]
) -> list[Round]:
    """Return what queries judge without labels; one that is an item does not find itself."""
    every, asking = _judging_queries(matched, seed, notes), matched.hashes["queries"]
    rounds, items = [], 0
    for part, positions in held_out(sets, matched.hashes["bank"], asking, every, seed):
        queries = cast("Vectors", matched.queries).gather(positions)
        left_out = _own(matched, positions, queries, sets, excluded)
        if excluded is None and left_out is not None:
            items += int(np.count_nonzero(left_out.counts))
        rounds.append(Round(part, TrialQueries.without_labels(queries, left_out)))
    if items:
        notes.append(f"{items:,} of {len(every):,} queries are items, which were left out of their own rankings.")
    return rounds


def _biases(named: Sequence[str], notes: list[str]) -> list[str]:
    """Return the methods that are one number per item; the others can only be compared with labels."""
    kept = []
    for one in named:
        method = parse(one)
        if method.kind == "bias":
            kept.append(one)
        else:
            notes.append(f"{method.name!r} is not one number per item and can only be compared with labels.")
    if not kept:
        remedy = "give relevance with the queries, or name another method"
        raise ArgumentError("methods", f"has only {named[0]!r}, which can only be compared with labels", remedy)
    return kept


def _bank_objection(sets: FittingSets, seed: int, clock: Clock) -> str | None:
    """Return why no correction should be fitted on this bank, if only its own queries can judge it."""
    report = judge_bank(
        sets.items,
        sets.bank,
        similarity=sets.kind,
        distances=False,
        seed=seed,
        threads=clock.threads,
        progress=clock.watch(),
    )
    return objection(report)


def _crossed_halves(sets: FittingSets, hashes: NDArray[np.uint64], seed: int) -> list[Round]:
    """Return two rounds: each half of the bank is fitted on and judged by the other."""
    parts = halves(hashes, seed)
    return [
        Round(
            dataclasses.replace(sets, bank=sets.bank.gather(fitting)),
            TrialQueries.without_labels(sets.bank.gather(_each_once(judging, hashes, seed))),
        )
        for fitting, judging in (parts, parts[::-1])
    ]


def _each_once(positions: NDArray[np.int64], hashes: NDArray[np.uint64], seed: int) -> NDArray[np.int64]:
    """Return the positions of different queries, at most half of MOST_TRIAL_QUERIES."""
    each = positions[once(hashes[positions])]
    return each[random_positions(len(each), min(len(each), MOST_TRIAL_QUERIES // 2), seed)]


def _for_parts(methods: list[Method], sets: FittingSets, rounds: Sequence[Round], notes: list[str]) -> list[Method]:
    """Check methods against the whole bank, and return them as they can be tried on the parts that are fitted on."""
    least = min(len(one.sets.bank) for one in rounds)
    if least == len(sets.bank):
        return methods
    for method in methods:
        method.resolve(sets.similarities)
    tried = [within(method, least) for method in methods]
    cut = [(one, other) for one, other in zip(methods, tried, strict=True) if one != other]
    if cut:
        what = f"{cut[0][0].spec} was" if len(cut) == 1 else f"{len(cut)} settings with k over {least} were"
        how = cut[0][1].spec if len(cut) == 1 else f"k={least}"
        notes.append(f"{what} tried as {how}, since settings are compared on part of the bank.")
    return list(dict.fromkeys(tried))


def _repeats(
    matched: Matched, sets: FittingSets, excluded: Exclusion | None, seed: int, clock: Clock
) -> Repeats | None:
    """Return how many queries ask for the same as another; without queries, of the bank.

    Of a log, distinct queries count: what was asked again in the same words is one query, in its joined bank too.
    """
    name = "bank" if matched.queries is None else "queries"
    asking, hashes = sets.bank if matched.queries is None else matched.queries, matched.hashes[name]
    counted = once(hashes) if are_repeating(hashes) else np.arange(len(hashes))
    count = min(len(counted), len(sets.items), MOST_COMPARED)
    if count < FEWEST_COMPARED:
        return None
    positions = counted[random_positions(len(counted), count, seed)]
    some = asking.gather(positions)
    firsts = _first_items(some, _own(matched, positions, some, sets, excluded), sets, clock)
    found = np.flatnonzero(firsts != NOBODY)
    if len(found) < FEWEST_COMPARED:
        return None
    return repeats(some.gather(found), firsts[found], len(sets.items), sets.kind)


def _demand(matched: Matched, sets: FittingSets, excluded: Exclusion | None, seed: int, clock: Clock) -> Demand | None:
    """Return whether popular queries ask for popular items: by the weights of the bank, or in queries of a log."""
    asked = matched.counts if sets.bank.weights is None else sets.bank.weights
    if asked is not None and np.ptp(asked) > 0:
        positions = random_positions(len(sets.bank), min(len(sets.bank), MOST_COMPARED), seed)
        some, left_out = sets.bank.gather(positions), None
        counts = asked[positions]
    elif matched.queries is not None and are_repeating(matched.hashes["queries"]):
        groups = equal_rows(matched.hashes["queries"])
        drawn = random_positions(len(groups.firsts), min(len(groups.firsts), MOST_COMPARED), seed)
        positions, counts = groups.firsts[drawn], groups.counts[drawn]
        some = matched.queries.gather(positions)
        left_out = _own(matched, positions, some, sets, excluded)
    else:
        return None
    firsts = _first_items(some, left_out, sets, clock)
    found = firsts != NOBODY
    return demand(firsts[found], counts[found])


def _own(
    matched: Matched, positions: NDArray[np.int64], some: Vectors, sets: FittingSets, excluded: Exclusion | None
) -> LeftOut | None:
    """Return the items that are not ranked for the queries at these positions; none for bank queries."""
    if matched.queries is None:
        return None
    if excluded is not None:
        return _left_out(excluded, some, sets)
    # By its own numbers: a query that is known as a bank query has the hash of that.
    return _own_items(inspect(some, "queries", sets.kind).hashes, matched.hashes["items"])


def _first_items(asking: Vectors, left_out: LeftOut | None, sets: FittingSets, clock: Clock) -> NDArray[np.int32]:
    """Return the item that each query reaches first by raw, or NOBODY."""
    (raw,) = TrialQueries.without_labels(asking, left_out).place([raw_ranking(len(sets.items))], sets, clock)
    return raw.best[:, 0]


def _fall_of_bank(
    method: Method, sets: FittingSets, hashes: NDArray[np.uint64], seed: int, clock: Clock
) -> Fall | None:
    """Return the fall that bank queries see by a method that was fitted on the others; None if they are too few."""
    if len(distinct(hashes)) < FEWEST_QUERIES:
        return None
    rounds = _crossed_halves(sets, hashes, seed)
    return _fall_of_one(within(method, min(len(one.sets.bank) for one in rounds)), rounds, clock)


def _fall_of_items(method: Method, matched: Matched, sets: FittingSets, seed: int, clock: Clock) -> Fall | None:
    """Return the fall that the items see as queries, each left out of its own ranking, by a method fitted on the bank.

    None if the bank is not of the items' kind: a picture cannot stand in for a text. If it is, as in a search for
    pictures like a picture, the items are such queries themselves, and a bank from elsewhere shows.
    """
    if cosine_of_means(sets.items, sets.bank, sets.kind) < SAME_KIND_COSINE:
        return None
    positions = random_positions(len(sets.items), min(len(sets.items), MOST_COMPARED), seed)
    hashes = matched.hashes["items"]
    judges = TrialQueries.without_labels(sets.items.gather(positions), _own_items(hashes[positions], hashes))
    return _fall_of_one(method, [Round(sets, judges)], clock)


def _fall_of_one(method: Method, rounds: Sequence[Round], clock: Clock) -> Fall:
    """Return the fall from raw to one method, without a limit of time."""
    trials = try_all([method], rounds, clock.without_limit(), refits=0.0)
    return _fall(trials, len(trials.tried) - 1)


def _fall(trials: Trials, row: int) -> Fall:
    raw, chosen = trials.tried[0].costs, trials.tried[row].costs
    return Fall.between(cast("Float64", raw), cast("Float64", chosen))


def _scale(sets: FittingSets, seed: int, clock: Clock) -> DataScale:
    threads, device = clock.threads, clock.ranking_kernel
    apart = spread(sets.items, sets.bank, similarity=sets.kind, seed=seed, threads=threads, device=device)
    seen = temperatures(sets.items, sets.bank, ITEMS_SEEN, sets.kind, seed, threads, device)
    return DataScale(apart, len(sets.bank), len(sets.items), sets.bank_items is not None, tuple(seen))


def _nothing_tried(
    sets: FittingSets, clock: Clock, measure: str, reason: str, left_out: Sequence[Method] = ()
) -> Tuning:
    """Return raw, with the reason why nothing was tried."""
    best = fit_whole(parse(RAW), sets, clock, limited=False)
    return Tuning(best, (), reason, measure, None, 0, specs_of(left_out), clock.seconds)
