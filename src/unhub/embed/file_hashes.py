"""Hashes of the content of files; those that were made before are remembered in a file beside the embeddings."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

MEMORY = ".unhub-hashes.jsonl"  # in the folder of the embeddings; removing it costs only time
SETTLED_NS = 2_000_000_000  # what was written less than this ago may yet change without a later time
BYTES = 16

Stamp: TypeAlias = tuple[str, int, int, int]  # path, size, time of the last change, inode


def hashes_of(paths: Iterable[Path], folder: Path) -> list[str | None]:
    """Return a hash of the content of each file, None for one that cannot be read: opening it later says why.

    A file is read again only if its path, size, time of change or inode is another than the one in the memory of
    `folder`.
    """
    memory = folder / MEMORY
    known = _remembered(memory)
    return [_hash(path, known, memory) for path in paths]


def _hash(path: Path, known: dict[Stamp, str], memory: Path) -> str | None:
    try:
        found = path.stat()
        stamp = (os.path.realpath(path), found.st_size, found.st_mtime_ns, found.st_ino)
        if stamp not in known:
            is_settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS  # asked before the file is read
            with path.open("rb") as file:
                known[stamp] = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=BYTES)).hexdigest()
            if is_settled:
                _remember(memory, stamp, known[stamp])
    except OSError:
        return None
    return known[stamp]


def _remembered(memory: Path) -> dict[Stamp, str]:
    """Return the hashes in a memory by path, size, time and inode; a line that a kill cut off is passed over."""
    known = {}
    with suppress(OSError):  # it is not there, or cannot be read
        for line in memory.read_bytes().splitlines():
            with suppress(ValueError, TypeError):  # of what is no JSON, or no list of five
                path, size, changed, inode, digest = json.loads(line)
                known[path, size, changed, inode] = digest
    return known


def _remember(memory: Path, stamp: Stamp, digest: str) -> None:
    """Add a line at once, so that a kill loses no more than one; it begins on a line of its own."""
    with suppress(OSError), memory.open("ab", buffering=0) as file:  # a full disk is said where the rows are written
        file.write(b"\n" + json.dumps([*stamp, digest]).encode())
