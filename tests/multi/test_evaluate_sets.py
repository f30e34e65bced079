"""Evaluating sets: every figure is that of a slow loop which makes each combined query and ranks all items."""

import itertools
import json
import statistics
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests import flickr8k, set_oracles
from tests.bank_cases import drawn as drawn_sets
from tests.bank_cases import fitted
from tests.children import assert_ctrl_c_stops
from tests.compute.test_workers import Recorder
from tests.oracles import Floats
from tests.test_combine import HEAD, HasCombination, first_only
from unhub.arrays import Float32, Kind, unit
from unhub.combine import Combination, equal_weights
from unhub.correction import Bias, Correction
from unhub.data.draws import Drawn, Draws
from unhub.data.vectors import Vectors
from unhub.evaluation import placing
from unhub.evaluation.confidence import Resamples, summaries
from unhub.evaluation.measures import Measure
from unhub.multi.evaluate_sets import evaluate_sets
from unhub.multi.results import SetEvaluation
from unhub.multi.set_spread import Repeated, repetitions

call: Callable[..., SetEvaluation] = evaluate_sets  # for what the types would refuse
NAMES = ("sa", "ra", "mf", "ts-wf")
MEASURES = ("R@1", "R@5", "MdR", "MnR", "GM")
FEW = ("nnn:k=7,alpha=1.25", "nnn")  # of the corrections, where not all are needed


@dataclass(frozen=True, eq=False)
class Data:
    """Texts and items, which item each text describes (-1 none), corrections and how they are compared."""

    texts: Floats
    items: Floats
    owners: tuple[int, ...]
    corrections: Mapping[str, Correction]
    kind: Kind = "cosine"

    @property
    def relevance(self) -> dict[int, int]:
        return {text: item for text, item in enumerate(self.owners) if item >= 0}

    def evaluate(self, **options: object) -> SetEvaluation:
        some = {name: one for name, one in self.corrections.items() if name in FEW}
        given = {"combine": NAMES, "correction": some, "measures": ("R@1", "MnR"), "resamples": 9, "threads": 1}
        return call(self.texts, self.items, self.relevance, similarity=self.kind, **{**given, **options})


@cache
def world(kind: Kind = "cosine", seed: int = 0, captions: int = 4) -> Data:
    """Return items of a bank with hubs, and texts around some of them: as many as the item's number allows."""
    sets = drawn_sets(seed=seed, queries=1).under(kind)
    rng = np.random.default_rng(seed)
    owners = tuple(np.repeat(np.arange(20), [2 + number % captions for number in range(20)]).tolist())
    gap = sets.bank.mean(axis=0)
    texts = sets.items[list(owners)] + gap + 1.6 * rng.standard_normal((len(owners), 16))
    texts = texts.astype(np.float32).astype(np.float64)
    corrections = {name: fitted(name, sets) for name in ("nnn:k=7,alpha=1.25", "dis", "gc", "dualdis")}
    return Data(texts, sets.items, owners, corrections, kind)


def ready(rows: Floats, kind: Kind) -> Floats:
    """Return rows as they are multiplied, with the rounding of float32."""
    single: Float32 = rows.astype(np.float32)
    return (unit(single) if kind == "cosine" else single).astype(np.float64)


@cache
def applied_rows(data: Data, ranking: str) -> Floats:
    """Return the corrected scores of every text alone."""
    return applied(data, ranking, ready(data.texts, data.kind))


def applied(data: Data, ranking: str, queries: Floats) -> Floats:
    """Return the corrected scores of queries."""
    scores = queries @ ready(data.items, data.kind).T
    return scores if ranking == "raw" else np.asarray(data.corrections[ranking].apply(scores), np.float64)


def slow_ranks(data: Data, name: str, ranking: str, sets: list[list[int]], item: int) -> list[float]:
    """Return the rank of an item, when each of these sets of texts asks for it together; nothing is level."""
    if name == "ra":
        rows = applied_rows(data, ranking)
        return [1.0 + set_oracles.by_mean_rank(rows[texts]).index(item) for texts in sets]
    vectors = []
    for texts in sets:
        units = unit(data.texts[texts].astype(np.float32))
        weights = first_only(units[None])[0].tolist() if name == HEAD.name else None
        vectors.append(set_oracles.combined(name, ready(data.texts[texts], data.kind), weights))
    scores = applied(data, ranking, np.array(vectors))
    return [1.0 + (row > row[item]).sum() for row in scores]


def sets_of(drawn: Drawn) -> list[tuple[int, list[list[int]]]]:
    """Return each item with its sets of texts."""
    edges = itertools.pairwise(drawn.starts.tolist())
    sets = [drawn.texts[start:stop].tolist() for start, stop in edges]
    return [*zip(drawn.items.tolist(), sets, strict=True)]


