"""Traps of the official files, and folders that are wrong: counted and said, with what to fetch."""

import json
import pickle
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
import scipy.io

from tests.datasets import official_layouts
from tests.datasets.official_layouts import WRITERS, touch, write_json, write_list, write_table
from unhub import datasets
from unhub.datasets import DATASETS
from unhub.datasets.annotations import read_list
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once


def refusal(name: str, folder: Path, split: str | None = None) -> ArgumentError:
    """Return the error of a folder that cannot be read; in one line, with a remedy, it says which data it is about."""
    with pytest.raises(ArgumentError) as caught:
        datasets.load(name, folder, split)
    assert caught.value.name == "data" and caught.value.remedy and "\n" not in str(caught.value)
    assert caught.value.problem.startswith(str(folder))
    return caught.value


@pytest.mark.parametrize("name", DATASETS)
def test_an_empty_folder_says_what_to_fetch(tmp_path: Path, name: str) -> None:
    for split in DATASETS[name].splits:
        assert ("write" if name == "folder" else "fetch") in refusal(name, tmp_path, split).remedy
        checked = datasets.check(name, tmp_path, split)
        assert not checked.complete and checked.problem and not checked.parts
        assert any(one.needed and one.path is None for one in checked.files)


@pytest.mark.parametrize("name", DATASETS)
def test_half_a_download_is_said_and_never_a_traceback(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path)
    for split in (one for one in DATASETS[name].splits if one != "mei"):  # whose files have the names of the others
        for wanted in (one for one in DATASETS[name].files if one.needed and one.names and one.for_split(split)):
            path = Scanned.of(tmp_path).find(*wanted.names)
            if path is None:
                continue
            whole = path.read_bytes()
            for part in (
                b"",
                whole[: len(whole) // 2],
                b"<!DOCTYPE html><html>Log in</html>",
                b"\xff\xfe\x00\x01" * 40,
            ):
                path.write_bytes(part)
                checked = datasets.check(name, tmp_path, split)
                assert checked.problem or checked.notes
            path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
            assert "pointer of Git LFS" in refusal(name, tmp_path, split).problem
            path.write_bytes(whole)


@pytest.mark.parametrize("name", DATASETS)
def test_a_damaged_file_ends_in_words(tmp_path: Path, name: str) -> None:
    random = Random(name)
    WRITERS[name](tmp_path)
    for path in [one for one in tmp_path.rglob("*") if one.is_file() and one.stat().st_size > 1]:
        whole = path.read_bytes()
        for _ in range(8):
            damaged = bytearray(whole)
            place = random.randrange(len(damaged))
            damaged[place : place + random.randrange(9)] = random.choice((b"", b'"', b"\t", b"\n", b" 7 ", b"x\xff"))
            path.write_bytes(damaged)
            datasets.check(name, tmp_path)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "name", [name for name, known in DATASETS.items() if known.files[0].names[0].endswith(".json")]
)
@pytest.mark.parametrize("content", [[], {}, [1], {"a": 1}, {"images": [{}]}, 3, "text", None, {"a": [None]}])
def test_json_of_another_form_is_said(tmp_path: Path, name: str, content: object) -> None:
    WRITERS[name](tmp_path)
    path = Scanned.of(tmp_path).find(DATASETS[name].files[0].names[0])
    assert path is not None
    write_json(path, content)
    refusal(name, tmp_path)


@pytest.mark.parametrize(
    "name", sorted(DATASETS.keys() - {"imagenet"})
)  # whose images name the classes by their folders
def test_captions_without_media_are_counted(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path)
    for path in [*tmp_path.rglob("*")]:
        if path.is_file() and path.stat().st_size == 1:  # as `touch` writes them
            path.unlink()
    data = datasets.load(name, tmp_path)
    sides = (data.items,) if data.queries.kind == "text" else (data.items, data.queries)
    for side in sides:
        assert side.missing.tolist() == side.ids.tolist()
    assert any(f"test: {len(data.items)} of {len(data.items)}" in note for note in data.notes)
    said = "the files must be there" if name == "folder" else "fetch them from"
    assert any(said in note for note in data.notes) and not any("from you" in note for note in data.notes)


