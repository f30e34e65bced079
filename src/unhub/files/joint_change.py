"""A joint change: many files that are replaced and deleted together, and finished by the next run after a kill.

New contents are written beside their files. A plan in the first folder then says what takes whose place; once it is
there, the change counts, and whoever holds the folder next can finish it. Before that nothing has changed. The plan
holds names and hashes alone. Every other folder that has a file of the change points to the plan.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TypedDict, TypeVar, cast

from unhub.atomic import beside, check_target, naming, remove_strays, replacing, strays, sync
from unhub.files.declared import Count, Natural, as_declared, parse_json

CHANGE_FORMAT = 1
PLAN, POINTER = ".unhub-change.json", ".unhub-change-elsewhere.json"
NEXT_SUFFIX = ".next"  # of new contents that wait
CHUNK_BYTES = 1 << 20

T = TypeVar("T")


class Replacement(TypedDict):
    """A file of so many bytes that takes the place of another, which had so many; None if that does not grow.

    digest: a hash of the new bytes in hexadecimal, by which the file is known once it has taken its place.
    """

    new: str
    bytes: Natural
    digest: str
    old: str
    had: Natural | None


class ChangePlan(TypedDict):
    """What a change does, by names relative to the folder of the plan. pointed: folders that point to it."""

    joint_change: Count
    replaced: list[Replacement]
    deleted: list[str]
    pointed: list[str]


class Pointer(TypedDict):
    """Where the plan is that a folder takes part in."""

    joint_change_in: str


class JointChange:
    """Gathers new contents and deletions; use it as a context, which leaves nothing behind if it was not committed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """folders: those that take part, beside those of the files that change; the plan will be in the first one."""
        self._folders = [*dict.fromkeys(Path(os.path.realpath(one)) for one in folders)]
        self._replaced: list[Replacement] = []
        self._deleted: list[str] = []
        self._changed: list[Path] = []  # folders
        self._seen: dict[Path, os.stat_result] = {}
        self._written = ExitStack()

    def __enter__(self) -> JointChange:
        return self

    def __exit__(self, *_: object) -> None:
        self._written.close()

    @contextmanager
    def replacing(self, path: Path, *, read: os.stat_result | None = None, grows: bool = False) -> Iterator[Path]:
        """Yield a new file, which takes the place of `path` when the change is committed.

        read: what was known of a file of others when it was read; it must still be so then. grows: what is appended to
        it after that is kept.
        """
        target = check_target(path)
        check_finished(target.parent)  # else new contents that wait there would look like strays
        for stray in strays(target, NEXT_SUFFIX):  # of a run that was killed before its change counted
            remove_strays(stray)
            stray.unlink()
        new = beside(target, NEXT_SUFFIX)
        self._written.callback(new.unlink, missing_ok=True)
        with naming(path, new):
            new.touch(exist_ok=False)
            yield new
            if target.exists():
                os.chmod(new, target.stat().st_mode & 0o7777)
            sync(new)
        if read is not None:
            self._seen[target] = read
        had = read.st_size if read is not None and grows else None
        replaced: Replacement = {
            "new": self._named(new),
            "bytes": new.stat().st_size,
            "digest": _digest(new, new.stat().st_size),
            "old": self._named(target),
            "had": had,
        }
        self._replaced.append(replaced)
        self._changed.append(target.parent)

    def delete(self, path: Path) -> None:
        """Have a file deleted when the change is committed."""
        self._deleted.append(self._named(path))
        self._changed.append(Path(os.path.realpath(path.parent)))

    def commit(self) -> None:
        """Make the change; after a kill everything is as it was before, or `finish` ends it."""
        if not (self._replaced or self._deleted):
            return
        for path, read in self._seen.items():
            now = path.stat()
            if (now.st_ino, now.st_size, now.st_mtime_ns) != (read.st_ino, read.st_size, read.st_mtime_ns):
                raise ValueError(f"{path}: changed while it was read; stop what writes to it, and run this again")
        first, *others = dict.fromkeys([*self._folders, *self._changed])
        for folder in others:
            pointer: Pointer = {"joint_change_in": os.path.relpath(first, folder)}
            _write_json(folder / POINTER, pointer)
        plan: ChangePlan = {
            "joint_change": CHANGE_FORMAT,
            "replaced": self._replaced,
            "deleted": self._deleted,
            "pointed": [os.path.relpath(folder, first) for folder in others],
        }
        _write_json(first / PLAN, plan)
        self._written.pop_all()  # from here on the new files belong to the plan
        finish(first)

    def _named(self, path: Path) -> str:
        return os.path.relpath(os.path.realpath(path.parent) + os.sep + path.name, self._folders[0])


