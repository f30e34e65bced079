"""Every reader, on a tiny folder in the official layout."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.datasets import official_layouts
from tests.datasets.official_layouts import CLASSES, WRITERS
from unhub import datasets
from unhub.datasets import DATASETS, DataSet
from unhub.evaluation.measures import parse_measures

pytestmark = pytest.mark.once

# The items and queries of each part of the tiny folders.
COUNTS = {
    ("msrvtt", "1k-A"): {"train": (3, 9), "test": (2, 2)},
    ("msrvtt", "1k-A-20"): {"train": (3, 9), "test": (2, 6)},
    ("msrvtt", "full"): {"train": (2, 6), "val": (1, 3), "test": (2, 6)},
    ("msvd", "official"): {"train": (1, 1), "val": (1, 2), "test": (1, 2)},
    ("didemo", "paragraphs"): {"train": (1, 1), "val": (1, 1), "test": (1, 1)},
    ("lsmdc", "challenge-1k"): {"train": (1, 2), "test": (1, 1)},
    ("vatex", "1.5k"): {"train": (1, 10), "val": (1, 10), "test": (1, 10)},
    ("vatex", "public-test"): {"train": (1, 10), "val": (2, 20), "test": (1, 10)},
    ("activitynet", "val1"): {"train": (1, 1), "test": (1, 1)},
    ("queryd", "cleaned"): {"train": (1, 1), "val": (1, 1), "test": (1, 1)},
    ("queryd", "first"): {"train": (1, 1), "val": (1, 1), "test": (1, 1)},
    ("coco", "karpathy-5k"): {"train": (2, 10), "val": (1, 5), "test": (2, 10)},
    ("coco", "karpathy-1k"): {"train": (2, 10), "val": (1, 5), "test": (2, 10)},
    ("flickr30k", "karpathy"): {"train": (1, 5), "val": (1, 5), "test": (1, 5)},
    ("flickr8k", "official"): {"train": (1, 5), "val": (1, 5), "test": (1, 5)},
    ("flickr8k", "karpathy"): {"train": (1, 5), "test": (1, 5)},
    ("pubmed", "all"): {"test": (3, 3)},
    ("bookset", "all"): {"test": (3, 3)},
    ("audiocaps", "official"): {"train": (1, 1), "val": (1, 5), "test": (1, 5)},
    ("clotho", "official"): {"train": (1, 5), "val": (1, 5), "test": (1, 5)},
    ("cub", "classes"): {"train": (2, 2), "test": (2, 2)},
    ("sop", "products"): {"train": (4, 4), "test": (4, 4)},
    ("cars196", "classes"): {"train": (4, 4), "test": (4, 4)},
    ("inshop", "official"): {"train": (2, 2), "test": (3, 2)},
    ("imagenet", "ensemble"): {"train": (3, 6), "test": (3, 3)},
    ("imagenet", "single"): {"train": (3, 6), "test": (3, 3)},
    ("visogender", "OO"): {"test": (2, 1)},
    ("visogender", "OP"): {"test": (2, 1)},
    ("folder", "own"): {"train": (1, 1), "test": (2, 3)},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {name: tmp_path_factory.mktemp(name) for name in WRITERS}
    for name, write in WRITERS.items():
        write(made[name])
    return made


def answers(data: DataSet, part: str = "test") -> dict[str, list[str]]:
    """Return the items that answer each query."""
    relevance = data.parts[part].relevance
    assert relevance is not None
    found: dict[str, list[str]] = {}
    for query, item in zip(relevance.query_ids.tolist(), relevance.item_ids.tolist(), strict=True):
        found.setdefault(query, []).append(item)
    return found


def texts_of(side: datasets.Side) -> list[str]:
    assert side.texts is not None
    return [text for (text,) in side.texts]


def test_every_data_set_has_a_tiny_folder_and_every_split_its_counts() -> None:
    assert WRITERS.keys() == DATASETS.keys()
    splits = {(name, split) for name, known in DATASETS.items() for split in known.splits}
    assert splits - {("audiocaps", "mei")} == COUNTS.keys()  # whose files have the names of the official ones


@pytest.mark.parametrize(("name", "split"), COUNTS)
def test_a_reader_finds_parts_media_and_answers(folders: dict[str, Path], name: str, split: str) -> None:
    data = datasets.load(name, folders[name], split)
    assert {part: (len(one.items), len(one.queries)) for part, one in data.parts.items()} == COUNTS[name, split]
    assert list(data.parts) == [part for part in ("train", "val", "test") if part in data.parts]
    assert (data.items, data.queries, data.relevance) == (
        data.parts["test"].items,
        data.parts["test"].queries,
        data.parts["test"].relevance,
    )
    for part in data.parts.values():
        assert part.relevance is not None
        assert {*part.relevance.query_ids.tolist()} == {*part.queries.ids.tolist()}  # each query has an answer here
        assert {*part.relevance.item_ids.tolist()} <= {*part.items.ids.tolist()}
        for side in (part.items, part.queries):
            assert side.ids.dtype.kind == "U"
            assert side.missing.tolist() == []
            assert side.paths is None or all(path and path.is_file() for path in side.paths)
    assert data.parts.keys() <= data.banks.keys()
    assert not any("files are missing" in note for note in data.notes)


@pytest.mark.parametrize("name", DATASETS)
def test_what_is_known_of_a_data_set_is_whole(name: str) -> None:
    known = DATASETS[name]
    assert known.name == name and known.terms and known.title
    assert known.sizes.keys() <= {*known.splits}
    assert sum(not one.names for one in known.files) == 1  # the media
    assert any(one.needed and one.names for one in known.files)
    assert all({*one.splits} <= {*known.splits} for one in known.files)
    assert tuple(map(str, parse_measures(known.protocol.measures))) == known.protocol.measures
    assert known.protocol.directions


UNPROVED = {
    "msrvtt": ("full",),
    "lsmdc": ("challenge-1k",),
    "vatex": ("1.5k", "public-test"),
    "queryd": ("cleaned", "first"),
    "coco": ("karpathy-5k", "karpathy-1k"),
    "flickr30k": ("karpathy",),
    "flickr8k": ("karpathy",),
    "pubmed": ("all",),
    "bookset": ("all",),
    "sop": ("products",),
    "inshop": ("official",),
}


def test_a_layout_that_no_official_file_proved_says_so(folders: dict[str, Path]) -> None:
    assert {name: known.unverified for name, known in DATASETS.items() if known.unverified} == UNPROVED
    for name, split in COUNTS:
        found = datasets.check(name, folders[name], split)
        unproved = split in UNPROVED.get(name, ())
        assert found.verified is not unproved
        assert any("layout not verified" in note for note in found.notes) is unproved


def test_the_1k_split_of_msrvtt_has_its_own_sentences_and_a_bank_of_the_others(folders: dict[str, Path]) -> None:
    data = datasets.load("msrvtt", folders["msrvtt"])
    assert data.split == "1k-A"
    assert answers(data) == {"ret0": ["video7020"], "ret1": ["video7010"]}
    others = data.banks["other-captions"].queries
    assert texts_of(others) == ["video7020 0", "video7020 2", "video7010 0", "video7010 1", "video7010 2"]
    assert data.texts.keys() == {"train", "test"}


def test_paragraphs_join_the_sentences_in_their_order(folders: dict[str, Path]) -> None:
    assert texts_of(datasets.load("didemo", folders["didemo"]).queries) == ["a dog runs. it sits."]
    assert texts_of(datasets.load("activitynet", folders["activitynet"]).queries) == ["A man lifts. The coach helps."]
    assert texts_of(datasets.load("queryd", folders["queryd"]).queries) == ["a man walks"]


def test_an_image_asks_for_the_others_of_its_class_and_never_for_itself(folders: dict[str, Path]) -> None:
    data = datasets.load("cub", folders["cub"])
    first, second = official_layouts.BIRDS[101]
    assert answers(data) == {first: [second], second: [first]}
    assert data.items is data.queries and data.protocol.leave_out_itself


def test_in_shop_queries_ask_the_gallery(folders: dict[str, Path]) -> None:
    data = datasets.load("inshop", folders["inshop"])
    prefix = "img/WOMEN/Dresses"
    assert answers(data) == {
        f"{prefix}/id_00000001/02_1_front.jpg": [f"{prefix}/id_00000001/02_{k}_front.jpg" for k in (2, 3)],
        f"{prefix}/id_3/02_1_front.jpg": [f"{prefix}/id_3/02_2_front.jpg"],
    }
    assert not data.protocol.leave_out_itself


def test_images_of_imagenet_ask_for_their_class_and_the_bank_has_no_labels(folders: dict[str, Path]) -> None:
    data = datasets.load("imagenet", folders["imagenet"])
    assert answers(data) == {f"ILSVRC2012_val_0000000{k}": [one] for k, one in enumerate(CLASSES)}
    assert data.items.texts is not None
    assert data.items.texts[1] == ("a photo of a goldfish.", "art of the goldfish.")
    assert data.banks["train"].relevance is None and len(data.banks["train"].queries) == 6
    assert data.texts["test"] is data.items
    single = datasets.load("imagenet", folders["imagenet"], "single")
    assert texts_of(single.items)[2] == "a photo of a great white shark."


def test_classes_of_imagenet_come_from_a_table_or_from_folders_or_not_at_all(tmp_path: Path) -> None:
    official_layouts.imagenet(tmp_path)
    (tmp_path / "LOC_synset_mapping.txt").unlink()
    assert datasets.load("imagenet", tmp_path).items.ids.tolist() == [*CLASSES]
    for image in [*tmp_path.glob(f"*/{CLASSES[0]}/*")]:
        image.unlink()
    with pytest.raises(ValueError, match="has 2 classes and 3 class names"):
        datasets.load("imagenet", tmp_path)
    official_layouts.write_json(
        tmp_path / "imagenet_class_index.json", {str(k): [one, "x"] for k, one in enumerate(CLASSES)}
    )
    data = datasets.load("imagenet", tmp_path)
    assert (len(data.items), len(data.queries)) == (3, 2)


def test_flat_images_of_imagenet_are_labelled_by_a_table(tmp_path: Path) -> None:
    official_layouts.imagenet(tmp_path)
    for image in [*(tmp_path / "val").glob("*/*")]:
        image.rename(tmp_path / "val" / image.name)
    with pytest.raises(ValueError, match="no images below val/"):
        datasets.load("imagenet", tmp_path)
    rows = [(f"ILSVRC2012_val_0000000{k}", f"{one} 1 2 3 4 {one} 5 6 7 8") for k, one in enumerate(CLASSES)]
    official_layouts.write_table(tmp_path / "LOC_val_solution.csv", [("ImageId", "PredictionString"), *rows])
    data = datasets.load("imagenet", tmp_path)
    assert answers(data) == {image: [boxes.split()[0]] for image, boxes in rows}
    assert data.queries.missing.tolist() == []


def test_visogender_asks_once_for_an_occupation_and_groups_by_perceived_gender(folders: dict[str, Path]) -> None:
    data = datasets.load("visogender", folders["visogender"])
    assert texts_of(data.queries) == ["The baker and their mixing spoon."]
    assert answers(data) == {"baker": ["OO_1", "OO_2"]}
    assert {name: ids.tolist() for name, ids in data.groups.items()} == {"feminine": ["OO_2"], "masculine": ["OO_1"]}


def test_an_occupation_of_visogender_with_two_objects_is_said(tmp_path: Path) -> None:
    official_layouts.visogender(tmp_path)
    said = "baker is with mixing spoon and with oven: its query names the first, for all its images"
    assert not any("its query names" in note for note in datasets.load("visogender", tmp_path).notes)
    rewrite(tmp_path / "data" / "OO_Visogender_10052025.tsv", "mixing_spoon", "oven")
    data = datasets.load("visogender", tmp_path)
    assert said in data.notes and texts_of(data.queries) == ["The baker and their mixing spoon."]


def test_coco_is_cut_into_five_parts_of_a_thousand(tmp_path: Path) -> None:
    images = {f"COCO_val2014_{number:012}.jpg": "test" for number in range(2_500)}
    official_layouts.write_json(tmp_path / "dataset_coco.json", official_layouts.karpathy(images))
    data = datasets.load("coco", tmp_path, "karpathy-1k")
    assert {name: len(part.items) for name, part in data.parts.items()} == {
        "test": 1_000,
        "test-2": 1_000,
        "test-3": 500,
    }
    assert data.parts["test-2"].items.ids[0] == "COCO_val2014_000000001000.jpg"
    assert [*data.banks] == ["test"]  # a bank of the other parts would be test queries


def test_images_of_coco_2017_are_found_under_their_other_names(tmp_path: Path) -> None:
    official_layouts.write_json(
        tmp_path / "dataset_coco.json", official_layouts.karpathy({"COCO_val2014_000000391895.jpg": "test"})
    )
    official_layouts.touch(tmp_path / "train2017", ["000000391895.jpg"])
    data = datasets.load("coco", tmp_path)
    assert data.items.paths == (tmp_path / "train2017" / "000000391895.jpg",)


def test_cars_come_in_one_file_too(tmp_path: Path) -> None:
    rows = [
        (1, "car_ims/000001.jpg"),
        (1, "car_ims/000002.jpg"),
        (99, "car_ims/000003.jpg"),
        (99, "car_ims/000004.jpg"),
    ]
    official_layouts.write_mat(tmp_path / "cars_annos.mat", rows, "relative_im_path")
    official_layouts.touch(tmp_path, [name for _, name in rows])
    data = datasets.load("cars196", tmp_path)
    assert data.items.ids.tolist() == ["car_ims/000003.jpg", "car_ims/000004.jpg"]
    assert data.items.missing.tolist() == []


def test_all_captions_of_the_1k_test_videos_of_msrvtt_ask_for_them(folders: dict[str, Path]) -> None:
    data = datasets.load("msrvtt", folders["msrvtt"], "1k-A-20")
    assert data.items.ids.tolist() == ["video7020", "video7010"]  # in the order of the 1k-A list
    assert answers(data)["video7010#2"] == ["video7010"]
    assert {*data.banks} == {"train", "test"}  # no other captions: all of them ask


def test_the_captions_of_msrvtt_as_wang_publishes_them_need_no_other_file(tmp_path: Path) -> None:
    rows = [["video7020.mp4", 330, ["a", "b"]], ["video7010.mp4", 288, ["c", "c", "d"]]]
    official_layouts.write_json(tmp_path / "msrvtt_test.json", rows)
    data = datasets.load("msrvtt", tmp_path, "1k-A-20")
    assert data.items.ids.tolist() == ["video7020", "video7010"]
    assert data.queries.texts == (("a",), ("b",), ("c",), ("c",), ("d",))
    assert answers(data)["video7010#0"] == ["video7010"]
    official_layouts.write_json(tmp_path / "msrvtt_test.json", {"video7020": ["a"]})
    with pytest.raises(ValueError, match="another form"):
        datasets.load("msrvtt", tmp_path, "1k-A-20")


def test_the_challenge_files_of_msrvtt_do_as_well(tmp_path: Path) -> None:
    def entry(video: str, split: str) -> dict[str, object]:
        return {"videos": [{"video_id": video, "split": split}], "sentences": [{"video_id": video, "caption": "x"}]}

    official_layouts.write_json(tmp_path / "train_val_videodatainfo.json", entry("video0", "train"))
    official_layouts.write_json(tmp_path / "test_videodatainfo.json", entry("video7010", "test"))
    data = datasets.load("msrvtt", tmp_path, "full")
    assert {name: part.items.ids.tolist() for name, part in data.parts.items()} == {
        "train": ["video0"],
        "test": ["video7010"],
    }


def test_the_smaller_audiocaps_of_mei_is_a_split(tmp_path: Path) -> None:
    official_layouts.audiocaps_of_mei(tmp_path)
    data = datasets.load("audiocaps", tmp_path, "mei")
    assert (len(data.items), len(data.queries)) == (1, 5)
    assert texts_of(data.queries)[0] == 'a "bell", 0'
    assert data.items.missing.tolist() == []


def test_a_name_in_two_parts_keeps_the_captions_and_the_file_of_each(tmp_path: Path) -> None:
    heads = ("file_name", *(f"caption_{k}" for k in range(1, 6)))
    for part in ("development", "validation", "evaluation"):
        official_layouts.write_table(
            tmp_path / f"clotho_captions_{part}.csv", [heads, ("Rain.wav", *(f"{part} {k}" for k in range(5)))]
        )
        official_layouts.touch(tmp_path / part, ["Rain.wav"])
    data = datasets.load("clotho", tmp_path)
    folders = {"train": "development", "val": "validation", "test": "evaluation"}
    for name, folder in folders.items():
        assert texts_of(data.parts[name].queries) == [f"{folder} {k}" for k in range(5)]
        assert data.parts[name].items.paths == (tmp_path / folder / "Rain.wav",)
    assert "val and test: 1 name is in both, for example Rain.wav" in data.notes


def rewrite(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("name", "split", "train", "said", "test"),
    [
        ("didemo", "paragraphs", "data/train_data.json", "dog", "data/test_data.json"),
        ("lsmdc", "challenge-1k", "LSMDC16_annos_training.csv", "goes", "LSMDC16_challenge_1000_publictect.csv"),
        ("activitynet", "val1", "captions/train.json", "lifts", "captions/val_1.json"),
        ("vatex", "public-test", "vatex_training_v1.0.json", "caption 0", "vatex_public_test_english_v1.1.json"),
        ("audiocaps", "official", "dataset/train.csv", "rattle", "dataset/test.csv"),
    ],
)
def test_captions_of_a_name_in_two_files_are_not_mixed(
    tmp_path: Path, name: str, split: str, train: str, said: str, test: str
) -> None:
    WRITERS[name](tmp_path)
    before = datasets.load(name, tmp_path, split)
    trained, tested = (before.parts[part].items.ids[0] for part in ("train", "test"))
    rewrite(tmp_path / train, said, "other")
    rewrite(tmp_path / test, tested, trained)
    if name == "didemo":
        rewrite(tmp_path / "test_list.txt", tested, trained)
    data = datasets.load(name, tmp_path, split)
    assert texts_of(data.queries) == texts_of(before.queries)
    assert "other" in texts_of(data.parts["train"].queries)[0]
    assert f"train and test: 1 name is in both, for example {trained}" in data.notes


def test_an_own_folder_has_captions_splits_and_banks(folders: dict[str, Path]) -> None:
    data = datasets.load("folder", folders["folder"])
    assert answers(data) == {"first": ["a.jpg"], "second": ["a.jpg"], "third": ["sub/b.jpg"]}
    assert texts_of(data.banks["adversarial"].queries) == ["buy this"]
    assert data.protocol.task == "text-image"


def test_an_own_folder_needs_only_files_and_texts(tmp_path: Path) -> None:
    official_layouts.write_table(tmp_path / "mine.csv", [("file", "text"), ("a.wav", "ring"), ("a.wav", "bell")])
    official_layouts.touch(tmp_path, ["a.wav", "b.wav"])
    data = datasets.load("folder", tmp_path)
    assert data.queries.ids.tolist() == ["a.wav#0", "a.wav#1"]
    assert (data.protocol.task, data.items.kind) == ("text-audio", "audio")
    assert data.notes == ("1 audio file is named by no annotation that was read",)


def test_a_missing_file_of_an_own_folder_is_replaced_by_no_other(tmp_path: Path) -> None:
    rows = [("a.jpg", "x"), ("a.png", "y"), ("b.jpg", "z"), ("sub/c.jpg", "v"), ("./d.jpg", "w")]
    official_layouts.write_table(tmp_path / "tables" / "captions.csv", [("file", "text"), *rows])
    official_layouts.touch(tmp_path, ["a.png", "old/b.jpg", "old/sub/c.jpg", "tables/d.jpg"])
    data = datasets.load("folder", tmp_path)
    assert data.items.missing.tolist() == ["a.jpg", "b.jpg", "sub/c.jpg"]
    assert data.items.paths is not None and data.items.paths[1] == tmp_path / "a.png"
    assert data.items.paths[4] == tmp_path / "tables" / "d.jpg"  # a path from the table does as well
    assert not any("anywhere" in note for note in data.notes)


def test_one_file_for_two_items_is_said(tmp_path: Path) -> None:
    images = {"7.jpg": "test", "7.png": "test", "8.jpg": "test"}
    official_layouts.write_json(tmp_path / "dataset_flickr30k.json", official_layouts.karpathy(images))
    official_layouts.touch(tmp_path, ["7.png", "8.jpg"])
    said = "1 media file serves two items or more, for example 7.png for 7.jpg and 7.png: some may be missing"
    assert said in datasets.load("flickr30k", tmp_path).notes
    official_layouts.touch(tmp_path, ["7.jpg"])
    assert not any("serve two" in note for note in datasets.load("flickr30k", tmp_path).notes)


def test_a_side_gives_some_of_its_things_and_names_the_missing(folders: dict[str, Path]) -> None:
    items = datasets.load("folder", folders["folder"]).items
    assert items.some(["sub/b.jpg"]).paths == (folders["folder"] / "sub" / "b.jpg",)
    bare = datasets.Side("image", np.array(["x", "y"]), paths=(None, Path("y.jpg")))
    assert bare.missing.tolist() == ["x"]
    with pytest.raises(ValueError, match="paths has 1 entries, there are 2 ids"):
        datasets.Side("image", np.array(["x", "y"]), paths=(None,))


PAGES = Path(__file__).parents[2] / "docs" / "datasets"


def test_the_pages_say_what_is_known_of_every_data_set() -> None:
    listed = (PAGES / "datasets.md").read_text(encoding="utf-8")
    _, *sections = (PAGES / "sets.md").read_text(encoding="utf-8").split("\n## ")
    assert [one.partition("\n")[0] for one in sections] == [f"`{name}`" for name in DATASETS]
    for section, (name, known) in zip(sections, DATASETS.items(), strict=True):
        words = " ".join(section.split())
        assert f"Terms: {known.terms}." in words
        some = "" if {*known.unverified} == {*known.splits} else f" for {' and '.join(known.unverified)}"
        assert (f"Layout not verified{some}:" in words) is bool(known.unverified)
        for wanted in known.files:
            assert wanted.source in words
            assert all(f"`{one}`" in words for one in wanted.names)
        (row,) = [line for line in listed.splitlines() if line.startswith(f"| `{name}` |")]
        assert (
            known.title in row
            and known.task in row
            and row.endswith(f"| layout not verified{some} |" if known.unverified else "| verified |")
        )
        for split in known.splits:
            items, queries = known.sizes.get(split, {}).get("test", (0, 0))
            assert (f"{split}: {items:,} / {queries:,}" if items else split) in row


def test_the_page_turns_a_plain_pickle_into_json_and_refuses_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (PAGES / "datasets.md").read_text(encoding="utf-8")
    (program,) = (block for block in page.split("```text\n")[1:] if "class Plain" in block)
    program = program.partition("```")[0]
    monkeypatch.chdir(tmp_path)
    Path("raw-captions.pkl").write_bytes(pickle.dumps({"eyhzdC936uk_15_27": [["a", "cat"]]}, protocol=2))
    exec(program, {})
    assert json.loads(Path("raw-captions.json").read_text()) == {"eyhzdC936uk_15_27": [["a", "cat"]]}
    Path("raw-captions.pkl").write_bytes(pickle.dumps(Path("x")))
    with pytest.raises(pickle.UnpicklingError, match="the file wants pathlib"):
        exec(program, {})
