"""Near clusters exactly and far ones by their means: exact where everything is near, or where means say it all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests import oracles
from tests.clouds import some
from unhub.arrays import Float64, Kind, unit
from unhub.compute import near
from unhub.compute.clusters import Clusters, cluster_count, make_clusters
from unhub.compute.near import SPREAD_SHARE, FarRule, Met, Scratch, cluster_log_sums, expect, meet
from unhub.compute.workers import Workers
from unhub.data.similarity import Dot
from unhub.data.vectors import as_vectors

BETAS = np.array([2.0, 20.0])
EVERYTHING, NOTHING = -1.0, 1.0


def around(centres: int, rows: int, seed: int, distance: float) -> NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    own = some(centres, 5, dimensions=16)[generator.integers(centres, size=rows)]
    return (own + distance * some(rows, seed, dimensions=16)).astype(np.float32)


def log_sums(bank: NDArray[np.float32], items: NDArray[np.float32], betas: Float64, kind: Kind = "cosine") -> Float64:
    """Return the log-sums of the items, by the formula, (items, betas)."""
    compare = oracles.cosine if kind == "cosine" else oracles.dot
    scores = compare(bank.astype(np.float64), items.astype(np.float64))
    return np.stack([np.log(np.exp(beta * scores).sum(axis=0)) for beta in betas], axis=1)


def made(items: NDArray[np.float32], bank: NDArray[np.float32], count: int) -> tuple[Dot, Clusters, Workers]:
    pairs, workers = Dot(as_vectors(bank, "bank"), as_vectors(items, "items"), "cosine"), Workers(2)
    return pairs, make_clusters(pairs, count, 0, workers), workers


@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_meeting_every_cluster_is_exact(kind: Kind) -> None:
    items, bank = 1.5 * around(12, 300, 1, 0.5), 2 * around(12, 900, 2, 0.5)
    pairs = Dot(as_vectors(bank, "bank"), as_vectors(items, "items"), kind)
    workers = Workers(2)
    clusters = make_clusters(pairs, 16, 0, workers)
    assert np.array_equal(np.sort(np.concatenate(clusters.members)), np.arange(900))
    met = meet(pairs, clusters, BETAS, EVERYTHING, workers)
    np.testing.assert_allclose(met.near, log_sums(bank, items, BETAS, kind), rtol=1e-5)
    assert (met.far == -np.inf).all()


def test_clusters_of_one_point_are_known_by_their_means() -> None:
    items, bank = around(40, 200, 1, 1.0), np.repeat(around(40, 12, 2, 0.0), 50, axis=0)
    pairs, clusters, workers = made(items, bank, 64)
    met = meet(pairs, clusters, BETAS, NOTHING, workers)
    assert (met.near == -np.inf).all()
    np.testing.assert_allclose(met.far, log_sums(bank, items, BETAS), rtol=1e-4)
    np.testing.assert_allclose(met.variances, 0, atol=1e-6)


def test_the_parts_that_clusters_are_expected_to_add_decide_which_are_near() -> None:
    items, bank = around(12, 100, 1, 0.3), around(12, 600, 2, 0.3)
    pairs, clusters, _ = made(items, bank, 16)
    prepared = np.asarray(pairs.items((0, 100)), np.float32)
    expected = expect(pairs, prepared, clusters, BETAS)
    means = np.stack([unit(bank)[own].mean(axis=0) for own in clusters.members])
    widths = np.array(
        [((unit(bank)[own] - mean) ** 2).sum(axis=1).mean() for own, mean in zip(clusters.members, means, strict=True)]
    )
    widths /= np.average(widths, weights=clusters.sizes)
    spread = SPREAD_SHARE * 20**2 * np.outer(widths, clusters.variances(prepared)) / 2
    wanted = clusters.sizes[:, None] * np.exp(20 * means @ unit(items).T + spread)
    np.testing.assert_allclose(expected.parts[:, :, 1], (wanted / wanted.sum(axis=0)).T, rtol=1e-3)
    np.testing.assert_allclose(np.exp(expected.logs[:, 1]), wanted.sum(axis=0), rtol=1e-3)
    some_near = expected.near(0.05)
    assert some_near.any() and not some_near.all()
    far = np.where(some_near, 0, wanted.T).sum(axis=1)
    np.testing.assert_allclose(np.exp(expected.far(some_near)[:, 1]), far, rtol=1e-3)


def test_near_clusters_and_a_fitted_rule_come_near_the_sums_of_other_items() -> None:
    items, bank, betas = around(24, 600, 1, 0.7), around(24, 3_000, 2, 0.7), np.array([20.0])
    pairs, clusters, workers = made(items, bank, 32)
    met = meet(pairs, clusters, betas, 0.05, workers)
    true = log_sums(bank, items, betas)
    far = true + np.log(np.maximum(1 - np.exp(met.near - true), 1e-9))
    half = Met(met.near[:300], met.far[:300], met.variances[:300])
    off = FarRule.fitted(betas, half, far[:300]).log_sums(met)[300:] - true[300:]
    plain = np.logaddexp(met.near, met.far)[300:] - true[300:]
    assert off.std() < 0.7 * plain.std()
    assert abs(off.mean()) < 0.2 * abs(plain.mean())


def test_items_without_far_clusters_need_no_rule() -> None:
    near = np.log(np.arange(1.0, 9.0))[:, None]
    met = Met(near, np.full((8, 1), -np.inf), np.ones(8, np.float32))
    fitted = FarRule.fitted(np.array([1.0]), met, np.full((8, 1), -np.inf))
    np.testing.assert_array_equal(fitted.log_sums(met), near)


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 60), st.floats(1, 90))
@settings(max_examples=25, deadline=None)
def test_sums_over_clusters_add_up_to_that_of_the_bank(seed: int, count: int, rows: int, beta: float) -> None:
    items, bank = around(3, 5, seed, 1.0), around(3, rows, seed + 1, 1.0)
    pairs, clusters, _ = made(items, np.concatenate([bank, bank[:1]]), count)  # with a duplicate
    prepared, betas = np.asarray(pairs.items((0, 5)), np.float32), np.array([beta])
    sums = np.stack([cluster_log_sums(pairs, prepared, own, betas, Scratch())[0] for own in clusters.members])
    scores = oracles.cosine(np.concatenate([bank, bank[:1]]).astype(np.float64), items.astype(np.float64))
    np.testing.assert_allclose(np.exp(sums).sum(axis=0), np.exp(beta * scores).sum(axis=0), rtol=1e-3)


def test_clusters_grow_with_the_root_of_the_bank_and_with_the_items() -> None:
    assert [cluster_count(100_000, bank) for bank in (30_000, 200_000, 1_000_000)] == [256, 512, 1024]
    assert [cluster_count(items, 1_000_000) for items in (1, 4_000, 20_000)] == [1, 128, 512]


def test_items_in_groups_for_little_memory_find_what_all_at_once_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, clusters, _ = made(around(12, 300, 1, 0.5), around(12, 900, 2, 0.5), 16)
    whole = meet(pairs, clusters, BETAS, 0.05, Workers(2))
    monkeypatch.setattr(near, "FEWEST_GROUP_ITEMS", 70)
    parts = meet(pairs, clusters, BETAS, 0.05, Workers(2, memory=1))
    for name in ("near", "far", "variances"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-5)
