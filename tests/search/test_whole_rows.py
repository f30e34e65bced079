"""gc looks at each item alone: a search goes over the bank once, in blocks of items, whatever the queries."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import unhub
from unhub.arrays import Float32, Float64, Kind, Span, unit
from unhub.correction import Rescore
from unhub.data.similarity import Similarity
from unhub.methods import global_rank

N, M, Q, D = 90, 70, 17, 5
METHODS = ["gc", "gc:quantiles=6"]


@cache
def data() -> tuple[Float32, Float32, Float32]:
    """Return items, of which some are equal, a bank and queries, of which some are in the bank."""
    random = np.random.default_rng(3)
    items, bank, queries = (random.standard_normal((count, D)).astype(np.float32) for count in (N, M, Q))
    items[40:44] = items[7]
    queries[:3] = bank[:3]
    return items, bank, queries


def ranked(corrected: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """Return the positions of the k best, the lower first among equals."""
    return np.argsort(-corrected.astype(np.float64), axis=1, kind="stable")[:, :k]


def definition(correction: unhub.Bias | unhub.Rescore | unhub.Plan, kind: Kind) -> Float64:
    items, _, queries = data()
    scores = queries @ items.T if kind == "dot" else unit(queries) @ unit(items).T
    return correction.apply(scores).astype(np.float64)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of seven items, and of five queries against them."""
    monkeypatch.setattr("unhub.methods.global_rank.MOST_BLOCK_ITEMS", 7)
    monkeypatch.setattr("unhub.search.whole_rows.BLOCK_ENTRIES", 35)


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_and_threads_find_what_the_definition_ranks_first(
    threads: int, method: str, kind: Kind, small_blocks: None
) -> None:
    items, bank, queries = data()
    correction = unhub.fit(items, bank, method=method, similarity=kind)
    expected = definition(correction, kind)
    for k in (1, 10, N):
        ids, scores = unhub.searcher(items, correction, threads=threads).search(queries, k=k)
        np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :k], atol=1e-5)
        np.testing.assert_allclose(np.take_along_axis(expected, ids.astype(np.int64), axis=1), scores, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_equal_items_come_in_their_order_across_blocks_and_threads(method: str, small_blocks: None) -> None:
    items, bank, _ = data()
    correction = unhub.fit(items, bank, method=method)
    for threads in (1, 2, 3):
        ids = unhub.searcher(items, correction, threads=threads).search(items[7:8], k=5).ids
        assert ids.tolist() == [[7, 40, 41, 42, 43]]


@pytest.mark.parametrize("method", METHODS)
def test_only_what_is_allowed_is_returned(method: str, small_blocks: None) -> None:
    items, bank, queries = data()
    correction = unhub.fit(items, bank, method=method)
    allowed = np.array([2, 3, 30, 61, 62, 89])
    found = unhub.searcher(items, correction, threads=2).search(queries, k=8, among=allowed)
    expected = definition(correction, "cosine")[:, allowed]
    assert_array_equal(found.ids[:, :6], allowed[ranked(expected, 6)])
    assert (found.ids[:, 6:] == -1).all()


def test_the_bank_is_gone_over_once_for_all_queries(monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> None:
    items, bank, queries = data()
    correction = unhub.fit(items, bank, method="gc")
    seen: list[Span] = []
    sort = global_rank.sorted_thresholds

    def watched(similarity: Similarity, span: Span) -> Float32:
        seen.append(span)
        return sort(similarity, span)

    monkeypatch.setattr(global_rank, "sorted_thresholds", watched)
    searcher = unhub.searcher(items, correction, threads=2)
    monkeypatch.setattr("unhub.search.whole_rows.ROWS_BYTES", 4 * N)  # one query's row
    searcher.search(queries, k=3)
    assert sorted(seen) == [(start, min(start + 7, N)) for start in range(0, N, 7)]


def test_what_is_not_allowed_is_not_counted(monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> None:
    items, bank, queries = data()
    searcher = unhub.searcher(items, unhub.fit(items, bank, method="gc"), threads=1)
    seen: list[Span] = []
    sort = global_rank.sorted_thresholds

    def watched(similarity: Similarity, span: Span) -> Float32:
        seen.append(span)
        return sort(similarity, span)

    monkeypatch.setattr(global_rank, "sorted_thresholds", watched)
    searcher.search(queries, k=1, among=[15, 20])
    assert seen == [(14, 21)]


@pytest.mark.parametrize("method", METHODS)
def test_progress_reaches_the_end(method: str, small_blocks: None) -> None:
    items, bank, queries = data()
    correction = unhub.fit(items, bank, method=method)
    assert isinstance(correction, Rescore)
    calls: list[tuple[int, int]] = []
    unhub.searcher(items, correction).search(queries, k=3, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (Q * N, Q * N)
