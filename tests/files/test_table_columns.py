"""Tables of vectors: which columns are meant, in Parquet, Arrow, Lance and Hugging Face's folders alike."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests.command import fail, here, succeed, write_inputs
from tests.vector_files import NAMES, NUMBERS, ROWS, fixed, write_arrow
from unhub.files import read_relevance, read_vectors

pytestmark = pytest.mark.once

UUIDS = [UUID(int=number << 90) for number in NUMBERS]
TABLE = pa.table(
    {
        "id": NAMES,
        "number": NUMBERS,
        "uuid": pa.array([one.bytes for one in UUIDS], pa.binary(16)),
        "clip": fixed(ROWS),
        "other": pa.array((ROWS * 2).tolist(), pa.list_(pa.float32())),
    }
)


def write_stream(path: Path, table: pa.Table) -> None:
    write_arrow(path, **dict(zip(table.column_names, table.columns, strict=True)))


def write_shards(path: Path, table: pa.Table) -> None:
    path.mkdir()
    pq.write_table(table[:5], path / "1.parquet")
    pq.write_table(table[5:], path / "2.parquet", row_group_size=2)


def write_dataset(path: Path, table: pa.Table) -> None:
    """Write a folder as `Dataset.save_to_disk` of `datasets` 5.2 does."""
    path.mkdir(parents=True)
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for name, part in zip(names, (table[:5], table[5:]), strict=True):
        write_stream(path / name, part)
    (path / "dataset_info.json").write_text("{}")
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))


def write_lance(path: Path, table: pa.Table) -> None:
    lancedb.connect(path.parent).create_table(path.stem, table)


WRITERS: dict[str, Callable[[Path, pa.Table], Any]] = {
    "items.parquet": lambda path, table: pq.write_table(table, path, row_group_size=3),
    "items.arrow": write_stream,
    "plain.feather": lambda path, table: feather.write_feather(table, path, "uncompressed"),
    "packed.feather": lambda path, table: feather.write_feather(table, path, "lz4", chunksize=3),
    "shards": write_shards,
    "saved": write_dataset,
    "items.lance": write_lance,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the table in every form."""
    made = tmp_path_factory.mktemp("tables")
    for name, write in WRITERS.items():
        write(made / name, TABLE)
    return made


@pytest.mark.parametrize("name", [*WRITERS, "shards/*.parquet"])
@pytest.mark.parametrize(
    ("written", "ids", "times"),
    [
        ("vector=clip", NAMES, 1),
        ("vector=clip,id=number", NUMBERS, 1),
        ("id=number,vector=clip", NUMBERS, 1),
        ("vector=other,id=uuid", [str(one) for one in UUIDS], 2),
    ],
)
def test_columns_are_named_behind_the_file(folder: Path, name: str, written: str, ids: list[Any], times: int) -> None:
    found = read_vectors(f"{folder / name}#{written}")
    assert found.ids.tolist() == ids
    assert_array_equal(np.asarray(found.rows), ROWS * times)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", r"\['clip', 'other'\] hold vectors: name one, as in [^ ]*#vector=clip"),
        ("#vector=clap", r"`clap` is required, did you mean `clip`\?"),
        ("#vector=id", "the column `id` holds string; lists of numbers are required"),
        ("#vector=clip,id=no", "`no` is required"),
    ],
)
def test_columns_that_cannot_be_meant_are_one_line(folder: Path, name: str, written: str, words: str) -> None:
    with pytest.raises(ValueError, match=rf"^{folder / name}[^\n]*{words}[^\n]*$"):
        np.asarray(read_vectors(f"{folder / name}{written}").rows)


@pytest.mark.parametrize(("name", "write"), WRITERS.items(), ids=WRITERS)
def test_a_column_of_lists_holds_no_ids(tmp_path: Path, name: str, write: Callable[[Path, pa.Table], Any]) -> None:
    shown = [[one] for one in NAMES]
    write(tmp_path / name, pa.table({"query_id": NAMES, "ids": shown, "id": shown, "clip": fixed(ROWS)}))
    assert read_vectors(tmp_path / name).ids.tolist() == NAMES


