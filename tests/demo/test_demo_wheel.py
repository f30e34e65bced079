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
WHEEL_LIMIT = 16_000_000  # bytes
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
        assert "unhub/bench/published.csv" in archive.namelist()
    shipped = {path.name for path in (ROOT / "src" / DATA).iterdir()}
    assert {name.removeprefix(DATA) for name in packed} == shipped
    assert {"items.npz", "correction.unhub", "descriptions.csv"} <= shipped
    assert sum(packed.values()) < LIMIT
    assert wheel.stat().st_size < WHEEL_LIMIT
    place = tmp_path / "empty" / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=100)
    pip(tmp_path, "--python", str(place), "install", "--quiet", "--no-compile", str(wheel))
    (tmp_path / "elsewhere").mkdir()

    def run(*arguments: str) -> str:
        """Run the demo where nothing else is, and nothing can be fetched."""
        nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
        given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [str(place / "bin" / "unhub"), "demo", *arguments],
            cwd=tmp_path / "elsewhere",
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            env={**given, **nowhere, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    printed = run("emoji")
    assert re.search(r"^keywords +measure +raw +corrected +change$", printed, re.MULTILINE)
    assert len(re.findall(r"R@10 +[0-9.]+ \[[0-9.]+, [0-9.]+\] ", printed)) == 3
    assert len(re.findall(r"^\d\. .+\n   shown for ", printed, re.MULTILINE)) == 5
    assert len(re.findall(r", meaning ", printed)) == 6
    printed = run()
    assert re.search(r"of the standard library \([\d,]+\), .*numpy", printed.replace("\n", " "))
    assert re.search(r"^R@1 .* \+\d+\.\d \[\+", printed, re.MULTILINE)
    assert len(re.findall(r"^\d\. .+\n   in [\d,]+ lists, ", printed, re.MULTILINE)) == 5
    assert len(re.findall(r"^  asks for ", printed, re.MULTILINE)) == 6
