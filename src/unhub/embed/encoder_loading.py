"""`load_encoder`: a model by its name, loaded by the library that the name asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeAlias, get_args

from unhub.embed.encoder import Encoder, Precision
from unhub.embed.hub import choose_device
from unhub.embed.open_clip_encoder import OPEN_CLIP, load_open_clip
from unhub.embed.sentence_encoder import SENTENCES, is_sentence_model, load_sentences
from unhub.embed.transformers_encoder import load_transformers
from unhub.errors import ArgumentError

Loader: TypeAlias = Callable[[str, str, bool], Encoder]  # of a name, a device, and whether to compute in half precision
PATHS = (os.sep, f".{os.sep}", f"..{os.sep}")
PREFIXES: Mapping[str, Loader] = {OPEN_CLIP: load_open_clip, SENTENCES: load_sentences}


def load_encoder(model: str | os.PathLike[str], *, device: str | None = None, precision: Precision = "auto") -> Encoder:
    """Load an encoder by its name on the Hugging Face hub or from a folder.

    Most names are those of models of transformers: dual encoders such as CLIP, SigLIP and CLAP, or encoders of pictures
    alone such as DINOv2 and ViT. `sentence-transformers/all-MiniLM-L6-v2`, a name after `sentence-transformers:`, and a
    folder that sentence-transformers saved are loaded by that library, and `open_clip:ViT-B-32/laion2b_s34b_b79k` by
    open_clip.

    device: where it runs, for example "cpu" or "cuda:1"; by default a GPU if there is one.
    precision: "half" computes in float16 if that is safe (autocast), "full" in float32; "auto" is half on a GPU.
    """
    if precision not in get_args(Precision):
        raise ArgumentError("precision", f"must be one of {', '.join(get_args(Precision))}, got {precision!r}")
    name = os.fspath(model)
    if name.startswith(PATHS) and not os.path.isdir(name):  # a name on the hub begins with none of these
        remedy = "name one that a model was saved to, or a model on the hub"
        raise ArgumentError("model", f"{name!r} is no folder", remedy)
    place = choose_device(device)
    half = precision == "half" or (precision == "auto" and not place.startswith("cpu"))
    return _loader(name)(name, place, half)


def _loader(name: str) -> Loader:
    for prefix, loader in PREFIXES.items():
        if name.startswith(prefix):
            return loader
    return load_sentences if is_sentence_model(name) else load_transformers
