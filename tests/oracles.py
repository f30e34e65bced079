"""Slow float64 references straight from the formulas: rows are queries, columns are items, higher is better."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space  # type: ignore[import-untyped, unused-ignore]
from scipy.optimize import linear_sum_assignment, linprog, nnls  # type: ignore[import-untyped, unused-ignore]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def dot(a: Floats, b: Floats) -> Floats:
    """s(a, b) = a.b for every pair of rows."""
    return np.asarray(a, dtype=np.float64) @ np.asarray(b, dtype=np.float64).T


def cosine(a: Floats, b: Floats) -> Floats:
    """s(a, b) = a.b / (|a| |b|) for every pair of rows."""
    return dot(_unit(a), _unit(b))


def _unit(rows: Floats) -> Floats:
    """x / |x| for every row."""
    rows = np.asarray(rows, dtype=np.float64)
    unit: Floats = rows / np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return unit


def _lse(values: Floats, axis: int) -> Floats:
    """log sum exp(values) along an axis."""
    peak = values.max(axis=axis, keepdims=True)
    return np.asarray(np.log(np.exp(values - peak).sum(axis=axis)) + peak.squeeze(axis))


# A hundred rows at a time: temporaries over a whole bank take longer to allocate than to fill.


def _lse_columns(values: Floats, shift: float | Floats = 0.0) -> Floats:
    """log sum_i exp(values_ij + shift_i) for every column j."""
    rows = np.broadcast_to(np.reshape(shift, (-1, 1)), (len(values), 1))
    starts = range(0, len(values), 100)
    return _lse(np.stack([_lse(values[at : at + 100] + rows[at : at + 100], axis=0) for at in starts]), axis=0)


def _lse_rows(values: Floats, shift: Floats) -> Floats:
    """log sum_j exp(values_ij + shift_j) for every row i."""
    return np.concatenate([_lse(values[at : at + 100] + shift, axis=1) for at in range(0, len(values), 100)])


def _top_mean(bank_scores: Floats, k: int) -> Floats:
    """Mean of the k largest of every column (of all, where the bank holds fewer than k)."""
    descending = np.sort(bank_scores, axis=0)[::-1]
    mean: Floats = descending[:k].mean(axis=0)
    return mean


# One number per item: h, as it comes from the formula (not centred), for the ranking s - h.


def is_(bank_scores: Floats, tau: float) -> Floats:
    """h = tau * log sum_b exp(b.g / tau)."""
    return tau * _lse_columns(bank_scores / tau)


def csls(bank_scores: Floats, k: int) -> Floats:
    """h = 1/2 * mean of the k largest b.g."""
    return 0.5 * _top_mean(bank_scores, k)


def nnn(bank_scores: Floats, k: int, alpha: float) -> Floats:
    """h = alpha * mean of the k largest b.g."""
    return alpha * _top_mean(bank_scores, k)


def dn(bank_scores: Floats, lam: float) -> Floats:
    """h = lambda * mean_b(b.g)."""
    h: Floats = lam * bank_scores.mean(axis=0)
    return h


def cent(bank_scores: Floats) -> Floats:
    """h = mean_b(b.g)."""
    return dn(bank_scores, 1.0)


def dualis(bank_scores: Floats, target_scores: Floats, beta_query: float, beta_target: float) -> Floats:
    """h = (log sum_b exp(beta_query b.g) + log sum_t exp(beta_target t.g)) / (beta_query + beta_target)."""
    query_mass = _lse_columns(beta_query * bank_scores)
    target_mass = _lse_columns(beta_target * target_scores)
    return (query_mass + target_mass) / (beta_query + beta_target)


def sn(bank_scores: Floats, tau: float, iterations: int) -> tuple[Floats, Floats]:
    """h = -tau log beta, and log alpha: alpha = 1 / (m K beta), then beta = 1 / (n K^T alpha), K = exp(S / tau)."""
    m, n = bank_scores.shape
    log_kernel = bank_scores / tau
    log_alpha, log_beta = np.zeros(m), np.zeros(n)
    for _ in range(iterations):
        log_alpha = -np.log(m) - _lse_rows(log_kernel, log_beta)
        log_beta = -np.log(n) - _lse_columns(log_kernel, log_alpha)
    return -tau * log_beta, log_alpha


def marginal_errors(bank_scores: Floats, log_alpha: Floats, h: Floats, tau: float) -> tuple[float, float]:
    """L1 distance of the row sums of P = alpha K beta from 1/m, and of its column sums from 1/n (h not centred)."""
    m, n = bank_scores.shape
    plan = np.exp(bank_scores / tau + log_alpha[:, None] - h[None, :] / tau)
    row_error = np.abs(plan.sum(axis=1) - 1 / m).sum()
    column_error = np.abs(plan.sum(axis=0) - 1 / n).sum()
    return float(row_error), float(column_error)


def dbsn(bank_scores_items: Floats, bank_scores_bank_items: Floats, tau: float, iterations: int) -> Floats:
    """h = the first n of sn on the columns [items, bank items]."""
    n = bank_scores_items.shape[1]
    h, _ = sn(np.hstack([bank_scores_items, bank_scores_bank_items]), tau, iterations)
    return h[:n]


def corrected(scores: Floats, h: Floats, strength: float = 1.0) -> Floats:
    """s - w h, which an index of augmented vectors must reproduce at every strength w."""
    return scores - strength * h[None, :]


# What is not one number per item.


def activation(scores: Floats, k: int) -> Bools:
    """A = items in the top-k of at least one row."""
    active = np.zeros(scores.shape[1], dtype=np.bool_)
    active[ranking(scores)[:, :k].ravel()] = True
    return active


def _gated(query_scores: Floats, active: Bools) -> Bools:
    """Whether each query's raw top-1 is in A."""
    return active[ranking(query_scores)[:, 0]]


