"""Correction: what a fit returns, of one of three kinds, by how many queries it must see at once."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float32, Float64, Ids, Kind
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Progress
from unhub.data.bank import BankRows
from unhub.data.fingerprint import Fingerprint, inspect
from unhub.data.kept_arrays import ITEMS, Declared, Kept
from unhub.data.tensors import as_host
from unhub.data.vectors import LARGEST_FLOAT32, Vectors, VectorsLike, as_vectors, check_range, row_not_finite
from unhub.data.witness import Witness
from unhub.errors import ArgumentError, seen

Scores: TypeAlias = Float32 | Float64
Origin: TypeAlias = Kind | Literal["given"]


class Parameters(Protocol):
    """The frozen parameters of a method, as a correction knows them."""

    name: ClassVar[str]

    @property
    def spec(self) -> str:
        """The method and its parameters as text, for example `nnn:k=128,alpha=0.75`."""


class Rescorer(Parameters, Protocol):
    """A method that needs a query's whole row of similarities."""

    def rescore(self, scores: Scores, fitted: Rescore) -> Scores: ...


class Planner(Parameters, Protocol):
    """A method that needs the similarities of all queries."""

    def plan(self, scores: Scores, progress: Progress | None = None) -> Scores: ...


@dataclass(frozen=True)
class Cost:
    """What a fit cost: multiplies of the whole matrix, seconds and bytes; for Sinkhorn, also how it converged.

    A fit within an `error` also states the pairs of a query and an item that it computed, the standard error of h (the
    root of the mean square over the items, after centring), and how it came to both. After a change the error is still
    that of the fit; what was added is exact.
    """

    passes: float = 0.0
    seconds: float = 0.0
    peak_memory: int = 0
    kernel: str = "none"
    kept: str = "nothing"
    iterations: int = 0
    row_error: float | None = None
    column_error: float | None = None
    notes: tuple[str, ...] = ()
    pairs: int | None = None
    error: float | None = None
    how: str = ""


@dataclass(frozen=True)
class Source:
    """What a correction was fitted on: the similarity, the dimensions, hashes of the sets, and a witness of items.

    bank_rows: each query of the bank, by its hash; None for a matrix, and in a file from before they were kept.
    """

    similarity: Origin
    dimensions: int | None
    bank: Fingerprint | None = None
    bank_items: Fingerprint | None = None
    witness: Witness | None = field(default=None, compare=False)
    bank_rows: BankRows | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """The fields of every correction: the method, the items' ids and hashes, the source, the cost and named arrays."""

    kind: ClassVar[str]
    keeps: ClassVar[Declared] = {}  # in addition to the arrays that the method declares
    method: Parameters
    ids: Ids
    item_hashes: NDArray[np.uint64]
    source: Source
    cost: Cost
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for array in self.arrays.values():
            array.setflags(write=False)

    @property
    def spec(self) -> str:
        """The method and its parameters as text."""
        return self.method.spec

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec}: {len(self)} items, {self.source.similarity}>"

    def check_scores(self, scores: ArrayLike, infinite: bool = True) -> Scores:
        """Return scores as a float (queries, items) matrix that fits this correction, without NaN.

        infinite: whether scores may be infinite, for example -inf for an item that must not be returned.
        """
        checked = self.shaped(scores)
        if row_not_finite(checked) is not None:
            wrong = np.argwhere(np.isnan(checked) if infinite else ~np.isfinite(checked))
            if len(wrong):
                row, item = wrong[0]
                wanted = "numbers" if infinite else "finite"
                problem = f"must be {wanted}, got {checked[row, item]} for query {row}, item {item}"
                raise ArgumentError("scores", problem)
        return checked

    def shaped(self, scores: ArrayLike) -> Scores:
        """Return scores as a float (queries, items) matrix that fits this correction."""
        array = np.asarray(as_host(scores, "scores"))
        if array.ndim != 2 or array.shape[1] != len(self):
            problem = f"must be (queries, {len(self)}) for this correction, got shape {array.shape}"
            raise ArgumentError("scores", problem)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32)
        return cast("Scores", array)


@dataclass(frozen=True, eq=False, repr=False)
class Bias(Fitted):
    """One number per item: score(q, j) = similarity(q, j) - weight(q) * bias(j).

    `bias` is centred, `offset` is the constant that was removed. With a gate (`active`), weight(q) is 1 where the
    query's raw best item is active and 0 elsewhere.
    """

    kind: ClassVar[str] = "bias"
    keeps: ClassVar[Declared] = {"bias": Kept("float64", (ITEMS,), narrow=True)}
    offset: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if "bias" not in self.arrays:
            raise ValueError(f"a Bias needs an array named bias, got {', '.join(self.arrays) or 'none'}")
        if not np.isfinite(self.bias).all():
            bad = int(np.flatnonzero(~np.isfinite(self.bias))[0])
            raise ArgumentError("bias", f"must be finite, got {self.bias.flat[bad]} for item {bad}")

    @property
    def bias(self) -> Float64:
        """h, (items,), with mean 0 when it was fitted."""
        return cast("Float64", self.arrays["bias"])

    @property
    def active(self) -> NDArray[np.bool_] | None:
        """The gate, (items,), or None where every query is corrected."""
        return cast("NDArray[np.bool_] | None", self.arrays.get("active"))

    @functools.cached_property
    def largest(self) -> float:
        """The largest absolute bias of an item."""
        return float(np.abs(self.bias).max(initial=0.0))

    def weights(self, raw_best: NDArray[np.int64], strength: float | Float64 = 1.0) -> Float64:
        """Return weight(q) for queries whose raw best item has position `raw_best`, or -1 for none."""
        if self.active is None:
            return np.ones(len(raw_best)) * strength
        return np.where(raw_best >= 0, self.active[raw_best], False) * np.asarray(strength, np.float64)

    def apply(self, scores: ArrayLike, strength: float | Float64 = 1.0) -> Scores:
        """Return the corrected (queries, items) scores; every index must agree with this definition."""
        checked = self.shaped(scores)
        weights = self.weights(np.argmax(checked, axis=1), strengths(strength, len(checked), self))
        with np.errstate(over="ignore"):
            corrected = cast("Scores", (checked - weights[:, None] * self.bias).astype(checked.dtype, copy=False))
        if row_not_finite(corrected) is not None:  # a score that is not finite shows here too, so one check is enough
            self.check_scores(checked)
            check_range(np.where(np.isfinite(checked), corrected, 0))
        return corrected


