"""The evidence benchmark on tiny sets of the form of the real ones: what it measures, keeps and writes."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub

pytestmark = pytest.mark.once

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGE = "# Evidence\n\n<!-- tables -->\n\nfigures of yesterday\n\n<!-- end of tables -->\n\nAfter.\n"


def noisy(rows: np.ndarray, seed: int, noise: float = 0.8) -> np.ndarray:
    return (rows + noise * normal(seed, rows.shape)).astype(np.float32)


def normal(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write clip_shop, msrvtt and cub, and what recipes/functions would make; the other sets are absent."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("clip_pairs", "msrvtt", "cub", "functions"):
        (folder / name).mkdir()
    images = normal(0, (120, 16))
    np.save(folder / "clip_pairs" / "clip_shop_img.npy", images.astype(np.float32))
    np.save(folder / "clip_pairs" / "clip_shop_txt.npy", noisy(images, 1))
    videos = normal(2, (60, 16))
    np.save(folder / "msrvtt" / "cap4video_video_similarity.npy", noisy(videos, 3) @ videos.astype(np.float32).T / 16)
    birds = normal(4, (10, 16))
    labels = [1, 2, 3, 4, 5, 101, 102, 103, 104, 105] * 12
    np.save(folder / "cub" / "images.npy", noisy(np.tile(birds, (12, 1)), 5, noise=2.0))
    (folder / "cub" / "meta.json").write_text(json.dumps({"label": labels}))
    functions = normal(6, (90, 16))
    np.save(folder / "functions" / "functions.npy", functions.astype(np.float32))
    np.save(folder / "functions" / "docstrings.npy", noisy(functions[:80], 7))
    relevance = [(row % 80, row) for row in range(90)]
    splits = {"test": [*range(40)], "val": [*range(40, 50)], "bank": [*range(50, 80)]}
    (folder / "functions" / "meta.json").write_text(json.dumps({"splits": splits, "relevance": relevance}))
    return folder


def run(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "evidence.py"), "--threads", "1", "--resamples", "50", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        encoding="utf-8",
        env={**os.environ, "UNHUB_DATA": str(data)},
    )
    assert done.returncode == 0, done.stderr
    return done


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


def cases(data: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    monkeypatch.setenv("UNHUB_DATA", str(data))
    return module("evidence_sets", monkeypatch).read_set(name, data / "functions")


def test_a_run_writes_the_page_and_the_picture_and_goes_on_from_what_it_kept(data: Path, tmp_path: Path) -> None:
    (tmp_path / "evidence.md").write_text(PAGE)
    options = ("--set", "cub", "clip_shop", "code", "--work", str(tmp_path / "work"), "--docs", str(tmp_path))
    first = run(data, *options)
    page = (tmp_path / "evidence.md").read_text(encoding="utf-8")
    assert "code: left out" in first.stderr and first.stderr.count("measured in") == 3
    assert "`python benchmarks/evidence.py --set cub clip_shop code --docs`" in page and "yesterday" not in page
    assert "| CUB, image to image | 60 | 60 | 60 |" in page and "| CLIP shop, text to image | 120 | 60 | 60 |" in page
    assert first.stdout.strip() in page and page.endswith("After.\n")
    assert (tmp_path / "evidence.png").read_bytes().startswith(b"\x89PNG")
    again = run(data, *options)
    assert again.stderr.count("kept from before") == 3 and again.stdout == first.stdout
    fewer = run(data, "--set", "cub", "--work", str(tmp_path / "work"), "--resamples", "40")
    assert "kept from before" not in fewer.stderr  # the intervals depend on it


def test_bad_banks_are_measured_with_queries_and_without(data: Path) -> None:
    printed = run(data, "--set", "clip_shop", "functions", "--functions", str(data / "functions"), "--banks").stdout
    heads = [line for line in printed.splitlines() if line.startswith("| set, direction | random 50 | far ")]
    assert len(heads) == 2
    assert all(
        name in heads[0]
        for name in ("other encoder", "other model", "shuffled", "duplicated", "head-heavy", "one topic")
    )
    assert printed.count("Below by more than two: ") == 2
    assert "| Functions, function to docstring | 50 | 80 | 30 |" in printed


def test_pooled_gains_of_one_part_are_those_of_evaluate(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = module("evidence_measure", monkeypatch)
    case = cases(data, monkeypatch, "cub")[0]
    part, work = case.parts[0], measuring.Work(1, 100)
    fitted = measuring.fit_all(case, part, ["nnn", "sn"], work)
    found = measuring.compare(case, [fitted], work)
    said = unhub.evaluate(
        part.queries, part.items, part.relevance, fitted, ["R@1"], exclude="self", resamples=100, threads=1
    )
    assert found.recall == pytest.approx(said.rows[0].values["R@1"].value)
    for name, gain in found.gains.items():
        expected = said[name].gains["R@1"]
        assert (gain.value, gain.low, gain.high) == pytest.approx((expected.value, expected.low, expected.high))
        assert gain.low < gain.value < gain.high and gain.error > 0


def test_halves_are_pooled_over_all_queries(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = module("evidence_measure", monkeypatch)
    for case in cases(data, monkeypatch, "msrvtt"):
        figures = measuring.measure(case, measuring.Work(1, 50))
        matrix = np.load(data / "msrvtt" / "cap4video_video_similarity.npy")
        scores = matrix if case.direction == "text to video" else matrix.T
        assert figures.queries == 60
        assert figures.recall == pytest.approx(100 * np.mean(scores.argmax(axis=1) == np.arange(60)))
        assert len(figures.labelled) == 19 and "dualis" not in figures.methods
        again = measuring.Figures.of(json.loads(json.dumps(figures._asdict())))
        assert again == figures


def test_queries_that_are_items_are_excluded(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = module("evidence_measure", monkeypatch)
    birds, shop = cases(data, monkeypatch, "cub")[0], cases(data, monkeypatch, "clip_shop")[0]
    asked: list[str | None] = []

    def noted(*sets: object, exclude: str | None = None, **options: object) -> None:
        asked.append(exclude)

    monkeypatch.setattr(unhub, "tune", noted)
    for case, rule in ((birds, measuring.WITH), (birds, measuring.WITHOUT), (shop, measuring.WITH)):
        measuring.tune(case, case.parts[0], rule, measuring.Work(1))
    assert asked == ["self", None, None]


def test_factors_give_the_matrix_back(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = normal(8, (7, 7)).astype(np.float32)
    rows, columns = module("evidence_sets", monkeypatch).factors(matrix)
    np.testing.assert_allclose(rows @ columns.T, matrix, atol=1e-5)
