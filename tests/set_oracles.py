"""Slow float64 references of multi-query retrieval, from the formulas: one set of queries at a time."""

import math

import numpy as np

from tests.oracles import Floats


def alphas(name: str, queries: Floats) -> list[float]:
    """1 / k, or for ts-wf the softmax of -(mean cosine with the others) / 0.5."""
    k = len(queries)
    if name != "ts-wf" or k == 1:
        return [1 / k] * k
    lengths = [math.sqrt(float(q @ q)) for q in queries]
    others = [
        sum(float(queries[i] @ queries[j]) / (lengths[i] * lengths[j]) for j in range(k) if j != i) / (k - 1)
        for i in range(k)
    ]
    powers = [math.exp(-one / 0.5) for one in others]
    return [one / sum(powers) for one in powers]


def combined(name: str, queries: Floats, weights: list[float] | None = None) -> Floats:
    """sum_i alpha_i q_i, for all but sa brought to the (weighted) mean length of the queries, which is 1 for units."""
    alpha = alphas(name, queries) if weights is None else weights
    total = np.zeros(queries.shape[1])
    for share, query in zip(alpha, queries, strict=True):
        total += share * query
    if name == "sa" or len(queries) == 1:
        return total
    length = sum(share * math.sqrt(float(query @ query)) for share, query in zip(alpha, queries, strict=True))
    return np.asarray(total / math.sqrt(float(total @ total)) * length)


def mean_ranks(rows: Floats) -> list[float]:
    """The mean over the rows of each column's rank, equal ones sharing the mean of their ranks."""
    better = [(row[None, :] > row[:, None]).sum(axis=1) for row in rows]
    equal = [(row[None, :] == row[:, None]).sum(axis=1) for row in rows]
    ranks = [b + (e + 1) / 2 for b, e in zip(better, equal, strict=True)]
    return [float(sum(of_column)) / len(rows) for of_column in zip(*ranks, strict=True)]


def by_mean_rank(rows: Floats) -> list[int]:
    """Columns by mean rank, equal ones by the mean of the scores, then by place."""
    means, scores = mean_ranks(rows), rows.mean(axis=0)
    return sorted(range(rows.shape[1]), key=lambda column: (means[column], -scores[column], column))
