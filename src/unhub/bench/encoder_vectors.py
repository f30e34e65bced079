"""Vectors by an encoder: what is not embedded yet is embedded, and kept by model, data set, part and side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from unhub.bench.vector_source import SideVectors, Which
from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors
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
        # The digest of the model comes first: two models of one name do not share a folder.
        place = self.folder / self.encoder.identity["digest"][:16] / self.data_set / f"{part}-{which}"
        place.parent.mkdir(parents=True, exist_ok=True)
        made = self._texts(side, place, progress) if side.kind == "text" else self._media(side, place, progress)
        notes = [
            f"{count:,} of {len(side):,} {what} {why} and are left out."
            for count, why in (
                (len(side.missing), "have no file"),
                (len(side) - len(side.missing) - len(made), "failed"),
            )
            if count
        ]
        return made, tuple(notes)

    def _media(self, side: Side, place: Path, progress: Progress | None) -> Vectors:
        there = [place for place, path in enumerate(side.paths or ()) if path is not None]
        paths = [path for path in side.paths or () if path is not None]
        return MEDIA[side.kind](paths, self.encoder, place, ids=side.ids[there], progress=progress).vectors

    def _texts(self, side: Side, place: Path, progress: Progress | None) -> Vectors:
        texts = [several[0] if len(several) == 1 else several for several in side.texts or ()]
        return embed_texts(texts, self.encoder, place, ids=side.ids, progress=progress).vectors
