"""Evenness: choose among rankings without labels, by how evenly they return the items, and do not overdo it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The ranking that returns the items most evenly is corrected a little too much for the answers' good, and below it the
# differences are of chance. Of those that come this near to it, as a share of its lead over raw, the weakest is taken.
# Chosen on Flickr8k, on val and two galleries of the bank split, in two spaces and both directions; docs/tune.md has
# what it kept.
TOLERANCE = 0.1


def most_even(unevenness: Sequence[float], strengths: Sequence[float]) -> int:
    """Return the weakest of the rankings that return the items about as evenly as any; the first one is raw.

    unevenness: Robin Hood indices. strengths: the standard deviations of h, 0 of raw.
    """
    values = np.array(unevenness)
    least = values.min()
    near = np.flatnonzero(values <= least + TOLERANCE * (values[0] - least))
    return int(near[np.argmin(np.array(strengths)[near])])
