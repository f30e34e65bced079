"""Matrices and features that papers publish: every format gives the same numbers, mapped or read once, without code."""

import pickle
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from numpy.typing import NDArray
from safetensors.numpy import save_file

import unhub
from tests.array_files import OTHER, write_h5, write_mat_73, write_torch
from tests.command import fail, succeed
from unhub.files import mat_files, read_vectors
from unhub.files.mat_files import open_mat, read_struct

pytestmark = pytest.mark.once

SIMS = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
LARGE = np.random.default_rng(2).normal(size=(1500, 1000))  # 12 MB
torch = pytest.importorskip("torch", reason="torch is not installed: the extra train has it")


Writer = Callable[[Path, dict[str, NDArray[Any]]], object]
WRITERS: dict[str, tuple[str, Writer]] = {
    "npz": ("m.npz", lambda path, arrays: np.savez(path, **arrays)),  # type: ignore[arg-type]
    "npz compressed": ("m.npz", lambda path, arrays: np.savez_compressed(path, **arrays)),  # type: ignore[arg-type]
    "safetensors": ("m.safetensors", lambda path, arrays: save_file(arrays, path)),
    "mat 5": ("m.mat", lambda path, arrays: scipy.io.savemat(path, arrays)),
    "mat 7": ("m.mat", lambda path, arrays: scipy.io.savemat(path, arrays, do_compression=True)),
    "mat 7.3": ("m.mat", write_mat_73),
    "h5": ("m.h5", write_h5),
    "hdf5 compressed": ("m.HDF5", lambda path, arrays: write_h5(path, arrays, compression="gzip", shuffle=True)),
    "torch": ("m.pt", write_torch),
    "torch old": (
        "m.pth",
        lambda path, arrays: write_torch(path, arrays, zipped=False),
    ),
}
MAPPED = ("safetensors", "mat 5", "mat 7.3", "h5")


