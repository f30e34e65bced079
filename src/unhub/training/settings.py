"""Settings of a training, checked when made; the defaults are the paper's, except for the rate of small towers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.errors import ArgumentError, check_whole, unknown
from unhub.model import HEADS

Rates: TypeAlias = float | Sequence[float] | NDArray[np.number]

RATES = (3e-4, 1e-3, 3e-3)  # tried if none is given and there is validation
RATE = 1e-3  # used if none is given and there is no validation
TRANSFORMER_RATE = 1e-4  # the highest for cg-wf: at the rates of small towers it gives all queries equal weights


@dataclass(frozen=True)
class Settings:
    """How to train: Wang et al. 2022, section 4.2.

    towers: `linear`, `mlp`, `none`, or `modules` for the user's own pair. dimensions: of the joint space. hidden: size
    of the hidden layer of `mlp`. dropout: of its input and its hidden layer. root: whether to take a signed square root
    of the features first; None does so if no feature is negative. head_rate: the highest rate for the weights of
    the head; None is 0.0001 for `cg-wf` with trained towers, else no limit. warmup: the share of the steps in which the
    rate rises. patience: give up a rate after this many epochs without a better validation; None never does. NumPy
    numbers become Python numbers, for JSON.
    """

    head: str = "cg-wf"
    queries: int = 5
    combination: bool = True
    towers: str = "mlp"
    seed: int = 0
    rates: tuple[float, ...] = (RATE,)
    dimensions: int = 256
    hidden: int = 512
    dropout: float = 0.0
    root: bool | None = None
    head_rate: float | None = None
    epochs: int = 30
    batch: int = 48
    warmup: float = 5 / 30
    temperature: float = 0.05
    weight_decay: float = 0.01
    patience: int | None = None
    mixed: bool = False

    def __post_init__(self) -> None:
        if str(self.head) not in HEADS:
            raise unknown("head", self.head, HEADS, "heads")
        for name, least in (("queries", 1), ("seed", 0), ("dimensions", 1), ("hidden", 1), ("epochs", 1), ("batch", 2)):
            self._set(name, check_whole(getattr(self, name), name, least))
        if self.patience is not None:
            self._set("patience", check_whole(self.patience, "patience", 1))
        for name, low, high in (("dropout", 0, 1), ("warmup", 0, 1), ("weight_decay", 0, math.inf)):
            self._set(name, _number(getattr(self, name), name, low, high, f"of at least {low} and under {high}"))
        self._set("rates", tuple(_positive(rate, "rate") for rate in self.rates))
        if self.head_rate is not None:
            self._set("head_rate", _positive(self.head_rate, "head_rate"))
        self._set("temperature", _positive(self.temperature, "temperature"))
        for name in ("combination", "mixed", *(("root",) if self.root is not None else ())):
            self._set(name, _flag(getattr(self, name), name))
        if len(set(self.rates)) < len(self.rates) or not self.rates:
            raise ArgumentError("rate", f"must be one number or several different ones, got {list(self.rates)}")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of queries used in training and measured in validation."""
        return (1, self.queries) if self.combination and self.queries > 1 else (self.queries,)

    def head_peak(self, peak: float) -> float:
        """Return the highest rate of the head's weights, given that of the towers."""
        if self.head_rate is not None:
            return min(peak, self.head_rate)
        return min(peak, TRANSFORMER_RATE) if self.head == "cg-wf" and self.towers != "none" else peak

    def rate_at(self, peak: float, step: int, steps: int) -> float:
        """Return the learning rate at a step of `steps`, from 0: a linear rise from above 0, then a half cosine."""
        rise = max(1, round(self.warmup * steps))
        if step < rise:
            return peak * (step + 1) / rise
        return peak * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise))) / 2


def rates_of(given: Rates | None, validated: bool) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return the rates to try, and a note if the default is used for lack of validation data."""
    if given is None:
        return (RATES, ()) if validated else ((RATE,), (f"no validation to choose a rate by: it is {RATE:g}",))
    listed: object = given.tolist() if isinstance(given, np.ndarray) else given
    rates = tuple(listed) if isinstance(listed, Sequence) else (listed,)
    if len(rates) > 1 and not validated:
        raise ArgumentError(
            "rate", f"must be one number without validation to choose by, got {len(rates)}", "give validation data too"
        )
    return tuple(_positive(rate, "rate") for rate in rates), ()


def _number(value: object, name: str, low: float, high: float, wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) < high:
        raise ArgumentError(name, f"must be a number {wanted}, got {value!r}")
    return float(value)


def _positive(value: object, name: str) -> float:
    return _number(value, name, math.ulp(0), math.inf, "over 0")


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(name, f"must be True or False, got {value!r}")
    return bool(value)
