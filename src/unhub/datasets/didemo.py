"""DiDeMo (Hendricks et al., ICCV 2017): the sentences of a video together are one query."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from unhub.datasets.annotations import need, of_form, read_json, read_list, text_of
from unhub.datasets.described import TEXT_PARAGRAPH_VIDEO, Contents, Download, Known
from unhub.datasets.parts import captioned_parts, joined
from unhub.datasets.scanned import Scanned

FORM = '[{"video", "description"}, ...]'
RELEASE, LISTS = "the repository LocalizingMoments, folder data", "collaborative-experts, misc/datasets/didemo"
TEST = Download(("test_data.json",), "the test sentences", RELEASE)
OTHERS = {
    "train": Download(("train_data.json",), "the training sentences", RELEASE, needed=False),
    "val": Download(("val_data.json",), "the validation sentences", RELEASE, needed=False),
}
LISTED = {
    "train": Download(("train_list.txt",), "the 8,392 videos that the papers train on", LISTS, needed=False),
    "val": Download(("val_list.txt",), "the 1,065 videos that the papers validate on", LISTS, needed=False),
    "test": Download(("test_list.txt",), "the 1,004 videos that the papers test on", LISTS),
}
VIDEOS = Download((), "as in the sentences, with any suffix", "Flickr, by the script of LocalizingMoments")


def load(files: Scanned, split: str) -> Contents:
    """Read the sentences, and keep the videos of the lists where there are lists."""
    sentences = {part: read_sentences(path) for part, one in OTHERS.items() if (path := files.find(*one.names))}
    sentences["test"] = read_sentences(need(files, TEST))
    lists = {
        part: read_list(listed) if (listed := files.find(*LISTED[part].names)) else list(inside)
        for part, inside in sentences.items()
    }
    return captioned_parts(files, "video", lists, sentences, joined)


def read_sentences(path: Path) -> dict[str, list[str]]:
    """Return the sentences of each video, in the order of the file; an entry of the file is one sentence."""
    sentences = defaultdict(list)
    with of_form(path, FORM):
        for entry in read_json(path):
            sentences[text_of(entry["video"])].append(text_of(entry["description"]))
    return sentences


KNOWN = Known(
    "didemo",
    "DiDeMo",
    TEXT_PARAGRAPH_VIDEO,
    ("paragraphs",),
    {"paragraphs": {"train": (8_392, 8_392), "val": (1_065, 1_065), "test": (1_004, 1_004)}},
    (TEST, LISTED["test"], *OTHERS.values(), LISTED["train"], LISTED["val"], VIDEOS),
    "annotations BSD-2; videos Creative Commons, each its own (video_licenses.txt)",
    load,
)
