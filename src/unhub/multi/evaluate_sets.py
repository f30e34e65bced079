"""Evaluate sets: how much several descriptions of one target help, by their number (Wang et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from unhub.arrays import Kind
from unhub.combine import Combination, CombinationLike, Combining, as_combination
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Workers
from unhub.correction import Plan
from unhub.data.captions import Captions
from unhub.data.draws import DEFAULT_DRAWS, DEFAULT_SIZES, Draws, check_sizes
from unhub.data.relevance import RelevanceLike
from unhub.data.similarity import Dense, Dot
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError, check_seed, check_whole
from unhub.evaluation.evaluate import DEFAULT_MEASURES
from unhub.evaluation.inputs import RAW, Corrections, EvaluationInputs
from unhub.evaluation.measures import Measure, parse_measures
from unhub.multi.asking import Asking
from unhub.multi.remarks import notes_on_sets
from unhub.multi.results import SetEvaluation
from unhub.multi.scoring import Contenders, Scoring, areas_of, rows_of
from unhub.multi.set_places import Cancelled, Streamed, place_sets

Combine: TypeAlias = CombinationLike | Sequence[CombinationLike] | Mapping[str, CombinationLike]


@shows_progress
def evaluate_sets(
    texts: VectorsLike,
    items: VectorsLike,
    relevance: RelevanceLike,
    sizes: Iterable[int] | None = None,
    draws: int | Draws = DEFAULT_DRAWS,
    combine: Combine = ("sa", "ra"),
    correction: Corrections | None = None,
    measures: Sequence[str | Measure] | str = DEFAULT_MEASURES,
    *,
    strength: float = 1.0,
    similarity: Kind | None = None,
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> SetEvaluation:
    """Search for each item with several of its texts at once, and measure how well each number of texts finds it.

    relevance: which items each text describes, by id, as in `evaluate`. sizes: how many texts are used at once; by
    default 1, 2, 3 and 5, or those of given draws. draws: how many sets of each size an item gets (see `Draws.of`), or
    existing Draws. combine: one way or several, as in `Searcher.search_sets`, or a mapping by name. correction:
    none, one, several, or a mapping by name; the raw ranking is always measured too.

    A measure is the mean over the items of each item's mean over its sets. MdR is the rank with half of the weight on
    each side, where each item weighs one and its sets share that equally; with one set each it is the plain median. The
    spread is the standard deviation over repetitions that pick one set for every item: sqrt(sum_i v_i) / n for a mean
    over n items, where v_i is the variance over the sets of an item. The mean over repetitions, which the paper's
    columns give, equals the value for a mean. For MdR and GM it differs: it is `mean_over_repetitions`, and the spread
    is about it. Intervals are 95% bootstrap intervals over the items.
    """
    progress = called(progress)
    chosen = parse_measures(measures)
    check_whole(resamples, "resamples", 1)
    check_seed(seed)
    if isinstance(texts, Dense):
        raise ArgumentError("texts", "must be vectors, got a matrix of similarities", "give the vectors to be combined")
    setting = EvaluationInputs.of(texts, items, () if correction is None else correction, similarity, threads, "texts")
    similar = cast("Dot", setting.similarity)
    combinations = name_combinations(combine, similar.width)
    rankings = [_streamed(ranking) for ranking in setting.rankings(strength)]
    truth = setting.truth(relevance)
    captions = Captions.of(truth)
    drawn = _drawn(setting, captions, sizes, draws, seed)
    workers = Workers(threads, progress=progress)
    asking = Asking.of(drawn)
    try:
        counts = place_sets(similar, asking, combinations, rankings, workers, setting.copies)
    except Cancelled as error:
        texts_of = f"{setting.query_ids[error.texts].tolist()} of item {setting.item_ids[error.item].item()!r}"
        problem = f"{texts_of} cancel out under {error.name!r}: their sum has no direction"
        raise ArgumentError("texts", problem, "combine with 'sa'") from None
    workers.finish()
    contenders = Contenders(tuple(combinations), (RAW, *setting.corrections))
    scoring = Scoring(contenders, len(setting.item_ids), chosen, int(resamples), int(seed))
    used = {size: drawn.sizes[size] for size in counts}
    rows = [row for size, one in used.items() for row in rows_of(size, one, counts[size], scoring)]
    areas = tuple(areas_of(used, counts, scoring))
    return SetEvaluation(
        tuple(rows),
        areas,
        chosen,
        contenders.combinations,
        contenders.rankings,
        len(setting.item_ids),
        {size: len(one.items) for size, one in used.items()},
        {size: one.short for size, one in used.items()},
        notes_on_sets(drawn, captions, truth, areas, chosen),
        drawn,
    )


def name_combinations(combine: Combine, dimensions: int) -> dict[str, Combination]:
    """Return combinations by name, numbered if names repeat."""
    if isinstance(combine, Mapping):
        named = {str(name): as_combination(one, dimensions) for name, one in combine.items()}
    else:
        alone = isinstance(combine, str | Combination | Combining) or not isinstance(combine, Iterable)
        named = {}
        for one in [cast("CombinationLike", combine)] if alone else cast("Sequence[CombinationLike]", combine):
            how = as_combination(one, dimensions)
            same = sum(other.name == how.name for other in named.values())
            named[how.name if not same else f"{how.name} ({same + 1})"] = how
    if not named:
        raise ArgumentError("combine", "is empty", "name at least one way to combine, for example 'sa'")
    return named


def _streamed(ranking: object) -> Streamed:
    if isinstance(ranking, Plan):
        problem = f"{ranking.spec!r} balances one batch of queries, but many sets are drawn here"
        raise ArgumentError("correction", problem, "use a method that corrects each query by itself")
    return cast("Streamed", ranking)


def _drawn(
    setting: EvaluationInputs, captions: Captions, sizes: Iterable[int] | None, draws: int | Draws, seed: int
) -> Draws:
    """Return the draws to use, new or given, of these sizes; raise if no item has enough texts."""
    asked = None if sizes is None else check_sizes(sizes)
    ids = setting.query_ids, setting.item_ids
    if isinstance(draws, Draws):
        missing = [size for size in asked or () if size not in draws.sizes]
        if missing:
            there = ", ".join(map(str, draws.sizes))
            raise ArgumentError("sizes", f"must be among those of the draws, {there}, got {missing[0]}")
        found = draws.against(*ids, captions)
        kept = {size: one for size, one in found.sizes.items() if asked is None or size in asked}
        found = replace(found, sizes=kept)
    else:
        found = Draws.drawn(*ids, captions, asked or DEFAULT_SIZES, draws, seed)
    if not any(len(one.items) for one in found.sizes.values()):
        most, least = captions.counts.max(), min(found.sizes)
        raise ArgumentError(
            "sizes", f"is {least} or more, but no item has more than {most} texts", "give a smaller size"
        )
    return found
