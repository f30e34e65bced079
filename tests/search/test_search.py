"""A searcher finds what the definition ranks first, in every index, and follows its items."""

import sys
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

import unhub
from unhub.arrays import Float32, Float64, Kind, unit
from unhub.correction import Bias, Correction, Rescore, Scores
from unhub.data.vectors import Vectors
from unhub.indexes import INDEXES, InProcess
from unhub.indexes.approximate import Approximate
from unhub.indexes.factory import library, plain_factory, set_parameters
from unhub.indexes.faiss import faiss_index
from unhub.layouts import Shape
from unhub.search.searcher import Searcher

Floats = NDArray[np.float64]

N, Q, D = 400, 24, 12
INDEX_SPECS = ["exact", "torch:cpu", "faiss:Flat", "faiss:HNSW32", "faiss:IVF8,Flat;nprobe=8"]


def indexes(*specs: str) -> pytest.MarkDecorator:
    """Run a test with each index; those of faiss have no kernels of ours in them."""
    return pytest.mark.parametrize(
        "index", [pytest.param(spec, marks=[] if spec == "exact" else pytest.mark.once) for spec in specs]
    )


BANK_METHODS = [
    "raw",
    "is",
    "dis",
    "csls",
    "gc",
    "gc:quantiles=9",
    "nnn",
    "dualis",
    "dualdis",
    "dn",
    "cent",
    "sn:tau=0.05",
    "dbsn:tau=0.05",
    "otn",
    "l2n",
    "hn",
]


@cache
def data(seed: int = 0) -> tuple[Floats, Floats, Floats, Floats]:
    """Return items with hubs among them, a bank, bank items and queries, in another direction than the items."""
    rng = np.random.default_rng(seed)
    gap = rng.standard_normal(D)
    items = rng.standard_normal((N, D)) + rng.uniform(0, 1, (N, 1)) * gap
    bank, bank_items, queries = (
        rng.standard_normal((150, D)) + gap,
        rng.standard_normal((90, D)),
        rng.standard_normal((Q, D)) + gap,
    )
    for array in (items, bank, bank_items, queries):
        array.setflags(write=False)
    return items, bank, bank_items, queries


def fit(method: str, similarity: Kind = "cosine", items: ArrayLike | Vectors | None = None) -> Correction:
    gallery, bank, bank_items, _ = data()
    return unhub.fit(
        gallery if items is None else items, bank, method=method, bank_items=bank_items, similarity=similarity
    )


def similarities(queries: ArrayLike, items: ArrayLike, similarity: Kind = "cosine") -> Float32:
    """Return s with the product's own rounding: counts and plans jump where a similarity moves by its last bit."""
    q, g = np.asarray(queries, np.float32), np.asarray(items, np.float32)
    return q @ g.T if similarity == "dot" else unit(q) @ unit(g).T


def assert_best(hits: unhub.Hits, corrected: Scores, k: int, ids: ArrayLike | None = None, atol: float = 1e-5) -> None:
    """Check that hits are the k best of the corrected scores: other ids only where scores are equal up to 1e-5."""
    names = np.arange(corrected.shape[1]) if ids is None else np.asarray(ids)
    assert hits.ids.shape == hits.scores.shape == (len(corrected), k)
    filled = min(k, corrected.shape[1])
    column = {name: place for place, name in enumerate(names.tolist())}
    found = np.array([[column[one] for one in row[:filled]] for row in hits.ids.tolist()])
    assert all(len(set(row)) == filled for row in found.tolist())
    exact, scores = corrected.astype(np.float64), hits.scores.astype(np.float64)
    best = -np.sort(-exact, axis=1)[:, :filled]
    np.testing.assert_allclose(np.take_along_axis(exact, found, axis=1), best, atol=atol)
    np.testing.assert_allclose(scores[:, :filled], best, atol=atol)
    assert np.all(np.diff(hits.scores[:, :filled], axis=1) <= 0)
    assert np.all(np.isneginf(hits.scores[:, filled:]))


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("method", BANK_METHODS)
@indexes(*INDEX_SPECS)
def test_every_index_agrees_with_the_definition(index: str, method: str, similarity: Kind) -> None:
    items, _, _, queries = data()
    correction = fit(method, similarity)
    hits = unhub.searcher(items, correction, index=index, threads=1).search(queries, k=10)
    atol = 2e-5 if "quantiles" in method else 1e-5  # an interpolated count is steep in s
    assert_best(hits, correction.apply(similarities(queries, items, similarity)), 10, atol=atol)


