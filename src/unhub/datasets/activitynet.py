"""ActivityNet Captions (Krishna et al., ICCV 2017): the sentences of a video are one query; val_1 is the test."""

from __future__ import annotations

from pathlib import Path

from unhub.datasets.annotations import need, of_form, read_json, texts_of
from unhub.datasets.described import TEXT_PARAGRAPH_VIDEO, Contents, Download, Known
from unhub.datasets.parts import captioned_parts, joined
from unhub.datasets.scanned import Scanned

FORM = '{"v_<YouTube id>": {"sentences": ["...", ...]}}'
RELEASE = "captions.zip of the ActivityNet Captions project"
TEST = Download(("val_1.json",), "the sentences of the 4,917 test videos", RELEASE)
TRAIN = Download(("train.json",), "the sentences of the 10,009 training videos", RELEASE, needed=False)
VIDEOS = Download((), "v_<YouTube id>.mp4, .mkv or .webm", "YouTube, or the form of ActivityNet for missing videos")


def load(files: Scanned, split: str) -> Contents:
    """Read the sentences; the lists `*_ids.json` name videos without any and do not count."""
    sentences = {"test": read_sentences(need(files, TEST))}
    if path := files.find(*TRAIN.names):
        sentences["train"] = read_sentences(path)
    return captioned_parts(files, "video", {part: list(one) for part, one in sentences.items()}, sentences, joined)


def read_sentences(path: Path) -> dict[str, list[str]]:
    """Return the sentences of each video."""
    with of_form(path, FORM):
        return {video: texts_of(entry["sentences"]) for video, entry in read_json(path).items()}


KNOWN = Known(
    "activitynet",
    "ActivityNet Captions",
    TEXT_PARAGRAPH_VIDEO,
    ("val1",),
    {"val1": {"train": (10_009, 10_009), "test": (4_917, 4_917)}},
    (TEST, TRAIN, VIDEOS),
    "a citation is asked for; videos under the terms of YouTube",
    load,
)
