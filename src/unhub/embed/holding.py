"""Holding a folder: one process at a time works in it, by a lock on one of its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def hold(path: Path) -> BinaryIO:
    """Open a file to append to it, which takes its folder for this process alone until it is closed.

    Where the system knows no such locks, it is opened all the same.
    """
    busy = ValueError(f"output: another process is at work in {path.parent}")
    try:
        file = path.open("ab")
    except FileNotFoundError:  # the folder was finished a moment ago
        raise busy from None
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise busy from None
    except (ImportError, OSError):
        pass  # a system or a disk without such locks
    if not _is_at(file, path):  # whoever held it moved or removed it in between
        file.close()
        raise busy
    return file


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
