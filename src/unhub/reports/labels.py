"""Labels: what shows an item or a query on a page: its text, a thumbnail of its picture, or its id."""

from __future__ import annotations

import base64
import io
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import TypeAlias, TypeVar

from unhub.arrays import Ids
from unhub.errors import ArgumentError, optional
from unhub.files.picture_addresses import is_web, plain_host

T = TypeVar("T")
ByIdOrRow: TypeAlias = Mapping[int | str, T] | Mapping[int, T] | Mapping[str, T] | Sequence[T]
Paths: TypeAlias = ByIdOrRow[str | os.PathLike[str]]

MOST_LETTERS = 240  # of a text on the page
SIDE_PIXELS = 176  # at most: twice what is shown, for sharp screens
JPEG_QUALITY = 72


@dataclass(frozen=True, eq=False)
class Labels:
    """Texts and picture paths of some rows, if given: in the order of the rows, or by id."""

    what: str
    ids: Ids
    texts: ByIdOrRow[str] | None = None
    pictures: Paths | None = None

    def __post_init__(self) -> None:
        self._check(self.texts, "texts", str, "a text")
        self._check(self.pictures, "images", str | os.PathLike, "a path")

    def _check(self, given: ByIdOrRow[object] | None, name: str, kind: type | UnionType, words: str) -> None:
        if given is None:
            return
        argument = f"{self.what}_{name}"
        if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
            problem = f"must be a list with one entry per row, or a mapping by id, got {given!r}"
            raise ArgumentError(argument, problem)
        if not isinstance(given, Mapping) and len(given) != len(self.ids):
            problem = f"has {len(given)} entries for {len(self.ids)} rows"
            raise ArgumentError(argument, problem, "give one per row, None for a row without one")
        if isinstance(given, Mapping) and not any(one in given for one in self.ids.tolist()):
            problem = f"names none of the ids, such as {self.ids[0].item()!r}"
            raise ArgumentError(argument, problem, "name rows by their ids")
        for one in given.values() if isinstance(given, Mapping) else given:
            if one is not None and not isinstance(one, kind):
                raise ArgumentError(argument, f"must hold {words} for each row, or None, got {one!r}")

    def text(self, row: int) -> str:
        """Return the text of a row, or what it is and its id."""
        found = self._find(self.texts, row)
        if not found:
            return f"{self.what} {self.ids[row].item()}"
        return found if len(found) <= MOST_LETTERS else f"{found[: MOST_LETTERS - 1].rstrip()}…"

    def picture(self, row: int) -> str | None:
        """Return the path of a row's picture, or None if it has none."""
        found = self._find(self.pictures, row)
        return None if found is None else os.fspath(found)

    def _find(self, given: ByIdOrRow[T] | None, row: int) -> T | None:
        if given is None:
            return None
        if isinstance(given, Mapping):
            return given.get(self.ids[row].item())
        return given[row]


class Thumbnails:
    """Makes a thumbnail of each picture once, to embed in the page, and remembers pictures that could not be read."""

    def __init__(self) -> None:
        self._made: dict[str, str | None] = {}
        self._hosts: set[str] = set()

    @property
    def missing(self) -> list[str]:
        """The paths that could not be read as pictures."""
        return sorted(path for path, made in self._made.items() if made is None)

    @property
    def hosts(self) -> list[str]:
        """Where pictures are that the page does not hold, but loads when it is opened."""
        return sorted(self._hosts)

    def source(self, path: str) -> str | None:
        """Return the picture as a data URI, or as it is if it is an address; None if it cannot be read."""
        if is_web(path) and (host := plain_host(path)) is not None:
            self._hosts.add(host)
            return path
        if path not in self._made:
            self._made[path] = _data_uri(path)
        return self._made[path]


def _data_uri(path: str) -> str | None:
    images, operations = (optional(f"PIL.{name}", "plot", "a thumbnail") for name in ("Image", "ImageOps"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a picture with odd metadata is still a picture
            with images.open(path) as opened:
                upright = operations.exif_transpose(opened)
                clear = "A" in upright.getbands() or "transparency" in upright.info
                small = upright.convert("RGBA" if clear else "RGB")
                small.thumbnail((SIDE_PIXELS, SIDE_PIXELS))
    except (OSError, ValueError, SyntaxError, images.DecompressionBombError):
        return None
    if clear:  # a JPEG cannot be transparent: put it on white
        small = images.alpha_composite(images.new("RGBA", small.size, "white"), small).convert("RGB")
    file = io.BytesIO()
    small.save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
