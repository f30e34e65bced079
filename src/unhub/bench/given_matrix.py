"""A given similarity matrix in the place of vectors: the test queries against the items, and perhaps a bank."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unhub.arrays import spans
from unhub.bench.problems import TEST, BenchBank, BenchProblem, drawn, exclusion_of
from unhub.bench.protocols import OWN_QUERIES, BankChoice
from unhub.data.fingerprint import NOTED_REPEATS
from unhub.data.relevance import Relevance
from unhub.data.similarity import Dense
from unhub.datasets.dataset import DataSet
from unhub.errors import ArgumentError, unknown
from unhub.files.matrices import read_matrix

MOST_COSINE = 1.01  # by rounding in half precision


@dataclass(eq=False)
class MatrixData:
    """The test part as a matrix, (queries, items), in the order of the data set.

    bank_matrices: banks by name as (bank queries, items), for the first direction. noted: notes on a part.
    """

    data: DataSet
    matrix: Dense
    bank_matrices: Mapping[str, Dense] = field(default_factory=dict)
    noted: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @staticmethod
    def of(
        data: DataSet,
        matrix: str | os.PathLike[str],
        bank_matrix: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> MatrixData:
        """Read matrices and compare their sizes with those of the data set."""
        asked, items = len(data.queries), len(data.items)
        found = _read("matrix", matrix)
        if found.shape != (asked, items):
            turned = ", so it seems to be turned: transpose it" if found.shape == (items, asked) else ""
            raise ArgumentError(
                "matrix",
                f"{Path(matrix).name} is {found.shape[0]:,} x {found.shape[1]:,}, the test part of {data.name} has "
                f"{asked:,} queries and {items:,} items{turned}",
                "give a row for each query and a column for each item, in the order of the data set",
            )
        banks = {name: _bank(name, path, items) for name, path in (bank_matrix or {}).items()}
        noted = defaultdict[str, list[str]](list)
        if asked == items:
            square = "The matrix is square, so its shape does not tell queries from items: rows are the queries."
            noted[TEST].append(square)
        for name, bank in banks.items():
            noted[BankChoice.of(name).part] += _shared(name, bank, found)
        return MatrixData(data, found, banks, noted)

    @property
    def notes(self) -> list[str]:
        """What is to be known of all parts."""
        return [note for several in self.noted.values() for note in several]

    def notes_on(self, part: str) -> Sequence[str]:
        """Return what is to be known of a part beside its figures."""
        return self.noted.get(part, ())

    @property
    def is_scaled(self) -> bool:
        """Whether the similarities are more than cosines can be, so multiplied by the model."""
        return float(max(np.max(self.matrix.matrix), -np.min(self.matrix.matrix))) > MOST_COSINE

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
        """Return the queries at hand, or a given bank: that of the whole text of a choice, or drawn from its part."""
        if choice.part == OWN_QUERIES:
            return drawn(BenchBank(problem.queries), choice, problem, seed)
        there = self.banks(direction)
        if choice.text in there:
            return BenchBank(self.bank_matrices[choice.text])
        if choice.part in there:
            return drawn(BenchBank(self.bank_matrices[choice.part]), choice, problem, seed)
        if {choice.text, choice.part} & {*self.bank_matrices}:
            raise ArgumentError("banks", f"has {choice.text!r}, which there is not for {direction}", "leave it out")
        raise unknown("banks", choice.part, there, "banks of a matrix")

    def choosing(self, direction: str, choice: BankChoice, on: str, seed: int) -> None:
        """Return nothing: there is no validation part."""

    def banks(self, direction: str) -> list[str]:
        """Return the banks of a direction."""
        return [*(self.bank_matrices if direction == self.data.protocol.directions[0] else ()), OWN_QUERIES]


def _bank(name: str, path: str | os.PathLike[str], items: int) -> Dense:
    """Read the matrix of a bank and compare its size with that of the data set."""
    if BankChoice.of(name).part == OWN_QUERIES:
        problem = f"names a bank {name!r}, which is that of the queries at hand"
        raise ArgumentError("bank_matrix", problem, "name what the bank is made of, for example train")
    found = _read("bank_matrix", path)
    if found.shape[1] != items:
        problem = f"{Path(path).name} has {found.shape[1]:,} columns, there are {items:,} items"
        raise ArgumentError("bank_matrix", problem, "give a row for each bank query and a column for each item")
    return found


def _read(argument: str, path: str | os.PathLike[str]) -> Dense:
    """Read a matrix and check every number; errors name the argument and the file."""
    try:
        found = read_matrix(path)
    except FileNotFoundError:
        raise ArgumentError(argument, f"{path} does not exist", "name a file with a matrix of similarities") from None
    except ValueError as error:  # it names the file
        raise ArgumentError(argument, str(error)) from None
    try:
        found.check()
    except ArgumentError as error:
        raise ArgumentError(argument, f"{path} {error.problem}", error.remedy) from None
    return found


def _shared(name: str, bank: Dense, matrix: Dense) -> Iterator[str]:
    """Yield a note where rows of a bank are rows of the test matrix, other than a few captions that stand in both."""
    known = {*_contents(matrix)}
    held = sum(row in known for row in _contents(bank))
    rows = bank.shape[0]
    if held >= NOTED_REPEATS * rows:
        some = f"{held:,} of the {rows:,}" if held < rows else f"All {rows:,}"
        yield (
            f"{some} rows of the bank matrix {name} are rows of the test matrix too: those are the queries at hand, "
            f"and a bank of them is called {OWN_QUERIES}."
        )


def _contents(one: Dense) -> Iterator[bytes]:
    """Yield the numbers of each row as float32; `inspect` would refuse rows that are too long for an inner product."""
    for start, stop in spans(one.shape[0], one.rows_at_once):
        for row in np.asarray(one.matrix[start:stop], np.float32):
            yield hashlib.blake2b(row.tobytes(), digest_size=8).digest()
