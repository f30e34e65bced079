"""Texts, images, videos and sounds to a folder of vectors: `embed_texts`, `embed_images` and their like."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import numpy as np

from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors
from unhub.embed.encoder import Encoder, Kind, Precision, Prepared
from unhub.embed.encoder_loading import load_encoder
from unhub.embed.media import FRAMES, open_image, open_sound, open_video, pillow
from unhub.embed.output import check_output
from unhub.embed.run import batches
from unhub.embed.sources import Inputs, Open, Source, TextOrTexts, find_files, find_texts, with_prompts
from unhub.embed.work import REMEDY, Work, difference
from unhub.errors import ArgumentError, check_whole, optional
from unhub.files.embedded import FORMAT, EmbeddingManifest, EmbeddingTask, Left, is_embedded, read_embedding_manifest
from unhub.files.readers import read_vectors

BATCH = 32
LIBRARIES = ("unhub", "transformers", "torch", "numpy", "pillow", "av", "sentence-transformers", "open_clip_torch")


@dataclass(frozen=True, eq=False, repr=False)
class Embedded:
    """What was written: the vectors, mapped from `path`, and the manifest that describes them.

    already: whether it was complete before, so that nothing had to be done.
    """

    path: Path
    vectors: Vectors
    manifest: EmbeddingManifest
    already: bool = False

    @property
    def skipped(self) -> list[Left]:
        """The inputs that have no vector, each with the reason."""
        return self.manifest["skipped"]

    @property
    def truncated(self) -> int:
        """How many texts were cut because they were longer than the model reads."""
        return self.manifest["truncated"]

    def __repr__(self) -> str:
        manifest = self.manifest
        return f"<Embedded {self.path}: {manifest['rows']} {manifest['kind']}, {manifest['dimensions']} dimensions>"


@shows_progress
def embed_images(
    images: Source | Sequence[Source],
    model: Source | Encoder,
    output: Source,
    *,
    ids: object = None,
    batch: int = BATCH,
    device: str | None = None,
    precision: Precision = "auto",
    threads: int | None = None,
    restart: bool = False,
    progress: ProgressLike = None,
) -> Embedded:
    """Embed images and write the vectors to a new folder.

    images: a folder, whose images are named by their paths in it, or a list of files, named by `ids` or their paths.
    model: a name on the Hugging Face hub, a folder, or a loaded encoder.
    batch: how many images the model takes at a time; threads: how many files are opened at a time.
    Work that was stopped continues where it stopped. `restart` begins again and replaces finished work; a restart that
    was stopped continues too.
    """
    progress = called(progress)
    pillow("Image")
    inputs = find_files(images, "images", OPENERS["images"], ids)
    target = check_output(output, images)  # before a model is loaded, which takes a while
    encoder = _encoder(model, device, precision)
    job = EmbedJob("images", inputs, encoder, target, check_whole(batch, "batch", 1))
    return _embed(job, threads, restart, progress)


@shows_progress
def embed_videos(
    videos: Source | Sequence[Source],
    model: Source | Encoder,
    output: Source,
    *,
    frames: int = FRAMES,
    ids: object = None,
    batch: int = BATCH,
    device: str | None = None,
    precision: Precision = "auto",
    threads: int | None = None,
    restart: bool = False,
    progress: ProgressLike = None,
) -> Embedded:
    """Embed videos as `embed_images` embeds images: each is the mean of `frames` frames, evenly spread over it.

    batch: how many frames, not videos, the model takes at a time.
    """
    progress = called(progress)
    pillow("Image")
    optional("av", "embed", "reading videos")
    each = check_whole(frames, "frames", 1)
    inputs = find_files(videos, "videos", functools.partial(_prepared_video, frames=each), ids)
    target = check_output(output, videos)
    size = max(1, check_whole(batch, "batch", 1) // each)
    encoder = _encoder(model, device, precision)
    return _embed(EmbedJob("videos", inputs, encoder, target, size, {"frames": each}), threads, restart, progress)


@shows_progress
def embed_sounds(
    sounds: Source | Sequence[Source],
    model: Source | Encoder,
    output: Source,
    *,
    ids: object = None,
    batch: int = BATCH,
    device: str | None = None,
    precision: Precision = "auto",
    threads: int | None = None,
    restart: bool = False,
    progress: ProgressLike = None,
) -> Embedded:
    """Embed sounds as `embed_images` embeds images: resampled for the model, in one channel, the mean of all.

    Of a sound longer than the model takes, its feature extractor draws a part, always the same one.
    """
    progress = called(progress)
    optional("av", "embed", "reading sounds")
    inputs = find_files(sounds, "sounds", OPENERS["sounds"], ids)
    target = check_output(output, sounds)
    encoder = _encoder(model, device, precision)
    job = EmbedJob("sounds", inputs, encoder, target, check_whole(batch, "batch", 1))
    return _embed(job, threads, restart, progress)


def _prepared_image(encoder: Encoder, path: Path) -> Prepared:
    return encoder.prepare(open_image(path))


def _prepared_video(encoder: Encoder, path: Path, frames: int) -> Prepared:
    return encoder.prepare(open_video(path, frames))


def _prepared_sound(encoder: Encoder, path: Path) -> Prepared:
    return encoder.prepare_sound(open_sound(path, encoder.sampling_rate))


OPENERS: Mapping[Kind, Open] = {
    "images": _prepared_image,
    "videos": functools.partial(_prepared_video, frames=FRAMES),
    "sounds": _prepared_sound,
}


@shows_progress
def embed_texts(
    texts: Source | Sequence[TextOrTexts],
    model: Source | Encoder,
    output: Source,
    *,
    column: str | None = None,
    id_column: str | None = None,
    ids: object = None,
    prompts: Source | Sequence[str] | None = None,
    batch: int = BATCH,
    device: str | None = None,
    precision: Precision = "auto",
    threads: int | None = None,
    restart: bool = False,
    progress: ProgressLike = None,
) -> Embedded:
    """Embed texts as `embed_images` embeds images: a list of them, the lines of a .txt file, or a column of a table.

    The column is `text` by default. The ids are `ids`, else the column `id_column` of the table, else numbers from 0.
    Empty texts are skipped. An entry of a list may be several texts of one thing, such as prompts of a class: their
    unit vectors are averaged, as in CLIP's prompt ensembles.

    prompts: a list, or a .txt file of lines, such as "a photo of a {}."; each text is put into all of them.
    """
    progress = called(progress)
    inputs = with_prompts(find_texts(texts, column, id_column, ids), prompts)
    target = check_output(output, texts)
    size = max(1, check_whole(batch, "batch", 1) // inputs.most)
    encoder = _encoder(model, device, precision)
    return _embed(EmbedJob("texts", inputs, encoder, target, size), threads, restart, progress)


@dataclass(frozen=True, eq=False)
class EmbedJob:
    """What to embed and where to write it, `size` inputs at a time; `settings` are those of the inputs alone."""

    kind: Kind
    inputs: Inputs
    encoder: Encoder
    target: Path
    size: int
    settings: Mapping[str, str | int | None] = field(default_factory=dict)

    @property
    def task(self) -> EmbeddingTask:
        """What determines the vectors, to compare with work that was begun or finished before."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "model": self.encoder.identity,
            "settings": {**self.encoder.settings(self.kind), **self.settings},
            "inputs": self.inputs.given(self.target.parent),
        }


