"""Vector files that cannot be read: each says what was found, and what is wanted."""

import errno
import json
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from numpy.typing import NDArray
from pyarrow.feather import write_feather
from safetensors.numpy import save_file

from tests.vector_files import NAMES, NUMBERS, ROWS, fixed, write_arrow, write_clip, write_parquet
from unhub.files import READERS, read_texts, read_vectors
from unhub.files.numpy_files import readable

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", ["none.npy", "none.npz", "none.parquet", "none.safetensors", "none.xyz", "none"])
def test_a_file_that_is_not_there_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        read_vectors(tmp_path / name)


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("content", [b"", b"\x93NUM", b"some text, not numbers" * 9, pickle.dumps({"a": 1})])
def test_a_file_of_another_kind_is_named_in_the_error(tmp_path: Path, suffix: str, content: bytes) -> None:
    (tmp_path / f"bad{suffix}").write_bytes(content)
    pickled = {".npy": "holds pickled objects", ".pt": "holds more than tensors", ".pth": "holds more than tensors"}
    said = pickled.get(suffix, "") if content.startswith(b"\x80") else ""
    with pytest.raises(ValueError, match=f"bad{suffix}: {said or 'truncated or not'}"):
        read_vectors(tmp_path / f"bad{suffix}")


@pytest.mark.parametrize("suffix", READERS)
def test_a_truncated_file_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"cut{suffix}"
    rows = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    writers: dict[str, Callable[[], object]] = {
        ".npy": lambda: np.save(path, rows),
        ".npz": lambda: np.savez(path, vectors=rows),
        ".parquet": lambda: write_parquet(path, id=range(500), embedding=fixed(rows)),
        ".arrow": lambda: write_arrow(path, embedding=fixed(rows)),
        ".feather": lambda: write_feather(pa.table({"embedding": fixed(rows)}), path),
        ".safetensors": lambda: save_file({"vectors": rows}, path),
        ".mat": lambda: scipy.io.savemat(path, {"vectors": rows}),
    }
    if suffix in (".h5", ".hdf5"):
        with h5py.File(path, "w") as file:
            file["vectors"] = rows
    elif suffix in (".pt", ".pth"):
        torch = pytest.importorskip("torch", reason="torch is not installed: the extra train has it")
        torch.save(torch.from_numpy(rows), path)
    else:
        writers[suffix]()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=f"cut{suffix}: truncated or not"):
        read_vectors(path)


def test_an_unknown_suffix_lists_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,2")
    (tmp_path / "rows.xyz").touch()
    with pytest.raises(ValueError, match=r"rows\.xyz: no reader for .*\.xyz.*\.npy, \.parquet, \.arrow, "):
        read_vectors(tmp_path / "rows.xyz")
    with pytest.raises(ValueError, match=r"rows\.csv: holds lines, not vectors; if .* else one of \.npy, "):
        read_vectors(tmp_path / "rows.csv")


@pytest.mark.parametrize("name", ["log.jsonl", "log.csv", "log.parquet", "days"])
def test_a_query_log_in_place_of_vectors_is_answered_with_log_add(tmp_path: Path, name: str) -> None:
    log = tmp_path / name
    if log.suffix == ".parquet":
        pq.write_table(pa.table({"query": ["a dog"], "ids": [[3, 7]]}), log)
    elif log.suffix:
        log.touch()
    else:
        log.mkdir()
        (log / "1.jsonl").touch()
    with pytest.raises(
        ValueError, match=rf"^{log}: [^\n]*if it is a query log, give the folder that `unhub log add {log}"
    ):
        read_vectors(log)
    write_parquet(tmp_path / "x.parquet", id=["a"])
    with pytest.raises(ValueError, match=r"lists of floating numbers$"):
        read_vectors(tmp_path / "x.parquet")


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    objects = np.array([[1, "a"]], object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "objects.npz", vectors=objects)
    for name in ("objects.npy", "objects.npz"):
        with pytest.raises(ValueError, match=rf"{name}: holds pickled objects.* would run any code.*numpy\.save"):
            read_vectors(tmp_path / name)


