"""Foreseeing: what a fit will take, in time and memory, and what would make it cheaper, before it starts."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

from unhub.arrays import Kind
from unhub.compute.passes import STATE_BYTES, TILE_ENTRIES, Want, reduce
from unhub.compute.reservoir import Reservoir
from unhub.compute.sinkhorn import rows_per_tile
from unhub.compute.workers import Resources, Workers, thread_count, written_bytes
from unhub.data.bank import Bank, vector_bank
from unhub.data.fingerprint import inspect
from unhub.data.similarity import Dot, check_similarity
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.estimating import MOST_PASSES
from unhub.fitting import check_error
from unhub.matching import check_widths
from unhub.methods import Method, parse
from unhub.methods.method import Foreseen

TIMED_ITEMS, TIMED_QUERIES = 2560, 2560  # of a pass that is timed: one full tile, a fraction of a second
SWEEP_COST = 0.02  # of a multiply, for one sweep over a kept K: ten take 0.2 (docs/compute/speed.md)
ITEM_BYTES = 32  # of each item: its id, its hash, and h while it is computed and centred
USUAL_ERROR = 0.002


@dataclass(frozen=True)
class Forecast:
    """What a fit will take.

    passes: multiplies of the whole matrix. kept: how K is kept, for Sinkhorn. most: it may take less, since `error`
    lets it use fewer pairs. cheaper: what would make it cheaper, in words.
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
    similarity: Kind = "cosine",
    error: float | None = None,
    resources: Resources | None = None,
) -> Forecast:
    """Return what `fit` will take with the same arguments; a small pass is timed and its rows checked."""
    check_similarity(similarity)
    workers = (resources or Resources()).workers()
    named = parse(method)
    if error is not None:
        check_error(error, [named])
    gallery = as_vectors(items, "items")
    if bank is None and named.needs_bank:
        raise ArgumentError("bank", f"must be given for {named.name!r}", "give the embeddings of past queries")
    if named.dual and bank_items is None:
        raise ArgumentError("bank_items", f"must be given for {named.name!r}", "give the training items with the bank")
    queries = gallery if bank is None else as_vectors(bank, "bank")
    targets = None if bank_items is None else as_vectors(bank_items, "bank_items")
    check_widths({"items": gallery, "bank": queries, "bank_items": targets or gallery}, against="items")
    pairs = vector_bank(gallery, queries, targets, similarity)
    resolved, _ = named.resolve(pairs)
    will = resolved.foresee(pairs, workers.memory)
    if error is not None:
        will = dataclasses.replace(will, passes=MOST_PASSES * will.passes)
    seconds = 0.0 if will.passes == 0 else _pass_seconds(pairs, workers) * (will.passes + SWEEP_COST * will.sweeps)
    workers.finish()
    return Forecast(
        resolved.spec,
        pairs.items,
        pairs.size,
        round(will.passes * pairs.items * pairs.size),
        will.passes,
        seconds,
        _memory(pairs, resolved, will, workers.threads),
        will.kept,
        workers.kernel.NAME,
        workers.threads,
        error is not None and will.passes > 0,
        _cheaper(resolved, pairs, will, error, workers),
    )


def _pass_seconds(bank: Bank, workers: Workers) -> float:
    """Return the seconds of one pass over all pairs, from one over a few; the first run compiles and is not timed."""
    pairs = bank.queries
    if not isinstance(pairs, Dot):
        return 0.0
    queries, items = _first(pairs.query_vectors, TIMED_QUERIES), _first(pairs.item_vectors, TIMED_ITEMS * 2)
    for name, vectors in {"bank": queries, "items": items}.items():
        inspect(vectors, name, pairs.kind)
    some = Dot(queries, items, pairs.kind)
    took = 0.0
    for _ in range(2):
        began = time.perf_counter()
        reduce(some, Want(betas=(20.0,)), workers)
        took = time.perf_counter() - began
    return took * bank.items * bank.size / (some.shape[0] * some.shape[1])


def _first(vectors: Vectors, count: int) -> Vectors:
    rows = min(count, len(vectors))
    return Vectors(vectors.ids[:rows], vectors.block(0, rows))


def _memory(bank: Bank, method: Method, will: Foreseen, threads: int) -> int:
    """Return the bytes of the tiles, of the items that are prepared with their largest scores, and of what is kept."""
    if will.kept != "nothing":  # Sinkhorn prepares all columns at once, and its tiles are whole rows
        columns = bank.joint.shape[1] if method.joint else bank.items
        tiles = threads * 4 * columns * min(bank.size, rows_per_tile(columns))
        return tiles + columns * (4 * bank.queries.width + ITEM_BYTES) + will.kept_bytes
    tiles = threads * 4 * min(TILE_ENTRIES, bank.items * bank.size)
    top = max(want.top for want in method.wants(False))
    largest = threads * 8 * Reservoir.room(top, bank.size) if top else 0
    prepared = min(STATE_BYTES, bank.items * (4 * bank.queries.width + largest))
    return tiles + prepared + will.kept_bytes + ITEM_BYTES * bank.items


def _cheaper(method: Method, bank: Bank, will: Foreseen, error: float | None, workers: Workers) -> tuple[str, ...]:
    """Return what would make the fit cheaper, the most effective first."""
    found = []
    if will.kept in ("recomputed", "sparse"):
        for needed, passes in will.cheaper:
            count = f"{passes:.3g} {'multiply' if passes == 1 else 'multiplies'}"
            found.append(f"memory={written_bytes(needed)!r} for K: {count} instead of {will.passes:.3g}")
        if 0 < will.bank_that_fits < bank.size:
            fits = f"whose K fits into {written_bytes(workers.memory)}"
            found.append(f"a bank of at most {will.bank_that_fits:,} queries, {fits}")
    elif error is None and will.passes > 0 and method.estimable():
        found.append(f"an error, for example {USUAL_ERROR}: as few pairs as keep h within it")
    if workers.threads < thread_count(None):
        found.append(f"all {thread_count(None)} threads")
    if workers.kernel.NAME == "numpy":
        found.append("the extra 'fast', whose kernels are compiled")
    return tuple(found)
