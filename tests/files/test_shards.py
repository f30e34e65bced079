"""Shards: several files, local or remote, are one set, of which only the rows that are asked for are read."""

import gc
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import unhub
from tests.command import BANK, FIT, ITEMS, fail, succeed, write_inputs
from tests.file_server import FileServer, served
from tests.vector_files import NAMES, NUMBERS, ROWS, fixed, write_clip, write_parquet
from unhub.compute.workers import anonymous_memory
from unhub.data.vectors import Stacked, Vectors, take
from unhub.errors import ArgumentError
from unhub.files import npy_shards, parquet_pieces, read_vectors, remote
from unhub.files.pieces import PieceCache
from unhub.files.remote import RemoteFailure

pytestmark = pytest.mark.once

SPANS = [slice(0, 5), slice(5, 6), slice(6, 13)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of folders of shards, which hold ROWS."""
    (tmp_path / "npy").mkdir()
    (tmp_path / "parquet").mkdir()
    for number, span in enumerate(SPANS):
        np.save(tmp_path / "npy" / f"part-{number}.npy", ROWS[span])
        write_parquet(tmp_path / "parquet" / f"part-{number}.parquet", id=NAMES[span], embedding=fixed(ROWS[span]))
    (tmp_path / "parquet" / "_SUCCESS").touch()  # as Spark leaves it
    return tmp_path


@pytest.fixture
def memory(folder: Path) -> Iterator[str]:
    """Return the address of a copy of the folder in fsspec's memory."""
    there = fsspec.filesystem("memory")
    for file in folder.rglob("part-*"):
        there.pipe_file(f"/shards/{file.relative_to(folder)}", file.read_bytes())
    yield "memory://shards"
    there.rm("/shards", recursive=True)


@pytest.fixture
def web(folder: Path) -> Iterator[FileServer]:
    """Return the server of the folder."""
    with served(folder) as server:
        yield server


@pytest.fixture(scope="module")
def object_store() -> Iterator[ThreadedMotoServer]:
    """Return a server that speaks as S3 does, with an empty bucket, and credentials for it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "anything")
        fsspec.filesystem("s3").mkdir("bucket")
        yield server
    server.stop()


@pytest.fixture
def s3(folder: Path, object_store: ThreadedMotoServer) -> Iterator[str]:
    """Return the address of a copy of the folder in an object store."""
    there = fsspec.filesystem("s3")
    for file in folder.rglob("part-*"):
        there.pipe_file(f"bucket/shards/{file.relative_to(folder)}", file.read_bytes())
    yield "s3://bucket/shards"
    there.rm("bucket/shards", recursive=True)


@pytest.fixture(params=["here", "memory", "web", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Return a function that puts what is in `tmp_path / "set"` into a place, and returns its address there."""
    folder = tmp_path / "set"
    folder.mkdir()
    if request.param == "here":
        yield lambda: str(folder)
    elif request.param == "web":
        with served(tmp_path) as server:
            yield lambda: f"{server.url}/set"
    else:
        if request.param == "s3":
            request.getfixturevalue("object_store")
        root, there = f"{request.param}://bucket/set", fsspec.filesystem(request.param)

        def put() -> str:
            for file in folder.rglob("*"):
                if file.is_file():
                    there.pipe_file(f"{root}/{file.relative_to(folder)}", file.read_bytes())
            return root

        yield put
        if there.exists(root):
            there.rm(root, recursive=True)


def write_numbered(folder: Path, names: Sequence[str]) -> None:
    """Write .npy files of one row, which holds the place of its name."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{name}.npy", np.full((1, 2), number, np.float32))
        (folder / f"{name}.npy").rename(folder / name)


def numbers_in(address: str) -> list[int]:
    """Return the numbers that `write_numbered` wrote into what an address names."""
    found: list[int] = np.asarray(read_vectors(address).rows)[:, 0].astype(int).tolist()
    return found


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pieces of two rows, so that row groups of three are cut and those of one are joined."""
    monkeypatch.setattr(parquet_pieces, "PIECE_BYTES", 2 * ROWS[0].nbytes)
    monkeypatch.setattr(npy_shards, "PIECE_BYTES", 2 * ROWS[0].nbytes)


def assert_holds(vectors: Vectors, rows: NDArray[np.float32] = ROWS) -> None:
    """Compare rows in blocks, in steps, all at once and by position."""
    assert_array_equal(np.concatenate([block for _, block in vectors.blocks(4)]), rows)
    assert_array_equal(np.asarray(vectors.rows), rows)
    assert_array_equal(vectors.rows[1:9:3], rows[1:9:3])
    assert vectors.rows[4:4].shape == (0, rows.shape[1])
    positions = np.random.default_rng(0).permutation(len(rows))
    assert_array_equal(vectors.gather(positions).block(0, len(rows)), rows[positions])


# What is read.


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("form", ["{}", "{}/", "{}/*", "{}/part-?.*", "{}/part-[012].*"])
@pytest.mark.parametrize("place", ["here", "memory", "web", "s3"])
def test_folders_and_patterns_are_one_set_wherever_they_are(
    folder: Path, memory: str, web: FileServer, s3: str, place: str, kind: str, form: str, small_pieces: None
) -> None:
    if form == "{}/*":
        form = f"{{}}/*.{kind}"
    if place == "web" and "?" in form:
        form = form.replace("?", "*")  # in a web address it begins the query
    root = {"here": str(folder), "memory": memory, "web": web.url, "s3": s3}[place]
    vectors = read_vectors(f"{root}/{form.format(kind)}")
    assert vectors.ids.tolist() == (NAMES if kind == "parquet" else list(range(13)))
    assert_holds(vectors)


@pytest.mark.parametrize("place", ["memory", "web", "s3"])
@pytest.mark.parametrize("name", ["npy/part-2.npy", "parquet/part-2.parquet"])
def test_a_single_remote_file_is_read(
    memory: str, web: FileServer, s3: str, place: str, name: str, small_pieces: None
) -> None:
    vectors = read_vectors(f"{ ({'memory': memory, 'web': web.url, 's3': s3}[place]) }/{name}")
    assert vectors.ids.tolist() == (NAMES[6:] if "parquet" in name else list(range(7)))
    assert_holds(vectors, ROWS[6:])


@pytest.mark.parametrize("form", ["", "/*.npy"])
def test_the_sizes_of_remote_shards_come_with_their_listing(
    memory: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = fsspec.filesystem("memory")
    for number in range(40):
        there.pipe_file(f"/shards/many/part-{number:02}.npy", there.cat_file("/shards/npy/part-0.npy"))
    asked: list[str] = []

    def info(path: str, **more: Any) -> Any:
        asked.append(path)
        return type(there).info(there, path, **more)

    monkeypatch.setattr(there, "info", info)
    vectors = read_vectors(f"{memory}/many{form}")
    assert len(asked) <= 3, asked  # whether a file is named as the pattern is, and fsspec itself looks at the folder
    assert_holds(vectors, np.concatenate([ROWS[:5]] * 40))


def test_files_on_the_web_are_asked_for_their_sizes_at_the_same_time(web: FileServer) -> None:
    together = threading.Barrier(len(SPANS), timeout=20)
    asked: list[str] = []

    def info(url: str, name: str, *given: Any, **more: Any) -> Any:
        if name == "info":
            asked.append(url)
            together.wait()  # breaks if one waits for another
        return ask(url, name, *given, **more)

    ask = remote._ask
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "_ask", info)
        vectors = read_vectors(f"{web.url}/npy/*.npy")
    assert len(asked) == len(SPANS)
    assert_holds(vectors)


@pytest.mark.parametrize("protocol", ["S3", "s3a", "s3"])
def test_a_protocol_may_be_written_as_other_programs_do(s3: str, protocol: str) -> None:
    for form in ("npy", "npy/*.npy"):
        assert_holds(read_vectors(f"{protocol}://{s3.removeprefix('s3://')}/{form}"))


def test_only_what_may_be_secret_is_left_out_of_an_address() -> None:
    for address in ("s3://bucket/a#1.npy", "memory://a?b#c.npy", "s3://bucket", "items/a@b?c#d.npy"):
        assert remote.shown(address) == address
    assert remote.shown("https://me:word@host/a@b.npy?signature=1#2") == "https://host/a@b.npy"
    assert remote.shown("s3://key:word@bucket/a@b.npy") == "s3://bucket/a@b.npy"


def test_a_remote_folder_may_be_named_as_a_file(folder: Path) -> None:
    there = fsspec.filesystem("memory")
    there.pipe_file("/spark/items.parquet/part-0.parquet", (folder / "parquet" / "part-0.parquet").read_bytes())
    assert_holds(read_vectors("memory://spark/items.parquet"), ROWS[:5])


def test_names_decide_the_order_and_empty_shards_are_passed_over(tmp_path: Path) -> None:
    for name, span in {"b": slice(5, 13), "a-10": slice(0, 2), "a-9": slice(2, 5)}.items():
        np.save(tmp_path / f"{name}.npy", ROWS[span])
    np.save(tmp_path / "a-11.npy", ROWS[:0])
    assert_holds(read_vectors(tmp_path))


@pytest.mark.parametrize("columns", [{"id": [], "embedding": []}, {"id": [], "embedding": np.empty(0)}, {}])
def test_tables_of_pandas_without_rows_are_passed_over(folder: Path, columns: dict[str, Any]) -> None:
    for name in ("a", "part-1b"):
        pd.DataFrame(columns).to_parquet(folder / "parquet" / f"{name}.parquet")
    vectors = read_vectors(folder / "parquet")
    assert_holds(vectors)
    assert vectors.ids.tolist() == [*NAMES]


@pytest.mark.parametrize("pattern", ["", "*.npy"])
def test_a_link_to_nothing_among_shards_is_named(folder: Path, pattern: str) -> None:
    (folder / "npy" / "part-3.npy").symlink_to(folder / "gone.npy")
    with pytest.raises(ValueError, match=r"part-3\.npy: is a link to a file that is not there; restore the file, or"):
        read_vectors(f"{folder}/npy/{pattern}")
    (folder / "gone.npy").symlink_to(folder / "npy" / "part-0.npy")
    assert_holds(read_vectors(f"{folder}/npy/{pattern}"), np.concatenate([ROWS, ROWS[SPANS[0]]]))


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["a 2.npy", "a!.npy", "a#2.npy", "a%20b.npy", "a?b.npy", "a[1].npy", "ä.npy"], "*.npy"),
        (["a/x.npy", "a-b/y.npy", "a.c/z.npy", "b.npy"], "**/*.npy"),
    ],
)
def test_every_name_is_read_in_the_same_order_wherever_it_is(
    tmp_path: Path, place: Callable[[], str], names: list[str], pattern: str
) -> None:
    hidden = ["._a.npy", ".b.npy"]  # as a Mac leaves them beside others
    write_numbered(tmp_path / "set", [*names, *hidden, ".c/d.npy"])
    root = place()
    assert numbers_in(f"{root}/{pattern}") == list(range(len(names)))
    flat = [number for number, name in enumerate(names) if "/" not in name]
    assert numbers_in(root) == flat
    assert numbers_in(f"{root}/.*.npy") == [len(names), len(names) + 1]


