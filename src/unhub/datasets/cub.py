"""CUB-200-2011 (Wah et al., 2011): an image asks for others of its species; classes 101 to 200 are the test."""

from __future__ import annotations

from unhub.datasets.annotations import need, of_form, read_fields
from unhub.datasets.dataset import Protocol
from unhub.datasets.described import Contents, Download, Known
from unhub.datasets.parts import found, of_one_class
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError

PROTOCOL = Protocol("image-image", ("i2i",), ("R@1", "R@2", "R@4", "R@8"), leave_out_itself=True)
LAST_TRAIN_CLASS = 100  # retrieval ignores train_test_split.txt
RELEASE = "CUB_200_2011.tgz of Caltech"
NAMES = Download(("images.txt",), "the names of 11,788 images", RELEASE)
CLASSES = Download(("image_class_labels.txt",), "the class of each", RELEASE)
IMAGES = Download((), "images/001.Black_footed_Albatross/ and so on", RELEASE)


def load(files: Scanned, split: str) -> Contents:
    """Read names and classes, and cut between the classes."""
    names = dict(read_fields(need(files, NAMES), " ", 2, 2))
    path = need(files, CLASSES)
    with of_form(path, "`<image> <class>`"):
        classes = {image: int(one) for image, one in read_fields(path, " ", 2, 2)}
    if names.keys() != classes.keys():
        known = f"{len(names):,} names in {NAMES.title} and {len(classes):,} classes in {CLASSES.title}"
        problem = f"{files.folder} has {known}"
        raise ArgumentError("data", problem, f"fetch both from one release: {RELEASE}")
    parts = {}
    for part in ("train", "test"):
        kept = [image for image, one in classes.items() if (one > LAST_TRAIN_CLASS) == (part == "test")]
        images = found(files, "image", [names[image].strip() for image in kept])
        parts[part] = of_one_class(files, images, [str(classes[image]) for image in kept])
    return Contents(parts)


KNOWN = Known(
    "cub",
    "CUB-200-2011",
    PROTOCOL,
    ("classes",),
    {"classes": {"train": (5_864, 5_864), "test": (5_924, 5_924)}},
    (NAMES, CLASSES, IMAGES),
    "none stated in its README; the photos are their owners'",
    load,
)
