"""QuerYD (Oncescu et al., ICASSP 2021): the audio description of a video, as one text."""

from __future__ import annotations

from unhub.datasets.annotations import need, read_list, texts_by_id
from unhub.datasets.described import TEXT_PARAGRAPH_VIDEO, Contents, Download, Known
from unhub.datasets.parts import captioned_parts, joined
from unhub.datasets.scanned import Scanned

PREFIX = "video-"
LISTS = "audio-retrieval-benchmark, misc/datasets/queryd"
CAPTIONS = Download(
    ("raw_captions_combined_filtered.json",),
    "the descriptions; its form is not verified",
    "QuerYD-experts.tar.gz of collaborative-experts, whose .pkl must be turned into .json first",
)
TEST = Download(("test_list.txt",), "386 test videos; the 390 of QB-Norm are an older list", LISTS)
OTHERS = {
    "train": Download(("train_list.txt",), "1,796 training videos", LISTS, needed=False),
    "val": Download(("val_list.txt",), "384 validation videos", LISTS, needed=False),
}
VIDEOS = Download((), "video-<YouTube id>.mp4 or <YouTube id>.mp4", "YouTube")


def load(files: Scanned, split: str) -> Contents:
    """Read the descriptions and the lists; both splits have files of the same names."""
    captions = texts_by_id(need(files, CAPTIONS))
    lists = {part: read_list(path) for part, wanted in OTHERS.items() if (path := files.find(*wanted.names))}
    lists["test"] = read_list(need(files, TEST))
    shared = dict.fromkeys(lists, captions)
    return captioned_parts(files, "video", lists, shared, joined, lambda _, item: (item, item.removeprefix(PREFIX)))


KNOWN = Known(
    "queryd",
    "QuerYD",
    TEXT_PARAGRAPH_VIDEO,
    ("cleaned", "first"),
    {
        "cleaned": {"train": (1_796, 1_796), "val": (384, 384), "test": (386, 386)},
        "first": {"train": (1_815, 1_815), "val": (388, 388), "test": (390, 390)},
    },
    (CAPTIONS, TEST, *OTHERS.values(), VIDEOS),
    "not seen; videos under the terms of YouTube",
    load,
    unverified=("cleaned", "first"),
)
