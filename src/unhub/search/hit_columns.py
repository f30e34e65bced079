"""Hits as the columns of a table: query, rank, id and score, one row per place that is not empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.correction import Scores
from unhub.data.ids import as_ids
from unhub.data.vectors import Vectors
from unhub.errors import optional

Found: TypeAlias = list[tuple[int | str, float]]
Queries: TypeAlias = Vectors | Ids | list[int] | list[str] | None


def ids_of(queries: Queries, count: int) -> Ids:
    """Return the ids of the queries that hits are of: those of vectors, the ids given, or else row numbers."""
    if queries is None:
        return np.arange(count)
    return as_ids(queries.ids if isinstance(queries, Vectors) else queries, count, "queries")


def rows(asked: Ids, ids: Ids, scores: Scores) -> Iterator[tuple[int | str, Found]]:
    """Yield each query's id with its (item id, score), best first, without empty places."""
    filled = np.isfinite(scores)
    for one, named, scored, there in zip(asked.tolist(), ids, scores, filled, strict=True):
        # Through text, a float32 stays as short as it prints: 0.3 and not 0.30000001192092896.
        yield one, [(item, float(str(score))) for item, score in zip(named[there].tolist(), scored[there], strict=True)]


def columns(asked: Ids, ids: Ids, scores: Scores) -> Mapping[str, NDArray[np.generic]]:
    """Return the columns as arrays of one length."""
    filled = np.isfinite(scores)
    rank = filled.cumsum(axis=1)
    counts = filled.sum(axis=1)
    return {"query": np.repeat(asked, counts), "rank": rank[filled], "id": ids[filled], "score": scores[filled]}


def frame(library: str, given: Mapping[str, NDArray[np.generic]]) -> Any:
    """Return columns as a table of pandas, polars or pyarrow."""
    extra = "parquet" if library == "pyarrow" else library
    module = optional(library, extra, "hits as a table of it")
    return module.table(dict(given)) if library == "pyarrow" else module.DataFrame(dict(given))
