"""Corrections of banks that lose queries: which bank each was fitted on, and its refit on what is left of that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Kind, are_among
from unhub.compute.workers import Progress
from unhub.correction import Bias, Correction
from unhub.data.bank import BankRows, whole
from unhub.data.fingerprint import Fingerprint, Hashes, inspect
from unhub.data.vectors import Gathered, Rows, Stacked, Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.fitting import fit
from unhub.logs.forgotten_rows import ForgottenRows
from unhub.methods import Method

REMEDY = "give that bank as other_banks (--other-bank), or a bank folder and refit=True (--refit)"


@dataclass(frozen=True, eq=False)
class LosingBank:
    """A bank, and what is left of it: of its first rows where it grows, as a log does, else of all.

    left: returns what is left of that many first rows, None if nothing is. touched: whether they lose anything.
    """

    name: str
    before: Vectors
    left: Callable[[int], Vectors | None]
    touched: Callable[[int], bool]
    grows: bool = False
    _hashes: dict[Kind, Hashes] = field(default_factory=dict)

    @staticmethod
    def of_rows(name: str, before: Vectors, stays: NDArray[np.bool_], grows: bool = False) -> LosingBank:
        """Return a bank of which these rows stay."""

        def left(count: int) -> Vectors | None:
            places = np.flatnonzero(stays[:count])
            return before.gather(places) if len(places) else None

        return LosingBank(name, before, left, lambda count: not stays[:count].all(), grows)

    def is_of(self, correction: Correction) -> bool:
        """Return whether a correction was fitted on this bank."""
        fitted = correction.source.bank
        if fitted is None or self.before.dimensions != correction.source.dimensions:
            return False
        if fitted.count > len(self.before) or (fitted.count < len(self.before) and not self.grows):
            return False
        hashes = self.hashes(cast("Kind", correction.source.similarity))
        weights = None if self.before.weights is None else self.before.weights[: fitted.count]
        return Fingerprint.of(hashes[: fitted.count], weights) == fitted

    def hashes(self, kind: Kind) -> Hashes:
        """Return the hash of each row."""
        if kind not in self._hashes:
            self._hashes[kind] = inspect(self.before, "bank", kind).hashes
        return self._hashes[kind]


class ItemPool:
    """All items at hand, found again by their contents, in whatever order a correction has them."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        widths = {part.shape[1] for part in parts}
        self._rows = {width: Stacked([part for part in parts if part.shape[1] == width]) for width in widths}
        self._found: dict[tuple[int, Kind], tuple[Hashes, NDArray[np.int64]]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def items_of(self, correction: Correction, path: Path) -> Vectors:
        """Return the items that a correction was fitted on."""
        if not self:
            raise ArgumentError("items", f"is missing, and {path} must be fitted again", "give what it was fitted on")
        width, kind = cast("int", correction.source.dimensions), cast("Kind", correction.source.similarity)
        if width not in self._rows:
            problem = f"has {' and '.join(map(str, sorted(self._rows)))} dimensions, and {path} was fitted on {width}"
            raise ArgumentError("items", problem, "give what it was fitted on; several sets may be given")
        if (width, kind) not in self._found:
            rows = as_vectors(self._rows[width], "items")
            hashes = inspect(rows, "items", kind).hashes
            self._found[width, kind] = hashes, np.argsort(hashes, kind="stable")
        hashes, order = self._found[width, kind]
        at = np.minimum(np.searchsorted(hashes, correction.item_hashes, sorter=order), len(order) - 1)
        places = order[at]
        absent = int((hashes[places] != correction.item_hashes).sum())
        if absent:
            problem = f"lacks {absent:,} of the {len(correction):,} items of {path}"
            raise ArgumentError("items", problem, "give what it was fitted on; several sets may be given")
        return Vectors(correction.ids, Gathered(self._rows[width], places.astype(np.int64)))


@dataclass(frozen=True, eq=False)
class BankRefits:
    """Fits corrections again on what is left of their banks; equal ones are fitted once.

    folder: the bank folder; logged: all its queries, and which of them stay. refit: whether corrections whose banks are
    not at hand are fitted on the bank folder. drop_inactive: whether inactive versions go that cannot be fitted again.
    """

    forgotten: ForgottenRows
    pool: ItemPool
    banks: Sequence[LosingBank]
    folder: LosingBank | None
    logged: LosingBank | None
    refit: bool
    bank_items: VectorsLike | None = None
    threads: int | None = None
    progress: Progress | None = None
    drop_inactive: bool = False
    _left: dict[tuple[int, int], Vectors | None] = field(default_factory=dict)
    _done: list[tuple[Correction, Vectors, Correction]] = field(default_factory=list)

    def bank_of(self, correction: Correction, path: Path) -> Vectors | None:
        """Return what a correction must be fitted on, None if it holds nothing of what is forgotten."""
        given = correction.source.similarity == "given"
        if not cast("Method", correction.method).needs_bank and (given or correction.source.bank is None):
            return None  # it keeps nothing of a bank
        if given:
            problem = f"of {path} was fitted on a matrix, of which nobody can tell whose queries it holds"
            raise ArgumentError("correction", problem, "fit it again without them, and leave it out here")
        known = [*self.banks, *([self.folder] if self.folder is not None else [])]
        bank = next((one for one in known if one.is_of(correction)), None)
        if bank is not None:
            count = len(bank.before) if correction.source.bank is None else correction.source.bank.count
            if not bank.touched(count):
                return None
            left = self._left_of(bank, count)
        else:
            stays = self._stays(correction, path)
            if stays.all():
                return None
            left = self._gathered(correction, stays, path)
        if left is None:
            problem = f"of {path} would have no bank: no query is left of it"
            raise ArgumentError("correction", problem, "delete the file, and leave it out here")
        if cast("Method", correction.method).needs_bank:
            self.pool.items_of(correction, path)  # or the error comes before any work
        if correction.source.bank_items is not None and self.bank_items is None:
            raise ArgumentError("bank_items", f"is missing, and {path} was fitted with them", "give them again")
        return left

    def strange(self, correction: Correction, bank: Vectors | None, known_rows: Sequence[LosingBank]) -> int:
        """Return how many queries of a correction are not among these rows, whose ids or users are known.

        bank: what it is fitted again on; None if it stays.
        """
        source = correction.source
        kind = cast("Kind", source.similarity)
        if bank is not None:
            hashes = inspect(bank, "bank", kind).hashes
        elif source.bank_rows is not None:
            hashes = source.bank_rows.hashes
        else:
            return 0 if source.bank is None else source.bank.count
        known = [one.hashes(kind) for one in known_rows if one.before.dimensions == source.dimensions]
        return int((~are_among(hashes, np.concatenate([np.empty(0, np.uint64), *known]))).sum())

    def _left_of(self, bank: LosingBank, count: int) -> Vectors | None:
        key = id(bank), count if bank.grows else len(bank.before)
        if key not in self._left:  # one value, by which `again` knows it
            self._left[key] = bank.left(key[1])
        return self._left[key]

    def _stays(self, correction: Correction, path: Path) -> NDArray[np.bool_]:
        """Return which queries stay of a bank that is not at hand as it was."""
        rows = correction.source.bank_rows
        if rows is None:
            if self.refit and self.folder is not None:
                return np.zeros(1, bool)
            problem = f"of {path} was saved by an earlier unhub, and its bank is not at hand"
            raise ArgumentError("correction", problem, REMEDY)
        kind, others = cast("Kind", correction.source.similarity), np.empty(0, np.uint64)
        if rows.weights is not None and self.logged is not None:
            left = self.logged.left(len(self.logged.before))
            others = others if left is None else inspect(left, "bank", kind).hashes
        return self.forgotten.stays_among(rows, cast("int", correction.source.dimensions), kind, others)

    def _gathered(self, correction: Correction, stays: NDArray[np.bool_], path: Path) -> Vectors | None:
        """Return the queries of a fit that stay, from wherever they are at hand; else what is left of the folder."""
        rows = correction.source.bank_rows
        if rows is not None:
            if not stays.any():
                return None
            hashes, parts = self._at_hand(correction)
            places = BankRows(rows.hashes[stays]).places_in(hashes) if len(hashes) else np.full(int(stays.sum()), -1)
            if (places >= 0).all():
                weights = None if rows.weights is None else rows.weights[stays]
                return Vectors(np.arange(len(places)), Gathered(Stacked(parts), places), weights)
        if self.refit and self.folder is not None:
            return self._left_of(self.folder, len(self.folder.before))
        problem = f"of {path} holds queries to forget, and of the others {int((places < 0).sum()):,} are not at hand"
        raise ArgumentError("correction", problem, REMEDY)

    def _at_hand(self, correction: Correction) -> tuple[Hashes, list[Rows]]:
        """Return the hashes of all bank queries at hand that a correction may have been fitted on, and their rows."""
        known = [one for one in (*self.banks, self.folder, self.logged) if one is not None]
        fitting = [one for one in known if one.before.dimensions == correction.source.dimensions]
        kind = cast("Kind", correction.source.similarity)
        hashes = [one.hashes(kind) for one in fitting]
        return np.concatenate([np.empty(0, np.uint64), *hashes]), [one.before.rows for one in fitting]

    def again(self, correction: Correction, bank: Vectors, path: Path) -> Correction:
        """Return the correction fitted on this bank, by the same method."""
        if not cast("Method", correction.method).needs_bank:  # it knows the bank by hashes, and no number is of it
            rows = BankRows(inspect(bank, "bank", cast("Kind", correction.source.similarity)).hashes, bank.weights)
            source = dataclasses.replace(correction.source, bank=rows.fingerprint, bank_rows=rows)
            return dataclasses.replace(correction, source=source)
        for fitted, on, made in self._done:
            if on is bank and _alike(fitted, correction):
                return made
        method = cast("Method", correction.method)
        most = whole(len(bank) if bank.weights is None else float(bank.weights.sum()))
        if method.bank_count and (getattr(method, method.bank_count) or 0) > most:
            method = dataclasses.replace(method, **{method.bank_count: most})
        uses_items = correction.source.bank_items is not None
        made = fit(
            self.pool.items_of(correction, path),
            bank,
            method=method,
            bank_items=self.bank_items if uses_items else None,
            similarity=cast("Kind", correction.source.similarity),
            mergeable=_is_mergeable(correction),
            threads=self.threads,
            progress=self.progress,
        )
        self._done.append((correction, bank, made))
        return made


def _is_mergeable(correction: Correction) -> bool:
    """Return whether a correction keeps what merging needs, beyond what every fit of its method keeps."""
    method = cast("Method", correction.method)
    plain, more = method.keeps(False, False), method.keeps(True, False)
    return isinstance(correction, Bias) and any(name in correction.arrays for name in more.keys() - plain.keys())


def _alike(one: Correction, other: Correction) -> bool:
    same = one.spec == other.spec and one.source.similarity == other.source.similarity
    same_items = same and np.array_equal(one.item_hashes, other.item_hashes) and np.array_equal(one.ids, other.ids)
    return same_items and _is_mergeable(one) == _is_mergeable(other)
