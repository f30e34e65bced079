"""Several queries become one as the formulas say, whatever the sizes, forms and order of the sets."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from tests import set_oracles
from tests.oracles import Floats
from unhub import combine
from unhub.arrays import Float32, Float64, Kind, unit
from unhub.combine import (
    COMBINATIONS,
    Combination,
    Sets,
    as_combination,
    average_ranks,
    distinct_weights,
    softmax,
)
from unhub.data.vectors import Vectors

pytestmark = pytest.mark.once

WEIGHTED = ("sa", "mf", "ts-wf")
build: Callable[..., Sets] = Sets.of  # for what the types would refuse


def first_only(queries: Float32) -> Float64:
    """Weigh by the first value of each unit query, as a trained head might."""
    return softmax(3 * queries[:, :, 0].astype(np.float64))


HEAD = Combination("by-hand", "a head made by hand", first_only, fused=True, dimensions=6)


@dataclasses.dataclass(frozen=True)
class HasCombination:
    """What combines as a trained Model does."""

    combination: Combination


def ragged(sizes: Sequence[int], seed: int = 0, dimensions: int = 6) -> list[Floats]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(size, dimensions)) + 0.3 for size in sizes]


def ready(queries: Floats, kind: Kind) -> Floats:
    """Return queries as they are multiplied, with the rounding of float32."""
    rows = queries.astype(np.float32)
    return (unit(rows) if kind == "cosine" else rows).astype(np.float64)


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("name", WEIGHTED)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), seed=st.integers(0, 1000), block=st.integers(1, 90))
@settings(max_examples=30)
def test_each_set_is_combined_as_its_formula(name: str, kind: Kind, sizes: list[int], seed: int, block: int) -> None:
    sets = ragged(sizes, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combine, "BLOCK_ENTRIES", block)
        found = Sets.of(sets, 6, kind).combined(COMBINATIONS[name])
    expected = [set_oracles.combined(name, ready(one, kind)) for one in sets]
    assert found.dtype == np.float32
    assert_allclose(found, expected, atol=2e-6)


def test_ts_wf_by_hand() -> None:
    """Two equal queries and one across: means of the others 1/2, 1/2, 0, so weights 1, 1, e of a sum."""
    queries = np.array([[[1, 0], [1, 0], [0, 1]]], np.float32)
    e = np.e
    assert_allclose(distinct_weights(queries), [[1 / (2 + e), 1 / (2 + e), e / (2 + e)]], rtol=1e-6)
    (found,) = Sets.of([queries[0]], 2, "cosine").combined(COMBINATIONS["ts-wf"])
    assert_allclose(found, np.array([2, e]) / np.hypot(2, e), rtol=1e-6)


def test_a_head_weighs_unit_queries() -> None:
    sets = ragged([1, 4, 2])
    for kind in ("cosine", "dot"):
        found = build(sets, 6, kind).combined(HEAD)
        for one, vector in zip(sets, found, strict=True):
            units = ready(one, "cosine").astype(np.float32)
            weights = first_only(units[None])[0].tolist()
            assert_allclose(vector, set_oracles.combined("by-hand", ready(one, kind), weights), atol=2e-6)


@pytest.mark.parametrize("how", [*(COMBINATIONS[name] for name in WEIGHTED), HEAD], ids=lambda how: how.name)
def test_the_order_of_the_queries_does_not_matter(how: Combination) -> None:
    sets = ragged([2, 5, 9])
    shuffled = [np.random.default_rng(1).permutation(one) for one in sets]
    one, other = (Sets.of(several, 6, "cosine").combined(how) for several in (sets, shuffled))
    assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("how", [*(COMBINATIONS[name] for name in WEIGHTED), HEAD], ids=lambda how: how.name)
def test_a_query_that_is_said_twice_is_as_once(how: Combination) -> None:
    (one,) = ragged([1])
    once, twice = Sets.of([one, np.repeat(one, 3, axis=0)], 6, "cosine").combined(how)
    assert_allclose(once, twice, atol=1e-6)
    assert_array_equal(once, unit(one.astype(np.float32))[0])  # to the last bit: one query is itself


def test_fused_queries_are_as_long_as_one_query() -> None:
    sets = Sets.of(ragged([3, 7]), 6, "cosine")
    for name in ("mf", "ts-wf"):
        assert_allclose(np.linalg.norm(sets.combined(COMBINATIONS[name]), axis=1), 1, atol=1e-6)
    assert np.all(np.linalg.norm(sets.combined(COMBINATIONS["sa"]), axis=1) < 0.99)


@pytest.mark.parametrize("form", ["float16", "float64", "Fortran order", "read-only", "list", "Vectors", "integers"])
def test_sets_of_any_form_are_the_same_and_stay_as_they_are(form: str) -> None:
    sets = [np.random.default_rng(size).integers(-4, 5, (size, 6)) + 0.5 * (form != "integers") for size in (1, 4)]
    forms: dict[str, Callable[[NDArray[np.generic]], object]] = {
        "float16": lambda one: one.astype(np.float16),
        "float64": lambda one: one,
        "Fortran order": lambda one: np.asfortranarray(one, np.float32),
        "read-only": read_only,
        "list": lambda one: one.tolist(),
        "Vectors": lambda one: Vectors(np.array([f"q{row}" for row in range(len(one))]), one),
        "integers": lambda one: one,
    }
    given = [forms[form](one) for one in sets]
    before = [one.copy() for one in sets]
    found = build(given, 6, "cosine")
    expected = Sets.of([one.astype(np.float32) for one in sets], 6, "cosine")
    assert_array_equal(found.queries, expected.queries)
    assert found.counts.tolist() == [1, 4]
    for one, same in zip(sets, before, strict=True):
        assert_array_equal(one, same)


def read_only(rows: NDArray[np.generic]) -> NDArray[np.generic]:
    copy = rows.copy()
    copy.setflags(write=False)
    return copy


def test_sets_may_come_from_a_generator_or_one_array_of_equal_sizes() -> None:
    sets = ragged([3, 3])
    one, other = build((part for part in sets), 6, "dot"), build(np.stack(sets), 6, "dot")
    assert_array_equal(one.queries, other.queries)
    assert len(one) == len(other) == 2


def test_some_sets_are_those_at_the_positions() -> None:
    sets = ragged([2, 1, 5, 3])
    some = Sets.of(sets, 6, "dot").gather(np.array([3, 0, 3]))
    expected = Sets.of([sets[3], sets[0], sets[3]], 6, "dot")
    assert_array_equal(some.queries, expected.queries)
    assert_array_equal(some.starts, expected.starts)


def test_queries_of_no_length_are_combined_under_dot() -> None:
    sets = [np.array([[0.0, 0], [2, 0]]), np.array([[0.0, 0]])]
    expected = np.array([[1.0, 0], [0, 0]])  # half of the one that has a length, by equal weights
    for name in WEIGHTED:
        assert_allclose(Sets.of(sets, 2, "dot").combined(COMBINATIONS[name]), expected, atol=1e-6)


def test_queries_far_from_unit_length_are_combined_under_dot() -> None:
    for scale in (1e-24, 1e15):
        sets = [scale * one for one in ragged([3, 2])]
        for name in WEIGHTED:
            found = Sets.of(sets, 6, "dot").combined(COMBINATIONS[name])
            expected = [set_oracles.combined(name, ready(one, "dot")) for one in sets]
            assert_allclose(found, expected, rtol=1e-4)


# Ranks.


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40))
def test_equal_scores_share_the_mean_of_their_ranks(scores: list[int]) -> None:
    row = np.array(scores, np.float32)
    assert_array_equal(average_ranks(row), set_oracles.mean_ranks(row[None].astype(np.float64)))


def test_average_ranks_by_hand() -> None:
    assert average_ranks(np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [2.5, 1, 2.5, 4]


# Mistakes.


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "an empty set": (lambda: build([np.ones((2, 6)), np.ones((0, 6))], 6, "cosine"), r"sets\[1\] is empty; a set"),
    "an empty list as a set": (lambda: build([[]], 6, "cosine"), r"sets\[0\] is empty; a set needs at least one query"),
    "one matrix": (lambda: build(np.ones((3, 6)), 6, "cosine"), r"sets must be a list .* put a single set in a list"),
    "Vectors": (lambda: build(Vectors(np.arange(2), np.ones((2, 6))), 6, "cosine"), "put a single set in a list"),
    "one query as a set": (lambda: build([np.ones(6)], 6, "cosine"), r"sets\[0\] must be a matrix .* got shape \(6,\)"),
    "other dimensions": (
        lambda: build([np.ones((2, 6)), np.ones((2, 5))], 6, "cosine"),
        r"sets\[1\] has 5 dimensions, the items 6; embed both with one model",
    ),
    "NaN": (lambda: build([np.ones((2, 6)), np.full((1, 6), np.nan)], 6, "dot"), r"sets\[1\] holds nan in row 0"),
    "zeros": (lambda: build([np.ones((9, 6)), np.zeros((2, 6))], 6, "cosine"), r"sets\[1\] has only zeros in row 0"),
    "too large": (lambda: build([np.full((1, 6), 1e300)], 6, "dot"), r"sets\[0\] holds 1e\+300 in row 0"),
    "rows of other lengths": (lambda: build([[[1, 2], [3]]], 2, "dot"), r"sets\[0\] is not a matrix"),
    "texts": (lambda: build([np.array([["a"]])], 1, "dot"), r"sets\[0\] must hold real numbers"),
    "a text": (lambda: build("sets.npy", 6, "dot"), "sets must be a list of .* got 'sets.npy'"),
    "a number": (lambda: build(3, 6, "dot"), "sets must be a list .* got 3"),
    "a misspelt name": (
        lambda: as_combination("ts_wf", 6),
        r"^combine 'ts_wf' is unknown; did you mean 'ts-wf'\? the .* are sa, ",
    ),
    "another name": (
        lambda: as_combination("quantum", 6),
        r"^combine 'quantum' is unknown; the combinations, .*, are sa, ra, mf, ts-wf$",
    ),
    "nothing": (lambda: unchecked(None, 6), "combine must be .* got None"),
    "a head of other dimensions": (
        lambda: as_combination(HasCombination(HEAD), 8),
        "combine is the head 'by-hand', trained for 6 dimensions, but the queries have 8; encode texts and items",
    ),
}
unchecked: Callable[..., Combination] = as_combination


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_remedy(mistake: str) -> None:
    run, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        run()


@pytest.mark.parametrize("name", ["mf", "ts-wf"])
@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_queries_that_cancel_out_have_no_direction(name: str, kind: Kind) -> None:
    (query,) = ragged([1])
    sets = Sets.of([query, np.vstack([query, query]), np.vstack([query, -query])], 6, kind)
    with pytest.raises(ValueError, match=r"sets\[2\] has queries that sum to zero.* combine with 'sa'"):
        sets.combined(COMBINATIONS[name])
    assert_allclose(sets.combined(COMBINATIONS["sa"])[2], 0, atol=1e-7)


def test_a_set_of_zeros_alone_has_no_direction_under_dot() -> None:
    with pytest.raises(ValueError, match=r"sets\[0\] has queries that sum to zero"):
        Sets.of([np.zeros((2, 3))], 3, "dot").combined(COMBINATIONS["mf"])


def test_no_sets_are_nothing() -> None:
    sets = build([], 6, "cosine")
    assert len(sets) == 0
    assert sets.combined(COMBINATIONS["mf"]).shape == (0, 6)


def test_names_and_models_say_how_to_combine() -> None:
    assert as_combination("mf", 3) is COMBINATIONS["mf"]
    assert as_combination(HEAD, 6) is as_combination(HasCombination(HEAD), 6) is HEAD
    assert list(COMBINATIONS) == ["sa", "ra", "mf", "ts-wf"]
