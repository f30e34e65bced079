"""The loop: threads open the inputs one batch ahead of the model; inputs that cannot be embedded are skipped."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from unhub.arrays import Float32, spans
from unhub.compute.workers import Progress, thread_count
from unhub.embed.encoder import Pixels, Unusable
from unhub.embed.sources import FileInputs, Inputs
from unhub.embed.work import DTYPE, EmbedBatch

if TYPE_CHECKING:
    from unhub.embed.media import Picture

Opened: TypeAlias = str | Pixels


class Encodes(Protocol):
    """What the loop needs of an encoder."""

    def prepare(self, pictures: Sequence[Picture]) -> Pixels: ...
    def pictures(self, prepared: Sequence[Pixels]) -> Float32: ...
    def texts(self, texts: Sequence[str]) -> Float32: ...
    def count_long(self, texts: Sequence[str]) -> int: ...


def batches(
    inputs: Inputs, encoder: Encodes, start: int, size: int, threads: int | None, progress: Progress | None
) -> Generator[EmbedBatch]:
    """Yield the results of the inputs from `start` on, `size` inputs at a time."""
    count = len(inputs.ids)
    with ThreadPoolExecutor(thread_count(threads)) as pool, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")  # a picture with odd metadata is still a picture
        opening: list[Future[Opened | Unusable]] = []
        try:
            ahead = (
                (stop, [pool.submit(_open, inputs, encoder, position) for position in range(first, stop)])
                for first, stop in spans(count, size, start)
            )
            now = next(ahead, None)
            while now is not None:
                following = next(ahead, None)
                opening = [*now[1], *(following[1] if following else [])]
                yield _encode(encoder, now[0], [one.result() for one in now[1]])
                if progress is not None:
                    progress(now[0], count)
                now = following
        finally:
            for one in opening:
                one.cancel()


def _open(inputs: Inputs, encoder: Encodes, position: int) -> Opened | Unusable:
    """Return a text, or pictures as the encoder takes them, or why it cannot; decoders raise errors of any type."""
    try:
        if isinstance(inputs, FileInputs):
            path = inputs.paths[position]
            if path.stat().st_size == 0:
                raise ValueError("the file is empty")
            return encoder.prepare(inputs.open(path))
        text: object = inputs.texts[position]
        if not isinstance(text, str):
            raise ValueError(f"not a text, but {type(text).__name__}")
        if not text.strip():
            raise ValueError("the text is empty")
        return text
    except MemoryError:
        raise
    except Exception as error:
        return Unusable(_reason(error))


def _encode(encoder: Encodes, stop: int, opened: Sequence[Opened | Unusable]) -> EmbedBatch:
    """Return the rows of the inputs that could be opened, and the reasons for the others."""
    first = stop - len(opened)
    skipped = {first + place: str(one) for place, one in enumerate(opened) if isinstance(one, Unusable)}
    usable = {first + place: one for place, one in enumerate(opened) if not isinstance(one, Unusable)}
    try:
        rows = _rows(encoder, [*usable.values()])
    except Unusable:  # perhaps because of one input, so try each alone
        alone = {place: _alone(encoder, one) for place, one in usable.items()}
        skipped |= {place: str(one) for place, one in alone.items() if isinstance(one, Unusable)}
        usable = {place: one for place, one in usable.items() if place not in skipped}
        found = [one for one in alone.values() if not isinstance(one, Unusable)]
        rows = np.concatenate(found) if found else np.empty((0, 0), np.float32)
    sound = rows.any(axis=1)
    skipped |= dict.fromkeys(np.array([*usable])[~sound].tolist(), "the model gives no finite vector for it")
    texts = [one for one in usable.values() if isinstance(one, str)]
    return EmbedBatch(stop, rows[sound].astype(DTYPE), skipped, encoder.count_long(texts) if texts else 0)


def _rows(encoder: Encodes, inputs: Sequence[Opened]) -> Float32:
    """Return a row for each input; a batch has only texts or only pictures."""
    texts = [one for one in inputs if isinstance(one, str)]
    prepared = [one for one in inputs if not isinstance(one, str)]
    if not inputs:
        return np.empty((0, 0), np.float32)
    return encoder.texts(texts) if texts else encoder.pictures(prepared)


def _alone(encoder: Encodes, one: Opened) -> Float32 | Unusable:
    try:
        return _rows(encoder, [one])
    except Unusable as error:
        return error


def _reason(error: Exception) -> str:
    """Return the message of an error in one line."""
    said = getattr(error, "strerror", None) or error  # without the path, which the reader knows
    return " ".join(str(said).split()) or type(error).__name__
