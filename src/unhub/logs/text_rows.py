"""Rows for the texts of a log: kept by content, so that no text is embedded twice."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, spans
from unhub.embed.encoder import Encoder
from unhub.embed.encoder_loading import load_encoder
from unhub.errors import ArgumentError
from unhub.files.bank_folders import KEY_BYTES, BankManifest, BankSegment
from unhub.files.embedded import Encoded

TEXT_BATCH = 64


class TextRows:
    """Rows for texts: of the folder where it has the text, else made by the encoder."""

    def __init__(
        self, before: BankManifest | None, held: Sequence[BankSegment], encoder: str | os.PathLike[str] | Encoder | None
    ) -> None:
        self.embedded = 0
        self._before, self._held, self._given = before, held, encoder
        self._known: dict[bytes, Float32] | None = None
        self._encoder: Encoder | None = None
        self.identity: Encoded | None = None if before is None else before["encoder"]

    def of_vectors(self) -> None:
        """Check that rows of a log may stand beside those of the folder."""
        if self.identity is not None:
            raise ArgumentError(
                "bank",
                f"holds texts embedded by {self.identity['name']}, and the log has vectors",
                "add the texts, or keep a folder for each",
            )

    def rows(self, texts: Sequence[str], keys: NDArray[np.uint8]) -> Float32:
        """Return a row for each text."""
        encoder, known = self._opened()
        names = [bytes(key) for key in keys]
        missing = {name: text for name, text in zip(names, texts, strict=True) if name not in known}
        wanted = [*missing.items()]
        for start, stop in spans(len(wanted), TEXT_BATCH):
            made = encoder.texts([text for _, text in wanted[start:stop]])
            known.update(zip((name for name, _ in wanted[start:stop]), made, strict=True))
        self.embedded += len(wanted)
        return np.stack([known[name] for name in names]).astype(np.float32)

    def _opened(self) -> tuple[Encoder, dict[bytes, Float32]]:
        if self._encoder is not None and self._known is not None:
            return self._encoder, self._known
        if self._before is not None and self.identity is None:
            raise ArgumentError("bank", "holds vectors of a log, and this log has texts", "keep a folder for each")
        given = self._given
        if given is None and self.identity is not None:
            given = self.identity["name"]
        if given is None:
            raise ArgumentError("encoder", "is missing, and the log has texts without vectors", "name the encoder")
        encoder = given if isinstance(given, Encoder) else load_encoder(given)
        encoder.check("texts")
        made = encoder.identity
        if self.identity is not None and made["digest"] != self.identity["digest"]:
            raise ArgumentError(
                "encoder",
                f"is {made['name']}, the folder holds texts embedded by {self.identity['name']} with other weights",
                "make a new folder",
            )
        self.identity = self.identity or made
        self._encoder = encoder
        self._known = {
            bytes(key): row for segment in self._held for key, row in zip(segment.text_keys, segment.rows, strict=True)
        }
        return self._encoder, self._known


def text_key(text: str) -> bytes:
    """Return the key of a text: equal texts have one."""
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()
