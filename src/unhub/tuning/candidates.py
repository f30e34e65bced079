"""Candidates: fit every setting of a grid on one bank, in as few passes as possible."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Kind
from unhub.compute.progress import Clock
from unhub.correction import Correction
from unhub.data.bank import Bank, vector_bank
from unhub.data.copies import NO_COPIES, Copies
from unhub.data.vectors import Vectors
from unhub.evaluation.placing import Additive, Ranking, as_ranking
from unhub.fitting import centred, fit
from unhub.methods import Method
from unhub.methods.method import stream

GROUP_SIZE = 32  # candidates placed in one pass: enough to share a multiply, few enough to stop in time
FIRST_GROUP_SIZE = 4  # doubled each time, so that even a short time is enough for the most robust settings
SINKHORN_GROUP_SIZE = 6  # Sinkhorn fits take longer, and fits that are not yet placed are lost when the time is up


@dataclass(frozen=True, eq=False)
class FittingSets:
    """The items and banks that candidates are fitted on.

    growth: if they are a sample, how many times as many (item, bank query) pairs the whole has.
    """

    items: Vectors
    bank: Vectors
    bank_items: Vectors | None
    kind: Kind
    copies: Copies = NO_COPIES
    growth: float = 1.0

    @property
    def similarities(self) -> Bank:
        return vector_bank(self.items, self.bank, self.bank_items, self.kind)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A method and how it ranks.

    seconds: its fit, or its share of a shared pass. again: the expected seconds of fitting it alone on twice the bank.
    """

    method: Method
    ranking: Ranking
    seconds: float
    again: float


def count_steps(methods: Sequence[Method]) -> int:
    """Return the largest number of clock steps that fitting and placing can take."""
    shared, balanced, others = _sorted(methods)
    solved = len({method.at_full_strength()[0] for method in balanced})
    groups = len(shared) // GROUP_SIZE + 4 + len(balanced) // SINKHORN_GROUP_SIZE + 2 + len(others)
    return bool(shared) + solved + len(others) + groups


def fitted(methods: Sequence[Method], sets: FittingSets, clock: Clock) -> Iterator[list[Candidate]]:
    """Yield the candidates in groups to place together; those fitted in a shared pass come first."""
    shared, balanced, others = _sorted(methods)
    bank = sets.similarities
    if shared:
        yield from _grouped(_streamed(shared, bank, clock), FIRST_GROUP_SIZE, GROUP_SIZE)
    yield from _grouped(_balanced(balanced, bank, clock), SINKHORN_GROUP_SIZE, SINKHORN_GROUP_SIZE)
    for method in others:
        yield [_alone(method, sets, clock)]


def _grouped(several: Iterator[Candidate], size: int, most: int) -> Iterator[list[Candidate]]:
    while group := list(itertools.islice(several, size)):
        yield group
        size = min(2 * size, most)


def _sorted(methods: Sequence[Method]) -> tuple[list[Method], list[Method], list[Method]]:
    """Return the methods that share the streaming pass, those of Sinkhorn, and those fitted one by one."""
    balanced = [one for one in methods if one.iterates]
    shared = [one for one in methods if not one.solves and one.kind == "bias"]
    return shared, balanced, [one for one in methods if one not in balanced and one not in shared]


def _streamed(methods: Sequence[Method], bank: Bank, clock: Clock) -> Iterator[Candidate]:
    began, workers = clock.seconds, clock.fitters()
    bank = replace(bank, run=workers.reads)
    streamed = stream(methods, bank, False, workers)
    took = clock.seconds - began
    again = 2 * took / len({method.name for method in methods})  # more settings of a method cost little
    for method in methods:
        outcome = method.finish(bank, streamed, False)
        active = cast("NDArray[np.bool_] | None", outcome.arrays.get("active"))
        yield Candidate(method, _additive(cast("Float64", outcome.h), active), took / len(methods), again)


def _balanced(methods: Sequence[Method], bank: Bank, clock: Clock) -> Iterator[Candidate]:
    """Yield the candidates of Sinkhorn; neighbours that differ only in strength share one fit."""
    for whole, several in itertools.groupby(methods, lambda method: method.at_full_strength()[0]):
        began = clock.seconds
        h = cast("Float64", whole.solve(bank, clock.fitters()).h)
        took, sharing = clock.seconds - began, list(several)
        for method in sharing:
            yield Candidate(method, _additive(method.at_full_strength()[1] * h), took / len(sharing), 2 * took)


def _additive(h: Float64, active: NDArray[np.bool_] | None = None) -> Additive:
    return Additive(centred(h)[0].astype(np.float32), active)


def _alone(method: Method, sets: FittingSets, clock: Clock) -> Candidate:
    began = clock.seconds
    ranking = as_ranking(fit_whole(method, sets, clock))
    took = clock.seconds - began
    return Candidate(method, ranking, took, 2 * took)


def fit_whole(method: Method, sets: FittingSets, clock: Clock, limited: bool = True) -> Correction:
    """Return the correction of one method, as `unhub.fit` makes it."""
    return fit(
        sets.items,
        sets.bank,
        method,
        bank_items=sets.bank_items if method.dual or method.joint else None,
        similarity=sets.kind,
        threads=clock.threads,
        memory=clock.memory,
        device=clock.fitting_kernel,
        progress=clock.watch(limited),
    )
