"""MSVD (Chen and Dolan, ACL 2011): every caption of a video is a query, and their number varies."""

from __future__ import annotations

from unhub.datasets.annotations import need, read_list, texts_by_id
from unhub.datasets.described import TEXT_VIDEO, Contents, Download, Known
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned

LISTS = "X-Pool, or collaborative-experts"
CAPTIONS = Download(
    ("captions_msvd.json", "raw-captions.json"),
    "all captions of the 1,970 videos",
    "X-Pool; or CLIP4Clip, whose raw-captions.pkl must be turned into .json first",
)
TEST = Download(("test_list.txt",), "the 670 test videos", LISTS)
OTHERS = {
    "train": Download(("train_list.txt",), "the 1,200 training videos", LISTS, needed=False),
    "val": Download(("val_list.txt",), "the 100 validation videos", LISTS, needed=False),
}
VIDEOS = Download((), "YouTube id, start and end, as in -4wsuPCjDBc_5_15.avi", "YouTubeClips.tar of the MSVD release")


def load(files: Scanned, split: str) -> Contents:
    """Read the captions and the lists."""
    captions = texts_by_id(need(files, CAPTIONS))
    lists = {part: read_list(path) for part, wanted in OTHERS.items() if (path := files.find(*wanted.names))}
    lists["test"] = read_list(need(files, TEST))
    return captioned_parts(files, "video", lists, dict.fromkeys(lists, captions))


KNOWN = Known(
    "msvd",
    "MSVD",
    TEXT_VIDEO,
    ("official",),
    {"official": {"train": (1_200, 48_774), "val": (100, 4_290), "test": (670, 27_763)}},
    (CAPTIONS, TEST, *OTHERS.values(), VIDEOS),
    "none stated with the files; research use",
    load,
)
