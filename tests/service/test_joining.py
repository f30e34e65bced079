"""Joining: questions that wait are answered together, each with its own answer or error."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from unhub.service.joining import Closed, Joiner

pytestmark = pytest.mark.once


class Doubling:
    """Doubles numbers, once it may; notes which came together."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.may = threading.Event()

    def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.may.wait(10)
        self.groups.append(list(numbers))
        if 13 in numbers and len(numbers) == 1:
            raise RuntimeError("thirteen")
        return [ValueError("negative") if one < 0 else 2 * one for one in numbers]


def test_what_waits_is_answered_together() -> None:
    async def ask() -> list[int]:
        first = asyncio.create_task(joiner.ask(1))
        await asyncio.sleep(0.1)  # the first is taken alone, and the others gather meanwhile
        others = [asyncio.create_task(joiner.ask(number)) for number in range(2, 8)]
        await asyncio.sleep(0.1)
        work.may.set()
        return [await one for one in (first, *others)]

    work = Doubling()
    joiner: Joiner[int, int] = Joiner("test", work, 4)
    assert asyncio.run(ask()) == [2, 4, 6, 8, 10, 12, 14]
    assert work.groups == [[1], [2, 3, 4, 5], [6, 7]]
    joiner.close()


def test_an_error_is_that_of_its_own_question() -> None:
    async def ask() -> list[object]:
        work.may.set()
        return await asyncio.gather(*map(joiner.ask, (3, -1, 13)), return_exceptions=True)

    work = Doubling()
    joiner: Joiner[int, int] = Joiner("test", work, 1)
    three, negative, thirteen = asyncio.run(ask())
    assert three == 6 and isinstance(negative, ValueError) and isinstance(thirteen, RuntimeError)
    joiner.close()


def test_a_question_whose_client_is_gone_is_not_asked() -> None:
    async def ask() -> None:
        first, gone = asyncio.create_task(joiner.ask(1)), asyncio.create_task(joiner.ask(2))
        await asyncio.sleep(0.1)
        later = asyncio.create_task(joiner.ask(3))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        work.may.set()
        assert (await first, await later) == (2, 6)

    work = Doubling()
    joiner: Joiner[int, int] = Joiner("test", work, 1)
    asyncio.run(ask())
    assert work.groups == [[1], [3]]
    joiner.close()


def test_nothing_is_asked_after_the_end() -> None:
    joiner: Joiner[int, int] = Joiner("test", Doubling(), 1)
    joiner.close()
    with pytest.raises(Closed):
        asyncio.run(joiner.ask(1))
