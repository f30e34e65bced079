"""Fingerprints: check every row of a set as it is read, and hash its contents to recognise the set later."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unhub import kernels
from unhub.arrays import Float32, Float64, Kind, rows_per_block, spans
from unhub.data.vectors import LARGEST_FLOAT32, Rows, Vectors, not_finite
from unhub.errors import ArgumentError

Hashes = NDArray[np.uint64]
Span = tuple[int, int]

LONGEST_SQUARE = LARGEST_FLOAT32 * (
    1 - 2.0**-10
)  # of a row: no product of two such rows overflows float32, however it rounds
LOOKED_UP_AT_ONCE = 1 << 20
NOTED_REPEATS = 0.01  # of the queries: fewer repeats are natural, such as 0.4% of Flickr8k's captions
UNIT_SLACK = 2.0**-20  # of a squared length; rows scaled in float32 are off by up to half of it, and a score by 1e-6


@dataclass(frozen=True)
class Fingerprint:
    """The number of rows of a set and a hash of their contents, in order.

    weight: the sum of the rows' weights, None if every row weighs 1. The hash takes each row's weight into account.
    """

    count: int
    digest: int
    weight: float | None = field(default=None, compare=False)  # sums of the same weights may differ in rounding

    @staticmethod
    def of(hashes: Hashes, weights: Float64 | None = None) -> Fingerprint:
        return Fingerprint(0, 0).followed_by(hashes, weights)

    @property
    def total(self) -> float:
        """The sum of the rows' weights."""
        return self.count if self.weight is None else self.weight

    def followed_by(self, hashes: Hashes, weights: Float64 | None = None) -> Fingerprint:
        """Return the fingerprint of this set with more rows after it."""
        both = (self.digest + digest(weighed(hashes, weights), self.count)) % (1 << 64)
        even = weights is None or bool((weights == 1).all())
        more = len(hashes) if weights is None else float(weights.sum())
        return Fingerprint(self.count + len(hashes), both, None if even and self.weight is None else self.total + more)


class Inspected(NamedTuple):
    """A 64-bit hash of each row, and whether every row has length one."""

    hashes: Hashes
    unit_length: bool


Looked = tuple[Hashes, NDArray[np.bool_]]  # of some rows: the hash of each, and whether it has length one
Run = Callable[[Callable[[Span], Looked], Iterable[Span]], Iterable[Looked]]


@dataclass(frozen=True, eq=False)
class RowRecord:
    """What is known of each row under one similarity: its hash, whether it has length one, and whether it was read.

    The hash and the length of a row are valid only once it was read; every row that was read was also checked.
    """

    hashes: Hashes
    unit: NDArray[np.bool_]
    read: NDArray[np.bool_]

    @staticmethod
    def empty(rows: int) -> RowRecord:
        """Return a record of rows that have not been read."""
        return RowRecord(np.empty(rows, np.uint64), np.zeros(rows, np.bool_), np.zeros(rows, np.bool_))

    def gather(self, positions: NDArray[np.int64]) -> RowRecord:
        """Return the record of the rows at these positions."""
        return RowRecord(self.hashes[positions], self.unit[positions], self.read[positions])


class CheckedOnce(Vectors):
    """Vectors that remember, for each similarity, which rows were checked, and the hashes of those rows.

    A public function or a command makes one of the vectors it takes and passes it on to everything it calls. Nothing
    returned to a user contains one: its hashes would be stale once the user writes to the array.
    """

    _records: dict[Kind, RowRecord]

    def __init__(self, vectors: Vectors) -> None:
        self.__dict__.update(
            ids=vectors.ids, rows=vectors.rows, weights=vectors.weights, unit_length=False, _records={}
        )

    def record(self, similarity: Kind) -> RowRecord:
        """Return the record under a similarity; whoever reads more rows adds to it."""
        return self._records.setdefault(similarity, RowRecord.empty(len(self)))

    def again(self) -> Vectors:
        return self.seen(False)

    def gather(self, positions: NDArray[np.int64]) -> Vectors:
        """Return the vectors at these positions, with what is known of them so far."""
        some = CheckedOnce(super().gather(positions))
        some._records.update({kind: record.gather(positions) for kind, record in self._records.items()})
        return some.seen(self.unit_length)


