"""A dual encoder of transformers: texts and pictures in, vectors of length one out."""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, unit
from unhub.embed.media import open_image
from unhub.errors import ArgumentError, optional
from unhub.files.embedded import Encoded

if TYPE_CHECKING:
    from unhub.embed.media import Picture

Kind: TypeAlias = Literal["images", "texts", "videos"]
Precision: TypeAlias = Literal["auto", "half", "full"]
Pixels: TypeAlias = Mapping[str, NDArray[np.generic]]

FEATURES: Mapping[Kind, str] = {
    "images": "get_image_features",
    "texts": "get_text_features",
    "videos": "get_image_features",
}
# Models trained on texts padded to one length, in tokens, which lose much without it; others are padded to the longest.
PADDED_TOKENS: Mapping[str, int] = {"align": 64, "siglip": 64, "siglip2": 64, "tipsv2": 64}
BACKEND_VERSION = (5, 4)  # of transformers: from here on an image processor is chosen by its backend
OUT_OF_MEMORY_WORD = "DefaultCPUAllocator"  # in torch's message when the processor's memory is full
UNLIMITED_TOKENS = 1_000_000  # a tokenizer without a limit gives a number far above this


class Unusable(ValueError):
    """An input that cannot be embedded; its text is the reason."""


class Encoder:
    """A model on its device, with its tokenizer and image processor; `load_encoder` makes one."""

    def __init__(self, name: str, model: Any, device: str, half: bool) -> None:
        self.name, self.device, self.half = name, device, half
        self._model = model
        self._torch = _torch()

    def __repr__(self) -> str:
        return f"<Encoder {self.name}: {type(self._model).__name__} on {self.device}, {self._precision} precision>"

    @property
    def _precision(self) -> str:
        return "half" if self.half else "full"

    @cached_property
    def identity(self) -> Encoded:
        """The name and class of the model and a hash of its weights."""
        content = hashlib.blake2b(digest_size=16)
        for name, tensor in sorted(self._model.state_dict().items()):
            content.update(f"\0{name}\0{tuple(tensor.shape)}\0".encode())
            content.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        return {"name": self.name, "type": type(self._model).__name__, "digest": content.hexdigest()}

    def check(self, kind: Kind) -> None:
        """Raise if the model cannot embed inputs of this kind."""
        if not hasattr(self._model, FEATURES[kind]):
            raise ArgumentError(
                "model",
                f"is a {type(self._model).__name__}, which has no {FEATURES[kind]}",
                "use a dual encoder such as CLIP or SigLIP",
            )

    def settings(self, kind: Kind) -> dict[str, str | int | None]:
        """Return what else determines the vectors of a kind, besides the weights."""
        precision: dict[str, str | int | None] = {"precision": self._precision}
        if kind == "texts":
            return {**precision, "longest": self._longest, "padding": str(self._padding)}
        written = self._processor.to_json_string()
        return {**precision, "processor": hashlib.blake2b(written.encode(), digest_size=8).hexdigest()}

    def prepare(self, pictures: Sequence[Picture]) -> Pixels:
        """Return pictures as the model takes them, a row each; safe on any thread."""
        # Older processors guess which axis holds the colours, wrongly for a picture of few pixels.
        layout = {} if _version() >= BACKEND_VERSION else {"input_data_format": "channels_last"}
        return dict(self._processor(images=list(pictures), return_tensors="np", **layout))

    def pictures(self, prepared: Sequence[Pixels]) -> Float32:
        """Return a unit vector for each set of prepared pictures: of its only picture, or of the mean of its frames.

        Frames are scaled to length one before their mean is taken, as in CLIP4Clip's parameter-free form. All pictures
        must have one shape, as most processors make them; otherwise the whole batch is Unusable.
        """
        if len({tuple((name, rows.shape[1:]) for name, rows in one.items()) for one in prepared}) > 1:
            raise Unusable("its shape differs from that of the others")
        joined = {name: np.concatenate([one[name] for one in prepared]) for name in prepared[0]}
        sizes = [len(next(iter(one.values()))) for one in prepared]
        frames = unit_or_zero(self._features("images", joined))
        return unit_or_zero(np.add.reduceat(frames, np.cumsum([0, *sizes[:-1]]), axis=0))  # scaled, a sum is a mean

    def images(self, paths: Sequence[str | os.PathLike[str]]) -> Float32:
        """Return a unit vector for each image, all in one batch."""
        _check_several(paths, "paths", str | os.PathLike)
        return self.pictures([self.prepare(open_image(path)) for path in paths])

    def texts(self, texts: Sequence[str]) -> Float32:
        """Return a unit vector for each text, all in one batch; texts that are too long are cut."""
        _check_several(texts, "texts", str)
        cut = {"truncation": True, "max_length": self._longest} if self._longest is not None else {}
        inputs = self._tokenizer(list(texts), padding=self._padding, return_tensors="np", **cut)
        return unit_or_zero(self._features("texts", inputs))

    def count_long(self, texts: Sequence[str]) -> int:
        """Return how many texts are longer than the model reads."""
        if self._longest is None:
            return 0
        whole = self._tokenizer(list(texts), verbose=False)["input_ids"]
        return sum(len(tokens) > self._longest for tokens in whole)

    def _features(self, kind: Kind, inputs: Mapping[str, NDArray[np.generic]]) -> Float32:
        """Run the model and return its vectors unscaled."""
        method = getattr(self._model, FEATURES[kind])
        taken = _accepted(method, inputs)
        device, half = self._torch.device(self.device), self._torch.float16
        try:
            with self._torch.inference_mode(), self._torch.autocast(device.type, half, enabled=self.half):
                output = method(**{name: self._torch.from_numpy(rows).to(device) for name, rows in taken.items()})
        except (ValueError, RuntimeError) as error:
            if isinstance(error, self._torch.cuda.OutOfMemoryError) or OUT_OF_MEMORY_WORD in str(error):
                raise MemoryError(f"{_first_line(error)} Try a smaller batch.") from error
            if isinstance(error, RuntimeError) and device.type != "cpu":
                raise  # the device may have failed, not the input
            raise Unusable(
                _first_line(error)
            ) from error  # for example a picture of a size that the model does not take
        # Up to version 4, transformers returns the vectors; later versions return an object that holds them.
        features = getattr(output, "pooler_output", output)
        shape = tuple(getattr(features, "shape", ()))
        if len(shape) != 2:
            raise ArgumentError(
                "model",
                f"cannot be used: {FEATURES[kind]} of {type(self._model).__name__} gives {type(output).__name__} of "
                f"shape {shape}",
                "use one that gives one vector for each input",
            )
        return cast("Float32", features.float().cpu().numpy())

    @cached_property
    def _tokenizer(self) -> Any:
        return self._loaded("AutoTokenizer")

    @cached_property
    def _processor(self) -> Any:
        optional("PIL", "embed", "embedding pictures")
        # The processors that use Pillow: the others need torchvision, and resize slightly differently.
        chosen = {"backend": "pil"} if _version() >= BACKEND_VERSION else {"use_fast": False}
        return self._loaded("AutoImageProcessor", **chosen)

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
        with _loading(self.name):
            return getattr(_transformers(), what).from_pretrained(self.name, **options)


