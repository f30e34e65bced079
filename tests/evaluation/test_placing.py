"""Placing: counts and best items are those of a sorted matrix, whatever the ranking, the tiles and the threads."""

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import unhub
from tests.bank_cases import GATED, ON_A_BANK, PLANS, RESCORES, Sets, drawn, fitted, whole
from tests.runners import Pickled
from unhub.arrays import Float32, Kind
from unhub.compute import passes
from unhub.compute.workers import Workers
from unhub.correction import Bias, Scores
from unhub.data.copies import NO_COPIES, Copies
from unhub.data.ragged import starts_of
from unhub.data.relevance import Truth
from unhub.data.similarity import Dense, Dot, Similarity
from unhub.data.vectors import Vectors, as_vectors
from unhub.evaluation import many_items, placing
from unhub.evaluation.evaluate import evaluate
from unhub.evaluation.excluding import LeftOut
from unhub.evaluation.inputs import EvaluationInputs
from unhub.evaluation.placing import Additive, Placed, Ranking, as_ranking, occurrences, place, raw_ranking, tile_rows


def truth_of(answers: Sequence[Sequence[int]]) -> Truth:
    """Return a truth with these positions as answers, of grade 1."""
    positions = np.array([item for several in answers for item in several], np.int64)
    return Truth(np.cumsum([0, *map(len, answers)]), positions, np.ones(len(positions)))


def random_truth(queries: int, items: int, rng: np.random.Generator) -> Truth:
    """Draw none to four answers for each query."""
    return truth_of([sorted(rng.permutation(items)[: rng.integers(0, 5)].tolist()) for _ in range(queries)])


def by_sorting(scores: Scores, truth: Truth, k: int) -> Placed:
    """Place by comparing with every item, and by a stable sort."""
    rows = [scores[owner] for owner in truth.owners]
    bars = [row[position] for row, position in zip(rows, truth.positions, strict=True)]
    better = [int((row > bar).sum()) for row, bar in zip(rows, bars, strict=True)]
    equal = [int((row == bar).sum()) for row, bar in zip(rows, bars, strict=True)]
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return Placed(np.array(better, np.int64), np.array(equal, np.int64), best.astype(np.int32))


def corrected(scores: Float32, ranking: Ranking) -> Scores:
    """Return what a ranking ranks by: of a bias s - h, where the raw best item is active if there is a gate."""
    if not isinstance(ranking, Additive):
        return ranking.apply(scores)
    gate = np.ones(len(scores)) if ranking.active is None else ranking.active[np.argmax(scores, axis=1)]
    return np.where(gate[:, None] > 0, scores - ranking.h, scores)


def assert_placed(found: Placed, expected: Placed) -> None:
    assert_array_equal(found.better, expected.better)
    assert_array_equal(found.equal, expected.equal)
    assert_array_equal(found.best, expected.best)


def test_placing_by_hand() -> None:
    matrix = Dense([[0.9, 0.5, 0.5, 0.1], [0.2, 0.4, 0.3, 0.1]])
    hub = Additive(np.array([0.5, 0, 0, 0], np.float32))
    gated = Additive(hub.h, np.array([False, True, False, False]))
    raw, lower, sometimes = place(matrix, truth_of([[0, 2], [3]]), [raw_ranking(4), hub, gated], Workers(1), best=2)
    assert (raw.better.tolist(), raw.equal.tolist()) == ([0, 1, 3], [1, 2, 1])
    assert raw.best.tolist() == [[0, 1], [1, 2]]
    assert (lower.better.tolist(), lower.equal.tolist()) == ([2, 0, 2], [1, 2, 1])
    assert lower.best.tolist() == [[1, 2], [1, 2]]
    assert (sometimes.better.tolist(), sometimes.equal.tolist()) == ([0, 1, 2], [1, 2, 1])
    assert occurrences(raw.best, 4).tolist() == [1, 2, 1, 0]


