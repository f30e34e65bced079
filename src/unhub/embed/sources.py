"""The inputs to embed: texts, or files of images or videos, each with an id; found, counted and hashed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unhub.arrays import Ids
from unhub.data.ids import as_ids
from unhub.embed.encoder import Kind
from unhub.errors import ArgumentError
from unhub.files.columns import TABLES, NoColumn
from unhub.files.embedded import Given
from unhub.files.texts import LINES, Texts, read_texts

if TYPE_CHECKING:
    from unhub.embed.media import Picture

Source: TypeAlias = str | os.PathLike[str]

WEB_IMAGES = (".apng", ".avif", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".webp")
OTHER_IMAGES = (".bmp", ".heic", ".heif", ".j2k", ".jp2", ".pbm", ".pgm", ".ppm", ".tga", ".tif", ".tiff")
IMAGES = frozenset((*WEB_IMAGES, *OTHER_IMAGES))
WEB_VIDEOS = (".m4v", ".mkv", ".mov", ".mp4", ".ogv", ".webm")
OTHER_VIDEOS = (".3gp", ".avi", ".flv", ".m2ts", ".mpeg", ".mpg", ".mts", ".ts", ".wmv")
VIDEOS = frozenset((*WEB_VIDEOS, *OTHER_VIDEOS))
SUFFIXES = {"images": IMAGES, "videos": VIDEOS}


@dataclass(frozen=True, eq=False)
class TextInputs:
    """Texts and their ids; an entry of a list that is not a text is skipped."""

    ids: Ids
    texts: Sequence[str]
    source: str

    @property
    def given(self) -> Given:
        given: Sequence[object] = self.texts
        texts = (text if isinstance(text, str) else None for text in given)
        return _given(zip(self.ids.tolist(), texts, strict=True))


@dataclass(frozen=True, eq=False)
class FileInputs:
    """Files and their ids, and how one is opened as pictures."""

    ids: Ids
    paths: Sequence[Path]
    open: Callable[[Path], list[Picture]]
    source: str

    @property
    def given(self) -> Given:
        return _given(zip(self.ids.tolist(), map(_size, self.paths), strict=True))


Inputs: TypeAlias = TextInputs | FileInputs


def find_files(source: Source | Sequence[Source], kind: Kind, opened: Callable[[Path], list[Picture]]) -> FileInputs:
    """Return the files of a kind: those below a folder, sorted, with ids relative to it; a file; or those of a list."""
    if not isinstance(source, str | os.PathLike):
        paths = [Path(one) for one in source]
        if not paths:
            raise ArgumentError(kind, "is empty", "give at least one file")
        return FileInputs(_names([path.as_posix() for path in paths]), paths, opened, f"{len(paths)} paths")
    path = Path(source)
    if not path.is_dir():
        path.stat()  # a path that is not there is FileNotFoundError
        return FileInputs(_names([path.name]), [path], opened, str(path))
    names = sorted(name for name in _below(path) if Path(name).suffix.lower() in SUFFIXES[kind])
    if not names:
        raise ValueError(f"{path} holds no {kind}: no file is named {_some(SUFFIXES[kind])}")
    return FileInputs(_names(names), [path / name for name in names], opened, str(path))


def find_texts(source: Source | Sequence[str], column: str | None, id_column: str | None, ids: object) -> TextInputs:
    """Return texts that are given, or those of a file; without ids they are numbered from 0."""
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    for name, value in {"column": column, "id_column": id_column}.items():
        if value is not None and (path is None or path.suffix.lower() not in TABLES):
            raise ArgumentError(name, f"is {value!r}, but only a table has columns: {', '.join(TABLES)}")
    if isinstance(source, str | os.PathLike):
        read = _read_texts(source, column or "text", id_column)
        texts, named, name = [str(text) for text in read.texts], read.ids, read.source
    else:
        texts, named, name = list(source), None, f"{len(source)} texts"
    if not texts:
        raise ArgumentError("texts", "is empty", "give at least one text")
    given = ids if ids is not None else named if named is not None else np.arange(len(texts))
    return TextInputs(as_ids(given, len(texts), "ids" if ids is not None else name), texts, name)


def _read_texts(source: Source, column: str, id_column: str | None) -> Texts:
    try:
        return read_texts(source, column=column, id_column=id_column)
    except NoColumn as error:
        option, holds = ("column", "texts") if error.column == column else ("id_column", "ids")
        raise ArgumentError(option, f"must name the column that holds the {holds}: {error}") from None


def kind_of(source: Source) -> Kind:
    """Return what a file or folder holds, by the names of the files."""
    path = Path(source)
    if path.is_dir():
        found = {Path(name).suffix.lower() for name in _below(path)}
        held: list[Kind] = [kind for kind in ("images", "videos") if found & SUFFIXES[kind]]
        if len(held) == 2:
            raise ArgumentError("kind", f"is needed, since {path} holds images and videos", "give one of the two")
        if not held:
            raise ValueError(f"{path} holds neither images ({_some(IMAGES)}) nor videos ({_some(VIDEOS)})")
        return held[0]
    path.stat()  # a path that is not there is FileNotFoundError
    suffixes: dict[Kind, Iterable[str]] = {"texts": (LINES, *TABLES), "images": IMAGES, "videos": VIDEOS}
    for kind, known in suffixes.items():
        if path.suffix.lower() in known:
            return kind
    raise ArgumentError(
        "kind", f"is needed, since the name {path} does not say what it holds", "give images, texts or videos"
    )


def _below(folder: Path) -> Iterator[str]:
    """Yield the files below a folder, relative to it, without those whose names begin with a dot."""
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(where).relative_to(folder)
        yield from ((inside / name).as_posix() for name in names if not name.startswith("."))


def _names(names: Sequence[str]) -> Ids:
    return as_ids(np.array(names, np.str_), len(names), "paths")


def _some(suffixes: Iterable[str]) -> str:
    return f"*{', *'.join(sorted(suffixes))}"


def _size(path: Path) -> int:
    """Return the size of a file, -1 if it cannot be read: opening it later says why."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _given(parts: Iterable[tuple[int | str, int | str | None]]) -> Given:
    content, count = hashlib.blake2b(digest_size=16), 0
    for part in parts:
        content.update(json.dumps(part).encode() + b"\n")
        count += 1
    return {"count": count, "digest": content.hexdigest()}
