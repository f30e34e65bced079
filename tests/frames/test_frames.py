"""Frames and columns of pandas, polars and Arrow: the ids and rows that arrays give, or one line on what is wrong."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import unhub
from tests.vector_files import NAMES, NUMBERS, ROWS, fixed
from unhub.data.vectors import as_vectors
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once

UUIDS: Any = [UUID(int=(number << 100) + 7) for number in NUMBERS]
TEXTS = [str(one) for one in UUIDS]
POLARS_ROWS = pl.Series("embedding", ROWS.tolist(), dtype=pl.Array(pl.Float32, 4))
STORED = pd.ArrowDtype(pa.list_(pa.float32()))
FIXED = fixed(ROWS)

COLUMNS: dict[str, Any] = {
    "pandas, arrays": pd.Series(list(ROWS)),
    "pandas, lists": pd.Series(ROWS.tolist(), index=NAMES),
    "pandas, Arrow": pd.Series(ROWS.tolist(), dtype=STORED),
    "polars, Array": POLARS_ROWS,
    "polars, List": POLARS_ROWS.cast(pl.List(pl.Float32)),
    "Arrow, fixed": FIXED,
    "Arrow, lists": pa.array(ROWS.tolist(), pa.list_(pa.float32())),
    "Arrow, large lists": pa.array(ROWS.tolist(), pa.large_list(pa.float32())),
    "Arrow, chunks": pa.chunked_array([FIXED[:5], FIXED[5:5], FIXED[5:]]),
    "Arrow, tensors": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [4]), FIXED),
}
FRAMES: dict[str, Any] = {
    "pandas": pd.DataFrame({"id": NAMES, "text": NAMES, "embedding": list(ROWS)}),
    "pandas, index": pd.DataFrame({"embedding": list(ROWS)}, index=pd.Index(NAMES, name="id")),
    "pandas, other names": pd.DataFrame({"photo_id": NAMES, "tags": [[1]] * 13, "clip": list(ROWS)}),
    "pandas, a log": pd.DataFrame({"id": [[1]] * 13, "ids": [[1]] * 13, "query_id": NAMES, "clip": list(ROWS)}),
    "polars": pl.DataFrame({"id": NAMES, "embedding": POLARS_ROWS}),
    "polars, a log": pl.DataFrame({"key": NAMES, "ids": [[1]] * 13, "embedding": POLARS_ROWS}),
    "polars, categories": pl.DataFrame({"id": pl.Series(NAMES, dtype=pl.Categorical), "embedding": POLARS_ROWS}),
    "Arrow": pa.table({"id": NAMES, "n": NUMBERS, "embedding": FIXED}),
    "Arrow, a log": pa.table({"key": NAMES, "ids": [["x"]] * 13, "v": FIXED}),
    "Arrow, batch": pa.record_batch({"id": NAMES, "embedding": FIXED}),
    "Arrow, categories": pa.table({"key": pa.array(NAMES).dictionary_encode(), "v": FIXED}),
}


def assert_holds(given: Any, ids: list[str] | list[int]) -> None:
    found = as_vectors(given, "items")
    assert found.ids.tolist() == ids
    assert_array_equal(np.asarray(found.rows), ROWS)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_column_of_lists_is_the_rows(column: Any) -> None:
    assert_holds(column, list(range(13)))
    assert_holds(unhub.Vectors(pd.Series(NAMES), column), NAMES)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_is_ids_and_rows(frame: Any) -> None:
    assert_holds(frame, NAMES)


@pytest.mark.parametrize("column", [FIXED, FIXED.slice(3), pa.chunked_array([FIXED])], ids=["whole", "slice", "chunk"])
def test_the_rows_of_arrow_are_not_copied(column: Any) -> None:
    memory = FIXED.flatten().to_numpy()
    assert np.shares_memory(np.asarray(as_vectors(column, "items").rows), memory)


def test_named_columns_take_precedence() -> None:
    frame = pa.table({"id": NUMBERS, "name": NAMES, "embedding": fixed(ROWS[::-1].copy()), "other": FIXED})
    found = unhub.Vectors.from_frame(frame, vector="other", id="name")
    assert found.ids.tolist() == NAMES
    assert_array_equal(np.asarray(found.rows), ROWS)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "Arrow"])
def test_weights_are_a_column_that_is_named(make: Callable[[Any], Any]) -> None:
    lists = make({"id": NAMES, "asked": NUMBERS, "embedding": ROWS.tolist()})
    for found in (
        unhub.Vectors.from_frame(lists, weight="asked"),
        unhub.Vectors.from_frame(make({"asked": NUMBERS, **{str(at): ROWS[:, at] for at in range(4)}}), weight="asked"),
    ):
        assert found.weights is not None and found.weights.tolist() == NUMBERS
        assert_array_equal(np.asarray(found.rows), ROWS)
    assert as_vectors(lists, "bank").weights is None
    with pytest.raises(ArgumentError, match=r"the column `id` holds [a-z_]*; numbers are required"):
        unhub.Vectors.from_frame(lists, weight="id")
    with pytest.raises(ArgumentError, match="did you mean `asked`"):
        unhub.Vectors.from_frame(lists, weight="aksed")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_frame_of_numbers_alone_is_a_matrix(make: Callable[[Any], Any]) -> None:
    assert_holds(make(ROWS), list(range(13)))


@pytest.mark.parametrize("kind", ["convert_dtypes", "Float32", "float[pyarrow]"])
def test_nullable_columns_of_pandas_are_a_matrix_unless_a_value_is_empty(kind: str) -> None:
    numbers = pd.DataFrame(ROWS, columns=[*"abcd"])
    frame = numbers.convert_dtypes() if kind == "convert_dtypes" else numbers.astype(kind)
    assert_holds(frame, list(range(13)))
    assert np.asarray(as_vectors(frame, "items").rows).dtype == np.float32
    for names in (NAMES, NUMBERS):
        named = frame.assign(sku=names).convert_dtypes()
        found = unhub.Vectors.from_frame(named, id="sku")
        assert found.ids.tolist() == names
        assert_array_equal(np.asarray(found.rows), ROWS)
    frame.iloc[3, 2] = None
    with pytest.raises(ArgumentError, match=r"^items cannot be read: row 3 of the column `c` is empty$"):
        as_vectors(frame, "items")


@pytest.mark.parametrize("labels", [NAMES, [*range(7, 20)], [*range(12, -1, -1)]], ids=["texts", "others", "order"])
@pytest.mark.parametrize("named", [None, "id", "sku"])
def test_the_labels_of_an_index_are_the_ids(labels: list[Any], named: str | None) -> None:
    index = pd.Index(labels, name=named)
    for frame in (pd.DataFrame(ROWS, index=index), pd.DataFrame({"embedding": list(ROWS)}, index=index)):
        assert_holds(frame, labels)
        assert_holds(frame.reset_index(drop=True), list(range(13)))
    if named:
        found = unhub.Vectors.from_frame(pd.DataFrame(ROWS, index=index), id=named)
        assert found.ids.tolist() == labels


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "Arrow"])
def test_whole_numbers_among_floating_ones_are_no_dimension(make: Callable[[Any], Any]) -> None:
    dimensions = {f"x{place}": ROWS[:, place] for place in range(4)}
    for column, values in (("sku", [*range(101, 114)]), ("sku", NAMES), ("Unnamed: 0", [*range(13)])):
        frame = make({column: values, **dimensions})
        found = unhub.Vectors.from_frame(frame, id=column)
        assert found.ids.tolist() == values
        assert_array_equal(np.asarray(found.rows), ROWS)
        if values is not NAMES:
            words = rf"is of numbers, and the columns \['{column}'\] look like ids .*\(frame, id=\"{column}\"\)"
            with pytest.raises(ArgumentError, match=words):
                as_vectors(frame, "items")
    with pytest.raises(ArgumentError, match=r"\['Unnamed: 0'\] look like ids or an index"):
        as_vectors(make({"Unnamed: 0": [0, 1], "x": [3, 4]}), "items")


def test_a_fit_on_frames_is_the_fit_on_their_arrays() -> None:
    bank = pd.DataFrame({"embedding": list(ROWS[:9] + 1)})
    expected = unhub.fit(ROWS, ROWS[:9] + 1, method="nnn", k=2).apply(np.zeros((1, 13)))
    for frame in FRAMES.values():
        found = unhub.fit(frame, bank["embedding"], method="nnn", k=2)
        assert_array_equal(found.apply(np.zeros((1, 13))), expected)
        assert found.ids.tolist() == NAMES


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (pd.Series([[1.0, 2.0], [3.0]]), "cannot be read: row 1 of the column has 1 numbers, row 0 has 2"),
        (pl.Series([[1.0], None]), "row 1 of the column is empty"),
        (pl.Series([[1.0], [None]], dtype=pl.List(pl.Float32)), "row 1 of the column has an empty place in it"),
        (pa.chunked_array([[[1.0]], [[1.0], None]]), "row 2 of the column is empty"),
        (pd.Series([["a"], ["b"]]), "holds list<item: string>; lists of numbers are required"),
        (pa.array([[[1.0]]]), "holds list<item: list<item: double>>; lists of numbers are required"),
        (pa.array([[True]]), "holds list<item: bool>; lists of numbers are required"),
        (pd.Series([[1.0], ["b"]]), "cannot be read as a column of one kind .*; give lists of numbers"),
        (pd.Series([[1.0], [[1.0]]]), "cannot be read as a column of one kind"),
        (pd.Series([1.0, 2.0]), r"must be a matrix \(rows, dimensions\), got shape \(2,\)"),
        (pa.array([], pa.list_(pa.float32())), r"is empty"),
        (pd.DataFrame({"x": [1.0, 2.0]}, index=[3, 3]), r"has the label 3 more than once in its index, .*drop=True\)"),
        (pd.DataFrame({"x": [1.0]}, index=[0.5]), r"has an index of float64, which cannot be ids; give .*drop=True\)"),
        (pd.DataFrame({"x": [1.0]}, index=pd.to_datetime(["2024-01-01"])), "has an index of datetime64"),
        (pd.DataFrame({"x": [1.0]}, index=[["a"], [1]]), "has an index of 2 levels, which cannot be ids"),
        (pd.DataFrame({"v": [[1.0], [2.0]]}, index=pd.Index([1, None], dtype="Int64")), "row 1 of the index is empty"),
        (pd.DataFrame({"id": ["a"]}), r"has columns \['id'\]; `embedding` is required, or one of lists of floating"),
        (pd.DataFrame({"id": [1], "x": [1.0]}), "`embedding` is required, or one of lists of floating"),
        (
            pl.DataFrame({"a": [[1.0]], "b": [[1.0]]}),
            r"\['a', 'b'\] hold vectors: name one, as in unhub\.Vectors\.from_frame\(frame, vector=\"a\"\)",
        ),
        (
            pl.DataFrame({"a_id": [1], "b_id": [2], "v": [[1.0]]}),
            r"\['a_id', 'b_id'\] may hold the ids: name one, as in .*id=\"a_id\"",
        ),
        (pa.table([[[1.0]], [[1.0]]], names=["embedding"] * 2), "`embedding` must occur only once"),
        (pd.DataFrame({"id": ["a", None], "v": [[1.0], [2.0]]}), "row 1 of the column `id` is empty"),
        (pl.DataFrame({"id": [None, 1], "v": [[1.0], [2.0]]}), "row 0 of the column `id` is empty"),
        (pa.table({"id": [1, None], "v": [[1.0], [2.0]]}), "row 1 of the column `id` is empty"),
        (pd.DataFrame({"id": [1, 1], "v": [[1.0], [2.0]]}), "has repeated ids, for example 1"),
        (pd.DataFrame({"id": [1.5], "v": [[1.0]]}), "has ids of type float64"),
        (pd.DataFrame({"id": [b"x"], "v": [[1.0]]}), "has the id b'x' in row 0; ids must be integers or strings"),
        (pd.DataFrame({"id": [UUIDS[0], 3], "v": [[1.0], [2.0]]}), "has ids of several types"),
        (pl.LazyFrame({"id": [1], "v": [[1.0]]}), r"is a LazyFrame, which holds no rows yet; give it with \.collect"),
    ],
)
def test_what_cannot_be_rows_or_ids_is_one_line(given: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^items [^\n]*{words}[^\n]*$"):
        as_vectors(given, "items")


def test_a_name_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(ArgumentError, match="`embeding` is required, did you mean `embedding`"):
        unhub.Vectors.from_frame(FRAMES["pandas"], vector="embeding")
    with pytest.raises(ArgumentError, match="frame must be a table of pandas, polars or Arrow, got ndarray"):
        unhub.Vectors.from_frame(ROWS)


def test_without_pyarrow_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for given, what in ((FRAMES["pandas"], "DataFrame of pandas"), (POLARS_ROWS, "Series of polars")):
        with pytest.raises(ImportError, match=rf"items, a {what}, needs pyarrow: .* 'unhub\[parquet\]'"):
            as_vectors(given, "items")


def test_no_library_of_frames_is_imported_for_arrays() -> None:
    program = """
