"""What an encoder is: texts, pictures and sounds in, vectors of length one out. Each library has a file of its own."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, unit
from unhub.embed.media import open_image, open_sound
from unhub.errors import ArgumentError, optional
from unhub.files.embedded import Encoded

if TYPE_CHECKING:
    from unhub.embed.media import Picture

Kind: TypeAlias = Literal["images", "texts", "videos", "sounds"]
Precision: TypeAlias = Literal["auto", "half", "full"]
Settings: TypeAlias = dict[str, str | int | None]
Prepared: TypeAlias = Mapping[str, NDArray[np.generic]]  # pictures or a sound as the model takes them, a row each

OUT_OF_MEMORY_WORD = "DefaultCPUAllocator"  # in torch's message when the processor's memory is full


class Unusable(ValueError):
    """An input that cannot be embedded; its text is the reason."""


class Encoder(ABC):
    """A model of torch on its device, with all that its inputs go through first; `load_encoder` makes one."""

    def __init__(self, name: str, model: Any, device: str, half: bool) -> None:
        self.name, self.device, self.half = name, device, half
        self._model = model
        self._torch = torch_module()

    def __repr__(self) -> str:
        return f"<Encoder {self.name}: {type(self._model).__name__} on {self.device}, {self._precision} precision>"

    @property
    def _precision(self) -> str:
        return "half" if self.half else "full"

    @cached_property
    def identity(self) -> Encoded:
        """The name and class of the model and a hash of its weights."""
        content = hashlib.blake2b(digest_size=16)
        for name, tensor in sorted(self._used_weights().items()):
            content.update(f"\0{name}\0{tuple(tensor.shape)}\0".encode())
            content.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        return {"name": self.name, "type": type(self._model).__name__, "digest": content.hexdigest()}

    def _used_weights(self) -> dict[str, Any]:
        """Return the weights that determine the vectors, by name."""
        return dict(self._model.state_dict())

    @abstractmethod
    def check(self, kind: Kind) -> None:
        """Raise if the model cannot embed inputs of this kind."""

    @abstractmethod
    def settings(self, kind: Kind) -> Settings:
        """Return what else determines the vectors of a kind, besides the weights."""

    @abstractmethod
    def texts(self, texts: Sequence[str]) -> Float32:
        """Return a unit vector for each text, all in one batch; texts that are too long are cut."""

    @abstractmethod
    def count_long(self, texts: Sequence[str]) -> int:
        """Return how many texts are longer than the model reads."""

    @abstractmethod
    def prepare(self, pictures: Sequence[Picture]) -> Prepared:
        """Return pictures as the model takes them, a row each; safe on any thread."""

    @property
    def sampling_rate(self) -> int:
        """How many samples of a sound the model takes for each second."""
        raise self.cannot("sounds")

    def prepare_sound(self, samples: Float32) -> Prepared:
        """Return a sound, at the sampling rate, as the model takes it; safe on any thread."""
        raise self.cannot("sounds")

    @abstractmethod
    def _features(self, kind: Kind, inputs: Prepared) -> Float32:
        """Run the model on prepared inputs and return its vectors unscaled."""

    def pictures(self, prepared: Sequence[Prepared]) -> Float32:
        """Return a unit vector for each set of prepared pictures: of its only picture, or of the mean of its frames.

        Frames are scaled to length one before their mean is taken, as in CLIP4Clip's parameter-free form. All pictures
        must have one shape, as most processors make them; otherwise the whole batch is Unusable.
        """
        frames = unit_or_zero(self._features("images", _joined(prepared)))
        return mean_of_groups(frames, [len(next(iter(one.values()))) for one in prepared])

    def images(self, paths: Sequence[str | os.PathLike[str]]) -> Float32:
        """Return a unit vector for each image, all in one batch."""
        check_several(paths, "paths", str | os.PathLike)
        return self.pictures([self.prepare(open_image(path)) for path in paths])

    def prepared_sounds(self, prepared: Sequence[Prepared]) -> Float32:
        """Return a unit vector for each prepared sound."""
        return unit_or_zero(self._features("sounds", _joined(prepared)))

    def sounds(self, paths: Sequence[str | os.PathLike[str]]) -> Float32:
        """Return a unit vector for each sound, all in one batch."""
        check_several(paths, "paths", str | os.PathLike)
        self.check("sounds")
        return self.prepared_sounds([self.prepare_sound(open_sound(path, self.sampling_rate)) for path in paths])

    def text_groups(self, groups: Sequence[Sequence[str]]) -> Float32:
        """Return a unit vector for each group of texts: of the mean of their unit vectors, as CLIP averages prompts."""
        rows = self.texts([text for group in groups for text in group])
        return rows if len(rows) == len(groups) else mean_of_groups(rows, [*map(len, groups)])

    def cannot(self, kind: Kind) -> ArgumentError:
        """Return the error for a kind of inputs that the model does not take."""
        remedies: dict[Kind, str] = {
            "images": "use a model of pictures such as CLIP, SigLIP or DINOv2",
            "texts": "use a dual encoder such as CLIP or SigLIP, or a model of sentence-transformers",
            "videos": "use a model of pictures such as CLIP, SigLIP or DINOv2",
            "sounds": "use a model of sounds such as laion/clap-htsat-unfused",
        }
        return ArgumentError("model", f"is a {type(self._model).__name__}, which does not embed {kind}", remedies[kind])

    def _run(self, call: Callable[[], Any]) -> Any:
        """Run the model without gradients in its precision; an input that it does not take is Unusable."""
        device, half = self._torch.device(self.device), self._torch.float16
        try:
            with self._torch.inference_mode(), self._torch.autocast(device.type, half, enabled=self.half):
                return call()
        except (ValueError, RuntimeError) as error:
            if isinstance(error, self._torch.cuda.OutOfMemoryError) or OUT_OF_MEMORY_WORD in str(error):
                raise MemoryError(f"{first_line(error)} Try a smaller batch.") from error
            if isinstance(error, RuntimeError) and device.type != "cpu":
                raise  # the device may have failed, not the input
            raise Unusable(first_line(error)) from error  # for example a picture of a size that the model does not take

    def _as_rows(self, features: Any, source: str) -> Float32:
        """Return vectors of torch as an array; raise unless there is one for each input."""
        shape = tuple(getattr(features, "shape", ()))
        if len(shape) != 2:
            raise ArgumentError(
                "model",
                f"cannot be used: {source} of {type(self._model).__name__} gives {type(features).__name__} of shape "
                f"{shape}",
                "use one that gives one vector for each input",
            )
        return cast("Float32", features.float().cpu().numpy())


def unit_or_zero(rows: Float32) -> Float32:
    """Return the rows scaled to length one; a row that is zero or not finite becomes zero."""
    sound = np.isfinite(rows).all(axis=1) & rows.any(axis=1)
    scaled = np.zeros_like(rows, np.float32)
    scaled[sound] = unit(rows[sound])
    return scaled


def mean_of_groups(rows: Float32, sizes: Sequence[int]) -> Float32:
    """Return the mean of each group of consecutive unit rows, scaled to length one."""
    return unit_or_zero(np.add.reduceat(rows, np.cumsum([0, *sizes[:-1]]), axis=0))  # scaled, a sum is a mean


def _joined(prepared: Sequence[Prepared]) -> Prepared:
    """Return the rows of several prepared inputs as those of one."""
    if len({tuple((name, rows.shape[1:]) for name, rows in one.items()) for one in prepared}) > 1:
        raise Unusable("its shape differs from that of the others")
    return {name: np.concatenate([one[name] for one in prepared]) for name in prepared[0]}


def digest_of(text: str) -> str:
    """Return a short hash of a setting that is too long for a manifest."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def torch_module() -> ModuleType:
    """Return torch."""
    return optional("torch", "embed", "embedding")


def check_several(given: object, name: str, kind: type | UnionType) -> None:
    """Raise unless a non-empty list of values of a type is given; a single text is a sequence too, of letters."""
    one = isinstance(given, str | os.PathLike)
    if one or not isinstance(given, Sequence) or not given:
        raise ArgumentError(name, f"must be a list of at least one, got {given!r}", "put it into a list" if one else "")
    strange = next((value for value in given if not isinstance(value, kind)), None)
    if strange is not None or None in given:
        raise ArgumentError(name, f"must be a list of {name}, got {type(strange).__name__} among them")
