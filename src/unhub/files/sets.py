"""Sets of queries on disk: a table that says which queries describe one target together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.data.ids import as_ids, positions_of
from unhub.data.ragged import Ragged, starts_of
from unhub.data.vectors import Vectors, take
from unhub.errors import naming_file
from unhub.files.columns import TABLES, id_column, read_columns
from unhub.files.named_arrays import kind_of

COLUMNS = (id_column("set_id"), id_column("query_id"))


@dataclass(frozen=True, eq=False)
class NamedSets(Ragged):
    """Ids of sets and of their queries: those of set i are row i of `query_ids`.

    Sets are in the order in which each first occurs; `source` names them in errors.
    """

    FLAT: ClassVar = ("query_ids",)
    PER_ROW: ClassVar = ("ids",)

    ids: Ids
    query_ids: NDArray[np.generic]
    source: str

    def of(self, queries: Vectors) -> list[NDArray[np.generic]]:
        """Return the rows of each set, found among these by their ids; a repeated query counts twice."""
        wanted, known = self.query_ids, queries.ids
        if wanted.dtype.kind != known.dtype.kind:  # the ids of one side look like integers: both are compared as texts
            wanted, known = wanted.astype(np.str_), known.astype(np.str_)
        unknown = wanted[~np.isin(wanted, known)]
        if len(unknown):
            each = np.unique(unknown)
            words = "1 query id is" if len(each) == 1 else f"{len(each):,} query ids are"
            raise ValueError(f"{self.source}: {words} not among the queries, for example {unknown[0].item()!r}")
        places = positions_of(wanted, known, self.source)
        return [take(queries.rows, places[self.span(row, row + 1)]) for row in range(len(self))]


@naming_file()
def read_sets(path: str | os.PathLike[str]) -> NamedSets:
    """Read sets of queries: .csv, .tsv, .jsonl or .parquet with `set_id` and `query_id`, a row for each query."""
    path = Path(path)
    if path.suffix.lower() not in TABLES:
        path.stat()  # a missing path is a FileNotFoundError, whatever its suffix
        raise ValueError(f"{path}: sets are read from {', '.join(TABLES)} files, not from {kind_of(path)}")
    set_ids, query_ids = read_columns(path, COLUMNS)
    names, first, back = np.unique(set_ids, return_index=True, return_inverse=True)
    numbers = np.argsort(np.argsort(first))[back]  # of each row's set, as they come
    order = np.argsort(numbers, kind="stable")
    ids = as_ids(set_ids[np.sort(first)], len(names), str(path))
    return NamedSets(starts_of(numbers[order], len(names)), ids, query_ids[order], str(path))
