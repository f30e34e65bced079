"""Pictures of items: files of one folder, named by id, and nothing outside of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from unhub.errors import ArgumentError
from unhub.search.hits import Id

SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif")
MOST_BYTES = 32 << 20
MOST_KNOWN = 100_000  # items of which it is remembered whether they have a picture


class PictureFiles:
    """The folder that was named. A picture is `<id>` or `<id>.jpg` and so on; an id with slashes is in a subfolder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ArgumentError("item_images", f"{folder} is not a folder", "name the folder of the pictures")
        self.folder = Path(os.path.realpath(folder))
        self._known: dict[str, bool] = {}
        self._lock = threading.Lock()

    def has(self, one: Id) -> bool:
        """Return whether an item has a picture; asked of the disk once."""
        name = str(one)
        found = self._known.get(name)
        if found is None:
            found = self.find(one) is not None
            with self._lock:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[name] = found
        return found

    def forget(self) -> None:
        """Ask the disk again: items were added."""
        with self._lock:
            self._known.clear()

    def find(self, one: Id) -> Path | None:
        """Return the file of an item's picture, None if it has none in this folder."""
        with suppress(OSError, UnicodeEncodeError):  # an id that is too long, or nothing, as the name of a file
            for path in self._candidates(str(one)):
                real = Path(os.path.realpath(path))  # a link may lead out of the folder
                if real.is_relative_to(self.folder) and real.is_file():
                    return real
        return None

    def read(self, one: Id) -> tuple[bytes, str] | None:
        """Return an item's picture and its media type; None if there is none, or if it is no picture."""
        path = self.find(one)
        if path is None or path.stat().st_size > MOST_BYTES:
            return None
        content = path.read_bytes()
        kind = kind_of_picture(content)
        return None if kind is None else (content, kind)

    def _candidates(self, name: str) -> Iterator[Path]:
        parts = PurePosixPath(name).parts
        if not parts or "\0" in name or "\\" in name or name.startswith("/") or ".." in parts or len(name) > 1000:
            return
        for suffix in SUFFIXES:
            yield self.folder / f"{name}{suffix}"


def kind_of_picture(content: bytes) -> str | None:
    """Return the media type by the first bytes; None for anything but PNG, JPEG, GIF and WebP."""
    starts = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
    for start, kind in starts.items():
        if content.startswith(start):
            return kind
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None
