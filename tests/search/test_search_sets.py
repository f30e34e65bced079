"""A searcher finds for each set what the definition ranks first: every combination, correction and index."""

import itertools
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import unhub
from tests import set_oracles
from tests.compute.test_workers import Recorder
from tests.oracles import Floats
from tests.search.test_search import BANK_METHODS, INDEX_SPECS, D, N, assert_best, data
from tests.search.test_search import fit as fit_anew
from tests.test_combine import HEAD, HasCombination
from unhub.arrays import Float32, Float64, Kind, unit
from unhub.combine import COMBINATIONS, Combination, Sets, softmax
from unhub.correction import Bias, Correction, Plan, Scores
from unhub.data.vectors import Vectors
from unhub.search import mean_ranks
from unhub.search.hits import Hits
from unhub.search.searcher import Searcher

pytestmark = pytest.mark.once

SIZES = (1, 2, 3, 7, 1, 12, 5)
COUNT = len(SIZES)
WEIGHTED = ("sa", "mf", "ts-wf")


@cache
def sets(seed: int = 0) -> tuple[Floats, ...]:
    """Return sets of queries around a common direction each, of different sizes and lengths."""
    rng = np.random.default_rng(seed)
    gap = data()[3].mean(axis=0)
    return tuple(rng.standard_normal(D) + gap + 0.7 * rng.standard_normal((size, D)) for size in SIZES)


@cache
def fit(method: str, kind: Kind = "cosine") -> Correction:
    return fit_anew(method, kind)


def rows_of(queries: Floats, kind: Kind) -> Float32:
    """Return queries as they are multiplied."""
    single = queries.astype(np.float32)
    return unit(single) if kind == "cosine" else single


def product(queries: Float32, kind: Kind) -> Float32:
    """Return s with the product's own rounding: counts and plans jump where a similarity moves by its last bit."""
    return queries @ rows_of(data()[0], kind).T


def combined(name: str, kind: Kind, weights: Callable[[Float32], Float64] | None = None) -> Float32:
    """Return one vector for each set, by the slow reference."""
    ready = [rows_of(one, kind) for one in sets()]
    alphas = [None if weights is None else weights(unit(one)[None])[0].tolist() for one in ready]
    vectors = [
        set_oracles.combined(name, one.astype(np.float64), alpha) for one, alpha in zip(ready, alphas, strict=True)
    ]
    return np.array(vectors).astype(np.float32)


def corrected_rows(correction: Correction, kind: Kind, strength: Float64 | None = None) -> list[Scores]:
    """Return the corrected scores of each query alone, set by set; a plan sees all queries of all sets."""
    raw = product(np.concatenate([rows_of(one, kind) for one in sets()]), kind)
    if strength is not None:
        whole = cast("Bias", correction).apply(raw, np.repeat(strength, SIZES))
    else:
        whole = correction.apply(raw)
    edges = itertools.pairwise(np.cumsum([0, *SIZES]).tolist())
    return [whole[start:stop] for start, stop in edges]


def assert_mean_ranks(hits: Hits, rows: list[Scores], k: int, among: NDArray[np.int64] | None = None) -> None:
    """Check that hits are the k best by mean rank, and those of one mean rank in the order of their mean scores."""
    allowed = np.arange(N) if among is None else among
    for ids, scores, of_set in zip(hits.ids.tolist(), hits.scores, rows, strict=True):
        wide = of_set.astype(np.float64)
        means, sums = np.array(set_oracles.mean_ranks(wide)), wide.mean(axis=0)
        assert len(set(ids)) == k
        assert np.isin(ids, allowed).all()
        assert_array_equal(-scores, means[ids])
        assert_array_equal(-scores, np.sort(means[allowed])[:k])
        for first, second in itertools.pairwise(ids):
            assert means[first] < means[second] or sums[first] >= sums[second] - 1e-7


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("method", BANK_METHODS)
@pytest.mark.parametrize("name", WEIGHTED)
def test_a_combined_query_is_corrected_as_any_other(name: str, method: str, kind: Kind) -> None:
    correction = fit(method, kind)
    vectors = combined(name, kind)
    if isinstance(correction, Plan):  # which jumps where a vector moves by its last bit
        same = Sets.of(sets(), D, kind).combined(COMBINATIONS[name])
        assert_allclose(same, vectors, atol=1e-6)
        vectors = same
    hits = unhub.searcher(data()[0], correction, threads=1).search_sets(sets(), k=10, combine=name)
    assert_best(hits, correction.apply(product(vectors, kind)), 10, atol=2e-5)


