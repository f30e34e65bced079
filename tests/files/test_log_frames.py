"""Query logs and attributes as tables of pandas, polars and Arrow: read as the file of the same table is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unhub

pytestmark = pytest.mark.once

ROWS = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
COLUMNS: dict[str, Any] = {
    "query_id": [f"u{row}" for row in range(120)],
    "query": [f"text {row}" for row in range(120)],
    "ids": [[row % 50, 7] for row in range(120)],
    "clicked": [[7] if row % 3 else None for row in range(120)],
    "variant": ["ab"[row % 2] for row in range(120)],
    "vector": ROWS.tolist(),
    "time": pa.array(pd.date_range("2026-03-01", periods=120, freq="h", tz="Europe/Berlin")),
}
TABLE = pa.table(COLUMNS)
ATTRIBUTES = {"id": ["x", "y", "z"], "price": [1, 25, 3.5], "colour": ["red", "red", None], "tags": [[1], [2], [3]]}
MAKERS: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "Arrow": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(TABLE, path)
    return path


def without_clock(found: unhub.Watch) -> dict[str, Any]:
    told: dict[str, Any] = found.to_dict()
    for period in told["periods"]:
        del period["watched"]
    return told


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_table_is_the_log_that_its_file_is(file: Path, make: Callable[[pa.Table], Any]) -> None:
    frame, wanted = make(TABLE), unhub.read_log(file)
    found = unhub.read_log(frame)
    for name in ("query_ids", "times", "texts", "variants", "vectors"):
        assert np.array_equal(np.asarray(getattr(found, name)), np.asarray(getattr(wanted, name))), name
    assert found.returned is not None and wanted.returned is not None
    assert found.returned.ids.tolist() == wanted.returned.ids.tolist()
    assert found.clicked is not None and found.clicked.starts[-1] == 80
    assert without_clock(unhub.watch(frame, items=50)) == without_clock(unhub.watch(file, items=50))
    assert unhub.ab_test(frame, items=50).to_dict() == unhub.ab_test(file, items=50).to_dict()
    assert unhub.read_log(frame, text="variant").texts.tolist()[:2] == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_table_that_grew_adds_its_new_rows(tmp_path: Path, make: Callable[[pa.Table], Any]) -> None:
    bare = TABLE.select(["vector", "ids"])  # no ids or times, by which queries would be known again
    assert unhub.add_log(make(bare[:50]), tmp_path / "bank").added == 50
    assert unhub.add_log(make(bare), tmp_path / "bank").added == 70
    again = unhub.add_log(make(bare), tmp_path / "bank")
    assert (again.added, again.known, again.queries) == (0, 1, 120)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (pd.DataFrame({"foo": [1]}), "has the columns foo; none of query_id, .* name yours, such as text=q"),
        (pl.DataFrame({"query": ["a", "b"], "ids": [["x"], [""]]}), "1: the row has the id ''; an integer or"),
        (pl.DataFrame({"query": ["a"], "ids": [None]}), "do not say which items were returned"),
        (pa.table([["a"], ["b"], [[1]]], names=["query", "query", "ids"]), "has the column `query` more than once"),
        (pd.DataFrame({"query": ["a", 5], "ids": [[1], [2]]}), "cannot be read as a column of one kind"),
        (pl.LazyFrame({"query": ["a"]}), r"is a LazyFrame, which holds no rows yet; give it with \.collect\(\)"),
        (pl.DataFrame({"query": [], "ids": []}), "is a log without a query yet"),
        ([{"query": "a"}], "is a list; give a path, or a table of pandas, polars or Arrow"),
    ],
)
def test_what_is_no_log_is_one_line(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=rf"^hits[: ][^\n]*{words}[^\n]*$"):
        unhub.watch(given, items=50)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_attributes_are_taken_from_a_table(make: Callable[[pa.Table], Any]) -> None:
    found = unhub.read_attributes(make(pa.table(ATTRIBUTES)))
    assert found.where("colour = 'red' and price < 20").tolist() == ["x"]
    assert [*found.columns] == ["id", "price", "colour"]  # a list is nothing to compare


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (pd.DataFrame({"price": [1]}), r"has columns \['price'\]; `id` is required"),
        (pd.DataFrame({"id": ["x"], "a": [1], "A": [2]}), "`a` must occur only once, whatever its case"),
        (pl.DataFrame({"id": ["x", None]}), "row 1 of the column `id` is empty"),
        ([1], "is a list; give a path, or a table of pandas, polars or Arrow"),
    ],
)
def test_what_holds_no_attributes_is_one_line(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=rf"^[^\n]*{words}[^\n]*$"):
        unhub.read_attributes(given)
