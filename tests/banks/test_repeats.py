"""Repeats: joined queries are those of a slow comparison of all pairs, with the counts of all of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import unhub
from unhub.arrays import Kind
from unhub.banks.repeats import NEAR, TEMPER, equal_rows, join_repeats, near_rows
from unhub.data.fingerprint import repeats_among
from unhub.data.vectors import Vectors, as_vectors
from unhub.errors import ArgumentError

Floats = NDArray[np.float64]


def crowd(rng: np.random.Generator, kinds: int = 60, rows: int = 400, noise: float = 0.0) -> Floats:
    """Draw rows that repeat some kinds, the first ones most often."""
    drawn = rng.standard_normal((kinds, 12))[np.minimum(rng.geometric(0.05, rows), kinds) - 1]
    return np.asarray(drawn + noise * rng.standard_normal(drawn.shape))


def near(one: Floats, other: Floats, least: float, kind: Kind) -> bool:
    if kind == "cosine":
        one, other = one / np.linalg.norm(one), other / np.linalg.norm(other)
    apart = one - other
    return bool(apart @ apart <= 2 * (1 - least) * np.linalg.norm(one) * np.linalg.norm(other))


def test_a_query_asked_three_times_weighs_three() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [3.0, 3.0], [1.0, 0.0]])
    joined = join_repeats(Vectors(np.array(list("abcde")), rows), temper=1)
    assert joined.ids.tolist() == ["a", "b", "d"]
    assert joined.weights is not None and joined.weights.tolist() == [3, 1, 1]
    assert_array_equal(joined.rows[:], rows[[0, 1, 3]])
    tempered = join_repeats(rows, temper=0.5).weights
    assert tempered is not None
    assert_allclose(tempered, [3**0.5, 1, 1])
    even = join_repeats(rows, temper=0).weights
    assert even is not None and even.tolist() == [1, 1, 1]


def test_joined_with_temper_1_a_fit_is_that_of_the_whole_log() -> None:
    rng = np.random.default_rng(0)
    items, bank = rng.standard_normal((30, 12)), crowd(rng)
    whole = unhub.fit(items, bank, "nnn:k=9")
    joined = unhub.fit(items, join_repeats(bank, temper=1), "nnn:k=9")
    assert isinstance(whole, unhub.Bias) and isinstance(joined, unhub.Bias)
    assert_allclose(joined.bias, whole.bias, atol=1e-6)


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("noise", [0.0, 0.003, 0.02])
@pytest.mark.parametrize("block", [7, 1024])
def test_every_row_is_near_the_one_that_began_its_group(
    kind: Kind, noise: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unhub.banks.repeats.BLOCK_ROWS", block)
    rows = crowd(np.random.default_rng(1), noise=noise)
    owners = near_rows(as_vectors(rows, "bank"), 0.999, kind)
    leaders = np.unique(owners)
    for row, owner in enumerate(owners):
        assert near(rows[row], rows[owner], 0.999 - 1e-5, kind)
    for place, one in enumerate(leaders):  # those that began a group are not near each other
        assert not any(near(rows[one], rows[other], 0.999 + 1e-5, kind) for other in leaders[:place])


def test_near_queries_are_joined_and_the_most_frequent_one_stays() -> None:
    base = np.eye(4)[:3]
    rows = np.concatenate([base, base[:1] + 1e-3 * base[1:2], base[:1] + 1e-3 * base[1:2]])
    joined = join_repeats(rows, temper=1)
    assert joined.ids.tolist() == [1, 2, 3]  # row 3 stands twice, row 0 once
    assert joined.weights is not None and joined.weights.tolist() == [1, 1, 3]
    assert len(join_repeats(rows, near=1)) == 4


def test_rows_far_apart_in_length_are_not_the_same_under_dot_product() -> None:
    rows = np.array([[1.0, 0.0], [5.0, 0.0], [1.0001, 0.0]])
    assert len(join_repeats(rows)) == 1
    assert len(join_repeats(rows, similarity="dot")) == 2


def test_weights_are_added_before_they_are_tempered() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    weighted = Vectors(np.arange(3), rows, np.array([0.5, 4.0, 8.5]))
    found = join_repeats(weighted, temper=0.5).weights
    assert found is not None and found.tolist() == [3, 2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_forms_of_rows(dtype: type[np.floating]) -> None:
    rows = crowd(np.random.default_rng(2)).astype(dtype)
    expected = join_repeats(rows)
    for form in (np.asfortranarray(rows), np.ascontiguousarray(rows[:, ::-1])[:, ::-1]):
        form.setflags(write=False)
        found = join_repeats(form)
        assert_array_equal(found.ids, expected.ids)
        assert_array_equal(found.weights, expected.weights)


def test_one_query_and_a_thousand_equal_ones() -> None:
    assert join_repeats(np.ones((1, 3))).weights == [1]
    assert join_repeats(np.ones((1000, 3)), temper=1).weights == [1000]
    spread = np.ones((1000, 3)) + 1e-4 * np.random.default_rng(0).standard_normal((1000, 3))
    assert join_repeats(spread, temper=1).weights == [1000]


def test_counts_of_repeats() -> None:
    hashes = np.array([3, 1, 3, 3, 2], np.uint64)
    assert repeats_among(hashes) == 2
    groups = equal_rows(hashes)
    assert sorted(zip(groups.firsts.tolist(), groups.counts.tolist(), strict=True)) == [(0, 3), (1, 1), (4, 1)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"near": 1.5}, "near must be a number from 0 to 1, got 1.5"),
        ({"near": "all"}, "near must be a number from 0 to 1, got 'all'"),
        ({"temper": -1}, "temper must be a finite number of at least 0, got -1"),
        ({"temper": np.inf}, "temper must be a finite number of at least 0, got inf"),
        ({"similarity": "l2"}, "similarity "),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        join_repeats(np.ones((3, 2)), **given)  # type: ignore[arg-type]
    assert str(raised.value).startswith(message)


def test_the_defaults_are_constants_that_others_share() -> None:
    assert 0 <= TEMPER <= 1 and 0.99 < NEAR < 1


def test_a_fit_notes_the_repeats_of_a_plain_bank() -> None:
    rng = np.random.default_rng(0)
    items, bank = rng.standard_normal((30, 12)), crowd(rng)
    (note,) = unhub.fit(items, bank).cost.notes
    count = 400 - len(np.unique(bank, axis=0))
    assert note.startswith(f"{count} of 400 bank queries repeat others") and "unhub.join_repeats" in note
    assert unhub.fit(items, join_repeats(bank)).cost.notes == ()
    assert unhub.fit(items, rng.standard_normal((200, 12))).cost.notes == ()