@pytest.mark.parametrize("index", INDEX_SPECS)
@pytest.mark.parametrize("method", ["raw", "nnn", "dis", "gc"])
@pytest.mark.parametrize("name", WEIGHTED)
def test_every_index_agrees_with_the_definition(name: str, method: str, index: str) -> None:
    correction = fit(method)
    expected = correction.apply(product(combined(name, "cosine"), "cosine"))
    hits = unhub.searcher(data()[0], correction, index=index, threads=1).search_sets(sets(), k=10, combine=name)
    assert_best(hits, expected, 10, atol=2e-5)


@pytest.mark.parametrize("method", ["raw", "is"])
def test_a_head_combines_as_its_weights_say(method: str) -> None:
    def weights(queries: Float32) -> Float64:
        return softmax(3 * queries[:, :, 0].astype(np.float64))

    head = HasCombination(Combination("by-hand", "a head made by hand", weights, fused=True, dimensions=D))
    correction = fit(method)
    expected = correction.apply(product(combined("by-hand", "cosine", weights), "cosine"))
    assert_best(unhub.searcher(data()[0], correction).search_sets(sets(), combine=head), expected, 10)


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("method", BANK_METHODS)
def test_mean_ranks_are_those_of_every_query_alone(method: str, kind: Kind) -> None:
    correction = fit(method, kind)
    hits = unhub.searcher(data()[0], correction, threads=2).search_sets(sets(), k=10, combine="ra")
    assert_mean_ranks(hits, corrected_rows(correction, kind), 10)


@pytest.mark.parametrize("index", INDEX_SPECS)
def test_mean_ranks_are_exact_in_every_index(index: str) -> None:
    hits = unhub.searcher(data()[0], fit("dis"), index=index, threads=1).search_sets(sets(), k=10, combine="ra")
    exact = unhub.searcher(data()[0], fit("dis"), threads=1).search_sets(sets(), k=10, combine="ra")
    assert_array_equal(hits.ids, exact.ids)
    assert_mean_ranks(hits, corrected_rows(fit("dis"), "cosine"), 10)


def test_blocks_and_threads_change_no_mean_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = {threads: unhub.searcher(data()[0], fit("dis"), threads=threads) for threads in (1, 3)}
    whole = searcher[1].search_sets(sets(), k=20, combine="ra")
    monkeypatch.setattr(mean_ranks, "ROWS_BYTES", 4 * N * 5)  # five queries at a time, so that sets span blocks
    monkeypatch.setattr(mean_ranks, "RANKS_BYTES", 8 * N * 2)
    for threads in (1, 3):
        assert_array_equal(searcher[threads].search_sets(sets(), k=20, combine="ra").ids, whole.ids)


def test_equal_mean_ranks_are_ordered_by_the_mean_similarity() -> None:
    """Ranks of the first query 1, 2, 3, 4, of the second 2, 1, 3.5, 3.5: items 0 and 1 share 1.5, item 0 is closer."""
    items = np.array([[0.9, 0.4], [0.8, 0.45], [0.3, 0.2], [0.1, 0.2]])
    raw = unhub.fit(items, np.ones((1, 2)), method="raw", similarity="dot")
    ids, scores = unhub.searcher(items, raw).search_sets([np.eye(2)], k=4, combine="ra")
    assert scores.tolist() == [[-1.5, -1.5, -3.25, -3.75]]
    assert ids.tolist() == [[0, 1, 2, 3]]
    turned = np.array([[0.9, 0.4], [0.8, 0.55], [0.3, 0.2], [0.1, 0.2]])
    raw = unhub.fit(turned, np.ones((1, 2)), method="raw", similarity="dot")
    assert unhub.searcher(turned, raw).search_sets([np.eye(2)], k=2, combine="ra").ids.tolist() == [[1, 0]]


def test_items_that_are_equal_for_all_queries_come_in_their_order() -> None:
    items = np.ones((6, 3))
    searcher = unhub.searcher(items, unhub.fit(items, np.ones((1, 3)), method="raw"))
    ids, scores = searcher.search_sets([np.ones((4, 3))], k=3, combine="ra")
    assert ids.tolist() == [[0, 1, 2]]
    assert scores.tolist() == [[-3.5] * 3]


# Identities.