import sys
import numpy as np
import unhub
unhub.evaluate(np.eye(3), np.eye(3), {0: 0}, unhub.fit(np.eye(3), np.eye(3) + 1, "nnn:k=1"))
assert not {"pandas", "polars", "pyarrow"} & sys.modules.keys()
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


# UUIDs.


HELD: dict[str, Any] = {
    "list": UUIDS,
    "array": np.array(UUIDS),
    "bytes": np.array([one.bytes for one in UUIDS], object),
    "pandas": pd.Series(UUIDS),
    "polars": pl.Series(UUIDS, dtype=pl.Object),
    "Arrow uuid": pa.array([one.bytes for one in UUIDS], pa.uuid()),
    "Arrow binary": pa.array([one.bytes for one in UUIDS], pa.binary(16)),
    "Arrow part": pa.array([b"-" * 16, *(one.bytes for one in UUIDS)], pa.binary(16))[1:],
}


@pytest.mark.parametrize("ids", HELD.values(), ids=HELD)
def test_uuids_are_kept_as_their_text(ids: Any) -> None:
    assert unhub.Vectors(ids, ROWS).ids.tolist() == TEXTS


@pytest.mark.parametrize("ids", HELD.values(), ids=HELD)
def test_items_are_named_by_uuids_wherever_ids_are_given(ids: Any) -> None:
    correction = unhub.fit(unhub.Vectors(ids, ROWS), ROWS + 1, method="nnn", k=2)
    searcher = unhub.searcher(unhub.Vectors(ids, ROWS), correction)
    assert {*searcher.search(ROWS[:1], k=13, among=ids[:3]).ids[0].tolist()} == {*TEXTS[:3], ""}
    assert unhub.remove(correction, ids[:12]).ids.tolist() == TEXTS[12:]


