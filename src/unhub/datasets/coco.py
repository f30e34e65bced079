"""MS-COCO captions (Chen et al., 2015) with the split of Karpathy: 5,000 test images at once, or in five parts."""

from __future__ import annotations

from unhub.datasets.annotations import need
from unhub.datasets.described import TEXT_IMAGE, Contents, Download, Known
from unhub.datasets.karpathy import read_karpathy
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError

FOLD, FOLDS = 1_000, 5
DIGITS = 12  # of an image's number at the end of its name
OTHER_SPLITS = ("captions_val2017.json", "captions_train2017.json", "captions_val2014.json", "captions_train2014.json")
CAPTIONS = Download(
    ("dataset_coco.json",),
    "captions and split of Karpathy",
    "caption_datasets.zip of Karpathy",
)
IMAGES = Download((), "train2014/ and val2014/; or those of 2017, the same images", "the download page of MS-COCO")


def load(files: Scanned, split: str) -> Contents:
    """Read the captions, five for each image; the 1k split cuts the test images into five parts, in their order."""
    found = files.find(*OTHER_SPLITS)
    if found and not files.find(*CAPTIONS.names):
        problem = (
            f"{files.folder} has {found.name}, which is not the split of the papers: of the 5,000 images of val2017, "
            "593 are in it"
        )
        raise ArgumentError("data", problem, CAPTIONS.fetch)
    read = read_karpathy(need(files, CAPTIONS))
    lists = dict(read.images)
    captions = dict(read.captions)
    if split == "karpathy-1k":
        test = lists.pop("test", [])
        folds = {_fold(number): test[number * FOLD : (number + 1) * FOLD] for number in range(FOLDS)}
        lists |= {name: images for name, images in folds.items() if images}
        captions |= dict.fromkeys(folds, captions.get("test", {}))
    contents = captioned_parts(files, "image", lists, captions, names=_names)
    return Contents(contents.parts, (*contents.notes, *read.notes))


def _fold(number: int) -> str:
    return f"test-{number + 1}" if number else "test"


def _names(_: str, image: str) -> tuple[str, ...]:
    """Return the name of an image in the release of 2014, then in that of 2017."""
    return image, image.partition(".")[0][-DIGITS:]


KNOWN = Known(
    "coco",
    "MS-COCO",
    TEXT_IMAGE,
    ("karpathy-5k", "karpathy-1k"),
    {
        "karpathy-5k": {"train": (113_287, 566_435), "val": (5_000, 25_000), "test": (5_000, 25_000)},
        "karpathy-1k": {
            "train": (113_287, 566_435),
            "val": (5_000, 25_000),
            **{_fold(number): (1_000, 5_000) for number in range(FOLDS)},
        },
    },
    (CAPTIONS, IMAGES),
    "photos each under their own licence, several non-commercial; of the annotations, see its site",
    load,
    unverified=("karpathy-5k", "karpathy-1k"),
)
