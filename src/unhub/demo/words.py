"""Words: a text as the weighted mean of the vectors of its word pieces, from a table small enough to ship."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.errors import ArgumentError
from unhub.files.container import FORMAT, WHAT, Tensors, read_container, write_container

WORD = re.compile(r"[^\W_]+|[^\w\s]")  # a run of letters and digits, or one mark
TABLE = Path(__file__).parent / "emoji" / "data" / "words.safetensors"  # which both demos use
MOST_KNOWN = 100_000  # words that are remembered with their pieces
LONGEST_WORD = 100  # letters; a longer word is left out
WORDS = "words"
CONTINUED = "##"  # begins a piece that does not begin a word, as in WordPiece


@dataclass(frozen=True, eq=False)
class Words:
    """Pieces of words and a vector for each: table[i] * scales[i], which includes the weight of the piece."""

    pieces: tuple[str, ...]
    table: NDArray[np.int8]
    scales: Float32

    @staticmethod
    def of(pieces: Sequence[str], vectors: Float32) -> Words:
        """Return a table of these vectors, each rounded to 255 steps."""
        scales = np.maximum(np.abs(vectors).max(axis=1), 1e-12).astype(np.float32) / np.float32(127)
        return Words(tuple(pieces), np.rint(vectors / scales[:, None]).astype(np.int8), scales)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {piece: place for place, piece in enumerate(self.pieces)}

    @cached_property
    def _known(self) -> dict[str, list[str]]:
        """The pieces of the words that were cut so far: a text repeats its words."""
        return {}

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text, the longest known one first; a word that has an unknown part is left out."""
        return [piece for word in WORD.findall(plain(text)) for piece in self._cut_once(word)]

    def _cut_once(self, word: str) -> list[str]:
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()  # a service is asked for ever
            found = self._known[word] = self._cut(word)
        return found

    def _cut(self, word: str) -> list[str]:
        found: list[str] = []
        start = 0
        if len(word) > LONGEST_WORD:
            return found
        while start < len(word):
            piece = next((one for one in _beginnings(word, start) if one in self._places), None)
            if piece is None:
                return []
            found.append(piece)
            start += len(piece.removeprefix(CONTINUED) if start else piece)
        return found

    def places(self, text: str) -> list[int]:
        """Return the rows of the table for the pieces of a text."""
        return [self._places[piece] for piece in self.split(text)]

    def weighted(self, weights: Float32) -> Words:
        """Return the same table with another weight for each piece on top of its own, (pieces,)."""
        return Words(self.pieces, self.table, self.scales * weights)

    def rows(self, texts: Sequence[str]) -> Float32:
        """Return the sum of the vectors of each text's pieces, scaled to length one, (texts, dimensions)."""
        every = [self.places(text) for text in texts]
        for text, places in zip(texts, every, strict=True):
            if not places:
                raise ArgumentError(
                    "query", f"{text!r} has no word that the demo knows", "describe it in other English words"
                )
        return self.sums(every)

    def sums(self, every: Sequence[Sequence[int] | NDArray[np.uint16]], exact: bool = False) -> Float32:
        """Return the sum of the vectors at these places, for each text, scaled to length one, (texts, dimensions).

        exact: sum in float64, so that rounded values are the same on every machine.
        """
        kind = np.float64 if exact else np.float32
        out = np.empty((len(every), self.table.shape[1]), kind)
        for row, places in enumerate(every):
            out[row] = self.scales[places].astype(kind) @ self.table[places].astype(kind)
        lengths = np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        return np.asarray(out / lengths, np.float32)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to one file."""
        pieces = np.frombuffer("\n".join(self.pieces).encode(), np.uint8)
        manifest = {"format": FORMAT, WHAT: WORDS}
        tensors: Tensors = {"pieces": pieces, "table": self.table, "scales": self.scales}
        write_container(path, manifest, tensors, overwrite=False)


def load_words(path: Path) -> Words:
    """Read a table that `Words.save` wrote."""
    _, tensors = read_container(path)
    pieces = tensors["pieces"].tobytes().decode().split("\n")
    return Words(tuple(pieces), tensors["table"].astype(np.int8), tensors["scales"].astype(np.float32))


def plain(text: str) -> str:
    """Return the text in lower case, without accents or ligatures."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in apart if unicodedata.category(one) != "Mn")


def _beginnings(word: str, start: int) -> Iterator[str]:
    for stop in range(len(word), start, -1):
        yield (CONTINUED if start else "") + word[start:stop]
