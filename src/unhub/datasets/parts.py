"""Parts made from what the annotation files say: captioned media, and images that ask for others of their class."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from unhub.data.relevance import Relevance
from unhub.datasets.dataset import Kind, Part, Side
from unhub.datasets.described import Contents
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError
from unhub.evaluation.tables import counted

Row = tuple[str, str, str]  # an item, a query, its text
MediaNames = Callable[[str], Sequence[str]]
PartNames = Callable[[str, str], Sequence[str]]  # of a part and an item
Captions = Mapping[str, Sequence[str]]  # of each item


def own_name(item: str) -> tuple[str, ...]:
    """Return the name of a media file that is called as its item."""
    return (item,)


def same_name(part: str, item: str) -> tuple[str, ...]:
    """Return the name of a media file that is called as its item, whatever its part."""
    return own_name(item)


def numbered(captions: Captions, items: Iterable[str]) -> list[Row]:
    """Return the captions of these items; the k-th of `item` is the query `item#k`, from 0."""
    return [(item, f"{item}#{k}", text) for item in items for k, text in enumerate(captions.get(item, ()))]


def joined(captions: Captions, items: Iterable[str]) -> list[Row]:
    """Return the captions of each of these items as one paragraph, the query `item#0`."""
    paragraphs = {item: " ".join(text.strip() for text in captions.get(item, ())) for item in items}
    return [(item, f"{item}#0", text) for item, text in paragraphs.items() if text]


def captioned(
    files: Scanned, kind: Kind, items: Sequence[str], rows: Sequence[Row], names: MediaNames = own_name
) -> Part:
    """Return media files and the texts that ask for them; a query may stand in several rows, once for each answer.

    names: how the file of an item may be called.
    """
    if not rows:
        problem = f"{files.folder} has captions for none of the {len(items):,} {kind} files that are listed"
        raise ArgumentError("data", problem, "an annotation file is cut short, or another version: fetch it again")
    texts = {query: (text,) for _, query, text in rows}
    relevance = Relevance(_strings([query for _, query, _ in rows]), _strings([item for item, _, _ in rows]))
    queries = Side("text", _strings([*texts]), texts=tuple(texts.values()))
    return Part(found(files, kind, items, names), queries, relevance)


def found(files: Scanned, kind: Kind, items: Sequence[str], names: MediaNames = own_name) -> Side:
    """Return media files by id, each looked for below the folder."""
    paths: tuple[Path | None, ...] = tuple(files.media(kind, *names(item)) for item in items)
    return Side(kind, _strings(items), paths=paths)


def of_one_class(files: Scanned, images: Side, classes: Sequence[str]) -> Part:
    """Return images that ask for the other images of their class."""
    members = defaultdict(list)
    for place, one in enumerate(classes):
        members[one].append(place)
    pairs = [(asks, answers) for inside in members.values() for asks in inside for answers in inside if asks != answers]
    if not pairs:
        problem = f"{files.folder} has no two images of one class among the {len(images):,} that are listed"
        raise ArgumentError("data", problem, "fetch the lists again")
    asking, answering = np.array(pairs).T
    return Part(images, images, Relevance(images.ids[asking], images.ids[answering]))


def captioned_parts(
    files: Scanned,
    kind: Kind,
    lists: Mapping[str, Sequence[str]],
    captions: Mapping[str, Captions],
    queries: Callable[[Captions, Iterable[str]], list[Row]] = numbered,
    names: PartNames = same_name,
) -> Contents:
    """Return a part for each list of items; a part without any caption is left out with a note, unless it is the test.

    captions: of each part, since one name may stand for other media, with other captions, in another part. queries:
    whether each caption asks, `numbered`, or all of an item together, `joined`.
    """
    parts, notes = {}, []
    for part, items in lists.items():
        rows = queries(captions[part], items)
        if rows or part == "test":
            parts[part] = captioned(files, kind, items, rows, functools.partial(names, part))
        silent = [item for item in items if not captions[part].get(item)]
        if silent:
            names_without = counted(len(silent), "listed name has", "listed names have")
            notes.append(f"{part}: {names_without} no caption, for example {silent[0]}")
    return Contents(parts, tuple(notes))


def _strings(values: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    return np.array(values, np.str_)
