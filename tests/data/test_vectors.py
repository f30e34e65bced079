"""Vectors: ids and rows read in blocks, joined and picked without copying, hashed by their contents."""

import dataclasses
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import DTypeLike, NDArray

from unhub.arrays import Ids, random_positions, spans, unit
from unhub.data.fingerprint import Fingerprint, digest, inspect
from unhub.data.ids import as_ids, join_ids, positions_of
from unhub.data.query_log import QueryLog
from unhub.data.vectors import Gathered, Rows, Stacked, Vectors, as_vectors, take
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once

seeds = st.integers(0, 2**32 - 1)

SAVED_HASHES = {  # by the number of dimensions, of (0, 1, 2, ...) / 4 - 1 / 2 in three rows, in files of format 1
    1: ["1a52d97d76bc52d8", "725257d7b2b240a6", "a573f359f6d2b55c"],
    2: ["4281f3968f5faa6f", "be034cd87354f298", "7887945d33b8b51d"],
    5: ["ce411b7467a419c2", "70f88cf61f104327", "2e5e1877ca56914b"],
}


def rows_of(seed: int, n: int, d: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((n, d))


def everything(rows: Rows) -> NDArray[np.generic]:
    return rows[0 : rows.shape[0]]


def test_an_array_gets_ids_from_zero_on() -> None:
    found = as_vectors([[1, 2], [3, 4], [5, 6]], "items")
    assert found.ids.tolist() == [0, 1, 2]
    assert (len(found), found.dimensions) == (3, 2)


def test_vectors_keep_their_ids() -> None:
    given_ids = Vectors(np.array(["b", "a"]), np.eye(2))
    assert as_vectors(given_ids, "items").ids.tolist() == ["b", "a"]


def test_ids_cannot_be_changed_from_outside() -> None:
    ids = np.array([3, 1, 2])
    found = Vectors(ids, np.eye(3))
    ids[0] = 9
    assert found.ids.tolist() == [3, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        found.ids[0] = 9


@pytest.mark.parametrize(
    "mixed", [[1, "a"], ("a", 1), [np.int64(1), "a"], [True, 2], ["a", None], np.array([1, "a"], object)], ids=repr
)
def test_ids_of_several_kinds_are_refused(mixed: object) -> None:
    words = "has ids of several types, for example .* and .*; give all integers or all strings"
    with pytest.raises(ValueError, match=f"^ids {words}"):
        Vectors(cast("Ids", mixed), np.eye(2))
    for known in (np.arange(3), np.array(["1", "a", "True"])):
        with pytest.raises(ValueError, match=f"^among {words}"):
            positions_of(mixed, known, "among")
    assert as_ids([np.int64(1), 2, np.uint8(3)], 3, "ids").tolist() == [1, 2, 3]


@pytest.mark.parametrize("ends", [["b", "a\0"], ("a\0", "b"), np.array(["a\0", "b"], object)], ids=repr)
def test_ids_that_end_in_nul_are_refused_since_an_array_drops_it(ends: object) -> None:
    with pytest.raises(ValueError, match=r"ids has the id 'a.x00', which ends in NUL"):
        Vectors(cast("Ids", ends), np.eye(2))
    with pytest.raises(ValueError, match=r"among has the id 'a.x00', which ends in NUL"):
        positions_of(ends, np.array(["a", "b"]), "among")
    with pytest.raises(ValueError, match="which ends in NUL"):
        positions_of("a\0", np.array(["a", "b"]), "among")


def test_ids_may_be_a_list_of_strings_or_an_array_of_objects() -> None:
    assert as_ids(["x", "longer"], 2, "ids").dtype.kind == "U"
    assert as_ids(np.array(["x", "longer"], dtype=object), 2, "ids").tolist() == ["x", "longer"]
    assert as_ids(np.array([5, 6], np.uint8), 2, "ids").dtype == np.int64


def test_ids_that_are_read_only_are_copied_unless_they_are_ours() -> None:
    given = np.arange(3)
    given.setflags(write=False)
    ours = as_ids(given, 3, "ids")
    given.setflags(write=True)
    given[0] = 7
    assert ours.tolist() == [0, 1, 2]
    assert as_ids(ours, 3, "ids") is ours


def test_rows_must_be_an_array() -> None:
    with pytest.raises(ValueError, match=r"^rows must be an array"):
        Vectors(np.array([0, 1]), [[1.0, 2.0], [3.0, 4.0]])  # type: ignore[arg-type]


# Blocks.


def test_spans_cover_everything_once() -> None:
    assert list(spans(10, 4)) == [(0, 4), (4, 8), (8, 10)]
    assert list(spans(10, 4, start=5)) == [(5, 9), (9, 10)]
    assert list(spans(0, 4)) == []


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16])
def test_blocks_are_the_rows_in_float32(monkeypatch: pytest.MonkeyPatch, dtype: DTypeLike) -> None:
    monkeypatch.setattr("unhub.arrays.BLOCK_BYTES", 3 * 4 * 5)
    rows = np.asfortranarray((10 * rows_of(0, 8, 5)).astype(dtype))
    blocks = list(as_vectors(rows, "items").blocks())
    assert [start for start, _ in blocks] == [0, 3, 6]
    assert all(block.dtype == np.float32 and block.flags.c_contiguous for _, block in blocks)
    assert_array_equal(np.concatenate([block for _, block in blocks]), rows.astype(np.float32))


