"""Several keywords of one emoji, on the emoji benchmark: combined, or joined into one text; and banks of such sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import unhub
from emoji_data import SEED, Source, Work
from unhub.arrays import Float32
from unhub.combine import as_combination, combine_queries
from unhub.compute.workers import Workers
from unhub.data.draws import Drawn
from unhub.data.relevance import Relevance
from unhub.data.vectors import Vectors
from unhub.demo.emoji.space import Descriptions, Space, Split
from unhub.evaluation.inputs import RAW, EvaluationInputs
from unhub.evaluation.measures import parse_measures
from unhub.multi.results import SetEvaluation
from unhub.multi.scoring import Area, Contenders, Scoring, SetRow, areas_of, rows_of
from unhub.multi.set_places import Counts
from unhub.tuning.outcome import Tuning

SIZES = (1, 2, 3, 4, 5)
SHOWN_SIZES = (1, 3, 5)
MEASURES = ("R@1", "R@5", "R@10", "MdR")
DRAWS = 20  # sets of each emoji and size; with more, the figures change by less than the intervals
BANK_DRAWS = 5  # sets of each emoji in a bank of sets, and of those that judge it
CORRECTED = "corrected"
JOINED = "one text"
SET_METHODS = ("is", "nnn", "sn")


class Compared(NamedTuple):
    """Ways to combine the same sets: the result of `evaluate_sets`, and of the sets joined into one text each.

    The rows and areas of `joined` are of the model's head and of one text, so their difference is paired.
    """

    found: SetEvaluation
    head: str
    joined: tuple[SetRow, ...]
    areas: tuple[Area, ...]


def compare(space: Space, work: Work) -> Compared:
    """Search the test emoji with 1 to 5 of their keywords, raw and corrected, with the same sets in every way."""
    asked = space.descriptions("test", "keyword")
    draws = unhub.Draws.of(asked.vectors, space.items, asked.relevance, SIZES, DRAWS, SEED)
    head = as_combination(space.model, space.items.dimensions).name
    found = unhub.evaluate_sets(
        asked.vectors,
        space.items,
        asked.relevance,
        draws=draws,
        combine=[space.model, "sa", "ra"],
        correction={CORRECTED: space.correction},
        measures=MEASURES,
        resamples=work.resamples,
        seed=SEED,
        threads=work.threads,
    )
    # Both are one vector for each set, so they are ranked as single queries and counted as sets.
    sizes = {size: drawn for size, drawn in draws.sizes.items() if len(drawn.items)}
    counts = {}
    for size, drawn in sizes.items():
        both = [
            _placed(space, drawn, rows, work) for rows in (combined(space, asked, drawn), _joined(space, asked, drawn))
        ]
        counts[size] = Counts(*(np.stack(side) for side in zip(*both, strict=True)))
    contenders = Contenders((head, JOINED), (RAW, CORRECTED))
    scoring = Scoring(contenders, len(space.items), parse_measures(MEASURES), work.resamples, SEED)
    rows = [row for size, drawn in sizes.items() for row in rows_of(size, drawn, counts[size], scoring)]
    return Compared(found, head, tuple(rows), tuple(areas_of(sizes, counts, scoring)))


def combined(space: Space, texts: Descriptions, drawn: Drawn) -> Float32:
    """Return the vector that the model's head gives each set, (sets, dimensions)."""
    rows = texts.vectors.unit_block(0, len(texts), "cosine")[drawn.texts]
    return combine_queries(rows, as_combination(space.model, rows.shape[2]), np.arange(len(rows)))


def _joined(space: Space, texts: Descriptions, drawn: Drawn) -> Float32:
    """Return the vector of each set's texts joined into one."""
    return space.encode([" ".join(texts.texts[place] for place in places) for places in drawn.texts.tolist()])


def _placed(space: Space, drawn: Drawn, rows: Float32, work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Return how many items are better than and equal to each set's emoji, raw and corrected, (rankings, sets) each."""
    setting = EvaluationInputs.of(rows, space.items, {CORRECTED: space.correction}, threads=work.threads)
    truth = setting.truth(wanted(space, drawn))
    placed = setting.place(truth, setting.rankings(), Workers(work.threads))
    return np.stack([one.better for one in placed]), np.stack([one.equal for one in placed])


def wanted(space: Space, drawn: Drawn) -> Relevance:
    """Return which emoji each set asks for; sets are numbered from 0."""
    return Relevance(np.arange(len(drawn.texts)), space.items.ids[drawn.items[drawn.owners]])


class SetBank(NamedTuple):
    """A bank on `val`: the keywords per bank query, the number of bank queries, and the result for each size."""

    made_of: int
    queries: int
    tuned: dict[int, Tuning]


def compare_banks(source: Source, work: Work) -> list[SetBank]:
    """Fit on single texts of the bank and on sets of them, and search the emoji of `val` with one, three and five.

    Each bank gets, for each size, its best setting among those that `tune` tries of `is`, `nnn` and `sn`.
    """
    space = source.space
    asked, banks = _sets(space, "val", "keyword"), _sets(space, "bank", None)
    banks[1] = (space.descriptions("bank").vectors, banks[1][1])  # all texts, not some of each emoji

    def tuned(bank: Vectors) -> dict[int, Tuning]:
        return {
            size: unhub.tune(space.items, bank, *sets, methods=SET_METHODS, seed=SEED, threads=work.threads)
            for size, sets in asked.items()
        }

    return [SetBank(made_of, len(bank), tuned(bank)) for made_of, (bank, _) in banks.items()]


def _sets(space: Space, split: Split, kind: str | None) -> dict[int, tuple[Vectors, Relevance]]:
    """Return the sets of a split's texts as one vector each, by size, and which emoji they ask for."""
    texts = space.descriptions(split, kind)
    draws = unhub.Draws.of(texts.vectors, space.items, texts.relevance, SHOWN_SIZES, BANK_DRAWS, SEED)
    return {
        size: (Vectors(np.arange(len(drawn.texts)), combined(space, texts, drawn)), wanted(space, drawn))
        for size, drawn in draws.sizes.items()
        if len(drawn.items)
    }
