"""What a fit will take is what it then takes."""

import json
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.clouds import some
from tests.command import FIT, fail, succeed, write_inputs
from unhub.compute.passes import TILE_ENTRIES
from unhub.compute.sinkhorn import rows_per_tile
from unhub.compute.workers import Resources, byte_count
from unhub.data.bank import vector_bank
from unhub.data.vectors import Vectors, as_vectors
from unhub.errors import ArgumentError
from unhub.foreseeing import Terms, foresee
from unhub.kernels import choose
from unhub.methods import parse

ITEMS, BANK, BANK_ITEMS = some(300, 1), some(500, 2), some(100, 3)


@pytest.mark.parametrize("method", ["raw", "is", "nnn:k=8", "dis", "dn", "dualis", "sn", "sn:tau=0.05", "dbsn"])
@pytest.mark.parametrize("memory", [None, "100kB"])
def test_passes_and_what_is_kept_are_those_of_the_fit(method: str, memory: str | None) -> None:
    forecast = foresee(ITEMS, BANK, method, bank_items=BANK_ITEMS, resources=Resources(memory=memory))
    cost = unhub.fit(ITEMS, BANK, method, bank_items=BANK_ITEMS, memory=memory).cost
    if method.startswith(("sn", "dbsn")):
        assert (forecast.kept, forecast.kept == "recomputed") == (cost.kept, memory is not None)
    columns = 400 / 300 if method == "dbsn" else 1.0  # a fit counts passes over its own matrix
    assert forecast.passes == pytest.approx(cost.passes * columns if method != "dualis" else 1.2)


def test_a_matrix_that_does_not_fit_says_what_would() -> None:
    forecast = foresee(ITEMS, BANK, "sn", resources=Resources(memory="100kB"))
    assert forecast.passes == 11
    assert "--memory 300kB for K: 1 multiply instead of 11" in forecast.cheaper
    assert any("a bank of at most 166 queries" in one for one in forecast.cheaper)
    smaller = foresee(ITEMS, BANK[:83], "sn:tau=0.01", resources=Resources(memory="100kB"))
    assert smaller.kept != "recomputed"


@pytest.mark.parametrize("method", ["sn", "sn:tau=0.05", "sn:tau=0.05,iterations=3", "dbsn", "dbsn:tau=0.05"])
@pytest.mark.parametrize("memory", ["2MB", "16MB", "31MB"])
def test_memory_that_is_proposed_is_enough_and_not_much_less_is(method: str, memory: str) -> None:
    items, bank, bank_items = some(3_000, 1), some(5_000, 2), some(1_000, 3)

    def passes(given: str | int) -> float:
        return foresee(items, bank, method, bank_items=bank_items, resources=Resources(memory=given)).passes

    now = foresee(items, bank, method, bank_items=bank_items, resources=Resources(memory=memory))
    proposed = [one for one in now.cheaper if one.startswith("--memory ")]
    assert bool(proposed) == (now.kept in ("sparse", "recomputed"))
    for one in proposed:
        given = one.split()[1]
        assert f"{passes(given):.3g} mult" in one and passes(given) < now.passes
        assert passes(int(0.95 * byte_count(given))) > passes(given)


def test_a_bank_that_is_proposed_fits() -> None:
    items, bank = some(3_000, 1), some(5_000, 2)
    given = Resources(memory="31MB")
    (proposed,) = (one for one in foresee(items, bank, "sn:tau=0.05", resources=given).cheaper if "at most" in one)
    count = int(proposed.split("at most ")[1].split()[0].replace(",", ""))
    assert foresee(items, bank[:count], "sn:tau=0.05", resources=given).passes == 1
    assert foresee(items, bank[: count + 1], "sn:tau=0.05", resources=given).passes > 1


def test_a_bank_with_bad_numbers_is_no_forecast() -> None:
    bad = np.array(BANK)
    bad[7, 0] = np.nan
    with pytest.raises(ArgumentError, match=r"^bank .* row 7"):
        foresee(ITEMS, bad, "is")


def test_an_error_is_proposed_where_it_can_be_used_and_then_bounds_the_cost() -> None:
    assert any("--error 0.002" in one for one in foresee(ITEMS, BANK, "is").cheaper)
    within = foresee(ITEMS, BANK, "is", terms=Terms(error=0.01))
    assert within.most
    assert not any("--error 0.002" in one for one in within.cheaper)
    assert not foresee(ITEMS, BANK, "dn", terms=Terms(error=0.01)).most


@pytest.mark.parametrize(("items", "error"), [(500, 1e-9), (500, 0.05), (1_000, 0.02), (3_000, 1e-9), (3_000, 0.01)])
def test_a_fit_within_an_error_takes_no_more_than_is_foreseen(items: int, error: float) -> None:
    gallery, bank = some(items, 1), some(2_000, 2)
    forecast = foresee(gallery, bank, "is", terms=Terms(error=error))
    cost = unhub.fit(gallery, bank, "is", error=error).cost
    assert cost.pairs is not None and cost.pairs <= forecast.pairs
    assert cost.passes <= forecast.passes


