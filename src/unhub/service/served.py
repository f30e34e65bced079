"""What is served: items with texts and pictures, an encoder, sample queries, a bank and a correction to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

import unhub
from unhub.arrays import Ids
from unhub.correction import Correction
from unhub.data.ids import positions_of
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.model import Model
from unhub.search.hits import Id
from unhub.service.encoders import EmojiEncoder, QueryEncoder
from unhub.stores.store import Store

if TYPE_CHECKING:
    from unhub.service.kept.picture_files import PictureFiles

SAMPLE_COUNT = 200  # sample queries of the demo


@dataclass(frozen=True, eq=False)
class Gallery:
    """The items as they are now, with their texts, and how often they were changed since the service began."""

    items: Vectors | Store
    texts: Mapping[Id, str]
    revision: int = 0

    def added(self, new: Vectors, texts: Mapping[Id, str]) -> Gallery:
        """Return the gallery with more items; their ids must be new."""
        return Gallery(self.held.stack(new), {**self.texts, **texts}, self.revision + 1)

    def without(self, ids: Sequence[Id]) -> Gallery:
        """Return the gallery without these items."""
        held = self.held
        gone = positions_of(list(ids), held.ids, "ids")
        kept = np.delete(np.arange(len(held)), gone)
        if not len(kept):
            raise ArgumentError("ids", f"names all {len(held)} items", "leave at least one")
        lost = set(held.ids[gone].tolist())
        texts = {one: text for one, text in self.texts.items() if one not in lost}
        return Gallery(held.gather(kept), texts, self.revision + 1)

    @property
    def held(self) -> Vectors:
        """The items, which must be in this process."""
        if isinstance(self.items, Store):
            remedy = "change them there, and deploy or sync the correction"
            raise ArgumentError("items", "are in a store, which this service only searches", remedy)
        return self.items


@dataclass(frozen=True, eq=False)
class SampleQueries:
    """Queries to try, by id, each with its text if it has one."""

    vectors: Vectors
    texts: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def row(self, one: Id) -> int:
        """Return the row of a sample by its id."""
        return int(positions_of([one], self.vectors.ids, "sample")[0])

    def text(self, row: int) -> str | None:
        """Return the text of a row, if there are texts."""
        return None if self.texts is None else self.texts[row]


@dataclass(frozen=True, eq=False)
class ServedSpace:
    """What a service is started with.

    encoder: turns texts into queries; None where only vectors are searched with. head: combines several queries.
    index: as in `unhub.searcher`. image_url: where a picture of an item is, with {id} in it.
    """

    name: str
    gallery: Gallery
    correction: Correction
    encoder: QueryEncoder | None = None
    head: Model | None = None
    samples: SampleQueries | None = None
    bank: Vectors | None = None
    index: str | None = None
    pictures: PictureFiles | None = None
    image_url: str | None = None
    demo: bool = False
    threads: int | None = None

    @cached_property
    def combinations(self) -> tuple[str, ...]:
        """The ways to combine several queries, by name."""
        names = ("sa", "mf") if isinstance(self.gallery.items, Store) else ("sa", "ra", "mf")
        return (*names, *(["head"] if self.head is not None else []))

    def named(self, name: str) -> ServedSpace:
        """Return the same space under another name."""
        return replace(self, name=name)


def demo_space(threads: int | None = None) -> ServedSpace:
    """Return the emoji that come with the package; their names are the texts.

    The correction is fitted here, in a moment, by the method that came with them: encoding rounds differently from
    machine to machine, and a correction is extended only with the bank that it was fitted on, bit for bit.
    """
    from unhub.demo.emoji.space import load_space

    space = load_space()
    bank, asked = space.descriptions("bank").once(), space.descriptions("test", "keyword").once()
    texts = dict(zip(space.items.ids.tolist(), space.names, strict=True))
    some = np.unique(np.linspace(0, len(asked) - 1, SAMPLE_COUNT).astype(np.int64))
    samples = SampleQueries(
        Vectors(np.arange(len(some)), np.asarray(asked.rows[some])), tuple(asked.texts[row] for row in some)
    )
    return ServedSpace(
        name="emoji",
        gallery=Gallery(space.items, texts),
        correction=unhub.fit(space.items, bank.vectors, method=space.correction.spec, threads=threads),
        encoder=EmojiEncoder(space),
        head=space.model,
        samples=samples,
        bank=bank.vectors,
        demo=True,
        threads=threads,
    )


def ids_text(ids: Ids, most: int = 3) -> str:
    """Return the first of some ids, for a message."""
    return ", ".join(repr(one) for one in ids[:most].tolist())
