"""Arrays: spans that cover every row once, rows of length one, and distinct values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from unhub.arrays import BLOCK_BYTES, are_among, are_ordinary, distinct, rows_per_block, spans, unit

pytestmark = pytest.mark.once


def test_spans_by_hand() -> None:
    assert list(spans(7, 3)) == [(0, 3), (3, 6), (6, 7)]
    assert list(spans(7, 3, start=2)) == [(2, 5), (5, 7)]
    assert list(spans(7, 3, short_first=True)) == [(0, 1), (1, 4), (4, 7)]
    assert list(spans(0, 3)) == []


@given(st.integers(0, 50), st.integers(1, 20), st.integers(0, 50), st.booleans())
def test_spans_cover_every_row_once(rows: int, size: int, start: int, short_first: bool) -> None:
    count = start + rows
    found = list(spans(count, size, start, short_first=short_first))
    assert [row for first, last in found for row in range(first, last)] == list(range(start, count))
    lengths = [last - first for first, last in found]
    assert all(length <= size for length in lengths)
    assert all(length == size for length in (lengths[1:] if short_first else lengths[:-1]))


@pytest.mark.parametrize("dimensions", [1, 512, BLOCK_BYTES])
def test_a_block_is_of_a_size_that_is_cheap_to_hold(dimensions: int) -> None:
    rows = rows_per_block(dimensions)
    assert rows >= 1
    assert rows == 1 or 4 * rows * dimensions <= BLOCK_BYTES


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1, 1e6, 1e30])
def test_rows_of_any_length_are_scaled_to_one(scale: float) -> None:
    rows = (np.array([[3, 4], [5, 12]]) * scale).astype(np.float32)
    before = rows.copy()
    np.testing.assert_allclose(unit(rows), [[0.6, 0.8], [5 / 13, 12 / 13]], rtol=1e-6)
    np.testing.assert_array_equal(rows, before)


def test_lengths_whose_squares_leave_float32_are_told_apart() -> None:
    assert are_ordinary(np.array([1e-10, 1, 1e10], np.float32))
    assert not are_ordinary(np.array([1, 1e-20], np.float32))
    assert not are_ordinary(np.array([1, 1e19], np.float32))
    assert not are_ordinary(np.array([np.nan], np.float32))


@given(arrays(np.uint64, st.integers(0, 30), elements=st.integers(0, 12)))
def test_distinct_values_are_those_of_numpy(values: NDArray[np.uint64]) -> None:
    assert distinct(values).tolist() == sorted(set(values.tolist()))


@given(*(arrays(np.int64, st.integers(0, 30), elements=st.integers(-9, 9)) for _ in range(2)))
def test_values_are_found_among_others(values: NDArray[np.int64], known: NDArray[np.int64]) -> None:
    assert are_among(values, known).tolist() == [one in known.tolist() for one in values.tolist()]
