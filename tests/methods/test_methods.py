"""Every method by name against its oracle, on small numbers, on random ones and at the extremes."""

import os
import subprocess
import sys
from functools import cache
from math import log
from typing import cast

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests import bank_cases as banks
from tests import oracles
from tests.bank_cases import BIASES, GATED, ON_A_BANK, PLANS, RESCORES, Floats, Sets, drawn, fitted, oracle_h, whole_h
from unhub.arrays import Kind, unit
from unhub.correction import Bias, Correction, Plan, Rescore
from unhub.data.similarity import Dense
from unhub.fitting import fit
from unhub.methods import METHODS, parse

# By hand: log-sums over the bank are log 4 and log 4; two items, two bank queries, one dimension per bank query.
BANK = np.eye(2)
ITEMS = np.log([[1.0, 3.0], [2.0, 2.0]])  # item 0 scores log 1, log 3; item 1 scores log 2, log 2


def by_hand(spec: str, bank_items: Floats | None = None) -> list[float]:
    correction = fit(ITEMS, BANK, method=spec, bank_items=bank_items, similarity="dot", threads=1)
    return [float(one) for one in whole_h(correction)]


def test_inverted_softmax_by_hand() -> None:
    assert by_hand("is:tau=1") == pytest.approx([log(4), log(4)])
    assert by_hand("is:tau=0.5") == pytest.approx([log(10) / 2, log(8) / 2])


def test_beta_is_one_over_tau() -> None:
    assert by_hand("is:beta=2") == by_hand("is:tau=0.5")


def test_means_by_hand() -> None:
    assert by_hand("csls:k=1") == pytest.approx([log(3) / 2, log(2) / 2])
    assert by_hand("nnn:k=2,alpha=1") == pytest.approx([log(3) / 2, log(4) / 2])
    assert by_hand("dn:lambda=0.5") == pytest.approx([log(3) / 4, log(4) / 4])
    assert by_hand("cent") == pytest.approx([log(3) / 2, log(4) / 2])
    assert by_hand("raw") == [0, 0]


def test_dual_inverted_softmax_by_hand() -> None:
    twice = np.eye(2)[[0, 0]]  # bank items: item 0 scores 0 and 0, item 1 scores log 2 and log 2
    assert by_hand("dualis:beta_query=1,beta_target=1", bank_items=twice) == pytest.approx([log(8) / 2, log(16) / 2])


def test_sinkhorn_by_hand() -> None:
    # K = [[1, 2], [3, 2]]: alpha = (1/6, 1/10), K^T alpha = (14/30, 16/30), beta = 1/2 over that
    assert by_hand("sn:tau=1,iterations=1") == pytest.approx([-log(15 / 14), -log(15 / 16)])


def test_dual_bank_sinkhorn_by_hand() -> None:
    bank_item = np.log([[2.0, 5.0]])  # K = [[1, 2, 2], [3, 2, 5]]: alpha = (1/10, 1/20), K^T alpha = (5, 6, ...)/20
    assert by_hand("dbsn:tau=1,iterations=1", bank_items=bank_item) == pytest.approx([-log(4 / 3), -log(10 / 9)])


def test_the_gate_by_hand_leaves_other_queries_alone() -> None:
    dis = fit(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.5, 0.2]]), method="dis", similarity="dot", threads=1)
    assert isinstance(dis, Bias)
    assert dis.active is not None and dis.active.tolist() == [True, False]
    corrected = dis.apply(np.array([[0.9, 0.1], [0.1, 0.2]]))
    assert_allclose(corrected - np.array([[dis.offset], [0]]), [[0.4, -0.1], [0.1, 0.2]], atol=1e-7)


def test_global_correction_by_hand_counts_bank_queries_strictly_closer() -> None:
    gc = fit(Dense(np.array([[0.5, 0.5], [0.75, 0.25]])), method="gc")
    assert_allclose(gc.apply(np.array([[0.5, 0.5], [0.625, 0.125]])), [[-0.5, 0.5], [-0.375, -1.875]])