def test_a_name_with_the_letters_of_a_pattern_is_itself_if_it_is_there(
    tmp_path: Path, place: Callable[[], str]
) -> None:
    write_numbered(tmp_path / "set", ["a1.npy", "a[1].npy"])
    root = place()
    if root.startswith("http"):  # there such letters are written in another way
        assert numbers_in(f"{root}/a%5B1%5D.npy") == [1]
    else:
        assert numbers_in(f"{root}/a[1].npy") == [1]
        (tmp_path / "set" / "b1.npy").write_bytes((tmp_path / "set" / "a1.npy").read_bytes())
        assert numbers_in(f"{place()}/b[1].npy") == [0]


def test_ids_of_all_shards_must_differ_and_may_come_from_a_file(folder: Path) -> None:
    (folder / "ids.txt").write_text("\n".join(map(str, NUMBERS)))
    assert read_vectors(folder / "npy", ids=folder / "ids.txt").ids.tolist() == NUMBERS
    write_parquet(folder / "parquet" / "part-1.parquet", id=NAMES[:1], embedding=fixed(ROWS[5:6]))
    with pytest.raises(ValueError, match=r"parquet has repeated ids, for example 'image 0\.jpg'"):
        read_vectors(folder / "parquet")


@pytest.mark.parametrize("first", [pa.int64(), pa.uint64()])
def test_ids_may_be_signed_in_one_shard_and_unsigned_in_another(tmp_path: Path, first: pa.DataType) -> None:
    large, types = (1 << 62) + 1, [first, pa.uint64() if first == pa.int64() else pa.int64()]
    for number, (kind, span) in enumerate(zip(types, [slice(0, 5), slice(5, 13)], strict=True)):
        ids = pa.array([large + row for row in range(13)][span], kind)
        write_parquet(tmp_path / f"{number}.parquet", id=ids, embedding=fixed(ROWS[span]))
    assert read_vectors(tmp_path).ids.tolist() == [large + row for row in range(13)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_the_type_of_the_numbers_is_kept(folder: Path, memory: str, dtype: type[np.generic]) -> None:
    there, rows = fsspec.filesystem("memory"), (10 * ROWS).astype(dtype)
    np.save(folder / "one.npy", rows)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 4)
    write_parquet(folder / "one.parquet", embedding=lists)
    for name in ("one.npy", "one.parquet"):
        there.pipe_file(f"/shards/{name}", (folder / name).read_bytes())
        found = read_vectors(f"{memory}/{name}").rows
        assert found.dtype == dtype
        assert_array_equal(np.asarray(found), rows)


