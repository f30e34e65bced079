"""LSMDC (Rohrbach et al., IJCV 2017): clips of films and a sentence each; lines of tabs, never quoted."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from unhub.datasets.annotations import need, read_fields
from unhub.datasets.described import TEXT_VIDEO, Contents, Download, Known
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned

FIELDS = 6  # clip, start and end twice, sentence
RELEASE = "MPII, with a user name and password after the signed agreement"
TEST = Download(
    ("LSMDC16_challenge_1000_publictect.csv", "LSMDC16_challenge_1000_publictest.csv"), "the 1,000 test clips", RELEASE
)
OTHERS = {
    "train": Download(("LSMDC16_annos_training.csv",), "the training clips", RELEASE, needed=False),
    "val": Download(("LSMDC16_annos_val.csv",), "the validation clips", RELEASE, needed=False),
}
VIDEOS = Download((), "<clip>.avi, in any folders", RELEASE)


def load(files: Scanned, split: str) -> Contents:
    """Read the sentences; a clip of train or val may have several."""
    sentences = {part: read_sentences(path) for part, one in OTHERS.items() if (path := files.find(*one.names))}
    sentences["test"] = read_sentences(need(files, TEST))
    return captioned_parts(files, "video", {part: list(one) for part, one in sentences.items()}, sentences)


def read_sentences(path: Path) -> dict[str, list[str]]:
    """Return the sentences of each clip."""
    sentences = defaultdict(list)
    for row in read_fields(path, "\t", FIELDS, FIELDS):
        sentences[row[0].strip()].append(row[-1].strip())
    return sentences


KNOWN = Known(
    "lsmdc",
    "LSMDC",
    TEXT_VIDEO,
    ("challenge-1k",),
    {"challenge-1k": {"test": (1_000, 1_000)}},
    (TEST, *OTHERS.values(), VIDEOS),
    "only with the signed agreement; research use",
    load,
    unverified=("challenge-1k",),
)
