"""Hashes of the content of files; those that were made before are remembered in a file beside the embeddings."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

MEMORY = ".unhub-hashes.txt"  # in the folder of the embeddings; removing it costs only time
SETTLED_NS = 2_000_000_000  # what was written less than this ago may yet change without a later time
BYTES = 16


def content_hashes(paths: Iterable[Path], folder: Path) -> list[str | None]:
    """Return a hash of the content of each file, None for one that cannot be read: opening it later says why.

    A file is read again only if its path, size, time of change or inode is another than the one in the memory of
    `folder`.
    """
    memory = folder / MEMORY
    known = _remembered(memory)
    return [_hash(path, known, memory) for path in paths]


def _hash(path: Path, known: dict[bytes, bytes], memory: Path) -> str | None:
    try:
        found = path.stat()
        stamp = json.dumps([os.path.abspath(path), found.st_size, found.st_mtime_ns, found.st_ino]).encode()
        if stamp not in known:
            is_settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS  # asked before the file is read
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=BYTES))
            known[stamp] = digest.hexdigest().encode()
            if is_settled:
                _remember(memory, stamp, known[stamp])
    except OSError:
        return None
    return known[stamp].decode()


def _remembered(memory: Path) -> dict[bytes, bytes]:
    """Return the hashes in a memory by path, size, time and inode; half a line, as a kill leaves it, has no whole."""
    known = {}
    with suppress(OSError):  # it is not there, or cannot be read
        for line in memory.read_bytes().splitlines():
            digest, _, stamp = line.partition(b" ")
            if len(digest) == 2 * BYTES and digest.isalnum():
                known[stamp] = digest
    return known


def _remember(memory: Path, stamp: bytes, digest: bytes) -> None:
    """Add a line at once, so that a kill loses no more than one; it begins on a line of its own."""
    with suppress(OSError), memory.open("ab", buffering=0) as file:  # a full disk is said where the rows are written
        file.write(b"\n" + digest + b" " + stamp)
