"""The nouns of a data set: a side (texts or media files by id), a part (one split), a protocol, and the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from unhub.arrays import Ids
from unhub.data.ids import as_ids, positions_of
from unhub.data.relevance import Relevance
from unhub.errors import ArgumentError

Kind: TypeAlias = Literal["text", "image", "video", "audio"]


@dataclass(frozen=True, eq=False)
class Side:
    """Things of one kind, by id: texts, or media files.

    ids: strings, none repeated. texts: for kind "text", the texts of each thing; several, such as the prompts of a
    class, are embedded and averaged. paths: for media, the file of each thing; None where the file is missing.
    """

    kind: Kind
    ids: Ids
    texts: tuple[tuple[str, ...], ...] | None = None
    paths: tuple[Path | None, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", as_ids(np.asarray(self.ids, np.str_), len(self.ids), "ids"))
        held = self.texts if self.kind == "text" else self.paths
        if held is None or len(held) != len(self.ids):
            wanted = "texts" if self.kind == "text" else "paths"
            raise ArgumentError(
                wanted, f"has {len(held or ())} entries, there are {len(self.ids)} ids", "give one each"
            )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<Side: {len(self)} of kind {self.kind}, {len(self.missing)} missing>"

    @property
    def missing(self) -> Ids:
        """The ids whose file is absent; none for texts."""
        absent = [place for place, path in enumerate(self.paths or ()) if path is None]
        return self.ids[absent]

    def some(self, ids: object) -> Side:
        """Return the things with these ids, in their order."""
        places = positions_of(ids, self.ids, "ids").tolist()
        return Side(
            self.kind,
            self.ids[places],
            None if self.texts is None else tuple(self.texts[place] for place in places),
            None if self.paths is None else tuple(self.paths[place] for place in places),
        )


@dataclass(frozen=True, eq=False)
class Part:
    """One split: items, queries, and which items answer which query.

    The queries of the forward direction are texts and its items media; for images alone, images both; for
    classification, the queries are images and the items class names. relevance: None without labels.
    """

    items: Side
    queries: Side
    relevance: Relevance | None


@dataclass(frozen=True)
class Protocol:
    """How the papers measure on a data set.

    task: "text-video", "text-image", "text-audio", "image-image", "classification" or "group-bias". directions: the
    forward one first. measures: as `unhub eval` names them. leave_out_itself: a query is never its own answer.
    captions: "each" caption is a query, or all of an item are "joined" into a paragraph.
    """

    task: str
    directions: tuple[str, ...]
    measures: tuple[str, ...]
    leave_out_itself: bool = False
    captions: str = "each"


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set as its files say, with the split that the papers use.

    parts: "train", "val" and "test" as far as the files are there; "test" always. banks: what may be used as a bank,
    by name. counted: the items and queries of each part as the official split has them. notes: what is missing, and
    what to fetch; media_notes: those of them that are on media files. groups: for group bias, the ids of the items of
    each group.
    """

    name: str
    split: str
    parts: Mapping[str, Part]
    banks: Mapping[str, Part]
    protocol: Protocol
    counted: Mapping[str, tuple[int, int]]
    notes: tuple[str, ...] = ()
    groups: Mapping[str, Ids] = field(default_factory=dict)
    media_notes: tuple[str, ...] = ()

    @property
    def items(self) -> Side:
        """The items of the test part."""
        return self.parts["test"].items

    @property
    def queries(self) -> Side:
        """The queries of the test part."""
        return self.parts["test"].queries

    @property
    def relevance(self) -> Relevance | None:
        """Which items of the test part answer which of its queries."""
        return self.parts["test"].relevance

    @property
    def texts(self) -> Mapping[str, Side]:
        """The texts of each part that has any: queries, or class names."""
        sides = {name: (part.queries, part.items) for name, part in self.parts.items()}
        return {name: side for name, both in sides.items() for side in both if side.kind == "text"}
