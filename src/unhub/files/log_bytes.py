"""The bytes of log files, unpacked where gzip packed them; places in them are those of the unpacked bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

LIVE = (".jsonl", ".ndjson", ".csv", ".tsv")  # written line by line, so that the last one may be cut off
PACKED = ".gz"
GZIP_MARK = b"\x1f\x8b"
CHUNK_BYTES = 1 << 20


def form_of(path: Path) -> str:
    """Return the suffix that says what a log file holds: of day.jsonl and of day.jsonl.gz, it is .jsonl."""
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower() if suffix == PACKED else suffix
    return inner if inner in LIVE else suffix


def is_packed(path: Path) -> bool:
    """Return whether a file is packed by gzip, whatever its name."""
    with path.open("rb") as file:
        return file.read(len(GZIP_MARK)) == GZIP_MARK


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a log file for reading; what is wrong with packed bytes is a ValueError that names the file."""
    if not is_packed(path):
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as packed:
            yield cast("BinaryIO", packed)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: truncated or not what gzip wrote ({error})") from None


@contextmanager
def written_like(path: Path, new: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing, packed if the one at `path` is."""
    with new.open("wb") as file:
        if not is_packed(path):
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            yield cast("BinaryIO", packed)


def byte_count(path: Path) -> int:
    """Return how many bytes a log file holds, unpacked."""
    if not is_packed(path):
        return path.stat().st_size
    with unpacked(path) as file:
        return sum(iter(lambda: len(file.read(CHUNK_BYTES)), 0))


def ends_in_line(path: Path, stop: int) -> bool:
    """Return whether the bytes of a file up to `stop` end with a line."""
    if stop == 0:
        return True
    with unpacked(path) as file:
        file.seek(stop - 1)
        return file.read(1) == b"\n"


def line_end(path: Path, count: int) -> int:
    """Return where the first lines of a file end."""
    if not count:
        return 0
    with unpacked(path) as stream:
        for _ in range(count):
            stream.readline()
        return stream.tell()