@pytest.mark.parametrize("rows", [np.ones(3), np.ones((2, 2, 2)), np.ones((0, 4)), np.array([["a"]])])
def test_what_is_not_a_matrix_of_numbers_is_named_in_the_error(tmp_path: Path, rows: NDArray[np.generic]) -> None:
    np.save(tmp_path / "odd.npy", rows)
    with pytest.raises(ValueError, match=r"odd\.npy (must|is empty)"):
        read_vectors(tmp_path / "odd.npy")


def test_ids_must_match_the_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    bad = {
        "a\nb\n": "has 2 ids, 13 are needed",
        "a\n" * 13: "repeated ids, for example",
        "a\n\nb": "line 2 is empty",
        "": "line 1",
    }
    for text, words in bad.items():
        (tmp_path / "ids.txt").write_text(text)
        with pytest.raises(ValueError, match=rf"ids\.txt.* {words}"):
            read_vectors(tmp_path / "rows.npy", ids=tmp_path / "ids.txt")
    (tmp_path / "ids.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"ids\.txt: ids must be UTF-8"):
        read_vectors(tmp_path / "rows.npy", ids=tmp_path / "ids.txt")


def test_npz_without_vectors_says_what_it_holds(tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", images=ROWS, texts=ROWS)
    with pytest.raises(
        ValueError, match=r"odd\.npz: holds images \(13, 4\), texts \(13, 4\); name one, as in odd\.npz#"
    ):
        read_vectors(tmp_path / "odd.npz")
    np.save(tmp_path / "rows.npy", ROWS)
    (tmp_path / "rows.npy").rename(tmp_path / "rows.npz")
    with pytest.raises(ValueError, match=r"rows\.npz: is a \.npy file"):
        read_vectors(tmp_path / "rows.npz")


def test_npz_with_a_damaged_member_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("vectors.npy", b"\x93NUMPY\x01\x00 but no more")
    with pytest.raises(ValueError, match=r"odd\.npz: truncated or not"):
        read_vectors(tmp_path / "odd.npz")


def test_npz_with_bytes_gone_names_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", vectors=ROWS)
    content = (tmp_path / "odd.npz").read_bytes()
    (tmp_path / "odd.npz").write_bytes(content[:40] + content[60:])
    with pytest.raises(ValueError, match=r"odd\.npz: truncated or not"):
        read_vectors(tmp_path / "odd.npz")


def test_npz_with_a_password_names_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", vectors=ROWS)
    content = bytearray((tmp_path / "odd.npz").read_bytes())
    for flags in (6, content.find(b"PK\x01\x02") + 8):
        content[flags] |= 1
    (tmp_path / "odd.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"odd\.npz: truncated or not .*encrypted"):
        read_vectors(tmp_path / "odd.npz")


@pytest.mark.parametrize("rows", [10**12, 12, 14])
def test_npz_that_claims_another_size_is_refused_before_room_is_made(tmp_path: Path, rows: int) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    content = (
        (tmp_path / "rows.npy").read_bytes().replace(b"(13, 4), }            ", f"({rows}, 4), }}".ljust(22).encode())
    )
    content = content[:128].replace(b"\n", b" ")[:127] + b"\n" + content[-ROWS.nbytes :]
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("vectors.npy", content)
    with pytest.raises(ValueError, match=rf"odd\.npz: .*should have {16 * rows} bytes and has 208"):
        read_vectors(tmp_path / "odd.npz")


def test_npz_with_an_array_twice_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.write(tmp_path / "rows.npy", "vectors.npy")
        archive.write(tmp_path / "rows.npy", "vectors")
    with pytest.raises(ValueError, match=r"odd\.npz: .*holds 'vectors' twice"):
        read_vectors(tmp_path / "odd.npz")


def test_npy_with_a_broken_header_names_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "odd.npy", ROWS)
    content = (tmp_path / "odd.npy").read_bytes()
    for broken in (content.replace(b"}", b" ", 1), content.replace(b"'shape'", b"'shape ", 1)):
        (tmp_path / "odd.npy").write_bytes(broken)
        with pytest.raises(ValueError, match=r"odd\.npy: truncated or not"):
            read_vectors(tmp_path / "odd.npy")


def test_an_error_of_the_system_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), readable(tmp_path, "a file"):
        raise PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(ValueError, match="truncated or not a file"), readable(tmp_path, "a file"):
        raise OSError(errno.EINVAL, "Invalid argument")


def test_parquet_with_a_column_twice_or_a_text_that_is_not_utf8_names_the_file(tmp_path: Path) -> None:
    column = pa.array([[1.0, 2.0]])
    pq.write_table(pa.table([column, column], names=["embedding", "embedding"]), tmp_path / "odd.parquet")
    with pytest.raises(ValueError, match=r"odd\.parquet: has columns .*`embedding` must occur only once$"):
        read_vectors(tmp_path / "odd.parquet")
    names = pa.array([b"caf\xe9"], pa.binary()).view(pa.string())
    for table, read in (({"embedding": column, "id": names}, read_vectors), ({"id": [1], "text": names}, read_texts)):
        with pytest.raises(ValueError, match=r"odd\.parquet: .*UTF8"):
            read(write_parquet(tmp_path / "odd.parquet", **table))


@pytest.mark.parametrize(("dtype", "size"), [("BF16", 2), ("F32", 4), ("BOOL", 1), ("F8_E4M3", 1)])
def test_safetensors_ids_that_are_no_integers_are_refused(tmp_path: Path, dtype: str, size: int) -> None:
    vectors = {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}
    ids = {"dtype": dtype, "shape": [2], "data_offsets": [8, 8 + 2 * size]}
    header = json.dumps({"vectors": vectors, "ids": ids}).encode()
    path = tmp_path / "odd.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(range(8 + 2 * size)))
    with pytest.raises(ValueError, match=rf"odd\.safetensors: the tensor `ids` is of {dtype}; it must be of integers"):
        read_vectors(path)


def test_ids_of_an_embedded_folder_must_be_of_one_kind(tmp_path: Path) -> None:
    np.save(tmp_path / "embeddings.npy", ROWS[:2])
    (tmp_path / "manifest.json").write_text('{"format": 1, "rows": 2, "dimensions": 4}')
    for ids in ([1, "2"], ["1", 2], [1.5, 2], [[1], [2]], {"a": 1}, 3):
        (tmp_path / "ids.json").write_text(json.dumps(ids))
        with pytest.raises(ValueError, match=r"ids\.json: corrupted"):
            read_vectors(tmp_path)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"id": NUMBERS, "text": NAMES}, r"has columns \['id', 'text'\]; `embedding` is required, or one of lists of"),
        ({"id": NUMBERS, "embedding": NUMBERS}, "holds int64; lists of numbers are required"),
        ({"id": [1, 2], "embedding": [[1.0, 2.0], [3.0]]}, "row 1 .* has 1 numbers, row 0 has 2"),
        ({"id": [1, 2], "embedding": [[1.0, 2.0], None]}, "row 1 of the column `embedding` is empty"),
        ({"id": [1, 2], "embedding": [[1.0, 2.0], [3.0, None]]}, "row 1 of the column `embedding` has an empty place"),
        ({"id": [1, None], "embedding": [[1.0], [2.0]]}, "row 1 of the column `id` is empty"),
        ({"id": [1, 1], "embedding": [[1.0], [2.0]]}, "repeated ids"),
        ({"id": [1, 2], "embedding": pa.array([[], []], pa.list_(pa.float32()))}, r"is empty: shape \(2, 0\)"),
        ({"id": [1, 2], "embedding": [["a"], ["b"]]}, "lists of numbers are required"),
        ({"id": [1.0, 2.0], "embedding": [[1.0], [2.0]]}, "has ids of type float64; ids must be integers or strings"),
        ({"id": pa.array([], pa.int64()), "embedding": pa.array([], pa.list_(pa.float32()))}, "is empty"),
    ],
)
def test_a_parquet_file_says_what_is_wrong_with_it(tmp_path: Path, columns: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=rf"odd\.parquet.*{words}"):
        read_vectors(write_parquet(tmp_path / "odd.parquet", **columns))


