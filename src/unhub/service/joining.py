"""Joining: questions that wait are answered together, by one thread, so that the event loop never computes."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
Waiting: TypeAlias = "tuple[Q, asyncio.AbstractEventLoop, asyncio.Future[A]]"


class Closed(RuntimeError):
    """Raised for a question that comes after the end."""


class Joiner(Generic[Q, A]):
    """One thread that takes all questions that wait and answers them in one call.

    There is no timer: while one call runs, the next group gathers, so that a lone question waits for nobody. `answer`
    returns an answer or an error for each question. most: of one call; 1 answers each question alone.
    """

    def __init__(self, name: str, answer: Callable[[Sequence[Q]], Sequence[A | Exception]], most: int) -> None:
        self._answer, self._most = answer, most
        self._waiting: deque[Waiting[Q, A]] = deque()
        self._changed = threading.Condition()
        self._open = True
        self.calls = 0  # of `answer`
        self.answered = 0
        # In the context of the maker, which holds the default kernel.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name=name, daemon=True)
        self._thread.start()

    async def ask(self, question: Q) -> A:
        """Return the answer to a question, or raise its error."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        with self._changed:
            if not self._open:
                raise Closed("the service is ending")
            self._waiting.append((question, loop, future))
            self._changed.notify()
        return await future

    def close(self) -> None:
        """Answer what waits, then end the thread."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join()

    def _take(self) -> list[Waiting[Q, A]]:
        """Wait for questions and return them; nothing once there are no more to come."""
        with self._changed:
            while self._open and not self._waiting:
                self._changed.wait()
            return [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]

    def _work(self) -> None:
        while group := self._take():
            group = [one for one in group if not one[2].cancelled()]  # whose client is gone
            if not group:
                continue
            answers: Sequence[A | Exception]
            try:
                answers = self._answer([question for question, _, _ in group])
            except Exception as error:  # every one of them must hear of it
                answers = [error] * len(group)
            self.calls += 1
            self.answered += len(group)
            _deliver(group, answers)


def _deliver(group: Sequence[Waiting[Q, A]], answers: Sequence[A | Exception]) -> None:
    """Hand all answers over in one call for each event loop."""

    def settle(some: list[tuple[asyncio.Future[A], A | Exception]]) -> None:
        for future, answer in some:
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[A], A | Exception]]] = {}
    for (_, loop, future), answer in zip(group, answers, strict=True):
        by_loop.setdefault(loop, []).append((future, answer))
    for loop, some in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, some)
