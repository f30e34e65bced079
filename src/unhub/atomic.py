"""The one way to write a file: atomically, so that a path holds the old content or the new one, never a part."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from unhub.errors import ArgumentError

TEMPORARY_SUFFIX = ".tmp"
LOCK = ".lock"  # in a folder that one process at a time holds
LONGEST_WAIT = 10.0  # seconds for another writer of a file
BETWEEN_TRIES = 0.05
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ALMOST_NO_ROOM = 1 << 20  # bytes that are free on a disk that is full


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return where a file written to `path` would land, links followed; raise if it cannot be written there."""
    given_path, target = Path(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to write")
    # Of the path as given: /dev/stdout leads to a pipe, whose real path names nothing.
    if given_path.exists() and not given_path.is_file():
        raise ValueError(f"{path} is a pipe or a device, not a plain file; name a file to write")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}; create it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"cannot write {path}: no permission to write into the folder {target.parent}")
    return target


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which replaces it once it is complete and on disk.

    After any exception, including an interrupt, the temporary file is removed and `path` is unchanged. An error of
    writing names `path`, and says that the disk is full where that is so.
    """
    target = check_target(path)
    temporary = beside(target)
    try:
        with naming(path, temporary):
            temporary.touch(exist_ok=False)
            # Some libraries write files that only the owner can read: keep the old file's mode, or the user's default.
            mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
            yield temporary
            os.chmod(temporary, mode)
            sync(temporary)
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):  # the folder may not even be searched
            temporary.unlink()
        raise
    sync(target.parent)


@contextmanager
def naming(path: str | os.PathLike[str], temporary: Path) -> Iterator[None]:
    """Have an error of writing a temporary file name `path`, and say that the disk is full where that is so."""
    try:
        yield
    except OSError as error:
        named = _naming(error, path, temporary)
        if named is None:
            raise
        raise named from error


def _naming(error: OSError, path: str | os.PathLike[str], temporary: Path) -> OSError | None:
    """Return an error of writing as one that names `path`; None if it is about something else.

    A library may tell no file, and numpy tells no reason either if it could write a part of an array alone.
    """
    if str(error.filename) == str(temporary):
        return OSError(error.errno, error.strerror, os.fspath(path))
    if type(error) is not OSError or error.filename is not None:  # as of a connection
        return None
    code = error.errno
    if code is None:
        with suppress(OSError):
            code = errno.ENOSPC if shutil.disk_usage(temporary.parent).free < ALMOST_NO_ROOM else None
    if code in NO_ROOM:
        return OSError(code, os.strerror(code), os.fspath(path))
    return OSError(f"cannot write {path}: {error}") if code is None else None


def remove_strays(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that killed writers of `path` left; nothing may be writing it now."""
    for stray in strays(check_target(path)):
        stray.unlink(missing_ok=True)


def strays(target: Path, ending: str = TEMPORARY_SUFFIX) -> list[Path]:
    """Return the files that `beside` named for this target and ending, and no others."""
    return [*target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}{ending}")]


def beside(target: Path, ending: str = TEMPORARY_SUFFIX) -> Path:
    """Return a new name beside a file or folder."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}{ending}")


def hold_folder(folder: Path, argument: str, by: str = "another service") -> int:
    """Return a descriptor that holds the folder for this process, until it ends in whatever way; make the folder.

    argument, by: what errors call the folder, and who may be using it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(descriptor)
    except OSError:
        os.close(descriptor)
        remedy = "name another folder" if by == "another service" else "wait until it has ended"
        raise ArgumentError(argument, f"{folder} is in use by {by}", remedy) from None
    return descriptor


@contextmanager
def holding(path: str | os.PathLike[str], argument: str, by: str) -> Iterator[None]:
    """Let one writer at a time read and replace a file; wait shortly for another one, then raise.

    A hidden file beside it is locked, and removed at the end. argument, by: as in `hold_folder`.
    """
    target = check_target(path)
    lock = target.with_name(f".{target.name}.lock")
    until = monotonic() + LONGEST_WAIT
    while (descriptor := _held(lock)) is None:
        if monotonic() >= until:
            raise ArgumentError(argument, f"{path} is in use by {by}", "run it again when that has ended")
        sleep(BETWEEN_TRIES)
    try:
        yield
    finally:
        with suppress(OSError):  # where open files cannot be removed
            lock.unlink()
        os.close(descriptor)


def _held(lock: Path) -> int | None:
    """Return a descriptor that holds a lock file, None if another writer has it or has just removed it."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        return descriptor  # a disk without such locks
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), lock.stat()):
            return descriptor
    os.close(descriptor)
    return None


def _lock(descriptor: int) -> None:
    """Lock an open file for this process; BlockingIOError if another one has it."""
    try:
        import fcntl
    except ImportError:  # as on Windows, where two writers take care themselves
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync(path: Path) -> None:
    """Wait until this file or folder is on disk."""
    folder = path.is_dir()
    if folder and os.name != "posix":  # elsewhere a folder cannot be opened, and a rename needs no sync
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
