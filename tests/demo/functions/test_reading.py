"""Reading in several processes gives what one gives, and a process that ends too soon does no harm."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.function_code import write_project
from unhub.demo.functions import reading
from unhub.demo.functions.code_files import CodeFile, find_code
from unhub.demo.functions.reading import Found, read_functions

pytestmark = pytest.mark.once


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[CodeFile, ...]:
    """Return the files of a small project, which is read in small parts and in processes of their own."""
    project = write_project(tmp_path / "mine")
    (project / "broken.py").write_text("def f(:")
    monkeypatch.setattr(reading, "BATCH_BYTES", 3000)
    monkeypatch.setattr(reading, "LEAST_BYTES", 0)
    return find_code([str(project)]).files


def told(found: Sequence[Found]) -> list[object]:
    return [
        one and [(each.line, each.name, each.question, each.asked.tolist(), each.code.tolist()) for each in one]
        for one in found
    ]


def test_processes_give_what_this_one_gives(files: tuple[CodeFile, ...]) -> None:
    alone = read_functions(files, threads=1)
    assert [len(one) if one is not None else None for one in alone] == [None] + 8 * [12]
    seen: list[tuple[int, int]] = []
    assert told(read_functions(files, threads=2, progress=lambda *one: seen.append(one))) == told(alone)
    assert seen[-1] == (sum(one.size for one in files),) * 2
    assert seen == sorted(seen)


@pytest.mark.parametrize("program", ["raise SystemExit", "print('nonsense')", "import time; time.sleep(0)"])
def test_a_process_that_ends_too_soon_is_replaced_by_this_one(
    program: str, files: tuple[CodeFile, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PROGRAM", program)
    assert told(read_functions(files, threads=2)) == told(read_functions(files, threads=1))


@pytest.mark.parametrize("executable", ["", "/nowhere/python3", "/usr/bin/unhub-frozen"])
def test_without_python_to_start_this_process_reads(
    executable: str, files: tuple[CodeFile, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = told(read_functions(files, threads=1))
    monkeypatch.setattr(sys, "executable", executable)
    assert told(read_functions(files, threads=2)) == wanted


def test_ctrl_c_ends_the_processes(files: tuple[CodeFile, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []
    start = reading._start

    def noted(count: int) -> list[subprocess.Popen[str]]:
        started.extend(start(count))
        return started

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reading, "_start", noted)
    with pytest.raises(KeyboardInterrupt):
        read_functions(files, threads=2, progress=interrupt)
    assert len(started) == 2 and all(one.returncode is not None for one in started)


@pytest.mark.skipif(os.name != "posix", reason="signals of other platforms differ")
def test_a_process_leaves_ctrl_c_to_the_one_that_started_it() -> None:
    (reader, other) = reading._start(2)
    try:
        assert reading._ask(reader, []) == []
        reader.send_signal(signal.SIGINT)
        assert reading._ask(reader, []) == []
    finally:
        reading._stop(reader)
        reading._stop(other)


def test_places_of_pieces_survive_the_way() -> None:
    places = np.array([0, 1, 65535], np.uint16)
    assert reading._places(reading._text(places)).tolist() == [0, 1, 65535]


def test_code_that_is_nested_too_deep_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    body = "".join(f"    elif x == {number}:\n        pass\n" for number in range(1500))
    (tmp_path / "deep.py").write_text(
        f'def f(x):\n    """Return nothing at all, whatever x is."""\n    if x:\n        pass\n{body}'
    )
    assert read_functions(find_code([str(tmp_path)]).files, threads=1) == [None]
