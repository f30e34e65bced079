"""The intervals of watched figures, against what other queries of the same law show."""

import numpy as np
import pytest

import unhub
from tests.watching.answered import ITEMS, UNEVEN, answers
from unhub.data.runs import Answers
from unhub.watching.samples import WATCHED, sampled

pytestmark = pytest.mark.once


def figures_by_formula(lists: list[list[int]], items: int) -> dict[str, float]:
    """The watched figures of different queries, straight from their definitions."""
    counts = np.array([sum(item in one for one in lists) for item in range(items)], np.float64)
    apart = counts - counts.mean()
    return {
        "skewness": float((apart**3).mean() / (apart**2).mean() ** 1.5),
        "coverage": float((counts > 0).mean()),
        "robin_hood": float(np.abs(apart).sum() / (2 * counts.sum())),
    }


def test_figures_of_all_queries_are_those_of_the_definition() -> None:
    given = answers(90)
    lists = [given.item_ids[row[row >= 0]].tolist() for row in given.best]
    whole = sampled(given, draws=20).whole
    assert {name: one.value for name, one in whole.items()} == pytest.approx(figures_by_formula(lists, ITEMS))


@pytest.mark.parametrize("figure", WATCHED)
def test_an_interval_is_as_wide_as_other_logs_of_the_law_differ(figure: str) -> None:
    """Other logs are the oracle: 95% of normal values lie within 1.96 standard deviations."""
    at = [*WATCHED].index(figure)
    others = np.array([[*_values(answers(300, seed=seed))] for seed in range(150)])[:, at]
    widths = [
        interval.high - interval.low
        for interval in (sampled(answers(300, seed=seed)).whole[figure] for seed in range(6))
    ]
    assert 0.9 < np.mean(widths) / (2 * 1.96 * others.std()) < 1.3  # on the safe side where nearly all items are found


@pytest.mark.parametrize("figure", WATCHED)
def test_samples_of_one_size_say_what_logs_of_that_size_show(figure: str) -> None:
    at = [*WATCHED].index(figure)
    small = np.array([[*_values(answers(64, seed=1000 + seed))] for seed in range(200)])[:, at]
    found = [sampled(answers(400, seed=seed), (64,), draws=120).sizes[64][figure] for seed in range(12)]
    values, widths = [one.value for one in found], [one.high - one.low for one in found]
    assert np.mean(values) == pytest.approx(
        small.mean(), abs=3 * np.hypot(small.std() / 200**0.5, np.std(values) / 12**0.5)
    )
    assert np.mean(widths) > 0.6 * 2 * 1.96 * np.std(values)  # twelve values give a rough deviation
    assert np.mean(widths) < 0.6 * 2 * 1.96 * small.std()  # 400 queries say more than 64 do


def test_sizes_over_half_of_the_queries_are_left_out() -> None:
    assert [*sampled(answers(300), draws=10).sizes] == [64, 128]
    assert [*sampled(answers(127), draws=10).sizes] == []


def test_a_single_query_has_no_interval() -> None:
    one = sampled(Answers.of(unhub.QueryLog.of(returned=[[3, 3, 4]]), 10)).whole["coverage"]
    assert one.value == pytest.approx(0.2)
    assert (one.low, one.high) == (-np.inf, np.inf)


def test_the_same_seed_draws_the_same() -> None:
    given = answers(200, UNEVEN)
    assert sampled(given, draws=30, seed=4).whole == sampled(given, draws=30, seed=4).whole
    assert sampled(given, draws=30, seed=4).whole != sampled(given, draws=30, seed=5).whole


def _values(given: Answers) -> list[float]:
    return [one.value for one in sampled(given, (), draws=1).whole.values()]
