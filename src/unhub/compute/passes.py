"""Passes: stream a similarity in tiles, reducing each tile while it is in cache, here or in other processes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unhub import kernels
from unhub.arrays import Float32, Float64, Span, spans
from unhub.compute.reservoir import Reservoir
from unhub.compute.weights import Weights, repeated, top_means
from unhub.compute.workers import Tick, Workers
from unhub.data.similarity import Block, Similarity
from unhub.errors import ArgumentError
from unhub.kernels import Kernel
from unhub.kernels.interface import Limits

# BLAS is faster on tiles of this size than on ones that fit the second-level cache, since it first copies both sides
# of each tile. Tiles with fewer rows have more columns, up to the limit of a kernel's add_powers.
TILE_ROWS, TILE_ENTRIES, MOST_COLUMNS = 2560, 2560 * 2576, 5808
LINE_FLOATS = 16  # in a cache line
FEWEST_ITEMS = 64  # at a time, whatever their size: with fewer, the multiply is slow
MOST_EXPONENT = 80.0  # float32 can hold a tile's sums of exp(x) for |x| up to this
STATE_BYTES = 64 << 20  # for prepared items and their running values
FEWEST_ROWS = 256  # in a part: with fewer, the multiply is slow
PARTS_PER_SLOT = 4  # elsewhere: more show more progress and lose less with a worker that dies, fewer read less
JOINED_BYTES = 1 << 30  # of best items that parts elsewhere found, before they are joined
TILE_DIVISOR, SMALLEST_TILE_DIVISOR = 4, 4096  # of the tiles on a device that is out of memory: each time, and at last

# What weights that are not whole stand against, and what to do: single scores are kept, each of which counts once.
MERGEABLE_NEEDS = (
    "mergeable (--mergeable)",
    "leave it out and, instead of merging, fit again on the whole bank, as on a bank folder, which has such weights",
)

T = TypeVar("T")


@dataclass(frozen=True)
class Want:
    """What a pass should find: log-sums at some betas, top-k means, top values, each query's best items.

    top_means: the values of k, ascending.
    """

    betas: tuple[float, ...] = ()
    top_means: tuple[int, ...] = ()
    top_values: int = 0
    best_items: int = 0

    def __or__(self, other: Want) -> Want:
        """Return a want that covers both."""
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
    """What a pass found.

    log_sums: logsumexp(beta * score) over the queries, by beta, (items,) each. top_means: mean of the k largest scores,
    by k. top_values: (items, k), largest first. best_items, best_scores: (queries, k), best first.
    """

    log_sums: dict[float, Float64]
    top_means: dict[int, Float64]
    top_values: Float32
    best_items: NDArray[np.int32]
    best_scores: Float32


def reduce(
    similarity: Similarity,
    want: Want,
    workers: Workers,
    offsets: Float64 | None = None,
    weights: Float64 | None = None,
) -> Found:
    """Stream the whole matrix once and return what `want` asks for.

    `offsets` (queries,) are added to each query's scores first; with `weights` (queries,), a query of weight 2
    counts twice. The pass is cut into fixed parts, run by the workers or their runner, and joined in order, so the same
    number of parts gives the same bits.
    """
    device = workers.kernel.NAME
    shift = None if offsets is None else offsets.astype(np.float32)
    task = Task(similarity.on(device), want, device, shift, None if weights is None else Weights(weights))
    if task.weights is not None and want.top_values:
        task.weights.check_whole(*MERGEABLE_NEEDS)
    workers.total += similarity.shape[0] * similarity.shape[1]
    joined = _Joined(*similarity.shape, want)
    for parts in plan(task, workers.slots) if workers.runner is None else groups_apart(task, workers.slots):
        joined.add(parts, workers.run_jobs(parts))
    workers.passes += 1
    return joined.found()


@dataclass(frozen=True, eq=False)
class Task:
    """What all parts of a pass share: the matrix, the want, the kernel's name and the queries' offsets and weights."""

    similarity: Similarity
    want: Want
    device: str
    shift: Float32 | None = None
    weights: Weights | None = None

    @property
    def top(self) -> int:
        """How many of an item's largest scores must be known to reach the wanted total weight."""
        return self.want.top if self.weights is None else self.weights.enough(self.want.top)


