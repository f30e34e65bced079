"""A fit reads its bank once: rows are checked, hashed and measured when they come, whoever reads them."""

import threading
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import unhub
from unhub import kernels
from unhub.arrays import Float32, unit
from unhub.compute import passes
from unhub.data.fingerprint import Fingerprint, ReadOnce, inspect
from unhub.data.vectors import Vectors, as_vectors


class Counted:
    """Rows that count how often each was read."""

    def __init__(self, rows: Float32) -> None:
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype
        self.reads = np.zeros(len(rows), np.int64)

    def __getitem__(self, key: slice) -> NDArray[np.float32]:
        self.reads[key] += 1
        return self.rows[key]


def rows_of(n: int, d: int, seed: int = 0) -> Float32:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "TILE_ROWS", 64)
    monkeypatch.setattr(passes, "TILE_ENTRIES", 64 * 80)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["is", "nnn", "sn", "is:tau=0.001", "cent", "gc", "raw", ["is", "nnn", "csls"]])
def test_a_fit_reads_each_row_of_its_bank_once(method: str | list[str], threads: int) -> None:
    items, bank = rows_of(150, 8), Counted(rows_of(900, 8, 1))
    found = unhub.fit(items, Vectors(np.arange(900), bank), method=method, threads=threads)
    assert_array_equal(bank.reads, 1)
    first = found[0] if isinstance(found, list) else found
    assert first.source.bank == Fingerprint.of(inspect(as_vectors(bank.rows, "bank"), "bank", "cosine").hashes)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_bank_shorter_than_the_items_is_hashed_once(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    hashed: list[int] = []
    hash_rows = kernels.choose().hash_rows

    def counted(block: Float32, *rest: Any) -> None:
        hashed.append(len(block))
        hash_rows(block, *rest)

    monkeypatch.setattr(kernels.choose(), "hash_rows", counted)
    unhub.fit(rows_of(900, 8), rows_of(600, 8, 1), method="is", threads=threads)
    assert sum(hashed) == 900 + 600


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("row", [0, 421, 899])
@pytest.mark.parametrize("method", ["is", "nnn", "dis", "sn", "cent", "gc", "gc:quantiles=9", "raw"])
def test_a_bad_row_stops_any_method(method: str, row: int, threads: int) -> None:
    bank = rows_of(900, 8, 1)
    bank[row, 3] = np.nan
    with pytest.raises(ValueError, match=rf"^bank holds nan in row {row}; every number must be finite in float32$"):
        unhub.fit(rows_of(150, 8), bank, method=method, threads=threads)
    bank[row] = 0
    with pytest.raises(ValueError, match=rf"^bank has only zeros in row {row}"):
        unhub.fit(rows_of(150, 8), bank, method=method, threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["is", "nnn", "dis", "sn"])
def test_rows_of_other_lengths_among_unit_rows_are_scaled(method: str, threads: int) -> None:
    items, bank = unit(rows_of(150, 8)), unit(rows_of(900, 8, 1))
    stretched = bank.copy()
    stretched[[5, 421, 422]] *= np.float32(7)
    expected, found = (unhub.fit(items, one, method=method, threads=threads) for one in (bank, stretched))
    scores = (items[:9] @ items.T).astype(np.float64)
    assert_allclose(found.apply(scores), expected.apply(scores), atol=2e-6)


def test_unit_rows_are_not_copied_and_others_are_known_by_their_block() -> None:
    rows = unit(rows_of(90, 8))
    rows[40] *= np.float32(3)
    read = ReadOnce(as_vectors(rows, "rows"), "rows", "cosine")
    assert np.shares_memory(read.unit_block(0, 40, "cosine"), rows)
    assert not np.shares_memory(read.unit_block(30, 50, "cosine"), rows)
    assert not np.shares_memory(read.seen(unit_length=False).unit_block(0, 40, "cosine"), rows)
    assert_array_equal(read.inspected().hashes, inspect(as_vectors(rows, "rows"), "rows", "cosine").hashes)
    assert not read.inspected().unit_length
    assert not read.gather(np.arange(90)).unit_length
    assert ReadOnce(as_vectors(rows[:40], "rows"), "rows", "cosine").inspected().unit_length


def test_threads_may_read_overlapping_rows() -> None:
    rows = rows_of(4000, 16)
    read = ReadOnce(as_vectors(rows, "rows"), "rows", "dot")
    starts = np.random.default_rng(2).integers(0, 3900, (4, 60))
    workers = [threading.Thread(target=lambda mine=mine: [read.block(s, s + 100) for s in mine]) for mine in starts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert_array_equal(read.inspected().hashes, inspect(as_vectors(rows, "rows"), "rows", "dot").hashes)
