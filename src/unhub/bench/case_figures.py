"""Figures of a case beside its ranking: bias for a group, how sparse a plan is, and the distances of its bank."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

import numpy as np

from unhub.arrays import Float64, Ids
from unhub.banks.earth_movers import pooled_distance, transport
from unhub.bench.problems import BenchBank, BenchProblem
from unhub.correction import Correction, Plan
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors
from unhub.evaluation.confidence import Interval
from unhub.evaluation.group_bias import group_bias
from unhub.evaluation.measures import parse_measure
from unhub.methods import parse
from unhub.multi.scoring import SetRow

BIAS_PLACES = (6, 10)  # of Chowdhury et al. 2024
SOLVER = "ot"  # the library of the earth mover's distances
NO_SOLVER = "Earth mover's distances were left out: they need POT; install unhub[plans]."


def bias_of(problem: BenchProblem, correction: Correction | None, threads: int | None) -> dict[str, object]:
    """Return how much the ranking favours the second group of items, where there are two; it has no interval."""
    if problem.items is None:
        return {}
    there = [np.intersect1d(ids, problem.items.ids) for ids in problem.groups]
    if len(there) != 2 or not all(map(len, there)):
        return {}
    first, second = there
    found = {
        n: group_bias(problem.queries, problem.items, second, first, correction, n, threads=threads)
        for n in BIAS_PLACES
    }
    return {f"bias@{n}": {"value": one.bias, "low": None, "high": None} for n, one in found.items()}


def why_no_bias(problem: BenchProblem, groups: Mapping[str, Ids]) -> list[str]:
    """Return a remark where these groups of items have no bias."""
    names = " and ".join(groups)
    if problem.items is None and groups:
        return [f"There is no bias between {names}: it needs vectors, not a matrix."]
    if groups and len(groups) != 2:
        return [f"There is no bias between {names}: there must be two groups."]
    absent = [name for name, ids in groups.items() if problem.items and not np.isin(ids, problem.items.ids).any()]
    return [f"There is no bias between {names}: no item of {' or '.join(absent)} is there."] if absent else []


def further_items(problem: BenchProblem) -> list[str]:
    """Return a remark where items are searched whose queries are all absent: the other direction has no such items."""
    if problem.items is None or isinstance(problem.queries, Dense):
        return []
    found = problem.relevance.against(problem.queries.ids, problem.items.ids).positions
    answers = np.isin(problem.items.ids, problem.relevance.item_ids)
    answers[found] = False
    count = int(answers.sum())
    of_all = f"{count:,} of {len(problem.items):,} items answer no query that is there"
    return [f"{of_all}, and are searched all the same."] if count else []


def chance_of_first(problem: BenchProblem) -> float:
    """Return how many of a hundred queries find an answer first in a random order of the items."""
    asked, items = problem.shape
    return 100 * len(problem.relevance.item_ids) / (asked * items)


def sparsity_of(problem: BenchProblem, correction: Correction) -> dict[str, object]:
    """Return the share of pairs that a plan gives nothing, of a method whose zeros stay tied; it has no interval."""
    if not isinstance(correction, Plan) or parse(correction.spec).values.get("zeros") != "tied":
        return {}
    planned = correction.apply(_scores(problem))
    return {"sparsity": {"value": float(np.mean(planned == 0)), "low": None, "high": None}}


def distances_of(problem: BenchProblem, bank: BenchBank, seed: int) -> dict[str, object] | None:
    """Return the earth mover's distances of Pan et al. 2025, section 4.4; None without vectors.

    bank_both: from the bank to the items and the bank items together, which a method with two banks balances.
    """
    items, queries, past = problem.items, problem.queries, bank.queries
    if items is None or isinstance(queries, Dense) or isinstance(past, Dense):
        return None
    both = None if bank.items is None else pooled_distance(past, items, bank.items, "cosine", seed=seed)
    return {**asdict(transport(past, items, queries, "cosine", seed=seed)), "bank_both": both}


def why_no_distances(problem: BenchProblem) -> str:
    """Return why the earth mover's distances of a bank cannot be measured; empty if they can."""
    if problem.items is None:
        return "Earth mover's distances were left out: they need vectors, not a matrix."
    return "" if importlib.util.find_spec(SOLVER) is not None else NO_SOLVER


def over_repetitions(row: SetRow, name: str) -> dict[str, float | None]:
    """Return a measure as Wang et al. 2022 give it: the mean over repetitions; what is no mean has then no interval."""
    measure = parse_measure(name)
    if measure.family.summary == "mean" and len(measure.parts) == 1:
        return row.values[name].to_dict()
    return Interval(row.mean_over_repetitions[name], -np.inf, np.inf).to_dict()


def _scores(problem: BenchProblem) -> Float64:
    """Return all similarities; a plan needs them at once."""
    if isinstance(problem.queries, Dense):
        return np.asarray(problem.queries.matrix, np.float64)
    queries, items = (
        one.unit_block(0, len(one), "cosine").astype(np.float64)
        for one in (problem.queries, cast("Vectors", problem.items))
    )
    return np.asarray(queries @ items.T)
