"""A searcher needs no items: an index that holds them elsewhere, known by id alone, serves one as well."""

from __future__ import annotations

import multiprocessing
import pickle
from multiprocessing.connection import Connection
from typing import Protocol, cast

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import unhub
from tests.search.test_search import assert_best, data, part, similarities
from unhub.arrays import Float32, Float64, Ids, Kind, unit
from unhub.correction import Bias, Correction
from unhub.data.ids import no_id
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.indexes import Changeable, Index, InProcess
from unhub.search.searcher import Searcher, searcher_over

N, Q = 120, 24
Floats = NDArray[np.float64]
Row = tuple[Floats, float]  # the vector of an item and its bias


class Shelf:
    """A database in small: rows by id, in no order that anybody knows of, ranked by plain Python."""

    def __init__(self, rows: dict[int | str, Row]) -> None:
        self.rows = dict(sorted(rows.items(), key=lambda pair: hash((str(pair[0]), 7))))

    def names(self) -> list[int | str]:
        return list(self.rows)

    def best(
        self, query: Float32, weight: float, k: int, allowed: list[int | str] | None
    ) -> list[tuple[float, int | str]]:
        some = self.rows if allowed is None else {name: self.rows[name] for name in allowed}
        scored = [(float(query @ vector) - weight * bias, name) for name, (vector, bias) in some.items()]
        return sorted(scored, key=lambda pair: -pair[0])[:k]

    def put(self, rows: dict[int | str, Row]) -> None:
        self.rows.update(rows)

    def drop(self, names: list[int | str]) -> None:
        for name in names:
            del self.rows[name]


def serve(shelf: Shelf, line: Connection) -> None:
    """Answer calls until there are no more."""
    while (call := line.recv()) is not None:
        name, arguments = call
        line.send(getattr(shelf, name)(*arguments))


class Line(Protocol):
    """A way to ask for something elsewhere: the name of what is called, its arguments, and an answer."""

    def __call__(self, name: str, *arguments: object) -> object: ...


class Remote:
    """An index whose items are elsewhere: it has no vectors, only a line to ask along."""

    def __init__(self, line: Line) -> None:
        self._call = line

    @property
    def ids(self) -> Ids:
        return cast("Ids", np.array(self._call("names")))

    def search(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Ids | None = None,
        progress: object = None,
    ) -> tuple[Float32, Ids]:
        kind = self.ids.dtype
        scores = np.full((len(queries), k), -np.inf, np.float32)
        ids = np.full((len(queries), k), no_id(kind), kind)
        for row, (query, weight) in enumerate(zip(queries, weights, strict=True)):
            asked = query, float(weight), k, None if allowed is None else allowed.tolist()
            for place, (score, name) in enumerate(cast("list[tuple[float, int]]", self._call("best", *asked))):
                scores[row, place], ids[row, place] = score, name
        return scores, cast("Ids", ids)


class Growing(Remote):
    """The same, whose items may come and go."""

    def add(self, items: Vectors, bias: Float64) -> None:
        rows = unit(np.asarray(items.rows[:], np.float32))
        self._call("put", dict(zip(items.ids.tolist(), zip(rows, bias.tolist(), strict=True), strict=True)))

    def remove(self, ids: Ids) -> None:
        self._call("drop", ids.tolist())


def rows_of(correction: Correction, items: Floats, kind: Kind) -> dict[int | str, Row]:
    vectors = np.asarray(items, np.float32)
    vectors = unit(vectors) if kind == "cosine" else vectors
    bias = correction.bias if isinstance(correction, Bias) else np.zeros(len(correction))
    return dict(zip(correction.ids.tolist(), zip(vectors, bias.tolist(), strict=True), strict=True))


def elsewhere(correction: Correction, items: Floats, kind: Kind = "cosine", grows: bool = True) -> Remote:
    """Hold these items by id and return the index of them, which sees copies alone, as over a network."""
    shelf = Shelf(rows_of(correction, items, kind))

    def call(name: str, *arguments: object) -> object:
        return pickle.loads(pickle.dumps(getattr(shelf, name)(*pickle.loads(pickle.dumps(arguments)))))

    return Growing(call) if grows else Remote(call)


def fit(method: str, kind: Kind = "cosine", names: NDArray[np.str_] | None = None) -> tuple[Correction, Floats, Floats]:
    items, bank, bank_items, queries = data()
    some = items[:N]
    gallery = some if names is None else Vectors(names, some)
    return unhub.fit(gallery, bank, method=method, bank_items=bank_items, similarity=kind, threads=1), some, queries


