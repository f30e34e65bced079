"""The command line as a process, and small inputs for it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unhub
from unhub.cli import main

RANDOM = np.random.default_rng(0)
ITEMS = RANDOM.normal(size=(40, 8)).astype(np.float32)
BANK = RANDOM.normal(size=(90, 8)).astype(np.float32)
QUERIES = RANDOM.normal(size=(3, 8)).astype(np.float32)
NAMES = [f"[red] {row}.jpg" for row in range(40)]

FIT = ("fit", "--items", "items.npy", "--bank", "bank.npy", "-o", "out.unhub")
SEARCH = ("search", "--items", "items.npy", "--item-ids", "names.txt", "--correction", "fitted.unhub", "--queries")


def write_inputs(folder: Path) -> Path:
    """Write items, their ids, a bank and queries, and return the folder."""
    for name, rows in {"items": ITEMS, "bank": BANK, "queries": QUERIES}.items():
        np.save(folder / f"{name}.npy", rows)
    (folder / "names.txt").write_text("\n".join(NAMES))
    return folder


def write_fitted(folder: Path) -> Path:
    """Write a correction of the named items beside them, and return the folder."""
    items = unhub.Vectors(np.array(NAMES), ITEMS)
    unhub.save(unhub.fit(items, BANK, method="nnn", k=5), folder / "fitted.unhub")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `unhub` in a folder, with neither stdout nor stderr a terminal."""
    command = [sys.executable, "-m", "unhub", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


class Here:
    """Runs `unhub` in this process, which spares its start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Return the exit code and what was printed."""
        self.capsys.readouterr()
        self.monkeypatch.chdir(folder)
        self.monkeypatch.setattr(sys, "argv", ["unhub", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        code = stopped.value.code
        assert isinstance(code, int)
        return subprocess.CompletedProcess(arguments, code, *self.capsys.readouterr())


def succeed(folder: Path, *arguments: str) -> str:
    """Run a command that must succeed in silence on stderr, and return what it printed."""
    done = run(folder, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def fail(folder: Path, *arguments: str) -> str:
    """Run a command that must fail with one line and write nothing, and return the line without its beginning."""
    before = sorted(os.listdir(folder))
    done = run(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert re.fullmatch(r"unhub: [^\n]+\n", done.stderr), done.stderr
    assert sorted(os.listdir(folder)) == before
    return done.stderr.removeprefix("unhub: ").rstrip("\n")
