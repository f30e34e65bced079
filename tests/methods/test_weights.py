"""A bank query of weight 2 is the same query twice: for every method, and both kernels."""

import dataclasses
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests import oracles
from tests.bank_cases import BIASES, GATED, RESCORES, Floats, Sets, drawn
from unhub.arrays import Kind
from unhub.compute.passes import Want, reduce
from unhub.compute.sinkhorn import Schedule, balance
from unhub.compute.weights import Weights, top_means
from unhub.compute.workers import Workers
from unhub.data.bank import Bank, matrix_bank, vector_bank
from unhub.data.similarity import Dense
from unhub.data.vectors import as_vectors
from unhub.errors import ArgumentError
from unhub.methods import parse
from unhub.methods.method import Method, Outcome, stream

pytestmark = pytest.mark.once  # both kernels, in one run

DEVICES = ["numpy", "torch:cpu"] if os.environ.get("UNHUB_NO_NUMBA") else ["numpy", "numba", "torch:cpu"]
WEIGHED = tuple(spec for spec in BIASES + GATED + RESCORES if spec != "gc")
FLAT = ("is:tau=5", "is:tau=0.001", "sn:tau=3", "sn:tau=0.02,tolerance=0.001", "nnn:k=300", "nnn:k=1")


def bank_of(sets: Sets, weights: Floats | None = None) -> Bank:
    items, queries = as_vectors(sets.items, "items"), as_vectors(sets.bank, "bank")
    bank = vector_bank(items, queries, as_vectors(sets.bank_items, "bank_items"), sets.kind)
    return dataclasses.replace(bank, weights=weights)


def repeated(sets: Sets, weights: Floats) -> Sets:
    return dataclasses.replace(sets, bank=np.repeat(sets.bank, weights.astype(int), axis=0))


def outcome_of(spec: str, bank: Bank, workers: Workers, mergeable: bool = False) -> tuple[Method, Outcome]:
    method, _ = parse(spec).resolve(bank)
    if method.solves:
        return method, method.solve(bank, workers)
    return method, method.finish(bank, stream([method], bank, mergeable, workers), mergeable)


def whole_weights(count: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).integers(1, 5, count).astype(np.float64)


