"""Confidence: intervals that cover, groups that stay together, tests that are right under chance."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.evaluation import confidence
from unhub.evaluation.confidence import (
    SIGN_FLIPS,
    Interval,
    Resamples,
    group_sums,
    interval,
    paired_p_values,
    summaries,
)
from unhub.evaluation.measures import Measure

pytestmark = pytest.mark.once

MEAN, MEDIAN = Measure("MnR"), Measure("MdR")
Groups = NDArray[np.int64]


def interval_of(measure: Measure, values: Float64, drawn: Resamples) -> Interval:
    """Return the interval of one ranking's (queries,) values."""
    stacked = values[None, None]
    return drawn.interval(float(summaries(measure, stacked)[0]), drawn.summaries([measure], [stacked])[0][:, 0])


def paired_p_value(differences: Float64, groups: Groups, seed: int = 0) -> float:
    """Return the p-value of one ranking's (queries,) differences."""
    return float(paired_p_values(differences[None], groups, seed)[0])


def all_draws(drawn: Resamples) -> NDArray[np.uint8]:
    return np.concatenate(list(drawn.draws))


def test_an_interval_prints_and_tells() -> None:
    one = Interval(1.234, -0.5, 2)
    assert str(one) == "1.23 [-0.50, 2.00]"
    assert one.to_dict() == {"value": 1.234, "low": -0.5, "high": 2}
    assert not one.excludes_zero
    assert Interval(1, 0.5, 2).excludes_zero and Interval(-1, -2, -0.5).excludes_zero


def test_an_interval_holds_the_middle_of_what_was_resampled() -> None:
    for level, low, high in ((0.95, 25, 975), (0.5, 250, 750)):
        found = interval(7.0, np.arange(1001.0), level)
        assert_allclose([found.value, found.low, found.high], [7, low, high])


def test_one_group_alone_has_no_interval_and_proves_nothing() -> None:
    one = interval_of(MEAN, np.array([1.0, 2, 6]), Resamples(np.zeros(3, np.int64), 50))
    assert (str(one), f"{one:+.1f}") == ("3.00 [?, ?]", "+3.0 [?, ?]")
    assert one.to_dict() == {"value": 3, "low": None, "high": None}
    assert not one.excludes_zero
    assert paired_p_value(np.array([100.0, 100, 100]), np.zeros(3, np.int64)) == 1
    assert np.isfinite(interval_of(MEAN, np.array([1.0, 2, 6]), Resamples(np.array([0, 1, 1]), 50)).low)


# Resampling.


