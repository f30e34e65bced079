"""Cars-196 (Krause et al., 2013): an image of a car asks for others of its model; classes 99 to 196 are the test."""

from __future__ import annotations

from pathlib import Path

from unhub.datasets.annotations import check_download, need, of_form, text_of
from unhub.datasets.cub import PROTOCOL
from unhub.datasets.described import Contents, Download, Known
from unhub.datasets.parts import found, of_one_class
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError
from unhub.files.mat_files import read_struct

LAST_TRAIN_CLASS = 98
UNLABELLED = "cars_test_annos.mat"
RELEASE = "the Cars page of Stanford; torchvision names copies"
FORM = "annotations with the fields class and fname, or class and relative_im_path"
TOGETHER = "cars_annos.mat"  # both folders at once, in another release
TRAIN = Download(("cars_train_annos.mat", TOGETHER), "names and classes of cars_train/; in car_devkit.tgz", RELEASE)
TEST = Download(
    ("cars_test_annos_withlabels.mat", TOGETHER),
    "names and classes of cars_test/",
    RELEASE,
    md5="b0a2b23655a3edd16d84508592a98d10",
)
IMAGES = Download((), "cars_train/00001.jpg and cars_test/00001.jpg, or car_ims/000001.jpg", RELEASE)

Labelled = dict[str, int]


def load(files: Scanned, split: str) -> Contents:
    """Read names and classes of both folders, whose files have the same names, and cut between the classes."""
    together = files.find(TOGETHER)
    if together:
        classes = _read(together, "")
    else:
        if files.find(UNLABELLED) and not files.find(*TEST.names):
            raise ArgumentError("data", f"{files.folder} has {UNLABELLED}, which holds no classes", TEST.fetch)
        classes = {**_read(need(files, TRAIN), "cars_train/"), **_read(need(files, TEST), "cars_test/")}
    parts = {}
    for part in ("train", "test"):
        kept = [image for image, one in classes.items() if (one > LAST_TRAIN_CLASS) == (part == "test")]
        parts[part] = of_one_class(files, found(files, "image", kept), [str(classes[image]) for image in kept])
    return Contents(parts)


def _read(path: Path, folder: str) -> Labelled:
    check_download(path)
    try:
        fields = read_struct(path, "annotations")
    except ValueError as error:
        raise ArgumentError(
            "data", str(error), "the download is perhaps cut short, or another file: fetch it again"
        ) from None
    with of_form(path, FORM):
        names = fields["relative_im_path" if "relative_im_path" in fields else "fname"]
        pairs = zip(names, fields["class"], strict=True)
        return {f"{folder}{text_of(name)}": _whole(number) for name, number in pairs}


def _whole(number: object) -> int:
    if not isinstance(number, int | float) or number != number // 1:
        raise TypeError(f"the class is {number!r}")
    return int(number)


KNOWN = Known(
    "cars196",
    "Cars-196",
    PROTOCOL,
    ("classes",),
    {"classes": {"train": (8_054, 8_054), "test": (8_131, 8_131)}},
    (TRAIN, TEST, IMAGES),
    "none stated in its README; the photos are their owners'",
    load,
)
