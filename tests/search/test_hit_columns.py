"""Hits as tables: query, rank, id and score, the same in every library and in the csv of the command line."""

import io

import numpy as np
import polars
import pytest

from unhub.cli.hits import WRITERS, Format
from unhub.data.vectors import Vectors
from unhub.search.hits import Hits

pytestmark = pytest.mark.once

HITS = Hits(np.array([[7, 3], [5, -1], [-1, -1]]), np.array([[0.3, 0.1], [0.25, -np.inf], [-np.inf] * 2], np.float32))
ROWS = [
    {"query": "a", "rank": 1, "id": 7, "score": 0.3},
    {"query": "a", "rank": 2, "id": 3, "score": 0.1},
    {"query": "b", "rank": 1, "id": 5, "score": 0.25},
]
ASKED = np.array(["a", "b", "c"])


def test_a_row_is_a_hit_and_empty_places_have_none() -> None:
    assert HITS.to_dicts(ASKED) == ROWS
    assert HITS.to_dicts(Vectors(ASKED, np.ones((3, 2)))) == ROWS
    assert [one["query"] for one in HITS.to_dicts()] == [0, 0, 1]
    assert Hits(np.empty((0, 3), np.int64), np.empty((0, 3), np.float32)).to_dicts() == []


def test_the_tables_of_all_libraries_have_these_rows() -> None:
    rows = [{**one, "score": np.float32(one["score"])} for one in ROWS]  # type: ignore[arg-type]
    assert HITS.to_pandas(ASKED).to_dict("records") == rows
    assert HITS.to_polars(ASKED).to_dicts() == HITS.to_arrow(ASKED).to_pylist() == rows
    assert HITS.to_polars(ASKED).schema["score"] == polars.Float32
    named = Hits(np.array([["x"], [""], ["y"]]), np.array([[1], [-np.inf], [2]], np.float32))
    assert named.to_arrow().column("id").to_pylist() == named.to_pandas()["id"].tolist() == ["x", "y"]


def test_the_csv_of_the_command_line_has_these_columns() -> None:
    file = io.StringIO()
    WRITERS[Format.csv](ASKED, HITS, file, "query")
    assert polars.read_csv(file.getvalue().encode()).to_dicts() == ROWS


def test_ids_that_do_not_fit_the_hits_are_refused() -> None:
    with pytest.raises(ValueError, match="queries has 2 ids, 3 are needed"):
        HITS.to_pandas(["a", "b"])