@pytest.mark.once
def test_items_in_another_process_are_searched() -> None:
    correction, items, queries = fit("dis:k=2")
    here, there = multiprocessing.Pipe()
    shelf = Shelf(rows_of(correction, items, "cosine"))
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(shelf, there), daemon=True)
    process.start()

    def call(name: str, *arguments: object) -> object:
        here.send((name, arguments))
        return here.recv()

    try:
        hits = searcher_over(Remote(call), correction).search(queries, k=6, among=correction.ids[::2])
    finally:
        here.send(None)
        process.join(60)
    assert_best(hits, correction.apply(similarities(queries, items))[:, ::2], 6, ids=correction.ids[::2])


@pytest.mark.once
def test_an_index_elsewhere_is_an_index_and_holds_nothing_here() -> None:
    correction, items, _ = fit("is")
    remote: Index = elsewhere(correction, items)
    assert not isinstance(remote, InProcess)
    assert isinstance(remote, Changeable)
    assert not isinstance(elsewhere(correction, items, grows=False), Changeable)
    assert not any(isinstance(value, Vectors | np.ndarray) for value in vars(remote).values())


@pytest.mark.once
@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("method", ["raw", "is", "dis:k=2", "nnn:k=9", "sn:tau=0.05"])
def test_items_elsewhere_are_ranked_as_the_definition_has_it(method: str, kind: Kind) -> None:
    correction, items, queries = fit(method, kind)
    searcher = searcher_over(elsewhere(correction, items, kind), correction)
    raw = similarities(queries, items, kind)
    assert_best(searcher.search(queries, k=7), correction.apply(raw), 7)
    each = np.linspace(-0.5, 2, Q)
    assert_best(searcher.search(queries, k=3, strength=each), cast("Bias", correction).apply(raw, each), 3)
    assert len(searcher) == N


@pytest.mark.once
def test_a_gate_is_open_for_some_queries_and_shut_for_others_elsewhere_too() -> None:
    correction, items, queries = fit("dis")
    raw = similarities(queries, items)
    gated = cast("Bias", correction)
    assert gated.active is not None
    opened = gated.active[raw.argmax(axis=1)]
    assert 0 < opened.sum() < Q
    hits = searcher_over(elsewhere(correction, items), correction).search(queries, k=5)
    assert_best(hits, correction.apply(raw), 5)


@pytest.mark.once
@pytest.mark.parametrize("named", [False, True])
def test_allowed_and_excluded_items_elsewhere_go_by_id(named: bool) -> None:
    names = np.array([f"photo-{row * 7 % N}" for row in range(N)]) if named else None
    correction, items, queries = fit("is", names=names)
    ids = correction.ids
    remote, local = elsewhere(correction, items), unhub.searcher(Vectors(ids, items), correction, threads=1)
    searcher = searcher_over(remote, correction)
    exclude = [ids[row : row + row % 4].tolist() or None for row in range(Q)]
    among = ids[::3]
    for found, right in (
        (searcher.search(queries, k=N + 2), local.search(queries, k=N + 2)),
        (searcher.search(queries, k=6, exclude=exclude), local.search(queries, k=6, exclude=exclude)),
        (
            searcher.search(queries, k=50, among=among, exclude=exclude),
            local.search(queries, k=50, among=among, exclude=exclude),
        ),
    ):
        assert_array_equal(found.ids, right.ids)
        np.testing.assert_allclose(found.scores, right.scores, atol=1e-5)
    assert searcher.search(queries[:1], k=2, among=[]).ids.tolist() == [[no_id(ids.dtype)] * 2]


@pytest.mark.once
def test_sets_of_queries_are_answered_elsewhere_unless_by_rank() -> None:
    correction, items, queries = fit("is")
    remote, local = searcher_over(elsewhere(correction, items), correction), unhub.searcher(items, correction)
    sets = [queries[:2], queries[2:7], queries[7:8]]
    for combine in ("sa", "mf", "ts-wf"):
        found, right = (one.search_sets(sets, k=5, combine=combine).ids for one in (remote, local))
        assert_array_equal(found, right)
    with pytest.raises(ArgumentError, match=r"^combine 'ra' ranks all items .*\(Growing\) holds the items elsewhere"):
        remote.search_sets(sets, combine="ra")


