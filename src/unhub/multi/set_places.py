"""Placing sets: where each combination of an item's texts puts the item, from one multiply of the single texts.

The similarity of a weighted combination is the weighted sum of the similarities of its texts, and the length of the
combined vector follows from the products of the texts with each other, so combined vectors need not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unhub.arrays import Float32, Float64, Span, spans
from unhub.combine import BLOCK_ENTRIES, Combination, average_ranks, shares, stretches
from unhub.compute.workers import Workers
from unhub.correction import Rescore, Scores
from unhub.data.copies import Copies
from unhub.data.ragged import Positions
from unhub.data.similarity import Dot
from unhub.data.vectors import Gathered, Vectors
from unhub.evaluation.placing import Additive, Placed, multiply, place_tile, ready_items, tile_rows
from unhub.multi.asking import Asked, Asking

Streamed: TypeAlias = Additive | Rescore


@dataclass(frozen=True, eq=False)
class Counts:
    """How many items are better than and equal to each set's item, itself included, (combinations, rankings, sets)."""

    better: Positions
    equal: Positions


def place_sets(
    similarity: Dot,
    asking: Asking,
    combinations: Mapping[str, Combination],
    rankings: Sequence[Streamed],
    workers: Workers,
    copies: Copies,
) -> dict[int, Counts]:
    """Return, for each size, where each combination puts the item of each set under each ranking."""
    n = similarity.shape[1]
    # Renumbered, since a text of two items occurs twice.
    rows = Vectors(np.arange(len(asking.texts)), Gathered(similarity.query_vectors.rows, asking.texts))
    single = Dot(rows, similarity.item_vectors, similarity.kind)
    ready = ready_items(single)
    level = [Additive(copies.levelled(one.h), one.active) if isinstance(one, Additive) else one for one in rankings]
    found = {
        size: Counts(*np.empty((2, len(combinations), len(rankings), len(asked.rows)), np.int64))
        for size, asked in asking.sizes.items()
    }
    sets = sum(len(asked.rows) for asked in asking.sizes.values())
    workers.total += n * (len(asking.texts) + len(combinations) * sets)

    def work(targets: Span) -> None:
        span = int(asking.starts[targets[0]]), int(asking.starts[targets[1]])
        tile = np.empty((span[1] - span[0], n), np.float32)
        multiply(single, span, ready, tile, copies)
        workers.tick(tile.size)
        queries = np.asarray(single.queries(span), np.float32)
        block = Block(asking, targets, tile, queries, list(level), copies, workers)
        for number, how in enumerate(combinations.values()):
            out = {size: (one.better[number], one.equal[number]) for size, one in found.items()}
            (block.by_rank if how.by_rank else block.by_score)(how, out)

    # At least one block for each thread, so that none is idle.
    most = min(tile_rows(n), -(-len(asking.texts) // workers.threads))
    workers.map(work, asking.blocks(most))
    workers.passes += 1
    return found


Out: TypeAlias = Mapping[int, tuple[Positions, Positions]]  # by size: better and equal, (rankings, sets) each


@dataclass(frozen=True, eq=False)
class Block:
    """Some targets, and the similarities of their texts with all items, (rows, items)."""

    asking: Asking
    targets: Span
    tile: Float32
    queries: Float32
    rankings: list[Streamed]
    copies: Copies
    workers: Workers

    def by_score(self, how: Combination, out: Out) -> None:
        """Place the sets by the similarity to their weighted sums."""
        for size, asked in self.asking.sizes.items():
            most = max(1, min(tile_rows(self.tile.shape[1]), BLOCK_ENTRIES // (size * self.queries.shape[1])))
            for span in self._spans(asked, most):
                combined = self._combined(asked, span, how)
                self._place(combined, span, asked, out[size])

    def by_rank(self, how: Combination, out: Out) -> None:
        """Place the sets by the mean rank, ties by the mean score; a single text keeps its ranking."""
        for size, asked in self.asking.sizes.items():
            if size == 1:
                for span in self._spans(asked, tile_rows(self.tile.shape[1])):
                    self._place(self.tile[asked.rows[slice(*span), 0] - self._first], span, asked, out[size])
        for number, ranking in enumerate(self.rankings):
            scores = corrected(self.tile, ranking)
            ranks = np.stack([average_ranks(row) for row in scores])
            for size, asked in self.asking.sizes.items():
                for span in self._spans(asked, max(1, tile_rows(self.tile.shape[1]) // 8)) if size > 1 else ():
                    self._count(asked, span, ranks, scores, out[size][0][number], out[size][1][number])
                    # A set is done when it is done under every ranking.
                    self.workers.tick((span[1] - span[0]) * self.tile.shape[1] // len(self.rankings))

    @property
    def _first(self) -> int:
        return int(self.asking.starts[self.targets[0]])

    def _spans(self, asked: Asked, most: int) -> list[Span]:
        """Return spans of the sets of these targets."""
        start, stop = (int(asked.starts[target]) for target in self.targets)
        return [*spans(stop, most, start=start)]

    def _place(self, scores: Float32, span: Span, asked: Asked, out: tuple[Positions, Positions]) -> None:
        nobody, kernel = np.empty((len(asked.rows), 0), np.int32), self.workers.kernel
        for number, ranking in enumerate(self.rankings):
            place_tile(scores, span, ranking, asked.truth, Placed(out[0][number], out[1][number], nobody), kernel)
        self.workers.tick(scores.size)

    def _combined(self, asked: Asked, span: Span, how: Combination) -> Float32:
        """Return the similarities of the combined queries of some sets with all items."""
        rows = asked.rows[slice(*span)] - self._first
        if asked.size == 1:
            return self.tile[rows[:, 0]]
        queries = self.queries[rows]
        lengths = np.sqrt((queries.astype(np.float64) ** 2).sum(axis=2))
        alpha = shares(queries, lengths, how)
        combined = np.empty((len(rows), self.tile.shape[1]), np.float32)
        for some, mine in self._each_target(asked, span):
            weights = spread_over(alpha[some], rows[some] - mine.start, mine.stop - mine.start)
            if how.fused:
                wide = self.queries[mine].astype(np.float64)
                norms = np.sqrt(np.maximum(((weights @ (wide @ wide.T)) * weights).sum(axis=1), 0))
                scale = stretches(alpha[some], lengths[some], norms)
                if not scale.all():
                    self._refuse(asked, span[0] + some.start + int(np.flatnonzero(scale == 0)[0]), how)
                weights *= scale[:, None]
            np.matmul(weights.astype(np.float32), self.tile[mine], out=combined[some])
        self.copies.level(combined)
        return combined

    def _count(
        self, asked: Asked, span: Span, ranks: Float64, scores: Scores, better: Positions, equal: Positions
    ) -> None:
        """Count the items with a better and with an equal mean rank; ties go by the mean score."""
        rows = asked.rows[slice(*span)] - self._first
        answers = asked.truth.positions[slice(*span)]
        for some, mine in self._each_target(asked, span):
            ones = spread_over(np.ones(rows[some].shape), rows[some] - mine.start, mine.stop - mine.start)
            sums, means = ones @ ranks[mine], ones @ scores[mine].astype(np.float64)
            column = answers[some][:, None]
            bar, mean = (np.take_along_axis(of, column, axis=1) for of in (sums, means))
            level = sums == bar
            here = slice(span[0] + some.start, span[0] + some.stop)
            better[here] = ((sums < bar) | (level & (means > mean))).sum(axis=1)
            equal[here] = (level & (means == mean)).sum(axis=1)

    def _each_target(self, asked: Asked, span: Span) -> list[tuple[slice, slice]]:
        """Return the sets of each target within a span, and the rows of its texts within the block."""
        starts = np.clip(asked.starts[self.targets[0] : self.targets[1] + 1], *span) - span[0]
        rows = self.asking.starts[self.targets[0] : self.targets[1] + 1] - self._first
        there = np.flatnonzero(np.diff(starts))
        return [(slice(starts[one], starts[one + 1]), slice(rows[one], rows[one + 1])) for one in there]

    def _refuse(self, asked: Asked, number: int, how: Combination) -> None:
        raise Cancelled(asked.truth.positions[number], self.asking.texts[asked.rows[number]], how.name)


class Cancelled(Exception):
    """The texts of a set sum to zero: the positions of its item and texts, and the combination."""

    def __init__(self, item: np.int64, texts: Positions, name: str) -> None:
        super().__init__(item, texts, name)
        self.item, self.texts, self.name = item, texts, name


def spread_over(weights: Float64, places: Positions, width: int) -> Float64:
    """Return rows of zeros, (sets, width), with the weights, (sets, k), at these places."""
    out = np.zeros((len(weights), width))
    np.put_along_axis(out, places, weights, axis=1)
    return out


def corrected(scores: Float32, ranking: Streamed) -> Scores:
    """Return the corrected scores of a ranking, given the scores of all items."""
    if isinstance(ranking, Rescore):
        return ranking.apply(scores)
    return ranking.corrected(scores, ranking.weights(scores))
