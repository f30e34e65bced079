"""Inverted softmax, and its dynamic form, which corrects only queries that hit a hub (QB-Norm, Bogolin et al. 2022)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64
from unhub.compute.passes import Want
from unhub.compute.workers import Workers
from unhub.data.bank import Bank
from unhub.data.kept_arrays import ITEMS, Declared, Kept
from unhub.methods.method import (
    Arrays,
    LookAgain,
    Method,
    Outcome,
    Streamed,
    require_count,
    require_number,
    resolve_k,
    stream,
)

BETA_ALIAS = {"beta": "tau"}


@dataclass(frozen=True)
class Raw(Method):
    """No correction: h = 0."""

    name: ClassVar[str] = "raw"
    needs_bank: ClassVar[bool] = False

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        return Outcome(np.zeros(bank.items))

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        return Outcome(h)


@dataclass(frozen=True)
class InvertedSoftmax(Method):
    """Bias each item by the softmax mass the bank sends to it: h = tau * logsumexp_b(s / tau)."""

    name: ClassVar[str] = "is"
    aliases = BETA_ALIAS
    tau: float = 0.05

    def __post_init__(self) -> None:
        require_number(self, "tau", above=0)

    @property
    def gain(self) -> float:
        return 1.0  # as far as a log-sum

    def wants(self, mergeable: bool) -> tuple[Want, Want]:
        return Want(betas=(1 / self.tau,)), Want()

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        return Outcome(self.tau * streamed.queries.log_sums[1 / self.tau])

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        more = self.finish(new, stream([self], new, False, workers), False)
        return Outcome(added(h, more, self.tau))


@dataclass(frozen=True)
class DynamicInvertedSoftmax(Method):
    """Inverted softmax, only for queries whose raw best item is among the top k items of some bank query."""

    name: ClassVar[str] = "dis"
    aliases = BETA_ALIAS
    default_k: ClassVar[int] = 1
    tau: float = 0.05
    k: int | None = None

    def __post_init__(self) -> None:
        require_number(self, "tau", above=0)
        require_count(self, "k", optional=True)

    @property
    def gain(self) -> float:
        return 1.0

    def resolve(self, bank: Bank) -> tuple[Method, tuple[str, ...]]:
        k, notes = resolve_k(self, self.k, self.default_k, bank.items, "items")
        return dataclasses.replace(self, k=k), notes

    def wants(self, mergeable: bool) -> tuple[Want, Want]:
        return Want(betas=(1 / self.tau,), best_items=self.k or self.default_k), Want()

    def keeps(self, mergeable: bool, given: bool) -> Declared:
        best = ("bank", self.k or self.default_k)
        return {
            "active": Kept("bool", (ITEMS,)),
            "best_items": Kept("int32", best, least=-1, below=ITEMS),
            "best_scores": Kept("float32", best, unfilled=True),
        }

    def check(self, arrays: Arrays, sizes: Mapping[str, int]) -> None:
        made = activation(cast("NDArray[np.int32]", arrays["best_items"]), len(arrays["active"]))
        if not np.array_equal(made, arrays["active"]):
            raise ValueError("the array active does not match the array best_items")

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        k = self.k or self.default_k
        best, scores = streamed.queries.best_items[:, :k], streamed.queries.best_scores[:, :k]
        arrays = gate(np.ascontiguousarray(best), np.ascontiguousarray(scores), bank.items)
        return Outcome(self.tau * streamed.queries.log_sums[1 / self.tau], arrays, _kept(k))

    def extended(self, arrays: Arrays, new: Bank, workers: Workers, places: NDArray[np.int64] | None = None) -> Outcome:
        outcome = self.finish(new, stream([self], new, False, workers), False)
        old = len(arrays["active"])
        numbers = (np.arange(old + new.items) if places is None else places).astype(np.int32)
        known = cast("NDArray[np.int32]", arrays["best_items"])
        found = cast("NDArray[np.int32]", outcome.arrays["best_items"])
        # A bank query without best items had no part in the fit, which was one within an error.
        took_part = (known >= 0).any(axis=1, keepdims=True)
        best = joined_best(
            (np.where(known >= 0, numbers[known], -1), cast("Float32", arrays["best_scores"])),
            (
                np.where((found >= 0) & took_part, numbers[old:][found], -1),
                np.where(took_part, cast("Float32", outcome.arrays["best_scores"]), -np.inf).astype(np.float32),
            ),
        )
        return Outcome(outcome.h, gate(*best, old + new.items), outcome.kept)

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        more = self.finish(new, stream([self], new, False, workers), False)
        best = np.concatenate([arrays["best_items"], more.arrays["best_items"]])
        scores = np.concatenate([arrays["best_scores"], more.arrays["best_scores"]])
        return Outcome(added(h, more, self.tau), gate(best, scores, new.items), more.kept)

    def removed(self, arrays: Arrays, stays: NDArray[np.int64], look_again: LookAgain) -> Arrays:
        """Return the gate of the items that stay; search again for bank queries that lost one of their best items."""
        renumber = np.full(len(arrays["active"]), -1, np.int32)
        renumber[stays] = np.arange(len(stays), dtype=np.int32)
        known = cast("NDArray[np.int32]", arrays["best_items"])
        best = np.where(known >= 0, renumber[known], -1)
        scores = np.array(arrays["best_scores"], np.float32)
        hurt = np.flatnonzero(((best < 0) & (known >= 0)).any(axis=1))
        if len(hurt):
            found = look_again(hurt, Want(best_items=known.shape[1]))
            best[hurt], scores[hurt] = found.best_items, found.best_scores
        return gate(best, scores, len(stays))


def _kept(k: int) -> str:
    return f"the top {k} items of each bank query"


def added(h: Float64, more: Outcome, tau: float) -> Float64:
    """Return h over two banks, by a running log-sum."""
    return tau * np.logaddexp(h / tau, cast("Float64", more.h) / tau)


def activation(best_items: NDArray[np.int32], items: int) -> NDArray[np.bool_]:
    """Return which items are among the best of at least one query, (items,)."""
    active = np.zeros(items, bool)
    active[best_items[best_items >= 0]] = True
    return active


def gate(best_items: NDArray[np.int32], best_scores: Float32, items: int) -> dict[str, NDArray[np.generic]]:
    """Return the gate's arrays: the active items, and each bank query's best items, from which they are derived."""
    return {"active": activation(best_items, items), "best_items": best_items, "best_scores": best_scores}


def joined_best(
    old: tuple[NDArray[np.int32], Float32], new: tuple[NDArray[np.int32], Float32]
) -> tuple[NDArray[np.int32], Float32]:
    """Return each bank query's best items among two sets of candidates; of equal ones, that of the lowest position."""
    places, scores = np.concatenate([old[0], new[0]], axis=1), np.concatenate([old[1], new[1]], axis=1)
    order = np.lexsort((places, -scores), axis=1)[:, : old[0].shape[1]]
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(scores, order, axis=1)