def test_media_without_captions_are_counted(tmp_path: Path) -> None:
    official_layouts.flickr30k(tmp_path)
    touch(tmp_path / "more", ["1.jpg", "2.png", "notes.txt", ".hidden.jpg"])
    assert datasets.load("flickr30k", tmp_path).notes[-1] == "2 image files are named by no annotation that was read"


def test_a_listed_video_without_a_caption_stays_an_item_and_is_counted(tmp_path: Path) -> None:
    official_layouts.msvd(tmp_path)
    write_list(tmp_path / "test_list.txt", ["eyhzdC936uk_15_27", "nobody_1_2"])
    data = datasets.load("msvd", tmp_path)
    assert (len(data.items), len(data.queries)) == (2, 2)
    assert "test: 1 listed name has no caption, for example nobody_1_2" in data.notes


def test_a_folder_of_another_data_set_is_recognised(tmp_path: Path) -> None:
    official_layouts.flickr8k(tmp_path)
    assert "it looks like flickr8k" in refusal("msrvtt", tmp_path).remedy


def test_no_folder_a_file_and_unknown_names_are_refused(tmp_path: Path) -> None:
    assert "does not exist" in refusal("cub", tmp_path / "nowhere").problem
    (tmp_path / "file").touch()
    assert "is a file" in refusal("cub", tmp_path / "file").problem
    with pytest.raises(ArgumentError, match="did you mean 'flickr30k'"):
        datasets.load("flick30k", tmp_path)
    with pytest.raises(ArgumentError, match="the splits of msrvtt are 1k-A, 1k-A-20, full"):
        datasets.load("msrvtt", tmp_path, "1kA")


class Harmful:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return sys.exit, ("a pickle was opened",)


@pytest.mark.parametrize(("name", "stem"), [("msvd", "raw-captions"), ("queryd", "raw_captions_combined_filtered")])
def test_a_pickle_is_never_opened(tmp_path: Path, name: str, stem: str) -> None:
    WRITERS[name](tmp_path)
    for path in tmp_path.glob("*.json"):
        path.unlink()
    (tmp_path / f"{stem}.pkl").write_bytes(pickle.dumps(Harmful()))
    error = refusal(name, tmp_path)
    assert f"{stem}.pkl, a pickle" in error.problem and "without running it" in error.remedy
    write_json(tmp_path / f"{stem}.json", {"eyhzdC936uk_15_27": [["a", "cat"]], "video-uc0O6cqYbyk": ["a cat"]})
    texts = datasets.load(name, tmp_path).queries.texts
    assert texts == (("a cat",),)


def test_lists_end_without_a_newline_or_with_one_or_in_crlf(tmp_path: Path) -> None:
    for number, text in enumerate(("a\nb", "a\nb\n", "a\r\nb\r\n", "\ufeffa\n\nb\n")):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(text.encode())
        assert read_list(path) == ["a", "b"]
    (tmp_path / "twice.txt").write_text("a\nb\na\n")
    with pytest.raises(ArgumentError, match="names 1 of its entries twice"):
        read_list(tmp_path / "twice.txt")


def test_the_sixth_caption_of_an_image_is_left_out_and_said(tmp_path: Path) -> None:
    official_layouts.coco(tmp_path)
    data = datasets.load("coco", tmp_path)
    assert data.queries.ids.tolist()[:6] == [
        *(f"COCO_val2014_000000391895.jpg#{k}" for k in range(5)),
        "COCO_val2014_000000060623.jpg#0",
    ]
    assert "5 captions beyond the fifth of an image are left out, as in the papers" in data.notes


