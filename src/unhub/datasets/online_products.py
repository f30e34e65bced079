"""Stanford Online Products (Song et al., CVPR 2016): an image of a product asks for its other images."""

from __future__ import annotations

from pathlib import Path

from unhub.datasets.annotations import need, read_fields
from unhub.datasets.dataset import Part, Protocol
from unhub.datasets.described import Contents, Download, Known
from unhub.datasets.parts import found, of_one_class
from unhub.datasets.scanned import Scanned

FIELDS = ("image_id", "class_id", "super_class_id", "path")
RELEASE = "Stanford_Online_Products.zip of Stanford"
TEST = Download(("Ebay_test.txt",), "60,502 images of 11,316 products", RELEASE)
TRAIN = Download(("Ebay_train.txt",), "59,551 images of 11,318 products", RELEASE, needed=False)
IMAGES = Download((), "bicycle_final/111085122871_0.JPG and so on", RELEASE)


def load(files: Scanned, split: str) -> Contents:
    """Read names and products."""
    parts = {"test": _read(files, need(files, TEST))}
    if path := files.find(*TRAIN.names):
        parts["train"] = _read(files, path)
    return Contents(parts)


def _read(files: Scanned, path: Path) -> Part:
    rows = [row for row in read_fields(path, None, len(FIELDS), len(FIELDS)) if row[0] != FIELDS[0]]
    return of_one_class(files, found(files, "image", [row[3].strip() for row in rows]), [row[1] for row in rows])


KNOWN = Known(
    "sop",
    "Stanford Online Products",
    Protocol("image-image", ("i2i",), ("R@1", "R@10", "R@100", "R@1000"), leave_out_itself=True),
    ("products",),
    {"products": {"train": (59_551, 59_551), "test": (60_502, 60_502)}},
    (TEST, TRAIN, IMAGES),
    "those of its download page; not seen",
    load,
    unverified=("products",),
)
