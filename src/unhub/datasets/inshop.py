"""In-Shop Clothes Retrieval of DeepFashion (Liu et al., CVPR 2016): query images ask a gallery for their item."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from unhub.data.relevance import Relevance
from unhub.datasets.annotations import need, read_fields
from unhub.datasets.dataset import Part, Protocol
from unhub.datasets.described import Contents, Download, Known
from unhub.datasets.parts import found, of_one_class
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError

FIELDS = ("image_name", "item_id", "evaluation_status")
RELEASE = "In-shop Clothes Retrieval Benchmark of DeepFashion, after its agreement"
LIST = Download(("list_eval_partition.txt",), "52,712 images, their items and their use", RELEASE)
IMAGES = Download((), "img/WOMEN/ and img/MEN/, or img_highres/", RELEASE)


def load(files: Scanned, split: str) -> Contents:
    """Read the list: columns padded with runs of spaces, under a line with their number and a line of heads."""
    path = need(files, LIST)
    (count, *_), *lines = read_fields(path, None, 1, len(FIELDS))
    rows = [row for row in lines if len(row) == len(FIELDS) and row[0] != FIELDS[0]]
    if not rows or str(len(rows)) != count:
        problem = f"{path} says {count!r} in its first line and lists {len(rows):,} images"
        raise ArgumentError("data", problem, f"it is cut short, or another list: {LIST.fetch}")
    uses = defaultdict(list)
    for image, item, use in rows:
        uses[use.strip()].append((image, item))
    if not uses["query"] or not uses["gallery"]:
        raise ArgumentError("data", f"{path} has no images for query or gallery, but {', '.join(uses)}", LIST.fetch)
    parts = {"test": _asked(files, uses["query"], uses["gallery"])}
    if trained := uses["train"]:
        images = found(files, "image", [image for image, _ in trained], _names)
        parts["train"] = of_one_class(files, images, [item for _, item in trained])
    return Contents(parts)


def _asked(files: Scanned, queries: list[tuple[str, str]], gallery: list[tuple[str, str]]) -> Part:
    answers = defaultdict(list)
    for image, item in gallery:
        answers[item].append(image)
    pairs = [(image, answer) for image, item in queries for answer in answers[item]]
    asking, answering = np.array(pairs, np.str_).reshape(-1, 2).T
    items, asked = (found(files, "image", [image for image, _ in side], _names) for side in (gallery, queries))
    return Part(items, asked, Relevance(asking, answering))


def _names(image: str) -> tuple[str, ...]:
    return image, image.replace("img/", "img_highres/", 1)


KNOWN = Known(
    "inshop",
    "In-Shop Clothes",
    Protocol("image-image", ("i2i",), ("R@1", "R@10", "R@20", "R@30")),
    ("official",),
    {"official": {"train": (25_882, 25_882), "test": (12_612, 14_218)}},
    (LIST, IMAGES),
    "non-commercial research and education only",
    load,
    unverified=("official",),
)
