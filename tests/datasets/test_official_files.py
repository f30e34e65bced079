"""The readers, on the official annotation files: the counts are those of the papers."""

import csv
import json
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests import annotations
from tests.datasets import official_layouts
from unhub import datasets
from unhub.datasets import DATASETS, DataSet
from unhub.datasets.activitynet import read_sentences
from unhub.datasets.annotations import read_list

pytestmark = pytest.mark.once

# Data sets whose official files are at hand as they are published, and the parts that they hold.
WHOLE = {
    ("msrvtt", "MSR-VTT", "1k-A"): ("test",),
    ("msrvtt", "MSR-VTT", "1k-A-20"): ("test",),
    ("msvd", "MSVD", "official"): ("train", "val", "test"),
    ("didemo", "DiDeMo", "paragraphs"): ("test",),
    ("activitynet", "ActivityNet-Captions", "val1"): ("test",),
    ("audiocaps", "AudioCaps", "official"): ("val", "test"),
    ("clotho", "Clotho", "official"): ("test",),
    ("flickr8k", "Flickr8k", "official"): ("train", "val", "test"),
    ("cub", "CUB-200-2011", "classes"): ("train", "test"),
    ("cars196", "Cars-196", "classes"): ("train", "test"),
    ("visogender", "VisoGender", "OO"): ("test",),
    ("visogender", "VisoGender", "OP"): ("test",),
}


@cache  # several tests look at one data set
def loaded(name: str, folder: str, split: str) -> DataSet:
    return datasets.load(name, annotations.folder(folder), split)


def sizes(data: DataSet) -> dict[str, tuple[int, int]]:
    return {name: (len(part.items), len(part.queries)) for name, part in data.parts.items()}


@pytest.mark.parametrize(("name", "folder", "split"), WHOLE, ids=lambda one: str(one))
def test_counts_are_those_of_the_papers(name: str, folder: str, split: str) -> None:
    data = loaded(name, folder, split)
    official = DATASETS[name].sizes[split]
    assert sizes(data) == {part: official[part] for part in WHOLE[name, folder, split]}
    assert not any("the official split has" in note or "another version" in note for note in data.notes)
    assert len(data.items.missing) == len(data.items)  # no media there


def test_the_full_split_of_msrvtt_has_59800_queries(tmp_path: Path) -> None:
    here = annotations.folder("MSR-VTT")
    parts = {"train": "train", "val": "validate", "test": "test"}
    lists = {part: read_list(here / f"{part}_list_full.txt") for part in parts}
    videos = [{"video_id": one, "split": parts[part]} for part, listed in lists.items() for one in listed]
    sentences = [{"video_id": one["video_id"], "caption": f"{k}"} for one in videos for k in range(20)]
    official_layouts.write_json(tmp_path / "MSRVTT_data.json", {"videos": videos, "sentences": sentences})
    for name in ("MSRVTT_JSFUSION_test.csv", "MSRVTT_train.9k.csv"):
        shutil.copy(here / name, tmp_path)
    assert sizes(datasets.load("msrvtt", tmp_path, "full")) == DATASETS["msrvtt"].sizes["full"]
    small = datasets.load("msrvtt", tmp_path, "1k-A")
    assert sizes(small) == DATASETS["msrvtt"].sizes["1k-A"]
    assert not {*small.parts["train"].items.ids.tolist()} & {*small.items.ids.tolist()}
    assert len(small.banks["other-captions"].queries) == 20_000  # the invented captions are no sentence of the test
    assert read_list(here / "train_list_jsfusion.txt") == read_list(here / "MSRVTT_train.9k.csv")


def from_precomputed(ids: Path, captions: Path, names: dict[str, str]) -> object:
    """Return the form of Karpathy from lists of a repackaging: line i of the captions is of the image on line i."""
    sentences: dict[str, list[dict[str, str]]] = {}
    for image, text in zip(ids.read_text().split(), captions.read_text("utf-8").splitlines(), strict=True):
        sentences.setdefault(names.get(image, image), []).append({"raw": text})
    return {"images": [{"filename": name, "split": "test", "sentences": some} for name, some in sentences.items()]}


