"""Tune on real embeddings: what it keeps of the labelled gain without labels, and that bad banks do no harm."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from tests import flickr8k

pytestmark = pytest.mark.once  # what is chosen, not how it is computed

LEAST_SHARE = 0.6  # of the gain in R@1 of the best of the settings below, chosen by the labels of the test queries
LABELLED = [
    *(f"nnn:k={k},alpha={alpha}" for k in (8, 32, 128) for alpha in (0.5, 0.75, 1.0)),
    *(f"{name}:tau={tau}" for name in ("is", "sn") for tau in (0.01, 0.02, 0.03, 0.05, 0.1)),
]
DIRECTIONS = ("text to image", "image to text")
CASES = [(space, direction) for space in flickr8k.SPACES for direction in DIRECTIONS]
TRIED = "nnn,is,sn"


class Case(NamedTuple):
    """A gallery with its bank, and labelled queries."""

    items: NDArray[np.float64]
    bank: NDArray[np.float64]
    queries: NDArray[np.float64]
    truth: unhub.Relevance


@cache
def case(space: str, direction: str, split: str = "test") -> Case:
    here, bank = flickr8k.load_split(space, split), flickr8k.load_split(space, "bank")
    truth = unhub.Relevance(np.arange(len(here.texts)), here.truth)
    if direction == "text to image":
        return Case(here.images, bank.texts, here.texts, truth)
    return Case(here.texts, bank.images, here.images, truth.reversed())


@cache
def without_labels(space: str, direction: str) -> unhub.Bias:
    one = case(space, direction)
    best = unhub.tune(one.items, one.bank, one.queries, methods=TRIED).best
    assert isinstance(best, unhub.Bias) and best.spec != "raw"
    return best


def gain(one: Case, correction: unhub.Bias) -> tuple[float, float]:
    """Return the gain in R@1 over raw, and its standard error, by which captions of one picture go together."""
    evaluation = unhub.evaluate(one.queries, one.items, one.truth, [correction], "R@1", hubness_k=None)
    found = evaluation.rows[-1].gains["R@1"]
    return found.value, (found.high - found.low) / (2 * 1.96)


@pytest.mark.parametrize(
    ("space", "direction"),
    [
        pytest.param(*one, marks=pytest.mark.xfail(reason="it keeps 0.44 of it: +1.2 of +2.7, errors of 1.1"))
        if one == ("ridge", "image to text")
        else one
        for one in CASES
    ],
)
def test_without_labels_most_of_the_labelled_best_is_kept(space: str, direction: str) -> None:
    one = case(space, direction)
    fitted = [unhub.fit(one.items, one.bank, spec) for spec in LABELLED]
    evaluation = unhub.evaluate(one.queries, one.items, one.truth, fitted, "R@1", hubness_k=None, resamples=2)
    best = max(row.gains["R@1"].value for row in evaluation.rows[1:])  # on the very queries, so a part of it is luck
    assert gain(one, without_labels(space, direction))[0] >= LEAST_SHARE * best > 0


@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_a_good_bank_gains_without_queries_too(space: str) -> None:
    one = case(space, "text to image")
    best = unhub.tune(one.items, one.bank, methods=TRIED).best
    assert isinstance(best, unhub.Bias)
    value, error = gain(one, best)
    assert value > error


@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_labels_do_no_worse_than_none(space: str) -> None:
    one = case(space, "image to text")
    labelled = unhub.tune(one.items, one.bank, one.queries, one.truth, methods=TRIED).best
    assert isinstance(labelled, unhub.Bias)
    assert gain(one, labelled)[0] >= gain(one, without_labels(space, "image to text"))[0]


@pytest.mark.parametrize(("space", "direction"), CASES)
@pytest.mark.parametrize("kind", ["far", "adversarial", "10", "30", "100", "300"])
def test_a_bad_bank_does_no_harm(space: str, direction: str, kind: str) -> None:
    one = case(space, direction)
    size, how = (int(kind), "random") if kind.isdigit() else (1000, kind)
    rows = unhub.sample_bank(one.bank, size, how, items=one.items, queries=one.queries, seed=1)
    tuning = unhub.tune(one.items, one.bank[rows], one.queries, methods=TRIED)
    assert isinstance(tuning.best, unhub.Bias)
    if tuning.best.spec != "raw":
        value, error = gain(one, tuning.best)
        assert value >= -2 * error, tuning.reason
    else:
        assert "No sure gain over raw" in tuning.reason


@pytest.mark.parametrize(("space", "direction"), CASES)
@pytest.mark.parametrize("size", [50, 300, 600])
def test_small_banks_of_the_same_source_do_no_harm_whatever_the_draw(space: str, direction: str, size: int) -> None:
    one = case(space, direction)
    gains = []
    for seed in range(2):  # benchmarks/evidence.py --banks draws more, and from more sets
        rows = np.sort(np.random.default_rng(seed).choice(len(one.bank), size, replace=False))
        tuning = unhub.tune(one.items, one.bank[rows], one.queries, methods=TRIED)
        assert isinstance(tuning.best, unhub.Bias)
        value, error = gain(one, tuning.best)
        assert value >= -error, (seed, tuning.reason)
        gains.append(value)
    assert direction == "image to text" or size < 300 or np.mean(gains) > 0.3
