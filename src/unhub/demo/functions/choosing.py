"""Choosing: the correction of the demo, without labels, in a second or two.

`sn` at the temperature at which a query of the bank sees about 40 items: the geometric mean over the bank's queries of
exp(entropy of softmax(s / tau)) is 40. From 20 to 80 works alike. `unhub.tune` tries many settings, and so takes longer
than someone who looks at a demo wants to wait.
"""

from __future__ import annotations

import numpy as np

import unhub
from unhub.arrays import Float32, Float64, random_positions
from unhub.compute.workers import Progress
from unhub.correction import Correction
from unhub.data.vectors import Vectors

SEEN_ITEMS = 40.0
SAMPLE_QUERIES = 400  # of the bank, enough to find the temperature
COLDEST, WARMEST = 1e-3, 1.0
HALVINGS = 12  # of the range of temperatures, on a scale of logarithms


def choose_correction(
    items: Vectors, bank: Float32, threads: int | None = None, progress: Progress | None = None
) -> Correction:
    """Fit a correction on past queries, of unit length as the items are; nobody says what they asked for."""
    some = bank[random_positions(len(bank), SAMPLE_QUERIES, seed=0)] if len(bank) > SAMPLE_QUERIES else bank
    tau = temperature(some @ items.block(0, len(items)).T, min(SEEN_ITEMS, len(items) / 2))
    return unhub.fit(items, bank, method=f"sn:tau={tau:.2g}", threads=threads, progress=progress)


def temperature(scores: Float32, seen: float) -> float:
    """Return the temperature at which a row of similarities, (queries, items), sees so many items."""
    cold, warm = np.log(COLDEST), np.log(WARMEST)
    for _ in range(HALVINGS):
        middle = (cold + warm) / 2
        if np.exp(_entropies(scores / np.float32(np.exp(middle))).mean()) > seen:
            warm = middle
        else:
            cold = middle
    return float(np.exp(middle))


def _entropies(logits: Float32) -> Float64:
    """Return the entropy of the softmax of each row."""
    apart = logits - logits.max(axis=1, keepdims=True)
    weights = np.exp(apart)
    total = weights.sum(axis=1, dtype=np.float64)
    return np.asarray(np.log(total) - (weights * apart).sum(axis=1, dtype=np.float64) / total)
