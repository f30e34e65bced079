"""Relevance: every form it is given in, and where the answers stand among vectors in any order."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unhub.arrays import Ids
from unhub.data.relevance import Relevance, RelevanceLike, Truth, as_relevance

pytestmark = pytest.mark.once


def pairs(relevance: Relevance) -> list[tuple[int | str, int | str, float]]:
    columns = (relevance.query_ids.tolist(), relevance.item_ids.tolist(), relevance.grades.tolist())
    return sorted(zip(*columns, strict=True))


def answers(truth: Truth) -> list[list[tuple[int, float]]]:
    """Return (position, grade) of each query's answers."""
    both = list(zip(truth.positions.tolist(), truth.grades.tolist(), strict=True))
    return [both[start:stop] for start, stop in zip(truth.starts[:-1], truth.starts[1:], strict=True)]


FORMS: dict[str, RelevanceLike] = {
    "a Relevance": Relevance([1, 1, 2], [10, 11, 10]),
    "lists": {1: [10, 11], 2: [10]},
    "one or several": {1: (10, 11), 2: 10},
    "sets": {1: {10, 11}, 2: {10}},
    "arrays": {1: np.array([10, 11]), 2: np.int64(10)},
    "grades": {1: {10: 1, 11: 1.0}, 2: {10: 1}},
    "numpy keys": cast("RelevanceLike", {np.int64(1): [10, 11], np.int64(2): [10]}),
    "rows of two": [(1, 10), (1, 11), (2, 10)],
    "rows of three": [[1, 10, 1], [1, 11, 1], [2, 10, 1.0]],
    "a whole array": np.array([[1, 10], [1, 11], [2, 10]]),
    "an array with grades": np.array([[1, 10, 1.0], [1, 11, 1.0], [2, 10, 1.0]]),
    "an array of small integers": np.array([[1, 10, 1], [1, 11, 1], [2, 10, 1]], np.uint8),
    "repeated": [(1, 10), (1, 11), (2, 10), (1, 11)],
    "with a grade of nothing": [(1, 10, 1), (1, 11, 1), (2, 10, 1), (2, 11, 0), (1, 12, -1)],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_relevance(form: str) -> None:
    assert pairs(as_relevance(FORMS[form])) == [(1, 10, 1), (1, 11, 1), (2, 10, 1)]


@pytest.mark.parametrize("form", [{"q": "a"}, {"q": ["a"]}, {"q": {"a"}}, {"q": {"a": 1}}, [("q", "a")]])
def test_ids_may_be_strings(form: RelevanceLike) -> None:
    assert pairs(as_relevance(form)) == [("q", "a", 1)]


def test_an_array_of_strings_may_carry_grades() -> None:
    assert pairs(as_relevance(np.array([["q", "a", "2"], ["q", "b", "0.5"]]))) == [("q", "a", 2), ("q", "b", 0.5)]


def test_object_arrays_of_strings_are_strings() -> None:
    ids = np.array(["q", "r"], dtype=object)
    assert Relevance(ids, ids).query_ids.dtype.kind == "U"


def test_grades_are_kept_and_nothing_can_be_changed() -> None:
    relevance = as_relevance({1: {10: 3, 11: 0.5}, 2: {10: 0}})
    assert pairs(relevance) == [(1, 10, 3), (1, 11, 0.5)]
    assert repr(relevance) == "<Relevance: 2 pairs of 1 queries>"
    with pytest.raises(ValueError, match="read-only"):
        relevance.grades[0] = 1


def test_what_was_given_stays_as_it_was() -> None:
    ids, grades = np.array([1, 2]), np.array([1.0, 2.0])
    Relevance(ids, ids, grades)
    assert ids.flags.writeable and grades.flags.writeable


def test_reversed_swaps_the_directions_and_twice_is_the_same() -> None:
    relevance = as_relevance({"a": {1: 2.0, 2: 1.0}, "b": {1: 3.0}})
    assert pairs(relevance.reversed()) == [(1, "a", 2), (1, "b", 3), (2, "a", 1)]
    assert pairs(relevance.reversed().reversed()) == pairs(relevance)


# Against vectors.


def ids_of(*ids: int | str) -> Ids:
    return cast("Ids", np.array(ids))


def test_answers_stand_where_the_ids_do() -> None:
    relevance = as_relevance({"x": {7: 2, 5: 1}, "y": 5, "z": 9})
    truth = relevance.against(ids_of("z", "none", "x", "y"), ids_of(5, 6, 7))
    assert answers(truth) == [[], [], [(2, 2), (0, 1)], [(0, 1)]]  # in the order of the table
    assert truth.absent == 1  # z is answered by 9
    assert truth.counts.tolist() == [0, 0, 2, 1]
    assert truth.answered.tolist() == [2, 3]
    assert truth.owners.tolist() == [2, 2, 3]


def test_answers_to_queries_that_are_not_asked_are_not_absent() -> None:
    truth = as_relevance({1: 10, 2: 99, 3: [10, 98]}).against(ids_of(1, 3), ids_of(10))
    assert truth.absent == 1


def test_whole_numbers_also_name_ids_that_are_strings() -> None:
    truth = as_relevance({1: 20}).against(ids_of("1", "2"), ids_of("10", "20"))
    assert answers(truth) == [[(1, 1)], []]


def test_strings_that_are_all_integers_also_name_ids_that_are_integers() -> None:
    truth = as_relevance({"1": "20", "-2": "9223372036854775807"}).against(ids_of(1, -2), ids_of(20, 2**63 - 1))
    assert answers(truth) == [[(0, 1)], [(1, 1)]]


def test_strings_of_any_length_are_compared_whole() -> None:
    truth = as_relevance({"q": "photo_10", "qq": "p"}).against(ids_of("qq", "q"), ids_of("photo_1", "photo_10", "p"))
    assert answers(truth) == [[(2, 1)], [(1, 1)]]


def test_queries_with_the_same_first_answer_are_a_group() -> None:
    relevance = as_relevance({0: 5, 1: [5, 6], 2: 6, 4: [6, 5]})
    for items in (ids_of(6, 5), ids_of(5, 6)):  # whose order is nothing to the table's
        assert relevance.against(np.arange(5), items).groups.tolist() == [0, 0, 1, -1, 1]


def test_an_answer_to_all_queries_leaves_them_apart_unless_it_is_the_first() -> None:
    other = [(query, 10 + query) for query in range(4)]
    shared = [(query, 0) for query in range(4)]
    for rows, count in ((other + shared, 4), (shared + other, 1)):
        truth = as_relevance(rows).against(np.arange(4), np.arange(20))
        assert len(np.unique(truth.groups)) == count


def test_some_queries_of_a_truth_keep_their_answers_in_their_order() -> None:
    truth = as_relevance({0: {5: 2}, 1: {5: 1, 6: 3}, 3: 6}).against(np.arange(4), ids_of(5, 6))
    some = truth.gather(np.array([3, 1, 2, 1]))
    assert answers(some) == [[(1, 1)], [(0, 1), (1, 3)], [], [(0, 1), (1, 3)]]


@given(
    table=st.dictionaries(
        st.tuples(st.integers(0, 6), st.integers(0, 6)), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0]), min_size=1
    ),
    queries=st.permutations(range(8)).map(lambda ids: ids[:5]),
    items=st.permutations(range(8)).map(lambda ids: ids[:5]),
    words=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=150)
