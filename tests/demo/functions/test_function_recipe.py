"""The recipe of the evidence set, on small wheels: what it writes, in which splits, and what it refuses."""

import csv
import hashlib
import importlib.util
import json
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.function_code import write_project

pytestmark = pytest.mark.once

RECIPE = Path(__file__).parents[3] / "recipes" / "functions" / "build.py"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the recipe, with one small wheel that is there already."""
    spec = importlib.util.spec_from_file_location("function_recipe", RECIPE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    project = write_project(tmp_path / "small")
    (tmp_path / "work" / "packages").mkdir(parents=True)
    wheel = tmp_path / "work" / "packages" / "small-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("small/data.txt", "not code")
        for path in sorted(project.iterdir()):
            archive.write(path, f"small/{path.name}")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(module, "PACKAGES", (module.Package("small", "1", digest),))
    monkeypatch.setattr(module, "SPLITS", {"test": 40, "val": 20})
    return module


def test_the_set_has_vectors_texts_answers_and_splits(recipe: ModuleType, tmp_path: Path) -> None:
    recipe.main(tmp_path / "work", accept=True)
    folder = tmp_path / "work" / "set"
    docstrings, functions = (np.load(folder / f"{name}.npy") for name in ("docstrings", "functions"))
    assert docstrings.shape == functions.shape == (96, 256) and docstrings.dtype == np.float16
    told = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    rows = [row for split in ("test", "val", "bank") for row in told["splits"][split]]
    assert sorted(rows) == list(range(96)) and len(told["splits"]["bank"]) == 36
    with (folder / "functions.csv").open(encoding="utf-8", newline="") as file:
        names = [row["text"] for row in csv.DictReader(file)]
    assert names[0] == "code/small/small/files.py:1 open_file"
    assert told["relevance"] == [[row, row] for row in range(96)]


def test_another_checksum_is_an_error(recipe: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"docstrings.npy, functions.npy, meta.json: other checksums"):
        recipe.main(tmp_path / "work", accept=False)
    found = {name: recipe.digest_of(tmp_path / "work" / "set" / name) for name in recipe.RESULTS}
    monkeypatch.setattr(recipe, "RESULTS", found)
    recipe.main(tmp_path / "work", accept=False)
    monkeypatch.setattr(recipe, "PACKAGES", (recipe.Package("small", "1", "0" * 64),))
    monkeypatch.setattr(recipe.subprocess, "run", lambda *given, **named: None)
    with pytest.raises(SystemExit, match="the wheels of small have another checksum"):
        recipe.fetch(tmp_path / "work" / "packages")