@given(
    seed=st.integers(0, 2**32 - 1),
    queries=st.integers(1, 40),
    items=st.integers(1, 60),
    best=st.integers(0, 70),
    threads=st.integers(1, 4),
    tile=st.integers(1, 3000),
    fewest=st.integers(1, 9),
    most=st.integers(9, 40),
    block=st.integers(1, 70),
    ready=st.sampled_from([0, 1 << 20]),
)
@settings(max_examples=120)
def test_tiles_and_threads_change_nothing(
    seed: int,
    queries: int,
    items: int,
    best: int,
    threads: int,
    tile: int,
    fewest: int,
    most: int,
    block: int,
    ready: int,
) -> None:
    rng = np.random.default_rng(seed)
    scores = (rng.integers(-3, 4, (queries, items)) / 4).astype(np.float32)
    rankings = [
        raw_ranking(items),
        Additive((rng.integers(-2, 3, items) / 4).astype(np.float32)),
        Additive(rng.standard_normal(items).astype(np.float32), rng.random(items) < 0.5),
    ]
    truth = random_truth(queries, items, rng)
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"TILE_BYTES": tile, "FEW_QUERIES": fewest, "MOST_QUERIES": most, "BLOCK_ITEMS": block}
        for name, value in {**sizes, "FEWEST_QUERIES": 1, "READY_BYTES": ready}.items():
            patch.setattr(placing, name, value)
        found = place(Dense(scores), truth, rankings, Workers(threads), best)
    for one, ranking in zip(found, rankings, strict=True):
        assert_placed(one, by_sorting(corrected(scores, ranking), truth, best))


