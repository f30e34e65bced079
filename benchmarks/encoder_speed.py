"""How fast an encoder of full size embeds pictures, videos, sounds and texts, with decoding apart.

    python benchmarks/encoder_speed.py [--count 96]

The models have the size of CLIP ViT-B/32 and of CLAP HTSAT with random weights, since speed does not depend on what the
weights are; nothing is downloaded. The files are made: pictures of 500 x 375 as in Flickr30k, videos of 320 x 240 and
15 seconds as in MSR-VTT, sounds of 10 seconds as in AudioCaps, texts of 14 words. Times are those of one processor core
(process time), so other work on the machine changes them little; two free cores take half as long. Needs the extra
`embed`.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import tokenizers
import torch
import transformers
from PIL import Image

import unhub
from unhub.embed.encoder import Encoder
from unhub.embed.media import open_image, open_sound, open_video
from unhub.evaluation.tables import as_text

WORDS = 14  # of a caption, as in COCO and Flickr30k
FRAMES = 8  # of a video, the default of `unhub embed`
RATE = 48_000  # samples in a second, of CLAP
VIDEO_RATE, VIDEO_SECONDS, SOUND_SECONDS = 25, 15, 10
PICTURE, VIDEO = (500, 375), (320, 240)
BATCH = 32  # the default of `unhub embed`
LONGEST = 77


def write_tokenizer(folder: Path, start: int, end: int, padding: int) -> None:
    """Write a tokenizer of one word, so that a text has as many tokens as words, and two more."""
    words = {"<pad>": padding, "<start>": start, "<end>": end, "word": 5}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="word"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", start), ("<end>", end)]
    )
    names = {"pad_token": "<pad>", "bos_token": "<start>", "eos_token": "<end>", "unk_token": "word"}
    tokenizer: Any = transformers.PreTrainedTokenizerFast
    tokenizer(tokenizer_object=made, model_max_length=LONGEST, **names).save_pretrained(folder)


def write_clip(folder: Path) -> Encoder:
    """Return a CLIP ViT-B/32 with random weights."""
    transformers.CLIPModel(transformers.CLIPConfig()).save_pretrained(folder)
    write_tokenizer(folder, 49406, 49407, 1)
    transformers.CLIPImageProcessorPil().save_pretrained(folder)
    return unhub.load_encoder(folder, device="cpu")


def write_clap(folder: Path) -> Encoder:
    """Return a CLAP of HTSAT, unfused, with random weights."""
    transformers.ClapModel(transformers.ClapConfig()).save_pretrained(folder)
    write_tokenizer(folder, 0, 2, 1)
    transformers.ClapFeatureExtractor(truncation="rand_trunc").save_pretrained(folder)
    return unhub.load_encoder(folder, device="cpu")


def write_picture(path: Path, random: np.random.Generator) -> None:
    """Write a picture with edges and grain, whose file is about as large as a photograph's."""
    coarse = Image.fromarray(random.integers(0, 256, (24, 32, 3), np.uint8)).resize(PICTURE, Image.Resampling.BICUBIC)
    grain = random.normal(0, 12, (*PICTURE[::-1], 3))
    Image.fromarray(np.clip(np.asarray(coarse) + grain, 0, 255).astype(np.uint8)).save(path, quality=90)


def write_video(path: Path, random: np.random.Generator) -> None:
    """Write a video in which a picture moves."""
    picture = np.asarray(Image.fromarray(random.integers(0, 256, (12, 16, 3), np.uint8)).resize(VIDEO))
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("mpeg4", rate=VIDEO_RATE)
        stream.width, stream.height = VIDEO
        stream.pix_fmt, stream.bit_rate = "yuv420p", 400_000
        for number in range(VIDEO_RATE * VIDEO_SECONDS):
            frame = av.VideoFrame.from_ndarray(np.roll(picture, number, axis=1), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def write_sound(path: Path, random: np.random.Generator) -> None:
    """Write a sound of noise."""
    waves = random.normal(0, 0.1, (1, SOUND_SECONDS * RATE)).astype(np.float32)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("pcm_s16le", rate=RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray(waves, format="fltp", layout="mono")
        frame.sample_rate = RATE
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


def write_files(
    folder: Path, count: int, suffix: str, write: Callable[[Path, np.random.Generator], None]
) -> list[Path]:
    """Write several files of a kind."""
    random = np.random.default_rng(0)
    paths = [folder / f"{number}{suffix}" for number in range(count)]
    for path in paths:
        write(path, random)
    return paths


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of a processor core that some work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def batched(given: Sequence[Any], size: int, each: Callable[[Sequence[Any]], object]) -> None:
    """Do something with several at a time."""
    for start in range(0, len(given), size):
        each(given[start : start + size])


def line(what: str, count: int, opening: float, model: float, bytes_of: int) -> list[str]:
    """Return a row of the table: milliseconds of one core, and what two cores do in a second."""
    each = (opening + model) / count
    return [
        what,
        f"{1000 * opening / count:.1f}",
        f"{1000 * model / count:.1f}",
        f"{2 / each:.1f}",
        f"{bytes_of / count / 1000:.0f} kB" if bytes_of else "",
    ]


def media(
    what: str, paths: list[Path], opened: Callable[[Path], Any], encode: Callable[[Sequence[Any]], Any], size: int
) -> list[str]:
    """Return the row of files: opened and prepared one by one, then encoded by the batch."""
    prepared: list[Any] = []
    encode([opened(paths[0])])  # whatever is done once
    opening = seconds_of(lambda: prepared.extend(map(opened, paths)))
    model = seconds_of(lambda: batched(prepared, size, encode))
    return line(what, len(paths), opening, model, sum(path.stat().st_size for path in paths))


def texts(name: str, encoder: Encoder, count: int) -> list[str]:
    """Return the row of texts."""
    several = [" ".join(["word"] * WORDS)] * count
    encoder.texts(several[:1])
    model = seconds_of(lambda: batched(several, BATCH, encoder.texts))
    return line(f"text of {WORDS} words, {name}", count, 0.0, model, 0)


def peak_memory() -> float:
    """Return the most memory that this process had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    """Print a row for each kind of input."""
    parser = argparse.ArgumentParser(description="How fast an encoder of full size embeds, with decoding apart.")
    parser.add_argument("--count", type=int, default=96, help="how many pictures; a third of that videos and sounds")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # threads that wait for each other would count too
    torch.manual_seed(0)
    count, fewer = arguments.count, max(1, arguments.count // 3)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        clip = write_clip(folder / "clip")
        pictures = write_files(folder, count, ".jpg", write_picture)
        videos = write_files(folder, fewer, ".mp4", write_video)
        rows = [
            media("picture, CLIP", pictures, lambda path: clip.prepare(open_image(path)), clip.pictures, BATCH),
            media(
                "video, CLIP",
                videos,
                lambda path: clip.prepare(open_video(path, FRAMES)),
                clip.pictures,
                BATCH // FRAMES,
            ),
            texts("CLIP", clip, count),
        ]
        of_clip = peak_memory()
        clap = write_clap(folder / "clap")
        sounds = write_files(folder, fewer, ".wav", write_sound)
        rows += [
            media(
                "sound, CLAP",
                sounds,
                lambda path: clap.prepare_sound(open_sound(path, RATE)),
                clap.prepared_sounds,
                BATCH,
            ),
            texts("CLAP", clap, count),
        ]
    print(as_text(["input", "opening, ms", "model, ms", "per second on 2 cores", "file"], rows))
    print(f"Most memory of the process with CLIP, prepared inputs of all batches held: {of_clip:.1f} GB.")


if __name__ == "__main__":
    main()
