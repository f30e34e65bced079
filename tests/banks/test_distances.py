"""Distances between banks and queries: by hand, by brute force, and on clouds of a known kind."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unhub
from tests import flickr8k
from tests.clouds import KINDS, some, unit, vectors
from unhub.arrays import Kind
from unhub.banks.distances import nearness, shift, to_nearest
from unhub.banks.earth_movers import earth_movers_distance, pooled_distance, transport

pytestmark = pytest.mark.once

# Shift


def test_the_shift_is_the_distance_of_the_means_over_all_there_is() -> None:
    bank, queries = np.array([[2.0, 1], [2, -1]]), np.array([[0.0, 1], [0, -1]])
    # The means are 4 apart, squared; the spread of each is 2, and chance brings 2/2 + 2/2.
    assert shift(vectors(bank), vectors(queries), "dot").value == pytest.approx((4 - 2) / (4 + 2))


def test_a_single_bank_query_is_taken_to_spread_as_the_queries_do() -> None:
    queries = vectors(np.array([[0.0, 1], [0, -1]]))  # spread 2, so that chance brings 2/1 + 2/2
    assert shift(vectors(np.array([[3.0, 0]])), queries, "dot").value == pytest.approx((9 - 3) / (9 + 2))
    assert shift(queries, vectors(np.array([[3.0, 0]])), "dot").value == pytest.approx((9 - 3) / (9 + 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(20, 20), (20, 2000), (2000, 20), (2000, 2000), (300, 5)])
def test_sets_of_one_kind_are_not_far_apart(kind: Kind, sizes: tuple[int, int]) -> None:
    far = [shift(vectors(some(sizes[0], seed)), vectors(some(sizes[1], seed + 1000)), kind).far for seed in range(50)]
    assert sum(far) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_sets_of_two_kinds_are_far_apart(kind: Kind) -> None:
    assert all(shift(vectors(some(500, seed, towards=0.5)), vectors(some(500, 9 + seed)), kind).far for seed in (1, 2))


def test_the_shift_without_its_chance_part_is_right_on_average() -> None:
    true = 0.5**2 / (0.5**2 + 3)  # means half apart, three dimensions of variance 1
    random = np.random.default_rng(0)
    bank = random.normal(size=(100, 30, 3)) + np.array([0.5, 0, 0])
    queries = random.normal(size=(100, 40, 3))
    found = [shift(vectors(one), vectors(other), "dot").value for one, other in zip(bank, queries, strict=True)]
    assert np.mean(found) == pytest.approx(true, abs=0.02)


def test_a_set_is_not_apart_from_itself_nor_a_single_row_from_anything() -> None:
    rows = vectors(some(50, 0))
    assert shift(rows, rows, "cosine").value == 0
    for one, other in ((rows, vectors(-some(1, 0))), (vectors(-some(1, 0)), rows), (vectors(np.eye(2)[:1]),) * 2):
        assert not shift(one, other, "cosine").far


# Nearness


@given(seed=st.integers(0, 999), kind=st.sampled_from(KINDS))
def test_the_nearest_bank_query_is_the_nearest_by_distance(seed: int, kind: Kind) -> None:
    random = np.random.default_rng(seed)
    queries, bank = random.normal(size=(7, 3)), random.normal(size=(11, 3))
    ready = (queries, bank) if kind == "dot" else (unit(queries), unit(bank))
    squares = np.square(ready[0][:, None] - ready[1]).sum(axis=2)
    np.testing.assert_allclose(to_nearest(vectors(queries), vectors(bank), kind), squares.min(axis=1) / 2, atol=1e-5)


def test_a_mean_far_from_zero_takes_no_digits_under_dot() -> None:
    random = np.random.default_rng(0)
    queries, bank = (random.normal(size=(rows, 3)).astype(np.float16) for rows in (30, 40))  # exact in what follows
    far_queries, far_bank = (vectors(rows.astype(np.float64) + 1024) for rows in (queries, bank))
    squares = np.square(queries[:, None].astype(np.float64) - bank).sum(axis=2)
    found = to_nearest(far_queries, far_bank, "dot")
    np.testing.assert_allclose(found, squares.min(axis=1) / 2, rtol=1e-2, atol=1e-4)


def test_nearness_beside_queries_of_the_same_kind_is_about_one() -> None:
    near = nearness(vectors(some(800, 1)), vectors(some(900, 2)), "cosine")
    assert near.ratio == pytest.approx(1, abs=0.05)
    assert not near.far


def test_noise_lies_far_from_all_queries_though_its_mean_may_not() -> None:
    queries = unit(np.random.default_rng(0).normal(size=(800, 4)) @ np.random.default_rng(1).normal(size=(4, 64)))
    noise = unit(np.random.default_rng(2).normal(size=(800, 64)))
    report = unhub.judge_bank(queries[:50], noise, queries, distances=False)
    assert report.shift is not None and not report.shift.far
    assert report.nearness is not None and report.nearness.far
    assert report.problems == ("off-domain",)


def test_one_query_or_halves_that_agree_have_no_ratio() -> None:
    assert nearness(vectors(some(9, 0)), vectors(some(1, 1)), "cosine").ratio is None
    assert nearness(vectors(some(9, 0)), vectors(np.ones((8, 8))), "cosine").ratio is None


# Transport


@given(seed=st.integers(0, 999))
def test_the_earth_movers_distance_is_that_of_the_best_pairing(seed: int) -> None:
    random = np.random.default_rng(seed)
    first, second = unit(random.normal(size=(4, 3))), unit(random.normal(size=(4, 3)))
    cost = 1 - first @ second.T
    best = min(cost[range(4), order].mean() for order in map(list, permutations(range(4))))
    assert earth_movers_distance(first, second) == pytest.approx(best)


def test_rows_of_one_set_share_their_weight() -> None:
    assert earth_movers_distance(np.eye(2), np.array([[1.0, 0]])) == pytest.approx(0.5)
    assert earth_movers_distance(np.zeros((1, 2)), np.array([[3.0, 4], [0, 0]])) == pytest.approx(25 / 4)


def test_transport_takes_equally_many_rows_of_each_set_and_says_so() -> None:
    moved = transport(vectors(some(30, 0)), vectors(some(50, 1)), vectors(some(44, 2)), "cosine")
    assert (moved.rows, moved.draws, moved.sampled) == (22, 10, True)
    assert moved.halves is not None and moved.bank_queries == pytest.approx(moved.halves, rel=0.3)
    alone = transport(vectors(some(30, 0)), vectors(some(15, 1)), None, "cosine")
    assert (alone.rows, alone.bank_queries, alone.queries_items) == (15, None, None)
    assert alone.bank_items > 0 and alone.halves is not None


def test_transport_to_another_kind_is_longer_than_the_yardstick() -> None:
    moved = transport(vectors(some(200, 0, towards=2)), vectors(some(200, 1)), vectors(some(400, 2)), "cosine")
    assert moved.bank_queries is not None and moved.halves is not None
    assert moved.bank_queries > 2 * moved.halves


def test_real_captions_are_nearer_to_others_than_a_far_part_of_them_by_the_earth_movers_distance() -> None:
    asked, past = flickr8k.load_split("ridge", "val"), flickr8k.load_split("ridge", "bank")
    far = past.texts[unhub.sample_bank(past.texts, 1000, "far", queries=asked.texts)]
    times = []
    for bank in (past.texts, far):
        moved = transport(vectors(bank), vectors(asked.images), vectors(asked.texts), "cosine")
        assert moved.rows == 1000 and moved.bank_queries and moved.halves
        times.append(moved.bank_queries / moved.halves)
    assert times[0] < 1.2 and times[1] > 1.8


def test_a_bank_of_items_and_bank_items_is_at_no_distance_from_both_together() -> None:
    first, second = np.array([[1.0, 0]]), np.array([[0.0, 1]])
    both = np.concatenate([first, second])
    assert pooled_distance(vectors(both), vectors(first), vectors(second), "cosine") == pytest.approx(0)
    # One of two rows has to be moved at right angles, a cost of 1.
    assert pooled_distance(vectors(both), vectors(first), vectors(first), "cosine") == pytest.approx(0.5)
