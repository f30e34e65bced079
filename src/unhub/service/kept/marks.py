"""Marks: "this is what I meant", kept as queries and relevance that `eval` and `tune` read."""

from __future__ import annotations

import csv
import io
import os
import threading
from pathlib import Path

from unhub.arrays import Float32
from unhub.files.kept_state import QUERIES, RELEVANCE
from unhub.search.hits import Id
from unhub.service.kept.log_writer import LogWriter, write_all
from unhub.service.limits import Refused

HEAD = "query_id,item_id\n"


class Marks:
    """A folder with `queries`, a log of query vectors, and `relevance.csv`, the item that each of them meant."""

    def __init__(self, folder: Path, dimensions: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / RELEVANCE
        self._lock = threading.Lock()
        self.count = _mended(self._path)
        self._queries = LogWriter(folder / QUERIES, dimensions, "state")  # last: it holds its folder

    def add(self, vectors: Float32, item: Id, version: str) -> int:
        """Keep a mark for each query vector, (queries, dimensions); return how many there are now."""
        with self._lock:
            lost = self._queries.dropped
            first = self._queries.append(vectors, [item], version)
            self._queries.flush()  # before the label: a label without its query would be an error to a reader
            if self._queries.dropped > lost:
                raise Refused(503, "mark", f"was not kept: {self._queries.failure}", "look at the disk")
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows((first + row, item) for row in range(len(vectors)))
            try:
                self._append(text.getvalue().encode())
            except OSError as error:
                raise Refused(503, "mark", f"was not kept: {error.strerror or error}", "look at the disk") from error
            self.count += len(vectors)
            return self.count

    def _append(self, lines: bytes) -> None:
        """Append to the labels, wholly or not at all."""
        with self._path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                write_all(file, lines)
                os.fsync(file.fileno())
            except OSError:
                file.truncate(before)
                raise

    def close(self) -> None:
        """End the log of queries."""
        self._queries.close()


def _mended(path: Path) -> int:
    """Return how many labels a file has; create it, or cut off the part of a line that a killed service left."""
    if not path.is_file():
        path.write_text(HEAD, "utf-8")
        return 0
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1] or HEAD.encode()
    if whole != content:
        path.write_bytes(whole)
    with path.open(encoding="utf-8", newline="") as file:
        return sum(1 for _ in csv.DictReader(file))
