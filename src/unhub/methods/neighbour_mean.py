"""Means of the bank's scores: NNN (Chowdhury et al. 2024), CSLS, and distribution normalisation and centring."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from unhub.arrays import Float32, Float64
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Workers
from unhub.data.bank import Bank
from unhub.data.kept_arrays import ITEMS, Declared, Kept
from unhub.methods.method import (
    Arrays,
    Method,
    Outcome,
    Streamed,
    bank_side,
    check_k,
    require_count,
    require_number,
    resolve_k,
)


@dataclass(frozen=True)
class NearestNeighbourNormalisation(Method):
    """Bias each item by the mean of its k largest bank scores: h = alpha * top-k mean."""

    name: ClassVar[str] = "nnn"
    bank_count: ClassVar[str] = "k"
    default_k: ClassVar[int] = 128
    k: int | None = None
    alpha: float = 0.75

    def __post_init__(self) -> None:
        require_count(self, "k", optional=True)
        require_number(self, "alpha", least=0)

    @property
    def gain(self) -> float:
        return self.alpha

    def resolve(self, bank: Bank) -> tuple[Method, tuple[str, ...]]:
        k, notes = resolve_k(self, self.k, self.default_k, max(1, bank.whole_weight), "bank queries")
        return dataclasses.replace(self, k=k), notes

    def wants(self, mergeable: bool) -> tuple[Want, Want]:
        k = self.k or self.default_k
        return Want(top_means=(k,), top_values=k if mergeable else 0), Want()

    def keeps(self, mergeable: bool, given: bool) -> Declared:
        return {"top_values": Kept("float32", (ITEMS, self.k or self.default_k))} if mergeable else {}

    def check(self, arrays: Arrays, sizes: Mapping[str, int]) -> None:
        check_k(self, self.k or self.default_k, sizes, bank_side(sizes))

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        k = self.k or self.default_k
        # Copies only if another method of the same pass asked for more than k.
        arrays = {"top_values": np.ascontiguousarray(streamed.queries.top_values[:, :k])} if mergeable else {}
        return Outcome(self.alpha * streamed.queries.top_means[k], arrays, _kept(k) if mergeable else "nothing")

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        kept = cast("Float32", arrays["top_values"])
        want = Want(top_values=min(kept.shape[1], new.whole_weight))
        more = reduce(new.queries, want, workers, weights=new.weights).top_values
        top = np.sort(np.concatenate([kept, more], axis=1), axis=1)[:, ::-1][:, : kept.shape[1]].copy()
        return Outcome(self.alpha * top.mean(axis=1, dtype=np.float64), {"top_values": top}, _kept(top.shape[1]))


def _kept(k: int) -> str:
    return f"the top {k} bank scores of each item"


@dataclass(frozen=True)
class CrossDomainLocalScaling(Method):
    """Bias each item by half the mean of its k largest bank scores: CSLS, h = 1/2 * top-k mean."""

    name: ClassVar[str] = "csls"
    bank_count: ClassVar[str] = "k"
    default_k: ClassVar[int] = 10
    k: int | None = None

    def __post_init__(self) -> None:
        require_count(self, "k", optional=True)

    @property
    def as_mean(self) -> NearestNeighbourNormalisation:
        """NNN at alpha 1/2, which ranks the same."""
        return NearestNeighbourNormalisation(k=self.k or self.default_k, alpha=0.5)

    @property
    def gain(self) -> float:
        return self.as_mean.gain

    def resolve(self, bank: Bank) -> tuple[Method, tuple[str, ...]]:
        k, notes = resolve_k(self, self.k, self.default_k, max(1, bank.whole_weight), "bank queries")
        return dataclasses.replace(self, k=k), notes

    def wants(self, mergeable: bool) -> tuple[Want, Want]:
        return self.as_mean.wants(mergeable)

    def keeps(self, mergeable: bool, given: bool) -> Declared:
        return self.as_mean.keeps(mergeable, given)

    def check(self, arrays: Arrays, sizes: Mapping[str, int]) -> None:
        check_k(self, self.k or self.default_k, sizes, bank_side(sizes))

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        return self.as_mean.finish(bank, streamed, mergeable)

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        return self.as_mean.merged(h, arrays, old, new, workers)


@dataclass(frozen=True)
class DistributionNormalisation(Method):
    """Bias each item by its score for the mean bank query: h = lambda * mean(B).g; needs no pass over the matrix."""

    name: ClassVar[str] = "dn"
    stays_here: ClassVar[bool] = True
    spellings = {"weight": "lambda"}  # noqa: RUF012
    weight: float = 0.5

    def __post_init__(self) -> None:
        require_number(self, "weight", least=0)

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        return Outcome(self.weight * bank.mean_scores())

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        more = self.weight * new.mean_scores()
        return Outcome((old * h + new.weight * more) / (old + new.weight))


@dataclass(frozen=True)
class Centring(Method):
    """Bias each item by its full score for the mean bank query: dn at lambda 1, h = mean(B).g."""

    name: ClassVar[str] = "cent"
    stays_here: ClassVar[bool] = True

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        return Outcome(bank.mean_scores())

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        return DistributionNormalisation(weight=1.0).merged(h, arrays, old, new, workers)
