"""The files below the folder of a data set: listed once, then found by name wherever they lie."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unhub.datasets.dataset import Kind
from unhub.embed.sources import IMAGES, SOUNDS, VIDEOS
from unhub.errors import ArgumentError

MEDIA: Mapping[Kind, frozenset[str]] = {"image": IMAGES, "video": VIDEOS, "audio": SOUNDS | VIDEOS}


@dataclass(frozen=True, eq=False)
class Scanned:
    """A folder and what lies below it: the paths of each file name, relative to the folder, nearest first.

    dangling: the paths of links to what is not there, as git-annex, DVC and caches keep what was not fetched. They are
    no files: what they stand for is missing.
    """

    folder: Path
    names: Mapping[str, Sequence[str]]
    dangling: Sequence[str] = ()

    @staticmethod
    def of(folder: str | os.PathLike[str]) -> Scanned:
        """List the files below a folder, links followed, those without names that begin with a dot."""
        root = Path(folder)
        if not root.is_dir():
            problem = f"{root} is a file" if root.exists() else f"{root} does not exist"
            raise ArgumentError("data", problem, "give the folder that holds the data set")
        names, dangling = defaultdict(list), list[str]()
        for path, is_there in sorted(_below(root), key=lambda one: (one[0].count("/"), one[0])):
            if is_there:
                names[path.rpartition("/")[2]].append(path)
            else:
                dangling.append(path)
        return Scanned(root, dict(names), dangling)

    @property
    def count(self) -> int:
        """How many files there are."""
        return sum(map(len, self.names.values()))

    def all(self, pattern: str) -> list[Path]:
        """Return the files of a name, or of a pattern such as `OO_*.tsv`, the nearest to the folder first."""
        if not {*pattern} & {*"*?["}:
            return [self.folder / path for path in self.names.get(pattern, ())]
        found = (paths for name, paths in self.names.items() if fnmatch.fnmatchcase(name, pattern))
        return [self.folder / path for paths in found for path in paths]

    def find(self, *patterns: str) -> Path | None:
        """Return the nearest file of the first of these names that is there; None if there is none."""
        return next((found[0] for one in patterns if (found := self.all(one))), None)

    def find_dangling(self, *patterns: str) -> str | None:
        """Return the nearest link of one of these names that leads to nothing; None if there is none."""
        named = ((path, path.rpartition("/")[2]) for path in self.dangling)
        return next((path for path, name in named if any(fnmatch.fnmatchcase(name, one) for one in patterns)), None)

    @functools.cached_property
    def _by_stem(self) -> Mapping[Kind, Mapping[str, Sequence[str]]]:
        """The media files of each kind by name without suffix, alone and behind the folder that holds the file."""
        stems: dict[Kind, dict[str, list[str]]] = {kind: defaultdict(list) for kind in MEDIA}
        for name, paths in self.names.items():
            stem, suffix = os.path.splitext(name)
            for kind in (one for one, suffixes in MEDIA.items() if suffix.lower() in suffixes):
                for path in paths:
                    stems[kind][stem].append(path)
                    stems[kind][_tail(path, stem)].append(path)
        return stems

    def media(self, kind: Kind, *names: str) -> Path | None:
        """Return the media file of the first of these names that is there, whatever its suffix.

        A name may say in which folders the file lies: `cars_train/00001.jpg`. One that begins with a slash is the whole
        path from the folder, suffix included, and no other file does.
        """
        for name in names:
            if name.startswith("/"):
                if name[1:] in self.names.get(name.rpartition("/")[2], ()):
                    return self.folder / name[1:]
                continue
            where, _, last = name.rpartition("/")
            stems = (without_suffix(last, kind), last)  # the latter for a file whose suffix was added: a.mov.mp4
            keys = (_tail(name, stem) if where else stem for stem in dict.fromkeys(stems))
            held = [path for key in keys for path in self._by_stem[kind].get(key, ())]
            exact = self.names.get(last, ()) if not where else [path for path in held if path.endswith(f"/{last}")]
            for path in (*exact, *held):
                if not where or f"/{path.rpartition('/')[0]}".endswith(f"/{where}"):
                    return self.folder / path
        return None

    def count_others(self, kind: Kind, used: Iterable[Path]) -> int:
        """Return how many media files of a kind are not among those that are used."""
        known = {path.relative_to(self.folder).as_posix() for path in used}
        suffixes = MEDIA[kind]
        named = (paths for name, paths in self.names.items() if os.path.splitext(name)[1].lower() in suffixes)
        return sum(path not in known for paths in named for path in paths)


def without_suffix(name: str, kind: Kind) -> str:
    """Return a name without the suffix of a media file, or without a bare dot at its end; `a.jpg.1` keeps its own."""
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() in MEDIA[kind] else name.removesuffix(".")


def md5_of(path: Path) -> str:
    """Return the checksum that publishers of data sets give; it tells versions apart and protects nothing."""
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _tail(path: str, stem: str) -> str:
    """Return the folder that holds a file, and the name of the file without its suffix."""
    return f"{PurePosixPath(path).parent.name}/{stem}"


def _below(root: Path) -> Iterator[tuple[str, bool]]:
    """Yield the files below a folder as paths relative to it, and whether they are there; a link may lead to nothing.

    Paths are plain strings, since there may be a million, and only links are asked for what they lead to.
    """
    seen, left = set(), deque([(os.fspath(root), "")])
    while left:
        where, before = left.pop()
        here = os.stat(where)
        if (here.st_dev, here.st_ino) in seen:  # a link to a folder above
            continue
        seen.add((here.st_dev, here.st_ino))
        for entry in _entries(where):
            if entry.name.startswith("."):
                continue
            is_link = entry.is_symlink()
            if os.path.isdir(entry.path) if is_link else entry.is_dir():
                add = left.appendleft if is_link else left.append  # links last: a folder has its own path
                add((entry.path, f"{before}{entry.name}/"))
            else:
                yield f"{before}{entry.name}", not is_link or os.path.exists(entry.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing where it may not be read."""
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except OSError:
        return []
