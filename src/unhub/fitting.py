"""Fitting: fit one or several methods in one pass over the data."""

from __future__ import annotations

import dataclasses
import inspect as introspection
import math
from collections.abc import Iterable, Sequence
from typing import cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unhub.arrays import Float64, Ids, Kind, are_among
from unhub.compute.machines import cluster, device_on
from unhub.compute.precision import on_h, on_scores
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.compute.workers import Workers
from unhub.correction import KINDS, Bias, Correction, Cost, Rescore, Source
from unhub.data.bank import Bank, BankRows, matrix_bank, vector_bank
from unhub.data.fingerprint import NOTED_REPEATS, Fingerprint, ReadOnce, inspect, repeats_among
from unhub.data.similarity import Dense, Dot, check_similarity
from unhub.data.vectors import Vectors, VectorsLike, as_vectors, as_weights
from unhub.data.witness import Witness
from unhub.errors import ArgumentError, check_seed, nearest_name
from unhub.hopeless_banks import notes_on_bank
from unhub.kernels import choose_here, name_of
from unhub.matching import check_widths
from unhub.methods import METHODS, Method, parse
from unhub.methods.method import Outcome, Value, as_number, stream

REPEATS = "repeat others, and each counts again: unhub.join_repeats gives each query once, with a weight"


@overload
def fit(
    items: VectorsLike | Dense,
    bank: VectorsLike | None = None,
    method: str | Method = "is",
    *,
    bank_items: VectorsLike | Dense | None = None,
    weights: ArrayLike | None = None,
    similarity: Kind = "cosine",
    threads: int | None = None,
    memory: int | str | None = None,
    device: str | None = None,
    precision: str | None = None,
    on: str | None = None,
    mergeable: bool = False,
    error: float | None = None,
    seed: int = 0,
    progress: ProgressLike = None,
    **parameters: Value,
) -> Correction: ...
@overload
def fit(
    items: VectorsLike | Dense,
    bank: VectorsLike | None = None,
    *,
    method: list[str | Method] | list[str],
    bank_items: VectorsLike | Dense | None = None,
    weights: ArrayLike | None = None,
    similarity: Kind = "cosine",
    threads: int | None = None,
    memory: int | str | None = None,
    device: str | None = None,
    precision: str | None = None,
    on: str | None = None,
    mergeable: bool = False,
    error: float | None = None,
    seed: int = 0,
    progress: ProgressLike = None,
    **parameters: Value,
) -> list[Correction]: ...
@shows_progress
def fit(
    items: VectorsLike | Dense,
    bank: VectorsLike | None = None,
    method: str | Method | Sequence[str | Method] = "is",
    *,
    bank_items: VectorsLike | Dense | None = None,
    weights: ArrayLike | None = None,
    similarity: Kind = "cosine",
    threads: int | None = None,
    memory: int | str | None = None,
    device: str | None = None,
    precision: str | None = None,
    on: str | None = None,
    mergeable: bool = False,
    error: float | None = None,
    seed: int = 0,
    progress: ProgressLike = None,
    **parameters: Value,
) -> Correction | list[Correction]:
    """Learn from a bank of past queries how to correct the scores of these items.

    items: (n, d) rows, Vectors with ids, or a Dense matrix of (bank queries, items) similarities. bank: (m, d) past
    queries, in the same modality as the queries; bank_items: (p, d) training items, for the dual methods. weights: one
    number above 0 for each bank query; weight 2 counts as the same query twice. Vectors may have them too. method: a
    name, a spec such as `nnn:k=128,alpha=0.75`, or a list of them, which share one pass and return a list. memory: how
    much a matrix kept in memory may take, for example "2GB". device: where torch multiplies and reduces: "cuda",
    "cuda:1", "mps", "cpu", "auto" for the fastest that is there; None is this library's own kernels, as is "auto" on a
    cluster. precision: how it multiplies there, "fp32" (the default) or "bf16". on: machines to do it, "ray" for the
    Ray cluster at hand, else a local one, or an address such as "ray://host:10001". mergeable: keep what `merge` needs
    besides h. error: do with as few pairs as keep the standard error of h below this; `cost` states them and the error.
    seed: of the random part of the bank that is used then. progress: called with (done, total) during the work; True
    shows a bar on stderr, or says a line a minute where nobody watches.
    """
    progress = called(progress)
    if not isinstance(method, str | Method | Sequence):
        raise ArgumentError("method", f"must be a name or a list of names, got {method!r}")
    _check_spelling(parameters)
    named = [method] if isinstance(method, str | Method) else method
    methods = [_as_method(one, parameters) for one in named]
    if not methods:
        raise ArgumentError("method", "is an empty list", "name at least one method")
    if error is not None:
        check_error(error, methods, mergeable)
        if isinstance(items, Dense):
            problem = "has no use with a matrix of similarities, which needs no pairs"
            raise ArgumentError("error", problem, "leave it out")
    for one in methods:
        one.check_installed()
    check_seed(seed)
    kernel = name_of(device_on(on, device, precision), precision)
    with cluster(on, threads):
        workers = Workers(threads, memory, progress, kernel)
        sets = _Sets(items, bank, bank_items, weights, similarity, methods, workers)
        if error is None:
            corrections = _fit_all(methods, sets, mergeable, workers)
        else:
            corrections = _fit_within(error, methods, sets, seed, workers)
        workers.finish()
    return corrections[0] if isinstance(method, str | Method) else corrections