@pytest.mark.parametrize("name", [*WRITERS, "shards/*.parquet"])
@pytest.mark.parametrize("written", ["vector=clip,weight=number", "weight=number,id=id,vector=clip"])
def test_weights_are_a_column_that_is_named(folder: Path, name: str, written: str) -> None:
    found = read_vectors(f"{folder / name}#{written}")
    assert found.ids.tolist() == NAMES
    assert found.weights is not None and found.weights.tolist() == NUMBERS
    assert_array_equal(np.asarray(found.rows), ROWS)
    assert read_vectors(f"{folder / name}#vector=clip").weights is None
    with pytest.raises(ValueError, match=r"the column `id` holds string; numbers are required"):
        read_vectors(f"{folder / name}#vector=clip,weight=id")
    with pytest.raises(ValueError, match="`no` is required"):
        read_vectors(f"{folder / name}#vector=clip,weight=no")


def test_an_array_of_a_file_may_be_the_weights(tmp_path: Path) -> None:
    np.savez(tmp_path / "bank.npz", asked=ROWS, count=np.array(NUMBERS))
    found = read_vectors(f"{tmp_path}/bank.npz#vector=asked,weight=count")
    assert found.weights is not None and found.weights.tolist() == NUMBERS
    assert read_vectors(tmp_path / "bank.npz").weights is None
    np.savez(tmp_path / "zero.npz", asked=ROWS, count=[1, 2, 3, *[0] * 10])
    with pytest.raises(ValueError, match="weights must be finite and above 0, got 0 for bank query 3"):
        read_vectors(f"{tmp_path}/zero.npz#vector=asked,weight=count")


def test_a_fit_counts_the_weights_of_a_column(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    bank = np.load(tmp_path / "bank.npy").astype(np.float32)
    counts = np.arange(len(bank)) % 3 + 1
    pq.write_table(pa.table({"embedding": fixed(bank), "asked": counts}), tmp_path / "bank.parquet")
    np.save(tmp_path / "repeated.npy", np.repeat(bank, counts, axis=0))
    given = ["fit", "--items", "items.npy", "--method", "nnn:k=4", "--quiet", "--bank"]
    succeed(tmp_path, *given, "bank.parquet#weight=asked", "-o", "weighed.unhub")
    succeed(tmp_path, *given, "repeated.npy", "-o", "repeated.unhub")
    weighed, repeated = (unhub.load(tmp_path / f"{name}.unhub") for name in ("weighed", "repeated"))
    assert isinstance(weighed, unhub.Bias) and isinstance(repeated, unhub.Bias)
    assert_allclose(weighed.bias, repeated.bias, atol=1e-6)
    told = fail(tmp_path, "fit", "--items", "bank.parquet#weight=asked", "--bank", "bank.npy", "-o", "x.unhub")
    assert "items and bank may be swapped" in told


@pytest.mark.parametrize("name", WRITERS)
def test_the_only_columns_that_fit_need_no_names(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name, TABLE.select(["number", "clip"]).rename_columns(["photo_id", "clip"]))
    found = read_vectors(tmp_path / name)
    assert found.ids.tolist() == NUMBERS
    assert_array_equal(np.asarray(found.rows), ROWS)


@pytest.mark.parametrize("name", ["items.arrow", "plain.feather", "saved"])
def test_fixed_lists_that_are_not_compressed_are_mapped(tmp_path: Path, name: str) -> None:
    rows = np.ones((2_000, 32), np.float32)
    WRITERS[name](tmp_path / name, pa.table({"clip": fixed(rows), "other": fixed(rows)}))
    before = pa.total_allocated_bytes()
    found = read_vectors(f"{tmp_path / name}#clip" if name != "saved" else f"{tmp_path / name}#vector=clip")
    assert pa.total_allocated_bytes() - before < rows.nbytes / 10
    assert len(found) == len(rows)


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "items.lance"])  # which cannot hold them
@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([[1.0, 2.0], [3.0]] + [[1.0, 2.0]] * 11, pa.list_(pa.float32())), "differ|row 1 .* has 1 numbers"),
        (pa.array([[1.0, 2.0], None] + [[1.0, 2.0]] * 11, pa.list_(pa.float32(), 2)), "row 1 .* is empty"),
        (pa.array([[["a"]]] * 13), "lists of numbers are required"),
    ],
    ids=["ragged", "empty", "nested"],
)
def test_rows_that_are_none_are_one_line(tmp_path: Path, name: str, column: pa.Array, words: str) -> None:
    WRITERS[name](tmp_path / name, pa.table({"id": NAMES, "embedding": column}))
    with pytest.raises(ValueError, match=rf"^{tmp_path / name}[^\n]*({words})[^\n]*$"):
        np.asarray(read_vectors(tmp_path / name).rows)