@pytest.mark.parametrize("name", ["flickr30k", "flickr8k"])
def test_every_split_of_karpathy_says_what_it_leaves_out(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / f"dataset_{name}.json", official_layouts.karpathy({"1.jpg": "test"}, captions=7))
    said = "2 captions beyond the fifth of an image are left out, as in the papers"
    assert said in datasets.load(name, tmp_path, "karpathy").notes


def test_other_splits_of_coco_and_flickr30k_are_refused_in_words(tmp_path: Path) -> None:
    write_json(tmp_path / "captions_val2017.json", {"images": [], "annotations": []})
    assert "593 are in it" in refusal("coco", tmp_path).problem
    write_list(tmp_path / "test.txt", ["1016887272"])
    assert "Flickr30k Entities" in refusal("flickr30k", tmp_path).problem


def test_cars_of_the_same_name_are_two_cars(tmp_path: Path) -> None:
    official_layouts.cars196(tmp_path)
    data = datasets.load("cars196", tmp_path)
    assert data.items.ids.tolist() == [f"{where}/0000{k}.jpg" for where in ("cars_train", "cars_test") for k in (3, 4)]
    assert data.items.paths == tuple(tmp_path / one for one in data.items.ids.tolist())
    (tmp_path / "cars_test_annos_withlabels.mat").rename(tmp_path / "cars_test_annos.mat")
    assert "holds no classes" in refusal("cars196", tmp_path).problem


@pytest.mark.parametrize("packed", [True, False])
def test_a_mat_file_with_any_one_byte_changed_ends_in_words(tmp_path: Path, packed: bool) -> None:
    """A reader in C may crash on one of them, and take the process with it."""
    official_layouts.cars196(tmp_path)
    path = tmp_path / "devkit" / "cars_train_annos.mat"
    official_layouts.write_mat(path, [(1, "00001.jpg"), (150, "00003.jpg")], packed=packed)
    files, whole = Scanned.of(tmp_path), path.read_bytes()
    refused = list[ArgumentError]()
    for place in range(len(whole)):
        for flipped in (1, 0x80, 0xFF):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flipped]) + whole[place + 1 :])
            try:
                DATASETS["cars196"].load(files, "classes")
            except ArgumentError as error:
                refused.append(error)
    assert len(refused) > 100
    assert all(error.name == "data" and "\n" not in str(error) for error in refused)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"annotations": np.eye(2)}, "holds no struct 'annotations', but annotations"),
        ({"other": 1}, "holds no struct 'annotations', but other"),
        ({"annotations": {"fname": "1.jpg"}}, "KeyError: 'class'"),
        ({"annotations": {"class": 1.5, "fname": "1.jpg"}}, "the class is 1.5"),
        ({"annotations": {"class": np.inf, "fname": "1.jpg"}}, "the class is inf"),
        ({"annotations": {"class": "Audi", "fname": "1.jpg"}}, "the class is 'Audi'"),
        ({"annotations": {"class": 1, "fname": 2}}, "2 is no text"),
        ({"annotations": {"class": 1, "fname": np.array([["1.jpg"]], object)}}, "of MATLAB's class cell"),
        ({"annotations": {"class": 1j, "fname": "1.jpg"}}, "complex numbers"),
        ({"annotations": {"class": 1, "fname": np.array(["1.jpg", "2.jpg"])}}, "several lines"),
    ],
)
def test_a_mat_file_of_another_form_is_said(tmp_path: Path, values: dict[str, object], words: str) -> None:
    official_layouts.cars196(tmp_path)
    scipy.io.savemat(tmp_path / "devkit" / "cars_train_annos.mat", values)
    assert words in refusal("cars196", tmp_path).problem


def test_in_shop_columns_are_runs_of_spaces_and_a_short_list_is_refused(tmp_path: Path) -> None:
    official_layouts.inshop(tmp_path)
    path = tmp_path / "Eval" / "list_eval_partition.txt"
    assert "      " in path.read_text()
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]))
    assert "says '7' in its first line and lists 6 images" in refusal("inshop", tmp_path).problem


