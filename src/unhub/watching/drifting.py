"""Drift: are the queries of a period still like the bank that the correction was fitted on?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64, Kind, random_positions
from unhub.banks.distances import FAR_RATIO, FAR_SHIFT, nearness, shift
from unhub.compute.workers import Progress
from unhub.data.fingerprint import LONGEST_SQUARE, Hashes, among, row_hashes
from unhub.data.query_log import QueryLog
from unhub.data.runs import Answers
from unhub.data.vectors import Vectors, take
from unhub.errors import ArgumentError
from unhub.watching.periods import FEWEST_QUERIES, Drift

MOST_QUERIES = 5000  # of a period that are compared, drawn at random
MOST_BANK_QUERIES = 20_000
NOTED_KNOWN = 0.5  # of the different queries of a period: with more of them in the bank, it may have been added to it


class FromBank(NamedTuple):
    """How far a period is from the bank, None where that cannot be said; and what was left out, in sentences.

    known: says how many queries of the period are in the bank, if they are so many that it may have been added before.
    """

    drift: Drift | None
    notes: tuple[str, ...] = ()
    known: str | None = None


@dataclass(frozen=True, eq=False)
class BankSample:
    """The bank queries that periods are compared with, the hashes of the whole bank, and how vectors are compared."""

    bank: Vectors
    hashes: Hashes
    similarity: Kind
    seed: int = 0
    threads: int | None = None

    @staticmethod
    def of(bank: Vectors, similarity: Kind, seed: int = 0, threads: int | None = None) -> BankSample:
        """Draw from a bank, if it is large."""
        hashes = row_hashes(bank)
        if len(bank) > MOST_BANK_QUERIES:
            bank = bank.gather(random_positions(len(bank), MOST_BANK_QUERIES, seed))
        usable = _usable(bank, similarity)
        if len(usable) < len(bank):
            why = "zeros" if similarity == "cosine" else "too large"
            problem = f"has {len(bank) - len(usable):,} vectors that cannot be compared ({why}, or not finite)"
            raise ArgumentError("bank", problem, "remove them")
        return BankSample(bank, hashes, similarity, seed, threads)

    def compared(self, log: QueryLog, answers: Answers, progress: Progress | None = None) -> FromBank:
        """Return how far the different queries of a log are from the bank; no drift if they are too few to say.

        Queries that the bank has too are compared as well: those that are asked every day are in both, and a bank
        without them would be unlike any day.
        """
        if log.vectors is None:
            remedy = "log them, or leave the bank out"
            raise ArgumentError("bank", "has nothing to be compared with: the log holds no vectors", remedy)
        if len(answers) < FEWEST_QUERIES:
            return FromBank(None)
        if log.vectors.shape[1] != self.bank.dimensions:
            problem = f"has {self.bank.dimensions} dimensions, the logged vectors have {log.vectors.shape[1]}"
            raise ArgumentError("bank", problem, "give the bank of the encoder that embeds the queries")
        every = Vectors(np.arange(len(log)), log.vectors).gather(np.sort(answers.rows))
        asked = _usable(every, self.similarity)
        notes = _left_out(len(every) - len(asked), len(every), self.similarity)
        if len(asked) < FEWEST_QUERIES:
            return FromBank(None, notes)
        known = _known(int(among(row_hashes(asked), self.hashes).sum()), len(asked))
        if len(asked) > MOST_QUERIES:
            asked = asked.gather(random_positions(len(asked), MOST_QUERIES, self.seed))
        asked = Vectors(asked.ids, take(asked.rows, np.arange(len(asked))))
        moved = shift(self.bank, asked, self.similarity)
        near = nearness(self.bank, asked, self.similarity, seed=self.seed, threads=self.threads, progress=progress)
        return FromBank(Drift(moved.value, FAR_SHIFT + moved.chance, near.ratio, FAR_RATIO), notes, known)


def _usable(vectors: Vectors, kind: Kind) -> Vectors:
    """Return the vectors that can be compared: of finite numbers, and with a direction or not too long to multiply."""
    kept = np.concatenate([_are_usable(block, kind) for _, block in vectors.blocks()])
    return vectors if kept.all() else vectors.gather(np.flatnonzero(kept))


def _are_usable(block: Float32, kind: Kind) -> NDArray[np.bool_]:
    squares: Float64 = np.einsum("ij,ij->i", block, block, dtype=np.float64)
    return np.isfinite(squares) & (squares > 0) if kind == "cosine" else squares <= LONGEST_SQUARE


def _left_out(bad: int, count: int, kind: Kind) -> tuple[str, ...]:
    """Say how many queries cannot be compared with the bank, if any."""
    if not bad:
        return ()
    why = "zeros" if kind == "cosine" else "too large"
    few = f"; too few are left, {FEWEST_QUERIES} are needed" if count - bad < FEWEST_QUERIES else ""
    which = f"{bad:,} of {count:,} different queries"
    return (f"Compared with the bank without {which}, whose vectors cannot be compared ({why}, or not finite){few}.",)


def _known(known: int, count: int) -> str | None:
    """Say how many queries of a period are in the bank too, if they are many."""
    if known <= NOTED_KNOWN * count:
        return None
    return (
        f"{known:,} of {count:,} different queries are in the bank too. If this period was added to the bank before, "
        "drift shows less: `unhub watch` first, then `unhub log add`."
    )
