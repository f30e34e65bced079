"""Grid: the settings worth trying, from the papers and tied to the data, the cheap and robust ones first."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unhub.errors import ArgumentError
from unhub.evaluation.inputs import RAW
from unhub.methods import METHODS, Method, parse
from unhub.tuning.spread import ROBUST_ALPHA, ROBUST_K

ALPHAS = (0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25, 1.375, 1.5)  # of Chowdhury et al. 2024
NEIGHBOURS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
TAUS = (0.05, 0.02, 0.01)  # of Bogolin et al. 2022 and Wang et al. 2023, for the similarities of CLIP
# How many items a bank query sees at the temperatures that are tried: doubled from a few to a few hundred.
ITEMS_SEEN = (40, 20, 80, 10, 160, 5, 320)
STRENGTHS = (None, 0.75, 0.5)  # of 'sn' and 'dbsn'; small banks want less
LAMBDAS = (0.5, 0.25, 0.75)
GATE_MULTIPLES = (1.0, 2.0, 4.0)  # temperatures of 'dis' over the spread of the similarities
GATES = (1, 3, 10)  # how many top items of each bank query open the gate of 'dis'
DUAL_MULTIPLES = (1.0, 2.0, 4.0)  # 1 / beta over the spread of the similarities
DUAL_RATIOS = (0.25, 0.5, 1.0)  # beta_target / beta_query: the item bank weighs no more than the query bank


@dataclass(frozen=True)
class DataScale:
    """What a grid depends on: the spread of the similarities, the sizes of bank and gallery, and bank items.

    by_sight: the temperatures at which a bank query sees ITEMS_SEEN.
    """

    spread: float
    bank: int
    items: int
    dual: bool
    by_sight: tuple[float, ...] = ()

    def temperatures(self) -> list[float]:
        """Return the temperatures by sight, then those of the papers."""
        return _rounded(self.by_sight)

    def gate_temperatures(self) -> list[float]:
        """Return the temperatures tied to the spread, then those of the papers."""
        return _rounded([multiple * self.spread for multiple in GATE_MULTIPLES])


def _rounded(taus: Sequence[float]) -> list[float]:
    """Return temperatures with three digits, and those of the papers, each once."""
    return list(dict.fromkeys([*(float(f"{tau:.3g}") for tau in taus), *TAUS]))


def _neighbours(scale: DataScale) -> list[str]:
    pairs = [(k, alpha) for k, alpha in itertools.product(NEIGHBOURS, ALPHAS) if k <= scale.bank]
    # Settings close to the robust one come first, in case the time runs out.
    pairs.sort(key=lambda pair: abs(pair[0].bit_length() - ROBUST_K.bit_length()) + 8 * abs(pair[1] - ROBUST_ALPHA))
    return [f"nnn:k={k},alpha={alpha}" for k, alpha in pairs]


def _local_scaling(scale: DataScale) -> list[str]:
    return [f"csls:k={min(10, scale.bank)}"]


def _softmax(scale: DataScale) -> list[str]:
    return [f"is:tau={tau}" for tau in scale.temperatures()]


def _means(scale: DataScale) -> list[str]:
    return [f"dn:lambda={weight}" for weight in LAMBDAS]


def _gated(scale: DataScale) -> list[str]:
    gates = [k for k in GATES if k <= scale.items]
    return [f"dis:tau={tau},k={k}" for tau, k in itertools.product(scale.gate_temperatures(), gates)]


def _balanced(name: str) -> Callable[[DataScale], list[str]]:
    """Return the grid of a method of Sinkhorn; the strengths of one temperature are neighbours and share its fit."""
    return lambda scale: [
        f"{name}:tau={tau}" + ("" if strength is None else f",strength={strength}")
        for tau, strength in itertools.product(scale.temperatures(), STRENGTHS)
    ]


def _dual(scale: DataScale) -> list[str]:
    betas = [float(f"{1 / (one * scale.spread):.3g}") for one in DUAL_MULTIPLES]
    tied = [(beta, float(f"{ratio * beta:.3g}")) for beta, ratio in itertools.product(betas, DUAL_RATIOS)]
    return [f"dualis:beta_query={query},beta_target={target}" for query, target in [(20.0, 10.0), *tied]]


# What "all" tries, in this order. 'gc' and 'dualdis' need whole rows, are slow and fit into no index: only if named.
GRID: Mapping[str, Callable[[DataScale], list[str]]] = {
    "nnn": _neighbours,
    "csls": _local_scaling,
    "is": _softmax,
    "dn": _means,
    "cent": lambda scale: ["cent"],
    "dualis": _dual,
    "dis": _gated,
    "sn": _balanced("sn"),
    "dbsn": _balanced("dbsn"),
}


def name_methods(methods: str | Sequence[str], dual: bool) -> list[str]:
    """Return the methods to try: "all", or names with or without parameters, in a list or separated by commas."""
    listed = split_specs(methods) if isinstance(methods, str) else [one.strip() for one in methods]
    if not listed or listed == [""]:
        raise ArgumentError("methods", "is empty", "name some, for example 'is,nnn', or 'all'")
    every = [name for name in GRID if dual or not _needs_items(name)]
    named = list(dict.fromkeys(name for one in listed for name in (every if one == "all" else [one])))
    for one in named:
        method = parse(one)
        if method.name == RAW:
            raise ArgumentError(
                "methods", f"has {RAW!r}, which all others are compared with anyway", "name another method"
            )
        if method.kind == "plan":
            raise ArgumentError(
                "methods", f"has {method.name!r}, which is solved over a whole batch of queries and cannot be chosen"
            )
        if _needs_items(method.name) and not dual:
            raise ArgumentError("methods", f"has {method.name!r}, which needs bank items", "give bank items too")
    return named


def split_specs(text: str) -> list[str]:
    """Split at commas, except those between the parameters of one method: nnn:k=32,alpha=0.5."""
    listed: list[str] = []
    for part in (one.strip() for one in text.split(",")):
        if "=" in part and ":" not in part and listed:
            listed[-1] += f",{part}"
        else:
            listed.append(part)
    return listed


def _needs_items(name: str) -> bool:
    return METHODS[name].dual or METHODS[name].joint


def candidates(named: Sequence[str], scale: DataScale) -> list[Method]:
    """Return the methods to try, each once: the grid of a bare name, a spec with parameters unchanged."""
    specs = [spec for one in named for spec in (GRID[one](scale) if one in GRID else [one])]
    return list(dict.fromkeys(parse(spec) for spec in specs))


def within(method: Method, bank: int) -> Method:
    """Return the method with k limited to the number of bank queries, if k counts these."""
    counts = method.bank_count
    if counts and (getattr(method, counts) or 0) > bank:
        return dataclasses.replace(method, **{counts: bank})
    return method