def test_a_name_that_ends_in_jpg_1_is_not_the_image_without_it(tmp_path: Path) -> None:
    official_layouts.flickr8k(tmp_path)
    ghost = "2258277193_586949ec62.jpg.1"
    touch(tmp_path / "Flicker8k_Dataset", [ghost.removesuffix(".1")])
    assert Scanned.of(tmp_path).media("image", ghost) is None
    assert ghost not in datasets.load("flickr8k", tmp_path).items.ids.tolist()
    write_list(tmp_path / "Flickr_8k.testImages.txt", [ghost])
    assert datasets.load("flickr8k", tmp_path).items.missing.tolist() == [ghost]


def test_csv_is_unquoted_and_crlf_ends_no_caption(tmp_path: Path) -> None:
    official_layouts.audiocaps(tmp_path)
    assert b"\r\n" in (tmp_path / "dataset" / "test.csv").read_bytes()
    texts = datasets.load("audiocaps", tmp_path).queries.texts
    assert texts is not None and texts[0] == ("a rattle, a hum and 0",)
    official_layouts.clotho(tmp_path)
    assert datasets.load("clotho", tmp_path).queries.texts is not None
    assert (datasets.load("clotho", tmp_path).queries.texts or ())[1] == ('a "bell", 1',)


def test_tabs_separate_and_quotes_stay_in_lsmdc(tmp_path: Path) -> None:
    official_layouts.lsmdc(tmp_path)
    data = datasets.load("lsmdc", tmp_path)
    assert data.queries.texts == (('SOMEONE says "no.',),)
    assert data.parts["train"].queries.texts == (("He goes.",), ("Gone.",))


def test_ids_that_nothing_describes_are_no_items_of_activitynet(tmp_path: Path) -> None:
    official_layouts.activitynet(tmp_path)
    assert json.loads((tmp_path / "captions" / "val_ids.json").read_text()) == ["v_uqiMw7tQ1Cc", "v_nobody"]
    assert datasets.load("activitynet", tmp_path).items.ids.tolist() == ["v_uqiMw7tQ1Cc"]


def test_the_two_versions_of_audiocaps_are_told_apart(tmp_path: Path) -> None:
    official_layouts.audiocaps_of_mei(tmp_path)
    assert "is of the split mei" in refusal("audiocaps", tmp_path).problem
    (tmp_path / "test.csv").unlink()
    official_layouts.audiocaps(tmp_path)
    assert "is of the split official" in refusal("audiocaps", tmp_path, "mei").problem
    touch(tmp_path / "dataset2.0", ["test.csv"])
    notes = datasets.load("audiocaps", tmp_path).notes
    assert "test.csv is there 2 times: dataset/test.csv and not dataset2.0/test.csv is read" in notes


def test_names_of_didemo_may_end_in_a_dot_and_files_in_another_suffix(tmp_path: Path) -> None:
    official_layouts.didemo(tmp_path)
    data = datasets.load("didemo", tmp_path)
    assert data.items.ids.tolist() == ["3@N00_3_c."]
    assert data.items.paths == (tmp_path / "videos" / "3@N00_3_c.mp4",)
    assert data.parts["train"].items.paths == (tmp_path / "videos" / "1@N00_1_a.mov.mp4",)


def test_a_semicolon_in_place_of_a_comma_is_another_version(tmp_path: Path) -> None:
    official_layouts.msrvtt(tmp_path)
    path = tmp_path / "MSRVTT_JSFUSION_test.csv"
    path.write_text(path.read_text().replace(",", ";"))
    assert "key;vid_key;video_id;sentence" in refusal("msrvtt", tmp_path).problem


