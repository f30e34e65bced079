"""Encoders: from the texts and pictures that people send to query vectors."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from unhub.arrays import Float32
from unhub.embed.media import open_image
from unhub.errors import ArgumentError, optional

if TYPE_CHECKING:
    from unhub.demo.emoji.space import Space
    from unhub.embed.encoder import Encoder
    from unhub.model import Model

PICTURE_FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 50_000_000  # of a picture that somebody sends; a small file can unfold to far more


class QueryEncoder(Protocol):
    """Turns texts into vectors of the items' space, and pictures if it can."""

    @property
    def takes_pictures(self) -> bool: ...

    def texts(self, texts: Sequence[str]) -> Float32:
        """Return a vector for each text, (texts, dimensions)."""

    def picture(self, content: bytes) -> Float32:
        """Return the vector of a picture, (1, dimensions)."""

    def unknown(self, text: str) -> list[str]:
        """Return the words of a text that the encoder does not know and leaves out."""


@dataclass(frozen=True, eq=False)
class EmojiEncoder:
    """The words and the text tower of the demo."""

    space: Space
    takes_pictures = False

    def texts(self, texts: Sequence[str]) -> Float32:
        """Return a unit vector for each text."""
        try:
            return self.space.encode(texts)
        except ArgumentError as error:
            raise error.of("text") from None

    def picture(self, content: bytes) -> Float32:
        """Refuse: the demo has no encoder of pictures."""
        raise _no_pictures()

    def unknown(self, text: str) -> list[str]:
        """Return the words that the table of the demo lacks."""
        from unhub.demo.words import WORD, plain

        words = self.space.words
        return [word for word in WORD.findall(plain(text)) if word.isalnum() and not words.split(word)]


@dataclass(frozen=True, eq=False)
class DualEncoder:
    """A dual encoder of transformers, and perhaps a trained text tower on top of it."""

    encoder: Encoder
    model: Model | None = None

    @property
    def takes_pictures(self) -> bool:
        """Whether a picture gives a query: not with a tower on top, which was trained on texts."""
        try:
            self.encoder.check("images")
        except ArgumentError:
            return False
        return self.model is None

    def texts(self, texts: Sequence[str]) -> Float32:
        """Return a unit vector for each text."""
        rows = self.encoder.texts(list(texts))
        return rows if self.model is None else self.model.encode_texts(rows).block(0, len(rows))

    def picture(self, content: bytes) -> Float32:
        """Return the unit vector of a PNG, JPEG or WebP picture."""
        if not self.takes_pictures:
            raise _no_pictures()
        check_picture(content)
        return self.encoder.pictures([self.encoder.prepare(open_image(io.BytesIO(content)))])

    def unknown(self, text: str) -> list[str]:
        """Return nothing: a tokenizer takes every text."""
        return []


def check_picture(content: bytes) -> None:
    """Raise unless a file that somebody sent is a picture of a known type, and not too large to unfold."""
    pillow = optional("PIL.Image", "embed", "a picture as a query")
    try:
        with pillow.open(io.BytesIO(content), formats=PICTURE_FORMATS) as picture:
            width, height = picture.size
            if width * height <= MOST_PIXELS:
                picture.load()
                return
    except Exception as error:  # Pillow raises errors of many types for damaged files
        remedy = "send a PNG, JPEG or WebP file in base64"
        raise ArgumentError("picture", "cannot be read as a picture", remedy) from error
    raise ArgumentError("picture", f"has {width:,} x {height:,} pixels", f"send one of at most {MOST_PIXELS:,}")


def open_encoder(name: str, model: Model | None) -> DualEncoder:
    """Load an encoder by its name or folder; a model has a text tower on top of it."""
    from unhub.embed.encoder_loading import load_encoder

    try:
        return DualEncoder(load_encoder(name), model)
    except ArgumentError as error:
        raise error.of("encoder") from None


def _no_pictures() -> ArgumentError:
    return ArgumentError("picture", "cannot be turned into a vector here", "send a text, a vector or an item")
