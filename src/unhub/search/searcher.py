"""Searcher: answer queries from items, a correction and an index."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from unhub import upkeep
from unhub.arrays import Float32, Float64, Ids
from unhub.combine import CombinationLike, Sets, as_combination
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Progress, Workers
from unhub.correction import Bias, Correction, Rescore, check_correction, strengths
from unhub.data.vectors import Vectors, VectorsLike, as_vectors, with_others
from unhub.errors import ArgumentError, check_whole
from unhub.given_again import rows_named
from unhub.indexes import Changeable, Index, InProcess, check_index, parse
from unhub.matching import check_unweighed, in_fitted_order, locate, prepare_queries, vector_similarity
from unhub.search.hits import Excluded, GivenId, Hits, Names, Positions, Rank, Ranked, Wanted, find_hits, listed
from unhub.search.in_store import StoreIndex, index_of, warn_if_behind
from unhub.search.mean_ranks import rank_by_mean_rank
from unhub.search.whole_rows import CorrectedItems, rank_rows
from unhub.stores.store import Store, Where

GATE_CANDIDATES = 10  # a quantised index may not rank the raw best first, but the scores of its candidates are exact


@shows_progress
def searcher(
    items: VectorsLike,
    correction: Correction,
    index: str | None = None,
    *,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Searcher:
    """Return a Searcher over the items a correction was fitted on, or over a store that holds them.

    A store is searched in its engine, by what was deployed there, unless an index is named; a warning says how many
    items were added to it since, where the engine counts them cheaply. `index` is `exact`, the default for vectors;
    `torch:` and a device that keeps the items and searches them exactly: `torch:cuda`; or `faiss:` and a factory
    string, with parameters after semicolons: `faiss:HNSW32;efSearch=256`.
    Corrections that need whole rows of similarities (gc, dualdis, and the plans otn, l2n, hn) compute them exactly,
    with any index.
    """
    progress = called(progress)
    check_correction(correction, "search with")
    if index is None and isinstance(items, Store):
        found = index_of(items, correction)
        warn_if_behind(items)
        return Searcher(None, correction, found, threads)
    index = "exact" if index is None else index
    check_index(index)
    ordered = in_fitted_order(as_vectors(items, "items"), correction, threads)
    return Searcher(ordered, correction, index, threads, progress)


def searcher_over(index: Index, correction: Correction, *, threads: int | None = None) -> Searcher:
    """Return a Searcher over an existing index of a correction's items, which may be outside this process.

    The index must rank by s - weight * bias with the biases of this correction; only its ids are checked, since its
    vectors may not be available.
    """
    check_correction(correction, "search with")
    vector_similarity(correction)
    differ = np.setxor1d(index.ids, correction.ids) if _one_kind(index.ids, correction.ids) else index.ids
    if len(differ):
        raise ArgumentError(
            "index",
            f"holds {len(index.ids)} items, the correction {len(correction)}, and {len(differ)} ids, for example "
            f"{differ[0].item()!r}, are in only one of them",
            "store the items that the correction was fitted on, under the same ids",
        )
    return Searcher(None, correction, index, threads)


class Searcher:
    """Items, a correction and an index. `add`, `remove` and `replace` change it; do not search at the same time."""

    def __init__(
        self,
        items: Vectors | None,
        correction: Correction,
        index: str | Index = "exact",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Index the items, which `unhub.searcher` has checked to be those of the correction, in its order.

        Without items, the index already holds them, as `searcher_over` has checked.
        """
        self._index: Index
        self._unfiltered: Index | None = None
        self._threads = threads
        self._spec = index if isinstance(index, str) else None
        if not isinstance(index, str):
            self._index = index
        elif items is not None:
            self._index = self._indexed(items, correction, progress)
        else:
            raise ArgumentError("items", f"is missing, and {index!r} needs it to make an index")
        self._hold(correction)

    def _indexed(self, items: Vectors, correction: Correction, progress: Progress | None = None) -> Index:
        engine, settings = parse(cast("str", self._spec))
        if not isinstance(correction, Bias):
            engine, settings = parse("exact")
        return engine(items, _bias(correction), vector_similarity(correction), settings, self._threads, progress)

    def _hold(self, correction: Correction) -> None:
        if not isinstance(correction, Bias):
            self._held("correction", f"{correction.spec!r} ranks by whole rows of similarities")
        self._correction = replace(correction, items=self.items) if isinstance(correction, Rescore) else correction
        # Positions are those of the index's items in this process, else those of the correction's.
        self._names = Names(self._index.ids if isinstance(self._index, InProcess) else correction.ids)

    def _held(self, argument: str, reason: str) -> Vectors:
        """Return the items; raise with this reason if they are not in this process."""
        if isinstance(self._index, InProcess):
            return self._index.items
        raise ArgumentError(
            argument,
            f"{reason}, and the index ({type(self._index).__name__}) holds the items elsewhere",
            "use an index in this process, for example exact",
        )

    @property
    def items(self) -> Vectors:
        """The items, in the order of the correction; raises if the index holds them outside this process."""
        return self._held("items", "cannot be read from here")

    @property
    def correction(self) -> Correction:
        """The correction it searches with."""
        return self._correction

    def __len__(self) -> int:
        return len(self._names.ids)

    def __repr__(self) -> str:
        return f"<Searcher {self._spec or type(self._index).__name__}: {self._correction.spec}, {len(self)} items>"

    @shows_progress
    def search(
        self,
        queries: VectorsLike,
        k: int = 10,
        strength: ArrayLike = 1.0,
        exclude: Excluded | None = None,
        among: Collection[GivenId] | Ids | None = None,
        progress: ProgressLike = None,
        *,
        where: Where = None,
    ) -> Hits:
        """Return the k best items of each query.

        `strength` scales the correction, for all queries or for each: 0 gives the raw ranking. `exclude` has an entry
        per query: an id, several, or None. `among` are the only ids to return. Neither changes a score: the gate of dis
        uses the raw best of all items, and whole-row corrections use the whole row. `where` is a filter in the language
        of the engine, if a store is searched.
        """
        progress = called(progress)
        ready = prepare_queries(queries, self._correction)
        wanted = self._wanted(len(ready), k, strength, exclude, among)
        return find_hits(self._within(where)._by_score(ready, progress), wanted, self._names.ids)

    @shows_progress
    def search_sets(
        self,
        sets: Iterable[ArrayLike],
        k: int = 10,
        combine: CombinationLike = "sa",
        strength: ArrayLike = 1.0,
        exclude: Excluded | None = None,
        among: Collection[GivenId] | Ids | None = None,
        progress: ProgressLike = None,
        *,
        where: Where = None,
    ) -> Hits:
        """Return the k best items of each set of queries that together describe one target.

        `sets` are arrays (k_i, d), each of one query or more. `combine` is `sa` (mean of the similarities), `ra` (mean
        of the ranks; scores are minus that mean), `mf` or `ts-wf` (one combined vector), or a trained Model, whose head
        weighs queries that its text tower encoded. All except `ra` search once with one vector per set, in any index;
        `ra` ranks all items for each query. The rest is as in `search`, with a set in place of a query.
        """
        progress = called(progress)
        similarity = vector_similarity(self._correction)
        dimensions = cast("int", self._correction.source.dimensions)
        how = as_combination(combine, dimensions)
        ready = Sets.of(sets, dimensions, similarity)
        if how.by_rank:
            rank = self._by_mean_rank(ready, progress)
        else:
            rank = self._within(where)._by_score(ready.combined(how), progress)
        return find_hits(rank, self._wanted(len(ready), k, strength, exclude, among), self._names.ids)

    def _within(self, where: Where) -> Searcher:
        """Return the same searcher with an engine's own filter."""
        if where is None:
            return self
        if not isinstance(self._index, StoreIndex):
            raise ArgumentError("where", "is a filter of an engine, but the items are searched here", "use among")
        narrowed = copy.copy(self)
        narrowed._index, narrowed._unfiltered = replace(self._index, where=where), self._index
        return narrowed

    def _among_all(self) -> Searcher:
        """Return the same searcher without a filter: a gate is about the raw best of all items."""
        if self._unfiltered is None:
            return self
        widened = copy.copy(self)
        widened._index = self._unfiltered
        return widened

    def _wanted(
        self,
        count: int,
        k: int,
        strength: ArrayLike,
        exclude: Excluded | None,
        among: Collection[GivenId] | Ids | None,
    ) -> Wanted:
        """Check and return what to find for `count` queries, or sets of queries."""
        places = check_whole(k, "k", 1)
        weights = strengths(strength, count, self._correction)
        allowed = None if among is None else self._names.several(among, "among")
        banned = None if exclude is None else self._banned(exclude, count)
        # With whole rows, fetching more costs nothing, and a plan needs all queries together.
        together = not isinstance(self._correction, Bias)
        return Wanted(places, weights, len(self), allowed, banned, together)

    def _banned(self, exclude: Excluded, count: int) -> Positions:
        """Return query * items + position of everything excluded."""
        ids, counts = listed(exclude, count)
        return np.repeat(np.arange(count), counts) * len(self) + self._names.positions(ids, "exclude")

    def _by_score(self, queries: Float32, progress: Progress | None) -> Rank:
        def rank(group: Positions, weights: Float64, k: int, allowed: Positions | None) -> Ranked:
            some = queries[group]
            correction = self._correction
            if not isinstance(correction, Bias):
                check_unweighed(correction, weights)
                return rank_rows(some, self._whole, k, allowed, Workers(self._threads, progress=progress))
            if correction.active is not None:
                few = min(GATE_CANDIDATES, len(self))
                raw_best = self._among_all()._nearest(some, np.zeros(len(some)), few)[1][:, 0]
                weights = correction.weights(raw_best, weights)
            return self._nearest(some, weights, k, allowed, progress)

        return rank

    def _by_mean_rank(self, sets: Sets, progress: Progress | None) -> Rank:
        self._held("combine", "'ra' ranks all items for each query")

        def rank(group: Positions, weights: Float64, k: int, allowed: Positions | None) -> Ranked:
            some = sets if len(group) == len(sets) else sets.gather(group)
            workers = Workers(self._threads, progress=progress)
            return rank_by_mean_rank(some, self._whole, weights, k, allowed, workers)

        return rank

    @property
    def _whole(self) -> CorrectedItems:
        return CorrectedItems(self.items, vector_similarity(self._correction), self._correction)

    def _nearest(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Positions | None = None,
        progress: Progress | None = None,
    ) -> Ranked:
        """Return the best items by s - weight * bias: by position in this process, else by id."""
        if isinstance(self._index, InProcess):
            return self._index.find(queries, weights, k, allowed, progress)
        names = None if allowed is None else self._names.ids[allowed]
        if isinstance(self._index, StoreIndex):
            return self._in_store(self._index, queries, weights, k, names, progress)
        scores, ids = self._index.search(queries, weights, k, names, progress)
        return scores, self._names.found(ids)

    def _in_store(
        self,
        index: StoreIndex,
        queries: Float32,
        weights: Float64,
        k: int,
        names: Ids | None,
        progress: Progress | None,
    ) -> Ranked:
        """Return the best items of a store that the correction covers.

        Others were added since, or by a sync that is under way; more are then asked for in their place.
        """
        places = k
        while True:
            scores, ids = index.search(queries, weights, places, names, progress)
            positions, strange = self._names.looked_up(ids)
            most = int(strange.sum(axis=1).max(initial=0))
            if most <= places - k:
                break
            places = k + 2 * most
        if most:
            order = np.argsort(strange, axis=1, kind="stable")[:, :k]
            scores = np.take_along_axis(np.where(strange, -np.inf, scores).astype(np.float32), order, axis=1)
            positions = np.take_along_axis(positions, order, axis=1)
        return scores, positions

    def add(self, new_items: VectorsLike, correction: Correction) -> None:
        """Add new items; `correction` covers the old ones followed by these, as `unhub.extend` returns it.

        Only the new items are indexed if the old biases are unchanged; else everything is indexed again.
        """
        changeable = self._changeable("new_items")
        held = np.arange(len(self))
        self._check_kept(held, correction, "add", "extend the correction that the searcher holds")
        new = as_vectors(new_items, "new_items")
        later = correction.ids[len(held) :]
        if not len(later):
            raise ArgumentError(
                "correction", f"covers only the {len(held)} items held", "extend it by the new items first"
            )
        if len(new) == len(later) and not isinstance(new_items, Vectors):
            new = Vectors(later, new.rows)
        if not np.array_equal(new.ids, later):
            raise ArgumentError(
                "new_items",
                f"has {len(new)} items (ids {new.ids[:3].tolist()}...), but the correction has {len(later)} (ids "
                f"{later[:3].tolist()}...) beyond the {len(held)} held",
                "give exactly those, in the order of the correction",
            )
        new = new.seen(locate(new, correction, self._threads).unit_length)
        if self._same_biases(held, correction):
            changeable.add(new, _bias(correction)[len(held) :])
        else:
            self._index = self._indexed(self._rebuildable().stack(new), correction)
        self._hold(correction)

    def remove(self, ids: Collection[GivenId] | Ids, correction: Correction | None = None) -> None:
        """Drop items; without a `correction` of those that are left, `unhub.remove` makes one from the current one."""
        changeable = self._changeable("ids")
        positions = self._names.several(ids, "ids")
        kept = np.delete(np.arange(len(self)), positions)
        if correction is None:
            correction = upkeep.remove(self._correction, self._names.ids[positions])
        self._check_kept(
            kept, correction, "remove", "remove the same items from the correction that the searcher holds"
        )
        if len(correction) != len(kept):
            raise ArgumentError(
                "correction",
                f"covers {len(correction)} items, but {len(kept)} are left",
                "give the correction of those that are left",
            )
        if not self._same_biases(kept, correction):
            self._index = self._indexed(self._rebuildable().gather(kept), correction)
        elif isinstance(self._index, InProcess):
            self._index.drop(positions)
        else:
            changeable.remove(self._names.ids[positions])
        self._hold(correction)

    def replace(self, changed: Vectors, correction: Correction) -> None:
        """Put other contents into items held; `correction` is that of all of them, as `unhub.replace` returns it.

        `changed` may also hold items that stay as they are. An index in this process is made again.
        """
        changeable = self._changeable("changed")
        check_correction(correction, "replace items of")
        if not np.array_equal(correction.ids, self._names.ids):
            problem = f"covers other items than the {len(self)} held"
            raise ArgumentError("correction", problem, "replace items of the correction that the searcher holds")
        moved = np.flatnonzero(correction.item_hashes != self._correction.item_hashes)
        new = rows_named(as_vectors(changed, "changed"), correction.ids[moved], "changed")
        locate(new, correction, self._threads)
        stays = np.delete(np.arange(len(self)), moved)
        if isinstance(self._index, InProcess) or not self._same_biases(stays, correction, stays):
            rows = with_others(self._rebuildable().rows, moved, new.rows)
            self._index = self._indexed(Vectors(correction.ids, rows), correction)
        elif len(moved):
            changeable.remove(new.ids)
            changeable.add(new, _bias(correction)[moved])
        self._hold(correction)

    def _changeable(self, argument: str) -> Changeable:
        if isinstance(self._index, Changeable):
            return self._index
        raise ArgumentError(
            argument,
            f"cannot be used: the index ({type(self._index).__name__}) cannot change the items it holds",
            "store the items in a new index, and search that",
        )

    def _rebuildable(self) -> Vectors:
        """Return the items; raise if an index with other biases cannot be made of them."""
        if self._spec is not None:
            return self.items
        raise ArgumentError(
            "correction",
            f"changes the biases of items held, and the index ({type(self._index).__name__}) was not made here",
            "store all items with these biases in a new index, and search that",
        )

    def _check_kept(self, kept: Positions, correction: Correction, verb: str, remedy: str) -> None:
        """Raise unless a correction begins with these of the items held, unchanged."""
        check_correction(correction, verb)
        vector_similarity(correction)
        same = np.array_equal(correction.ids[: len(kept)], self._names.ids[kept])
        if not same or not np.array_equal(correction.item_hashes[: len(kept)], self._correction.item_hashes[kept]):
            raise ArgumentError("correction", f"does not begin with the {len(kept)} items that stay", remedy)

    def _same_biases(self, kept: Positions, correction: Correction, now: Positions | None = None) -> bool:
        """Return whether the index can stay as it is for these items; now: their positions, by default the first."""
        held, places = self._correction, np.arange(len(kept)) if now is None else now
        alike = (held.kind, held.source.similarity) == (correction.kind, correction.source.similarity)
        return alike and np.array_equal(_bias(held)[kept], _bias(correction)[places])


def _one_kind(first: Ids, second: Ids) -> bool:
    return first.dtype.kind == second.dtype.kind


def _bias(correction: Correction) -> Float64:
    """Return the biases an index must subtract: zeros if the correction needs whole rows."""
    return correction.bias if isinstance(correction, Bias) else np.zeros(len(correction))
