"""Corrections kept as versions: which is active, which were before; in a folder, or in memory alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import unhub
from unhub.atomic import replacing
from unhub.correction import Correction
from unhub.data.vectors import Vectors
from unhub.files.declared import as_declared, parse_json
from unhub.service.limits import Refused

MOST_VERSIONS = 20  # the oldest that is neither active nor the way back is dropped
ACTIVE = "active.json"


@dataclass(frozen=True)
class History:
    """The active version, and those that were active before it, the last one last."""

    active: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class About:
    """What is told of a version: when and why it was made, and how it was judged."""

    when: float
    why: str
    offered: bool = False
    judged: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class KeptCorrection:
    """A correction under a name. bank: what it was fitted on, where that is not the bank of the service."""

    name: str
    correction: Correction
    about: About
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
        self.history: History | None = None
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

    def add(self, correction: Correction, about: About, bank: Vectors | None = None) -> KeptCorrection:
        """Keep a correction under the next name."""
        with self._lock:
            self._last += 1
            made = KeptCorrection(f"v{self._last}", correction, about, bank)
            if self.folder is not None:
                _write(made, self.folder)
                made = replace(made, bank=_kept_bank(self.folder / f"{made.name}.json"))
            self._kept[made.name] = made
            self._drop_oldest()
            return made

    def activate(self, name: str) -> None:
        """Make a version the active one; the one before is the way back."""
        with self._lock:
            one = self[name]
            before = () if self.history is None else (*self.history.before, self.history.active)
            if one.about.offered:
                self._replace(replace(one, about=replace(one.about, offered=False)))
            if self.history is None or self.history.active != name:  # last: only now it is done
                self._put(History(name, before[-MOST_VERSIONS:]))

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
            self._put(History(name, self.history.before[:-1]))

    def drop(self, name: str) -> None:
        """Forget a version, unless it is active or the way back."""
        with self._lock:
            if name in self._kept and name not in self._needed():
                self._forget(name)

    def _needed(self) -> tuple[str, ...]:
        return () if self.history is None else (self.history.active, *self.history.before[-1:])

    def _put(self, history: History) -> None:
        if self.folder is not None:
            told = {"active": history.active, "before": list(history.before)}
            with replacing(self.folder / ACTIVE) as path:
                path.write_text(json.dumps(told), "utf-8")
        self.history = history

    def _replace(self, one: KeptCorrection) -> None:
        if self.folder is not None:
            _write_about(one, self.folder)
        self._kept[one.name] = one

    def _drop_oldest(self) -> None:
        needed = self._needed()
        spare = [name for name in self._kept if name not in needed][:-1]  # never the one that was just added
        for name in spare[: max(0, len(self._kept) - MOST_VERSIONS)]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        if self.history is not None and name in self.history.before:
            kept = tuple(one for one in self.history.before if one != name)
            self._put(replace(self.history, before=kept))
        del self._kept[name]
        if self.folder is not None:
            (self.folder / f"{name}.json").unlink(missing_ok=True)  # first: without it the others are no version
            for path in self.folder.glob(f"{name}.*"):
                path.unlink(missing_ok=True)

    def _load(self, folder: Path) -> None:
        numbers = (path.name[1:].partition(".")[0] for path in folder.glob("v*"))  # also of parts that were left
        self._last = max((int(one) for one in numbers if one.isdecimal()), default=0)
        told = [path for path in folder.glob("v*.json") if path.stem[1:].isdecimal()]
        for path in sorted(told, key=lambda path: int(path.stem[1:])):
            self._kept[path.stem] = _read(path)
        active = folder / ACTIVE
        if active.is_file():
            history = _declared(active, History)
            known = [name for name in history.before if name in self._kept]
            if history.active not in self._kept:
                raise ValueError(f"{active}: the active version {history.active!r} is not in {folder}")
            self.history = History(history.active, tuple(known))


def _write(one: KeptCorrection, folder: Path) -> None:
    """Write a version; what tells about it comes last, and only then it counts."""
    unhub.save(one.correction, folder / f"{one.name}.unhub")
    if one.bank is not None:
        with replacing(folder / f"{one.name}.bank.npy") as path, path.open("wb") as file:
            np.save(file, one.bank.block(0, len(one.bank)))
    _write_about(one, folder)


def _write_about(one: KeptCorrection, folder: Path) -> None:
    about = one.about
    told = {"when": about.when, "why": about.why, "offered": about.offered, "judged": about.judged}
    with replacing(folder / f"{one.name}.json") as path:
        path.write_text(json.dumps(told), "utf-8")


def _read(path: Path) -> KeptCorrection:
    correction = unhub.load(path.with_suffix(".unhub"), "correction")
    return KeptCorrection(path.stem, correction, _declared(path, About), _kept_bank(path))


def _kept_bank(path: Path) -> Vectors | None:
    """Return the bank beside what tells about a version, mapped: there may be many, of a hundred thousand queries."""
    bank = path.with_suffix(".bank.npy")
    return unhub.read_vectors(bank) if bank.is_file() else None


def _declared(path: Path, kind: Any) -> Any:
    try:
        return as_declared(parse_json(path.read_bytes()), kind, "it")
    except ValueError as error:
        raise ValueError(f"{path}: is not what `unhub serve --state` wrote ({error})") from None


def _same(first: Correction, second: Correction) -> bool:
    alike = first.spec == second.spec and np.array_equal(first.item_hashes, second.item_hashes)
    same_names = alike and np.array_equal(first.ids, second.ids) and first.arrays.keys() == second.arrays.keys()
    return same_names and all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)


def now_because(why: str) -> About:
    """Return what is told of a version that is made now."""
    return About(time.time(), why)
