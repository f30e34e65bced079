"""Clotho (Drossos et al., ICASSP 2020), version 2.1: sounds of Freesound, five captions each."""

from __future__ import annotations

from pathlib import Path

from unhub.datasets.annotations import need, read_table
from unhub.datasets.described import TEXT_AUDIO, Contents, Download, Known
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned

FIVE_CAPTIONS = ("file_name", *(f"caption_{number}" for number in range(1, 6)))
RELEASE = "the Zenodo record of Clotho 2.1"
FILES = {
    "train": Download(
        ("clotho_captions_development.csv",),
        "3,839 training sounds",
        RELEASE,
        needed=False,
        md5="d4090b39ce9f2491908eebf4d5b09bae",
    ),
    "val": Download(
        ("clotho_captions_validation.csv",),
        "1,045 validation sounds",
        RELEASE,
        needed=False,
        md5="5879e023032b22a2c930aaa0528bead4",
    ),
    "test": Download(
        ("clotho_captions_evaluation.csv",), "1,045 test sounds", RELEASE, md5="1b16b9e57cf7bdb7f13a13802aeb57e2"
    ),
}
FOLDERS = {"train": "development", "val": "validation", "test": "evaluation"}
SOUNDS = Download((), "development/, validation/ and evaluation/, names as in the .csv", RELEASE)


def load(files: Scanned, split: str) -> Contents:
    """Read the captions of each part."""
    need(files, FILES["test"])
    read = {part: read_five_captions(path) for part, one in FILES.items() if (path := files.find(*one.names))}
    return captioned_parts(files, "audio", {part: list(inside) for part, inside in read.items()}, read, names=_names)


def _names(part: str, sound: str) -> tuple[str, ...]:
    """Return the name in the folder of the part first: some names are in several folders."""
    return f"{FOLDERS[part]}/{sound}", sound


def read_five_captions(path: Path) -> dict[str, list[str]]:
    """Return the captions of each file of a table with the columns file_name and caption_1 to caption_5."""
    return {name: texts for name, *texts in read_table(path, FIVE_CAPTIONS)}


KNOWN = Known(
    "clotho",
    "Clotho 2.1",
    TEXT_AUDIO,
    ("official",),
    {"official": {"train": (3_839, 19_195), "val": (1_045, 5_225), "test": (1_045, 5_225)}},
    (FILES["test"], FILES["train"], FILES["val"], SOUNDS),
    "those of the Zenodo record, not seen; each sound has its own licence",
    load,
)
