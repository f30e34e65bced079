"""Passes: stream a similarity in tiles over the threads, reducing each tile while it is in cache."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub import kernels
from unhub.arrays import Float32, Float64, Kind, Span, spans
from unhub.compute.workers import Progress, Workers
from unhub.data.similarity import Similarity
from unhub.data.vectors import HARMLESS, Vectors, check_range

# BLAS likes tiles of this size better than ones that fit the second-level cache: it copies both sides of each to get
# ready. Fewer rows have more columns, up to what kernels.add_powers takes.
TILE_ROWS, TILE_ENTRIES, MOST_COLUMNS = 2560, 2560 * 2576, 5808
LINE = 16  # float32 in a line of cache
SEARCHED = 1280  # queries at a time in a search: each thread keeps what it found for as many
FEWEST_ITEMS = 64  # at a time, whatever they take: fewer starve the multiply
GENTLE = 80.0  # float32 holds a tile's sums of exp(x) for any x from minus to plus this
STATE_BYTES = 64 << 20  # what prepared items and their running values may take


@dataclass(frozen=True)
class Want:
    """What a pass should bring back: log-sums at some betas, top-k means, top values, each query's best items.

    The k of the means rise.
    """

    betas: tuple[float, ...] = ()
    top_means: tuple[int, ...] = ()
    top_values: int = 0
    best_items: int = 0

    def __or__(self, other: Want) -> Want:
        """Return what serves both."""
        return Want(
            tuple(dict.fromkeys(self.betas + other.betas)),
            tuple(sorted({*self.top_means, *other.top_means})),
            max(self.top_values, other.top_values),
            max(self.best_items, other.best_items),
        )

    @property
    def top(self) -> int:
        """How many of an item's largest scores must be known."""
        return max(self.top_values, *self.top_means, 0)

    @property
    def empty(self) -> bool:
        return self == Want()


@dataclass(frozen=True, eq=False)
class Found:
    """What a pass brought back.

    log_sums: logsumexp(beta * score) over the queries, by beta, (items,) each. top_means: mean of the k largest scores,
    by k. top_values: (items, k), largest first. best_items, best_scores: (queries, k), best first.
    """

    log_sums: dict[float, Float64]
    top_means: dict[int, Float64]
    top_values: Float32
    best_items: NDArray[np.int32]
    best_scores: Float32


class Reservoir:
    """The k largest values of each row so far, and where they stood."""

    def __init__(self, rows: int, k: int, columns: int) -> None:
        room = self.room(k, columns)
        self.k = k
        self.values = np.empty((rows, room), np.float32)
        self.places = np.empty((rows, room), np.int32)
        self.counts = np.zeros(rows, np.int64)
        self.bars = np.full(rows, -np.inf, np.float32)

    @staticmethod
    def room(k: int, columns: int) -> int:
        """Return how many values a row may hold before it is cut down to k: no more than will ever come."""
        return min(k + max(k, 96), columns) + 32

    def add(self, tile: Float32, first: int, row: int = 0) -> None:
        """Add a tile: its rows are this reservoir's from `row` on, its columns have the places from `first` on."""
        rows = slice(row, row + len(tile))
        kernels.add_top(tile, first, self.k, self.values[rows], self.places[rows], self.counts[rows], self.bars[rows])

    def best_values(self) -> Float32:
        """Return the k largest values of each row, in no order; -inf where there are fewer."""
        kernels.cut_top(self.k, self.values, self.places, self.counts)
        values = self.values[:, : self.k]
        fewest = int(self.counts.min(initial=self.k))
        if fewest < self.k:
            values[:, fewest:][np.arange(fewest, values.shape[1]) >= self.counts[:, None]] = -np.inf
        return np.pad(values, ((0, 0), (0, self.k - values.shape[1])), constant_values=-np.inf)

    def best(self) -> tuple[Float32, NDArray[np.int32]]:
        """Return the k largest values and their places, best first, the lower place first among equals.

        A row with fewer, which scores of -inf leave, has -inf and the place -1 after them.
        """
        kernels.cut_top(self.k, self.values, self.places, self.counts)
        width = int(self.counts.max(initial=0))
        absent = np.arange(width) >= self.counts[:, None]
        keys = np.where(absent, np.float32(np.inf), -self.values[:, :width])
        order = np.argsort(keys, axis=1, kind="stable")  # places came in rising order
        places = np.where(absent, np.int32(-1), self.places[:, :width])
        return -np.take_along_axis(keys, order, axis=1), np.take_along_axis(places, order, axis=1)


