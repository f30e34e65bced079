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
    """The captions of every image, five at most, by part and name, in the order of the file."""

    captions: Mapping[str, Mapping[str, list[str]]]
    dropped: int

    @property
    def images(self) -> dict[str, list[str]]:
        """The image names of each part."""
        return {part: list(inside) for part, inside in self.captions.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        if not self.dropped:
            return ()
        return (f"{self.dropped:,} captions beyond the fifth of an image are left out, as in the papers",)


def read_karpathy(path: Path) -> KarpathySplit:
    """Read `dataset_coco.json` or `dataset_flickr30k.json` or `dataset_flickr8k.json`."""
    captions: dict[str, dict[str, list[str]]] = defaultdict(dict)
    dropped = 0
    with of_form(path, FORM):
        for image in read_json(path)["images"]:
            texts = [text_of(one["raw"]) for one in image["sentences"]]
            captions[PARTS[image["split"]]][text_of(image["filename"])] = texts[:MOST_CAPTIONS]
            dropped += max(0, len(texts) - MOST_CAPTIONS)
    return KarpathySplit(captions, dropped)
