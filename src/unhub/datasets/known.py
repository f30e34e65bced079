"""The data sets that can be read, by name."""

from __future__ import annotations

from collections.abc import Mapping

from unhub.datasets import (
    activitynet,
    audiocaps,
    cars196,
    clotho,
    coco,
    cub,
    didemo,
    flickr8k,
    flickr30k,
    imagenet,
    inshop,
    lsmdc,
    msrvtt,
    msvd,
    online_products,
    own_folder,
    plip,
    queryd,
    vatex,
    visogender,
)
from unhub.datasets.described import Known

_ALL = (
    msrvtt.KNOWN,
    msvd.KNOWN,
    didemo.KNOWN,
    lsmdc.KNOWN,
    vatex.KNOWN,
    activitynet.KNOWN,
    queryd.KNOWN,
    coco.KNOWN,
    flickr30k.KNOWN,
    flickr8k.KNOWN,
    *plip.KNOWN,
    audiocaps.KNOWN,
    clotho.KNOWN,
    cub.KNOWN,
    online_products.KNOWN,
    cars196.KNOWN,
    inshop.KNOWN,
    imagenet.KNOWN,
    visogender.KNOWN,
    own_folder.KNOWN,
)
DATASETS: Mapping[str, Known] = {one.name: one for one in _ALL}