def test_a_link_to_nothing_is_a_missing_file(tmp_path: Path) -> None:
    """As git-annex, DVC and caches keep what was not fetched."""
    official_layouts.own_folder(tmp_path)
    (tmp_path / "sub" / "b.jpg").unlink()
    (tmp_path / "sub" / "b.jpg").symlink_to("../.git/annex/objects/b.jpg")
    data = datasets.load("folder", tmp_path)
    assert data.items.missing.tolist() == ["sub/b.jpg"]
    assert any("1 link leads to what is not there, for example sub/b.jpg" in note for note in data.notes)
    checked = datasets.check("folder", tmp_path)
    assert [part.missing for part in checked.parts if part.name == "test"] == [1] and not checked.complete
    (tmp_path / "captions.csv").unlink()
    (tmp_path / "captions.csv").symlink_to("nowhere.csv")
    assert "has captions.csv, a link to what is not there" in refusal("folder", tmp_path).problem
    assert "captions.csv, a link" in datasets.check("folder", tmp_path).problem


def test_a_link_in_place_of_an_image_of_a_class_is_a_missing_image(tmp_path: Path) -> None:
    official_layouts.imagenet(tmp_path)
    image = next((tmp_path / "val").rglob("*.JPEG"))
    image.unlink()
    image.symlink_to("nowhere")
    assert datasets.load("imagenet", tmp_path).queries.missing.tolist() == [image.stem]


def test_images_of_one_name_in_two_classes_are_two_images(tmp_path: Path) -> None:
    official_layouts.imagenet(tmp_path)
    first, second = sorted(one.name for one in (tmp_path / "val").iterdir())[:2]
    touch(tmp_path / "val", [f"{one}/0.jpg" for one in (first, second)])
    data = datasets.load("imagenet", tmp_path)
    assert data.relevance is not None
    classes = dict(zip(data.relevance.query_ids.tolist(), data.relevance.item_ids.tolist(), strict=True))
    assert {name: one for name, one in classes.items() if "/" in name} == {
        f"val/{first}/0.jpg": first,
        f"val/{second}/0.jpg": second,
    }
    assert data.queries.paths is not None and len({*data.queries.paths}) == len(data.queries) == 5
    assert f"test: 2 images share their names and have their paths as ids, for example val/{first}/0.jpg" in data.notes


LETTERS = "a dog"  # where a list of texts is wanted


@pytest.mark.parametrize(
    ("name", "split", "file", "content"),
    [
        ("activitynet", None, "val_1.json", {"v_a": {"sentences": LETTERS}}),
        (
            "vatex",
            "public-test",
            "vatex_public_test_english_v1.1.json",
            [{"videoID": "a_000000_000010", "enCap": LETTERS}],
        ),
        ("msrvtt", "1k-A-20", "msrvtt_test.json", [["video1.mp4", 1, LETTERS]]),
        ("msvd", None, "captions_msvd.json", {"a": {LETTERS: 1}}),
        ("imagenet", "single", "imagenet_classes.json", LETTERS),
    ],
)
def test_a_text_where_a_list_is_wanted_is_not_read_letter_by_letter(
    tmp_path: Path, name: str, split: str | None, file: str, content: object
) -> None:
    write_json(tmp_path / file, content)
    write_list(tmp_path / "test_list.txt", ["a"])
    error = refusal(name, tmp_path, split)
    assert "is no list of texts" in error.problem and file in error.problem and "is wanted" in error.remedy


def test_a_split_without_a_test_part_names_the_file_of_that_split(tmp_path: Path) -> None:
    one = {"video_id": "video0", "split": "train"}, {"video_id": "video0", "caption": "a"}
    write_json(tmp_path / "train_val_videodatainfo.json", {"videos": [one[0]], "sentences": [one[1]]})
    assert "train_val_videodatainfo.json" in refusal("msrvtt", tmp_path, "full").remedy
    write_json(tmp_path / "dataset_flickr8k.json", official_layouts.karpathy({"1.jpg": "train"}))
    assert "fetch dataset_flickr8k.json" in refusal("flickr8k", tmp_path, "karpathy").remedy


