"""At every temperature h has float32's precision beside what sets items apart, and ends in the mean similarity."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import ArrayLike

import unhub
from tests import oracles
from tests.oracles import Floats
from unhub.arrays import Float32, Kind
from unhub.compute.sinkhorn import Schedule, balance
from unhub.compute.workers import Workers
from unhub.correction import Bias, Correction
from unhub.data.similarity import Dense
from unhub.kernels import plain

TAUS = [1e-3, 0.05, 0.3, 0.5, 1.0, 3.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]
KINDS = ["cosine", "dot", "given"]
CLOSE = 1e-5  # of the deviation of h over the items


@cache
def rows(seed: int, count: int) -> Float32:
    """Return vectors with a common part, of unlike lengths near to 3."""
    drawn = np.random.default_rng(seed).standard_normal((count, 16)) + 0.3
    return np.asarray(3 * drawn / np.linalg.norm(drawn, axis=1).mean(), np.float32)


ITEMS, BANK, BANK_ITEMS = rows(0, 150), rows(1, 1500), rows(2, 90)


def scores(kind: str, queries: ArrayLike, items: ArrayLike) -> Floats:
    """Return the similarities in float64; a given matrix is that of the products in float32."""
    q, g = np.asarray(queries, np.float64), np.asarray(items, np.float64)
    product = oracles.cosine(q, g) if kind == "cosine" else oracles.dot(q, g)
    return product.astype(np.float32).astype(np.float64) if kind == "given" else product


def fit(kind: str, spec: str, threads: int = 1) -> Correction:
    if kind == "given":
        joint = spec.startswith("dbsn")
        beside = scores(kind, BANK, BANK_ITEMS) if joint else scores(kind, BANK_ITEMS, ITEMS)
        return unhub.fit(
            Dense(scores(kind, BANK, ITEMS).astype(np.float32)),
            method=spec,
            threads=threads,
            bank_items=Dense(beside.astype(np.float32)),
        )
    similarity: Kind = "cosine" if kind == "cosine" else "dot"
    return unhub.fit(ITEMS, BANK, method=spec, bank_items=BANK_ITEMS, similarity=similarity, threads=threads)


def assert_close(found: Floats, expected: Floats) -> None:
    """Assert that two h are the same, up to one constant, beside the deviation of the second."""
    apart = (found - found.mean()) - (expected - expected.mean())
    assert np.abs(apart).max() <= CLOSE * expected.std()


def h_of(correction: Correction) -> Floats:
    assert isinstance(correction, Bias)
    return correction.bias


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("name", ["is", "dis"])
def test_the_inverted_softmax_is_the_oracles(name: str, tau: float, kind: str) -> None:
    assert_close(h_of(fit(kind, f"{name}:tau={tau}", threads=2)), oracles.is_(scores(kind, BANK, ITEMS), tau))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("betas", [(20.0, 10.0), (1.0, 0.01), (1e-3, 1e-3), (1e-6, 1e-6), (1e-6, 0.0)])
def test_the_dual_softmaxes_are_the_oracles(betas: tuple[float, float], kind: str) -> None:
    of_bank, of_targets = scores(kind, BANK, ITEMS), scores(kind, BANK_ITEMS, ITEMS)
    setting = f"beta_query={betas[0]},beta_target={betas[1]}"
    assert_close(h_of(fit(kind, f"dualis:{setting}")), oracles.dualis(of_bank, of_targets, *betas))
    arrays = fit(kind, f"dualdis:{setting}").arrays
    for name, matrix, beta in (("query", of_bank, betas[0]), ("target", of_targets, betas[1])):
        if beta:
            found = np.asarray(arrays[f"{name}_log_sums"], np.float64) / beta
            assert_close(found, oracles.is_(matrix, 1 / beta))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tau", TAUS)
def test_sinkhorn_is_the_oracles(tau: float, kind: str) -> None:
    of_items = scores(kind, BANK, ITEMS)
    assert_close(h_of(fit(kind, f"sn:tau={tau}", threads=2)), oracles.sn(of_items, tau, 10)[0])
    assert_close(h_of(fit(kind, f"dbsn:tau={tau}")), oracles.dbsn(of_items, scores(kind, BANK, BANK_ITEMS), tau, 10))


@pytest.mark.parametrize("keep", ["fp32", "none"])
@pytest.mark.parametrize("tau", [10.0, 1e4])
def test_sinkhorn_goes_on_from_any_level_however_k_is_kept(tau: float, keep: str) -> None:
    matrix = scores("given", BANK, ITEMS)
    start = tau * np.log(3) + np.random.default_rng(3).standard_normal(len(ITEMS))
    found = balance(Dense(matrix.astype(np.float32)), Schedule(tau, 3, keep=keep), Workers(1), start=start)
    log_alpha, log_beta = np.zeros(len(BANK)), -start / tau
    for _ in range(3):
        log_alpha = -np.log(len(BANK)) - oracles._lse_rows(matrix / tau, log_beta)
        log_beta = -np.log(len(ITEMS)) - oracles._lse_columns(matrix / tau, log_alpha)
    assert_close(found.h, -tau * log_beta)
    assert_close(tau * found.log_alpha, tau * log_alpha)
    assert found.h.mean() == pytest.approx(-tau * log_beta.mean(), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spec", ["is:tau=1e6", "dis:tau=1e6", "dualis:beta_query=1e-6,beta_target=0", "sn:tau=1e6"])
def test_h_ends_in_the_mean_similarity(spec: str, kind: str) -> None:
    assert_close(h_of(fit(kind, spec)), scores(kind, BANK, ITEMS).mean(axis=0))
    assert_close(h_of(fit(kind, spec)), h_of(fit(kind, "cent")))


@pytest.mark.parametrize("spec", ["is:tau=1e4", "dis:tau=1e4", "dualis:beta_query=1e-4,beta_target=1e-3"])
def test_upkeep_at_a_high_temperature_is_a_refit(spec: str) -> None:
    def fitted(items: Float32, bank: Float32) -> Correction:
        return unhub.fit(items, bank, method=spec, bank_items=BANK_ITEMS, similarity="dot", mergeable=True, threads=1)

    whole = h_of(fitted(ITEMS, BANK))
    merged = unhub.merge(fitted(ITEMS, BANK[:1000]), ITEMS, BANK[1000:], bank_items=BANK_ITEMS)
    assert_close(h_of(merged), whole)
    grown = unhub.extend(fitted(ITEMS[:100], BANK), ITEMS[100:], BANK, bank_items=BANK_ITEMS)
    assert_close(h_of(grown), whole)


@pytest.mark.parametrize("tau", [1.0, 1e4])
def test_new_items_of_sinkhorn_are_those_of_the_formula(tau: float) -> None:
    fitted = unhub.fit(ITEMS[:100], BANK, method=f"sn:tau={tau}", similarity="dot", threads=1)
    grown = unhub.extend(fitted, ITEMS[100:], BANK)
    matrix = scores("dot", BANK, ITEMS)
    log_alpha = oracles.sn(matrix[:, :100], tau, 10)[1]
    assert_close(h_of(grown), tau * oracles._lse_columns(matrix / tau, log_alpha))


def test_deviations_are_shares_by_another_name() -> None:
    matrix = np.random.default_rng(0).standard_normal((50, 30)).astype(np.float32)
    h, scale = np.linspace(-1, 1, 30).astype(np.float32), np.exp(np.linspace(-1, 0, 30))
    shares = np.exp(0.3 * (matrix - h).astype(np.float64))
    logs = np.log(shares.sum(axis=1))
    shares /= shares.sum(axis=1, keepdims=True)
    kept, totals, found = np.empty_like(matrix), np.zeros(30), np.empty(50)
    plain.deviate_rows(matrix, h, 0.3, kept, totals, found)
    assert_allclose(kept, 30 * shares - 1, atol=1e-6)
    assert_allclose(totals, shares.sum(axis=0), rtol=1e-7)
    assert_allclose(found, logs, rtol=1e-7)
    totals[:] = 0
    plain.balance_deviations(kept, scale, totals, found)
    assert_allclose(found, shares @ scale, rtol=1e-7)
    assert_allclose(totals, (shares / (shares @ scale)[:, None]).sum(axis=0), rtol=1e-7)