class _Group:
    """Items that are prepared for multiplying once, for all threads of a process."""

    def __init__(self, similarity: Similarity, span: Span) -> None:
        self.similarity, self.span = similarity, span
        self._lock = threading.Lock()
        self._ready: Block | None = None

    def __reduce__(self) -> tuple[type[_Group], tuple[Similarity, Span]]:
        return _Group, (self.similarity, self.span)

    def ready(self) -> Block:
        with self._lock:
            if self._ready is None:
                self._ready = self.similarity.items(self.span)
            return self._ready


@dataclass(frozen=True, eq=False)
class PassPart:
    """One job of a pass: some items against some of the queries. It can be pickled, and run in any process.

    share: the items, as a span within the group. Parts with the short tile first run out of step with parts that have
    it last, so that their threads do not all reduce at the same time.
    """

    task: Task
    group: _Group
    share: Span
    queries: Span
    short_first: bool

    @property
    def items(self) -> Span:
        """The items, as a span within the matrix."""
        return self.group.span[0] + self.share[0], self.group.span[0] + self.share[1]

    @property
    def size(self) -> int:
        """How many scores it reduces."""
        return (self.share[1] - self.share[0]) * (self.queries[1] - self.queries[0])

    def __call__(self, tick: Tick) -> Reduced:
        """Reduce the scores tile by tile; `tick` is called with the size of each tile."""
        kernel = kernels.choose(self.task.device)
        with kernels.prefer(self.task.device):  # rows that are read for the first time are hashed by it too
            return with_room(kernel, lambda sizes: self._reduced(tick, kernel, sizes))

    def _reduced(self, tick: Tick, kernel: Kernel, sizes: TileSizes) -> Reduced:
        similarity, want, shift, weights = self.task.similarity, self.task.want, self.task.shift, self.task.weights
        items, (first, last) = self.group.ready()[slice(*self.share)], self.queries
        n, m = len(items), last - first
        log_sums = LogSums(n, want.betas, similarity.bound if shift is None else np.inf, kernel)
        top = Reservoir(n, self.task.top, m, kernel) if want.top else None
        best = BestItems(self.queries, n, want.best_items, kernel)
        columns = sizes.columns(n)
        buffer = kernel.empty((min(n, sizes.rows) * min(m, columns),))
        for span in spans(last, columns, start=first, short_first=self.short_first):
            queries = similarity.queries(span)
            best_here = best.open(span)
            for start, stop in spans(n, sizes.rows, short_first=self.short_first):
                tile = buffer[: (stop - start) * len(queries)].reshape(stop - start, len(queries))
                similarity.items_by_queries(items[start:stop], queries, tile)
                if shift is not None:
                    kernel.shift(tile, shift[slice(*span)])
                if top is not None:
                    top.add(tile, span[0], row=start)
                best_here(tile, self.items[0] + start)
                log_sums.add(tile, start, None if weights is None else weights.shares[slice(*span)])
                tick((stop - start) * len(queries))
            best.close(span)
        sums, heavy = log_sums.found(), None
        values = np.empty((n, 0), np.float32)
        if top is not None and weights is None:
            values = top.best_values()
        elif top is not None and weights is not None:
            values, places = top.best()
            heavy = np.where(places >= 0, weights.values[places], 0)
        if weights is not None:
            sums += np.log(weights.unit)
        reduced = Reduced(sums, values, best.items, best.scores, heavy)
        return reduced.finished(want) if m == similarity.shape[0] and want.top else reduced