def test_memory_does_not_grow_with_the_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five thousand resamples of 2,000 groups would be 10 MB of draws, and 80 MB of them as numbers."""
    monkeypatch.setattr(confidence, "BLOCK_ENTRIES", 1 << 17)
    values = np.random.default_rng(0).integers(1, 99, (1, 2, 2000)).astype(np.float64)
    drawn = Resamples(np.arange(2000), 5000)
    tracemalloc.start()
    try:
        drawn.summaries([MEAN, MEDIAN], [values, values])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5e6


def test_each_resample_draws_as_many_groups_as_there_are() -> None:
    draws = all_draws(Resamples(np.array([0, 1, 1, 2, 2, 2]), 500, seed=3))
    assert draws.shape == (500, 3)
    assert_array_equal(draws.sum(axis=1), 3)
    # each of the 27 ways alike: a group is missing in 8, and all are there in 6
    assert np.mean((draws == 0).mean(axis=0)) == pytest.approx(8 / 27, abs=0.04)
    assert (draws == 1).all(axis=1).mean() == pytest.approx(6 / 27, abs=0.06)


def test_a_seed_draws_the_same_and_another_seed_does_not() -> None:
    groups = np.arange(50)
    first, same, other = (all_draws(Resamples(groups, 20, seed)) for seed in (1, 1, 2))
    assert_array_equal(first, same)
    assert np.any(first != other)


def test_group_sums_by_hand() -> None:
    values = np.array([[1.0, 2, 4, 8], [0, 1, 0, 1]])
    assert group_sums(values, np.array([1, 0, 1, 2])).tolist() == [[2, 5, 8], [1, 0, 1]]


SUMMARIES: dict[str, Callable[[Float64], Float64]] = {
    "MnR": lambda drawn: drawn[0].mean(axis=-1),
    "MdR": lambda drawn: np.median(drawn[0], axis=-1),
    "GM": lambda drawn: drawn.mean(axis=-1).prod(axis=0) ** (1 / 3),
}


@pytest.mark.parametrize("name", SUMMARIES)
@given(
    seed=st.integers(0, 2**32 - 1),
    groups=st.integers(1, 9),
    size=st.integers(1, 5),
    kinds=st.integers(1, 40),
    block=st.sampled_from([1, 40, 1 << 22]),
)
@settings(max_examples=60)
def test_resampled_measures_are_those_of_a_slow_loop(
    name: str, seed: int, groups: int, size: int, kinds: int, block: int
) -> None:
    rng = np.random.default_rng(seed)
    of = rng.permutation(np.concatenate([np.arange(groups), rng.integers(0, groups, groups * (size - 1))]))
    measure, rankings = Measure(name), 3
    values = rng.integers(0, kinds, (len(measure.parts), rankings, len(of))) / 4
    drawn = Resamples(of, 12, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confidence, "BLOCK_ENTRIES", block)
        found, again = drawn.summaries([measure, measure], [values, values[:, ::-1]])
    slow = [SUMMARIES[name](np.repeat(values, times[of], axis=2)) for times in all_draws(drawn)]
    assert_array_equal(again, found[:, ::-1])
    assert_allclose(found, slow, rtol=1e-12, atol=1e-12)
    assert_allclose(summaries(measure, values), SUMMARIES[name](values), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SUMMARIES)
@pytest.mark.parametrize("rankings", [2, 3, 9, 15])
def test_systems_that_are_the_same_differ_by_exactly_nothing(name: str, rankings: int) -> None:
    rng = np.random.default_rng(0)
    measure, groups = Measure(name), rng.permutation(np.arange(1500) // 5)
    one = 100 * rng.random((len(measure.parts), 1, 1500))
    (resampled,) = Resamples(groups, 200).summaries([measure], [np.repeat(one, rankings, axis=1)])
    apart = resampled - resampled[:, :1]
    assert interval(0.0, apart[:, -1]) == Interval(0.0, 0.0, 0.0)
    assert not np.any(apart)


# Coverage: whether a query is answered, in groups that agree the more the larger `agree` is; a half are in truth.


def answered(rng: np.random.Generator, groups: Groups, agree: float) -> Float64:
    of_group = rng.standard_normal(int(groups.max()) + 1)[groups]
    return np.where(agree * of_group + (1 - agree) * rng.standard_normal(len(groups)) > 0, 100.0, 0.0)


def coverage(
    measure: Measure, truth: float, groups: Groups, by: Groups, draw: Callable[..., Float64], datasets: int
) -> float:
    """Return how often the interval covers the truth where `by` are resampled together, alike in every dataset."""
    drawn = Resamples(by, 200)
    values = np.stack([draw(np.random.default_rng(seed), groups, 0.7) for seed in range(datasets)])[None]
    (resampled,) = drawn.summaries([measure], [values])
    found = [drawn.interval(*of_one) for of_one in zip(summaries(measure, values).tolist(), resampled.T, strict=True)]
    return float(np.mean([one.low <= truth <= one.high for one in found]))


def ranks(rng: np.random.Generator, groups: Groups, agree: float) -> Float64:
    """Draw numbers, in groups that agree, whose median is 0."""
    of_group = rng.standard_normal(int(groups.max()) + 1)[groups]
    return np.asarray(agree * of_group + (1 - agree) * rng.standard_normal(len(groups)))


@pytest.mark.parametrize(
    ("measure", "truth", "draw"), [(MEAN, 50, answered), (MEDIAN, 0, ranks)], ids=["mean", "median"]
)
def test_an_interval_covers_the_truth_nineteen_times_in_twenty(
    measure: Measure, truth: float, draw: Callable[..., Float64]
) -> None:
    groups = np.arange(500) // 5
    # Of 400 datasets 95% are covered give or take 1.1%: four of those either way. A hundred groups cost a little.
    assert 0.905 <= coverage(measure, truth, groups, groups, draw, 400) <= 0.995
    # Captions that agree are not independent, and to take them so is to be too sure; which fewer datasets show.
    assert coverage(measure, truth, groups, np.arange(500), draw, 100) < 0.85


def test_captions_of_one_item_that_agree_widen_the_interval() -> None:
    groups = np.arange(1000) // 5
    values = np.repeat(100.0 * (np.arange(200) % 2), 5)  # five captions found together, or none
    together, apart = (interval_of(MEAN, values, Resamples(by, 400)) for by in (groups, np.arange(1000)))
    wide, narrow = together.high - together.low, apart.high - apart.low
    assert wide / narrow == pytest.approx(np.sqrt(5), rel=0.15)
    # the width of a mean of 200 coins: 2 * 1.96 * 50 / sqrt(200)
    assert wide == pytest.approx(13.86, rel=0.1)


# The paired test.


def test_a_paired_test_by_hand() -> None:
    def p(*sums: float) -> float:
        return paired_p_value(np.array(sums), np.arange(len(sums)))

    assert p(3) == p(-3) == p(0, 0) == 1
    assert p(1, 1) == pytest.approx(1 / 2, abs=0.04)
    assert p(1, 1, 1) == p(-1, -1, -1) == pytest.approx(1 / 4, abs=0.04)
    assert p(2, 1, 1) == pytest.approx(1 / 4, abs=0.04)
    assert p(2, -1, 1) == pytest.approx(3 / 4, abs=0.04)  # a sum of 2 or more in size, in 6 of 8


def test_a_group_flips_as_one() -> None:
    together = paired_p_value(np.ones(40), np.repeat([0, 1], 20))
    assert together == pytest.approx(1 / 2, abs=0.04)
    assert paired_p_value(np.ones(40), np.arange(40)) == 1 / (SIGN_FLIPS + 1)


def test_many_tests_at_once_are_each_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    differences, groups = rng.standard_normal((7, 60)) + 0.2, rng.permutation(np.arange(60) // 3)
    several = paired_p_values(differences, groups)
    assert several.tolist() == [paired_p_value(one, groups) for one in differences]
    assert len(set(several.tolist())) > 3
    monkeypatch.setattr(confidence, "BLOCK_ENTRIES", 100)
    assert_allclose(paired_p_values(differences, groups), several, atol=0.04)


def test_p_values_are_spread_evenly_under_chance() -> None:
    groups = np.arange(120) // 3
    found = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        one, two = (answered(rng, groups, 0.5) for _ in range(2))
        found.append(paired_p_value(two - one, groups, seed))
    for level in (0.05, 0.2, 0.5, 0.8):
        # four standard deviations of a binomial share, and what equal sums (whole numbers) leave over
        assert np.mean(np.array(found) <= level) == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 400))


def test_a_real_difference_has_a_small_p_value() -> None:
    rng = np.random.default_rng(0)
    groups = np.arange(1500) // 5
    raw = answered(rng, groups, 0.5)
    better = np.maximum(raw, 100.0 * (rng.random(1500) < 0.05))
    assert paired_p_value(better - raw, groups) == 1 / (SIGN_FLIPS + 1)
    assert paired_p_value(raw - better, groups) == 1 / (SIGN_FLIPS + 1)