@pytest.mark.parametrize(
    "embedding",
    [
        pa.array(ROWS.tolist(), pa.list_(pa.float32())),
        pa.array(ROWS.tolist(), pa.large_list(pa.float32())),
        pa.array(ROWS.tolist(), pa.list_(pa.float64())),
    ],
)
def test_lists_of_every_kind_are_read_lazily(tmp_path: Path, embedding: pa.Array, small_pieces: None) -> None:
    write_parquet(tmp_path / "a.parquet", embedding=embedding)
    assert_holds(read_vectors(tmp_path))


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_however_rows_are_cut_they_are_the_same(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 60))
    rows = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    group, most = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 20))
    there = fsspec.filesystem("memory")
    if there.exists("/cut"):
        there.rm("/cut", recursive=True)
    kind = data.draw(st.sampled_from(["npy", "parquet"]))
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, count], strict=True)):
        with there.open(f"/cut/{number}.{kind}", "wb") as file:
            if kind == "npy":
                np.save(file, rows[start:stop])
            else:
                pq.write_table(pa.table({"embedding": fixed(rows[start:stop])}), file, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_pieces, "PIECE_BYTES", 12 * most)
        patch.setattr(npy_shards, "PIECE_BYTES", 12 * most)
        found = read_vectors("memory://cut")
    start, stop = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    assert_array_equal(found.rows[start:stop], rows[start:stop])
    positions = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=80)))
    assert_array_equal(take(found.rows, positions), rows[positions])


def test_fits_and_searches_are_those_of_the_array(folder: Path, web: FileServer, small_pieces: None) -> None:
    for name in ("parquet/*.parquet", "npy"):
        items = read_vectors(f"{web.url}/{name}")
        plain = Vectors(items.ids, ROWS)
        found, expected = (unhub.fit(one, ROWS[::-1] + 1, method="nnn:k=3") for one in (items, plain))
        assert_array_equal(found.arrays["bias"], expected.arrays["bias"])
        hits, known = (unhub.searcher(one, found).search(ROWS[:4], k=3) for one in (items, plain))
        assert_array_equal(hits.ids, known.ids)


# How little is read.


def test_only_what_is_asked_for_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npy_shards, "PIECE_BYTES", 4096)
    rows = np.random.default_rng(0).standard_normal((10_000, 16)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    with served(tmp_path) as web:
        vectors = read_vectors(f"{web.url}/rows.npy")
        web.sent.clear()
        assert_array_equal(vectors.rows[5000:5010], rows[5000:5010])
        assert_array_equal(vectors.rows[5010:5020], rows[5010:5020])  # which came with the others
        assert web.sent == [4096]


def test_a_parquet_file_sends_the_row_groups_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "BUFFER_BYTES", 4096)
    monkeypatch.setattr("unhub.files.parquet.BUFFER_BYTES", 4096)
    monkeypatch.setattr(parquet_pieces, "PIECE_BYTES", 100 * 64)
    rows = np.random.default_rng(0).standard_normal((10_000, 16)).astype(np.float32)
    pq.write_table(pa.table({"embedding": fixed(rows)}), tmp_path / "rows.parquet", row_group_size=100)
    with served(tmp_path) as web:
        vectors = read_vectors(f"{web.url}/rows.parquet")
        vectors.rows[0:1]  # which opens the file
        web.sent.clear()
        assert_array_equal(vectors.rows[5000:5050], rows[5000:5050])
        assert sum(web.sent) < 0.1 * rows.nbytes


