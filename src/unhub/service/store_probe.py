"""Store probe: whether the store that is searched answers, asked now and then on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor

from unhub.stores.store import Store

LOGGER = logging.getLogger("unhub.service")
GOOD_SECONDS = 2.0  # for which an answer of the store is good
PATIENCE_SECONDS = 3.0  # in which the store must answer
QUIET_SECONDS = 60.0  # in which the same problem is printed once


class StoreProbe:
    """Asks a store what it is, as cheaply as its engine can tell; nobody waits longer than the patience."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "store probe")
        self._asking: Future[bool] | None = None
        self._asked = -GOOD_SECONDS
        self._printed = ("", -QUIET_SECONDS)

    async def answers(self) -> bool:
        """Return whether the store answers."""
        now = time.monotonic()
        if self._asking is None or (self._asking.done() and now - self._asked >= GOOD_SECONDS):
            self._asking, self._asked = self._thread.submit(self._ask), now
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._asking)), PATIENCE_SECONDS)
        except TimeoutError:
            self.tell(f"{self._store.address}: did not answer within {PATIENCE_SECONDS:g} seconds")
            return False

    def tell(self, problem: str) -> None:
        """Print a problem, for who runs the service."""
        now = time.monotonic()
        if problem != self._printed[0] or now - self._printed[1] >= QUIET_SECONDS:
            self._printed = problem, now
            LOGGER.warning("%s", problem)

    def close(self) -> None:
        """End, without waiting for a store that does not answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> bool:
        try:
            self._store.served().describe()
        except Exception as error:  # whatever an engine raises that cannot be reached
            self.tell(str(error))
            return False
        return True
