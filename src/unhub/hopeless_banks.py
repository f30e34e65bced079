"""Hopeless banks: what a fit notes of a bank that cannot be meant, or that nothing can be learnt from."""

from __future__ import annotations

import numpy as np

from unhub.arrays import Float64, Kind, are_among, distinct, random_positions
from unhub.data.fingerprint import Hashes, repeats_among
from unhub.data.vectors import Vectors, at_hand

HOPELESS_BANK_QUERIES = 50  # distinct ones: with fewer, a bank that is far off may look like any other
COMPARED_PLACES = 64  # of two sets of the same length
NEARLY_EQUAL = 0.999  # cosine; rows rounded to 8 bits stay above it
# Two sets are alike if no more of the rows of either than this have their nearest row in their own set (Schilling 1986
# and Henze 1988); benchmarks/bank_quality.py prints the shares.
ALIKE_SHARE = 0.65
COMPARED_ROWS, FEWEST_COMPARED = 500, 300  # of each of the two sets
ASK_JUDGE = "`unhub bank --items ITEMS --bank BANK --queries QUERIES` says whether a bank is good"
LIKE_MORE_ITEMS = (
    "The bank looks like more of the items: that is right only where items are searched by their like, such as images "
    "by images. If other things ask, such as texts, give those that were asked."
)


def notes_on_bank(items: Vectors, bank: Vectors, item_hashes: Hashes, bank_hashes: Hashes, kind: Kind) -> list[str]:
    """Return notes on a bank that no correction can be learnt from; nothing is read again but a few rows."""
    notes = [*items_as_bank(item_hashes, bank_hashes)] or _like_items(items, bank, kind)
    distinct_queries, copies = len(distinct(bank_hashes)), repeats_among(item_hashes)
    if distinct_queries < HOPELESS_BANK_QUERIES:
        few = (
            f"{len(bank):,} bank queries"
            if distinct_queries == len(bank)
            else f"{distinct_queries} different bank queries"
        )
        notes.append(f"{few} are too few to tell hubs from chance: collect 1,000 or more.")
    if copies and 2 * copies >= len(items):
        alike = f"{copies:,} of {len(items):,} items are copies of others, which no correction can tell apart"
        notes.append(f"{alike}; if they are past queries, items and bank are swapped.")
    return [f"{' '.join(notes)} {ASK_JUDGE}."] if notes else []


def items_as_bank(items: Hashes, bank: Hashes) -> tuple[str, ...]:
    """Return a note if most bank queries are items."""
    found = int(are_among(bank, items).sum())
    if 2 * found < len(bank):
        return ()
    return (f"{found:,} of {len(bank):,} bank queries are items: a bank is past queries, so give those.",)


def _like_items(items: Vectors, bank: Vectors, kind: Kind) -> list[str]:
    """Return a note if a bank is the items up to rounding, or as like them as they are like each other."""
    if not (at_hand(items.rows) and at_hand(bank.rows)):
        return []
    if len(items) == len(bank):
        one, other = (_directions(vectors, COMPARED_PLACES, kind) for vectors in (items, bank))
        if np.median(np.einsum("ij,ij->i", one, other)) >= NEARLY_EQUAL:
            return ["The bank is the items, up to rounding: a bank is past queries, so give those."]
    if min(len(items), len(bank)) < FEWEST_COMPARED:
        return []
    return [LIKE_MORE_ITEMS] if max(nearest_at_home(items, bank, kind)) <= ALIKE_SHARE else []


def nearest_at_home(items: Vectors, bank: Vectors, kind: Kind) -> tuple[float, float]:
    """Return which share of some items is nearest to another item, not to a bank query, and the same of the bank."""
    count = min(len(items), len(bank), COMPARED_ROWS)
    rows = np.concatenate([_directions(vectors, count, kind) for vectors in (items, bank)])
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -np.inf)
    is_item = np.arange(len(rows)) < count
    at_home = is_item[cosines.argmax(axis=1)] == is_item
    return float(at_home[:count].mean()), float(at_home[count:].mean())


def _directions(vectors: Vectors, most: int, kind: Kind) -> Float64:
    """Return some rows, of two sets of one length those in the same places, scaled to length one; zeros stay zeros."""
    places = random_positions(len(vectors), min(len(vectors), most), 0)
    rows = vectors.gather(places).unit_block(0, len(places), kind).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))