def test_a_folder_that_links_to_itself_is_scanned_once(tmp_path: Path) -> None:
    touch(tmp_path / "a", ["x.jpg"])
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "0").symlink_to(tmp_path / "a")
    assert Scanned.of(tmp_path).names == {"x.jpg": ["a/x.jpg"]}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([("file", "text"), ("a.jpg", "x"), ("b.mp4", "y")], "suffixes .jpg, .mp4"),
        ([("file", "text"), ("a.doc", "x")], "suffixes .doc"),
        ([("name", "text"), ("a.jpg", "x")], "`file` is required"),
        ([("file", "text", "id"), ("a.jpg", "x", "1"), ("a.jpg", "y", "1")], "two texts with the id '1'"),
        ([("file", "text", "split"), ("a.jpg", "x", "train")], "no line of the split test"),
        ([("file", "text")], "holds no rows"),
    ],
)
def test_a_wrong_table_of_an_own_folder_is_said(tmp_path: Path, rows: list[tuple[str, ...]], problem: str) -> None:
    write_table(tmp_path / "captions.csv", rows)
    assert problem in refusal("folder", tmp_path).problem


def test_a_table_without_a_test_split_or_a_needed_column_says_what_is_needed(tmp_path: Path) -> None:
    write_table(tmp_path / "captions.csv", [("file", "text", "split"), ("a.jpg", "x", "tset"), ("b.jpg", "y", "train")])
    assert refusal("folder", tmp_path).problem.endswith("has no line of the split test, only of tset, train")
    write_table(tmp_path / "captions.csv", [("file", "txt"), ("a.jpg", "x")])
    wanted = "a file with the columns file, text is wanted; it may have split, id too"
    assert refusal("folder", tmp_path).remedy == wanted


def test_a_bank_of_an_own_folder_has_a_line_of_its_own_and_is_said(tmp_path: Path) -> None:
    rows = [("a.jpg", "x", "test"), ("b.jpg", "y", "tset"), ("b.jpg", "z", "tset"), ("c.jpg", "v", "far")]
    write_table(tmp_path / "captions.csv", [("file", "text", "split"), *rows])
    touch(tmp_path, ["a.jpg", "c.jpg"])
    checked = datasets.check("folder", tmp_path)
    assert [(one.name, one.items, one.queries, one.missing) for one in checked.banks] == [
        ("tset", 1, 2, 1),
        ("far", 1, 1, 0),
    ]
    assert [one.name for one in checked.parts] == ["test"] and checked.complete  # a bank is not needed to measure
    assert checked.notes[:2] == (
        "captions.csv: 2 lines are of the split 'tset', which is none of train, val, test: a bank of that name",
        "captions.csv: 1 line is of the split 'far', which is none of train, val, test: a bank of that name",
    )


def test_captions_of_msrvtt_with_empty_lists_are_refused(tmp_path: Path) -> None:
    official_layouts.msrvtt(tmp_path)
    write_json(tmp_path / "MSRVTT_data.json", {"videos": [], "sentences": []})
    for split in DATASETS["msrvtt"].splits:
        assert refusal("msrvtt", tmp_path, split).problem == f"{tmp_path / 'MSRVTT_data.json'} has no captions"


def test_a_check_lists_the_class_lists_of_imagenet_where_they_are_asked_for(tmp_path: Path) -> None:
    official_layouts.imagenet(tmp_path)
    spare = [one.title for one in datasets.check("imagenet", tmp_path).files if one.spare and one.path is None]
    for path in tmp_path.rglob("val/n*/*"):
        path.unlink()
    checked = datasets.check("imagenet", tmp_path)
    assert checked.problem and spare == []
    assert "LOC_val_solution.csv" in [one.title for one in checked.files if one.spare and one.path is None]


def test_two_tables_of_an_own_folder_are_one_too_many(tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        write_table(tmp_path / name, [("file", "text"), ("a.jpg", "x")])
    assert "several .csv files: one.csv, two.csv" in refusal("folder", tmp_path).problem
