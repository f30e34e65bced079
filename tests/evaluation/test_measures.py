"""Measures by hand, against every order of tied items, and against ir-measures."""

import itertools
import math
from collections.abc import Callable, Sequence

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unhub.evaluation.confidence import summaries
from unhub.evaluation.measures import MEASURES, Measure, Places, parse_measure, parse_measures

pytestmark = pytest.mark.once

Answers = dict[int, float]  # item: grade


def places_of(scores: Sequence[Sequence[float]], truth: Sequence[Answers]) -> Places:
    """Count what stands before and level with each answer."""
    better, equal, grades = [], [], []
    for row, answers in zip(scores, truth, strict=True):
        for item, grade in answers.items():
            better.append(sum(one > row[item] for one in row))
            equal.append(sum(one == row[item] for one in row))
            grades.append(grade)
    starts = np.cumsum([0, *map(len, truth)])
    return Places.of(starts, np.array(better), np.array(equal), np.array(grades, np.float64), len(scores[0]))


def values(name: str, places: Places) -> list[float]:
    return [float(one) for one in parse_measure(name).values(places)]


def summary(name: str, places: Places) -> float:
    measure = parse_measure(name)
    of_queries = np.array([[part.values(places)] for part in measure.parts])
    return float(summaries(measure, of_queries)[0])


# By hand: a is answered by its first item; b by its second, of grade 1, and its fourth, of grade 3; c by one of the two
# that share places 2 and 3, of grade 2.
SCORES = ([9, 8, 7, 6, 5, 4], [9, 8, 7, 6, 5, 4], [9, 8, 8, 6, 5, 4])
TRUTH: tuple[Answers, ...] = ({0: 1.0}, {1: 1.0, 3: 3.0}, {2: 2.0})
SECOND = 1 / math.log2(3)  # the discount of place 2; that of place 3 is 1 / 2