@pytest.mark.parametrize("method", ["is", "dis", "gc"])
@indexes(*INDEX_SPECS)
def test_items_of_unit_length_are_searched_alike_also_when_longer_ones_come_and_go(index: str, method: str) -> None:
    items, bank, _, queries = data()
    rows = (items / np.linalg.norm(items, axis=1, keepdims=True)).astype(np.float32)
    correction = unhub.fit(rows, bank, method=method, threads=1)
    searcher = unhub.searcher(rows, correction, index=index, threads=1)
    assert searcher.items.unit_length == isinstance(correction, Bias)
    assert_best(searcher.search(queries, k=10), correction.apply(similarities(queries, rows)), 10)
    if method != "is":
        return  # cannot be extended
    longer = 3 * rows[::2, ::-1]
    searcher.add(longer, unhub.extend(correction, longer, bank))
    together = np.concatenate([rows, longer])
    assert_best(searcher.search(queries, k=10), searcher.correction.apply(similarities(queries, together)), 10)
    searcher.remove(np.arange(7, len(rows)))
    left = np.concatenate([rows[:7], longer])
    hits = searcher.search(queries, k=10)
    best = np.argsort(-searcher.correction.apply(similarities(queries, left)), axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(hits.ids, searcher.items.ids[best])


def test_every_index_is_tested() -> None:
    assert {spec.partition(":")[0] for spec in INDEX_SPECS} == set(INDEXES)


@indexes(*INDEX_SPECS)
@pytest.mark.parametrize("method", ["is", "dis", "nnn"])
def test_strength_weighs_the_bias_of_all_queries_or_each(index: str, method: str) -> None:
    items, _, _, queries = data()
    correction = cast("Bias", fit(method))
    searcher = unhub.searcher(items, correction, index=index, threads=1)
    raw = similarities(queries, items)
    each = np.linspace(-0.5, 2, Q)
    for strength in (0.0, 0.4, 1, 3.0):
        assert_best(searcher.search(queries, k=5, strength=strength), correction.apply(raw, strength), 5)
    assert_best(searcher.search(queries, k=5, strength=each), correction.apply(raw, each), 5)


@indexes(*INDEX_SPECS)
@pytest.mark.parametrize("method", ["is", "dis", "gc", "hn"])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 1.0])
def test_among_returns_only_the_allowed(index: str, method: str, share: float) -> None:
    items, _, _, queries = data()
    correction = fit(method)
    allowed = np.sort(np.random.default_rng(1).choice(N, int(share * N), replace=False))
    hits = unhub.searcher(items, correction, index=index, threads=1).search(queries, k=8, among=allowed[::-1])
    assert_best(hits, correction.apply(similarities(queries, items))[:, allowed], 8, ids=allowed)
    again = unhub.searcher(items, correction, index=index, threads=1).search(queries, k=8, among=set(allowed.tolist()))
    np.testing.assert_array_equal(again.ids, hits.ids)


@indexes(*INDEX_SPECS)
@pytest.mark.parametrize("method", ["is", "dis", "gc"])
def test_excluded_ids_leave_their_places_to_the_next(index: str, method: str) -> None:
    items, _, _, queries = data()
    correction = fit(method)
    searcher = unhub.searcher(items, correction, index=index, threads=1)
    plain = searcher.search(queries, k=6).ids
    exclude: list[int | list[int] | set[int] | None] = [None] * Q
    exclude[0], exclude[1], exclude[2], exclude[3] = int(plain[0, 0]), plain[1, :4].tolist(), set(plain[2].tolist()), []
    corrected = correction.apply(similarities(queries, items)).astype(np.float64)
    for row, banned in enumerate([[plain[0, 0]], plain[1, :4], plain[2]]):
        corrected[row, banned] = -np.inf
    assert_best(searcher.search(queries, k=6, exclude=exclude), corrected, 6)


def test_an_item_does_not_find_itself() -> None:
    items = data()[0]
    searcher = unhub.searcher(items, unhub.fit(items, items, method="nnn:k=5"))
    hits = searcher.search(items, k=3, exclude=np.arange(N))
    assert not np.any(hits.ids == np.arange(N)[:, None])


def test_among_and_exclude_can_leave_places_empty() -> None:
    items, _, _, queries = data()
    searcher = unhub.searcher(items, fit("is"))
    hits = searcher.search(queries[:2], k=4, among=[3, 5, 7], exclude=[5, [3, 5, 7]])
    assert set(hits.ids[0, :2].tolist()) == {3, 7}
    assert hits.ids[0, 2:].tolist() == [-1, -1]
    assert hits.ids[1].tolist() == [-1] * 4
    assert np.isneginf(hits.scores[0, 2:]).all()
    assert np.isneginf(hits.scores[1]).all()
    nothing = searcher.search(queries[:2], k=2, among=[])
    assert nothing.ids.tolist() == [[-1, -1]] * 2


@indexes(*INDEX_SPECS)
def test_k_over_the_number_of_items_is_filled_up(index: str) -> None:
    items, _, _, queries = data()
    correction = fit("is")
    hits = unhub.searcher(items, correction, index=index, threads=1).search(queries[:3], k=N + 5)
    assert_best(hits, correction.apply(similarities(queries[:3], items)), N + 5)
    assert hits.ids[:, N:].tolist() == [[-1] * 5] * 3


