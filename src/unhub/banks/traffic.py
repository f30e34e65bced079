"""Traffic: tell queries as they were asked, with their repeats, from distinct ones, and compare like with like.

A log asks a few queries again and again. Its head says little about how its distinct queries look, and the other way
round. And a query of today that was asked before is no mistake there: most are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from unhub.arrays import Float64
from unhub.banks.coverage import distinct
from unhub.banks.repeats import TEMPER, Positions, equal_rows
from unhub.data.fingerprint import Hashes, are_repeating
from unhub.data.vectors import Vectors
from unhub.matching import Matched

# Two sets repeat themselves alike if, of equally many rows, the one has at least this share of the other's repeats.
ALIKE_REPEATS = 0.5
# From this share on, of queries that were asked more than once, a set of queries is a log whatever the bank is.
MOSTLY_REPEATED = 0.5
STANDARD_ERRORS = 3.0
TINY_BANK_QUERIES = 300  # distinct bank queries: with fewer, even the most careful setting loses on some data
LEAKING_SHARE = 0.01  # of the queries: some repeats are natural, such as 0.4% of Flickr8k's captions
ROUNDING = 1e-6  # of a count


@dataclass(frozen=True, eq=False)
class Alike:
    """A bank and queries that can be compared; distinct: whether each query counts once in both."""

    bank: Vectors
    queries: Vectors | None
    distinct: bool


def alike(matched: Matched) -> Alike:
    """Return the bank and the queries as they are if neither repeats itself or both do alike, else the distinct ones.

    A bank with weights holds distinct queries, and says by weights how often they were asked.
    """
    past, asked = matched.bank, matched.queries
    distinct_past = past.gather(once(matched.hashes["bank"]))
    if asked is None:  # the items stand in for them, and repeat nothing
        distinct_too = are_repeating(matched.hashes["bank"]) and len(distinct_past) >= TINY_BANK_QUERIES
        return Alike(distinct_past if distinct_too else past, None, distinct_too)
    if _repeat_alike(matched):
        return Alike(past, asked, False)
    return Alike(distinct_past, asked.gather(once(matched.hashes["queries"])), True)


def once(hashes: Hashes) -> Positions:
    """Return the position of the first row of each kind, in rising order."""
    return np.sort(equal_rows(hashes).firsts)


def _repeat_alike(matched: Matched) -> bool:
    sets = [matched.hashes["bank"], matched.hashes["queries"]]
    repeating = [are_repeating(one) for one in sets]
    if not any(repeating):
        return True
    if matched.bank.weights is not None or not all(repeating):
        return False
    size = min(map(len, sets))
    fewer, more = sorted(1 - distinct(one.view(np.int64), size) / size for one in sets)
    return fewer >= ALIKE_REPEATS * more


def asked_before(hashes: Hashes) -> float:
    """Return the share of further queries of the same source that are among these (Good and Turing 1953).

    It is about the share of the rows that are not alone.
    """
    return 1 - float(np.count_nonzero(equal_rows(hashes).counts == 1)) / len(hashes)


def natural_share(matched: Matched) -> float:
    """Return the largest share of the queries that may be in the bank, in traffic, without being a mistake.

    It is what the bank says of itself, and three standard errors: 0 if its queries do not repeat. 1 if most of the
    queries were asked more than once: they are a log, whatever the bank is.
    """
    queries = matched.hashes["queries"]
    if asked_before(queries) >= MOSTLY_REPEATED:
        return 1.0
    if matched.counts is not None:
        share = float(1 - np.count_nonzero(matched.counts == 1) / matched.counts.sum())
    elif matched.bank.weights is not None:
        share = _asked_before_by_weight(matched.bank.weights)
    elif are_repeating(matched.hashes["bank"]):
        share = asked_before(matched.hashes["bank"])
    else:
        return 0.0
    return min(1.0, share + STANDARD_ERRORS * sqrt(share * (1 - share) / len(queries)))


def recur(matched: Matched) -> bool:
    """Return whether queries that are in the bank too are there because queries recur, and not by mistake."""
    share = natural_share(matched)
    return share > 0 and matched.leaked <= (LEAKING_SHARE + share) * len(matched.hashes["queries"])


def _asked_before_by_weight(weights: Float64) -> float:
    """Return `asked_before` of a bank whose weights are counts, tempered by the default or less.

    The lightest queries were asked once. If the weights also depend on age, the share comes out too large.
    """
    counts = (weights / weights.min()) ** (1 / TEMPER)
    return float(1 - np.count_nonzero(counts < 1 + ROUNDING) / counts.sum())
