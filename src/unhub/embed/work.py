"""Work that survives a kill: rows and a journal in a folder of their own, which becomes the output at the end.

The journal has a line for each batch, written after its rows, with their checksum. It shows what a kill or a power cut
left half-written, which is then done again.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.atomic import replacing
from unhub.embed.output import JOURNAL, OUR_FILES, TASK, discard, lock, stray_files, take_place, unfinished
from unhub.errors import ArgumentError
from unhub.files.embedded import IDS, MANIFEST, ROWS, EmbeddingManifest, EmbeddingTask

HEADER_BYTES = 128  # before the rows, for the header of a .npy file, which is written last
DTYPE = np.dtype("<f2")
CAN_MOVE_OPEN_FILES = os.name == "posix"  # a folder may be renamed or removed while one of its files is open
REMEDY = "name another output, or restart to begin again"


@dataclass(frozen=True, eq=False)
class EmbedBatch:
    """The results of the inputs up to `stop`: rows, skipped inputs with the reasons, how many texts were cut."""

    stop: int
    rows: NDArray[np.float16]
    skipped: Mapping[int, str] = field(default_factory=dict)
    truncated: int = 0


@dataclass(frozen=True)
class Line:
    """A batch in the journal."""

    stop: int
    rows: int
    dimensions: int
    checksum: int
    skipped: Mapping[str, str]
    truncated: int


class Work:
    """A task in progress: what is done, and where more is added."""

    def __init__(self, output: Path, task: EmbeddingTask, restart: bool) -> None:
        self.output, self.folder = output, unfinished(output)
        self.task = task
        self.folder.mkdir(exist_ok=True)
        self._journal = lock(self.folder / JOURNAL)
        for stray in stray_files(self.folder):
            stray.unlink()
        if restart and not self._restarted():
            self._journal.truncate(0)
            for name in OUR_FILES - {JOURNAL}:
                (self.folder / name).unlink(missing_ok=True)
        self._begin(restart)
        self._rows = self._open_rows()
        self.lines = list(self._sound_lines())

    @property
    def done(self) -> int:
        """How many inputs are done, skipped ones included."""
        return self.lines[-1].stop if self.lines else 0

    @property
    def rows(self) -> int:
        return sum(line.rows for line in self.lines)

    @property
    def dimensions(self) -> int:
        return max((line.dimensions for line in self.lines), default=0)

    @property
    def truncated(self) -> int:
        return sum(line.truncated for line in self.lines)

    @property
    def skipped(self) -> dict[int, str]:
        """Why inputs have no row, by their position."""
        return {int(position): reason for line in self.lines for position, reason in line.skipped.items()}

    def add(self, batch: EmbedBatch) -> None:
        """Write a batch: the rows first, so that a line of the journal never refers to missing rows."""
        content = np.ascontiguousarray(batch.rows, DTYPE).tobytes()
        self._rows.write(content)
        self._rows.flush()
        skipped = {str(position): reason for position, reason in batch.skipped.items()}
        line = Line(batch.stop, len(batch.rows), batch.rows.shape[1], zlib.crc32(content), skipped, batch.truncated)
        self._journal.write(json.dumps(asdict(line)).encode() + b"\n")
        self._journal.flush()
        self.lines.append(line)

    def finish(self, ids: Ids, manifest: EmbeddingManifest) -> None:
        """Complete the files and rename the folder to the output."""
        head = io.BytesIO()
        shape = (self.rows, self.dimensions)
        np.lib.format.write_array_header_1_0(head, {"descr": DTYPE.str, "fortran_order": False, "shape": shape})
        # numpy pads a header to a multiple of 64 bytes; more spaces make it as long as the bytes reserved for it.
        text = head.getvalue()[10:].rstrip(b" \n").ljust(HEADER_BYTES - 11) + b"\n"
        self._rows.seek(0)
        self._rows.write(head.getvalue()[:8] + len(text).to_bytes(2, "little") + text)
        self._rows.flush()
        os.fsync(self._rows.fileno())
        self._rows.close()
        _write(self.folder / IDS, ids.tolist())
        _write(self.folder / MANIFEST, manifest)
        held, due = (self.folder / ROWS).stat().st_size, HEADER_BYTES + self.rows * self.dimensions * DTYPE.itemsize
        if held != due:
            raise OSError(f"{self.folder / ROWS} has {held:,} bytes, {due:,} were written; run it again")
        if not CAN_MOVE_OPEN_FILES:
            self._journal.close()
        take_place(self.folder, self.output)
        for name in (JOURNAL, TASK):  # last, so that work killed before this can be taken up again
            (self.output / name).unlink()
        self._journal.close()  # which also releases the lock

    def close(self) -> None:
        """Close the files, so that the work can be taken up again; remove them if no row was made."""
        self._rows.close()
        if not CAN_MOVE_OPEN_FILES:
            self._journal.close()
        if not self.rows:
            discard(self.folder)
        self._journal.close()

    def _restarted(self) -> bool:
        """Whether the work found is this very task, begun by a restart: then another restart continues it."""
        try:
            begun = json.loads((self.folder / TASK).read_text(encoding="utf-8"))
            return begun["restart"] is True and difference(self.task, begun) is None
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # missing, or of another version
            return False

    def _begin(self, restart: bool) -> None:
        """Write the task to disk, or check that it is the one that was begun."""
        path = self.folder / TASK
        if not path.exists():
            _write(path, {**self.task, "restart": restart})
        differs = difference(self.task, json.loads(path.read_text(encoding="utf-8")))
        if differs:
            self._journal.close()
            raise ArgumentError(
                "output", f"{self.folder} was begun with {differs}", f"continue with what it was begun with, {REMEDY}"
            )

    def _open_rows(self) -> BinaryIO:
        path = self.folder / ROWS
        if not path.exists():
            path.write_bytes(bytes(HEADER_BYTES))
        return path.open("r+b")

    def _sound_lines(self) -> Iterator[Line]:
        """Yield the lines of the journal whose rows are on disk as written, and cut off everything after them."""
        path, kept, end = self.folder / JOURNAL, 0, HEADER_BYTES
        self._rows.seek(HEADER_BYTES)
        for text in path.read_bytes().splitlines(keepends=True):
            line = _parse(text)
            if line is None:
                break
            content = self._rows.read(line.rows * line.dimensions * DTYPE.itemsize)
            if zlib.crc32(content) != line.checksum:
                break
            kept, end = kept + len(text), self._rows.tell()
            yield line
        self._journal.truncate(kept)
        self._rows.truncate(max(end, HEADER_BYTES))
        self._rows.seek(end)


def difference(task: EmbeddingTask, other: EmbeddingTask) -> str | None:
    """Return how another task differs from this one, None if it is the same."""
    if task["kind"] != other["kind"]:
        return f"{other['kind']}, not {task['kind']}"
    if task["inputs"] != other["inputs"]:
        counts = f"{other['inputs']['count']:,} then, {task['inputs']['count']:,} now"
        return f"other inputs ({counts}): an id, or what a text or a file holds, has changed"
    if task["model"]["digest"] != other["model"]["digest"]:
        return f"another model ({other['model']['name']})"
    if task["settings"] != other["settings"]:
        return f"other settings ({other['settings']}, now {task['settings']})"
    return None


def _parse(text: bytes) -> Line | None:
    if not text.endswith(b"\n"):
        return None
    try:
        return Line(**json.loads(text))
    except (ValueError, TypeError):
        return None


def _write(path: Path, content: object) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
