"""Work that survives a kill: rows and a journal in a folder of their own, which becomes the output once it is whole.

The journal has a line for each batch, written after its rows, with their checksum: what a kill or a power cut left
half-written is found by it and done again.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.atomic import beside, replacing, strays
from unhub.embed.holding import hold
from unhub.files.embedded import IDS, MANIFEST, ROWS, UNFINISHED, Manifest, Task, is_embedded, read_embedding_manifest

TASK, JOURNAL = "task.json", "journal.jsonl"
OURS = {ROWS, IDS, MANIFEST, TASK, JOURNAL}
HEADER = 128  # bytes before the rows, for the head of a .npy file, which is written last
DTYPE = np.dtype("<f2")
OLD = ".old"  # what is replaced, for a moment
FREE_TO_MOVE = os.name == "posix"  # a folder may be renamed or removed while one of its files is open
REMEDY = "name another output, or restart=True to begin anew"


@dataclass(frozen=True, eq=False)
class Batch:
    """What came of the inputs up to `stop`: rows, inputs that were skipped and why, how many texts were cut."""

    stop: int
    rows: NDArray[np.float16]
    skipped: Mapping[int, str] = field(default_factory=dict)
    truncated: int = 0


@dataclass(frozen=True)
class Line:
    """A batch as the journal has it."""

    stop: int
    rows: int
    dimensions: int
    checksum: int
    skipped: Mapping[str, str]
    truncated: int


class Work:
    """A task that is under way: what is done of it, and where more is added."""

    def __init__(self, output: Path, task: Task, restart: bool) -> None:
        self.output, self.folder = output, output.with_name(output.name + UNFINISHED)
        self.task = task
        self.folder.mkdir(exist_ok=True)
        self._journal = hold(self.folder / JOURNAL)
        for stray in _strays(self.folder):  # of a kill while a file was written
            stray.unlink()
        if restart and not self._restarted():
            self._journal.truncate(0)
            for name in OURS - {JOURNAL}:
                (self.folder / name).unlink(missing_ok=True)
        self._begin(restart)
        self._rows = self._open_rows()
        self.lines = list(self._sound_lines())

    @property
    def done(self) -> int:
        """How many inputs are dealt with."""
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

    def add(self, batch: Batch) -> None:
        """Write what came of a batch; the rows first, so that a line of the journal never promises too much."""
        content = np.ascontiguousarray(batch.rows, DTYPE).tobytes()
        self._rows.write(content)
        self._rows.flush()
        skipped = {str(position): reason for position, reason in batch.skipped.items()}
        line = Line(batch.stop, len(batch.rows), batch.rows.shape[1], zlib.crc32(content), skipped, batch.truncated)
        self._journal.write(json.dumps(asdict(line)).encode() + b"\n")
        self._journal.flush()
        self.lines.append(line)

    def finish(self, ids: Ids, manifest: Manifest) -> None:
        """Make the folder whole and give it the name of the output."""
        head = io.BytesIO()
        shape = (self.rows, self.dimensions)
        np.lib.format.write_array_header_1_0(head, {"descr": DTYPE.str, "fortran_order": False, "shape": shape})
        # The head is padded to a multiple of 64 bytes: more spaces make it as long as the place that was kept for it.
        text = head.getvalue()[10:].rstrip(b" \n").ljust(HEADER - 11) + b"\n"
        self._rows.seek(0)
        self._rows.write(head.getvalue()[:8] + len(text).to_bytes(2, "little") + text)
        self._rows.flush()
        os.fsync(self._rows.fileno())
        self._rows.close()
        _write(self.folder / IDS, ids.tolist())
        _write(self.folder / MANIFEST, manifest)
        held, due = (self.folder / ROWS).stat().st_size, HEADER + self.rows * self.dimensions * DTYPE.itemsize
        if held != due:
            raise OSError(f"output: {self.folder / ROWS} has {held:,} bytes, {due:,} were written; run it again")
        if not FREE_TO_MOVE:
            self._journal.close()
        _take_place(self.folder, self.output)
        for name in (JOURNAL, TASK):  # not before: with them, a kill on these last steps costs nothing
            (self.output / name).unlink()
        self._journal.close()  # and with it the lock, under which all of this was done

    def close(self) -> None:
        """Let go of the files, so that the work can be taken up again; where no row was made, nothing is left."""
        self._rows.close()
        if not FREE_TO_MOVE:
            self._journal.close()
        if not self.rows:
            _discard(self.folder)
        self._journal.close()

    def _restarted(self) -> bool:
        """Whether what is under way is this very task, begun by a restart: to repeat that is to go on."""
        try:
            begun = json.loads((self.folder / TASK).read_text(encoding="utf-8"))
            return begun["restart"] is True and difference(self.task, begun) is None
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # not there, or not of this version
            return False

    def _begin(self, restart: bool) -> None:
        """Write down what is to be done, or make sure that it is what was begun."""
        path = self.folder / TASK
        if not path.exists():
            _write(path, {**self.task, "restart": restart})
        differs = difference(self.task, json.loads(path.read_text(encoding="utf-8")))
        if differs:
            self._journal.close()
            raise ValueError(f"output: {self.folder} was begun with {differs}; go on as it was begun, {REMEDY}")

    def _open_rows(self) -> BinaryIO:
        path = self.folder / ROWS
        if not path.exists():
            path.write_bytes(bytes(HEADER))
        return path.open("r+b")

    def _sound_lines(self) -> Iterator[Line]:
        """Yield the lines of the journal whose rows are there as they were written, and cut off what follows them."""
        path, kept, end = self.folder / JOURNAL, 0, HEADER
        self._rows.seek(HEADER)
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
        self._rows.truncate(max(end, HEADER))
        self._rows.seek(end)


def difference(task: Task, other: Task) -> str | None:
    """Return in what another task differs from this one, None where it is the same."""
    if task["kind"] != other["kind"]:
        return f"{other['kind']}, not {task['kind']}"
    if task["inputs"] != other["inputs"]:
        return f"other inputs ({other['inputs']['count']:,} then, {task['inputs']['count']:,} now)"
    if task["model"]["digest"] != other["model"]["digest"]:
        return f"another model ({other['model']['name']})"
    if task["settings"] != other["settings"]:
        return f"other settings ({other['settings']}, now {task['settings']})"
    return None


def check_output(output: Path, inputs: Path | None) -> None:
    """Raise where a folder cannot be written to `output`, or would stand in the way of something else."""
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"output: {output} is a file; name a folder to write")
    _check_ours(output)
    _check_ours(output.with_name(output.name + UNFINISHED), unfinished=True)
    if is_embedded(output):
        read_embedding_manifest(output)  # one that is not ours must not be replaced
    if not output.parent.is_dir():
        raise FileNotFoundError(f"output: there is no folder {output.parent}; create it first")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"output: no permission to write into the folder {output.parent}")
    if inputs is not None and inputs.is_dir() and inputs.resolve() in (output.resolve(), *output.resolve().parents):
        raise ValueError(f"output: {output} lies within the inputs; name a folder elsewhere")


def _take_place(folder: Path, output: Path) -> None:
    """Give a folder the name of the output; what was there goes once the new one has its place."""
    _check_ours(output)  # again: it may be long since the work began
    if output.exists():
        output.rename(beside(output, OLD))
    folder.rename(output)
    for old in strays(output, OLD):
        _discard(old)


def _check_ours(folder: Path, unfinished: bool = False) -> None:
    """Raise where a folder holds what we did not write; one that is finished has a manifest, or nothing of ours."""
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    ours = OURS if unfinished or MANIFEST in held else set()
    others = held - ours - {stray.name for stray in _strays(folder)}
    if others:
        raise ValueError(f"output: {folder} holds other files, such as {min(others)}; name a new folder")


def _strays(folder: Path) -> list[Path]:
    return [stray for name in OURS for stray in strays(folder / name)]


def _discard(folder: Path) -> None:
    """Remove a folder of ours; where something else has come into it, that stays."""
    for path in (*_strays(folder), *(folder / name for name in OURS)):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


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