def check_error(error: float, methods: Sequence[Method], mergeable: bool = False) -> None:
    """Raise an ArgumentError unless these methods can be fitted within this error."""
    number = as_number(error)
    if number is None or not 0 < number < math.inf:
        raise ArgumentError("error", f"must be a finite number above 0, got {error!r}", "leave it out for an exact fit")
    if mergeable:
        raise ArgumentError("error", "cannot be combined with mergeable, which needs every pair", "choose one of them")
    for one in methods:
        if not one.estimable():
            able = ", ".join(name for name, method in METHODS.items() if method.estimable())
            problem = f"cannot be used with {one.name!r}, which needs every pair"
            raise ArgumentError("error", problem, f"leave it out; the methods that take it are {able}")


def _check_spelling(parameters: Iterable[str]) -> None:
    """Raise for a misspelt argument of `fit`, which it would else take for a parameter of the method."""
    arguments = introspection.signature(fit).parameters
    known = {name for method in METHODS.values() for name in (*method.parameters(), *method.aliases)}
    for name in parameters:
        near = None if name in known else nearest_name(name, [*known, *arguments])
        if near in arguments:
            raise ArgumentError(name, "is no argument of fit", f"did you mean {near!r}?")


def _as_method(one: str | Method, parameters: dict[str, Value]) -> Method:
    if isinstance(one, Method):
        if parameters:
            given = ", ".join(parameters)
            raise ArgumentError(
                "method", f"{one.spec!r} has its own parameters and got {given} as well", "give them in one place"
            )
        return one
    return parse(one, parameters)