@pytest.mark.parametrize("method", ["raw", "is", "dis", "gc", "dualdis"])
@pytest.mark.parametrize("name", [*WEIGHTED, "ra"])
def test_a_set_of_one_is_a_search(name: str, method: str) -> None:
    items, _, _, queries = data()
    searcher = unhub.searcher(items, fit(method), threads=1)
    found, plain = searcher.search_sets([one[None] for one in queries], k=9, combine=name), searcher.search(queries, 9)
    assert_array_equal(found.ids, plain.ids)
    if name != "ra":
        assert_array_equal(found.scores, plain.scores)


def test_mf_without_a_correction_ranks_as_sa() -> None:
    searcher = unhub.searcher(data()[0], fit("raw"))
    sa, mf = (searcher.search_sets(sets(), k=50, combine=name) for name in ("sa", "mf"))
    assert_array_equal(sa.ids, mf.ids)
    corrected = unhub.searcher(data()[0], fit("is"))
    sa, mf = (corrected.search_sets(sets(), k=50, combine=name) for name in ("sa", "mf"))
    assert np.any(sa.ids != mf.ids)  # h weighs more against a mean that is shorter than a query


@pytest.mark.parametrize("name", [*WEIGHTED, "ra"])
def test_neither_order_nor_repetition_changes_an_answer(name: str) -> None:
    searcher = unhub.searcher(data()[0], fit("is"), threads=1)
    plain = searcher.search_sets(sets(), k=20, combine=name)
    turned = searcher.search_sets([one[::-1] for one in sets()], k=20, combine=name)
    twice = searcher.search_sets([np.repeat(one, 2, axis=0) for one in sets()], k=20, combine=name)
    assert_array_equal(turned.ids, plain.ids)
    assert_allclose(turned.scores, plain.scores, atol=1e-6)
    if name != "ts-wf":  # which looks at how alike the others are, and copies are
        assert_array_equal(twice.ids, plain.ids)
        assert_allclose(twice.scores, plain.scores, atol=1e-6)


# What search offers, with a set for a query.


@pytest.mark.parametrize("index", ["exact", "faiss:HNSW32"])
@pytest.mark.parametrize("method", ["is", "dis"])
def test_each_set_has_its_own_strength(method: str, index: str) -> None:
    correction, each = cast("Bias", fit(method)), np.linspace(-0.5, 2, COUNT)
    searcher = unhub.searcher(data()[0], correction, index=index, threads=1)
    for name in WEIGHTED:
        expected = correction.apply(product(combined(name, "cosine"), "cosine"), each)
        assert_best(searcher.search_sets(sets(), k=5, combine=name, strength=each), expected, 5)
    ra = searcher.search_sets(sets(), k=5, combine="ra", strength=each)
    assert_mean_ranks(ra, corrected_rows(correction, "cosine", each), 5)


@pytest.mark.parametrize("method", ["is", "gc", "hn"])
@pytest.mark.parametrize("name", ["sa", "ra"])
def test_among_returns_only_the_allowed(name: str, method: str) -> None:
    correction = fit(method)
    allowed = np.sort(np.random.default_rng(1).choice(N, 60, replace=False))
    hits = unhub.searcher(data()[0], correction).search_sets(sets(), k=8, combine=name, among=allowed)
    if name == "ra":
        assert_mean_ranks(hits, corrected_rows(correction, "cosine"), 8, allowed)
    else:
        expected = correction.apply(product(combined(name, "cosine"), "cosine"))
        assert_best(hits, expected[:, allowed], 8, ids=allowed)


@pytest.mark.parametrize("method", ["is", "dualdis", "hn"])
@pytest.mark.parametrize("name", ["mf", "ra"])
def test_excluded_ids_leave_their_places_to_the_next(name: str, method: str) -> None:
    searcher = unhub.searcher(data()[0], fit(method))
    plain = searcher.search_sets(sets(), k=12, combine=name)
    exclude: list[list[int] | int | None] = [None] * COUNT
    exclude[1], exclude[2] = int(plain.ids[1, 0]), plain.ids[2, [0, 2, 3]].tolist()
    found = searcher.search_sets(sets(), k=8, combine=name, exclude=exclude)
    assert_array_equal(found.ids[0], plain.ids[0, :8])
    assert_array_equal(found.ids[1], plain.ids[1, 1:9])
    assert_array_equal(found.ids[2], np.delete(plain.ids[2], [0, 2, 3])[:8])


