"""A run of a data set: what it measures, keeps and says, against the same calls made by hand."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import ot
import pytest
from scipy.optimize import linear_sum_assignment

import unhub
from tests.bench.tiny_sets import PARTS, tiny, write_vectors
from tests.children import SOURCE
from unhub import atomic
from unhub.arrays import Float64
from unhub.bench import case_figures, result_file, running
from unhub.bench.bench_results import BenchRun
from unhub.bench.bench_run import bench_run
from unhub.bench.problems import BenchData
from unhub.bench.protocols import BankChoice
from unhub.bench.result_file import CaseKey, ResultFile, read_results
from unhub.bench.running import Running
from unhub.bench.sources.ready_vectors import ReadyVectors
from unhub.bench.sources.vector_source import digest_of
from unhub.datasets.dataset import DataSet, Part, Protocol, Side
from unhub.errors import ArgumentError
from unhub.methods import METHODS, parse

pytestmark = pytest.mark.once

FEW = "is,nnn:k=5,alpha=0.5,sn:tau=0.05"


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vectors(tmp_path_factory.mktemp("ready") / "mine", tiny())


def run(work: Path, vectors: Path, **given: Any) -> BenchRun:
    options: dict[str, Any] = {"methods": FEW, "banks": "train", "threads": 1, **given}
    data = options.pop("data", None) or tiny()
    return bench_run(data, work, embeddings=options.pop("embeddings", vectors), **options)


def case(found: BenchRun, direction: str, method: str, bank: str = "train") -> dict[str, Any]:
    keys = ("direction", "method", "bank")
    (one,) = [one for one in found.cases if tuple(one[key] for key in keys) == (direction, method, bank)]
    return one


def read(folder: Path, part: str, which: str) -> unhub.Vectors:
    side = getattr(tiny().parts[part], which)
    return unhub.Vectors(side.ids, np.load(folder / f"{part}-{which}.npy"))


def test_the_figures_are_those_of_evaluate_called_by_hand(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors)
    items, queries = read(vectors, "test", "items"), read(vectors, "test", "queries")
    bank, relevance = read(vectors, "train", "queries"), tiny().relevance
    fitted = unhub.fit(items, bank, method="nnn:k=5,alpha=0.5", threads=1)
    assert relevance is not None
    by_hand = unhub.evaluate(queries, items, relevance, fitted, ["R@1", "R@5", "MdR"], threads=1)
    mine = case(found, "t2i", "nnn:k=5,alpha=0.5")
    row = by_hand["nnn:k=5,alpha=0.5"]
    assert mine["values"] == {name: one.to_dict() for name, one in row.values.items()}
    assert mine["gains"] == {name: one.to_dict() for name, one in row.gains.items()}
    assert row.hubness is not None
    assert mine["hubness"]["skewness"] == row.hubness.skewness
    raw = case(found, "t2i", "raw", "")
    assert raw["values"] == {name: one.to_dict() for name, one in by_hand["raw"].values.items()}


def test_the_other_direction_exchanges_items_queries_and_the_sides_of_the_bank(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, methods="dualis:beta_query=10,beta_target=5", directions="i2t")
    items, queries = read(vectors, "test", "queries"), read(vectors, "test", "items")
    bank, bank_items = read(vectors, "train", "items"), read(vectors, "train", "queries")
    spec = "dualis:beta_query=10,beta_target=5"
    fitted = unhub.fit(items, bank, method=spec, bank_items=bank_items, threads=1)
    relevance = tiny().relevance
    assert relevance is not None
    by_hand = unhub.evaluate(queries, items, relevance.reversed(), fitted, ["R@1"], threads=1)
    assert {one["direction"] for one in found.cases} == {"i2t"}
    assert case(found, "i2t", spec)["values"]["R@1"] == by_hand.rows[1].values["R@1"].to_dict()


def test_settings_are_chosen_on_validation_and_never_on_test(tmp_path: Path, vectors: Path) -> None:
    first = case(run(tmp_path / "first", vectors, methods="is", directions="t2i"), "t2i", "is")
    other = write_vectors(tmp_path / "other", tiny(), seed=1)
    for name in ("train-items", "train-queries", "val-items", "val-queries"):
        (other / f"{name}.npy").write_bytes((vectors / f"{name}.npy").read_bytes())
    again = case(run(tmp_path / "again", other, methods="is", directions="t2i"), "t2i", "is")
    assert first["choice"]["part"] == "val"
    assert first["choice"]["tried"] > 1
    assert again["choice"] == first["choice"]
    assert again["values"] != first["values"]


def test_the_chosen_setting_is_the_best_on_validation(tmp_path: Path, vectors: Path) -> None:
    found = case(run(tmp_path, vectors, methods="dn", directions="t2i"), "t2i", "dn")
    items, queries = read(vectors, "val", "items"), read(vectors, "val", "queries")
    relevance = tiny().parts["val"].relevance
    specs = ["dn:lambda=0.5", "dn:lambda=0.25", "dn:lambda=0.75"]
    fitted = unhub.fit(items, read(vectors, "train", "queries"), method=specs, threads=1)
    assert relevance is not None
    values = unhub.evaluate(queries, items, relevance, fitted, ["R@1"], threads=1)
    best = max(specs, key=lambda spec: values[spec].values["R@1"].value)
    assert found["spec"] == best
    assert found["choice"] == {"spec": best, "part": "val", "value": values[best].values["R@1"].value, "tried": 3}


def test_without_validation_settings_are_chosen_on_a_part_of_train_that_the_bank_leaves_out(
    tmp_path: Path, vectors: Path
) -> None:
    data = tiny()
    parts = {name: part for name, part in data.parts.items() if name != "val"}
    found = run(tmp_path, vectors, data=replace(data, parts=parts, banks=parts), methods="is")
    assert case(found, "t2i", "is")["choice"]["part"] == f"{PARTS['test']} items of train"
    assert case(found, "t2i", "is")["bank_queries"] == len(data.parts["train"].queries)  # of the final fit


def test_without_anything_to_choose_on_the_defaults_are_taken_and_it_is_said(tmp_path: Path, vectors: Path) -> None:
    data = tiny()
    alone = {"test": data.parts["test"]}
    found = run(tmp_path, vectors, data=replace(data, parts=alone, banks=alone), methods="is", banks=None)
    assert case(found, "t2i", "is", "test")["spec"] == unhub.fit(np.eye(3), np.eye(3), method="is").spec
    assert any("default parameters" in note for note in found.notes)


def test_the_part_of_train_has_the_form_of_test_in_both_directions(vectors: Path) -> None:
    held = BenchData(tiny(), ReadyVectors.of(vectors, None))
    there, back = (held.choosing(one, BankChoice.of("train"), "train", 0) for one in ("t2i", "i2t"))
    assert there is not None
    assert back is not None
    assert there.problem.shape == (40, 20)
    assert back.problem.shape == (20, 40)
    assert back.part == there.part == "20 items of train"
    assert (back.bank.size, there.bank.size) == (20, 40)
    for one, images in ((there, there.problem.items), (back, back.problem.queries)):
        assert isinstance(images, unhub.Vectors)
        assert isinstance(one.bank.queries, unhub.Vectors)
        assert one.bank.items is not None
        left = {str(name).partition("#")[0] for name in (*one.bank.queries.ids, *one.bank.items.ids)}
        assert not left & {*images.ids.tolist()}
    answers = back.problem.relevance.against(back.problem.queries.ids, back.problem.items.ids)  # type: ignore[union-attr]
    assert np.bincount(answers.owners).tolist() == [2] * 20


def test_a_classification_is_chosen_on_images_that_ask_for_every_class(tmp_path: Path) -> None:
    parts = {}
    (tmp_path / "ready").mkdir()
    random = np.random.default_rng(0)
    for part, count in PARTS.items():
        images = np.array([f"{part} {number}" for number in range(count)])
        classes = np.array([f"class {number}" for number in range(5)])
        parts[part] = Part(
            Side("text", classes, texts=tuple((str(one),) for one in classes)),
            Side("image", images, paths=(None,) * count),
            unhub.Relevance(images, classes[np.arange(count) % 5]),
        )
        np.save(tmp_path / "ready" / f"{part}-items.npy", random.normal(size=(5, 8)))
        np.save(tmp_path / "ready" / f"{part}-queries.npy", random.normal(size=(count, 8)))
    data = tiny(parts=parts, banks=parts, protocol=Protocol("classification", ("i2t",), ("R@1",)))
    found = BenchData(data, ReadyVectors.of(tmp_path / "ready", None)).choosing(
        "i2t", BankChoice.of("train"), "train", 0
    )
    assert found is not None
    assert found.problem.shape == (20, 5)
    assert found.bank.size == 20
    assert found.part == "20 queries of train"


def test_images_of_train_leave_themselves_out_also_where_those_of_test_ask_a_gallery(tmp_path: Path) -> None:
    sides = {name: Side("image", np.array([f"{name}{n}" for n in range(20)]), paths=(None,) * 20) for name in "qgt"}
    pairs = {one: unhub.Relevance(sides[one[0]].ids, np.roll(sides[one[1]].ids, 1)) for one in ("qg", "tt")}
    parts = {
        "train": Part(sides["t"], sides["t"], pairs["tt"]),
        "test": Part(sides["g"], sides["q"], pairs["qg"]),
    }
    data = tiny(parts=parts, banks=parts, protocol=Protocol("image-image", ("i2i",), ("R@1",)))
    (tmp_path / "ready").mkdir()
    for name in ("train-items", "test-items", "test-queries"):
        np.save(tmp_path / "ready" / f"{name}.npy", np.random.default_rng(0).normal(size=(20, 8)))
    held = BenchData(data, ReadyVectors.of(tmp_path / "ready", None))
    assert held.problem("i2i", "train").exclude == "self"
    assert held.problem("i2i").exclude is None


def test_without_anything_to_choose_on_the_head_of_a_papers_grid_is_not_taken(tmp_path: Path, vectors: Path) -> None:
    data = tiny()
    alone = {"test": data.parts["test"]}
    options: dict[str, Any] = {"methods": "nnn", "banks": "test", "paper": "nnn", "directions": "t2i"}
    found = run(tmp_path, vectors, data=replace(data, parts=alone, banks=alone), **options)
    assert case(found, "t2i", "nnn", "test")["spec"] == "nnn:k=40,alpha=0.75"  # the defaults, cut to the bank


@pytest.mark.parametrize(
    ("data_set", "model", "spec"),
    [
        ("msrvtt", "CLIP2Video", "dis:tau=1.99,k=1"),
        ("msrvtt", "CLIP4Clip", "dis:tau=2.2222,k=1"),
        ("lsmdc", "CLIP4Clip", "dis:tau=1.26,k=1"),
        ("msrvtt", "TT-CE+", "dis:tau=0.05,k=1"),
    ],
)
def test_a_model_has_the_settings_that_the_paper_has_for_it_if_it_multiplies_its_similarities(
    tmp_path: Path, vectors: Path, data_set: str, model: str, spec: str
) -> None:
    cosines = unit(vectors, "test", "queries") @ unit(vectors, "test", "items").T
    given: dict[str, Any] = {"methods": "dis", "banks": "test", "directions": "t2i", "paper": "qbnorm"}
    given |= {"data": replace(tiny(), name=data_set), "embeddings": None, "model": model}
    np.save(tmp_path / "scaled.npy", 100 * cosines)
    np.save(tmp_path / "cosines.npy", cosines)
    by_scaled, by_cosines = (
        run(tmp_path / name, vectors, matrix=tmp_path / f"{name}.npy", **given) for name in ("scaled", "cosines")
    )
    own = model != "TT-CE+"
    assert case(by_scaled, "t2i", "dis", "test")["spec"] == spec
    assert any(note.startswith(f"{model} has its own settings") and spec in note for note in by_scaled.notes) == own
    assert case(by_cosines, "t2i", "dis", "test")["spec"] == "dis:tau=0.05,k=1"
    assert any(f"{spec}, for similarities that the model" in note for note in by_cosines.notes) == own
    scale = "dis: the similarities are on another scale than cosines"
    assert any(note.startswith(scale) for note in by_scaled.notes) != own
    assert not any(note.startswith(scale) for note in by_cosines.notes)


def test_a_case_of_another_setting_than_that_of_the_paper_is_measured_again(tmp_path: Path, vectors: Path) -> None:
    options: dict[str, Any] = {"methods": "is", "banks": "test", "directions": "t2i", "paper": "qbnorm"}
    found = run(tmp_path, vectors, **options)
    content = json.loads(found.path.read_text())
    content["cases"][1]["spec"] = "is:tau=0.1"  # as if an earlier version had another one
    found.path.write_text(json.dumps(content))
    assert run(tmp_path, vectors, **options).measured == 1
    assert case(run(tmp_path, vectors, **options), "t2i", "is", "test")["spec"] == "is:tau=0.05"


def test_plans_have_the_settings_of_the_paper(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, methods="hn", paper="dbsn", banks="test", directions="t2i")
    assert case(found, "t2i", "hn", "")["spec"] == "hn:zeros=tied"


def test_all_methods_run_with_every_bank(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, methods="all", banks="train,test", directions="t2i")
    ran = {(one["method"], one["bank"]) for one in found.cases}
    plans = {name for name, method in METHODS.items() if method.kind == "plan"}
    dual = {name for name, method in METHODS.items() if method.dual or method.joint}
    others = set(METHODS) - plans - {"raw"}
    assert ran == {
        ("raw", ""),
        *((name, "") for name in plans),
        *((name, "train") for name in others),
        *((name, "test") for name in others - dual),
    }
    assert any("no bank items" in note for note in found.notes)


def test_a_case_that_is_done_is_not_done_again(tmp_path: Path, vectors: Path) -> None:
    first = run(tmp_path, vectors, directions="t2i", methods="nnn:k=5,alpha=0.5")
    more = run(tmp_path, vectors, directions="t2i")
    assert (first.measured, first.reused) == (2, 0)
    assert (more.measured, more.reused) == (2, 2)
    assert [one for one in more.cases if one in first.cases] == first.cases


def test_other_vectors_are_measured_again(tmp_path: Path, vectors: Path) -> None:
    run(tmp_path, vectors, directions="t2i", model="same")
    other = write_vectors(tmp_path / "other", tiny(), seed=1)
    again = run(tmp_path, other, directions="t2i", model="same")
    assert (again.measured, again.reused) == (4, 0)
    assert len(again.cases) == 4


def test_cases_of_other_vectors_are_gone_also_for_methods_and_directions_that_are_not_run_again(
    tmp_path: Path, vectors: Path
) -> None:
    run(tmp_path, vectors, model="same", methods="nnn:k=5,alpha=0.5")
    other = write_vectors(tmp_path / "other", tiny(), seed=1)
    again = run(tmp_path, other, model="same", methods="cent", directions="t2i")
    assert [(one["direction"], one["method"]) for one in again.cases] == [("t2i", "raw"), ("t2i", "cent")]
    assert read_results(again.path)["cases"] == again.cases


def test_cases_that_are_removed_are_counted_and_a_copy_keeps_them(tmp_path: Path, vectors: Path) -> None:
    first = run(tmp_path, vectors, model="same", methods="nnn:k=5,alpha=0.5")
    assert len(first.cases) == 4
    other = write_vectors(tmp_path / "other", tiny(), seed=1)
    options: dict[str, Any] = {"model": "same", "methods": "cent", "directions": "t2i"}
    again = run(tmp_path, other, **options)
    copy = tmp_path / "results" / "replaced" / "tiny-official-same-1.json"
    assert read_results(copy)["cases"] == first.cases
    said = f"4 cases were removed: under the name 'same' other vectors, labels or banks had been measured. {copy} has"
    assert any(note.startswith(said) for note in again.notes)
    assert not any("removed" in note for note in run(tmp_path, other, **options).notes)
    run(tmp_path, vectors, **options)
    assert copy.with_name("tiny-official-same-2.json").exists()
    assert read_results(copy)["cases"] == first.cases


def test_cases_of_another_bank_of_the_same_name_are_gone(tmp_path: Path, vectors: Path) -> None:
    ready = tmp_path / "ready"
    shutil.copytree(vectors, ready)
    run(tmp_path, ready, methods="nnn:k=5,alpha=0.5", directions="t2i")
    np.save(ready / "train-queries.npy", -np.load(ready / "train-queries.npy"))
    again = run(tmp_path, ready, methods="cent", directions="t2i")
    assert [one["method"] for one in again.cases] == ["raw", "cent"]


def test_settings_are_chosen_again_if_validation_changes(tmp_path: Path, vectors: Path) -> None:
    ready = tmp_path / "ready"
    shutil.copytree(vectors, ready)
    options: dict[str, Any] = {"methods": "dn,cent", "directions": "t2i"}
    first = run(tmp_path, ready, **options)
    np.save(ready / "val-queries.npy", -np.load(ready / "val-queries.npy"))
    again = run(tmp_path, ready, **options)
    assert (again.measured, again.reused) == (1, 2)
    assert case(again, "t2i", "dn")["choice"]["value"] != case(first, "t2i", "dn")["choice"]["value"]
    assert run(tmp_path, ready, **options).measured == 0


def test_another_seed_is_no_other_case_where_nothing_is_drawn(tmp_path: Path, vectors: Path) -> None:
    options: dict[str, Any] = {"methods": "cent", "directions": "t2i", "banks": "train,train:20%"}
    run(tmp_path, vectors, **options)
    again = run(tmp_path, vectors, seed=1, **options)
    assert (again.measured, again.reused) == (1, 2)
    assert [(one["bank"], one["seed"]) for one in again.cases] == [
        ("", 0),
        ("train", 0),
        ("train:20%", 0),
        ("train:20%", 1),
    ]


def test_a_bad_bank_of_all_there_is_is_left_out_and_it_is_said(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, methods="cent", directions="t2i", banks="train:80:adversarial,train:79:far")
    assert {one["bank"] for one in found.cases} == {"", "train:79:far"}
    said = (
        "The bank train:80:adversarial was left out: train has only 80 queries for t2i, and this would be all of them."
    )
    assert said in found.notes


def test_bad_banks_of_earlier_versions_that_were_all_there_was_are_forgotten(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, methods="cent", directions="t2i")
    content = json.loads(found.path.read_text())
    raw, good = content["cases"]
    others = [{**good, "bank": bank} for bank in ("train:5000:far", "train::far", "train:80:far", "train:5000")]
    found.path.write_text(json.dumps({**content, "cases": [raw, good, *others]}))
    assert [one["bank"] for one in read_results(found.path)["cases"]] == ["", "train", "train:80:far", "train:5000"]
    found.path.write_text(json.dumps({**content, "source": "matrix", "cases": others[:1]}))
    assert len(read_results(found.path)["cases"]) == 1  # a matrix has the name that its user gave it


def test_a_bank_of_another_data_set_that_is_not_run_is_said_with_the_reason(tmp_path: Path, vectors: Path) -> None:
    other = replace(tiny(), name="other", notes=("one caption is empty",))
    options: dict[str, Any] = {"methods": "cent", "banks_from": [other]}
    found = run(tmp_path, vectors, banks=None, **options)
    assert "The bank other/train was left out for t2i: there are no vectors of its queries." in found.notes
    assert "The bank other/train was left out for i2t: there are no vectors of its items." in found.notes
    assert "other: one caption is empty" in found.notes
    shutil.copytree(vectors, tmp_path / "ready")
    shutil.copytree(vectors, tmp_path / "ready" / "other")
    found = run(tmp_path / "two", tmp_path / "ready", banks="train", directions="t2i", **options)
    assert "The bank other/train was left out for t2i: name it with --banks to run it." in found.notes
    found = run(tmp_path / "three", tmp_path / "ready", banks=None, directions="t2i", **options)
    assert "other/train" in {one["bank"] for one in found.cases}
    assert not any("left out for" in note for note in found.notes)


def test_a_data_set_without_train_gives_no_bank(tmp_path: Path, vectors: Path) -> None:
    other = replace(tiny(), name="other", parts={"test": tiny().parts["test"]})
    with pytest.raises(ArgumentError, match="banks_from has other, and its split official has no part train here"):
        run(tmp_path, vectors, banks_from=[other])
    with pytest.raises(ArgumentError, match="banks_from is given with matrix"):
        run(tmp_path, vectors, embeddings=None, matrix=vectors / "test-items.npy", banks_from=[tiny()])


def test_banks_may_have_spaces_between_them(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, methods="cent", directions="t2i", banks="train, test")
    assert [one["bank"] for one in found.cases] == ["", "train", "test"]


def test_a_bank_is_hashed_as_often_for_one_method_as_for_several(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for place, methods in enumerate(("is", "is,csls,dn")):
        hashed: list[Any] = []
        monkeypatch.setattr(running, "digest_of", lambda *given, seen=hashed: seen.append(given) or digest_of(*given))
        run(tmp_path / str(place), vectors, methods=methods, directions="t2i")
        counts.append(len(hashed))
    assert counts[0] == counts[1]


def grouped(**groups: Any) -> DataSet:
    return tiny(groups=groups, protocol=Protocol("group-bias", ("t2i",), ("R@1",)))


def test_other_groups_of_the_items_are_measured_again(tmp_path: Path, vectors: Path) -> None:
    ids = tiny().items.ids
    first = run(tmp_path, vectors, data=grouped(her=ids[:10], him=ids[10:]), methods="cent")
    again = run(tmp_path, vectors, data=grouped(her=ids[10:], him=ids[:10]), methods="cent")
    assert (again.measured, again.reused) == (2, 0)
    biases = [one.raw("t2i")["values"]["bias@6"]["value"] for one in (first, again)]
    assert biases[0] == -biases[1] != 0


def test_a_bias_that_cannot_be_is_left_out_and_said(tmp_path: Path, vectors: Path) -> None:
    ids, gone = tiny().items.ids, np.array(["gone"])
    for groups, said in (
        ({"her": ids[:10], "him": gone}, "There is no bias between her and him: no item of him is there."),
        (
            {"her": ids[:9], "him": ids[9:], "it": gone},
            "There is no bias between her and him and it: there must be two groups.",
        ),
    ):
        found = run(tmp_path / str(len(groups)), vectors, data=grouped(**groups), methods="cent")
        assert said in found.notes
        assert {*found.raw("t2i")["values"]} == {"R@1"}


def test_a_size_above_that_of_the_bank_is_said_and_measured_once(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, methods="cent", directions="t2i", banks="train:60000", seeds=3, seed=1)
    assert [(one["bank"], one["seed"]) for one in found.cases] == [("", 0), ("train:60000", 0)]
    assert "The bank train:60000 is all 80 queries of train for t2i." in found.notes


def test_notes_are_the_same_when_everything_is_done(tmp_path: Path, vectors: Path) -> None:
    data = tiny()
    alone = {"test": data.parts["test"]}
    options: dict[str, Any] = {"data": replace(data, parts=alone, banks=alone), "methods": "is", "banks": "test"}
    first = run(tmp_path, vectors, **options)
    again = run(tmp_path, vectors, **options)
    assert again.measured == 0
    assert any("default parameters" in note for note in again.notes)
    assert again.notes == first.notes


def test_a_case_keeps_the_versions_it_was_made_with(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_file, "versions", lambda: {"unhub": "old"})
    run(tmp_path, vectors, methods="cent", directions="t2i")
    monkeypatch.setattr(result_file, "versions", lambda: {"unhub": "new"})
    found = run(tmp_path, vectors, methods="cent,gc", directions="t2i")
    assert [one["versions"]["unhub"] for one in found.cases] == ["old", "old", "new"]


def test_one_caption_for_each_item_cannot_be_several_and_it_is_said(tmp_path: Path, vectors: Path) -> None:
    data = tiny()
    test = data.parts["test"]
    one = Part(test.items, test.queries.some(test.queries.ids[::2]), test.relevance)
    ready = tmp_path / "ready"
    shutil.copytree(vectors, ready)
    np.save(ready / "test-queries.npy", np.load(ready / "test-queries.npy")[::2])
    parts = {"test": one}
    found = run(tmp_path, ready, data=replace(data, parts=parts, banks=parts), paper="mqvr", methods="all", banks=None)
    assert [note for note in found.notes if "one caption" in note]


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path, vectors: Path) -> None:
    script = f"""
