"""The files of a data set: what every other command reads, equal to what a run measures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.bench.tiny_sets import part_of, tiny, write_vectors
from tests.command import fail, succeed
from unhub.errors import ArgumentError
from unhub.files.texts import read_texts

pytestmark = pytest.mark.once


def test_the_files_give_the_figures_of_a_run_in_both_directions(tmp_path: Path) -> None:
    ready = write_vectors(tmp_path / "mine", tiny())
    made = unhub.bench_files(tiny(), tmp_path / "work", embeddings=ready)
    run = unhub.bench_run(tiny(), tmp_path / "work", embeddings=ready, methods="nnn:k=5,alpha=0.5", banks="train")
    assert made.folder == tmp_path / "work" / "files" / "tiny-official-mine"
    assert {path.name for path in made.folder.iterdir()} == {*made.names}
    for direction, asked, searched in (("t2i", "queries", "items"), ("i2t", "items", "queries")):
        items, queries, bank = (
            unhub.read_vectors(made.folder / name)
            for name in (f"test-{searched}.npz", f"test-{asked}.npz", f"train-{asked}.npz")
        )
        truth = unhub.read_relevance(made.folder / f"test-truth-{direction}.csv")
        correction = unhub.fit(items, bank, "nnn:k=5,alpha=0.5")
        by_hand = unhub.evaluate(queries, items, truth, correction, ["R@1"]).rows[-1].values["R@1"]
        (case,) = [one for one in run.cases if (one["direction"], one["bank"]) == (direction, "train")]
        assert by_hand.to_dict() == case["values"]["R@1"]
    texts = read_texts(made.folder / "test-queries-texts.csv")
    assert texts.of(tiny().queries.ids[:1]) == ["test picture 0#0"]


def test_the_bank_of_another_data_set_is_written_too(tmp_path: Path) -> None:
    ready = write_vectors(tmp_path / "mine", tiny())
    other = replace(tiny(), name="other", parts={"train": part_of("other", 6)})
    (ready / "other").mkdir()
    np.save(ready / "other" / "train-queries.npy", np.ones((12, 8), np.float32))
    made = unhub.bench_files(tiny(), tmp_path / "work", embeddings=ready, banks_from=[other])
    assert "other-train-queries.npz" in made.names
    assert "other-train-items.npz" not in made.names


def test_a_bank_of_another_data_set_without_vectors_is_said(tmp_path: Path) -> None:
    ready = write_vectors(tmp_path / "mine", tiny())
    made = unhub.bench_files(tiny(), tmp_path / "work", embeddings=ready, banks_from=[replace(tiny(), name="other")])
    assert made.notes == ("The bank other/train was not written: there are no vectors of its queries.",)


def test_every_part_of_a_test_of_several_is_written(tmp_path: Path) -> None:
    usual = tiny()
    data = replace(
        usual, parts={**usual.parts, **{f"test-{number}": part_of(f"more {number}", 5) for number in (2, 3)}}
    )
    ready = write_vectors(tmp_path / "mine", data)
    made = unhub.bench_files(data, tmp_path / "work", embeddings=ready)
    assert made.notes == ()
    ids = unhub.read_vectors(made.folder / "test-3-items.npz").ids.tolist()
    assert ids == data.parts["test-3"].items.ids.tolist()
    truth = unhub.read_relevance(made.folder / "test-2-truth-i2t.csv")
    assert {*truth.query_ids.tolist()} == {*data.parts["test-2"].items.ids.tolist()}
    (ready / "test-3-items.npy").unlink()
    made = unhub.bench_files(data, tmp_path / "again", embeddings=ready)
    assert made.notes == ("Vectors of 2 of 3 test parts are there.",)
    assert "test-2-items.npz" in made.names and "test-3-items.npz" not in made.names


def test_the_command_takes_the_split_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def load(name: str, folder: Path, split: str | None) -> None:
        asked.append(split)
        raise ValueError("enough")

    monkeypatch.setattr(unhub.datasets, "load", load)
    command = ("bench", "files", "msrvtt", "--data", "data", "--work", "W", "--embeddings", "ready", "--paper")
    assert "enough" in fail(tmp_path, *command, "mqvr")
    assert asked == ["1k-A-20"]
    assert "--paper 'bert' is unknown" in fail(tmp_path, *command, "bert")


def test_the_command_prints_the_files_and_wants_one_source(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in "abcd":
        (tmp_path / "data" / f"{name}.jpg").touch()
    lines = "".join(f"{name}.jpg,text of {name},{'test' if name in 'ab' else 'train'}\n" for name in "abcd")
    (tmp_path / "data" / "captions.csv").write_text(f"file,text,split\n{lines}")
    (tmp_path / "ready").mkdir()
    for part in ("test", "train"):
        for which in ("items", "queries"):
            np.save(tmp_path / "ready" / f"{part}-{which}.npy", np.eye(2, 3, dtype=np.float32))
    given = ("bench", "files", "folder", "--data", "data", "--work", "work")
    assert "--encoder is absent; give one of --encoder and --embeddings" in fail(tmp_path, *given)
    printed = succeed(tmp_path, *given, "--embeddings", "ready")
    assert all((tmp_path / line).is_file() for line in printed.splitlines() if line.startswith("work"))
    assert "work/files/folder-own-ready/test-items.npz" in printed


def test_without_vectors_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="give one of encoder and embeddings"):
        unhub.bench_files(tiny(), tmp_path / "work")
    assert not (tmp_path / "work").exists()
