"""Ragged arrays: rows of different lengths, one after another in flat arrays."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Positions: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: row i is from `starts[i]` to `starts[i + 1]` of each flat array.

    A subclass holds the arrays. It names those with one value per entry in FLAT and those with one value per row in
    PER_ROW, so that both are selected along with rows or entries.
    """

    FLAT: ClassVar[tuple[str, ...]] = ()
    PER_ROW: ClassVar[tuple[str, ...]] = ()

    starts: Positions

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Positions:
        """How many entries each row has, (rows,)."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Positions:
        """The row of each entry, (entries,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    def span(self, start: int, stop: int) -> slice:
        """Return the slice of the flat arrays with the entries of rows start..stop."""
        return slice(int(self.starts[start]), int(self.starts[stop]))

    def gather(self, rows: Positions) -> Self:
        """Return these rows, in this order; a row may be repeated."""
        counts = self.counts[rows]
        starts = starts_from(counts)
        entries = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], counts)
        per_row = {name: getattr(self, name)[rows] for name in self.PER_ROW}
        return dataclasses.replace(self, starts=starts, **per_row, **self._entries(entries))

    def keep(self, kept: NDArray[np.bool_]) -> Self:
        """Return every row with only the entries that this mask selects, (entries,)."""
        counts = np.bincount(self.owners[kept], minlength=len(self))
        return dataclasses.replace(self, starts=starts_from(counts), **self._entries(kept))

    def _entries(self, which: NDArray[np.generic]) -> dict[str, NDArray[np.generic]]:
        return {name: getattr(self, name)[which] for name in self.FLAT}


def starts_from(counts: NDArray[np.integer] | list[int]) -> Positions:
    """Return the starts of rows with these numbers of entries, followed by the total."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def starts_of(owners: Positions, rows: int) -> Positions:
    """Return the starts of this many rows, given the row of each entry in ascending order."""
    return np.searchsorted(owners, np.arange(rows + 1))
