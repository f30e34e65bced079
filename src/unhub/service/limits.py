"""Limits: how much one request may ask for, and the error of a request that is refused with a status of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unhub.errors import ArgumentError

MOST_IDS = 10_000  # in one list of a request


@dataclass(frozen=True)
class ServiceLimits:
    """How much one request may ask for, and how many may be under way.

    joined: queries that are multiplied together. head_seconds, body_seconds, upload_seconds: until the head, the body
    or the whole file of a request has come. answer_seconds: until a client has taken its answer. connections: that are
    open; of more, the one that waits longest is closed. reading: requests whose bodies are still coming. working:
    requests that are being answered. uploads: whole files that are being read or answered.
    """

    k: int = 1000
    vectors: int = 64
    strength: float = 1.5
    text_letters: int = 2000
    body_bytes: int = 8 << 20
    upload_bytes: int = 1 << 30
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    upload_seconds: float = 600.0
    answer_seconds: float = 30.0
    connections: int = 1000
    reading: int = 512
    working: int = 256
    uploads: int = 2
    joined: int = 64

    def check_k(self, k: int) -> int:
        """Return k; raise unless it is from 1 to the limit."""
        if not 1 <= k <= self.k:
            raise ArgumentError("k", f"must be from 1 to {self.k:,}, got {k:,}")
        return k

    def check_strength(self, strength: float) -> float:
        """Return the strength; raise unless it is from 0 to the limit."""
        if not 0 <= strength <= self.strength:
            raise ArgumentError(
                "strength", f"must be from 0 to {self.strength:g}, got {strength:g}", "0 is raw, 1 is all of it"
            )
        return strength

    def check_count(self, name: str, count: int) -> None:
        """Raise if a request has more queries or items than are taken at once."""
        if count > self.vectors:
            problem = f"has {count:,} entries, at most {self.vectors:,} are taken in one request"
            raise ArgumentError(name, problem, "send several requests")

    def check_text(self, name: str, texts: Iterable[str]) -> None:
        """Raise for a text that is empty or too long."""
        for text in texts:
            if not text.strip():
                raise ArgumentError(name, "is empty", "describe what you look for")
            if len(text) > self.text_letters:
                problem = f"has {len(text):,} letters, at most {self.text_letters:,} are taken"
                raise ArgumentError(name, problem, "shorten it")


class Refused(ArgumentError):
    """A request that is refused before it is read, with its status."""

    def __init__(self, status: int, name: str, problem: str, remedy: str = "") -> None:
        super().__init__(name, problem, remedy)
        self.args = (status, name, problem, remedy)
        self.status = status
