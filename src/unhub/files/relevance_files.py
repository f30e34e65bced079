"""Readers of relevance and of runs of other systems: tables with a header, and TREC files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.data.query_log import QueryLog
from unhub.data.relevance import Relevance
from unhub.data.runs import Run
from unhub.files.columns import TABLES, gather, id_column, number_column, opened, read_columns, split_lines
from unhub.files.log_bytes import form_of, unpacked
from unhub.files.log_frames import LogLike
from unhub.files.log_gathering import LogColumns
from unhub.files.log_lines import FORMATS
from unhub.files.log_values import AUTO, TimeUnit
from unhub.files.logs import KINDS, LogReading, read_log, read_log_by
from unhub.files.named_arrays import kind_of

QRELS = ("qid", "iter", "docid", "grade")
QRELS_SUFFIXES = (".qrels", ".txt")
RUN = ("qid", "Q0", "docid", "rank", "score", "tag")

PAIRS = (id_column("query_id"), id_column("item_id"))
GRADED = (*PAIRS, number_column("grade", default="1"))
SCORED = (*PAIRS, number_column("score"))


def read_relevance(path: str | os.PathLike[str]) -> Relevance:
    """Read which items answer which query.

    .csv and .tsv with the heads `query_id,item_id[,grade]`, .jsonl of objects with those keys, .parquet with those
    columns, or TREC qrels, `qid iter docid grade` on a line. Ids that are all plain integers ("7", not "007") become
    integers, any others strings.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in TABLES and not _is_qrels(path):
        columns = read_columns(path, GRADED)
    elif suffix not in TABLES and suffix not in QRELS_SUFFIXES and not _is_qrels(path):
        raise ValueError(
            f"{path}: relevance is read from {', '.join((*TABLES, *QRELS_SUFFIXES))} files, not from {kind_of(path)}"
        )
    else:
        columns = gather(path, split_lines(path, QRELS, (0, 2, 3)), GRADED)
    try:
        return Relevance(*columns)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a TREC run, `qid Q0 docid rank score tag` on a line; the score ranks, as in trec_eval, not the rank.

    A query log, as `read_log` reads it, is a run too: of a query that occurs several times, the last answer counts.
    """
    path = Path(path)
    make = partial(Run.of_log, read_log(path)) if is_log(path) else partial(Run, *_scored(path))
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _scored(path: Path) -> list[NDArray[np.generic]]:
    return gather(path, split_lines(path, RUN, (0, 2, 4)), SCORED)


def read_hits(
    path: LogLike,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: TimeUnit = AUTO,
    skip_bad: bool = False,
) -> QueryLog:
    """Read what was returned: a query log, also as a table, a TREC run, or what `unhub search -o hits.jsonl` wrote.

    columns, time_unit, skip_bad: how a query log is read, as in `add_log`.
    """
    named = LogColumns.named(columns, time_unit)
    if not isinstance(path, str | os.PathLike) or is_log(Path(path)):
        return read_log_by(path, LogReading(named, skip_bad), "hits")
    try:
        return read_run(path).as_log
    except ValueError as error:
        raise ValueError(f"{error}; if it is to be a query log, name it as one: {KINDS} or a folder") from None


def is_log(path: Path) -> bool:
    """Return whether a folder or a file is read as a query log: by its name, unless it begins as a TREC run does."""
    form = form_of(path)
    return path.is_dir() or (form in FORMATS and not (form in (".csv", ".tsv") and _is_run(path)))


def _is_run(path: Path) -> bool:
    with unpacked(path) as file:
        fields = file.readline().decode("utf-8", "replace").split()
    return len(fields) == len(RUN) and fields[1] == RUN[1]


def _is_qrels(path: Path) -> bool:
    """Return whether a file begins as qrels do: four fields between spaces or tabs, the last one a whole number."""
    if path.suffix.lower() == ".parquet":
        return False
    with opened(path) as lines:
        fields = next(lines, "").split()
    return len(fields) == len(QRELS) and fields[-1].lstrip("-").isdigit()
