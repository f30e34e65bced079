"""Estimating: what a pass over the whole bank would find, from a part of it, within an error of h that is measured.

Some items, the checked ones, first meet the whole bank. What a part of the bank makes of their h, less their true h, is
then the error itself, however skewed the scores are; no formula is needed. The part that is used for all items is the
smallest that keeps this error below the limit: a random part of the bank, or, where the bank has clusters, those that
matter to the item, and the others by their mean.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unhub.compute.clusters import cluster_count
from unhub.compute.workers import Workers
from unhub.data.bank import Bank
from unhub.data.vectors import at_hand
from unhub.estimating.by_clusters import FEWEST_CHECKED, ByClusters
from unhub.estimating.checking import Checking, Estimate
from unhub.estimating.random_part import RandomPart
from unhub.methods import Method
from unhub.methods.method import NOTHING_FOUND, Streamed

FEWEST_ITEMS = 500  # with fewer, the checked ones would be most of them
MOST_PASSES = 2.0  # about; where all pairs are used in the end, with what was tried before: up to 1.87 was seen
MOST_SHARE = 0.8  # of the pairs, checks included: beyond it, all pairs take no longer
MOST_COPIES = 0.05  # of the items, that are computed exactly; more of them are among the checked ones anyway
QUICK_SHARE = 0.25  # of the bank at random, beyond which clusters are tried first: large parts take long to gather
MOST_CLUSTER_OUTLAY = 0.5  # of the time of the random part: what may be spent to see whether clusters do better


def estimate(
    methods: Sequence[Method], bank: Bank, error: float, seed: int, workers: Workers, copies: NDArray[np.int64]
) -> Estimate | None:
    """Estimate what these methods, which share a pass over vectors, want of it; None if all pairs take no longer.

    copies: the positions of the items that are also bank queries. Such an item is far off unless its copy is met.
    """
    wants = [method.wants(False) for method in methods]
    want, target_want = (functools.reduce(operator.or_, several) for several in zip(*wants, strict=True))
    if want.empty and target_want.empty:
        return Estimate(Streamed(NOTHING_FOUND, NOTHING_FOUND), np.empty(0, np.int64), {}, "exact, without pairs", ())
    if bank.items < FEWEST_ITEMS:
        return None
    if len(copies) > MOST_COPIES * bank.items:
        copies = copies[:0]
    checking = Checking(methods, bank, seed, workers, copies)
    random_part = RandomPart(checking, (want, target_want))
    only_sums = target_want.empty and want.top == want.best_items == 0 and bank.weights is None
    # The members of a cluster are all over the bank, which would be read once for each.
    clusterable = only_sums and at_hand(checking.pairs.query_vectors.rows)
    can_cluster = clusterable and not workers.kernel.ON_DEVICE and workers.runner is None
    tried_share = QUICK_SHARE if clusterable else MOST_SHARE  # so that one seed gives one random part wherever it is
    share = random_part.share(error, tried_share)
    if can_cluster and cluster_outlay(bank) < MOST_CLUSTER_OUTLAY * share:
        clusters = ByClusters(checking, want.betas)
        chosen = clusters.choose(error, min(share, MOST_SHARE))
        if chosen is not None and tried_share < chosen.share:
            share, tried_share = random_part.share(error, chosen.share, tried_share), chosen.share
        if chosen is not None and chosen.share < share:
            return random_part.with_copies(clusters.estimate(chosen))
    if share > tried_share:
        share = random_part.share(error, MOST_SHARE, tried_share)
    share = random_part.confirmed(error, share, MOST_SHARE)
    if share + random_part.checked / bank.items > MOST_SHARE:
        return None
    return random_part.with_copies(random_part.estimate(share))


def cluster_outlay(bank: Bank) -> float:
    """Return what it takes to make clusters and to see how they do, as a share of all pairs."""
    return (cluster_count(bank.items, bank.size) + FEWEST_CHECKED) / bank.items


__all__ = ["MOST_PASSES", "Estimate", "estimate"]