import os, signal, sys
sys.path[:0] = [{SOURCE!r}, {str(Path(__file__).parents[2])!r}]
from tests.bench.tiny_sets import tiny
from unhub.bench import result_file
from unhub.bench.bench_run import bench_run
write = result_file.ResultFile._write
def until_the_third(self):
    write(self)
    if len(self.content["cases"]) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
result_file.ResultFile._write = until_the_third
bench_run(tiny(), {str(tmp_path)!r}, embeddings={str(vectors)!r}, methods={FEW!r}, banks="train", threads=1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = (tmp_path / "results").glob("*.json")
    before = read_results(left)
    assert len(before["cases"]) == 3
    found = run(tmp_path, vectors)
    assert (found.reused, found.measured) == (3, 5)
    assert found.cases[:3] == before["cases"]
    whole = run(tmp_path / "at once", vectors)
    assert [without_time(one) for one in found.cases] == [without_time(one) for one in whole.cases]


def without_time(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != "seconds"}


def test_a_bank_is_drawn_anew_for_each_seed(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, directions="t2i", methods="nnn:k=5,alpha=0.5", banks="train:20%", seeds=3)
    drawn = [one for one in found.cases if one["method"] != "raw"]
    assert [one["seed"] for one in drawn] == [0, 1, 2]
    assert {one["bank_queries"] for one in drawn} == {16}
    assert {one["bank_items"] for one in drawn} == {8}
    assert len({one["inputs"] for one in drawn}) == 3


def test_a_bank_of_another_data_set_goes_by_its_name(tmp_path: Path, vectors: Path) -> None:
    (tmp_path / "ready").mkdir()
    for path in vectors.iterdir():
        (tmp_path / "ready" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "ready" / "far").mkdir()
    for which in ("items", "queries"):
        rows = np.load(vectors / f"train-{which}.npy")
        np.save(tmp_path / "ready" / "far" / f"train-{which}.npy", -rows)
    other = replace(tiny(), name="far")
    options = {"methods": "nnn:k=5,alpha=0.5", "banks": "train,far/train", "banks_from": [other]}
    found = run(tmp_path / "work", tmp_path / "ready", directions="t2i", **options)
    near, far = (case(found, "t2i", "nnn:k=5,alpha=0.5", bank) for bank in ("train", "far/train"))
    assert near["hubness"]["skewness"] < far["hubness"]["skewness"]


def test_a_bank_of_captions_without_their_images_serves_the_methods_that_need_no_bank_items(
    tmp_path: Path, vectors: Path
) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    for name in ("test-items", "test-queries", "train-queries"):
        (ready / f"{name}.npy").write_bytes((vectors / f"{name}.npy").read_bytes())
    found = run(tmp_path, ready, methods="nnn:k=5,alpha=0.5,dbsn:tau=0.05", banks=None)
    assert [(one["direction"], one["bank"], one["method"]) for one in found.cases] == [
        ("t2i", "", "raw"),
        ("t2i", "train", "nnn:k=5,alpha=0.5"),
        ("t2i", "test", "nnn:k=5,alpha=0.5"),
        ("i2t", "", "raw"),
        ("i2t", "test", "nnn:k=5,alpha=0.5"),
    ]
    assert "The bank train has no bank items, so dbsn:tau=0.05 was left out." in found.notes


def test_two_runs_at_once_keep_each_others_cases(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"methods": "cent", "directions": "t2i"}
    plans = Running._plans

    def beside(first: Running, *given: Any) -> None:
        monkeypatch.setattr(Running, "_plans", plans)
        run(tmp_path, vectors, methods="cent", directions="i2t")
        plans(first, *given)

    monkeypatch.setattr(Running, "_plans", beside)
    found = run(tmp_path, vectors, **options)
    kept = [(one["direction"], one["method"]) for one in read_results(found.path)["cases"]]
    assert kept == [("t2i", "raw"), ("t2i", "cent"), ("i2t", "raw"), ("i2t", "cent")]


@pytest.mark.parametrize("first_has_written", [False, True])
def test_two_runs_at_once_of_other_vectors_under_one_name_are_an_error_and_the_cases_stay(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch, first_has_written: bool
) -> None:
    other = write_vectors(tmp_path / "mine", tiny(), seed=1)
    name = "_plans" if first_has_written else "_raw"
    step, seen = getattr(Running, name), list[BenchRun]()

    def beside(first: Running, *given: Any) -> None:
        monkeypatch.setattr(Running, name, step)
        seen.append(run(tmp_path, other, methods="cent"))
        step(first, *given)

    monkeypatch.setattr(Running, name, beside)
    with pytest.raises(ArgumentError, match="model is 'mine', and another run writes results of other vectors"):
        run(tmp_path, vectors, methods="cent")
    (found,) = seen
    assert read_results(found.path)["cases"] == found.content["cases"]
    copies = [*(tmp_path / "results" / "replaced").glob("*.json")]
    assert [len(read_results(one)["cases"]) for one in copies] == ([2] if first_has_written else [])


def test_one_run_at_a_time_changes_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "LONGEST_WAIT", 0.01)
    about = {"data_set": "tiny", "split": "official", "model": "mine", "notes": []}
    first, second = (ResultFile(tmp_path / "results" / "one.json", about) for _ in range(2))
    raw = {"spec": "raw", "values": {}, "gains": {}}
    first.add(CaseKey("t2i"), "same", raw)
    second.add(CaseKey("i2t"), "same", raw)
    first.drop_old("other", direction="t2i")
    assert [one["direction"] for one in read_results(first.path)["cases"]] == ["i2t"]
    stray = tmp_path / "results" / ".one.json.0123abcd.tmp"
    with first.changing():
        stray.touch()  # as of the run that writes now
        with pytest.raises(ArgumentError, match=r"work .* is in use by another run"):
            ResultFile(first.path, about)
        assert stray.exists()
    ResultFile(first.path, about)
    assert not stray.exists()


