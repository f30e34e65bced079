"""A fit within an error: fewer pairs, an h near that of all pairs, and an error that is as large as is stated."""

import dataclasses
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import unhub
from tests import oracles
from tests.clouds import some
from tests.runners import Pickled
from tests.vector_files import fixed, write_parquet
from unhub import estimating
from unhub.arrays import Float64, unit
from unhub.compute.workers import elsewhere
from unhub.correction import Bias, Correction
from unhub.data.bank import Bank
from unhub.data.similarity import Dot
from unhub.data.vectors import as_vectors
from unhub.errors import ArgumentError
from unhub.estimating import by_clusters, random_part
from unhub.estimating.checking import Estimate, carriers, spread_of
from unhub.methods import Method
from unhub.methods.inverted_softmax import InvertedSoftmax
from unhub.methods.method import NOTHING_FOUND, Streamed

STREAMED = ["is", "is:tau=0.1", "dis", "nnn:k=64", "csls", "dualis"]
ITEMS, BANK, BANK_ITEMS = 2_000, 6_000, 3_000


def vectors(rows: int, seed: int) -> NDArray[np.float32]:
    return some(rows, seed, dimensions=32).astype(np.float32)


def clustered(rows: int, seed: int) -> NDArray[np.float32]:
    """Return rows around 24 centres, which are the same for every seed."""
    centres = some(24, 5, dimensions=32)
    generator = np.random.default_rng(seed)
    rows_near = centres[generator.integers(24, size=rows)] + 0.3 * some(rows, seed + 100, dimensions=32)
    return rows_near.astype(np.float32)


def fitted(method: str, error: float | None, seed: int = 0) -> Bias:
    bank_items = vectors(BANK_ITEMS, 3) if method == "dualis" else None
    correction = unhub.fit(vectors(ITEMS, 1), vectors(BANK, 2), method, bank_items=bank_items, error=error, seed=seed)
    return cast("Bias", correction)


def true_error(estimated: Bias, exact: Bias) -> float:
    return float((estimated.bias - exact.bias).std())


@pytest.mark.parametrize("method", STREAMED)
def test_the_error_is_as_large_as_is_stated_and_below_what_was_asked_for(method: str) -> None:
    exact, all_pairs = fitted(method, None), ITEMS * (BANK + (BANK_ITEMS if method == "dualis" else 0))
    for seed in range(5):
        estimated = fitted(method, 0.01, seed)
        assert estimated.cost.error is not None and 0 < estimated.cost.error <= 0.01
        assert 1 / 1.5 < true_error(estimated, exact) / estimated.cost.error < 1.5
        assert estimated.cost.pairs is not None and estimated.cost.pairs < all_pairs
        assert "of the bank" in estimated.cost.how


def test_a_smaller_error_takes_more_pairs() -> None:
    costs = [fitted("is", error).cost for error in (0.02, 0.01)]
    pairs = [cost.pairs or 0 for cost in costs]
    assert pairs == sorted(pairs)
    assert pairs[0] < pairs[-1]


def test_one_seed_gives_one_fit() -> None:
    first, again, other = (fitted("nnn:k=64", 0.01, seed) for seed in (3, 3, 4))
    assert np.array_equal(first.bias, again.bias)
    assert not np.array_equal(first.bias, other.bias)


@pytest.mark.parametrize("method", ["dn", "cent", "raw"])
def test_a_method_without_pairs_is_exact(method: str) -> None:
    estimated = fitted(method, 0.01)
    assert np.array_equal(estimated.bias, fitted(method, None).bias)
    assert (estimated.cost.pairs, estimated.cost.error) == (0, 0.0)


def test_an_error_that_only_all_pairs_can_keep_takes_all_pairs() -> None:
    estimated = fitted("is", 1e-9)
    assert true_error(estimated, fitted("is", None)) < 1e-6
    assert estimated.cost.error == 0.0
    assert "all pairs" in estimated.cost.how


def test_few_items_take_all_pairs() -> None:
    items, bank = vectors(100, 1), vectors(500, 2)
    estimated = cast("Bias", unhub.fit(items, bank, "is", error=0.1))
    h = oracles.is_(oracles.cosine(bank.astype(np.float64), items.astype(np.float64)), 0.05)
    np.testing.assert_allclose(estimated.bias + estimated.offset, h, atol=1e-5)


