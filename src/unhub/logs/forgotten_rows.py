"""Rows of forgotten queries: which rows of a set, in which nobody is named, are theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Kind, are_among, rows_per_block, spans
from unhub.data.bank import BankRows
from unhub.data.fingerprint import Hashes, inspect
from unhub.data.vectors import Vectors

Key = TypeVar("Key", bound=Hashable)


class ForgottenRows:
    """How often each forgotten row was asked: by the bank folder or by the logs, which hold the same queries twice."""

    def __init__(self, banked: Iterable[Float32], logged: Iterable[Float32]) -> None:
        self._counts: Counter[bytes] = Counter(map(_content, banked)) | Counter(map(_content, logged))  # the larger

    @property
    def widths(self) -> set[int]:
        """How many dimensions they have."""
        return {len(one) // np.dtype(np.float32).itemsize for one in self._counts}

    def stays_in(self, bank: Vectors) -> NDArray[np.bool_]:
        """Return which rows of a bank stay: of equal rows, as many go as were forgotten, the last ones."""
        contents = (
            _content(row)
            for start, stop in spans(len(bank), rows_per_block(bank.dimensions))
            for row in bank.block(start, stop)
        )
        return _stay(contents if self._counts else (), len(bank), self._counts)

    def stays_among(self, bank: BankRows, dimensions: int, kind: Kind, others: Hashes) -> NDArray[np.bool_]:
        """Return which queries of a bank stay, by their hashes. others: what is still asked by others.

        In a bank with weights a query stands once, however often it was asked, so one that others asked stays.
        """
        hashes, asked = self._hashes(dimensions, kind)
        stays = _stay(bank.hashes.tolist(), len(bank.hashes), Counter(dict(zip(hashes.tolist(), asked, strict=True))))
        return stays if bank.weights is None else stays | are_among(bank.hashes, others)

    def are_among(self, rows: Float32) -> NDArray[np.bool_]:
        """Return which rows equal a forgotten one."""
        return np.fromiter((_content(row) in self._counts for row in rows), bool, len(rows))

    def _hashes(self, dimensions: int, kind: Kind) -> tuple[Hashes, list[int]]:
        """Return the hash of each row of so many dimensions, and how often it was asked."""
        rows = {one: np.frombuffer(one, np.float32) for one in self._counts}
        wanted = {one: row for one, row in rows.items() if len(row) == dimensions and row.any()}  # zeros have no hash
        if not wanted:
            return np.empty(0, np.uint64), []
        vectors = Vectors(np.arange(len(wanted)), np.stack([*wanted.values()]))
        return inspect(vectors, "query_ids", kind).hashes, [self._counts[one] for one in wanted]


def _stay(keys: Iterable[Key], count: int, gone: Counter[Key]) -> NDArray[np.bool_]:
    """Return which entries stay, by their keys, if of equal ones the last few go."""
    stays = np.ones(count, bool)
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        if key in gone:
            places.setdefault(key, []).append(place)
    for key, found in places.items():
        stays[found[-gone[key] :]] = False
    return stays


def _content(row: Float32) -> bytes:
    """Return the numbers of a row; 0.0 and -0.0 are one."""
    return (np.asarray(row, np.float32) + np.float32(0)).tobytes()