@indexes("exact", "faiss:Flat", "faiss:HNSW32")
def test_one_item_and_one_query(index: str) -> None:
    items, bank, _, queries = data()
    hits = unhub.searcher(items[:1], unhub.fit(items[:1], bank), index=index).search(queries[:1], k=2)
    assert hits.ids.tolist() == [[0, -1]]
    assert hits.scores[0, 0] == pytest.approx(similarities(queries[:1], items[:1])[0, 0], abs=1e-6)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
@indexes("exact", "faiss:Flat")
@pytest.mark.parametrize("method", ["raw", "gc", "hn:zeros=tied"])
def test_equal_scores_go_to_the_lower_position(index: str, method: str, k: int) -> None:
    items = np.ones((9, 4))
    correction = unhub.fit(items, np.ones((3, 4)), method=method)
    hits = unhub.searcher(items, correction, index=index).search(np.ones((1, 4)), k=k)
    assert hits.ids.tolist() == [list(range(k))]


def test_string_ids_name_the_hits() -> None:
    items, bank, _, queries = data()
    ids = np.array([f"photo-{i}" for i in range(N)])
    named = Vectors(ids, items)
    correction = unhub.fit(named, bank, method="is")
    searcher = unhub.searcher(named, correction)
    hits = searcher.search(queries, k=N + 1, exclude=["photo-7"] * Q)
    plain = unhub.searcher(items, fit("is")).search(queries, k=N, exclude=[7] * Q)
    np.testing.assert_array_equal(hits.ids[:, : N - 1], ids[plain.ids[:, : N - 1]])
    assert set(hits.ids[:, N - 1 :].ravel().tolist()) == {""}
    only = searcher.search(queries, k=1, among={"photo-7"})
    assert set(only.ids.ravel().tolist()) == {"photo-7"}


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 40),
    q=st.integers(1, 6),
    d=st.integers(1, 8),
    k=st.integers(1, 50),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    order=st.sampled_from("CF"),
    index=st.sampled_from(["exact", "faiss:Flat", "faiss:HNSW8"]),
)
def test_any_shape_and_layout(
    seed: int, n: int, q: int, d: int, k: int, dtype: type[np.floating], order: str, index: str
) -> None:
    rng = np.random.default_rng(seed)
    items, queries = (np.asarray(rng.standard_normal((m, d)), dtype=dtype, order=cast("None", order)) for m in (n, q))
    for array in (items, queries):
        array.setflags(write=False)
    before = items.tobytes(), queries.tobytes()
    correction = unhub.fit(items, queries, method="is", threads=1)
    hits = unhub.searcher(items, correction, index=index, threads=1).search(queries, k=k)
    assert_best(hits, correction.apply(similarities(queries, items)), k)
    assert before == (items.tobytes(), queries.tobytes())


def test_mapped_files_are_searched_as_they_lie(tmp_path: Path) -> None:
    items, bank, _, queries = data()
    np.save(tmp_path / "items.npy", items.astype(np.float16))
    mapped = np.load(tmp_path / "items.npy", mmap_mode="r")
    correction = unhub.fit(mapped, bank, method="is")
    hits = unhub.searcher(mapped, correction).search(queries, k=10)
    assert_best(hits, correction.apply(similarities(queries, np.asarray(mapped))), 10)