def reduce(similarity: Similarity, want: Want, workers: Workers, offsets: Float64 | None = None) -> Found:
    """Stream the whole matrix once and return what is wanted of it.

    `offsets` (queries,) are added to each query's scores first. The work is split over the threads in fixed parts,
    which are joined in order, so the same number of threads gives the same bits.
    """
    m, n = similarity.shape
    workers.total += m * n
    shift = None if offsets is None else offsets.astype(np.float32)
    log_sums = np.empty((len(want.betas), n))
    top_means = np.empty((len(want.top_means), n))
    top_values = np.empty((n if want.top_values else 0, want.top_values), np.float32)
    best = _BestItems(m, n, want.best_items)
    # Threads share the bank, or where it is the smaller the items, which leaves nothing to join; but then no two of
    # them may look for the best items of one query.
    parts = split(m, workers.threads if want.best_items or m >= n else 1)
    for span in spans(n, _items_at_a_time(similarity.width, want, parts)):
        items = similarity.items(span)
        shares = split(len(items), workers.threads if len(parts) == 1 and not want.best_items else 1)
        jobs = [
            functools.partial(
                _reduce_part, similarity, items[slice(*share)], span[0] + share[0], part,
                want, workers, shift, best, short_first=number % 2 == 1,
            )
            for number, (share, part) in enumerate(itertools.product(shares, parts))
        ]  # fmt: skip
        found = iter(workers.run(jobs))
        for start, stop in shares:
            states = [next(found) for _ in parts]
            here = slice(span[0] + start, span[0] + stop)
            if want.betas:
                log_sums[:, here] = functools.reduce(np.logaddexp, (state.log_sums for state in states))
            if want.top:
                top = functools.reduce(_join_top, (state.top for state in states))
                if want.top_values or len(want.top_means) > 1:
                    top = np.sort(top, axis=1)[:, ::-1]
                if want.top_values:
                    top_values[here] = top[:, : want.top_values]
                if want.top_means:
                    top_means[:, here] = _means(top, want.top_means)
    workers.passes += 1
    return Found(
        dict(zip(want.betas, log_sums, strict=True)),
        dict(zip(want.top_means, top_means, strict=True)),
        top_values,
        best.items,
        best.scores,
    )


@dataclass(frozen=True, eq=False)
class _PartState:
    log_sums: Float64
    top: Float32


def _reduce_part(
    similarity: Similarity, items: NDArray[np.generic], first_item: int, part: Span,
    want: Want, workers: Workers, shift: Float32 | None, best: _BestItems, *, short_first: bool,
) -> _PartState:  # fmt: skip
    """Reduce these items' scores with a part of the queries, tile by tile.

    With the shorter tiles first, a thread is out of step with one that has them last: they do not reduce at once.
    """
    n = len(items)
    log_sums = _LogSums(n, want.betas, similarity.bound if shift is None else np.inf)
    top = Reservoir(n, want.top, part[1] - part[0]) if want.top else None
    columns = _columns_per_tile(n)
    buffer = np.empty(min(n, TILE_ROWS) * min(part[1] - part[0], columns), np.float32)
    for span in spans(part[1], columns, start=part[0], short_first=short_first):
        queries = similarity.queries(span)
        best_here = best.open(span)
        for start, stop in spans(n, TILE_ROWS, short_first=short_first):
            tile = buffer[: (stop - start) * len(queries)].reshape(stop - start, len(queries))
            similarity.items_by_queries(items[start:stop], queries, tile)
            if shift is not None:
                tile += shift[slice(*span)]
            if top is not None:
                top.add(tile, span[0], row=start)
            best_here(tile, first_item + start)
            log_sums.add(tile, start)
            workers.tick(tile.size)
        best.close(span)
    return _PartState(log_sums.found(), top.best_values() if top is not None else np.empty((n, 0), np.float32))


