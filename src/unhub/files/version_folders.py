"""Version folders: corrections kept as v1, v2, ...; which one is active, and which were before it.

vN.unhub is a correction, and vN.json says when and why it was made; one without the other does not count. `active.json`
names the active version and those before it, and is replaced whole. `unhub serve --state` keeps such a folder,
`corrections`. Other files in the folder, also ones that begin with a name of a version, are never changed or deleted.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unhub.atomic import LOCK, replacing
from unhub.errors import ArgumentError
from unhub.files.declared import as_declared, parse_json
from unhub.files.joint_change import check_finished

MOST_VERSIONS = 20  # the oldest that is neither active nor the way back is dropped
ACTIVE = "active.json"
CORRECTIONS = "corrections"  # the folder of versions in the state of a service
ABOUT_ENDING, SAVED_ENDING = ".json", ".unhub"
BANK_ENDING, WEIGHTS_ENDING = ".bank.npy", ".weights.npy"  # of the bank of a refit
SAVED_NAME = re.compile(rf"v[0-9]+{re.escape(SAVED_ENDING)}")
ENDINGS = (ABOUT_ENDING, SAVED_ENDING, BANK_ENDING, WEIGHTS_ENDING)  # of all files of a version


@dataclass(frozen=True)
class ActiveVersion:
    """The active version, and those that were active before it, the last one last."""

    active: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class AboutVersion:
    """What is told of a version: when and why it was made, and how it was judged."""

    when: float
    why: str
    offered: bool = False
    judged: dict[str, Any] | None = None

    @staticmethod
    def now(why: str) -> AboutVersion:
        """Return what is told of a version that is made now."""
        return AboutVersion(time.time(), why)


def active_file(folder: Path) -> Path:
    """Return the file of the active version in a folder."""
    place = version_place(folder)
    active = read_active(place)
    if active is None:
        raise ValueError(f"{place}: has no active version; activate one (unhub history {place} --activate NAME)")
    return place / f"{active.active}.unhub"


def is_version_folder(path: Path) -> bool:
    """Return whether a folder holds versions, or is the state of a service."""
    return path.is_dir() and any(bool(names_in(one)) for one in (path, path / CORRECTIONS))


def is_begun(path: Path) -> bool:
    """Return whether a folder holds nothing but corrections of versions that a killed writer did not finish.

    The lock tells them from files of somebody else that are called the same: a folder of those is never held.
    """
    seen = (one.name for one in path.iterdir() if not one.name.startswith("."))
    return (path / LOCK).is_file() and all(SAVED_NAME.fullmatch(name) for name in seen)


def service_state(folder: Path) -> Path | None:
    """Return the state of a service that these versions are in, if there is one: a service holds that alone."""
    real = Path(os.path.realpath(folder))
    return real.parent if real.name == CORRECTIONS and (real.parent / LOCK).exists() else None


def names_in(folder: Path) -> list[str]:
    """Return the names of the versions in a folder, oldest first."""
    check_finished(folder)
    return names_also_of_unfinished(folder)


def names_also_of_unfinished(folder: Path) -> list[str]:
    """Return the names of the versions in a folder, also while a change of it is not finished."""
    numbers = {int(path.stem[1:]) for path in folder.glob("v*.json") if path.stem[1:].isdecimal()}
    names = [f"v{number}" for number in sorted(numbers)]
    needed = (ABOUT_ENDING, SAVED_ENDING)
    return [name for name in names if all((folder / f"{name}{ending}").is_file() for ending in needed)]


def check_versions(folder: Path) -> None:
    """Raise if what is told of a version, or which one is active, is not what unhub wrote: files of somebody else."""
    for name in names_in(folder):
        read_about(folder, name)
    read_active(folder)


def last_number(folder: Path) -> int:
    """Return the number that was given last, also to parts of a version that were left."""
    numbers = (path.name[1:].partition(".")[0] for path in folder.glob("v*"))
    return max((int(one) for one in numbers if one.isdecimal()), default=0)


def read_active(folder: Path) -> ActiveVersion | None:
    """Return which version is active, and those before it that are still there; None if none was ever made active."""
    path = folder / ACTIVE
    if not path.is_file():
        return None
    told: ActiveVersion = _declared(path, ActiveVersion)
    known = names_in(folder)
    if told.active not in known:
        raise ValueError(f"{path}: the active version {told.active!r} is not in {folder}")
    return ActiveVersion(told.active, tuple(name for name in told.before if name in known))


def write_active(folder: Path, active: ActiveVersion) -> None:
    """Replace what says which version is active."""
    with replacing(folder / ACTIVE) as path:
        path.write_text(json.dumps({"active": active.active, "before": list(active.before)}), "utf-8")


def read_about(folder: Path, name: str) -> AboutVersion:
    """Return what is told of a version."""
    about: AboutVersion = _declared(folder / f"{name}{ABOUT_ENDING}", AboutVersion)
    return about


def write_about(folder: Path, name: str, about: AboutVersion) -> None:
    """Write what is told of a version; from then on it counts."""
    with replacing(folder / f"{name}.json") as path:
        path.write_text(json.dumps(asdict(about)), "utf-8")


def droppable(names: Sequence[str], active: ActiveVersion | None) -> list[str]:
    """Return the oldest versions that are too many; never the active one, the way back, or the newest."""
    needed = () if active is None else (active.active, *active.before[-1:])
    spare = [name for name in names if name not in needed][:-1]
    return spare[: max(0, len(names) - MOST_VERSIONS)]


def files_of_version(saved: Path) -> list[Path]:
    """Return the files that there are of the version whose correction is in this file; what is told of it first."""
    return [path for ending in ENDINGS if (path := saved.with_suffix(ending)).is_file()]


def forget_version(folder: Path, name: str) -> None:
    """Delete the files of a version, and nothing else that begins with its name."""
    for ending in ENDINGS:  # what is told of it goes first: without that the others are no version
        (folder / f"{name}{ending}").unlink(missing_ok=True)


def followed(now: ActiveVersion | None, name: str) -> ActiveVersion:
    """Return what is active once this version is; the one before is the way back."""
    if now is not None and now.active == name:
        return now
    before = () if now is None else (*now.before, now.active)
    return ActiveVersion(name, before[-MOST_VERSIONS:])


def version_place(folder: Path) -> Path:
    """Return where the versions of a folder are; raise if it has none."""
    if not folder.is_dir():
        raise ArgumentError("folder", f"{folder} is {'a file' if folder.exists() else 'not there'}", "name a folder")
    found = next((one for one in (folder, folder / CORRECTIONS) if names_in(one)), None)
    if found is None:
        raise ArgumentError("folder", f"{folder} holds no versions", "keep a correction there first")
    return found


def _declared(path: Path, kind: Any) -> Any:
    try:
        return as_declared(parse_json(path.read_bytes()), kind, "it")
    except ValueError as error:
        raise ValueError(f"{path}: is not what a folder of versions holds ({error})") from None