@dataclass(frozen=True, eq=False)
class Reduced:
    """What a part found: log-sums, (betas, items); top values, (items, k), unsorted; best items, (queries, k).

    top_weights: the weights of the top values, if queries have weights. top_means: if the part saw all queries, the
    means that are wanted, (counts, items), and then `top` holds only the values that are wanted, largest first.
    """

    log_sums: Float64
    top: Float32
    best_items: NDArray[np.int32]
    best_scores: Float32
    top_weights: Float64 | None = None
    top_means: Float64 | None = None

    def finished(self, want: Want) -> Reduced:
        """Return what is wanted of the top values of all queries, which is less to send than the values."""
        means = np.empty((len(want.top_means), len(self.top)))
        kept = np.empty((len(self.top), want.top_values), np.float32)
        if self.top_weights is not None:
            order = np.argsort(-self.top, axis=1, kind="stable")
            values = np.take_along_axis(self.top, order, axis=1)
            weights = np.take_along_axis(self.top_weights, order, axis=1)
            if want.top_values:
                kept = repeated(values, weights, want.top_values)
            if want.top_means:
                means = top_means(values, weights, want.top_means)
        else:
            several = want.top_values or len(want.top_means) > 1
            top = np.sort(self.top, axis=1)[:, ::-1] if several else self.top
            kept = top[:, : want.top_values]
            if want.top_means:
                means = _means(top, want.top_means)
        return dataclasses.replace(self, top=kept, top_weights=None, top_means=means)

    def beside(self, other: Reduced) -> Reduced:
        """Return this with the top values of the same items for other queries."""
        if self.top_weights is None or other.top_weights is None:
            return dataclasses.replace(self, top=_join_top(self.top, other.top))
        weights = np.concatenate([self.top_weights, other.top_weights], axis=1)
        return dataclasses.replace(self, top=np.concatenate([self.top, other.top], axis=1), top_weights=weights)


def plan(task: Task, slots: int) -> Iterator[list[PassPart]]:
    """Yield the parts of a pass, one list for each group of items; no part needs the result of another.

    Parts split the bank, or the items if the bank is smaller. Splitting the items leaves nothing to join, but is not
    possible when each query's best items are wanted.
    """
    m, n = task.similarity.shape
    best_items = task.want.best_items
    parts = split(m, slots if best_items or m >= n else 1)
    for span in spans(n, _items_at_a_time(task, parts)):
        group = _Group(task.similarity, span)
        shares = split(span[1] - span[0], slots if len(parts) == 1 and not best_items else 1)
        yield [
            PassPart(task, group, share, part, short_first=number % 2 == 1)
            for number, (share, part) in enumerate(itertools.product(shares, parts))
        ]