def test_what_is_tried_before_all_pairs_are_used_is_foreseen_too() -> None:
    draw = np.random.default_rng(0)
    items, bank = (draw.standard_normal((rows, 32)).astype(np.float32) for rows in (520, 6_000))
    passes = unhub.fit(items, bank, "is", error=0.01).cost.passes
    assert 1.75 < passes <= foresee(items, bank, "is", terms=Terms(error=0.01)).passes


@pytest.mark.parametrize("method", ["sn", "sn:tau=0.05"])
def test_memory_for_a_matrix_that_is_kept_is_foreseen_within_a_factor_of_two(method: str) -> None:
    gallery, bank = some(6_000, 1, dimensions=64).astype(np.float32), some(9_000, 2, dimensions=64).astype(np.float32)
    unhub.fit(gallery[:500], bank[:500], method)  # the first fit loads and compiles
    taken = unhub.fit(gallery, bank, method).cost.peak_memory
    assert 0.5 < foresee(gallery, bank, method).memory / max(taken, 1) < 2


def test_memory_counts_all_items_that_sinkhorn_prepares() -> None:
    narrow, wide = (foresee(some(5_000, 1, dimensions=d), some(50, 2, dimensions=d), "sn").memory for d in (8, 264))
    assert wide - narrow == 4 * 5_000 * 256


def test_memory_counts_a_tile_of_whole_rows_for_each_thread() -> None:
    one, two = (
        foresee(some(3_000, 1), some(4_000, 2), "sn", resources=Resources(threads, "1MB")).memory for threads in (1, 2)
    )
    assert two - one == 4 * 3_000 * rows_per_tile(3_000)


def test_a_wrong_error_is_refused_as_in_a_fit() -> None:
    with pytest.raises(ArgumentError, match="error must be a finite number above 0"):
        foresee(ITEMS, BANK, "is", terms=Terms(error=-1))
    with pytest.raises(ArgumentError, match=r"'sn', which needs every pair.*is, dis, csls, nnn, dualis, dn, cent"):
        foresee(ITEMS, BANK, "sn", terms=Terms(error=0.1))


def test_memory_for_largest_scores_grows_with_k() -> None:
    few, many = (foresee(ITEMS, BANK, f"nnn:k={k}").memory for k in (1, 400))
    assert many - few > 8 * 200 * len(ITEMS)


@pytest.mark.parametrize(
    ("method", "size"),
    [("nnn:k=5000", 6_000), ("csls:k=3000", 6_000), ("dis:k=2800", 300), ("gc:quantiles=50", 6_000), ("gc", 6_000)],
)
def test_what_a_few_rows_do_not_have_is_foreseen_all_the_same(method: str, size: int) -> None:
    items, bank = some(3_000, 1), some(size, 2)
    forecast = foresee(items, bank, method)
    assert forecast.passes == unhub.fit(items, bank, method).cost.passes
    assert forecast.pairs == forecast.passes * 3_000 * size


def test_the_tables_of_gc_are_timed() -> None:
    pairs, method = vector_bank(as_vectors(ITEMS, "items"), as_vectors(BANK, "bank"), None, "cosine"), "gc:quantiles=9"
    will = parse(method).foresee(pairs, 0)
    assert [one.spec for one, _ in will.trials] == [method] and will.kept_bytes == 4 * 9 * len(ITEMS)


def test_light_weights_are_foreseen_where_a_few_of_them_weigh_less_than_k() -> None:
    items, bank = some(300, 1), Vectors(np.arange(6_000), some(6_000, 2), np.full(6_000, 0.03))
    assert foresee(items, bank, "nnn").passes == unhub.fit(items, bank, "nnn").cost.passes


def test_memory_counts_how_many_light_queries_it_takes_to_weigh_k() -> None:
    items, rows, weights = some(3_000, 1), some(6_000, 2), np.random.default_rng(3).uniform(0.01, 1, 6_000)
    plain, light = (foresee(items, Vectors(np.arange(6_000), rows, one), "nnn").memory for one in (None, weights))
    assert light > 3 * plain
    taken = unhub.fit(items, rows, "nnn", weights=weights, threads=1).cost.peak_memory
    assert (
        0.4 < foresee(items, Vectors(np.arange(6_000), rows, weights), "nnn", resources=Resources(1)).memory / taken < 3
    )


def test_memory_counts_the_best_items_of_all_queries() -> None:
    one, many = (foresee(ITEMS, BANK, f"dis:k={k}").memory for k in (1, 101))
    assert many - one >= 8 * 100 * len(BANK)