class _LogSums:
    """logsumexp(beta * score) of each row so far, for some betas, where no score is farther from zero than `bound`."""

    def __init__(self, rows: int, betas: tuple[float, ...], bound: float) -> None:
        self.betas = np.array(betas, np.float32)
        self.gentle = self.betas * np.float32(bound) <= GENTLE  # these need no peak to be relative to
        self.powers = np.zeros((rows, int(self.gentle.sum())))
        self.peak = np.full(rows, -np.inf, np.float32)
        self.sums = np.zeros((rows, len(betas) - self.powers.shape[1]))

    def add(self, tile: Float32, row: int) -> None:
        """Add a tile, whose rows are these from `row` on; it may be used up."""
        rows = slice(row, row + len(tile))
        if self.powers.shape[1]:
            kernels.add_powers(tile, self.betas[self.gentle], self.powers[rows])
        if self.sums.shape[1]:
            kernels.add_log_sums(tile, self.betas[~self.gentle], self.peak[rows], self.sums[rows])

    def found(self) -> Float64:
        """Return them, (betas, rows)."""
        log_sums = np.empty((len(self.betas), len(self.peak)))
        log_sums[self.gentle] = np.log(self.powers.T)
        steep = self.betas[~self.gentle].astype(np.float64)
        log_sums[~self.gentle] = np.log(self.sums.T) + steep[:, None] * self.peak
        return log_sums


class _BestItems:
    """Each query's k best items so far. Threads work on disjoint queries."""

    def __init__(self, queries: int, items: int, k: int) -> None:
        self.k, self.item_count = k, items
        self.scores = np.full((queries if k else 0, k), -np.inf, np.float32)
        self.items = np.full((queries if k else 0, k), -1, np.int32)
        self._open: dict[Span, Reservoir] = {}

    def open(self, span: Span) -> Callable[[Float32, int], None]:
        """Return what takes the tiles, (items, queries), of these queries."""
        if self.k == 0:
            return lambda tile, first: None
        if self.k == 1:
            scores, items = self.scores[slice(*span), 0], self.items[slice(*span), 0]
            return lambda tile, first: kernels.add_column_best(tile, first, scores, items)
        reservoir = self._open[span] = Reservoir(span[1] - span[0], self.k, self.item_count + self.k)
        known = self.items[slice(*span)]
        reservoir.values[:, : self.k] = self.scores[slice(*span)]
        reservoir.places[:, : self.k] = known
        reservoir.counts[:] = (known >= 0).sum(axis=1)
        reservoir.bars[:] = self.scores[slice(*span), -1]  # -inf where there are fewer than k
        return lambda tile, first: reservoir.add(np.ascontiguousarray(tile.T), first)

    def close(self, span: Span) -> None:
        """Put the best of these queries back."""
        reservoir = self._open.pop(span, None)
        if reservoir is not None:
            scores, items = reservoir.best()
            self.scores[slice(*span), : scores.shape[1]] = scores
            self.items[slice(*span), : items.shape[1]] = items


def _join_top(first: Float32, second: Float32) -> Float32:
    """Return the largest values of both, as many as each has, in no order."""
    both = np.concatenate([first, second], axis=1)
    return np.partition(both, first.shape[1], axis=1)[:, first.shape[1] :]


def _means(top: Float32, counts: tuple[int, ...]) -> Float64:
    """Return the mean of the first k values of each row, (counts, rows), for each of the rising counts k."""
    between: Float64 = np.add.reduceat(top[:, : counts[-1]], (0, *counts[:-1]), axis=1, dtype=np.float64)
    return np.asarray(between.cumsum(axis=1).T / np.array(counts)[:, None])


