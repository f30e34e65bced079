"""Replacing a file atomically: the old content or the new one, never a part of either."""

from __future__ import annotations

import glob
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TEMPORARY = ".tmp"
HEAD = 1 << 16  # bytes of a file that tell its kind: a long id may stand among them


class FileKind(NamedTuple):
    """A kind of file that we write: its name, as after "is not", and its first bytes or the names of its arrays."""

    name: str
    head: re.Pattern[bytes]
    archives: frozenset[frozenset[str]]


def file_kind(name: str, *heads: bytes, archives: Iterable[Iterable[str]] = ()) -> FileKind:
    """Return a kind of file that begins with one of these patterns, in which a dot is any byte.

    Or it is an .npz file that holds the arrays of one of the `archives`, no more and no fewer.
    """
    head = re.compile(b"|".join(heads) if heads else rb"(?!)", re.DOTALL)
    return FileKind(name, head, frozenset(map(frozenset, archives)))


def check_target(path: str | os.PathLike[str], *inputs: Path | None, kind: FileKind | None = None) -> Path:
    """Return where a file written to `path` would land, links followed; raise where it could not be, or must not.

    It must not land on one of the inputs it is made from, nor on a file of another kind, which may be all there is of
    the user's vectors. An empty file, such as mktemp makes, may be replaced.
    """
    given_path, target = Path(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to write")
    # Of the path as given: /dev/stdout leads to a pipe, whose real path names nothing.
    if given_path.exists() and not given_path.is_file():
        raise ValueError(f"{path} is no plain file but a pipe or a device; name a file to write")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}; create it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"cannot write {path}: no permission to write into the folder {target.parent}")
    for given in inputs:
        if given is not None and given.exists() and target.exists() and given.samefile(target):
            raise ValueError(f"{given} is an input of this command; name another file")
    if kind is not None and target.exists() and not _is_of(kind, target):
        raise ValueError(f"{path} exists and is not {kind.name}, so it stays as it is; name another file")
    return target


@contextmanager
def replacing(path: str | os.PathLike[str], kind: FileKind | None = None) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which takes its place once it is complete and on disk.

    With a `kind`, a file of another one is not replaced. After any exception, an interrupt included, the temporary is
    gone and what stood at `path` still stands there.
    """
    target = check_target(path, kind=kind)
    temporary = beside(target)
    try:
        temporary.touch(exist_ok=False)
        # A library may write its files for the owner alone: the mode is the old file's, or the user's default.
        mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        yield temporary
        os.chmod(temporary, mode)
        _sync(temporary, os.O_RDWR)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened, and a rename needs no such help
        _sync(target.parent, os.O_RDONLY)


def remove_strays(path: str | os.PathLike[str]) -> None:
    """Remove the temporaries that writers of `path` left when they were killed; nobody may be writing it now."""
    for stray in strays(check_target(path)):
        stray.unlink(missing_ok=True)


def strays(target: Path, ending: str = TEMPORARY) -> list[Path]:
    """Return what `beside` named for this file and ending and is still there; a name of the user's own is not ours."""
    return [*target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}{ending}")]


def beside(target: Path, ending: str = TEMPORARY) -> Path:
    """Return a new name beside a file or folder."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}{ending}")


def _is_of(kind: FileKind, path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(HEAD)
    return not head or kind.head.match(head) is not None or _arrays_of(path) in kind.archives


def _arrays_of(path: Path) -> frozenset[str]:
    """Return the names of the arrays in an .npz file; of any other file, none."""
    import zipfile  # which most files need not wait for

    try:
        with zipfile.ZipFile(path) as archive:
            return frozenset(name.removesuffix(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return frozenset()


def _sync(path: Path, flags: int) -> None:
    """Wait until what was written to this file or folder is on disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