def test_names_of_arrays_are_written_in_the_same_way(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", a=ROWS, b=ROWS * 2, names=np.array(NAMES))
    assert read_vectors(f"{tmp_path / 'rows.npz'}#b").ids.tolist() == list(range(13))
    found = read_vectors(f"{tmp_path / 'rows.npz'}#vector=b,id=names")
    assert found.ids.tolist() == NAMES
    assert_array_equal(np.asarray(found.rows), ROWS * 2)
    np.savez(tmp_path / "one.npz", features=ROWS)
    assert_array_equal(np.asarray(read_vectors(tmp_path / "one.npz").rows), ROWS)


def test_ids_cannot_be_given_twice(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"#vector=clip,id=number: names its ids, and others are given; leave one"):
        read_vectors(f"{folder / 'items.parquet'}#vector=clip,id=number", ids=tmp_path / "ids.txt")


@pytest.mark.parametrize("kind", [pa.uuid(), pa.binary(16)], ids=["uuid", "16 bytes"])
def test_uuids_name_pairs_in_a_file_too(tmp_path: Path, kind: pa.DataType) -> None:
    held = pa.array([one.bytes for one in UUIDS], kind)
    pq.write_table(pa.table({"query_id": held, "item_id": held[::-1]}), tmp_path / "pairs.parquet")
    relevance = read_relevance(tmp_path / "pairs.parquet")
    assert relevance.query_ids.tolist() == [str(one) for one in UUIDS]
    assert relevance.item_ids.tolist() == [str(one) for one in UUIDS[::-1]]


# Folders of Hugging Face.


def test_what_datasets_saves_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: the extra dev has it")
    datasets.disable_progress_bars()
    features = datasets.Features({"key": datasets.Value("string"), "clip": datasets.List(datasets.Value("float32"), 4)})
    made = datasets.Dataset.from_dict({"key": NAMES, "clip": ROWS.tolist()}, features=features)
    made.select(range(12, -1, -1)).save_to_disk(tmp_path / "one", num_shards=3)
    datasets.DatasetDict({"train": made, "test": made}).save_to_disk(tmp_path / "two")
    found = read_vectors(tmp_path / "one")
    assert found.ids.tolist() == NAMES[::-1]
    assert_array_equal(np.asarray(found.rows), ROWS[::-1])
    assert_array_equal(np.asarray(read_vectors(tmp_path / "two" / "test").rows), ROWS)
    with pytest.raises(
        ValueError, match=r"two: holds the splits \['test', 'train'\]; name one of them, such as .*test$"
    ):
        read_vectors(tmp_path / "two")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("{", "state.json: is not what `save_to_disk` wrote"),
        ('{"_data_files": [3]}', "state.json: is not what `save_to_disk` wrote"),
        ('{"_data_files": []}', "saved: holds no rows"),
        ('{"_data_files": [{"filename": "../x.arrow"}]}', "state.json: names files outside its folder"),
        ('{"_data_files": [{"filename": "gone.arrow"}]}', "No such file .*gone.arrow"),
        ('{"_data_files": [{"filename": "x"}], "_indices_files": [1]}', "with a selection of rows beside them"),
    ],
)
def test_a_damaged_data_set_is_one_line(tmp_path: Path, state: str, words: str) -> None:
    write_dataset(tmp_path / "saved", TABLE)
    (tmp_path / "saved" / "state.json").write_text(state)
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        read_vectors(f"{tmp_path / 'saved'}#vector=clip")


def test_files_of_a_data_set_must_be_alike(tmp_path: Path) -> None:
    write_dataset(tmp_path / "saved", pa.table({"clip": fixed(ROWS)}))
    write_stream(tmp_path / "saved" / "data-00001-of-00002.arrow", pa.table({"clip": fixed(ROWS[:, :3].copy())}))
    with pytest.raises(ValueError, match=r"data-00001-of-00002\.arrow: row 0 of the column `clip` has 3 numbers"):
        read_vectors(tmp_path / "saved")


# Damage, and libraries that are missing.