def test_models_whose_names_give_one_file_are_an_error(tmp_path: Path, vectors: Path) -> None:
    run(tmp_path, vectors, model="a/b", methods="cent", directions="t2i")
    with pytest.raises(ArgumentError, match=r"model is 'a_b', .*-a_b.json, which holds 'a/b' on tiny \(official\)"):
        run(tmp_path, vectors, model="a_b", methods="cent", directions="t2i")


def test_one_file_for_all_parts_is_matched_by_id_and_what_is_missing_is_counted(tmp_path: Path, vectors: Path) -> None:
    ready = tmp_path / "one file"
    ready.mkdir()
    for which in ("items", "queries"):
        held = [read(vectors, part, which) for part in PARTS]
        rows, ids = np.concatenate([one.rows[:] for one in held]), np.concatenate([one.ids for one in held])
        order = np.random.default_rng(0).permutation(len(ids))[:-5]
        np.save(ready / f"{which}.npy", rows[order])
        (ready / f"{which}-ids.txt").write_text("\n".join(ids[order]))
    found = run(tmp_path, ready, directions="t2i")
    assert any("have no vector in" in note for note in found.notes)
    for which in ("items", "queries"):
        held = [read(vectors, part, which) for part in PARTS]
        np.savez(
            ready / f"{which}.npz",
            ids=np.concatenate([one.ids for one in held]),
            vectors=np.concatenate([one.rows[:] for one in held]),
        )
        (ready / f"{which}.npy").unlink()
        (ready / f"{which}-ids.txt").unlink()
    again = run(tmp_path / "again", ready, directions="t2i")
    whole = run(tmp_path / "whole", vectors, directions="t2i")
    assert [one["values"] for one in again.cases] == [one["values"] for one in whole.cases]
    assert again.notes == whole.notes
    assert not any("vector" in note for note in again.notes)