def test_blocks_of_very_wide_rows_hold_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhub.arrays.BLOCK_BYTES", 1)
    assert [len(block) for _, block in as_vectors(np.eye(3), "items").blocks()] == [1, 1, 1]


@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 9), exponent=st.integers(-30, 30))
@settings(max_examples=50)
def test_unit_rows_have_length_one_and_the_same_direction(seed: int, n: int, d: int, exponent: int) -> None:
    rows = (rows_of(seed, n, d) * 10.0**exponent).astype(np.float32)
    kept = rows.copy()
    found = unit(rows)
    wide = rows.astype(np.float64)
    assert_allclose(found, wide / np.linalg.norm(wide, axis=1, keepdims=True), rtol=1e-6, atol=1e-7)
    assert_array_equal(rows, kept)


def test_one_odd_row_among_ordinary_ones_is_scaled_too() -> None:
    rows = np.array([[3, 4], [3e25, 4e25], [3e-30, 4e-30]], np.float32)
    assert_allclose(unit(rows), [[0.6, 0.8]] * 3, rtol=1e-6)


def test_dot_leaves_rows_as_they_are() -> None:
    rows = as_vectors(np.array([[3.0, 4.0]]), "items")
    assert rows.unit_block(0, 1, "dot").tolist() == [[3, 4]]
    assert_allclose(rows.unit_block(0, 1, "cosine"), [[0.6, 0.8]], rtol=1e-6)


# Rows below rows, and some of the rows.


@given(
    seed=seeds,
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    start=st.integers(0, 25),
    length=st.integers(0, 25),
)
@settings(max_examples=80)
def test_stacked_rows_read_as_if_copied(seed: int, sizes: list[int], start: int, length: int) -> None:
    parts = [rows_of(seed + place, size, 3) for place, size in enumerate(sizes)]
    whole = np.concatenate(parts)
    stacked = Stacked(parts)
    assert stacked.shape == whole.shape
    assert_array_equal(stacked[start : start + length], whole[start : start + length])


@given(seed=seeds, picks=st.lists(st.integers(0, 9), min_size=1, max_size=12))
@settings(max_examples=50)
def test_gathered_rows_read_as_if_copied(seed: int, picks: list[int]) -> None:
    parts = [rows_of(seed, 4, 3), rows_of(seed + 1, 6, 3)]
    whole, positions = np.concatenate(parts), np.array(picks)
    assert_array_equal(take(Stacked(parts), positions), whole[positions])
    assert_array_equal(everything(Gathered(Stacked(parts), positions)), whole[positions])
    again = np.arange(len(picks))[::-1]
    assert_array_equal(take(Gathered(whole, positions), again), whole[positions][again])
    both = Vectors(np.arange(10), Stacked(parts)).gather(np.unique(positions)).gather(np.array([0]))
    assert_array_equal(everything(both.rows), whole[[positions.min()]])
    assert both.ids.tolist() == [positions.min()]
    bare = Vectors(np.arange(10), whole).bare().gather(positions)
    assert_array_equal(everything(bare.rows), whole[positions])


def test_rows_of_different_width_do_not_stack() -> None:
    with pytest.raises(ValueError, match=r"different numbers of dimensions: \[2, 3\]"):
        Stacked([np.eye(2), np.eye(3)])
    with pytest.raises(ValueError, match="parts is empty; give at least one"):
        Stacked([])


def test_stacked_rows_of_different_dtypes_lose_nothing() -> None:
    stacked = Stacked([np.ones((1, 2), np.float16), np.full((1, 2), 1 / 3)])
    assert stacked.dtype == np.float64
    assert_array_equal(everything(stacked), [[1, 1], [1 / 3, 1 / 3]])