def plan_apart(task: Task, slots: int) -> list[PassPart]:
    """Return the parts of a pass for processes that share no memory, to be run in any order.

    Each part has items of its own and all queries, so that every row of the items is read once and a part's top values
    need not be joined. If that leaves too few items for a part, the queries are cut as well as in `plan`.
    """
    m, n = task.similarity.shape
    if n < slots * TILE_ROWS and m >= n:
        return [part for group in plan(task, slots) for part in group]
    most = min(_items_at_a_time(task, [(0, m)]), max(TILE_ROWS, -(-n // (slots * PARTS_PER_SLOT))))
    shards = split(n, slots * -(-n // (slots * most)))
    return [PassPart(task, _Group(task.similarity, span), (0, span[1] - span[0]), (0, m), False) for span in shards]


def groups_apart(task: Task, slots: int) -> list[list[PassPart]]:
    """Return the parts of `plan_apart` in groups that are joined one by one: each finds best items of all queries."""
    parts, (m, _) = plan_apart(task, slots), task.similarity.shape
    each = 8 * m * task.want.best_items
    if not each or parts[0].queries != (0, m):
        return [parts]
    return [parts[start:stop] for start, stop in spans(len(parts), max(slots, JOINED_BYTES // each))]


class _Joined:
    """What the parts of a pass found, joined in order."""

    def __init__(self, queries: int, items: int, want: Want) -> None:
        self.want = want
        self.log_sums = np.empty((len(want.betas), items))
        self.top_means = np.empty((len(want.top_means), items))
        self.top_values = np.empty((items if want.top_values else 0, want.top_values), np.float32)
        self.best_items, self.best_scores = no_best_items(queries, want.best_items)

    def add(self, parts: Sequence[PassPart], reduced: Sequence[Reduced]) -> None:
        """Add all parts of a group of items."""
        want = self.want
        pairs = zip(parts, reduced, strict=True)
        for (start, stop), same_items in itertools.groupby(pairs, key=lambda pair: pair[0].items):
            here, found = slice(start, stop), []
            for part, one in same_items:
                found.append(one)
                self._add_best(slice(*part.queries), one)
            if want.betas:
                self.log_sums[:, here] = functools.reduce(np.logaddexp, (one.log_sums for one in found))
            if want.top:
                top = functools.reduce(Reduced.beside, found)
                top = top if top.top_means is not None else top.finished(want)
                self.top_means[:, here] = top.top_means
                if want.top_values:
                    self.top_values[here] = top.top

    def _add_best(self, queries: slice, found: Reduced) -> None:
        if not self.want.best_items:
            return
        scores = np.concatenate([self.best_scores[queries], found.best_scores], axis=1)
        items = np.concatenate([self.best_items[queries], found.best_items], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.want.best_items]  # items are in ascending order
        self.best_scores[queries] = np.take_along_axis(scores, order, axis=1)
        self.best_items[queries] = np.take_along_axis(items, order, axis=1)

    def found(self) -> Found:
        return Found(
            dict(zip(self.want.betas, self.log_sums, strict=True)),
            dict(zip(self.want.top_means, self.top_means, strict=True)),
            self.top_values,
            self.best_items,
            self.best_scores,
        )


class LogSums:
    """logsumexp(beta * score) of each row so far, for some betas; `bound` is the largest absolute score."""

    def __init__(self, rows: int, betas: tuple[float, ...], bound: float, kernel: Kernel) -> None:
        self.kernel = kernel
        self.betas = np.array(betas, np.float32)
        self.bounded = self.betas * np.float32(bound) <= MOST_EXPONENT  # these do not need to be relative to a peak
        self.powers = np.zeros((rows, int(self.bounded.sum())))
        self.peak = np.full(rows, -np.inf, np.float32)
        self.sums = np.zeros((rows, len(betas) - self.powers.shape[1]))

    def add(self, tile: Float32, row: int, weights: Float32 | None) -> None:
        """Add a tile, which starts at row `row`, with the weights of its columns; the tile may be overwritten."""
        rows = slice(row, row + len(tile))
        if self.powers.shape[1]:
            self.kernel.add_powers(tile, self.betas[self.bounded], self.powers[rows], weights)
        if self.sums.shape[1]:
            self.kernel.add_log_sums(tile, self.betas[~self.bounded], self.peak[rows], self.sums[rows], weights)

    def found(self) -> Float64:
        """Return the log-sums, (betas, rows)."""
        log_sums = np.empty((len(self.betas), len(self.peak)))
        log_sums[self.bounded] = np.log(self.powers.T)
        steep = self.betas[~self.bounded].astype(np.float64)
        log_sums[~self.bounded] = np.log(self.sums.T) + steep[:, None] * self.peak
        return log_sums


def no_best_items(queries: int, k: int) -> tuple[NDArray[np.int32], Float32]:
    """Return the items and scores, (queries, k), of queries with nothing found yet; empty if k is 0."""
    shape = (queries if k else 0, k)
    return np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)


class BestItems:
    """The k best of some items, for each query of a span."""

    def __init__(self, queries: Span, items: int, k: int, kernel: Kernel) -> None:
        self.first, self.item_count, self.k, self.kernel = queries[0], items, k, kernel
        self.items, self.scores = no_best_items(queries[1] - queries[0], k)
        self._open: Reservoir | None = None

    def open(self, span: Span) -> Callable[[Float32, int], None]:
        """Return a function that takes the tiles, (items, queries), of these queries, with items in ascending order."""
        if self.k == 0:
            return lambda tile, first: None
        if self.k == 1:
            here = self._here(span)
            scores, items = self.scores[here, 0], self.items[here, 0]
            return lambda tile, first: self.kernel.add_column_best(tile, first, scores, items)
        reservoir = self._open = Reservoir(span[1] - span[0], self.k, self.item_count, self.kernel)
        return lambda tile, first: reservoir.add(self.kernel.turned(tile), first)

    def close(self, span: Span) -> None:
        """Keep the best items of these queries."""
        if self._open is not None:
            scores, items = self._open.best()
            self.scores[self._here(span), : scores.shape[1]] = scores
            self.items[self._here(span), : items.shape[1]] = items

    def _here(self, span: Span) -> slice:
        return slice(span[0] - self.first, span[1] - self.first)


def _join_top(first: Float32, second: Float32) -> Float32:
    """Return the largest values of both, as many as each one has, unsorted."""
    both = np.concatenate([first, second], axis=1)
    return np.partition(both, first.shape[1], axis=1)[:, first.shape[1] :]


def _means(top: Float32, counts: tuple[int, ...]) -> Float64:
    """Return the mean of the first k values of each row, (counts, rows), for each of the ascending counts k."""
    between: Float64 = np.add.reduceat(top[:, : counts[-1]], (0, *counts[:-1]), axis=1, dtype=np.float64)
    return np.asarray(between.cumsum(axis=1).T / np.array(counts)[:, None])


def split(count: int, parts: int) -> list[Span]:
    """Cut 0..count into at most this many parts of nearly equal size, none shorter than a small tile."""
    edges = np.linspace(0, count, max(1, min(parts, count // FEWEST_ROWS)) + 1).astype(int).tolist()
    return list(itertools.pairwise(edges))


def _items_at_a_time(task: Task, parts: list[Span]) -> int:
    longest = max(stop - start for start, stop in parts)
    state = 12 * len(task.want.betas) + (8 * Reservoir.room(task.top, longest) + 12 if task.want.top else 0)
    limits = kernels.choose(task.device).LIMITS
    room, rows = (STATE_BYTES, TILE_ROWS) if limits is None else (limits.state_bytes, limits.tile_rows)
    fit = room // (4 * task.similarity.width + len(parts) * state)
    return fit - fit % rows if fit > rows else max(FEWEST_ITEMS, fit)


def columns_per_tile(rows: int) -> int:
    """Return the columns of an odd number of cache lines: rows at similar addresses would evict each other."""
    return _odd_lines(min(MOST_COLUMNS, TILE_ENTRIES // min(rows, TILE_ROWS)))


def _odd_lines(most: int) -> int:
    lines = most // LINE_FLOATS
    return max(1, LINE_FLOATS * (lines - 1 + lines % 2))


@dataclass(frozen=True)
class TileSizes:
    """How large the tiles of a kernel are; `divisor` makes those of a device smaller than its limits allow."""

    limits: Limits | None
    divisor: int = 1

    @property
    def rows(self) -> int:
        """How many rows a tile has at most."""
        return TILE_ROWS if self.limits is None else max(1, self.limits.tile_rows // math.isqrt(self.divisor))

    def columns(self, rows: int) -> int:
        """Return how many columns a tile has at most if there are so many rows."""
        if self.limits is None:
            return columns_per_tile(rows)
        entries = self.limits.tile_entries // self.divisor
        return _odd_lines(min(self.limits.most_columns, entries // min(rows, self.rows)))


def with_room(kernel: Kernel, work: Callable[[TileSizes], T]) -> T:
    """Return what the work returns; where a device has no memory for its tiles, repeat the work with smaller ones."""
    divisor = 1
    while True:
        try:
            with kernel.lane():
                return work(TileSizes(kernel.LIMITS, divisor))
        except RuntimeError as error:
            if not kernel.is_full(error):
                raise
        divisor *= TILE_DIVISOR
        if divisor > SMALLEST_TILE_DIVISOR:
            raise no_room(kernel, "even for the smallest tiles")


def no_room(kernel: Kernel, why: str) -> ArgumentError:
    """Return the error for a device that is out of memory."""
    problem = f"{kernel.NAME.removeprefix('torch:')!r} is out of memory, {why}"
    return ArgumentError("device", problem, "free some of it, give fewer items at a time, or leave the device out")