def assert_same(one: Outcome, other: Outcome, weights: Floats) -> None:
    """Compare with the outcome of the repeated bank; what is kept for each bank query is repeated there."""
    assert one.arrays.keys() == other.arrays.keys()
    if one.h is not None and other.h is not None:
        # Other tiles round the scores otherwise, by more where they are larger.
        assert_allclose(one.h, other.h, rtol=2e-6, atol=2e-6 * max(1.0, float(np.ptp(other.h)) / 4))
    for name in one.arrays:
        array, expected = (np.asarray(arrays[name], np.float64) for arrays in (one.arrays, other.arrays))
        if name == "log_alpha":  # a row's alpha is that of all its copies together
            array = array - np.log(weights)
        if name in ("log_alpha", "best_items", "best_scores"):
            array = np.repeat(array, weights.astype(int), axis=0)
        assert_allclose(array, expected, rtol=1e-5, atol=2e-6 if name != "log_alpha" else 2e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("spec", WEIGHED + FLAT)
def test_whole_weights_are_repeats(spec: str, kind: Kind, device: str) -> None:
    sets = drawn(bank=601).under(kind)
    weights = whole_weights(601)
    for threads in (1, 2):
        workers = Workers(threads, device=device)
        method, found = outcome_of(spec, bank_of(sets, weights), workers)
        repeats, expected = outcome_of(spec, bank_of(repeated(sets, weights)), workers)
        assert method == repeats
        assert_same(found, expected, weights)
        if found.row_error is not None and found.column_error is not None:
            assert found.row_error == pytest.approx(expected.row_error, rel=0.01, abs=1e-6)
            assert found.column_error == pytest.approx(expected.column_error, rel=0.01, abs=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spec", ["is", "nnn:k=9", "dn", "cent", "sn", "dis", "dbsn"])
def test_whole_weights_are_repeats_of_rows_of_a_given_matrix(spec: str, device: str) -> None:
    sets, weights, workers = drawn(), whole_weights(301), Workers(1, device=device)
    targets = Dense(sets.joint_scores) if spec == "dbsn" else None
    bank = dataclasses.replace(matrix_bank(Dense(sets.bank_scores), targets, spec, joint=True), weights=weights)
    more = repeated(sets, weights)
    targets = Dense(more.joint_scores) if spec == "dbsn" else None
    expected = outcome_of(spec, matrix_bank(Dense(more.bank_scores), targets, spec, joint=True), workers)[1]
    assert_same(outcome_of(spec, bank, workers)[1], expected, weights)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep", ["fp32", "16-bit", "none"])
@pytest.mark.parametrize("tau", [0.01, 0.0005, 3.0])
def test_sinkhorn_weighs_its_rows_however_it_keeps_them(tau: float, keep: str, device: str) -> None:
    sets, weights, workers = drawn(), whole_weights(301), Workers(2, device=device)
    schedule = Schedule(tau, 5, keep=keep)
    found = balance(Dense(sets.bank_scores), schedule, workers, weights=weights)
    expected = balance(Dense(repeated(sets, weights).bank_scores), schedule, workers)
    assert_allclose(found.h, expected.h, atol=2e-5 if keep == "16-bit" else 3e-6 * max(1, tau))
    assert_allclose(np.exp(found.log_alpha).sum(), np.exp(expected.log_alpha).sum(), rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spec", ["nnn:k=9", "csls", "dualis", "is", "dis", "dn", "cent", "sn"])
def test_merging_weighted_queries_is_merging_their_repeats(spec: str, device: str) -> None:
    sets, new, weights = drawn(), drawn(seed=3, bank=40), whole_weights(40)
    new = dataclasses.replace(new, items=sets.items, bank_items=sets.bank_items)
    workers = Workers(1, device=device)
    method, old = outcome_of(spec, bank_of(sets), workers, mergeable=True)
    assert old.h is not None
    found = method.merged(old.h, old.arrays, 301, bank_of(new, weights), workers)
    expected = method.merged(old.h, old.arrays, 301, bank_of(repeated(new, weights)), workers)
    assert found.h is not None and expected.h is not None
    assert_allclose(found.h, expected.h, rtol=2e-6, atol=2e-6)
    if "top_values" in found.arrays:
        # Only rounding of float32: other tiles multiply in another order.
        values, wanted = (one.arrays["top_values"].astype(np.float64) for one in (found, expected))
        assert_allclose(values, wanted, rtol=0, atol=2e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spec", WEIGHED)
def test_weights_of_one_are_no_weights(spec: str, device: str) -> None:
    sets = drawn(bank=601)
    plain, ones = (outcome_of(spec, bank_of(sets, one), Workers(2, device=device))[1] for one in (None, np.ones(601)))
    assert_same(ones, plain, np.ones(601))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 99),
    device=st.sampled_from(DEVICES),
    k=st.integers(1, 40),
    threads=st.integers(1, 3),
    scale=st.sampled_from([1e-3, 0.4, 1.0, 7.0, 1e6]),
)
def test_broken_weights_against_the_formulas(seed: int, device: str, k: int, threads: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    scores, weights = rng.uniform(-1, 1, (900, 5)), scale * rng.uniform(0.1, 3, 900)
    betas = (0.5, 20.0, 300.0)
    want, workers = Want(betas=betas, top_means=(k, 2 * k)), Workers(threads, device=device)
    found = reduce(Dense(scores), want, workers, weights=weights)
    for beta in betas:
        expected = oracles._lse(beta * scores + np.log(weights)[:, None], axis=0)
        assert_allclose(found.log_sums[beta], expected, rtol=1e-5, atol=3e-5)
    for count in (k, 2 * k):
        means = []
        for column in scores.T:
            left, total = min(float(count), weights.sum()), 0.0
            for row in np.argsort(-column):
                taken = min(left, weights[row])
                total, left = total + taken * column[row], left - taken
            means.append(total / min(count, weights.sum()))
        assert_allclose(found.top_means[count], means, rtol=1e-5, atol=1e-6)


def test_enough_queries_are_known_to_weigh_k() -> None:
    weights = Weights(np.array([3.0, 0.5, 1.0, 0.25]))
    assert [weights.enough(k) for k in (1, 2, 4, 5)] == [3, 4, 4, 4]  # 0.25 + 0.5 + 1 is over 1, all are 4.75
    assert Weights(np.ones(9)).enough(4) == 4
    assert (weights.unit, weights.shares.max()) == (4.0, 0.75)


def test_k_counts_weights() -> None:
    sets = drawn(bank=7)
    method, notes = parse("nnn").resolve(bank_of(sets, np.full(7, 3.0)))
    assert method.spec == "nnn:k=21,alpha=0.75" and "21, the number of bank queries" in notes[0]
    assert parse("nnn").resolve(bank_of(sets, np.full(7, 0.01)))[0].spec == "nnn:k=1,alpha=0.75"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(6), "weights has shape (6,), the bank 7 queries; give one weight per query"),
        (np.array([1, 1, 0, 1, 1, 1, 1.0]), "weights must be finite and above 0, got 0 for bank query 2; leave out"),
        (np.array([1, 1, 1, np.nan, 1, 1, 1.0]), "weights must be finite and above 0, got nan for bank query 3; leave"),
        (np.full(7, np.inf), "weights must be finite and above 0, got inf for bank query 0; leave"),
    ],
)
def test_wrong_weights_are_refused(weights: Floats, message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        bank_of(drawn(bank=7), weights)
    assert str(raised.value).startswith(message)


def test_what_cannot_be_weighed_is_refused() -> None:
    sets = drawn(bank=7)
    with pytest.raises(
        ArgumentError, match=r"^weights must be whole numbers with quantiles, got 2.5 .*; leave out quantiles"
    ):
        outcome_of("gc:quantiles=3", bank_of(sets, np.full(7, 2.5)), Workers(1))
    with pytest.raises(
        ArgumentError, match=r"^weights must be whole numbers with mergeable \(--mergeable\), got 1.5 for.*bank folder"
    ):
        outcome_of("nnn:k=2", bank_of(sets, np.full(7, 1.5)), Workers(1), mergeable=True)


def test_a_small_weight_counts_beside_a_large_one() -> None:
    top = np.array([[1.0, 0.0]], np.float32)
    assert top_means(top, np.array([[1.0, 1e17]]), (2,)).tolist() == [[0.5]]
    assert top_means(top, np.array([[3.0, 2.0**54]]), (10,)).tolist() == [[0.3]]


def test_weights_of_any_size_stay_above_0_for_the_kernels() -> None:
    shares = Weights(np.array([1.0, 1e-50])).shares
    assert (shares > 0).all()
    assert (shares <= 1).all()


def test_a_sum_of_weights_is_rounded_down_but_for_its_rounding() -> None:
    items, bank = (np.random.default_rng(0).normal(size=(rows, 4)) for rows in (3, 60))
    several = vector_bank(as_vectors(items, "items"), as_vectors(bank, "bank"), None, "dot")
    assert dataclasses.replace(several, weights=np.full(60, 0.1)).whole_weight == 6
    assert dataclasses.replace(several, weights=np.full(60, 0.11)).whole_weight == 6
    assert several.whole_weight == 60
