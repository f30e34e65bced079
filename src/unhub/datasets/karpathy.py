"""The splits of Karpathy and Fei-Fei (CVPR 2015): one JSON file of images, their sentences and their split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unhub.datasets.annotations import of_form, read_json, text_of

FORM = '{"images": [{"filename", "split", "sentences": [{"raw"}]}]}'
PARTS = {"train": "train", "restval": "train", "val": "val", "test": "test"}
MOST_CAPTIONS = 5  # some images have six or seven; the papers use five


@dataclass(frozen=True)
class KarpathySplit:
    """Image names by part, in the order of the file, and the captions of every image of a part, five at most."""

    images: Mapping[str, list[str]]
    captions: Mapping[str, Mapping[str, list[str]]]
    dropped: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        if not self.dropped:
            return ()
        return (f"{self.dropped:,} captions beyond the fifth of an image are left out, as in the papers",)


def read_karpathy(path: Path) -> KarpathySplit:
    """Read `dataset_coco.json` or `dataset_flickr30k.json` or `dataset_flickr8k.json`."""
    images: dict[str, list[str]] = defaultdict(list)
    captions: dict[str, dict[str, list[str]]] = defaultdict(dict)
    dropped = 0
    with of_form(path, FORM):
        for image in read_json(path)["images"]:
            texts = [text_of(one["raw"]) for one in image["sentences"]]
            part, name = PARTS[image["split"]], text_of(image["filename"])
            images[part].append(name)
            captions[part][name] = texts[:MOST_CAPTIONS]
            dropped += max(0, len(texts) - MOST_CAPTIONS)
    return KarpathySplit(images, captions, dropped)
