"""Choosing without labels: which ranking to take by its evenness, and reasons to leave the raw one as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, floor, lgamma, log

import numpy as np
from numpy.typing import NDArray

from unhub.banks.judging import ADVICE, FEWEST_QUERIES, BankReport
from unhub.evaluation.comparing import jackknife
from unhub.evaluation.confidence import Interval
from unhub.evaluation.hubness import figures_of
from unhub.tuning.popularity import MOST_ALIKE

# A bank with one of these looks good to itself: the hubness that its own queries see falls while the answers get worse.
HARMFUL_PROBLEMS = ("tiny", "off-domain", "thin")
# On the val split of Flickr8k, banks that did harm, however a setting was chosen by the hubness of real queries, let
# their Robin Hood index fall by less than this, and good banks by 0.07 or more; of what is above chance, see below.
LEAST_DROP = 0.03


@dataclass(frozen=True)
class HubnessChange:
    """What some queries see of a correction: how the Robin Hood index changes, and how alike they are.

    least: the smallest fall that matters for this many queries and items. alike: see `popularity.alikeness`;
    None where they are too few to tell.
    """

    change: Interval
    queries: int
    least: float
    alike: float | None

    @property
    def falls(self) -> bool:
        """Whether there are enough queries, and the index falls surely, and by enough to matter."""
        return self.queries >= FEWEST_QUERIES and self.change.high < 0 and self.change.value <= -self.least

    @property
    def too_few(self) -> bool:
        """Whether more queries might show a fall that matters, since these rule none out."""
        return not self.falls and (self.queries < FEWEST_QUERIES or self.change.low <= -self.least)

    @property
    def popular(self) -> bool:
        """Whether the items returned most may be popular, and no hubs."""
        return self.alike is not None and self.alike > MOST_ALIKE

    @property
    def worthwhile(self) -> bool:
        return self.falls and not self.popular


def objection(report: BankReport) -> str | None:
    """Return why no correction should be fitted on this bank without labels, with what to do; None if nothing is."""
    found = [problem for problem in report.problems if problem in HARMFUL_PROBLEMS]
    if not found:
        return None
    return " ".join([ADVICE[found[0]], *(f"It is also {other}." for other in found[1:])])


def least_drop(places: int, items: int) -> float:
    """Return the smallest fall of the Robin Hood index that matters, given how many places there are for the items.

    No ranking can do better than chance, and where there are few places for many items chance alone is near 1, so the
    limit is a share of what is above it: 1 - P(X = floor(m)) for X of Poisson's law with the mean m = places / items.
    """
    mean = places / items
    chance = exp(floor(mean) * log(mean) - mean - lgamma(floor(mean) + 1))
    return LEAST_DROP * (1 - chance)


def change(raw: NDArray[np.int32], corrected: NDArray[np.int32], items: int, seed: int) -> Interval:
    """Return the change of the Robin Hood index from raw to corrected, with a 95% interval by the jackknife.

    raw, corrected: the best items of the same queries, (queries, k).
    """
    return jackknife(
        [raw, corrected],
        items,
        seed,
        lambda counts: figures_of(counts[1]).robin_hood - figures_of(counts[0]).robin_hood,
    )


# The ranking that returns the items most evenly is corrected a little too much for the answers' good, and below it the
# differences are of chance. Of those that come this near to it, as a share of its lead over raw, the weakest is taken.
# Chosen on Flickr8k, on val and two galleries of the bank split, in two spaces and both directions;
# docs/tuning/tune.md has what it kept.
TOLERANCE_SHARE = 0.1


def most_even(unevenness: Sequence[float], strengths: Sequence[float]) -> int:
    """Return the weakest of the rankings that return the items about as evenly as any; the first one is raw.

    unevenness: Robin Hood indices. strengths: the standard deviations of h, 0 of raw.
    """
    values = np.array(unevenness)
    least = values.min()
    near = np.flatnonzero(values <= least + TOLERANCE_SHARE * (values[0] - least))
    return int(near[np.argmin(np.array(strengths)[near])])
