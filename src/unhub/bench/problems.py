"""Problems: what is searched for what in one direction, the bank that goes with it, and what settings are chosen on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from unhub.arrays import Ids, random_positions
from unhub.banks.sampling import sample_bank
from unhub.bench.protocols import OWN_QUERIES, BankChoice
from unhub.bench.sources.vector_source import VectorSource, Which
from unhub.compute.workers import Progress
from unhub.data.relevance import Relevance
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors
from unhub.datasets.dataset import DataSet, Part
from unhub.errors import ArgumentError, unknown

VALIDATION, TRAINING, TEST = "val", "train", "test"


@dataclass(frozen=True, eq=False)
class BenchProblem:
    """Items, queries and which items answer which query, in one direction.

    A given matrix of similarities is `queries`, and then there are no items. exclude: "self" where a query is never its
    own answer. groups: of the items, where a bias for one of them is measured.
    """

    items: Vectors | None
    queries: Vectors | Dense
    relevance: Relevance
    exclude: Literal["self"] | None = None
    groups: tuple[Ids, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries and how many items."""
        if isinstance(self.queries, Dense) or self.items is None:
            return self.queries.shape if isinstance(self.queries, Dense) else (0, 0)
        return len(self.queries), len(self.items)

    @property
    def is_answerable(self) -> bool:
        """Whether any query has an answer among the items, other than itself where it is left out."""
        if isinstance(self.queries, Dense) or self.items is None:
            return True
        asked, there = {*self.queries.ids.tolist()}, {*self.items.ids.tolist()}
        pairs = zip(self.relevance.query_ids, self.relevance.item_ids, strict=True)  # the first is usually enough
        return any(one in asked and other in there and not (self.exclude and one == other) for one, other in pairs)

    def turned(self) -> BenchProblem:
        """Return the problem of the other direction: what was searched asks; only vectors can be turned."""
        if isinstance(self.queries, Dense) or self.items is None:
            raise TypeError("a problem of vectors is turned")  # a bug, not a user's mistake
        return BenchProblem(self.queries, self.items, self.relevance.reversed(), self.exclude)


@dataclass(frozen=True, eq=False)
class BenchBank:
    """A bank and its bank items, in one direction; without items, the methods that need them are left out.

    A bank that is a matrix has the items of its problem as columns. random: whether it differs from seed to seed.
    whole: whether it is all that it could be a part of.
    """

    queries: Vectors | Dense
    items: Vectors | None = None
    random: bool = False
    whole: bool = False

    @property
    def size(self) -> int:
        """How many bank queries there are."""
        return self.queries.shape[0] if isinstance(self.queries, Dense) else len(self.queries)

    def turned(self) -> BenchBank:
        """Return the bank of the other direction; only one of vectors with bank items can be turned."""
        if isinstance(self.queries, Dense) or self.items is None:
            raise TypeError("a bank of vectors with items is turned")  # a bug, not a user's mistake
        return BenchBank(self.items, self.queries)


class BenchSource(Protocol):
    """What is asked and what banks there are, from vectors or from a matrix; notes on what is left out."""

    data: DataSet

    @property
    def notes(self) -> list[str]: ...
    def notes_on(self, part: str) -> Sequence[str]: ...
    def problem(self, direction: str) -> BenchProblem: ...
    def bank(self, choice: BankChoice, direction: str, problem: BenchProblem, seed: int) -> BenchBank: ...
    def choosing(self, direction: str, choice: BankChoice, on: str, seed: int) -> Choosing | None: ...
    def banks(self, direction: str) -> list[str]: ...


@dataclass(frozen=True, eq=False)
class Choosing:
    """What settings are chosen on: a problem and its bank, and what it is in words."""

    problem: BenchProblem
    bank: BenchBank
    part: str