@pytest.mark.parametrize("group", [1 << 20, 2000])
@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_memory_does_not_grow_with_the_files(
    tmp_path: Path, kind: str, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_pieces, "PIECE_BYTES", 1 << 20)
    monkeypatch.setattr(npy_shards, "PIECE_BYTES", 1 << 20)
    rows = np.random.default_rng(0).standard_normal((60_000, 64)).astype(np.float32)
    for number in range(6):  # 92 MB in six files
        if kind == "npy":
            np.save(tmp_path / f"{number}.npy", rows)
        else:
            table = pa.table({"embedding": fixed(rows)})
            pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=group, compression="none")
    del rows
    pool = pa.default_memory_pool()
    pool.release_unused()
    with served(tmp_path) as web:
        vectors = read_vectors(web.url if kind == "npy" else tmp_path)
        before, most, total = anonymous_memory(), 0, 0.0
        for _, block in vectors.blocks(4096):
            most = max(most, anonymous_memory() - before)
            total += float(block[:, 0].sum())
        assert total != 0
        # 16 pieces of 1 MB, a few blocks, and what the allocators keep; of the file here, the server's copy of 15 MB.
        assert most < 60 << 20


@pytest.mark.parametrize("name", ["part-", "img_emb/img_emb_"])
def test_more_files_than_a_process_can_open_are_one_set(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    script = """
import resource, sys
import numpy as np, unhub
from concurrent.futures import ThreadPoolExecutor
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
rows = np.random.default_rng(0).standard_normal((1200, 8)).astype(np.float32)
for number in range(400):
    np.save(f"{sys.argv[1]}/{sys.argv[2]}{number:03}.npy", rows[3 * number : 3 * number + 3])
items = unhub.read_vectors(sys.argv[1])
assert (unhub.fit(items, rows[:50], threads=2).bias == unhub.fit(rows, rows[:50], threads=2).bias).all()
assert (np.asarray(items.rows) == rows).all()
orders = [np.random.default_rng(seed).permutation(1200) for seed in range(4)]
with ThreadPoolExecutor(4) as pool:
    for order, found in zip(orders, pool.map(lambda order: items.gather(order).block(0, 1200), orders)):
        assert (found == rows[order]).all()
print("read")
"""
    command = [sys.executable, "-c", script, str(tmp_path), name]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.stdout == "read\n", process.stderr


def test_threads_that_want_the_same_piece_read_it_once() -> None:
    asked, reads = threading.Barrier(8), []

    def read() -> NDArray[np.generic]:
        reads.append(1)
        return ROWS

    cache = PieceCache()

    def get(_: int) -> NDArray[np.generic]:
        asked.wait()
        return cache.get(("a", 0), read)

    with ThreadPoolExecutor(8) as pool:
        assert all(found is ROWS for found in pool.map(get, range(8)))
    assert len(reads) == 1


def kept(cache: PieceCache) -> int:
    """Return how many pieces a cache keeps when many more have been read."""
    for number in range(50):
        cache.get(("a", number), lambda: ROWS)
    asked: list[int] = []

    def read() -> NDArray[np.generic]:
        asked.append(1)
        return ROWS

    for number in reversed(range(50)):
        cache.get(("a", number), read)
        if asked:
            return 49 - number
    return 50


def test_pieces_are_kept_by_the_threads_that_read_and_not_by_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert kept(PieceCache()) == 16
    there = pickle.loads(pickle.dumps(PieceCache()))  # in a worker, of which a machine has as many as cores
    assert kept(there) == 4
    assert kept(pickle.loads(pickle.dumps(there))) == 4
    together = threading.Barrier(10)

    def read(number: int) -> None:
        together.wait()
        there.get(("b", number), lambda: ROWS)
        together.wait()  # so that every thread is still there

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(read, range(10)))
        assert kept(there) == 2 * 11
    del pool
    gc.collect()
    assert kept(there) == 4  # the threads have ended


def test_a_piece_that_failed_is_read_again() -> None:
    cache = PieceCache()
    with pytest.raises(ValueError, match="broken"):
        cache.get(("a", 0), lambda: int("broken"))  # type: ignore[arg-type, return-value]
    assert cache.get(("a", 0), lambda: ROWS) is ROWS


def test_a_row_group_whose_reading_failed_is_read_again(memory: str, small_pieces: None) -> None:
    vectors = read_vectors(f"{memory}/parquet/part-2.parquet")
    vectors.block(0, 2)  # the first part of a row group that is cut
    (shard,) = vectors.rows.parts if isinstance(vectors.rows, Stacked) else (vectors.rows,)
    reading = shard.file._open_files.reading(shard.file.file, "embedding")  # type: ignore[attr-defined]

    def broken() -> Iterator[Any]:
        raise RemoteFailure("no answer")
        yield

    reading._parts = broken()
    with pytest.raises(RemoteFailure, match="no answer"):
        vectors.block(2, 3)
    assert_holds(vectors, ROWS[6:])


def test_a_row_group_that_ends_early_names_the_file(memory: str, small_pieces: None) -> None:
    vectors = read_vectors(f"{memory}/parquet/part-2.parquet")
    vectors.block(0, 2)
    (shard,) = vectors.rows.parts if isinstance(vectors.rows, Stacked) else (vectors.rows,)
    shard.file._open_files.reading(shard.file.file, "embedding")._parts = iter(())  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"part-2\.parquet: row group 0 has fewer rows"):
        vectors.block(2, 3)
    assert_holds(vectors, ROWS[6:])


def test_threads_read_parquet_shards_at_the_same_time(folder: Path, memory: str, small_pieces: None) -> None:
    starts = [*range(10)] * 20
    for place in (folder / "parquet", f"{memory}/parquet"):
        vectors = read_vectors(place)
        with ThreadPoolExecutor(6) as pool:
            blocks = pool.map(vectors.block, starts, [start + 3 for start in starts])
            for start, block in zip(starts, blocks, strict=True):
                assert_array_equal(block, ROWS[start : start + 3])


