"""Records of stores that are files: one JSON file in their folder, replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from unhub.atomic import replacing
from unhub.errors import ArgumentError
from unhub.stores.store import Record

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

RECORD_FILE = "unhub_records.json"
LOCK_FILE = ".unhub_records.lock"


def read_records(folder: Path) -> dict[str, Record]:
    """Return the records kept in a folder, none if there is no file of them."""
    path = folder / RECORD_FILE
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise _unreadable(path, "it does not hold records by key")
    return found


def write_record(folder: Path, key: str, record: Record | None) -> None:
    """Keep a record in the file of a folder, or drop it; the file is the old one or the new one at any moment."""
    try:
        with _locked(folder):
            records = read_records(folder)
            if record is None and key not in records:
                return
            kept = {name: one for name, one in records.items() if name != key}
            content = json.dumps(kept if record is None else {**kept, key: record}, indent=1, ensure_ascii=False)
            with replacing(folder / RECORD_FILE) as path:
                path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ArgumentError("store", f"{folder}: records cannot be written: {error}") from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one writer at a time change the records, where the system has locks of files."""
    with (folder / LOCK_FILE).open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unreadable(path: Path, problem: str) -> ArgumentError:
    return ArgumentError("store", f"{path} cannot be read as records: {problem}", "repair or remove it")