def slow_values(ranks: list[list[float]]) -> dict[str, float]:
    """Return the measures of ranks, item by item and set by set: means of means, and the weighted median."""

    def recall(k: int) -> float:
        return 100 * statistics.fmean(statistics.fmean(rank <= k for rank in of_item) for of_item in ranks)

    weighed = sorted((rank, 1 / len(of_item)) for of_item in ranks for rank in of_item)
    half, below, middles = len(ranks) / 2, 0.0, []
    for rank, weight in weighed:
        if below < half - 1e-9 <= below + weight or below <= half + 1e-9 < below + weight:
            middles.append(rank)
        below += weight
    return {
        "R@1": recall(1),
        "R@5": recall(5),
        "MnR": statistics.fmean(statistics.fmean(of_item) for of_item in ranks),
        "MdR": statistics.fmean((middles[0], middles[-1])),
        "GM": (recall(1) * recall(5) * recall(10)) ** (1 / 3),
    }


def slow_loop(data: Data, found: SetEvaluation, name: str, ranking: str, size: int) -> dict[str, float]:
    """Measure one row by making each combined query."""
    drawn = found.draws.sizes[size]
    return slow_values([slow_ranks(data, name, ranking, sets, item) for item, sets in sets_of(drawn)])


@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_every_row_is_that_of_a_slow_loop(kind: Kind) -> None:
    data = world(kind)
    found = data.evaluate(sizes=(1, 2, 3, 5), draws=4, correction=data.corrections, measures=MEASURES)
    assert found.rankings == ("raw", *data.corrections)
    assert [(row.size, row.combination, row.ranking) for row in found.rows] == [
        *itertools.product((1, 2, 3, 5), NAMES, found.rankings)
    ]
    for row in found.rows:
        expected = slow_loop(data, found, row.combination, row.ranking, row.size)
        values = {name: one.value for name, one in row.values.items()}
        assert_allclose([values[name] for name in MEASURES], [expected[name] for name in MEASURES], rtol=1e-9)


@given(
    seed=st.integers(0, 10_000),
    counts=st.lists(st.integers(0, 7), min_size=1, max_size=9).filter(any),
    sizes=st.sets(st.integers(1, 5), min_size=1),
    draws=st.integers(1, 12),
    threads=st.integers(1, 3),
    rows=st.integers(1, 9),
    name=st.sampled_from([*NAMES, HEAD.name]),
)
@settings(max_examples=25)  # each is some hundred combined queries of a slow loop
def test_blocks_threads_and_shapes_change_nothing(
    seed: int, counts: list[int], sizes: set[int], draws: int, threads: int, rows: int, name: str
) -> None:
    rng = np.random.default_rng(seed)
    owners = tuple(rng.permutation(np.repeat([*range(len(counts)), -1], [*counts, 2])).tolist())
    items = rng.standard_normal((len(counts) + 3, 6))
    texts = items[list(owners)] + rng.standard_normal((len(owners), 6))
    correction = unhub.fit(items, rng.standard_normal((30, 6)), method="nnn:k=3")
    data = Data(texts, items, owners, {"nnn": correction})
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("TILE_BYTES", "BIG_TILE_BYTES"):
            patch.setattr(placing, limit, rows * 4 * len(items))
        patch.setattr(placing, "FEWEST_QUERIES", 1)
        if not any(count >= min(sizes) for count in counts):
            with pytest.raises(
                ValueError, match=f"sizes is {min(sizes)} or more, but no item has more than \\d+ texts; give"
            ):
                data.evaluate(sizes=sizes, draws=draws)
            return
        combine = HasCombination(HEAD) if name == HEAD.name else name
        options = {"sizes": sizes, "draws": draws, "threads": threads, "seed": seed % 7}
        found = data.evaluate(combine=combine, measures=MEASURES, **options)
    assert found.targets == {
        size: sum(count >= size for count in counts) for size in sorted(sizes) if max(counts) >= size
    }
    for row in found.rows:
        expected = slow_loop(data, found, row.combination, row.ranking, row.size)
        assert_allclose([row.values[one].value for one in MEASURES], [expected[one] for one in MEASURES], rtol=1e-9)


# By hand: three items along the axes, each with two texts, and one item that nobody asks for.
ITEMS = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.9, 0.9, 0.9]])
TEXTS = np.array([[5.0, 4, 0], [5, 0, 4], [4, 5, 0], [4.5, 5, 5], [0, 5, 4], [5, 0, 4]])
BY_HAND = {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}


def by_hand(**options: object) -> SetEvaluation:
    return call(TEXTS, ITEMS, BY_HAND, similarity="dot", **{"measures": "R@1,R@2,MdR,MnR", "resamples": 30, **options})