@pytest.fixture
def long_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank in small blocks of items, as where a row of scores is too long."""
    for name in ("TILE_BYTES", "BIG_TILE_BYTES"):
        monkeypatch.setattr(placing, name, 1)
    monkeypatch.setattr(passes, "MOST_COLUMNS", 16)
    monkeypatch.setattr(many_items, "MOST_QUERIES", 7)
    monkeypatch.setattr(many_items, "FEWEST_QUERIES", 1)


@given(
    seed=st.integers(0, 2**32 - 1),
    queries=st.integers(1, 20),
    items=st.integers(1, 90),
    best=st.integers(0, 95),
    threads=st.integers(1, 3),
    excludes=st.booleans(),
)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_of_items_change_nothing(
    seed: int, queries: int, items: int, best: int, threads: int, excludes: bool, long_rows: None
) -> None:
    rng = np.random.default_rng(seed)
    asking, asked = (rng.integers(-2, 3, (rows, 3)) for rows in (queries, items))  # so that scores are exact, and tie
    similarity = Dot(*pair(asking, asked), "dot")
    hashes = np.unique(asked, axis=0, return_inverse=True)[1].ravel().astype(np.uint64)
    copies = Copies.among(similarity.item_vectors, hashes)
    rankings = [
        raw_ranking(items),
        Additive((rng.integers(-2, 3, items) / 4).astype(np.float32)),
        Additive((rng.integers(-9, 9, items) / 4).astype(np.float32), rng.random(items) < 0.5),
    ]
    truth, left_out = random_truth(queries, items, rng), None
    if excludes:
        pairs = np.unique(rng.integers(0, queries * items, queries))
        left_out = LeftOut(starts_of(pairs // items, queries), pairs % items, items)
        truth = truth.keep(~np.isin(truth.owners * items + truth.positions, pairs))
    assert placing.in_blocks(similarity, True, truth, copies)
    found = place(similarity, truth, rankings, Workers(threads), best, copies, left_out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "FEW_QUERIES", 0)  # no row is long
        patch.setattr(placing, "FEWEST_QUERIES", 8)
        assert not placing.in_blocks(similarity, True, truth, copies)
        expected = place(similarity, truth, rankings, Workers(threads), best, copies, left_out)
    for one, other in zip(found, expected, strict=True):
        assert_placed(one, other)


def test_long_rows_are_ranked_by_the_runner(long_rows: None) -> None:
    rng, runner = np.random.default_rng(7), Pickled(2)
    similarity = Dot(*pair(rng.integers(-2, 3, (30, 3)), rng.integers(-2, 3, (90, 3))), "dot")
    rankings = [raw_ranking(90), Additive((rng.integers(-9, 9, 90) / 4).astype(np.float32), rng.random(90) < 0.5)]
    truth = random_truth(30, 90, rng)
    assert placing.in_blocks(similarity, True, truth, NO_COPIES)
    found = place(similarity, truth, rankings, Workers(1, runner=runner), 5)
    assert runner.jobs > 1
    for one, other in zip(found, place(similarity, truth, rankings, Workers(1), 5), strict=True):
        assert_placed(one, other)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_copies_tie_in_blocks_whatever_the_rounding(device: str, long_rows: None) -> None:
    rng = np.random.default_rng(0)
    items = np.tile(rng.standard_normal((40, 24)).astype(np.float32), (3, 1))
    queries = rng.standard_normal((9, 24)).astype(np.float32)
    similarity = Dot(*pair(queries, items))
    copies = Copies.among(similarity.item_vectors, np.tile(np.arange(40, dtype=np.uint64), 3))
    (found,) = place(similarity, truth_of([[3]] * 9), [raw_ranking(120)], Workers(2, device=device), 12, copies)
    assert found.equal.tolist() == [3] * 9
    assert_array_equal(found.best[:, ::3] + 40, found.best[:, 1::3])
    assert_array_equal(found.best[:, ::3] + 80, found.best[:, 2::3])


def test_many_answers_and_rankings_of_whole_rows_are_placed_as_before(long_rows: None) -> None:
    similarity = Dot(*pair(np.eye(3), np.ones((50, 3))), "dot")
    many = truth_of([list(range(40)), [], [1]])
    assert not placing.in_blocks(similarity, True, many, NO_COPIES)
    assert not placing.in_blocks(similarity, False, truth_of([[1]] * 3), NO_COPIES)
    assert not placing.in_blocks(Dense(np.ones((3, 50))), True, truth_of([[1]] * 3), NO_COPIES)


def test_rows_of_a_million_items_take_little_memory() -> None:
    items = np.random.default_rng(0).standard_normal((1_000_000, 2)).astype(np.float16)
    similarity = Dot(*pair(items[:40].astype(np.float32), items), "dot")
    truth = truth_of([[row] for row in range(40)])
    raw = raw_ranking(len(items))
    place(Dot(*pair(items[:3], items[:60]), "dot"), truth_of([[1]] * 3), [raw_ranking(60)], Workers(1), 10)  # compile
    tracemalloc.start()
    place(similarity, truth, [raw], Workers(1), best=10)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 << 20  # all the scores of 40 queries would be 160 MB


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("spec", ["is", "csls:k=1", *GATED, *RESCORES, "gc:quantiles=9", *PLANS])
@pytest.mark.parametrize("matrix", [True, False], ids=["Dense", "Dot"])
def test_every_kind_of_correction_is_placed_as_it_applies(
    spec: str, matrix: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "MOST_QUERIES", 64)
    sets = whole(items=41, queries=150 if spec not in PLANS else 41)
    scores = sets.query_scores.astype(np.float32)  # whole numbers, so the same however they are multiplied
    similarity: Similarity = Dense(scores) if matrix else Dot(*pair(sets.queries, sets.items), "dot")
    ranking = as_ranking(fitted(spec, sets))
    truth = random_truth(len(scores), 41, np.random.default_rng(0))
    found, raw = place(similarity, truth, [ranking, raw_ranking(41)], Workers(threads), best=10)
    assert_placed(found, by_sorting(corrected(scores, ranking), truth, 10))
    assert_placed(raw, by_sorting(scores, truth, 10))


def pair(queries: NDArray[np.generic], items: NDArray[np.generic]) -> tuple[Vectors, Vectors]:
    return as_vectors(queries, "queries"), as_vectors(items, "items")


@pytest.mark.parametrize("form", ["float16", "float64", "Fortran order", "mapped", "every other"])
def test_vectors_of_any_form_are_placed_alike(form: str, tmp_path: Path) -> None:
    sets = whole(queries=70)
    scores = sets.query_scores.astype(np.float32)
    truth = random_truth(70, 41, np.random.default_rng(1))

    def formed(rows: NDArray[np.float64], name: str) -> NDArray[np.generic]:
        if form == "mapped":
            np.save(tmp_path / name, rows.astype(np.float32))
            mapped: NDArray[np.generic] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
            return mapped
        forms: dict[str, NDArray[np.generic]] = {
            "float16": rows.astype(np.float16),
            "float64": rows,
            "Fortran order": np.asfortranarray(rows, np.float32),
            "every other": np.repeat(rows, 2, axis=1)[:, ::2],
        }
        return forms[form]

    vectors = pair(formed(sets.queries, "queries"), formed(sets.items, "items"))
    (found,) = place(Dot(*vectors, "dot"), truth, [raw_ranking(41)], Workers(2), best=5)
    assert_placed(found, by_sorting(scores, truth, 5))


@pytest.mark.parametrize(("queries", "items"), [(1, 1), (1, 30), (30, 1)])
def test_one_query_and_one_item_are_enough(queries: int, items: int) -> None:
    sets = whole(queries=queries, items=items)
    truth = truth_of([[0]] * queries)
    (found,) = place(Dot(*pair(sets.queries, sets.items), "dot"), truth, [raw_ranking(items)], Workers(2), best=50)
    assert found.best.shape == (queries, items)
    assert_placed(found, by_sorting(sets.query_scores.astype(np.float32), truth, 50))


def test_items_that_are_the_same_are_level() -> None:
    sets = whole(items=700)
    twice = np.repeat(sets.items, 2, axis=0)[np.random.default_rng(0).permutation(1400)]
    truth = truth_of([[query] for query in range(900)])
    (found,) = place(Dot(*pair(twice[:900], twice), "dot"), truth, [raw_ranking(1400)], Workers(2))
    assert_array_equal(found.equal % 2, 0)


@pytest.mark.parametrize("queries", [1, 50, 301])
@pytest.mark.parametrize("items", [13, 257, 1003])
def test_items_that_are_the_same_are_level_however_they_are_multiplied(items: int, queries: int) -> None:
    rng = np.random.default_rng(0)
    rows, asked = rng.standard_normal((items, 513)), rng.standard_normal((queries, 513))
    rows[items // 2 + 1 :] = rows[: items // 2]  # each item twice, far apart, but for one
    corrections = unhub.fit(rows, rng.standard_normal((99, 513)), method=["nnn:k=8", "is"], threads=1)
    setting = EvaluationInputs.of(asked, rows, corrections, threads=1)
    truth = truth_of([[query % (items // 2)] for query in range(queries)])
    for found in setting.place(truth, setting.rankings(), Workers(2), best=2):
        assert_array_equal(found.equal, 2)


def test_items_with_one_hash_but_other_contents_are_no_copies() -> None:
    rows = np.array([[1.0, 2], [3, 4], [1, 2], [5, 6]], np.float32)
    hashes = np.array([7, 7, 7, 9], np.uint64)
    copies = Copies.among(as_vectors(rows, "items"), hashes)
    assert (copies.positions.tolist(), copies.firsts.tolist()) == ([2], [0])
    tile = np.arange(8, dtype=np.float32).reshape(2, 4)
    copies.level(tile)
    assert tile.tolist() == [[0, 1, 0, 3], [4, 5, 4, 7]]
    h = np.array([0.5, 0, 0.5 + 1e-6, 0], np.float32)
    assert copies.levelled(h)[2] == h[0] != h[2]
    apart = np.array([0.5, 0, 0.6, 0], np.float32)  # for some reason, so it stays
    assert_array_equal(copies.levelled(apart), apart)
    assert Copies.among(as_vectors(rows, "items"), np.arange(4, dtype=np.uint64)) is NO_COPIES


def test_tiles_of_millions_of_items_stay_small() -> None:
    assert tile_rows(1) == tile_rows(1000) == 1280
    assert tile_rows(5000) == (24 << 20) // 20_000
    assert tile_rows(400_000) == 64  # 98 MB
    assert tile_rows(1_000_000) == 33  # 128 MiB
    assert tile_rows(30_000_000) == 8


def test_no_answers_and_no_best_items_are_nothing() -> None:
    (found,) = place(Dense(np.eye(3)), truth_of([[], [], []]), [raw_ranking(3)], Workers(1))
    assert found.better.shape == found.equal.shape == (0,)
    assert found.best.shape == (3, 0)


def test_a_pass_never_holds_the_whole_matrix() -> None:
    """3,000 x 20,000 scores are 240 MB; a tile of them is 24 MB."""
    rng = np.random.default_rng(0)
    similarity = Dot(*pair(rng.standard_normal((3000, 4), np.float32), rng.standard_normal((20_000, 4), np.float32)))
    rankings = [raw_ranking(20_000), Additive(rng.standard_normal(20_000, np.float32))]
    tracemalloc.start()
    try:
        place(similarity, truth_of([[query] for query in range(3000)]), rankings, Workers(1), best=10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60e6


# Through evaluate, by real numbers: a rank may differ where scores do by less than float32 can tell.

ROUNDING = 2e-6


def assert_ranks(ranks: NDArray[np.float64], scores: Scores, answers: Sequence[int], rounding: float) -> None:
    exact = np.asarray(scores, np.float64)
    bars = exact[np.arange(len(exact)), answers][:, None]
    least, most = 1 + (exact > bars + rounding).sum(axis=1), (exact >= bars - rounding).sum(axis=1)
    assert np.all((least <= ranks) & (ranks <= most))
    assert np.mean(least == most) > 0.9  # so that this says something


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("spec", [*ON_A_BANK, "gc:quantiles=9", *PLANS])
def test_every_method_is_evaluated_as_it_applies(spec: str, kind: Kind) -> None:
    sets = drawn(queries=60).under(kind)
    correction = fitted(spec, sets)
    answers = np.random.default_rng(0).integers(0, 41, 60)
    found = evaluate(sets.queries, sets.items, dict(enumerate(answers.tolist())), correction, resamples=5, threads=1)
    rounding = ROUNDING * float(np.abs(sets.query_scores).max())
    assert_ranks(found.ranks[0], sets.query_scores, answers.tolist(), rounding)
    if isinstance(correction, Bias):
        assert_ranks(found.ranks[-1], correction.apply(sets.query_scores), answers.tolist(), rounding)
    else:  # plans and counts jump where a similarity moves by its last bit, so they get the product's own
        assert_ranks(found.ranks[-1], correction.apply(product(sets)), answers.tolist(), 0)


def product(sets: Sets) -> Float32:
    similarity = Dot(*pair(sets.queries, sets.items), sets.kind)
    scores = np.empty(similarity.shape, np.float32)
    everything = similarity.queries((0, scores.shape[0])), similarity.items((0, scores.shape[1]))
    similarity.queries_by_items(*everything, scores)
    return scores


@pytest.mark.parametrize("spec", ["is", "dis"])
def test_items_may_come_in_another_order_than_at_the_fit(spec: str) -> None:
    sets = drawn(queries=60)
    correction = fitted(spec, sets)
    order = np.random.default_rng(3).permutation(41)
    shuffled = Vectors(order, sets.items[order])
    relevance = {query: [query % 41, (query * 7) % 41] for query in range(60)}
    one, two = (evaluate(sets.queries, items, relevance, correction) for items in (sets.items, shuffled))
    assert_array_equal(one.ranks, two.ranks)
    for row in (0, 1):
        here, there = one.rows[row].hubness, two.rows[row].hubness
        assert here is not None and there is not None
        assert_array_equal(here.counts[order], there.counts)


@pytest.mark.parametrize("strength", [0.0, 0.4, 1.0, 2.0])
@pytest.mark.parametrize("spec", ["is", "dis"])
def test_strength_weighs_the_bias(spec: str, strength: float) -> None:
    sets = drawn(queries=60)
    correction = fitted(spec, sets)
    assert isinstance(correction, Bias)
    answers = [query % 41 for query in range(60)]
    found = evaluate(sets.queries, sets.items, dict(enumerate(answers)), correction, strength=strength, resamples=5)
    assert_ranks(found.ranks[1], correction.apply(sets.query_scores, strength), answers, ROUNDING)
    weighed = (
        EvaluationInputs.of(sets.queries, sets.items, correction).rankings(strength)[1],
        as_ranking(correction, strength),
    )
    one, two = (ranking.h for ranking in weighed if isinstance(ranking, Additive))
    assert_array_equal(one, two)