def test_images_that_ask_for_images_leave_themselves_out(tmp_path: Path) -> None:
    names = {part: np.array([f"{part} {number}" for number in range(count)]) for part, count in PARTS.items()}
    parts = {}
    for part, ids in names.items():
        side = Side("image", ids, paths=(None,) * len(ids))
        pairs = [(one, other) for place, one in enumerate(ids) for other in ids[place % 5 :: 5]]
        parts[part] = Part(side, side, unhub.Relevance(*zip(*pairs, strict=True)))
    protocol = Protocol("image-image", ("i2i",), ("R@1",), leave_out_itself=True)
    data = tiny(parts=parts, banks=parts, protocol=protocol)
    vectors = tmp_path / "ready"
    vectors.mkdir()
    random = np.random.default_rng(0)
    for part, ids in names.items():
        centres = random.normal(size=(5, 8))
        np.save(vectors / f"{part}-items.npy", centres[np.arange(len(ids)) % 5] + random.normal(size=(len(ids), 8)))
    found = run(tmp_path, vectors, data=data, methods="nnn", banks="train")
    items = unhub.Vectors(names["test"], np.load(vectors / "test-items.npy"))
    relevance = parts["test"].relevance
    assert relevance is not None
    by_hand = unhub.evaluate(items, items, relevance, (), ["R@1", "mAP@R"], exclude="self", threads=1)
    assert case(found, "i2i", "raw", "")["values"]["mAP@R"] == by_hand.rows[0].values["mAP@R"].to_dict()


