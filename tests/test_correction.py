"""Corrections: what `apply` does to a matrix of scores, by hand, and what it refuses."""

from typing import Any, cast

import numpy as np
import pytest

from unhub.compute.workers import Progress
from unhub.correction import Bias, Cost, Plan, Rescore, Scores, Source, check_correction, strengths
from unhub.methods import parse

SCORES = np.array([[0.5, 0.4, 0.1], [0.2, 0.9, 0.3]])
H = np.array([0.2, -0.1, -0.1])


def biased(**arrays: object) -> Bias:
    """Return a correction of three items; the bias is H unless another one is given."""
    kept: Any = {"bias": H.copy(), **arrays}
    source = Source("dot", 2)
    return Bias(parse("is"), np.arange(3), np.zeros(3, np.uint64), source, Cost(), kept)


def test_a_bias_is_subtracted_from_its_item() -> None:
    np.testing.assert_allclose(biased().apply(SCORES), [[0.3, 0.5, 0.2], [0.0, 1.0, 0.4]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_keep_their_type_and_stay_as_they_are(dtype: type[np.floating[Any]]) -> None:
    scores = SCORES.astype(dtype)
    assert biased().apply(scores).dtype == dtype
    np.testing.assert_array_equal(scores, SCORES.astype(dtype))


def test_whole_numbers_become_float32() -> None:
    assert biased().apply(np.ones((1, 3), np.int64)).dtype == np.float32


def test_a_gate_leaves_queries_alone_whose_best_item_is_not_active() -> None:
    gated = biased(active=np.array([True, False, False]))
    np.testing.assert_allclose(gated.apply(SCORES), [[0.3, 0.5, 0.2], [0.2, 0.9, 0.3]])
    np.testing.assert_array_equal(gated.weights(np.array([0, 1, -1])), [1, 0, 0])


def test_each_query_has_its_own_strength() -> None:
    np.testing.assert_allclose(biased().apply(SCORES, np.array([0.0, 2.0])), [SCORES[0], SCORES[1] - 2 * H])


def test_a_masked_item_stays_masked() -> None:
    masked = SCORES.copy()
    masked[0, 1] = -np.inf
    corrected = biased().apply(masked)
    assert corrected[0, 1] == -np.inf
    assert np.isfinite(np.delete(corrected.ravel(), 1)).all()


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.ones((2, 4)), r"scores must be \(queries, 3\).*\(2, 4\)"),
        (np.ones(3), r"scores must be \(queries, 3\).*\(3,\)"),
        (np.array([[0, np.nan, 0]]), "nan"),
    ],
)
def test_scores_that_do_not_fit_are_refused(scores: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        biased().apply(scores)


@pytest.mark.parametrize("strength", [np.nan, np.inf, 1e39, "all", [1.0, 2.0, 3.0]])
def test_a_strength_that_is_no_number_per_query_is_refused(strength: Any) -> None:
    with pytest.raises(ValueError, match="strength"):
        strengths(strength, 2, biased())


@pytest.mark.parametrize("bias", [np.array([0, np.nan, 0]), np.array([0, np.inf, 0])])
def test_a_bias_must_be_finite(bias: np.ndarray) -> None:
    with pytest.raises(ValueError, match="finite"):
        biased(bias=bias)


def test_a_correction_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        biased().bias[0] = 1


def test_a_rescore_and_a_plan_are_what_their_method_says() -> None:
    class Negation:
        name, spec = "negation", "negation"

        def rescore(self, scores: Scores, fitted: Rescore) -> Scores:
            return -scores

        def plan(self, scores: Scores, progress: Progress | None = None) -> Scores:
            return -scores

    for kind in (Rescore, Plan):
        correction = kind(cast("Any", Negation()), np.arange(3), np.zeros(3, np.uint64), Source("dot", 2), Cost())
        np.testing.assert_array_equal(correction.apply(SCORES), -SCORES)
        assert (len(correction), correction.spec) == (3, "negation")


@pytest.mark.parametrize("value", ["c.unhub", [1, 2], None, 3])
def test_what_is_no_correction_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="correction must be"):
        check_correction(value, "search")
