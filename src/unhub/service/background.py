"""Background: values that take a while are computed by a thread, once for each key; who asks meanwhile hears so."""

from __future__ import annotations

import contextvars
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

KEPT = 4  # values; of older versions nobody asks


class NotWanted(Exception):
    """Raised inside a computation that nobody wants any more; who asks again begins it anew."""


@dataclass
class _Slot(Generic[T]):
    value: T | None = None
    error: Exception | None = None


class Background(Generic[T]):
    """Values by key, each computed by a thread of its own when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._slots: OrderedDict[str, _Slot[T]] = OrderedDict()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.closed = threading.Event()

    def get(self, key: str, make: Callable[[], T]) -> T | None:
        """Return the value of a key, None while it is computed; raise if that failed, and try again when next asked."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
                while len(self._slots) > KEPT:
                    self._slots.popitem(last=False)
                self._start(key, slot, make)
                return None
            if slot.error is not None:
                del self._slots[key]
        if slot.error is not None:
            raise slot.error
        return slot.value

    def there(self, key: str) -> T | None:
        """Return the value of a key if it is there, and start nothing."""
        with self._lock:
            slot = self._slots.get(key)
        return None if slot is None else slot.value

    def close(self) -> None:
        """Tell computations to stop, and wait for them."""
        self.closed.set()
        for thread in self._threads:
            thread.join()

    def _start(self, key: str, slot: _Slot[T], make: Callable[[], T]) -> None:
        def work() -> None:
            try:
                slot.value = make()
            except NotWanted:
                with self._lock:
                    if self._slots.get(key) is slot:
                        del self._slots[key]
            except Exception as error:
                slot.error = error

        # In the context of the caller, which holds the default kernel.
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name=self._name, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()
