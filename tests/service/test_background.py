"""Background: a value is computed once, who asks meanwhile hears so, and a failure is tried again."""

import threading
import time
from collections.abc import Callable

import pytest

from unhub.service.background import KEPT, Background, NotWanted

pytestmark = pytest.mark.once


def waited(get: Callable[[], int | None]) -> int:
    end = time.monotonic() + 10
    while (found := get()) is None and time.monotonic() < end:
        time.sleep(0.005)
    assert found is not None
    return found


def test_a_value_is_computed_once_while_others_hear_that_it_is_not_there() -> None:
    calls, may = [], threading.Event()

    def make() -> int:
        calls.append(1)
        may.wait(10)
        return 7

    values: Background[int] = Background("test")
    assert [values.get("a", make) for _ in range(5)] == [None] * 5
    assert values.there("a") is None
    may.set()
    assert waited(lambda: values.get("a", make)) == values.there("a") == 7
    assert len(calls) == 1
    values.close()


def test_a_failure_is_told_and_tried_again() -> None:
    values: Background[int] = Background("test")
    assert values.get("a", lambda: 1 // 0) is None
    values.close()
    with pytest.raises(ZeroDivisionError):
        values.get("a", lambda: 3)
    assert waited(lambda: values.get("a", lambda: 3)) == 3
    values.close()


def test_few_values_are_kept() -> None:
    values: Background[int] = Background("test")
    for number in range(2 * KEPT):
        values.get(str(number), lambda: 1)
        values.close()
    assert [values.there(str(number)) for number in range(2 * KEPT)] == [None] * KEPT + [1] * KEPT


def test_what_was_stopped_begins_anew() -> None:
    def unwanted() -> int:
        raise NotWanted

    values: Background[int] = Background("test")
    assert values.get("a", unwanted) is None
    values.close()
    assert waited(lambda: values.get("a", lambda: 3)) == 3
