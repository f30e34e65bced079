"""Samples of a bank: cases by hand, what every sampler must keep to, and a real bank."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import unhub
from tests import flickr8k
from unhub.arrays import Kind

pytestmark = pytest.mark.once

HOWS = ("random", "stratified", "adversarial", "near", "far")

# Three items on the axes; bank queries 0-3 reach the first, 4 and 5 the second, 6 the third.
ITEMS = np.eye(3)
BANK = np.array([[9, 1, 0], [8, 0, 1], [7, 1, 1], [6, 2, 2], [1, 9, 0], [2, 8, 0], [0, 1, 5]], float)
REACHED = np.array([0, 0, 0, 0, 1, 1, 2])


def reached(positions: NDArray[np.int64]) -> list[int]:
    return [int(item) for item in REACHED[positions]]


def test_a_random_sample_is_of_the_seed() -> None:
    first, again, other = (unhub.sample_bank(np.ones((1000, 2)), 20, seed=seed) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()


def test_a_random_sample_draws_all_alike() -> None:
    drawn = np.bincount(np.concatenate([unhub.sample_bank(np.ones((10, 1)), 3, seed=seed) for seed in range(2000)]))
    assert drawn.min() > 500 and drawn.max() < 700  # 600 each, and a standard deviation of 20


@pytest.mark.parametrize("seed", range(5))
def test_a_stratified_sample_gives_every_item_its_share(seed: int) -> None:
    def sampled(size: int) -> list[int]:
        return reached(unhub.sample_bank(BANK, size, "stratified", items=ITEMS, seed=seed))

    assert sampled(3) == [0, 1, 2]
    assert sampled(5) == [0, 0, 1, 1, 2]
    assert sampled(6) == [0, 0, 0, 1, 1, 2]  # the other two have no more to give


def test_a_stratified_sample_draws_within_an_item_by_chance() -> None:
    drawn = {int(unhub.sample_bank(BANK, 3, "stratified", items=ITEMS, seed=seed)[0]) for seed in range(50)}
    assert drawn == {0, 1, 2, 3}


def test_a_stratified_sample_smaller_than_the_items_draws_among_them_by_chance() -> None:
    drawn = {tuple(reached(unhub.sample_bank(BANK, 2, "stratified", items=ITEMS, seed=seed))) for seed in range(50)}
    assert drawn == {(0, 1), (0, 2), (1, 2)}


@pytest.mark.parametrize("seed", range(5))
def test_an_adversarial_sample_begins_with_the_worst_hub(seed: int) -> None:
    def sampled(size: int) -> list[int]:
        return reached(unhub.sample_bank(BANK, size, "adversarial", items=ITEMS, seed=seed))

    assert sampled(3) == [0, 0, 0]
    assert sampled(6) == [0, 0, 0, 0, 1, 1]


def test_near_and_far_go_by_the_mean_of_the_queries() -> None:
    bank = np.array([[1, 0], [1, 1], [0, 1], [-1, 1]], float)
    queries = np.array([[1, 0.1], [1, -0.1]])
    assert unhub.sample_bank(bank, 2, "near", queries=queries).tolist() == [0, 1]
    assert unhub.sample_bank(bank, 1, "far", queries=queries).tolist() == [3]


def test_near_goes_by_the_items_where_there_are_no_queries() -> None:
    bank, items, queries = np.array([[1.0, 0], [0, 1]]), np.array([[0.0, 1]]), np.array([[1.0, 0]])
    assert unhub.sample_bank(bank, 1, "near", items=items).tolist() == [1]
    assert unhub.sample_bank(bank, 1, "near", items=items, queries=queries).tolist() == [0]


def test_under_dot_near_is_by_distance_and_not_by_angle() -> None:
    bank, queries = np.array([[10.0, 0], [1, 1]]), np.array([[1.0, 0]])
    assert unhub.sample_bank(bank, 1, "near", queries=queries).tolist() == [0]
    assert unhub.sample_bank(bank, 1, "near", queries=queries, similarity="dot").tolist() == [1]


@given(
    rows=st.integers(1, 30),
    items=st.integers(1, 8),
    seed=st.integers(0, 99),
    how=st.sampled_from(HOWS),
    kind=st.sampled_from(["cosine", "dot"]),
    data=st.data(),
)
def test_every_sample_is_of_the_size_asked_for_and_repeats_nothing(
    rows: int, items: int, seed: int, how: str, kind: Kind, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, rows))
    random = np.random.default_rng(seed)
    bank, gallery = random.normal(size=(rows, 3)), random.normal(size=(items, 3))
    positions = unhub.sample_bank(bank, size, how, items=gallery, similarity=kind, seed=seed)
    assert positions.dtype == np.int64
    assert len(positions) == size
    assert np.all(np.diff(positions) > 0)
    assert positions[0] >= 0 and positions[-1] < rows


@given(rows=st.integers(1, 9), items=st.integers(1, 5), seed=st.integers(0, 99), data=st.data())
def test_no_sample_reaches_fewer_items_than_the_adversarial_nor_more_than_the_stratified(
    rows: int, items: int, seed: int, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, rows))
    random = np.random.default_rng(seed)
    bank, gallery = random.normal(size=(rows, 3)), random.normal(size=(items, 3))
    units = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
    firsts = (bank @ units.T).argmax(axis=1)
    every = [len(set(firsts[list(some)])) for some in itertools.combinations(range(rows), size)]
    fewest, most = (
        len(set(firsts[unhub.sample_bank(bank, size, how, items=gallery, seed=seed)]))
        for how in ("adversarial", "stratified")
    )
    assert (fewest, most) == (min(every), max(every))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": 8}, "size must be a whole number from 1 to 7, the size of the bank, got 8"),
        ({"size": 0}, "got 0"),
        ({"size": 2.0}, "got 2.0"),
        ({"size": True}, "got True"),
        ({"how": "advesarial"}, "how 'advesarial' is unknown; did you mean 'adversarial'.* are random, "),
        ({"how": "stratified"}, "items is missing, but 'stratified'"),
        ({"how": "adversarial", "queries": ITEMS}, "items is missing, but 'adversarial'"),
        ({"how": "far"}, "queries is missing, but 'far'"),
        ({"how": "near", "items": np.eye(2)}, "^bank has 3 dimensions, the items 2; embed both"),
        ({"how": "near", "items": np.zeros((1, 3))}, "items has only zeros in row 0"),
        ({"how": "near", "items": ITEMS, "similarity": "euclid"}, "similarity"),
    ],
)
def test_a_mistake_is_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        unhub.sample_bank(BANK, **{"size": 2, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_samples_of_real_captions_order_as_their_names_say(space: str) -> None:
    data = flickr8k.load(space)
    bank, items, queries = data.bank_texts, data.test_images, data.test_texts
    firsts = (bank @ items.T).argmax(axis=1)
    mean = queries.mean(axis=0)
    drawn = {how: unhub.sample_bank(bank, 1000, how, items=items, queries=queries) for how in HOWS}
    coverage = {how: len(set(firsts[positions])) for how, positions in drawn.items()}
    assert coverage["adversarial"] < 0.1 * coverage["random"]
    assert coverage["stratified"] == len(set(firsts)) > 1.5 * coverage["random"]
    assert (bank[drawn["far"]] @ mean).max() <= np.partition(bank @ mean, 1000)[1000]
    assert (bank[drawn["near"]] @ mean).min() >= np.partition(bank @ mean, -1001)[-1001]
