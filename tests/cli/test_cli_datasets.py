"""`unhub datasets` lists the data sets in 80 columns, and checks a folder."""

import json
from pathlib import Path

import pytest

from tests.command import fail, here, program, succeed
from tests.datasets import official_layouts
from unhub import datasets
from unhub.datasets import DATASETS

pytestmark = pytest.mark.once


def official_visogender(folder: Path) -> None:
    """Write as many rows and images as the official table has."""
    heads = ("IDX", "Occupation", "Object", "Occupation_perceived_gender")
    rows = [(f"OO_{k}", f"worker {k % 23}", "tool", ("masculine", "feminine")[k % 2]) for k in range(230)]
    official_layouts.write_table(folder / "OO_Visogender_1.tsv", [heads, *rows], delimiter="\t")
    official_layouts.touch(folder / "images", [f"{row[0]}.jpg" for row in rows])


def test_the_list_names_every_data_set_in_80_columns(tmp_path: Path) -> None:
    printed = succeed(tmp_path, "datasets", run=program)
    shown, _, said = printed.rpartition("\n\n")
    assert max(map(len, shown.splitlines())) <= 80
    assert "anywhere below the folder" in said
    for name, known in DATASETS.items():
        (line,) = [line for line in shown.splitlines() if line.split()[:1] == [name]]
        assert known.task.split()[0] in line
    assert shown.count("layout not") == sum(bool(known.unverified) for known in DATASETS.values()) == 11
    assert "verified for full" in shown  # MSR-VTT: its other split is verified
    assert shown.count("Terms:") == len(DATASETS)


def test_the_list_is_json_too(tmp_path: Path) -> None:
    listed = json.loads(succeed(tmp_path, "datasets", "--json"))
    assert [one["name"] for one in listed] == [*DATASETS]
    assert listed[0]["sizes"]["1k-A"]["test"] == [1_000, 1_000]
    assert listed[0]["verified"] == ["1k-A", "1k-A-20"]
    assert listed[0]["files"][0]["names"] == ["MSRVTT_JSFUSION_test.csv"]
    assert succeed(tmp_path, "datasets", "--quiet") == ""


def test_a_complete_folder_ends_with_0(tmp_path: Path) -> None:
    official_visogender(tmp_path)
    printed = succeed(tmp_path, "datasets", "check", "visogender", "--data", ".")
    assert "OO_Visogender_1.tsv" in printed and "none of 230" in printed
    assert printed.endswith("visogender, split OO: the test part is complete.\n")
    assert json.loads(succeed(tmp_path, "datasets", "check", "visogender", "--data", ".", "--json"))["complete"]
    assert succeed(tmp_path, "datasets", "check", "visogender", "--data", ".", "--quiet") == ""


def test_a_missing_image_ends_with_1(tmp_path: Path) -> None:
    official_visogender(tmp_path)
    (tmp_path / "images" / "OO_7.jpg").unlink()
    done = here(tmp_path, "datasets", "check", "visogender", "--data", ".")
    assert (done.returncode, done.stderr) == (3, "")
    assert "1 of 230" in done.stdout and "for example OO_7" in done.stdout and "not complete" in done.stdout
    assert max(map(len, done.stdout.split("\n\n")[0].splitlines())) <= 80


def test_an_empty_image_is_counted_and_named(tmp_path: Path) -> None:
    official_visogender(tmp_path)
    (tmp_path / "images" / "OO_7.jpg").write_bytes(b"")
    done = here(tmp_path, "datasets", "check", "visogender", "--data", ".")
    assert (done.returncode, done.stderr) == (3, "")
    assert "none of 230" in done.stdout and "test: 1 of 230 files is empty, for example OO_7" in done.stdout
    (part,) = datasets.check("visogender", tmp_path).parts
    assert (part.missing, part.empty) == (0, 1)


def test_a_bank_has_a_line_in_the_table(tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_text("file,text,split\na.jpg,x,test\nb.jpg,y,tset\n")
    (tmp_path / "a.jpg").write_bytes(b"x")
    printed = succeed(tmp_path, "datasets", "check", "folder", "--data", ".")
    (line,) = [line.split() for line in printed.splitlines() if line.startswith("tset (bank)")]
    assert line[2:] == ["1", "?", "1", "?", "1", "of", "1"]


def test_missing_annotations_end_with_1_and_say_what_to_fetch(tmp_path: Path) -> None:
    done = here(tmp_path, "datasets", "check", "msrvtt", "--data", ".", "--split", "full")
    assert (done.returncode, done.stderr) == (3, "")
    assert "missing, and needed" in done.stdout and "fetch MSRVTT_data.json" in done.stdout


def test_the_check_prints_what_the_library_finds(tmp_path: Path) -> None:
    official_layouts.coco(tmp_path)
    done = here(tmp_path, "datasets", "check", "coco", "--data", str(tmp_path), "--json")
    found, printed = datasets.check("coco", tmp_path), json.loads(done.stdout)
    assert done.returncode == 3 and printed["complete"] is found.complete is False
    assert [part["missing"] for part in printed["parts"]] == [part.missing for part in found.parts] == [0, 0, 0]
    assert printed["parts"][-1]["official"] == [5_000, 25_000]
    assert printed["notes"] == [*found.notes]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "flick8k", "--data", "."), "did you mean 'flickr8k'?"),
        (("check", "coco", "--data", "nowhere"), "--data nowhere does not exist"),
        (("check", "coco", "--data", ".", "--split", "1k"), "--split '1k' is unknown"),
        (("chek", "coco"), "Did you mean 'check'?"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in fail(tmp_path, "datasets", *arguments)
