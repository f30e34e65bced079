"""Method: frozen parameters that say what to compute from a bank and turn it into a correction's arrays."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64, Span
from unhub.compute.passes import Found, Want, reduce
from unhub.compute.workers import Workers
from unhub.correction import Rescore, Scores
from unhub.data.bank import Bank
from unhub.data.kept_arrays import BANK_WEIGHT, Declared, per_item
from unhub.data.similarity import Similarity
from unhub.errors import ArgumentError

Value: TypeAlias = float | int | str | None
Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
LookAgain: TypeAlias = Callable[[NDArray[np.int64], Want], Found]  # bank queries by position -> what was found for them

NOTHING_FOUND = Found({}, {}, np.empty((0, 0), np.float32), np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))


@dataclass(frozen=True, eq=False)
class Streamed:
    """What the streaming passes found: over the bank queries, and over the bank items if there are any."""

    queries: Found
    targets: Found


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method computes from a bank: h, (items,), as in its formula, or None; and other arrays to keep."""

    h: Float64 | None = None
    arrays: Arrays = field(default_factory=dict)
    kept: str = "nothing"
    iterations: int = 0
    row_error: float | None = None
    column_error: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Foreseen:
    """What a fit will take: multiplies of the whole matrix, what is kept, and its bytes.

    trials: methods that solve on their own, to be timed on a few rows; the time is the sum, each so many times.
    cheaper: with how much memory, in bytes, it would take how many multiplies instead, the fewest first.
    bank_that_fits: the most bank queries with which what is kept would be whole.
    """

    passes: float
    kept: str = "nothing"
    kept_bytes: int = 0
    trials: tuple[tuple[Method, float], ...] = ()
    cheaper: tuple[tuple[int, float], ...] = ()
    bank_that_fits: int = 0


class ItemByItem(Protocol):
    """A rescore that treats each item separately: score(q, j) = s(q, j) - count(q, j), a block of items at a time."""

    def blocks(self) -> Iterator[Span]:
        """Yield the spans of items to process at a time."""

    def counter(self, span: Span) -> Callable[[Scores], Float64]:
        """Read the bank and return a function from scores on these items, (queries, items), to counts."""