@pytest.mark.parametrize("method", ["nnn:k=100", "csls:k=100"])
def test_what_is_kept_for_merging_is_foreseen_and_no_error_is_proposed(method: str) -> None:
    plain, mergeable = (foresee(ITEMS, BANK, method, terms=Terms(mergeable=one)) for one in (False, True))
    assert mergeable.memory - plain.memory == 4 * 100 * len(ITEMS)
    assert any("--error 0.002" in one for one in plain.cheaper)
    assert not any("--error 0.002" in one for one in mergeable.cheaper)


def test_a_mergeable_fit_on_repeated_queries_is_foreseen() -> None:
    weights = np.r_[np.ones(3_000), np.full(3_000, 50.0)]
    bank = Vectors(np.arange(6_000), some(6_000, 2), weights)
    assert foresee(ITEMS, bank, "nnn:k=20000", terms=Terms(mergeable=True)).passes == 1


def test_a_weight_that_is_not_whole_is_refused_as_in_a_mergeable_fit() -> None:
    bank = Vectors(np.arange(6_000), some(6_000, 2), np.r_[np.ones(5_999), 0.5])
    with pytest.raises(ArgumentError, match=r"whole numbers with mergeable .* got 0\.5 for bank query 5999"):
        foresee(ITEMS, bank, "nnn", terms=Terms(mergeable=True))
    assert foresee(ITEMS, bank, "is", terms=Terms(mergeable=True)).passes == 1


def test_time_grows_with_the_pairs() -> None:
    few, many = (foresee(some(rows, 1), some(4_000, 2), "is").seconds for rows in (3_000, 60_000))
    assert 2 < many / few < 200


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ArgumentError, match="bank must be given for 'is'"):
        foresee(ITEMS, None, "is")
    with pytest.raises(ArgumentError, match="bank_items must be given for 'dualis'"):
        foresee(ITEMS, BANK, "dualis")
    with pytest.raises(ArgumentError, match="dimensions"):
        foresee(ITEMS, np.ones((3, 5)), "is")


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    before = sorted(tmp_path.iterdir())
    printed = succeed(tmp_path, *FIT, "--dry-run")
    assert "cheaper" in printed and "passes" in printed
    assert json.loads(succeed(tmp_path, *FIT, "--dry-run", "--json"))["passes"] == 1
    assert sorted(tmp_path.iterdir()) == before


def test_only_a_dry_run_needs_no_output(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    without = FIT[: FIT.index("-o")]  # the last option
    assert "passes" in succeed(tmp_path, *without, "--dry-run")
    assert fail(tmp_path, *without).startswith("--output is missing; name the file to write")


def test_a_dry_run_refuses_what_it_cannot_say(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    assert "--on cannot be combined with --dry-run" in fail(tmp_path, *FIT, "--dry-run", "--on", "ray")
    assert "mergeable" in fail(tmp_path, *FIT, "--dry-run", "--error", "0.01", "--mergeable")


def test_a_dry_run_of_a_mergeable_fit_proposes_no_error(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    assert "--error 0.002" in succeed(tmp_path, *FIT, "--dry-run")
    assert "--error" not in succeed(tmp_path, *FIT, "--dry-run", "--mergeable")


def test_an_error_on_the_command_line_is_that_of_the_library(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    told = json.loads(succeed(tmp_path, *FIT, "--error", "0.01", "--seed", "3", "--json"))
    assert told["cost"]["error"] is not None
    assert told["cost"]["how"]


@pytest.mark.parametrize("memory", [None, "100kB"])
def test_a_tolerance_may_need_fewer_iterations_and_the_forecast_says_so(memory: str | None) -> None:
    given = Resources(memory=memory)
    forecast = foresee(ITEMS, BANK, "sn:tolerance=0.01", resources=given)
    assert forecast.most and not foresee(ITEMS, BANK, "sn", resources=given).most
    assert unhub.fit(ITEMS, BANK, "sn:tolerance=0.01", memory=memory).cost.passes <= forecast.passes


@pytest.mark.parametrize("iterations", [1, 5, 10, 200])
@pytest.mark.parametrize("memory", [None, "100kB"])
def test_the_iterations_that_are_timed_count_as_those_of_the_fit(iterations: int, memory: str | None) -> None:
    pairs = vector_bank(as_vectors(ITEMS, "items"), as_vectors(BANK, "bank"), None, "cosine")
    trials = parse(f"sn:iterations={iterations}").foresee(pairs, Resources(memory=memory).workers().memory).trials
    assert sum(count for _, count in trials) == pytest.approx(1)
    counted = sum(count * int(str(trial.values["iterations"])) for trial, count in trials)
    assert counted == pytest.approx(iterations)
    assert max(int(str(trial.values["iterations"])) for trial, _ in trials) <= 6


def test_memory_on_a_device_is_that_of_its_tiles() -> None:
    items, bank = some(4_000, 1), some(4_000, 2)
    here, there = (foresee(items, bank, "is", resources=Resources(1, device=device)).memory for device in (None, "cpu"))
    limits = choose("torch:cpu").LIMITS
    assert limits is not None and there - here == 4 * (min(limits.tile_entries, 16_000_000) - TILE_ENTRIES)