def dis_scores(query_scores: Floats, bank_scores: Floats, tau: float, k: int) -> Floats:
    """s - h(is) in the rows whose raw top-1 is in A, s in the others."""
    gated = _gated(query_scores, activation(bank_scores, k))
    return np.where(gated[:, None], corrected(query_scores, is_(bank_scores, tau)), query_scores)


def _factor(query_scores: Floats, other_scores: Floats, beta: float, k: int) -> tuple[Floats, Floats]:
    """Sign and log-magnitude of exp(beta s) / sum_o exp(beta o.g) in gated rows, of s itself in the others."""
    gated = _gated(query_scores, activation(other_scores, k))[:, None]
    log_ratio = beta * query_scores - _lse_columns(beta * other_scores)[None, :]
    with np.errstate(divide="ignore"):
        log_raw = np.log(np.abs(query_scores))
    return np.where(gated, 1.0, np.sign(query_scores)), np.where(gated, log_ratio, log_raw)


def dualdis_keys(
    query_scores: Floats, bank_scores: Floats, target_scores: Floats, beta_query: float, beta_target: float, k: int
) -> tuple[Floats, Floats]:
    """(sign, sign * log-magnitude) of the query factor times the target factor; (0, 0) where the product is 0."""
    query_sign, query_log = _factor(query_scores, bank_scores, beta_query, k)
    target_sign, target_log = _factor(query_scores, target_scores, beta_target, k)
    sign = query_sign * target_sign
    log_magnitude = np.where(sign == 0, 0.0, query_log + target_log)
    return sign, sign * log_magnitude


def dualdis_order(
    query_scores: Floats, bank_scores: Floats, target_scores: Floats, beta_query: float, beta_target: float, k: int
) -> list[list[int]]:
    """Items by sign, then sign * log-magnitude, both descending, then lower index."""
    signs, magnitudes = dualdis_keys(query_scores, bank_scores, target_scores, beta_query, beta_target, k)
    items = range(query_scores.shape[1])
    return [sorted(items, key=lambda j: (-sign[j], -size[j], j)) for sign, size in zip(signs, magnitudes, strict=True)]


def gc_scores(query_scores: Floats, bank_scores: Floats) -> Floats:
    """-(Rank - s), Rank = number of bank queries with b.g > s."""
    ranks = [[int((bank_scores[:, j] > s).sum()) for j, s in enumerate(row)] for row in query_scores]
    return query_scores - np.array(ranks, dtype=np.float64)