def test_without_pyarrow_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "rows.parquet", id=NUMBERS, embedding=fixed(ROWS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'unhub\[parquet\]'"):
        read_vectors(path)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"a": ROWS, "b": ROWS}, r"holds a \(13, 4\), b \(13, 4\); name one, as in odd\.safetensors#a"),
        ({"a": np.ones(3)}, "must be a matrix"),
        ({"vectors": np.ones((2, 2), np.bool_)}, "tensors of BOOL cannot be read"),
        ({"vectors": np.ones(3)}, "must be a matrix"),
        ({"vectors": np.ones((0, 3))}, "is empty"),
    ],
)
def test_a_safetensors_file_says_what_is_wrong_with_it(
    tmp_path: Path, tensors: dict[str, NDArray[np.generic]], words: str
) -> None:
    save_file(tensors, tmp_path / "odd.safetensors")
    with pytest.raises(ValueError, match=rf"odd\.safetensors.*{words}"):
        read_vectors(tmp_path / "odd.safetensors")


def test_a_clip_folder_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a folder is read if it holds .* or img_emb or text_emb"):
        read_vectors(tmp_path)
    (tmp_path / "img_emb").mkdir()
    with pytest.raises(ValueError, match=r"holds no img_emb_0\.npy"):
        read_vectors(tmp_path)
    np.save(tmp_path / "img_emb" / "img_emb_0.npy", ROWS)
    np.save(tmp_path / "img_emb" / "img_emb_1.npy", ROWS[0])
    with pytest.raises(ValueError, match=r"img_emb_1\.npy: must be a matrix"):
        read_vectors(tmp_path)
    np.save(tmp_path / "img_emb" / "img_emb_1.npy", ROWS[:, :2])
    with pytest.raises(ValueError, match="img_emb: parts have different numbers of dimensions"):
        read_vectors(tmp_path)