def test_every_method_is_in_the_battery() -> None:
    assert " ".join(METHODS) == "raw is dis csls gc nnn dualis dualdis dn cent sn dbsn otn l2n hn"
    assert {parse(spec).name for spec in ON_A_BANK + PLANS} == set(METHODS)


def tolerance(spec: str, sets: Sets) -> float:
    """1e-6, times what the numbers are made of: the temperature, the largest similarity, and where these are large the
    steps of an iteration, each of which rounds.
    """
    method = parse(spec)
    tau = cast("float", method.values.get("tau", 1.0))
    if method.name == "dualis":
        tau = 1 / (banks.number(method, "beta_query") + banks.number(method, "beta_target"))
    largest = max(np.abs(scores).max() for scores in (sets.bank_scores, sets.target_scores, sets.joint_scores))
    scale = max(1.0, tau) * max(1.0, float(largest))
    steps = 2 * banks.count(method, "iterations", 1_000_000) if "iterations" in method.values and scale > 1.01 else 1
    return 1e-6 * scale * steps


def assert_h(spec: str, sets: Sets, correction: Correction | None = None) -> None:
    found = correction or fitted(spec, sets)
    assert isinstance(found, Bias)
    assert_allclose(whole_h(found), oracle_h(spec, sets), rtol=0, atol=tolerance(spec, sets))


SHAPES = {
    "more bank than items": drawn(1),
    "more items than bank": drawn(2, items=300, bank=40, bank_items=150),
    "many dimensions": drawn(3, items=20, bank=150, dimensions=200),
    "several tiles": drawn(4, items=1030, bank=2060, bank_items=60, dimensions=5),
}
SLOW_ORACLES = ("sn", "dbsn", "dbsn:tau=0.05,iterations=25")  # on several tiles


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        (spec, shape)
        for spec in BIASES + GATED
        for shape in SHAPES
        if not (spec in SLOW_ORACLES and shape == "several tiles")
    ],
)
def test_h_and_its_offset_are_the_oracles(spec: str, shape: str, kind: Kind) -> None:
    assert_h(spec, SHAPES[shape].under(kind))


@pytest.mark.parametrize("spec", BIASES + GATED)
def test_h_is_kept_centred(spec: str) -> None:
    correction = fitted(spec, drawn())
    assert isinstance(correction, Bias)
    assert abs(correction.bias.mean()) < 1e-12


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("spec", BIASES + GATED)  # gc, which resolves so much and no more, is in test_global_rank.py
def test_corrected_scores_are_the_oracles_up_to_one_constant_per_query(spec: str, kind: Kind) -> None:
    sets = drawn(6).under(kind)
    difference = fitted(spec, sets).apply(sets.query_scores) - banks.oracle_scores(spec, sets)
    spread = difference.max(axis=1) - difference.min(axis=1)
    assert spread.max() <= 2 * tolerance(spec, sets)


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("spec", [spec for spec in ON_A_BANK if spec != "gc"])
def test_items_are_ranked_as_the_oracle_ranks_them(spec: str, kind: Kind) -> None:
    sets = drawn(6).under(kind)
    scores = fitted(spec, sets).apply(sets.query_scores)
    assert_array_equal(oracles.ranking(scores.astype(np.float64)), banks.oracle_ranking(spec, sets))


@pytest.mark.parametrize("k", [1, 2, 5, 41])
def test_the_activation_set_is_the_oracles(k: int) -> None:
    sets = drawn(7, bank=60)
    correction = fitted(f"dis:k={k}", sets)
    assert isinstance(correction, Bias)
    assert_array_equal(correction.active, oracles.activation(sets.bank_scores, k))
    assert 0 < oracles.activation(sets.bank_scores, 1).sum() < 41