def load_encoder(model: str | os.PathLike[str], *, device: str | None = None, precision: Precision = "auto") -> Encoder:
    """Load a dual encoder by its name on the Hugging Face hub or from a folder.

    device: where it runs, for example "cpu" or "cuda:1"; by default a GPU if there is one.
    precision: "half" computes in float16 if that is safe (autocast), "full" in float32; "auto" is half on a GPU.
    """
    if precision not in get_args(Precision):
        raise ArgumentError("precision", f"must be one of {', '.join(get_args(Precision))}, got {precision!r}")
    torch, transformers = _torch(), _transformers()
    place = _device(torch, device)
    name = os.fspath(model)
    with _loading(name):
        net, told = transformers.AutoModel.from_pretrained(name, output_loading_info=True)
    absent = sorted(told["missing_keys"])
    if absent:
        raise ArgumentError(
            "model",
            f"{name!r} holds no weights for {absent[0]} and {len(absent) - 1} more of {type(net).__name__}, so they "
            "would be random",
            "use a model with all its weights",
        )
    half = precision == "half" or (precision == "auto" and not place.startswith("cpu"))
    try:
        return Encoder(name, net.float().eval().to(place), place, half)
    except (RuntimeError, AssertionError) as error:
        raise ArgumentError("device", f"{place!r} cannot be used here: {_first_line(error)}") from error


def unit_or_zero(rows: Float32) -> Float32:
    """Return the rows scaled to length one; a row that is zero or not finite becomes zero."""
    sound = np.isfinite(rows).all(axis=1) & rows.any(axis=1)
    scaled = np.zeros_like(rows, np.float32)
    scaled[sound] = unit(rows[sound])
    return scaled


def _accepted(method: Callable[..., object], inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[Any]]:
    """Return the inputs that a method takes; tokenizers and processors also make inputs for other models."""
    kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    names = {name for name, one in inspect.signature(method).parameters.items() if one.kind not in kinds}
    return {name: np.asarray(rows) for name, rows in inputs.items() if name in names or not names}


def _device(torch: ModuleType, device: str | None) -> str:
    if device is not None:
        try:
            return str(torch.device(device))
        except RuntimeError as error:
            raise ArgumentError(
                "device", f"must be one that torch can use here, got {device!r} ({_first_line(error)})"
            ) from error
    found = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    return next((name for name, is_there in found.items() if is_there()), "cpu")


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Load without messages, with download bars only on a terminal; errors name the model."""
    from safetensors import SafetensorError

    told = _transformers().utils.logging
    before, bars = told.get_verbosity(), told.is_progress_bar_enabled()
    told.set_verbosity_error()
    if not sys.stderr.isatty():
        told.disable_progress_bar()
    hub = logging.getLogger("huggingface_hub")  # which logs every retry
    level = hub.level
    hub.setLevel(logging.ERROR)
    try:
        yield
    except ImportError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise ArgumentError("model", f"{name!r} cannot be loaded: {_first_line(error)}") from error
    finally:
        hub.setLevel(level)
        told.set_verbosity(before)
        if bars:
            told.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _torch() -> ModuleType:
    return optional("torch", "embed", "embedding")


def _transformers() -> ModuleType:
    return optional("transformers", "embed", "embedding")


def _version() -> tuple[int, int]:
    major, minor, *_ = _transformers().__version__.split(".")
    return int(major), int(minor)


def _check_several(given: object, name: str, kind: type | UnionType) -> None:
    """Raise unless a non-empty list of values of a type is given; a single text is a sequence too, of letters."""
    one = isinstance(given, str | os.PathLike)
    if one or not isinstance(given, Sequence) or not given:
        raise ArgumentError(name, f"must be a list of at least one, got {given!r}", "put it into a list" if one else "")
    strange = next((value for value in given if not isinstance(value, kind)), None)
    if strange is not None or None in given:
        raise ArgumentError(name, f"must be a list of {name}, got {type(strange).__name__} among them")
