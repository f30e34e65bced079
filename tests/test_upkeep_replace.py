"""Items that were embedded again: `replace` against a refit, in a searcher too."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests.bank_cases import BIASES, GATED, PLANS, RESCORES, Floats, Sets, drawn, fitted, whole
from unhub.correction import Bias, Correction
from unhub.data.vectors import Gathered, Stacked, Vectors

BALANCED = ("sn:tau=0.05", "dbsn:tau=0.05")
EXACT = tuple(spec for spec in BIASES + GATED if not spec.startswith(("sn", "dbsn")))
SETS = drawn(51)
PLACES = np.array([40, 0, 7, 21])


def after_change(sets: Sets, places: np.ndarray, seed: int = 5) -> Sets:
    """Return the sets with other contents in some of the items."""
    items = sets.items.copy()
    items[places] = np.random.default_rng(seed).permuted(items[places], axis=1) + 1
    return dataclasses.replace(sets, items=items)


def as_bias(correction: Correction) -> Bias:
    assert isinstance(correction, Bias)
    return correction


def assert_same(found: Correction, refit: Correction, atol: float = 1e-6) -> None:
    one, other = as_bias(found), as_bias(refit)
    assert_allclose(one.bias - one.bias.mean(), other.bias, rtol=0, atol=atol)
    assert_array_equal(one.ids, other.ids)
    assert_array_equal(one.item_hashes, other.item_hashes)
    assert one.arrays.keys() == other.arrays.keys()
    for name in ("active", "best_items"):
        if name in other.arrays:
            assert_array_equal(one.arrays[name], other.arrays[name])
    for name in ("top_values", "query_log_sums"):
        if name in other.arrays:
            assert_allclose(
                np.asarray(one.arrays[name], float), np.asarray(other.arrays[name], float), rtol=1e-6, atol=1e-5
            )


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("spec", EXACT)
def test_replacing_is_equal_to_a_refit(spec: str, kind: str) -> None:
    sets = SETS.under("cosine" if kind == "cosine" else "dot")
    now = after_change(sets, PLACES)
    before = fitted(spec, sets, mergeable=True)
    changed = Vectors(PLACES, now.items[PLACES])
    found = unhub.replace(before, changed, sets.bank, bank_items=sets.bank_items, items=sets.items)
    assert_same(found, fitted(spec, now, mergeable=True), atol=1e-6 if kind == "cosine" else 1e-5)
    every = Vectors(np.arange(41), now.items)
    again = unhub.replace(before, every, sets.bank[::-1], bank_items=sets.bank_items)
    assert_array_equal(as_bias(again).bias, as_bias(found).bias)


@settings(max_examples=40)
@given(k=st.integers(1, 4), seed=st.integers(0, 50), places=st.sets(st.integers(0, 11), min_size=1, max_size=11))
def test_the_gate_is_that_of_a_refit_also_where_many_items_are_equally_near(
    k: int, seed: int, places: set[int]
) -> None:
    sets, at = whole(seed, items=12, bank=20), np.array(sorted(places))
    items = sets.items.copy()
    items[at] = whole(seed + 1, items=12).items[at]
    before = fitted(f"dis:k={k}", sets)
    found = unhub.replace(before, Vectors(np.arange(12), items), sets.bank)
    refit = fitted(f"dis:k={k}", dataclasses.replace(sets, items=items))
    assert_array_equal(as_bias(found).active, as_bias(refit).active)
    assert_array_equal(found.arrays["best_items"], refit.arrays["best_items"])


@pytest.mark.parametrize("spec", BALANCED)
def test_a_balance_is_close_to_a_refit_and_closer_with_warm_iterations(spec: str) -> None:
    now = after_change(SETS, PLACES)
    before, refit = fitted(spec, SETS), as_bias(fitted(spec, now))
    changed = Vectors(PLACES, now.items[PLACES])
    errors = []
    for warm, items in ((0, None), (3, SETS.items), (10, now.items)):
        found = unhub.replace(before, changed, SETS.bank, bank_items=SETS.bank_items, items=items, warm=warm)
        errors.append(float(np.ptp(as_bias(found).bias - refit.bias)))
    assert errors[0] < float(np.ptp(refit.bias)) / 2
    assert errors[2] < errors[1] < errors[0]
    with pytest.raises(ValueError, match=r"^warm is 3, .* give the items too$"):
        unhub.replace(before, changed, SETS.bank, bank_items=SETS.bank_items, warm=3)


def test_only_what_changed_is_computed_and_the_rest_is_counted() -> None:
    now = after_change(SETS, PLACES)
    before = fitted("is", SETS)
    found = as_bias(unhub.replace(before, Vectors(np.arange(41), now.items), SETS.bank))
    assert found.cost.notes == ("37 of 41 items have the contents of the fit and stay as they are",)
    others = np.delete(np.arange(41), PLACES)
    assert_array_equal(found.bias[others], as_bias(before).bias[others])
    assert found.cost.passes <= 1
    same = unhub.replace(found, Vectors(np.arange(41), now.items), SETS.bank)
    assert_array_equal(as_bias(same).bias, found.bias)
    assert same.cost.notes == ("41 of 41 items have the contents of the fit and stay as they are",)
    assert same.cost.passes == 0
    witness = found.source.witness
    assert witness is not None and witness.cosines(Vectors(np.arange(41), now.items), "cosine").min() > 0.9999


def test_what_cannot_be_replaced_is_refused() -> None:
    before, bank = fitted("is", SETS), SETS.bank
    with pytest.raises(ValueError, match=r"^changed has no ids; give unhub\.Vectors\(ids, rows\), with the ids of the"):
        unhub.replace(before, SETS.items[:2] + 1, bank)
    with pytest.raises(ValueError, match=r"^changed has 1 items that the correction lacks, for example 99; extend"):
        unhub.replace(before, Vectors(np.array([3, 99]), SETS.items[:2] + 1), bank)
    with pytest.raises(ValueError, match=r"^changed has other contents for all 41 items; fit again"):
        unhub.replace(before, Vectors(np.arange(41), SETS.items + 1), bank)
    with pytest.raises(ValueError, match=r"^changed has 8 dimensions, the correction 16"):
        unhub.replace(before, Vectors(np.array([3]), SETS.items[:1, :8]), bank)
    gated = as_bias(fitted("dis", SETS))
    assert gated.active is not None
    busy = np.flatnonzero(gated.active)[:1]
    with pytest.raises(ValueError, match=r"'dis' must find others for those; give the items"):
        unhub.replace(gated, Vectors(busy, SETS.items[busy] + 1), bank)
    for spec in (*RESCORES[:2], PLANS[0]):
        other = fitted(spec, SETS) if spec in RESCORES else unhub.fit(np.eye(4), method=spec)
        with pytest.raises(ValueError, match="refit"):
            unhub.replace(other, Vectors(np.array([0]), SETS.items[:1] + 1), bank)


@pytest.mark.parametrize("index", ["exact", "faiss:HNSW32"])
@pytest.mark.parametrize("spec", ["is", "dis", "sn:tau=0.05"])
def test_a_searcher_follows(spec: str, index: str) -> None:
    now = after_change(SETS, PLACES)
    searcher = unhub.searcher(SETS.items, fitted(spec, SETS), index=index)
    changed = Vectors(np.arange(41), now.items)
    after = unhub.replace(searcher.correction, changed, SETS.bank, warm=2)
    searcher.replace(changed, after)
    found = searcher.search(SETS.queries, k=5)
    expected = unhub.searcher(now.items, after).search(SETS.queries, k=5)
    assert_array_equal(found.ids, expected.ids)
    assert_allclose(found.scores, expected.scores, rtol=1e-5)
    assert searcher.correction is after


def test_a_searcher_refuses_what_does_not_fit() -> None:
    now = after_change(SETS, PLACES)
    searcher = unhub.searcher(SETS.items, fitted("is", SETS))
    after = unhub.replace(searcher.correction, Vectors(PLACES, now.items[PLACES]), SETS.bank)
    wrong: tuple[tuple[str, Callable[[], None]], ...] = (
        (
            r"^correction covers other items than the 41 held",
            lambda: searcher.replace(Vectors(PLACES, now.items[PLACES]), unhub.remove(after, [1])),
        ),
        (
            r"^changed lacks 1 of the 4 items of the correction, for example 40",
            lambda: searcher.replace(Vectors(PLACES[1:], now.items[PLACES[1:]]), after),
        ),
        (r"^items differs from the items of the fit", lambda: searcher.replace(Vectors(PLACES, rows_of(SETS)), after)),
    )
    for words, call in wrong:
        with pytest.raises(ValueError, match=words):
            call()
    assert searcher.correction is not after


def rows_of(sets: Sets) -> Floats:
    return np.asarray(sets.items[PLACES])


def test_a_searcher_lets_go_of_rows_that_were_replaced() -> None:
    """And of its source, which may be mapped, only what is read is copied."""
    random = np.random.default_rng(0)
    rows, correction = np.array(SETS.items), fitted("nnn", SETS)
    searcher = unhub.searcher(SETS.items, correction)
    for count in (20, 20, 20, 1, 20, 30, 40, 20, 1, 20):
        places = random.choice(41, count, replace=False)
        rows[places] = random.normal(size=(count, rows.shape[1]))
        changed = Vectors(places, rows[places])
        searcher.replace(changed, unhub.replace(searcher.correction, changed, SETS.bank))
        assert_array_equal(np.asarray(searcher.items.rows), rows)
        held = searcher.items.rows
        if isinstance(held, Gathered):
            assert isinstance(held.rows, Stacked)
            assert held.rows.shape[0] <= 2 * 41
            assert all(isinstance(part, np.ndarray) for part in held.rows.parts), "nothing is nested"
