"""The bank and the items of a fit are known again by their hashes: in any order, in parts, among others."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests.bank_cases import BIASES, GATED, Floats, drawn, whole_h
from tests.forging import forge
from unhub.correction import Bias, Correction
from unhub.data.bank import BankRows
from unhub.data.vectors import Vectors

SETS = drawn(31, items=34, bank=120)
SPECS = (*BIASES, *GATED)
LOOSE = ("sn", "dbsn")  # which balance what is merged apart
Given: TypeAlias = Floats | Vectors | list[Floats | Vectors]


def fitted(spec: str, items: int = 34, bank: int = 120) -> Bias:
    made = unhub.fit(SETS.items[:items], SETS.bank[:bank], spec, bank_items=SETS.bank_items, threads=1, mergeable=True)
    assert isinstance(made, Bias)
    return made


def merged(spec: str) -> Correction:
    """Fit on 80 queries and merge 40 more."""
    before = fitted(spec, items=30, bank=80)
    return unhub.merge(before, SETS.items[:30], SETS.bank[80:], bank_items=SETS.bank_items)


SHUFFLED = np.random.default_rng(4).permutation(120)
GIVEN: dict[str, Callable[[], Given]] = {
    "in another order": lambda: SETS.bank[SHUFFLED],
    "in parts": lambda: [SETS.bank[80:], Vectors(np.arange(80), SETS.bank[:80].astype(np.float32))],
    "among others": lambda: np.concatenate([SETS.queries, SETS.bank[::-1]]),
    "twice": lambda: np.concatenate([SETS.bank[::-1], SETS.bank]),
}


@pytest.mark.parametrize("way", GIVEN)
@pytest.mark.parametrize("spec", SPECS)
def test_the_bank_is_given_in_any_way_after_a_merge(spec: str, way: str) -> None:
    before = merged(spec)
    expected = unhub.extend(before, SETS.items[30:], SETS.bank, bank_items=SETS.bank_items)
    found = unhub.extend(before, SETS.items[30:], GIVEN[way](), bank_items=SETS.bank_items)
    assert_array_equal(whole_h(found), whole_h(expected))
    for name, array in expected.arrays.items():
        assert_array_equal(found.arrays[name], array)
    if not spec.startswith(LOOSE):
        assert_allclose(whole_h(found), whole_h(fitted(before.spec)), rtol=0, atol=1e-6)
    left_out = "17 of 137 queries of the bank are not of the fit and were left out"
    assert (left_out in found.cost.notes) == (way == "among others")


@settings(max_examples=25)
@given(
    spec=st.sampled_from(["is", "dis:k=2", "sn:tau=0.05", "nnn:k=5"]), seed=st.integers(0, 99), parts=st.integers(1, 4)
)
def test_no_order_of_the_bank_changes_anything(spec: str, seed: int, parts: int) -> None:
    before, rng = fitted(spec, items=30), np.random.default_rng(seed)
    pieces: list[Floats | Vectors] = [*np.array_split(SETS.bank[rng.permutation(120)], parts)]
    found = unhub.extend(before, SETS.items[30:], pieces)
    expected = unhub.extend(before, SETS.items[30:], SETS.bank)
    assert_array_equal(whole_h(found), whole_h(expected))
    after = unhub.remove(found, [0, 3], items=SETS.items, bank=pieces)
    refit = unhub.fit(Vectors(np.delete(np.arange(34), [0, 3]), np.delete(SETS.items, [0, 3], axis=0)), SETS.bank, spec)
    assert isinstance(after, Bias) and isinstance(refit, Bias)
    if "active" in refit.arrays:
        assert_array_equal(after.active, refit.active)


@pytest.mark.parametrize("spec", ["dis:k=2", "sn:tau=0.05"])
def test_a_bank_with_repeats_and_weights_is_mapped_to_its_rows(spec: str) -> None:
    rows = np.concatenate([SETS.bank[:60], SETS.bank[:7]])
    weights = np.arange(1.0, 68.0)
    before = unhub.fit(SETS.items[:30], Vectors(np.arange(67), rows, weights), spec)
    expected = unhub.extend(before, SETS.items[30:], Vectors(np.arange(67), rows, weights))
    found = unhub.extend(before, SETS.items[30:], SETS.bank[59::-1])
    assert_array_equal(whole_h(found), whole_h(expected))


def test_a_query_that_is_missing_is_counted() -> None:
    with pytest.raises(ValueError, match=r"^bank lacks 2 of the 120 queries that the correction was fitted on; give"):
        unhub.extend(fitted("is", items=30), SETS.items[30:], [SETS.bank[:50], SETS.bank[52:]])
    with pytest.raises(ValueError, match=r"^bank has parts of 8 and 16 dimensions; give"):
        unhub.extend(fitted("is", items=30), SETS.items[30:], [SETS.bank[:50], SETS.bank[50:, :8]])


# What a correction keeps of its bank.


def test_a_correction_keeps_a_hash_for_each_bank_query_and_weights_only_if_there_are_any(tmp_path: Path) -> None:
    for weights in (None, np.linspace(0.5, 2, 120)):
        made = unhub.fit(SETS.items, SETS.bank, "is", weights=weights)
        unhub.save(made, tmp_path / "c.unhub")
        for one in (made, unhub.load(tmp_path / "c.unhub")):
            rows = rows_of(one)
            assert len(rows.hashes) == 120 and rows.fingerprint == one.source.bank
            assert (rows.weights is None) == (weights is None)
        assert rows.hashes.nbytes == 8 * 120


def rows_of(correction: Correction) -> BankRows:
    assert correction.source.bank_rows is not None
    return correction.source.bank_rows


def test_merging_keeps_the_new_queries_too() -> None:
    weighted = Vectors(np.arange(40), SETS.bank[80:], np.full(40, 2.0))
    after = rows_of(unhub.merge(fitted("is", bank=80), SETS.items, weighted))
    assert_array_equal(after.hashes, rows_of(fitted("is")).hashes)
    assert after.weights is not None
    assert_array_equal(after.weights, [1.0] * 80 + [2.0] * 40)


def test_wrong_hashes_of_a_bank_are_found_and_old_files_are_read(tmp_path: Path) -> None:
    made = fitted("is", items=30)
    unhub.save(made, tmp_path / "c.unhub")
    forge(tmp_path / "c.unhub", tmp_path / "bad.unhub", lambda _, held: held["bank.hashes"].__setitem__(3, 7))
    with pytest.raises(ValueError, match=r"bad\.unhub: .*bank\.digest is not that of the hashes of the bank queries"):
        unhub.load(tmp_path / "bad.unhub")
    old = dataclasses.replace(made, source=dataclasses.replace(made.source, bank_rows=None))
    unhub.save(old, tmp_path / "old.unhub")
    read = unhub.load(tmp_path / "old.unhub")
    assert rows_are_unknown(read)
    assert len(unhub.extend(read, SETS.items[30:], SETS.bank)) == 34
    with pytest.raises(ValueError, match=r"^bank differs from the one of the fit in its contents or their order"):
        unhub.extend(read, SETS.items[30:], SETS.bank[::-1])
    assert rows_are_unknown(unhub.merge(read, SETS.items[:30], SETS.queries))


def rows_are_unknown(correction: Correction) -> bool:
    return correction.source.bank_rows is None


# Queries that are merged once more.


@pytest.mark.parametrize("spec", ["raw", "is", "dis", "sn:tau=0.05"])
def test_a_batch_without_a_new_query_is_refused_in_any_order(spec: str) -> None:
    once = merged(spec)
    for batch in (SETS.bank[:79:-1], SETS.bank[[3, 90, 90]], SETS.bank[5:6]):
        with pytest.raises(ValueError, match=rf"^more_bank has no new query: all {len(batch)} are among the 120 that"):
            unhub.merge(once, SETS.items[:30], batch)


def test_single_repeats_are_counted_and_count_again() -> None:
    again = np.concatenate([SETS.bank[100:], SETS.queries, SETS.queries[:1]])
    found = unhub.merge(fitted("is"), SETS.items, again)
    assert found.cost.notes[-1] == "20 of 38 merged queries were in the bank before and count again"
    refit = unhub.fit(SETS.items, np.concatenate([SETS.bank, again]), "is")
    assert_allclose(whole_h(found), whole_h(refit), rtol=0, atol=1e-6)
    assert not unhub.merge(fitted("is"), SETS.items, SETS.queries).cost.notes


# Items among others.


def test_items_are_taken_by_their_ids_in_any_order() -> None:
    names = np.array([f"n{row}" for row in range(34)])
    some = Vectors(names[:30], SETS.items[:30])
    before = unhub.fit(some, SETS.bank[:80], "is")
    expected = whole_h(unhub.merge(before, some, SETS.bank[80:]))
    every = Vectors(names[::-1], SETS.items[::-1])
    assert_array_equal(whole_h(unhub.merge(before, every, SETS.bank[80:])), expected)
    with pytest.raises(ValueError, match=r"^items has 34 rows, the correction was fitted on 30"):
        unhub.merge(before, SETS.items, SETS.bank[80:])
    wrong = SETS.items[::-1].copy()
    wrong[33] += 1
    with pytest.raises(ValueError, match=r"^items differs from the items of the fit in 1 rows, the first of item 'n0'"):
        unhub.merge(before, Vectors(names[::-1], wrong), SETS.bank[80:])


def test_rows_that_are_longer_than_the_fit_are_taken_by_their_numbers() -> None:
    smaller = unhub.remove(fitted("is", bank=80), [0, 7])
    expected = unhub.merge(smaller, np.delete(SETS.items, [0, 7], axis=0), SETS.bank[80:])
    assert_array_equal(whole_h(unhub.merge(smaller, SETS.items, SETS.bank[80:])), whole_h(expected))
    with pytest.raises(ValueError, match=r"^items differs from the items of the fit in 32 rows, the first at 0"):
        unhub.merge(smaller, SETS.items[::-1], SETS.bank[80:])
