"""Space: the emoji, their descriptions and a text tower, which come with the package."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.correction import Correction
from unhub.data.ids import positions_of
from unhub.data.relevance import Relevance
from unhub.data.vectors import Vectors
from unhub.demo.words import Words, load_words
from unhub.files import load, read_vectors
from unhub.model import Model

Split: TypeAlias = Literal["bank", "val", "test"]
FOLDER = Path(__file__).with_name("data")


@dataclass(frozen=True, eq=False)
class Descriptions:
    """Texts, their vectors in the joint space, and the emoji that each means: its character and its position."""

    texts: tuple[str, ...]
    rows: Float32
    emoji: NDArray[np.str_]
    items: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def vectors(self) -> Vectors:
        """The texts as queries, with the ids 0, 1, 2, ..."""
        return Vectors(np.arange(len(self)), self.rows)

    @property
    def relevance(self) -> Relevance:
        """Which text means which emoji."""
        return Relevance(np.arange(len(self)), self.emoji)

    def meant(self, query: int) -> tuple[int, ...]:
        """Return the position of the emoji that a text means."""
        return (int(self.items[query]),)

    def once(self) -> Descriptions:
        """Return each text once, where it first occurs: repeats would make their common answer look like a hub."""
        return self._some(np.sort(np.unique(self.texts, return_index=True)[1]))

    def joined(self) -> tuple[Descriptions, Relevance]:
        """Return each text once, and every emoji that it means here."""
        asked = self.once()
        places = {text: place for place, text in enumerate(asked.texts)}
        return asked, Relevance([places[text] for text in self.texts], self.emoji)

    def without(self, texts: Iterable[str]) -> Descriptions:
        """Return the descriptions whose text is not among these."""
        return self._some(np.flatnonzero(~np.isin(self.texts, list(texts))))

    def _some(self, kept: NDArray[np.int64]) -> Descriptions:
        texts = tuple(self.texts[row] for row in kept)
        return Descriptions(texts, self.rows[kept], self.emoji[kept], self.items[kept])


@dataclass(frozen=True, eq=False)
class Space:
    """Emoji and texts in one joint space.

    items: the emoji, by character. names: their names. words, model: what turns a text into a vector. correction:
    fitted on the texts of the split `bank`, its method chosen on `val`.
    """

    items: Vectors
    names: tuple[str, ...]
    words: Words
    model: Model
    correction: Correction
    described: tuple[tuple[str, str, str, str], ...]  # text, emoji, kind, split

    noun = "emoji"
    hint = "say what the emoji shows: 'birthday cake'"

    @property
    def combine(self) -> Model:
        """The head of the model, which makes one query of several texts."""
        return self.model

    def encode(self, texts: Sequence[str]) -> Float32:
        """Return texts as unit vectors of the joint space, (texts, dimensions)."""
        return cast("Float32", self.model.encode_texts(self.words.rows(texts)).rows)

    def descriptions(self, split: Split, kind: str | None = None) -> Descriptions:
        """Return the texts of a split; with a kind, only the names or only the keywords."""
        rows = [row for row in self.described if row[3] == split and kind in (None, row[2])]
        texts, emoji = tuple(row[0] for row in rows), np.array([row[1] for row in rows])
        encoded, places = self._encoded
        vectors = encoded[[places[text] for text in texts]]
        return Descriptions(texts, vectors, emoji, positions_of(emoji, self.items.ids, "emoji"))

    @cached_property
    def _encoded(self) -> tuple[Float32, dict[str, int]]:
        """The texts of all splits but `train`, encoded together so that equal texts have equal bits."""
        texts = sorted({row[0] for row in self.described if row[3] != "train"})
        return self.encode(texts), {text: place for place, text in enumerate(texts)}


@cache
def load_space(folder: Path = FOLDER) -> Space:
    """Read the space that comes with the package, or one that recipes/emoji/build.py wrote to a folder."""
    with (folder / "descriptions.csv").open(encoding="utf-8", newline="") as file:
        described = tuple((row["text"], row["emoji"], row["kind"], row["split"]) for row in csv.DictReader(file))
    items = read_vectors(folder / "items.npz")
    with np.load(folder / "items.npz") as archive:
        names = tuple(archive["names"].tolist())
    return Space(
        items,
        names,
        load_words(folder / "words.safetensors"),
        load(folder / "model.safetensors", "model"),
        load(folder / "correction.unhub", "correction"),
        described,
    )
