"""Finding: search with one description of an item or several, raw and corrected; and a prompt that does so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import unhub
from unhub.arrays import Float32
from unhub.demo.searched import Searched
from unhub.demo.words import WORD, plain
from unhub.errors import ArgumentError
from unhub.search.searcher import Searcher

RESULT_COUNT = 8  # items in an answer
SEPARATOR = ";"  # between two descriptions of one item


@dataclass(frozen=True)
class Hit:
    """An item that was found: its id, its name and its score."""

    id: str
    name: str
    score: float


@dataclass(frozen=True)
class Answer:
    """The results of a text, best first, without and with the correction.

    descriptions: the parts of the text. unknown: its words that the demo does not know, which were left out.
    """

    text: str
    descriptions: tuple[str, ...]
    unknown: tuple[str, ...]
    raw: tuple[Hit, ...]
    corrected: tuple[Hit, ...]

    @property
    def rankings(self) -> dict[str, tuple[Hit, ...]]:
        """Both results by name."""
        return {"raw": self.raw, "corrected": self.corrected}

    def to_dict(self) -> dict[str, object]:
        """Return the answer for JSON."""
        return {
            "query": self.text,
            "descriptions": list(self.descriptions),
            "unknown_words": list(self.unknown),
            **{
                ranking: [{"id": hit.id, "name": hit.name, "score": hit.score} for hit in hits]
                for ranking, hits in self.rankings.items()
            },
        }


@dataclass(frozen=True, eq=False)
class Finder:
    """What is searched, with its searchers, raw and corrected."""

    space: Searched
    threads: int | None = None

    @cached_property
    def names(self) -> dict[str, str]:
        """The name of each item."""
        return dict(zip(self.space.items.ids.tolist(), self.space.names, strict=True))

    @cached_property
    def searchers(self) -> dict[str, Searcher]:
        """The searchers by the name that an answer gives them."""
        items = self.space.items
        corrections = {"raw": unhub.fit(items, method="raw"), "corrected": self.space.correction}
        return {name: unhub.searcher(items, one, threads=self.threads) for name, one in corrections.items()}

    def find(self, text: str, k: int = RESULT_COUNT) -> Answer:
        """Return the k best items for a description, or for several of one item, separated by semicolons."""
        descriptions = tuple(part for part in (one.strip() for one in text.split(SEPARATOR)) if part)
        if not descriptions:
            raise ArgumentError("query", f"{text!r} describes nothing", self.space.hint)
        return self.answer(descriptions, k, text)

    def answer(self, descriptions: tuple[str, ...], k: int = RESULT_COUNT, text: str | None = None) -> Answer:
        """Return the k best items for descriptions of one item, taken as they are."""
        asked = [self.space.encode(descriptions)]
        found = {name: tuple(self._hits(one, asked, k)) for name, one in self.searchers.items()}
        text = f"{SEPARATOR} ".join(descriptions) if text is None else text
        return Answer(text, descriptions, tuple(self._unknown(descriptions)), found["raw"], found["corrected"])

    def _hits(self, searcher: Searcher, asked: list[Float32], k: int) -> Iterator[Hit]:
        hits = searcher.search_sets(asked, k=min(k, len(searcher)), combine=self.space.combine)
        for one, score in zip(hits.ids[0].tolist(), hits.scores[0], strict=True):
            # Through text, so that a float32 keeps its few digits.
            yield Hit(one, self.names[one], float(str(score)))

    def _unknown(self, descriptions: tuple[str, ...]) -> Iterator[str]:
        for word in WORD.findall(plain(" ".join(descriptions))):
            if word.isalnum() and not self.space.words.split(word):
                yield word


def converse(
    finder: Finder, read: Callable[[], str], show: Callable[[Answer], None], say: Callable[[str], None]
) -> None:
    """Answer line after line until an empty line or EOFError; say why a line cannot be answered."""
    while True:
        try:
            line = read().strip()
        except EOFError:
            say("")  # the cursor is still behind the prompt
            return
        if not line:
            return
        try:
            answer = finder.find(line)
        except ValueError as error:
            say(f"{error}.")
            continue
        show(answer)
