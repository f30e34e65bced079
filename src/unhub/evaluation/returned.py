"""What another system returned, evaluated beside our own rankings."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from unhub.data.relevance import Truth
from unhub.data.runs import Returned, Run
from unhub.errors import ArgumentError
from unhub.evaluation.hubness import Hubness, figures_of
from unhub.evaluation.inputs import RAW
from unhub.evaluation.measures import NOT_FOUND, Places
from unhub.evaluation.placing import Placed


def places_in(returned: Returned, truth: Truth) -> Places:
    """Return the places of the answers among what was returned; NOT_FOUND for answers that were not returned."""
    owners = returned.owners
    heads = returned.starts[owners]  # the first item returned for the same query
    first = np.diff(owners, prepend=-1).astype(bool) | (np.diff(returned.scores, prepend=np.nan) != 0)
    starts = np.flatnonzero(first)
    tie = np.cumsum(first) - 1
    better, equal = starts[tie] - heads, np.diff(starts, append=len(owners))[tie]
    order = np.argsort(returned.codes)
    wanted = truth.owners * len(returned.item_ids) + truth.positions
    spots = order[np.minimum(np.searchsorted(returned.codes, wanted, sorter=order), len(order) - 1)]
    found = returned.codes[spots] == wanted
    placed = Placed(
        np.where(found, better[spots], NOT_FOUND), np.where(found, equal[spots], 1), np.empty((0, 0), np.int32)
    )
    return placed.answers(truth, len(returned.item_ids))


def hubness_in(returned: Returned, k: int) -> Hubness:
    """Return how often each item is among the first k that were returned; among ties, the items listed first count."""
    heads = returned.starts[returned.owners]
    first = returned.positions[np.arange(len(heads)) - heads < k]
    counts = np.bincount(first, minlength=len(returned.item_ids)).astype(np.int64)
    return Hubness(k, len(returned), returned.item_ids, counts, figures_of(counts))


def note_on(returned: Returned, name: str, truth: Truth, places: Places) -> str | None:
    """Say how many answers the run did not return and how they count; None if it returned all."""
    missing = int(places.answers[places.better == NOT_FOUND].sum())
    if not missing:
        return None
    return (
        f"{name} did not return {missing:,} of the {len(truth.positions):,} answers; these count as not found, "
        f"and in MdR and MnR they have rank {len(returned.item_ids):,}."
    )


def check_names(runs: Mapping[str, Run], taken: Collection[str]) -> Mapping[str, Run]:
    """Check that the runs are runs whose names no ranking of our own has, and return them."""
    if not isinstance(runs, Mapping):
        raise ArgumentError("runs", f"must be runs by name, got {type(runs).__name__}", "give them as a mapping")
    for name, run in runs.items():
        if not isinstance(name, str):
            raise ArgumentError("runs", f"must be named by texts, got the name {name!r}")
        if not isinstance(run, Run):
            raise ArgumentError("runs", f"has {name!r}, a {type(run).__name__} and not a run", "read it as a run")
        if name == RAW or name in taken:
            raise ArgumentError("runs", f"has {name!r}, the name of another ranking", "choose another name")
    return runs
