"""The log of queries: a thread appends what was asked and returned, and loses at most the last second."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from unhub.arrays import Float32
from unhub.atomic import hold_folder, replacing
from unhub.errors import ArgumentError
from unhub.files.query_logs import (
    ABOUT,
    LINES,
    LOG_FORMAT,
    ROW_TYPE,
    VECTORS,
    is_query_log,
    log_dimensions,
    next_number,
    segments,
    whole_rows,
    write_log_manifest,
)
from unhub.search.hits import Id

WRITE_SECONDS = 0.2  # between two writes
SYNC_SECONDS = 0.8  # after which what was written must be on disk
RETRY_SECONDS = 5.0  # after an error, before the thread writes again
SEGMENT_BYTES = 256 << 20  # of rows, before the next segment begins
MOST_WAITING = 20_000  # rows that wait to be written; more are dropped and counted
MOST_TODAY = 20_000  # of today's queries, the last ones
DAY_SECONDS = 86_400


class LogEntry(NamedTuple):
    """A query vector, (dimensions,), and what was returned for it."""

    vector: Float32
    returned: Sequence[Id]
    version: str
    when: float


class LogWriter:
    """Appends to a new segment of a log; nobody else may write to the log meanwhile."""

    def __init__(
        self, folder: Path, dimensions: int, argument: str = "log", segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        """Open or create the log; raise an error about `argument` if it is of other queries or in use."""
        self.folder, self.dimensions, self._segment_bytes = folder, dimensions, segment_bytes
        _prepare(folder, dimensions, argument)
        with ExitStack() as undo:
            self._lock = hold_folder(folder, argument)
            undo.callback(os.close, self._lock)
            present = segments(folder)
            self._number = int(present[-1].stem) if present else 0
            self._next_id = self._given = next_number(folder)
            undo.pop_all()
        self._files: tuple[IO[bytes], IO[bytes]] | None = None
        self._path, self._first = folder, self._next_id  # of the segment, and the id of its first row
        self._waiting: deque[LogEntry] = deque()
        self._changed = threading.Condition()
        self._open = True
        self._synced = time.monotonic()
        self._unsynced = False
        self._retry = 0.0
        self._writing = threading.Lock()
        self.written = self.dropped = 0
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._work, name="query log", daemon=True)
        self._thread.start()

    def append(self, vectors: Float32, returned: Sequence[Id], version: str) -> int:
        """Log the query vectors of a search, (queries, dimensions), and return the id of the first.

        The caller does not wait. Where too much waits already, they are dropped, and the id is -1.
        """
        now = time.time()
        with self._changed:
            if len(self._waiting) + len(vectors) > MOST_WAITING or not self._open:
                self.dropped += len(vectors)
                return -1
            first, self._given = self._given, self._given + len(vectors)
            self._waiting.extend(LogEntry(np.array(row, ROW_TYPE), returned, version, now) for row in vectors)
            return first

    def flush(self) -> None:
        """Write everything that waits, to the disk."""
        self._write(sync=True)

    def latest(self, most: int) -> Float32:
        """Return the last queries that were written, (queries, dimensions), oldest first; at most `most`."""
        parts: list[Float32] = []
        left = most
        for path in reversed(segments(self.folder)):
            count = whole_rows(path, self.dimensions)
            wanted = min(count, left)
            if wanted:
                rows = np.memmap(path, ROW_TYPE, "r", shape=(count, self.dimensions))
                parts.append(np.array(rows[count - wanted :], np.float32))
            left -= wanted
            if left <= 0:
                break
        return np.concatenate(parts[::-1]) if parts else np.empty((0, self.dimensions), np.float32)

    def today(self, most: int = MOST_TODAY) -> Float32:
        """Return the queries that were written since midnight, UTC; at most `most`, the last ones."""
        now = time.time()
        midnight, count = now - now % DAY_SECONDS, 0
        for path in reversed(segments(self.folder)):
            whole = whole_rows(path, self.dimensions)
            if not whole:
                continue  # and perhaps no file of lines: a writer was killed, or somebody deleted it
            with path.with_suffix(LINES).open("rb") as file:
                times = [json.loads(line)["time"] for line, _ in zip(file, range(whole), strict=False)]
            count += sum(one >= midnight for one in times)
            if count >= most or (times and times[0] < midnight):
                break
        return self.latest(min(count, most))

    def close(self) -> None:
        """Write everything that waits and end."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join()
        self.flush()
        self._end_segment()
        os.close(self._lock)

    def _work(self) -> None:
        while self._open:
            with self._changed:
                if self._open:
                    self._changed.wait(WRITE_SECONDS)
            now = time.monotonic()
            if now >= self._retry:
                self._write(sync=now - self._synced >= SYNC_SECONDS)

    def _write(self, sync: bool) -> None:
        """Append what waits; after an error, go on in a new segment, since a row may be there in part."""
        with self._writing:
            with self._changed:
                entries = [*self._waiting]
                self._waiting.clear()
            try:
                if entries:
                    self._append(entries)
                if sync:
                    self._sync()
            except OSError as error:
                self.dropped += len(entries)
                self.failure = f"{self.folder}: {error.strerror or error}"
                self._retry = time.monotonic() + RETRY_SECONDS
                self._end_failed_segment()

    def _append(self, entries: Sequence[LogEntry]) -> None:
        rows, lines = self._files or self._new_segment()
        write_all(rows, b"".join(entry.vector.tobytes() for entry in entries))
        told = []
        for number, entry in enumerate(entries, start=self._next_id):
            line = {"id": number, "time": round(entry.when, 3), "ids": entry.returned, "version": entry.version}
            told.append(json.dumps(line))
        write_all(lines, ("\n".join(told) + "\n").encode())
        self._next_id += len(entries)
        self._unsynced = True
        self.written += len(entries)
        if rows.tell() >= self._segment_bytes:
            self._end_segment()

    def _end_failed_segment(self) -> None:
        """End the segment after an error, and number from what a reader finds in it; one without a row is deleted."""
        self._end_segment()
        with suppress(OSError):  # of a disk that does not even read; then nothing of the last entries counts
            whole = whole_rows(self._path, self.dimensions)
            self._next_id = self._first + whole
            if not whole:
                self._path.with_suffix(LINES).unlink(missing_ok=True)
                self._path.unlink(missing_ok=True)
        with self._changed:
            self._given = self._next_id + len(self._waiting)

    def _new_segment(self) -> tuple[IO[bytes], IO[bytes]]:
        self._number += 1
        self._path, self._first = self.folder / f"{self._number:06}{VECTORS}", self._next_id
        # Unbuffered: what was written is with the system, and outlives the process.
        rows = self._path.open("xb", buffering=0)
        try:
            self._files = rows, self._path.with_suffix(LINES).open("xb", buffering=0)
        except OSError:
            rows.close()
            raise
        return self._files

    def _sync(self) -> None:
        self._synced = time.monotonic()
        if self._files is not None and self._unsynced:
            for file in self._files:
                os.fsync(file.fileno())
            self._unsynced = False

    def _end_segment(self) -> None:
        if self._files is None:
            return
        files, self._files = self._files, None
        for file in files:
            try:
                os.fsync(file.fileno())
                file.close()
            except OSError as error:
                self.failure = f"{self.folder}: {error.strerror or error}"


def write_all(file: IO[bytes], content: bytes) -> None:
    """Write to an unbuffered file, which may take only a part at once, as where a disk is nearly full."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _prepare(folder: Path, dimensions: int, argument: str) -> None:
    """Create the folder of a log, or check that it is one of queries with these dimensions."""
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(argument, f"{folder} is a file", "name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    if not is_query_log(folder):
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise ArgumentError(argument, f"{folder} holds files that are not of a log", "name a new or empty folder")
        with replacing(folder / ABOUT) as path:
            write_log_manifest(path, {"query_log": LOG_FORMAT, "dimensions": dimensions})
    elif (held := log_dimensions(folder)) != dimensions:
        problem = f"{folder} holds queries of {held} dimensions, these have {dimensions}"
        raise ArgumentError(argument, problem, "name a new folder")
