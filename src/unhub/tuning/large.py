"""Large galleries: a sample of items, bank and queries to choose a setting on, before the whole confirms it.

A random part of the items is a smaller gallery of the same kind. h of an item does not depend on the other items,
except in `sn` and `dbsn`, so settings compare there much as on the whole. Some labels are kept apart to confirm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import are_among, random_positions
from unhub.banks.traffic import recur
from unhub.data.relevance import Truth
from unhub.data.vectors import Vectors
from unhub.evaluation.confidence import Interval
from unhub.matching import Matched
from unhub.tuning.labelled import FEWEST_GROUPS
from unhub.tuning.reasons import COST

SAMPLED_ITEMS, SAMPLED_BANK, SAMPLED_QUERIES = 50_000, 10_000, 4_000
CONFIRMING_QUERIES, CONFIRMING_SHARE = 2_000, 1 / 3  # queries at most; with labels, of all that have some
FEWEST_APART = 150  # labelled queries; fewer both choose and confirm


@dataclass(frozen=True, eq=False)
class GallerySample:
    """What a setting is chosen on, and the positions of the queries that confirm it, if there are queries.

    apart: with labels, the queries that confirm had no part in the choice.
    growth: how many times as many (item, bank query) pairs the whole has.
    """

    matched: Matched
    confirming: NDArray[np.int64] | None
    apart: bool
    growth: float
    note: str


def sample(matched: Matched, truth: Truth | None, least_bank: int, seed: int) -> GallerySample:
    """Draw a sample; with labels, of labelled queries, and their answers are among the items.

    least_bank: how many bank queries a setting to try needs.
    """
    items, bank, chance = cast("Vectors", matched.items), matched.bank, np.random.default_rng(seed)
    kept = random_positions(len(items), min(len(items), SAMPLED_ITEMS), chance)
    parts = {"bank": random_positions(len(bank), min(len(bank), max(SAMPLED_BANK, least_bank)), chance)}
    confirming, apart = None, False
    if matched.queries is not None:
        choosing, confirming, apart = _choosing_and_confirming(matched, truth, chance)
        parts["queries"] = choosing
        kept = kept if truth is None else np.union1d(kept, truth.gather(choosing).positions)
    parts["items"] = kept
    words = ", ".join(f"{len(at):,} of {len(getattr(matched, name)):,} {_called(name)}" for name, at in parts.items())
    growth = len(items) * len(bank) / (len(kept) * len(parts["bank"]))
    note = f"Settings were compared on a sample: {words}."
    return GallerySample(matched.only(parts), confirming, apart, growth, note)


def _choosing_and_confirming(
    matched: Matched, truth: Truth | None, chance: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    """Return the queries that choose and those that confirm, and whether these are apart.

    With labels they are different queries, with different first answers, unless there are few of either.
    """
    asking = np.arange(len(matched.hashes["queries"])) if truth is None else truth.answered
    fresh = asking
    if not recur(matched):
        fresh = asking[~are_among(matched.hashes["queries"][asking], matched.hashes["bank"])]
    asking = chance.permutation(fresh if len(fresh) else asking)
    if truth is not None and len(asking) >= FEWEST_APART:
        _, groups = np.unique(truth.groups[asking], return_inverse=True)
        turns = chance.permutation(groups.max() + 1)[groups]  # queries with one answer come together
        ordered = np.argsort(turns, kind="stable")
        first = ordered[: min(CONFIRMING_QUERIES, int(CONFIRMING_SHARE * len(asking)))]
        others = np.flatnonzero(~np.isin(groups, groups[first]))[:SAMPLED_QUERIES]
        if min(len(np.unique(groups[part])) for part in (first, others)) >= FEWEST_GROUPS:
            return np.sort(asking[others]), np.sort(asking[first]), True
    return np.sort(asking[:SAMPLED_QUERIES]), np.sort(asking[:CONFIRMING_QUERIES]), False


def _called(name: str) -> str:
    return {"bank": "bank queries"}.get(name, name)


def confirmation(
    change: Interval, sure: bool, winner: str, reason: str, items: int, measure: str | None, apart: bool
) -> str:
    """Say what the whole says about the setting that a sample chose for a reason; measure: None without labels.

    apart: the queries that say so had no part in the choice.
    """
    moved = f"{measure} changes by {change:+.2f}" if measure is not None else f"{COST} changes by {change:+.3g}"
    by = " for the queries that chose it, which are too few to divide" if measure is not None and not apart else ""
    whole = f"on all {items:,} items {moved}{by}"
    if sure:
        return f"{reason} This was found on a sample; {whole}."
    return f"No sure gain over raw: {winner} was chosen on a sample, but {whole}. Give more queries, or label some."