@dataclass(frozen=True, eq=False)
class Look:
    """Checks and hashes some of the rows; it can be pickled, to do so in another process."""

    vectors: Vectors
    name: str
    similarity: Kind

    def __call__(self, span: Span) -> Looked:
        """Read these rows and look at them."""
        return self.at(self.vectors.block_there(*span), span[0])

    def at(self, block: Any, first: int) -> Looked:
        """Look at rows that were read, from row `first` on; raise if one cannot be used."""
        keys = _keys(self.vectors.dimensions)
        here = isinstance(block, np.ndarray)
        hashes, squares = _hash_rows(block, keys) if here else _hash_tensor(block.float(), keys)
        _check_block(squares, self.vectors.rows, first, self.name, self.similarity)
        return hashes, np.abs(squares - 1) <= UNIT_SLACK


class ReadOnce(Vectors):
    """Vectors whose rows are checked and hashed when they are first read, which saves a separate pass.

    A row may be read again, and by several threads at once. Rows that a CheckedOnce knows are not checked again.
    """

    _look: Look
    _record: RowRecord
    _trusts_lengths: bool

    def __init__(self, vectors: Vectors, name: str, similarity: Kind) -> None:
        known = vectors.record(similarity) if isinstance(vectors, CheckedOnce) else None
        self.__dict__.update(  # the class is frozen
            ids=vectors.ids,
            rows=vectors.rows,
            weights=vectors.weights,
            unit_length=False,
            _look=Look(vectors.bare(), name, similarity),
            _record=known or RowRecord.empty(len(vectors)),
            _trusts_lengths=True,
        )

    def block(self, start: int, stop: int) -> Float32:
        block = super().block(start, stop)
        if not self._record.read[start:stop].all():
            self._note(start, stop, self._look.at(block, start))
        return block

    def block_there(self, start: int, stop: int) -> Any:
        block = super().block_there(start, stop)  # which calls `block` if the rows are no tensor
        if not self._record.read[start:stop].all():
            self._note(start, stop, self._look.at(block, start))
        return block

    def _note(self, start: int, stop: int, looked: Looked) -> None:
        self._record.hashes[start:stop], self._record.unit[start:stop] = looked
        self._record.read[start:stop] = True

    def are_unit(self, start: int, stop: int) -> bool:
        return self._trusts_lengths and bool(self._record.unit[start:stop].all())

    def seen(self, unit_length: bool) -> Vectors:
        """Return the same vectors; with False, every row is scaled."""
        known = copy.copy(self)
        object.__setattr__(known, "_trusts_lengths", unit_length)
        return known

    def inspected(self, run: Run = map) -> Inspected:
        """Read the rows that have not been read, and return what was found in all rows."""

        blocks = spans(len(self), rows_per_block(self.dimensions))
        unread = [span for span in blocks if not self._record.read[slice(*span)].all()]
        for span, looked in zip(unread, run(self._look, unread), strict=True):
            self._note(*span, looked)
        return Inspected(self._record.hashes, bool(self._record.unit.all()))


def inspect(vectors: Vectors, name: str, similarity: Kind, run: Run = map) -> Inspected:
    """Check every row (finite; not zero under cosine), hash it and find out whether it has length one.

    The hash is of the float32 values: the same numbers in another dtype or memory order have the same hash, and so do
    0.0 and -0.0. Rows that a CheckedOnce already knows are not read.
    """
    return ReadOnce(vectors, name, similarity).inspected(run)


def row_hashes(vectors: Vectors) -> Hashes:
    """Return the hashes that `inspect` gives the rows, without a check of them."""
    keys = _keys(vectors.dimensions)
    return np.concatenate([_hash_rows(block, keys)[0] for _, block in vectors.blocks()])


