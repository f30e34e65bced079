"""The command line, in this process or in one of its own, and small inputs for it."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
import typer

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


Done: TypeAlias = "subprocess.CompletedProcess[str]"

build = cache(typer.main.get_command)  # typer would read every command's signature anew for each run


def here(folder: Path, *arguments: str) -> Done:
    """Run `unhub` in this process, which spares its start; return the exit code and what was printed."""
    printed, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(sys, "argv", ["unhub", *arguments])
        patch.setattr(typer.main, "get_command", build)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as stop:
            main()
    code = stop.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, printed.getvalue(), errors.getvalue())


def program(folder: Path, *arguments: str) -> Done:
    """Run `unhub` in a process of its own, with neither stdout nor stderr a terminal."""
    command = [sys.executable, "-m", "unhub", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def succeed(folder: Path, *arguments: str, run: Callable[..., Done] = here) -> str:
    """Run a command that must succeed in silence on stderr, and return what it printed."""
    done = run(folder, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def fail(folder: Path, *arguments: str, run: Callable[..., Done] = here) -> str:
    """Run a command that must fail with one line and write nothing, and return the line without its beginning."""
    before = sorted(os.listdir(folder))
    done = run(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert re.fullmatch(r"unhub: [^\n]+\n", done.stderr), done.stderr
    assert sorted(os.listdir(folder)) == before
    return done.stderr.removeprefix("unhub: ").rstrip("\n")
