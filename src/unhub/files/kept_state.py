"""What `unhub serve --state` keeps beside versions: the banks of refits, items that were added, and marks."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.atomic import TEMPORARY_SUFFIX
from unhub.data.vectors import Rows, Vectors
from unhub.files.joint_change import JointChange
from unhub.files.numpy_files import map_npy, read_npz
from unhub.files.query_logs import LINES, is_query_log, log_dimensions, map_segment, segments, whole_rows
from unhub.files.readers import read_vectors
from unhub.files.version_folders import BANK_ENDING, ENDINGS, WEIGHTS_ENDING, names_in

Replaces: TypeAlias = Callable[[Path], AbstractContextManager[Path]]

ITEMS, MARKS = "items", "marks"
QUERIES, RELEVANCE = "queries", "relevance.csv"  # of the marks
OWN_FILE = rf"(v[0-9]+)(?:{'|'.join(map(re.escape, ENDINGS))})"
PART, STRAY = re.compile(OWN_FILE), re.compile(rf"\.{OWN_FILE}\.[0-9a-f]{{8}}{re.escape(TEMPORARY_SUFFIX)}")


def read_kept_bank(version: Path) -> Vectors | None:
    """Map the bank that was kept with a version: there may be many, of a hundred thousand queries."""
    path, weights = version.with_suffix(BANK_ENDING), version.with_suffix(WEIGHTS_ENDING)
    if not path.is_file():
        return None
    bank = read_vectors(path)
    return bank.weighing(np.array(map_npy(weights), np.float64)) if weights.is_file() else bank


def write_kept_bank(version: Path, bank: Vectors, replaces: Replaces) -> None:
    """Write the bank of a version. replaces: yields the file that takes the place of another."""
    with replaces(version.with_suffix(BANK_ENDING)) as path, path.open("wb") as file:
        np.save(file, bank.block(0, len(bank)))
    if bank.weights is not None:
        with replaces(version.with_suffix(WEIGHTS_ENDING)) as path, path.open("wb") as file:
            np.save(file, bank.weights)


def leftovers(folder: Path, of_service: bool) -> list[Path]:
    """Return what killed writers left in a folder of versions, which may hold files of its owner too.

    of_service: whether it is the state of a service, where a part of a version that does not count is none of those.
    """
    counted = {*names_in(folder)}
    found = []
    for path in sorted(folder.iterdir()):
        part = PART.fullmatch(path.name) if of_service else None
        is_left = STRAY.fullmatch(path.name) or (part is not None and part[1] not in counted)
        if is_left and path.is_file():
            found.append(path)
    return found


def added_rows(state: Path) -> list[Rows]:
    """Return the rows of items that were added while a service ran."""
    named = [path for path in (state / ITEMS).glob("*.npz") if path.stem.isdecimal()]
    held = [read_npz(path).rows for path in sorted(named, key=lambda path: int(path.stem))]
    return [rows for rows in held if rows.shape[0]]


@dataclass(frozen=True, eq=False)
class FoundMarks:
    """Which marks are to go: a mask for each segment of their queries, in order."""

    folder: Path
    gone: tuple[tuple[Path, NDArray[np.bool_]], ...]

    def __len__(self) -> int:
        return sum(int(mask.sum()) for _, mask in self.gone)


def find_marks(state: Path, is_gone: Callable[[Float32], NDArray[np.bool_]]) -> FoundMarks:
    """Find the marks of these queries."""
    folder = state / MARKS
    if not is_query_log(folder / QUERIES):
        return FoundMarks(folder, ())
    width = log_dimensions(folder / QUERIES)
    counts = {path: whole_rows(path, width) for path in segments(folder / QUERIES)}
    found = [(path, is_gone(map_segment(path, count, width))) for path, count in counts.items() if count]
    return FoundMarks(folder, tuple(found))


def remove_marks(change: JointChange, found: FoundMarks) -> None:
    """Write the marks without those, numbered anew: a label names the place of its query."""
    if not len(found):
        return
    width, first, kept = log_dimensions(found.folder / QUERIES), 0, 0
    numbers: dict[str, int] = {}
    for path, gone in found.gone:
        stays = np.flatnonzero(~gone)
        numbers |= {str(first + place): kept + number for number, place in enumerate(stays.tolist())}
        _write_marked(change, path, map_segment(path, len(gone), width), stays, kept)
        first, kept = first + len(gone), kept + len(stays)
    with (found.folder / RELEVANCE).open(encoding="utf-8", newline="") as file:
        head, *labels = [row for row in csv.reader(file) if row]
    text = io.StringIO()
    left = [[numbers[row[0]], *row[1:]] for row in labels if row[0] in numbers]
    csv.writer(text, lineterminator="\n").writerows([head, *left])
    with change.replacing(found.folder / RELEVANCE) as new:
        new.write_text(text.getvalue(), "utf-8")


def _write_marked(change: JointChange, path: Path, rows: Float32, stays: NDArray[np.int64], first: int) -> None:
    lines = path.with_suffix(LINES)
    if not len(stays):
        change.delete(path)
        change.delete(lines)
        return
    with change.replacing(path) as new, new.open("wb") as file:
        file.write(rows[stays].tobytes())
    told = lines.read_bytes().split(b"\n")
    with change.replacing(lines) as new:
        written = [{**json.loads(told[place]), "id": first + number} for number, place in enumerate(stays.tolist())]
        new.write_text("".join(json.dumps(one) + "\n" for one in written), "utf-8")
