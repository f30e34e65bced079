"""The sets of the evidence benchmark: queries, items, answers and a bank, in both directions, of every set at hand."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Kind, random_positions
from unhub.data.relevance import Relevance
from unhub.data.vectors import Vectors

SEED = 0
CODE_TEST, CODE_BANK = slice(0, 5_000), slice(7_000, 17_000)  # rows of the code pairs
FIRST_TEST_CLASS = 101  # of the 200 classes of CUB; the classes before it are the bank
FACTORS_APART = 1e-4  # how far the product of the factors may be from the published matrix, as a share of its largest
TO_FUNCTION, TO_DOCSTRING = "docstring to function", "function to docstring"
QUICK_QUERIES, QUICK_BANK = 1_000, 2_000

Rows = NDArray[np.int64]


class Part(NamedTuple):
    """Queries, items and right answers, with past queries to fit on, and training items where there are some."""

    queries: Vectors
    items: Vectors
    relevance: Relevance
    bank: Float32
    bank_items: Float32 | None = None

    def smaller(self, queries: int, bank: int) -> Part:
        """Return the part with at most so many queries and bank queries, drawn at random."""
        asked, past = (
            random_positions(count, min(most, count), SEED)
            for count, most in ((len(self.queries), queries), (len(self.bank), bank))
        )
        return self._replace(queries=self.queries.gather(asked), bank=self.bank[past])


class Case(NamedTuple):
    """One direction of a set; the queries of its parts are pooled.

    among_items: each query is itself an item, and is left out of its own ranking. classes: the bank is of other
    classes than the items.
    """

    name: str
    direction: str
    parts: tuple[Part, ...]
    similarity: Kind = "cosine"
    among_items: bool = False
    classes: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}, {self.direction}"

    @property
    def stem(self) -> str:
        """The name of the case in file names."""
        return f"{self.name} {self.direction}".replace(" ", "_")

    def smaller(self) -> Case:
        """Return the case with few queries and a small bank, for a quick look."""
        return self._replace(parts=tuple(part.smaller(QUICK_QUERIES, QUICK_BANK) for part in self.parts))

    def digest(self) -> str:
        """Return a hash of everything that is measured."""
        found = hashlib.sha256(repr((self.title, self.similarity, self.among_items)).encode())
        for part in self.parts:
            arrays = [part.queries.rows, part.items.rows, part.bank, part.relevance.query_ids, part.relevance.item_ids]
            for array in [*arrays, *([] if part.bank_items is None else [part.bank_items])]:
                found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


def vectors(rows: Float32) -> Vectors:
    """Name rows by their numbers."""
    return Vectors(np.arange(len(rows)), rows)


def read(path: Path) -> Float32:
    """Read a matrix as float32."""
    return np.asarray(np.load(path), np.float32)


def pairs(count: int) -> Relevance:
    """Say that item i answers query i."""
    return Relevance(np.arange(count), np.arange(count))


def code(data: Path) -> Iterator[Case]:
    """Yield the pairs of docstrings and functions of PyPI packages."""
    docstrings, functions = (read(data / "code" / f"{kind}.npy") for kind in ("docstrings", "functions"))
    for direction, asked, found in ((TO_FUNCTION, docstrings, functions), (TO_DOCSTRING, functions, docstrings)):
        queries, items = vectors(asked[CODE_TEST]), vectors(found[CODE_TEST])
        part = Part(queries, items, pairs(len(queries)), asked[CODE_BANK], found[CODE_BANK])
        yield Case("code", direction, (part,))


def functions(folder: Path) -> Iterator[Case]:
    """Yield what recipes/functions builds: every function is an item, so no training items are left."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    docstrings, functions = (read(folder / f"{kind}.npy") for kind in ("docstrings", "functions"))
    owner, described = np.array(meta["relevance"], np.int64).T
    relevance = Relevance(owner, described)
    asked, past = (np.array(meta["splits"][split], np.int64) for split in ("test", "bank"))
    forth = Part(Vectors(asked, docstrings[asked]), vectors(functions), relevance, docstrings[past])
    yield Case("functions", TO_FUNCTION, (forth,))
    shown, seen = (np.unique(described[np.isin(owner, rows)]) for rows in (asked, past))
    back = Part(Vectors(shown, functions[shown]), vectors(docstrings), relevance.reversed(), functions[seen])
    yield Case("functions", TO_DOCSTRING, (back,))


