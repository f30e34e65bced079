"""Placing: one pass over queries and items that finds the places of the answers under many corrections."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Span, spans
from unhub.compute.passes import PARTS_PER_SLOT, TileSizes, with_room
from unhub.compute.workers import Tick, Workers
from unhub.correction import Bias, Correction, Plan, Rescore, Scores, check_reach
from unhub.data.copies import NO_COPIES, Copies
from unhub.data.relevance import Truth
from unhub.data.similarity import Block, Dot, Similarity
from unhub.data.vectors import SAFE_SHIFT, check_range
from unhub.errors import ArgumentError, seen
from unhub.evaluation.excluding import NOBODY, LeftOut
from unhub.evaluation.many_items import are_few, place_in_blocks
from unhub.evaluation.measures import Places
from unhub.kernels import choose, choose_here, plain, prefer
from unhub.kernels.interface import Kernel
from unhub.matching import not_weighed
from unhub.search.whole_rows import whole_rows, work_of

TILE_BYTES = 24 << 20  # of similarities per thread at a time: some queries by all items
FEW_QUERIES, MOST_QUERIES = 64, 1280  # at a time: fewer slow down the multiply, more gain nothing
BIG_TILE_BYTES = 128 << 20  # the limit of a tile that is enlarged to FEW_QUERIES
FEWEST_QUERIES = 8  # at a time, for any number of items
BLOCK_ITEMS = 8192  # multiplied at a time
READY_BYTES = 512 << 20  # items up to this size are prepared once, larger ones again for every tile


@dataclass(frozen=True, eq=False)
class Additive:
    """Rank by s - h, or by s alone for queries whose raw best item is not active."""

    h: Float32
    active: NDArray[np.bool_] | None = None

    def weights(self, scores: Scores, kernel: Kernel = plain) -> Float32:
        """Return 1 for each query that is corrected and 0 for the others, given the scores of all items."""
        if self.active is None:
            return np.ones(len(scores), np.float32)
        return np.asarray(self.active[kernel.best_columns(scores)], np.float32)

    @functools.cached_property
    def largest(self) -> float:
        """The largest absolute value of h."""
        return float(np.abs(self.h).max(initial=0.0))

    def corrected(self, scores: Float32, weights: Float32) -> Float32:
        """Return the corrected scores; raise if float32 cannot hold them."""
        with np.errstate(over="ignore"):
            corrected = scores - weights[:, None] * self.h
        if self.largest > SAFE_SHIFT:
            check_range(corrected)
        return corrected


Ranking: TypeAlias = Additive | Rescore | Plan


@dataclass(frozen=True, eq=False)
class Placed:
    """Where a ranking puts the answers and the best items.

    better, equal: how many items are better than and equal to each answer, itself included, (answers,). best: the
    positions of the best items of each query, (queries, k), best first, and NOBODY if no item is left.
    """

    better: NDArray[np.int64]
    equal: NDArray[np.int64]
    best: NDArray[np.int32]

    def answers(self, truth: Truth, items: int) -> Places:
        """Return the places of the answers for the queries that have any."""
        answered = truth.gather(truth.answered)
        return Places.of(answered.starts, self.better, self.equal, truth.grades, items)


def as_ranking(correction: Correction, strength: float = 1.0) -> Ranking:
    """Return how a correction ranks at this strength."""
    if isinstance(correction, Bias):
        check_reach(1.0, correction.largest)
        return weighed(Additive(correction.bias.astype(np.float32), correction.active), strength)
    return weighed(correction, strength)


def weighed(ranking: Ranking, strength: float) -> Ranking:
    """Return a ranking with its bias times `strength`; a ranking that is not a bias allows only strength 1."""
    if check_strength(strength) == 1:
        return ranking
    if not isinstance(ranking, Additive):
        raise not_weighed(ranking)
    check_reach(float(strength), ranking.largest)
    return Additive((strength * ranking.h.astype(np.float64)).astype(np.float32), ranking.active)


def check_strength(strength: float) -> float:
    """Return the strength, which must be one finite number."""
    if not isinstance(strength, Real) or isinstance(strength, bool):
        raise ArgumentError("strength", f"must be one number, got {seen(strength)}")
    if not np.isfinite(strength):
        raise ArgumentError("strength", f"must be finite, got {strength}")
    return strength


def raw_ranking(items: int) -> Additive:
    """Return the ranking by similarity alone."""
    return Additive(np.zeros(items, np.float32))


def place(
    similarity: Similarity,
    truth: Truth,
    rankings: Sequence[Ranking],
    workers: Workers,
    best: int = 0,
    copies: Copies = NO_COPIES,
    left_out: LeftOut | None = None,
) -> list[Placed]:
    """Return where each ranking puts the answers of `truth`, and the `best` first items of each query.

    All rankings share one multiply; only a Plan, which is a function of all queries at once, holds the whole matrix.
    copies: items with the same contents, whose similarities are made the same to the last bit. left_out: items that are
    neither ranked for single queries nor answers to them; this changes no score and no gate.
    """
    m, n = similarity.shape
    rankings = [Additive(copies.levelled(one.h), one.active) if isinstance(one, Additive) else one for one in rankings]
    placed = [_empty(m, n, len(truth.positions), best) for _ in rankings]
    both = list(zip(rankings, placed, strict=True))
    streamed = [(ranking, out) for ranking, out in both if not isinstance(ranking, Plan)]
    planned = [(ranking, out) for ranking, out in both if isinstance(ranking, Plan)]
    if planned:
        workers.total += m * n * (1 + sum(work_of(ranking) - 1 for ranking, _ in planned))
    additive = [(ranking, out) for ranking, out in streamed if isinstance(ranking, Additive)]
    # Blocks of items are for threads, which share memory; a runner takes parts of the queries.
    shared = workers.runner is None and len(streamed) == len(additive)
    if additive and in_blocks(similarity, shared, truth, copies):
        _stream_blocks(cast("Dot", similarity), truth, additive, workers, copies, left_out)
    elif streamed:
        _stream(similarity, truth, streamed, workers, copies, left_out)
    if planned:
        matrix = np.empty((m, n), np.float32)
        workers.run([lambda: multiply(similarity, (0, m), None, matrix, copies)])
        workers.tick(m * n)
        workers.passes += 1
        for ranking, out in planned:
            corrected = whole_rows(ranking, matrix, workers)
            here = choose_here(workers.kernel.NAME)
            place_tile(corrected, (0, m), raw_ranking(n), truth, out, here, left_out)
    if left_out is None and any((one.best < 0).any() for one in placed):
        raise ValueError(
            "some scores are minus infinity: the similarities are too large for float32; scale the vectors"
        )
    return placed


def _empty(queries: int, items: int, answers: int, best: int) -> Placed:
    counts = np.empty((2, answers), np.int64)
    return Placed(counts[0], counts[1], np.full((queries, min(best, items)), -1, np.int32))


def _stream(
    similarity: Similarity,
    truth: Truth,
    rankings: Sequence[tuple[Additive | Rescore, Placed]],
    workers: Workers,
    copies: Copies,
    left_out: LeftOut | None,
) -> None:
    m, n = similarity.shape
    kernel = workers.kernel
    workers.total += m * n
    if kernel.ON_DEVICE:
        similarity = similarity.on(kernel.NAME)
    asked = _Asked(similarity, truth, tuple(ranking for ranking, _ in rankings), copies, left_out, kernel.NAME)
    outs, several = [out for _, out in rankings], 1 if workers.runner is None else PARTS_PER_SLOT
    edges = np.linspace(0, m, min(several * workers.slots, m) + 1).astype(int).tolist()
    parts = list(itertools.pairwise(edges))
    if workers.runner is None:
        ready = with_room(kernel, lambda sizes: ready_items(similarity))
        workers.map(lambda part: asked.place(part, ready, outs, workers.tick), parts)
    else:
        jobs = [_PlacingPart(asked, part, outs[0].best.shape[1]) for part in parts]
        for part, found in zip(parts, workers.run_jobs(jobs), strict=True):
            mine = truth.span(*part)
            for out, one in zip(outs, found, strict=True):
                out.better[mine], out.equal[mine], out.best[slice(*part)] = one.better, one.equal, one.best
    workers.passes += 1


@dataclass(frozen=True, eq=False)
class _Asked:
    """What every part of the queries is ranked by."""

    similarity: Similarity
    truth: Truth
    rankings: tuple[Additive | Rescore, ...]
    copies: Copies
    left_out: LeftOut | None
    device: str

    def place(self, part: Span, ready: list[Block] | None, outs: Sequence[Placed], tick: Tick) -> None:
        """Place the answers of a span of queries under every ranking."""
        kernel = choose(self.device)
        with_room(kernel, lambda sizes: self._place(part, ready, outs, tick, kernel, sizes))

    def _place(
        self,
        part: Span,
        ready: list[Block] | None,
        outs: Sequence[Placed],
        tick: Tick,
        kernel: Kernel,
        sizes: TileSizes,
    ) -> None:
        n = self.similarity.shape[1]
        rows = max(1, tile_rows(n) // sizes.divisor)
        buffer = kernel.empty((min(rows, part[1] - part[0]), n))
        for span in spans(part[1], rows, start=part[0]):
            tile = buffer[: span[1] - span[0]]
            multiply(self.similarity, span, ready, tile, self.copies)
            for ranking, out in zip(self.rankings, outs, strict=True):
                place_tile(tile, span, ranking, self.truth, out, kernel, self.left_out)
            tick(len(tile) * n)


@dataclass(frozen=True, eq=False)
class _PlacingPart:
    """A job that places the answers of some queries; it can be pickled, and run in any process."""

    asked: _Asked
    queries: Span
    best: int

    @property
    def size(self) -> int:
        """How many scores it ranks."""
        return (self.queries[1] - self.queries[0]) * self.asked.similarity.shape[1]

    def __call__(self, tick: Tick) -> list[Placed]:
        """Return where each ranking puts the answers of these queries alone, and their best items."""
        (m, n), truth = self.asked.similarity.shape, self.asked.truth
        outs = [_empty(m, n, len(truth.positions), self.best) for _ in self.asked.rankings]
        with prefer(self.asked.device):
            ready = with_room(choose(self.asked.device), lambda sizes: ready_items(self.asked.similarity))
            self.asked.place(self.queries, ready, outs, tick)
        mine, here = truth.span(*self.queries), slice(*self.queries)
        return [Placed(out.better[mine], out.equal[mine], out.best[here]) for out in outs]


def in_blocks(similarity: Similarity, additive: bool, truth: Truth, copies: Copies) -> bool:
    """Return whether to rank in blocks of items: a row of scores is long, and no ranking needs it whole."""
    long = tile_rows(similarity.shape[1]) < FEW_QUERIES
    return long and additive and isinstance(similarity, Dot) and are_few(truth, copies)


def _stream_blocks(
    similarity: Dot,
    truth: Truth,
    rankings: Sequence[tuple[Additive, Placed]],
    workers: Workers,
    copies: Copies,
    left_out: LeftOut | None,
) -> None:
    """Rank in blocks of items; of a gated ranking both sides of the gate, which is known at the end."""
    gated = [ranking for ranking, _ in rankings if ranking.active is not None]
    raw = [np.zeros(similarity.shape[1], np.float32)] if gated else []
    biases, best = [*(ranking.h for ranking, _ in rankings), *raw], rankings[0][1].best.shape[1]
    ranks = place_in_blocks(similarity, truth, biases, workers, best, copies, left_out)
    for number, (ranking, out) in enumerate(rankings):
        opened = np.ones(len(ranks.tops), bool) if ranking.active is None else ranking.active[ranks.tops]
        chosen = np.where(opened, number, len(biases) - 1)
        per_answer = chosen[truth.owners], np.arange(len(truth.positions))
        out.better[:], out.equal[:] = ranks.over[per_answer], ranks.equal[per_answer]
        out.best[:] = ranks.best[chosen, np.arange(len(chosen))]
        if left_out is not None:
            left_out.empty_places((0, len(chosen)), out.best)


def tile_rows(items: int) -> int:
    """Return how many queries are ranked at a time."""
    of_one = 4 * items
    few = max(min(FEW_QUERIES, BIG_TILE_BYTES // of_one), FEWEST_QUERIES)
    return min(max(TILE_BYTES // of_one, few), MOST_QUERIES)


def ready_items(similarity: Similarity) -> list[Block] | None:
    """Return the items prepared for the multiply, for use by every tile; None if they would take too much memory."""
    n = similarity.shape[1]
    small = 4 * n * similarity.width <= READY_BYTES
    return [similarity.items(span) for span in spans(n, BLOCK_ITEMS)] if small else None


def multiply(similarity: Similarity, span: Span, ready: list[Block] | None, tile: Float32, copies: Copies) -> None:
    """Write the scores of a span of queries with all items; items with equal contents get equal scores."""
    queries = similarity.queries(span)
    for number, (start, stop) in enumerate(spans(tile.shape[1], BLOCK_ITEMS)):
        items = similarity.items((start, stop)) if ready is None else ready[number]
        similarity.queries_by_items(queries, items, tile[:, start:stop])
    copies.level(tile)


def place_tile(
    scores: Scores,
    span: Span,
    ranking: Additive | Rescore,
    truth: Truth,
    out: Placed,
    kernel: Kernel,
    left_out: LeftOut | None = None,
) -> None:
    """Place the answers of a span of queries, given their scores of all items."""
    h, weights = np.zeros(scores.shape[1], np.float32), np.ones(len(scores), np.float32)
    if isinstance(ranking, Rescore):
        scores, kernel = ranking.apply(kernel.host(scores)), choose_here(kernel.NAME)
    else:
        h, weights = ranking.h, ranking.weights(scores, kernel)
        if ranking.largest > SAFE_SHIFT:
            ranking.corrected(np.asarray(kernel.host(scores), np.float32), weights)
    starts = truth.starts[span[0] : span[1] + 1]
    mine = slice(int(starts[0]), int(starts[-1]))
    # The compiled kernels take float32; other rankings than a bias stay in the float64 they were computed in.
    wide = not kernel.ON_DEVICE and scores.dtype != np.float32
    place_rows: Callable[..., None] = plain.place_rows if wide else kernel.place_rows
    hidden = None if left_out is None else left_out.within(span)
    if hidden is not None:
        before = scores[hidden]
        scores[hidden] = float(np.finfo(np.float64 if wide else np.float32).min)  # below every item that is ranked
    place_rows(
        scores,
        h,
        weights,
        starts - starts[0],
        truth.positions[mine],
        out.better[mine],
        out.equal[mine],
        out.best[slice(*span)],
    )
    if left_out is not None and hidden is not None:
        scores[hidden] = before  # for the rankings that come after
        left_out.empty_places(span, out.best[slice(*span)])


def occurrences(best: NDArray[np.int32], items: int) -> NDArray[np.int64]:
    """Return how many queries have each item among their best, (items,)."""
    found = best.ravel()
    if found.min(initial=0) == NOBODY:
        found = found[found != NOBODY]
    return np.bincount(found, minlength=items).astype(np.int64, copy=False)