def test_coco_has_5000_test_images_and_25000_captions(tmp_path: Path) -> None:
    here = annotations.folder("MS-COCO")
    ids = here / "laps_testall_ids.txt"
    names = {one: f"COCO_val2014_{int(one):012}.jpg" for one in ids.read_text().split()}
    made = from_precomputed(ids, here / "laps_testall_caps.txt", names)
    official_layouts.write_json(tmp_path / "dataset_coco.json", made)
    data = datasets.load("coco", tmp_path)
    assert sizes(data) == {"test": (5_000, 25_000)}
    folds = datasets.load("coco", tmp_path, "karpathy-1k")
    assert sizes(folds) == dict.fromkeys(("test", "test-2", "test-3", "test-4", "test-5"), (1_000, 5_000))


def test_flickr30k_has_1000_test_images_and_5000_captions_and_another_split_than_entities(tmp_path: Path) -> None:
    here = annotations.folder("Flickr30k")
    names = json.loads((here / "laps_id_mapping.json").read_text())
    made = from_precomputed(here / "laps_test_ids.txt", here / "laps_test_caps.txt", names)
    official_layouts.write_json(tmp_path / "dataset_flickr30k.json", made)
    data = datasets.load("flickr30k", tmp_path)
    assert sizes(data) == {"test": (1_000, 5_000)}
    entities = {f"{name}.jpg" for name in read_list(here / "entities_test.txt")}
    assert len(entities & {*data.items.ids.tolist()}) == 25


def test_in_shop_has_14218_queries_and_12612_items(tmp_path: Path) -> None:
    here = annotations.folder("In-Shop")
    rows = [
        (name, name.split("/")[3], use)
        for use in ("query", "gallery")
        for name in (here / f"czla_{use}.txt").read_text().split()
    ]
    lines = [f"{name:<80}{item:<16}{use}" for name, item, use in rows]
    heads = [str(len(rows)), "image_name item_id evaluation_status"]
    official_layouts.write_list(tmp_path / "list_eval_partition.txt", [*heads, *lines])
    data = datasets.load("inshop", tmp_path)
    assert sizes(data) == {"test": DATASETS["inshop"].sizes["official"]["test"]}
    assert len({item for _, item, _ in rows}) == 3_985


def test_queryd_has_386_test_videos(tmp_path: Path) -> None:
    here = annotations.folder("QuerYD")
    listed = [one for part in ("train", "val", "test") for one in read_list(here / f"{part}_list.txt")]
    official_layouts.write_json(tmp_path / "raw_captions_combined_filtered.json", {one: ["said"] for one in listed})
    for part in ("train", "val", "test"):
        shutil.copy(here / f"{part}_list.txt", tmp_path)
    assert sizes(datasets.load("queryd", tmp_path)) == DATASETS["queryd"].sizes["cleaned"]
    older = datasets.load("queryd", tmp_path, "first")  # the lists of the first paper are not at hand
    assert any("the official split has 390 and 390" in note for note in older.notes)


def test_audiocaps_of_mei_has_957_test_clips(tmp_path: Path) -> None:
    shutil.copy(annotations.folder("AudioCaps") / "mei_test.csv", tmp_path / "test.csv")
    assert sizes(datasets.load("audiocaps", tmp_path, "mei")) == {"test": (957, 4_785)}


@pytest.mark.parametrize("source", ["json", "notebook"])
def test_imagenet_has_a_thousand_names_and_eighty_prompts(tmp_path: Path, source: str) -> None:
    here = annotations.folder("ImageNet")
    listed = ("imagenet_classes.json", "imagenet_templates.json")
    for name in listed if source == "json" else ("Prompt_Engineering_for_ImageNet.ipynb",):
        shutil.copy(here / name, tmp_path)
    classes = [f"n{number:08}" for number in range(1_000)]
    (tmp_path / "synset_words.txt").write_text("".join(f"{one} words\n" for one in classes))
    official_layouts.touch(tmp_path / "val" / classes[3], ["ILSVRC2012_val_00000001.JPEG"])
    data = datasets.load("imagenet", tmp_path)
    assert data.items.texts is not None
    assert (len(data.items), {len(texts) for texts in data.items.texts}) == (1_000, {80})
    assert "a bad photo of a tench." in data.items.texts[0]
    names = json.loads((here / listed[0]).read_text())
    assert [texts[0] for texts in data.items.texts] == [f"a bad photo of a {name}." for name in names]


