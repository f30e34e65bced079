"""Keeping: what was read and fitted, in the user's cache folder, so that the next demo starts at once.

A kept file is named by a hash of every file that was read (path, size, time of change) and of unhub's own files, so
any change makes another name. Files appear whole or not at all; a damaged one is made again. The two entries last used
stay, older ones are removed. A cache that cannot be written is no error.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import unhub
from unhub.atomic import TEMPORARY_SUFFIX
from unhub.correction import Correction
from unhub.data.vectors import Vectors
from unhub.demo.functions.code_files import CodeFiles
from unhub.demo.functions.library import Collection
from unhub.files import load, save
from unhub.files.container import FORMAT, WHAT, is_replaceable, read_container, unhub_version, write_container

FUNCTIONS = "functions"
COLLECTION, CORRECTION = ".safetensors", ".unhub"  # endings of the two files of an entry
MOST_ENTRIES = 2
STRAY_SECONDS = 3600  # after which a file that was never finished is nobody's


def cache_folder() -> Path | None:
    """Return the folder in which unhub keeps what it can make again: of the user, by the custom of the platform."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        if given and os.path.isabs(given):
            return Path(given, "unhub")
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "unhub"
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local", "unhub", "Cache")
        return Path.home() / ".cache" / "unhub"
    except RuntimeError:  # there is no home
        return None


def key_of(code: CodeFiles) -> str:
    """Return a hash of the files to read and of unhub itself."""
    total = hashlib.blake2b(f"{unhub_version()}\0{sys.version}\0".encode(), digest_size=16)
    for path in sorted(Path(unhub.__file__).parent.rglob("*.py")):
        status = path.stat()
        total.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode(errors="surrogateescape"))
    for one in code.files:
        total.update(f"{one.label}\0{one.path}\0{one.size}\0{one.changed}\0".encode(errors="surrogateescape"))
    return total.hexdigest()


@dataclass(frozen=True)
class CacheEntry:
    """An entry of the cache: a collection and its correction, each there or not."""

    folder: Path | None
    key: str

    @staticmethod
    def of(code: CodeFiles) -> CacheEntry:
        """Return the entry of these files, in the user's cache folder."""
        return CacheEntry(cache_folder(), key_of(code))

    def _path(self, ending: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{FUNCTIONS}-{self.key}{ending}"

    def collection(self) -> Collection | None:
        """Return what was read, or None if it is not kept whole."""
        path = self._path(COLLECTION)
        with _missing():
            if path is None:
                return None
            manifest, tensors = read_container(path)
            if manifest.get(WHAT) != FUNCTIONS:
                return None
            told: dict[str, Any] = json.loads(tensors["texts"].tobytes())
            rows, asked = (tensors[name].astype(np.float32) for name in ("rows", "question_rows"))
            os.utime(path)  # used now
            return Collection(
                tuple(told["ids"]),
                tuple(told["names"]),
                rows,
                tuple(told["questions"]),
                asked,
                tuple(map(tuple, told["answers"])),
                tensors["weights"].astype(np.float32),
                told["packages"],
                told["copies"],
                told["unread"],
            )
        return None

    def correction(self, items: Vectors) -> Correction | None:
        """Return the correction of these items, or None if it is not kept whole."""
        path = self._path(CORRECTION)
        with _missing():
            if path is None:
                return None
            found = load(path, "correction")
            unhub.searcher(items, found)  # which refuses a correction of other items
            os.utime(path)
            return found
        return None

    def keep_collection(self, read: Collection) -> None:
        """Keep what was read, if the folder can be written."""
        told = {
            "ids": read.ids,
            "names": read.names,
            "questions": read.questions,
            "answers": read.answers,
            "packages": dict(read.packages),
            "copies": read.copies,
            "unread": read.unread,
        }
        tensors: dict[str, NDArray[np.generic]] = {
            "texts": np.frombuffer(json.dumps(told).encode(), np.uint8),
            "rows": read.rows.astype(np.float16),
            "question_rows": read.question_rows.astype(np.float16),
            "weights": read.weights,
        }
        path = self._path(COLLECTION)
        with suppress(OSError):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_container(path, {"format": FORMAT, WHAT: FUNCTIONS}, tensors, overwrite=True)
                _tidy(path.parent)

    def keep_correction(self, correction: Correction) -> None:
        """Keep a correction, if the folder can be written."""
        path = self._path(CORRECTION)
        with suppress(OSError):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                _remove_unsaved(path)
                save(correction, path)


@contextmanager
def _missing() -> Iterator[None]:
    """Pass over a file that is not there or is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        yield


def _remove_unsaved(path: Path) -> None:
    """Remove a file that is so damaged that saving would not replace it."""
    if path.is_file() and not is_replaceable(path):
        path.unlink()


def _tidy(folder: Path) -> None:
    """Remove all but the entries used last, and files that a killed process left."""
    now = time.time()
    for path in folder.glob(f".{FUNCTIONS}-*{TEMPORARY_SUFFIX}"):
        with suppress(OSError):
            if now - path.stat().st_mtime > STRAY_SECONDS:
                path.unlink()
    used: dict[str, float] = {}
    for path in folder.glob(f"{FUNCTIONS}-*"):
        with suppress(OSError):
            used[path.stem] = max(used.get(path.stem, 0.0), path.stat().st_mtime)
    for stem in sorted(used, key=lambda one: -used[one])[MOST_ENTRIES:]:
        for ending in (COLLECTION, CORRECTION):
            with suppress(OSError):
                (folder / f"{stem}{ending}").unlink(missing_ok=True)