def test_an_evaluation_by_hand() -> None:
    """Item 3 is always first. Ranks of one text: 2 and 2; 2 and 2.5, level with item 2; 3 and 3.

    Sums of two: (10, 4, 4), (8.5, 10, 5) and (5, 5, 8), so that each item is second. By the mean of ranks the first two
    items are second with 2 and 2.25; the third shares 3 with items 0 and 1, and has the largest sum of them.
    """
    found = by_hand(sizes=(1, 2), combine=("sa", "ra"))
    one = found["sa", "raw", 1].values
    assert [one[name].value for name in ("R@1", "R@2", "MdR", "MnR")] == [
        0,
        100 * (1 + (1 + 0.5) / 2 + 0) / 3,
        2.25,
        29 / 12,
    ]
    assert found["ra", "raw", 1].values == one
    two = found["sa", "raw", 2].values
    assert [two[name].value for name in ("R@1", "R@2", "MdR", "MnR")] == [0, 100, 2, 2]
    assert found["ra", "raw", 2].values == two
    assert found.targets == {1: 3, 2: 3} and found.left_out == {1: 0, 2: 0}
    assert found.notes[0] == "1 item has no text: it is ranked, but no query asks for it."
    assert found.area("sa", "raw", 2, "R@2").value.value == pytest.approx((100 * 1.75 / 3 + 100) / 2)


def test_all_subsets_are_the_exhaustive_average() -> None:
    data = world()
    whole = data.evaluate(sizes=(2,), draws=100)
    assert whole.draws.sizes[2].whole.all()
    values = []
    for item in range(20):
        texts = [text for text, owner in enumerate(data.owners) if owner == item]
        pairs = [[*pair] for pair in itertools.combinations(texts, 2)]
        values.append(statistics.fmean(slow_ranks(data, "mf", "raw", pairs, item)))
    assert whole["mf", "raw", 2].values["MnR"].value == pytest.approx(statistics.fmean(values))


@pytest.mark.once
def test_many_draws_come_near_all_subsets() -> None:
    data = world(captions=8)
    whole, some = (data.evaluate(sizes=(4,), draws=draws, combine="sa", correction=None) for draws in (1000, 30))
    assert whole.draws.sizes[4].whole.all() and not some.draws.sizes[4].whole.all()
    exact, drawn = (one["sa", "raw", 4] for one in (whole, some))
    spread = exact.spread["MnR"]
    assert spread is not None and spread > 0
    assert abs(drawn.values["MnR"].value - exact.values["MnR"].value) < 4 * spread / np.sqrt(30)
    assert drawn.spread["MnR"] == pytest.approx(spread, rel=0.25)


