"""Corrections kept as versions: which is active, which were before; in a folder, or in memory alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import unhub
from unhub.atomic import replacing
from unhub.correction import Correction
from unhub.data.vectors import Vectors
from unhub.files.kept_state import read_kept_bank, write_kept_bank
from unhub.files.version_folders import (
    AboutVersion,
    ActiveVersion,
    droppable,
    followed,
    forget_version,
    last_number,
    names_in,
    read_about,
    read_active,
    write_about,
    write_active,
)
from unhub.service.limits import Refused


@dataclass(frozen=True, eq=False)
class KeptCorrection:
    """A correction under a name. bank: what it was fitted on, where that is not the bank of the service."""

    name: str
    correction: Correction
    about: AboutVersion
    bank: Vectors | None = field(default=None)

    def to_dict(self, active: str) -> dict[str, Any]:
        """Return what is told of it."""
        return {
            "name": self.name,
            "method": self.correction.spec,
            "when": self.about.when,
            "active": self.name == active,
            "why": self.about.why,
            "offered": self.about.offered,
            "judged": self.about.judged,
        }


class KeptVersions:
    """The versions of a service, oldest first. With a folder, every change is on disk before it is visible."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._kept: dict[str, KeptCorrection] = {}
        self.history: ActiveVersion | None = None
        self._last = 0  # number that was given; none is given twice
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._load(folder)

    def __iter__(self) -> Iterator[KeptCorrection]:
        with self._lock:
            return iter([*self._kept.values()])

    def __getitem__(self, name: str) -> KeptCorrection:
        with self._lock:
            if name not in self._kept:
                raise Refused(404, "name", f"{name!r} is no version", f"the versions are {', '.join(self._kept)}")
            return self._kept[name]

    def same_as(self, correction: Correction) -> KeptCorrection | None:
        """Return the version that holds this correction, if there is one."""
        return next((one for one in self if _same(one.correction, correction)), None)

    def add(self, correction: Correction, about: AboutVersion, bank: Vectors | None = None) -> KeptCorrection:
        """Keep a correction under the next name."""
        with self._lock:
            self._last += 1
            made = KeptCorrection(f"v{self._last}", correction, about, bank)
            if self.folder is not None:
                _write(made, self.folder)
                made = replace(made, bank=read_kept_bank(self.folder / f"{made.name}.unhub"))
            self._kept[made.name] = made
            self._drop_oldest()
            return made

    def activate(self, name: str) -> None:
        """Make a version the active one; the one before is the way back."""
        with self._lock:
            one = self[name]
            if one.about.offered:
                self._replace(replace(one, about=replace(one.about, offered=False)))
            if self.history is None or self.history.active != name:  # last: only now it is done
                self._put(followed(self.history, name))

    def before(self) -> str:
        """Return the version that a rollback goes to."""
        with self._lock:
            if self.history is None or not self.history.before:
                raise Refused(409, "version", "has nothing before it", "activate another one by its name")
            return self.history.before[-1]

    def roll_back(self) -> None:
        """Make the version before the active one again."""
        with self._lock:
            name = self.before()
            assert self.history is not None
            self._put(ActiveVersion(name, self.history.before[:-1]))

    def drop(self, name: str) -> None:
        """Forget a version, unless it is active or the way back."""
        with self._lock:
            if name in self._kept and name not in self._needed():
                self._forget(name)

    def _needed(self) -> tuple[str, ...]:
        return () if self.history is None else (self.history.active, *self.history.before[-1:])

    def _put(self, history: ActiveVersion) -> None:
        if self.folder is not None:
            write_active(self.folder, history)
        self.history = history

    def _replace(self, one: KeptCorrection) -> None:
        if self.folder is not None:
            write_about(self.folder, one.name, one.about)
        self._kept[one.name] = one

    def _drop_oldest(self) -> None:
        for name in droppable([*self._kept], self.history):
            self._forget(name)

    def _forget(self, name: str) -> None:
        if self.history is not None and name in self.history.before:
            kept = tuple(one for one in self.history.before if one != name)
            self._put(replace(self.history, before=kept))
        del self._kept[name]
        if self.folder is not None:
            forget_version(self.folder, name)

    def _load(self, folder: Path) -> None:
        self._last = last_number(folder)
        for name in names_in(folder):
            self._kept[name] = _read(folder, name)
        self.history = read_active(folder)


def _write(one: KeptCorrection, folder: Path) -> None:
    """Write a version; what tells about it comes last, and only then it counts."""
    unhub.save(one.correction, folder / f"{one.name}.unhub")
    if one.bank is not None:
        write_kept_bank(folder / f"{one.name}.unhub", one.bank, replacing)
    write_about(folder, one.name, one.about)


def _read(folder: Path, name: str) -> KeptCorrection:
    saved = folder / f"{name}.unhub"
    return KeptCorrection(name, unhub.load(saved, "correction"), read_about(folder, name), read_kept_bank(saved))


def _same(first: Correction, second: Correction) -> bool:
    alike = first.spec == second.spec and np.array_equal(first.item_hashes, second.item_hashes)
    same_names = alike and np.array_equal(first.ids, second.ids) and first.arrays.keys() == second.arrays.keys()
    return same_names and all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)
