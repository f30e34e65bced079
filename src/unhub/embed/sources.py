"""The inputs to embed: texts, or files of images, videos or sounds, each with an id; found, counted and hashed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from unhub.arrays import Ids
from unhub.data.ids import as_ids
from unhub.embed.encoder import Encoder, Kind, Prepared
from unhub.embed.file_hashes import content_hashes
from unhub.errors import ArgumentError
from unhub.files.columns import TABLES, NoColumn
from unhub.files.embedded import Given
from unhub.files.texts import LINES, Texts, read_texts

Source: TypeAlias = str | os.PathLike[str]
TextOrTexts: TypeAlias = str | Sequence[str]  # several texts of one thing are embedded and averaged

GAP = "{}"  # in a prompt, where the text goes
WEB_IMAGES = (".apng", ".avif", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".webp")
OTHER_IMAGES = (".bmp", ".heic", ".heif", ".j2k", ".jp2", ".pbm", ".pgm", ".ppm", ".tga", ".tif", ".tiff")
IMAGES = frozenset((*WEB_IMAGES, *OTHER_IMAGES))
WEB_VIDEOS = (".m4v", ".mkv", ".mov", ".mp4", ".ogv", ".webm")
OTHER_VIDEOS = (".3gp", ".avi", ".flv", ".m2ts", ".mpeg", ".mpg", ".mts", ".ts", ".wmv")
VIDEOS = frozenset((*WEB_VIDEOS, *OTHER_VIDEOS))
WEB_SOUNDS = (".aac", ".flac", ".m4a", ".mp3", ".oga", ".ogg", ".opus", ".wav")
OTHER_SOUNDS = (".aif", ".aifc", ".aiff", ".amr", ".au", ".caf", ".mka", ".wma")
SOUNDS = frozenset((*WEB_SOUNDS, *OTHER_SOUNDS))
SUFFIXES: dict[Kind, frozenset[str]] = {"images": IMAGES, "videos": VIDEOS, "sounds": SOUNDS}


@dataclass(frozen=True, eq=False)
class TextInputs:
    """Texts and their ids; an entry of a list that is neither a text nor several is skipped."""

    ids: Ids
    texts: Sequence[TextOrTexts]
    source: str

    def given(self, folder: Path) -> Given:
        """Return how many there are, and a hash of their ids and texts; folder: of the output, not used for texts."""
        return _given(zip(self.ids.tolist(), map(_plain, self.texts), strict=True))

    @property
    def most(self) -> int:
        """The largest number of texts of one thing."""
        return max(len(text) if isinstance(text, list | tuple) else 1 for text in self.texts)


Open: TypeAlias = Callable[[Encoder, Path], Prepared]


@dataclass(frozen=True, eq=False)
class FileInputs:
    """Files and their ids, and how one is opened and made ready for an encoder."""

    ids: Ids
    paths: Sequence[Path]
    open: Open
    source: str

    def given(self, folder: Path) -> Given:
        """Return how many there are, and a hash of their ids and contents, which are remembered in `folder`."""
        return _given(zip(self.ids.tolist(), content_hashes(self.paths, folder), strict=True))


Inputs: TypeAlias = TextInputs | FileInputs


def find_files(source: Source | Sequence[Source], kind: Kind, opened: Open, ids: object = None) -> FileInputs:
    """Return the files of a kind: those below a folder, sorted, with ids relative to it; a file; or those of a list."""
    if ids is not None and isinstance(source, str | os.PathLike):
        raise ArgumentError("ids", f"go with a list of files, and {kind} is the path {os.fspath(source)}")
    if not isinstance(source, str | os.PathLike):
        paths = [Path(one) for one in source]
        if not paths:
            raise ArgumentError(kind, "is empty", "give at least one file")
        named = _names([path.as_posix() for path in paths]) if ids is None else as_ids(ids, len(paths), "ids")
        return FileInputs(named, paths, opened, f"{len(paths)} paths")
    path = Path(source)
    if not path.is_dir():
        path.stat()  # a path that is not there is FileNotFoundError
        return FileInputs(_names([path.name]), [path], opened, str(path))
    names = sorted(name for name in _below(path) if Path(name).suffix.lower() in SUFFIXES[kind])
    if not names:
        raise ValueError(f"{path} holds no {kind}: no file is named {_some(SUFFIXES[kind])}")
    return FileInputs(_names(names), [path / name for name in names], opened, str(path))


def find_texts(
    source: Source | Sequence[TextOrTexts], column: str | None, id_column: str | None, ids: object
) -> TextInputs:
    """Return texts that are given, or those of a file; without ids they are numbered from 0."""
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    for name, value in {"column": column, "id_column": id_column}.items():
        if value is not None and (path is None or path.suffix.lower() not in TABLES):
            raise ArgumentError(name, f"is {value!r}, but only a table has columns: {', '.join(TABLES)}")
    if isinstance(source, str | os.PathLike):
        read = _read_texts(source, column or "text", id_column)
        named, name = read.ids, read.source
        texts: list[TextOrTexts] = [str(text) for text in read.texts]
    else:
        texts, named, name = list(source), None, f"{len(source)} texts"
    if not texts:
        raise ArgumentError("texts", "is empty", "give at least one text")
    given = ids if ids is not None else named if named is not None else np.arange(len(texts))
    return TextInputs(as_ids(given, len(texts), "ids" if ids is not None else name), texts, name)


def with_prompts(inputs: TextInputs, prompts: Source | Sequence[str] | None) -> TextInputs:
    """Put each text into every prompt, such as "a photo of a {}."; prompts: a list, or a .txt file of lines."""
    if prompts is None:
        return inputs
    if isinstance(prompts, str | os.PathLike):
        path = Path(prompts)
        if path.suffix.lower() != LINES:
            raise ArgumentError("prompts", f"must be a list or a {LINES} file of lines, got {str(path)!r}")
        prompts = [str(line) for line in read_texts(path).texts]
    given: Sequence[object] = prompts
    wrong = [one for one in given if not isinstance(one, str) or one.count(GAP) != 1]
    if wrong or not given:
        problem = f"must each have {GAP} once, where the text goes, got {wrong[0]!r}" if given else "is empty"
        raise ArgumentError("prompts", problem, f"write them as in 'a photo of a {GAP}.'")
    return replace(inputs, texts=[_prompted(text, prompts) for text in inputs.texts])


def _prompted(text: TextOrTexts, prompts: Sequence[str]) -> TextOrTexts:
    """Return every prompt with a text in it; one that is empty or no text is left for the loop to skip."""
    names = text if isinstance(text, list | tuple) else (text,)
    if not all(isinstance(name, str) and name.strip() for name in names):
        return text
    return [prompt.replace(GAP, name) for name in names for prompt in prompts]


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
        held = [kind for kind, known in SUFFIXES.items() if found & known]
        if len(held) > 1:
            raise ArgumentError("kind", f"is needed, since {path} holds {' and '.join(held)}", "give one of them")
        if not held:
            raise ValueError(
                f"{path} holds neither images ({_some(IMAGES)}) nor videos ({_some(VIDEOS)}) nor sounds "
                f"({_some(SOUNDS)})"
            )
        return held[0]
    path.stat()  # a path that is not there is FileNotFoundError
    suffixes: dict[Kind, Iterable[str]] = {"texts": (LINES, *TABLES), **SUFFIXES}
    for kind, known in suffixes.items():
        if path.suffix.lower() in known:
            return kind
    raise ArgumentError(
        "kind", f"is needed, since the name {path} does not say what it holds", "give images, texts, videos or sounds"
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


def _plain(text: object) -> str | list[str | None] | None:
    """Return a text or several as JSON has them, None for anything else."""
    if isinstance(text, list | tuple):
        return [one if isinstance(one, str) else None for one in text]
    return text if isinstance(text, str) else None


def _given(parts: Iterable[tuple[int | str, object]]) -> Given:
    content, count = hashlib.blake2b(digest_size=16), 0
    for part in parts:
        content.update(json.dumps(part).encode() + b"\n")
        count += 1
    return {"count": count, "digest": content.hexdigest()}