# In another process.


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("place", ["here", "web"])
def test_rows_are_small_when_pickled_and_opened_anew(
    folder: Path, web: FileServer, place: str, kind: str, small_pieces: None
) -> None:
    vectors = read_vectors(f"{folder if place == 'here' else web.url}/{kind}/*.{kind}")
    vectors.rows[0:13]  # what is open or kept here does not go along
    sent = pickle.dumps(vectors.rows)
    assert len(sent) < 2500
    program = "import sys, pickle, numpy as np; rows = pickle.loads(sys.stdin.buffer.read()); print(rows[4:8].tolist())"
    run = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, timeout=60, check=True, cwd="/"
    )
    assert eval(run.stdout) == ROWS[4:8].tolist()


def test_rows_in_the_memory_of_this_process_are_not_sent_to_another(memory: str) -> None:
    with pytest.raises(TypeError, match=r"^memory:///?shards/npy/part-0\.npy: is in the memory of this process alone$"):
        pickle.dumps(read_vectors(f"{memory}/npy").rows)


def test_a_relative_path_is_kept_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for kind in ("npy", "parquet"):
        sent = pickle.dumps(read_vectors(kind).rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir("/")
            assert_array_equal(pickle.loads(sent)[:], ROWS)


# What goes wrong.


def wide(folder: Path, kind: str) -> None:
    rows = np.ones((2, 5), np.float32)
    if kind == "npy":
        np.save(folder / "part-1.npy", rows)
    else:
        write_parquet(folder / "part-1.parquet", id=["x", "y"], embedding=fixed(rows))


def longer(folder: Path, kind: str) -> None:
    if kind == "npy":
        np.save(folder / "part-1.npy", ROWS.astype(np.float64))
    else:
        lists = pa.array(ROWS[5:6].tolist(), pa.list_(pa.float64()))
        write_parquet(folder / "part-1.parquet", id=NAMES[5:6], embedding=lists)


def cut(folder: Path, kind: str) -> None:
    path = folder / f"part-1.{kind}"
    path.write_bytes(path.read_bytes()[:-7])


def flat(folder: Path, kind: str) -> None:
    if kind == "npy":
        np.save(folder / "part-1.npy", ROWS[0])
    else:
        write_parquet(folder / "part-1.parquet", id=NAMES[:1], embedding=[1.0])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (wide, "has 5 dimensions, .*part-0.* 4; embed all with one model"),
        (longer, "holds float64, .*part-0.* float32; save all in one type"),
        (cut, "truncated or not a "),
        (flat, "must be a matrix|lists of numbers are required"),
    ],
)
@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("place", ["here", "web"])
def test_a_bad_shard_is_one_line_that_names_it(
    folder: Path, web: FileServer, place: str, spoil: Callable[[Path, str], None], kind: str, words: str
) -> None:
    spoil(folder / kind, kind)
    with pytest.raises(ValueError, match=rf"^\S+part-1\.{kind}: .*({words})[^\n]*$"):
        read_vectors(f"{folder if place == 'here' else web.url}/{kind}")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"id": ["x"], "embedding": pa.array([None], pa.list_(pa.float32(), 4))}, "row 0 of .* is empty"),
        ({"id": ["x"], "embedding": pa.array([[1, None, 2, 3]], pa.list_(pa.float32()))}, "has an empty place"),
        ({"id": ["x", "y"], "embedding": pa.array([[1] * 3, [1] * 5], pa.list_(pa.float32()))}, "row 1 .* 5 numbers"),
        ({"id": ["x", "y"], "embedding": pa.array([[1] * 3, [1] * 4], pa.list_(pa.float32()))}, "differ in length"),
        ({"embedding": fixed(ROWS[:1])}, "has no column of ids, and .*part-0.* has one"),
        ({"id": [7], "embedding": fixed(ROWS[:1])}, "has ids of another type than .*part-0"),
        ({"a_key": ["x"], "key": ["x"], "embedding": fixed(ROWS[:1])}, "may hold the ids: name one, as in .*#id=a_key"),
        ({"id": ["x"]}, "`embedding` is required"),
        ({"id": ["x"], "embedding": pa.array([["a"] * 4])}, "lists of numbers are required"),
    ],
)
def test_a_bad_parquet_shard_is_named_when_it_is_found_or_read(
    folder: Path, columns: dict[str, Any], words: str
) -> None:
    write_parquet(folder / "parquet" / "part-1.parquet", **columns)
    with pytest.raises(ValueError, match=rf"part-1\.parquet: .*{words}[^\n]*$"):
        np.asarray(read_vectors(folder / "parquet").rows)


def test_pages_that_are_damaged_are_named_when_they_are_read(folder: Path) -> None:
    path = folder / "parquet" / "part-2.parquet"
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"part-2\.parquet: truncated or not a Parquet file"):
        np.asarray(read_vectors(folder / "parquet").rows)


def test_a_shard_that_changes_is_noticed(folder: Path, web: FileServer) -> None:
    here, there = read_vectors(folder / "npy"), read_vectors(f"{web.url}/npy")
    np.save(folder / "npy" / "part-2.npy", ROWS[:3])
    with pytest.raises(ValueError, match=r"part-2\.npy: has changed since it was found; read it again"):
        np.asarray(here.rows)
    with pytest.raises(RemoteFailure, match=r"part-2\.npy: sent \d+ bytes for 112; it has changed"):
        np.asarray(there.rows)