def _check_block(squares: Float32, source: Rows, first: int, name: str, similarity: Kind) -> None:
    """Raise if a row cannot be used; `source` holds the rows before the conversion to float32."""
    suspects = np.flatnonzero(~(squares <= LONGEST_SQUARE) | (squares == 0))
    for row in suspects.tolist():
        given = source[first + row : first + row + 1][0]
        with np.errstate(over="ignore"):
            narrow = given.astype(np.float32)
        if not np.isfinite(narrow).all():
            raise not_finite(name, first + int(row), given)
        if similarity == "cosine" and not narrow.any():
            if np.any(given):
                raise ArgumentError(
                    name,
                    f"has only zeros in row {first + row} as float32: its largest number is {np.abs(given).max():g}",
                    "scale the rows",
                )
            raise ArgumentError(
                name,
                f"has only zeros in row {first + row}, which has no direction under cosine",
                "remove the row or use dot similarity",
            )
        if similarity == "dot" and squares[row] > 0:
            raise ArgumentError(
                name,
                f"has a vector in row {first + row} so long that dot products overflow float32",
                "scale the rows",
            )


@functools.cache
def _keys(dimensions: int) -> Hashes:
    """Return a fixed random number for each half of each pair of values, (2, pairs)."""
    keys = np.random.default_rng(0x756E687562).integers(1 << 64, size=dimensions + dimensions % 2, dtype=np.uint64)
    return np.ascontiguousarray(keys.reshape(-1, 2).T)


def _hash_rows(block: Float32, keys: Hashes) -> tuple[Hashes, Float32]:
    """Return a hash of each row's bits (see `hash_rows`), scrambled, and its sum of squares."""
    if block.shape[1] % 2:
        block = np.pad(block, ((0, 0), (0, 1)))
    sums, squares = np.empty(len(block), np.uint64), np.empty(len(block), np.float32)
    kernels.choose().hash_rows(block, block.view(np.uint64), keys, sums, squares)
    return _mix(sums), squares


def _hash_tensor(block: Any, keys: Hashes) -> tuple[Hashes, Float32]:
    """Return `_hash_rows` of a float32 tensor, computed on its device."""
    kernel = kernels.choose(f"torch:{block.device}")
    sums, squares = np.empty(len(block), np.uint64), np.empty(len(block), np.float32)
    kernel.hash_rows(block, block, keys, sums, squares)
    return _mix(sums), squares


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble the bits (splitmix64's finaliser), so that sums of hashes do not cancel."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def digest(hashes: NDArray[np.uint64], first: int = 0) -> int:
    """Return one 64-bit hash of rows in this order; the digest of a longer set is the sum of its parts' digests.

    `first` is the position of the first row in the whole set.
    """
    places = np.arange(first, first + len(hashes), dtype=np.uint64)
    return int(np.sum(_mix(hashes + _mix(places + np.uint64(1))), dtype=np.uint64))


def weighed(hashes: Hashes, weights: Float64 | None) -> Hashes:
    """Return the hashes of rows with their weights; a row of weight 1 has the hash of its contents."""
    if weights is None:
        return hashes
    return np.where(weights == 1, hashes, _mix(hashes ^ _mix(np.ascontiguousarray(weights).view(np.uint64))))


def repeats_among(hashes: Hashes) -> int:
    """Return how many rows repeat an earlier one."""
    ordered = np.sort(hashes)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


def are_repeating(hashes: Hashes) -> bool:
    """Return whether more rows repeat an earlier one than in sets of distinct queries."""
    return repeats_among(hashes) >= NOTED_REPEATS * len(hashes)


def among(few: Hashes, many: Hashes) -> NDArray[np.bool_]:
    """Return which of a few hashes are among many others, (few,); the many are not sorted, which would take room."""
    wanted, back = np.unique(few, return_inverse=True)
    found = np.zeros(len(wanted), np.bool_)
    for start, stop in spans(len(many), LOOKED_UP_AT_ONCE):
        block = many[start:stop]
        places = np.minimum(np.searchsorted(wanted, block), len(wanted) - 1)
        found[places[wanted[places] == block]] = True
    return found[back]
