"""Rerank: candidates of any engine, corrected, rank as the whole row does."""

import dataclasses
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import unhub
from unhub.correction import Bias
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once

Floats = NDArray[np.float64]


def biased(bias: Floats, ids: NDArray[np.generic] | None = None, active: NDArray[np.bool_] | None = None) -> Bias:
    """Return a correction with these very biases; the method has a gate if `active` is given."""
    items = np.eye(len(bias), dtype=np.float32)
    named = items if ids is None else unhub.Vectors(cast("NDArray[np.int64]", ids), items)
    method = "nnn:k=1" if active is None else "dis"
    fitted = cast("Bias", unhub.fit(named, np.ones((3, len(bias))), method=method))
    arrays: dict[str, NDArray[np.generic]] = {"bias": bias}
    if active is not None:
        arrays["active"] = active
    return dataclasses.replace(fitted, arrays=arrays)


def test_three_candidates_by_hand() -> None:
    correction = biased(np.array([0.3, 0.0, -0.1]))
    hits = unhub.rerank([[0, 1, 2]], [[0.9, 0.7, 0.65]], correction)
    assert hits.ids.tolist() == [[2, 1, 0]]
    np.testing.assert_allclose(hits.scores, [[0.75, 0.7, 0.6]], rtol=1e-6)
    assert unhub.rerank([[0, 1, 2]], [[0.9, 0.7, 0.65]], correction, k=1, strength=0.5).ids.tolist() == [[0]]
    assert unhub.rerank([[0, 1, 2]], [[0.9, 0.7, 0.65]], correction, strength=0).ids.tolist() == [[0, 1, 2]]


@given(
    seed=st.integers(0, 2**32 - 1),
    items=st.integers(1, 25),
    k=st.integers(1, 30),
    gate=st.booleans(),
    texts=st.booleans(),
    each=st.booleans(),
)
def test_all_items_as_candidates_rank_as_the_whole_row(
    seed: int, items: int, k: int, gate: bool, texts: bool, each: bool
) -> None:
    rng = np.random.default_rng(seed)
    ids = np.array([f"item {row}" for row in range(items)]) if texts else rng.permutation(items) * 7
    active = rng.random(items) < 0.5 if gate else None
    correction = biased(rng.standard_normal(items), ids, active)
    scores = rng.standard_normal((4, items))
    strength = rng.uniform(0, 2, 4) if each else 0.7
    order = np.argsort(-scores, axis=1)
    hits = unhub.rerank(ids[order], np.take_along_axis(scores, order, axis=1), correction, k, strength)
    whole: Floats = np.asarray(correction.apply(scores, strength if each else 0.7), np.float64)
    right = np.argsort(-whole, axis=1)[:, :k]
    width = right.shape[1]
    np.testing.assert_array_equal(hits.ids[:, :width], ids[right])
    np.testing.assert_allclose(
        np.asarray(hits.scores, np.float64)[:, :width], np.take_along_axis(whole, right, axis=1), rtol=1e-5, atol=1e-6
    )
    assert hits.ids.shape == (4, k) and (hits.ids[:, width:] == ("" if texts else -1)).all()


def test_a_gate_looks_at_the_raw_best_candidate() -> None:
    correction = biased(np.array([0.5, 0.0, 0.0]), active=np.array([True, False, False]))
    hits = unhub.rerank([[0, 1], [1, 0]], [[0.9, 0.8], [0.9, 0.8]], correction)
    assert hits.ids.tolist() == [[1, 0], [1, 0]]
    np.testing.assert_allclose(hits.scores, [[0.8, 0.4], [0.9, 0.8]], rtol=1e-6)


def test_candidates_in_any_order_give_the_same() -> None:
    correction = biased(np.array([0.5, 0.0, 0.2]), active=np.array([True, False, False]))
    first = unhub.rerank([[0, 1, 2]], [[0.9, 0.8, 0.7]], correction)
    second = unhub.rerank([[2, 0, 1]], [[0.7, 0.9, 0.8]], correction)
    np.testing.assert_array_equal(first.ids, second.ids)
    np.testing.assert_array_equal(first.scores, second.scores)


@pytest.mark.parametrize(("ids", "nothing"), [(np.arange(3), -1), (np.array(["a", "b", "c"]), "")])
def test_empty_places_stay_last_and_empty(ids: NDArray[np.generic], nothing: int | str) -> None:
    correction = biased(np.array([0.0, 0.0, 0.9]), ids)
    found = np.array([[nothing, ids[2], ids[1]], [nothing, nothing, nothing]])
    hits = unhub.rerank(found, [[np.nan, 0.5, 0.1], [-np.inf, 0.0, 9.0]], correction, k=4)
    assert hits.ids.tolist() == [[ids[1], ids[2], nothing, nothing], [nothing] * 4]
    assert np.isneginf(hits.scores[0, 2:]).all() and np.isneginf(hits.scores[1]).all()


def test_unsigned_ids_of_an_engine_are_taken() -> None:
    hits = unhub.rerank(np.array([[1, 0]], np.uint64), [[0.5, 0.4]], biased(np.array([0.0, 0.0])))
    assert hits.ids.tolist() == [[1, 0]]


def test_what_was_given_is_left_as_it_was() -> None:
    ids, scores = np.array([[0, 1]]), np.array([[0.2, 0.1]], np.float32)
    before = ids.copy(), scores.copy()
    unhub.rerank(ids, scores, biased(np.array([0.5, 0.0])))
    np.testing.assert_array_equal(ids, before[0])
    np.testing.assert_array_equal(scores, before[1])


def test_what_does_not_fit_is_named() -> None:
    correction = biased(np.array([0.1, 0.2]))
    with pytest.raises(ArgumentError, match=r"^scores must be \(queries, candidates\), as ids are, got shape \(1,\)"):
        unhub.rerank([[0, 1]], [0.5], correction)
    with pytest.raises(ArgumentError, match=r"^ids must be integers, as those of the correction, got <U1"):
        unhub.rerank([["a", "b"]], [[0.5, 0.4]], correction)
    with pytest.raises(ArgumentError, match=r"^ids must be texts, as those of the correction, got int64"):
        unhub.rerank([[0, 1]], [[0.5, 0.4]], biased(np.array([0.1, 0.2]), np.array(["a", "b"])))
    with pytest.raises(ArgumentError, match="id 7, which the correction does not cover"):
        unhub.rerank([[0, 7]], [[0.5, 0.4]], correction)
    with pytest.raises(ArgumentError, match=r"^scores must be finite for every candidate"):
        unhub.rerank([[0, 1]], [[np.nan, 0.4]], correction)
    with pytest.raises(ArgumentError, match=r"^k must be"):
        unhub.rerank([[0, 1]], [[0.5, 0.4]], correction, k=0)
    with pytest.raises(ArgumentError, match=r"^strength must be one number or one per query \(1\)"):
        unhub.rerank([[0, 1]], [[0.5, 0.4]], correction, strength=[1, 2])


def test_a_correction_of_whole_rows_is_refused() -> None:
    items, bank = np.random.default_rng(0).standard_normal((2, 6, 4))
    with pytest.raises(ArgumentError, match=r"^correction of 'gc' needs whole rows of similarities"):
        unhub.rerank([[0]], [[0.5]], unhub.fit(items, bank, method="gc"))
