"""Recurring queries: a bank that is a log, and queries that were asked before, which no fit on themselves may judge."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import are_among
from unhub.banks.repeats import equal_rows
from unhub.data.fingerprint import Hashes, are_repeating
from unhub.matching import Matched
from unhub.tuning.candidates import FittingSets

Positions = NDArray[np.int64]


def with_repeats_joined(matched: Matched) -> Matched:
    """Return the same, with each query once of a bank that repeats itself without weights; others as they are.

    A plain fit counts a repeat as one more query, and then h says who is popular rather than who is a hub.
    """
    hashes = matched.hashes["bank"]
    if matched.bank.weights is not None or not are_repeating(hashes):
        return matched
    groups = equal_rows(hashes)
    order = np.argsort(groups.firsts)
    joined = matched.only({"bank": groups.firsts[order]})
    return dataclasses.replace(joined, counts=groups.counts[order])


def joined_note(given: Matched, used: Matched) -> str:
    """Say that a bank was joined, and how to fit on the same."""
    before, after = len(given.bank), len(used.bank)
    return (
        f"{before - after:,} of {before:,} bank queries repeat others, and each counts once: "
        "unhub.join_repeats(bank, near=1, temper=0) gives this bank."
    )


def halves(hashes: Hashes | Positions, seed: int) -> tuple[Positions, Positions]:
    """Return the positions of two halves, at random, each in rising order; copies stay together."""
    kinds, own = np.unique(hashes, return_inverse=True)
    first = np.zeros(len(kinds), bool)
    first[np.random.default_rng(seed).permutation(len(kinds))[: (len(kinds) + 1) // 2]] = True
    return np.flatnonzero(first[own]), np.flatnonzero(~first[own])


def held_out(
    sets: FittingSets, bank: Hashes, asking: Hashes, positions: Positions, seed: int
) -> list[tuple[FittingSets, Positions]]:
    """Return what to fit on, and the positions of the queries that judge it: none of them is in that bank.

    If none is in the bank, all judge fits on the whole of it. Else each half judges fits on the bank without that half:
    both then hold queries that are asked often and queries that are not. bank, asking: the hashes.
    """
    here = asking[positions]
    if not are_among(here, bank).any():
        return [(sets, positions)]
    parts = []
    _, firsts, own = np.unique(here, return_index=True, return_inverse=True)
    for half in halves(firsts[own], seed):  # by their order, so that the digits of the vectors do not matter
        kept = np.flatnonzero(~are_among(bank, here[half]))
        if len(kept) and len(half):
            parts.append((dataclasses.replace(sets, bank=sets.bank.gather(kept)), positions[half]))
    return parts