def test_stacked_vectors_must_have_ids_of_their_own() -> None:
    one = Vectors(np.array(["a"]), np.eye(1))
    assert one.stack(Vectors(np.array(["bb"]), np.eye(1))).ids.tolist() == ["a", "bb"]
    with pytest.raises(ValueError, match="repeated ids"):
        one.stack(one)
    with pytest.raises(ValueError, match="all integers or all strings"):
        join_ids(np.array(["a"]), np.array([1]))


# Where ids stand.


@given(ids=st.lists(st.integers(-50, 50), min_size=1, max_size=30, unique=True), seed=seeds)
@settings(max_examples=50)
def test_ids_are_found_where_they_stand(ids: list[int], seed: int) -> None:
    known = np.array(ids)
    wanted = np.random.default_rng(seed).choice(known, 5)
    assert known[positions_of(wanted, known, "ids")].tolist() == wanted.tolist()


def test_one_id_is_found_too() -> None:
    names: Ids = np.array(["b", "a", "c"])
    assert positions_of("a", names, "ids").tolist() == [1]
    assert positions_of([], names, "ids").tolist() == []
    with pytest.raises(ValueError, match=r"^among has 1 unknown id, for example .*z"):
        positions_of(["a", "z"], names, "among")
    with pytest.raises(ValueError, match=r"^among has ids that are integers, the ids here are strings"):
        positions_of([1], names, "among")


# Hashes.


def hashes_of(rows: NDArray[np.generic] | Stacked) -> NDArray[np.uint64]:
    return inspect(as_vectors(rows, "rows"), "rows", "dot").hashes


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_the_same_numbers_hash_alike_in_any_dtype_layout_and_block(monkeypatch: pytest.MonkeyPatch, d: int) -> None:
    rows = np.random.default_rng(1).integers(-9, 9, (20, d))
    expected = hashes_of(rows)
    assert len(set(expected.tolist())) == len(np.unique(rows, axis=0))
    for dtype in (np.float16, np.float32, np.float64, np.int8):
        assert_array_equal(hashes_of(np.asfortranarray(rows.astype(dtype))), expected)
    assert_array_equal(hashes_of(Stacked([rows[:7].astype(np.float32), rows[7:].astype(np.float32)])), expected)
    monkeypatch.setattr("unhub.arrays.BLOCK_BYTES", 1)
    assert_array_equal(hashes_of(rows), expected)


@given(seed=seeds, row=st.integers(0, 9), column=st.integers(0, 4))
@settings(max_examples=50)
def test_another_number_gives_its_row_another_hash(seed: int, row: int, column: int) -> None:
    rows = rows_of(seed, 10, 5).astype(np.float32)
    before = hashes_of(rows)
    rows[row, column] = np.nextafter(rows[row, column], np.float32(9), dtype=np.float32)
    assert (hashes_of(rows) != before).tolist() == [place == row for place in range(10)]


@pytest.mark.parametrize("d", [5, 6])
def test_the_two_zeros_hash_alike(d: int) -> None:
    rows = rows_of(5, 9, d)
    rows[3, 1], rows[7, d - 1] = 0.0, 0.0
    other = rows.copy()
    other[3, 1], other[7, d - 1] = -0.0, -0.0
    assert_array_equal(hashes_of(other), hashes_of(rows))
    assert np.signbit(other[3, 1])  # what was given is as it was


@pytest.mark.parametrize("d", [1, 2, 5])
def test_hashes_are_those_of_files_saved_before(d: int) -> None:
    rows = (np.arange(3 * d, dtype=np.float32).reshape(3, d) - 2) / 4
    assert [f"{one:016x}" for one in hashes_of(rows)] == SAVED_HASHES[d]


def test_swapped_columns_give_another_hash() -> None:
    rows = rows_of(2, 4, 6)
    assert (hashes_of(rows) != hashes_of(rows[:, ::-1])).all()


@given(seed=seeds, n=st.integers(1, 30), cut=st.integers(0, 30))
@settings(max_examples=50)
def test_a_fingerprint_grows_as_its_set_does(seed: int, n: int, cut: int) -> None:
    hashes = hashes_of(rows_of(seed, n, 3))
    cut = min(cut, n)
    assert Fingerprint.of(hashes[:cut]).followed_by(hashes[cut:]) == Fingerprint.of(hashes)


def test_a_fingerprint_knows_order_repeats_and_count() -> None:
    hashes = hashes_of(rows_of(3, 5, 3))
    assert digest(hashes) != digest(hashes[::-1])
    assert digest(hashes[[0, 0]]) != digest(hashes[[1, 1]])
    assert Fingerprint.of(hashes) != Fingerprint.of(hashes[:4])
    assert digest(hashes[[0, 1, 2, 3, 4]]) == digest(hashes)


