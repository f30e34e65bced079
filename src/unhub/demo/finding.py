"""Finding: the emoji that a description asks for, or several descriptions of one emoji, raw and corrected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import unhub
from unhub.arrays import Float32
from unhub.demo.space import Space
from unhub.demo.words import WORD, plain
from unhub.search.searcher import Searcher

K = 8  # emoji that an answer shows
BETWEEN = ";"  # two descriptions of one emoji


@dataclass(frozen=True)
class Hit:
    """An emoji that was found: the character, what it is called, and its score."""

    emoji: str
    name: str
    score: float


@dataclass(frozen=True)
class Answer:
    """What a text found, best first, without and with the correction.

    descriptions: the parts of the text. unknown: its words that the demo does not know, which were left out.
    """

    text: str
    descriptions: tuple[str, ...]
    unknown: tuple[str, ...]
    raw: tuple[Hit, ...]
    corrected: tuple[Hit, ...]

    @property
    def rankings(self) -> dict[str, tuple[Hit, ...]]:
        """Both answers by what they are called."""
        return {"raw": self.raw, "corrected": self.corrected}

    def to_dict(self) -> dict[str, object]:
        """Return the answer as JSON can hold it."""
        return {
            "query": self.text,
            "descriptions": list(self.descriptions),
            "unknown_words": list(self.unknown),
            **{
                ranking: [{"id": hit.emoji, "name": hit.name, "score": hit.score} for hit in hits]
                for ranking, hits in self.rankings.items()
            },
        }


@dataclass(frozen=True, eq=False)
class Finder:
    """A space that is ready to be asked."""

    space: Space
    threads: int | None = None

    @cached_property
    def names(self) -> dict[str, str]:
        """What each emoji is called."""
        return dict(zip(self.space.items.ids.tolist(), self.space.names, strict=True))

    @cached_property
    def searchers(self) -> dict[str, Searcher]:
        """How the emoji are ranked, by what it is called in an answer."""
        items = self.space.items
        corrections = {"raw": unhub.fit(items, method="raw"), "corrected": self.space.correction}
        return {name: unhub.searcher(items, one, threads=self.threads) for name, one in corrections.items()}

    def find(self, text: str, k: int = K) -> Answer:
        """Return the k best emoji for a description, or for several of one emoji with semicolons between them."""
        descriptions = tuple(part for part in (one.strip() for one in text.split(BETWEEN)) if part)
        if not descriptions:
            raise ValueError(f"{text!r} describes nothing; say what the emoji shows, for example 'birthday cake'")
        asked = [self.space.encode(descriptions)]
        found = {name: tuple(self._hits(one, asked, k)) for name, one in self.searchers.items()}
        return Answer(text, descriptions, tuple(self._unknown(descriptions)), found["raw"], found["corrected"])

    def _hits(self, searcher: Searcher, asked: list[Float32], k: int) -> Iterator[Hit]:
        hits = searcher.search_sets(asked, k=min(k, len(searcher)), combine=self.space.model)
        for emoji, score in zip(hits.ids[0].tolist(), hits.scores[0], strict=True):
            # Through text, a float32 stays as short as it prints.
            yield Hit(emoji, self.names[emoji], float(str(score)))

    def _unknown(self, descriptions: tuple[str, ...]) -> Iterator[str]:
        for word in WORD.findall(plain(" ".join(descriptions))):
            if word.isalnum() and not self.space.words.split(word):
                yield word
