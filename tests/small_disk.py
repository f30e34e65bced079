"""A disk of two megabytes, for what happens when it is full."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MOUNTED = 'mount -t tmpfs -o size=2m none "$1" || exit 99; "$2" -c "$3" "$1"; code=$?; ls -A "$1"; exit $code'


def run_on_small_disk(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script of Python, whose argument is a folder on such a disk; at its end its files are printed."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare, which gives a process a small disk of its own")
    command = ["unshare", "-rm", "sh", "-c", MOUNTED, "sh", str(folder), sys.executable, script]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode == 99 or process.stderr.startswith("unshare:"):
        pytest.skip(f"no small disk can be had here: {process.stderr.strip()}")
    return process
