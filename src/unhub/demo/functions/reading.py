"""Reading: the functions of many files, in several processes where that is possible, in the order of the files.

A process of its own reads a line with paths and writes a line with what is in the files, until its input ends. It is
started like a program, not forked, so it needs nothing of the one that started it. Where none can be started, or one
ends too soon, this process reads the rest.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.compute.workers import Progress, thread_count
from unhub.demo.functions.code_files import CodeFile
from unhub.demo.functions.extracting import Function, UnreadableCode, functions_in, spaced
from unhub.demo.words import TABLE, Words, load_words

BATCH_BYTES = 400_000  # of source that a process reads at a time
LEAST_BYTES = 1_500_000  # of source that are worth starting processes for
MOST_PROCESSES = 4
POLL_SECONDS = 0.05
Places: TypeAlias = NDArray[np.uint16]  # of word pieces in the table

PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from unhub.demo.functions.reading import serve
serve()
"""


@dataclass(frozen=True, eq=False)
class FoundFunction:
    """A function that was read: where, its name, its question, the word pieces of both, and a hash of its code."""

    line: int
    name: str
    question: str
    asked: Places
    code: Places
    digest: str


Found: TypeAlias = list[FoundFunction] | None  # of one file; None if it cannot be read


def read_functions(
    files: Sequence[CodeFile], threads: int | None = None, progress: Progress | None = None
) -> list[Found]:
    """Return the functions of each file, or None for a file that cannot be read or is not Python."""
    batches = list(_batches(files))
    waiting: deque[tuple[int, list[CodeFile]]] = deque(enumerate(batches))
    done: list[list[Found]] = [[] for _ in batches]
    whole = sum(one.size for one in files)
    worth = len(batches) if whole >= LEAST_BYTES else 1
    readers = _start(min(thread_count(threads), MOST_PROCESSES, worth))

    def drive(reader: subprocess.Popen[str]) -> None:
        while waiting:
            try:
                number, batch = waiting.popleft()
            except IndexError:
                return
            try:
                done[number] = _ask(reader, batch)
            except (OSError, ValueError):  # it ended; the batch goes back to the others
                waiting.append((number, batch))
                return

    def look() -> None:
        if progress is not None:
            read = sum(one.size for number, batch in enumerate(batches) if done[number] for one in batch)
            progress(read, max(whole, 1))

    threads_of = [Thread(target=drive, args=(reader,), daemon=True) for reader in readers]
    try:
        for thread in threads_of:
            thread.start()
        for thread in threads_of:
            while thread.is_alive():
                thread.join(POLL_SECONDS)
                look()
        words = load_words(TABLE) if waiting else None
        while waiting and words is not None:
            number, batch = waiting.popleft()
            done[number] = [read_file(one.path, words) for one in batch]
            look()
    finally:
        for reader in readers:
            _stop(reader)
    return [one for batch in done for one in batch]


def read_file(path: str, words: Words) -> Found:
    """Return the functions of one file, or None if it cannot be read or is not Python."""
    try:
        return [_found(one, words) for one in functions_in(Path(path).read_bytes())]
    except (OSError, UnreadableCode, RecursionError):  # the last for code nested too deep, such as a thousand elifs
        return None


def _found(one: Function, words: Words) -> FoundFunction:
    digest = hashlib.blake2b(one.code.encode(), digest_size=16).hexdigest()
    asked, code = (np.array(words.places(text), np.uint16) for text in (spaced(one.question), one.code))
    return FoundFunction(one.line, one.name, one.question, asked, code, digest)


def _batches(files: Sequence[CodeFile]) -> Iterator[list[CodeFile]]:
    batch: list[CodeFile] = []
    for one in files:
        batch.append(one)
        if sum(each.size for each in batch) >= BATCH_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


# The other processes.


def serve() -> None:
    """Read lines with paths from stdin and write a line with what is in the files, until nothing more comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    gc.disable()  # trees of code are many objects and no circles
    words = load_words(TABLE)
    for line in sys.stdin:
        found = [_packed(read_file(path, words)) for path in json.loads(line)]
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def _start(count: int) -> list[subprocess.Popen[str]]:
    """Return this many processes that read, or none where they cannot be started or one would not be worth it."""
    # Inside another program, such as one made of this one, the executable is not Python.
    if count < 2 or not Path(sys.executable or "").stem.lower().startswith(("python", "pypy")):
        return []
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, json.dumps(sys.path)]
    started: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            started.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    encoding="ascii",
                )
            )
    except OSError:  # no more processes, or none at all
        pass
    except BaseException:
        for one in started:
            _stop(one)
        raise
    return started


def _ask(reader: subprocess.Popen[str], batch: Iterable[CodeFile]) -> list[Found]:
    assert reader.stdin is not None and reader.stdout is not None
    reader.stdin.write(json.dumps([one.path for one in batch]) + "\n")
    reader.stdin.flush()
    return [_unpacked(one) for one in json.loads(reader.stdout.readline())]


def _stop(reader: subprocess.Popen[str]) -> None:
    reader.kill()
    reader.wait()
    for stream in (reader.stdout, reader.stdin):
        if stream is not None:
            with suppress(OSError):  # from what was still to be written to it
                stream.close()


def _packed(found: Found) -> list[list[object]] | None:
    if found is None:
        return None
    return [[one.line, one.name, one.question, _text(one.asked), _text(one.code), one.digest] for one in found]


def _unpacked(packed: list[list[Any]] | None) -> Found:
    if packed is None:
        return None
    return [
        FoundFunction(line, name, question, _places(asked), _places(code), digest)
        for line, name, question, asked, code, digest in packed
    ]


def _text(places: Places) -> str:
    return base64.b64encode(places.astype("<u2").tobytes()).decode()


def _places(text: str) -> Places:
    return np.frombuffer(base64.b64decode(text), "<u2")