@pytest.mark.parametrize("name", ["sa", "ra"])
def test_k_over_the_number_of_items_is_filled_up(name: str) -> None:
    hits = unhub.searcher(data()[0], fit("is")).search_sets(sets(), k=N + 3, combine=name)
    assert hits.ids[:, N:].tolist() == [[-1] * 3] * COUNT
    assert np.isneginf(hits.scores[:, N:]).all()
    assert_array_equal(np.sort(hits.ids[:, :N], axis=1), np.tile(np.arange(N), (COUNT, 1)))


@pytest.mark.parametrize("name", ["sa", "ra"])
def test_no_sets_have_no_answers(name: str) -> None:
    hits = unhub.searcher(data()[0], fit("is")).search_sets([], k=4, combine=name)
    assert hits.ids.shape == hits.scores.shape == (0, 4)


def test_ids_name_the_hits() -> None:
    items, bank, _, _ = data()
    named = Vectors(np.array([f"photo-{row}" for row in range(N)]), items)
    hits = unhub.searcher(named, unhub.fit(named, bank)).search_sets(sets(), k=3)
    plain = unhub.searcher(items, unhub.fit(items, bank)).search_sets(sets(), k=3)
    assert hits.ids.tolist() == [[f"photo-{row}" for row in found] for found in plain.ids.tolist()]


@pytest.mark.parametrize("name", ["sa", "ra"])
def test_progress_rises_to_the_end(name: str) -> None:
    progress = Recorder()
    unhub.searcher(data()[0], fit("is")).search_sets(sets(), combine=name, progress=progress)
    progress.assert_rises_to_the_end()


call: Callable[..., Hits] = Searcher.search_sets
MISTAKES: dict[str, tuple[dict[str, object], str]] = {
    "no sets": ({"sets": None}, "sets must be a list of .* got None"),
    "queries": ({"sets": np.ones((3, D))}, "put a single set in a list"),
    "an empty set": ({"sets": [np.ones((1, D)), np.ones((0, D))]}, r"sets\[1\] is empty"),
    "other dimensions": ({"sets": [np.ones((1, 5))]}, rf"sets\[0\] has 5 dimensions, the items {D}"),
    "an unknown name": ({"combine": "s"}, r"combine 's' is unknown; did you mean 'sa'\? .* sa, ra, mf, ts-wf"),
    "a head": ({"combine": HEAD}, f"trained for 6 dimensions, but the queries have {D}"),
    "cancelling": (
        {"sets": [np.ones((1, D)), np.vstack([np.ones(D), -np.ones(D)])], "combine": "mf"},
        r"sets\[1\] has queries that sum to zero",
    ),
    "no places": ({"k": 0}, "k must be a whole number of at least 1"),
    "strengths": ({"strength": [1.0, 2.0]}, rf"one per query \({COUNT}\)"),
    "exclude": ({"exclude": [1]}, f"exclude must have one entry .* for each of {COUNT}"),
    "among": ({"among": [N + 1]}, "among has 1 unknown id"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_remedy(mistake: str) -> None:
    options, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        call(unhub.searcher(data()[0], fit("is")), **{"sets": sets(), **options})


@pytest.mark.parametrize("name", ["sa", "ra"])
def test_what_is_no_bias_is_taken_whole(name: str) -> None:
    with pytest.raises(ValueError, match="strength must be 1 for 'gc'"):
        unhub.searcher(data()[0], fit("gc")).search_sets(sets(), combine=name, strength=0.5)


def test_the_plans_are_among_the_methods() -> None:
    assert sum(isinstance(fit(method), Plan) for method in BANK_METHODS) == 3
    assert set(COMBINATIONS) == {*WEIGHTED, "ra"}


def test_mean_ranks_of_many_items_stay_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 queries x 20,000 items are 8 MB of similarities and 16 MB of ranks; blocks of them are here 1 and 0.5 MB."""
    monkeypatch.setattr(mean_ranks, "ROWS_BYTES", 1 << 20)
    monkeypatch.setattr(mean_ranks, "RANKS_BYTES", 1 << 19)
    rng = np.random.default_rng(0)
    items = rng.standard_normal((20_000, 4), np.float32)
    searcher = unhub.searcher(items, unhub.fit(items, items[:2], method="dn"), threads=1)
    asked = [rng.standard_normal((25, 4)) for _ in range(4)]
    tracemalloc.start()
    try:
        searcher.search_sets(asked, combine="ra")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6e6
