"""Flickr8k (Hodosh et al., JAIR 2013): five captions for each image, and lists of names."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from unhub.datasets.annotations import need, read_fields, read_list
from unhub.datasets.described import TEXT_IMAGE, Contents, Download, Known
from unhub.datasets.karpathy import read_karpathy
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned

RELEASE = "Flickr8k_text.zip of the University of Illinois"
TOKENS = Download(("Flickr8k.token.txt",), "40,460 captions", RELEASE, splits=("official",))
LISTS = {
    "train": Download(("Flickr_8k.trainImages.txt",), "6,000 names", RELEASE, needed=False, splits=("official",)),
    "val": Download(("Flickr_8k.devImages.txt",), "1,000 names", RELEASE, needed=False, splits=("official",)),
    "test": Download(("Flickr_8k.testImages.txt",), "1,000 names", RELEASE, splits=("official",)),
}
KARPATHY = Download(
    ("dataset_flickr8k.json",),
    "captions and split of Karpathy",
    "caption_datasets.zip of Karpathy",
    splits=("karpathy",),
)
IMAGES = Download((), "Flicker8k_Dataset/1000268201_693b08cb0e.jpg and so on", "the form of the University of Illinois")
SIZES = {"train": (6_000, 30_000), "val": (1_000, 5_000), "test": (1_000, 5_000)}


def load(files: Scanned, split: str) -> Contents:
    """Read the captions and the lists; names without an image, such as one that ends in .jpg.1, are in no list."""
    if split == "karpathy":
        read = read_karpathy(need(files, KARPATHY))
        contents = captioned_parts(files, "image", read.images, read.captions)
        return Contents(contents.parts, (*contents.notes, *read.notes))
    captions = read_tokens(need(files, TOKENS))
    lists = {part: read_list(found) for part, one in LISTS.items() if (found := files.find(*one.names))}
    lists["test"] = read_list(need(files, LISTS["test"]))
    return captioned_parts(files, "image", lists, dict.fromkeys(lists, captions))


def read_tokens(path: Path) -> dict[str, list[str]]:
    """Return the captions of a file with lines `image.jpg#0<tab>caption`."""
    captions = defaultdict(list)
    for name, text in read_fields(path, "\t", 2, 2):
        captions[name.rpartition("#")[0]].append(text.strip())
    return captions


KNOWN = Known(
    "flickr8k",
    "Flickr8k",
    TEXT_IMAGE,
    ("official", "karpathy"),
    {"official": SIZES, "karpathy": SIZES},
    (TOKENS, *LISTS.values(), KARPATHY, IMAGES),
    "a citation is asked for; the photos are their owners'",
    load,
    unverified=("karpathy",),
)
