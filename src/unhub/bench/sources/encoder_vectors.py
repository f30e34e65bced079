"""Vectors by an encoder: what is not embedded yet is embedded, and kept by model, data set, part and side."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from unhub.bench.sources.vector_source import SideVectors, Which
from unhub.compute.workers import Progress
from unhub.datasets.dataset import Side
from unhub.embed.embed import Embedded, embed_images, embed_sounds, embed_texts, embed_videos
from unhub.embed.encoder import Encoder
from unhub.errors import ArgumentError

Embed: TypeAlias = Callable[..., Embedded]
MEDIA: Mapping[str, Embed] = {"image": embed_images, "video": embed_videos, "audio": embed_sounds}


@dataclass(frozen=True, eq=False)
class EncoderVectors:
    """Vectors that an encoder makes; they are kept under `folder` by model and data set, and made once."""

    encoder: Encoder
    folder: Path
    data_set: str
    name: str

    def has(self, part: str, which: Which, side: Side) -> bool:
        return len(side.missing) < len(side)

    def vectors(self, part: str, which: Which, side: Side, progress: Progress | None) -> SideVectors:
        what = f"{part} {which}"
        if len(side) == len(side.missing):
            raise ArgumentError(
                "data", f"has none of the files of the {len(side):,} {what}", "fetch them: see `unhub datasets`"
            )
        # The digest of the model comes first: two models of one name do not share a folder. That of the inputs comes
        # last: what was embedded before a file was fetched stays, and the whole side is embedded anew.
        model = self.encoder.identity["digest"][:16]
        place = self.folder / model / self.data_set / f"{part}-{which}-{_digest(side)}"
        place.parent.mkdir(parents=True, exist_ok=True)
        made = self._texts(side, place, progress) if side.kind == "text" else self._media(side, place, progress)
        return made.vectors, tuple(_notes(made, side, what))

    def _media(self, side: Side, place: Path, progress: Progress | None) -> Embedded:
        there = [place for place, path in enumerate(side.paths or ()) if path is not None]
        paths = [path for path in side.paths or () if path is not None]
        return MEDIA[side.kind](paths, self.encoder, place, ids=side.ids[there], progress=progress)

    def _texts(self, side: Side, place: Path, progress: Progress | None) -> Embedded:
        texts = [several[0] if len(several) == 1 else several for several in side.texts or ()]
        return embed_texts(texts, self.encoder, place, ids=side.ids, progress=progress)


def _notes(made: Embedded, side: Side, what: str) -> Iterator[str]:
    """Yield what of a side has no vector, and why, and how many texts were cut."""
    whole = f"{len(side):,} {what}"
    if missing := len(side.missing):
        yield f"{missing:,} of {whole} have no file and are left out."
    if made.skipped:
        first = made.skipped[0]
        example = f"for example {first['id']}: {first['reason']}"
        yield f"{len(made.skipped):,} of {whole} could not be embedded and are left out, {example}."
    if made.truncated:
        yield f"{made.truncated:,} of {whole} were cut, because they are longer than the model reads."


def _digest(side: Side) -> str:
    """Return a hash of what there is to embed: ids, and texts or the sizes of files, as `unhub embed` compares them."""
    sizes = [None if path is None else path.stat().st_size for path in side.paths or ()]
    content = repr((side.ids.tolist(), side.texts, sizes)).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(content, digest_size=8).hexdigest()
