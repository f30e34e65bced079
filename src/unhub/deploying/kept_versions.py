"""Kept versions: the history of corrections in a folder, which is active, and how to go back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten

from unhub.atomic import hold_folder
from unhub.correction import Correction, check_correction
from unhub.errors import ArgumentError
from unhub.evaluation.tables import Tabled
from unhub.files.container import read_container
from unhub.files.corrections import Manifest, as_correction_manifest, save_correction
from unhub.files.version_folders import (
    AboutVersion,
    ActiveVersion,
    check_versions,
    droppable,
    followed,
    forget_version,
    is_begun,
    is_version_folder,
    last_number,
    names_in,
    read_about,
    read_active,
    service_state,
    version_place,
    write_about,
    write_active,
)
from unhub.html_tables import Table

HEADS = ("version", "made", "method", "items", "bank", "hash", "why")
DIGITS_SHOWN = 12
WHY_SHOWN = 80  # characters; the reason of a tuning has hundreds
NAMES_SHOWN = 5  # of the versions there are, where one is unknown


@dataclass(frozen=True)
class VersionFile:
    """A version in a folder: when and why it was made, the method, the items and bank queries, and a hash of the file.

    problem: why the file cannot be read; the method is then empty.
    """

    name: str
    path: Path
    when: float
    why: str
    offered: bool
    method: str = ""
    items: int = 0
    bank: int | None = None
    digest: str = ""
    problem: str = ""


@dataclass(frozen=True)
class History(Tabled):
    """The versions in a folder, oldest first; which is active, and which a rollback would bring back."""

    folder: Path
    versions: tuple[VersionFile, ...]
    active: str | None
    back: str | None

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values for JSON."""
        versions = [{**asdict(one), "path": str(one.path)} for one in self.versions]
        return {"folder": str(self.folder), "active": self.active, "back": self.back, "versions": versions}

    def shown(self) -> list[str | Table]:
        return [(HEADS, self.cells()), "", self.conclusion]

    @property
    def conclusion(self) -> str:
        """Which version is active, and which a rollback would bring back, in words."""
        if self.active is None:
            return "No version is active."
        return f"{self.active} is active. {self.back or 'Nothing'} was active before it."

    def cells(self) -> list[tuple[str, ...]]:
        """Return a row for each version, for people; * marks the active one, and a long reason is cut."""
        return [
            (
                f"{one.name}{' *' * (one.name == self.active)}",
                datetime.fromtimestamp(one.when, UTC).strftime("%Y-%m-%d %H:%M"),
                one.method or "cannot be read",
                f"{one.items:,}",
                "" if one.bank is None else f"{one.bank:,}",
                one.digest[:DIGITS_SHOWN],
                one.problem or shorten(one.why, WHY_SHOWN, placeholder=" …"),
            )
            for one in self.versions
        ]


def history(folder: str | os.PathLike[str]) -> History:
    """Return the versions in a folder of `keep`, or in the folder of `unhub serve --state`, and which is active."""
    place = version_place(Path(folder))
    active = read_active(place)
    before = () if active is None else active.before
    versions = tuple(_looked_at(place, name) for name in names_in(place))
    return History(place, versions, None if active is None else active.active, before[-1] if before else None)


def keep(correction: Correction, folder: str | os.PathLike[str], *, why: str = "", active: bool = True) -> History:
    """Keep a correction as the next version in a folder, which is made if it is absent, and make it the active one.

    `load` of the folder reads the active version. The last 20 are kept. why: a sentence about it. active: whether it
    becomes the active one.
    """
    check_correction(correction, "keep")
    place = Path(folder)
    if place.exists():
        others = place.is_dir() and any(not path.name.startswith(".") for path in place.iterdir())
        counts = is_version_folder(place)
        if not place.is_dir() or (others and not counts and not is_begun(place)):
            problem = f"{place} is {'a folder of other things' if others else 'a file'}"
            raise ArgumentError("folder", problem, "name a new folder, or one of versions")
        if counts:
            place = version_place(place)
            check_versions(place)
    with _holding(place):
        name = f"v{last_number(place) + 1}"
        save_correction(correction, place / f"{name}.unhub")
        write_about(place, name, AboutVersion.now(why or f"Kept: {correction.spec}."))
        if active or read_active(place) is None:
            _activate(place, name)
        for one in droppable(names_in(place), read_active(place)):
            forget_version(place, one)
    return history(place)


def activate(folder: str | os.PathLike[str], version: str | None = None) -> History:
    """Make a version the active one; without a name, the one that was active before.

    The change is whole or not there. A folder that a service uses is refused: ask the service.
    """
    place = version_place(Path(folder))
    with _holding(place):
        names, now = names_in(place), read_active(place)
        if version is not None:
            if version not in names:
                newest = ", ".join(names[-NAMES_SHOWN:])
                raise ArgumentError("version", f"{version!r} is unknown", f"the newest versions are {newest}")
            _activate(place, version)
        elif now is None or not now.before:
            raise ArgumentError("version", "has nothing before it", "activate another one by its name")
        else:
            _manifest(place / f"{now.before[-1]}.unhub")
            write_active(place, ActiveVersion(now.before[-1], now.before[:-1]))
    return history(place)


def _activate(folder: Path, name: str) -> None:
    """Make a version active; an offer that is taken is none any more."""
    _manifest(folder / f"{name}.unhub")  # nothing good is replaced by a damaged file
    about = read_about(folder, name)
    if about.offered:
        write_about(folder, name, replace(about, offered=False))
    write_active(folder, followed(read_active(folder), name))


@contextmanager
def _holding(place: Path) -> Iterator[None]:
    """Hold a folder of versions, and the state that it is in, so that no service and nobody else changes it."""
    locks: list[int] = []
    try:
        for one in (service_state(place), place):
            if one is not None:
                locks.append(hold_folder(one, "folder", "a service or another writer"))
        yield
    finally:
        for lock in locks:
            os.close(lock)


def _looked_at(folder: Path, name: str) -> VersionFile:
    path, about = folder / f"{name}.unhub", read_about(folder, name)
    told = VersionFile(name, path, about.when, about.why, about.offered)
    try:
        manifest, digest = _manifest(path)
    except (OSError, ValueError) as error:
        return replace(told, problem=str(error))
    bank = None if manifest["bank"] is None else manifest["bank"]["count"]
    return replace(told, method=manifest["method"], items=manifest["items"]["count"], bank=bank, digest=digest)


def _manifest(path: Path) -> tuple[Manifest, str]:
    from safetensors import safe_open

    manifest = as_correction_manifest(read_container(path)[0], path)
    with safe_open(path, framework="numpy") as file:
        return manifest, file.metadata()["checksum"]
