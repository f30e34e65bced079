"""The spread of the similarities, which sets the temperatures, and the methods to fit if none are named."""

from __future__ import annotations

import numpy as np

from unhub.arrays import Float32, Kind, random_positions
from unhub.compute.nearest import BiasedQueries, nearest
from unhub.compute.workers import Resources
from unhub.data.vectors import VectorsLike, as_vectors

SAMPLE_QUERIES = 2000  # bank queries that are enough to measure the spread
BEST_ITEMS = 10
ROBUST_K, ROBUST_ALPHA = 32, 0.5  # of 'nnn': kept most of the best gain in all spaces and directions


def spread(
    items: VectorsLike,
    bank: VectorsLike,
    *,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
    device: str | None = None,
) -> float:
    """Return how far the best item of a bank query stands out: its score minus the mean of the ten best, averaged.

    From a large bank, 2,000 queries are drawn with the seed.
    """
    gallery, asked = as_vectors(items, "items"), as_vectors(bank, "bank")
    if len(asked) > SAMPLE_QUERIES:
        asked = asked.gather(random_positions(len(asked), SAMPLE_QUERIES, seed))
    ready: Float32 = asked.unit_block(0, len(asked), similarity)
    best, resources = min(BEST_ITEMS, len(gallery)), Resources(threads, device=device)
    scores, _ = nearest(BiasedQueries(ready), gallery, similarity, best, resources)
    apart = float((scores[:, 0] - scores.mean(axis=1, dtype=np.float64)).mean())
    # Items with equal scores have no spread, but a temperature must be above 0.
    return apart if apart > 0 else float(np.finfo(np.float32).eps)


def usual_methods(
    items: VectorsLike, bank: VectorsLike, *, similarity: Kind = "cosine", seed: int = 0, threads: int | None = None
) -> tuple[str, str]:
    """Return methods that need no choice: `is` at the spread of the similarities, and `nnn:k=32,alpha=0.5`."""
    unit = spread(items, bank, similarity=similarity, seed=seed, threads=threads)
    return (
        f"is:tau={float(f'{unit:.3g}')!r}",
        f"nnn:k={min(ROBUST_K, len(as_vectors(bank, 'bank')))},alpha={ROBUST_ALPHA}",
    )