def test_several_methods_share_what_is_computed() -> None:
    items, bank = vectors(ITEMS, 1), vectors(BANK, 2)
    both = unhub.fit(items, bank, method=["is", "nnn:k=64", "dn"], error=0.01)
    assert len({one.cost.pairs for one in both}) == 1
    for one, exact in zip(both, unhub.fit(items, bank, method=["is", "nnn:k=64", "dn"]), strict=True):
        assert true_error(cast("Bias", one), cast("Bias", exact)) < 0.015


def test_the_level_fits_items_that_are_added_later() -> None:
    items, bank, new = vectors(ITEMS, 1), vectors(BANK, 2), vectors(50, 7)
    grown = cast("Bias", unhub.extend(unhub.fit(items, bank, "is", error=0.01), new, bank))
    exact = cast("Bias", unhub.extend(unhub.fit(items, bank, "is"), new, bank))
    assert np.abs((grown.bias - exact.bias)[ITEMS:]).max() < 0.003


def test_the_gate_of_dis_is_that_of_the_part_and_says_so() -> None:
    estimated, exact = fitted("dis", 0.01), fitted("dis", None)
    assert estimated.active is not None and exact.active is not None
    assert not (estimated.active & ~exact.active).any()
    assert any("gate" in note for note in estimated.cost.notes)


def test_items_that_are_added_to_dis_pass_the_gate_of_the_part_only() -> None:
    items, bank, new = vectors(ITEMS, 1), vectors(BANK, 2), vectors(50, 7)
    grown, exact = (
        cast("Bias", unhub.extend(unhub.fit(items, bank, "dis", error=one), new, bank)) for one in (0.01, None)
    )
    assert grown.active is not None and exact.active is not None
    assert not (grown.active & ~exact.active).any()
    assert 0 < exact.active[ITEMS:].sum() < 50


@pytest.mark.parametrize("tau", [0.05, 0.02])
def test_clusters_come_near_all_pairs_with_fewer(tau: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "cluster_outlay", lambda bank: 0.0)  # as if the set were large
    items, bank = clustered(ITEMS, 1), clustered(BANK, 2)
    exact = cast("Bias", unhub.fit(items, bank, f"is:tau={tau}"))
    estimated = cast("Bias", unhub.fit(items, bank, f"is:tau={tau}", error=0.0005))
    assert "clusters" in estimated.cost.how
    assert estimated.cost.error is not None
    assert 1 / 1.5 < true_error(estimated, exact) / estimated.cost.error < 1.5


@pytest.mark.parametrize(("kind", "how"), [("npy", "clusters"), ("parquet", "random")])
def test_clusters_are_only_made_of_rows_at_hand(
    kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimating, "cluster_outlay", lambda bank: 0.0)
    for number, part in enumerate(np.array_split(clustered(BANK, 2), 2)):
        if kind == "npy":
            np.save(tmp_path / f"{number}.npy", part)
        else:
            write_parquet(tmp_path / f"{number}.parquet", embedding=fixed(part))
    estimated = unhub.fit(clustered(ITEMS, 1), unhub.read_vectors(tmp_path), "is", error=0.01)
    assert how in estimated.cost.how