# Query-aware plans on the (queries x items) matrix.


def _sums(q: int, n: int) -> tuple[Floats, Floats]:
    """A and b of the sums A P = b of a plan: 1/q over every row, 1/n over every column."""
    sums = np.vstack([np.kron(np.eye(q), np.ones(n)), np.kron(np.ones(q), np.eye(n))])
    return sums, np.repeat([1 / q, 1 / n], [q, n])


def otn_plan(query_scores: Floats) -> Floats:
    """argmin_P <P, 1 - S> with row sums 1/q and column sums 1/n, as a linear programme."""
    sums, wanted = _sums(*query_scores.shape)
    found = linprog((1 - query_scores).ravel(), A_eq=sums, b_eq=wanted, method="highs")
    return np.asarray(found.x, dtype=np.float64).reshape(query_scores.shape)


def l2n_plan(query_scores: Floats, reg: float = 0.05) -> Floats:
    """argmin_P <P, 1 - S> + reg/2 |P|^2 with row sums 1/q and column sums 1/n: of all plans the nearest to S / reg.

    P = 1/(qn) + Z w, the columns of Z an orthonormal basis of the matrices whose sums are all 0. Without P >= 0 the
    nearest has w = Z^T S / reg; the least move from there to P >= 0 is a problem of least distance, which is one of
    non-negative least squares (Lawson and Hanson 1974, 23.4). That leaves a rounding in proportion to S / reg, so the
    zeros it finds are taken from it, and the nearest matrix that has them and the sums is computed anew.
    """
    q, n = query_scores.shape
    basis = np.kron(null_space(np.ones((1, q))), null_space(np.ones((1, n))))
    unbounded = 1 / (q * n) + basis @ (basis.T @ query_scores.ravel()) / reg
    size = np.abs(unbounded).max()
    distance = np.vstack([basis.T, -unbounded / size])
    target = np.append(np.zeros(q * n - q - n + 1), 1.0)
    weights, _ = nnls(distance, target, maxiter=100 * q * n)
    residual = distance @ weights - target
    zero = (weights > 0) | (unbounded - basis @ residual[:-1] / residual[-1] * size < 0)
    sums, wanted = _sums(q, n)
    held = np.vstack([sums, np.eye(q * n)[zero]])
    off = np.append(wanted, np.zeros(zero.sum())) - held @ unbounded
    plan: Floats = unbounded + np.linalg.lstsq(held, off, rcond=None)[0]
    return plan.reshape(q, n)


def hn_plan(query_scores: Floats) -> Floats:
    """1 at the pairs of the assignment that minimises the sum of 1 - s, 0 elsewhere."""
    plan = np.zeros(query_scores.shape)
    plan[linear_sum_assignment(1 - query_scores)] = 1.0
    return plan


# Measures.


def ranking(scores: Floats) -> Ints:
    """Items of each row by descending score, ties to the lower index."""
    return np.argsort(-scores, axis=1, kind="stable").astype(np.int64)


def recall_at(scores: Floats, true_items: list[set[int]], k: int) -> float:
    """Mean of 100 clip((k - b) / e, 0, 1): b items better than the best true one, e equal to it (itself included)."""
    shares = []
    for row, truth in zip(scores, true_items, strict=True):
        best = max(row[j] for j in truth)
        better, equal = int((row > best).sum()), int((row == best).sum())
        shares.append(min(max((k - better) / equal, 0.0), 1.0))
    return 100 * sum(shares) / len(shares)


def k_occurrence(scores: Floats, k: int) -> Ints:
    """N_k(g) = number of rows that have g in their top-k."""
    counts = np.zeros(scores.shape[1], dtype=np.int64)
    for top in ranking(scores)[:, :k]:
        counts[top] += 1
    return counts


def skewness(counts: Ints) -> float:
    """E(N - mu)^3 / sigma^3 over all items, 0 where all are equal."""
    if len(set(counts.tolist())) == 1:
        return 0.0
    deviations = counts - counts.mean()
    return float((deviations**3).mean() / (deviations**2).mean() ** 1.5)
