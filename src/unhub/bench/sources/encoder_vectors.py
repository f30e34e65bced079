"""Vectors by an encoder: what is not embedded yet is embedded, and kept by model, data set, part, side and content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from unhub.bench.result_file import stem_of
from unhub.bench.sources.vector_source import SideVectors, Which
from unhub.compute.workers import Progress
from unhub.datasets.dataset import Side
from unhub.embed.embed import OPENERS, Embedded, embed_images, embed_sounds, embed_texts, embed_videos
from unhub.embed.encoder import Encoder, Kind, Unusable
from unhub.embed.run import open_input
from unhub.embed.sources import FileInputs, Inputs, TextInputs
from unhub.errors import ArgumentError

Embed: TypeAlias = Callable[..., Embedded]
KINDS: Mapping[str, tuple[Kind, Embed]] = {
    "text": ("texts", embed_texts),
    "image": ("images", embed_images),
    "video": ("videos", embed_videos),
    "audio": ("sounds", embed_sounds),
}


@dataclass(frozen=True, eq=False)
class EncoderVectors:
    """Vectors that an encoder makes; they are kept under `folder` by model, data set and content, and made once."""

    encoder: Encoder
    folder: Path
    data_set: str
    name: str

    def has(self, part: str, which: Which, side: Side) -> bool:
        return len(side.missing) < len(side)

    def unusable(self, part: str, which: Which, side: Side) -> str:
        inputs, reasons = _inputs(side), list[Unusable]()
        for place in range(len(inputs.ids)):  # the first is usually enough
            opened = open_input(inputs, self.encoder, place)
            if not isinstance(opened, Unusable):
                return ""
            reasons.append(opened)
        return (
            f"None of the {len(reasons):,} {part} {which} that are there could be embedded, and {part} is used without "
            f"them, for example {inputs.ids[0].item()}: {reasons[0]}."
        )

    def vectors(self, part: str, which: Which, side: Side, progress: Progress | None) -> SideVectors:
        what = f"{part} {which}"
        if len(side) == len(side.missing):
            raise ArgumentError(
                "data", f"has none of the files of the {len(side):,} {what}", "fetch them: see `unhub datasets`"
            )
        kind, embed = KINDS[side.kind]
        self.encoder.check(kind)
        # The digest is there because two models of one name do not share a folder.
        identity = self.encoder.identity
        model = stem_of(Path(identity["name"]).name, identity["digest"][:16])
        folder = self.folder / model / self.data_set
        folder.mkdir(parents=True, exist_ok=True)
        inputs = _inputs(side)
        place = folder / f"{part}-{which}-{self._digest(kind, inputs, folder)}"
        given = inputs.texts if isinstance(inputs, TextInputs) else inputs.paths
        made = embed(given, self.encoder, place, ids=inputs.ids, progress=progress)
        return made.vectors, tuple(_notes(made, side, what))

    def _digest(self, kind: Kind, inputs: Inputs, folder: Path) -> str:
        """Return a hash of what decides the vectors beside the model: with another one they are made anew, elsewhere.

        It is of ids and contents, as `unhub embed` compares them, and of its settings, such as the precision.
        """
        content = json.dumps([self.encoder.settings(kind), inputs.given(folder)], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _inputs(side: Side) -> Inputs:
    """Return what there is to embed of a side."""
    if side.kind == "text":
        return TextInputs(side.ids, [several[0] if len(several) == 1 else several for several in side.texts or ()], "")
    there = [place for place, path in enumerate(side.paths or ()) if path is not None]
    paths = [path for path in side.paths or () if path is not None]
    return FileInputs(side.ids[there], paths, OPENERS[KINDS[side.kind][0]], "")


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