@dataclass(eq=False)
class BenchData:
    """The vectors of a data set, read or embedded when they are first needed; notes on what has none."""

    data: DataSet
    source: VectorSource
    progress: Progress | None = None
    _notes: dict[str, list[str]] = field(default_factory=dict)
    _kept: dict[tuple[str, Which], Vectors] = field(default_factory=dict)
    _usable: dict[tuple[str, Which], bool] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """What has no vector, in every part that was needed."""
        return [note for several in self._notes.values() for note in several]

    def notes_on(self, part: str) -> Sequence[str]:
        """Return what has no vector in a part."""
        return self._notes.get(part, ())

    def problem(self, direction: str, part: str = TEST) -> BenchProblem:
        """Return what is asked in a part."""
        held = self._part(part)
        if held.relevance is None:
            raise ArgumentError("data", f"has no labels for {part}", "name another split")
        items, queries = self._both(part, direction)
        forward = self._forward(direction)
        relevance = held.relevance if forward else held.relevance.reversed()
        groups = tuple(self.data.groups.values()) if forward else ()
        problem = BenchProblem(items, queries, relevance, exclusion_of(held), groups)
        if part == TEST and not problem.is_answerable:
            seen = f"has {len(queries):,} queries and {len(items):,} items of test that could be used"
            raise ArgumentError("data", f"{seen}, and no query has its answer among them", "fetch more of its files")
        return problem

    def bank(self, choice: BankChoice, direction: str, problem: BenchProblem, seed: int) -> BenchBank:
        """Return a bank; one of the queries at hand has no bank items, nor has one whose items have no vectors."""
        if choice.part == OWN_QUERIES:
            return drawn(BenchBank(problem.queries), choice, problem, seed)
        asks, other = self._sides(direction)
        items = self._vectors(choice.part, other) if self._has(choice.part, other) else None
        return drawn(BenchBank(self._vectors(choice.part, asks), items), choice, problem, seed)

    def choosing(self, direction: str, choice: BankChoice, on: str, seed: int) -> Choosing | None:
        """Return what settings are chosen on, its bank, and what it is in words; None if there is nothing to choose on.

        It is validation; where that is the bank or absent, or if the protocol says so, a random part of train of the
        size of test, which is then left out of the bank: media with all their texts in either direction, or, where
        images ask for their class, images that ask for every class.
        """
        if on == VALIDATION and choice.part != VALIDATION and self._can_ask(VALIDATION):
            problem = self.problem(direction, VALIDATION)
            if problem.is_answerable:
                return Choosing(problem, self.bank(choice, direction, problem, seed), VALIDATION)
        if not self._can_ask(TRAINING):
            return None
        first = self.data.protocol.directions[0]
        side: Which = "queries" if self.data.protocol.task == "classification" else "items"
        asked, searched = self.problem(first).shape
        count = asked if side == "queries" else searched
        held_out, rest = split(self.problem(first, TRAINING), count, seed, side)
        if held_out is None:
            return None
        words = f"{held_out.shape[0 if side == 'queries' else 1]:,} {side} of {TRAINING}"
        if not self._forward(direction):
            held_out, rest = held_out.turned(), rest.turned()
        if choice.part != TRAINING:
            return Choosing(held_out, self.bank(choice, direction, held_out, seed), words)
        return Choosing(held_out, drawn(rest, choice, held_out, seed), words)

    def banks(self, direction: str) -> list[str]:
        """Return the banks of the data set that there are vectors of, and the queries at hand."""
        asks, _ = self._sides(direction)
        return [*(name for name in self.data.banks if name != OWN_QUERIES and self._has(name, asks)), OWN_QUERIES]

    def _can_ask(self, part: str) -> bool:
        held = self.data.parts.get(part)
        return (
            held is not None and held.relevance is not None and self._has(part, "items") and self._has(part, "queries")
        )

    def _sides(self, direction: str) -> tuple[Which, Which]:
        """Return which side of a part asks in a direction, and which is searched."""
        return ("queries", "items") if self._forward(direction) else ("items", "queries")

    def _has(self, part: str, which: Which) -> bool:
        """Say whether a side of a part other than test can be used; one that is wholly broken is noted."""
        if (part, which) not in self._usable:
            held = self._part(part)
            side = held.items if which == "items" else held.queries
            if which == "queries" and _alike(held):
                return self._has(part, "items")
            there = self.source.has(part, which, side)
            broken = self.source.unusable(part, which, side) if there else ""
            if broken:
                self._notes.setdefault(part, []).append(broken)
            self._usable[part, which] = there and not broken
        return self._usable[part, which]

    def _forward(self, direction: str) -> bool:
        return direction == self.data.protocol.directions[0]

    def _both(self, part: str, direction: str) -> tuple[Vectors, Vectors]:
        """Return what is searched and what asks."""
        asks, searched = self._sides(direction)
        return self._vectors(part, searched), self._vectors(part, asks)

    def _vectors(self, part: str, which: Which) -> Vectors:
        if (part, which) not in self._kept:
            held = self._part(part)
            if which == "queries" and _alike(held):
                return self._vectors(part, "items")
            side = held.items if which == "items" else held.queries
            found, notes = self.source.vectors(part, which, side, self.progress)
            self._kept[part, which] = found
            self._notes.setdefault(part, []).extend(notes)
        return self._kept[part, which]

    def _part(self, name: str) -> Part:
        held = self.data.parts.get(name) or self.data.banks.get(name)
        if held is None and "/" in name:
            other = name.partition("/")[0]
            raise ArgumentError(
                "banks", f"has {name!r}, and {other} was not given", f"name its folder: --bank-from {other}=DIR"
            )
        if held is None:
            raise unknown("banks", name, list(dict.fromkeys([*self.data.banks, OWN_QUERIES])), "banks of this data set")
        return held