@given(st.floats(0.1, 10), st.integers(2, 50))
@settings(max_examples=20, deadline=None)
def test_carriers_count_equal_errors_and_single_ones(size: float, count: int) -> None:
    single = np.zeros(1000)
    single[0] = size
    assert carriers(single) < 1.01
    assert carriers(size * np.array([1.0, -1.0] * count)) == pytest.approx(2 * count)
    assert spread_of(np.array([1.0, -1.0] * count)) > 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"error": 0}, "error must be a finite number above 0, got 0"),
        ({"error": True}, "error must be a finite number above 0, got True"),
        ({"error": "small"}, "error must be a finite number above 0, got 'small'"),
        ({"error": float("nan")}, "error must be a finite number above 0, got nan"),
        ({"error": 0.1, "mergeable": True}, "error cannot be combined with mergeable"),
        ({"error": 0.1, "method": "gc"}, "error cannot be used with 'gc'.*raw, is, dis, csls, nnn, dualis, dn, cent$"),
        ({"error": 0.1, "method": ["is", "sn"]}, "error cannot be used with 'sn'"),
        ({"error": 0.1, "seed": -1}, "seed must be"),
    ],
)
def test_what_cannot_be_estimated_is_one_clear_line(given: dict[str, object], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        unhub.fit(vectors(20, 1), vectors(30, 2), **given)  # type: ignore[call-overload]


def test_a_given_matrix_has_nothing_to_save() -> None:
    with pytest.raises(ArgumentError, match="error has no use with a matrix"):
        unhub.fit(unhub.Dense(np.eye(4)), error=0.1)


def test_the_cost_is_saved_with_the_correction(tmp_path: Path) -> None:
    estimated = fitted("is", 0.01)
    unhub.save(estimated, tmp_path / "one.unhub")
    assert dataclasses.asdict(unhub.load(tmp_path / "one.unhub").cost) == dataclasses.asdict(estimated.cost)


@pytest.mark.parametrize("method", ["nnn:k=64", "is"])
def test_a_device_estimates_too(method: str) -> None:
    items, bank = vectors(ITEMS, 1), vectors(BANK, 2)
    here = cast("Bias", unhub.fit(items, bank, method, error=0.01))
    there = cast("Bias", unhub.fit(items, bank, method, error=0.01, device="cpu"))
    assert "random" in there.cost.how
    assert there.cost.error is not None and there.cost.error <= 0.01
    if "random" in here.cost.how:
        np.testing.assert_allclose(there.bias, here.bias, atol=1e-5)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("error", [0.01, 0.003])
@pytest.mark.parametrize("method", [*STREAMED, ["nnn:k=64", "is", "dn"]])
def test_a_cluster_takes_the_random_part_of_one_machine(
    method: str | list[str], error: float, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimating, "cluster_outlay", lambda bank: 1.0)  # too much for clusters of the bank
    items, bank = vectors(ITEMS, 1), vectors(BANK, 2)
    bank[:20] = items[:20]
    weights = np.random.default_rng(3).uniform(0.5, 2, BANK) if slots > 1 else None
    methods = [method] if isinstance(method, str) else method

    def fits() -> list[Correction]:
        targets = vectors(BANK_ITEMS, 3)
        return unhub.fit(items, bank, method=methods, bank_items=targets, weights=weights, error=error, seed=5)

    here = fits()
    with elsewhere(Pickled(slots)):
        there = fits()
    for one, other in zip(cast("list[Bias]", here), cast("list[Bias]", there), strict=True):
        assert "clusters" not in one.cost.how
        assert (other.cost.how, other.cost.pairs) == (one.cost.how, one.cost.pairs)
        assert other.cost.error == pytest.approx(one.cost.error, rel=1e-5)
        assert Pickled.note in other.cost.notes
        np.testing.assert_allclose(other.bias, one.bias, rtol=0, atol=1e-6)


def test_a_cluster_makes_no_clusters_of_the_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "cluster_outlay", lambda bank: 0.0)
    items, bank = clustered(ITEMS, 1), clustered(BANK, 2)
    exact, here = (cast("Bias", unhub.fit(items, bank, "is", error=one)) for one in (None, 0.004))
    with elsewhere(Pickled(2)):
        there = cast("Bias", unhub.fit(items, bank, "is", error=0.004))
    assert "clusters" in here.cost.how
    assert "random" in there.cost.how
    assert there.cost.error is not None and there.cost.error <= 0.004
    assert 1 / 1.5 < true_error(there, exact) / there.cost.error < 1.5


def test_how_errors_are_rounded_does_not_change_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(factor: float) -> list[float]:
        found: list[float] = []

        def rows_of(share: float, count: int) -> int:
            found.append(share)
            return real(share, count)

        def rounded(errors: Float64) -> float:
            return spread_of(errors) * factor

        with monkeypatch.context() as patch:
            patch.setattr(random_part, "rows_of", rows_of)
            patch.setattr(random_part, "spread_of", rounded)
            fitted("nnn:k=64", 0.01)
        return found

    real = random_part.rows_of
    assert shares(1.0) == shares(1 + 1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_clusters_state_their_error_whatever_the_seed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "cluster_outlay", lambda bank: 0.0)
    items, bank = clustered(4_000, seed), clustered(BANK, seed + 50)
    exact, estimated = (cast("Bias", unhub.fit(items, bank, "is", error=one, seed=seed)) for one in (None, 0.001))
    assert estimated.cost.error is not None
    assert "clusters" in estimated.cost.how
    assert 1 / 1.5 < true_error(estimated, exact) / estimated.cost.error < 1.5


