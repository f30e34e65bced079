"""Catalogue: the emoji with their names and keywords, and the two splits of the benchmark, fixed by hashes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

SplitName = Literal["unseen", "known"]
VENDORS = ("google", "twitter")
# Words that distinguish variants of a person; variants of one thing must be in one part of the unseen split.
PERSONS = re.compile(r"\b(man|woman|person|men|women|people|boy|girl|mr|mrs|mx)\b|:.*|[^a-z ]")
# Parts of the emoji, out of 100.
PARTS: dict[str, tuple[tuple[str, int], ...]] = {
    "unseen": (("train", 60), ("bank", 15), ("val", 10), ("test", 15)),
    "known": (("bank", 35), ("val", 20), ("test", 45)),
}
BANK_TEXTS = 40  # percent of the texts in `unseen` that may be bank queries; only the others may be queries


@dataclass(frozen=True)
class Emoji:
    """One emoji: its character, name, keywords (as its sources have them, none twice) and file of a picture."""

    character: str
    name: str
    keywords: tuple[str, ...]
    picture: str
    category: str

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.name, *self.keywords)


class Described(NamedTuple):
    """A text of an emoji, its kind and its split."""

    text: str
    emoji: str
    kind: str  # name, keyword
    split: str  # train, bank, val, test


def read_emoji(npm: Path) -> list[Emoji]:
    """Read every emoji that has a picture of both vendors, with its English name and keywords."""
    annotations: dict[str, Any] = {}
    for package, folder in (
        ("cldr-annotations-derived-full", "annotationsDerived"),
        ("cldr-annotations-full", "annotations"),
    ):
        tree = _json(npm / package / "package" / folder / "en" / "annotations.json")
        annotations.update({_bare(key): one for key, one in tree[folder]["annotations"].items()})
    community = {_bare(key): words for key, words in _json(npm / "emojilib/package/dist/emoji-en-US.json").items()}
    found = []
    for one in _json(npm / "emoji-datasource-google/package/emoji.json"):
        if not all(one[f"has_img_{vendor}"] for vendor in VENDORS):
            continue
        character = "".join(chr(int(code, 16)) for code in one["unified"].split("-"))
        told = annotations.get(_bare(character), {})
        name = _clean(told["tts"][0]) if "tts" in told else _clean(one["name"])
        words = [*told.get("default", ()), *community.get(_bare(character), ()), *one["short_names"]]
        keywords = tuple(word for word in dict.fromkeys(map(_clean, words)) if _worded(word) and word != name)
        found.append(Emoji(character, name, keywords, one["image"], one["category"]))
    return found


def part_of(emoji: Emoji, split: SplitName) -> str:
    """Return the part of a split that an emoji is in; variants of one thing are together."""
    person = emoji.category == "People & Body"
    thing = " ".join(PERSONS.sub(" ", emoji.name).split()) if person else emoji.name
    place = _number(f"{split}/{thing}") % 100
    for part, share in PARTS[split]:
        if place < share:
            return part
        place -= share
    raise AssertionError("the shares of a split make 100")


def describe(emoji: Iterable[Emoji], split: SplitName) -> list[Described]:
    """Return every text with its kind and its split.

    `unseen`: an emoji is for training, for the bank, or for the queries of val or test. No text is both in the bank and
    a query: a hash of the text decides which it may be, and texts that fit neither are left out. `known`: half of the
    texts of each emoji, chosen by hash, are for training; the others follow its part. As in any search log, people use
    the same words for different things, so texts of the bank also occur as queries. A text is in the bank only once,
    however many emoji it describes: repeats would give the commonest words too much weight.
    """
    rows = []
    banked: set[str] = set()
    for one in emoji:
        part = part_of(one, split)
        shuffled = [text for _, text in sorted((_number(f"{one.character}/{text}"), text) for text in one.texts)]
        trained = set(shuffled[: (len(shuffled) + 1) // 2]) if split == "known" else set()
        for text in one.texts:
            use = "train" if text in trained else part
            if split == "unseen" and use != "train" and (_number(text) % 100 < BANK_TEXTS) is not (use == "bank"):
                continue
            if use == "bank":
                if text in banked:
                    continue
                banked.add(text)
            rows.append(Described(text, one.character, "name" if text == one.name else "keyword", use))
    return rows


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _bare(character: str) -> str:
    return character.replace("\N{VARIATION SELECTOR-16}", "")


def _clean(text: str) -> str:
    return " ".join(text.replace("_", " ").lower().split())


def _worded(text: str) -> bool:
    return any(one.isalpha() and one.isascii() for one in text)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