def looks(counts: dict[str, int], classes: dict[str, int]) -> DataSet:
    """Return images that ask for images, so many of each part in so many classes."""
    parts = {}
    for part, count in counts.items():
        ids = np.array([f"{part} {number}" for number in range(count)])
        side = Side("image", ids, paths=(None,) * count)
        pairs = [(one, other) for place, one in enumerate(ids) for other in ids[place % classes[part] :: classes[part]]]
        parts[part] = Part(side, side, unhub.Relevance(*zip(*pairs, strict=True)))
    protocol = Protocol("image-image", ("i2i",), ("R@1",), leave_out_itself=True)
    return tiny(parts=parts, banks=parts, protocol=protocol)


def write_looks(folder: Path, data: DataSet) -> Path:
    folder.mkdir()
    for part, held in data.parts.items():
        np.save(folder / f"{part}-items.npy", np.random.default_rng(0).normal(size=(len(held.items), 8)))
    return folder


def test_images_of_train_without_a_second_of_their_class_choose_nothing_and_it_is_said(tmp_path: Path) -> None:
    data = looks({"train": 6, "test": 20}, {"train": 6, "test": 5})
    found = run(tmp_path, write_looks(tmp_path / "ready", data), data=data, methods="is", banks="train")
    assert case(found, "i2i", "is")["choice"] is None
    assert any(note.startswith("Nothing to choose settings on with the bank train") for note in found.notes)


