"""Differences: what changed from one correction to another, in its items, in h, and in the answers to some queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from unhub.arrays import Float64, Ids, are_among
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Progress
from unhub.correction import Bias, Correction, check_correction
from unhub.data.bank import BankRows
from unhub.data.fingerprint import Fingerprint
from unhub.data.ids import no_id
from unhub.data.ragged import Positions
from unhub.data.vectors import HoldsVectors, Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError, check_whole
from unhub.evaluation.tables import Tabled, counted
from unhub.given_again import rows_named
from unhub.html_tables import Table
from unhub.search.hits import Id
from unhub.search.searcher import searcher

EXAMPLES = 3  # ids that a sentence names


@dataclass(frozen=True)
class Moved:
    """An item with a number before and after: its h, or for how many queries it is among the best."""

    id: Id
    before: float
    after: float


@dataclass(frozen=True)
class BiasDifference:
    """How h differs on the items of both, each centred over these.

    rms: the root of the mean square of the difference; spread: that of the first h. correlation: None if one of the two
    is constant. lost: items whose h rose most, so that they rank lower; gained: those whose h fell most.
    """

    rms: float
    spread: float
    correlation: float | None
    lost: tuple[Moved, ...]
    gained: tuple[Moved, ...]


@dataclass(frozen=True)
class AnswerDifference:
    """How the k best items of some queries differ.

    overlap: the mean share of the k that are in both; first_changed: the share of queries with another first item.
    appeared, vanished: items that are among the best of more, or fewer, queries than before.
    """

    queries: int
    k: int
    overlap: float
    first_changed: float
    appeared: tuple[Moved, ...]
    vanished: tuple[Moved, ...]


@dataclass(frozen=True, eq=False)
class Difference(Tabled):
    """What changed from one correction to another.

    facts: the number of items, and what else differs of what they were made with: (name, before, after). common: items
    of both; came, went: ids of the others; contents: how many of the common items have other vectors. bias is None
    unless both are one number per item and have items in common; answers is None without queries.
    """

    facts: tuple[tuple[str, str, str], ...]
    common: int
    came: Ids
    went: Ids
    contents: int
    bias: BiasDifference | None
    answers: AnswerDifference | None

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values for JSON."""
        return {
            "facts": [dict(zip(("name", "before", "after"), fact, strict=True)) for fact in self.facts],
            "items": {
                "common": self.common,
                "came": self.came.tolist(),
                "went": self.went.tolist(),
                "other_contents": self.contents,
            },
            "bias": None if self.bias is None else dataclasses.asdict(self.bias),
            "answers": None if self.answers is None else dataclasses.asdict(self.answers),
        }

    def shown(self) -> list[str | Table]:
        return [
            (("what", "before", "after"), self.facts),
            "",
            *self.sentences,
            *(part for title, moved in self.moves() for part in ("", title, moved_table(moved))),
        ]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What differs, in words."""
        parts = [f"{counted(self.common, 'item is', 'items are')} in both"]
        for word, ids in (("gone", self.went), ("new", self.came)):
            if len(ids):
                parts.append(f"{len(ids):,} {word}, for example {', '.join(map(str, ids[:EXAMPLES].tolist()))}")
        said = ["; ".join(parts) + "."]
        if self.contents:
            said.append(f"{self.contents:,} of those in both have other vectors.")
        if self.bias is not None:
            alike = "" if self.bias.correlation is None else f"; the correlation is {self.bias.correlation:.4f}"
            said.append(f"h changed by {self.bias.rms:.3g} (rms), of a spread of {self.bias.spread:.3g}{alike}.")
        if self.answers is not None:
            found = self.answers
            of = f"the {found.k} best items of {counted(found.queries, 'query', 'queries')}"
            said.append(
                f"Of {of}, {found.overlap:.1%} are the same; the first one changed for {found.first_changed:.1%}."
            )
        return tuple(said)

    def moves(self) -> list[tuple[str, tuple[Moved, ...]]]:
        """Return lists of items that changed most, each under its title; none that are empty."""
        titled: list[tuple[str, tuple[Moved, ...]]] = []
        if self.bias is not None:
            titled += [
                ("h rose most, so these lost:", self.bias.lost),
                ("h fell most, so these gained:", self.bias.gained),
            ]
        if self.answers is not None:
            among = f"among the {self.answers.k} best of"
            titled += [
                (f"Now {among} more queries:", self.answers.appeared),
                (f"Now {among} fewer queries:", self.answers.vanished),
            ]
        return [(title, moved) for title, moved in titled if moved]


@shows_progress
def diff(
    first: Correction,
    second: Correction,
    *,
    queries: VectorsLike | None = None,
    items: VectorsLike | None = None,
    k: int = 10,
    count: int = 5,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Difference:
    """Return what changed from the first correction to the second.

    queries, items: also compare the k best items of these queries; `items` hold those of both corrections, by their ids
    or, for an array, by their numbers. count: how many of the items that changed most to name.
    """
    progress = called(progress)
    for one in (first, second):
        check_correction(one, "compare")
    check_whole(k, "k", 1)
    check_whole(count, "count", 1)
    if (queries is None) != (items is None):
        missing, other = ("items", "queries") if items is None else ("queries", "items")
        raise ArgumentError(missing, f"is missing beside {other}", "give both, to compare what is found")
    if first.ids.dtype.kind != second.ids.dtype.kind:
        kinds = ["strings" if one.ids.dtype.kind == "U" else "integers" for one in (first, second)]
        raise ArgumentError("second", f"has ids that are {kinds[1]}, the first {kinds[0]}", "compare items by one kind")
    here, there = _places(first.ids, second.ids)
    answers = None
    if queries is not None and items is not None:
        found = [_found(one, items, queries, k, threads, progress) for one in (first, second)]
        answers = _answers_differ(found[0], found[1], k, count)
    return Difference(
        _facts(first, second),
        len(here),
        cast("Ids", np.delete(second.ids, there)),
        cast("Ids", np.delete(first.ids, here)),
        int((first.item_hashes[here] != second.item_hashes[there]).sum()),
        _biases_differ(first, second, here, there, count),
        answers,
    )


def _places(first: Ids, second: Ids) -> tuple[Positions, Positions]:
    """Return the positions of the ids of both, in the order of the first."""
    here = np.flatnonzero(are_among(first, second))
    order = np.argsort(second, kind="stable")
    return here, order[np.searchsorted(second, first[here], sorter=order)]


def _facts(first: Correction, second: Correction) -> tuple[tuple[str, str, str], ...]:
    one, other = first.source, second.source
    rows = [
        ("items", f"{len(first):,}", f"{len(second):,}"),
        ("method", first.spec, second.spec),
        ("similarity", one.similarity, other.similarity),
        ("dimensions", str(one.dimensions), str(other.dimensions)),
        ("bank items", _said(one.bank_items), _said(other.bank_items)),
    ]
    found = [row for row in rows if row[1] != row[2] or row[0] == "items"]
    if one.bank != other.bank:
        found.append(("bank", _said(one.bank), _said(other.bank)))
        if one.bank_rows is not None and other.bank_rows is not None:
            found.append(("bank queries of one alone", *_alone(one.bank_rows, other.bank_rows)))
    return tuple(found)


def _alone(one: BankRows, other: BankRows) -> tuple[str, str]:
    """Return how many queries of each bank are not in the other."""
    missing = (~are_among(one.hashes, other.hashes), ~are_among(other.hashes, one.hashes))
    return f"{missing[0].sum():,}", f"{missing[1].sum():,}"


def _said(print_: Fingerprint | None) -> str:
    if print_ is None:
        return "none"
    weight = "" if print_.weight is None else f", of weight {print_.weight:,.6g}"
    return f"{print_.count:,}{weight} ({print_.digest:016x})"


def _biases_differ(
    first: Correction, second: Correction, here: Positions, there: Positions, count: int
) -> BiasDifference | None:
    if not (isinstance(first, Bias) and isinstance(second, Bias)) or not len(here):
        return None
    before, after = (h - h.mean() for h in (first.bias[here], second.bias[there]))
    change = after - before
    lengths = float(np.linalg.norm(before)), float(np.linalg.norm(after))
    correlation = float(before @ after) / (lengths[0] * lengths[1]) if all(lengths) else None
    rms, spread = (float(np.sqrt(np.mean(values**2))) for values in (change, before))
    lost, gained = _most(first.ids[here], before, after, count)
    return BiasDifference(rms, spread, correlation, lost, gained)


def _most(ids: Ids, before: Float64, after: Float64, count: int) -> tuple[tuple[Moved, ...], tuple[Moved, ...]]:
    """Return the items whose number rose most, and those whose number fell most; equal ones in their order."""
    change = after - before
    found = []
    for sign in (1, -1):
        order = np.argsort(-sign * change, kind="stable")[:count]
        rows = order[sign * change[order] > 0].tolist()
        found.append(tuple(Moved(ids[row].item(), float(before[row]), float(after[row])) for row in rows))
    return found[0], found[1]


def _found(
    correction: Correction,
    items: VectorsLike,
    queries: VectorsLike,
    k: int,
    threads: int | None,
    progress: Progress | None,
) -> Ids:
    """Return the ids that a correction finds, (queries, k)."""
    held = as_vectors(items, "items")
    if isinstance(items, Vectors | HoldsVectors) or len(held) != len(correction):
        try:
            held = rows_named(held, correction.ids, "items")
        except ArgumentError as error:
            remedy = "give the items of both corrections, also those that one of them lacks, under their ids"
            raise ArgumentError(error.name, error.problem, remedy) from None
    else:
        held = Vectors(correction.ids, held.rows)
    return searcher(held, correction, threads=threads).search(queries, k=k, progress=progress).ids


def _answers_differ(one: Ids, other: Ids, k: int, count: int) -> AnswerDifference:
    nobody = no_id(one.dtype)
    shares = []
    for mine, theirs in zip(one, other, strict=True):
        found = [row[row != nobody] for row in (mine, theirs)]
        shares.append(len(np.intersect1d(*found)) / max(1, *map(len, found)))
    names = np.unique(np.concatenate([one.ravel(), other.ravel()]))
    names = cast("Ids", names[names != nobody])
    appeared, vanished = _most(names, _times(one, names), _times(other, names), count)
    changed = float(np.mean(one[:, 0] != other[:, 0]))
    return AnswerDifference(len(one), k, float(np.mean(shares)), changed, appeared, vanished)


def _times(found: Ids, names: Ids) -> Float64:
    """Return for how many queries each item is found."""
    counts = np.zeros(len(names))
    flat = found.ravel()
    np.add.at(counts, np.searchsorted(names, flat[np.isin(flat, names)]), 1)
    return counts


def moved_table(moved: tuple[Moved, ...]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the heads and rows of items that changed, for people."""
    cells = [(str(one.id), f"{one.before:.4g}", f"{one.after:.4g}", f"{one.after - one.before:+.4g}") for one in moved]
    return ("item", "before", "after", "change"), cells