def test_further_items_are_checked_without_what_hardly_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "cluster_outlay", lambda bank: 0.0)
    monkeypatch.setattr(by_clusters, "RULE_CARRIERS", 100.0)  # more than 512 errors have here
    items, bank = clustered(ITEMS, 1), clustered(BANK, 2)
    exact, estimated = (cast("Bias", unhub.fit(items, bank, "is:tau=0.02", error=one)) for one in (None, 0.001))
    assert "512 of them with the whole bank" in estimated.cost.how
    assert estimated.cost.error is not None and estimated.cost.pairs is not None
    assert estimated.cost.pairs < 0.8 * len(items) * len(bank)
    assert 1 / 1.5 < true_error(estimated, exact) / estimated.cost.error < 1.5


def test_what_is_not_known_of_checked_items_is_part_of_the_error() -> None:
    method, checked = InvertedSoftmax(), np.arange(4)
    found = dataclasses.replace(NOTHING_FOUND, log_sums={1 / method.tau: np.arange(8.0)})
    pairs = Dot(as_vectors(vectors(5, 1), "bank"), as_vectors(vectors(8, 2), "items"))
    true = {cast("Method", method): method.tau * np.array([0.0, 2.0, 1.0, 3.0])}
    off = method.tau * np.std([0, -1, 1, 0], ddof=1) * np.sqrt(0.5)  # half of the items are not checked
    for residual in (0.0, 0.5):
        one = Estimate(Streamed(found, NOTHING_FOUND), checked, true, "", (), residual={method: residual})
        assert one.finish(method, Bank(pairs, None, pairs))[1] == pytest.approx(np.hypot(off, residual))


def test_errors_of_few_items_are_not_trusted() -> None:
    """One item in 500 has a copy among bank queries of another kind; the error that is stated knows of it, or is 0."""
    items, bank = clustered(4_000, 1), clustered(BANK, 2)
    bank[: len(items) // 500] = items[::500]
    exact, estimated = (cast("Bias", unhub.fit(items, bank, "is:tau=0.01", error=one)) for one in (None, 0.002))
    assert estimated.cost.error is not None
    assert true_error(estimated, exact) <= 2 * estimated.cost.error + 1e-5


@pytest.mark.parametrize("seed", [3, 4])
def test_a_few_items_that_are_bank_queries_are_exact(seed: int) -> None:
    generator = np.random.default_rng(0)
    items, bank = (unit(generator.normal(size=(rows, 256)).astype(np.float32)) for rows in (4_000, 8_000))
    bank[:4] = items[:4]
    exact, estimated = (
        cast("Bias", unhub.fit(items, bank, "is:tau=0.05", error=one, seed=seed)) for one in (None, 0.003)
    )
    assert estimated.cost.error is not None and estimated.cost.pairs is not None
    assert estimated.cost.pairs < len(items) * len(bank)
    assert true_error(estimated, exact) < 1.5 * estimated.cost.error
    others = (exact.bias + exact.offset)[:4] - (estimated.bias + estimated.offset)[:4]
    np.testing.assert_allclose(others, 0, atol=1e-5)


@given(st.integers(1, 40), st.integers(1, 30), st.sampled_from(["is", "dis", "nnn:k=1", "csls:k=1", "dn"]))
@settings(max_examples=15, deadline=None)
def test_tiny_sets_are_fitted_exactly(items: int, bank: int, method: str) -> None:
    gallery, past = vectors(items, 1), vectors(bank, 2)
    estimated, exact = (cast("Bias", unhub.fit(gallery, past, method, error=one)) for one in (0.1, None))
    np.testing.assert_allclose(estimated.bias, exact.bias, atol=1e-6)
    assert estimated.cost.error == 0


def test_copies_of_one_query_and_one_item_have_nothing_to_estimate() -> None:
    items, bank = np.repeat(vectors(1, 1), 800, axis=0), np.repeat(vectors(1, 2), 3_000, axis=0)
    estimated = cast("Bias", unhub.fit(items, bank, "is", error=0.001))
    np.testing.assert_allclose(estimated.bias, 0, atol=1e-5)


def test_rows_mapped_from_disk_and_in_half_precision_give_the_same_fit(tmp_path: Path) -> None:
    items, bank = vectors(ITEMS, 1).astype(np.float16), vectors(BANK, 2).astype(np.float16)
    np.save(tmp_path / "bank.npy", bank)
    mapped = np.load(tmp_path / "bank.npy", mmap_mode="r")
    first, second = (cast("Bias", unhub.fit(items, one, "is", error=0.01)) for one in (bank, mapped))
    np.testing.assert_array_equal(first.bias, second.bias)