def test_test_images_without_an_answer_are_said(tmp_path: Path) -> None:
    data = looks({"test": 4}, {"test": 4})
    ready = write_looks(tmp_path / "ready", data)
    with pytest.raises(ArgumentError, match="data has 4 queries and 4 items of test that could be used, and no query"):
        run(tmp_path, ready, data=data, methods="cent", banks="test")


def test_images_that_are_their_own_bank_are_said(tmp_path: Path, vectors: Path) -> None:
    data = looks({"train": 10, "test": 20}, {"train": 5, "test": 5})
    ready = write_looks(tmp_path / "ready", data)
    said = "In the bank test every image meets itself"
    found = run(tmp_path / "own", ready, data=data, methods="sn:tau=0.01", banks="test")
    assert any(note.startswith(f"i2i: {said}") for note in found.notes)
    assert case(found, "i2i", "sn:tau=0.01", "test")["values"] == case(found, "i2i", "raw", "")["values"]  # as it says
    for kept, given in ((ready, {"data": data, "banks": "train"}), (vectors, {"banks": "test"})):
        other = run(tmp_path / kept.name, kept, methods="sn:tau=0.01", **given)
        assert not any(said in note for note in other.notes)


def test_images_are_not_several_captions_of_one_query(tmp_path: Path) -> None:
    data = looks({"test": 20}, {"test": 5})
    ready = write_looks(tmp_path / "ready", data)
    found = run(tmp_path, ready, data=data, paper="mqvr", methods="all", banks=None)
    assert [one["method"] for one in found.cases] == ["raw"]
    assert "Several captions as one query were left out: image-image has no captions." in found.notes
    assert not any("meets itself" in note for note in found.notes)  # since no method was run


def test_a_chosen_k_is_cut_to_a_bank_that_is_smaller_than_the_one_that_chose(tmp_path: Path, vectors: Path) -> None:
    data = tiny()
    few = data.parts["test"].queries.some(data.parts["test"].queries.ids[:3])
    ready = tmp_path / "ready"
    shutil.copytree(vectors, ready)
    np.save(ready / "test-queries.npy", np.load(ready / "test-queries.npy")[:3])
    parts = {**data.parts, "test": Part(data.parts["test"].items, few, data.parts["test"].relevance)}
    found = run(tmp_path, ready, data=replace(data, parts=parts), methods="csls,nnn", banks="test", directions="t2i")
    chosen = {method: case(found, "t2i", method, "test") for method in ("csls", "nnn")}
    assert parse(chosen["nnn"]["choice"]["spec"]).values["k"] == 4
    assert [parse(one["spec"]).values["k"] for one in chosen.values()] == [3, 3]


def test_a_matrix_gives_the_figures_of_the_vectors_it_was_made_of(tmp_path: Path, vectors: Path) -> None:
    items, queries = (np.load(vectors / f"test-{which}.npy") for which in ("items", "queries"))
    items, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (items, queries))
    bank = np.load(vectors / "train-queries.npy")
    bank /= np.linalg.norm(bank, axis=1, keepdims=True)
    np.save(tmp_path / "sims.npy", queries @ items.T)
    np.save(tmp_path / "bank.npy", bank @ items.T)
    given = {"embeddings": None, "matrix": tmp_path / "sims.npy", "bank_matrix": {"train": tmp_path / "bank.npy"}}
    methods = "nnn:k=5,alpha=0.5,sn:tau=0.05"
    by_matrix = run(tmp_path, vectors, banks=None, methods=methods, **given)
    by_vectors = run(tmp_path, vectors, banks="train,test", methods=methods)
    for direction, bank_name in (("t2i", "train"), ("t2i", "test"), ("i2t", "test")):
        for method in ("nnn:k=5,alpha=0.5", "sn:tau=0.05"):
            one = case(by_matrix, direction, method, bank_name)["values"]["R@1"]
            assert one == case(by_vectors, direction, method, bank_name)["values"]["R@1"]


