"""Temperatures by sight: how many items a query sees, by the formula, on any scale of similarities."""

import numpy as np
import pytest

from unhub.arrays import Kind
from unhub.data.vectors import as_vectors
from unhub.tuning.sight import items_seen, temperatures

pytestmark = pytest.mark.once


def test_items_with_equal_scores_are_all_seen_and_a_far_best_one_alone() -> None:
    assert items_seen(np.zeros((3, 7)), 0.1) == pytest.approx(7)
    assert items_seen(np.array([[0.0, -9.0, -9.0]]), 0.1) == pytest.approx(1)
    assert items_seen(np.array([[0.0, 0.0, -9.0], [0.0, 0.0, 0.0]]), 0.1) == pytest.approx(6**0.5)  # geometric mean


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_bank_queries_see_as_many_items_as_asked_for(kind: Kind, scale: float) -> None:
    random = np.random.default_rng(0)
    items, bank = scale * random.normal(size=(200, 8)), random.normal(size=(50, 8))
    sides = [rows / np.linalg.norm(rows, axis=1, keepdims=True) if kind == "cosine" else rows for rows in (bank, items)]
    scores = sides[0] @ sides[1].T
    found = temperatures(as_vectors(items, "items"), as_vectors(bank, "bank"), (5, 40, 1000), kind)
    assert len(found) == 2  # nobody sees a thousand of two hundred items
    for tau, count in zip(found, (5, 40), strict=True):
        shares = np.exp(scores / tau - (scores / tau).max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=1)
        assert np.exp(entropy.mean()) == pytest.approx(count, rel=1e-3)


def test_items_that_are_all_alike_have_no_temperature() -> None:
    same = as_vectors(np.ones((5, 3)), "items")
    assert temperatures(same, as_vectors(np.eye(3), "bank"), (2, 3), "cosine") == []
    rows = np.repeat(np.random.default_rng(0).normal(size=(100, 8)), 12, axis=0)  # nobody sees fewer than 12
    assert len(temperatures(as_vectors(rows, "items"), as_vectors(rows[:40] + 1, "bank"), (5, 40), "cosine")) == 1
    assert temperatures(as_vectors(np.ones((1, 3)), "items"), as_vectors(np.eye(3), "bank"), (2,), "cosine") == []
