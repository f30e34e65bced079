"""The loop: threads open the inputs one batch ahead of the model; inputs that cannot be embedded are skipped."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np

from unhub.arrays import Float32, spans
from unhub.compute.workers import Progress, thread_count
from unhub.embed.encoder import Encoder, Kind, Prepared, Unusable
from unhub.embed.sources import FileInputs, Inputs
from unhub.embed.work import DTYPE, EmbedBatch

Group: TypeAlias = tuple[str, ...]  # the texts of one thing
Opened: TypeAlias = Group | Prepared

# What an encoder does with a batch of opened inputs.
ENCODE: Mapping[Kind, Callable[[Encoder, Sequence[Any]], Float32]] = {
    "texts": lambda encoder, groups: encoder.text_groups(groups),
    "images": lambda encoder, prepared: encoder.pictures(prepared),
    "videos": lambda encoder, prepared: encoder.pictures(prepared),
    "sounds": lambda encoder, prepared: encoder.prepared_sounds(prepared),
}


def batches(
    kind: Kind,
    inputs: Inputs,
    encoder: Encoder,
    start: int,
    size: int,
    threads: int | None,
    progress: Progress | None,
) -> Generator[EmbedBatch]:
    """Yield the results of the inputs from `start` on, `size` inputs at a time."""
    count = len(inputs.ids)
    with ThreadPoolExecutor(thread_count(threads)) as pool, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")  # a picture with odd metadata is still a picture
        opening: list[Future[Opened | Unusable]] = []
        try:
            ahead = (
                (stop, [pool.submit(open_input, inputs, encoder, position) for position in range(first, stop)])
                for first, stop in spans(count, size, start)
            )
            now = next(ahead, None)
            while now is not None:
                following = next(ahead, None)
                opening = [*now[1], *(following[1] if following else [])]
                yield _encode(kind, encoder, now[0], [one.result() for one in now[1]])
                if progress is not None:
                    progress(now[0], count)
                now = following
        finally:
            for one in opening:
                one.cancel()


def open_input(inputs: Inputs, encoder: Encoder, position: int) -> Opened | Unusable:
    """Return texts, or media as the encoder takes them, or why it cannot; decoders raise errors of any type."""
    try:
        if isinstance(inputs, FileInputs):
            path = inputs.paths[position]
            if path.stat().st_size == 0:
                raise ValueError("the file is empty")
            return inputs.open(encoder, path)
        return _checked(inputs.texts[position])
    except MemoryError:
        raise
    except Exception as error:
        return Unusable(_reason(error))


def _checked(given: object) -> Group:
    """Return the texts of one thing; raise if there are none, or one is empty or something else."""
    texts = tuple(given) if isinstance(given, list | tuple) else (given,)
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"not a text, but {type(text).__name__}")
        if not text.strip():
            raise ValueError("the text is empty")
    if not texts:
        raise ValueError("it has no texts")
    return texts


def _encode(kind: Kind, encoder: Encoder, stop: int, opened: Sequence[Opened | Unusable]) -> EmbedBatch:
    """Return the rows of the inputs that could be opened, and the reasons for the others."""
    first = stop - len(opened)
    skipped = {first + place: str(one) for place, one in enumerate(opened) if isinstance(one, Unusable)}
    usable = {first + place: one for place, one in enumerate(opened) if not isinstance(one, Unusable)}
    try:
        rows = ENCODE[kind](encoder, [*usable.values()]) if usable else np.empty((0, 0), np.float32)
    except Unusable:  # perhaps because of one input, so try each alone
        alone = {place: _alone(kind, encoder, one) for place, one in usable.items()}
        skipped |= {place: str(one) for place, one in alone.items() if isinstance(one, Unusable)}
        usable = {place: one for place, one in usable.items() if place not in skipped}
        found = [one for one in alone.values() if not isinstance(one, Unusable)]
        rows = np.concatenate(found) if found else np.empty((0, 0), np.float32)
    sound = rows.any(axis=1)
    skipped |= dict.fromkeys(np.array([*usable])[~sound].tolist(), "the model gives no finite vector for it")
    texts = [text for group in usable.values() if isinstance(group, tuple) for text in group]
    return EmbedBatch(stop, rows[sound].astype(DTYPE), skipped, encoder.count_long(texts) if texts else 0)


def _alone(kind: Kind, encoder: Encoder, one: Opened) -> Float32 | Unusable:
    try:
        return ENCODE[kind](encoder, [one])
    except Unusable as error:
        return error


def _reason(error: Exception) -> str:
    """Return the message of an error in one line."""
    said = getattr(error, "strerror", None) or error  # without the path, which the reader knows
    return " ".join(str(said).split()) or type(error).__name__