def test_a_single_query_is_evaluated_as_by_evaluate() -> None:
    """With as many texts for each item, the mean over items of means over texts is the mean over texts."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((50, 8))
    texts = np.repeat(items, 3, axis=0) + 1.5 * rng.standard_normal((150, 8))
    relevance = {text: text // 3 for text in range(150)}
    corrections = unhub.fit(items, rng.standard_normal((90, 8)), method=["is", "dis", "gc"])
    sets = evaluate_sets(texts, items, relevance, (1, 3), combine=NAMES, correction=corrections, resamples=200)
    plain = unhub.evaluate(texts, items, relevance, corrections, resamples=200)
    for row in plain.rows:
        for name in NAMES:
            found = sets[name, row.name, 1]
            for measure, value in row.values.items():
                assert_allclose(astuple(found.values[measure]), astuple(value), rtol=1e-9)
            for measure, gain in row.gains.items():
                assert_allclose(astuple(found.over_raw[measure]), astuple(gain), rtol=1e-9, atol=1e-9)


def astuple(interval: object) -> tuple[float, ...]:
    return tuple(vars(interval).values())


@pytest.mark.parametrize("method", ["raw", "nnn:k=7,alpha=1.25", "dis", "gc"])
@pytest.mark.parametrize("name", NAMES)
def test_a_search_of_the_same_sets_finds_as_many(name: str, method: str) -> None:
    data = world()
    found = data.evaluate(sizes=(3,), draws=3, combine=name, correction=data.corrections, measures="R@5")
    correction = data.corrections.get(method) or unhub.fit(data.items, data.items, method="raw")
    searcher = unhub.searcher(data.items, correction, threads=1)
    shares = []
    for item, sets in sets_of(found.draws.sizes[3]):
        ids = searcher.search_sets([data.texts[texts] for texts in sets], k=5, combine=name).ids
        shares.append(np.mean([item in row for row in ids]))
    assert found[name, method, 3].values["R@5"].value == pytest.approx(100 * np.mean(shares))


def test_mf_ranks_as_sa_without_a_correction() -> None:
    found = world().evaluate()
    for size in found.sizes:
        assert found["mf", "raw", size].values == found["sa", "raw", size].values
    gain = found["mf", "raw", 3].over_first["R@1"]
    assert astuple(gain) == (0, 0, 0)


@pytest.mark.once
def test_gains_are_differences_of_rows() -> None:
    found = world().evaluate()
    for row in found.rows:
        assert bool(row.over_raw) == (row.ranking != "raw") and bool(row.over_first) == (row.combination != "sa")
        for measure, gain in row.over_raw.items():
            raw = found[row.combination, "raw", row.size].values[measure].value
            assert gain.value == pytest.approx(row.values[measure].value - raw)
            assert gain.low <= gain.high
        for measure, gain in row.over_first.items():
            first = found["sa", row.ranking, row.size].values[measure].value
            assert gain.value == pytest.approx(row.values[measure].value - first)


@pytest.mark.once
def test_intervals_are_over_items_and_not_over_sets() -> None:
    """Ten equal texts for each item say no more than one."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((60, 6))
    one = items + 1.2 * rng.standard_normal((60, 6))
    many = np.repeat(one, 10, axis=0)
    single = evaluate_sets(one, items, dict(enumerate(range(60))), (1,), combine="sa")["sa", "raw", 1]
    again = evaluate_sets(many, items, {text: text // 10 for text in range(600)}, (1, 4), combine="sa")
    for size in (1, 4):
        row = again["sa", "raw", size]
        for measure in ("R@1", "R@10", "MnR", "MdR"):
            assert_allclose(astuple(row.values[measure]), astuple(single.values[measure]), rtol=1e-6)
        assert row.spread["R@1"] == pytest.approx(0, abs=1e-9)
        assert row.spread["MdR"] == 0


@pytest.mark.once
def test_the_spread_is_that_of_every_possible_repetition() -> None:
    """Three items with 3, 1 and 2 sets, all there are: six repetitions, each as likely as the others."""
    drawn = Drawn(np.array([0, 3, 4, 6]), np.arange(3), np.zeros((6, 1), np.int64), np.ones(3, np.bool_), 0)
    values = np.array([1.0, 5, 2, 7, 3, 8])
    means = [statistics.fmean(one) for one in itertools.product(values[:3], values[3:4], values[4:])]
    (found,) = repetitions(Measure("MnR"), values[None, None], drawn, 0)
    assert (found.mean, found.spread) == pytest.approx((statistics.fmean(means), statistics.pstdev(means)))
    medians = [statistics.median(one) for one in itertools.product(values[:3], values[3:4], values[4:])]
    (median,) = repetitions(Measure("MdR"), values[None, None], drawn, 0)
    assert median.spread == pytest.approx(statistics.pstdev(medians), rel=0.15)  # of 200 repetitions
    assert median.mean == pytest.approx(statistics.fmean(medians), abs=0.4)
    (pooled,) = summaries(Measure("MdR"), values[None, None], np.array([1, 1, 1, 3, 1.5, 1.5]))
    assert pooled == 6 and statistics.fmean(medians) == pytest.approx(16 / 3)  # two quantities


@pytest.mark.once
def test_the_spread_of_draws_is_estimated_and_unknown_of_one() -> None:
    some = np.array([False, True])
    drawn = Drawn(np.array([0, 3, 4]), np.arange(2), np.zeros((4, 1), np.int64), some, 0)
    (found,) = repetitions(Measure("MnR"), np.array([[[1.0, 2, 6, 9]]]), drawn, 0)
    assert (found.mean, found.spread) == pytest.approx((6, np.sqrt(statistics.variance([1, 2, 6])) / 2))
    one = Drawn(np.array([0, 1, 2]), np.arange(2), np.zeros((2, 1), np.int64), some, 0)
    for measure in ("MnR", "MdR"):
        assert repetitions(Measure(measure), np.array([[[1.0, 9]]]), one, 0) == [Repeated(5, None)]


@pytest.mark.once
@pytest.mark.parametrize("name", ["MnR", "MdR", "GM"])
@given(seed=st.integers(0, 10_000), items=st.integers(1, 7), kinds=st.integers(1, 9))
def test_weighted_resamples_are_those_of_a_slow_loop(name: str, seed: int, items: int, kinds: int) -> None:
    """Every item is repeated until all have as many values, which makes plain means and medians of weighted ones."""
    rng = np.random.default_rng(seed)
    counts, measure = rng.choice([1, 2, 3, 4], items), Measure(name)
    owners = np.repeat(np.arange(items), counts)
    values = rng.integers(1, kinds + 1, (len(measure.parts), 2, len(owners))) / 2
    drawn = Resamples(owners, 9, seed, 1 / counts[owners])
    (found,) = drawn.summaries([measure], [values])
    even = np.repeat(np.arange(len(owners)), (12 // counts)[owners])
    for times, row in zip(np.concatenate([*drawn.draws]), found, strict=True):
        spread = np.repeat(even, times[owners[even]])
        assert_allclose(row, summaries(measure, values[:, :, spread]), rtol=1e-9)
    assert_allclose(summaries(measure, values, drawn.weights), summaries(measure, values[:, :, even]), rtol=1e-9)


# Areas under the curve.


@pytest.mark.once
def test_areas_are_trapezoids_over_the_items_that_have_all_sizes() -> None:
    data = world()
    some = {name: data.corrections[name] for name in ("nnn:k=7,alpha=1.25", "dis")}
    found = data.evaluate(combine=("sa", "ra"), correction=some, measures=("R@1", "MnR", "R@5"))
    assert {area.measure for area in found.areas} == {"R@1", "R@5"}
    for name, ranking, last in itertools.product(("sa", "ra"), found.rankings, (2, 3, 5)):
        kept = set(found.draws.sizes[last].items.tolist())
        heights = {}
        for size in (one for one in (1, 2, 3, 5) if one <= last):
            shares = [
                statistics.fmean(rank <= 1 for rank in slow_ranks(data, name, ranking, sets, item))
                for item, sets in sets_of(found.draws.sizes[size])
                if item in kept
            ]
            heights[size] = 100 * statistics.fmean(shares)
        pairs = itertools.pairwise(heights.items())
        area = sum((there - here) * (low + high) / 2 for (here, low), (there, high) in pairs) / (last - 1)
        one = found.area(name, ranking, last)
        assert one.value.value == pytest.approx(area)
        assert one.items == len(kept)
        assert one.value.low <= one.value.value <= one.value.high
        for over, other in ((one.over_raw, (name, "raw")), (one.over_first, ("sa", ranking))):
            assert (over is None) == (other == (name, ranking))
            assert over is None or over.value == pytest.approx(area - found.area(*other, last).value.value)
    assert "AUC_5: no sets of 4 were measured; the curve is straight there." in found.notes
    assert any(note.startswith("AUC_5 is over the 5 items with at least 5 texts") for note in found.notes)


@pytest.mark.once
def test_an_area_begins_at_one_query() -> None:
    found = world().evaluate(sizes=(2, 3))
    assert not found.areas
    assert "There is no area under the curve: it starts at size 1, which was not measured." in found.notes
    with pytest.raises(KeyError, match=r"no area up to 3 for sa, raw; there are areas of R@k"):
        found.area("sa", "raw", 3)
    assert not any("area" in note for note in world().evaluate(sizes=(2, 3), measures="MdR").notes)
    assert not any("straight" in note for note in world().evaluate(sizes=(1, 2, 3)).notes)


# What is left out, and told.


def test_what_is_left_out_is_counted_and_said() -> None:
    rng = np.random.default_rng(0)
    items, texts = rng.standard_normal((40, 4)), rng.standard_normal((83, 4))
    relevance = {**{text: text % 38 for text in range(79)}, 79: [3, 99], 80: 98}
    found = evaluate_sets(texts, items, relevance, (1, 2, 3, 7), draws=2, combine="sa", resamples=5)
    assert found.targets == {1: 38, 2: 38, 3: 4} and found.left_out == {1: 0, 2: 0, 3: 34}
    assert found.notes == (
        "2 items have no text: they are ranked, but no query asks for them.",
        "3 texts describe no item and are left out.",
        "2 pairs name an item that is not among the items.",
        "Size 3 is measured on 4 items; 34 items with fewer texts are left out.",
        "No item has 7 texts: size 7 is left out.",
        "One size has only 4 items; intervals are rough with fewer than 30.",
        "Size 3: every possible set of an item's texts, each once.",
        "Size 1: 2 random sets for each of 4 items, every set for the others (seed 0).",
        "Size 2: 2 random sets for each of 4 items, every set for the others (seed 0).",
        "AUC_3 is over the 4 items with at least 3 texts, the same at every size.",
    )
    assert str(found).endswith("\n".join(found.notes))


def test_a_text_of_two_items_asks_for_each() -> None:
    items = np.eye(3)
    found = call([[1.0, 0.9, 0], [0.8, 1, 0]], items, {0: [0, 1], 1: 1}, sizes=(1, 2), combine="sa", measures="MnR")
    assert found.targets == {1: 2, 2: 1}
    assert found["sa", "raw", 1].values["MnR"].value == (1 + (2 + 1) / 2) / 2


def test_one_item_alone_has_no_interval() -> None:
    found = call(np.eye(3)[:2], np.eye(3), {0: 0, 1: 0}, sizes=(1, 2), combine="sa", measures="R@1", resamples=5)
    assert "[?, ?]" in str(found)
    assert "A single item has no interval." in found.notes
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"][0]["values"]["R@1"]["low"] is None


@pytest.mark.parametrize("items", [13, 65])
def test_items_that_are_the_same_are_level(items: int) -> None:
    """A multiply of eight rows rounds columns unlike: copies differ by the last bit where nothing levels them."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((items, 257))
    twice = np.vstack([rows, rows])
    texts = np.repeat(rows, 8, axis=0) + 0.1 * rng.standard_normal((8 * items, 257))
    correction = unhub.fit(twice, rng.standard_normal((60, 257)), method="nnn:k=8")
    relevance = {text: text // 8 for text in range(8 * items)}
    options = {"sizes": (1, 3, 5), "draws": 20, "combine": NAMES, "measures": "R@1,MnR", "resamples": 2, "threads": 1}
    found = call(texts, twice, relevance, correction=correction, **options)
    for row in found.rows:
        assert row.values["R@1"].value == pytest.approx(50) and row.values["MnR"].value == pytest.approx(1.5)


# What an evaluation offers.


@pytest.mark.once
def test_an_evaluation_is_json() -> None:
    found = world().evaluate(sizes=(1, 3), combine=["sa", "ra"], correction=world().corrections)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["combinations"] == ["sa", "ra"] and told["rankings"] == list(found.rankings)
    assert told["sizes"] == [{"size": 1, "targets": 20, "left_out": 0}, {"size": 3, "targets": 15, "left_out": 5}]
    assert (told["draws"], told["seed"], told["items"]) == (100, 0, 41)
    assert len(told["rows"]) == len(found.rows) and len(told["areas"]) == len(found.areas)
    last = found["ra", "dualdis", 3]
    row = next(one for one in told["rows"] if (one["combination"], one["ranking"], one["size"]) == ("ra", "dualdis", 3))
    assert row["over_raw"]["R@1"] == last.over_raw["R@1"].to_dict() and row["spread"] == last.spread
    assert row["mean_over_repetitions"] == last.mean_over_repetitions
    assert row["mean_over_repetitions"]["R@1"] == pytest.approx(row["values"]["R@1"]["value"])


@pytest.mark.once
def test_a_table_has_each_single_query_once() -> None:
    found = world().evaluate(sizes=(1, 2), combine=["sa", "ra"], correction=world().corrections, measures="R@1,MdR")
    heads, lines = found.cells()
    assert heads == ["sets", "R@1", "MdR", "sd of R@1", "gain in R@1 over raw", "over sa"]
    labels = [line[0] for line in lines]
    assert labels[:5] == [f"1 query, {ranking}" for ranking in found.rankings]
    assert labels[5:7] == ["2 queries, sa, raw", "2 queries, sa, nnn:k=7,alpha=1.25"] and len(labels) == 15
    assert all(len(line) == len(heads) for line in lines)
    heads, lines = found.area_cells()
    assert heads == ["area", "AUC_2 of R@1"] and len(lines) == 10
    plain = world().evaluate(sizes=(2,), combine="sa", correction=None, measures="MdR")
    assert plain.cells()[0] == ["sets", "MdR", "sd of MdR"] and plain.cells()[1][0][0] == "2 queries, sa"


def test_a_row_is_found_by_what_it_is_of() -> None:
    found = world().evaluate(sizes=(2,), correction=world().corrections)
    assert found["mf", "dis", 2].combination == "mf"
    with pytest.raises(
        KeyError, match=r"no row \('mf', 'dis', 3\); it has the combinations sa, ra, mf, ts-wf, rankings"
    ):
        found["mf", "dis", 3]


@pytest.mark.once
def test_combinations_have_names() -> None:
    head = HasCombination(Combination("mf", "a trained one", equal_weights, fused=True))
    found = world().evaluate(sizes=(2,), combine=["mf", head, head], correction=None)
    assert found.combinations == ("mf", "mf (2)", "mf (3)")
    assert found["mf", "raw", 2].values == found["mf (3)", "raw", 2].values
    named = world().evaluate(sizes=(2,), combine={"plain": "sa", "mine": head}, correction=None)
    assert named.combinations == ("plain", "mine")
    assert world().evaluate(sizes=(2,), combine=head, correction=None).combinations == ("mf",)


@pytest.mark.once
def test_the_curve_is_drawn(tmp_path: Path) -> None:
    found = world().evaluate(sizes=(1, 2, 3))
    found.picture(tmp_path / "curve.svg")
    drawn = (tmp_path / "curve.svg").read_text()
    for words in ("R@1 against the number of queries", "queries for one target", *NAMES, *found.rankings):
        assert words in drawn
    found.picture(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert found.chart.words.startswith("R@1 against the number of queries. Best at 3: ")
    with pytest.raises(ValueError, match=r"curve\.jpg is not the name of a picture; end it in \.png or \.svg"):
        found.picture(tmp_path / "curve.jpg")


# Draws.


@pytest.mark.once
def test_draws_make_results_comparable() -> None:
    data = world()
    first = data.evaluate(sizes=(1, 2, 3), draws=2, seed=3)
    assert data.evaluate(sizes=(1, 2, 3), draws=2, seed=3).to_dict() == first.to_dict()
    again = data.evaluate(draws=first.draws, seed=3, threads=2)
    assert again.to_dict() == first.to_dict()
    assert data.evaluate(sizes=[3], draws=first.draws, seed=3).rows[-1].values == first.rows[-1].values
    other = data.evaluate(sizes=(1, 2, 3), draws=2, seed=4)
    assert np.any(other.draws.sizes[3].texts != first.draws.sizes[3].texts)


def test_draws_are_used_in_whatever_order_texts_and_items_come() -> None:
    data = world()
    rng = np.random.default_rng(0)
    draws = Draws.of(data.texts, data.items, data.relevance, (1, 2, 3), 2)
    order, turned = rng.permutation(len(data.texts)), rng.permutation(len(data.items))
    texts, items = Vectors(order, data.texts[order]), Vectors(turned, data.items[turned])
    bias = {name: one for name, one in data.corrections.items() if isinstance(one, Bias)}
    options = {"combine": NAMES, "correction": bias, "draws": draws, "measures": "R@1,MnR", "resamples": 5}
    here, there = call(data.texts, data.items, data.relevance, **options), call(texts, items, data.relevance, **options)
    for one, other in zip(here.rows, there.rows, strict=True):
        for measure in ("R@1", "MnR"):
            assert one.values[measure].value == pytest.approx(other.values[measure].value)
        assert one.spread["MnR"] == pytest.approx(other.spread["MnR"])


# Mistakes.


def crossed() -> tuple[Floats, Floats, dict[int, int]]:
    """Return texts of which two cancel out."""
    return np.array([[1.0, 2], [-1, -2], [1, 0]]), np.eye(2), {0: 1, 1: 1, 2: 0}


MISTAKES: dict[str, tuple[Callable[[Data], object], str]] = {
    "dimensions": (lambda d: call(d.texts[:, :3], d.items, d.relevance), "texts has 3 dimensions, the items 16"),
    "NaN": (lambda d: call(np.where(d.texts > 2, np.nan, d.texts), d.items, d.relevance), "texts holds nan in row 0"),
    "no texts": (lambda d: call(d.texts[:0], d.items, d.relevance), "texts is empty"),
    "a matrix": (
        lambda d: call(unhub.Dense(np.eye(3)), None, {0: 0}),
        "texts must be vectors, got a matrix",
    ),
    "no relevance": (lambda d: call(d.texts, d.items, {}), "relevance holds no pair"),
    "other ids": (lambda d: call(d.texts, d.items, {"a": 1}), "query ids are integers here"),
    "too large": (
        lambda d: d.evaluate(sizes=(6, 9)),
        "sizes is 6 or more, but no item has more than 5 texts; give a smaller size",
    ),
    "no sizes": (lambda d: d.evaluate(sizes=()), "sizes is empty"),
    "no draws": (lambda d: d.evaluate(draws=0), "draws must be a whole number of at least 1"),
    "no combination": (lambda d: d.evaluate(combine=[]), "combine is empty"),
    "an unknown one": (lambda d: d.evaluate(combine=["sa", "saa"]), r"combine 'saa' is unknown; did you mean 'sa'\?"),
    "none": (lambda d: d.evaluate(combine=None), "combine must be .* got None"),
    "a head": (lambda d: d.evaluate(combine=HEAD), "trained for 6 dimensions, but the queries have 16"),
    "a plan": (
        lambda d: d.evaluate(correction=unhub.fit(d.items, d.items, method="hn")),
        "correction 'hn:zeros=raw' balances one batch of queries, but many sets are drawn here",
    ),
    "a text": (lambda d: d.evaluate(correction="is"), "corrections must be one fitted correction"),
    "a measure": (lambda d: d.evaluate(measures="R"), "measures 'R' needs a cut-off"),
    "a seed": (lambda d: d.evaluate(seed=-1), "seed must be a whole number of at least 0"),
    "resamples": (lambda d: d.evaluate(resamples=0), "resamples must be a whole number of at least 1"),
    "a strength": (lambda d: d.evaluate(correction=d.corrections["gc"], strength=0.5), "strength must be 1 for 'gc'"),
    "cancelling": (
        lambda d: call(*crossed(), sizes=(2,), combine="mf"),
        r"texts \[0, 1\] of item 1 cancel out under 'mf': their sum has no direction; combine with 'sa'",
    ),
    "sizes of draws": (
        lambda d: d.evaluate(sizes=(1, 4), draws=Draws.of(d.texts, d.items, d.relevance, (1, 2))),
        "sizes must be among those of the draws, 1, 2, got 4",
    ),
    "draws of others": (
        lambda d: d.evaluate(draws=Draws.of(d.texts[1:], d.items, {0: 0}, (1,))),
        "draws were made for 69 texts, got 70",
    ),
    "draws of other pairs": (
        lambda d: d.evaluate(draws=Draws.of(d.texts, d.items, {0: 7}, (1,))),
        "draws differs from the relevance in \\d+ pairs: text 0 did not describe item 0 and now does; draw again",
    ),
    "draws of fewer pairs": (
        lambda d: d.evaluate(draws=Draws.of(d.texts, d.items, {**d.relevance, 0: 7}, (1,))),
        "draws differs from the relevance in .*: text 0 .*describe.* item",
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_remedy(mistake: str) -> None:
    run, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        run(world())


def test_sa_ranks_what_cancels_out() -> None:
    found = call(*crossed(), sizes=(2,), combine="sa", measures="MnR")
    assert found["sa", "raw", 2].values["MnR"].value == 1.5  # all are level


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_strength_weighs_the_bias(strength: float) -> None:
    data = world()
    bias = data.corrections["nnn:k=7,alpha=1.25"]
    assert isinstance(bias, Bias)
    found = data.evaluate(correction={"nnn": bias}, strength=strength, sizes=(2,), combine="sa", draws=2)
    weaker = Bias(
        bias.method, bias.ids, bias.item_hashes, bias.source, bias.cost, {"bias": strength * bias.bias}, bias.offset
    )
    part = Data(data.texts, data.items, data.owners, {"nnn": weaker})
    assert found["sa", "nnn", 2].values["MnR"].value == pytest.approx(slow_loop(part, found, "sa", "nnn", 2)["MnR"])


# Long work.


@pytest.mark.parametrize("threads", [1, 3])
def test_progress_rises_and_ends_at_the_total(threads: int) -> None:
    progress = Recorder()
    world().evaluate(threads=threads, progress=progress)
    progress.assert_rises_to_the_end()


BIG = """
import numpy as np
from unhub.multi.evaluate_sets import evaluate_sets
from unhub.data.vectors import Gathered
rows = np.random.default_rng(0).standard_normal((2000, 64), np.float32)
many = Gathered(rows, np.arange(40_000) % 2000)
def progress(done, total):
    print("started", flush=True) if done else None
relevance = {text: text % 2000 for text in range(40_000)}
evaluate_sets(many, rows, relevance, combine=["sa", "ra", "mf", "ts-wf"], threads=2, progress=progress)
"""


@pytest.mark.once
def test_ctrl_c_stops_a_big_evaluation_within_seconds() -> None:
    assert_ctrl_c_stops(BIG)


@pytest.mark.once
def test_neither_all_texts_nor_all_sets_meet_all_items_at_once() -> None:
    """4,000 texts x 4,000 items are 64 MB, and 15,000 sets x items 240 MB; a tile is 24 MB, and ranks take two."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((4000, 8), np.float32)
    texts = np.repeat(items[:800], 5, axis=0) + rng.standard_normal((4000, 8), np.float32)
    relevance = {text: text // 5 for text in range(4000)}
    options = {"sizes": (1, 2, 3), "combine": ["sa", "mf"], "measures": "R@1", "resamples": 2, "threads": 1}
    tracemalloc.start()
    try:
        call(texts, items, relevance, **options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80e6


# On real data.


@pytest.mark.once
def test_five_captions_of_real_embeddings_find_far_more_than_one() -> None:
    data = flickr8k.load("vse_holdout")
    correction = unhub.fit(data.test_images, data.bank_texts, method="nnn:k=32,alpha=0.5")
    relevance = dict(enumerate(data.truth.tolist()))
    found = evaluate_sets(
        data.test_texts,
        data.test_images,
        relevance,
        (1, 5),
        combine=["sa", "ra"],
        correction=correction,
        measures="R@1,R@10",
        resamples=100,
    )
    plain = unhub.evaluate(data.test_texts, data.test_images, relevance, correction, "R@1", resamples=2, hubness_k=None)
    for row in plain.rows:
        assert found["sa", row.name, 1].values["R@1"].value == pytest.approx(row.values["R@1"].value)
    five = found["sa", "raw", 5].values["R@1"]
    queries = ready(data.test_texts, "cosine").reshape(1000, 5, -1).mean(axis=1)
    scores = queries @ ready(data.test_images, "cosine").T
    exact = 100 * np.mean(scores.argmax(axis=1) == np.arange(1000))
    assert_array_equal(data.truth, np.repeat(np.arange(1000), 5))
    assert five.value == pytest.approx(exact, abs=0.11)
    assert five.low > found["sa", "raw", 1].values["R@1"].high
    assert found["sa", correction.spec, 5].over_raw["R@1"].value > 0


@pytest.mark.once
def test_every_public_name_is_there() -> None:
    assert unhub.evaluate_sets is evaluate_sets and unhub.SetEvaluation is SetEvaluation
