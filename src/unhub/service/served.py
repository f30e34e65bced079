"""What is served: items with texts and pictures, an encoder, sample queries, a bank and a correction to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

import unhub
from unhub.arrays import Float32, Ids
from unhub.correction import Correction
from unhub.data.ids import join_ids, positions_of
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.model import Model
from unhub.search.hits import Id
from unhub.service.encoders import EmojiEncoder, QueryEncoder
from unhub.stores.store import Store

if TYPE_CHECKING:
    from unhub.service.kept.picture_files import PictureFiles

DEMO_RECIPE = (
    "import unhub",
    "from unhub.service.served import demo_space",
    "space = demo_space()",
    "items, samples = space.gallery.items, space.samples.vectors",
    "searcher = unhub.searcher(items, space.correction)",
    "encode, head = space.encoder.texts, space.head",
)


@dataclass(frozen=True, eq=False)
class Gallery:
    """The items as they are now, with their texts, and how often they were changed since the first start.

    base: the items to begin with. kept: the positions of those that are left, None for all. extra: those that came
    later. So a search goes through two parts at most, however many changes there were.
    """

    base: Vectors | Store
    texts: Mapping[Id, str]
    kept: NDArray[np.int64] | None = None
    extra: Vectors | None = None
    revision: int = 0

    @cached_property
    def items(self) -> Vectors | Store:
        """The items that are served."""
        if isinstance(self.base, Store):
            return self.base
        left = self.base if self.kept is None else self.base.gather(self.kept)
        if self.extra is None:
            return left
        return left.stack(self.extra) if len(left) else self.extra

    @property
    def held(self) -> Vectors:
        """The items, which must be in this process."""
        if isinstance(self.items, Store):
            remedy = "change them there, and deploy or sync the correction"
            raise ArgumentError("items", "are in a store, which this service only searches", remedy)
        return self.items

    def added(self, ids: Ids, rows: Float32, texts: Mapping[Id, str]) -> Gallery:
        """Return the gallery with more items; their ids must be new."""
        join_ids(self.held.ids, ids, "ids")
        new = Vectors(ids, rows)
        if self.extra is not None:
            new = Vectors(join_ids(self.extra.ids, ids), np.concatenate([self.extra.block(0, len(self.extra)), rows]))
        return replace(self, texts={**self.texts, **texts}, extra=new, revision=self.revision + 1)

    def without(self, ids: Sequence[Id]) -> Gallery:
        """Return the gallery without these items."""
        gone = positions_of(list(ids), self.held.ids, "ids")
        left = np.delete(np.arange(len(self.held)), gone)
        if not len(left):
            raise ArgumentError("ids", f"names all {len(self.held)} items", "leave at least one")
        before = np.arange(len(cast("Vectors", self.base))) if self.kept is None else self.kept
        extra = None
        if self.extra is not None:
            stay = left[left >= len(before)] - len(before)
            rows = self.extra.block(0, len(self.extra))[stay]
            extra = Vectors(self.extra.ids[stay], rows) if len(stay) else None
        lost = set(self.held.ids[gone].tolist())
        texts = {one: text for one, text in self.texts.items() if one not in lost}
        kept = before[left[left < len(before)]]
        return replace(self, texts=texts, kept=kept, extra=extra, revision=self.revision + 1)


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
    index: as in `unhub.searcher`. image_url: where a picture of an item is, with {id} in it. recipe: lines of Python
    that make the same searcher, to be copied from the page.
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
    recipe: tuple[str, ...] = ()

    @cached_property
    def combinations(self) -> tuple[str, ...]:
        """The ways to combine several queries, by name."""
        names = ("sa", "mf") if isinstance(self.gallery.items, Store) else ("sa", "ra", "mf")
        return (*names, *(["head"] if self.head is not None else []))


def demo_space(threads: int | None = None) -> ServedSpace:
    """Return the emoji that come with the package; their names are the texts.

    The correction is fitted here, in a moment, by the method that came with them: encoding rounds differently from
    machine to machine, and a correction is extended only with the bank that it was fitted on, bit for bit.
    """
    from unhub.demo.emoji.space import load_space

    space = load_space()
    bank = space.descriptions("bank").once()
    asked = space.descriptions("test", "keyword").once().without(bank.texts)
    texts = dict(zip(space.items.ids.tolist(), space.names, strict=True))
    mixed = np.random.default_rng(0).permutation(len(asked))  # in a file, like follows like
    samples = SampleQueries(
        Vectors(np.arange(len(mixed)), np.asarray(asked.rows[mixed])), tuple(asked.texts[row] for row in mixed)
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
        recipe=DEMO_RECIPE,
    )
