"""Vector files: every format gives the same ids and rows, mapped from disk where it can be."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.vector_files import NAMES, NUMBERS, ROWS, fixed, write_clip, write_parquet
from unhub.data.vectors import Stacked, Vectors
from unhub.files import read_vectors

pytestmark = pytest.mark.once

OTHERS = [str(number) for number in NUMBERS[1:]]


def contents(vectors: Vectors) -> NDArray[np.float32]:
    return np.concatenate([block for _, block in vectors.blocks(3)])


def assert_holds(vectors: Vectors, ids: list[int] | list[str]) -> None:
    assert vectors.ids.tolist() == ids
    np.testing.assert_array_equal(contents(vectors), ROWS)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_mapped_in_any_type_and_order(tmp_path: Path, dtype: type[np.floating], order: str) -> None:
    rows = np.asarray(ROWS, dtype=dtype, order="F" if order == "F" else "C")
    np.save(tmp_path / "rows.npy", rows)
    vectors = read_vectors(tmp_path / "rows.npy")
    assert isinstance(vectors.rows, np.memmap)
    assert vectors.rows.dtype == dtype
    assert vectors.rows.flags.f_contiguous == (order == "F")
    assert vectors.ids.tolist() == list(range(13))
    np.testing.assert_array_equal(contents(vectors), rows.astype(np.float32))


def test_npz_holds_vectors_and_perhaps_ids(tmp_path: Path) -> None:
    np.savez(tmp_path / "both.npz", vectors=ROWS, ids=np.array(NAMES))
    np.savez_compressed(tmp_path / "rows.npz", vectors=ROWS)
    assert_holds(read_vectors(tmp_path / "both.npz"), NAMES)
    assert_holds(read_vectors(tmp_path / "rows.npz"), list(range(13)))


@pytest.mark.parametrize(
    "embedding",
    [
        fixed(ROWS),
        pa.array(ROWS.tolist(), pa.list_(pa.float32())),
        pa.array(ROWS.tolist(), pa.large_list(pa.float32())),
    ],
    ids=["fixed", "list", "large"],
)
@pytest.mark.parametrize("ids", [NAMES, NUMBERS], ids=["strings", "integers"])
def test_parquet_holds_id_and_embedding(tmp_path: Path, embedding: pa.Array, ids: list[int] | list[str]) -> None:
    path = write_parquet(tmp_path / "rows.parquet", id=ids, other=ids, embedding=embedding)
    assert_holds(read_vectors(path), ids)


def test_parquet_without_ids_is_numbered_as_an_array_is(tmp_path: Path) -> None:
    rows = read_vectors(write_parquet(tmp_path / "rows.parquet", embedding=fixed(ROWS)))
    assert rows.ids.tolist() == list(range(13))
    np.testing.assert_array_equal(np.asarray(rows.rows), ROWS)


@pytest.mark.parametrize("column", ["ids", "ID", "Id", "key", "__key__", "image_id", "item-ids", "photoId", "uuid"])
def test_parquet_with_a_column_like_ids_is_not_numbered_in_silence(tmp_path: Path, column: str) -> None:
    path = write_parquet(tmp_path / "rows.parquet", **{column: NAMES, "embedding": fixed(ROWS)})
    assert_holds(read_vectors(path), NAMES)
    path = write_parquet(tmp_path / "rows.parquet", **{column: NUMBERS, "my_key": NAMES, "embedding": fixed(ROWS)})
    with pytest.raises(ValueError, match=rf"may hold the ids: name one, as in rows\.parquet#id={column}"):
        read_vectors(path)
    assert_holds(read_vectors(f"{path}#id=my_key"), NAMES)
    np.save(tmp_path / "ids.npy", np.array(NAMES))
    assert_holds(read_vectors(path, ids=tmp_path / "ids.npy"), NAMES)


@pytest.mark.parametrize("column", ["text", "valid", "Grid", "IDEA", "monkey", "width"])
def test_parquet_with_columns_of_other_names_is_numbered(tmp_path: Path, column: str) -> None:
    path = write_parquet(tmp_path / "rows.parquet", **{column: NAMES, "embedding": fixed(ROWS)})
    assert read_vectors(path).ids.tolist() == list(range(13))


@pytest.mark.parametrize("number", [pa.float16(), pa.float32(), pa.float64(), pa.int8()])
@pytest.mark.parametrize("lists", [pa.list_, pa.large_list, lambda number: pa.list_(number, 2)])
def test_parquet_of_any_lists_is_one_array_when_numpy_asks(
    tmp_path: Path, number: pa.DataType, lists: Callable[[pa.DataType], pa.DataType]
) -> None:
    whole = np.arange(26).astype(number.to_pandas_dtype()).reshape(13, 2)
    column = pa.array(list(whole), lists(number))
    rows = read_vectors(write_parquet(tmp_path / "rows.parquet", id=NUMBERS, embedding=column)).rows
    assert np.asarray(rows).dtype == whole.dtype
    np.testing.assert_array_equal(np.asarray(rows), whole)


def test_parquet_of_float16_stays_float16(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "rows.parquet", id=NUMBERS, embedding=fixed(ROWS.astype(np.float16)))
    assert read_vectors(path).rows.dtype == np.float16


@pytest.mark.parametrize("name", ["vectors", "embedding", "image_features"])
def test_safetensors_is_mapped(tmp_path: Path, name: str) -> None:
    save_file({name: ROWS, "scale": np.ones(1), "ids": np.array(NUMBERS)}, tmp_path / "rows.safetensors")
    vectors = read_vectors(tmp_path / "rows.safetensors")
    assert isinstance(vectors.rows, np.memmap)
    assert_holds(vectors, NUMBERS)


def test_safetensors_of_bfloat16_is_widened(tmp_path: Path) -> None:
    halves = (ROWS.view(np.uint32) >> 16).astype(np.uint16)  # numpy cannot write the type, so the file is made by hand
    header = json.dumps({"vectors": {"dtype": "BF16", "shape": [13, 4], "data_offsets": [0, 104]}}).encode()
    (tmp_path / "rows.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + halves.tobytes())
    vectors = read_vectors(tmp_path / "rows.safetensors")
    np.testing.assert_array_equal(contents(vectors), (halves.astype(np.uint32) << 16).view(np.float32))
    np.testing.assert_array_equal(contents(vectors.gather(np.array([5, 0]))), contents(vectors)[[5, 0]])
    np.testing.assert_allclose(contents(vectors), ROWS, rtol=2**-7)


@pytest.mark.parametrize("kind", ["img_emb", "text_emb"])
def test_a_clip_folder_is_mapped_in_the_order_of_its_numbers(tmp_path: Path, kind: str) -> None:
    folder = write_clip(tmp_path / "clip", kind)
    for path in (folder, folder / kind):
        vectors = read_vectors(path)
        assert isinstance(vectors.rows, Stacked)
        assert all(isinstance(part[:], np.memmap) for part in vectors.rows.parts)
        assert_holds(vectors, list(range(13)))


@pytest.mark.parametrize(
    ("metadata", "ids"),
    [
        (lambda span: {"image_path": NAMES[span], "key": NUMBERS[span]}, NAMES),
        (lambda span: {"image_path": ["same"] * len(NAMES[span]), "key": NUMBERS[span]}, NUMBERS),
        (lambda span: {"image_path": [None, *NAMES[span][1:]], "key": NUMBERS[span]}, NUMBERS),
        (lambda span: {"caption": NAMES[span]}, list(range(13))),
    ],
    ids=["path", "path repeats", "path has gaps", "neither"],
)
def test_ids_of_a_clip_folder_come_from_its_metadata(
    tmp_path: Path, metadata: Callable[[slice], dict[str, object]], ids: list[int] | list[str]
) -> None:
    assert_holds(read_vectors(write_clip(tmp_path / "clip", metadata=metadata) / "img_emb"), ids)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("\n".join(NAMES), NAMES),
        ("\ufeff" + "\r\n".join(NAMES) + "\r\n", NAMES),
        ("\n".join(["-3", *OTHERS]) + "\n", [-3, *NUMBERS[1:]]),
        ("\n".join(["03", *OTHERS]) + "\n", ["03", *OTHERS]),
        ("\n".join(["a\u2028b", *OTHERS]) + "\n", ["a\u2028b", *OTHERS]),
        ("\n".join(["a\rb", *OTHERS]) + "\n", ["a\rb", *OTHERS]),
    ],
    ids=["strings", "windows", "integers", "leading zero", "odd separator", "lone return"],
)
def test_a_file_of_ids_has_one_on_each_line(tmp_path: Path, text: str, ids: list[int] | list[str]) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    (tmp_path / "ids.txt").write_text(text, encoding="utf-8", newline="")
    assert_holds(read_vectors(tmp_path / "rows.npy", ids=tmp_path / "ids.txt"), ids)


def test_given_ids_go_before_those_of_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array(NAMES))
    np.savez(tmp_path / "rows.npz", vectors=ROWS, ids=np.array(NUMBERS))
    assert_holds(read_vectors(tmp_path / "rows.npz", ids=tmp_path / "ids.npy"), NAMES)
    path = write_parquet(tmp_path / "rows.parquet", embedding=fixed(ROWS))
    assert_holds(read_vectors(path, ids=tmp_path / "ids.npy"), NAMES)