def test_files_that_are_not_what_they_are_named_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "old.feather").write_bytes(b"FEA1" + bytes(40))
    (tmp_path / "none.arrow").write_bytes(b"")
    (tmp_path / "empty.lance").mkdir()
    for name, words in (
        ("old.feather", "is Feather of version 1; write it again"),
        ("none.arrow", "truncated or not an Arrow file"),
        ("empty.lance", "damaged or not a table of Lance"),
    ):
        with pytest.raises(ValueError, match=rf"{name}: {words}[^\n]*$"):
            read_vectors(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_vectors(tmp_path / "gone.arrow")


@pytest.mark.parametrize(
    ("name", "library", "extra"), [("items.arrow", "pyarrow", "parquet"), ("items.lance", "lancedb", "lancedb")]
)
def test_a_missing_library_is_named_with_its_extra(
    folder: Path, name: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"needs {library}: .*\[{extra}\]"):
        read_vectors(folder / name)


# On the command line.


def test_options_name_the_columns_of_items(folder: Path, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    np.save(tmp_path / "bank.npy", ROWS + 1)
    shutil.copy(folder / "items.parquet", tmp_path)
    fit = ("fit", "--bank", "bank.npy", "--quiet", "--overwrite", "-o", "out.unhub")
    columns = ("--vector-column", "clip", "--id-column", "number")
    succeed(tmp_path, *fit, "--items", "items.parquet", *columns)
    search = ("search", "--queries", "bank.npy", "--correction", "out.unhub", "-k", "1", "--format", "csv", "--quiet")
    found = succeed(tmp_path, *search, "--items", "items.parquet", *columns)
    assert found == succeed(tmp_path, *search, "--items", "items.parquet#vector=clip,id=number")
    assert {line.split(",")[2] for line in found.splitlines()[1:]} <= {str(number) for number in NUMBERS}
    assert succeed(tmp_path, *fit, "--items", "items.parquet#vector=clip", "--bank", "items.parquet#other") == ""


def test_options_of_columns_that_are_wrong_are_one_line(folder: Path, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    shutil.copy(folder / "items.parquet", tmp_path)
    fit = ("fit", "--bank", "bank.npy", "-o", "out.unhub")
    (tmp_path / "ids.txt").write_text("\n".join(NAMES))
    for given, words in (
        (("--items", "items.parquet#other", "--vector-column", "clip"), "--vector-column is given, and --items is"),
        (("--items", "items.npy", "--vector-column", "clip"), "--items: items.npy: holds one array, which has no name"),
        (("--items", "lancedb:here#photos", "--id-column", "clip"), "--id-column goes with a file"),
        (("--items", "items.parquet", "--vector-column", "clap"), "did you mean `clip`?"),
        (
            ("--items", "items.parquet", "--vector-column", "clip", "--id-column", "id", "--item-ids", "ids.txt"),
            "names its ids, and others are given",
        ),
    ):
        assert words in fail(tmp_path, *fit, *given)
    assert "--vector-column names a column of --items" in fail(tmp_path, "serve", "--vector-column", "clip")


@pytest.mark.parametrize("write", [pq.write_table, feather.write_feather], ids=["items.parquet", "items.arrow"])
def test_a_table_whose_ids_have_an_unknown_name_is_noted(
    write: Callable[..., None], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    np.save(tmp_path / "bank.npy", ROWS + 1)
    file = request.node.callspec.id
    columns = {"sku": NAMES, "colour": ["red"] * 13, "embedding": fixed(ROWS)}
    write(pa.table(columns), str(tmp_path / file))
    fit = ("fit", "--items", file, "--bank", "bank.npy", "--method", "nnn:k=2", "-o", "out.unhub")
    assert here(tmp_path, *fit).stderr == (
        f"unhub: note: {file} has no column named like ids, so its rows are numbered, but `sku` differs in each row; "
        "if they are the ids, give --id-column sku\n"
    )
    assert here(tmp_path, *fit, "--quiet").stderr == ""
    for named in (("--id-column", "sku"), ("--item-ids", "names.txt")):
        (tmp_path / "names.txt").write_text("\n".join(NAMES))
        succeed(tmp_path, *fit, *named)
        assert unhub.load(tmp_path / "out.unhub").ids.tolist() == NAMES
    write(pa.table({"key": NAMES, **columns}), str(tmp_path / file))
    succeed(tmp_path, *fit)