def test_one_uuid_is_an_id_too() -> None:
    correction = unhub.fit(unhub.Vectors(UUIDS, ROWS), ROWS + 1, method="nnn", k=2)
    searcher = unhub.searcher(unhub.Vectors(UUIDS, ROWS), correction)
    found = searcher.search(ROWS[:2], k=13, exclude=[UUIDS[0], UUIDS[1:3]])
    assert [{*TEXTS} - {*row} for row in found.ids.tolist()] == [{TEXTS[0]}, {TEXTS[1], TEXTS[2]}]
    assert len(unhub.remove(correction, UUIDS[0])) == 12
    again = unhub.rerank([UUIDS[:3]], [[0.5, 0.4, 0.3]], correction, k=3)
    assert {*again.ids[0].tolist()} == {*TEXTS[:3]}


# Relevance.


PAIRS = {"query_id": [0, 0, 2], "item_id": ["a", "b", "a"]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "Arrow"])
def test_relevance_is_taken_from_a_frame(make: Callable[[Any], Any]) -> None:
    items = unhub.Vectors(np.array(["b", "a"]), ROWS[:2])
    for columns in (PAIRS, {**PAIRS, "grade": [1.0, 0.0, 3.0], "other": ["x"] * 3}):
        arrays = {name: np.array(values) for name, values in columns.items() if name != "other"}
        expected = unhub.evaluate(ROWS[:3], items, unhub.Relevance(*arrays.values()), measures=["nDCG@2"])
        found = unhub.evaluate(ROWS[:3], items, make(columns), measures=["nDCG@2"])
        assert str(found) == str(expected)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "Arrow"])
def test_relevance_that_is_wrong_is_one_line(make: Callable[[Any], Any]) -> None:
    for columns, words in (
        ({"query_id": [1]}, r"relevance has columns \['query_id'\]; `item_id` is required"),
        (
            {"query_id": [1, None], "item_id": [1, 2]},
            "relevance cannot be read: row 1 of the column `query_id` is empty",
        ),
        ({"query_id": [1], "item_id": [[1.0]]}, "relevance has item ids"),
    ):
        with pytest.raises(ArgumentError, match=words):
            unhub.evaluate(ROWS[:3], ROWS, make(columns))


def test_uuids_name_queries_and_items_in_relevance() -> None:
    queries, items = unhub.Vectors(UUIDS, ROWS), unhub.Vectors(UUIDS, ROWS)
    pairs = {one: [one] for one in UUIDS}
    for relevance in (pairs, pd.DataFrame({"query_id": UUIDS, "item_id": UUIDS}), list(zip(UUIDS, UUIDS, strict=True))):
        assert "100.00" in str(unhub.evaluate(queries, items, relevance, measures=["R@1"]))
