"""Small pictures, videos and sounds, whole and broken, for the tests of embedding."""

import struct
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

RATE = 10  # frames in a second


def colours(seed: int, height: int = 40, width: int = 52) -> NDArray[np.uint8]:
    """Return a picture of smooth colours."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (5, 6, 3), np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def write_images(folder: Path) -> list[str]:
    """Write pictures of every mode, some in a folder below, and return their paths in the order of their names."""
    (folder / "more" / "deep").mkdir(parents=True)
    pictures = [Image.fromarray(colours(seed)) for seed in range(8)]
    pictures[0].save(folder / "plain.jpg")
    pictures[1].convert("L").save(folder / "grey.png")
    alpha = Image.fromarray(colours(9)[:, :, 0])
    clear = pictures[2].convert("RGBA")
    clear.putalpha(alpha)
    clear.save(folder / "more" / "alpha.png")
    pictures[3].quantize(16).save(folder / "more" / "palette.gif")
    pictures[4].quantize(16).save(folder / "more" / "clear palette.png", transparency=bytes(range(0, 256, 16)))
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned by a quarter
    pictures[5].save(folder / "turned.JPG", exif=turned)
    pictures[6].convert("CMYK").save(folder / "more" / "deep" / "print.tiff")
    pictures[7].convert("1").save(folder / "fax.bmp")
    (folder / "notes.txt").write_text("not a picture")
    (folder / ".hidden.png").write_bytes(b"")
    return sorted(
        [
            "fax.bmp",
            "grey.png",
            "more/alpha.png",
            "more/clear palette.png",
            "more/deep/print.tiff",
            "more/palette.gif",
            "plain.jpg",
            "turned.JPG",
        ]
    )


def write_video(
    path: Path, frames: int, codec: str = "mpeg4", form: str | None = None, options: dict[str, str] | None = None
) -> Path:
    """Write a video in which frame i is of the grey 40 + 4 i, ten in a second."""
    av = import_module("av")
    with av.open(str(path), "w", format=form, options=options or {}) as container:
        stream = container.add_stream(codec, rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.bit_rate, stream.gop_size = 4_000_000, 12
        for number in range(frames):
            picture = np.full((48, 64, 3), 40 + 4 * number, np.uint8)
            picture[:, 32:] //= 2  # darker on the right
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


def tones(seconds: float, rate: int, channels: int = 1, seed: int = 0) -> NDArray[np.float32]:
    """Return some tones that change with time, of another pitch in each channel, (channels, samples)."""
    pitches = np.random.default_rng(seed).uniform(200, 1800, (channels, 3, 1))
    time = np.arange(int(seconds * rate)) / rate
    waves = np.sin(2 * np.pi * pitches * time) * (0.2 + 0.1 * np.sin(5 * time))
    return np.asarray(waves.sum(axis=1) / 2, np.float32)


def write_sound(path: Path, waves: NDArray[np.float32], rate: int, codec: str) -> Path:
    """Write (channels, samples) between -1 and 1 as a sound, in the format that the name says."""
    av = import_module("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, layout="stereo" if len(waves) == 2 else "mono")
        for start in range(0, waves.shape[1], rate):
            part = np.ascontiguousarray(waves[:, start : start + rate])
            frame = av.AudioFrame.from_ndarray(part, format="fltp", layout=stream.layout.name)
            frame.sample_rate, frame.pts = rate, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def turn_video(path: Path) -> None:
    """Tell players of an .mp4 file to turn it by a quarter clockwise, as a phone does."""
    content = bytearray(path.read_bytes())
    matrix = content.index(b"tkhd") + 4 + 40  # after the times, the track's number and its place
    content[matrix : matrix + 36] = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 48 << 16, 0, 1 << 30)
    path.write_bytes(content)


def numbers_of(pictures: list[Image.Image]) -> list[int]:
    """Return which frames of such a video these are, by the grey of their left half."""
    return [round((float(np.asarray(one)[:, :24].mean()) - 40) / 4) for one in pictures]