def _embed(job: EmbedJob, threads: int | None, restart: bool, progress: Progress | None) -> Embedded:
    job.encoder.check(job.kind)
    task, target, inputs = job.task, job.target, job.inputs
    if is_embedded(target) and not restart:
        differs = difference(task, read_embedding_manifest(target))
        if differs:
            raise ArgumentError("output", f"{target} was made with {differs}", REMEDY)
        return _read(target, already=True)
    work = Work(target, task, restart)
    try:
        with closing(batches(job.kind, inputs, job.encoder, work.done, job.size, threads, progress)) as made:
            for batch in made:
                work.add(batch)
        skipped = work.skipped
        if not work.rows:
            first = next(iter(skipped))
            raise ValueError(
                f"{inputs.source}: none of {len(skipped):,} {job.kind} could be embedded; the first, "
                f"{inputs.ids[first].item()!r}: {skipped[first]}"
            )
        kept = np.ones(len(inputs.ids), bool)
        kept[list(skipped)] = False
        work.finish(inputs.ids[kept], _manifest(task, work, inputs))
    finally:
        work.close()
    return _read(target)


def _manifest(task: EmbeddingTask, work: Work, inputs: Inputs) -> EmbeddingManifest:
    return {
        **task,
        "source": inputs.source,
        "rows": work.rows,
        "dimensions": work.dimensions,
        "dtype": "float16",
        "skipped": [{"id": inputs.ids[at].item(), "reason": reason} for at, reason in sorted(work.skipped.items())],
        "truncated": work.truncated,
        "versions": {**{name: _version(name) for name in LIBRARIES}, "python": platform.python_version()},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _read(path: Path, already: bool = False) -> Embedded:
    return Embedded(path, read_vectors(path), read_embedding_manifest(path), already)


def _encoder(model: Source | Encoder, device: str | None, precision: Precision) -> Encoder:
    if not isinstance(model, Encoder):
        return load_encoder(model, device=device, precision=precision)
    if device is not None or precision != "auto":
        raise ArgumentError("model", "is loaded already", "choose the device and the precision when loading it")
    return model


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
