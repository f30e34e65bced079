"""Published figures: what the tables of the papers print, as data, to stand beside what was measured."""

from __future__ import annotations

import csv
import dataclasses
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from unhub.errors import ArgumentError, unknown

FILE = Path(__file__).with_name("published.csv")

# The key of each paper, and how it is cited.
CITED = {
    "qbnorm": "Bogolin et al. 2022, Cross Modal Retrieval with Querybank Normalisation",
    "nnn": "Chowdhury et al. 2024, Nearest Neighbor Normalization Improves Multimodal Retrieval",
    "dbsn": "Pan et al. 2025, Hubness Reduction with Dual Bank Sinkhorn Normalization for Cross-Modal Retrieval",
    "mqvr": "Wang et al. 2022, Multi-Query Video Retrieval",
}

SEE_PAPERS = "docs/papers.md says of every table how to make it, or why it cannot be made"

# Tables of the papers without figures here, and why.
WITHOUT_FIGURES = {
    "nnn:A1": "it is no measurement: the settings that a run chose are in its results",
    "nnn:A2": "it is no measurement: the settings that a run chose are in its results",
    "nnn:A5": "it has the seconds of a GPU of theirs",
    "nnn:A15": "its columns are mixed up in the text at hand",
}

MAY_BE_EMPTY = {"split", "called", "bank", "spread"}


@dataclass(frozen=True)
class Figure:
    """One figure as a paper prints it.

    paper: a key of CITED. table: its number, such as `1` or `A5`, or `fig6b` for what stands in or beside a picture.
    data_set, split: as `unhub datasets` names them; no split if the paper uses none of these, or does not say which.
    direction: what asks and what is found: `t2v`, `v2t`, `t2i`, `i2t`, `t2a` or `i2i`. method: as `unhub methods` or
    `unhub multi` name it, with its parameters if the table varies them. called: the paper's own word for it, if that
    is another. bank: which part of the data set, and how much of it, such as `train`, `train:20%` or `train:5000`;
    `coco/train` is that of another data set, and empty is none; a method with two banks takes both from this part.
    queries: how many descriptions ask together. measure: as `unhub eval` names it. spread: what stands after ±, if
    anything does.
    """

    paper: str
    table: str
    data_set: str
    split: str
    model: str
    direction: str
    method: str
    called: str
    bank: str
    queries: int
    measure: str
    value: float
    spread: float | None

    @property
    def key(self) -> tuple[str | int, ...]:
        """What the figure is about: everything but its value, its spread, and the paper's word for the method."""
        about = (self.paper, self.table, self.data_set, self.split, self.model, self.direction)
        return (*about, self.method, self.bank, self.queries, self.measure)


COLUMNS = tuple(field.name for field in dataclasses.fields(Figure))


def published(paper: str | None = None, table: str | None = None, data_set: str | None = None) -> list[Figure]:
    """Return the published figures in the order of the papers: all, or those of a paper, a table or a data set."""
    figures: tuple[Figure, ...] = read_published(FILE)
    if paper is not None:
        if paper not in CITED:
            raise unknown("paper", paper, CITED, "papers")
        figures = tuple(one for one in figures if one.paper == paper)
    if table is not None:
        tables = dict.fromkeys(one.table for one in figures)
        if why := WITHOUT_FIGURES.get(f"{paper}:{table}"):
            raise ArgumentError("table", f"{table!r} of {paper} has no published figures here: {why}", SEE_PAPERS)
        if table not in tables:
            raise unknown("table", table, tables, f"tables{f' of {paper}' if paper else ''} with published figures")
        figures = tuple(one for one in figures if one.table == table)
    return [one for one in figures if data_set in (None, one.data_set)]


@cache
def read_published(path: Path) -> tuple[Figure, ...]:
    """Read and check a table of published figures."""
    figures: dict[tuple[str | int, ...], Figure] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        if tuple(next(rows, ())) != COLUMNS:
            raise ValueError(f"{path}: must begin with the columns {','.join(COLUMNS)}")
        for row in rows:
            try:
                figure = _figure(row)
            except ValueError as error:
                raise ValueError(f"{path}: line {rows.line_num}: {error}") from None
            if figure.key in figures:
                raise ValueError(f"{path}: line {rows.line_num}: a figure of the same kind stands above")
            figures[figure.key] = figure
    return tuple(figures.values())


def _figure(row: list[str]) -> Figure:
    if len(row) != len(COLUMNS):
        raise ValueError(f"has {len(row)} columns, not {len(COLUMNS)}")
    cells = dict(zip(COLUMNS, row, strict=True))
    empty = [name for name, cell in cells.items() if not cell and name not in MAY_BE_EMPTY]
    if empty:
        raise ValueError(f"{empty[0]} is empty")
    if cells["paper"] not in CITED:
        raise ValueError(f"paper is {cells['paper']!r}, not one of {', '.join(CITED)}")
    words = {name: cells[name] for name in COLUMNS if name not in ("queries", "value", "spread")}
    queries = int(_number(cells["queries"], "queries"))
    if str(queries) != cells["queries"] or queries < 1:
        raise ValueError(f"queries must be a whole number above 0, got {cells['queries']!r}")
    spread = _number(cells["spread"], "spread") if cells["spread"] else None
    return Figure(**words, queries=queries, value=_number(cells["value"], "value"), spread=spread)


def _number(text: str, name: str) -> float:
    """Read a number; none that the papers print is negative."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be a number of 0 or more, got {text!r}")
    return number
