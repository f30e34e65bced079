"""Trends: differences of intervals by hand, and days that do and do not differ."""

import pytest

import unhub
from tests.watching.answered import EVEN, ITEMS, UNEVEN, day_log, drawn
from unhub.evaluation.confidence import Interval
from unhub.watching.trends import difference, mean

pytestmark = pytest.mark.once


def test_a_difference_and_a_mean_by_hand() -> None:
    # Below: 3 and 4 give 5; above: 4 and 3 give 5.
    assert difference(Interval(10, 7, 14), Interval(2, -1, 6)) == Interval(8, 3, 13)
    # Two values that reach 3 and 4 below and 6 and 8 above: 5 / 2 and 10 / 2.
    assert mean([Interval(10, 7, 16), Interval(20, 16, 28)]) == Interval(15, 12.5, 20)


def test_a_day_with_hubs_is_worse_than_even_days_and_not_better_than_itself() -> None:
    even = {f"2026-03-0{day}": drawn(400, EVEN, day) for day in range(1, 4)}
    worse = unhub.watch(day_log({**even, "2026-03-04": drawn(150, UNEVEN, 9)}), items=ITEMS)
    assert {(one.figure, one.since): one.word for one in worse.changes} == {
        (figure, since): "worse"
        for figure in ("skewness", "coverage", "robin_hood")
        for since in ("2026-03-03", "the mean of the 3 before")
    }
    assert {one.size for one in worse.changes} == {64}
    alike = unhub.watch(day_log({**even, "2026-03-04": drawn(1000, EVEN, 8)}), items=ITEMS)
    assert {one.word for one in alike.changes} == {"unsure"}  # though a day of more queries is more even
    assert alike.periods[-1].robin_hood.high < alike.periods[0].robin_hood.low  # type: ignore[operator]


def test_days_with_another_k_are_not_compared() -> None:
    lists = drawn(200, EVEN, 0)
    found = unhub.watch(day_log({"2026-03-01": [one[:1] for one in lists], "2026-03-02": lists}), items=ITEMS)
    assert found.changes == ()
    assert found.left_out == (
        "2026-03-01 is not compared with 2026-03-02: it counts the first 1 of each answer, and 2026-03-02 the first 3. "
        "To compare them, watch all days with k = 1.",
    )


def test_a_day_that_is_compared_with_none_says_why() -> None:
    many, few, fewest = drawn(150, EVEN, 0), drawn(100, EVEN, 0), drawn(20, EVEN, 0)
    for first, second, items, told in (
        (many, few, ITEMS, "2026-03-02 is not compared with those before it: it has fewer than 128 different queries."),
        (few, many, ITEMS, "2026-03-01 is not compared with 2026-03-02: it has fewer than 128 different queries."),
        (fewest, many, ITEMS, "No period before 2026-03-02 has 128 different queries, which a comparison needs."),
        (many, many, None, "2026-03-02 is not compared with those before it: how many items there are is not known."),
    ):
        found = unhub.watch(day_log({"2026-03-01": first, "2026-03-02": second}), items=items)
        assert (found.changes, found.left_out) == ((), (told,))
    assert unhub.watch(day_log({"2026-03-01": many}), items=ITEMS).left_out == ()


def test_days_that_are_left_out_of_a_comparison_are_told() -> None:
    lists = {f"2026-03-0{day}": drawn(150, EVEN, day) for day in range(1, 7)}
    lists["2026-03-02"] = [one[:2] for one in lists["2026-03-02"]]
    lists["2026-03-04"] = lists["2026-03-04"][:60]  # enough to be judged, too few for a sample
    found = unhub.watch(day_log(lists), items=ITEMS)
    assert {one.since for one in found.changes} == {"2026-03-05", "the mean of the 3 before"}
    assert found.left_out == (
        "1 of the 5 periods before 2026-03-06 is not compared with it: it counts the first 2 of each answer, and "
        "2026-03-06 the first 3. To compare them, watch all days with k = 2.",
        "1 of the 5 periods before 2026-03-06 is not compared with it: it has fewer than 128 different queries.",
    )
    assert unhub.watch(day_log(lists), items=ITEMS, k=2).left_out == found.left_out[1:]


def test_days_are_not_compared_over_items_that_happen_to_be_returned() -> None:
    days = {f"2026-03-0{day}": drawn(200, EVEN, day) for day in (1, 2)}
    assert unhub.watch(day_log(days), items=ITEMS).changes != ()
    assert unhub.watch(day_log(days)).changes == ()
