"""Protocols: which banks, methods, settings and measures a paper uses, and how a bank is named."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unhub.bench.published import published
from unhub.errors import ArgumentError, check_whole, unknown
from unhub.evaluation.inputs import RAW
from unhub.evaluation.measures import MEASURES
from unhub.methods import METHODS, parse
from unhub.tuning.grid import ALPHAS, NEIGHBOURS, split_specs

OWN_QUERIES = "test"  # the bank of the queries at hand: the "query-aware" setting of Pan et al. 2025
AT_RANDOM = ("random", "stratified")
WAYS = (*AT_RANDOM, "adversarial", "near", "far")  # of `sample_bank`


@dataclass(frozen=True)
class BankChoice:
    """A bank by its text: a part of the data set, and how much of it: `train`, `train:20%`, `train:5000:far`.

    size: how many queries; share: which share of them; without either, all.
    """

    text: str
    part: str
    size: int | None = None
    share: float | None = None
    how: str = "random"

    @staticmethod
    def of(text: str) -> BankChoice:
        """Return the bank that a text names."""
        part, *rest = text.split(":")
        amount, how = [*rest, "", ""][:2]
        form = "write PART, PART:SIZE, PART:SHARE% or PART:SIZE:HOW, for example train:20% or train:5000:far"
        if not part or len(rest) > 2 or "" in rest:
            raise ArgumentError("banks", f"has {text!r}", form)
        if how and how not in WAYS:
            raise unknown("banks", how, WAYS, "ways to sample")
        share, size = None, None
        try:
            if amount.endswith("%"):
                share = float(amount[:-1]) / 100
            elif amount:
                size = int(amount)
        except ValueError:
            raise ArgumentError("banks", f"has {text!r}", form) from None
        if (share is not None and not 0 < share <= 1) or (size is not None and size < 1):
            raise ArgumentError("banks", f"has {text!r}, whose size is not above 0 or is above 100%", form)
        return BankChoice(text, part, size, share, how or "random")

    @property
    def drawn(self) -> bool:
        """Whether the bank is a random part, which differs from seed to seed."""
        return (self.size is not None or self.share is not None) and not self.picked

    @property
    def picked(self) -> bool:
        """Whether the bank is a part that is meant to differ from the whole."""
        return self.how not in AT_RANDOM

    def count(self, whole: int) -> int:
        """Return how many of so many queries it takes."""
        if self.share is not None:
            return max(1, round(self.share * whole))
        return whole if self.size is None else min(self.size, whole)


@dataclass(frozen=True)
class PaperProtocol:
    """What a paper measures.

    methods: in the words of `unhub methods`. banks: texts of BankChoice. grids: the settings of a method that are
    tried; a method without one is tried over the grid of `unhub tune`, and one setting alone is taken as it is.
    measures: beside those of the data set. seeds: how many random banks of a size are drawn. chosen_on: the part that
    settings are chosen on, "val", or "train" for a random part of it of the size of test. sets: how many captions
    are one query. hubness_k: among how many best items hubness is counted. pairs: the methods and banks that go
    together; if there are none, all do. distances: whether the earth mover's distances of each bank are measured.
    scaled: by model and data set (empty: any other) its own settings in the paper, for similarities that it multiplies.
    """

    methods: tuple[str, ...]
    banks: tuple[str, ...]
    grids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    seeds: int = 1
    chosen_on: str = "val"
    sets: tuple[int, ...] = ()
    hubness_k: int = 10
    pairs: frozenset[tuple[str, str]] = frozenset()
    distances: bool = False
    scaled: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def scaled_for(self, model: str, data_set: str) -> Mapping[str, tuple[str, ...]]:
        """Return the settings that the paper has for a model alone, by method."""
        return self.scaled.get((model, data_set)) or self.scaled.get((model, ""), {})

    def has(self, method: str, bank: str) -> bool:
        """Say whether a method is run with a bank."""
        return not self.pairs or method not in self.methods or bank not in self.banks or (method, bank) in self.pairs


def _neighbours() -> tuple[str, ...]:
    return tuple(f"nnn:k={k},alpha={alpha}" for k, alpha in itertools.product(NEIGHBOURS, ALPHAS))


def _dual(name: str) -> tuple[str, ...]:
    """Return a sweep over the ranges of Chowdhury et al. 2024, appendix B2, at five values each instead of twenty."""
    to_items = (0.0, *np.geomspace(0.001, 15, 5))
    to_queries = np.geomspace(25, 200, 5)
    pairs = itertools.product(to_queries, to_items)
    return tuple(f"{name}:beta_query={query:.3g},beta_target={item:.3g}" for query, item in pairs)


def _gated(beta: float) -> Mapping[str, tuple[str, ...]]:
    """Return inverted softmax at an inverse temperature, as Bogolin et al. 2022 have it for some models."""
    return {"is": (f"is:tau={1 / beta:.5g}",), "dis": (f"dis:tau={1 / beta:.5g},k=1",)}


# Paper keys: Bogolin et al. 2022, Chowdhury et al. 2024, Pan et al. 2025, Wang et al. 2022.
PAPERS: Mapping[str, PaperProtocol] = {
    "qbnorm": PaperProtocol(
        ("is", "dis", "csls", "gc"),
        ("train",),
        {"is": ("is:tau=0.05",), "dis": ("dis:tau=0.05,k=1",), "csls": ("csls:k=10",), "gc": ("gc",)},
        ("R@1", "R@5", "R@10", "MdR", "GM"),
        seeds=3,
        # Of CLIP2Video the paper says why: "the similarities are already scaled by the method".
        scaled={
            ("CLIP2Video", ""): _gated(1 / 1.99),
            ("CLIP4Clip", ""): _gated(0.45),
            ("CLIP4Clip", "lsmdc"): _gated(1 / 1.26),
        },
    ),
    "nnn": PaperProtocol(
        ("nnn", "dn", "dualis", "dualdis"),
        ("train", "train:20%"),
        {"nnn": _neighbours(), "dualis": _dual("dualis"), "dualdis": _dual("dualdis")},
        ("R@1", "R@5", "R@10"),
        chosen_on="train",
        hubness_k=1,
    ),
    "dbsn": PaperProtocol(
        ("is", "dis", "csls", "dualis", "sn", "dbsn"),
        ("test", "val", "train"),
        {
            "is": ("is:tau=0.02",),
            "dis": ("dis:tau=0.02,k=1",),
            "csls": ("csls:k=10",),
            "dualis": ("dualis:beta_query=50,beta_target=50",),
            "sn": ("sn:tau=0.01",),
            "dbsn": ("dbsn:tau=0.01",),
            # In the paper, the items that a plan gives nothing of a query stay tied.
            **{plan: (f"{plan}:zeros=tied",) for plan in ("otn", "l2n", "hn")},
        },
        ("R@1", "R@5", "R@10", "MdR", "MnR"),
        distances=True,
    ),
    "mqvr": PaperProtocol((), (), {}, ("R@1", "R@5", "R@10", "MdR", "MnR"), sets=tuple(range(1, 11))),
}


def protocol_of(paper: str | None, data_set: str, split: str) -> PaperProtocol:
    """Return the protocol of a paper; without one, every method on every bank, chosen on validation.

    Where the paper publishes figures of this data set, its methods, banks and measures are those of the figures.
    """
    if paper is None:
        return PaperProtocol(tuple(name for name in METHODS if name != RAW), ())
    known = PAPERS[_checked(paper)]
    figures = [one for one in published(paper, data_set=data_set) if one.split in ("", split)]
    pairs = dict.fromkeys((one.method, one.bank) for one in figures if one.method.partition(":")[0] in METHODS)
    measured = [one.measure for one in figures if one.measure in MEASURES or one.measure.partition("@")[0] in MEASURES]
    corrected = [pair for pair in pairs if pair[0] != RAW]
    return replace(
        known,
        methods=tuple(dict.fromkeys(method for method, _ in corrected)) or known.methods,
        banks=tuple(dict.fromkeys(bank for _, bank in corrected if bank)) or known.banks,
        measures=tuple(dict.fromkeys((*known.measures, *measured))),
        pairs=frozenset(corrected),
    )


def split_of(paper: str | None, data_set: str, usual: str) -> str:
    """Return the split that a paper publishes figures of; the usual one if it is among them or nothing is known."""
    if not paper:
        return usual
    splits = dict.fromkeys(one.split for one in published(_checked(paper), data_set=data_set))
    return usual if not splits or {usual, ""} & {*splits} else next(iter(splits))


def _checked(paper: str) -> str:
    """Return a paper by its key, or raise."""
    if paper not in PAPERS:
        raise unknown("paper", paper, PAPERS, "papers")
    return paper


def methods_of(given: str | Sequence[str], protocol: PaperProtocol) -> tuple[str, ...]:
    """Return the methods to run: "all" of the protocol, or names and specs, in a list or separated by commas."""
    listed = split_specs(given) if isinstance(given, str) else [*given]
    if not [one for one in listed if one]:
        raise ArgumentError("methods", "is empty", "name some, for example 'is,nnn', or 'all'")
    named = dict.fromkeys(name for one in listed for name in (protocol.methods if one == "all" else (one,)))
    for one in named:
        if parse(one).name == RAW:
            raise ArgumentError("methods", f"has {RAW!r}, which is always measured", "name another method")
    return tuple(named)


def seeds_of(seeds: int | None, protocol: PaperProtocol) -> int:
    """Return how many random banks of a size are drawn."""
    return protocol.seeds if seeds is None else check_whole(seeds, "seeds", 1)


def uses_items(spec: str) -> bool:
    """Say whether a method uses bank items."""
    method = METHODS[parse(spec).name]
    return method.dual or method.joint
