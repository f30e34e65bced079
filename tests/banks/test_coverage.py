"""Coverage of a bank: by hand, and as the mean over all samples."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unhub
from unhub.banks.coverage import Coverage, distinct

pytestmark = pytest.mark.once


@given(firsts=st.lists(st.integers(0, 4), min_size=1, max_size=9), data=st.data())
def test_the_expected_coverage_is_the_mean_over_all_samples(firsts: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(firsts)))
    counts = [len(set(sample)) for sample in combinations(firsts, size)]
    assert distinct(np.array(firsts), size) == pytest.approx(np.mean(counts))


def test_the_expected_coverage_of_a_large_bank_does_not_overflow() -> None:
    assert distinct(np.arange(1_000_000), 5000) == pytest.approx(5000)
    assert distinct(np.zeros(1_000_000, np.int64), 5000) == pytest.approx(1)


def test_coverage_counts_the_items_that_come_first() -> None:
    items = np.eye(4)
    bank = np.array([[3, 1, 0, 0], [2, 0, 1, 0], [0, 5, 0, 1]], float)
    queries = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]], float)
    covered = unhub.judge_bank(items, bank, queries, distances=False).coverage
    assert (covered.reached, covered.items, covered.size, covered.against) == (2, 4, 3, "queries")
    assert (covered.here, covered.expected) == pytest.approx((2, 3))
    assert covered.share == 0.5
    assert covered.ratio == pytest.approx(2 / 3)


@pytest.mark.parametrize(("count", "expected", "place"), [(40, 2, 2), (39, 39, 1)])
def test_what_comes_next_is_the_yardstick_where_each_query_finds_an_item_of_its_own(
    count: int, expected: int, place: int
) -> None:
    items = np.eye(count)  # a twentieth of 39 items is one place
    queries = items + 0.5 * items[0]  # their second is item 0, and of that which asks for it item 1
    covered = unhub.judge_bank(items, 2 * queries[:10], queries, distances=False).coverage
    assert (covered.reached, covered.size, covered.place) == (10, 10, place)
    seconds = 1 + 10 / 40  # item 0, and item 1 in the samples that hold the one query that has it second
    assert (covered.here, covered.expected) == pytest.approx((10, seconds if place == 2 else 10))
    whole = unhub.judge_bank(items, 2 * queries, queries, distances=False).coverage
    assert (whole.size, whole.place) == (count, place) and whole.expected == pytest.approx(expected)


def test_without_queries_items_ask_for_the_nearest_other_item() -> None:
    items = np.array([[1, 0, 0], [0.9, 0.1, 0], [0.8, -0.3, 0.1], [0, 0, 1]])  # their others are 1, 0, 0 and 2
    covered = unhub.judge_bank(items, np.array([[1.0, 0, 0]] * 4), distances=False).coverage
    assert (covered.reached, covered.expected, covered.against) == (1, 3, "items")


def test_few_draws_do_not_make_a_bank_narrow() -> None:
    assert not Coverage(5, 1000, 10, 5.0, 7.0, "queries").narrow
    assert Coverage(495, 1000, 1000, 495.0, 700.0, "queries").narrow  # 0.75 * 700 - 2 sqrt(700 * 0.3) = 496.02
    assert not Coverage(497, 1000, 1000, 497.0, 700.0, "queries").narrow


def test_the_limit_is_the_ratio_under_which_a_bank_is_narrow() -> None:
    assert Coverage(495, 1000, 1000, 495.0, 700.0, "queries").limit == pytest.approx(496.02 / 700, abs=1e-4)
    assert Coverage(1, 1, 5, 1.0, None, "items").limit is None