def write_two(folder: Path, kind: str, factor: float) -> None:
    """Write ROWS times a factor in two shards, in files of the same size for any factor."""
    for name, span in {"a": slice(0, 3), "b": slice(3, 13)}.items():
        if kind == "npy":
            np.save(folder / f"new-{name}", ROWS[span] * np.float32(factor))
        else:
            table = pa.table({"embedding": fixed(ROWS[span] * np.float32(factor))})
            pq.write_table(table, folder / f"new-{name}.{kind}", compression="none", use_dictionary=False)
        (folder / f"new-{name}.{kind}").replace(folder / f"{name}.{kind}")


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("seen", [0, 5])
def test_a_shard_that_is_replaced_by_one_of_its_size_is_noticed_wherever_it_is(
    tmp_path: Path, place: Callable[[], str], kind: str, seen: int, small_pieces: None
) -> None:
    write_two(tmp_path / "set", kind, 1)
    vectors = read_vectors(place())
    assert_array_equal(vectors.block(0, seen), ROWS[:seen])
    sizes = [file.stat().st_size for file in sorted((tmp_path / "set").iterdir())]
    write_two(tmp_path / "set", kind, -1)
    assert sizes == [file.stat().st_size for file in sorted((tmp_path / "set").iterdir())]
    for file in (tmp_path / "set").iterdir():  # a web server names the second of the last change
        os.utime(file, (2_000_000_000, 2_000_000_000))
    again = place()
    with pytest.raises(
        (ValueError, RemoteFailure), match=rf"b\.{kind}: has changed since it was found; read it again$"
    ):
        vectors.block(7, 13)
    assert_holds(read_vectors(again), -ROWS)


def test_a_shard_that_is_written_anew_in_its_place_is_noticed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    vectors = read_vectors(tmp_path)
    assert_array_equal(vectors.block(0, 13), ROWS)
    time.sleep(0.02)  # the clock of files is coarse
    np.save(tmp_path / "a.npy", -ROWS)
    with pytest.raises(ValueError, match=r"a\.npy: has changed since it was found; read it again$"):
        vectors.block(0, 13)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_a_web_server_that_names_no_version_tells_another_size(
    folder: Path, web: FileServer, kind: str, small_pieces: None
) -> None:
    web.dated = False
    vectors = read_vectors(f"{web.url}/{kind}/part-2.{kind}")
    assert_array_equal(vectors.block(0, 2), ROWS[6:8])
    longer = np.concatenate([-ROWS, -ROWS])
    np.save(folder / "npy" / "part-2.npy", longer)
    write_parquet(folder / "parquet" / "part-2.parquet", id=np.arange(26), embedding=fixed(longer))
    with pytest.raises(RemoteFailure, match=rf"part-2\.{kind}: has changed since it was found; read it again$"):
        vectors.block(4, 7)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_another_process_takes_a_copy_of_a_shard_and_no_other_file(tmp_path: Path, kind: str) -> None:
    write_two(tmp_path, kind, 1)
    vectors = read_vectors(tmp_path)
    sent = pickle.dumps(vectors.rows)
    write_two(tmp_path, kind, 1)  # as on another machine: the same bytes, at another time, in another place
    assert_array_equal(pickle.loads(sent)[:], ROWS)
    write_two(tmp_path, kind, -1)
    there = pickle.loads(sent)
    with pytest.raises(
        ValueError, match=rf"a\.{kind}: is not the file that was found in the process that sent its name"
    ):
        there[:]
    with pytest.raises(ValueError, match=rf"a\.{kind}: has changed since it was found; read it again$"):
        pickle.dumps(vectors.rows)


def test_a_store_that_does_not_answer_once_is_asked_again_whether_a_file_is_the_same(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = read_vectors(f"{memory}/npy/part-2.npy")
    ask, asked = remote._ask, []

    def unsteady(url: str, name: str, *given: Any, **more: Any) -> Any:
        asked.append(name)
        if name == "info" and asked.count("info") < 3:
            raise RemoteFailure("no answer")
        return ask(url, name, *given, **more)

    monkeypatch.setattr(remote, "_ask", unsteady)
    assert_array_equal(vectors.block(0, 7), ROWS[6:])
    assert asked == ["cat_file", "info", "info", "info"]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("{here}/nothing/*.npy", r"nothing/\*\.npy: finds no files$"),
        ("{here}/empty", r"empty: a folder is read if it holds \.npy or \.parquet files"),
        ("{here}/mixed", r"mixed: finds both \.npy and \.parquet files; name one kind"),
        ("{here}/hollow", r"hollow: holds no rows$"),
        ("{here}/npy/../*/_SUCCESS*", r"_SUCCESS: is not \*\.npy or \*\.parquet"),
        ("{here}/photos.unfinished", r"photos\.unfinished: `unhub embed` has not finished this folder"),
        ("{memory}/nothing/*.npy", r"memory://shards/nothing/\*\.npy: finds no files named \*\.npy or \*\.parquet"),
        ("{web}/empty", r"/empty: finds no files named"),
        ("{s3}/nothing/*.npy", r"s3://bucket/shards/nothing/\*\.npy: finds no files named"),
        ("{web}/part.csv", r"(part\.csv: finds no files|No such file)"),
        ("s4://bucket/items", r"path 's4' is unknown; did you mean 's3'\?"),
        ("s3://", r"^path is 's3://', a protocol without a place; write it behind it, as in s3://bucket/items or"),
        ("https:///", r"^path is 'https:///', a protocol without a place; "),
    ],
)
def test_a_place_with_nothing_to_read_is_one_line(
    folder: Path, memory: str, web: FileServer, s3: str, form: str, words: str
) -> None:
    for name in ("empty", "mixed", "hollow", "photos.unfinished"):
        (folder / name).mkdir()
    for file in (folder / "npy" / "part-0.npy", folder / "parquet" / "part-0.parquet"):
        (folder / "mixed" / file.name).write_bytes(file.read_bytes())
    np.save(folder / "hollow" / "a.npy", ROWS[:0])
    np.save(folder / "photos.unfinished" / "embeddings.npy", ROWS)
    with pytest.raises((ValueError, FileNotFoundError), match=words) as raised:
        read_vectors(form.format(here=folder, memory=memory, web=web.url, s3=s3))
    assert "\n" not in str(raised.value)