def test_metadata_must_match_the_parts(tmp_path: Path) -> None:
    folder = write_clip(tmp_path / "clip", metadata=lambda span: {"key": NUMBERS[span][:1]})
    with pytest.raises(ValueError, match=r"metadata_0\.parquet: has 1 rows, the embeddings of that part 3"):
        read_vectors(folder)
    (folder / "metadata" / "metadata_9.parquet").unlink()
    with pytest.raises(ValueError, match="holds no metadata for the part 9"):
        read_vectors(folder)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["0", "2"], r"img_emb: holds no img_emb_1\.npy but img_emb_2\.npy"),
        (["3"], r"img_emb: holds no img_emb_0\.npy but img_emb_3\.npy"),
        (["00", "01", "03"], r"img_emb: holds no img_emb_02\.npy but img_emb_03\.npy"),
        (["0", "1", "00", "01"], r"img_emb: img_emb_00\.npy and img_emb_0\.npy are numbered in two ways"),
        (["00", "1"], r"img_emb: img_emb_00\.npy and img_emb_1\.npy are numbered in two ways"),
    ],
)
def test_parts_of_a_clip_folder_that_are_not_all_of_one_run_are_an_error(
    tmp_path: Path, names: list[str], words: str
) -> None:
    (tmp_path / "img_emb").mkdir()
    for name in names:
        np.save(tmp_path / "img_emb" / f"img_emb_{name}.npy", ROWS)
    with pytest.raises(ValueError, match=words):
        read_vectors(tmp_path)


def test_metadata_of_another_run_are_an_error(tmp_path: Path) -> None:
    folder = write_clip(tmp_path / "clip", metadata=lambda span: {"key": NUMBERS[span]})
    write_parquet(folder / "metadata" / "metadata_00.parquet", key=[1])
    with pytest.raises(ValueError, match=r"metadata: metadata_00\.parquet and metadata_0\.parquet are numbered"):
        read_vectors(folder)
    (folder / "metadata" / "metadata_00.parquet").unlink()
    (folder / "img_emb" / "img_emb_10.npy").unlink()
    with pytest.raises(ValueError, match=r"metadata_10\.parquet: there are no embeddings of that part"):
        read_vectors(folder)


def test_a_clip_folder_of_both_kinds_must_be_named(tmp_path: Path) -> None:
    write_clip(tmp_path, "img_emb")
    write_clip(tmp_path, "text_emb")
    with pytest.raises(ValueError, match=r"holds both img_emb and text_emb; name one of them: .*img_emb"):
        read_vectors(tmp_path)
    assert len(read_vectors(tmp_path / "text_emb")) == 13
