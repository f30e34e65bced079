"""Searched: what every demo has, items with names, a way from text to vector and a correction; and what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unhub.arrays import Float32
from unhub.correction import Correction
from unhub.data.relevance import Relevance
from unhub.data.vectors import Vectors
from unhub.demo.words import Words
from unhub.model import Model


class Searched(Protocol):
    """Items that texts are searched in.

    names: of the items, in their order. words: the table that texts are made of. combine: how several texts for one
    item become one query, as in `Searcher.search_sets`. noun: what an item is called. hint: what to type.
    """

    @property
    def items(self) -> Vectors: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def words(self) -> Words: ...

    @property
    def correction(self) -> Correction: ...

    @property
    def combine(self) -> str | Model: ...

    @property
    def noun(self) -> str: ...

    @property
    def hint(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> Float32:
        """Return texts as unit vectors of the items' space, (texts, dimensions)."""


class AskedTexts(Protocol):
    """Texts that ask for items, as queries with the ids 0, 1, 2, ..."""

    @property
    def texts(self) -> tuple[str, ...]: ...

    @property
    def vectors(self) -> Vectors: ...

    @property
    def relevance(self) -> Relevance: ...

    def __len__(self) -> int: ...

    def meant(self, query: int) -> tuple[int, ...]:
        """Return the positions of the items that a text asks for."""
