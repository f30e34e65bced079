"""usearch files: read, searched and described in every kind of number, and never changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stores.engines import rows
from unhub.arrays import unit
from unhub.errors import ArgumentError
from unhub.stores.engines import store
from unhub.stores.store import StoredItems
from unhub.stores.usearch_file import UsearchFile

pytestmark = pytest.mark.once
usearch = pytest.importorskip("usearch.index")

IDS = np.random.default_rng(0).permutation(500) * 3 + 1


def saved(folder: Path, metric: str = "ip", dtype: str = "f32", count: int = 500, **settings: Any) -> UsearchFile:
    """Save an index as a user of usearch would, and open it."""
    index = usearch.Index(ndim=16, metric=metric, dtype=dtype, **settings)
    if count:
        index.add(IDS[:count], rows(500)[:count])
    index.save(str(folder / "photos.usearch"))
    return opened(folder)


def opened(folder: Path, name: str = "photos") -> UsearchFile:
    found = store(f"usearch:{folder}/{name}.usearch")
    assert isinstance(found, UsearchFile)
    return found


@pytest.mark.parametrize(("metric", "ours"), [("ip", "dot"), ("cos", "cosine"), ("l2sq", "l2")])
@pytest.mark.parametrize(("dtype", "codes"), [("f32", "none"), ("f16", "float16"), ("bf16", "other")])
def test_items_are_described_read_and_searched(tmp_path: Path, metric: str, ours: str, dtype: str, codes: str) -> None:
    photos, held, queries = saved(tmp_path, metric, dtype, connectivity=12), rows(500), rows(20, seed=1)
    about = photos.describe()
    assert (about.metric, about.codes, about.rescored) == (ours, codes, codes == "none")
    assert (about.index, about.dimensions, about.count, about.name) == ("hnsw", 16, 500, "photos")
    assert about.settings["connectivity"] == "12"
    parts = list(photos.batches(rows=200))
    assert [len(part.ids) for part in parts] == [200, 200, 100]
    order = np.argsort(IDS)
    assert np.array_equal(np.concatenate([part.ids for part in parts]), IDS[order])
    close = 1e-6 if dtype == "f32" else 1e-2
    assert np.allclose(np.concatenate([part.rows for part in parts]), held[order], rtol=close, atol=close)
    wanted = {
        "dot": queries @ held.T,
        "cosine": unit(queries) @ unit(held).T,
        "l2": np.square(queries[:, None] - held[None]).sum(axis=2),
    }[ours]
    found = photos.search(queries, 5, effort=500)
    by_id = {one: place for place, one in enumerate(IDS.tolist())}
    places = np.array([[by_id[one] for one in row] for row in found.ids.tolist()])
    assert np.allclose(found.values, np.take_along_axis(wanted, places, axis=1), rtol=0.03, atol=0.1)
    best = np.argsort(wanted if ours == "l2" else -wanted, axis=1)[:, :1]
    assert (places[:, :1] == best).mean() > 0.9
    among = photos.search(queries, 3, among=np.append(IDS[:2], 5000))
    assert set(among.ids[:, :2].ravel().tolist()) == set(IDS[:2].tolist()) and (among.ids[:, 2] == -1).all()


@pytest.mark.parametrize("metric", ["ip", "cos", "l2sq"])
def test_bytes_rank_by_cosine_whatever_the_metric(tmp_path: Path, metric: str) -> None:
    photos, held, queries = saved(tmp_path, metric, "i8"), unit(rows(500)), unit(rows(20, seed=1))
    about = photos.describe()
    assert (about.metric, about.codes, about.rescored) == ("cosine", "int8", False)
    read = photos.vectors()
    assert np.allclose(np.asarray(read.rows), held[np.argsort(IDS)], atol=0.01)
    cosines = queries @ held.T
    found = photos.search(queries, 5, effort=500)
    assert np.allclose(found.values[:, 0], cosines.max(axis=1), atol=0.03)
    assert (np.diff(found.values, axis=1) <= 0).all()


def test_effort_is_for_one_search_alone(tmp_path: Path) -> None:
    index = usearch.Index(ndim=16, metric="l2sq", connectivity=4, expansion_add=8, expansion_search=10)
    held, queries = rows(3000), rows(50, seed=1)
    index.add(np.arange(3000), held)
    index.save(str(tmp_path / "photos.usearch"))
    photos = opened(tmp_path)
    before = photos.describe().settings
    wanted = np.argsort(np.square(queries[:, None] - held[None]).sum(axis=2), axis=1)[:, :10]
    shares = [float((photos.search(queries, 10, effort=effort).ids == wanted).mean()) for effort in (10, 800)]
    assert shares[0] < shares[1] - 0.1 and photos.describe().settings == before


def test_items_are_fetched_in_the_order_asked_for(tmp_path: Path) -> None:
    photos = saved(tmp_path)
    batch = photos.fetch(np.array([IDS[7], 0, IDS[3]]))
    assert batch.ids.tolist() == [IDS[7], IDS[3]] and np.array_equal(batch.rows, rows(500)[[7, 3]])
    assert photos.fetch(np.array(["1"])).ids.size == 0


@pytest.mark.parametrize("count", [3, 500])
def test_one_query_is_answered_as_several_are(tmp_path: Path, count: int) -> None:
    photos, queries = saved(tmp_path, count=count), rows(4, seed=1)
    several = photos.search(queries, 5)
    for row in range(4):
        alone = photos.search(queries[row : row + 1], 5)
        assert np.array_equal(alone.ids, several.ids[row : row + 1])
        assert np.allclose(alone.values, several.values[row : row + 1], rtol=1e-5)


def test_more_places_than_items_and_no_items_at_all(tmp_path: Path) -> None:
    found = saved(tmp_path, count=3).search(rows(2, seed=1), 5)
    assert (found.ids[:, 3:] == -1).all() and (found.ids[:, :3] != -1).all()
    empty = saved(tmp_path, count=0)
    assert empty.describe().count == 0 and list(empty.batches()) == []
    assert empty.search(rows(2), 3).ids.tolist() == [[-1] * 3] * 2


def test_records_stand_beside_it_and_it_is_never_changed(tmp_path: Path) -> None:
    photos = saved(tmp_path)
    before = (tmp_path / "photos.usearch").read_bytes()
    photos.put_record("a", {"n": 1})
    photos.publish("live", "photos", "b", {"n": 2})
    assert opened(tmp_path, "other").records() == {"a": {"n": 1}, "b": {"n": 2}}
    assert photos.names() == ["photos"] and photos.exists() and not photos.sibling("other").exists()
    for call, arguments in {
        "create": (16, "dot"),
        "write": (StoredItems(np.arange(1), rows(1), None),),
        "remove": (IDS[:1],),
        "drop": (),
        "set_field": ("h", IDS[:1], np.ones(1)),
        "drop_field": ("h",),
    }.items():
        with pytest.raises(ArgumentError, match="usearch cannot"):
            getattr(photos, call)(*arguments)
    assert (tmp_path / "photos.usearch").read_bytes() == before


def test_what_does_not_fit_is_one_error(tmp_path: Path) -> None:
    photos = saved(tmp_path)
    with pytest.raises(ArgumentError, match="usearch has no filters"):
        photos.search(rows(1), 2, where="a")
    with pytest.raises(ArgumentError, match="16 dimensions, and 5 were given"):
        photos.search(rows(1, 5), 2)
    with pytest.raises(ArgumentError, match="unknown option 'ids'"):
        store("usearch:photos.usearch?ids=a")


def test_what_is_no_index_is_one_error(tmp_path: Path) -> None:
    saved(tmp_path)
    whole = (tmp_path / "photos.usearch").read_bytes()
    (tmp_path / "text.usearch").write_text("hello" * 100)
    (tmp_path / "cut.usearch").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.usearch").touch()
    (tmp_path / "folder.usearch").mkdir()
    usearch.Index(ndim=16, metric="hamming", dtype="b1").save(str(tmp_path / "bits.usearch"))
    for name, problem in {
        "text": "not an index that usearch can read",
        "cut": "not an index that usearch can read",
        "empty": "not an index that usearch can read",
        "folder": "is no file",
        "absent": "there is no file 'absent.usearch'",
        "bits": "unhub takes the metrics",
    }.items():
        with pytest.raises(ArgumentError, match=problem) as caught:
            opened(tmp_path, name).describe()
        assert f"usearch:{tmp_path}/{name}.usearch" in str(caught.value)


def test_a_file_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    photos = saved(tmp_path)
    assert photos.describe().count == 500
    (tmp_path / "photos.usearch").unlink()
    saved(tmp_path, count=20)
    assert photos.describe().count == 20