def test_what_is_not_there_is_named(memory: str, web: FileServer, s3: str) -> None:
    for place in (f"{memory}/gone.npy", f"{web.url}/gone.parquet", f"{s3}/gone.npy"):
        with pytest.raises(FileNotFoundError) as raised:
            read_vectors(place)
        assert raised.value.filename == place
    with pytest.raises(RemoteFailure, match=r"^s3://no-bucket/items\.npy: cannot be read \(.*NoSuchBucket.*\)$"):
        read_vectors("s3://no-bucket/items.npy")


def test_an_object_store_without_credentials_is_one_line(object_store: ThreadedMotoServer, tmp_path: Path) -> None:
    given = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    arguments = [
        "fit",
        "--items",
        "s3://bucket/a.npy",
        "--bank",
        "s3://bucket/a.npy",
        "--method",
        "nnn",
        "-o",
        "a.unhub",
    ]
    process = subprocess.run(
        [sys.executable, "-m", "unhub", *arguments], env=given | nowhere, cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode == 2
    assert re.fullmatch(
        r"unhub: --items: s3://bucket/a\.npy: access is denied \(.*credentials.*\); give s3fs credentials .*\n",
        process.stderr,
    )


def test_a_host_that_does_not_answer_has_a_time_limit(web: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "TIME_LIMIT_SECONDS", 0.3)
    web.silent = True
    with pytest.raises(RemoteFailure, match=r"^http://\S+part-0\.npy: no answer within 0\.3 seconds$"):
        read_vectors(f"{web.url}/npy/part-0.npy")


def test_a_host_that_is_not_there_is_one_line() -> None:
    with pytest.raises(RemoteFailure, match=r"^http://127\.0\.0\.1:1/a\.npy: cannot be read \([^\n]*\)$"):
        read_vectors("http://127.0.0.1:1/a.npy")


def test_a_server_that_wants_credentials_is_one_line_without_secrets(web: FileServer) -> None:
    web.status = 403
    address = web.url.replace("//", "//me:secret@")
    with pytest.raises(
        PermissionError, match=r"part-0\.npy: access is denied \(403 Forbidden\); give aiohttp"
    ) as raised:
        read_vectors(f"{address}/npy/part-0.npy?signature=secret")
    assert "secret" not in str(raised.value)


def test_a_server_without_ranges_is_refused(web: FileServer) -> None:
    web.ranges = False
    with pytest.raises(RemoteFailure, match=r"part-0\.npy: the server does not send parts of a file; download it"):
        read_vectors(f"{web.url}/npy/part-0.npy")


def test_an_answer_that_breaks_off_is_asked_for_again(web: FileServer) -> None:
    vectors = read_vectors(f"{web.url}/npy")
    web.broken = 2
    assert_array_equal(np.asarray(vectors.rows), ROWS)
    again = read_vectors(f"{web.url}/npy")
    web.broken = 100
    with pytest.raises(RemoteFailure, match=r"part-0\.npy: cannot be read"):
        np.asarray(again.rows)


def test_a_remote_file_that_numpy_stored_by_columns_is_refused(folder: Path, web: FileServer) -> None:
    np.save(folder / "npy" / "part-0.npy", np.asfortranarray(ROWS))
    with pytest.raises(ValueError, match=r"part-0\.npy: is stored column by column"):
        read_vectors(f"{web.url}/npy/part-0.npy")
    assert_holds(read_vectors(f"{folder}/npy/part-0.*"))


@pytest.mark.parametrize(
    ("absent", "address", "words"),
    [
        ("fsspec", "s3://bucket/items", r"reading s3:// needs fsspec: .*\[remote\].*"),
        ("s3fs", "s3://bucket/items", "reading s3:// needs s3fs: pip install s3fs"),
        ("gcsfs", "gs://bucket/items", "reading gs:// needs gcsfs: pip install gcsfs"),
        ("aiohttp", "https://host/items.npy", "reading https:// needs aiohttp: pip install aiohttp"),
    ],
)
def test_what_is_not_installed_is_named(absent: str, address: str, words: str) -> None:
    program = f"import sys; sys.modules['{absent}'] = None; import unhub; unhub.read_vectors('{address}')"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert re.search(f"^ImportError: {words}$", last)


def test_fsspec_is_imported_only_for_remote_files(folder: Path) -> None:
    shown = "'fsspec' in sys.modules, 'pyarrow' in sys.modules"
    program = f"import sys, unhub; unhub.read_vectors(r'{folder}/npy'); print({shown})"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split() == ["False", "False"]


# Folders with a meaning of their own.


def test_folders_of_other_programs_are_read_as_before(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip")
    rows = read_vectors(clip).rows
    assert isinstance(rows, Stacked) and all(isinstance(part[:], np.memmap) for part in rows.parts)
    assert_holds(read_vectors(clip))  # by number, not by name
    assert_holds(read_vectors(clip / "img_emb"))


@pytest.mark.parametrize(
    ("names", "below", "words"),
    [
        (["embeddings.npy", "ids.json", "manifest.json"], "", "is a folder of `unhub embed`"),
        (["000001.rows.npy", "bank.json"], "", "is a folder of `unhub log add`"),
        (["a.npy", "log.json"], "", "is a folder of `unhub serve --log`"),
        (["img_emb/img_emb_0.npy", "metadata/metadata_0.parquet"], "", "is a folder of clip-retrieval"),
        (["img_emb/img_emb_0.npy"], "/img_emb", "is a folder of clip-retrieval"),
        (["text_emb/text_emb_0.npy"], "/text_emb/", "is a folder of clip-retrieval"),
        (["x.unfinished/embeddings.npy"], "/x.unfinished", "`unhub embed` has not finished this folder; run it again"),
    ],
)
@pytest.mark.parametrize("place", ["memory", "web", "s3"], indirect=True)
def test_a_remote_folder_of_a_program_is_never_read_as_plain_shards(
    tmp_path: Path, place: Callable[[], str], names: list[str], below: str, words: str
) -> None:
    write_numbered(tmp_path / "set", names)
    root = place()
    with pytest.raises(ValueError, match=rf"^{re.escape(root + below)}: {words}[^\n]*$"):
        read_vectors(root + below)


@pytest.mark.parametrize("pattern", ["*.parquet", "**"])
def test_a_folder_that_a_pattern_finds_is_one_line(tmp_path: Path, place: Callable[[], str], pattern: str) -> None:
    write_numbered(tmp_path / "set", ["items.parquet/part-0.parquet"])
    with pytest.raises(
        ValueError, match=r"^\S+: is a folder, and a pattern finds files; name those in it, as in [^\n]*$"
    ):
        read_vectors(f"{place()}/{pattern}")


# The command line.


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Return a folder with the usual inputs, and the items in shards."""
    write_inputs(tmp_path)
    (tmp_path / "shards").mkdir()
    for number, start in enumerate(range(0, 40, 15)):
        np.save(tmp_path / "shards" / f"{number}.npy", ITEMS[start : start + 15])
    return tmp_path


def test_commands_take_folders_patterns_and_addresses(inputs: Path) -> None:
    expected = unhub.fit(ITEMS, BANK)
    with served(inputs) as web:
        for items in ("shards", "shards/*.npy", f"{web.url}/shards", f"{web.url}/shards/*.npy", f"{web.url}/items.npy"):
            succeed(inputs, "fit", "--items", items, "--bank", f"{web.url}/bank.npy", "-o", "out.unhub", "--quiet")
            assert_array_equal(unhub.load(inputs / "out.unhub").arrays["bias"], expected.arrays["bias"])
            search = ("search", "--items", items, "--correction", "out.unhub", "--queries", f"{web.url}/queries.npy")
            assert succeed(inputs, *search, "--format", "json")
        new = ("extend", "--correction", "out.unhub", "--new-items", f"{web.url}/queries.npy", "--bank", "bank.npy")
        succeed(inputs, *new, "-o", "grown.unhub")
        assert len(unhub.load(inputs / "grown.unhub")) == 43
        succeed(inputs, "fit", "--items", "shards", "--item-ids", "names.txt", *FIT[3:], "--quiet")


def test_mistakes_on_the_command_line_are_one_line(inputs: Path) -> None:
    np.save(inputs / "shards" / "1.npy", ITEMS[:, :3])
    fit = ("fit", "--bank", "bank.npy", "-o", "out.unhub", "--items")
    assert fail(inputs, *fit, "shards").startswith("--items: shards/1.npy: has 3 dimensions, shards/0.npy 8; ")
    assert fail(inputs, *fit, "shards/*.parquet") == "--items: shards/*.parquet: finds no files"
    assert "did you mean 's3'?" in fail(inputs, *fit, "s4://bucket/items")
    assert fail(inputs, *fit, "s3://").startswith("--items: path is 's3://', a protocol without a place; ")
    with served(inputs) as web:
        web.status = 401
        said = fail(inputs, *fit, f"{web.url}/items.npy")
        assert said.startswith(f"--items: {web.url}/items.npy: access is denied (401 Unauthorized); ")


def test_a_file_that_a_pattern_finds_is_never_replaced(inputs: Path) -> None:
    target = ("fit", "--items", "shards/*.npy", "--bank", "bank.npy", "--overwrite", "-o", "shards/1.npy")
    said = fail(inputs, *target)
    assert said == "--output: shards/1.npy is an input of this command; name another file"
    assert os.listdir(inputs / "shards").count("1.npy") == 1


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_a_list_of_files_is_one_set_in_its_order(folder: Path, kind: str) -> None:
    files = [folder / kind / f"part-{number}.{kind}" for number in (2, 0)]
    read = unhub.read_vectors([files[0], str(files[1])])
    order = [*range(6, 13), *range(5)]
    assert_array_equal(read.rows[:], ROWS[order])
    assert_array_equal(read.ids, np.array(NAMES)[order] if kind == "parquet" else np.arange(len(order)))
    (folder / "ids.txt").write_text("".join(f"k{one}\n" for one in order))
    assert unhub.read_vectors(tuple(files), ids=folder / "ids.txt").ids[0] == "k6"
    assert f"Stacked(shape=(12, {ROWS.shape[1]}), dtype={ROWS.dtype}, parts=2, first='" in repr(read)
    assert files[0].name in repr(read)


def test_a_list_that_is_none_of_files_is_an_error(folder: Path) -> None:
    for wrong in (folder / "npy", folder / "missing.npy", "npy/*.npy", "s3://bucket/one.npy", "items.npz"):
        with pytest.raises(ArgumentError, match=r"^path is a list with '.*', and .*; name a folder, a pattern"):
            unhub.read_vectors([folder / "npy" / "part-0.npy", wrong])
    with pytest.raises(ArgumentError, match=r"^path is an empty list; name at least one file$"):
        unhub.read_vectors([])
    with pytest.raises(ArgumentError, match=r"^path must be a file, a folder, a pattern or a list of files, got int$"):
        unhub.read_vectors(cast("Any", 3))
    with pytest.raises(ArgumentError, match=r"^path is a list of both \.npy and \.parquet files; name one kind$"):
        unhub.read_vectors([folder / "npy" / "part-0.npy", folder / "parquet" / "part-0.parquet"])