def test_changed_signs_change_the_hash() -> None:
    rows = np.random.default_rng(50).standard_normal((200, 12)).astype(np.float32)
    other = rows.copy()
    other[:, [1, 3]] *= -1
    assert (hashes_of(rows) != hashes_of(other)).all()


# Known lengths.


@pytest.mark.parametrize(("stretch", "known"), [(1.0, True), (1 + 1e-7, True), (1 + 2e-6, False), (3.0, False)])
def test_rows_of_unit_length_are_known_only_where_all_are(
    monkeypatch: pytest.MonkeyPatch, stretch: float, known: bool
) -> None:
    monkeypatch.setattr("unhub.arrays.BLOCK_BYTES", 4 * 16 * 10)
    rows = unit(rows_of(6, 95, 16).astype(np.float32))
    rows[73] *= np.float32(stretch)
    given = as_vectors(rows, "rows")
    seen = given.seen(inspect(given, "rows", "cosine").unit_length)
    assert seen.unit_length == known
    assert not given.unit_length
    assert np.shares_memory(seen.unit_block(0, 95, "cosine"), rows) == known
    assert_allclose(np.linalg.norm(seen.unit_block(0, 95, "cosine"), axis=1), 1, atol=5e-7)


def test_unit_length_goes_on_to_parts_and_to_sets_of_which_all_is_known() -> None:
    rows = unit(rows_of(7, 20, 4).astype(np.float32))
    known, other = Vectors(np.arange(20), rows).seen(True), Vectors(np.arange(20, 22), rows[:2])
    assert known.gather(np.arange(5)).gather(np.arange(2)).unit_length
    assert known.stack(other.seen(True)).unit_length
    assert not known.stack(other).unit_length
    assert not other.stack(known).unit_length
    assert not as_vectors(known, "rows").unit_length  # what a user gives is looked at each time
    assert not dataclasses.replace(known, rows=3 * rows).unit_length


def test_rows_that_lie_apart_become_one_array_when_numpy_asks() -> None:
    whole = np.arange(20, dtype=np.float32).reshape(10, 2)
    stacked = Stacked([whole[:4], whole[4:5], whole[5:]])
    positions = np.array([9, 0, 4])
    assert_array_equal(np.asarray(stacked), whole)
    assert np.asarray(stacked, np.float64).dtype == np.float64
    assert_array_equal(np.asarray(Gathered(stacked, positions)), whole[positions])
    assert_array_equal(np.asarray(Vectors(np.arange(10), whole).gather(positions).rows), whole[positions])
    assert_array_equal(stacked[1:9:3], whole[1:9:3])
    assert_array_equal(stacked[::-2], whole[::-2])
    with pytest.raises(
        ValueError, match="copy is False, but rows from several sources become one array only by copying"
    ):
        np.asarray(stacked, copy=False)


def test_random_positions_are_sorted_distinct_and_the_same_for_one_seed() -> None:
    drawn = random_positions(1000, 50, seed=3)
    assert drawn.dtype == np.int64 and len(drawn) == 50
    assert (np.diff(drawn) > 0).all() and drawn[0] >= 0 and drawn[-1] < 1000
    assert_array_equal(drawn, np.sort(np.random.default_rng(3).choice(1000, 50, replace=False)))
    assert_array_equal(drawn, random_positions(1000, 50, np.random.default_rng(3)))
    generator = np.random.default_rng(3)  # which goes on from draw to draw
    assert not np.array_equal(random_positions(1000, 50, generator), random_positions(1000, 50, generator))
    assert_array_equal(random_positions(4, 4, seed=0), np.arange(4))


def test_a_query_log_stands_for_its_vectors() -> None:
    rows = np.eye(3, 4, dtype=np.float32)
    named = as_vectors(QueryLog.of(query_ids=["u2", "u0", "u1"], vectors=rows), "bank")
    assert named.ids.tolist() == ["u2", "u0", "u1"] and np.array_equal(named.rows[:], rows)
    assert as_vectors(QueryLog.of(vectors=rows), "bank").ids.tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError, match=r"^bank is a query log with the query id 'a' more than once; make a bank"):
        as_vectors(QueryLog.of(query_ids=["a", "b", "a"], vectors=rows), "bank")
    with pytest.raises(ArgumentError, match=r"^queries is a query log without vectors; name their column"):
        as_vectors(QueryLog.of(texts=["a dog"]), "queries")
