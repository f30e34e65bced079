"""Models of open_clip: `open_clip:ViT-B-32/laion2b_s34b_b79k`, an architecture and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unhub.arrays import Float32
from unhub.embed.encoder import Encoder, Kind, Prepared, Settings, check_several, digest_of, unit_or_zero
from unhub.embed.hub import loading, placing, unfit_torchvision
from unhub.errors import ArgumentError, optional

if TYPE_CHECKING:
    from unhub.embed.media import Picture

OPEN_CLIP = "open_clip:"
WITH_WEIGHTS = ("hf-hub:", "local-dir:")  # names that stand for an architecture and its weights
PIXELS = "pixels"
ENDS = 2  # tokens for the start and the end of a text


class OpenClipEncoder(Encoder):
    """A dual encoder of open_clip with its tokenizer and preprocessing."""

    def __init__(self, name: str, model: Any, device: str, half: bool, preprocess: Any, tokenizer: Any) -> None:
        super().__init__(name, model, device, half)
        self._preprocess, self._tokenizer = preprocess, tokenizer

    def check(self, kind: Kind) -> None:
        if kind == "sounds":
            raise self.cannot(kind)

    def settings(self, kind: Kind) -> Settings:
        if kind == "texts":
            return {"precision": self._precision, "longest": self._tokenizer.context_length}
        return {"precision": self._precision, "processor": digest_of(repr(self._preprocess))}

    def prepare(self, pictures: Sequence[Picture]) -> Prepared:
        return {PIXELS: np.stack([self._preprocess(picture).numpy() for picture in pictures])}

    def texts(self, texts: Sequence[str]) -> Float32:
        check_several(texts, "texts", str)
        return unit_or_zero(self._features("texts", {"tokens": self._tokenizer(list(texts)).numpy()}))

    def count_long(self, texts: Sequence[str]) -> int:
        other = getattr(self._tokenizer, "tokenizer", None)  # of transformers, around which open_clip has its own
        lengths = (len(other(one)["input_ids"]) if other else len(self._tokenizer.encode(one)) + ENDS for one in texts)
        return sum(length > self._tokenizer.context_length for length in lengths)

    def _features(self, kind: Kind, inputs: Prepared) -> Float32:
        (rows,) = inputs.values()
        tensor = self._torch.from_numpy(np.asarray(rows)).to(self.device)
        encode = self._model.encode_text if kind == "texts" else self._model.encode_image
        return self._as_rows(self._run(lambda: encode(tensor)), encode.__name__)


def load_open_clip(name: str, device: str, half: bool) -> Encoder:
    """Load an architecture with its weights: a tag of open_clip, a file, or a model on the Hugging Face hub."""
    try:
        library = optional("open_clip", "openclip", "embedding with open_clip")
    except RuntimeError as error:  # as of torchvision for a GPU beside torch for a processor
        raise ImportError(f"open_clip cannot be imported: {unfit_torchvision() or error}") from error
    architecture, weights = _parts(name)
    with loading(name):
        net, preprocess = library.create_model_from_pretrained(architecture, weights)
        tokenizer = library.get_tokenizer(architecture)
    with placing(device):
        return OpenClipEncoder(name, net.float().eval().to(device), device, half, preprocess, tokenizer)


def _parts(name: str) -> tuple[str, str | None]:
    """Return the architecture and the weights that a name asks for."""
    wanted = name.removeprefix(OPEN_CLIP)
    if wanted.startswith(WITH_WEIGHTS):
        return wanted, None
    architecture, _, weights = wanted.partition("/")
    if not architecture or not weights:
        raise ArgumentError("model", f"{name!r} names no weights", f"write {OPEN_CLIP}ViT-B-32/laion2b_s34b_b79k")
    return architecture, weights
