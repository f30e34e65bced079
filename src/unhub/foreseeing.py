"""Foreseeing: what a fit will take, in time and memory, and what would make it cheaper, before it starts."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from unhub.arrays import Float64, Kind, Span
from unhub.compute.passes import MERGEABLE_NEEDS, STATE_BYTES, TILE_ENTRIES, Want, reduce
from unhub.compute.reservoir import Reservoir
from unhub.compute.sinkhorn import rows_per_tile
from unhub.compute.weights import Weights
from unhub.compute.workers import Resources, Workers, thread_count, written_bytes
from unhub.data.bank import Bank, vector_bank
from unhub.data.fingerprint import inspect
from unhub.data.similarity import Dot, check_similarity
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.estimating import MOST_PASSES
from unhub.fitting import check_error, kernel_of
from unhub.matching import check_widths
from unhub.methods import Method, parse
from unhub.methods.method import Foreseen

# What is timed: the method itself on so many items and bank queries, a fraction of a second.
TIMED_ROWS, TIMED_RUNS = 2560, 3
TIMED_BANK = 10240  # bank queries where K is kept: no cache holds it then, as it will be
ITEM_BYTES = 32  # of each item: its id, its hash, and h while it is computed and centred
WEIGHED_BYTES = 64  # of each largest score, as measured: where the bank has weights, they are sorted and summed too
BEST_BYTES = 24  # of each best item of a bank query: found, joined to those before, and while it is joined
USUAL_ERROR = 0.002


@dataclass(frozen=True)
class Terms:
    """What a fit is to keep to, as its arguments of the same names say."""

    similarity: Kind = "cosine"
    mergeable: bool = False
    error: float | None = None


USUAL = Terms()


@dataclass(frozen=True)
class Forecast:
    """What a fit will take.

    passes: multiplies of the whole matrix. kept: how K is kept, for Sinkhorn. most: it may take less, since `error`
    lets it use fewer pairs, or a tolerance fewer iterations; with `error`, this is about the most. cheaper: what would
    make it cheaper, in words that begin with the option of `unhub fit` if there is one.
    """

    method: str
    items: int
    bank: int
    pairs: int
    passes: float
    seconds: float
    memory: int
    kept: str
    kernel: str
    threads: int
    most: bool
    cheaper: tuple[str, ...]


def foresee(
    items: VectorsLike,
    bank: VectorsLike | None,
    method: str,
    *,
    bank_items: VectorsLike | None = None,
    terms: Terms = USUAL,
    resources: Resources | None = None,
) -> Forecast:
    """Return what `fit` will take with the same arguments; a small pass is timed and its rows checked."""
    check_similarity(terms.similarity)
    error, mergeable = terms.error, terms.mergeable
    workers = (resources or Resources()).workers()
    named = parse(method)
    if error is not None:
        check_error(error, [named], mergeable)
    gallery = as_vectors(items, "items")
    if bank is None and named.needs_bank:
        raise ArgumentError("bank", f"must be given for {named.name!r}", "give the embeddings of past queries")
    if named.dual and bank_items is None:
        raise ArgumentError("bank_items", f"must be given for {named.name!r}", "give the training items with the bank")
    queries = gallery if bank is None else as_vectors(bank, "bank")
    targets = None if bank_items is None else as_vectors(bank_items, "bank_items")
    check_widths({"items": gallery, "bank": queries, "bank_items": targets or gallery}, against="items")
    pairs = vector_bank(gallery, queries, targets, terms.similarity)
    resolved, _ = named.resolve(pairs)
    will, wants = resolved.foresee(pairs, workers.memory), resolved.wants(mergeable)
    if pairs.weights is not None and any(want.top_values for want in wants):
        Weights(pairs.weights).check_whole(*MERGEABLE_NEEDS)
    seconds = _seconds(resolved, pairs, will, wants, workers)
    if error is not None:
        will, seconds = dataclasses.replace(will, passes=MOST_PASSES * will.passes), MOST_PASSES * seconds
    workers.finish()
    return Forecast(
        resolved.spec,
        pairs.items,
        pairs.size,
        round(will.passes * pairs.items * pairs.size),
        will.passes,
        seconds,
        _memory(pairs, resolved, will, wants, workers),
        will.kept,
        kernel_of(resolved, workers),
        workers.threads,
        will.passes > 0 and (error is not None or resolved.values.get("tolerance") is not None),
        _cheaper(resolved, pairs, will, error is not None or mergeable, workers),
    )


def _seconds(method: Method, bank: Bank, will: Foreseen, wants: tuple[Want, Want], workers: Workers) -> float:
    """Return the seconds of a fit, from the same one on a few rows of each kind, which are checked."""
    if not isinstance(bank.queries, Dot):
        return 0.0
    kind, items, queries = bank.queries.kind, bank.queries.item_vectors, bank.queries.query_vectors
    targets = bank.targets.query_vectors if isinstance(bank.targets, Dot) else None
    keeps_k = will.kept != "nothing" and will.kept_bytes > 0
    few_items, few_queries = _first(items), _first(queries, TIMED_BANK if keeps_k else TIMED_ROWS)
    some = vector_bank(few_items, few_queries, None if targets is None else _first(targets), kind)
    some = dataclasses.replace(some, weights=None if bank.weights is None else bank.weights[: len(few_queries)])

    def read() -> None:
        inspect(few_queries, "bank", kind)
        inspect(few_items, "items", kind)

    seconds = _quickest(read) * (len(items) + len(queries)) / (len(few_items) + len(few_queries))
    for trial, count in will.trials:
        took = _quickest(functools.partial(trial.solve, some, workers))
        seconds += count * took * _pairs(bank, method) / _pairs(some, method)
    sides = (bank.queries, some.queries, some.weights), (bank.targets, some.targets, None)
    for want, (whole, part, weights) in zip(wants, sides, strict=True):
        if whole is not None and part is not None and not want.empty:
            less = _of_part(want, whole.shape, part.shape)
            took = _quickest(functools.partial(reduce, part, less, workers, weights=weights))
            seconds += took * math.prod(whole.shape) / math.prod(part.shape)
    return max(seconds, 0.0)


def _of_part(want: Want, whole: Span, part: Span) -> Want:
    """Return what a pass over a part of the queries and items is to find of what is wanted of all.

    With as many of fewer, the largest scores would take more of the time.
    """
    queries, items = part[0] / whole[0], part[1] / whole[1]
    return dataclasses.replace(
        want,
        top_means=tuple(sorted({math.ceil(k * queries) for k in want.top_means})),
        top_values=min(part[0], math.ceil(want.top_values * queries)),
        best_items=math.ceil(want.best_items * items),
    )


def _pairs(bank: Bank, method: Method) -> int:
    return math.prod((bank.joint if method.joint else bank.queries).shape)


def _quickest(work: Callable[[], object]) -> float:
    """Return the seconds of the quickest run: the first one compiles, and whatever else runs makes others slower."""
    work()
    took = []
    for _ in range(TIMED_RUNS):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def _first(vectors: Vectors, count: int = TIMED_ROWS) -> Vectors:
    rows = min(count, len(vectors))
    return Vectors(vectors.ids[:rows], vectors.block(0, rows))


def _memory(bank: Bank, method: Method, will: Foreseen, wants: tuple[Want, Want], workers: Workers) -> int:
    """Return the bytes of the tiles, of the items that are prepared with their largest scores, and of what is kept."""
    limits = workers.kernel.LIMITS
    if will.kept != "nothing":  # Sinkhorn prepares all columns at once, and its tiles are whole rows
        columns = bank.joint.shape[1] if method.joint else bank.items
        rows = rows_per_tile(columns) if limits is None else max(1, limits.tile_entries // columns)
        tiles = workers.lanes * 4 * columns * min(bank.size, rows)
        return tiles + columns * (4 * bank.queries.width + ITEM_BYTES) + will.kept_bytes
    entries, state = (TILE_ENTRIES, STATE_BYTES) if limits is None else (limits.tile_entries, limits.state_bytes)
    tiles = workers.lanes * 4 * min(entries, bank.items * bank.size)
    top = max(want.top for want in wants)
    weighed = bool(top) and bank.weights is not None
    if weighed:
        top = Weights(cast("Float64", bank.weights)).enough(top)
    largest = workers.lanes * 8 * Reservoir.room(top, bank.size) if top else 0
    each = 4 * bank.queries.width + largest
    prepared = min(state, bank.items * each)
    if weighed:
        prepared += prepared // each * top * WEIGHED_BYTES
    found = sum(4 * bank.items * want.top_values + BEST_BYTES * bank.size * want.best_items for want in wants)
    return tiles + prepared + found + will.kept_bytes + ITEM_BYTES * bank.items


def _cheaper(method: Method, bank: Bank, will: Foreseen, decided: bool, workers: Workers) -> tuple[str, ...]:
    """Return what would make the fit cheaper, the most effective first; `decided`: an error is given, or impossible."""
    found = []
    if will.kept in ("recomputed", "sparse"):
        for needed, passes in will.cheaper:
            count = f"{passes:.3g} {'multiply' if passes == 1 else 'multiplies'}"
            found.append(f"{_memory_option(needed)} for K: {count} instead of {will.passes:.3g}")
        if 0 < will.bank_that_fits < bank.size:
            fits = f"whose K fits into {written_bytes(workers.memory)}"
            found.append(f"a bank of at most {will.bank_that_fits:,} queries, {fits}")
    elif not decided and will.passes > 0 and method.estimable():
        found.append(f"--error {USUAL_ERROR}, for example: as few pairs as keep the error of h below it")
    if workers.threads < thread_count(None):
        found.append(f"--threads {thread_count(None)}, as many as there are")
    if workers.kernel.NAME == "numpy":
        found.append("the extra 'fast', whose kernels are compiled")
    return tuple(found)


def _memory_option(needed: int) -> str:
    return f"--memory {written_bytes(needed).replace(' ', '')}"