@dataclass(frozen=True)
class Method:
    """The parameters of one method. A subclass is final; it either wants and finishes, or solves on its own.

    Other modules learn about a method only through this interface, never from its class: the class variables below;
    `extended`, `removed`, `merged` and `warmed` for upkeep; `item_by_item` for search.
    """

    name: ClassVar[str]
    kind: ClassVar[str] = "bias"
    needs_bank: ClassVar[bool] = True
    dual: ClassVar[bool] = False  # needs bank items
    joint: ClassVar[bool] = False  # adds bank items, if given, to the items
    extra: ClassVar[str] = ""  # the extra that must be installed
    stays_here: ClassVar[bool] = False  # is computed on numpy arrays, whatever the device
    solves: ClassVar[bool] = False  # fits on its own, without the shared streaming pass
    iterates: ClassVar[bool] = False  # solves in iterations, which `warmed` can continue from a fitted h
    bank_count: ClassVar[str] = ""  # the parameter that counts bank queries, at most as many as there are
    aliases: ClassVar[Mapping[str, str]] = {}  # another name -> our field, whose value is the reciprocal
    spellings: ClassVar[Mapping[str, str]] = {}  # our field -> the name a user types

    @classmethod
    def parameters(cls) -> dict[str, Value]:
        """Return the parameters as a user types them, with their defaults."""
        return {cls.spellings.get(one.name, one.name): _default(cls, one) for one in dataclasses.fields(cls)}

    @property
    def values(self) -> dict[str, Value]:
        """The parameters as a user types them, with their values, without those that are None."""
        pairs = {self.spellings.get(one.name, one.name): getattr(self, one.name) for one in dataclasses.fields(self)}
        return {name: value for name, value in pairs.items() if value is not None}

    @property
    def spec(self) -> str:
        """The method as a user types it, for example `nnn:k=128,alpha=0.75`."""
        text = ",".join(
            f"{name}={value!r}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.values.items()
        )
        return f"{self.name}:{text}" if text else self.name

    @property
    def gain(self) -> float | None:
        """How far h may be off, before it is centred, for each unit that scores are off; None if nobody knows."""
        return None

    @classmethod
    def estimable(cls) -> bool:
        """Return whether h can be estimated from a part of the bank, within an error."""
        return cls.kind == "bias" and not cls.solves

    def check_installed(self) -> None:
        """Raise an ImportError unless the library that it needs is installed."""

    def resolve(self, bank: Bank) -> tuple[Method, tuple[str, ...]]:
        """Return the method with its unset parameters filled in for this bank, and notes on what was clipped."""
        return self, ()

    def at_full_strength(self) -> tuple[Method, float]:
        """Return the method whose h, times a factor, is the h of this one; and the factor."""
        return self, 1.0

    def wants(self, mergeable: bool) -> tuple[Want, Want]:
        """Return what the method needs from the bank queries and from the bank items."""
        return Want(), Want()

    def finish(self, bank: Bank, streamed: Streamed, mergeable: bool) -> Outcome:
        """Turn what the passes found into an outcome."""
        raise TypeError(f"{self.name} solves on its own")

    def solve(self, bank: Bank, workers: Workers) -> Outcome:
        """Fit without the streaming passes."""
        raise TypeError(f"{self.name} is finished from the streaming passes")

    def foresee(self, bank: Bank, memory: int) -> Foreseen:
        """Return what a fit will take, before anything is computed."""
        queries, targets = self.wants(False)
        more = 0.0 if targets.empty or bank.targets is None else bank.targets.shape[0] / bank.size
        return Foreseen((0.0 if queries.empty else 1.0) + more)

    def keeps(self, mergeable: bool, given: bool) -> Declared:
        """Declare the arrays that a correction keeps besides h; `given`: it was fitted on a given matrix.

        A saved file is checked against this: a side is a number or the name of a set in the fit.
        """
        return {}

    def check(self, arrays: Arrays, sizes: Mapping[str, int]) -> None:
        """Raise a ValueError if declared arrays or sizes of sets contradict each other or a parameter.

        sizes: the numbers of `items` and `bank` queries, as far as the file contains them, and the `bank weight` if
        these have weights.
        """

    def extended(self, arrays: Arrays, new: Bank, workers: Workers, places: NDArray[np.int64] | None = None) -> Outcome:
        """Return h of more items, given the same bank against them, and the arrays of old and new items.

        places: where each old and then each new item stands afterwards, by default one after the other.
        """
        mergeable = any(name in arrays for name in ("top_values", "query_log_sums"))
        outcome = self.finish(new, stream([self], new, mergeable, workers), mergeable)
        rows = per_item(self.keeps(mergeable, given=False))
        both = {name: np.concatenate([arrays[name], outcome.arrays[name]]) for name in outcome.arrays if name in rows}
        if places is not None:
            order = np.argsort(places)
            both = {name: array[order] for name, array in both.items()}
        return dataclasses.replace(outcome, arrays=both)

    def merged(self, h: Float64, arrays: Arrays, old: float, new: Bank, workers: Workers) -> Outcome:
        """Return h over the old bank queries, known by h and arrays, and the new ones; and the arrays that change.

        old: the sum of the weights of the old bank queries, which is their number if they have none.
        """
        raise ArgumentError("correction", f"of {self.name!r} cannot be merged", "refit it on both banks")

    def removed(self, arrays: Arrays, stays: NDArray[np.int64], look_again: LookAgain) -> Arrays:
        """Return the arrays that change, beyond losing rows, if only the items at `stays` are left.

        look_again: streams some bank queries, by position, over the items that are left. It raises an error if these
        are not available, so call it only if necessary.
        """
        return {}

    def warmed(self, h: Float64, arrays: Arrays, bank: Bank, workers: Workers, iterations: int) -> Outcome:
        """Return the outcome of some more iterations from this h, for a method that iterates."""
        raise TypeError(f"{self.name} does not iterate")

    def item_by_item(self, fitted: Rescore) -> ItemByItem | None:
        """Return the item-by-item form of a rescore, or None if it needs whole rows."""
        return None

    def check_mergeable(self, arrays: Arrays) -> None:
        """Raise unless these are the arrays of a mergeable fit."""
        if not self.keeps(mergeable=True, given=False).keys() <= arrays.keys():
            raise ArgumentError(
                "correction",
                f"of {self.name!r} does not keep what merging needs",
                "fit again on the whole bank, which is the way with a bank folder or fractional weights; or, with "
                "whole weights, fit as mergeable",
            )


