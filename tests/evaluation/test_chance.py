"""Chance: its figures by hand, those of items drawn at random, and where they are told."""

from dataclasses import asdict, fields
from math import comb

import numpy as np
import pytest

import unhub
from unhub.evaluation.chance import Chance, binomial, chance_of
from unhub.evaluation.hubness import Figures, figures_of, top_items

pytestmark = pytest.mark.once


def at_random(queries: int, items: int, k: int, times: int) -> dict[str, float]:
    """Return the mean of each figure over some draws in which each query returns k items at random."""
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(times):
        best = np.stack([random.choice(items, k, replace=False) for _ in range(queries)])
        drawn.append(asdict(figures_of(np.bincount(best.ravel(), minlength=items))))
    return {name: float(np.mean([figures[name] for figures in drawn])) for name in drawn[0]}


def test_chance_has_what_the_figures_have() -> None:
    assert [field.name for field in fields(Chance)] == [field.name for field in fields(Figures)]


def test_two_queries_of_one_place_for_two_items_by_hand() -> None:
    # A count is 0, 1 or 2 with the chances 1/4, 1/2, 1/4; the larger of two such is 1/16 * 0 + 8/16 * 1 + 7/16 * 2.
    found = chance_of(places=2, queries=2, items=2, top=1)
    assert found.skewness == pytest.approx(0)
    assert found.kurtosis == pytest.approx(-1)
    assert found.mean_deviation == found.robin_hood * 2 == pytest.approx(0.5)
    assert found.anti_hubs == pytest.approx(0.25)
    assert found.largest == pytest.approx(22 / 16)
    assert found.top_share == pytest.approx(22 / 32)


def test_one_query_of_one_place_by_hand() -> None:
    found = chance_of(places=1, queries=1, items=4, top=1)
    assert found.anti_hubs == pytest.approx(3 / 4)  # three of the four are never returned
    assert found.mean_deviation == pytest.approx((3 * 1 / 4 + 3 / 4) / 4)
    assert found.robin_hood == pytest.approx(3 / 4)
    assert found.skewness == pytest.approx((3 * (-1) + 27) / 4 / 3**1.5)  # of 0, 0, 0 and 1


def test_where_all_items_are_returned_nothing_is_left_to_chance() -> None:
    assert chance_of(places=21, queries=3, items=7, top=1) == Chance(0, 0, 0, 3, 0, 1 / 7, 0)
    assert chance_of(places=0, queries=3, items=7, top=1) == Chance(0, 0, 0, 0, 1, 0, 0)


@pytest.mark.parametrize(("trials", "share"), [(5, 0.3), (60, 0.02), (40, 0.97)])
def test_the_law_is_binomial(trials: int, share: float) -> None:
    first, law = binomial(trials, share)
    expected = [comb(trials, number) * share**number * (1 - share) ** (trials - number) for number in range(trials + 1)]
    assert law == pytest.approx(expected[first : first + len(law)], abs=1e-13)
    assert sum(expected[:first]) + sum(expected[first + len(law) :]) < 1e-15


@pytest.mark.parametrize(
    ("queries", "items", "k", "times"),
    [(180, 90, 10, 150), (400, 1000, 10, 25), (50, 20_000, 10, 4), (800, 300, 5, 60)],
)
def test_chance_is_what_items_drawn_at_random_give(queries: int, items: int, k: int, times: int) -> None:
    drawn, told = at_random(queries, items, k, times), asdict(chance_of(k * queries, queries, items, top_items(items)))
    for name in ("mean_deviation", "largest", "top_share", "robin_hood"):
        assert told[name] == pytest.approx(drawn[name], rel=0.03)
    assert told["anti_hubs"] == pytest.approx(drawn["anti_hubs"], abs=0.002)
    assert told["skewness"] == pytest.approx(drawn["skewness"], abs=0.1)
    assert told["kurtosis"] == pytest.approx(drawn["kurtosis"], abs=0.3 + 0.1 * abs(drawn["kurtosis"]))


def test_many_items_and_few_queries_are_hardly_ever_returned() -> None:
    found = chance_of(places=20_000, queries=2000, items=1_000_000, top=10_000)
    assert found.anti_hubs == pytest.approx(np.exp(-0.02), abs=1e-4)  # 98.0%, which is no hubness at all
    # 20,000 places are for 19,801 different items, 1% of all items is about half of those; some have two.
    assert found.top_share == pytest.approx((10_000 + 1_000_000 * (1 - 1.02 * np.exp(-0.02))) / 20_000, rel=1e-3)


def test_hubness_tells_chance_beside_its_figures() -> None:
    random = np.random.default_rng(0)
    found = unhub.hubness(random.normal(size=(30, 8)), random.normal(size=(200, 8)), k=10)
    assert found.chance == chance_of(300, 30, 200, 2)
    assert found.to_dict()["chance"] == asdict(found.chance)
    assert f"chance alone gives {found.chance.skewness:.2f}, {found.chance.largest:,.1f} times" in str(found)


def test_what_a_run_did_not_return_is_no_place() -> None:
    run = unhub.Run([0, 0, 1], [0, 1, 2], [0.9, 0.5, 0.9])
    found = unhub.evaluate(unhub.Dense(np.eye(3)), None, {0: 0}, runs={"theirs": run}, hubness_k=2)["theirs"]
    assert found.hubness is not None
    assert found.hubness.chance == chance_of(places=3, queries=3, items=3, top=1)