def test_answers_are_those_of_a_slow_look_up_whatever_the_order(
    table: dict[tuple[int, int], float], queries: list[int], items: list[int], words: bool, seed: int
) -> None:
    kept = {pair: grade for pair, grade in table.items() if grade > 0 and pair[0] in queries}
    there = {pair: grade for pair, grade in kept.items() if pair[1] in items}
    name = (lambda one: f"id {one}") if words else (lambda one: one)
    rows = [(name(query), name(item), grade) for (query, item), grade in table.items()]
    rows = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
    asked, gallery = ids_of(*map(name, queries)), ids_of(*map(name, items))
    if not there:
        with pytest.raises(ValueError, match=r"relevance (holds no pair|names none)"):
            as_relevance(rows).against(asked, gallery)
        return
    truth = as_relevance(rows).against(asked, gallery)
    expected = [
        [
            (gallery.tolist().index(item), grade)
            for one, item, grade in rows
            if one == query and grade > 0 and item in gallery
        ]
        for query in asked.tolist()
    ]
    assert answers(truth) == expected
    assert truth.absent == len(kept) - len(there)


# Mistakes.


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "holds no pair with a grade over 0"),
        ([], "holds no pair with a grade over 0"),
        ({1: []}, "holds no pair with a grade over 0"),
        ({1: {2: 0}}, "holds no pair with a grade over 0"),
        (np.empty((0, 2)), "holds no pair with a grade over 0"),
        (np.arange(4), r"2 or 3 columns \(query id, item id, grade\), got shape \(4,\)"),
        (np.ones((2, 4)), r"got shape \(2, 4\)"),
        ("qrels.csv", r"got str; if it names a file, read the file first"),
        (Path("qrels.csv"), r"Path; if it names a file, read the file first"),
        (5, "got int"),
        ([1, 2], r"rows of \(query id, item id\[, grade\]\), got list"),
        (["ab", "cd"], "got list"),
        ([(1, 2), (1, 3, 1)], "rows of 2 and rows of 3"),
        ([(1, 2, 3, 4)], "got list"),
        ({1: 2.5}, "has item ids of type float64 .*; item ids must be a list of integers or strings"),
        ({1: np.inf}, "has item ids of type float64 .*; item ids must be a list of integers or strings"),
        ({1: None}, "has item ids of type object .*; item ids must be a list of integers or strings"),
        ({1: [[2, 3]]}, r"has item ids of type int64 and shape \(1, 2\); item ids must be a list"),
        ({1: [[2], [3, 4]]}, "has lists as ids; each id must be an integer or a string"),
        (
            np.array([[2**53, 1, 1.0]]),
            r"has the id 9.*; query ids that are floats must be under 2\*\*53, .*; give them as strings",
        ),
        ([(-1e300, 1)], r"query ids that are floats must be under 2\*\*53"),
        ({1: 2**63}, r"has the id 9223372036854775808; item ids must be under 2\*\*63; give them as strings"),
        ([(True, 1)], "has query ids of type bool .*; query ids must be a list of integers or strings"),
        ([(1, 2, "good")], r"good.*; grades must be a list of numbers"),
        ([(1, 2, np.nan)], "has the grade nan in pair 0; grades must be finite"),
        ({1: {2: np.inf}}, "has the grade inf in pair 0"),
        ([(1, 2, 1), (1, 3, 1), (1, 2, 2)], "has two grades for query 1 and item 2, 1 and 2"),
        ([("q", "a", 1), ("q", "a", 0)], "has two grades for query 'q' and item 'a', 1 and 0"),
    ],
)
def test_a_mistake_is_told(value: RelevanceLike, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_relevance(value)


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 query ids, 1 item ids and 2 grades"):
        Relevance([1, 2], [1])
    with pytest.raises(ValueError, match="1 query ids, 1 item ids and 2 grades"):
        Relevance([1], [1], [1, 2])
    with pytest.raises(ValueError, match="grades must be a list of numbers"):
        Relevance([1], [1], 3.0)


@pytest.mark.parametrize(
    ("relevance", "message"),
    [
        ({8: 1}, "names none of the 3 queries: it has 8, the queries have 0"),
        (
            {0: 8, 9: 1},
            "names none of the 2 items as an answer to these queries: it has 8, the items have 0",
        ),
        ({"cat": 1}, "has the query id 'cat', but query ids are integers here, for example 0"),
        ({"1": 1, "007": 1}, "has the query id '007', but query ids are integers here"),
        ({str(2**63): 1}, "has the query id '9223372036854775808', but query ids are integers here"),
        ({1: "cat.jpg"}, "has the item id 'cat.jpg', but item ids are integers here"),
    ],
)
def test_ids_that_do_not_meet_are_told(relevance: RelevanceLike, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_relevance(relevance).against(np.arange(3), np.arange(2))
