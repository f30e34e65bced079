"""A given matrix: what is wrong with one is said before, or beside, the figures it gives."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.tiny_sets import tiny
from unhub.bench.bench_results import BenchRun
from unhub.bench.bench_run import bench_run
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once

SCORES = np.random.default_rng(0).normal(size=(40, 20)) + 2 * np.repeat(np.eye(20), 2, axis=0)
OTHERS = np.random.default_rng(1).normal(size=(80, 20))


def run(folder: Path, matrix: np.ndarray[Any, Any] = SCORES, **given: Any) -> BenchRun:
    np.save(folder / "sims.npy", matrix)
    options: dict[str, Any] = {"methods": "is:tau=0.5", "directions": "t2i", "threads": 1, **given}
    return bench_run(tiny(), folder / "W", matrix=folder / "sims.npy", **options)


def test_a_matrix_whose_scores_all_tie_is_no_better_than_chance_and_it_is_said(tmp_path: Path) -> None:
    (note,) = [note for note in run(tmp_path, np.ones((40, 20))).notes if "chance alone" in note]
    assert note.startswith("Raw R@1 for t2i is 5.00 [5.00, 5.00], and chance alone gives 5: check")


def test_a_bank_of_the_test_queries_themselves_is_said(tmp_path: Path) -> None:
    def said(bank: np.ndarray[Any, Any]) -> list[str]:
        np.save(tmp_path / "bank.npy", bank)
        found = run(tmp_path, bank_matrix={"train": tmp_path / "bank.npy"})
        held = [[note for note in one["notes"] if "rows of the bank matrix" in note] for one in found.cases]
        assert [one["bank"] for one, notes in zip(found.cases, held, strict=True) if notes] in ([], ["train"])
        return [note for note in found.notes if "rows of the bank matrix" in note]

    assert said(SCORES[::-1].astype(np.float32)) == [
        "All 40 rows of the bank matrix train are rows of the test matrix too: those are the queries at hand, and a "
        "bank of them is called test."
    ]
    (note,) = said(np.concatenate([OTHERS, SCORES[:10]]))
    assert note.startswith("10 of the 90 rows of the bank matrix train are")
    assert not said(OTHERS)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"methods": "dbsn"}, "The bank test has no bank items, so dbsn was left out."),
        ({"paper": "qbnorm"}, "Banks of the paper that are not there for t2i: "),
        ({"paper": "mqvr"}, "Several captions as one query were left out: they need vectors."),
    ],
)
def test_a_run_of_nothing_but_raw_says_so_and_why(tmp_path: Path, given: dict[str, Any], reason: str) -> None:
    found = run(tmp_path, **{"methods": "all", **given})
    assert found.only_raw and [one["method"] for one in found.cases] == ["raw"]
    assert any(note.startswith(reason) for note in found.notes)
    assert any(note.startswith("Nothing that was asked for could be run beside the raw") for note in found.notes)
    assert run(tmp_path, **{"methods": "all", **given}).only_raw  # also when raw was there before
    some = run(tmp_path, methods="dbsn,cent")
    assert not some.only_raw and not any("Nothing that was asked" in note for note in some.notes)


def test_default_parameters_are_said_once_for_a_bank_and_only_where_they_are_taken(tmp_path: Path) -> None:
    assert [note for note in run(tmp_path, methods="is").notes if "parameters" in note] == [
        "Nothing to choose settings on with the bank test: methods have their default parameters, unless others are "
        "given."
    ]
    assert not [note for note in run(tmp_path).notes if "parameters" in note]


@pytest.mark.parametrize("name", ["matrix", "bank_matrix"])
def test_an_error_of_a_matrix_names_the_argument_and_the_file(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "sims.npy", SCORES)
    wrong = tmp_path / "wrong.npy"

    def refused() -> str:
        given = {"matrix": wrong} if name == "matrix" else {"matrix": tmp_path / "sims.npy", name: {"train": wrong}}
        with pytest.raises(ArgumentError) as error:
            bench_run(tiny(), tmp_path / "W", **given)
        return str(error.value)

    assert refused() == f"{name} {wrong} does not exist; name a file with a matrix of similarities"
    np.save(wrong, np.where(SCORES[3, 4] == SCORES, np.nan, SCORES))
    assert refused() == f"{name} {wrong} holds nan in row 3; every number must be finite in float32"
    wrong.write_bytes(pickle.dumps(SCORES))
    assert refused().startswith(f"{name} {wrong}: holds pickled objects, and reading them would run any code")