BY_HAND: dict[str, tuple[float, float, float]] = {
    "R@1": (100, 0, 0),
    "R@2": (100, 100, 50),
    "R@3": (100, 100, 100),
    "MdR": (1, 2, 2.5),
    "MnR": (1, 2, 2.5),
    "MRR": (100, 50, 100 * (1 / 2 + 1 / 3) / 2),
    "MRR@2": (100, 50, 25),
    "mAP": (100, 100 * (1 / 2 + 2 / 4) / 2, 100 * (1 / 2 + 1 / 3) / 2),
    "mAP@3": (100, 100 * (1 / 2) / 2, 100 * (1 / 2 + 1 / 3) / 2),
    "mAP@R": (100, 100 * (1 / 2) / 2, 0),
    "nDCG": (100, 100 * (SECOND + 3 / math.log2(5)) / (3 + SECOND), 100 * (SECOND + 1 / 2) / 2),
    "nDCG@3": (100, 100 * SECOND / (3 + SECOND), 100 * (SECOND + 1 / 2) / 2),
    "nDCG@1": (100, 0, 0),
    "P@2": (50, 50, 25),
    "P@4": (25, 50, 25),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_measure_by_hand(name: str) -> None:
    places = places_of(SCORES, TRUTH)
    assert_allclose(values(name, places), BY_HAND[name], atol=1e-12)
    middle = np.median if name == "MdR" else np.mean
    assert summary(name, places) == pytest.approx(float(middle(BY_HAND[name])))


def test_the_geometric_mean_by_hand() -> None:
    scores = [[-abs(place) for place in range(12)]] * 3
    places = places_of(scores, [{0: 1}, {3: 1}, {7: 1}])  # R@1 a third, R@5 two thirds, R@10 all
    assert summary("GM", places) == pytest.approx(100 * (1 / 3 * 2 / 3 * 1) ** (1 / 3))
    assert summary("GM", places_of(scores, [{3: 1}] * 3)) == 0


def test_every_measure_is_tested_by_hand() -> None:
    assert {parse_measure(name).name for name in BY_HAND} | {"GM"} == set(MEASURES)


def test_twenty_tied_items_are_a_chance_and_no_success() -> None:
    places = places_of([[0.5] * 20], [{3: 1}])
    assert_allclose(values("R@10", places), [50])
    assert_allclose(values("R@1", places), [5])
    assert_allclose(values("R@20", places), [100])
    assert_allclose(values("MdR", places), [10.5])


def test_two_answers_among_tied_items_come_sooner_than_one() -> None:
    places = places_of([[0.5] * 4], [{0: 1, 1: 1}])
    assert_allclose(values("R@1", places), [50])
    assert_allclose(values("R@2", places), [100 * (1 - 1 / 6)])
    assert_allclose(values("MnR", places), [5 / 3])


# Every order of tied items.


def first_rank(order: Sequence[int], answers: Answers) -> float:
    return 1 + min(order.index(item) for item in answers)


def recall(order: Sequence[int], answers: Answers, k: int) -> float:
    return 100.0 * any(item in answers for item in order[:k])


def reciprocal(order: Sequence[int], answers: Answers, k: int) -> float:
    rank = first_rank(order, answers)
    return 100 / rank if rank <= k else 0.0


def precision(order: Sequence[int], answers: Answers, k: int) -> float:
    return 100 * sum(item in answers for item in order[:k]) / k


def average_precision(order: Sequence[int], answers: Answers, k: int) -> float:
    found = [precision(order, answers, rank + 1) for rank, item in enumerate(order[:k]) if item in answers]
    return sum(found) / len(answers)


def discounted_gain(order: Sequence[int], answers: Answers, k: int) -> float:
    ideal = sorted(answers.values(), reverse=True)
    gains = [answers.get(item, 0.0) for item in order]
    sums = [sum(gain / math.log2(rank + 2) for rank, gain in enumerate(several[:k])) for several in (gains, ideal)]
    return 100 * sums[0] / sums[1]


ORACLES: dict[str, Callable[[Sequence[int], Answers, int], float]] = {
    "R": recall,
    "MRR": reciprocal,
    "P": precision,
    "mAP": average_precision,
    "mAP@R": lambda order, answers, k: average_precision(order, answers, len(answers)),
    "nDCG": discounted_gain,
    "MnR": lambda order, answers, k: first_rank(order, answers),
}


def orders(row: Sequence[float]) -> list[list[int]]:
    """Return every order of the items that puts better ones first."""
    levels = [[item for item, one in enumerate(row) if one == level] for level in sorted(set(row), reverse=True)]
    return [list(itertools.chain(*parts)) for parts in itertools.product(*map(itertools.permutations, levels))]


@st.composite
def tied_cases(draw: st.DrawFn) -> tuple[list[list[float]], list[Answers]]:
    items = draw(st.integers(1, 6))
    row = st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=items, max_size=items)
    answers = st.dictionaries(st.integers(0, items - 1), st.sampled_from([0.5, 1.0, 3.0]), min_size=1)
    queries = draw(st.integers(1, 3))
    scores = draw(st.lists(row, min_size=queries, max_size=queries))
    return scores, draw(st.lists(answers, min_size=queries, max_size=queries))


@pytest.mark.parametrize("name", ORACLES)
@given(case=tied_cases(), k=st.integers(1, 7))
@settings(max_examples=60)
def test_tied_items_count_as_the_mean_over_all_their_orders(
    name: str, case: tuple[list[list[float]], list[Answers]], k: int
) -> None:
    scores, truth = case
    exact = [
        np.mean([ORACLES[name](order, answers, k) for order in orders(row)])
        for row, answers in zip(scores, truth, strict=True)
    ]
    measure = Measure(name, k if MEASURES[name].cut else None)
    assert_allclose(measure.values(places_of(scores, truth)), exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["MRR", "mAP", "nDCG"])
