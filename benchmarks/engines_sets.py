"""The sets of the engines benchmark: real ones, and generated vectors with strong hubs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import unhub
from evidence_sets import read_set
from unhub.arrays import Float32, Ids, random_positions, unit
from unhub.correction import Bias
from unhub.data.vectors import Vectors

SEED = 0
GENERATED = "generated"
REAL = {  # name: the set and the direction of evidence_sets
    "flickr8k_ridge": ("flickr8k_ridge", "text to image"),
    "flickr8k_vse_holdout": ("flickr8k_vse_holdout", "text to image"),
    "code": ("code", "docstring to function"),
}
DIMENSIONS, MEANINGS = 128, 40
BANK, SAMPLE, ASKED = 5_000, 300, 500
METHOD, REFIT = "nnn:k=32,alpha=0.75", "nnn:k=16,alpha=0.75"
HOW_GENERATED = (
    f"{DIMENSIONS} dimensions, length one. An item is a mixture of {MEANINGS} directions whose weight falls as "
    "1 / sqrt(j), some noise, and a share of the mean query: |N(0, 1)| times 0.5. Queries are such mixtures, with a "
    "share of 0.8 for all: items with a large share are near every query."
)
CANDIDATES = (10, 100, 1_000, 5_000)


class EngineSet(NamedTuple):
    """Items, the correction of a bank, another for a refit, a sample for deploy, and queries with their exact best."""

    name: str
    items: Vectors
    correction: Bias
    refit: Bias
    sample: Float32
    queries: Float32
    plain: Ids
    corrected: Ids

    @classmethod
    def of(cls, name: str, items: Vectors, bank: Float32, queries: Float32, asked: int = ASKED) -> EngineSet:
        """Fit, and search exactly."""
        drawn = random_positions(len(queries), min(len(queries), SAMPLE + asked), SEED)
        chosen = np.asarray(unit(queries[np.random.default_rng(SEED).permutation(drawn)]), np.float32)
        corrections = [unhub.fit(items, bank, method=one) for one in (METHOD, REFIT)]
        assert isinstance(corrections[0], Bias) and isinstance(corrections[1], Bias)
        sample, rest = chosen[:SAMPLE], chosen[SAMPLE:]
        exact = unhub.searcher(items, corrections[0])
        plain, corrected = (exact.search(rest, 10, strength=one).ids for one in (0, 1))
        return cls(name, items, corrections[0], corrections[1], sample, rest, plain, corrected)

    def recall(self, found: Ids, corrected: bool) -> float:
        """Return the share of the exact best ten that was found."""
        right = self.corrected if corrected else self.plain
        return float(np.mean([np.isin(one, other).mean() for one, other in zip(right, found, strict=True)]))

    def shares(self) -> dict[int, float]:
        """Return the share of the corrected best ten among the nearest candidates, by how many there are."""
        exact = unhub.searcher(self.items, self.correction)
        counts = [count for count in CANDIDATES if count < len(self.items)]
        nearest = exact.search(self.queries, max(counts), strength=0).ids
        return {count: self.recall(nearest[:, :count], True) for count in counts}

    def skewness(self) -> tuple[float, float]:
        """Return the skewness of how often items are among the best ten, plain and corrected."""
        found = []
        for best in (self.plain, self.corrected):
            counts = np.bincount(np.searchsorted(np.sort(self.items.ids), best.ravel()), minlength=len(self.items))
            apart = counts - counts.mean()
            found.append(float((apart**3).mean() / (apart**2).mean() ** 1.5))
        return found[0], found[1]


def real(name: str) -> EngineSet | None:
    """Return a real set, None where its files are absent."""
    named, direction = REAL[name]
    for case in read_set(named, None):
        if case.direction == direction:
            part = case.parts[0]
            return EngineSet.of(name, part.items, part.bank, np.asarray(part.queries.rows))
    return None


def generated(count: int) -> EngineSet:
    """Return vectors with strong hubs; see HOW_GENERATED."""
    rng = np.random.default_rng(SEED)
    falling = 1 / np.sqrt(np.arange(1, MEANINGS + 1))
    directions = np.linalg.qr(rng.standard_normal((DIMENSIONS, DIMENSIONS)))[0]
    mean, spread = directions[0], directions[1 : MEANINGS + 1] * (falling / np.linalg.norm(falling))[:, None]

    def drawn(rows: int, share: Float32 | float, noise: float) -> Float32:
        meant = rng.standard_normal((rows, MEANINGS)) @ spread
        meant += noise / np.sqrt(DIMENSIONS) * rng.standard_normal((rows, DIMENSIONS))
        return np.asarray(unit((meant + np.multiply.outer(share * np.ones(rows), mean)).astype(np.float32)), np.float32)

    items = drawn(count, 0.5 * np.abs(rng.standard_normal(count)).astype(np.float32), 0.3)
    bank, queries = drawn(BANK, 0.8, 0.3), drawn(SAMPLE + ASKED, 0.8, 0.3)
    return EngineSet.of(GENERATED, Vectors(np.arange(count), items), bank, queries)
