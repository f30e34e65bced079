"""A bank with weights, from the door: `fit`, its files and its upkeep take weight 2 as the same query twice."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests.bank_cases import ON_A_BANK, Floats, Sets, drawn
from tests.command import fail, succeed
from unhub.correction import Bias, Correction, Rescore
from unhub.data.fingerprint import Fingerprint
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.foreseeing import foresee

SETS = drawn(bank=120)
WEIGHTS = np.random.default_rng(5).integers(1, 4, 120).astype(np.float64)
TIMES = WEIGHTS.astype(int)
REPEATED = np.repeat(SETS.bank, TIMES, axis=0)


def weighted(bank: Floats = SETS.bank, weights: Floats = WEIGHTS) -> Vectors:
    return Vectors(np.arange(len(bank)), bank, weights)


def fitted(spec: str, bank: object, sets: Sets = SETS, **more: object) -> Correction:
    return unhub.fit(sets.items, bank, spec, bank_items=sets.bank_items, **more)  # type: ignore[call-overload, no-any-return]


def assert_same(one: Correction, other: Correction, atol: float = 3e-6) -> None:
    scores = SETS.query_scores
    if isinstance(one, Bias) and isinstance(other, Bias):
        assert_allclose(one.bias, other.bias, atol=atol)
    assert_allclose(one.apply(scores), other.apply(scores), rtol=1e-5, atol=10 * atol)


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("spec", [*ON_A_BANK, "gc:quantiles=9", "gc:quantiles=500"])
def test_a_bank_with_whole_weights_is_the_bank_with_repeats(spec: str, device: str | None) -> None:
    found = fitted(spec, weighted(), device=device)
    assert_same(found, fitted(spec, REPEATED, device=device))
    assert_same(found, fitted(spec, SETS.bank, weights=WEIGHTS, device=device), atol=1e-12)


@pytest.mark.parametrize("spec", [*ON_A_BANK, "gc:quantiles=9"])
def test_a_matrix_with_weights_is_the_matrix_with_repeated_rows(spec: str) -> None:
    joint = spec.startswith("dbsn")
    targets = Dense(SETS.joint_scores) if joint else Dense(SETS.target_scores)
    again = Dense(np.repeat(SETS.joint_scores, TIMES, axis=0)) if joint else targets
    scores = SETS.bank_scores
    found = unhub.fit(Dense(scores), method=spec, bank_items=targets, weights=WEIGHTS)
    expected = unhub.fit(Dense(np.repeat(scores, TIMES, axis=0)), method=spec, bank_items=again)
    assert_same(found, expected)
    assert f"the 120 bank queries weigh {WEIGHTS.sum():g}" in found.cost.notes


@pytest.mark.parametrize("spec", ["is", "nnn:k=6", "csls:k=4", "dn", "cent", "sn", "dbsn", "dis", "dualis"])
def test_half_weights_are_all_weights_over_half_as_many_queries(spec: str) -> None:
    """Doubling every weight changes nothing but a constant, if a k over bank queries is doubled too."""
    doubled = {"nnn:k=6": "nnn:k=12", "csls:k=4": "csls:k=8"}.get(spec, spec)
    found, expected = fitted(spec, weighted(weights=WEIGHTS / 2)), fitted(doubled, REPEATED)
    assert isinstance(found, Bias) and isinstance(expected, Bias)
    assert_allclose(found.bias, expected.bias, atol=3e-6)


def test_half_weights_count_half_in_gc() -> None:
    scores = SETS.query_scores
    half, whole = (fitted("gc", weighted(weights=one)).apply(scores) - scores for one in (WEIGHTS / 2, WEIGHTS))
    assert_allclose(2 * half, whole, atol=1e-5)


@pytest.mark.parametrize("spec", ["is", "nnn:k=8", "dualis"])
def test_a_fit_within_an_error_weighs_its_part_of_the_bank(spec: str) -> None:
    sets = drawn(items=1200, bank=3000)
    weights = np.random.default_rng(0).uniform(0.5, 4, 3000)
    exact = fitted(spec, weighted(sets.bank, weights), sets)
    found = fitted(spec, weighted(sets.bank, weights), sets, error=0.01)
    plain = fitted(spec, sets.bank, sets)
    assert isinstance(found, Bias) and isinstance(exact, Bias) and isinstance(plain, Bias)
    assert found.cost.error is not None and found.cost.error <= 0.01
    assert np.std(found.bias - exact.bias) <= 2 * 0.01
    everything = fitted(spec, weighted(sets.bank, weights), sets, error=1e-9)
    assert isinstance(everything, Bias)
    assert_allclose(everything.bias, exact.bias, atol=1e-6)
    assert np.abs(plain.bias - exact.bias).max() > 1e-4


def test_weights_go_along_with_their_rows() -> None:
    vectors = weighted()
    some = vectors.gather(np.array([5, 2]))
    assert_array_equal(some.weights, WEIGHTS[[5, 2]])
    both = some.stack(Vectors(np.array([7, 8]), SETS.bank[:2]))
    assert_array_equal(both.weights, [*WEIGHTS[[5, 2]], 1, 1])
    assert vectors.weighing(None).weights is None
    assert vectors.again().weights is not None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "weights has shape (2,), the bank 120 queries; give one weight per query"),
        (np.zeros(120), "weights must be finite and above 0, got 0 for bank query 0; leave out"),
        (np.full(120, np.nan), "weights must be finite and above 0, got nan"),
        ("many", "weights must be numbers, got str"),
    ],
)
def test_wrong_weights_are_refused(weights: object, message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        fitted("is", SETS.bank, weights=weights)
    assert str(raised.value).startswith(message)


def test_weights_without_a_place_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^weights is given, and the bank has weights of its own"):
        fitted("is", weighted(), weights=WEIGHTS)
    with pytest.raises(ArgumentError, match=r"^items holds queries of a bank with their weights; .* swapped$"):
        unhub.fit(Vectors(np.arange(41), SETS.items, np.ones(41)), SETS.bank)
    with pytest.raises(ArgumentError, match=r"^weights has no bank queries to weigh"):
        unhub.fit(SETS.items, None, "raw", weights=WEIGHTS)


def test_weights_of_one_leave_the_fingerprint_as_it_is() -> None:
    hashes = np.arange(120, dtype=np.uint64)
    assert Fingerprint.of(hashes, np.ones(120)) == Fingerprint.of(hashes)
    assert Fingerprint.of(hashes, np.ones(120)).weight is None
    weighed = Fingerprint.of(hashes, WEIGHTS)
    assert weighed != Fingerprint.of(hashes) and weighed.weight == WEIGHTS.sum()
    assert Fingerprint.of(hashes[:50], WEIGHTS[:50]).followed_by(hashes[50:], WEIGHTS[50:]) == weighed
    assert Fingerprint.of(hashes[:1]).followed_by(hashes[1:2], np.array([3.0])).weight == 4


@pytest.mark.parametrize("spec", ["is", "nnn:k=200", "gc", "gc:quantiles=9", "dis", "sn", "cent"])
def test_a_saved_correction_tells_the_weight_of_its_bank(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "c.unhub"
    correction = fitted(spec, weighted())
    unhub.save(correction, path)
    bank = unhub.files.read_manifest(path)["bank"]
    assert bank is not None and (bank["count"], bank["weight"]) == (120, WEIGHTS.sum())
    again = unhub.load(path, "correction")
    if isinstance(again, Rescore) and spec == "gc":
        again = again.bind(SETS.items)
    assert_same(correction, again, atol=1e-12)
    unhub.save(fitted(spec if spec != "nnn:k=200" else "nnn", SETS.bank), path)
    assert "weight" not in (unhub.files.read_manifest(path)["bank"] or {})


UPKEEP = ["is", "dis", "nnn:k=9", "csls", "dualis", "dn", "cent", "sn"]


@pytest.mark.parametrize("spec", UPKEEP)
def test_extending_with_the_same_weights_is_a_refit(spec: str) -> None:
    few = dataclasses.replace(SETS, items=SETS.items[:30])
    grown = unhub.extend(fitted(spec, weighted(), few), SETS.items[30:], weighted(), bank_items=SETS.bank_items)
    repeats = unhub.extend(fitted(spec, REPEATED, few), SETS.items[30:], REPEATED, bank_items=SETS.bank_items)
    assert_same(grown, repeats)


@pytest.mark.parametrize("weights", [None, WEIGHTS[::-1].copy(), 2 * WEIGHTS])
def test_extending_takes_the_weights_of_the_fit(weights: Floats | None) -> None:
    note = "the weights of the bank are those of the fit; the others that were given do not count"
    fitted_so, new = fitted("is", weighted()), Vectors(np.arange(100, 117), SETS.queries)
    found = unhub.extend(fitted_so, new, Vectors(np.arange(120), SETS.bank, weights))
    assert_array_equal(bias_of(found), bias_of(unhub.extend(fitted_so, new, weighted())))
    assert (note in found.cost.notes) == (weights is not None)
    without = unhub.extend(fitted("is", SETS.bank), new, weighted())
    assert_array_equal(bias_of(without), bias_of(unhub.extend(fitted("is", SETS.bank), new, SETS.bank)))
    assert without.cost.notes[-1] == note


def bias_of(correction: Correction) -> Floats:
    assert isinstance(correction, Bias)
    return correction.bias


@pytest.mark.parametrize("spec", UPKEEP)
def test_merging_weighted_queries_into_a_weighted_bank_is_merging_repeats(spec: str) -> None:
    first, last = (weighted(SETS.bank[part], WEIGHTS[part]) for part in (slice(70), slice(70, None)))
    old = fitted(spec, first, mergeable=True)
    merged = unhub.merge(old, SETS.items, last)
    split = int(TIMES[:70].sum())
    repeats = unhub.merge(fitted(spec, REPEATED[:split], mergeable=True), SETS.items, REPEATED[split:])
    assert_same(merged, repeats)
    if spec != "sn":
        assert_same(merged, fitted(spec, weighted(), mergeable=True))
    assert merged.source.bank == fitted(spec, weighted()).source.bank
    with pytest.raises(ArgumentError, match=r"^more_bank is the bank of 70 queries"):
        unhub.merge(old, SETS.items, first)


def test_a_forecast_counts_k_by_weight() -> None:
    assert foresee(SETS.items, weighted(), "nnn").method == "nnn:k=128,alpha=0.75"
    assert foresee(SETS.items, SETS.bank, "nnn").method == "nnn:k=120,alpha=0.75"
    assert foresee(SETS.items, weighted(), "nnn:k=200").bank == 120


@pytest.mark.once
def test_the_command_line_takes_a_file_of_weights(tmp_path: Path) -> None:
    np.save(tmp_path / "items.npy", SETS.items)
    np.save(tmp_path / "bank.npy", SETS.bank)
    np.save(tmp_path / "w.npy", WEIGHTS)
    (tmp_path / "w.txt").write_text("\n".join(map(str, WEIGHTS)) + "\n")
    (tmp_path / "bad.txt").write_text("1\ntwo\n")
    command = ("fit", "--items", "items.npy", "--bank", "bank.npy", "-o", "c.unhub", "--quiet", "--bank-weights")
    assert fail(tmp_path, *command, "bad.txt") == (
        "--bank-weights: bad.txt: line 2 is 'two'; one number per line is needed"
    )
    assert fail(tmp_path, *command, "items.npy").startswith("--bank-weights has shape (41, 16), the bank 120 queries")
    for name in ("w.npy", "w.txt"):
        succeed(tmp_path, *command, name)
        assert_same(unhub.load(tmp_path / "c.unhub", "correction"), fitted("is", weighted()), atol=1e-12)
    assert f"120, of weight {WEIGHTS.sum():g}" in succeed(tmp_path, "info", "c.unhub")
