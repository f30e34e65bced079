"""Logs of queries, as `unhub serve --log` writes them: a folder of segments, read up to the last whole query.

A segment is NNNNNN.vectors, raw float32 rows, and NNNNNN.jsonl, a line for each row: what was returned, when, by which
version. A row counts once its line is whole; so whatever a killed writer left behind, the rest is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from unhub.data.vectors import Stacked
from unhub.files.declared import Count, Natural, as_declared, parse_json
from unhub.files.joint_change import check_finished
from unhub.files.numpy_files import FoundRows, no_ids

LOG_FORMAT = 1
ABOUT = "log.json"
VECTORS, LINES = ".vectors", ".jsonl"
ROW_TYPE = np.dtype("<f4")
SEGMENT = re.compile(r"[0-9]{6,}")
CHUNK_BYTES = 1 << 20


class LogManifest(TypedDict):
    """What a log says about itself: the version of its format, and how many dimensions its queries have.

    next: the number of the next query at least, where the last ones were forgotten.
    """

    query_log: Count
    dimensions: Count
    next: NotRequired[Natural]


def is_query_log(folder: Path) -> bool:
    """Return whether a folder is a log of queries."""
    return (folder / ABOUT).is_file()


def read_query_log(folder: Path) -> FoundRows:
    """Map the whole rows of every segment, oldest first, numbered from 0."""
    dimensions = log_dimensions(folder)
    counts = {path: whole_rows(path, dimensions) for path in segments(folder)}
    parts = [map_segment(path, count, dimensions) for path, count in counts.items() if count]
    if not parts:
        raise ValueError(f"{folder}: is a log without a query yet; search first")
    return FoundRows(Stacked(parts), no_ids)


def log_dimensions(folder: Path) -> int:
    """Return how many dimensions the queries of a log have."""
    return read_log_manifest(folder)["dimensions"]


def read_log_manifest(folder: Path) -> LogManifest:
    """Return what a log says about itself."""
    check_finished(folder)
    about = folder / ABOUT
    try:
        told: LogManifest = as_declared(parse_json(about.read_bytes()), LogManifest, "it")
    except ValueError as error:
        raise ValueError(f"{about}: is not what `unhub serve --log` wrote ({error})") from None
    if told["query_log"] > LOG_FORMAT:
        raise ValueError(
            f"{about}: written by a newer unhub (format {told['query_log']}, this one reads up to {LOG_FORMAT}): "
            "upgrade unhub"
        )
    return told


def write_log_manifest(path: Path, manifest: LogManifest) -> None:
    """Write what a log says about itself."""
    path.write_text(json.dumps(manifest) + "\n", "utf-8")


def next_number(folder: Path) -> int:
    """Return the number of the next query: above that of the last one, also where queries before it were forgotten."""
    told = read_log_manifest(folder)
    counts = {path: whole_rows(path, told["dimensions"]) for path in segments(folder)}
    last = next((path for path in reversed(counts) if counts[path]), None)
    after = 0 if last is None else _number_in(last.with_suffix(LINES), counts[last]) + 1
    return max(after, told.get("next", 0), sum(counts.values()))


def _number_in(path: Path, line: int) -> int:
    """Return the number of the query in a line, counted from 1; -1 if it has none."""
    with path.open("rb") as file:
        for _ in range(line - 1):
            file.readline()
        try:
            number = json.loads(file.readline())["id"]
        except (ValueError, KeyError, TypeError):
            return -1
    return number if type(number) is int else -1


def segments(folder: Path) -> list[Path]:
    """Return the files of rows, in the order of their numbers."""
    named = [path for path in folder.glob(f"*{VECTORS}") if SEGMENT.fullmatch(path.stem)]
    return sorted(named, key=lambda path: int(path.stem))


def whole_rows(path: Path, dimensions: int) -> int:
    """Return how many rows of a segment are whole and have a whole line."""
    lines = path.with_suffix(LINES)
    if not lines.is_file():
        return 0
    return min(path.stat().st_size // (dimensions * ROW_TYPE.itemsize), sum(_line_ends(lines)))


def _line_ends(path: Path) -> Iterator[int]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk.count(b"\n")


def map_segment(path: Path, count: int, dimensions: int) -> NDArray[np.float32]:
    """Map the first rows of a segment."""
    return np.memmap(path, ROW_TYPE, "r", shape=(count, dimensions))
