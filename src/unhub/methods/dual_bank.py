"""Dual banks: past queries and training items together (DBNorm, Wang et al. 2023)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, spans
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Workers
from unhub.correction import Rescore, Scores
from unhub.data.bank import Bank
from unhub.data.kept_arrays import ITEMS, Declared, Kept
from unhub.data.similarity import Similarity
from unhub.methods.inverted_softmax import activation
from unhub.methods.method import (
    Arrays,
    Method,
    Outcome,
    Streamed,
    check_k,
    require,
    require_count,
    require_number,
    resolve_k,
)

BLOCK_ENTRIES = 1 << 20  # scores processed at a time
KEPT_LOG_SUMS = "the two log-sums of each item"
LOG_SUMS = {name: Kept("float64", (ITEMS,)) for name in ("query_log_sums", "target_log_sums")}
TAU_ALIASES = {"tau_query": "beta_query", "tau_target": "beta_target"}


@dataclass(frozen=True)
class DualInvertedSoftmax(Method):
    """Two inverted softmaxes, of past queries and of training items: h = (LSE_b + LSE_t) / (sum of betas)."""

    name: ClassVar[str] = "dualis"
    dual: ClassVar[bool] = True
    aliases = TAU_ALIASES
    beta_query: float = 20.0
    beta_target: float = 10.0

    def __post_init__(self) -> None:
        require_betas(self)

    @property
    def total(self) -> float:
        return self.beta_query + self.beta_target

    @property
    def gain(self) -> float:
        return 1.0

    def wants(self, mergeable: bool) -> tuple[Want, Want]:
        return Want(betas=_positive(self.beta_query)), Want(betas=_positive(self.beta_target))

    def keeps(self, mergeable: bool, given: bool) -> Declared:
        return LOG_SUMS if mergeable else {}

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        query_log_sums, target_log_sums = both_log_sums(self, bank, streamed)
        h = (query_log_sums + target_log_sums) / self.total
        if not mergeable:
            return Outcome(h)
        return Outcome(h, {"query_log_sums": query_log_sums, "target_log_sums": target_log_sums}, KEPT_LOG_SUMS)

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        target_log_sums = cast("Float64", arrays["target_log_sums"])
        fresh = np.full(new.items, np.log(new.weight))
        if self.beta_query:
            found = reduce(new.queries, Want(betas=(self.beta_query,)), workers, weights=new.weights)
            fresh = found.log_sums[self.beta_query]
        both = np.logaddexp(cast("Float64", arrays["query_log_sums"]), fresh)
        return Outcome((both + target_log_sums) / self.total, {"query_log_sums": both}, KEPT_LOG_SUMS)


@dataclass(frozen=True)
class DualDynamicInvertedSoftmax(Method):
    """The product of the two inverted softmaxes, each only where the query's raw best item is a hub of that bank.

    An ungated factor is the raw similarity itself, as published, so the product mixes an exponential ratio with a
    similarity. Items are ranked by the sign of the product, then by the sign times its log-magnitude.
    """

    name: ClassVar[str] = "dualdis"
    kind: ClassVar[str] = "rescore"
    dual: ClassVar[bool] = True
    aliases = TAU_ALIASES
    default_k: ClassVar[int] = 1
    beta_query: float = 20.0
    beta_target: float = 10.0
    k: int | None = None

    def __post_init__(self) -> None:
        require_betas(self)
        require_count(self, "k", optional=True)

    def resolve(self, bank: Bank) -> tuple[Method, tuple[str, ...]]:
        k, notes = resolve_k(self, self.k, self.default_k, bank.items, "items")
        return dataclasses.replace(self, k=k), notes

    def wants(self, mergeable: bool) -> tuple[Want, Want]:
        best = self.k or self.default_k
        return (
            Want(betas=_positive(self.beta_query), best_items=best),
            Want(betas=_positive(self.beta_target), best_items=best),
        )

    def keeps(self, mergeable: bool, given: bool) -> Declared:
        return {**LOG_SUMS, **{name: Kept("bool", (ITEMS,)) for name in ("query_active", "target_active")}}

    def check(self, arrays: Arrays, sizes: Mapping[str, int]) -> None:
        check_k(self, self.k or self.default_k, sizes, ITEMS)

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        k = self.k or self.default_k
        query_log_sums, target_log_sums = both_log_sums(self, bank, streamed)
        arrays: dict[str, NDArray[np.generic]] = {
            "query_log_sums": query_log_sums,
            "target_log_sums": target_log_sums,
            "query_active": activation(streamed.queries.best_items[:, :k], bank.items),
            "target_active": activation(streamed.targets.best_items[:, :k], bank.items),
        }
        return Outcome(arrays=arrays, kept=f"{KEPT_LOG_SUMS}, and which items are active")

    def rescore(self, scores: Scores, fitted: Rescore) -> Scores:
        """Return scores that rank like the products: the sign times an increasing function of the log-magnitude.

        That function is 1 + x for x >= 0 and 1 / (1 - x) below, which never leaves the range of float64.
        """
        out = np.empty(scores.shape)
        for span in spans(len(scores), max(1, BLOCK_ENTRIES // scores.shape[1])):
            sign, log_magnitude = self._products(scores[slice(*span)].astype(np.float64), fitted)
            rising = np.where(log_magnitude >= 0, 1 + log_magnitude, 1 / (1 - np.minimum(log_magnitude, 0)))
            out[slice(*span)] = sign * rising
        return out

    def _products(self, scores: Float64, fitted: Rescore) -> tuple[Float64, Float64]:
        """Return the sign and the log-magnitude of the product of the two factors."""
        best = np.argmax(scores, axis=1)
        with np.errstate(divide="ignore"):
            raw_log = np.log(np.abs(scores))
        sign = np.ones_like(scores)
        log_magnitude = np.zeros_like(scores)
        for bank, beta in (("query", self.beta_query), ("target", self.beta_target)):
            gate = fitted.arrays[f"{bank}_active"][best].astype(bool)[:, None]
            log_sums = cast("Float64", fitted.arrays[f"{bank}_log_sums"])
            sign *= np.where(gate, 1.0, np.sign(scores))
            log_magnitude += np.where(gate, beta * scores - log_sums, raw_log)
        return sign, log_magnitude


def require_betas(method: DualInvertedSoftmax | DualDynamicInvertedSoftmax) -> None:
    require_number(method, "beta_query", least=0)
    require_number(method, "beta_target", least=0)
    require(method.beta_query + method.beta_target > 0, method, "beta_query", "above 0 if beta_target is 0")


def _positive(beta: float) -> tuple[float, ...]:
    return (beta,) if beta > 0 else ()


def both_log_sums(
    method: DualInvertedSoftmax | DualDynamicInvertedSoftmax, bank: Bank, streamed: Streamed
) -> tuple[Float64, Float64]:
    """Return logsumexp(beta * score) over the bank queries and over the bank items; log(count) if beta is 0."""
    targets = cast("Similarity", bank.targets).shape[0]
    return (
        streamed.queries.log_sums.get(method.beta_query, np.full(bank.items, np.log(bank.weight))),
        streamed.targets.log_sums.get(method.beta_target, np.full(bank.items, np.log(targets))),
    )