def stream(methods: Sequence[Method], bank: Bank, mergeable: bool, workers: Workers) -> Streamed:
    """Run one pass over the bank queries and, if needed, one over the bank items, for all methods together."""
    wants = [method.wants(mergeable) for method in methods]
    queries = functools.reduce(operator.or_, (want for want, _ in wants), Want())
    targets = functools.reduce(operator.or_, (want for _, want in wants), Want())
    found = NOTHING_FOUND if queries.empty else reduce(bank.queries, queries, workers, weights=bank.weights)
    found_targets = NOTHING_FOUND if targets.empty else reduce(cast("Similarity", bank.targets), targets, workers)
    return Streamed(found, found_targets)


def _default(cls: type[Method], one: dataclasses.Field[Value]) -> Value:
    usual = getattr(cls, f"default_{one.name}", None)  # of a parameter that is unset until the data is known
    return usual if usual is not None else cast("Value", one.default)


def require(condition: bool, method: Method, parameter: str, wanted: str) -> None:
    """Raise an ArgumentError about a parameter unless the condition holds."""
    if not condition:
        typed = method.spellings.get(parameter, parameter)
        raise refused(method, typed, wanted, getattr(method, parameter, None))


def refused(method: Method | type[Method], parameter: str, wanted: str, value: object) -> ArgumentError:
    """Return the error for a parameter, by its user-facing name, that is not as wanted."""
    return ArgumentError("method", f"{method.name!r} needs {parameter} to be {wanted}, got {value!r}")


def as_number(value: object) -> float | None:
    """Return a Python or numpy number as a float, as numpy prints it: float32(0.05) is 0.05; else None."""
    if isinstance(value, np.floating):
        return float(str(value))
    return float(value) if isinstance(value, int | float | np.integer) and not isinstance(value, bool) else None


def require_number(method: Method, parameter: str, *, above: float | None = None, least: float | None = None) -> None:
    """Raise an ArgumentError unless the parameter is a finite number above `above` or at least `least`."""
    value = as_number(getattr(method, parameter))
    wanted = (
        "a finite number"
        + (f" above {above:g}" if above is not None else "")
        + (f" of at least {least:g}" if least is not None else "")
    )
    least_wanted, most_unwanted = -math.inf if least is None else least, -math.inf if above is None else above
    fits = value is not None and most_unwanted < value < math.inf and least_wanted <= value
    require(fits, method, parameter, wanted)
    object.__setattr__(method, parameter, value)


def require_count(method: Method, parameter: str, *, optional: bool = False) -> None:
    """Raise an ArgumentError unless the parameter is a whole number of at least 1, or None if `optional`."""
    value = getattr(method, parameter)
    if value is None and optional:
        return
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(whole and value >= 1, method, parameter, "a whole number of at least 1")
    object.__setattr__(method, parameter, int(value))


def bank_side(sizes: Mapping[str, int]) -> str:
    """Return the name of the size that a k over bank queries must not exceed."""
    return BANK_WEIGHT if BANK_WEIGHT in sizes else "bank"


def check_k(method: Method, k: int, sizes: Mapping[str, int], of: str) -> None:
    """Raise a ValueError if k exceeds the size it counts; an unknown size is not compared."""
    if of in sizes and k > sizes[of]:
        raise ValueError(f"{method.name!r} has k={k}, which is over the number of {of}, {sizes[of]}")


def resolve_k(method: Method, k: int | None, default: int, available: int, of: str) -> tuple[int, tuple[str, ...]]:
    """Return k, by default clipped to what is available; raise if an explicit k exceeds that."""
    if k is None:
        if default > available:
            return available, (f"k was clipped from its default {default} to {available}, the number of {of}",)
        return default, ()
    if k > available:
        raise ArgumentError(
            "method", f"{method.name!r} has k={k}, which is over the {available} {of}", f"give k <= {available}"
        )
    return k, ()
