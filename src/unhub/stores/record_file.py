"""Records of stores that are files: one JSON file in their folder, replaced as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unhub.atomic import replacing
from unhub.errors import ArgumentError
from unhub.stores.store import Record

RECORD_FILE = "unhub_records.json"


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
    records = read_records(folder)
    if record is None and key not in records:
        return
    kept = {name: one for name, one in records.items() if name != key}
    content = json.dumps(kept if record is None else {**kept, key: record}, indent=1, ensure_ascii=False)
    try:
        with replacing(folder / RECORD_FILE) as path:
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ArgumentError("store", f"{folder}: records cannot be written: {error}") from None


def _unreadable(path: Path, problem: str) -> ArgumentError:
    return ArgumentError("store", f"{path} cannot be read as records: {problem}", "repair or remove it")