def split(count: int, threads: int) -> list[Span]:
    """Cut 0..count in at most `threads` parts of nearly equal size, none shorter than a small tile."""
    parts = max(1, min(threads, count // 256))
    edges = np.linspace(0, count, parts + 1).astype(int).tolist()
    return list(itertools.pairwise(edges))


def _items_at_a_time(width: int, want: Want, parts: list[Span]) -> int:
    longest = max(stop - start for start, stop in parts)
    state = 12 * len(want.betas) + (8 * Reservoir.room(want.top, longest) + 12 if want.top else 0)
    fit = STATE_BYTES // (4 * width + len(parts) * state)
    return fit - fit % TILE_ROWS if fit > TILE_ROWS else max(FEWEST_ITEMS, fit)


def _columns_per_tile(rows: int) -> int:
    """Return an odd number of lines of cache: rows that begin at like addresses crowd each other out of it."""
    lines = min(MOST_COLUMNS, TILE_ENTRIES // min(rows, TILE_ROWS)) // LINE
    return LINE * (lines - 1 + lines % 2)


def nearest(
    queries: Float32, items: Vectors, similarity: Kind, k: int, *,
    weights: Float64 | None = None, bias: Float64 | None = None,
    threads: int | None = None, progress: Progress | None = None,
) -> tuple[Float32, NDArray[np.int64]]:  # fmt: skip
    """Return the scores and positions, (queries, k), of the k best items by s(q,g) - weight(q) * bias(g), best first.

    Queries are ready to multiply. Equal scores go to the lower position. 1 <= k <= items. A place that nothing fills
    has the score -inf and the position -1.
    """
    workers = Workers(threads, progress=progress)
    workers.total = len(queries) * len(items)
    weights = np.ones(len(queries)) if weights is None else weights
    bias = np.zeros(len(items)) if bias is None else bias
    may_overflow = float(np.abs(weights).max(initial=0)) * float(np.abs(bias).max(initial=0)) > HARMLESS
    rounds = -(-len(queries) // (SEARCHED * workers.threads))
    few = len(queries) <= SEARCHED  # a few queries share the threads by items, many by queries
    groups = list(spans(len(queries), len(queries) if few else -(-len(queries) // (rounds * workers.threads))))
    parts = split(len(items), workers.threads if few else 1)

    def answer(job: tuple[Span, Span]) -> tuple[Float32, NDArray[np.int32]]:
        group, part = job
        rows = group[1] - group[0]
        reservoir = Reservoir(rows, k, part[1] - part[0])
        columns = _columns_per_tile(rows)
        buffer = np.empty(rows * min(columns, part[1] - part[0]), np.float32)
        for start, stop in spans(part[1], columns, start=part[0]):
            block = items.unit_block(start, stop, similarity)
            tile = buffer[: rows * (stop - start)].reshape(rows, stop - start)
            _score(queries[slice(*group)], block, weights[slice(*group)], bias[start:stop], tile, apart=may_overflow)
            if may_overflow:
                check_range(tile)
            reservoir.add(tile, start)
            workers.tick(tile.size)
        return reservoir.best()

    found = iter(workers.map(answer, itertools.product(groups, parts)))
    scores = np.full((len(queries), k), -np.inf, np.float32)
    places = np.full((len(queries), k), -1)
    for group in groups:
        best = [next(found) for _ in parts]
        values, where = (np.concatenate(several, axis=1) for several in zip(*best, strict=True))
        order = np.argsort(-values, axis=1, kind="stable")[:, :k]  # parts come in the order of places
        scores[slice(*group), : order.shape[1]] = np.take_along_axis(values, order, axis=1)
        places[slice(*group), : order.shape[1]] = np.take_along_axis(where, order, axis=1)
    return scores, places


def _score(
    queries: Float32, items: Float32, weights: Float64, bias: Float64, out: Float32, *, apart: bool = False
) -> None:
    """Write s(q,g) - weight(q) * bias(g), in the way that copies less: each score, or items one dimension longer.

    The latter adds in any order, in which large numbers may overflow half-way; `apart` rules it out.
    """
    strength, penalty = weights[:, None].astype(np.float32), bias[:, None].astype(np.float32)
    if apart or len(queries) < items.shape[1]:
        np.matmul(queries, items.T, out=out)
        with np.errstate(over="ignore"):  # check_range sees it
            out -= strength * penalty.T
    else:
        np.matmul(np.concatenate([queries, strength], axis=1), np.concatenate([items, -penalty], axis=1).T, out=out)
