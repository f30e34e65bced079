"""Ragged arrays against lists of lists."""

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from unhub.data.ragged import Positions, Ragged, starts_from, starts_of

pytestmark = pytest.mark.once

Lists = list[list[int]]


@dataclass(frozen=True, eq=False)
class Numbers(Ragged):
    """Rows of numbers, each also as a pair, and a name for every row."""

    FLAT: ClassVar = ("values", "pairs")
    PER_ROW: ClassVar = ("names",)

    values: Positions
    pairs: Positions
    names: Positions


def ragged(lists: Lists) -> Numbers:
    values = np.array([value for one in lists for value in one], np.int64)
    pairs = np.stack([values, -values], axis=1)
    return Numbers(starts_from([*map(len, lists)]), values, pairs, np.arange(len(lists)) * 10)


def lists_of(numbers: Numbers) -> Lists:
    """Return the rows as lists; every flat array must tell the same."""
    assert_array_equal(numbers.pairs, np.stack([numbers.values, -numbers.values], axis=1))
    return [numbers.values[numbers.span(row, row + 1)].tolist() for row in range(len(numbers))]


some_lists = st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=6)


@given(lists=some_lists)
def test_rows_counts_and_owners_are_those_of_lists(lists: Lists) -> None:
    numbers = ragged(lists)
    assert lists_of(numbers) == lists and len(numbers) == len(lists)
    assert numbers.counts.tolist() == [*map(len, lists)]
    assert numbers.owners.tolist() == [row for row, one in enumerate(lists) for _ in one]
    assert numbers.starts.dtype == numbers.counts.dtype == numbers.owners.dtype == np.int64


@given(lists=some_lists)
def test_starts_follow_from_the_owners(lists: Lists) -> None:
    numbers = ragged(lists)
    assert_array_equal(starts_of(numbers.owners, len(lists)), numbers.starts)


@given(lists=some_lists, data=st.data())
def test_a_span_covers_the_rows_between(lists: Lists, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(lists)))
    stop = data.draw(st.integers(start, len(lists)))
    numbers = ragged(lists)
    assert numbers.values[numbers.span(start, stop)].tolist() == [*chain.from_iterable(lists[start:stop])]


@given(lists=some_lists.filter(len), data=st.data())
def test_gathered_rows_come_in_the_order_asked_for(lists: Lists, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))
    gathered = ragged(lists).gather(np.array(rows, np.int64))
    assert lists_of(gathered) == [lists[row] for row in rows]
    assert gathered.names.tolist() == [10 * row for row in rows]


@given(lists=some_lists, data=st.data())
def test_a_mask_keeps_every_row_and_only_its_own_entries(lists: Lists, data: st.DataObject) -> None:
    mask = [data.draw(st.lists(st.booleans(), min_size=len(one), max_size=len(one))) for one in lists]
    kept = ragged(lists).keep(np.array([*chain.from_iterable(mask)], np.bool_))
    expected = [
        [value for value, keeps in zip(one, mine, strict=True) if keeps] for one, mine in zip(lists, mask, strict=True)
    ]
    assert lists_of(kept) == expected
    assert kept.names.tolist() == [10 * row for row in range(len(lists))]


def test_nothing_is_written_into_the_rows_that_are_selected_from() -> None:
    numbers = ragged([[1, 2], [], [3]])
    numbers.keep(np.array([False, True, True]))
    numbers.gather(np.array([2, 0]))
    assert lists_of(numbers) == [[1, 2], [], [3]]
