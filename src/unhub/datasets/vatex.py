"""VATEX (Wang et al., ICCV 2019): ten English captions for each video."""

from __future__ import annotations

from pathlib import Path

from unhub.datasets.annotations import need, of_form, read_json, read_list, text_of, texts_of
from unhub.datasets.described import TEXT_VIDEO, Contents, Download, Known
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned

FORM = '[{"videoID", "enCap": ["...", ...]}, ...]'
TIMES = len("_000000_000010")  # behind the YouTube id
RELEASE = "the download page of VATEX"
HALVES = "the lists of HGR (Chen et al., CVPR 2020), as collaborative-experts has them"
TRAIN = Download(("vatex_training_v1.0.json",), "25,991 training videos", RELEASE, needed=False)
VALIDATION = Download(("vatex_validation_v1.0.json",), "3,000 validation videos", RELEASE, splits=("1.5k",))
ALL_VALIDATION = Download(VALIDATION.names, "3,000 validation videos", RELEASE, needed=False, splits=("public-test",))
HALF_VAL = Download(("val_list_split1.txt",), "the half that validates", HALVES, needed=False, splits=("1.5k",))
HALF_TEST = Download(("val_list_split2.txt",), "the half that is the test", HALVES, splits=("1.5k",))
TEST = Download(("vatex_public_test_english_v1.1.json",), "6,000 test videos", RELEASE, splits=("public-test",))
VIDEOS = Download((), "<videoID>.mp4 or <YouTube id>.mp4", "YouTube")


def load(files: Scanned, split: str) -> Contents:
    """Read the captions, and for the split 1.5k the lists of the halves of the validation videos."""
    captions: dict[str, dict[str, list[str]]] = {}
    needed = (VALIDATION, HALF_TEST) if split == "1.5k" else (TEST,)
    paths = [need(files, one) for one in needed]
    for part, wanted in (("train", TRAIN), ("val", VALIDATION), ("test", TEST)):
        path = files.find(*wanted.names)
        if path and not (split == "1.5k" and wanted is TEST):
            captions[part] = read_captions(path)
    lists = {part: list(read) for part, read in captions.items()}
    if split == "1.5k":
        half = files.find(*HALF_VAL.names)
        captions["test"] = captions["val"]  # both halves are of one file
        lists = {**lists, "val": read_list(half) if half else [], "test": read_list(paths[1])}
    return captioned_parts(files, "video", lists, captions, names=lambda _, item: (item, item[:-TIMES]))


def read_captions(path: Path) -> dict[str, list[str]]:
    """Return the English captions of each video."""
    with of_form(path, FORM):
        return {text_of(one["videoID"]): texts_of(one["enCap"]) for one in read_json(path)}


KNOWN = Known(
    "vatex",
    "VATEX",
    TEXT_VIDEO,
    ("1.5k", "public-test"),
    {
        "1.5k": {"train": (25_991, 259_910), "val": (1_500, 15_000), "test": (1_500, 15_000)},
        "public-test": {"train": (25_991, 259_910), "val": (3_000, 30_000), "test": (6_000, 60_000)},
    },
    (VALIDATION, HALF_TEST, HALF_VAL, TEST, ALL_VALIDATION, TRAIN, VIDEOS),
    "those of its download page; videos under the terms of YouTube",
    load,
    unverified=("1.5k", "public-test"),
)