def test_activitynet_lists_more_ids_than_it_describes() -> None:
    here = annotations.folder("ActivityNet-Captions")
    described = read_sentences(here / "val_1.json")
    assert (len(json.loads((here / "val_ids.json").read_text())), len(described)) == (4_926, 4_917)
    assert [*described] == read_list(here / "val_1_list.txt")
    assert sum(map(len, described.values())) == 17_505


def test_the_number_of_captions_varies() -> None:
    data = loaded("msvd", "MSVD", DATASETS["msvd"].splits[0])
    assert data.relevance is not None
    counts = Counter(data.relevance.item_ids.tolist())
    assert len({*counts.values()}) > 10
    entries = json.loads((annotations.folder("DiDeMo") / "test_data.json").read_text())
    assert len({*Counter(entry["video"] for entry in entries).values()}) > 1
    assert len(entries) == 4_021


def test_val2017_of_coco_is_refused_in_words_and_has_images_with_seven_captions() -> None:
    here = annotations.folder("MS-COCO")
    with pytest.raises(ValueError, match="which is not the split of the papers"):
        datasets.load("coco", here)
    captions = json.loads((here / "captions_val2017.json").read_text())["annotations"]
    counts = Counter(Counter(one["image_id"] for one in captions).values())
    assert counts == {5: 4_987, 6: 12, 7: 1}


def test_flickr8k_has_a_name_without_an_image() -> None:
    data = loaded("flickr8k", "Flickr8k", DATASETS["flickr8k"].splits[0])
    names = {one for part in data.parts.values() for one in part.items.ids.tolist()}
    assert len(names) == 8_000 and not any(one.endswith(".1") for one in names)


def test_captions_with_commas_keep_them() -> None:
    data = loaded("audiocaps", "AudioCaps", DATASETS["audiocaps"].splits[0])
    assert data.queries.texts is not None
    texts = [text for (text,) in data.queries.texts]
    assert any("," in text for text in texts)
    assert not any(text.endswith(("\r", "\n", '"')) and text.startswith('"') for text in texts)
    with (annotations.folder("AudioCaps") / "test.csv").open(encoding="utf-8", newline="") as file:
        assert sorted(texts) == sorted(row["caption"] for row in csv.DictReader(file))


def test_cars_of_both_folders_stay_apart() -> None:
    data = loaded("cars196", "Cars-196", DATASETS["cars196"].splits[0])
    names = [one for part in data.parts.values() for one in part.items.ids.tolist()]
    assert len({*names}) == 16_185
    assert {"cars_train/00001.jpg", "cars_test/00001.jpg"} <= {*names}


def test_another_version_of_a_file_is_noticed_by_its_checksum(tmp_path: Path) -> None:
    here = annotations.folder("Clotho")
    shutil.copy(here / "clotho_captions_evaluation.csv", tmp_path)
    shutil.copy(here / "mei_val.csv", tmp_path / "clotho_captions_validation.csv")
    notes = datasets.load("clotho", tmp_path).notes
    assert [note.split()[0] for note in notes if "another version" in note] == ["clotho_captions_validation.csv"]


def test_visogender_writes_one_object_in_two_ways() -> None:
    data = loaded("visogender", "VisoGender", DATASETS["visogender"].splits[0])
    assert data.queries.texts is not None
    assert ("The baker and their mixing spoon.",) in data.queries.texts
    assert {name: len(ids) for name, ids in data.groups.items()} == {"feminine": 115, "masculine": 115}
