"""A given similarity matrix in the place of vectors: the test queries against the items, and perhaps a bank."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unhub.bench.problems import TEST, BenchBank, BenchProblem, drawn, exclusion_of
from unhub.bench.protocols import OWN_QUERIES, BankChoice
from unhub.data.relevance import Relevance
from unhub.data.similarity import Dense
from unhub.datasets.dataset import DataSet
from unhub.errors import ArgumentError, unknown
from unhub.files.matrices import read_matrix

GIVEN_BANK = "given"  # the bank of a matrix of bank similarities


@dataclass(eq=False)
class MatrixData:
    """The test part as a matrix, (queries, items), in the order of the data set; a bank as (bank queries, items)."""

    data: DataSet
    matrix: Dense
    bank_matrix: Dense | None = None
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def of(
        data: DataSet, matrix: str | os.PathLike[str], bank_matrix: str | os.PathLike[str] | None = None
    ) -> MatrixData:
        """Read matrices and compare their sizes with those of the data set."""
        asked, items = len(data.queries), len(data.items)
        found = read_matrix(matrix)
        if found.shape != (asked, items):
            turned = ", so it seems to be turned: transpose it" if found.shape == (items, asked) else ""
            raise ArgumentError(
                "matrix",
                f"{Path(matrix).name} is {found.shape[0]:,} x {found.shape[1]:,}, the test part of {data.name} has "
                f"{asked:,} queries and {items:,} items{turned}",
                "give a row for each query and a column for each item, in the order of the data set",
            )
        past = None if bank_matrix is None else read_matrix(bank_matrix)
        if past is not None and past.shape[1] != items:
            problem = f"{Path(str(bank_matrix)).name} has {past.shape[1]:,} columns, there are {items:,} items"
            raise ArgumentError("bank_matrix", problem, "give a row for each bank query and a column for each item")
        note = "A matrix has no validation part, so every method has its default or given parameters."
        return MatrixData(data, found, past, [note])

    def problem(self, direction: str) -> BenchProblem:
        """Return what is asked; queries and items are numbered."""
        relevance = self.data.relevance
        if relevance is None:
            raise ArgumentError("data", "has no labels for test", "name another split")
        truth = relevance.against(self.data.queries.ids, self.data.items.ids)
        by_number = Relevance(truth.owners, truth.positions, truth.grades)
        exclude = exclusion_of(self.data.parts[TEST])
        if direction == self.data.protocol.directions[0]:
            return BenchProblem(None, self.matrix, by_number, exclude)
        turned = Dense(np.ascontiguousarray(np.asarray(self.matrix.matrix).T))
        return BenchProblem(None, turned, by_number.reversed(), exclude)

    def bank(self, choice: BankChoice, direction: str, problem: BenchProblem, seed: int) -> BenchBank:
        """Return the queries at hand, or the given bank, which there is in the first direction only."""
        if choice.part == OWN_QUERIES:
            return drawn(BenchBank(problem.queries), choice, problem, seed)
        if choice.part != GIVEN_BANK:
            raise unknown("banks", choice.part, self.banks(direction), "banks of a matrix")
        if self.bank_matrix is None or GIVEN_BANK not in self.banks(direction):
            raise ArgumentError("banks", f"has {GIVEN_BANK!r}, which there is not for {direction}", "leave it out")
        return drawn(BenchBank(self.bank_matrix), choice, problem, seed)

    def choosing(self, direction: str, choice: BankChoice, on: str, seed: int) -> None:
        """Return nothing: there is no validation part."""

    def banks(self, direction: str) -> list[str]:
        """Return the banks of a direction."""
        given = self.bank_matrix is not None and direction == self.data.protocol.directions[0]
        return [*([GIVEN_BANK] if given else []), OWN_QUERIES]
