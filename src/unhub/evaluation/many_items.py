"""Many items: place answers where a row of scores is too long to keep, in blocks of items, with one multiply.

An answer is compared with every item, so its score must be known before the first block, and be the same to the last
bit where its own block comes. So the scores of all answers, and of items that have copies, are computed first, and are
written over those of the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Span, spans
from unhub.compute.passes import TileSizes, split, with_room
from unhub.compute.reservoir import Reservoir
from unhub.compute.workers import Workers
from unhub.data.copies import Copies
from unhub.data.relevance import Truth
from unhub.data.similarity import Dot
from unhub.data.vectors import SAFE_SHIFT, check_range
from unhub.evaluation.excluding import LeftOut

MOST_QUERIES, FEWEST_QUERIES = 1280, 64  # at a time: each thread keeps results for them; fewer slow down the multiply
MOST_ANSWERS = 32  # of a query: each is compared with all items
KNOWN_BYTES = 64 << 20  # of scores that are computed first
LOWEST = float(np.finfo(np.float32).min)  # below every item that is ranked


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where several rankings put the answers and the best items.

    over, equal: (rankings, answers). best: (rankings, queries, k). tops: the raw best item of each query.
    """

    over: NDArray[np.int64]
    equal: NDArray[np.int64]
    best: NDArray[np.int32]
    tops: NDArray[np.int64]


def are_few(truth: Truth, copies: Copies) -> bool:
    """Return whether answers and copies are few enough to compute their scores first."""
    return int(truth.counts.max(initial=0)) <= MOST_ANSWERS and _group_rows(truth, copies) >= FEWEST_QUERIES


def _group_rows(truth: Truth, copies: Copies) -> int:
    """Return how many queries are ranked at a time, so that what is computed first stays within KNOWN_BYTES."""
    rows, answers, firsts = MOST_QUERIES, int(truth.counts.max(initial=0)), len(np.unique(copies.firsts))
    while rows > 1 and 4 * rows * (rows * answers + firsts) > KNOWN_BYTES:
        rows //= 2
    return rows


def place_in_blocks(
    similarity: Dot,
    truth: Truth,
    biases: Sequence[Float32],
    workers: Workers,
    best: int,
    copies: Copies,
    left_out: LeftOut | None,
) -> Ranks:
    """Return where the rankings by s - h put the answers, for each h of `biases`."""
    (m, n), k = similarity.shape, min(best, similarity.shape[1])
    workers.total += m * n
    ranks = Ranks(
        np.zeros((len(biases), len(truth.positions)), np.int64),
        np.zeros((len(biases), len(truth.positions)), np.int64),
        np.full((len(biases), m, k), -1, np.int32),
        np.zeros(m, np.int64),
    )
    parts = split(n, workers.lanes)
    there = similarity.on(workers.kernel.NAME) if workers.kernel.ON_DEVICE else similarity
    ranked = _Ranked(there, truth, biases, k, copies, left_out)
    for span in spans(m, _group_rows(truth, copies)):
        group = _Group(ranked, span, workers)
        found = workers.map(group.place, parts)
        mine = truth.span(*span)
        for number in range(len(biases)):
            ranks.over[number, mine] = sum(part.over[number] for part in found)
            ranks.equal[number, mine] = sum(part.equal[number] for part in found)
            if k:
                ranks.best[number, slice(*span)] = _joined([part.best[number] for part in found], k)
        ranks.tops[slice(*span)] = _joined([part.tops for part in found], 1)[:, 0]
    workers.passes += 1
    return ranks


@dataclass(frozen=True, eq=False)
class _Part:
    """What was found among some of the items: counts, (rankings, answers), and scores and places of the best."""

    over: NDArray[np.int64]
    equal: NDArray[np.int64]
    best: list[tuple[Float32, NDArray[np.int32]]]
    tops: tuple[Float32, NDArray[np.int32]]


@dataclass(frozen=True, eq=False)
class _Ranked:
    """What is ranked, by which biases, and how many of the best items are kept."""

    similarity: Dot
    truth: Truth
    biases: Sequence[Float32]
    k: int
    copies: Copies
    left_out: LeftOut | None


