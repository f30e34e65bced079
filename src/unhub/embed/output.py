"""The output folder: only what embedding wrote may be replaced, one process at a time, and it appears complete."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from unhub.atomic import beside, strays
from unhub.errors import ArgumentError
from unhub.files.embedded import IDS, MANIFEST, ROWS, UNFINISHED, is_embedded, read_embedding_manifest

TASK, JOURNAL = "task.json", "journal.jsonl"
OUR_FILES = {ROWS, IDS, MANIFEST, TASK, JOURNAL}
OLD_SUFFIX = ".old"  # of a folder that is being replaced


def unfinished(output: Path) -> Path:
    """Return the folder in which the work for an output is done."""
    return output.with_name(output.name + UNFINISHED)


def check_output(output: str | os.PathLike[str], inputs: object = None) -> Path:
    """Return the folder to write, links followed; raise if it cannot be written or holds anything else.

    inputs: where the inputs come from; if that is a folder, the output must not be in it.
    """
    target = Path(os.path.realpath(output))
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{target} is a file; name a folder to write")
    _check_contents(target)
    _check_contents(unfinished(target), begun=True)
    if is_embedded(target):
        read_embedding_manifest(target)  # a manifest of something else is an error
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; create it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"no permission to write into the folder {target.parent}")
    folder = Path(inputs).resolve() if isinstance(inputs, str | os.PathLike) else None
    if folder is not None and folder.is_dir() and folder in (target, *target.parents):
        raise ArgumentError("output", f"{target} is inside the folder of the inputs", "name a folder elsewhere")
    return target


def take_place(folder: Path, output: Path) -> None:
    """Rename a finished folder to the output, and then remove the folder that it replaces."""
    _check_contents(output)  # again, since the work may have taken long
    if output.exists():
        output.rename(beside(output, OLD_SUFFIX))
    folder.rename(output)
    for old in strays(output, OLD_SUFFIX):
        discard(old)


def discard(folder: Path) -> None:
    """Remove our files from a folder, and the folder if nothing else is in it."""
    for path in (*stray_files(folder), *(folder / name for name in OUR_FILES)):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def stray_files(folder: Path) -> list[Path]:
    """Return the temporary files that a killed process left in a folder of ours."""
    return [stray for name in OUR_FILES for stray in strays(folder / name)]


def lock(path: Path) -> BinaryIO:
    """Open a file to append to, and lock it until it is closed, so that one process at a time works in its folder.

    If the system has no such locks, the file is opened without one.
    """
    busy = ArgumentError("output", f"is in use: another process is at work in {path.parent}", "wait until it has ended")
    try:
        file = path.open("ab")
    except FileNotFoundError:  # the other process has just finished and renamed the folder
        raise busy from None
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise busy from None
    except (ImportError, OSError):
        pass  # a system or disk without such locks
    if not _is_at(file, path):  # the other process renamed or removed it in between
        file.close()
        raise busy
    return file


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _check_contents(folder: Path, begun: bool = False) -> None:
    """Raise if a folder holds files that we did not write; only a finished folder, with a manifest, is ours."""
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    ours = OUR_FILES if begun or MANIFEST in held else set()
    others = held - ours - {stray.name for stray in stray_files(folder)}
    if others:
        raise ArgumentError("output", f"{folder} holds other files, such as {min(others)}", "name a new folder")
