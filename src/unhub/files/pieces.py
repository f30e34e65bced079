"""Pieces: rows of a file that is read a few megabytes at a time, of which the last ones are kept.

What is read is a shard: one file of several, local or remote. All shards of a set share one cache, so that the memory
does not grow with their number.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

PIECE_BYTES = 8 << 20
LEAST_PIECES_KEPT = 16
LEAST_KEPT_IN_A_COPY = 4  # a cluster has as many processes as cores, which each read in order
PIECES_KEPT_PER_THREAD = 2  # every thread is at another place, and goes back to where it was

Piece: TypeAlias = tuple[str, int]  # a shard and the number of a piece in it


class PiecedFile(Protocol):
    """A file that can be read in pieces: `starts` are the first rows of its pieces, and the number of rows."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    @property
    def starts(self) -> NDArray[np.int64]: ...
    def read_piece(self, number: int) -> NDArray[np.generic]: ...


class PieceCache:
    """The pieces that were read last; threads that want the same one at the same time read it once.

    It keeps so many per thread that reads, and some at least. A copy for another process is empty.
    """

    def __init__(self, least: int = LEAST_PIECES_KEPT) -> None:
        self._least = least
        self._threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._kept: OrderedDict[Piece, Future[NDArray[np.generic]]] = OrderedDict()

    def __reduce__(self) -> tuple[type[PieceCache], tuple[int]]:
        return PieceCache, (LEAST_KEPT_IN_A_COPY,)

    def get(self, piece: Piece, read: Callable[[], NDArray[np.generic]]) -> NDArray[np.generic]:
        """Return a piece; read it if it is not kept."""
        with self._lock:
            known = self._kept.get(piece)
            future = self._kept.setdefault(piece, Future())
            self._kept.move_to_end(piece)
            self._threads.add(threading.current_thread())
            most = max(self._least, PIECES_KEPT_PER_THREAD * len(self._threads))
            while len(self._kept) > most:
                self._kept.popitem(last=False)
        if known is None:
            try:
                future.set_result(read())
            except BaseException as error:
                with self._lock:
                    self._kept.pop(piece, None)
                future.set_exception(error)
        return future.result()


class PieceRows:
    """The rows of a shard, taken from its pieces."""

    def __init__(self, file: PiecedFile, name: str, cache: PieceCache) -> None:
        self.file, self.name, self.cache = file, name, cache
        self.shape, self.dtype = file.shape, file.dtype

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        start, stop, _ = key.indices(self.shape[0])
        if stop <= start:
            return np.empty((0, self.shape[1]), self.dtype)
        first, last = self._owners(np.array([start, stop - 1]))
        parts = []
        for number in range(first, last + 1):
            before = int(self.file.starts[number])
            parts.append(self._piece(number)[max(start - before, 0) : stop - before])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def take_rows(self, positions: NDArray[np.int64]) -> NDArray[np.generic]:
        """Copy the rows at these positions, in this order; each piece is read once."""
        out = np.empty((len(positions), self.shape[1]), self.dtype)
        owners = self._owners(positions)
        for number in np.unique(owners).tolist():
            mine = owners == number
            out[mine] = self._piece(number)[positions[mine] - self.file.starts[number]]
        return out

    def _owners(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.file.starts, positions, side="right") - 1

    def _piece(self, number: int) -> NDArray[np.generic]:
        return self.cache.get((self.name, number), lambda: self.file.read_piece(number))