class _Group:
    """Some queries, with the scores that are known before any block."""

    def __init__(self, ranked: _Ranked, span: Span, workers: Workers) -> None:
        self.kernel, self.workers = workers.kernel, workers
        self.similarity, self.biases = ranked.similarity, ranked.biases
        self.k, self.left_out = ranked.k, ranked.left_out
        self.span, self.rows = span, span[1] - span[0]
        mine, copies = ranked.truth.span(*span), ranked.copies
        self.starts = ranked.truth.starts[span[0] : span[1] + 1] - mine.start
        answers = ranked.truth.positions[mine]
        self.positions = np.union1d(answers, np.concatenate([copies.firsts, copies.positions]))
        firsts = self.positions.copy()
        firsts[np.searchsorted(self.positions, copies.positions)] = copies.firsts
        self.scored, self.columns = np.unique(firsts, return_inverse=True)  # copies have the scores of their firsts
        self.known = with_room(self.kernel, lambda sizes: self._known())
        owners = np.repeat(np.arange(self.rows), np.diff(self.starts))
        answering = self.columns[np.searchsorted(self.positions, answers)]
        bars = self.kernel.host(self.known)[owners, answering]
        self.bars = [bars - h[answers] for h in self.biases]

    def _known(self) -> Any:
        tile = self.kernel.empty((self.rows, len(self.scored)))
        if len(self.scored):
            some = self.similarity.some_items(self.scored)
            some.queries_by_items(some.queries(self.span), some.items((0, len(self.scored))), tile)
        return tile

    def place(self, part: Span) -> _Part:
        """Rank some of the items."""
        return with_room(self.kernel, lambda sizes: self._place_in(part, sizes))

    def _place_in(self, part: Span, sizes: TileSizes) -> _Part:
        kernel, columns = self.kernel, sizes.columns(self.rows)
        counts = np.zeros((2, len(self.biases), int(self.starts[-1])), np.int64)
        most = part[1] - part[0]
        held = [Reservoir(self.rows, self.k, most, kernel) for _ in self.biases] if self.k else []
        tops = Reservoir(self.rows, 1, most, kernel)
        buffers = [kernel.empty((self.rows * min(columns, most),)) for _ in range(2)]
        queries = self.similarity.queries(self.span)
        for start, stop in spans(part[1], columns, start=part[0]):
            tile, lowered = (one[: self.rows * (stop - start)].reshape(self.rows, stop - start) for one in buffers)
            self.similarity.queries_by_items(queries, self.similarity.items((start, stop)), tile)
            here = slice(*np.searchsorted(self.positions, (start, stop)).tolist())
            if here.stop > here.start:
                tile[:, self.positions[here] - start] = self.known[:, self.columns[here]]
            tops.add(tile, start)
            self._hide(tile, start, stop)
            for number, h in enumerate(self.biases):
                lowered[:] = tile
                kernel.lower(lowered, np.ones(self.rows, np.float32), h[start:stop])
                if float(np.abs(h[start:stop]).max()) > SAFE_SHIFT:
                    check_range(kernel.host(lowered))
                kernel.count_over(lowered, self.starts, self.bars[number], counts[0, number], counts[1, number])
                if self.k:
                    held[number].add(lowered, start)
            self.workers.tick(self.rows * (stop - start))
        return _Part(counts[0], counts[1], [one.best() for one in held], tops.best())

    def _hide(self, tile: Any, start: int, stop: int) -> None:
        """Put the items that are left out below all others."""
        if self.left_out is None:
            return
        rows, columns = self.left_out.within(self.span)
        there = (columns >= start) & (columns < stop)
        tile[rows[there], columns[there] - start] = LOWEST


def _joined(parts: Sequence[tuple[Float32, NDArray[np.int32]]], k: int) -> NDArray[np.int32]:
    """Return the k best places of all parts, which are in the order of positions; -1 where there are fewer."""
    values, places = (np.concatenate(several, axis=1) for several in zip(*parts, strict=True))
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(places, order, axis=1)
    return np.pad(best, ((0, 0), (0, k - best.shape[1])), constant_values=-1)