@pytest.mark.once
def test_items_elsewhere_come_and_go() -> None:
    whole, items, queries = fit("is")
    first = part(whole, range(100))
    searcher = searcher_over(elsewhere(first, items[:100]), first)
    searcher.add(items[100:], whole)
    assert_best(searcher.search(queries, k=8), whole.apply(similarities(queries, items)), 8)
    searcher.remove(range(30))
    left = part(whole, range(30, N))
    assert_best(searcher.search(queries, k=8), left.apply(similarities(queries, items[30:])), 8, ids=range(30, N))
    assert len(searcher) == N - 30


@pytest.mark.once
def test_what_an_index_cannot_do_is_an_error_that_says_so_and_changes_nothing() -> None:
    whole, items, queries = fit("is")
    first = part(whole, range(100))
    fixed = searcher_over(elsewhere(first, items[:100], grows=False), first)
    before = fixed.search(queries)
    with pytest.raises(ArgumentError, match=r"^new_items cannot be used: the index \(Remote\) cannot change"):
        fixed.add(items[100:], whole)
    with pytest.raises(ArgumentError, match=r"^ids cannot be used: the index \(Remote\) cannot change"):
        fixed.remove([3])
    with pytest.raises(ArgumentError, match=r"^items cannot be read from here, and the index \(Remote\) holds"):
        _ = fixed.items
    assert_array_equal(fixed.search(queries).ids, before.ids)
    assert repr(fixed) == f"<Searcher Remote: {first.spec}, 100 items>"
    growing = searcher_over(elsewhere(first, items[:100]), first)
    with pytest.raises(
        ArgumentError,
        match=r"^correction changes the biases of items held.*store all items with these biases in a new index",
    ):
        growing.add(items[100:], fit("nnn:k=9")[0])
    assert_array_equal(growing.search(queries).ids, before.ids)


@pytest.mark.once
@pytest.mark.parametrize("method", ["gc", "dualdis", "hn"])
def test_whole_rows_need_the_items_in_this_process(method: str) -> None:
    correction, items, _ = fit(method)
    with pytest.raises(
        ArgumentError,
        match=r"^correction '.*' ranks by whole rows .* holds the items elsewhere; use an index in this process",
    ):
        searcher_over(elsewhere(correction, items), correction)


@pytest.mark.once
def test_an_index_of_other_items_is_refused() -> None:
    whole, items, queries = fit("is")
    fewer = elsewhere(part(whole, range(100)), items[:100])
    with pytest.raises(
        ArgumentError, match=r"^index holds 100 items, the correction 120, and 20 ids, for example 100, are"
    ):
        searcher_over(fewer, whole)
    named = fit("is", names=np.arange(N).astype(np.str_))[0]
    with pytest.raises(ArgumentError, match=r"^index holds 100 items, the correction 120, and 100 ids"):
        searcher_over(fewer, named)
    first = part(whole, range(100))
    searcher = searcher_over(fewer, first)
    cast("Growing", fewer).add(Vectors(whole.ids[100:], items[100:]), np.full(20, -9.0))
    with pytest.raises(
        ArgumentError, match=r"^index returned the id 1\d\d, which the correction does not cover; extend"
    ):
        searcher.search(queries)


def test_an_index_of_this_process_can_be_handed_over_too() -> None:
    correction, items, queries = fit("is")
    made = unhub.searcher(items, correction, threads=1)
    again = searcher_over(made._index, correction, threads=1)
    for found, right in zip(again.search(queries), made.search(queries), strict=True):
        assert_array_equal(found, right)
    assert again.items is made.items
    with pytest.raises(ArgumentError, match=r"^items is missing, and 'exact' needs it to make an index"):
        Searcher(None, correction)


@pytest.mark.parametrize("index", ["exact", pytest.param("faiss:Flat", marks=pytest.mark.once)])
def test_an_index_of_this_process_answers_by_id_as_by_position(index: str) -> None:
    names = np.array([f"photo-{row * 7 % N}" for row in range(N)])
    correction, items, queries = fit("is", names=names)
    made = unhub.searcher(Vectors(names, items), correction, index=index, threads=1)._index
    assert isinstance(made, InProcess)
    ready, weights = unit(queries.astype(np.float32)), np.ones(Q)
    allowed = names[[5, 3, 77, 40]]
    for k, some, positions in ((7, None, None), (3, allowed, np.array([3, 5, 40, 77]))):
        scores, ids = made.search(ready, weights, k, some)
        right, places = made.find(ready, weights, k, positions)
        assert_array_equal(scores, right)
        assert_array_equal(ids, names[places])
    made.remove(cast("Ids", names[[4, 2]]))
    assert_array_equal(made.ids, np.delete(names, [2, 4]))
