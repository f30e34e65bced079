"""Clicks as labels: which items answer which query, with each click weighed against the place it was shown at.

Inverse propensity scoring, Joachims, Swaminathan and Schnabel 2017: an item in place p is looked at with probability
1 / p ** eta, so that a click there counts p ** eta times, at most `clip`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.data.query_log import UNKNOWN, QueryLog
from unhub.data.relevance import Relevance
from unhub.errors import ArgumentError
from unhub.methods.method import as_number

ETA, CLIP = 1.0, 10.0


@dataclass(frozen=True, eq=False)
class ClickLabels:
    """Labels made of clicks: the relevance, and what it rests on, in sentences."""

    relevance: Relevance
    notes: tuple[str, ...]


def clicks_to_relevance(log: QueryLog, *, eta: float = ETA, clip: float = CLIP) -> ClickLabels:
    """Return which items answer which query of a log, by what was clicked.

    The grade of an item for a query is the sum of min(p ** eta, clip) over its clicks, p being the place it was shown
    at, divided by how often the query was logged; so a query that was answered by different clicks has one grade for
    each pair. A query is known by its id in the log, else by its row. A click whose place is not known counts once.

    eta: how fast people stop looking: 0 takes every click as it is, 1 says that place 2 is looked at half as often as
    place 1. clip: the most that one click counts; it bounds the noise of clicks far below.
    """
    for name, value, least in (("eta", eta, 0.0), ("clip", clip, 1.0)):
        number = as_number(value)
        if number is None or not least <= number < np.inf:
            raise ArgumentError(name, f"must be a finite number of at least {least:g}, got {value!r}")
    clicks = log.clicked
    if clicks is None or not len(clicks.ids):
        raise ArgumentError("log", "has no clicks", "name the column of clicked ids when reading it")
    names = np.arange(len(log)) if log.query_ids is None else log.query_ids
    queries, back = np.unique(names, return_inverse=True)
    times_logged = np.bincount(back, minlength=len(queries))
    counted = weights_of(clicks.positions, eta, clip)
    asked = back[clicks.owners]
    items, item_codes = np.unique(clicks.ids, return_inverse=True)
    pairs, of_pair = np.unique(asked * len(items) + item_codes, return_inverse=True)
    sums = np.bincount(of_pair, counted, len(pairs))
    pair_query, pair_item = np.divmod(pairs, len(items))
    relevance = Relevance(queries[pair_query], items[pair_item], sums / times_logged[pair_query])
    return ClickLabels(relevance, _notes(clicks.positions, eta, clip))


def weights_of(positions: NDArray[np.int64], eta: float, clip: float) -> Float64:
    """Return how much each click counts: min(p ** eta, clip), and 1 where the place is not known."""
    places = np.where(positions == UNKNOWN, 1, positions).astype(np.float64)
    return np.asarray(np.minimum(places**eta, clip))


def _notes(positions: NDArray[np.int64], eta: float, clip: float) -> tuple[str, ...]:
    clipped = int((positions.astype(np.float64) ** eta > clip).sum())
    unknown = int((positions == UNKNOWN).sum())
    model = f"A click in place p counts p ** {eta:g}, at most {clip:g}: that place is taken to be looked at "
    notes = [f"{model}1 / p ** {eta:g} of the time; {clipped:,} of {len(positions):,} clicks were cut to the most."]
    if unknown:
        notes.append(f"{unknown:,} clicks have no known place and count once.")
    return tuple(notes)
