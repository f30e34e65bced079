"""The log of queries: whole after any kill, one writer at a time, read as a bank."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import getsize
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.children import SOURCE
from unhub import kernels
from unhub.arrays import Float32
from unhub.correction import Bias
from unhub.errors import ArgumentError
from unhub.files.query_logs import whole_rows
from unhub.service.kept import log_writer
from unhub.service.kept.log_writer import MOST_WAITING, WRITE_SECONDS, LogWriter
from unhub.service.kept.marks import Marks
from unhub.service.limits import Refused

pytestmark = pytest.mark.once

DIMENSIONS = 7
KILLS = 20


def rows_from(start: int, count: int) -> Float32:
    """Return rows that tell their own numbers: every entry of row i is i."""
    return np.repeat(np.arange(start, start + count, dtype=np.float32)[:, None], DIMENSIONS, axis=1)


def lines_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size in bytes, as where the disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_was_logged_is_read_as_vectors_and_lines(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log", DIMENSIONS)
    log.append(rows_from(0, 2), ["a", "b"], "v1")
    log.append(rows_from(2, 1), [3], "v2")
    log.close()
    held = unhub.read_vectors(tmp_path / "log")
    np.testing.assert_array_equal(held.rows[:], rows_from(0, 3))
    lines = lines_of(tmp_path / "log")
    assert [(one["id"], one["ids"], one["version"]) for one in lines] == [
        (0, ["a", "b"], "v1"),
        (1, ["a", "b"], "v1"),
        (2, [3], "v2"),
    ]


def test_a_log_is_a_bank(tmp_path: Path) -> None:
    cloud = np.random.default_rng(0).standard_normal((60, DIMENSIONS)).astype(np.float32)
    log = LogWriter(tmp_path, DIMENSIONS)
    log.append(cloud[20:], [0], "v1")
    log.close()
    with kernels.prefer("numpy"):
        fitted = unhub.fit(cloud[:20], unhub.read_vectors(tmp_path), method="nnn:k=4")
        expected = unhub.fit(cloud[:20], cloud[20:], method="nnn:k=4")
    assert isinstance(fitted, Bias) and isinstance(expected, Bias)
    np.testing.assert_allclose(fitted.bias, expected.bias)


def test_segments_rotate_and_a_new_writer_goes_on(tmp_path: Path) -> None:
    for start in (0, 10):
        log = LogWriter(tmp_path, DIMENSIONS, segment_bytes=3 * 4 * DIMENSIONS)
        for row in range(start, start + 10):
            log.append(rows_from(row, 1), [row], "v1")
            log.flush()
        log.close()
    assert len(list(tmp_path.glob("*.vectors"))) >= 6
    np.testing.assert_array_equal(unhub.read_vectors(tmp_path).rows[:], rows_from(0, 20))
    assert [one["id"] for one in lines_of(tmp_path)] == list(range(20))


def test_parts_of_rows_and_lines_are_left_out(tmp_path: Path) -> None:
    log = LogWriter(tmp_path, DIMENSIONS)
    log.append(rows_from(0, 4), [1], "v1")
    log.close()
    (rows,), (lines,) = tmp_path.glob("*.vectors"), tmp_path.glob("*.jsonl")
    whole = rows.read_bytes()
    for cut in (1, 4 * DIMENSIONS - 1, 4 * DIMENSIONS):
        rows.write_bytes(whole[:-cut])
        assert len(unhub.read_vectors(tmp_path)) == 3
    rows.write_bytes(whole)
    lines.write_bytes(lines.read_bytes()[:-1])
    np.testing.assert_array_equal(unhub.read_vectors(tmp_path).rows[:], rows_from(0, 3))
    again = LogWriter(tmp_path, DIMENSIONS)
    again.append(rows_from(3, 1), [1], "v1")
    again.close()
    np.testing.assert_array_equal(unhub.read_vectors(tmp_path).rows[:], rows_from(0, 4))


def test_a_write_that_is_cut_short_loses_its_rows_and_damages_nothing(tmp_path: Path) -> None:
    wide = np.repeat(rows_from(0, 5)[:, :1], 100, axis=1)  # of 400 bytes each, so that the lines are shorter
    log = LogWriter(tmp_path, 100)
    log.append(wide[:2], [1], "v1")
    log.flush()
    with files_up_to(1000):
        log.append(wide[4:], [1], "v1")
        log.flush()
    assert log.dropped == 1 and "too large" in str(log.failure)
    assert log.append(wide[2:4], [1], "v1") == 2
    log.close()
    np.testing.assert_array_equal(unhub.read_vectors(tmp_path).rows[:], wide[:4])
    assert [one["id"] for one in lines_of(tmp_path)] == list(range(4))


def test_a_full_disk_is_tried_again_later_and_leaves_no_empty_files(tmp_path: Path) -> None:
    log = LogWriter(tmp_path, DIMENSIONS)
    with files_up_to(0):
        log.append(rows_from(9, 1), [1], "v1")
        log.flush()
        for row in range(4):
            log.append(rows_from(row, 1), [1], "v1")
            time.sleep(1.5 * WRITE_SECONDS)
    assert not [*tmp_path.glob("0*")]
    assert log.dropped == 1  # the others wait
    log.close()
    np.testing.assert_array_equal(unhub.read_vectors(tmp_path).rows[:], rows_from(0, 4))
    assert [one["id"] for one in lines_of(tmp_path)] == list(range(4))


def test_after_an_error_other_segments_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogWriter(tmp_path, DIMENSIONS, segment_bytes=1)
    for row in range(3):
        log.append(rows_from(row, 1), [1], "v1")
        log.flush()
    counted: list[Path] = []

    def noted(path: Path, dimensions: int) -> int:
        counted.append(path)
        assert log._changed.acquire(blocking=False), "whoever appends would wait for the disk"
        log._changed.release()
        return whole_rows(path, dimensions)

    monkeypatch.setattr(log_writer, "whole_rows", noted)
    with files_up_to(0):
        log.append(rows_from(9, 1), [1], "v1")
        log.flush()
    assert [path.name for path in counted] == ["000004.vectors"]
    log.close()


def test_rows_without_a_file_of_lines_are_left_out_of_today(tmp_path: Path) -> None:
    log = LogWriter(tmp_path, DIMENSIONS)
    log.append(rows_from(0, 2), [1], "v1")
    log.flush()
    (tmp_path / "000000.vectors").write_bytes(bytes(4 * DIMENSIONS))
    np.testing.assert_array_equal(log.today(), rows_from(0, 2))
    log.close()


def test_a_mark_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "relevance.csv"
    path.write_text("query_id,item_id\n" + "0,first\n" * 200)  # larger than the log, which fits
    before = path.read_bytes()
    marks = Marks(tmp_path, DIMENSIONS)
    with files_up_to(len(before) + 3), pytest.raises(Refused, match="was not kept") as refused:
        marks.add(rows_from(0, 1), "second", "v1")
    assert refused.value.status == 503 and path.read_bytes() == before
    assert marks.add(rows_from(1, 1), "third", "v1") == 201
    marks.close()
    assert path.read_bytes() == before + b"1,third\n"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ArgumentError, match="not of a log"):
        LogWriter(tmp_path, DIMENSIONS)


def test_other_dimensions_and_a_second_writer_are_refused(tmp_path: Path) -> None:
    log = LogWriter(tmp_path, DIMENSIONS)
    with pytest.raises(ArgumentError, match="in use"):
        LogWriter(tmp_path, DIMENSIONS)
    log.close()
    with pytest.raises(ArgumentError, match="holds queries of 7 dimensions, these have 8"):
        LogWriter(tmp_path, 8)


def test_an_empty_log_says_so(tmp_path: Path) -> None:
    LogWriter(tmp_path, DIMENSIONS).close()
    with pytest.raises(ValueError, match="without a query yet"):
        unhub.read_vectors(tmp_path)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    LogWriter(tmp_path, DIMENSIONS).close()
    (tmp_path / "log.json").write_text('{"query_log": 9, "dimensions": 7}')
    with pytest.raises(ValueError, match=r"log\.json: written by a newer unhub"):
        unhub.read_vectors(tmp_path)
    (tmp_path / "log.json").write_text('{"query_log": 1, "dimensions": "many"}')
    with pytest.raises(ValueError, match=r"log\.json: is not what `unhub serve --log` wrote"):
        unhub.read_vectors(tmp_path)


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    log = LogWriter(tmp_path, DIMENSIONS)
    with log._writing:  # as a disk that hangs
        for _ in range(4):
            log.append(rows_from(0, MOST_WAITING // 2), [1], "v1")
        assert log.dropped >= MOST_WAITING // 2
        assert len(log._waiting) <= MOST_WAITING
    log.close()


# For each line that it reads, it starts a process that logs rows that tell their numbers, from where the log ends, and
# prints its own number, how many rows it has given, and when; then it says that the process ended.
WRITE_FOREVER = """
import os, sys, time
from pathlib import Path
import numpy as np
from unhub.service.kept.log_writer import LogWriter
for line in sys.stdin:
    process = os.fork()  # which is spared the imports
    if process == 0:
        log = LogWriter(Path(sys.argv[1]), 7, segment_bytes=20_000)
        row = log._next_id
        while True:
            log.append(np.full((1, 7), row, np.float32), [row], "v1")
            row += 1
            print(os.getpid(), row, time.time(), flush=True)
            time.sleep(0.001)
    os.waitpid(process, 0)
    print("\\nended", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_kills_lose_at_most_the_last_second_and_damage_nothing(tmp_path: Path) -> None:
    moments = random.Random(5)
    held = 0
    starter = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOREVER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": SOURCE},
    )
    assert starter.stdin is not None and starter.stdout is not None
    for kill in range(KILLS):
        starter.stdin.write("again\n")
        starter.stdin.flush()
        given = [starter.stdout.readline().split()]
        end = time.monotonic() + (1.6 if kill == 0 else moments.uniform(0.01, 0.5))
        while time.monotonic() < end:
            given.append(starter.stdout.readline().split())
        os.kill(int(given[0][0]), signal.SIGKILL)
        while (line := starter.stdout.readline()) != "ended\n":
            given.append(line.split())
        whole = [(int(one[1]), float(one[2])) for one in given if len(one) == 3]
        surely = [count for count, when in whole if whole[-1][1] - when > 1.0]
        now = len(unhub.read_vectors(tmp_path)) if any(map(getsize, tmp_path.glob("*.vectors"))) else 0
        assert now >= max(surely, default=held)
        held = now
    starter.stdin.close()
    starter.wait()
    starter.stdout.close()
    np.testing.assert_array_equal(unhub.read_vectors(tmp_path).rows[:], rows_from(0, held))
    assert held > KILLS
