"""Evaluate sets: what several descriptions of one target bring, against their number (Wang et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from unhub.arrays import Kind
from unhub.combine import Combination, CombinationLike, Combining, as_combination
from unhub.compute.workers import Progress, Workers
from unhub.correction import Plan
from unhub.data.draws import DRAWS, SIZES, Captions, Draws, check_sizes
from unhub.data.relevance import RelevanceLike
from unhub.data.similarity import Dense, Dot
from unhub.data.vectors import VectorsLike
from unhub.errors import check_seed, check_whole
from unhub.evaluation.evaluate import DEFAULT_MEASURES
from unhub.evaluation.inputs import RAW, Corrections, EvaluationInputs
from unhub.evaluation.measures import Measure, parse_measures
from unhub.multi.asking import Asking
from unhub.multi.remarks import notes_on_sets
from unhub.multi.results import SetEvaluation
from unhub.multi.scoring import Labels, areas_of, rows_of
from unhub.multi.set_places import Cancelled, Streamed, place_sets

Combine: TypeAlias = CombinationLike | Sequence[CombinationLike] | Mapping[str, CombinationLike]


def evaluate_sets(
    texts: VectorsLike,
    items: VectorsLike,
    relevance: RelevanceLike,
    sizes: Iterable[int] | None = None,
    draws: int | Draws = DRAWS,
    combine: Combine = ("sa", "ra"),
    correction: Corrections | None = None,
    measures: Sequence[str | Measure] | str = DEFAULT_MEASURES,
    *,
    strength: float = 1.0,
    similarity: Kind | None = None,
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> SetEvaluation:
    """Ask for each item with several of its texts at once, and measure how well it is found by how many.

    relevance: which items each text describes, by id, as in `evaluate`. sizes: how many texts are asked together; 1, 2,
    3 and 5 by default, or those of given draws. draws: how many sets each item gets of a size (see `Draws.of`), or
    Draws that were made before. combine: one way or several, as in `Searcher.search_sets`, perhaps by name. correction:
    none, one or several, perhaps by name; raw stands beside them.

    A measure is the mean over the items of each item's mean over its sets. MdR is the rank with half of the weight on
    each side, where each item weighs one and its sets share that alike; with one set each it is the plain median. The
    spread is the standard deviation over repetitions that pick one set for every item: sqrt(sum_i v_i) / n for a mean
    over n items, v_i being the variance over the sets of an item. The mean over repetitions, which the paper's columns
    are, is the value itself for a mean; for MdR and GM it is another quantity, `mean_over_repetitions`, and the spread
    is about that one. Intervals are of 95%, by bootstrap over the items.
    """
    chosen = parse_measures(measures)
    check_whole(resamples, "resamples", 1)
    check_seed(seed)
    if isinstance(texts, Dense):
        raise ValueError("texts must be vectors, got a Dense matrix, which does not tell how texts add up")
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
        counts = place_sets(similar, asking, combinations, rankings, workers, setting.twins)
    except Cancelled as error:
        raise ValueError(
            f"texts {setting.query_ids[error.texts].tolist()} of item {setting.item_ids[error.item].item()!r} cancel "
            f"out under {error.name}: their sum has no direction; combine with 'sa'"
        ) from None
    workers.finish()
    labels = Labels(tuple(combinations), (RAW, *setting.corrections))
    used = {size: drawn.sizes[size] for size in counts}
    every = (len(setting.item_ids), labels, chosen, int(resamples), int(seed))
    rows = [row for size, one in used.items() for row in rows_of(size, one, counts[size], *every)]
    areas = tuple(areas_of(used, counts, *every))
    return SetEvaluation(
        tuple(rows),
        areas,
        chosen,
        labels.combinations,
        labels.rankings,
        len(setting.item_ids),
        {size: len(one.items) for size, one in used.items()},
        {size: one.short for size, one in used.items()},
        notes_on_sets(drawn, captions, truth, areas, chosen),
        drawn,
    )


def name_combinations(combine: Combine, dimensions: int) -> dict[str, Combination]:
    """Return combinations by name: their own, numbered where those repeat."""
    if isinstance(combine, Mapping):
        named = {str(name): as_combination(one, dimensions) for name, one in combine.items()}
    else:
        alone = isinstance(combine, str | Combination | Combining) or not isinstance(combine, Iterable)
        named = {}
        for one in [cast("CombinationLike", combine)] if alone else cast("Sequence[CombinationLike]", combine):
            how = as_combination(one, dimensions)
            twins = sum(other.name == how.name for other in named.values())
            named[how.name if not twins else f"{how.name} ({twins + 1})"] = how
    if not named:
        raise ValueError("combine is empty; name at least one way to combine, for example 'sa'")
    return named


def _streamed(ranking: object) -> Streamed:
    if isinstance(ranking, Plan):
        raise ValueError(
            f"correction: {ranking.spec} balances one batch of queries, and draws are many; use one that "
            "takes each query alone, or search_sets for a batch"
        )
    return cast("Streamed", ranking)


def _drawn(
    setting: EvaluationInputs, captions: Captions, sizes: Iterable[int] | None, draws: int | Draws, seed: int
) -> Draws:
    """Return the draws to use: new ones, or those given, of the sizes asked for, which some item must have."""
    asked = None if sizes is None else check_sizes(sizes)
    ids = setting.query_ids, setting.item_ids
    if isinstance(draws, Draws):
        missing = [size for size in asked or () if size not in draws.sizes]
        if missing:
            raise ValueError(
                f"sizes: the draws have none of size {missing[0]}, but of {', '.join(map(str, draws.sizes))}"
            )
        found = draws.against(*ids, captions)
        kept = {size: one for size, one in found.sizes.items() if asked is None or size in asked}
        found = replace(found, sizes=kept)
    else:
        found = Draws.drawn(*ids, captions, asked or SIZES, draws, seed)
    if not any(len(one.items) for one in found.sizes.values()):
        raise ValueError(f"sizes: no item has {min(found.sizes)} texts or more, the most is {captions.counts.max()}")
    return found