def test_no_cut_off_looks_at_all_items(name: str) -> None:
    places = places_of(SCORES, TRUTH)
    assert values(name, places) == values(f"{name}@6", places) == values(f"{name}@60", places)


# A second opinion.

OTHER_NAMES = {
    "R@1": "Success@1",
    "R@5": "Success@5",
    "P@5": "P@5",
    "P@20": "P@20",
    "MRR": "RR",
    "mAP": "AP",
    "mAP@10": "AP@10",
    "nDCG": "nDCG",
    "nDCG@5": "nDCG@5",
    "nDCG@20": "nDCG@20",
}


@pytest.mark.parametrize("seed", range(3))
def test_ir_measures_agrees_where_nothing_is_tied(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, items = 30, 40
    scores = np.array([rng.permutation(items) for _ in range(queries)], np.float64)
    truth: list[Answers] = [
        {int(item): float(rng.integers(1, 4)) for item in rng.choice(items, rng.integers(1, 7), replace=False)}
        for _ in range(queries)
    ]
    judged = {f"q{query}": {f"d{item}": int(grade) for item, grade in truth[query].items()} for query in range(queries)}
    run = {f"q{query}": {f"d{item}": float(scores[query, item]) for item in range(items)} for query in range(queries)}
    wanted = {ir_measures.parse_measure(other): name for name, other in OTHER_NAMES.items()}
    theirs: dict[str, dict[str, float]] = {name: {} for name in OTHER_NAMES}
    for found in ir_measures.iter_calc(list(wanted), judged, run):
        theirs[wanted[found.measure]][found.query_id] = 100 * found.value
    places = places_of(scores.tolist(), truth)
    for name in OTHER_NAMES:
        expected = [theirs[name][f"q{query}"] for query in range(queries)]
        assert_allclose(values(name, places), expected, rtol=1e-6, err_msg=name)


# Names.


@pytest.mark.parametrize(
    ("text", "printed"),
    [("R@10", "R@10"), ("ndcg@5", "nDCG@5"), ("map", "mAP"), ("map@r", "mAP@R"), ("MDR", "MdR"), ("gm", "GM")],
)
def test_a_measure_prints_as_it_is_typed(text: str, printed: str) -> None:
    assert str(parse_measure(text)) == printed
    assert parse_measure(parse_measure(text)) == parse_measure(text)


def test_one_text_may_name_several_each_once() -> None:
    assert parse_measures("R@1, R@5,MdR,r@1") == (Measure("R", 1), Measure("R", 5), Measure("MdR"))
    assert parse_measures(["R@1", Measure("R", 1)]) == (Measure("R", 1),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDGC@10", r"^measures 'nDGC@10' is unknown; did you mean 'nDCG'\? the measures are R@k, GM, MdR"),
        ("recall", "'recall' is unknown; the measures are"),
        ("R", "'R' needs a cut-off; give one, for example R@10"),
        ("MdR@10", "'MdR' has no cut-off, got 'MdR@10'; write MdR"),
        ("R@0", "must be a text such as 'R@10', got 'R@0'"),
        ("R@-1", "must be a text such as"),
        ("", "must be a text such as 'R@10', got ''"),
        (Measure("R"), "'R' needs a cut-off"),
        (Measure("Q", 3), "is unknown; the measures are"),
    ],
)
def test_a_name_that_is_no_measure_is_told(text: str | Measure, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_measures([text])


@pytest.mark.parametrize("name", ["R", "MRR", "mAP", "nDCG", "P"])
def test_a_cut_off_that_no_integer_holds_looks_at_all_items(name: str) -> None:
    k, places = 10**20, places_of([[0.3, 0.2, 0.2], [0.1, 0.5, 0.5]], [{1: 1, 2: 1}, {2: 1}])
    assert_allclose(Measure(name, k).values(places), Measure(name, 3).values(places) * (3 / k if name == "P" else 1))


def test_no_measures_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="measures is empty"):
        parse_measures([])