class _Sets:
    """The checked inputs of a fit: the bank of similarities, the items' ids and hashes, and their source."""

    def __init__(
        self,
        items: VectorsLike | Dense,
        bank: VectorsLike | None,
        bank_items: VectorsLike | Dense | None,
        weights: ArrayLike | None,
        similarity: Kind,
        methods: Sequence[Method],
        workers: Workers,
    ) -> None:
        check_similarity(similarity)
        if isinstance(bank, Dense):
            remedy = "give a matrix of (bank queries, items) as the items, without a bank"
            raise ArgumentError("bank", f"must be vectors, got a matrix of similarities {bank.shape}", remedy)
        needs_targets = [one.name for one in methods if one.dual]
        if needs_targets and bank_items is None:
            raise ArgumentError(
                "bank_items", f"must be given for {needs_targets[0]!r}", "give the training items with the bank"
            )
        self._bank: ReadOnce | None = None
        self._notes: tuple[str, ...] | None = None
        self._target_hashes = np.empty(0, np.uint64)
        self.items: Vectors | None = None
        self.ids: Ids
        self.item_hashes: NDArray[np.uint64]
        if isinstance(items, Dense):
            joins = [one.name for one in methods if one.joint]
            self._take_matrix(items, bank, bank_items, weights, needs_targets, joins)
        else:
            weighed = _weighed(bank, weights)
            self._take_vectors(
                items, weighed, bank_items, similarity, workers, [one for one in methods if one.needs_bank]
            )

    def _take_matrix(
        self,
        scores: Dense,
        bank: VectorsLike | None,
        bank_items: VectorsLike | Dense | None,
        weights: ArrayLike | None,
        needs_targets: list[str],
        joins: list[str],
    ) -> None:
        if bank is not None:
            problem = "must be left out when the items are a matrix of similarities, whose rows are the bank queries"
            raise ArgumentError("bank", problem)
        if bank_items is not None and not isinstance(bank_items, Dense):
            raise ArgumentError("bank_items", "must be a matrix of similarities when the items are one")
        if needs_targets and joins and bank_items is not None:
            problem = f"is a different matrix for {joins[0]!r} than for {needs_targets[0]!r}"
            raise ArgumentError("bank_items", problem, "fit them separately")
        asking = joins or needs_targets
        used = bank_items if asking else None
        counted = None if weights is None else as_weights(weights, scores.shape[0])
        self.bank = matrix_bank(scores, used, asking[0] if asking else "", bool(joins), counted)
        self.ids = scores.item_ids
        self.item_hashes = np.zeros(scores.shape[1], np.uint64)
        self._source = Source("given", None)

    def _take_vectors(
        self,
        items: VectorsLike,
        bank: VectorsLike | None,
        bank_items: VectorsLike | Dense | None,
        similarity: Kind,
        workers: Workers,
        methods: Sequence[Method],
    ) -> None:
        gallery = as_vectors(items, "items")
        if gallery.weights is not None:
            problem = "holds queries of a bank with their weights; items have none"
            raise ArgumentError("items", problem, "items and bank may be swapped")
        if bank is None and methods:
            remedy = "give the embeddings of past queries"
            raise ArgumentError("bank", f"must be given for {methods[0].name!r}", remedy)
        queries = as_vectors(bank, "bank") if bank is not None else gallery
        targets = _as_targets(bank_items)
        sets = {"items": gallery, "bank": queries, "bank_items": gallery if targets is None else targets}
        check_widths(sets, against="items")
        self.items, self.ids = gallery, gallery.ids
        self.item_hashes, unit_length = inspect(gallery, "items", similarity, workers.spread)
        gallery = gallery.seen(unit_length)
        target_print = None
        if targets is not None:
            hashes, unit_length = inspect(targets, "bank_items", similarity, workers.spread)
            targets, target_print = targets.seen(unit_length), Fingerprint.of(hashes)
            self._target_hashes = hashes
        if bank is not None:
            self._bank = ReadOnce(queries, "bank", similarity)
            if workers.runner is not None:  # what is read elsewhere is not noted here
                queries = queries.seen(self._bank.inspected(workers.spread).unit_length)
            else:
                queries = self._bank
                if len(queries) < len(gallery):  # every thread reads all of it, so inspect it once beforehand
                    self._bank.inspected(workers.map)
        self._source = Source(similarity, gallery.dimensions, None, target_print, Witness.of(gallery))
        self.bank = vector_bank(gallery, queries, targets, similarity, workers.reads)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the weights of a given matrix, of which nothing else is kept, on repeats, and on mistakes."""
        if self._notes is None:
            self._notes = tuple(self._noted())
        return self._notes

    def _noted(self) -> list[str]:
        if self._bank is None or self.items is None:
            weighed = self.bank.weights is not None
            return [f"the {self.bank.size:,} bank queries weigh {self.bank.weight:,.6g}"] if weighed else []
        hashes, kind = self._bank.inspected().hashes, cast("Kind", self._source.similarity)
        notes = notes_on_bank(self.items, self._bank, self.item_hashes, hashes, kind)
        repeats = 0 if self.bank.weights is not None else repeats_among(hashes)
        if repeats and repeats >= NOTED_REPEATS * len(self._bank):
            notes.insert(0, f"{repeats:,} of {len(self._bank):,} bank queries {REPEATS}")
        return notes

    def estimated_from(self, workers: Workers) -> Bank:
        """Return the bank with every row read and checked, so that parts of it can be gathered where they are used."""
        pairs = cast("Dot", self.bank.queries)
        if self._bank is None:
            return self.bank
        unit_length = self._bank.inspected(workers.map).unit_length
        known = Vectors(self._bank.ids, self._bank.rows).seen(unit_length)
        queries = dataclasses.replace(pairs, query_vectors=known)
        return dataclasses.replace(self.bank, queries=queries, joint=queries)

    def items_in_bank(self, workers: Workers) -> NDArray[np.int64]:
        """Return the positions of the items that are also rows of the bank, or of the bank items."""
        known = self._target_hashes
        if self._bank is not None:
            known = np.concatenate([known, self._bank.inspected(workers.map).hashes])
        return np.flatnonzero(are_among(self.item_hashes, known))

    def source(self, workers: Workers) -> Source:
        """Return where the similarities come from; read the bank rows that no method has read."""
        if isinstance(self.bank.queries, Dense):
            self.bank.queries.check()
        if self._bank is not None and self._source.bank is None:
            rows = BankRows(self._bank.inspected(workers.map).hashes.copy(), self._bank.weights)
            self._source = dataclasses.replace(self._source, bank=rows.fingerprint, bank_rows=rows)
        return self._source


def _weighed(bank: VectorsLike | None, weights: ArrayLike | None) -> VectorsLike | None:
    """Return a bank with these weights, one for each of its queries; with None, as it is."""
    if weights is None:
        return bank
    if bank is None:
        raise ArgumentError("weights", "has no bank queries to weigh", "give the bank")
    queries = as_vectors(bank, "bank")
    if queries.weights is not None:
        raise ArgumentError("weights", "is given, and the bank has weights of its own", "give them in one place")
    return queries.weighing(weights)


def _as_targets(bank_items: VectorsLike | Dense | None) -> Vectors | None:
    if isinstance(bank_items, Dense):
        raise ArgumentError("bank_items", "must be vectors when the items are")
    return None if bank_items is None else as_vectors(bank_items, "bank_items")


def _fit_all(methods: Sequence[Method], sets: _Sets, mergeable: bool, workers: Workers) -> list[Correction]:
    bank = sets.bank
    resolved = [method.resolve(bank) for method in methods]
    streamed = stream([method for method, _ in resolved if not method.solves], bank, mergeable, workers)
    shared, precise = workers.passes, on_scores(workers.kernel, bank.queries)
    corrections = []
    for method, notes in resolved:
        before = workers.passes
        outcome = method.solve(bank, workers) if method.solves else method.finish(bank, streamed, mergeable)
        passes = (
            workers.passes - before
            if method.solves
            else shared
            if any(not want.empty for want in method.wants(mergeable))
            else 0.0
        )
        notes += on_h(precise, method.gain) if passes and not method.stays_here else ()
        corrections.append(_correction(method, outcome, sets, workers, passes, notes))
    return corrections


def _fit_within(error: float, methods: Sequence[Method], sets: _Sets, seed: int, workers: Workers) -> list[Correction]:
    """Fit methods that share a pass on as few pairs as keep the standard error of h below `error`."""
    from unhub.estimating import Estimate, estimate  # here: most fits do not need it

    bank = sets.estimated_from(workers)
    resolved = [method.resolve(bank) for method in methods]
    copies = sets.items_in_bank(workers)
    found = estimate([method for method, _ in resolved], bank, error, seed, workers, copies)
    if found is None:
        exact = stream([method for method, _ in resolved], bank, False, workers)
        found = Estimate(exact, np.empty(0, np.int64), {}, "all pairs, since an estimate would take as long", ())
    passes = workers.total / (bank.size * bank.items)
    precise = on_scores(workers.kernel, bank.queries) if workers.total else ""
    corrections = []
    for method, notes in resolved:
        outcome, off = found.finish(method, bank)
        multiplied = any(not want.empty for want in method.wants(False))
        notes += found.notes + (on_h(precise, method.gain, estimated=True) if multiplied else ())
        fitted = _correction(method, outcome, sets, workers, passes, notes)
        cost = dataclasses.replace(fitted.cost, pairs=workers.total, error=off, how=found.how)
        corrections.append(dataclasses.replace(fitted, cost=cost))
    return corrections


def _correction(
    method: Method, outcome: Outcome, sets: _Sets, workers: Workers, passes: float, notes: tuple[str, ...]
) -> Correction:
    source = sets.source(workers)
    ran = () if workers.runner is None else (workers.runner.note,)
    cost = Cost(
        passes,
        workers.seconds,
        workers.peak_memory,
        kernel_of(method, workers),
        outcome.kept,
        outcome.iterations,
        outcome.row_error,
        outcome.column_error,
        notes + ran + outcome.notes + sets.notes,
    )
    if outcome.h is not None:
        h, offset = centred(outcome.h)
        arrays = {"bias": h, **outcome.arrays}
        return Bias(method, sets.ids, sets.item_hashes, source, cost, arrays, offset=offset)
    correction = KINDS[method.kind](method, sets.ids, sets.item_hashes, source, cost, outcome.arrays)
    if isinstance(correction, Rescore) and sets.items is not None:
        # Without this call's cached hashes: the array may change while the correction lives on.
        return dataclasses.replace(correction, items=Vectors(sets.items.ids, sets.items.rows))
    return correction


def kernel_of(method: Method, workers: Workers) -> str:
    """Return the name of the kernel that computes a method with these workers."""
    return (choose_here(workers.kernel.NAME) if method.stays_here else workers.kernel).NAME


def centred(h: Float64) -> tuple[Float64, float]:
    """Return h with mean 0 and the offset that was removed; raise where the scores overflowed."""
    if not np.isfinite(h).all():
        bad = int(np.flatnonzero(~np.isfinite(h))[0])
        problem = f"gives item {bad} a bias that is not finite: the similarities are too large for float32"
        raise ArgumentError("items", problem, "scale the vectors")
    offset = float(h.mean())
    return h - offset, offset
