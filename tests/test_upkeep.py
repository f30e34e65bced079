"""A correction follows its items and its bank: extend, remove and merge against a refit."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tests import oracles
from tests.bank_cases import BIASES, GATED, PLANS, RESCORES, Floats, Sets, drawn, fitted, whole, whole_h
from tests.runners import Pickled
from unhub.arrays import Float32
from unhub.compute.workers import elsewhere
from unhub.correction import Bias, Correction, Rescore
from unhub.data.similarity import Block, Dense, Dot
from unhub.data.vectors import Vectors
from unhub.fitting import fit
from unhub.methods import parse
from unhub.upkeep import extend, merge, remove

BALANCED = ("sn:tau=0.05", "dbsn:tau=0.05", "sn:tau=0.02")
EXACT = tuple(spec for spec in BIASES + GATED if not spec.startswith(("sn", "dbsn")))
KEPT_WHEN_ASKED = ("nnn", "csls", "dualis")


def refitted(spec: str, items: Floats | Vectors, bank: Floats, sets: Sets) -> Bias:
    correction = fit(items, bank, method=spec, bank_items=sets.bank_items, similarity=sets.kind, threads=1)
    assert isinstance(correction, Bias)
    return correction


def first(spec: str, sets: Sets, items: int = 30, bank: int = 200, mergeable: bool = False) -> Bias:
    """Fit on the first items and the first bank queries."""
    correction = fit(
        sets.items[:items],
        sets.bank[:bank],
        method=spec,
        bank_items=sets.bank_items,
        similarity=sets.kind,
        threads=1,
        mergeable=mergeable,
    )
    assert isinstance(correction, Bias)
    return correction


def centred(h: Floats) -> Floats:
    return np.asarray(h - h.mean())


def assert_equal_to_refit(found: Correction, refit: Bias, atol: float = 1e-6) -> None:
    """Check h up to one constant, the ids, the contents, the gate, and what later changes will need."""
    assert isinstance(found, Bias)
    assert_allclose(centred(found.bias), centred(refit.bias), rtol=0, atol=atol)
    assert_array_equal(found.ids, refit.ids)
    assert_array_equal(found.item_hashes, refit.item_hashes)
    assert found.source == refit.source
    assert found.spec == refit.spec
    for name in ("active", "best_items"):
        assert (name in found.arrays) == (name in refit.arrays)
        if name in refit.arrays:
            assert_array_equal(found.arrays[name], refit.arrays[name])


# New items.


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("spec", EXACT)
def test_extending_is_equal_to_a_refit(spec: str, kind: str) -> None:
    sets = drawn(60).under("cosine" if kind == "cosine" else "dot")
    found = extend(first(spec, sets, bank=301), sets.items[30:], sets.bank, bank_items=sets.bank_items)
    assert_equal_to_refit(found, refitted(spec, sets.items, sets.bank, sets), atol=1e-6 if kind == "cosine" else 1e-5)


@pytest.mark.parametrize("spec", EXACT + BALANCED)
def test_extending_leaves_old_rows_alone_and_gives_new_ones_the_same_offset(spec: str) -> None:
    sets = drawn(61)
    before = first(spec, sets, bank=301)
    after = extend(before, sets.items[30:], sets.bank, bank_items=sets.bank_items)
    assert isinstance(after, Bias)
    assert after.offset == before.offset
    assert_array_equal(after.bias[:30], before.bias)
    assert len(after) == 41 and len(before) == 30


@pytest.mark.parametrize("spec", BALANCED)
def test_extending_a_balance_by_its_own_items_gives_them_their_h(spec: str) -> None:
    sets = drawn(62)
    before = first(spec, sets, bank=301)
    after = extend(before, Vectors(np.arange(30) + 100, sets.items[:30]), sets.bank, bank_items=sets.bank_items)
    assert isinstance(after, Bias)
    assert_allclose(after.bias[30:], before.bias, rtol=0, atol=1e-6)


@pytest.mark.parametrize("spec", BALANCED)
def test_an_extended_balance_is_close_to_a_refit_and_closer_with_warm_iterations(spec: str) -> None:
    sets = drawn(63)
    before, refit = first(spec, sets, bank=301), refitted(spec, sets.items, sets.bank, sets)
    raw = distance(np.zeros(41), refit.bias)
    errors = []
    for warm in (0, 1, 3, 10):
        found = extend(before, sets.items[30:], sets.bank, bank_items=sets.bank_items, items=sets.items[:30], warm=warm)
        errors.append(distance(found, refit.bias))
    assert errors[0] < raw / 2
    assert errors[1] < errors[0]
    assert errors[2] < errors[0] / 2
    assert errors[3] < errors[2]


def distance(found: Correction | Floats, h: Floats) -> float:
    """Largest difference between two biases, up to one constant."""
    if isinstance(found, Bias):
        found = found.bias
    assert isinstance(found, np.ndarray)
    return float(np.ptp(found - h)) / 2


def test_warm_iterations_are_iterations_over_everything() -> None:
    sets = drawn(64)
    before = first("sn:tau=0.05", sets, bank=301)
    grown = extend(before, sets.items[30:], sets.bank)
    warmed = extend(before, sets.items[30:], sets.bank, items=sets.items[:30], warm=2)
    log_beta = -whole_h(grown) / 0.05
    for _ in range(2):
        log_alpha = -np.log(301) - np.log(np.exp(sets.bank_scores / 0.05 + log_beta).sum(axis=1))
        log_beta = -np.log(41) - np.log(np.exp(sets.bank_scores / 0.05 + log_alpha[:, None]).sum(axis=0))
    assert_allclose(whole_h(warmed), -0.05 * log_beta, rtol=0, atol=1e-6)
    row_error, _ = oracles.marginal_errors(sets.bank_scores, log_alpha, whole_h(warmed), 0.05)
    assert warmed.cost.row_error == pytest.approx(row_error, rel=1e-2)


def test_marginal_errors_of_the_fit_are_not_stated_of_what_came_after() -> None:
    sets = drawn(64)
    before = first("sn:tau=0.05", sets, bank=301)
    assert before.cost.row_error is not None
    for after in (extend(before, sets.items[30:], sets.bank), remove(before, [0])):
        assert after.cost.row_error is None and after.cost.column_error is None


def test_an_error_stays_stated_and_where_a_fit_ran_does_not() -> None:
    sets = drawn(41, items=40, bank=260)
    fit_cost = first("is", sets).cost
    stated = dataclasses.replace(fit_cost, pairs=9, error=0.1, how="a sample", notes=("on Ray, 3 machines", "stays"))
    fitted_there = dataclasses.replace(first("is", sets), cost=stated)
    grown = extend(fitted_there, sets.items[30:], sets.bank[:200])
    merged = merge(fitted_there, sets.items[:30], sets.bank[200:])
    for cost in (grown.cost, merged.cost):
        assert (cost.pairs, cost.error, cost.how, cost.notes) == (None, 0.1, "a sample", ("stays",))
    with elsewhere(Pickled(2)):
        assert extend(fitted_there, sets.items[30:], sets.bank[:200]).cost.notes == ("stays", Pickled.note)
        assert merge(fitted_there, sets.items[:30], sets.bank[200:]).cost.notes == ("stays", Pickled.note)


@pytest.mark.parametrize("spec", ["dn", "cent"])
def test_mean_scores_are_read_where_the_runner_is(spec: str) -> None:
    sets = drawn(41, items=40, bank=260)
    fitted_here, growing, merging = first(spec, sets), Pickled(2), Pickled(2)
    with elsewhere(growing):
        extend(fitted_here, sets.items[30:], sets.bank[:200])
    with elsewhere(merging):
        merge(fitted_here, sets.items[:30], sets.bank[200:])
    assert growing.jobs > 2 and merging.jobs > 2  # two look at the rows that are given


def test_sinkhorn_fitted_beside_dbsn_needs_no_bank_items_to_grow() -> None:
    sets = drawn(65)
    sn, _ = fit(
        sets.items[:30], sets.bank, method=["sn:tau=0.05", "dbsn:tau=0.05"], bank_items=sets.bank_items, threads=1
    )
    alone = first("sn:tau=0.05", sets, bank=301)
    for warm in (0, 2):
        grown = extend(sn, sets.items[30:], sets.bank, items=sets.items[:30], warm=warm)
        assert_array_equal(
            whole_h(grown),
            whole_h(
                extend(alone, sets.items[30:], sets.bank, items=sets.items[:30], bank_items=sets.bank_items, warm=warm)
            ),
        )


def test_new_items_go_on_counting() -> None:
    sets = drawn(66)
    items = Vectors(np.array([7, 3, 12]), sets.items[:3])
    correction = fit(items, sets.bank, threads=1)
    assert extend(correction, sets.items[3:5], sets.bank).ids.tolist() == [7, 3, 12, 13, 14]
    named = extend(correction, Vectors(np.array([1, 0]), sets.items[3:5]), sets.bank)
    assert named.ids.tolist() == [7, 3, 12, 1, 0]


def test_names_follow_the_items() -> None:
    sets = drawn(66)
    correction = fit(Vectors(np.array(["a", "b"]), sets.items[:2]), sets.bank, method="dis", threads=1)
    grown = extend(correction, Vectors(np.array(["a long name"]), sets.items[2:3]), sets.bank)
    assert grown.ids.tolist() == ["a", "b", "a long name"]
    known = Vectors(grown.ids, sets.items[:3])
    assert remove(grown, "b", items=known, bank=sets.bank).ids.tolist() == ["a", "a long name"]
    assert_equal_to_refit(
        remove(grown, ["b"], items=known, bank=sets.bank),
        refitted_plain("dis", Vectors(np.array(["a", "a long name"]), sets.items[[0, 2]]), sets.bank),
    )


def refitted_plain(spec: str, items: Floats | Vectors, bank: Floats) -> Bias:
    correction = fit(items, bank, method=spec, threads=1)
    assert isinstance(correction, Bias)
    return correction


def test_extending_keeps_what_merging_needs() -> None:
    sets = drawn(67)
    for spec in KEPT_WHEN_ASKED:
        grown = extend(
            first(spec, sets, bank=200, mergeable=True), sets.items[30:], sets.bank[:200], bank_items=sets.bank_items
        )
        merged = merge(grown, sets.items, sets.bank[200:])
        assert_equal_to_refit(merged, refitted(merged.spec, sets.items, sets.bank, sets))


# Fewer items.


@pytest.mark.parametrize("spec", EXACT)
def test_removing_is_equal_to_a_refit(spec: str) -> None:
    sets = drawn(70)
    gone = [40, 0, 7, 8, 21]
    before = refitted(spec, sets.items, sets.bank, sets)
    after = remove(before, gone, items=sets.items, bank=sets.bank, bank_items=sets.bank_items)
    stays = np.setdiff1d(np.arange(41), gone)
    assert_equal_to_refit(after, refitted(spec, Vectors(stays, sets.items[stays]), sets.bank, sets))


@pytest.mark.parametrize("spec", [spec for spec in EXACT + BALANCED if not spec.startswith("dis")])
def test_removing_needs_nothing_but_ids_and_drops_rows(spec: str) -> None:
    sets = drawn(71)
    before = refitted(spec, sets.items, sets.bank, sets)
    after = remove(before, [3, 5])
    assert isinstance(after, Bias)
    assert_array_equal(after.bias, np.delete(before.bias, [3, 5]))
    assert after.offset == before.offset
    assert 3 not in after.ids and len(after) == 39


@pytest.mark.parametrize("k", [1, 2, 5])
def test_items_leave_and_enter_the_activation_set(k: int) -> None:
    sets = whole(72, items=20, bank=15)  # with many ties
    before = refitted(f"dis:k={k}", sets.items, sets.bank, sets)
    assert before.active is not None
    gone = np.flatnonzero(before.active)[:3]
    stays = np.setdiff1d(np.arange(20), gone)
    after = remove(before, gone, items=sets.items, bank=sets.bank)
    refit = refitted(f"dis:k={k}", Vectors(stays, sets.items[stays]), sets.bank, sets)
    assert_equal_to_refit(after, refit)
    assert refit.active is not None
    assert k == 5 or (refit.active & ~before.active[stays]).any()  # some entered, where there were any outside


def test_the_gate_needs_the_bank_only_where_a_best_item_goes() -> None:
    sets = drawn(73, bank=5)
    dis = refitted("dis", sets.items, sets.bank, sets)
    assert dis.active is not None
    idle, busy = int(np.flatnonzero(~dis.active)[0]), int(np.flatnonzero(dis.active)[0])
    stays = np.delete(np.arange(41), idle)
    assert_equal_to_refit(remove(dis, [idle]), refitted("dis", Vectors(stays, sets.items[stays]), sets.bank, sets))
    with pytest.raises(
        ValueError,
        match=r"^ids names items .* \d+ bank queries, .*'dis'.*; give the items as .* before the removal, and the bank",
    ):
        remove(dis, [busy])


@pytest.mark.parametrize("spec", BALANCED[:2])
def test_warm_iterations_bring_back_the_balance_after_a_removal(spec: str) -> None:
    sets = drawn(74)
    before = refitted(spec, sets.items, sets.bank, sets)
    stays = np.arange(10, 41)
    refit = refitted(spec, sets.items[stays], sets.bank, sets)
    errors = []
    for warm in (0, 3, 10):
        after = remove(
            before, np.arange(10), items=sets.items, bank=sets.bank, bank_items=sets.bank_items, warm=warm, threads=1
        )
        errors.append(distance(after, refit.bias))
    assert errors[1] < 0.75 * errors[0]
    assert errors[2] < errors[1]


@pytest.mark.parametrize("spec", PLANS)
def test_a_plan_only_forgets_the_ids(spec: str) -> None:
    plan = fit(np.eye(4), method=spec)
    assert remove(plan, [1, 2]).ids.tolist() == [0, 3]


# More bank.


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("spec", EXACT)
def test_merging_is_equal_to_a_refit(spec: str, kind: str) -> None:
    sets = drawn(80).under("cosine" if kind == "cosine" else "dot")
    before = first(spec, sets, items=41, mergeable=True)
    after = merge(before, sets.items, sets.bank[200:])
    assert isinstance(after, Bias)
    refit = refitted(spec, sets.items, sets.bank, sets)
    assert_equal_to_refit(after, refit, atol=1e-6 if kind == "cosine" else 1e-5)
    assert_allclose(after.offset, refit.offset, rtol=1e-6)  # uncentred values were merged, so the constant agrees too


@pytest.mark.parametrize("spec", [spec for spec in EXACT if not spec.startswith(KEPT_WHEN_ASKED)])
def test_most_methods_merge_without_being_asked_to(spec: str) -> None:
    sets = drawn(81)
    after = merge(first(spec, sets, items=41, mergeable=False), sets.items, sets.bank[200:])
    assert_equal_to_refit(after, refitted(spec, sets.items, sets.bank, sets))


@pytest.mark.parametrize("spec", KEPT_WHEN_ASKED)
def test_merging_what_was_not_kept_says_how_to_keep_it(spec: str) -> None:
    sets = drawn(82)
    with pytest.raises(
        ValueError, match=rf"^correction of '{spec}' does not keep what merging needs; fit again on the whole bank"
    ):
        merge(first(spec, sets, items=41), sets.items, sets.bank[200:])


@settings(max_examples=25)
@given(
    spec=st.sampled_from(["nnn:k=5", "csls:k=3", "is", "dis", "dis:k=2", "dualis", "dn", "cent"]),
    seed=st.integers(0, 20),
    more=st.integers(1, 8),
)
def test_merging_a_few_queries_at_a_time_is_equal_to_a_refit(spec: str, seed: int, more: int) -> None:
    sets = whole(seed, items=12, bank=40)
    sets = dataclasses.replace(sets, bank=sets.bank + np.arange(40)[:, None] / 64)  # no query twice
    found: Correction = first(spec, sets, items=12, bank=20, mergeable=True)
    for start in range(20, 40, more):
        found = merge(found, sets.items, sets.bank[start : min(start + more, 40)])
    assert_equal_to_refit(found, refitted(spec, sets.items, sets.bank, sets), atol=1e-5)


@pytest.mark.parametrize("spec", BALANCED)
def test_a_merged_balance_is_closer_to_a_refit_than_before(spec: str) -> None:
    sets = drawn(83)
    before = first(spec, sets, items=41, bank=150)
    refit = refitted(spec, sets.items, sets.bank, sets)
    after = merge(before, sets.items, sets.bank[150:], bank_items=sets.bank_items)
    assert distance(after, refit.bias) < 0.75 * distance(before, refit.bias)
    assert after.source == refit.source
    assert after.arrays["log_alpha"].shape == (301,)


@pytest.mark.parametrize("spec", BALANCED)
def test_a_balance_that_changed_still_gives_its_own_items_their_level(spec: str) -> None:
    sets = drawn(84)
    bank = sets.bank[:200]
    now: Correction = extend(first(spec, sets, items=20), sets.items[20:], bank, bank_items=sets.bank_items)
    now = remove(now, np.arange(5))
    now = merge(now, sets.items[5:], sets.bank[200:], bank_items=sets.bank_items)
    copies = Vectors(np.arange(100, 136), sets.items[5:])
    again = extend(now, copies, sets.bank, bank_items=sets.bank_items)
    assert isinstance(again, Bias)
    gap = again.bias[36:] - again.bias[:36]  # merging averages h, which no alpha of the old queries leads to exactly
    assert abs(gap.mean()) < 0.1 * again.bias[:36].std()
    assert gap.std() < 0.5 * again.bias[:36].std()


# Several changes, one after another.


@pytest.mark.parametrize("spec", EXACT)
def test_a_chain_of_changes_is_equal_to_a_refit(spec: str) -> None:
    sets = drawn(90)
    now: Correction = first(spec, sets, items=20, bank=200, mergeable=True)
    now = extend(now, sets.items[20:30], sets.bank[:200], bank_items=sets.bank_items)
    now = merge(now, sets.items[:30], sets.bank[200:280], bank_items=sets.bank_items)
    gone = [2, 19, 25]
    stays = np.setdiff1d(np.arange(30), gone)
    now = remove(now, gone, items=sets.items[:30], bank=sets.bank[:280], bank_items=sets.bank_items)
    now = extend(now, sets.items[30:], sets.bank[:280], bank_items=sets.bank_items)
    left = np.concatenate([stays, np.arange(30, 41)])
    now = merge(now, sets.items[left], sets.bank[280:])
    refit = refitted(now.spec, Vectors(left, sets.items[left]), sets.bank, sets)
    assert_equal_to_refit(now, refit)


@pytest.mark.parametrize("spec", BALANCED)
def test_a_chain_of_changes_keeps_a_balance_close(spec: str) -> None:
    sets = drawn(91)
    now: Correction = first(spec, sets, items=30, bank=250)
    now = extend(now, sets.items[30:], sets.bank[:250], bank_items=sets.bank_items, items=sets.items[:30], warm=3)
    now = merge(now, sets.items, sets.bank[250:], bank_items=sets.bank_items)
    now = remove(now, [0, 1], items=sets.items, bank=sets.bank, bank_items=sets.bank_items, warm=3)
    refit = refitted(spec, Vectors(np.arange(2, 41), sets.items[2:]), sets.bank, sets)
    assert distance(now, refit.bias) < 0.1 * np.ptp(refit.bias)
    assert now.source == refit.source


def test_a_correction_of_its_own_is_returned() -> None:
    sets = drawn(92)
    before = first("is", sets)
    kept = before.bias.copy(), before.ids.copy()
    extend(before, sets.items[30:], sets.bank[:200])
    merge(before, sets.items[:30], sets.bank[200:])
    remove(before, [0])
    assert_array_equal(before.bias, kept[0])
    assert_array_equal(before.ids, kept[1])


# The work it takes.


@dataclass
class Counted:
    """How many (query, item) pairs were multiplied."""

    pairs: int = 0

    def wrap(self, multiply: Callable[[Dot, Block, Block, Float32], None]) -> Callable[..., None]:
        def counting(similarity: Dot, rows: Block, columns: Block, out: Float32) -> None:
            self.pairs += out.size
            multiply(similarity, rows, columns, out)

        return counting


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    for name in ("items_by_queries", "queries_by_items"):
        monkeypatch.setattr(Dot, name, counted.wrap(getattr(Dot, name)))
    return counted


@pytest.mark.parametrize("spec", [*EXACT, *BALANCED])
def test_new_items_cost_their_own_work(spec: str, counted: Counted) -> None:
    sets = drawn(93, items=500)
    before = first(spec, sets, items=490, bank=301)
    counted.pairs = 0
    after = extend(before, sets.items[490:], sets.bank, bank_items=sets.bank_items)
    assert counted.pairs <= 10 * (301 + 23)
    assert after.cost.passes <= 2


def test_counting_counts(counted: Counted) -> None:
    fitted("is", drawn(93))
    assert counted.pairs == 41 * 301


@pytest.mark.parametrize("spec", EXACT)
def test_new_queries_cost_their_own_work(spec: str, counted: Counted) -> None:
    sets = drawn(94)
    before = first(spec, sets, items=41, mergeable=True)
    counted.pairs = 0
    merge(before, sets.items, sets.bank[200:])
    assert counted.pairs <= 41 * 101


def test_removing_looks_again_only_where_a_best_item_went(counted: Counted) -> None:
    sets = drawn(95)
    before = refitted("dis", sets.items, sets.bank, sets)
    best = before.arrays["best_items"][:, 0]
    item = int(np.bincount(best.astype(np.int64)).argmax())
    counted.pairs = 0
    remove(before, [item], items=sets.items, bank=sets.bank)
    assert counted.pairs == int((best == item).sum()) * 40
    assert counted.pairs < 41 * 301


# What was there already.


def test_new_items_with_the_contents_of_old_ones_are_noted() -> None:
    sets = drawn(70)
    before = first("nnn:k=5", sets)
    copies = np.concatenate([sets.items[30:33], sets.items[[4, 9]]])
    after = extend(before, copies, sets.bank[:200])
    note = "2 of 5 new items have the contents of old ones: 33 is a copy of 4"
    assert after.cost.notes == (*before.cost.notes, note)
    assert len(after) == 35
    assert extend(before, sets.items[30:33], sets.bank[:200]).cost.notes == before.cost.notes


def test_the_old_gallery_among_unnamed_new_items_is_refused() -> None:
    sets = drawn(71)
    before = first("is", sets)
    words = (
        r"^new_items begins with the 30 items that the correction already has; give only the new ones, from row 30 on$"
    )
    for rows in (sets.items[:30], sets.items):
        with pytest.raises(ValueError, match=words):
            extend(before, rows, sets.bank[:200])
    named = extend(before, Vectors(np.arange(100, 130), sets.items[:30]), sets.bank[:200])
    assert named.cost.notes == ("30 of 30 new items have the contents of old ones: 100 is a copy of 0",)


@pytest.mark.parametrize("spec", ["raw", "is", "dis", "sn:tau=0.05"])
def test_the_bank_of_the_fit_is_not_merged_again(spec: str) -> None:
    sets = drawn(72)
    before = first(spec, sets)
    with pytest.raises(ValueError, match=r"^more_bank is the bank of 200 queries that the correction was fitted"):
        merge(before, sets.items[:30], sets.bank[:200].astype(np.float64))
    merged = merge(before, sets.items[:30], sets.bank[200:])
    with pytest.raises(ValueError, match=r"^more_bank is the bank of 301 queries"):
        merge(merged, sets.items[:30], sets.bank)


def test_one_query_may_be_asked_again() -> None:
    sets = drawn(72)
    one = fit(sets.items, sets.bank[:1], method="is")
    merged = merge(one, sets.items, sets.bank[[0, 1, 2]])
    refitted = fit(sets.items, sets.bank[[0, 0, 1, 2]], method="is")
    assert_allclose(whole_h(merged), whole_h(refitted), rtol=0, atol=1e-6)


@pytest.mark.parametrize("spec", ["raw", "is", "dis", "sn:tau=0.05"])
def test_a_bank_that_begins_with_that_of_the_fit_is_not_merged(spec: str) -> None:
    sets = drawn(72)
    before = first(spec, sets)
    words = (
        r"^more_bank begins with the bank of 200 queries that the correction was fitted on; "
        r"give only the new queries, from row 200 on$"
    )
    with pytest.raises(ValueError, match=words):
        merge(before, sets.items[:30], sets.bank)
    merged = merge(before, sets.items[:30], sets.bank[200:250])
    with pytest.raises(ValueError, match=r"^more_bank begins with the bank of 250 queries"):
        merge(merged, sets.items[:30], sets.bank)
    assert merge(before, sets.items[:30], sets.bank[1:]).source.bank != before.source.bank


def test_raw_follows_without_a_bank() -> None:
    sets = drawn(73)
    before = fit(sets.items[:30], method="raw")
    assert len(extend(before, sets.items[30:], sets.bank)) == 41
    assert merge(before, sets.items[:30], sets.bank).source.bank == first("raw", sets, bank=301).source.bank


def test_corrections_of_one_pass_share_what_merging_needs() -> None:
    sets = drawn(74)
    specs = ["nnn:k=5,alpha=0.5", "nnn:k=5,alpha=1.0", "nnn:k=3,alpha=1.0"]
    same, other, fewer = fit(sets.items, sets.bank, method=specs, mergeable=True)
    assert np.shares_memory(same.arrays["top_values"], other.arrays["top_values"])
    assert fewer.arrays["top_values"].shape == (41, 3)
    assert fewer.arrays["top_values"].flags.owndata  # it does not hold on to the larger array
    assert_array_equal(fewer.arrays["top_values"], same.arrays["top_values"][:, :3])


# What is refused.


@pytest.mark.parametrize("spec", RESCORES)
def test_what_cannot_follow_is_refused_with_refit(spec: str) -> None:
    sets = drawn(96)
    correction = fitted(spec, sets)
    assert isinstance(correction, Rescore)
    changes: tuple[Callable[[], Correction], ...] = (
        lambda: extend(correction, sets.items[:2], sets.bank, bank_items=sets.bank_items),
        lambda: merge(correction, sets.items, sets.bank),
        lambda: remove(correction, [0]),
    )
    for change in changes:
        with pytest.raises(ValueError, match="refit"):
            change()


def test_a_correction_of_a_given_matrix_is_refused_with_refit() -> None:
    given_matrix = fit(Dense(drawn().bank_scores), method="is")
    with pytest.raises(
        ValueError, match=r"similarity matrix and has no vectors: cannot extend it; refit on the matrix as it is now"
    ):
        extend(given_matrix, drawn().items, drawn().bank)
    by_rank = fit(Dense(drawn().bank_scores), method="gc")
    assert isinstance(by_rank, Rescore)
    with pytest.raises(ValueError, match=r"was fitted on a similarity matrix and has no vectors; .*apply"):
        by_rank.bind(drawn().items)


@pytest.mark.parametrize("spec", [spec for spec in BIASES if not spec.startswith(("sn", "db"))])
def test_removing_from_a_correction_of_a_given_matrix_is_equal_to_a_refit(spec: str) -> None:
    sets = drawn(74)
    gone, method = [0, 7, 40], parse(spec)
    targets = sets.target_scores if method.dual else None
    before = fit(Dense(sets.bank_scores), method=spec, bank_items=None if targets is None else Dense(targets))
    after = remove(before, gone)
    fewer = Dense(np.delete(sets.bank_scores, gone, axis=1))
    fewer_targets = None if targets is None else Dense(np.delete(targets, gone, axis=1))
    refitted = fit(fewer, method=spec, bank_items=fewer_targets)
    assert_allclose(whole_h(after), whole_h(refitted), rtol=0, atol=1e-6)
    assert after.ids.tolist() == np.delete(np.arange(41), gone).tolist()


def test_removing_from_a_given_matrix_takes_no_vectors() -> None:
    sets = drawn(75)
    balanced = fit(Dense(sets.bank_scores), method="sn:tau=0.05")
    assert len(remove(balanced, [3])) == 40
    with pytest.raises(ValueError, match=r"similarity matrix and has no vectors: cannot remove from it; refit"):
        remove(balanced, [3], items=sets.items, bank=sets.bank, warm=2)
    gated = fit(Dense(sets.bank_scores), method="dis")
    assert isinstance(gated, Bias) and gated.active is not None
    with pytest.raises(
        ValueError, match=r"^ids names items .* of \d+ bank queries, .* must find others for those; refit"
    ):
        remove(gated, np.flatnonzero(gated.active)[:1])
    idle = np.flatnonzero(~gated.active)[:2]
    smaller = remove(gated, idle)
    assert isinstance(smaller, Bias)
    assert_array_equal(smaller.active, np.delete(gated.active, idle))


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ("is", "nothing"),
        ("csls:k=3", "the top 3 bank scores of each item"),
        ("nnn:k=7", "the top 7 bank scores of each item"),
        ("dualis", "the two log-sums of each item"),
        ("dis:k=2", "the top 2 items of each bank query"),
    ],
)
def test_each_change_states_what_is_kept(spec: str, kept: str) -> None:
    sets = drawn(76)
    before = first(spec, sets, mergeable=True)
    assert before.cost.kept == kept
    grown = extend(before, sets.items[30:], sets.bank[:200], bank_items=sets.bank_items)
    assert grown.cost.kept == kept
    assert merge(before, sets.items[:30], sets.bank[200:]).cost.kept == kept
    assert (
        remove(before, [0], items=sets.items[:30], bank=sets.bank[:200], bank_items=sets.bank_items).cost.kept == kept
    )


def test_another_bank_is_refused() -> None:
    sets = drawn(97)
    correction = first("is", sets, bank=200)
    new = sets.items[30:]
    other = sets.bank[:200].copy()
    other[150, 3] += 0.5
    words = r"^bank lacks 1 of the 200 queries that the correction was fitted on; give all .*, in any order, or refit$"
    with pytest.raises(ValueError, match=words):
        extend(correction, new, other)
    with pytest.raises(ValueError, match=words):
        extend(correction, new, sets.bank[:199])
    with pytest.raises(ValueError, match=r"^bank has 8 dimensions, the correction 16"):
        extend(correction, new, sets.bank[:200, :8])


def test_the_same_bank_in_another_dtype_and_layout_is_the_same_bank() -> None:
    sets = drawn(97)
    correction = first("is", sets, bank=200)
    same = np.asfortranarray(sets.bank[:200].astype(np.float32))
    assert_array_equal(
        whole_h(extend(correction, sets.items[30:], same)),
        whole_h(extend(correction, sets.items[30:], sets.bank[:200])),
    )


@pytest.mark.parametrize("spec", ["dualis", "dbsn:tau=0.05"])
def test_other_bank_items_are_refused(spec: str) -> None:
    sets = drawn(97)
    correction = first(spec, sets, bank=301)
    with pytest.raises(
        ValueError, match=r"^bank_items is missing, and '.*' was fitted with bank items; give them again"
    ):
        extend(correction, sets.items[30:], sets.bank)
    with pytest.raises(ValueError, match=r"^bank_items differs from the one of the fit"):
        extend(correction, sets.items[30:], sets.bank, bank_items=sets.bank_items[::-1])


def test_other_items_are_refused() -> None:
    sets = drawn(97)
    correction = first("is", sets)
    more = sets.bank[200:]
    other = sets.items[:30].copy()
    other[4] += 1
    with pytest.raises(ValueError, match=r"^items differs from the items of the fit in 1 rows, the first at 4"):
        merge(correction, other, more)
    with pytest.raises(ValueError, match=r"^items has 29 rows, the correction was fitted on 30"):
        merge(correction, sets.items[:29], more)
    with pytest.raises(ValueError, match=r"^items lacks 1 of the 30 items of the correction, for example 0"):
        merge(correction, Vectors(np.arange(1, 31), sets.items[:30]), more)
    with pytest.raises(ValueError, match=r"^items lacks 30 of the 30 items of the correction, for example 0"):
        merge(correction, Vectors(np.arange(30).astype(str), sets.items[:30]), more)
    with pytest.raises(ValueError, match=r"^items differs from the items of the fit in "):
        remove(correction, [0], items=sets.items[:30][::-1], bank=sets.bank[:200])
    with pytest.raises(ValueError, match=r"^more_bank has 8 dimensions"):
        merge(correction, sets.items[:30], more[:, :8])
    with pytest.raises(ValueError, match=r"^new_items has 8 dimensions"):
        extend(correction, sets.items[30:, :8], sets.bank[:200])


def nan_row() -> Floats:
    rows = np.ones((3, 16))
    rows[2, 5] = np.nan
    return rows


def test_bad_rows_are_refused_by_name() -> None:
    sets = drawn(97)
    correction = first("is", sets)
    with pytest.raises(ValueError, match=r"^new_items holds nan in row 2"):
        extend(correction, nan_row(), sets.bank[:200])
    with pytest.raises(ValueError, match=r"^more_bank holds nan in row 2"):
        merge(correction, sets.items[:30], nan_row())


def test_ids_that_repeat_or_are_unknown_are_refused() -> None:
    sets = drawn(97)
    correction = first("is", sets)
    bank = sets.bank[:200]
    with pytest.raises(
        ValueError, match=r"has 1 of 2 items that the correction has already, for example 29; give only the new"
    ):
        extend(correction, Vectors(np.array([29, 30]), sets.items[30:32]), bank)
    with pytest.raises(ValueError, match="all integers or all strings"):
        extend(correction, Vectors(np.array(["a"]), sets.items[30:31]), bank)
    with pytest.raises(ValueError, match=r"^ids has 2 unknown ids, for example .*77"):
        remove(correction, [1, 77, 78])
    with pytest.raises(ValueError, match=r"^ids has ids that are strings, the ids here are integers"):
        remove(correction, ["a"])
    with pytest.raises(ValueError, match=r"^ids names all 30 items"):
        remove(correction, np.arange(30))


def test_named_items_want_names_for_the_new_ones() -> None:
    sets = drawn(97)
    named = fit(Vectors(np.array(["a", "b"]), sets.items[:2]), sets.bank, threads=1)
    with pytest.raises(ValueError, match=r"^new_items has no ids.*give ids with the new items"):
        extend(named, sets.items[2:4], sets.bank)


@pytest.mark.parametrize("warm", [-1, 1.5, True, "3"])
def test_warm_must_be_a_count(warm: int) -> None:
    sets = drawn(97)
    correction = first("sn:tau=0.05", sets)
    items, bank = sets.items[:30], sets.bank[:200]
    changes: tuple[Callable[[], Correction], ...] = (
        lambda: extend(correction, sets.items[30:], bank, items=items, warm=warm),
        lambda: remove(correction, [0], items=items, bank=bank, warm=warm),
    )
    for change in changes:
        with pytest.raises(ValueError, match=r"^warm must be a whole number"):
            change()


def test_warm_iterations_ask_for_what_they_go_over_before_anything_is_computed(counted: Counted) -> None:
    sets = drawn(97)
    correction = first("sn:tau=0.05", sets)
    counted.pairs = 0
    with pytest.raises(
        ValueError,
        match=r"^warm is 2, and iterations of 'sn' go over the whole bank and all items; give the items too$",
    ):
        extend(correction, sets.items[30:], sets.bank[:200], warm=2)
    with pytest.raises(
        ValueError,
        match="warm is 2, and iterations of 'sn' go over the whole bank and all items; give the items and the bank too",
    ):
        remove(correction, [0], warm=2)
    with pytest.raises(ValueError, match=r"^warm must be a whole number"):
        extend(correction, sets.items[30:], sets.bank[:200], items=sets.items[:30], warm=-1)
    assert counted.pairs == 0


def test_no_ids_remove_nothing() -> None:
    correction = first("is", drawn())
    same = remove(correction, np.empty(0, np.int64))
    assert isinstance(same, Bias)
    assert_array_equal(same.bias, correction.bias)
