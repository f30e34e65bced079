"""The demo from a wheel, in an environment with nothing else in it: the data is in the package."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
DATA = "unhub/demo/emoji/data/"
LIMIT = 12_000_000  # bytes of data
UNREACHABLE = re.compile(r"(?i)connection|network|name resolution|timed out|proxy")


def pip(folder: Path, *arguments: str) -> None:
    """Run pip, and skip the running test where it cannot reach a registry."""
    options = ("--disable-pip-version-check", "--retries", "1", "--timeout", "20")
    command = [sys.executable, "-m", "pip", *options, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("no registry of packages can be reached, so a wheel cannot be built and installed")
    assert done.returncode == 0, done.stderr


def test_a_wheel_brings_the_data_and_the_demo_runs_from_it(tmp_path: Path) -> None:
    pip(tmp_path, "wheel", str(ROOT), "--no-deps", "--quiet", "--wheel-dir", str(tmp_path))
    (wheel,) = tmp_path.glob("unhub-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {one.filename: one.file_size for one in archive.infolist() if one.filename.startswith(DATA)}
    shipped = {path.name for path in (ROOT / "src" / DATA).iterdir()}
    assert {name.removeprefix(DATA) for name in packed} == shipped
    assert {"items.npz", "correction.unhub", "descriptions.csv"} <= shipped
    assert sum(packed.values()) < LIMIT
    place = tmp_path / "empty" / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=100)
    pip(tmp_path, "--python", str(place), "install", "--quiet", "--no-compile", str(wheel))
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        [str(place / "bin" / "unhub"), "demo"],
        cwd=tmp_path / "elsewhere",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^keywords +measure +raw +corrected +change$", done.stdout, re.MULTILINE)
    assert len(re.findall(r"R@10 +[0-9.]+ \[[0-9.]+, [0-9.]+\] ", done.stdout)) == 3
    assert len(re.findall(r"^\d\. .+\n   shown for ", done.stdout, re.MULTILINE)) == 5
    assert len(re.findall(r", meaning ", done.stdout)) == 6
