"""The worst hubs, before and after, and the queries that fall into them."""

import numpy as np
import pytest

import unhub

pytestmark = pytest.mark.once

# Item 0 is first for two queries and second for the third; item 3 is never among the two best.
SCORES = np.array([[0.9, 0.5, 0.1, 0.0], [0.9, 0.1, 0.5, 0.0], [0.6, 0.1, 0.9, 0.0]], np.float32)


def test_the_worst_hub_comes_first_with_the_queries_that_fall_into_it() -> None:
    found = unhub.worst_hubs(unhub.Dense(SCORES, ["a", "b", "c", "d"]), k=2, count=3, examples=2)
    assert [(hub.id, hub.position, hub.before, hub.after) for hub in found.hubs] == [
        ("a", 0, 3, None),
        ("c", 2, 2, None),
        ("b", 1, 1, None),
    ]
    assert [hub.queries for hub in found.hubs] == [(0, 2), (2, 1), (0,)]  # from the first place to the last
    assert found.before.counts.tolist() == [3, 1, 2, 0]
    assert found.after is None
    assert found.to_dict()["after"] is None


def test_an_item_that_is_never_returned_is_no_hub() -> None:
    found = unhub.worst_hubs(unhub.Dense(SCORES), k=2, count=10, examples=0)
    assert [hub.id for hub in found.hubs] == [0, 2, 1]
    assert [hub.queries for hub in found.hubs] == [(), (), ()]


def test_before_and_after_are_the_counts_of_both_rankings() -> None:
    random = np.random.default_rng(0)
    items, bank, queries = (random.normal(size=(rows, 5)).astype(np.float32) for rows in (40, 200, 60))
    items[7] = bank.mean(axis=0)
    gallery = unhub.Vectors(np.array([f"item {row}" for row in range(40)]), items)
    correction = unhub.fit(gallery, bank, method="nnn", k=8)
    found = unhub.worst_hubs(queries, gallery, correction, k=5, count=4, examples=50)
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, items)]
    scores = units[0] @ units[1].T
    assert isinstance(correction, unhub.Bias)
    raw, corrected = (np.argsort(-one, axis=1)[:, :5] for one in (scores, scores - correction.bias))
    counts = [np.bincount(best.ravel(), minlength=40) for best in (raw, corrected)]
    assert [hub.before for hub in found.hubs] == sorted(counts[0], reverse=True)[:4]
    for hub in found.hubs:
        assert hub.id == f"item {hub.position}"
        assert (hub.before, hub.after) == (counts[0][hub.position], counts[1][hub.position])
        assert set(hub.queries) == set(np.flatnonzero((raw == hub.position).any(axis=1)))
        assert hub.still == tuple((corrected[list(hub.queries)] == hub.position).any(axis=1))
    assert found.after is not None
    assert found.after.counts.tolist() == counts[1].tolist()


def test_counts_must_be_whole() -> None:
    for name, value in {"count": 0, "examples": -1, "k": 1.5}.items():
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least"):
            unhub.worst_hubs(unhub.Dense(SCORES), **{name: value})  # type: ignore[arg-type]
