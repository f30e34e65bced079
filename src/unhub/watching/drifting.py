"""Drift: are the queries of a period still like the bank that the correction was fitted on?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unhub.arrays import Kind, random_positions
from unhub.banks.distances import FAR_RATIO, FAR_SHIFT, nearness, shift
from unhub.compute.workers import Progress
from unhub.data.query_log import QueryLog
from unhub.data.runs import Answers
from unhub.data.vectors import Vectors, take
from unhub.errors import ArgumentError
from unhub.watching.periods import FEWEST_QUERIES, Drift

MOST_QUERIES = 5000  # of a period that are compared, drawn at random
MOST_BANK_QUERIES = 20_000


@dataclass(frozen=True, eq=False)
class BankSample:
    """The bank queries that periods are compared with, and how vectors are compared."""

    bank: Vectors
    similarity: Kind
    seed: int = 0
    threads: int | None = None

    @staticmethod
    def of(bank: Vectors, similarity: Kind, seed: int = 0, threads: int | None = None) -> BankSample:
        """Draw from a bank, if it is large."""
        if len(bank) > MOST_BANK_QUERIES:
            bank = bank.gather(random_positions(len(bank), MOST_BANK_QUERIES, seed))
        return BankSample(bank, similarity, seed, threads)

    def drift(self, log: QueryLog, answers: Answers, progress: Progress | None = None) -> Drift | None:
        """Return how far the different queries of a log are from the bank; None if they are too few to say."""
        if log.vectors is None:
            remedy = "log them, or leave the bank out"
            raise ArgumentError("bank", "has nothing to be compared with: the log holds no vectors", remedy)
        if len(answers) < FEWEST_QUERIES:
            return None
        if log.vectors.shape[1] != self.bank.dimensions:
            problem = f"has {self.bank.dimensions} dimensions, the logged vectors have {log.vectors.shape[1]}"
            raise ArgumentError("bank", problem, "give the bank of the encoder that embeds the queries")
        rows = np.sort(answers.rows)
        if len(rows) > MOST_QUERIES:
            rows = rows[random_positions(len(rows), MOST_QUERIES, self.seed)]
        asked = Vectors(rows, take(log.vectors, rows))
        moved = shift(self.bank, asked, self.similarity)
        near = nearness(self.bank, asked, self.similarity, seed=self.seed, threads=self.threads, progress=progress)
        return Drift(moved.value, FAR_SHIFT + moved.chance, near.ratio, FAR_RATIO)
