"""Images and videos opened as upright RGB pictures, some frames of a video; sounds opened as samples."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, pairwise
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unhub.arrays import Float32
from unhub.errors import optional

if TYPE_CHECKING:
    from PIL.Image import Image

    Picture: TypeAlias = Image

FRAMES = 8
SEEK_SECONDS = 5  # to a frame further ahead than this, seeking is faster than decoding everything before it
TAIL_SECONDS = 1  # how much longer than its pictures a video may last, as sound may
# Streams without a header, whose length ffmpeg can only guess from the size of the file.
GUESSED_LENGTHS = frozenset(("aac", "ac3", "amr", "dts", "eac3", "mp3"))
WAV = "wav"
UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # of a .wav file that was written as a stream


def pillow(name: str) -> ModuleType:
    """Return a module of Pillow."""
    return optional(f"PIL.{name}", "embed", "reading pictures")


def open_image(path: str | os.PathLike[str] | IO[bytes]) -> list[Picture]:
    """Return the picture in a file, or its first frame, upright by its EXIF data and in RGB."""
    with pillow("Image").open(path) as opened:
        return [_as_rgb(pillow("ImageOps").exif_transpose(opened))]


def _as_rgb(picture: Picture) -> Picture:
    if picture.mode.startswith("I;16"):  # Pillow would clip every value above 255
        picture = picture.point(lambda value: value / 256).convert("L")
    if "transparency" in picture.info:  # Pillow warns if a palette is turned into RGB directly
        picture = picture.convert("RGBA")
    return picture.convert("RGB")


def open_video(path: str | os.PathLike[str], frames: int = FRAMES, far: float = SEEK_SECONDS) -> list[Picture]:
    """Return the frame in the middle of each of `frames` equal parts of a video, upright, in RGB."""
    av = optional("av", "embed", "reading videos")
    with av.open(os.fspath(path)) as container:
        if not container.streams.video:
            raise ValueError("the file has no video")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        start, length = _extent(container, stream, av.time_base)
        wanted = [start + length * Fraction(2 * part + 1, 2 * frames) for part in range(frames)]
        return [_upright(frame) for frame in _shown_at(container, stream, wanted, far)]


def _extent(container: Any, stream: Any, time_base: int) -> tuple[Fraction, Fraction]:
    """Return the start and length of a video in seconds; if the file does not give them, all of it is decoded."""
    start = (stream.start_time or 0) * stream.time_base
    if stream.duration:
        return start, stream.duration * stream.time_base
    if container.duration:
        return start, Fraction(container.duration, time_base)
    ends = [(frame.pts + (frame.duration or 0)) * frame.time_base for frame in _timed(container, stream)]
    if not ends:
        raise ValueError("the video has no frames")
    container.seek(0)
    return start, ends[-1] - start


def _shown_at(container: Any, stream: Any, times: Sequence[Fraction], far: float) -> Iterator[Any]:
    """Yield the frame shown at each of these times, which increase."""
    frames = _timed(container, stream)
    shown, following = None, next(frames, None)
    slack = max([Fraction(TAIL_SECONDS), *(later - time for time, later in pairwise(times))])
    for time in times:
        if following is not None and time - _time(following) > far:
            container.seek(int(time / stream.time_base), stream=stream)
            frames = _timed(container, stream)
            following = next(frames, None)
            if following is None or _time(following) > time:  # the file has no index to seek by: decode everything
                far = math.inf
                container.seek(stream.start_time or 0, stream=stream)
                frames = _timed(container, stream)
                following = next(frames, None)
        while following is not None and (shown is None or _time(following) <= time):
            shown, following = following, next(frames, None)
        if shown is None:
            raise ValueError("the video has no frames")
        if following is None and time - _time(shown) > slack:
            last, wanted = float(_time(shown)), float(time)
            raise ValueError(f"it is cut off: the last frame is at {last:.1f} s, one is needed at {wanted:.1f} s")
        yield shown


def _time(frame: Any) -> Fraction:
    """Return the time of a frame in seconds."""
    time: Fraction = frame.pts * frame.time_base
    return time


def _timed(container: Any, stream: Any) -> Iterator[Any]:
    """Yield the frames that have a time."""
    return (frame for frame in container.decode(stream) if frame.pts is not None)


def _upright(frame: Any) -> Picture:
    picture: Picture = frame.to_image()
    return picture.rotate(frame.rotation, expand=True) if frame.rotation else picture


def open_sound(path: str | os.PathLike[str], rate: int) -> Float32:
    """Return a sound in one channel, the mean of all, at `rate` samples a second."""
    av = optional("av", "embed", "reading sounds")
    with av.open(os.fspath(path)) as container:
        if not container.streams.audio:
            raise ValueError("the file has no sound")
        stream = container.streams.audio[0]
        stream.thread_type = "AUTO"
        resampler = av.AudioResampler(format="fltp", rate=rate)
        frames = chain(container.decode(stream), (None,))  # None asks the resampler for what it still holds
        parts = [part.to_ndarray().mean(axis=0) for frame in frames for part in resampler.resample(frame)]
        length = stream.duration * stream.time_base if stream.duration else Fraction(0)
        kinds = container.format.name.split(",")
    samples = np.concatenate(parts, dtype=np.float32) if parts else np.empty(0, np.float32)
    if not len(samples):
        raise ValueError("the sound is empty")
    if WAV in kinds:
        length *= _wav_share(path)
    if GUESSED_LENGTHS.isdisjoint(kinds) and length - Fraction(len(samples), rate) > TAIL_SECONDS:
        raise ValueError(f"it is cut off: it has {len(samples) / rate:.1f} s of {float(length):.1f} s")
    return samples


def _wav_share(path: str | os.PathLike[str]) -> Fraction:
    """Return how many times its bytes a .wav file should have; ffmpeg takes what is there for all of it."""
    with open(path, "rb") as file:
        declared = int.from_bytes(file.read(8)[4:], "little")
        there = file.seek(0, os.SEEK_END)
    return Fraction(declared + 8, there) if declared not in UNKNOWN_SIZES else Fraction(1)
