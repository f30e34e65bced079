"""Mistakes and interruptions on the command line: one line, an exit code, and nothing written."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from command import BANK, FIT, ITEMS, SEARCH, fail, succeed, write_fitted, write_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_inputs(tmp_path)


@pytest.fixture
def fitted(folder: Path) -> Path:
    return write_fitted(folder)


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--items", "none.npy"), r"--items: .*none\.npy"),
        (("--items", "names.txt"), r"--items: names\.txt: no reader for files named \*\.txt"),
        (("--bank", "none.npy"), r"--bank: .*none\.npy"),
        (("--bank", "small.npy"), "dimensions"),
        (("--bank", "nan.npy"), "bank: row 1 holds nan"),
        (("--bank", "zero.npy"), "bank: row 2 is all zeros"),
        (("--item-ids", "few.txt"), r"--items: few\.txt: 40 ids are needed"),
        (("--bank-items", "none.npy"), r"--bank-items: .*none\.npy"),
        (("--method", "nn"), "unknown method 'nn' .*did you mean 'nnn'"),
        (("--method", "nnn", "--set", "j=3"), "unknown parameter 'j'"),
        (("--method", "nnn", "--set", "k"), "--set: 'k' is not of the form name=value"),
        (("--method", "nnn", "--set", "k=91"), "k=91 is over what exists"),
        (("--set", "tau=0"), "tau must be"),
        (("--set", "tau=0.1", "--set", "beta=3"), "two spellings"),
        (("--method", "dualis"), "bank.items"),
        (("--similarity", "euclid"), "'--similarity'"),
        (("--threads", "0"), "'--threads'"),
        (("--memory", "lots"), "memory"),
        (("-o", "nowhere/out.unhub"), "--output: .*there is no folder .*nowhere"),
        (("-o", "."), "--output: .* is a folder"),
        (("-o", "bank.npy"), r"--output: bank\.npy is an input of this command"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_a_mistake_in_a_fit_is_one_line(folder: Path, change: tuple[str, ...], words: str) -> None:
    np.save(folder / "small.npy", BANK[:, :3])
    np.save(folder / "nan.npy", np.where(np.arange(90)[:, None] == 1, np.nan, BANK))
    np.save(folder / "zero.npy", np.where(np.arange(90)[:, None] == 2, 0, BANK))
    (folder / "few.txt").write_text("a\nb\n")
    assert re.search(words, fail(folder, *FIT, *change))


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("none.npy",), r"--queries: .*none\.npy"),
        (("queries.npy", "--format", "npz"), "--format: npz .* -o"),
        (("queries.npy", "--format", "csv"), "'--format'"),
        (("queries.npy", "-k", "0"), "'-k'"),
        (("queries.npy", "--index", "nonsense"), "nonsense"),
        (("queries.npy", "--correction", "none.unhub"), r"--correction: .*none\.unhub"),
        (
            ("queries.npy", "--correction", "items.npy"),
            r"--correction: items\.npy: truncated, or not a file that unhub",
        ),
        (("queries.npy", "--items", "bank.npy"), r"--items: names\.txt: 90 ids are needed"),
        (("queries.npy", "--items", "other.npy"), "item .* has other contents"),
        (("queries.npy", "-o", "nowhere/hits.json"), "--output: .*there is no folder"),
    ],
)
def test_a_mistake_in_a_search_is_one_line(fitted: Path, change: tuple[str, ...], words: str) -> None:
    np.save(fitted / "other.npy", ITEMS[::-1])
    assert re.search(words, fail(fitted, *SEARCH, *change))


@pytest.mark.once
def test_a_missing_option_or_command_is_one_line(folder: Path) -> None:
    assert "--items" in fail(folder, "fit", "-o", "out.unhub")
    assert "nonsense" in fail(folder, "nonsense")
    assert "FILE: " in fail(folder, "info", "none.unhub")
    assert "is a folder" in fail(folder, "info", ".")


@pytest.mark.once
def test_an_extra_that_is_not_installed_is_one_line(folder: Path) -> None:
    (folder / "rows.parquet").touch()
    program = "import sys; sys.modules['pyarrow'] = None; from unhub.cli import main; main()"
    command = [sys.executable, "-c", program, *FIT, "--items", "rows.parquet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    expected = "unhub: --items: reading rows.parquet needs pyarrow: pip install 'unhub[parquet]'\n"
    assert (done.returncode, done.stderr) == (2, expected)


@pytest.mark.once
def test_a_failed_fit_leaves_the_old_file(folder: Path) -> None:
    succeed(folder, *FIT)
    before = (folder / "out.unhub").read_bytes()
    fail(folder, *FIT, "--set", "tau=-1")
    assert (folder / "out.unhub").read_bytes() == before


@pytest.fixture
def endless(tmp_path: Path) -> tuple[str, ...]:
    """The arguments of a fit that would take minutes."""
    for name, count in {"items": 20_000, "bank": 20_000}.items():
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(count, 32)).astype(np.float32))
    return (*FIT, "--method", "sn", "--set", "iterations=100000", "--memory", "200MB")


def start(folder: Path, arguments: tuple[str, ...], stderr: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "unhub", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True)


def test_ctrl_c_stops_a_fit_and_leaves_no_file(tmp_path: Path, endless: tuple[str, ...]) -> None:
    child = start(tmp_path, endless, subprocess.PIPE)
    wait_for_the_fit(child)
    assert child.poll() is None, child.communicate()
    child.send_signal(signal.SIGINT)
    printed, errors = child.communicate(timeout=60)
    assert (child.returncode, printed, errors) == (130, "", "unhub: stopped\n")
    assert sorted(os.listdir(tmp_path)) == ["bank.npy", "items.npy"]


def wait_for_the_fit(child: subprocess.Popen[str]) -> None:
    """Wait until the child has mapped its bank, or for ten seconds on a system that does not tell."""
    maps, deadline = Path(f"/proc/{child.pid}/maps"), time.monotonic() + 10
    while time.monotonic() < deadline and not (maps.exists() and "bank.npy" in maps.read_text()):
        time.sleep(0.1)
    time.sleep(1)


def test_progress_is_drawn_where_stderr_is_a_terminal(tmp_path: Path, endless: tuple[str, ...]) -> None:
    ours, theirs = pty.openpty()
    child = start(tmp_path, endless, theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        seen = b""
        while b"%" not in seen:
            seen += terminal.read(1000)
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # how a terminal says that the other side is gone
            while more := terminal.read(1000):
                seen += more
    child.communicate(timeout=60)
    assert child.returncode == 130
    assert re.search(rb"fit .*\d+%", seen)
    assert seen.endswith(b"unhub: stopped\r\n")


@pytest.mark.once
def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path: Path) -> None:
    child = start(tmp_path, ("methods",), subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    assert child.stderr.read() == ""
    child.stderr.close()
    child.wait(timeout=60)
