"""Unfinished: what is being made or dropped is noted beforehand, so that after a kill it is found and dropped."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from unhub.deploying.deployment import Deployment
from unhub.stores.store import Record, Store

UNFINISHED = "unfinished:"  # and the key of a deployment: the key of the note that it is being made or dropped


@contextlib.contextmanager
def making(place: Store, one: Deployment, target: Store | None = None) -> Iterator[None]:
    """Note a deployment while it is made, within which its record is kept; drop it if anything stops it.

    target: the collection that is written, which may hold open files.
    """
    note = f"{UNFINISHED}{one.key}"
    try:
        place.put_record(note, {**one.to_json(), **_owner()})
        yield
        place.put_record(note, None)
    except BaseException:
        with contextlib.suppress(Exception):
            if target is not None:
                target.drop()
            drop_made(place, one)
        raise


def drop_made(place: Store, one: Deployment) -> None:
    """Drop a deployment: first its record, so that nobody takes it for a whole one."""
    note = f"{UNFINISHED}{one.key}"
    place.put_record(note, {**one.to_json(), **_owner()})
    place.put_record(one.key, None)
    if one.mode == "vectors":
        place.sibling(one.collection).drop()
    elif type(place).drop_field is not Store.drop_field:  # else the engine has no fields
        place.drop_field(one.field)
        place.settle()
    place.put_record(note, None)


def _owner() -> dict[str, object]:
    return {"host": platform.node(), "process": os.getpid(), "began": _began(os.getpid())}


def _is_running(record: Record) -> bool:
    """Return whether the process of a note is another one of this machine and alive; its number may be used again."""
    process = record.get("process")
    if record.get("host") != platform.node() or process in (None, os.getpid()):
        return False
    began = _began(int(cast("int", process)))
    return began is not None and began == record.get("began", began)


def _began(process: int) -> str | None:
    """Return when a process began, "" where the system does not tell; None if it has ended, waited for or not."""
    if os.name != "posix":
        return None  # where a signal, even none, ends a process
    try:
        # After the name of the program, which may hold anything: the state, and nineteen places later the beginning.
        told = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return None if told[0] in "ZX" else told[19]
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except PermissionError:
        return ""
    except OSError:
        return None
    return ""


def drop_debris(place: Store) -> tuple[str, ...]:
    """Drop what killed deployments of a collection left behind, and return notes that say what."""
    dropped, records = [], place.records()
    for key, record in records.items():
        if not key.startswith(UNFINISHED) or (one := Deployment.from_json(record)).source != place.name:
            continue
        if _is_running(record):
            raise place.failed(f"{one.what} is being made or dropped by another process", "wait until it is done")
        if one.key in records:  # it was finished, or not yet dropped
            place.put_record(key, None)
        else:
            drop_made(place, one)
            dropped.append(one.what)
    return tuple(f"{what}, which a stopped deployment had left behind, was dropped." for what in dropped)
