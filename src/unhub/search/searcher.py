"""Search: items, a correction and an index make a Searcher, which answers queries with Hits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub import upkeep
from unhub.arrays import Float32, Float64, Ids
from unhub.combine import CombinationLike, Sets, as_combination
from unhub.compute.workers import Progress, Workers
from unhub.correction import Bias, Correction, Rescore, Scores, check_correction, strengths
from unhub.data.ids import no_id, positions_of
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.indexes import Index, check_index, parse
from unhub.matching import check_whole, in_fitted_order, locate, prepare_queries, vector_similarity
from unhub.search.mean_ranks import rank_by_mean_rank
from unhub.search.whole_rows import rank_rows

Id: TypeAlias = int | str
Excluded: TypeAlias = Sequence[Id | Collection[Id] | None] | Ids
Positions: TypeAlias = NDArray[np.int64]
Ranked: TypeAlias = tuple[Scores, Positions]  # (queries, k) each, best first
Rank: TypeAlias = Callable[[Positions, Float64, int, Positions | None], Ranked]  # queries, strengths, k, allowed items

GATE_CANDIDATES = 10  # a quantised index may not have the raw best first, but scores of what it finds are exact


class Hits(NamedTuple):
    """The ids and scores of the items found, (queries, k) each, best first.

    A place that nothing fills has the score -inf and the id -1, or "" where ids are strings.
    """

    ids: Ids
    scores: Scores


def searcher(
    items: VectorsLike,
    correction: Correction,
    index: str = "exact",
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Searcher:
    """Return a Searcher over the items a correction was fitted on.

    `index` is `exact`, or `faiss:` and a factory string, with parameters after semicolons: `faiss:HNSW32;efSearch=256`.
    Corrections that need whole rows of similarities (gc, dualdis, and the plans otn, l2n, hn) compute those exactly,
    whatever the index.
    """
    check_correction(correction, "search with")
    check_index(index)
    ordered = in_fitted_order(as_vectors(items, "items"), correction, threads)
    return Searcher(ordered, correction, index, threads, progress)


class Searcher:
    """Items, a correction and an index. `add` and `remove` change it; do not search meanwhile."""

    def __init__(
        self,
        items: Vectors,
        correction: Correction,
        index: str = "exact",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Index the items, which `unhub.searcher` has checked to be those of the correction, in its order."""
        self._spec, self._threads = index, threads
        self._index = self._indexed(items, correction, progress)
        self._hold(correction)

    def _indexed(self, items: Vectors, correction: Correction, progress: Progress | None = None) -> Index:
        engine, settings = parse(self._spec)
        if not isinstance(correction, Bias):
            engine, settings = parse("exact")
        return engine(items, _bias(correction), vector_similarity(correction), settings, self._threads, progress)

    def _hold(self, correction: Correction) -> None:
        self._correction = replace(correction, items=self.items) if isinstance(correction, Rescore) else correction
        self._sorted: tuple[NDArray[np.int64], Ids] | None = None

    @property
    def items(self) -> Vectors:
        """The items, in the order of the correction."""
        return self._index.items

    @property
    def correction(self) -> Correction:
        """The correction it searches with."""
        return self._correction

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"<Searcher {self._spec}: {self._correction.spec}, {len(self)} items>"

    def search(
        self,
        queries: VectorsLike,
        k: int = 10,
        strength: ArrayLike = 1.0,
        exclude: Excluded | None = None,
        among: Collection[Id] | Ids | None = None,
        progress: Progress | None = None,
    ) -> Hits:
        """Return the k best items of each query.

        `strength` weighs the correction, for all queries or each: 0 gives the raw ranking. `exclude` has an entry per
        query: an id, several, or None. `among` are the only ids to return. Neither changes a score: the gate of dis
        looks at the raw best of all items, and whole-row corrections at the whole row.
        """
        ready = prepare_queries(queries, self._correction)

        def rank(group: Positions, weights: Float64, k: int, allowed: Positions | None) -> Ranked:
            return self._ranked(ready[group], weights, k, allowed, progress)

        return self._find(rank, len(ready), k, strength, exclude, among)

    def search_sets(
        self,
        sets: Iterable[ArrayLike],
        k: int = 10,
        combine: CombinationLike = "sa",
        strength: ArrayLike = 1.0,
        exclude: Excluded | None = None,
        among: Collection[Id] | Ids | None = None,
        progress: Progress | None = None,
    ) -> Hits:
        """Return the k best items of each set of queries, which describe one target together.

        `sets` are arrays (k_i, d), each of one query or more. `combine` is `sa` (mean of the similarities), `ra` (mean
        of the ranks, whose scores are minus that mean), `mf` or `ts-wf` (one combined vector), or a trained Model,
        whose head weighs queries that its text tower encoded. All but `ra` are one search with one vector for each set,
        in any index; `ra` ranks all items for each query. The rest is as in `search`, with a set for a query.
        """
        how = as_combination(combine, self.items.dimensions)
        ready = Sets.of(sets, self.items.dimensions, vector_similarity(self._correction))
        if how.by_rank:
            return self._find(self._by_mean_rank(ready, progress), len(ready), k, strength, exclude, among)
        combined = ready.combined(how)

        def rank(group: Positions, weights: Float64, k: int, allowed: Positions | None) -> Ranked:
            return self._ranked(combined[group], weights, k, allowed, progress)

        return self._find(rank, len(ready), k, strength, exclude, among)

    def _by_mean_rank(self, sets: Sets, progress: Progress | None) -> Rank:
        def rank(group: Positions, weights: Float64, k: int, allowed: Positions | None) -> Ranked:
            some = sets if len(group) == len(sets) else sets.gather(group)
            workers = Workers(self._threads, progress=progress)
            similarity = vector_similarity(self._correction)
            return rank_by_mean_rank(some, self.items, similarity, self._correction, weights, k, allowed, workers)

        return rank

    def _find(
        self, rank: Rank, count: int, k: int, strength: ArrayLike, exclude: Excluded | None,
        among: Collection[Id] | Ids | None,
    ) -> Hits:  # fmt: skip
        """Return what `rank` finds for `count` queries, or sets of them."""
        places_wanted = _count(k)
        weights = strengths(strength, count, self._correction)
        allowed = None if among is None else self._allowed(among, "among")
        banned = np.empty(0, np.int64) if exclude is None else self._banned(exclude, count)
        parts = [
            (group, self._answer(rank, group, weights[group], places_wanted, extra, allowed, mine))
            for group, extra, mine in self._groups(banned, count)
        ]
        if len(parts) == 1:
            return parts[0][1]
        back = np.argsort(np.concatenate([group for group, _ in parts]))
        ids, scores = (np.concatenate(several) for several in zip(*(hits for _, hits in parts), strict=True))
        return Hits(ids[back], scores[back])

    def _groups(
        self, banned: NDArray[np.int64], count: int
    ) -> Iterator[tuple[NDArray[np.int64], int, NDArray[np.int64]]]:
        """Yield (queries, how many more to fetch, what is banned), so that one long list costs its own query alone."""
        lists = np.bincount(banned // len(self), minlength=count)[:count]
        extras = np.where(lists > 0, 1 << np.ceil(np.log2(np.maximum(lists, 1))).astype(np.int64), 0)
        if not isinstance(self._correction, Bias):
            extras[:] = extras.max(initial=0)  # whole rows are at hand, and a plan takes all queries together
        for extra in np.unique(extras) if count else [0]:
            group = np.flatnonzero(extras == extra)
            mine = banned[np.isin(banned // len(self), group)]
            yield group, int(extra), np.searchsorted(group, mine // len(self)) * len(self) + mine % len(self)

    def _answer(
        self,
        rank: Rank,
        group: Positions,
        weights: Float64,
        k: int,
        extra: int,
        allowed: Positions | None,
        banned: Positions,
    ) -> Hits:
        fetch = min(k + extra, len(self) if allowed is None else len(allowed))
        scores: Scores = np.empty((len(group), 0), np.float32)
        places = np.empty((len(group), 0), np.int64)
        if fetch and len(group):
            scores, places = rank(group, weights, fetch, allowed)
        return self._hits(scores, places, banned, k)

    def _ranked(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        allowed: Positions | None,
        progress: Progress | None,
    ) -> Ranked:
        correction = self._correction
        if isinstance(correction, Bias):
            if correction.active is not None:
                few = min(GATE_CANDIDATES, len(self))
                raw_best = self._index.search(queries, np.zeros(len(queries)), few)[1][:, 0]
                weights = correction.weights(raw_best, weights)
            return self._index.search(queries, weights, k, allowed, progress)
        check_whole(correction, weights)
        workers = Workers(self._threads, progress=progress)
        return rank_rows(queries, self.items, vector_similarity(correction), correction, k, allowed, workers)

    def _hits(self, scores: Scores, places: NDArray[np.int64], banned: NDArray[np.int64], k: int) -> Hits:
        """Drop the banned, close the gaps, fill up to k and name what is left."""
        keys = np.arange(len(places))[:, None] * len(self) + places
        dropped = np.isin(keys, banned) | (places < 0)
        order = np.argsort(dropped, axis=1, kind="stable")[:, :k]
        filled = np.zeros((len(places), k), np.bool_)
        filled[:, : order.shape[1]] = ~np.take_along_axis(dropped, order, axis=1)
        kept = filled[:, : order.shape[1]]
        all_scores = np.full(filled.shape, -np.inf, scores.dtype)
        all_scores[filled] = np.take_along_axis(scores, order, axis=1)[kept]
        ids = np.full(filled.shape, no_id(self.items.ids.dtype), self.items.ids.dtype)
        ids[filled] = self.items.ids[np.take_along_axis(places, order, axis=1)[kept]]
        return Hits(cast("Ids", ids), all_scores)

    def _allowed(self, ids: Collection[Id] | Ids, name: str) -> NDArray[np.int64]:
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise ValueError(f"{name} must be a collection of ids, got {ids!r}; write [{ids!r}] for one")
        return np.unique(self._positions(ids if isinstance(ids, np.ndarray) else list(ids), name))

    def _banned(self, exclude: Excluded, count: int) -> NDArray[np.int64]:
        """Return query * items + position of everything excluded."""
        ids, counts = listed(exclude, count)
        return np.repeat(np.arange(count), counts) * len(self) + self._positions(ids, "exclude")

    def _positions(self, wanted: list[Id] | Ids, name: str) -> NDArray[np.int64]:
        if self._sorted is None:  # once, since sorting a million ids takes longer than most searches
            order = np.argsort(self.items.ids, kind="stable")
            self._sorted = order, self.items.ids[order]
        order, ids = self._sorted
        return order[positions_of(wanted, ids, name)]

    def add(self, new_items: VectorsLike, correction: Correction) -> None:
        """Hold new items too; `correction` covers the old ones and then these, as `unhub.extend` returns it.

        Costs the new items' work where the old biases are as they were; else everything is indexed anew.
        """
        held = np.arange(len(self))
        self._check_kept(held, correction, "add", "unhub.extend")
        new = as_vectors(new_items, "new_items")
        later = correction.ids[len(held) :]
        if not len(later):
            raise ValueError(
                f"the correction has no more than the {len(held)} items held; make one that covers new_items too with "
                "unhub.extend"
            )
        if len(new) == len(later) and not isinstance(new_items, Vectors):
            new = Vectors(later, new.rows)
        if not np.array_equal(new.ids, later):
            raise ValueError(
                f"new_items are not the {len(later)} items (ids {later[:3].tolist()}...) by which the correction goes "
                f"beyond the {len(held)} held, in their order; got {len(new)} (ids {new.ids[:3].tolist()}...)"
            )
        new = new.seen(locate(new, correction, self._threads).unit_length)
        bias = _bias(correction)
        if self._same_biases(held, correction):
            self._index.add(new, bias[len(held) :])
        else:
            self._index = self._indexed(self.items.stack(new), correction)
        self._hold(correction)

    def remove(self, ids: Collection[Id] | Ids, correction: Correction | None = None) -> None:
        """Drop items. Without a `correction` of those that are left, `unhub.remove` makes it from the one held."""
        positions = self._allowed(ids, "ids")
        kept = np.delete(np.arange(len(self)), positions)
        if correction is None:
            correction = upkeep.remove(self._correction, self.items.ids[positions])
        self._check_kept(kept, correction, "remove", "unhub.remove")
        if len(correction) != len(kept):
            raise ValueError(f"remove: {len(kept)} items are left, the correction has {len(correction)}")
        if self._same_biases(kept, correction):
            self._index.remove(positions)
        else:
            self._index = self._indexed(self.items.gather(kept), correction)
        self._hold(correction)

    def _check_kept(self, kept: NDArray[np.int64], correction: Correction, verb: str, maker: str) -> None:
        """Check that a correction begins with these of the items held, as they are."""
        check_correction(correction, verb)
        vector_similarity(correction)
        same = np.array_equal(correction.ids[: len(kept)], self.items.ids[kept])
        if not same or not np.array_equal(correction.item_hashes[: len(kept)], self._correction.item_hashes[kept]):
            raise ValueError(f"{verb}: the correction does not begin with the {len(kept)} items; make it with {maker}")

    def _same_biases(self, kept: NDArray[np.int64], correction: Correction) -> bool:
        """Whether the index can stay as it is for these items."""
        held = self._correction
        alike = (held.kind, held.source.similarity) == (correction.kind, correction.source.similarity)
        return alike and np.array_equal(_bias(held)[kept], _bias(correction)[: len(kept)])


def _count(k: object) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a whole number of at least 1, got {k!r}")
    return int(k)


def listed(exclude: Excluded, count: int) -> tuple[list[Id], list[int]]:
    """Return the ids that are excluded, query by query, and how many each of `count` queries has."""
    text = isinstance(exclude, str) or not isinstance(exclude, Sized)
    if text or len(exclude) != count:
        got = repr(exclude) if text else f"{len(exclude)} entries"
        raise ValueError(f"exclude must have one entry (an id, ids or None) for each of {count} queries, got {got}")
    entries = [_as_tuple(entry, query) for query, entry in enumerate(exclude)]
    return [one for entry in entries for one in entry], [len(entry) for entry in entries]


def _as_tuple(entry: Id | Collection[Id] | None, query: int) -> tuple[Id, ...]:
    if entry is None:
        return ()
    if isinstance(entry, str | int | np.integer):
        return (entry,)
    if not isinstance(entry, Iterable):
        raise ValueError(f"exclude must have an id, ids or None for each query, got {entry!r} for query {query}")
    return tuple(entry)


def _bias(correction: Correction) -> Float64:
    """Return what an index must subtract: nothing where the correction takes whole rows."""
    return correction.bias if isinstance(correction, Bias) else np.zeros(len(correction))
