"""Models of transformers: dual encoders of texts with pictures or sounds, and encoders of pictures alone."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.embed.encoder import Encoder, Kind, Prepared, Settings, check_several, digest_of, unit_or_zero
from unhub.embed.hub import loading, placing, transformers_module, transformers_version
from unhub.errors import ArgumentError, optional

if TYPE_CHECKING:
    from unhub.embed.media import Picture

FEATURES: Mapping[Kind, str] = {
    "images": "get_image_features",
    "texts": "get_text_features",
    "videos": "get_image_features",
    "sounds": "get_audio_features",
}
# Models trained on texts padded to one length, in tokens, which lose much without it; others are padded to the longest.
PADDED_TOKENS: Mapping[str, int] = {"align": 64, "siglip": 64, "siglip2": 64, "tipsv2": 64}
BACKEND_VERSION = (5, 4)  # of transformers: from here on an image processor is chosen by its backend
UNLIMITED_TOKENS = 1_000_000  # a tokenizer without a limit gives a number far above this
POOLER = "pooler."  # a layer over the class token, which many checkpoints of picture models do not have
CROP_SEED = 0  # of the part that is taken of a long sound, the same in every run
_DRAWING = threading.Lock()


class TransformersEncoder(Encoder):
    """A model of transformers with its tokenizer, image processor and feature extractor, each loaded when needed."""

    def check(self, kind: Kind) -> None:
        pictures_alone = kind in ("images", "videos") and takes_pictures_alone(self._model)
        if not hasattr(self._model, FEATURES[kind]) and not pictures_alone:
            raise self.cannot(kind)

    def settings(self, kind: Kind) -> Settings:
        precision: Settings = {"precision": self._precision}
        if kind == "texts":
            return {**precision, "longest": self._longest, "padding": str(self._padding)}
        if kind == "sounds":
            heard = {"sampling_rate": self.sampling_rate, "crop_seed": CROP_SEED}
            return {**precision, **heard, "processor": digest_of(self._extractor.to_json_string())}
        seen: Settings = {**precision, "processor": digest_of(self._processor.to_json_string())}
        return {**seen, "output": self._output} if takes_pictures_alone(self._model) else seen

    @property
    def _output(self) -> str:
        """Which output of a model of pictures alone is the vector."""
        return "class token" if _has_class_token(self._model) else "pooled"

    def prepare(self, pictures: Sequence[Picture]) -> Prepared:
        # Older processors guess which axis holds the colours, wrongly for a picture of few pixels.
        layout = {} if transformers_version() >= BACKEND_VERSION else {"input_data_format": "channels_last"}
        return dict(self._processor(images=list(pictures), return_tensors="np", **layout))

    @property
    def sampling_rate(self) -> int:
        return int(self._extractor.sampling_rate)

    def prepare_sound(self, samples: Float32) -> Prepared:
        extractor = self._extractor
        with _repeatable_draws():
            made = dict(extractor(samples, sampling_rate=self.sampling_rate, return_tensors="np"))
        if "is_longer" in made:
            # For training, CLAP's extractor marks one sound of a batch as long even if none is; here it is the truth.
            frames = len(samples) // extractor.hop_length, extractor.nb_max_samples // extractor.hop_length
            made["is_longer"] = np.array([[frames[0] > frames[1]]])
        return made

    def texts(self, texts: Sequence[str]) -> Float32:
        check_several(texts, "texts", str)
        self.check("texts")
        cut = {"truncation": True, "max_length": self._longest} if self._longest is not None else {}
        inputs = self._tokenizer(list(texts), padding=self._padding, return_tensors="np", **cut)
        return unit_or_zero(self._features("texts", inputs))

    def count_long(self, texts: Sequence[str]) -> int:
        if self._longest is None:
            return 0
        whole = self._tokenizer(list(texts), verbose=False)["input_ids"]
        return sum(len(tokens) > self._longest for tokens in whole)

    def _features(self, kind: Kind, inputs: Prepared) -> Float32:
        alone = not hasattr(self._model, FEATURES[kind])
        method = self._model.forward if alone else getattr(self._model, FEATURES[kind])
        taken = _accepted(method, inputs)
        tensors = {name: self._torch.from_numpy(rows).to(self.device) for name, rows in taken.items()}
        output = self._run(lambda: method(**tensors))
        if alone and self._output == "class token":
            return self._as_rows(output.last_hidden_state[:, 0], "the class token")
        # Up to version 4, transformers returns the vectors; later versions return an object that holds them.
        features = getattr(output, "pooler_output", output)
        if alone and len(getattr(features, "shape", ())) == 4:  # of a convolutional net: one pixel of many channels
            features = features.flatten(1)
        return self._as_rows(features, "forward" if alone else FEATURES[kind])

    @cached_property
    def _tokenizer(self) -> Any:
        return self._loaded("AutoTokenizer")

    @cached_property
    def _processor(self) -> Any:
        optional("PIL", "embed", "embedding pictures")
        # The processors that use Pillow: the others need torchvision, and resize slightly differently.
        chosen = {"backend": "pil"} if transformers_version() >= BACKEND_VERSION else {"use_fast": False}
        return self._loaded("AutoImageProcessor", **chosen)

    @cached_property
    def _extractor(self) -> Any:
        return self._loaded("AutoFeatureExtractor")

    @cached_property
    def _longest(self) -> int | None:
        """How many tokens of a text the model reads."""
        config = self._model.config
        known = (
            self._tokenizer.model_max_length,
            getattr(getattr(config, "text_config", config), "max_position_embeddings", None),
            PADDED_TOKENS.get(config.model_type),
        )
        return min((length for length in known if length is not None and length < UNLIMITED_TOKENS), default=None)

    @property
    def _padding(self) -> str | bool:
        return "max_length" if self._model.config.model_type in PADDED_TOKENS and self._longest is not None else True

    def _loaded(self, what: str, **options: str | bool) -> Any:
        with loading(self.name):
            return getattr(transformers_module(), what).from_pretrained(self.name, **options)


def load_transformers(name: str, device: str, half: bool) -> Encoder:
    """Load a model by its name on the Hugging Face hub or from a folder."""
    with loading(name):
        net, told = transformers_module().AutoModel.from_pretrained(name, output_loading_info=True)
    absent = sorted(told["missing_keys"])
    if absent and _has_class_token(net) and all(key.startswith(POOLER) for key in absent):
        net.pooler, absent = None, []  # the vector is the class token, and random weights would change the hash
    if absent:
        raise ArgumentError(
            "model",
            f"{name!r} holds no weights for {absent[0]} and {len(absent) - 1} more of {type(net).__name__}, so they "
            "would be random",
            "use a model with all its weights",
        )
    with placing(device):
        return TransformersEncoder(name, net.float().eval().to(device), device, half)


def takes_pictures_alone(model: Any) -> bool:
    """Say whether a model takes pictures and nothing else, and gives the same vector every time."""
    hides_parts = getattr(model.config, "mask_ratio", 0)  # of a masked autoencoder, which draws what it looks at
    return model.main_input_name == "pixel_values" and not hasattr(model, FEATURES["images"]) and not hides_parts


def _has_class_token(model: Any) -> bool:
    return takes_pictures_alone(model) and hasattr(getattr(model, "embeddings", None), "cls_token")


def _accepted(method: Callable[..., object], inputs: Prepared) -> dict[str, NDArray[Any]]:
    """Return the inputs that a method takes; tokenizers and processors also make inputs for other models."""
    kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    names = {name for name, one in inspect.signature(method).parameters.items() if one.kind not in kinds}
    return {name: np.asarray(rows) for name, rows in inputs.items() if name in names or not names}


@contextmanager
def _repeatable_draws() -> Iterator[None]:
    """Let a feature extractor draw the same part of a sound every time, and leave numpy's generator as it was.

    CLAP's extractor takes a random part of a long sound, by numpy's global generator. With a seed, a sound has one
    vector, whatever is embedded before it or after a kill.
    """
    with _DRAWING:
        before = np.random.get_state()  # noqa: NPY002 - the extractor uses no other
        np.random.seed(CROP_SEED)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002
