"""A test of several parts: each is measured, and a case is the mean over them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.bench.tiny_sets import part_of, tiny, write_vectors
from unhub.bench.bench_results import BenchRun
from unhub.bench.folds import mean_cases, mean_interval
from unhub.bench.result_file import CaseKey
from unhub.bench.running import Running
from unhub.datasets.dataset import DataSet
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once

FOLDS = ("test", "test-2", "test-3")


def folded() -> DataSet:
    data = tiny()
    others = {name: part_of(name, 20) for name in FOLDS[1:]}
    return replace(data, parts={**data.parts, **others}, counted={**data.counted, **dict.fromkeys(FOLDS, (20, 40))})


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vectors(tmp_path_factory.mktemp("ready") / "mine", folded())


def run(work: Path, vectors: Path, data: DataSet | None = None, **given: Any) -> BenchRun:
    usual = {"embeddings": vectors, "methods": "is,nnn", "banks": "train,test", "threads": 1}
    return unhub.bench_run(data or folded(), work, **{**usual, **given})


def alone(fold: str, vectors: Path, folder: Path) -> tuple[DataSet, Path]:
    """Return the data set whose test is one fold, and its vectors under the name of the test."""
    data = folded()
    ready = folder / fold
    shutil.copytree(vectors, ready)
    for side in ("items", "queries"):
        shutil.copy(vectors / f"{fold}-{side}.npy", ready / f"test-{side}.npy")
    parts = {"train": data.parts["train"], "val": data.parts["val"], "test": data.parts[fold]}
    return replace(data, parts=parts, banks=dict(parts)), ready


def test_a_case_is_the_mean_of_runs_of_each_fold_by_itself(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path / "all", vectors)
    each = []
    for fold in FOLDS:
        data, ready = alone(fold, vectors, tmp_path)
        each.append(run(tmp_path / f"{fold} work", ready, data, model="mine"))
    assert len(found.cases) == len(each[0].cases) == 10
    for place, case in enumerate(found.cases):
        same = [one.cases[place] for one in each]
        assert {(one["method"], one["bank"], one["spec"]) for one in same} == {
            (case["method"], case["bank"], case["spec"])
        }
        values = [one["values"]["R@1"]["value"] for one in same]
        assert case["values"]["R@1"]["value"] == pytest.approx(np.mean(values))
        assert case["hubness"]["skewness"] == pytest.approx(np.mean([one["hubness"]["skewness"] for one in same]))
        assert case["folds"] == 3
    raws = [one.raw("t2i")["values"]["R@1"]["value"] for one in each]
    assert len({*raws}) > 1  # or this shows nothing
    assert any("mean over 3 test parts;" in note for note in found.notes)


def test_the_counts_of_a_mean_are_those_of_the_smallest_fold(tmp_path: Path, vectors: Path) -> None:
    ready = tmp_path / "mine"
    shutil.copytree(vectors, ready)
    ids = folded().parts["test-2"].items.ids[:-1]
    np.save(ready / "test-2-items.npy", np.load(ready / "test-2-items.npy")[:-1])
    (ready / "test-2-items-ids.txt").write_text("\n".join(ids))
    raw = run(tmp_path / "work", ready, methods="cent", banks="train", directions="t2i").raw("t2i")
    assert (raw["asked"], raw["queries"], raw["items"]) == (40, 38, 19)


def test_ends_of_independent_intervals_are_as_far_as_the_root_of_their_squares() -> None:
    several: list[dict[str, float | None]] = [
        {"value": 10.0, "low": 7.0, "high": 11.0},
        {"value": 20.0, "low": 16.0, "high": 20.0},
    ]
    assert mean_interval(several) == {"value": 15.0, "low": 15 - 5 / 2, "high": 15.5}
    several[0]["low"] = None
    assert mean_interval(several)["low"] is None


def test_a_run_that_is_done_is_not_done_again_and_choices_are_made_once(tmp_path: Path, vectors: Path) -> None:
    first = run(tmp_path, vectors)
    again = run(tmp_path, vectors)
    assert (again.measured, again.reused) == (0, first.measured)
    assert again.content["cases"] == first.content["cases"]
    kept = [json.loads(path.read_text()) for path in sorted((first.path.parent / "folds").glob("*.json"))]
    assert len(kept) == 3 and all(one["choices"] == kept[0]["choices"] for one in kept)


def test_means_of_other_vectors_are_gone_if_a_run_is_stopped(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(tmp_path, vectors)
    other = tmp_path / "mine"
    write_vectors(other, folded(), seed=1)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unhub.bench.running.Running._bank", stop)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, other)
    assert json.loads(found.path.read_text())["cases"] == []
    assert len([*(tmp_path / "results" / "folds" / "replaced").iterdir()]) == 3


def test_a_fold_that_another_run_measures_anew_of_other_vectors_is_in_no_mean(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"methods": "cent", "banks": "test", "directions": "t2i"}
    other, raw, seen = write_vectors(tmp_path / "mine", folded(), seed=1), Running._raw, list[BenchRun]()

    def beside(one: Running, *rest: Any) -> None:
        if one.results.path.stem.endswith(FOLDS[-1]) and not seen:  # the other folds are done
            monkeypatch.setattr(Running, "_raw", raw)
            work = tmp_path / "beside"
            seen.append(run(work, other, **given))
            first = f"{seen[0].path.stem}-test.json"
            shutil.copy(work / "results" / "folds" / first, one.results.path.parent / first)
        raw(one, *rest)

    monkeypatch.setattr(Running, "_raw", beside)
    with pytest.raises(ArgumentError, match="another run writes results of other vectors"):
        run(tmp_path, vectors, **given)


def test_means_of_other_papers_stay_if_a_run_is_stopped(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(tmp_path, vectors, methods="cent", banks="train", directions="t2i")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unhub.bench.running.Running._bank", stop)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, vectors, methods="is", banks="test", directions="t2i", paper="dbsn")
    assert json.loads(found.path.read_text())["cases"] == found.content["cases"]


def test_folds_of_which_one_was_measured_anew_have_no_mean_until_all_are() -> None:
    values = {"values": {"R@1": {"value": 1.0, "low": 0.0, "high": 2.0}}, "gains": {}}
    key = CaseKey("t2i")
    old, new = ({**vars(key), "inputs": inputs, **values} for inputs in ("old", "new"))
    before = mean_cases([{"cases": [old]}, {"cases": [old]}], [], lambda one: one == key)
    assert [one["inputs"] for one in before] == ["old | old"]
    assert mean_cases([{"cases": [old]}, {"cases": [old]}], before) == before
    assert mean_cases([{"cases": [new]}, {"cases": [old]}], before) == []
    assert mean_cases([{"cases": [new]}, {"cases": []}], before, lambda one: True) == []


def test_vectors_of_the_first_fold_alone_are_measured_and_it_is_said(tmp_path: Path, vectors: Path) -> None:
    ready = tmp_path / "few"
    shutil.copytree(vectors, ready)
    for path in ready.glob("test-[23]-*.npy"):
        path.unlink()
    found = run(tmp_path / "work", ready)
    assert any("one of 3 test parts" in note for note in found.notes)
    assert "folds" not in found.raw("t2i")


def test_a_matrix_is_of_the_first_fold_and_it_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.random.default_rng(0).normal(size=(40, 20)))
    given: dict[str, Any] = {"embeddings": None, "matrix": tmp_path / "m.npy", "methods": "sn:tau=0.1", "banks": "test"}
    assert any("first of 3 test parts" in note for note in run(tmp_path / "work", tmp_path, **given).notes)


def test_distances_that_a_fold_does_not_have_have_no_mean() -> None:
    key = CaseKey("t2i")
    one: dict[str, Any] = {**vars(key), "inputs": "a", "values": {}, "gains": {}, "distances": {"halves": 0.5}}
    for several in ((one, {**one, "distances": None}), ({**one, "distances": None}, one)):
        (mean,) = mean_cases([{"cases": [case]} for case in several], [], lambda one: True)
        assert mean["distances"] is None