def _alike(held: Part) -> bool:
    """Say whether the queries are the items, as in a search of images by images; they are then embedded once."""
    return held.items.kind == held.queries.kind and np.array_equal(held.items.ids, held.queries.ids)


def exclusion_of(held: Part) -> Literal["self"] | None:
    """Return "self" where the queries of a part are its items: a query is then never its own answer."""
    return "self" if _alike(held) else None


def drawn(whole: BenchBank, choice: BankChoice, problem: BenchProblem, seed: int) -> BenchBank:
    """Return the part of a bank that a choice takes; the same share of its items goes with it."""
    count = choice.count(whole.size)
    if count == whole.size:
        return replace(whole, whole=True)
    if isinstance(whole.queries, Dense) or isinstance(problem.queries, Dense):
        if choice.how != "random":
            raise ArgumentError(
                "banks", f"has {choice.text!r}, which needs vectors", "give embeddings, or draw at random"
            )
        rows = np.asarray(whole.queries.matrix)[random_positions(whole.size, count, seed)]  # type: ignore[union-attr]
        return BenchBank(Dense(rows, whole.queries.item_ids), None, choice.drawn)  # type: ignore[union-attr]
    places = sample_bank(whole.queries, count, choice.how, items=problem.items, queries=problem.queries, seed=seed)
    items = whole.items
    if items is not None:
        items = items.gather(random_positions(len(items), choice_of_items(len(items), count, whole.size), seed))
    return BenchBank(whole.queries.gather(places), items, choice.drawn)


def choice_of_items(items: int, count: int, whole: int) -> int:
    """Return how many bank items go with so many of the bank queries."""
    return max(1, round(items * count / whole))


def split(whole: BenchProblem, count: int, seed: int, side: Which) -> tuple[BenchProblem | None, BenchBank]:
    """Return a problem of at most `count` random items with the queries that they answer, and the rest as a bank.

    side: "queries" draws queries instead, which search all items; the rest is then the other queries with all items.
    The problem is None if there is too little to leave a bank, or if no query of the part has an answer in it.
    """
    items, queries = whole.items, whole.queries
    if items is None or isinstance(queries, Dense):
        return None, BenchBank(queries)
    held = items if side == "items" else queries
    if len(held) < 2:
        return None, BenchBank(queries)
    chosen = np.zeros(len(held), bool)
    chosen[random_positions(len(held), min(count, len(held) // 2), seed)] = True
    asking, searched, left = chosen, np.ones(len(items), bool), np.ones(len(items), bool)
    if side == "items":
        searched, left = chosen, ~chosen
        if whole.exclude is None:
            truth = whole.relevance.against(queries.ids, items.ids)
            asking = np.zeros(len(queries), bool)
            asking[truth.owners[chosen[truth.positions]]] = True
        else:  # the queries are the items
            asking = np.isin(queries.ids, items.ids[chosen])
    # A query that also answers to an item of the bank stays out of the bank: it has been seen.
    if asking.all() or not asking.any():
        return None, BenchBank(queries)
    problem = replace(
        whole, items=items.gather(np.flatnonzero(searched)), queries=queries.gather(np.flatnonzero(asking))
    )
    if not problem.is_answerable:
        return None, BenchBank(queries)
    return problem, BenchBank(queries.gather(np.flatnonzero(~asking)), items.gather(np.flatnonzero(left)))


def directions_of(given: str | Sequence[str], data: DataSet) -> tuple[str, ...]:
    """Return the directions to run: "both" or "all" of the data set, or some by name."""
    known = data.protocol.directions
    listed = given.split(",") if isinstance(given, str) else [*given]
    named = tuple(dict.fromkeys(one for name in listed for one in (known if name in ("both", "all") else (name,))))
    for one in named:
        if one not in known:
            raise unknown("directions", one, (*known, "both"), f"directions of {data.name}")
    return named
