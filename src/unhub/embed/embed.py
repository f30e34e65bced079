"""Texts, images and videos to a folder of vectors: `embed_texts`, `embed_images` and `embed_videos`."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import numpy as np

from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors
from unhub.embed.encoder import Encoder, Kind, Precision, load_encoder
from unhub.embed.inputs import Inputs, Source, find_files, find_texts
from unhub.embed.pictures import FRAMES, open_image, open_video, pillow
from unhub.embed.run import batches
from unhub.embed.work import REMEDY, Work, check_output, difference
from unhub.errors import check_whole, optional
from unhub.files.embedded import FORMAT, Left, Manifest, Task, is_embedded, read_embedding_manifest
from unhub.files.readers import read_vectors

BATCH = 32
LIBRARIES = ("unhub", "transformers", "torch", "numpy", "pillow", "av")


@dataclass(frozen=True, eq=False, repr=False)
class Embedded:
    """What was written: the vectors, mapped from `path`, and what the manifest says of them.

    already: it was complete before, and nothing had to be done.
    """

    path: Path
    vectors: Vectors
    manifest: Manifest
    already: bool = False

    @property
    def skipped(self) -> list[Left]:
        """The inputs that have no vector, each with the reason."""
        return self.manifest["skipped"]

    @property
    def truncated(self) -> int:
        """How many texts were longer than what the model reads of them."""
        return self.manifest["truncated"]

    def __repr__(self) -> str:
        told = self.manifest
        return f"<Embedded {self.path}: {told['rows']} {told['kind']}, {told['dimensions']} dimensions>"


def embed_images(
    images: Source | Sequence[Source],
    model: Source | Encoder,
    output: Source,
    *,
    batch: int = BATCH,
    device: str | None = None,
    precision: Precision = "auto",
    threads: int | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> Embedded:
    """Embed the images below a folder, by their paths in it, or those of a list, and write them to a new folder.

    model: a name on the Hugging Face hub, a folder, or an encoder that is loaded.
    batch: how many are put through the model at a time; threads: how many files are opened at a time.
    Work that was stopped goes on where it was; `restart` begins anew, and replaces what was finished before. A restart
    that was stopped goes on too.
    """
    pillow("Image")
    inputs = find_files(images, "images", open_image)
    _check_apart(output, images)
    encoder = _encoder(model, device, precision)
    return _embed("images", inputs, encoder, output, {}, check_whole(batch, "batch", 1), threads, restart, progress)


def embed_videos(
    videos: Source | Sequence[Source],
    model: Source | Encoder,
    output: Source,
    *,
    frames: int = FRAMES,
    batch: int = BATCH,
    device: str | None = None,
    precision: Precision = "auto",
    threads: int | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> Embedded:
    """Embed videos as `embed_images` does images: each is the mean of its frames, evenly spread over its length.

    A batch is of as many frames, not videos.
    """
    pillow("Image")
    optional("av", "embed", "reading videos")
    each = check_whole(frames, "frames", 1)
    inputs = find_files(videos, "videos", functools.partial(open_video, frames=each))
    _check_apart(output, videos)
    size = max(1, check_whole(batch, "batch", 1) // each)
    encoder = _encoder(model, device, precision)
    return _embed("videos", inputs, encoder, output, {"frames": each}, size, threads, restart, progress)


def embed_texts(
    texts: Source | Sequence[str],
    model: Source | Encoder,
    output: Source,
    *,
    column: str | None = None,
    id_column: str | None = None,
    ids: object = None,
    batch: int = BATCH,
    device: str | None = None,
    precision: Precision = "auto",
    threads: int | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> Embedded:
    """Embed texts as `embed_images` does images: a list of them, the lines of a .txt file, or a column of a table.

    The column is `text` unless it is given. The ids are `ids`, else the column `id_column` of the table, else numbers
    from 0. Empty texts are skipped.
    """
    inputs = find_texts(texts, column, id_column, ids)
    _check_apart(output, texts)
    encoder = _encoder(model, device, precision)
    return _embed("texts", inputs, encoder, output, {}, check_whole(batch, "batch", 1), threads, restart, progress)


def _embed(
    kind: Kind,
    inputs: Inputs,
    encoder: Encoder,
    output: Source,
    settings: dict[str, str | int | None],
    size: int,
    threads: int | None,
    restart: bool,
    progress: Progress | None,
) -> Embedded:
    encoder.check(kind)
    target = _target(output)
    task: Task = {
        "format": FORMAT,
        "kind": kind,
        "model": encoder.identity,
        "settings": {**encoder.settings(kind), **settings},
        "inputs": inputs.given,
    }
    if is_embedded(target) and not restart:
        differs = difference(task, read_embedding_manifest(target))
        if differs:
            raise ValueError(f"output: {target} was made with {differs}; {REMEDY}")
        return _read(target, already=True)
    work = Work(target, task, restart)
    try:
        with closing(batches(inputs, encoder, work.done, size, threads, progress)) as made:
            for batch in made:
                work.add(batch)
        skipped = work.skipped
        if not work.rows:
            first = next(iter(skipped))
            raise ValueError(
                f"{inputs.source}: none of {len(skipped):,} {kind} could be embedded; the first, "
                f"{inputs.ids[first].item()!r}: {skipped[first]}"
            )
        kept = np.ones(len(inputs.ids), bool)
        kept[list(skipped)] = False
        work.finish(inputs.ids[kept], _manifest(task, work, inputs))
    finally:
        work.close()
    return _read(target)


def _manifest(task: Task, work: Work, inputs: Inputs) -> Manifest:
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
        raise ValueError("model is loaded already: give the device and precision to load_encoder")
    return model


def _check_apart(output: Source, inputs: object) -> None:
    """Check the output before a model is loaded, which takes a while."""
    check_output(_target(output), Path(inputs) if isinstance(inputs, str | os.PathLike) else None)


def _target(output: Source) -> Path:
    return Path(os.path.realpath(output))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
