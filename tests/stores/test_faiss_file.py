"""FAISS files: ids of every origin, kinds and codes described and carried over, effort, whole files or none, errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stores.engines import filled, rows
from unhub.arrays import Float32, unit
from unhub.errors import ArgumentError
from unhub.stores.engines import store
from unhub.stores.faiss_file import FaissFile
from unhub.stores.store import StoredItems

pytestmark = pytest.mark.once
faiss = pytest.importorskip("faiss")

ODD = ["it's", 'a"b', "new\nline", "7", "é", ""]


def written(path: Path, factory: str = "Flat", count: int = 600, inner: bool = False, ids: Any = None) -> Float32:
    """Write an index as a user of FAISS would, and return its rows."""
    held = rows(count)
    index = faiss.index_factory(16, factory, faiss.METRIC_INNER_PRODUCT if inner else faiss.METRIC_L2)
    index.train(held)
    if ids is None:
        index.add(held)
    else:
        index.add_with_ids(held, np.asarray(ids))
    faiss.write_index(index, str(path))
    return held


def opened(folder: Path, options: str = "", name: str = "photos") -> FaissFile:
    found = store(f"faiss:{folder}/{name}.index{options}")
    assert isinstance(found, FaissFile)
    return found


@pytest.mark.parametrize("factory", ["IDMap,Flat", "IDMap2,HNSW8", "IVF4,Flat", "IDMap,IVF4,SQ8"])
def test_ids_of_the_index_are_read(tmp_path: Path, factory: str) -> None:
    ids = np.random.default_rng(0).permutation(600) * 3 - 5
    held = written(tmp_path / "photos.index", factory, ids=ids)
    photos = opened(tmp_path)
    read = photos.vectors()
    order = np.argsort(ids)
    assert np.array_equal(np.sort(read.ids), ids[order])
    assert np.allclose(np.asarray(read.rows)[np.argsort(read.ids)], held[order], atol=0.05)
    assert photos.search(held[:20], 1, effort=100).ids.ravel().tolist() == ids[:20].tolist()
    assert photos.fetch(np.array([ids[5], -1, ids[2]])).ids.tolist() == [ids[5], ids[2]]
    assert photos.search(held[:2], 2, among=ids[[1, 7]]).ids[1, 0] == ids[1]


@pytest.mark.parametrize("factory", ["Flat", "HNSW8", "SQ8", "IVF4,Flat"])
def test_an_index_without_ids_numbers_its_items(tmp_path: Path, factory: str) -> None:
    held = written(tmp_path / "photos.index", factory)
    photos = opened(tmp_path)
    assert [batch.ids.tolist() for batch in photos.batches(rows=400)] == [list(range(400)), list(range(400, 600))]
    assert photos.search(held[:20], 1, effort=100).ids.ravel().tolist() == list(range(20))


@pytest.mark.parametrize(("lines", "kind"), [(range(1000, 1600), "i"), ([f"p/{i}.jpg" for i in range(600)], "U")])
def test_ids_of_a_file_name_the_items_in_order(tmp_path: Path, lines: Any, kind: str) -> None:
    held = written(tmp_path / "photos.index", "IVF4,Flat")
    (tmp_path / "ids.txt").write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")
    photos = opened(tmp_path, f"?ids={tmp_path}/ids.txt")
    assert photos.search(held[:3], 1, effort=4).ids.ravel().tolist() == list(lines)[:3]
    (found,) = photos.batches(rows=600)
    assert found.ids.dtype.kind == kind and np.array_equal(found.rows, held)


def test_a_file_of_ids_that_does_not_fit_is_one_error(tmp_path: Path) -> None:
    written(tmp_path / "photos.index")
    ids = tmp_path / "ids.txt"
    with pytest.raises(ArgumentError, match=r"ids.txt cannot be read"):
        opened(tmp_path, f"?ids={ids}").describe()
    ids.write_text("1\n2\n")
    with pytest.raises(ArgumentError, match="its list of ids has 2 ids, 600 are needed"):
        opened(tmp_path, f"?ids={ids}").describe()
    ids.write_bytes(b"\xff\xfe")
    with pytest.raises(ArgumentError, match=r"ids.txt cannot be read"):
        opened(tmp_path, f"?ids={ids}").describe()


@pytest.mark.parametrize(
    ("factory", "kind", "codes", "rescored"),
    [
        ("Flat", "flat", "none", True),
        ("HNSW8", "hnsw", "none", True),
        ("IVF4,Flat", "ivf", "none", True),
        ("SQ8", "flat", "int8", False),
        ("SQfp16", "flat", "float16", False),
        ("HNSW8,SQ8", "hnsw", "int8", False),
        ("IVF4,PQ4x4", "ivf", "pq", False),
        ("PQ4x4,RFlat", "flat", "pq", True),
        ("IVF4,RaBitQ", "ivf", "binary", False),
        ("NSG8", "other", "none", True),
    ],
)
def test_an_index_is_described_and_carried_over(
    tmp_path: Path, factory: str, kind: str, codes: str, rescored: bool
) -> None:
    held = written(tmp_path / "photos.index", factory)
    photos = opened(tmp_path)
    about = photos.describe()
    assert (about.index, about.codes, about.rescored) == (kind, codes, rescored)
    assert (about.metric, about.dimensions, about.count) == ("l2", 16, 600)
    other = photos.sibling("photos_unhub_1")
    other.create(20, "dot", like=photos)
    other.write(StoredItems(np.arange(600), rows(600, 20), None))
    assert not other.exists()  # until it is whole
    other.finish()
    like = other.describe()
    assert (like.dimensions, like.metric, like.count) == (20, "dot", 600)
    if factory != "NSG8":  # which FAISS cannot name
        assert (like.index, like.codes, like.settings["factory"]) == (kind, codes, about.settings["factory"])
    assert photos.describe().count == len(held)


def test_effort_is_for_one_search_alone(tmp_path: Path) -> None:
    held = written(tmp_path / "photos.index", "IVF64,Flat", count=3000)
    photos, queries = opened(tmp_path), rows(50, seed=1)
    wanted = np.argsort(np.square(queries[:, None] - held[None]).sum(axis=2), axis=1)[:, :10]
    shares = [float((photos.search(queries, 10, effort=effort).ids == wanted).mean()) for effort in (64, 1, None, 64)]
    assert shares[0] == shares[3] > 0.99 and shares[1] == shares[2] < 0.7
    assert photos.describe().settings["nprobe"] == "1"


@pytest.mark.parametrize("factory", ["L2norm,Flat", "L2norm,HNSW8"])
def test_rows_that_the_index_scales_are_compared_by_cosine(tmp_path: Path, factory: str) -> None:
    held = written(tmp_path / "photos.index", factory, inner=True)
    photos, queries = opened(tmp_path), rows(3, seed=1)
    assert photos.describe().metric == "cosine"
    cosines = unit(queries) @ unit(held).T
    assert np.allclose(photos.search(queries, 1, effort=600).values[:, 0], cosines.max(axis=1), atol=1e-5)
    among = photos.search(queries, 2, among=np.array([4, 9, 1000]))
    assert np.allclose(among.values, -np.sort(-cosines[:, [4, 9]]), atol=1e-5)
    other = photos.sibling("other")
    other.create(16, "cosine", like=photos)
    other.write(StoredItems(np.arange(600), held, None))
    other.finish()
    assert other.describe().metric == "cosine" and other.describe().index == photos.describe().index


def test_texts_of_any_letters_are_ids(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(16, "l2")
    photos.write(StoredItems(np.array(ODD[:-1]), rows(5), None))
    photos.finish()
    assert opened(tmp_path).fetch(np.array(ODD)).ids.tolist() == ODD[:-1]
    assert opened(tmp_path).search(rows(5), 6).ids[:, 0].tolist() == ODD[:-1]
    assert opened(tmp_path).search(rows(5), 6).ids[:, 5].tolist() == [""] * 5
    assert photos.names() == ["photos"]
    photos.drop()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_index_is_read_and_searched(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.create(16, "dot")
    photos.finish()
    assert photos.describe().count == 0 and list(photos.batches()) == []
    assert photos.search(rows(2), 3).ids.tolist() == [[-1] * 3] * 2
    assert photos.search(rows(2), 3, among=np.array([1])).ids.tolist() == [[-1] * 3] * 2


def test_a_file_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    written(tmp_path / "photos.index")
    photos = opened(tmp_path)
    assert photos.describe().count == 600
    written(tmp_path / "photos.index", count=20)
    assert photos.describe().count == 20


@pytest.mark.parametrize("factory", ["IVF4,PQ4x4fs"])
def test_an_index_that_cannot_give_its_vectors_back_is_one_error(tmp_path: Path, factory: str) -> None:
    held = written(tmp_path / "photos.index", factory)
    photos = opened(tmp_path)
    with pytest.raises(ArgumentError, match="cannot give its vectors back"):
        photos.vectors()
    assert photos.search(held[:2], 3).ids.shape == (2, 3)  # it is searched all the same


def test_what_faiss_does_not_have_is_refused(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    filled(photos, count=5)
    for problem, call, arguments in (
        ("faiss has no filters", "search", (rows(1), 2, "colour == 'red'")),
        ("16 dimensions, and 5 were given", "search", (rows(1, 5), 2)),
        ("cannot set a field", "set_field", ("h", np.array([1]), np.array([1.0]))),
        ("cannot remove items", "remove", (np.array([1]),)),
        ("finished index", "write", (StoredItems(np.arange(1), rows(1), None),)),
        ("already", "create", (16, "dot")),
    ):
        with pytest.raises(ArgumentError, match=problem) as caught:
            getattr(photos, call)(*arguments)
        assert str(photos.address) in str(caught.value)
    other = photos.sibling("other")
    other.create(16, "dot")
    with pytest.raises(ArgumentError, match="FAISS has no payload"):
        other.write(StoredItems(np.arange(1), rows(1), [{"colour": "red"}]))
    with pytest.raises(ArgumentError, match="16 dimensions, and 5 were given"):
        other.write(StoredItems(np.arange(1), rows(1, 5), None))
    other.drop()
    assert photos.names() == ["photos"]


@pytest.mark.parametrize("name", ["../photos", "a/b", "..", "", "/etc/passwd"])
def test_a_sibling_stays_in_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match="no name of a file"):
        opened(tmp_path).sibling(name)


def test_what_is_no_index_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "text.index").write_text("hello")
    (tmp_path / "folder.index").mkdir()
    held = written(tmp_path / "photos.index")
    whole = (tmp_path / "photos.index").read_bytes()
    (tmp_path / "cut.index").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.index").touch()
    for name, problem in {
        "text": "not an index that FAISS can read",
        "cut": "not an index that FAISS can read",
        "empty": "not an index that FAISS can read",
        "folder": "is no file",
        "absent": "there is no file 'absent.index'",
    }.items():
        with pytest.raises(ArgumentError, match=problem):
            opened(tmp_path, name=name).describe()
    assert len(held) == 600
    index = faiss.IndexFlat(16, faiss.METRIC_L1)
    faiss.write_index(index, str(tmp_path / "l1.index"))
    with pytest.raises(ArgumentError, match="neither L2 nor inner product"):
        opened(tmp_path, name="l1").describe()


def test_too_few_items_to_train_and_repeated_ids_leave_nothing(tmp_path: Path) -> None:
    written(tmp_path / "photos.index", "IVF64,Flat")
    photos = opened(tmp_path)
    other = photos.sibling("other")
    other.create(16, "l2", like=photos)
    other.write(StoredItems(np.arange(5), rows(5), None))
    with pytest.raises(ArgumentError, match="64 clusters"):
        other.finish()
    other.drop()
    other.create(16, "l2")
    other.write(StoredItems(np.array([1, 1]), rows(2), None))
    with pytest.raises(ArgumentError, match="repeated"):
        other.finish()
    other.drop()
    assert [path.name for path in tmp_path.iterdir()] == ["photos.index"]


def test_records_stand_in_one_file_that_may_be_damaged(tmp_path: Path) -> None:
    photos = opened(tmp_path)
    photos.put_record("a", {"n": 1})
    assert opened(tmp_path).records() == {"a": {"n": 1}}
    for content in ("{", "[]", '{"a": 1}'):
        (tmp_path / "unhub_records.json").write_text(content)
        with pytest.raises(ArgumentError, match=r"unhub_records.json cannot be read"):
            photos.put_record("b", {})
        assert (tmp_path / "unhub_records.json").read_text() == content


def test_a_writer_that_is_killed_leaves_no_index(tmp_path: Path) -> None:
    program = f"""
import os, signal
import numpy as np
from unhub.stores.engines import store
from unhub.stores.store import StoredItems
photos = store("faiss:{tmp_path}/photos.index")
photos.create(16, "dot")
photos.write(StoredItems(np.arange(1000), np.ones((1000, 16), np.float32)))
photos.finish(lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert run.returncode == -9 and list(tmp_path.iterdir()) == []
