"""A file of a set here, as it was when it was found: one that changes while it is read is an error."""

from __future__ import annotations

import io
import mmap
import os
from pathlib import Path
from typing import Any, TypeAlias

from unhub.compute.machines import edges_of

Stamp: TypeAlias = tuple[int, int, int]


class LocalFile:
    """A file by its path and what the system says of it; it is opened as a Path is, and prints as it was named.

    In another process, perhaps on another machine with a copy, it is known by its size and its ends.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._name = path.absolute(), str(path)
        self._stamp: Stamp | None = _stamp_of(self.path)
        self._sent: tuple[int, bytes] | None = None

    def __getstate__(self) -> dict[str, Any]:
        self.check()
        return {"path": self.path, "_name": str(self.path), "_stamp": None, "_sent": _known_by(self.path)}

    def __str__(self) -> str:
        return self._name

    @property
    def suffix(self) -> str:
        return self.path.suffix

    def stat(self) -> os.stat_result:
        """Return what the system says of the file; raise if it is gone."""
        return self.path.stat()

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Return the file as a stream."""
        return open(self.path, "rb")

    def check(self) -> None:
        """Raise if the file is not the one that was found."""
        stamp = _stamp_of(self.path)
        if self._stamp is None:  # the first time in another process
            if _known_by(self.path) != self._sent:
                raise ValueError(
                    f"{self}: is not the file that was found in the process that sent its name; read it again"
                )
            self._stamp = stamp
        if stamp != self._stamp:
            raise ValueError(f"{self}: has changed since it was found; read it again")


def _stamp_of(path: Path) -> Stamp:
    about = path.stat()
    return about.st_size, about.st_mtime_ns, about.st_ino


def _known_by(path: Path) -> tuple[int, bytes]:
    """Return the size of a file, and a digest of its ends."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        return len(held), edges_of(held)
