"""Sets of queries on disk: a table that says which queries describe one target together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.data.ids import as_ids, positions_of
from unhub.data.vectors import Vectors, take
from unhub.files.columns import TABLES, id_column, read_columns
from unhub.files.readers import kind_of

COLUMNS = (id_column("set_id"), id_column("query_id"))


@dataclass(frozen=True, eq=False)
class NamedSets:
    """Ids of sets and of their queries: those of set i are `query_ids[starts[i]:starts[i + 1]]`.

    Sets stand in the order they first come in; `source` names them in errors.
    """

    ids: Ids
    starts: NDArray[np.int64]
    query_ids: NDArray[np.generic]
    source: str

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, queries: Vectors) -> list[NDArray[np.generic]]:
        """Return the rows of each set, found among these by their ids; a query that comes twice counts twice."""
        wanted, known = self.query_ids, queries.ids
        if wanted.dtype.kind != known.dtype.kind:  # the ids of one side look like integers: both are compared as texts
            wanted, known = wanted.astype(np.str_), known.astype(np.str_)
        unknown = wanted[~np.isin(wanted, known)]
        if len(unknown):
            each = np.unique(unknown)
            words = "1 query id is" if len(each) == 1 else f"{len(each):,} query ids are"
            raise ValueError(f"{self.source}: {words} not among the queries, for example {unknown[0].item()!r}")
        places = positions_of(wanted, known, self.source)
        return [take(queries.rows, places[start:stop]) for start, stop in pairwise(self.starts.tolist())]


def read_sets(path: str | os.PathLike[str]) -> NamedSets:
    """Read sets of queries: .csv, .tsv, .jsonl or .parquet with `set_id` and `query_id`, a row for each query."""
    path = Path(path)
    if path.suffix.lower() not in TABLES:
        path.stat()  # a path that is not there is FileNotFoundError, whatever its suffix
        raise ValueError(f"{path}: sets are read from {', '.join(TABLES)} files, not from {kind_of(path)}")
    set_ids, query_ids = read_columns(path, COLUMNS)
    names, first, back = np.unique(set_ids, return_index=True, return_inverse=True)
    numbers = np.argsort(np.argsort(first))[back]  # of each row's set, as they come
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(len(names) + 1))
    return NamedSets(as_ids(set_ids[np.sort(first)], len(names), str(path)), starts, query_ids[order], str(path))