def flickr8k(space: str, data: Path) -> Iterator[Case]:
    """Yield captions and pictures in a space that was fitted on other pictures."""
    folder, name = data / "flickr8k", f"flickr8k_{space}"
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    split, owner = np.array(meta["split"]), np.array(meta["caption_image"], np.int64)
    images, texts = read(folder / f"{space}_img.npy"), read(folder / f"{space}_txt.npy")
    asked, shown = np.flatnonzero(split[owner] == "test"), np.flatnonzero(split == "test")
    captions, pictures = Vectors(asked, texts[asked]), Vectors(shown, images[shown])
    relevance = Relevance(asked, owner[asked])
    past_texts, past_images = texts[split[owner] == "bank"], images[split == "bank"]
    forth = Part(captions, pictures, relevance, past_texts, past_images)
    yield Case(name, "text to image", (forth,))
    back = Part(pictures, captions, relevance.reversed(), past_images, past_texts)
    yield Case(name, "image to text", (back,))


def cub(data: Path) -> Iterator[Case]:
    """Yield pictures of birds that ask for each other; the training pictures are the bank, so there are no others."""
    folder = data / "cub"
    labels = np.array(json.loads((folder / "meta.json").read_text(encoding="utf-8"))["label"], np.int64)
    images, test = read(folder / "images.npy"), labels >= FIRST_TEST_CLASS
    asked = vectors(images[test])
    order = np.argsort(labels[test], kind="stable")
    together = np.split(order, np.flatnonzero(np.diff(labels[test][order])) + 1)
    relevance = Relevance(
        np.concatenate([np.repeat(one, len(one)) for one in together]),
        np.concatenate([np.tile(one, len(one)) for one in together]),
    )
    part = Part(asked, asked, relevance, images[~test])
    yield Case("cub", "image to image", (part,), among_items=True, classes=True)


def halves(count: int) -> tuple[Rows, Rows]:
    """Return two halves of so many rows, drawn at random, in rising order."""
    order = np.random.default_rng(SEED).permutation(count)
    return np.sort(order[: count // 2]), np.sort(order[count // 2 :])


def factors(matrix: Float32) -> tuple[Float32, Float32]:
    """Return vectors of the rows and of the columns whose inner products are the matrix."""
    left, values, right = np.linalg.svd(matrix.astype(np.float64), full_matrices=False)
    rows, columns = (np.asarray(one * np.sqrt(values), np.float32) for one in (left, right.T))
    apart = float(np.abs(rows @ columns.T - matrix).max())
    if apart > FACTORS_APART * float(np.abs(matrix).max()):
        raise ValueError(f"the product of the factors is up to {apart:.2g} away from the matrix")
    return rows, columns


def msrvtt(data: Path) -> Iterator[Case]:
    """Yield captions and videos as a published matrix has them; one half of the queries is the bank of the other."""
    captions, videos = factors(read(data / "msrvtt" / "cap4video_video_similarity.npy"))
    one, other = halves(len(captions))
    for direction, asked, found in (("text to video", captions, videos), ("video to text", videos, captions)):
        parts = tuple(
            Part(Vectors(here, asked[here]), vectors(found), pairs(len(found)), asked[there])
            for here, there in ((one, other), (other, one))
        )
        yield Case("msrvtt", direction, parts, similarity="dot")


def msrvtt_halves(data: Path) -> Iterator[Case]:
    """Yield the same with only the items that the queries ask for, so that nothing is gained by pushing down others."""
    for case in msrvtt(data):
        parts = (part._replace(items=part.items.gather(np.asarray(part.queries.ids))) for part in case.parts)
        yield case._replace(name="msrvtt_halves", parts=tuple(parts))


def clip_pairs(name: str, data: Path) -> Iterator[Case]:
    """Yield published CLIP pairs; one half is searched, with the queries of the other as the bank, and back."""
    texts, images = (read(data / "clip_pairs" / f"{name}_{kind}.npy") for kind in ("txt", "img"))
    one, other = halves(len(texts))
    for direction, asked, found in (("text to image", texts, images), ("image to text", images, texts)):
        parts = tuple(
            Part(vectors(asked[here]), vectors(found[here]), pairs(len(here)), asked[there], found[there])
            for here, there in ((one, other), (other, one))
        )
        yield Case(name, direction, parts)


SETS: Mapping[str, Callable[[Path], Iterator[Case]]] = {
    "code": code,
    "flickr8k_ridge": partial(flickr8k, "ridge"),
    "flickr8k_vse_holdout": partial(flickr8k, "vse_holdout"),
    "cub": cub,
    "msrvtt": msrvtt,
    "msrvtt_halves": msrvtt_halves,
    "clip_shop": partial(clip_pairs, "clip_shop"),
    "clip_styles": partial(clip_pairs, "clip_styles"),
    "functions": functions,
}


def data_folder() -> Path:
    """Return the folder of the sets: $UNHUB_DATA, or where that is unset ../shared/data beside the checkout."""
    return Path(os.environ.get("UNHUB_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def read_set(name: str, made: Path | None) -> tuple[Case, ...]:
    """Return the cases of a set, none if its files are absent; made: the folder of recipes/functions."""
    folder = made if name == "functions" else data_folder()
    if folder is None:
        return ()
    try:
        return tuple(SETS[name](folder))
    except FileNotFoundError:
        return ()