def test_bank_matrices_serve_the_banks_of_a_paper_by_their_names(tmp_path: Path, vectors: Path) -> None:
    random = np.random.default_rng(0)
    np.save(tmp_path / "sims.npy", random.normal(size=(40, 20)))
    np.save(tmp_path / "bank.npy", random.normal(size=(80, 20)))
    given = {"embeddings": None, "matrix": tmp_path / "sims.npy", "methods": "is", "banks": None, "directions": "t2i"}
    banks = dict.fromkeys(("train", "train:30:far"), tmp_path / "bank.npy")
    found = run(tmp_path, vectors, paper="dbsn", bank_matrix=banks, **given)
    assert {one["bank"] for one in found.cases} == {"", "train", "test"}
    assert "Banks of the paper that are not there for t2i: val." in found.notes
    far = run(tmp_path, vectors, bank_matrix=banks, **{**given, "banks": "train:30:far"})
    assert case(far, "t2i", "is", "train:30:far")["bank_queries"] == 80
    with pytest.raises(ArgumentError, match="that of the queries at hand"):
        run(tmp_path, vectors, bank_matrix={"test": tmp_path / "bank.npy"}, **given)


def test_rows_in_another_order_are_no_better_than_chance_and_it_is_said(tmp_path: Path, vectors: Path) -> None:
    items = tiny().items
    asked = Side(
        "text", np.array([f"text of {one}" for one in items.ids]), texts=tuple((str(one),) for one in items.ids)
    )
    data = tiny(parts={"test": Part(items, asked, unhub.Relevance(asked.ids, items.ids))}, banks={})
    np.save(tmp_path / "right.npy", np.eye(20))
    np.save(tmp_path / "wrong.npy", np.roll(np.eye(20), 1, axis=0))
    given = {"embeddings": None, "methods": "nnn:k=5,alpha=0.5", "banks": "test", "directions": "t2i", "data": data}
    right = run(tmp_path, vectors, matrix=tmp_path / "right.npy", **given)
    wrong = run(tmp_path, vectors, matrix=tmp_path / "wrong.npy", **given)
    assert not any("chance" in note for note in right.notes)
    assert any("chance alone gives 5: check that the rows are in the order" in note for note in wrong.notes)
    assert any("square, so its shape does not tell" in note for note in right.notes)


def test_several_captions_are_one_query_in_the_protocol_of_mqvr(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, paper="mqvr", methods="all", banks=None)
    relevance = tiny().relevance
    assert relevance is not None
    texts, items = read(vectors, "test", "queries"), read(vectors, "test", "items")
    by_hand = unhub.evaluate_sets(texts, items, relevance, [1, 2], combine="sa", measures=["R@1"], threads=1)
    (two,) = [one for one in found.cases if (one["method"], one["together"]) == ("sa", 2)]
    assert two["values"]["R@1"] == by_hand["sa", "raw", 2].values["R@1"].to_dict()
    assert two["values"]["AUC_2 of R@1"] == by_hand.area("sa", "raw", 2).value.to_dict()


def moved(first: Float64, second: Float64) -> float:
    """Return the earth mover's distance of as many rows of length one, by assignment."""
    cost = 1 - first @ second.T
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].mean())


def unit(folder: Path, part: str, which: str) -> Float64:
    rows = np.load(folder / f"{part}-{which}.npy").astype(np.float64)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def test_the_protocol_of_dbsn_keeps_the_earth_movers_distances_of_a_bank(tmp_path: Path, vectors: Path) -> None:
    # As many captions as images on every side, so that no rows are drawn and the distance is an assignment.
    data = tiny()
    ready = tmp_path / "ready"
    ready.mkdir()
    parts = {}
    for name, count in {"train": 20, "test": 20}.items():
        held = data.parts[name]
        items, queries = held.items.some(held.items.ids[:count]), held.queries.some(held.queries.ids[: 2 * count : 2])
        parts[name] = Part(items, queries, held.relevance)
        np.save(ready / f"{name}-items.npy", np.load(vectors / f"{name}-items.npy")[:count])
        np.save(ready / f"{name}-queries.npy", np.load(vectors / f"{name}-queries.npy")[: 2 * count : 2])
    given = {"data": replace(data, parts=parts, banks=parts), "paper": "dbsn", "banks": "train"}
    found = run(tmp_path / "work", ready, **given, methods="is,dbsn,otn", directions="i2t")
    kept = case(found, "i2t", "dbsn")["distances"]
    assert kept == case(found, "i2t", "is")["distances"]
    bank, bank_items = unit(ready, "train", "items"), unit(ready, "train", "queries")
    assert kept["rows"] == 10  # half of the queries, so that two halves can be compared
    whole = np.concatenate([unit(ready, "test", "queries"), bank_items])
    twice = np.concatenate([bank, bank])  # 20 rows onto 40 of half their weight
    assert kept["bank_both"] >= moved(twice, whole) - 1e-9  # of 20 of the 40: never below all of them
    heads, rows = found.distance_cells("i2t")
    assert heads[:2] == ["bank", "bank to items"] and [row[0] for row in rows] == ["train"]
    assert run(tmp_path / "other", ready, data=given["data"], banks="train").distance_cells("i2t")[1] == []


def test_distances_are_measured_once_their_library_is_there(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"paper": "dbsn", "methods": "is", "banks": "test", "directions": "t2i"}
    with monkeypatch.context() as absent:
        absent.setattr(case_figures, "SOLVER", "no_such_library")
        for _ in range(2):
            assert case_figures.NO_SOLVER in run(tmp_path, vectors, **options).notes
    found = run(tmp_path, vectors, **options)
    assert (found.measured, found.reused) == (1, 1)
    assert case(found, "t2i", "is", "test")["distances"]
    assert case_figures.NO_SOLVER not in found.notes
    assert run(tmp_path, vectors, **options).measured == 0


def test_a_matrix_has_no_distances_and_it_is_said(tmp_path: Path, vectors: Path) -> None:
    np.save(tmp_path / "sims.npy", np.random.default_rng(0).normal(size=(40, 20)))
    options: dict[str, Any] = {"paper": "dbsn", "methods": "is", "banks": "test", "directions": "t2i"}
    for measured in (2, 0):
        found = run(tmp_path, vectors, embeddings=None, matrix=tmp_path / "sims.npy", **options)
        assert "Earth mover's distances were left out: they need vectors, not a matrix." in found.notes
        assert found.measured == measured


def test_the_sparsity_of_a_plan_is_the_share_of_pairs_that_get_nothing(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, paper="dbsn", methods="otn", banks="test", directions="t2i")
    queries, items = unit(vectors, "test", "queries"), unit(vectors, "test", "items")
    plan = ot.emd([], [], 1 - queries @ items.T)
    assert case(found, "t2i", "otn", "")["values"]["sparsity"]["value"] == np.mean(plan < 1e-12) > 0.9
    assert "sparsity" not in case(found, "t2i", "raw", "")["values"]