@pytest.fixture(params=WRITERS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def write(folder: Path, form: str, **arrays: NDArray[Any]) -> Path:
    name, writer = WRITERS[form]
    writer(folder / name, arrays)
    return folder / name


def test_the_only_matrix_of_a_file_is_read_as_it_is(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, sims=SIMS, number=np.ones((1, 1)), labels=np.arange(9.0)[None])
    matrix = unhub.read_matrix(path)
    assert matrix.shape == (9, 6)
    assert matrix.item_ids.tolist() == list(range(6))
    np.testing.assert_array_equal(np.asarray(matrix.matrix), SIMS)
    np.testing.assert_array_equal(np.asarray(unhub.read_matrix(path, transposed=True).matrix), SIMS.T)
    np.testing.assert_array_equal(np.asarray(read_vectors(path).rows[:]), SIMS)
    assert isinstance(matrix.matrix.base, np.memmap) or isinstance(matrix.matrix, np.memmap) or form not in MAPPED


def test_of_several_arrays_one_is_named(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, sims=SIMS, others=OTHER)
    with pytest.raises(ValueError, match=rf"{path.name}: holds .*sims \(9, 6\).*; name one, as in {path.name}#\w+"):
        unhub.read_matrix(path)
    with pytest.raises(ValueError, match=r"others \(4, 6\)"):
        read_vectors(path)
    for given in (unhub.read_matrix(path, "others"), unhub.read_matrix(f"{path}#others")):
        np.testing.assert_array_equal(np.asarray(given.matrix), OTHER)
    np.testing.assert_array_equal(np.asarray(read_vectors(f"{path}#sims").rows[:]), SIMS)
    with pytest.raises(ValueError, match=r"holds no array 'sim', did you mean 'sims'\?; it holds .*others \(4, 6\)"):
        unhub.read_matrix(path, "sim")
    with pytest.raises(ValueError, match="name is 'others', and the path names 'sims'; give one of the two"):
        unhub.read_matrix(f"{path}#sims", "others")


def test_vectors_and_their_ids_are_found_by_their_names(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, other=OTHER, vectors=SIMS, ids=np.arange(9, dtype=np.int32) * 7 + 3)
    assert read_vectors(path).ids.tolist() == [3, 10, 17, 24, 31, 38, 45, 52, 59]
    assert read_vectors(f"{path}#other").ids.tolist() == [0, 1, 2, 3]


def test_a_fit_on_a_matrix_that_was_read_is_that_on_the_matrix(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, sims=SIMS)
    read, given = (unhub.fit(one, method="csls:k=3") for one in (unhub.read_matrix(path), unhub.Dense(SIMS)))
    assert isinstance(read, unhub.Bias) and isinstance(given, unhub.Bias)
    np.testing.assert_array_equal(read.bias, given.bias)


def test_a_plain_array_is_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", SIMS)
    assert isinstance(unhub.read_matrix(tmp_path / "m.npy").matrix, np.memmap)
    np.save(tmp_path / "deep.npy", np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match=r"deep\.npy: a matrix \(queries, items\) is needed, .* shape \(2, 3, 4\)"):
        unhub.read_matrix(tmp_path / "deep.npy")
    with pytest.raises(ValueError, match=r"holds one array, which has no name; leave out 'sims'"):
        read_vectors(f"{tmp_path / 'm.npy'}#sims")


def test_a_tensor_may_be_alone_nested_or_of_bfloat16(tmp_path: Path) -> None:
    alone = torch.nn.Parameter(torch.from_numpy(SIMS))
    torch.save(alone, tmp_path / "alone.pt")
    np.testing.assert_array_equal(np.asarray(unhub.read_matrix(tmp_path / "alone.pt").matrix), SIMS)
    nested = {"epoch": 3, "out": [{"sims": torch.from_numpy(SIMS).T}, torch.ones(3)], "names": ["a", "b"]}
    torch.save(nested, tmp_path / "nested.pt")
    np.testing.assert_array_equal(np.asarray(unhub.read_matrix(tmp_path / "nested.pt", "out/0/sims").matrix), SIMS.T)
    torch.save({"sims": alone.detach().bfloat16()}, tmp_path / "half.pt")
    np.testing.assert_allclose(np.asarray(unhub.read_matrix(tmp_path / "half.pt").matrix), SIMS, rtol=0.01)
    np.testing.assert_allclose(read_vectors(tmp_path / "half.pt").block(0, 9), SIMS, rtol=0.01)
    torch.save({"sims": alone.detach().to_sparse(), "z": alone.detach().to(torch.complex64)}, tmp_path / "odd.pt")
    with pytest.raises(ValueError, match=r"sims \(9, 6\) not of numbers.*none is a matrix of real numbers"):
        unhub.read_matrix(tmp_path / "odd.pt")


def test_datasets_in_groups_are_named_with_them(tmp_path: Path) -> None:
    write_h5(tmp_path / "m.h5", {"test/sims": SIMS, "train/sims": OTHER})
    with pytest.raises(
        ValueError, match=r"holds test/sims \(9, 6\), train/sims \(4, 6\); name one, as in m\.h5#test/s"
    ):
        unhub.read_matrix(tmp_path / "m.h5")
    np.testing.assert_array_equal(np.asarray(unhub.read_matrix(f"{tmp_path / 'm.h5'}#train/sims").matrix), OTHER)


@pytest.mark.parametrize("form", ["npz compressed", "mat 7", "hdf5 compressed"])
def test_a_compressed_matrix_is_in_memory_once(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, sims=LARGE)
    unhub.read_matrix(path)  # imports and caches
    tracemalloc.start()
    matrix = unhub.read_matrix(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert matrix.shape == LARGE.shape
    assert peak < 1.3 * LARGE.nbytes


@pytest.mark.parametrize("form", ["h5", "mat 5", "mat 7.3", "safetensors", "torch"])
def test_a_matrix_that_lies_in_one_piece_takes_no_memory(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, sims=LARGE)
    unhub.read_matrix(path)
    tracemalloc.start()
    unhub.read_matrix(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.1 * LARGE.nbytes


class Bomb:
    """What runs code when it is unpickled: it makes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


def test_no_pickle_is_ever_run(tmp_path: Path) -> None:
    bomb, made = Bomb(tmp_path / "boom"), np.array([[None]], object)
    made[0, 0] = bomb
    for name in ("b.pkl", "b.pickle", "plain.pth"):
        (tmp_path / name).write_bytes(pickle.dumps(bomb))
    np.save(tmp_path / "b.npy", made, allow_pickle=True)
    np.savez(tmp_path / "b.npz", vectors=made)
    torch.save({"vectors": torch.ones(2, 2), "bomb": bomb}, tmp_path / "b.pt")
    torch.save({"vectors": bomb}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    torch.save({"vectors": SIMS}, tmp_path / "numpy.pt")
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 8
    for name in names:
        for read in (read_vectors, unhub.read_matrix):
            with pytest.raises(ValueError, match=rf"{name}: holds .*would run any code in the file; if you trust"):
                read(tmp_path / name)
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize(
    ("write_odd", "words"),
    [
        (
            lambda path: scipy.io.savemat(path, {"names": np.array(["a", 2], object)}),
            "names is of MATLAB's class cell, not",
        ),
        (lambda path: scipy.io.savemat(path, {"text": "abc", "n": [[{}]]}), "none is a matrix of real numbers"),
        (lambda path: write_mat_73(path, {}), "names holds references or texts"),
        (lambda path: scipy.io.savemat(path, {}), "holds no arrays"),
    ],
)
def test_cells_and_texts_of_matlab_are_said_to_be_no_numbers(
    tmp_path: Path, write_odd: Callable[[Path], object], words: str
) -> None:
    write_odd(tmp_path / "odd.mat")
    with pytest.raises(ValueError, match=rf"odd\.mat: .*{words}"):
        unhub.read_matrix(tmp_path / "odd.mat")


@pytest.mark.parametrize("writer", [write_mat_73, lambda path, arrays: scipy.io.savemat(path, {"names": ["a", "bc"]})])
def test_a_cell_that_is_named_is_refused_in_words(tmp_path: Path, writer: Writer) -> None:
    writer(tmp_path / "odd.mat", {"sims": SIMS})
    with pytest.raises(ValueError, match=r"odd\.mat: .*names (holds|is of)"):
        unhub.read_matrix(tmp_path / "odd.mat", "names")


def test_matrices_of_every_type_of_matlab_are_those_that_scipy_reads(tmp_path: Path) -> None:
    """Small numbers lie in the tag of their element, large ones after it; scipy is the second opinion."""
    for number, dtype in enumerate((">f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")):
        for shape in ((1, 1), (2, 1), (3, 2), (0, 3), (2, 3, 4), (40, 50)):
            given = np.arange(np.prod(shape)).reshape(shape).astype(dtype) * (3 if number > 3 else 1) % 120
            for packed in (False, True):
                path = tmp_path / "m.mat"
                scipy.io.savemat(path, {"text": "words", "m": given, "c": given + 1j}, do_compression=packed)
                theirs = scipy.io.loadmat(path)["m"]
                ours = np.asarray(open_mat(path).read("m"))
                assert ours.shape == theirs.shape
                np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match=r"m\.mat: c is complex numbers, not a matrix of real numbers"):
        unhub.read_matrix(tmp_path / "m.mat", "c")


@pytest.mark.parametrize("packed", [False, True])
def test_structs_are_those_that_scipy_reads(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "s.mat"
    names = ["a.jpg", "B\u00e4r.jpg", "\u718a \U0001f43b", ""]
    kinds = [np.uint8, np.int16, np.float32, np.float64]
    fields = [("name", object), ("class", object), ("box", object)]
    rows = [
        (name, kind(3 + k), np.arange(6.0).reshape(3, 2) + k)
        for k, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    scipy.io.savemat(path, {"m": np.eye(2), "s": np.array(rows, fields).reshape(2, 2)}, do_compression=packed)
    theirs = scipy.io.loadmat(path)["s"].ravel(order="F")
    ours = read_struct(path, "s")
    assert list(ours) == ["name", "class", "box"]
    assert ours["name"] == [str(one["name"][0]) if one["name"].size else "" for one in theirs]
    assert ours["class"] == [one["class"].item() for one in theirs]
    for box, one in zip(ours["box"], theirs, strict=True):
        np.testing.assert_array_equal(box, one["box"])


def test_structs_of_version_7_3_are_said_to_be_unread(tmp_path: Path) -> None:
    write_mat_73(tmp_path / "s.mat", {"sims": SIMS})
    with pytest.raises(ValueError, match=r"s\.mat: is a \.mat file of version 7\.3, whose structs are not read"):
        read_struct(tmp_path / "s.mat", "sims")


def test_a_struct_that_unfolds_beyond_measure_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mat_files, "MOST_STRUCT_BYTES", 1 << 20)
    scipy.io.savemat(tmp_path / "s.mat", {"s": {"a": np.zeros(1 << 21, np.uint8)}}, do_compression=True)
    with pytest.raises(ValueError, match=r"a struct takes more than 1,048,576 bytes"):
        read_struct(tmp_path / "s.mat", "s")


def test_a_file_of_matlab_4_is_said_to_be_too_old(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "old.mat", {"sims": SIMS}, format="4")
    with pytest.raises(ValueError, match=r"old\.mat: .*MATLAB 5 to 7\.3.*if it is older, save it again with -v7"):
        unhub.read_matrix(tmp_path / "old.mat")


def test_a_dataset_that_was_never_written_takes_no_memory(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("sims", (10**6, 10**6), np.float32, chunks=(1000, 1000))
    with pytest.raises(ValueError, match=r"m\.h5: .*sims should have 4,000,000,000,000 bytes, and the file has 0"):
        unhub.read_matrix(tmp_path / "m.h5")


@pytest.mark.parametrize(("module", "name"), [("h5py", "m.h5"), ("torch", "m.pt")])
def test_an_absent_library_gives_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    (tmp_path / name).write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {module}: .*\[(matrices|train)\]"):
        unhub.read_matrix(tmp_path / name)


@pytest.mark.parametrize("name", ["none.mat", "none.h5", "none.pt", "none.pkl", "none.mat#sims", "none.csv"])
def test_a_file_that_is_not_there_is_not_found(tmp_path: Path, name: str) -> None:
    for read in (unhub.read_matrix, read_vectors):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / name)


def test_a_file_may_have_the_mark_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "run #3"
    folder.mkdir()
    np.savez(folder / "a#b.npz", sims=SIMS, others=OTHER)
    np.testing.assert_array_equal(np.asarray(unhub.read_matrix(f"{folder}/a#b.npz#others").matrix), OTHER)


def test_commands_take_an_array_of_a_file_by_its_name(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "f.mat", {"images": SIMS, "texts": OTHER})
    fit = ("fit", "--items", "f.mat#images", "--bank", "f.mat#texts", "--method", "nnn", "--set", "k=2")
    succeed(tmp_path, *fit, "-o", "out.unhub")
    made, expected = unhub.load(tmp_path / "out.unhub"), unhub.fit(SIMS, OTHER, method="nnn:k=2")
    assert isinstance(made, unhub.Bias) and isinstance(expected, unhub.Bias)
    np.testing.assert_allclose(made.bias, expected.bias, atol=1e-6)
    said = fail(tmp_path, "fit", "--items", "f.mat", "--bank", "f.mat#texts", "--method", "nnn", "-o", "other.unhub")
    assert (
        said.startswith("--items: f.mat: ")
        and "holds images (9, 6), texts (4, 6); name one, as in f.mat#images" in said
    )
    (tmp_path / "a:b.mat").write_bytes((tmp_path / "f.mat").read_bytes())
    succeed(tmp_path, "fit", "--items", "a:b.mat#images", *fit[3:], "-o", "colon.unhub")
    held = (tmp_path / "f.mat").read_bytes()
    said = fail(tmp_path, *fit, "-o", "f.mat", "--overwrite")
    assert "f.mat is an input of this command; name another file" in said
    assert (tmp_path / "f.mat").read_bytes() == held