@pytest.mark.parametrize("k", [1, 2, 5])
def test_of_equal_scores_the_first_items_are_active(k: int) -> None:
    sets = banks.whole(8)
    correction = fitted(f"dis:k={k}", sets)
    assert isinstance(correction, Bias)
    assert_array_equal(correction.active, oracles.activation(sets.bank_scores, k))


def test_global_correction_counts_ties_exactly() -> None:
    sets = banks.whole(9)
    assert_array_equal(fitted("gc", sets).apply(sets.query_scores), banks.oracle_scores("gc", sets))


@pytest.mark.parametrize("quantiles", [2, 3, 9, 101, 1000])
def test_global_correction_from_tables_is_off_by_no_more_than_it_says(quantiles: int) -> None:
    sets = banks.whole(10, bank=203)
    correction = fitted(f"gc:quantiles={quantiles}", sets)
    bound = -(-202 // (quantiles - 1)) - 1
    assert f"at most {bound} of 203" in correction.cost.kept
    error = np.abs(correction.apply(sets.query_scores) - banks.oracle_scores("gc", sets))
    assert error.max() <= bound
    assert correction.arrays["tables"].shape == (41, quantiles)


@pytest.mark.parametrize(
    ("beta_query", "beta_target"), [(0.001, 0.001), (0.001, 0.0), (0.0, 0.02), (1.0, 1.0), (400.0, 400.0), (20.0, 0.0)]
)
@pytest.mark.parametrize("k", [1, 3])
def test_dualdis_ranks_by_sign_and_size_at_every_beta_of_the_papers_grids(
    beta_query: float, beta_target: float, k: int
) -> None:
    sets = drawn(11, bank=50)
    spec = f"dualdis:beta_query={beta_query},beta_target={beta_target},k={k}"
    assert_dualdis(spec, sets, 1e-6)


def assert_dualdis(spec: str, sets: Sets, atol: float) -> None:
    """Check that no item stands before one whose product is larger, by more than rounding, in the oracle."""
    method = parse(spec)
    betas = banks.number(method, "beta_query"), banks.number(method, "beta_target")
    k = banks.count(method, "k", len(sets.items))
    # The gate and the raw factor jump where a similarity does, so the oracle gets float32's own similarities.
    rounded = float32_scores(sets)
    keys = oracles.dualdis_keys(rounded, sets.bank_scores, sets.target_scores, *betas, k)
    order = oracles.ranking(fitted(spec, sets).apply(rounded).astype(np.float64))
    signs, sizes = (np.take_along_axis(key, order, axis=1) for key in keys)
    assert (np.diff(signs, axis=1) <= 0).all()
    assert (np.diff(sizes, axis=1)[np.diff(signs, axis=1) == 0] <= atol * max(1.0, sum(betas))).all()


def float32_scores(sets: Sets) -> Floats:
    rows, columns = sets.queries.astype(np.float32), sets.items.astype(np.float32)
    product = rows @ columns.T if sets.kind == "dot" else unit(rows) @ unit(columns).T
    return product.astype(np.float64)


# At the extremes.

RNG = np.random.default_rng(12)


def _rows(count: int, dimensions: int = 3) -> Floats:
    return RNG.standard_normal((count, dimensions)).astype(np.float32).astype(np.float64)


def _spread(count: int) -> Floats:
    """Rows whose dot products with (1, +-1) run from -50 to 50."""
    return np.stack([np.linspace(-40, 40, count), RNG.uniform(-10, 10, count)], 1).astype(np.float32).astype(np.float64)


def _signs(count: int) -> Floats:
    return np.stack([np.ones(count), RNG.choice([-1.0, 1.0], count)], axis=1)


SAME = _rows(1)
EXTREMES = {
    "all equal": Sets(np.full((5, 3), 0.5), np.ones((300, 3)), np.ones((4, 3)), np.ones((2, 3)), "dot"),
    "all zero": Sets(np.zeros((5, 3)), np.zeros((300, 3)), np.zeros((4, 3)), np.zeros((2, 3)), "dot"),
    "a zero bank": Sets(_rows(5), np.zeros((9, 3)), np.zeros((4, 3)), _rows(2), "dot"),
    "widely spread": Sets(_spread(30), _signs(80), _signs(7), _signs(5), "dot"),
    "one item": Sets(_rows(1), _rows(70), _rows(5), _rows(3)),
    "one bank query": Sets(_rows(30), _rows(1), _rows(1), _rows(3)),
    "one of each": Sets(_rows(1), _rows(1), _rows(1), _rows(1)),
    "one dimension": Sets(_rows(30, 1), _rows(90, 1), _rows(5, 1), _rows(3, 1)),
    "all the same vector": Sets(SAME.repeat(6, 0), SAME.repeat(500, 0), SAME.repeat(4, 0), SAME.repeat(2, 0)),
    "duplicates": Sets(_rows(10).repeat(3, axis=0), _rows(20).repeat(20, axis=0), _rows(3).repeat(2, axis=0), _rows(4)),
    "opposites": Sets(np.array([[1.0, 0], [-1, 0], [0, 1]]), np.array([[1.0, 0], [-1, 0]]), np.eye(2), np.eye(2)),
}
COLD_AND_HOT = (
    *(f"{name}:tau={tau}" for name in ("is", "dis", "sn", "dbsn") for tau in (0.001, 10)),
    *(f"dualis:beta_query={one},beta_target={two}" for one, two in ((1000, 1000), (0.1, 0.1), (1000, 0.1), (0, 5))),
    "csls",
    "nnn",
    "nnn:k=1,alpha=1",
    "dn",
    "cent",
    "raw",
)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("spec", COLD_AND_HOT)
def test_h_is_the_oracles_at_the_extremes(spec: str, extreme: str) -> None:
    assert_h(spec, EXTREMES[extreme])


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("spec", ["dualdis", "dualdis:beta_query=1000,beta_target=0.1"])
def test_dualdis_ranks_as_the_oracle_at_the_extremes(spec: str, extreme: str) -> None:
    sets = EXTREMES[extreme]
    assert_dualdis(spec, sets, tolerance(spec, sets))


@pytest.mark.parametrize("extreme", EXTREMES)
def test_global_correction_counts_within_the_bank_at_the_extremes(extreme: str) -> None:
    sets = EXTREMES[extreme]
    scores = float32_scores(sets)
    counts = scores - fitted("gc", sets).apply(scores)
    least = (sets.bank_scores[None] > scores[:, None] + 1e-6 * (1 + np.abs(scores[:, None]))).sum(axis=1)
    most = (sets.bank_scores[None] > scores[:, None] - 1e-6 * (1 + np.abs(scores[:, None]))).sum(axis=1)
    assert ((least - 1e-4 <= counts) & (counts <= most + 1e-4)).all()


# Several at once, from a matrix, on a batch.


@cache
def together() -> list[Correction]:
    sets = drawn(13)
    return fit(sets.items, sets.bank, method=list(ON_A_BANK), bank_items=sets.bank_items, threads=1)


@pytest.mark.parametrize("spec", ON_A_BANK)
def test_a_method_fitted_beside_others_is_as_fitted_alone(spec: str) -> None:
    sets = drawn(13)
    alone, beside = fitted(spec, sets), together()[ON_A_BANK.index(spec)]
    assert beside.spec == alone.spec
    assert beside.arrays.keys() == alone.arrays.keys()
    for name, array in alone.arrays.items():
        assert_allclose(beside.arrays[name].astype(np.float64), array.astype(np.float64), rtol=0, atol=1e-7)


def test_several_methods_share_one_pass() -> None:
    sets = drawn(14)
    three = fit(sets.items, sets.bank, method=["is:tau=0.05", "is:tau=0.02", "nnn:k=128,alpha=0.75"])
    assert [one.spec for one in three] == ["is:tau=0.05", "is:tau=0.02", "nnn:k=128,alpha=0.75"]
    assert [one.cost.passes for one in three] == [1, 1, 1]


def test_a_method_may_be_given_as_a_value() -> None:
    sets = drawn()
    assert_array_equal(whole_h(fit(sets.items, sets.bank, parse("is:tau=0.1"))), whole_h(fitted("is:tau=0.1", sets)))


@pytest.mark.parametrize("spec", [spec for spec in ON_A_BANK if parse(spec).name != "dbsn"])
def test_a_given_matrix_does_as_the_vectors_it_came_from(spec: str) -> None:
    sets = drawn(15)
    given = fit(Dense(sets.bank_scores), method=spec, bank_items=Dense(sets.target_scores))
    assert given.source.similarity == "given"
    if isinstance(given, Bias):
        assert_h(spec, sets, given)
    else:
        assert_array_equal(
            oracles.ranking(given.apply(sets.query_scores).astype(np.float64)), banks.oracle_ranking(spec, sets)
        )


@pytest.mark.parametrize("spec", ["dbsn", "dbsn:tau=0.05"])
def test_dual_bank_sinkhorn_takes_a_matrix_of_bank_queries_and_bank_items(spec: str) -> None:
    sets = drawn(16)
    assert_h(spec, sets, fit(Dense(sets.bank_scores), method=spec, bank_items=Dense(sets.joint_scores)))


@pytest.mark.once
def test_dual_bank_sinkhorn_without_bank_items_says_that_it_is_sinkhorn() -> None:
    sets = drawn()
    alone, both = fit(sets.items, sets.bank, method="dbsn"), fitted("dbsn", sets)
    assert alone.cost.notes == ("there are no bank items, so 'dbsn' is the same as 'sn'",)
    assert fit(Dense(sets.bank_scores), method="dbsn").cost.notes == alone.cost.notes
    assert both.cost.notes == ()
    assert fit(Dense(sets.bank_scores), method="dbsn", bank_items=Dense(sets.joint_scores)).cost.notes == ()


def test_a_given_matrix_keeps_the_names_of_its_items() -> None:
    assert repr(Dense(np.eye(3)[:2])) == "<Dense: 2 queries, 3 items>"
    given = fit(Dense(np.eye(3), item_ids=["a", "b", "c"]), method="is")
    assert given.ids.tolist() == ["a", "b", "c"]


def test_sinkhorn_on_the_batch_takes_the_batch_as_the_bank() -> None:
    sets = drawn(19)
    batch = fit(sets.items, sets.queries, method="sn:tau=0.05", threads=1)
    assert_allclose(whole_h(batch), oracles.sn(sets.query_scores, 0.05, 10)[0], rtol=0, atol=1e-6)


# What a fit says of itself.


def test_each_kind_of_method_gives_its_kind_of_correction() -> None:
    sets = drawn()
    assert {type(fitted(spec, sets)) for spec in BIASES + GATED} == {Bias}
    assert {type(fitted(spec, sets)) for spec in RESCORES} == {Rescore}
    assert {type(fitted(spec, sets)) for spec in PLANS} == {Plan}


@pytest.mark.parametrize("spec", [*ON_A_BANK, *PLANS])
def test_a_spec_is_read_back_as_the_same_method(spec: str) -> None:
    correction = fitted(spec, drawn())
    assert parse(correction.spec) == correction.method


def test_specs_read_as_typed() -> None:
    assert parse("nnn:k=128,alpha=0.75").spec == "nnn:k=128,alpha=0.75"
    assert parse("is:beta=20").spec == "is:tau=0.05"
    assert parse("dn:lambda=0.25").spec == "dn:lambda=0.25"
    assert parse("cent").spec == "cent"


def test_parameters_beside_the_name_count_as_typed_in_it() -> None:
    assert parse("nnn:k=3", {"alpha": 0.5}) == parse("nnn:k=3,alpha=0.5")
    sets = drawn()
    beside = fit(sets.items, sets.bank, method="sn", tau=0.05, similarity="dot", threads=2, memory="2GB")
    assert beside.spec.startswith("sn:tau=0.05")


def test_defaults_are_those_of_the_papers() -> None:
    assert {name: method.parameters() for name, method in METHODS.items() if method.parameters()} == {
        "is": {"tau": 0.05},
        "dis": {"tau": 0.05, "k": 1},
        "csls": {"k": 10},
        "gc": {"quantiles": None},
        "nnn": {"k": 128, "alpha": 0.75},
        "dualis": {"beta_query": 20.0, "beta_target": 10.0},
        "dualdis": {"beta_query": 20.0, "beta_target": 10.0, "k": 1},
        "dn": {"lambda": 0.5},
        "sn": {"tau": 0.01, "iterations": 10, "tolerance": None, "strength": None, "keep": None},
        "dbsn": {"tau": 0.01, "iterations": 10, "tolerance": None, "strength": None, "keep": None},
        "otn": {"zeros": "raw"},
        "l2n": {"reg": 0.05, "zeros": "raw"},
        "hn": {"zeros": "raw"},
    }


def test_a_correction_prints_on_one_line() -> None:
    assert repr(fitted("is", drawn())) == "<Bias is:tau=0.05: 41 items, cosine>"


@pytest.mark.parametrize(("spec", "passes"), [("is", 1), ("dis", 1), ("nnn", 1), ("dn", 0), ("raw", 0), ("sn", 1)])
def test_a_fit_states_how_often_it_multiplied(spec: str, passes: float) -> None:
    assert fitted(spec, drawn()).cost.passes == passes


def test_a_fit_states_what_it_cost() -> None:
    cost = fitted("sn", drawn(items=2000, bank=5000, dimensions=4)).cost
    assert cost.seconds > 0
    assert cost.kernel == ("numpy" if os.environ.get("UNHUB_NO_NUMBA") else "numba")
    assert (cost.kept, cost.iterations) == ("fp32", 10)


def test_a_fit_states_the_memory_it_took() -> None:
    program = """
import numpy as np
from unhub.fitting import fit
rng = np.random.default_rng(0)
print(fit(rng.standard_normal((2000, 4)), rng.standard_normal((5000, 4)), "sn").cost.peak_memory)
"""  # in a process of its own, since one that has freed memory may use that again
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert 4 * 2000 * 5000 < int(run.stdout) < 10 * 4 * 2000 * 5000


def test_dualdis_ranks_products_too_large_for_any_exponential() -> None:
    rng = np.random.default_rng(60)
    items, bank, targets = (6 * rng.standard_normal((rows, 16)) for rows in (40, 30, 20))
    scores = 60 * rng.standard_normal((25, 16)) @ items.T
    correction = fit(items, bank, method="dualdis", bank_items=targets, similarity="dot")
    expected = oracles.dualdis_order(scores, bank @ items.T, targets @ items.T, 20, 10, 1)
    assert np.isfinite(correction.apply(scores)).all()
    assert_array_equal(oracles.ranking(np.asarray(correction.apply(scores), np.float64)), expected)


@pytest.mark.parametrize("length", [None, 1.0, 1 + 4e-7])
def test_a_bank_query_is_not_closer_than_itself(length: float | None) -> None:
    bank = np.random.default_rng(61).standard_normal((400, 64))
    if length is not None:
        bank *= length / np.linalg.norm(bank, axis=1, keepdims=True)
    items = bank[:50]
    scores = oracles.cosine(bank[:30], items)
    found = fit(items, bank, method="gc").apply(scores.astype(np.float32))
    off = np.abs(found - oracles.gc_scores(scores, oracles.cosine(bank, items))) > 0.5
    assert off.mean() < 0.005  # another bank query may score the same to float32's rounding
