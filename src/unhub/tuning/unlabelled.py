"""Choosing without labels: which ranking to take by its evenness, and when to keep the raw one."""

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

# With one of these problems, the hubness that bank queries see falls while the answers get worse.
HARMFUL_PROBLEMS = ("tiny", "off-domain", "thin")
# On the val split of Flickr8k, harmful banks lowered the Robin Hood index of real queries by less than this, whatever
# setting was chosen, and good banks by 0.07 or more. It is a share of what is above chance: see `least_drop`.
LEAST_DROP = 0.03


@dataclass(frozen=True)
class HubnessChange:
    """How a correction changes the Robin Hood index that some queries see, and how similar the queries are.

    least: the smallest fall that matters for this many queries and items. alike: see `popularity.alikeness`;
    None if there are too few queries.
    """

    change: Interval
    queries: int
    least: float
    alike: float | None

    @property
    def falls(self) -> bool:
        """Whether the index certainly falls, by enough to matter, for enough queries."""
        return self.queries >= FEWEST_QUERIES and self.change.high < 0 and self.change.value <= -self.least

    @property
    def too_few(self) -> bool:
        """Whether more queries might show a fall that matters."""
        return not self.falls and (self.queries < FEWEST_QUERIES or self.change.low <= -self.least)

    @property
    def popular(self) -> bool:
        """Whether the items returned most may be popular items rather than hubs."""
        return self.alike is not None and self.alike > MOST_ALIKE

    @property
    def worthwhile(self) -> bool:
        return self.falls and not self.popular


def objection(report: BankReport) -> str | None:
    """Return why no correction should be fitted on this bank without labels, and what to do; None if it is fit."""
    found = [problem for problem in report.problems if problem in HARMFUL_PROBLEMS]
    if not found:
        return None
    return " ".join([ADVICE[found[0]], *(f"It is also {other}." for other in found[1:])])


def least_drop(places: int, items: int) -> float:
    """Return the smallest fall of the Robin Hood index that matters, given the numbers of places and items.

    No ranking can do better than chance, and with few places for many items the index under chance is near 1. So the
    limit is LEAST_DROP times 1 - chance, where chance = P(X = floor(m)) for a Poisson X with mean m = places / items.
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


# The ranking that returns the items most evenly corrects a little too much, and small differences in evenness are
# chance. So among the rankings this close to it, as a share of its lead over raw, the weakest is chosen. The share was
# set on Flickr8k, on val and two galleries of the bank split, in two spaces and both directions; see
# docs/tuning/tune.md.
TOLERANCE_SHARE = 0.1


def most_even(unevenness: Sequence[float], strengths: Sequence[float]) -> int:
    """Return the weakest of the rankings that return the items about as evenly as any; the first one is raw.

    unevenness: Robin Hood indices. strengths: the standard deviations of h, 0 for raw.
    """
    values = np.array(unevenness)
    least = values.min()
    near = np.flatnonzero(values <= least + TOLERANCE_SHARE * (values[0] - least))
    return int(near[np.argmin(np.array(strengths)[near])])
