"""One pass from checked inputs to figures: by hand on three queries, and as the public functions return it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import unhub
from unhub.compute.workers import Resources
from unhub.data.similarity import Dense
from unhub.evaluation.inputs import EvaluationInputs
from unhub.evaluation.measures import parse_measure
from unhub.evaluation.ranked import Ranked

SCORES = np.array([[0.9, 0.5, 0.1], [0.9, 0.8, 0.2], [0.7, 0.1, 0.6]], np.float32)  # item 0 is first for everyone
TRUTH = {0: 0, 1: 1, 2: 2}


def ranked(last_alone: bool = False, strength: float = 1.0) -> Ranked:
    fitted = unhub.fit(Dense(SCORES), method="cent")  # takes the mean score of each item off
    inputs = EvaluationInputs.of(Dense(SCORES), None, {"centred": fitted})
    truth = inputs.truth(TRUTH)
    return Ranked.of(inputs, Resources(1), truth, best=2, strength=strength, last_alone=last_alone)


def test_every_ranking_is_placed_by_name_raw_first() -> None:
    found = ranked()
    assert found.names == ("raw", "centred") and found.items == 3
    assert_array_equal(found.placed[0].best, [[0, 1], [0, 1], [0, 2]])
    assert_array_equal(found.placed[0].best[:, 0], 0)
    assert_array_equal(found.values(parse_measure("R@1")), [[[100, 0, 0], [100, 100, 100]]])
    assert_array_equal(found.values(parse_measure("GM"))[:, 0], [[100, 0, 0], [100] * 3, [100] * 3])
    assert_array_equal(found.places[0].best_ranks, [1, 2, 2])


def test_the_last_ranking_may_be_placed_alone_and_none_of_a_correction_is_raw() -> None:
    alone = ranked(last_alone=True)
    assert alone.names == ("centred",)
    assert_array_equal(alone.placed[0].best, ranked().placed[1].best)
    assert_array_equal(ranked(strength=0.0).placed[1].best, ranked().placed[0].best)


def test_without_relevance_there_are_best_items_and_no_places() -> None:
    inputs = EvaluationInputs.of(Dense(SCORES), None)
    found = Ranked.of(inputs, Resources(1), best=1)
    assert found.truth is None and found.names == ("raw",)
    assert_array_equal(found.placed[0].best, [[0], [0], [0]])
    with pytest.raises(RuntimeError, match="no relevance"):
        _ = found.places


def test_progress_ends_at_its_total() -> None:
    seen: list[tuple[int, int]] = []
    inputs = EvaluationInputs.of(Dense(SCORES), None)
    Ranked.of(inputs, Resources(1, progress=lambda done, total: seen.append((done, total))))
    assert seen[-1][0] == seen[-1][1] > 0
