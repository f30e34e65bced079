"""The one way to write a file: atomically, so that a path holds the old content or the new one, never a part."""

from __future__ import annotations

import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"


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

    After any exception, including an interrupt, the temporary file is removed and `path` is unchanged. An error about
    the temporary file names `path`.
    """
    target = check_target(path)
    temporary = beside(target)
    try:
        temporary.touch(exist_ok=False)
        # Some libraries write files that only the owner can read: keep the old file's mode, or the user's default.
        mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        yield temporary
        os.chmod(temporary, mode)
        _sync(temporary, os.O_RDWR)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):  # the folder may not even be searched
            temporary.unlink()
        if isinstance(error, OSError) and str(error.filename) == str(temporary):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened, and a rename needs no sync
        _sync(target.parent, os.O_RDONLY)


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


def _sync(path: Path, flags: int) -> None:
    """Wait until this file or folder is on disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
