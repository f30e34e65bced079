"""The library: functions as vectors, the questions that their docstrings ask, and a correction fitted on half of these.

A function's vector is the weighted mean of the word pieces of its name, signature and body; a question's, of its words.
Common words weigh less: a / (a + p), where p is how often a piece occurs in the code that was read (smooth inverse
frequency, Arora et al. 2017). Functions with the same code are one item, and a question that several functions ask
has several right answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.correction import Correction
from unhub.data.relevance import Relevance
from unhub.data.vectors import Vectors
from unhub.demo.functions.code_files import CodeFile
from unhub.demo.functions.extracting import spaced
from unhub.demo.functions.reading import Found, Places
from unhub.demo.words import Words
from unhub.errors import ArgumentError

RARE = 1e-3  # the share of the code at which a piece has half its weight
SPLIT_SEED = 0
LEAST_QUESTIONS = 20
Half: TypeAlias = Literal["bank", "queries"]


@dataclass(frozen=True, eq=False)
class Questions:
    """Texts, their vectors, and the functions that each asks for: ids and positions."""

    texts: tuple[str, ...]
    rows: Float32
    answers: tuple[tuple[int, ...], ...]
    item_ids: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def vectors(self) -> Vectors:
        """The texts as queries, with the ids 0, 1, 2, ..."""
        return Vectors(np.arange(len(self)), self.rows)

    @cached_property
    def relevance(self) -> Relevance:
        """Which question asks for which functions."""
        queries = np.repeat(np.arange(len(self)), [len(one) for one in self.answers])
        return Relevance(queries, self.item_ids[[place for one in self.answers for place in one]])

    def meant(self, query: int) -> tuple[int, ...]:
        """Return the positions of the functions that a text asks for."""
        return self.answers[query]


@dataclass(frozen=True, eq=False)
class Collection:
    """What was read: functions and questions as vectors, and what was left out.

    ids: file and line of each function. names: with their classes. answers: the functions that each question asks for.
    weights: of the word pieces. packages: how many functions each has. copies: functions whose code is another's.
    unread: files that are not Python that this version reads, or cannot be opened.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    rows: Float32
    questions: tuple[str, ...]
    question_rows: Float32
    answers: tuple[tuple[int, ...], ...]
    weights: Float32
    packages: Mapping[str, int]
    copies: int
    unread: int


@dataclass(frozen=True, eq=False)
class Library:
    """Functions that can be searched by what they do, with the correction that was fitted on the bank."""

    read: Collection
    words: Words
    correction: Correction
    combine = "mf"
    noun = "function"
    hint = "say what the function does: 'remove a folder and all that is in it'"

    @cached_property
    def items(self) -> Vectors:
        """The functions, by file and line."""
        return items_of(self.read)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the functions, with their classes."""
        return self.read.names

    def encode(self, texts: Sequence[str]) -> Float32:
        """Return texts as unit vectors."""
        return self.words.rows([spaced(text) for text in texts])

    def questions(self, half: Half) -> Questions:
        """Return the questions of a half; the correction was fitted on those of the bank."""
        return questions_of(self.read, half)


def collect(
    files: Sequence[CodeFile], found: Sequence[Found], words: Words, rare: float = RARE, exact: bool = False
) -> Collection:
    """Turn what was found in the files into vectors.

    rare: see `rarity`; if it is infinite, common pieces weigh as much as others. exact: see `Words.sums`.
    """
    items: dict[str, tuple[str, str, str, Places]] = {}  # by the hash of the code
    asked: dict[str, tuple[Places, dict[str, None]]] = {}  # by the question; the hashes in order
    every = [
        (file, one)
        for file, functions in zip(files, found, strict=True)
        for one in functions or ()
        if len(one.code) and len(one.asked)  # it has words that the table knows
    ]
    for file, one in every:
        items.setdefault(one.digest, (f"{file.label}:{one.line}", one.name, file.package, one.code))
        asked.setdefault(one.question, (one.asked, {}))[1][one.digest] = None
    if len(asked) < LEAST_QUESTIONS:
        raise ArgumentError(
            "code",
            f"has {len(asked)} functions with a docstring that says what they do",
            f"name more code; {LEAST_QUESTIONS} are the least that make a search",
        )
    places = {digest: place for place, digest in enumerate(items)}
    codes = [code for *_, code in items.values()]
    weights = rarity(codes, len(words.pieces), rare)
    weighted = words.weighted(weights)
    return Collection(
        tuple(label for label, *_ in items.values()),
        tuple(name for _, name, *_ in items.values()),
        _rows(weighted, codes, exact),
        tuple(asked),
        _rows(weighted, [pieces for pieces, _ in asked.values()], exact),
        tuple(tuple(places[digest] for digest in digests) for _, digests in asked.values()),
        weights,
        dict(Counter(package for _, _, package, _ in items.values()).most_common()),
        len(every) - len(items),
        sum(one is None for one in found),
    )


def rarity(texts: Sequence[Places], pieces: int, rare: float = RARE) -> Float32:
    """Return the weight of each piece, a / (a + p), (pieces,); `rare` is a."""
    counts = np.bincount(np.concatenate(texts), minlength=pieces) + 1.0
    return np.asarray(1 / (1 + counts / counts.sum() / rare), np.float32)


def _rows(words: Words, texts: Sequence[Places], exact: bool) -> Float32:
    """Return unit vectors, rounded to what a kept file holds."""
    return words.sums(texts, exact).astype(np.float16).astype(np.float32)


def items_of(read: Collection) -> Vectors:
    """Return the functions as items, by file and line."""
    return Vectors(np.array(read.ids), read.rows)


def questions_of(read: Collection, half: Half) -> Questions:
    """Return half of the questions, drawn with a fixed seed."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(read.questions))
    middle = len(order) // 2
    rows = np.sort(order[:middle] if half == "bank" else order[middle:])
    return Questions(
        tuple(read.questions[row] for row in rows),
        read.question_rows[rows],
        tuple(read.answers[row] for row in rows),
        np.array(read.ids),
    )
