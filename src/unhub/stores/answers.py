"""Answers of engines: lists of different lengths, as the arrays of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from unhub.arrays import Float32, Ids
from unhub.data.ids import no_id
from unhub.data.vectors import as_texts
from unhub.stores.store import Metric, Nearest

EMPTY_VALUES: dict[Metric, float] = {"cosine": -np.inf, "dot": -np.inf, "l2": np.inf}


def found_of(ids: Sequence[Sequence[object]], values: Sequence[Sequence[float]], k: int, metric: Metric) -> Nearest:
    """Return the results of each query, best first, with empty places up to k; no result at all has integer ids."""
    kept = [one for row in ids for one in row]
    flat = ids_of(kept) if kept else np.empty(0, np.int64)
    filled = np.arange(k) < np.array([len(row) for row in ids])[:, None]
    out_ids = cast("Ids", np.full((len(ids), k), no_id(flat.dtype), flat.dtype))
    out_values = np.full((len(ids), k), EMPTY_VALUES[metric], np.float32)
    out_ids[filled] = flat
    out_values[filled] = [one for row in values for one in row]
    return best_first(out_values, out_ids, metric)


def best_first(values: Float32, ids: Ids, metric: Metric) -> Nearest:
    """Return the results of each query in the order of their values; ties and empty places stay in their order."""
    order = np.argsort(values if metric == "l2" else -values, axis=1, kind="stable")
    return Nearest(np.take_along_axis(values, order, axis=1), cast("Ids", np.take_along_axis(ids, order, axis=1)))


def ids_of(ids: Sequence[object]) -> Ids:
    """Return the ids of an engine as an array of integers or of texts."""
    if all(isinstance(one, int) for one in ids):
        return np.array(ids, np.int64)
    return as_texts([str(one) for one in ids])
