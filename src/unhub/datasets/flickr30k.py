"""Flickr30k (Young et al., TACL 2014) with the split of Karpathy, which is not that of Flickr30k Entities."""

from __future__ import annotations

from unhub.datasets.annotations import need
from unhub.datasets.described import TEXT_IMAGE, Contents, Download, Known
from unhub.datasets.karpathy import read_karpathy
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError

ENTITIES = ("test.txt", "val.txt", "train.txt")
CAPTIONS = Download(
    ("dataset_flickr30k.json",),
    "captions and split of Karpathy",
    "caption_datasets.zip of Karpathy",
)
IMAGES = Download((), "flickr30k-images/1000092795.jpg and so on", "the form of the University of Illinois")


def load(files: Scanned, split: str) -> Contents:
    """Read the captions and the split."""
    found = files.find(*ENTITIES)
    if found and not files.find(*CAPTIONS.names):
        problem = (
            f"{files.folder} has {found.name}, perhaps of Flickr30k Entities: its test shares 25 of 1,000 images with "
            "the papers'"
        )
        raise ArgumentError("data", problem, CAPTIONS.fetch)
    read = read_karpathy(need(files, CAPTIONS))
    contents = captioned_parts(files, "image", read.images, read.captions)
    return Contents(contents.parts, (*contents.notes, *read.notes))


KNOWN = Known(
    "flickr30k",
    "Flickr30k",
    TEXT_IMAGE,
    ("karpathy",),
    {"karpathy": {"train": (29_000, 145_000), "val": (1_014, 5_070), "test": (1_000, 5_000)}},
    (CAPTIONS, IMAGES),
    "non-commercial research and education only",
    load,
    unverified=("karpathy",),
)