def finish(folder: Path) -> bool:
    """Finish the change that was planned in a folder, or that it takes part in; return whether there was one.

    Whoever calls it holds what is changed. It may be cut off and called again. A new file that is gone without having
    taken its place is an error, before anything is done.
    """
    place = planned_in(folder)
    if place is None:
        (folder / POINTER).unlink(missing_ok=True)
        for path in (folder / PLAN, folder / POINTER):
            remove_strays(path)
        return False
    plan = _read(place / PLAN, ChangePlan)
    for one in plan["replaced"]:
        if not (place / one["new"]).exists() and not _is_in_place(one, place / one["old"]):
            raise ValueError(
                f"{os.path.normpath(place / one['old'])}: `unhub log forget` was cut off, and the file that was to "
                f"take its place is gone; delete {place / PLAN}, and run the command again"
            )
    changed = set()
    for one in plan["replaced"]:
        new, old = place / one["new"], place / one["old"]
        if new.exists():  # else it has taken its place already
            _keep_appended(one, new, old)
            os.replace(new, old)
        changed.add(old.parent)
    for name in plan["deleted"]:
        (place / name).unlink(missing_ok=True)
        changed.add((place / name).parent)
    for parent in changed:
        sync(parent)
    (place / PLAN).unlink()
    for name in plan["pointed"]:  # last: without the plan they say nothing
        (place / name / POINTER).unlink(missing_ok=True)
    return True


def check_finished(folder: Path) -> None:
    """Raise if a change that this folder takes part in was cut off."""
    if planned_in(folder) is not None:
        raise ValueError(
            f"{folder}: `unhub log forget` is changing this folder or was cut off; wait, or run the same command again"
        )


def planned_in(folder: Path) -> Path | None:
    """Return the folder of the plan that is not finished, if there is one."""
    if (folder / PLAN).is_file():
        return folder
    try:
        pointer = _read(folder / POINTER, Pointer)
    except FileNotFoundError:
        return None
    elsewhere = folder / pointer["joint_change_in"]
    return elsewhere if (elsewhere / PLAN).is_file() else None  # else it was not begun


def _keep_appended(one: Replacement, new: Path, old: Path) -> None:
    """Append to a new file of lines what was appended to the old one since it was read."""
    if one["had"] is None or not old.exists() or old.stat().st_size <= one["had"]:
        return
    with naming(old, new):
        with old.open("rb") as source, new.open("r+b") as file:
            source.seek(one["had"])
            file.truncate(one["bytes"])  # of an attempt before
            file.seek(one["bytes"])
            _copy(source, file)
        sync(new)


def _is_in_place(one: Replacement, old: Path) -> bool:
    """Return whether a new file has taken its place; one of lines may have grown since."""
    if not old.is_file():
        return False
    size = old.stat().st_size
    fits = size == one["bytes"] if one["had"] is None else size >= one["bytes"]
    return fits and _digest(old, one["bytes"]) == one["digest"]


def _digest(path: Path, size: int) -> str:
    """Return a hash of the first bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size and (chunk := file.read(min(CHUNK_BYTES, size))):
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest()


def _copy(source: IO[bytes], file: IO[bytes]) -> None:
    while chunk := source.read(CHUNK_BYTES):
        file.write(chunk)


def _write_json(path: Path, content: object) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _read(path: Path, declared: type[T]) -> T:
    content = path.read_bytes()
    try:
        return cast("T", as_declared(parse_json(content), declared, "it"))
    except ValueError as error:
        raise ValueError(f"{path}: is not what `unhub log forget` wrote ({error}); delete it") from None