def test_sets_have_the_papers_mean_over_repetitions_and_areas_in_the_table(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, paper="mqvr", methods="all", banks=None)
    texts, items = read(vectors, "test", "queries"), read(vectors, "test", "items")
    relevance = cast("unhub.Relevance", tiny().relevance)
    by_hand = unhub.evaluate_sets(texts, items, relevance, [1, 2], combine="ra", measures=["MdR"], threads=1)
    one = next(one for one in found.cases if (one["method"], one["together"]) == ("ra", 1))
    mean = by_hand["ra", "raw", 1].mean_over_repetitions["MdR"]
    assert mean != by_hand["ra", "raw", 1].values["MdR"].value  # or this shows nothing
    assert one["values"]["MdR"] == {"value": mean, "low": None, "high": None}
    heads, rows = found.cells("t2i")
    column = heads.index("AUC of R@1")
    two = next(one for one in found.cases if (one["method"], one["together"]) == ("sa", 2))
    assert f"{two['values']['AUC_2 of R@1']['value']:.2f}" in next(row for row in rows if "sa (2" in row[0])[column]
    assert any("every possible set" in note for note in found.notes)
    assert run(tmp_path, vectors, paper="mqvr", methods="all", banks=None).notes == found.notes


def test_sets_that_are_drawn_with_another_seed_are_measured_again(tmp_path: Path, vectors: Path) -> None:
    run(tmp_path, vectors, paper="mqvr", methods="all", banks=None)
    again = run(tmp_path, vectors, paper="mqvr", methods="all", banks=None, seed=1)
    assert again.measured == 8  # four combinations of one and of two; raw is not drawn
    assert len({one["inputs"] for one in again.cases if one["method"] == "sa"}) == 1


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        ({"methods": "nope"}, "method", "nope"),
        ({"methods": "raw"}, "methods", "always measured"),
        ({"methods": ""}, "methods", "is empty"),
        ({"directions": "v2t"}, "directions", "v2t"),
        ({"banks": "elsewhere"}, "banks", "elsewhere"),
        ({"banks": "train:200%"}, "banks", "train:200%"),
        ({"banks": "train:many"}, "banks", "train:many"),
        ({"banks": "train::far"}, "banks", "train::far"),
        ({"banks": "train:5:worst"}, "banks", "worst"),
        ({"paper": "bert"}, "paper", "bert"),
        ({"seeds": 0}, "seeds", "got 0"),
        ({"embeddings": None}, "encoder", "absent"),
        ({"matrix": "m.npy"}, "encoder", "embeddings, matrix"),
        ({"bank_matrix": {"train": "m.npy"}}, "bank_matrix", "without matrix"),
    ],
)
def test_what_cannot_be_run_is_said(
    tmp_path: Path, vectors: Path, given: dict[str, Any], named: str, said: str
) -> None:
    with pytest.raises(ArgumentError) as raised:
        run(tmp_path, vectors, **given)
    assert raised.value.name == named
    assert said in str(raised.value)


def test_vectors_that_are_missing_or_of_other_things_are_said(tmp_path: Path, vectors: Path) -> None:
    with pytest.raises(ArgumentError, match="must be a folder"):
        run(tmp_path, tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ArgumentError, match="has no test-items"):
        run(tmp_path, empty)
    (empty / "train-queries.pkl").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"train-queries\.pkl: holds pickled objects, .* save the array by numpy\.save"
    ):
        run(tmp_path, empty, banks=None)
    (empty / "train-queries.pkl").unlink()
    np.save(empty / "test-items.npy", np.ones((3, 8), np.float32))
    np.save(empty / "test-queries.npy", np.ones((40, 8), np.float32))
    with pytest.raises(ArgumentError, match="3 rows without ids, test has 20 items"):
        run(tmp_path, empty)
    (empty / "test-items-ids.txt").write_text("a\nb\nc")
    with pytest.raises(ArgumentError, match="has none of the 20 test items: it has the id 'a'"):
        run(tmp_path, empty)
    np.savez(empty / "test-items.npz", vectors=np.ones((20, 8)))
    with pytest.raises(ArgumentError, match=r"has test-items\.npy and test-items\.npz"):
        run(tmp_path, empty)
    np.save(tmp_path / "turned.npy", np.ones((20, 40)))
    with pytest.raises(ArgumentError, match="transpose it"):
        run(tmp_path, vectors, embeddings=None, matrix=tmp_path / "turned.npy")


def test_a_broken_file_of_results_is_said(tmp_path: Path, vectors: Path) -> None:
    found = run(tmp_path, vectors, directions="t2i", methods="nnn:k=5,alpha=0.5")
    found.path.write_text("{")
    with pytest.raises(ArgumentError, match="is not a file of results"):
        run(tmp_path, vectors)
    nothing = {"data_set": "tiny", "split": "official", "model": "mine", "choices": []}
    for damaged in ({**found.content, "format": "x"}, {"format": 1, "cases": [], "choices": []}):
        found.path.write_text(json.dumps(damaged))
        with pytest.raises(ArgumentError, match="is not a file of results"):
            run(tmp_path, vectors)
    without_values = {name: value for name, value in found.cases[0].items() if name != "values"}
    found.path.write_text(json.dumps({**nothing, "format": 1, "cases": [without_values]}))
    with pytest.raises(ArgumentError, match="is not a file of results"):
        run(tmp_path, vectors)
    found.path.write_text(json.dumps({**found.content, "format": 99}))
    with pytest.raises(ArgumentError, match="newer unhub"):
        run(tmp_path, vectors)


def test_a_run_is_printed_with_its_sizes_and_shown_in_few_words(tmp_path: Path, vectors: Path) -> None:
    data = tiny()
    half = data.parts["test"].items.ids[:10]
    few = data.parts["test"].items.some(half)
    part = Part(few, data.parts["test"].queries, data.parts["test"].relevance)
    ready = tmp_path / "ready"
    shutil.copytree(vectors, ready)
    np.save(ready / "test-items.npy", np.load(ready / "test-items.npy")[:10])
    found = run(tmp_path, ready, data=replace(data, parts={**data.parts, "test": part}), methods="cent")
    printed = str(found)
    assert "t2i: 20 queries x 10 items of 40 x 20" in printed
    assert "i2t: 10 queries x 40 items of 20 x 40" in printed
    assert "train (80)" in printed
    assert "t2i: 20 queries have no answer among the items" in printed
    assert "i2t: 20 of 40 items answer no query that is there, and are searched all the same." in printed
    assert repr(found) == f"<BenchRun: tiny official ready, 4 cases in {found.path}>"


def test_skewness_names_the_places_it_is_counted_over(tmp_path: Path, vectors: Path) -> None:
    for paper, head in ((None, "skewness@10"), ("nnn", "skewness@1")):
        found = run(tmp_path, vectors, paper=paper, methods="cent", directions="t2i")
        assert found.cells("t2i")[0][-1] == head
