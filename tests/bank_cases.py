"""Small banks to fit on, and what the oracle of each method makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tests import oracles
from unhub.arrays import Kind
from unhub.correction import Bias, Correction
from unhub.fitting import fit
from unhub.methods import METHODS, Method, parse

Floats: TypeAlias = NDArray[np.float64]

# Each method at its defaults and away from them. What may be clipped is asked for explicitly in the second kind.
BIASES = (
    "raw",
    "is",
    "is:tau=0.02",
    "csls",
    "csls:k=1",
    "nnn",
    "nnn:k=7,alpha=1.25",
    "dualis",
    "dualis:beta_query=3,beta_target=40",
    "dn",
    "dn:lambda=0.25",
    "cent",
    "sn",
    "sn:tau=0.05,iterations=3",
    "dbsn",
    "dbsn:tau=0.05,iterations=25",
)
GATED = ("dis", "dis:tau=0.1,k=3")
RESCORES = ("gc", "dualdis", "dualdis:beta_query=2,beta_target=3,k=2")
PLANS = ("otn", "l2n", "hn")
ON_A_BANK = BIASES + GATED + RESCORES


@dataclass(frozen=True)
class Sets:
    """Items, a bank, bank items and queries, whose numbers float32 holds exactly, and how they are compared."""

    items: Floats
    bank: Floats
    bank_items: Floats
    queries: Floats
    kind: Kind = "cosine"

    @property
    def bank_scores(self) -> Floats:
        """(bank queries, items)"""
        return similarity(self.bank, self.items, self.kind)

    @property
    def target_scores(self) -> Floats:
        """(bank items, items)"""
        return similarity(self.bank_items, self.items, self.kind)

    @property
    def joint_scores(self) -> Floats:
        """(bank queries, bank items)"""
        return similarity(self.bank, self.bank_items, self.kind)

    @property
    def query_scores(self) -> Floats:
        """(queries, items)"""
        return similarity(self.queries, self.items, self.kind)

    def under(self, kind: Kind) -> Sets:
        return replace(self, kind=kind)


def similarity(rows: Floats, columns: Floats, kind: Kind) -> Floats:
    return oracles.cosine(rows, columns) if kind == "cosine" else oracles.dot(rows, columns)


def drawn(
    seed: int = 0, items: int = 41, bank: int = 301, bank_items: int = 23, queries: int = 17, dimensions: int = 16
) -> Sets:
    """Draw sets with a gap between the modalities, so that some items are hubs; not of unit length."""
    rng = np.random.default_rng(seed)
    gap = rng.standard_normal(dimensions)
    pull = rng.uniform(0, 1, (items, 1))

    def rows(count: int, shift: Floats) -> Floats:
        return read_only((rng.standard_normal((count, dimensions)) + shift).astype(np.float32).astype(np.float64))

    return Sets(rows(items, pull * gap), rows(bank, gap), rows(bank_items, np.zeros(1)), rows(queries, gap))


def whole(seed: int = 0, items: int = 41, bank: int = 301, bank_items: int = 23, queries: int = 17) -> Sets:
    """Draw sets of small whole numbers: dot products are exact in float32, and many are equal."""
    rng = np.random.default_rng(seed)

    def rows(count: int) -> Floats:
        return read_only(rng.integers(-2, 3, (count, 4)).astype(np.float64))

    return Sets(rows(items), rows(bank), rows(bank_items), rows(queries), "dot")


def read_only(array: Floats) -> Floats:
    array.setflags(write=False)
    return array


def fitted(spec: str, sets: Sets, *, threads: int | None = 1, mergeable: bool = False) -> Correction:
    """Fit a method on these sets."""
    return fit(
        sets.items,
        sets.bank,
        method=spec,
        bank_items=sets.bank_items,
        similarity=sets.kind,
        threads=threads,
        mergeable=mergeable,
    )


def bias(spec: str, sets: Sets, *, threads: int | None = 1, mergeable: bool = False) -> Bias:
    """Fit a method that finds one number per item."""
    correction = fitted(spec, sets, threads=threads, mergeable=mergeable)
    assert isinstance(correction, Bias)
    return correction


def whole_h(correction: Correction) -> Floats:
    """Return h as the formula has it: the stored bias and the constant that was removed."""
    assert isinstance(correction, Bias)
    return correction.bias + correction.offset


def number(method: Method, name: str) -> float:
    return float(cast("float", method.values[name]))


def count(method: Method, name: str, available: int) -> int:
    """Return a count as typed, or the default, clipped."""
    default = cast("int", METHODS[method.name].parameters()[name])
    return int(cast("int", method.values.get(name, min(default, available))))


def _is(method: Method, sets: Sets) -> Floats:
    return oracles.is_(sets.bank_scores, number(method, "tau"))


H: Mapping[str, Callable[[Method, Sets], Floats]] = {
    "raw": lambda method, sets: np.zeros(len(sets.items)),
    "is": _is,
    "dis": _is,
    "csls": lambda method, sets: oracles.csls(sets.bank_scores, count(method, "k", len(sets.bank))),
    "nnn": lambda method, sets: oracles.nnn(
        sets.bank_scores, count(method, "k", len(sets.bank)), number(method, "alpha")
    ),
    "dualis": lambda method, sets: oracles.dualis(
        sets.bank_scores, sets.target_scores, number(method, "beta_query"), number(method, "beta_target")
    ),
    "dn": lambda method, sets: oracles.dn(sets.bank_scores, number(method, "lambda")),
    "cent": lambda method, sets: oracles.cent(sets.bank_scores),
    "sn": lambda method, sets: oracles.sn(
        sets.bank_scores, number(method, "tau"), count(method, "iterations", 1_000_000)
    )[0],
    "dbsn": lambda method, sets: oracles.dbsn(
        sets.bank_scores, sets.joint_scores, number(method, "tau"), count(method, "iterations", 1_000_000)
    ),
}


def oracle_h(spec: str, sets: Sets) -> Floats:
    """Return h of a method as its oracle has it, in float64."""
    method = parse(spec)
    return H[method.name](method, sets)


def oracle_scores(spec: str, sets: Sets) -> Floats:
    """Return the corrected scores of the queries as the method's oracle has them; for dualdis use `oracle_ranking`."""
    method = parse(spec)
    if method.name == "gc":
        return oracles.gc_scores(sets.query_scores, sets.bank_scores)
    if method.name == "dis":
        k = count(method, "k", len(sets.items))
        return oracles.dis_scores(sets.query_scores, sets.bank_scores, number(method, "tau"), k)
    return oracles.corrected(sets.query_scores, oracle_h(spec, sets))


def oracle_ranking(spec: str, sets: Sets) -> NDArray[np.int64]:
    """Return the items of each query, best first, equal ones by position."""
    method = parse(spec)
    if method.name != "dualdis":
        return oracles.ranking(oracle_scores(spec, sets))
    betas = number(method, "beta_query"), number(method, "beta_target")
    k = count(method, "k", len(sets.items))
    return np.array(oracles.dualdis_order(sets.query_scores, sets.bank_scores, sets.target_scores, *betas, k))