def test_exact_search_never_holds_the_whole_matrix() -> None:
    rng = np.random.default_rng(0)
    items, queries = rng.standard_normal((60_000, 8), np.float32), rng.standard_normal((2_000, 8), np.float32)
    searcher = unhub.searcher(items, unhub.fit(items, queries[:50]), threads=1)
    searcher.search(queries[:10])  # so that nothing is compiled or imported under the measurement
    tracemalloc.start()
    searcher.search(queries, k=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(items) * len(queries) * 4 / 8


def test_whole_rows_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    items, _, _, queries = data()
    correction = fit("dualdis")
    whole = unhub.searcher(items, correction).search(queries, k=5)
    monkeypatch.setattr("unhub.search.whole_rows.ROWS_BYTES", 4 * N * 5)
    sizes: list[int] = []
    apply = Rescore.apply

    def watched(self: Rescore, scores: ArrayLike) -> Scores:
        sizes.append(len(np.asarray(scores)))
        return apply(self, scores)

    monkeypatch.setattr(Rescore, "apply", watched)
    blocks = unhub.searcher(items, correction).search(queries, k=5)
    assert sizes == [5, 5, 5, 5, 4]
    np.testing.assert_array_equal(blocks.ids, whole.ids)


def test_the_gate_looks_at_all_items_even_among_a_few() -> None:
    items, _, _, queries = data()
    correction = cast("Bias", fit("dis"))
    raw = similarities(queries, items)
    active = np.zeros(N, np.bool_)
    active[raw[: Q // 2].argmax(axis=1)] = True  # so that some queries are gated and others not
    gated = replace(correction, arrays={**correction.arrays, "active": active})
    assert 0 < int(active[raw.argmax(axis=1)].sum()) < Q
    allowed = np.flatnonzero(~active)
    hits = unhub.searcher(items, gated).search(queries, k=5, among=allowed)
    assert_best(hits, gated.apply(raw)[:, allowed], 5, ids=allowed)


def test_progress_is_told_to_the_end() -> None:
    items, _, _, queries = data()
    for index, method in (("exact", "is"), ("faiss:Flat", "is"), ("exact", "gc")):
        told: list[tuple[int, int]] = []
        searcher = unhub.searcher(items, fit(method), index=index, progress=lambda done, total: None)
        searcher.search(queries, progress=lambda done, total, told=told: told.append((done, total)))  # type: ignore[misc]
        assert told[-1][0] == told[-1][1]


# Items against the correction.


def test_items_in_another_order_are_put_in_place_by_their_ids() -> None:
    items, _, _, queries = data()
    order = np.random.default_rng(0).permutation(N)
    correction = fit("is")
    hits = unhub.searcher(Vectors(order, items[order]), correction, index="faiss:Flat").search(queries, k=10)
    assert_best(hits, correction.apply(similarities(queries, items)), 10)


def refusals() -> Sequence[tuple[str, ArrayLike | Vectors]]:
    items = data()[0]
    changed = items.copy()
    changed[7, 3] += 0.001
    return [
        (r"^items differs .* in row 7 \(item 7\) and in 0 more of 400 rows; refit or extend", changed),
        (
            r"^items differs .* in row 0 \(item 0\).*399 more of 400.*if only the order of the rows changed",
            items[::-1],
        ),
        (
            r"^items has 3 of 400 rows that are not in the correction, for example 400; refit or extend.* give the ids",
            Vectors(np.arange(3, N + 3), items),
        ),
        (
            r"^items lacks 2 of the 400 items of the correction, for example 398; give them all, or remove the missing",
            items[:-2],
        ),
        ("has ids that are strings, the ids here are int", Vectors(np.arange(N).astype(np.str_).astype("<U3"), items)),
        (r"items has 11 dimensions, the correction was fitted on 12", items[:, :-1]),
        (r"items holds nan in row 5", np.where(np.arange(N)[:, None] == 5, np.nan, items)),
        (r"items must be a matrix", items[0]),
    ]


@pytest.mark.parametrize(("message", "wrong"), refusals())
def test_other_items_are_refused(message: str, wrong: ArrayLike | Vectors) -> None:
    with pytest.raises(ValueError, match=message):
        unhub.searcher(wrong, fit("is"))


def test_a_correction_of_a_given_matrix_is_refused() -> None:
    items, _, _, queries = data()
    correction = unhub.fit(unhub.Dense(similarities(queries, items)), method="is")
    with pytest.raises(
        ValueError, match=r"was fitted on a similarity matrix and has no vectors; apply it to a matrix of scores"
    ):
        unhub.searcher(items, correction)


def test_an_unknown_index_is_refused_with_the_names() -> None:
    items, correction = data()[0], fit("is")
    with pytest.raises(
        ValueError, match=r"^index 'fais' is unknown; did you mean 'faiss'\? the indexes are exact, torch, faiss"
    ):
        unhub.searcher(items, correction, index="fais:HNSW32")
    with pytest.raises(ValueError, match=r"^index 'exact' takes no settings, got 'fast'; write 'exact' alone"):
        unhub.searcher(items, correction, index="exact:fast")
    with pytest.raises(
        ValueError, match=r"^index 'faiss' has no factory string; write one after a colon, for example faiss:HNSW32"
    ):
        unhub.searcher(items, correction, index="faiss")
    with pytest.raises(
        ValueError, match=r"^index 'faiss:HNSWx' is not a factory string that FAISS accepts.*; .*HNSW32"
    ):
        unhub.searcher(items, correction, index="faiss:HNSWx")
    with pytest.raises(ValueError, match=r"^index 'faiss:PCA4' is not a factory string .*as in PCA16,Flat"):
        unhub.searcher(items, correction, index="faiss:PCA4")
    with pytest.raises(
        ValueError,
        match=r"^index 'faiss:PQ300' .* for vectors of 14 to 141 dimensions; .*divide the dimensions, so use fewer",
    ):
        unhub.searcher(items, correction, index="faiss:PQ300")
    with pytest.raises(ValueError, match="nprobe=3' cannot set the parameter nprobe to 3: this index does not have it"):
        unhub.searcher(items, correction, index="faiss:HNSW32;nprobe=3")
    with pytest.raises(ValueError, match=r"'faiss:HNSW32;efSearch=x' has the parameter 'efSearch=x', .* name=number"):
        unhub.searcher(items, correction, index="faiss:HNSW32;efSearch=x")
    for factory, needed in (("IVF512,Flat", 512), ("PQ6x9", 512), ("HNSW8_PQ6x10", 1024), ("IVF4,PQ6x9", 512)):
        with pytest.raises(
            ValueError, match=rf"'faiss:{factory}' has {needed} clusters or centroids to train.* 400 items; use fewer"
        ):
            unhub.searcher(items, correction, index=f"faiss:{factory}")
    with pytest.raises(ValueError, match=r"'faiss:RQ2x9' cannot be trained on 400 items: .*; use fewer clusters"):
        unhub.searcher(items, correction, index="faiss:RQ2x9")
    with pytest.raises(ValueError, match="threads must be a whole number"):
        unhub.searcher(items, correction, threads=0)


def test_without_faiss_the_line_to_install_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install 'unhub\[faiss\]'"):
        unhub.searcher(data()[0], fit("is"), index="faiss:Flat")


# Queries and the other arguments.


def test_wrong_arguments_are_named() -> None:
    items, _, _, queries = data()
    searcher = unhub.searcher(items, fit("is"))
    search = searcher.search
    with pytest.raises(ValueError, match=r"^queries must be \(queries, dimensions\).*one query as a single row"):
        search(queries[0])
    with pytest.raises(ValueError, match="queries has 5 dimensions, the items 12; embed both with one model"):
        search(queries[:, :5])
    with pytest.raises(ValueError, match="queries holds inf in row 2"):
        search(np.where(np.arange(Q)[:, None] == 2, np.inf, queries))
    with pytest.raises(ValueError, match="queries has only zeros in row 1"):
        search(queries * (np.arange(Q) != 1)[:, None])
    for k in (0, -1, 2.5, True, "3"):
        with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
            search(queries, k=cast("int", k))
    with pytest.raises(ValueError, match=r"strength must be one number or one per query \(24\), got shape \(2,\)"):
        search(queries, strength=[1, 2])
    with pytest.raises(ValueError, match="strength must be finite, got nan"):
        search(queries, strength=np.nan)
    with pytest.raises(ValueError, match=r"exclude must have one entry .* for each of 24 queries, got 2 entries"):
        search(queries, exclude=[1, 2])
    with pytest.raises(ValueError, match="exclude has 24 unknown id"):
        search(queries, exclude=[N] * Q)
    with pytest.raises(ValueError, match="among has 2 unknown id"):
        search(queries, among=[1, N, N + 1])
    with pytest.raises(ValueError, match="among has ids that are strings, the ids here are integers"):
        search(queries, among=["1"])
    with pytest.raises(ValueError, match="among must be a collection of ids, got '12'; put a single id in a list"):
        search(queries, among="12")


@pytest.mark.parametrize("method", ["gc", "dualdis", "hn"])
def test_strength_is_refused_where_there_is_no_bias(method: str) -> None:
    items, _, _, queries = data()
    with pytest.raises(ValueError, match=f"strength must be 1 for '{method}"):
        unhub.searcher(items, fit(method)).search(queries, strength=0.5)


# Life after the fit.


def part(correction: Correction, positions: ArrayLike) -> Correction:
    """Return the correction of some of the items, their biases as they are."""
    kept = np.asarray(positions)
    assert isinstance(correction, Bias)
    arrays = {
        name: array[kept] if len(array) == len(correction) else array for name, array in correction.arrays.items()
    }
    return replace(correction, ids=correction.ids[kept], item_hashes=correction.item_hashes[kept], arrays=arrays)


@pytest.mark.parametrize("method", ["is", "dis"])
@indexes(*INDEX_SPECS, "faiss:PQ4x4", "faiss:NSG32,Flat")
def test_a_searcher_follows_its_items(index: str, method: str) -> None:
    items, _, _, queries = data()
    whole = fit(method)
    searcher = unhub.searcher(items[:300], part(whole, range(300)), index=index, threads=1)
    for stop in (301, 350, N):
        searcher.add(items[len(searcher) : stop], part(whole, range(stop)))
    kept = np.arange(N)
    for gone in (kept[::7], np.array([1, 399]), np.arange(100, 130)):
        gone = np.intersect1d(gone, kept)
        kept = np.setdiff1d(kept, gone)
        searcher.remove(gone, part(whole, kept))
    assert len(searcher) == len(kept)
    expected = part(whole, kept).apply(similarities(queries, items[kept]))
    hits = searcher.search(queries, k=10)
    assert set(hits.ids.ravel().tolist()) <= set(kept.tolist())
    if index in INDEX_SPECS:  # the others are only nearly right, but never return what is gone
        assert_best(hits, expected, 10, ids=kept)
    if method == "dis" and index not in INDEX_SPECS:  # its gate is only nearly right too
        return
    allowed = kept[::2]
    assert_best(searcher.search(queries, k=len(allowed), among=allowed), expected[:, ::2], len(allowed), ids=allowed)


@pytest.mark.parametrize("method", ["is", "dis:k=2", "nnn:k=9", "sn:tau=0.05"])
@indexes("exact", "faiss:HNSW32")
def test_extended_and_shrunk_corrections_are_followed(index: str, method: str) -> None:
    items, bank, _, queries = data()
    correction = unhub.fit(items[:300], bank, method=method)
    searcher = unhub.searcher(items[:300], correction, index=index, threads=1)
    grown = unhub.extend(correction, items[300:], bank)
    searcher.add(items[300:], grown)
    assert_best(searcher.search(queries), grown.apply(similarities(queries, items)), 10)
    if method.startswith("dis"):
        searcher.remove(range(50), unhub.remove(grown, range(50), items=items, bank=bank))
    else:
        searcher.remove(range(50))
    assert_best(
        searcher.search(queries), searcher.correction.apply(similarities(queries, items[50:])), 10, range(50, N)
    )


def test_a_changed_bias_is_indexed_anew() -> None:
    items, _, _, queries = data()
    first, whole = fit("sn:tau=0.05", items=items[:300]), fit("sn:tau=0.05")
    searcher = unhub.searcher(items[:300], first, index="faiss:HNSW32", threads=1)
    searcher.add(items[300:], whole)
    assert_best(searcher.search(queries), whole.apply(similarities(queries, items)), 10)
    searcher.remove(np.arange(300, N), first)
    assert_best(searcher.search(queries), first.apply(similarities(queries, items[:300])), 10)


@pytest.mark.parametrize("method", ["gc", "dualdis"])
def test_whole_row_corrections_follow_with_a_refit(method: str) -> None:
    items, _, _, queries = data()
    first, whole = fit(method, items=items[:300]), fit(method)
    searcher = unhub.searcher(items[:300], first)
    searcher.add(items[300:], whole)
    assert_best(searcher.search(queries), whole.apply(similarities(queries, items)), 10)
    searcher.remove(np.arange(300, N), first)
    assert_best(searcher.search(queries), first.apply(similarities(queries, items[:300])), 10)


@pytest.mark.once
def test_an_item_over_the_radius_makes_faiss_store_all_anew() -> None:
    items, _, _, queries = data()
    longer = np.concatenate([items, 10 * items[:1]])
    whole = fit("is", "dot", items=longer)
    searcher = unhub.searcher(items, part(whole, range(N)), index="faiss:HNSW32", threads=1)
    searcher.add(longer[N:], whole)
    assert_best(searcher.search(queries), whole.apply(similarities(queries, longer, "dot")), 10, atol=1e-4)


@pytest.mark.once
@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        *((spec, stored) for spec in INDEX_SPECS if spec.startswith("faiss") for stored in (0, 1)),
        ("faiss:NSG16,Flat", 0),  # which is made in one go
    ],
)
def test_an_addition_that_fails_leaves_a_searcher_as_it_was(
    spec: str, stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, _, _, queries = data()
    whole = fit("is")
    first = part(whole, range(300))
    searcher = unhub.searcher(items[:300], first, index=spec, threads=1)
    monkeypatch.setattr("unhub.indexes.approximate.rows_per_block", lambda dimensions: 30)
    augmented, calls = Shape.items, []

    def short_of_memory(self: Shape, block: Float32, bias: Float64, radius: float) -> Float32:
        calls.append(len(block))
        if len(calls) > stored:
            raise MemoryError
        return augmented(self, block, bias, radius)

    with monkeypatch.context() as patched:
        patched.setattr(Shape, "items", short_of_memory)
        with pytest.raises(MemoryError):
            searcher.add(items[300:], whole)
    assert len(searcher) == len(searcher.correction) == 300
    assert_best(searcher.search(queries), first.apply(similarities(queries, items[:300])), 10)
    searcher.add(items[300:], whole)
    assert_best(searcher.search(queries), whole.apply(similarities(queries, items)), 10)
    searcher.remove(np.arange(40))
    left = part(whole, range(40, N))
    assert_best(searcher.search(queries), left.apply(similarities(queries, items[40:])), 10, ids=range(40, N))


@pytest.mark.once
def test_faiss_serves_on_where_memory_is_short_for_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    items, _, _, queries = data()
    whole = fit("is")
    searcher = unhub.searcher(items, whole, index="faiss:HNSW32", threads=1)

    def short_of_memory(*_: object) -> Float32:
        raise MemoryError

    monkeypatch.setattr(Shape, "items", short_of_memory)
    searcher.remove(np.arange(300))
    left = part(whole, range(300, N))
    assert_best(searcher.search(queries), left.apply(similarities(queries, items[300:])), 10, ids=range(300, N))


@pytest.mark.once
def test_faiss_is_rebuilt_when_most_places_are_dead() -> None:
    items, bias = data()[0], np.zeros(N)
    index = faiss_index(Vectors(np.arange(N), items), bias, "cosine", "HNSW16", threads=1)
    index.remove(np.arange(150))
    assert len(index.positions) == N
    index.remove(np.arange(150, 210))
    assert len(index.positions) == N - 210


@pytest.mark.once
def test_too_few_items_to_train_anew_keep_the_old_clusters() -> None:
    items, _, _, queries = data()
    whole = fit("is")
    searcher = unhub.searcher(items, whole, index="faiss:IVF8,Flat;nprobe=8", threads=1)
    searcher.remove(range(5, N))
    assert_best(searcher.search(queries, k=5), part(whole, range(5)).apply(similarities(queries, items[:5])), 5)


@pytest.mark.once
def test_many_small_changes_leave_a_flat_searcher() -> None:
    rng = np.random.default_rng(0)
    many = sys.getrecursionlimit() + 100
    items = rng.standard_normal((many, 3)).astype(np.float32)
    whole = unhub.fit(items, rng.standard_normal((9, 3)), method="is")
    searcher = unhub.searcher(items[:10], part(whole, range(10)))
    kept = list(range(10))
    for new in range(10, many):
        kept.append(new)
        searcher.add(Vectors(np.array([new]), items[new : new + 1]), part(whole, kept))
        if new % 3 == 0:
            del kept[new % len(kept)]
            searcher.remove(np.setdiff1d(searcher.items.ids, kept), part(whole, kept))
    queries = rng.standard_normal((4, 3))
    assert_best(searcher.search(queries), part(whole, kept).apply(similarities(queries, items[kept])), 10, ids=kept)


def test_wrong_changes_are_refused_and_change_nothing() -> None:
    items, _, _, queries = data()
    whole = fit("is")
    searcher = unhub.searcher(items[:300], part(whole, range(300)))
    before = searcher.search(queries)
    with pytest.raises(ValueError, match=r"^correction covers only the 300 items held; extend it"):
        searcher.add(items[300:], searcher.correction)
    with pytest.raises(ValueError, match=r"^new_items has \d+ items \(ids .*\), but the correction has 100"):
        searcher.add(items[300:350], whole)
    with pytest.raises(ValueError, match=r"^new_items has \d+ items \(ids .*\), but the correction has 100"):
        searcher.add(Vectors(np.arange(100), items[300:]), whole)
    with pytest.raises(ValueError, match=r"^items differs from the items of the fit in row 0"):
        searcher.add(items[300:][::-1], whole)
    with pytest.raises(
        ValueError, match=r"^correction does not begin with the 300 items that stay; extend the correction"
    ):
        searcher.add(items[300:], part(whole, range(100, N)))
    with pytest.raises(ValueError, match="ids has 1 unknown id"):
        searcher.remove([300])
    with pytest.raises(ValueError, match=r"^correction covers 300 items, but 299 are left"):
        searcher.remove([299], part(whole, range(300)))
    after = searcher.search(queries)
    np.testing.assert_array_equal(after.ids, before.ids)


@pytest.mark.once
def test_quantised_indexes_give_exact_scores() -> None:
    items, _, _, queries = data()
    correction = fit("is")
    corrected = correction.apply(similarities(queries, items)).astype(np.float64)
    for factory in ("SQ8", "PQ5x4", "OPQ4,IVF4,PQ4x4;nprobe=4", "LSH", "HNSW16,SQ8", "PCA8,Flat"):
        hits = unhub.searcher(items, correction, index=f"faiss:{factory}", threads=1).search(queries, k=10)
        defined = np.take_along_axis(corrected, hits.ids.astype(np.int64), axis=1)
        np.testing.assert_allclose(hits.scores.astype(np.float64), defined, atol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize(
    "factory",
    ["IDMap,Flat", "Flat,IDMap2", "IDMap2,HNSW32", "L2norm,Flat", "Pad64,Flat", "Flat,RFlat", "PCA14,NSG16,Flat"],
)
def test_a_factory_string_that_loses_nothing_finds_what_is_defined(factory: str) -> None:
    items, _, _, queries = data()
    whole = fit("is")
    searcher = unhub.searcher(items[:300], part(whole, range(300)), index=f"faiss:{factory}", threads=1)
    searcher.add(items[300:], whole)
    searcher.remove([3, 5])
    corrected = whole.apply(similarities(queries, items))
    corrected[:, [3, 5]] = -np.inf
    np.testing.assert_array_equal(searcher.search(queries, k=5).ids, np.argsort(-corrected, axis=1)[:, :5])


@pytest.mark.once
@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("IVF4(IDMap,Flat),Flat", "IVF4(Flat),Flat"),
        ("IVF4(HNSW8,IDMap2),Flat", "IVF4(HNSW8),Flat"),
        ("IDMap,IDMap2,Flat", "Flat"),
        ("IDMap", "IDMap"),
        ("MyIDMap,Flat", "MyIDMap,Flat"),
    ],
)
def test_maps_of_ids_are_left_out_wherever_they_stand(given: str, plain: str) -> None:
    assert plain_factory(given) == plain


@pytest.mark.once
def test_a_map_of_ids_inside_clusters_is_searched_and_one_around_nothing_refused() -> None:
    items, _, _, queries = data()
    inside, plain = (
        unhub.searcher(items, fit("is"), index=f"faiss:{factory}", threads=1).search(queries, k=5).ids
        for factory in ("IVF4(IDMap,Flat),Flat", "IVF4(Flat),Flat")
    )
    np.testing.assert_array_equal(inside, plain)
    with pytest.raises(
        ValueError, match=r"'faiss:IDMap' is not a factory string .*; PCA16 and IDMap need an index after"
    ):
        unhub.searcher(items, fit("is"), index="faiss:IDMap")


@pytest.mark.once
def test_a_refined_index_looks_at_more_than_it_returns_and_no_time_goes_into_polysemous_codes() -> None:
    faiss = library()
    index = faiss.index_factory(16, "PQ4x4,RFlat")
    set_parameters(index, "")
    base = faiss.downcast_index(index.base_index)
    assert (index.k_factor, base.do_polysemous_training) == (4, False)
    set_parameters(index, "k_factor_rf=7")
    assert index.k_factor == 7
    polysemous = faiss.index_factory(16, "PQ4x4")
    set_parameters(polysemous, "ht=5")
    assert polysemous.do_polysemous_training


def test_a_searcher_says_what_it_is() -> None:
    searcher: Searcher = unhub.searcher(data()[0], fit("is:tau=0.5"), index="faiss:Flat")
    assert repr(searcher) == "<Searcher faiss:Flat: is:tau=0.5, 400 items>"


def test_one_long_list_of_exclusions_costs_its_own_query_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(40)
    items, queries = rng.standard_normal((300, 8)), rng.standard_normal((5, 8))
    searcher = unhub.searcher(items, unhub.fit(items, rng.standard_normal((200, 8)), method="is"))
    fetched: list[tuple[int, int]] = []
    assert isinstance(searcher._index, InProcess)
    find = searcher._index.find

    def counted(queries: Float32, weights: Float64, k: int, *rest: Any) -> Any:
        fetched.append((len(queries), k))
        return find(queries, weights, k, *rest)

    monkeypatch.setattr(searcher._index, "find", counted)
    exclude: list[Any] = [None, [7], np.arange(200), None, [3, 4]]
    ids, scores = searcher.search(queries, k=3, exclude=exclude)
    assert sorted(fetched) == [(1, 4), (1, 5), (1, 259), (2, 3)]
    plain, _ = searcher.search(queries, k=300)
    for row, gone in enumerate(exclude):
        left = [one for one in plain[row].tolist() if gone is None or one not in gone]
        assert ids[row].tolist() == left[:3]
    assert (np.diff(scores, axis=1) <= 0).all()


def test_no_queries_have_no_answers() -> None:
    items = np.eye(4)
    ids, scores = unhub.searcher(items, unhub.fit(items, items)).search(np.empty((0, 4)), k=2)
    assert ids.shape == scores.shape == (0, 2)


def concentrated(rows: int) -> Floats:
    """Return vectors with most of their length in the first dimensions, which the first part of a code must hold."""
    return np.asarray(np.random.default_rng(0).standard_normal((rows, 32)) * np.r_[np.full(4, 4.0), np.full(28, 0.5)])


def of_parts(rows: int) -> Floats:
    """Return vectors whose parts of four dimensions are one of sixteen each, which a code of such parts holds whole."""
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((8, 16, 4))
    return np.concatenate([part[rng.integers(16, size=rows)] for part in parts], axis=1)


@pytest.mark.once
@pytest.mark.parametrize(("made", "rotated"), [(concentrated, True), (of_parts, False)])
def test_codes_get_the_vectors_in_the_form_in_which_more_is_found(
    made: Callable[[int], Floats], rotated: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = made(1500)
    items, queries = rows[:1000], rows[1000:1100]
    correction = unhub.fit(items, rows[1100:], method="nnn:k=8,alpha=0.75")
    searcher = unhub.searcher(items, correction, index="faiss:PQ9x6")
    assert capfd.readouterr() == ("", "")  # FAISS itself would warn of few items, part by part
    engine = searcher._index
    assert isinstance(engine, Approximate) and engine.backend.stored.shape.rotate is rotated
    found, right = (one.search(queries, k=10).ids for one in (searcher, unhub.searcher(items, correction)))
    assert np.mean([np.isin(*both).mean() for both in zip(right, found, strict=True)]) > 0.9