@dataclass(frozen=True, eq=False, repr=False)
class Rescore(Fitted):
    """A function of a query's whole row of similarities."""

    kind: ClassVar[str] = "rescore"
    items: Vectors | None = None

    def apply(self, scores: ArrayLike) -> Scores:
        """Return the corrected (queries, items) scores."""
        return cast("Rescorer", self.method).rescore(self.check_scores(scores), self)

    def bind(self, items: VectorsLike) -> Rescore:
        """Return this correction with its item vectors, which a saved file does not contain."""
        vectors = as_vectors(items, "items")
        if self.source.similarity == "given":
            raise ArgumentError(
                "correction",
                f"of {self.spec!r} was fitted on a similarity matrix and has no vectors",
                "apply it to scores",
            )
        if vectors.dimensions != self.source.dimensions:
            problem = f"has {vectors.dimensions} dimensions, the correction {self.source.dimensions}"
            raise ArgumentError("items", problem, "embed both with one model")
        named = isinstance(items, Vectors) and not np.array_equal(vectors.ids, self.ids)
        if named or not np.array_equal(inspect(vectors, "items", self.source.similarity).hashes, self.item_hashes):
            problem = "must be the items that the correction was fitted on, in the same order"
            raise ArgumentError("items", problem, "give those items, or refit")
        return dataclasses.replace(self, items=Vectors(vectors.ids, vectors.rows))  # without cached hashes


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Fitted):
    """A function of all queries' similarities at once: batches only."""

    kind: ClassVar[str] = "plan"

    @shows_progress
    def apply(self, scores: ArrayLike, progress: ProgressLike = None) -> Scores:
        """Return the corrected (queries, items) scores, solved over exactly these queries.

        progress: called with (done, total) while the solver runs and when it ends; True shows it on stderr.
        """
        progress = called(progress)
        return cast("Planner", self.method).plan(self.check_scores(scores, infinite=False), progress)


Correction: TypeAlias = Bias | Rescore | Plan


def strengths(strength: ArrayLike, count: int, correction: Correction) -> Float64:
    """Return one strength per query, (count,), from one number or one per query; float32 must hold strength * bias."""
    try:
        given = np.asarray(strength)
        if given.dtype.kind in "US":
            raise TypeError("texts")  # which numpy would read as numbers
        array = given.astype(np.float64)
    except (TypeError, ValueError):
        problem = f"must be one number or one per query ({count}), got {seen(strength)}"
        raise ArgumentError("strength", problem) from None
    if array.shape not in ((), (count,)):
        raise ArgumentError("strength", f"must be one number or one per query ({count}), got shape {array.shape}")
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)][0] if array.ndim else array
        raise ArgumentError("strength", f"must be finite, got {bad}")
    largest = correction.largest if isinstance(correction, Bias) else 0.0
    check_reach(float(array.flat[np.abs(array).argmax()]) if array.size else 0.0, largest)
    return np.broadcast_to(array, (count,))


def check_reach(strength: float, largest: float) -> None:
    """Raise an ArgumentError unless float32 can hold the strength and its product with the largest bias."""
    limit = LARGEST_FLOAT32 / max(1.0, largest)
    if abs(strength) > limit:
        why = f" (the largest bias is {largest:.6g})" if largest > 1 else ""
        raise ArgumentError(
            "strength",
            f"must be at most {limit:.6g} in size, got {strength:g}: beyond that float32 cannot hold the corrected "
            f"scores{why}",
        )


def check_correction(value: object, use: str) -> None:
    """Raise an ArgumentError unless the value is one fitted correction; `use` says what it is for."""
    if isinstance(value, Bias | Rescore | Plan):
        return
    wanted = f"must be a fitted correction to {use}"
    if isinstance(value, str | os.PathLike):
        raise ArgumentError("correction", f"{wanted}, got the text {os.fspath(value)!r}", "load a saved one first")
    if isinstance(value, list | tuple):
        got = f"a {type(value).__name__} of {len(value)}"
        raise ArgumentError("correction", f"{wanted}, got {got}", "give one at a time")
    raise ArgumentError("correction", f"{wanted}, got {type(value).__name__}")


KINDS: Mapping[str, type[Bias] | type[Rescore] | type[Plan]] = {kind.kind: kind for kind in (Bias, Rescore, Plan)}
